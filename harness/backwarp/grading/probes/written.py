"""Which elements of a shared-memory tile had been written before one was read that had not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np

from ...course.declare import Puzzle
from ...cuda.accesses import is_divided
from ...cuda.values import tunables
from ...devices.virtual.run.trace import Steps
from ...devices.virtual.runtime.abi import INFO_SHARED, INFO_WRITE
from ...errors import KernelFault
from ..compare import either
from ..findings import Finding
from ..race_timeline import linear, recorded
from ..runs import Outcome, Setup
from ..slips.only_store import only_store
from .summed import MOST_STEPS

ORDINALS = "first", "second", "third", "fourth"
MOST_RUNS = 3  # ranges of elements that are listed
GUARD = 128  # bytes: arrays in shared memory begin at a multiple
SIZE = 255  # of an access, in the lowest bits of what is recorded about it


def explain(puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int) -> list[Finding]:
    """What to say about the fault in an outcome, which is reproduced with all accesses recorded."""
    fault = failed.error
    if fault.kind != "uninitialised-read" or fault.space != "shared" or failed.case.stress:
        return []
    _, shape, steps = recorded(puzzle, source, failed, setup, seed, MOST_STEPS)
    if not steps or len(steps.rows) >= MOST_STEPS or is_divided(fault.array, source) or "async" in source:
        return []  # a copy in flight writes later
    launch = failed.kernel.launch(dict(puzzle.full_dims(failed.case)), tunables(source))
    before = written_before(fault, steps, *shape, launch.shared_mem)
    nothing = any(f.kind == "nothing_written" for f in before)
    return before + (only_store(fault.array, failed.kernel, source) if nothing else [])


def written_before(
    fault: KernelFault, steps: Steps, grid: Sequence[int], block: Sequence[int], dynamic: int = 0
) -> list[Finding]:
    """`By then, line 30 has written only elements from tile[0] to tile[271].` dynamic: the bytes of dynamic shared
    memory."""
    at = [int(n) for n in re.findall(r"\d+", fault.index)]
    shape = [int(n) for n in re.findall(r"\d+", fault.shape)] or [0]
    if not fault.size or len(shape) != len(at) or len(at) > len(ORDINALS):
        return []
    bytes_, flat = fault.size, sum(n * prod(shape[i + 1 :]) for i, n in enumerate(at))
    of_block = steps.accesses(linear(fault.block, grid))
    rows = of_block[of_block["info"] & INFO_SHARED != 0]
    lines, writes = steps.lines[rows["site"]], rows["info"] & INFO_WRITE != 0
    mine = (rows["thread"] == linear(fault.thread, block)) & (lines == fault.line) & ~writes
    first: dict[int, int] = {}  # by instruction: the first of its reads of what nobody had written
    for i in np.flatnonzero(mine).tolist():
        if rows["address"][i] not in words(rows[:i][writes[:i]], bytes_):
            first.setdefault(int(rows["site"][i]), i)
    if len(first) != 1:  # with several, it is not known which is of the array
        return []
    (read,) = first.values()
    base = int(rows["address"][read]) - bytes_ * flat
    if base % GUARD:  # it read something else before
        return []
    end = base + (bytes_ * prod(shape) if shape != [0] else dynamic)
    before = rows[:read][writes[:read]]
    inside = (before["address"] >= base) & (before["address"] < end)
    places = (words(before[inside], bytes_) - base) // bytes_
    who = sorted({int(n) for n in steps.lines[before[inside]["site"]]})
    return described(fault.array, at, places.tolist(), shape, who)


def words(rows: np.ndarray, size: int) -> np.ndarray:
    """The addresses of the elements of a size that accesses reach; those of several elements reach each of them."""
    each = np.maximum(1, (rows["info"] & SIZE) // size).astype(int)
    nth = np.arange(each.sum()) - np.repeat(each.cumsum() - each, each)
    return np.unique(np.repeat(rows["address"].astype(np.int64), each) + size * nth)


def described(
    array: str, at: Sequence[int], places: Sequence[int], shape: Sequence[int], lines: Sequence[int]
) -> list[Finding]:
    """at: the element read; places: those written. shape: [0] for one axis of any length."""
    if not places:
        return [Finding.of("nothing_written", array=array)]
    if 0 in lines:
        return []
    axes = np.unravel_index(places, shape) if shape != [0] else [np.array(places)]
    ends = [(int(x.min()), int(x.max())) for x in axes]
    outside = [i for i, (first, last) in enumerate(ends) if not first <= at[i] <= last]
    if len(at) == 1:
        text = elements(array, at[0], axes[0])
        return [Finding.of("written_only", *lines, elements=text)] if text else []
    if not outside:
        return []
    some = [
        f"{ORDINALS[i]} index {ends[i][0]}" + f" to {ends[i][1]}" * (ends[i][1] > ends[i][0]) for i in outside
    ]
    return [Finding.of("written_only", *lines, elements=f"elements of {array} with {' and '.join(some)}")]


def elements(array: str, at: int, places: np.ndarray) -> str:
    """`tile[0] to tile[87] and tile[256] to tile[339]`, `8 rows of 11 elements, 34 apart, from tile[0] to tile[248]`; "" if the
    element `at` is between two of many."""
    places = np.unique(places)
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    first, last = f"{array}[{places[0]}]", f"{array}[{places[-1]}]"
    apart = {int(b[0] - a[0]) for a, b in zip(runs, runs[1:], strict=False)}
    if len(runs) <= MOST_RUNS:
        names = [f"{array}[{r[0]}]" + f" to {array}[{r[-1]}]" * (len(r) > 1) for r in runs]
        return either(names, "and")
    if len(apart) == 1 and len({len(r) for r in runs}) == 1:
        one = "elements" if len(runs[0]) == 1 else f"rows of {len(runs[0])} elements"
        return f"{len(runs)} {one}, {apart.pop()} apart, from {first} to {last}"
    return "" if places[0] <= at <= places[-1] else f"elements from {first} to {last}"
