"""What to do about a message of the compiler: a table from its words to a sentence with the remedy.

A sentence names what the file itself declares: whether a name is a parameter, an array or a constant decides what a
message means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..cuda.pieces import Variable
from ..cuda.text import CudaText, read
from ..errors import Diagnostic
from ..once import once
from .compile_braces import braces_left_open, too_many_closed, unclosed_brace, wrong_line
from .compile_names import PYTHON, nearest, similar

_MERGE = re.compile(r"(<{7}|={7}|>{7}|\|{7})( .*)?")
_SYNTAX = re.compile(
    r"expected (a|an|either)\b|unrecognized token|not expected here|explicit type is missing|structured binding"
    r'|unclosed|closing quote|type name is not allowed|"elif"'
)


@dataclass(frozen=True)
class Seen:
    """A message, the file that it is about, and the text of the puzzle's stub, "" if there is none."""

    d: Diagnostic
    source: str
    stub: str = ""

    @property
    def file(self) -> CudaText:
        return read(self.source)

    @once
    def name(self) -> str:
        """The word at the message's column."""
        return re.match(r"\w*", self.d.source[max(self.d.column - 1, 0) :])[0]

    @once
    def place(self) -> int:
        return self.file.line_start(self.d.line) if 0 < self.d.line <= len(self.file.lines) else 0

    @property
    def is_in_a_kernel(self) -> bool:
        found = self.file.function_at(self.d.line)
        return bool(found) and found.is_kernel

    @property
    def rest(self) -> str:
        """The line from the message's column on."""
        return self.d.source[max(self.d.column - 1, 0) :]

    def variable(self, name: str = "") -> Variable | None:
        """The variable of this name (default: the one at the column) that the line sees."""
        end = self.place + len(self.d.source.strip())
        return self.file.variable_at(name or self.name, end)

    def is_address(self, name: str = "") -> bool:
        found = self.variable(name)
        return bool(found) and (found.pointer or bool(found.extents))

    def holds_an_address(self, variable: Variable) -> bool:
        """Whether a variable is given an array's address: `const float x = a + 1;`."""
        first = re.match(r"(\w+)\s*(?![\w\[(.\s])", variable.value.code) if variable.value else None
        return bool(first) and self.is_address(first[1])


def is_syntax(d: Diagnostic) -> bool:
    """Whether the messages after this one are likely its consequences."""
    as_type = "is undefined" in d.message and re.match(r"\w+\s+\w", d.source[max(d.column - 1, 0) :])
    return bool(_SYNTAX.search(d.message) or as_type)


def remedy(d: Diagnostic, source: str = "", stub: str = "", folders: Sequence[Path] = ()) -> str:
    """What to do about a compiler message; "" if that is not obvious. folders: those of the course's headers."""
    seen = Seen(d, source, stub)
    if _MERGE.fullmatch(d.source.rstrip()):
        return "A merge left both versions in the file: keep one, and delete the lines with <<<<<<<, ======= and >>>>>>>."
    odd = next((c for c in d.source if ord(c) > 127), "")
    if odd and re.search(r"unrecognized token|invalid|identifier|expected", d.message):
        what = "a no-break space" if odd == "\xa0" else f"the character {odd}"
        quotes = "; write plain quotes" if odd in "\u201c\u201d\u2018\u2019" else ""
        return f"The line has U+{ord(odd):04X}, {what}, as copied from a web page: retype it{quotes}."
    line = wrong_line(d, source)
    if line and line != d.line:
        return f"The ; is missing at the end of line {line}."
    if braces_left_open(source) < 0:
        return too_many_closed(source)
    if undefined := re.search(r'identifier "(\w+)" is undefined', d.message):
        if near := similar(undefined[1], d.line, source, stub, folders):
            return near
    for pattern, says in REMEDIES:
        if re.search(pattern, d.message):
            if text := says(seen) if callable(says) else says:
                return text.replace("{name}", seen.name or "it")
    return ""


# -- rows of the table -------------------------------------------------------------------------------------


def not_to_be_written(seen: Seen) -> str:
    found = seen.variable()
    if seen.name in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
        return "{name} is given: a kernel can only read it."
    if found and found.extents:
        return "{name} is an array: its elements are set, {name}[...] = ..., one by one."
    if re.search(r"\b(if|while)\b.*[^=!<>]=[^=].*(&&|\|\|)|(&&|\|\|).*[^=!<>]=[^=]", seen.d.source):
        return "= stores, and == compares."
    if re.match(r"[\w.]+\s*[-+*/%]\s*[\w.(]", seen.rest):
        return "Left of = stands one variable or one element of an array."
    if not found or not re.match(r"\w+\s*(\[|[-+*/%&|^]?=[^=]|\+\+|--|<<=|>>=)", seen.rest):
        return ""
    if found.pointer and seen.rest[len(seen.name) :].lstrip().startswith("["):
        return "{name} is const, so it can only be read: write to the output instead."
    if seen.holds_an_address(found):
        return as_pointer(found)
    return f"Line {found.line} declares {{name}} const: leave out const if it is to change."


def as_pointer(found: Variable) -> str:
    """For a variable that is used as an array, and lacks a *."""
    declared = f"{' '.join((*found.words, found.type))}* {found.name}"
    return f"Line {found.line} declares {found.name} as one number; an array is declared with *: {declared}."


def not_indexed(seen: Seen) -> str:
    """Brackets behind what is no array; of two numbers, a[b], the compiler names the second."""
    first = re.search(r"(\w+)\s*\[\s*$", seen.d.source[: seen.d.column - 1])
    name = first[1] if first else seen.name
    found = seen.variable(name)
    if not found or found.pointer or found.extents:
        return f"Arrays are flat here: compute the element's position and write {name}[position]."
    if found.outer.kind == "parameter_declaration" or seen.holds_an_address(found):
        return as_pointer(found)
    return f"Line {found.line} declares {name} as one number; an array has its length there: {found.type} {name}[...]."


def takes_an_address(seen: Seen) -> str:
    """`float x = a + 1;`, `x = a;`"""
    target = re.search(r"(\w+)\s*[-+]?=?\s*$", seen.d.source[: max(seen.d.column - 1, 0)])
    found = seen.variable(target[1]) if target else None
    if found and re.search(rf"\b{found.name}\s*\[", seen.source[found.end :]):
        return as_pointer(found)
    value = re.match(r"[-+=\s]*(\w*)", seen.rest)[1]
    array = value if seen.is_address(value) else "array"
    return f"The right side is an address, the left one number: an element is written {array}[...]."


def gives_up_const(seen: Seen) -> str:
    types = re.search(r'of type "(const .*?)"', seen.d.message)
    return f"What is const stays const: the other side must be {types[1].replace(' *', '*')} too."


def needs_an_address(seen: Seen) -> str:
    """`a = x;`"""
    target = re.search(r"(\w+)\s*$", seen.d.source[: max(seen.d.column - 1, 0)])
    if not target or not seen.is_address(target[1]):
        return ""
    return f"{target[1]} is an array: one element of it is set, {target[1]}[position] = ..."


def not_constant(seen: Seen) -> str:
    """The first name in a length, from the column on, whose value the compiler cannot know."""
    for word in re.findall(r"[A-Za-z_]\w*", re.split(r"[\],;]", seen.rest)[0]):
        found = seen.variable(word)
        if not found or "constexpr" in found.words:
            continue
        if found.value and re.fullmatch(r"\d+", found.value.code):
            return f"Line {found.line} declares {word} as a variable: write constexpr int {word} = {found.value.code}."
        launch = seen.is_in_a_kernel and found.outer.kind == "parameter_declaration"
        known = "only at the launch" if launch else "only when the kernel runs"
        if re.match(r"\s*(static )?constexpr\b", seen.d.source):
            return f"{word} is known {known}, so this is no constexpr: write const."
        says = f"{word} is known {known}"
        if seen.d.source[: seen.d.column - 1].rstrip().endswith("["):
            says += "; the length of an array must be known to the compiler"
            return f"{says}: write a number or a constexpr that is large enough."
        return f"{says}, and here the compiler must know it: write a number or a constexpr."
    return ""


def not_whole(seen: Seen) -> str:
    if seen.is_address() and not re.match(r"\w+\s*\[", seen.rest):
        return not_a_number(seen)
    if "%" in seen.d.source[: seen.d.column - 1].rstrip()[-1:] or re.match(r"[\w.()]+\s*%", seen.rest):
        return "% is for whole numbers, and this is a float: leave out the cast or the decimal point; floats have fmodf(x, y)."
    return "Positions, % and shifts take whole numbers, and this is a float: compute it from ints."


def not_a_function(seen: Seen) -> str:
    if seen.is_address():
        return "{name} is an array: its elements are written with brackets, {name}[...]."
    return "A product needs its *: a * (b + c)."


def no_members(seen: Seen) -> str:
    says = "{name} is an array, which knows neither length nor shape: the kernel has its sizes as parameters."
    return says if seen.is_address() else ""


def not_a_number(seen: Seen) -> str:
    return "{name} is an array: a number of it is written {name}[position]." if seen.is_address() else ""


def declared_twice(seen: Seen) -> str:
    known = [v for v in seen.file.variables if v.name == seen.name and v.line < seen.d.line]
    where = f" in line {known[-1].line}" if known else ""
    return f"{{name}} has its type already{where}: to give it a new value, leave out the type here; else take another name."


def misspelt_type(seen: Seen) -> str:
    if "__global__" in seen.d.source:
        return NO_RESULT
    if re.match(r"\s*(const\s+)?(int|float|unsigned|double)\s+\w+\s*=", seen.d.source):
        return f"Outside of the kernel it is a constant: constexpr {seen.d.source.partition('//')[0].strip()}"
    if not seen.name:
        return ""
    return nearest(seen.name, [], seen.rest) or "A variable is declared with its type, as in int {name} = ..."


def unclosed(seen: Seen) -> str:
    """How many ( and ) the line has, or [ and ]."""
    opening, closing = ("(", ")") if ")" in seen.d.message else ("[", "]")
    tokens = [t.code for t in seen.file.tokens if t.line == seen.d.line]
    counts = tokens.count(opening), tokens.count(closing)
    if counts[0] > counts[1]:
        return f"Line {seen.d.line} has {counts[0]} {opening} and {counts[1]} {closing}."
    return between(seen)


def between(seen: Seen) -> str:
    """Two words with nothing between them."""
    before = seen.d.source[: max(seen.d.column - 1, 0)].rstrip()
    if seen.rest[:1] in (")", "]"):
        return f"Line {seen.d.line} has a {seen.rest[0]} too many, or what it closes is missing."
    if re.search(r"[\w)\]]$", before) and re.match(r"\w", seen.rest):
        return "A comma or an operator is missing before {name}, or a ;."
    return ""


def no_name(seen: Seen) -> str:
    """`int a = 1, int b = 2`, `1,5`"""
    if re.search(r"\d,$", seen.d.source[: seen.d.column - 1]) and seen.name.isdecimal():
        return "A number has a point, not a comma: 1.5f."
    if seen.name in ("int", "float", "bool", "unsigned", "const") and "," in seen.d.source[: seen.d.column]:
        return "After the comma the type is not repeated: int a = 1, b = 2;"
    return ""


def without_space(seen: Seen) -> str:
    """A function that is neither __global__ nor __device__."""
    name = (re.search(r"(\w+)\s*\(", seen.d.source) or [""] * 2)[1]
    if name in [k.name for k in read(seen.stub).kernels]:
        return f"{name} is the kernel, so __global__ stands before it: __global__ void {name}(...)."
    return "Mark a helper that the kernel calls as __device__; main and other host code do not belong here."


def twice(seen: Seen) -> str:
    name = (re.search(r'"(\w+)', seen.d.message) or [""] * 2)[1]
    lines = [f.name_line for f in seen.file.functions if f.name == name]
    if len(lines) < 2:
        return ""
    return f"{name} stands twice in this file, in lines {lines[0]} and {lines[1]}: delete one."


def wrong_count(seen: Seen) -> str:
    """Too few or too many arguments: what a function of the file takes."""
    called = re.findall(r"(\w+)\s*\(", seen.d.source[: seen.d.column])
    found = seen.file.function(called[-1]) if called else None
    if not found:
        return ""
    taken = ", ".join(f"{' '.join((*p.words, p.type))}{'*' * p.pointer} {p.name}" for p in found.parameters)
    return f"{found.name}, in line {found.name_line}, takes ({taken})."


def not_cpp(seen: Seen) -> str:
    """A statement as Python writes it."""
    line = seen.d.source.strip()
    if re.match(r"for\s+\w+\s+in\b", line):
        return PYTHON["range"]
    if re.match(r"def\s", line):
        return "A function is written with the type of its result: __device__ float name(float x) { ... }."
    if found := re.match(r"(?:\}?\s*else\s+)?(if|while)\b(?!\s*\()", line):
        return f"A condition stands in parentheses, and braces take the place of a colon: {found[1]} (i < n) {{ ... }}."
    if found := re.search(r"=<|=>", line):
        return f"It is written {found[0][::-1]}, not {found[0]}."
    if found := re.match(r"(\w+)\s*(\[[^]]*\])\s*(\w+)\s*[;=]", line):
        return f"The brackets follow the name: {found[1]} {found[3]}{found[2]}."
    if re.match(r"__device__.*\(.*\)\s*\{", line) and seen.file.around(seen.place, "compound_statement"):
        return "A function stands outside of the kernel, before it."
    if re.match(r"for\s*\(.*,.*\)", line) and line.count(";") < 2:
        return "The three parts of a loop are separated by semicolons: for (int i = 0; i < n; i++)."
    if line.endswith(":") and re.match(r"(if|else|while|for)\b", line):
        return "In C++ { and } stand around statements that belong together, not a colon before them."
    return ""


NO_IF = "This else has no if: several statements between them need { }, and no ; stands after if (...)."
QUOTES = "A text stands in double quotes, and only a single character in single ones."
NO_VALUE = "A kernel returns nothing: write return; and store results in the output."
NO_RESULT = "A kernel returns nothing, so void stands before its name; its results go into an array."
REMEDIES: tuple[tuple[str, str | Callable[[Seen], str]], ...] = (
    (r"expected|unrecognized|is undefined|explicit type|already been declared|structured binding", not_cpp),
    (r"without execution space", without_space),
    (r"without memory space|explicit type is missing", misspelt_type),
    (r"modifiable lvalue", not_to_be_written),
    (r'"uint3" has no member', "Their members are x, y and z: threadIdx.x."),
    (r"\buint3\b|\bdim3\b", "Write the axis too: blockIdx.x, threadIdx.x, blockDim.x or gridDim.x."),
    (r"pointer-to-object type", not_indexed),
    (r'of type "const .*\*" (cannot|is incomp).* of type "(?!const).*\*"', gives_up_const),
    (r'value of type ".*\*" cannot .* of type "[^*]*"', takes_an_address),
    (r'value of type "[^*]*" cannot .* of type ".*\*"', needs_an_address),
    (r"must have a constant value", not_constant),
    (r"already been defined", twice),
    (r"too (few|many) arguments", wrong_count),
    (r"comment unclosed", "This comment has no end: write */ after it, or begin its line with //."),
    (r"must have integral", not_whole),
    (r'operand of "\*" must be a pointer', "C++ has no ** for powers: write x * x, or powf(x, y)."),
    (r"must have arithmetic", not_a_number),
    (r"apparent call", not_a_function),
    (r"must have class type", no_members),
    (r"already been declared", declared_twice),
    (r"return value type does not match", lambda seen: NO_VALUE * seen.is_in_a_kernel),
    (r"must have a void return type", NO_RESULT),
    (
        r"initializer not allowed for __shared__",
        "Shared memory has no values at first: its threads store them, then __syncthreads().",
    ),
    (r'incomplete type ".*\[\]"', "Write the array's length; or extern __shared__, if the launch gives it."),
    (r"#.*not expected", "A comment begins with //."),
    (
        r'character constant|"int" is incompatible with parameter of type "const char',
        lambda seen: QUOTES * ("'" in seen.d.source),
    ),
    (
        r"device-side kernel launch",
        "A kernel that launches another is dynamic parallelism, which is not supported here: delete the call with <<< >>>;"
        " kernels are launched by the host.",
    ),
    (
        r'namespace "std" has no member "(cout|endl|cerr)"|"(cout|endl)" is undefined',
        "There is no std in a kernel; print with printf.",
    ),
    (
        r'namespace "std"|followed by "::"|"std" is undefined',
        "There is no std in a kernel: functions stand without it, as in fmaxf, sqrtf, min; print with printf.",
    ),
    (r'expected a "}"', lambda seen: unclosed_brace(seen.source)),
    (r'expected a "[])]"', unclosed),
    (r'expected a ";"', between),
    (r"expected an identifier", no_name),
    (r"expected a statement", lambda seen: NO_IF * seen.rest.startswith("else")),
    (r"size of an array must be greater", "What stands in brackets is 0 or less: see where {name} is set."),
    (
        r'"(max|min)" matches[^:]*:[^:]*: \(.*(float|double)',
        "Both arguments of {name} must have one type: write f{name}f, or {name}(a, 0.0f) with 0.0f for 0.",
    ),
    (
        r"more than one instance of overloaded",
        "Give the arguments of {name} types that fit only one of these functions, as in (float)x or 2.0f.",
    ),
    (
        r"no instance of overloaded",
        "No function {name} takes these arguments: compare their number and their types with what it takes.",
    ),
)
