"""Which lines of a kernel keep a whole number in fewer bits than it may have, as in a short, a char or a float.

Such a kernel is right until the number is too large. What it is for, the code does not tell: a short may well hold a
thread's index. So the file is tried with sizes beyond, see `derived.narrow_cases`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"(?:[^"]*/)?([^"/]*)"', re.M)
_CODE = re.compile(r"\s*(?:@!?%\w+\s+)?([a-z][\w.]*)\s+([^;]*);")
_SHORT = re.compile(
    r"cvt(?:\.\w+)*\.[us](?:8|16)\.[us](?:32|64)|(?:add|sub|mul\.lo|mad\.lo|shl)\.[usb]16|(?:mul|mad)24\..*"
)
_MASKS = {str(2**bits - 1) for bits in range(7, 25)}
_TO_FLOAT, _TO_WHOLE = (
    r"cvt(?:\.\w+)*\.f(?:16|32)\.[us]\d+",
    re.compile(r"cvt(?:\.\w+)*\.[us]\d+\.f(?:16|32)"),
)
_TEST, _REGISTER = re.compile(r"setp\..*\.f(?:16|32)"), re.compile(r"%[a-z]+\d+")


def lines(ptx: str, file: str) -> dict[str, list[int]]:
    """Lines of the file by kind, those of `derived.REACHES`. ptx: as compiled for debugging."""
    found: dict[str, set[int]] = {}
    own = {n for n, name in _FILE.findall(ptx) if name == file}
    for function in re.split(r"^(?=\.(?:visible |weak )?\.?(?:entry|func)\b)", ptx, flags=re.M):
        code = list(_instructions(function, own))
        for line, op, operands in code:
            if _SHORT.fullmatch(op) or op == "and.b32" and operands.split(", ")[-1] in _MASKS:
                found.setdefault("short", set()).add(line)
        for line in _in_floats(code):
            found.setdefault("float", set()).add(line)
    return {kind: sorted(numbers) for kind, numbers in found.items()}


def _instructions(function: str, own: set[str]) -> Iterator[tuple[int, str, str]]:
    """(line, name, operands) of those whose line is in one of these files."""
    line = 0
    for text in function.splitlines():
        if at := _LOC.match(text):
            line = int(at[2]) if at[1] in own else 0
        elif line and (code := _CODE.fullmatch(text)):
            yield line, code[1], code[2]


def _in_floats(code: list[tuple[int, str, str]]) -> Iterator[int]:
    """Lines where a float becomes a whole number, or one that was a whole number is compared."""
    whole: set[str] = set()
    before = -1
    while len(whole) > before:
        before = len(whole)
        for _, op, operands in code:
            result, *used = _REGISTER.findall(operands) or [""]
            if result.startswith("%f") and (re.fullmatch(_TO_FLOAT, op) or not whole.isdisjoint(used)):
                whole.add(result)
    for line, op, operands in code:
        if (
            _TO_WHOLE.fullmatch(op)
            or _TEST.fullmatch(op)
            and not whole.isdisjoint(_REGISTER.findall(operands))
        ):
            yield line
