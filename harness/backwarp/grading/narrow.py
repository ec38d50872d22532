"""Which lines of a kernel keep a whole number in fewer bits than it may have, as in a short, a char or a float.

Such a kernel is right until the number is too large. What it is for, the code does not tell: a short may well hold a
thread's index. So the file is tried with sizes beyond, see `derived.narrow_cases`. Numbers in the code that only some
sizes reach, which may be limits, are looked for too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from .derived import ENOUGH, LONG

_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"(?:[^"]*/)?([^"/]*)"', re.M)
_CODE = re.compile(r"\s*(?:@!?%\w+\s+)?([a-z][\w.]*)\s+([^;]*);")
_CALLED = re.compile(r"\s*(\w+),\s*")
_SHORT = re.compile(
    r"cvt(?:\.\w+)*\.[us](?:8|16)\.[us](?:32|64)|cvt\.[us](?:32|64)\.s16|(?:add|sub|mul\.lo|mad\.lo|shl)\.[usb]16"
)
_MULTIPLIED = re.compile(r"(?:mul|mad)24\..*")  # numbers of 24 bits
_FIELD = re.compile(r"bf[ei]\.|prmt\.|call (?:__byte_perm|__funnelshift)")
_TO_FLOAT, _TO_WHOLE = (
    r"cvt(?:\.\w+)*\.f(?:16|32)\.[us]\d+",
    re.compile(r"cvt(?:\.\w+)*\.(?:[us]\d+\.f(?:16|32)|f64\.f32)"),
)
_TEST, _REGISTER = re.compile(r"setp\..*\.f(?:16|32)"), re.compile(r"%[a-z]+\d+")
_ARRAY = re.compile(r"^\s*(?:\.\w+ )?\.(?:shared|local|global|const)\b.*\.[bus]8\s+\w+\[(\d+)\]", re.M)
_NUMBER = re.compile(r"(?<![\w.%$\[+])\d+(?![\w\]])")


def lines(ptx: str, file: str) -> dict[str, list[int]]:
    """Lines of the file by kind: those of `derived.REACHES`, and "number" if one has a number that long axes reach, and those
    that are long enough for other files do not; of an array of so many floats, 0. ptx: as compiled for debugging."""
    found: dict[str, set[int]] = defaultdict(set)
    if any(int(nbytes) >= 4 * ENOUGH for nbytes in _ARRAY.findall(ptx)):
        found["number"].add(0)
    own = {n for n, name in _FILE.findall(ptx) if name == file}
    for function in re.split(r"^(?=\.(?:visible |weak )?\.?(?:entry|func)\b)", ptx, flags=re.M):
        code = list(_instructions(function, own))
        shifts = {operands.rpartition(", ")[2] for _, op, operands in code if op == "shl.b32"}
        for line, op, operands in code:
            if kind := _kept(op, operands.rpartition(", ")[2], shifts):
                found[kind].add(line)
            if not op.endswith("64") and any(ENOUGH < int(n) < LONG[0] for n in _NUMBER.findall(operands)):
                found["number"].add(line)
        for line in _in_floats(code):
            found["float"].add(line)
    return {kind: sorted(numbers) for kind, numbers in found.items()}


def _kept(op: str, last: str, shifts: set[str]) -> str:
    """In what an instruction keeps a whole number, if that is narrow. last: its last operand; shifts: by how many bits its
    function shifts to the left."""
    bits = 0
    if op in ("and.b32", "and.b64") and last.isdigit():
        bits = int(last).bit_length() if int(last) & (int(last) + 1) == 0 else 0
    elif op in ("shr.s32", "shr.u32") and last in shifts and last.isdigit():
        bits = 32 - int(last)
    if _SHORT.fullmatch(op) or _FIELD.match(op) or 7 <= bits <= 16:
        return "short"
    return "24 bits" if _MULTIPLIED.fullmatch(op) or 16 < bits <= 24 else ""


def _instructions(function: str, own: set[str]) -> Iterator[tuple[int, str, str]]:
    """(line, name, operands) of those whose line is in one of these files. A call of a function of CUDA's is named after it."""
    line = 0
    for text in function.splitlines():
        if at := _LOC.match(text):
            line = int(at[2]) if at[1] in own else 0
        elif line and (code := _CODE.fullmatch(text)):
            yield line, code[1], code[2]
        elif line and (called := _CALLED.fullmatch(text)):
            name = called[1]
            yield line, "mul24.call" if name in ("__mul24", "__umul24") else f"call {name}", ""


def _in_floats(code: list[tuple[int, str, str]]) -> Iterator[int]:
    """Lines where a float becomes a whole number, or a double, or one that was a whole number is compared."""
    whole: set[str] = set()
    before, called = -1, set[int]()
    while len(whole) > before:
        before, given = len(whole), False
        for at, (_, op, operands) in enumerate(code):
            result, *used = _REGISTER.findall(operands) or [""]
            if op.startswith("st.param.f"):
                given |= result in whole
            elif op.startswith("ld.param.f") and "[retval" in operands:
                whole |= {result} if given else set()
                given = False
            elif op.startswith("ld.param.b") and "[retval" in operands:
                called |= {at} if given else set()
                given = False
            elif result.startswith("%f") and (re.fullmatch(_TO_FLOAT, op) or not whole.isdisjoint(used)):
                whole.add(result)
    for at, (line, op, operands) in enumerate(code):
        used = _REGISTER.findall(operands)
        if _TO_WHOLE.fullmatch(op) and (".f64." not in op or not whole.isdisjoint(used)):
            yield line
        elif at in called or _TEST.fullmatch(op) and not whole.isdisjoint(used):
            yield line
