"""Findings as sentences: fact, place, remedy. They become the lines of a Verdict; the report adds layout and
colour."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence

from ..course.array_names import name_in_file
from ..course.declare import Array, Case, Kernel, Puzzle
from ..course.stubs import first_task, stub_text
from ..cuda.accesses import access_at, is_divided, stores_into
from ..cuda.text import read
from ..devices.launching import triple
from ..devices.tensor_map import NBYTES
from ..errors import Coordinates, KernelFault
from .compare import LISTED, Mismatch, either, show_pair
from .findings import Finding

WORDS = {  # for kinds of faults
    "out-of-bounds": "an access outside an array",
    "uninitialised-read": "the use of an uninitialised value",
    "race": "a race",
    "barrier-divergence": "a barrier that not all threads reach",
    "timeout": "an endless loop",
    "misaligned": "a misaligned access",
    "invalid-address": "an access through a bad pointer",
    "read-only": "a write to an input",
    "shuffle-mask": "a wrong mask",
    "assert": "a failed assertion",
    "stack-overflow": "a stack overflow",
    "invalid-free": "a call of free that is not allowed",
    "invalid-texture": "a bad texture",
    "stale-texel": "a texel that is out of date",
    "order-dependent": "a result that depends on the order of threads",
    "invalid-map": "a bad tensor map",
    "stuck-at-phase": "a wait at an mbarrier that never ends",
    "too-many": "too many arrivals at an mbarrier",
    "made-again": "an mbarrier that is initialised twice",
    "under-way": "a copy that is under way at the block's end",
    "unlanded": "a product of what is not there yet",
    "refilled": "a copy to what a product still reads",
    "overwritten": "an operand that is overwritten",
    "unfenced": "a missing fence.proxy.async",
    "group-incomplete": "a product without all four warps",
    "descriptor": "a bad descriptor",
    "registers": "a wait for registers that never ends",
    "ended-block": "an access to a block that has ended",
    "unstarted-block": "an access to a block that has not begun",
    "no-rank": "a block that the cluster does not have",
    "cluster-barrier": "a cluster's barrier that not all threads reach",
}


NAN_EXPECTED = "nan is expected, since an input is one: is it lost in a comparison? x > y is false for nan."
NOT_A_NUMBER = "nan is not a number: the result of 0/0, for example, or of reading memory never written."
INFINITY = "inf is infinity: the result of a division by 0, of log(0), or of a number too large for its type."


def source_line(number: int, text: str, column: int = 0) -> list[str]:
    """`    17 | code` and a caret under `column` (from 1; 0: under the first character). Of a long line, what is around it."""
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
        before, after = "..." * (start > 0), "..." * (start + cut < len(code))
        code = before + code[start + len(before) : start + cut - len(after)] + after
        column -= start
    prefix = f"    {number} | "
    return [prefix + code, " " * (len(prefix) - 2) + "| " + " " * column + "^"]


def place(thread: Coordinates | None, block: Coordinates | None) -> str:
    def triple(c: Coordinates) -> str:
        return f"({','.join(map(str, c))})"

    who = [f"thread {triple(thread)}"] if thread is not None else []
    who += [f"block {triple(block)}"] if block is not None else []
    return f" by {' of '.join(who)}" if who else ""


def fault(
    found: KernelFault, source: str, called: str = "", behind: Sequence[Finding] = (), fact_only: bool = False
) -> list[str]:
    """The device's report, with the student's line; `source` is the file's text. called: what the file calls
    the array, if it is another name. behind: the values behind it, which stand after what they explain. fact_only: without
    what usually helps."""
    where = f" at {found.file}:{found.line}" if found.line else ""
    headline = found.headline
    if found.other and found.other.line == found.line:  # both sides of a race are on one line: name it once
        headline = headline.replace(f" at {found.other.file}:{found.other.line}", "")
    lines = [f"{headline}{where}{place(found.thread, found.block)}"]
    text = found.source or nth_line(source, found.line)
    divided = is_divided(found.array, source)
    here = text == nth_line(source, found.line)  # and not in a header
    at = column(*((found.line, source) if here else (1, text)), called or found.array, found.access)
    lines += source_line(found.line, text, 0 if divided else at)
    element = f"{found.array}[{found.index}]" if found.array.isidentifier() and found.index else ""
    if element and not found.before and element not in found.explanation:
        shape = f"; {found.array} has the shape {found.shape}" * bool(found.shape)
        lines.append(f"The element is {element}{shape}.")
    lines.append(found.fact if fact_only else found.explanation)
    if divided:
        whole = f"{found.array} is the whole dynamic shared memory here"
        lines.append(f"{whole}: the access may belong to another pointer into it.")
    if found.other and found.other.line != found.line:
        other = column(found.other.line, source, called or found.array)
        lines += source_line(found.other.line, nth_line(source, found.other.line), other)
    return lines + [str(f) for f in behind] + others(found)


def column(line: int, source: str, array: str, how: str = "") -> int:
    """Where on a line an array is accessed; 0 if that is not certain."""
    access = access_at(read(source), line, array, how) if array and line else None
    return access.column if access else 0


def others(found: KernelFault) -> list[str]:
    """What else went wrong in the launch: each kind once per line, races once per array."""

    def key(f: KernelFault) -> tuple:
        return (f.kind, f.array) if f.kind == "race" and f.array else (f.kind, f.line)

    more = [f for f in found.more if f.severity != "note"]
    again = {lines_of_race(f) for f in more if key(f) == key(found)} - {lines_of_race(found)}
    lines = []
    if found.array and again:
        does = "pair of lines races" if len(again) == 1 else "pairs of lines race"
        lines.append(f"{len(again)} further {does} for {found.array}.")
    rest = list({key(f): f for f in reversed(more) if key(f) != key(found)}.values())[::-1]
    for says, follows in (("Also", False), ("Probably a consequence", True)):
        kinds = [f for f in rest if f.follows == follows]
        named = ", ".join(f"{WORDS.get(f.kind, f.kind)}{of_array(f)} in line {f.line}" for f in kinds[:3])
        if kinds:
            lines.append(f"{says}: {named}{f' and {len(kinds) - 3} more' if len(kinds) > 3 else ''}.")
    return lines


def lines_of_race(found: KernelFault) -> tuple[int, int]:
    return (found.other.line if found.other else 0), found.line


def of_array(found: KernelFault) -> str:
    """The array that a race is about."""
    return f" for {found.array}" if found.kind == "race" and found.array.isidentifier() else ""


def repeated(case: str, found: KernelFault, source: str) -> list[str]:
    """Why a kernel that is right in small cases takes too long: several threads write the same values."""
    return [
        f"Already in case {case}: {found.explanation[0].lower()}{found.explanation[1:]}",
        *source_line(found.line, nth_line(source, found.line)),
        "Does every thread loop over all elements? Remove that loop: each thread computes only its own element.",
    ]


def surplus_thread(
    fault: KernelFault, kernel: Kernel, case: Case, puzzle: Puzzle, t: Mapping[str, int], source: str
) -> list[Finding]:
    """Why a thread beyond the last element strays: it has no element and should have returned. A kernel whose
    guard lets it through has the wrong bound, such as the size of a different output.

    Nothing if the kernel's threads wait for one another: then they have more to do than one element.
    """
    if fault.kind not in ("out-of-bounds", "uninitialised-read") or None in (fault.thread, fault.block):
        return []
    text = read(source).function(kernel.name)
    if text is None or any(is_barrier(name) for name, _ in text.calls()):
        return []
    dims = puzzle.full_dims(case)
    threads = kernel.launch(dict(dims), t).block
    if isinstance(threads, tuple):
        if threads[1:].count(1) != len(threads) - 1:
            return []
        threads = threads[0]
    own = [each for each in puzzle.cases if kernel in puzzle.kernels_of(each)]
    if any(whole_blocks_spare(kernel, puzzle.full_dims(each), t) for each in own):
        return []
    number, returns = fault.block[0] * threads + fault.thread[0], any(text.all("return_statement"))
    for p in kernel.outputs:
        count = math.prod(p.shape(dims))
        if fault.block[1:] == (0, 0) and number >= count:
            return [Finding.of("surplus_thread", number=number, array=p.name, count=count, returns=returns)]
    return []


def whole_blocks_spare(kernel: Kernel, dims: Mapping[str, int], t: Mapping[str, int]) -> bool:
    """Whether a launch has whole blocks more than one thread for each element needs: a block may work for one."""
    launch = kernel.launch(dict(dims), t)
    blocks, threads = (math.prod(triple(n, "launch")) for n in (launch.grid, launch.block))
    return (blocks - 1) * threads >= max(math.prod(p.shape(dims)) for p in kernel.outputs)


def returned_early(fault: KernelFault, kernel: Kernel, source: str) -> list[Finding]:
    """Why an element of shared memory may be unset: threads can return before the kernel's first barrier."""
    from .slips.block_slips import same_in_block

    if fault.kind != "uninitialised-read" or fault.space != "shared":
        return []
    text = read(source).function(kernel.name)
    barrier = next((call for name, call in text.calls() if is_barrier(name)), None) if text else None
    early = [e for e in text.all("return_statement") if e.start < barrier.start] if barrier else []
    tests = [(e, e.file.around(e.start, "if_statement")) for e in early]
    leaves = next((e for e, ifs in tests if not all(same_in_block(s.part("condition")) for s in ifs)), None)
    return [Finding.of("returned_early", leaves.line)] if leaves else []


def wrong_type(found: KernelFault, kernel: Kernel) -> list[str]:
    """An access of 8 bytes to an array of smaller elements: its declaration was changed."""
    import numpy as np

    p = next((p for p in kernel.arrays if p.name == found.array), None)
    if p is None or found.size != 8 or np.dtype(p.dtype).itemsize >= 8:
        return []
    size = np.dtype(p.dtype).itemsize
    return [f"That is 8 bytes into an array of {size}-byte elements: is it declared as {p.declaration}?"]


def still_empty(puzzle: Puzzle, kernel: Kernel, source: str) -> list[Finding]:
    """That a kernel is the stub's, if it is."""
    text, stub = (read(t).function(kernel.name) for t in (source, stub_text(puzzle)))
    if not text or not stub or text.code.split() != stub.code.split():
        return []
    for comment in text.all("comment"):
        if todo := re.search(r"TODO\(\d+\)", comment.code):
            return [Finding.of("still_empty", comment.line, kernel=kernel.name, task=todo[0])]
    return [Finding.of("still_empty", text.name_line, kernel=kernel.name, task="")]


def unwritten(puzzle: Puzzle, kernel: Kernel, source: str, wrong: Sequence[Mismatch]) -> list[Finding]:
    """Why no element was written: the code is missing, or no thread reaches it."""
    some = any(m.count != m.total for m in wrong)
    if some and not wrong[0].updated:  # else the others are right as they were
        return []
    if empty := still_empty(puzzle, kernel, source):
        return empty
    text = read(source).function(kernel.name)
    array = name_in_file(wrong[0].array, kernel, source)
    into = next((v for v in text.parameters if v.name == array), None) if text else None
    if into and stores_into(text.file, into) == []:
        return [Finding.of("no_store", array=array)]
    return [] if some or wrong[0].updated else [Finding.of("no_thread_stores")]


def is_barrier(name: str) -> bool:
    """Whether threads wait for one another in a function of this name."""
    return name.startswith("__sync") or name.endswith("_sync")


def nth_line(source: str, number: int) -> str:
    lines = source.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def missing_kernel(puzzle: Puzzle, kernel: Kernel, file: str, defined: Sequence[str]) -> list[str]:
    """The kernel is missing: what the file defines instead, and which of those was probably meant."""
    if not defined:
        says = f"{file} defines no __global__ function, but {kernel.name} is needed."
    else:
        says = f"{file} does not define the kernel {kernel.name}; it defines {', '.join(defined[:5])}."
    spare = [name for name in defined if name not in {k.name for k in puzzle.kernels}]
    if near := difflib.get_close_matches(kernel.name, spare, n=1, cutoff=0.6):
        return [says, f"Rename {near[0]} to {kernel.name}."]
    return [says, f"It must read: __global__ void {kernel.signature}"]


def missing_constant(p: Array, file: str) -> list[str]:
    """The variable to be filled is missing or too small."""
    return [
        f"{file} has no __constant__ variable {p.name} of {p.most} elements, "
        "which the grader fills before a launch.",
        f"Declare it outside all functions, as: {p.declaration};",
    ]


def signature(kernel: Kernel, sizes: Sequence[int]) -> list[str]:
    """The parameters do not fit the declaration."""
    wanted, found = len(kernel.params), len(sizes)
    if wanted != found:
        says = f"{kernel.name} has {found} parameter{'s' * (found != 1)} instead of {wanted}."
    else:
        number = next(i for i, p in enumerate(kernel.params) if param_size(p) != sizes[i])
        p = kernel.params[number]
        says = f"Parameter {number + 1} of {kernel.name} has {sizes[number]} bytes; {p.declaration} has {param_size(p)}."
    return [says, f"The signature must be: {kernel.signature}"]


def param_size(p) -> int:
    """Bytes of a parameter in the kernel's parameter space; arrays are 64-bit pointers, or tensor maps."""
    import numpy as np

    if hasattr(p, "role"):
        return NBYTES if p.tiles else 8
    return np.dtype(p.dtype).itemsize


def untouched(puzzle: Puzzle, file: str, source: str) -> list[str]:
    """An untouched stub: what to do first."""
    lines = [f"This is still the untouched stub: open {file} in your editor."]
    if todo := first_task(source):
        lines.append(f"Start in line {todo[0]}: {todo[1]}")
    about = f" You will write about {puzzle.lines} lines." if puzzle.lines else ""
    lines.append(f"The lesson is puzzles/{puzzle.id}/README.md.{about}")
    lines.append(f"Stuck? `backwarp hint {puzzle.number}` helps.")
    return lines


def mismatch(
    wrong: Sequence[Mismatch], special: bool = False, pattern: bool = True, explained: bool = False
) -> list[str]:
    """The first wrong element, how many differ, and which. pattern: say where; explained: why a number is not finite is known."""
    m = wrong[0]
    name = f"{m.array}[{m.first.index}]"
    if m.unwritten == m.count:
        which = pattern_of(m)
        says = "still has its value from before the launch" if m.updated else "was never written"
        lines = [f"{name} {says}   ({m.count} of {m.total} elements{f': {which}' if which else ''})"]
    else:
        got, want = show_pair(m.first.got, m.first.expected)
        by = f" {m.expected_by}" if m.expected_by else ""
        differ = "the only element" if m.total == 1 else f"{m.count} of {m.total} elements differ"
        lines = [f"{name} = {got}, expected {want}{by}   ({differ})"]
        if pattern and (which := pattern_of(m)):
            lines.append(f"Wrong: {which}.")
        if m.unwritten:
            lines.append(f"{m.unwritten} of them {'was' if m.unwritten == 1 else 'were'} never written.")
        elif explained:
            pass
        elif m.first.expected != m.first.expected:
            lines.append(NAN_EXPECTED)
        elif special:  # what is not finite may come from an input
            pass
        elif m.first.got != m.first.got:
            lines.append(NOT_A_NUMBER)
        elif abs(m.first.got) == math.inf:
            lines.append(INFINITY)
    if len(wrong) > 1:
        others = ", ".join(f"{o.array} ({o.count} of {o.total})" for o in wrong[1:])
        lines.append(f"Also wrong: {others}.")
    return lines


def pattern_of(m: Mismatch) -> str:
    return "" if m.pattern == "every element" else m.pattern


def input_changed(name: str, index: str, was: float, now: float) -> list[str]:
    old, new = show_pair(was, now)
    return [
        f"The kernel changed its input: {name}[{index}] was {old} and is {new} now.",
        f"Inputs must stay unchanged: write only to the outputs, and keep {name} const.",
    ]


def not_judged(case: Case) -> str:
    """Of a case that a kernel is too slow for."""
    return f"With {case.note} this takes too long here: whether the results would be right is not known."


def great_sizes(case: Case) -> str:
    """Only a case with unrealistically large sizes fails."""
    if case.narrow:
        kind, *lines = case.narrow
        where = either([f"line {n}" for n in lines[:LISTED]], "and") + ", ..." * (len(lines) > LISTED)
        kept = {"short": "16 bits or fewer", "24 bits": "24 bits or fewer"}
        kept = kept.get(kind, "a float, which has every whole number up to 16,777,216 only")
        return f"Every smaller case is right. This one has {case.note}, and the file keeps a whole number in {kept}: see {where}."
    return (
        f"Every smaller case is right. This one has {case.note}: does the kernel assume a certain size, "
        "or keep an index in a short or a char?"
    )


def printing(shown: str, dropped: int) -> list[str]:
    """Right so far, but printing took all the time."""
    lines = shown.count("\n") + dropped
    much = f"{lines:,} lines" if lines else f"{len(shown):,} characters"
    return [
        f"The kernel prints so much ({much} in one launch) that not all cases could be run in time.",
        "Print from one thread only, and outside of loops: if (idx == 0) printf(...);",
    ]
