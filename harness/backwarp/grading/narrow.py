"""Which lines of a kernel keep a whole number in fewer bits than it may have, as in a short, a char or a float.

Such a kernel is right until the number is too large. What it is for, the code does not tell: a short may well hold a
thread's index. So the file is tried with sizes beyond, see `derived.narrow_cases`. Numbers in the code that only some
sizes reach, which may be limits, are looked for too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ..course.declare import Case, Kernel, Puzzle
from ..cuda.values import Tunables
from ..errors import BackwarpError, CompileError
from .derived import ENOUGH, LONG, narrow_cases, shortened
from .runs import Outcome, Pace, Setup, Trial, place, start

#: lengths of an axis of which a number that counts along it, or its tiles, is not the same
LENGTHS = 2112, 4224

_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"(?:[^"]*/)?([^"/]*)"', re.M)
_CODE = re.compile(r"\s*(?:@!?%\w+\s+)?([a-z][\w.]*)\s+([^;]*);")
_CALLED = re.compile(r"\s*(\w+),\s*")
_FUNCTION = re.compile(r"^(?=\.(?:visible |weak )?\.?(?:entry|func)\b)", re.M)
_NAME = re.compile(r"[^(]*?\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)")
_CALLS = re.compile(r"^\s*([\w$]+),?\s*$", re.M)
_SHORT = re.compile(
    r"cvt(?:\.\w+)*\.[us](?:8|16)\.[us](?:32|64)|cvt\.[us](?:32|64)\.s16|(?:add|sub|mul\.lo|mad\.lo|shl)\.[usb]16"
)
_OF_BYTES, _WIDENS = re.compile(r"cvt\.[us]\d+\.[us]8"), re.compile(r"cvt\.[us](?:32|64)\.[us](?:8|16)")
_MULTIPLIED = re.compile(r"(?:mul|mad)24\..*")  # numbers of 24 bits
_FIELD = re.compile(r"bf[ei]\.|prmt\.|call (?:__byte_perm|__funnelshift)")
_TO_FLOAT = re.compile(r"cvt(?:\.\w+)*\.f(?:16|32)\.[us]\d+")
_TO_WHOLE = re.compile(r"cvt(?:\.\w+)*\.(?:[us]\d+\.f(?:16|32)|f64\.f32)")
_TEST, _REGISTER = re.compile(r"setp\..*\.f(?:16|32)"), re.compile(r"%[a-z]+\d+")
_ARRAY = re.compile(r"^\s*(?:\.\w+ )?\.(?:shared|local|global|const)\b.*\.[bus]8\s+\w+\[(\d+)\]", re.M)
_NUMBER = re.compile(r"(?<![\w.%$\[+])\d+(?![\w\]])")


def cases(puzzle: Puzzle, t: Tunables, setup: Setup, ptx: str, file: str) -> Iterator[Case]:
    """The derived cases in which a line may keep a number that is too large. setup: of the file, with all checks."""
    derived = list(narrow_cases(puzzle, t, lambda kernel: lines(ptx, file, kernel)))
    if not derived:
        return
    from ..devices.virtual.instrument import notes, reached  # few files need them

    with type(setup.device)(notes.BUILD) as device:
        try:
            options = dict(name=file, include_dirs=puzzle.include_dirs)
            kept = reached.declaration(line for case in derived for line in case.narrow[1:])
            module = device.compile(setup.module.source + kept, **options)
        except CompileError:  # it uses the name itself
            module = None
        for case in derived:
            if module is None or grows(puzzle, puzzle.kernel(case.kernels[0]), case, t, module):
                yield case


def grows(puzzle: Puzzle, kernel: Kernel, case: Case, t: Tunables, module) -> bool:
    """Whether the numbers in the case's lines differ for two lengths of the axis that is long in it. module: with `reached`."""
    from ..devices.virtual.instrument import reached

    longest, found = max(n for n in case.dims.values() if isinstance(n, int)), []
    setup = Setup(module.device, (1,), module=module)
    try:
        setup.kernels[kernel.name] = module.get_function(kernel.name)
        for length in LENGTHS:
            trial = Trial(Outcome(shortened(case, length / longest), kernel), Pace())
            trial.begin(puzzle, t, 0)
            numbers = module.get_global(reached.NAME, np.int64)
            numbers.set(-1)
            start(trial, setup, 1, {p.name: place(setup.device, p, trial) for p in kernel.passed})
            found.append(numbers.get()[[min(line, reached.LINES - 1) for line in case.narrow[1:]]])
    except (BackwarpError, ArithmeticError, ValueError, LookupError):  # no such case, or it ends in a fault
        return True
    return (found[0] != found[1]).any() or (found[0] < 0).any()


def lines(ptx: str, file: str, kernel: str = "") -> dict[str, list[int]]:
    """Lines of the file by kind: those of `derived.REACHES`, and "number" if one has a number that long axes reach, and those
    that are long enough for other files do not; of an array of so many floats, 0. ptx: as compiled for debugging. kernel: only
    lines of what it runs."""
    found: dict[str, set[int]] = defaultdict(set)
    if any(int(nbytes) >= 4 * ENOUGH for nbytes in _ARRAY.findall(ptx)):
        found["number"].add(0)
    own = {n for n, name in _FILE.findall(ptx) if name == file}
    for function in _run_by(kernel, _FUNCTION.split(ptx)):
        code = list(_instructions(function, own))
        shifts = {operands.rpartition(", ")[2] for _, op, operands in code if op == "shl.b32"}
        widened = {operands.partition(", ")[0] for _, op, operands in code if _WIDENS.fullmatch(op)}
        for line, op, operands in code:
            if kind := _kept(op, operands.rpartition(", ")[2], shifts, widened):
                found[kind].add(line)
            if not op.endswith("64") and any(ENOUGH < int(n) < LONG[0] for n in _NUMBER.findall(operands)):
                found["number"].add(line)
        for line in _in_floats(code):
            found["float"].add(line)
    return {kind: sorted(numbers) for kind, numbers in found.items()}


def _run_by(kernel: str, functions: list[str]) -> list[str]:
    """The kernel and what it calls, of the texts of functions; all where that is not known."""
    if not kernel:
        return functions
    named = {m[1]: text for text in functions if (m := _NAME.match(text))}
    reached = [n for n in named if n == kernel or f"{len(kernel)}{kernel}" in n and ".entry" in named[n][:40]]
    for name in reached:
        if ".callprototype" in named[name]:
            return functions
        reached += [n for n in _CALLS.findall(named[name]) if n in named and n not in reached]
    return [named[n] for n in reached] or functions


def _kept(op: str, last: str, shifts: set[str], widened: set[str]) -> str:
    """In what an instruction keeps a whole number, if that is narrow. last: its last operand; shifts: by how many bits its
    function shifts to the left; widened: registers of 32 bits or more that hold what has no more than 16."""
    bits = 0
    if op in ("and.b32", "and.b64") and last.isdigit():
        bits = int(last).bit_length() if int(last) & (int(last) + 1) == 0 else 0
    elif op in ("shr.s32", "shr.u32") and last in shifts and last.isdigit():
        bits = 32 - int(last)
    if _OF_BYTES.fullmatch(op) and re.match(r"%rd?\d", last) and last not in widened:
        bits = 8
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
            elif result.startswith("%f") and (_TO_FLOAT.fullmatch(op) or not whole.isdisjoint(used)):
                whole.add(result)
    for at, (line, op, operands) in enumerate(code):
        used = _REGISTER.findall(operands)
        if _TO_WHOLE.fullmatch(op) and (".f64." not in op or not whole.isdisjoint(used)):
            yield line
        elif at in called or _TEST.fullmatch(op) and not whole.isdisjoint(used):
            yield line
