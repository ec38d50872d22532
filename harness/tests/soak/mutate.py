"""Seeded changes to the text of a kernel, in CUDA C++ or in PTX: typical slips, and worse."""

from __future__ import annotations

import re
from random import Random

_TOKEN = re.compile(
    r"""(?P<skip> //[^\n]* | /\*.*?\*/ | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | ^[ \t]*\#[^\n]* )
      | (?P<number> \.?\d[\w.]* )
      | (?P<word> [A-Za-z_]\w* )
      | (?P<operator> <<=|>>=|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^<>!~?] )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_ALIKE = (
    "+ - * / % & | ^".split(),
    "< <= > >= == !=".split(),
    "&& ||".split(),
    "<< >>".split(),
    "++ --".split(),
    "+= -= *= /= = |= &= ^=".split(),
)
_TYPES = "int unsigned float double short char bool half size_t long".split()
_WORDS = (
    "if else for while do return const void extern struct template typename sizeof static switch case break continue"
    " inline constexpr namespace using auto"
).split()
_PLACES = [f"{name}.{axis}" for name in ("threadIdx", "blockIdx", "blockDim", "gridDim") for axis in "xy"]
_PTX_TYPES = "s32 u32 b32 s64 u64 b64 f32 f64 s16 u16 b16 s8 u8 f16 pred".split()
_PTX_TESTS = "eq ne lt le gt ge ltu leu gtu geu equ neu lo ls hi hs num nan".split()
_PTX_INSTRUCTION = re.compile(r"\t+(?:@!?%p\d+ )?[a-z][\w.:]*[ \t].*;|\t+(?:ret|exit|trap);")
_PTX_REGISTER = re.compile(r"%[a-z]+\d+")


def mutate_cuda(text: str, rng: Random) -> str:
    """The text with one to three changes."""
    return _changed(text, rng, _CUDA)


def one_change(text: str, rng: Random) -> str:
    """The text with one small change, as a slip of the hand makes it."""
    for _ in range(200):
        new = rng.choice(_SLIPS)(text, rng)
        if new is not None and new != text:
            return new
    return text


def mutate_ptx(text: str, rng: Random) -> str:
    """The same for PTX. What describes the source to a debugger is left alone."""
    code, mark, rest = text.partition("\n\t.section")
    return _changed(code, rng, _PTX) + mark + rest


def _changed(text: str, rng: Random, kinds) -> str:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        for _ in range(20):  # not every kind of change finds a place in every text
            new = rng.choice(kinds)(text, rng)
            if new is not None and new != text:
                text = new
                break
    return text


# -- lines, in both languages -------------------------------------------------------------------------


def _lines(edit, wanted):
    """A change to the list of lines, at the number of a line that `wanted` matches."""

    def change(text: str, rng: Random) -> str | None:
        lines = text.split("\n")
        places = [i for i, line in enumerate(lines) if wanted(line)]
        if len(places) < 2:
            return None
        edit(lines, places, rng)
        return "\n".join(lines)

    return change


def _delete(lines, places, rng):
    del lines[rng.choice(places)]


def _repeat(lines, places, rng):
    place = rng.choice(places)
    lines.insert(place, lines[place])


def _swap(lines, places, rng):
    i = rng.randrange(len(places) - 1)
    a, b = places[i], places[i + 1]
    lines[a], lines[b] = lines[b], lines[a]


def _copy(lines, places, rng):
    lines[rng.choice(places)] = lines[rng.choice(places)]


def _move(lines, places, rng):
    line = lines.pop(rng.choice(places))
    lines.insert(rng.choice(places), line)


def _statement(line: str) -> bool:
    return line.strip().endswith(";") and "#" not in line


def _barrier(line: str) -> bool:
    return "__sync" in line or "bar." in line or "barrier" in line


# -- CUDA ------------------------------------------------------------------------------------------------


def _replace(text: str, match, new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def _tokens(text: str, group: str):
    return [m for m in _TOKEN.finditer(text) if m.lastgroup == group]


def _operator(text: str, rng: Random) -> str | None:
    choices = [(m, row) for m in _tokens(text, "operator") for row in _ALIKE if m[0] in row]
    if not choices:
        return None
    match, row = rng.choice(choices)
    return _replace(text, match, rng.choice(row))


def _number(text: str, rng: Random) -> str | None:
    numbers = [m for m in _tokens(text, "number") if re.match(r"\d+u?$", m[0])]
    if not numbers:
        return None
    match = rng.choice(numbers)
    value = int(match[0].rstrip("u"))
    new = rng.choice(
        (value + 1, value - 1, 0, 1, -value, 2 * value, value // 2, value + 31, 1 << 20, 2**31 - 1, -(2**31))
    )
    return _replace(text, match, str(new))


def _name(text: str, rng: Random) -> str | None:
    names = [m for m in _tokens(text, "word") if m[0] not in _WORDS and not m[0].startswith("__")]
    if len(names) < 2:
        return None
    return _replace(text, rng.choice(names), rng.choice(names)[0])


def _type(text: str, rng: Random) -> str | None:
    types = [m for m in _tokens(text, "word") if m[0] in _TYPES]
    return _replace(text, rng.choice(types), rng.choice(_TYPES)) if types else None


def _place(text: str, rng: Random) -> str | None:
    found = list(re.finditer(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]", text))
    return _replace(text, rng.choice(found), rng.choice(_PLACES)) if found else None


def _condition(text: str, rng: Random) -> str | None:
    """Inverts a condition, or replaces it by one that holds for all threads or half of them."""
    found = list(re.finditer(r"\b(if|while) \((?=[^()]*\))", text))
    if not found:
        return None
    match = rng.choice(found)
    return _replace(text, match, match[0] + rng.choice(("!", "true || ", "threadIdx.x % 2 && ", "false && ")))


_CUDA = (
    *(_lines(edit, _statement) for edit in (_delete, _repeat, _swap, _move)),
    _lines(_delete, _barrier),
    *(_operator, _number, _name) * 2,
    _type,
    _place,
    _condition,
)

_SLIPS = (*(_operator, _number, _name) * 2, _place, _condition, _lines(_delete, _statement))


# -- PTX --------------------------------------------------------------------------------------------------


def _instruction(line: str) -> bool:
    return bool(_PTX_INSTRUCTION.fullmatch(line))


def _in_instruction(pattern: str, replacement):
    """A change to one match of `pattern` in an instruction. replacement(match, text, rng) -> its new text."""

    def change(text: str, rng: Random) -> str | None:
        lines = text.split("\n")
        found = [
            (i, m) for i, line in enumerate(lines) if _instruction(line) for m in re.finditer(pattern, line)
        ]
        if not found:
            return None
        i, match = rng.choice(found)
        lines[i] = _replace(lines[i], match, replacement(match, text, rng))
        return "\n".join(lines)

    return change


def _other_register(match, text: str, rng: Random) -> str:
    kind = match[0].rstrip("0123456789")
    return rng.choice(
        [r for r in _PTX_REGISTER.findall(text) if rng.random() < 0.05 or r.startswith(kind)] or [match[0]]
    )


def _other_number(match, text: str, rng: Random) -> str:
    value = int(match[0])
    return str(
        rng.choice((value + 1, value - 1, 0, -value, 2 * value, value + 4, 1 << 20, 2**31 - 1, -(2**31)))
    )


def _other_label(match, text: str, rng: Random) -> str:
    return rng.choice(re.findall(r"\$L\w+", text))


_PTX = (
    *(_lines(edit, _instruction) for edit in (_delete, _repeat, _swap, _copy, _move)),
    _lines(_delete, _barrier),
    _in_instruction(r"%[a-z]+\d+", _other_register),
    _in_instruction(r"(?<=[ \[+])-?\d+(?=[,;\]])", _other_number),
    _in_instruction(
        rf"(?<=\.)(?:{'|'.join(_PTX_TYPES)})(?=[ \t.])", lambda m, text, rng: rng.choice(_PTX_TYPES)
    ),
    _in_instruction(rf"(?<=setp\.)(?:{'|'.join(_PTX_TESTS)})\b", lambda m, text, rng: rng.choice(_PTX_TESTS)),
    _in_instruction(r"@!?(?=%p)", lambda m, text, rng: "@" if m[0] == "@!" else "@!"),
    _in_instruction(r"\$L\w+", _other_label),
)
