"""Evaluates integer expressions and types of a CUDA file as a compiler would: constants, extents, tunables.

The result is None, or 0 bytes, for anything unclear: a name with two definitions, a value known only at run
time.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache

from ..errors import CourseError
from .pieces import Macro, Piece, Variable
from .text import CudaText, read

_TYPES_OF_SIZE = {
    1: "char int8_t uint8_t bool byte",
    2: "short half __half __nv_bfloat16 int16_t uint16_t",
    4: "int unsigned signed float int32_t uint32_t half2 __half2 __nv_bfloat162 char4 uchar4 short2 ushort2",
    8: "double long int64_t uint64_t size_t float2 int2 uint2 short4",
    16: "float4 int4 uint4 double2",
}
SIZES = {name: size for size, names in _TYPES_OF_SIZE.items() for name in names.split()}
_INTEGERS = {name for name in SIZES if "int" in name} - {"int2", "uint2", "int4", "uint4"}
_INTEGERS |= {"unsigned", "signed", "char", "short", "long", "bool", "size_t", "auto"}


def quotient(a: int, b: int) -> int:
    """As in C, towards 0."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    """With the sign of what is divided."""
    return a - b * quotient(a, b)


#: of integers; a division by 0 is Python's error
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": quotient,
    "%": remainder,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&&": lambda a, b: bool(a and b),
    "||": lambda a, b: bool(a or b),
}
_UNARY = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "!": operator.not_}
_LARGEST = 1 << 63
_LONGEST = 400  # characters of an expression
_MOST_STEPS = 2000  # for one value


class Values:
    """Integers and types in one file. given: template arguments, as text."""

    def __init__(self, file: CudaText, given: Mapping[str, str] | None = None):
        self.file, self.templates = file, dict(given or {})
        self.names = self.templates  # and, inside a constexpr function, its parameters
        self.steps, self._known = 0, {}

    def integer(self, expression: Piece | None) -> int | None:
        """The value of an integer expression, with division and remainder as in C."""
        self.steps = 0
        try:
            return self._integer(expression, expression.start) if expression else None
        except (ValueError, ArithmeticError, RecursionError):
            return None

    def named(self, name: str) -> int | None:
        """The value of a name declared outside functions."""
        self.steps = 0
        try:
            return self._integer(_expression(name), len(self.file.text))
        except (ValueError, ArithmeticError, RecursionError):
            return None

    def extents(self, variable: Variable) -> tuple[int, ...]:
        """`tile[SIZE][SIZE + 1]` -> (16, 17); () if an extent is unknown or it is not an array."""
        found = tuple(self.integer(extent) for extent in variable.extents)
        return () if any(extent is None or extent < 1 for extent in found) else found

    def size_of(self, type_: str, depth: int = 0) -> int:
        """Bytes of a type, including vector types and typedefs; 0 for others."""
        word = type_.split()[-1].split("::")[-1] if type_.split() else ""
        if word in self.templates:
            return self.size_of(self.templates[word], depth + 1) if depth < 9 else 0
        if word in SIZES:
            return SIZES[word]
        texts = {*self._aliases.get(word, ()), *(m.value for m in self._macros.get(word, ()))}
        sizes = {self.size_of(text, depth + 1) for text in texts} if depth < 9 else set()
        return sizes.pop() if len(sizes) == 1 else 0

    @cached_property
    def _aliases(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for alias in self.file.whole.all("type_definition", "alias_declaration"):
            type_, name = alias.part("type"), alias.part("declarator") or alias.part("name")
            if type_ and name:
                found.setdefault(name.code, set()).add(type_.code)
        return found

    @cached_property
    def _macros(self) -> dict[str, set[Macro]]:
        found: dict[str, set[Macro]] = {}
        for macro in self.file.macros:
            found.setdefault(macro.name, set()).add(macro)
        return found

    # -- expressions ----------------------------------------------------------------------------------------

    def _integer(self, e: Piece | None, place: int) -> int:
        """The value of an expression, with names looked up at `place`. Errors: ValueError if it has none."""
        self.steps += 1
        if e is None or self.steps > _MOST_STEPS or e.end - e.start > _LONGEST:
            raise ValueError("missing, or too long")
        if self._macros and any(word.code in self._macros for word in e.all("identifier")):
            e = _expression(self._expanded(e))
        value = self._plain(e, lambda part: self._integer(part, place), place)
        if not -_LARGEST <= value < 2 * _LARGEST:
            raise ValueError("no integer of 64 bits")
        return value

    def _plain(self, e: Piece, value: Callable[[Piece | None], int], place: int) -> int:
        match e.kind:
            case "number_literal":
                return _literal(e.code)
            case "char_literal" if len(e.code) == 3:
                return ord(e.code[1])
            case "true" | "false":
                return int(e.kind == "true")
            case "parenthesized_expression" | "initializer_list" | "argument_list" if len(e.parts) == 1:
                return value(e.parts[0])
            case "identifier" if e.code in self.names:
                return int(self.names[e.code])
            case "identifier":
                return self._one_of(self.file.named(e.code, place))
            case "qualified_identifier":  # whatever the file means by it
                name = e.code.rsplit("::", 1)[1].strip()
                return self._one_of([v for v in self.file.variables if v.name == name])
            case "unary_expression":
                return int(_UNARY[e.part("operator").code](value(e.part("argument"))))
            case "binary_expression":
                return _combined(e.part("operator").code, value(e.part("left")), value(e.part("right")))
            case "conditional_expression":
                return value(e.part("consequence" if value(e.part("condition")) else "alternative"))
            case "cast_expression" if _INTEGERS.issuperset(e.part("type").code.split()):
                return value(e.part("value"))
            case "sizeof_expression":
                if size := self.size_of((e.part("type") or e.part("value")).code.strip("() \t")):
                    return size
            case "call_expression":
                return self._call(e, value)
        raise ValueError(f"no constant: {e.code}")

    def _one_of(self, variables: list[Variable]) -> int:
        """The common value of all definitions of a name."""
        if not all({"const", "constexpr"} & set(v.words) for v in variables):
            raise ValueError("no constant")
        values = {self._constant(v) for v in variables}
        if len(values) != 1:
            raise ValueError("no definition, or several")
        return values.pop()

    def _constant(self, v: Variable) -> int:
        if v.node.id not in self._known:
            names, self.names = self.names, self.templates
            try:
                found = self._enumerator(v) if v.kind == "enumerator" else self._initial(v.value)
                self._known[v.node.id] = found
            finally:
                self.names = names
        return self._known[v.node.id]

    def _initial(self, value: Piece | None) -> int:
        return self._integer(value, value.start if value else 0)

    def _enumerator(self, v: Variable) -> int:
        """An enumerator's value; without one, one more than the previous."""
        more, node = 0, v.node
        while not (value := node.child_by_field_name("value")) and (before := node.prev_named_sibling):
            more, node = more + (before.type == "enumerator"), before
        return more + (self._initial(self.file.piece(value)) if value else 0)

    def _call(self, e: Piece, value: Callable[[Piece | None], int]) -> int:
        """`int(x)`, `static_cast<int>(x)`, and a constexpr function that is one return statement."""
        name, arguments = e.part("function").code, e.part("arguments").parts
        if name.removeprefix("static_cast<").removesuffix(">").strip() in _INTEGERS and len(arguments) == 1:
            return value(arguments[0])
        function = self.file.function(name)
        body = function.body.parts if function and "constexpr" in function.words else ()
        if len(body) != 1 or body[0].kind != "return_statement" or len(function.parameters) != len(arguments):
            raise ValueError(f"no constant: {e.code}")
        names, self.names = self.names, {p.name: value(a) for p, a in zip(function.parameters, arguments)}
        try:
            return self._initial(next(iter(body[0].parts), None))
        finally:
            self.names = names

    def _expanded(self, e: Piece, hidden: frozenset[str] = frozenset()) -> str:
        """The text of an expression with its macros expanded."""
        self.steps += 1
        called = e.part("function") if e.kind == "call_expression" else e
        found = set() if called is None or called.code in hidden else self._macros.get(called.code, set())
        if len(found) > 1 or self.steps > _MOST_STEPS:
            raise ValueError(f"several definitions, or too many names: {e.code}")
        for macro in found:
            if (macro.parameters is None) == (called is e):
                arguments = (
                    [self._expanded(a, hidden) for a in e.part("arguments").parts] if called is not e else ()
                )
                words = dict(zip(macro.parameters or (), arguments))
                value = re.sub(r"\b[A-Za-z_]\w*", lambda m: words.get(m[0], m[0]), macro.value)
                return self._expanded(_expression(value), hidden | {macro.name})
        text, at = "", e.start
        for part in e.parts:
            text, at = text + e.file.text[at : part.start] + self._expanded(part, hidden), part.end
            if len(text) > _LONGEST:
                raise ValueError("too long")
        return text + e.file.text[at : e.end]


class Tunables(dict):
    """Tunable name -> value, for the file's `constexpr` constants; other constants, macros and enumerators
    are looked up on demand, and the error for a missing one says what the launch needs."""

    others: Callable[[str], int | None] = staticmethod(lambda name: None)

    def __missing__(self, name: str):
        if (value := self.others(name)) is not None:
            self[name] = value
            return value
        raise CourseError(
            f"the launch needs the line `constexpr int {name} = ...;`, which the file does not have"
        )


def tunables(source: str) -> Tunables:
    """The `constexpr int NAME = value;` lines of a kernel file, those outside functions first."""
    found = Tunables(_declared(source) if "constexpr" in source else {})
    found.others = lambda name: _values(source).named(name)
    return found


@lru_cache(maxsize=16)
def _values(source: str) -> Values:
    return Values(read(source))


@lru_cache(maxsize=256)
def _declared(source: str) -> dict[str, int]:
    """The tunables of a text, cached because every launch, also of mistakes, needs them."""
    values, found = _values(source), {}
    file = values.file
    declared = [
        v for v in file.variables if "constexpr" in v.words and v.scope.type != "field_declaration_list"
    ]
    for v in sorted(declared, key=lambda v: v.scope != file.root):
        plain = _INTEGERS.issuperset(v.type.split()) and not v.extents and not v.pointer
        if plain and (value := values.integer(v.value)) is not None:
            found.setdefault(v.name, value)
    return found


def _literal(text: str) -> int:
    """`0x1Fu`, `1'000LL`. Errors: ValueError if it is not an integer."""
    digits = text.replace("'", "").lower()
    if len(digits) > 80:
        raise ValueError("too long")
    digits = digits.rstrip("ulz")
    if digits.startswith(("0x", "0b")):
        return int(digits, 0)
    return int(digits, 8 if digits.startswith("0") and len(digits) > 1 else 10)


def _combined(sign: str, a: int, b: int) -> int:
    if sign in ("<<", ">>") and not 0 <= b < 64 or sign not in OPERATORS:
        raise ValueError(f"{a} {sign} {b}")
    return int(OPERATORS[sign](a, b))


@lru_cache(maxsize=256)
def _expression(text: str) -> Piece:
    """Parses an expression. Errors: ValueError if the text is not one."""
    if len(text) <= _LONGEST and ";" not in text:
        file = CudaText(f"int _ = {text}\n;")
        if not file.root.has_error and len(file.variables) == 1 and (value := file.variables[0].value):
            return value
    raise ValueError("no expression")
