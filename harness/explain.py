"""Findings as sentences: fact, place, remedy. The lines of a Verdict; layout and colour are the report's."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from .compare import Mismatch, show_pair
from .course import Kernel, Puzzle
from .errors import CompileError, Coordinates, KernelFault, LaunchError

MOST_ERRORS = 3  # compiler messages shown
MOST_WARNINGS = 2


def source_line(number: int, text: str, column: int = 0) -> list[str]:
    """`    17 | code` and a caret under `column` (from 1; 0: under the first character)."""
    code = text.rstrip("\r\n").expandtabs(4)
    if not code.strip():
        return []
    if column:
        column = len(text[: column - 1].expandtabs(4))
    else:
        column = len(code) - len(code.lstrip())
    cut = 100
    if len(code) > cut:
        start = max(0, min(column - cut // 2, len(code) - cut))
        code, column = code[start : start + cut], column - start
    prefix = f"    {number} | "
    return [prefix + code, " " * (len(prefix) - 2) + "| " + " " * column + "^"]


def compile_error(error: CompileError) -> list[str]:
    """The compiler's first messages, each with its line and a caret."""
    errors = [d for d in error.diagnostics if d.severity == "error"] or list(error.diagnostics)
    if not errors:
        return str(error).splitlines()[:8]
    lines = []
    for d in errors[:MOST_ERRORS]:
        place = f"{d.file}:{d.line}: " if d.line else ""
        lines.append(f"{place}{d.severity}: {d.message}")
        lines += source_line(d.line, d.source, d.column)
    if len(errors) > MOST_ERRORS:
        lines.append(f"and {len(errors) - MOST_ERRORS} more; the first is usually the cause of the others.")
    return lines


def place(thread: Coordinates | None, block: Coordinates | None) -> str:
    def triple(c: Coordinates) -> str:
        return f"({','.join(map(str, c))})"

    who = [f"thread {triple(thread)}"] if thread is not None else []
    who += [f"block {triple(block)}"] if block is not None else []
    return f" by {' of '.join(who)}" if who else ""


def fault(found: KernelFault, source: str) -> list[str]:
    """What the device reported, with the student's line; `source` is the file's text."""
    where = f" at {found.file}:{found.line}" if found.line else ""
    lines = [f"{found.headline}{where}{place(found.thread, found.block)}"]
    text = found.source or nth_line(source, found.line)
    lines += source_line(found.line, text, column_of(found.array, text))
    element = f"{found.array}[{found.index}]" if found.array and found.index else ""
    if element and element not in found.explanation:
        lines.append(
            f"The element is {element}"
            + (f"; {found.array} has the shape {found.shape}." if found.shape else ".")
        )
    lines.append(found.explanation)
    if found.other and found.other.line != found.line:
        lines += source_line(found.other.line, nth_line(source, found.other.line))
    more = [f for f in found.more if f.severity != "note"]
    if more:
        named = ", ".join(f"{f.kind} in line {f.line}" for f in more[:3])
        lines.append(f"Also: {named}{f' and {len(more) - 3} more' if len(more) > 3 else ''}.")
    return lines


def nth_line(source: str, number: int) -> str:
    lines = source.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def column_of(array: str, text: str) -> int:
    """Where `array[` stands in a line, from 1; 0 where it does not, or more than once."""
    found = [m.start() for m in re.finditer(rf"\b{re.escape(array)}\s*\[", text)] if array else []
    return found[0] + 1 if len(found) == 1 else 0


def launch_error(error: LaunchError, kernel: Kernel) -> list[str]:
    return [f"{kernel.name} cannot be launched: {error.code}", str(error)]


def missing_kernel(puzzle: Puzzle, kernel: Kernel, file: str, defined: Sequence[str]) -> list[str]:
    """The kernel is not there: what is, and which of it was probably meant."""
    if not defined:
        says = f"{file} defines no __global__ function, but {kernel.name} is needed."
    else:
        says = f"{file} does not define the kernel {kernel.name}; it defines {', '.join(defined[:5])}."
    spare = [name for name in defined if name not in {k.name for k in puzzle.kernels}]
    near = difflib.get_close_matches(kernel.name, spare, n=1, cutoff=0.6)
    remedy = (
        f"Rename {near[0]} to {kernel.name}." if near else f"It must read: __global__ void {kernel.signature}"
    )
    return [says, remedy]


def signature(kernel: Kernel, sizes: Sequence[int]) -> list[str]:
    """The parameters do not fit the declaration."""
    wanted, found = len(kernel.params), len(sizes)
    if wanted != found:
        says = f"{kernel.name} has {found} parameter{'s' * (found != 1)} instead of {wanted}."
    else:
        number = next(i for i, p in enumerate(kernel.params) if param_size(p) != sizes[i])
        p, size = kernel.params[number], sizes[number]
        says = (
            f"Parameter {number + 1} of {kernel.name} has {size} bytes; {p.declaration} has {param_size(p)}."
        )
    return [says, f"The signature must be: {kernel.signature}"]


def param_size(p) -> int:
    """Bytes of a parameter in the kernel's parameter space; arrays are 64-bit pointers."""
    import numpy as np

    return 8 if hasattr(p, "role") else np.dtype(p.dtype).itemsize


def untouched(puzzle: Puzzle, file: str, source: str) -> list[str]:
    """The stub as it was: what to do first."""
    todo = re.search(r"(?://|#)\s*(TODO\(1\)[^\n]*)", source)
    lines = [f"The stub is as it was: open {file} in your editor."]
    if todo:
        number = source[: todo.start()].count("\n") + 1
        lines.append(f"Start in line {number}: {todo[1].strip()}")
    about = f" You will write about {puzzle.lines} lines." if puzzle.lines else ""
    lines.append(f"The lesson is puzzles/{puzzle.id}/README.md.{about}")
    lines.append(f"Then run `backwarp grade {puzzle.number}` again; `backwarp hint {puzzle.number}` helps.")
    return lines


def mismatch(found: Sequence[Mismatch]) -> list[str]:
    """The first wrong element of the first wrong output, how many differ, and which."""
    m = found[0]
    name = f"{m.array}[{m.first.index}]"
    if m.unwritten == m.count:
        which = pattern(m)
        lines = [
            f"{name} was never written   ({m.count} of {m.total} elements{f': {which}' if which else ''})"
        ]
    else:
        got, want = show_pair(m.first.got, m.first.expected)
        by = f" {m.expected_by}" if m.expected_by else ""
        differ = "the only element" if m.total == 1 else f"{m.count} of {m.total} elements differ"
        lines = [f"{name} = {got}, expected {want}{by}   ({differ})"]
        if which := pattern(m):
            lines.append(f"Wrong: {which}.")
        if m.unwritten:
            lines.append(f"{m.unwritten} of them {'was' if m.unwritten == 1 else 'were'} never written.")
        elif m.first.got != m.first.got:
            lines.append("nan: not a number, as after 0/0, or after reading memory that nothing wrote.")
    if len(found) > 1:
        others = ", ".join(f"{o.array} ({o.count} of {o.total})" for o in found[1:])
        lines.append(f"Also wrong: {others}.")
    return lines


def pattern(m: Mismatch) -> str:
    return "" if m.pattern == "every element" else m.pattern


def input_changed(name: str, index: str, was: float, now: float) -> list[str]:
    old, new = show_pair(was, now)
    return [
        f"The kernel changed its input: {name}[{index}] was {old} and is {new} now.",
        f"Inputs must come back as they were; write to the outputs only, and keep {name} const.",
    ]


def schedule(same_build: bool, gpu: bool) -> str:
    """Runs of one kernel on the same inputs disagree."""
    if gpu:
        return "Two launches with the same inputs give different results: threads race for the same memory."
    if same_build:
        return (
            "The result depends on the order in which warps and blocks run: "
            "threads share memory without a barrier or an atomic between them."
        )
    return (
        "The debug build and the optimised build of this kernel give different results: it relies on "
        "something that C++ leaves undefined, such as an uninitialised variable or integer overflow."
    )


def printing(shown: str, dropped: int) -> list[str]:
    """Right so far, but the output took all the time."""
    return [
        f"The kernel prints so much ({shown.count(chr(10)) + dropped:,} lines in one launch) that not all "
        "cases could be run in time.",
        "Print from one thread only, and outside of loops: if (idx == 0) printf(...);",
    ]
