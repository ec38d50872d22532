"""Which elements of a shared-memory tile had been written before one was read that had not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np

from ...course.declare import Puzzle
from ...cuda.accesses import is_divided
from ...cuda.values import tunables
from ...devices.virtual.replay.record import LOAD, WRITING, Record
from ...errors import KernelFault
from ..compare import either
from ..findings import Finding
from ..race_timeline import recorded
from ..runs import Outcome, Setup
from ..slips.only_store import only_store

ORDINALS = "first", "second", "third", "fourth"
MOST_RUNS = 3  # ranges of elements that are listed


def explain(puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int) -> list[Finding]:
    """What to say about the fault in an outcome, which is reproduced with all accesses recorded."""
    fault = failed.error
    if fault.kind != "uninitialised-read" or fault.space != "shared" or failed.case.stress:
        return []
    _, record = recorded(puzzle, source, failed, setup, seed)
    if not record or record.full or is_divided(fault.array, source):
        return []
    launch = failed.kernel.launch(dict(puzzle.full_dims(failed.case)), tunables(source))
    before = written_before(fault, record, launch.shared_mem)
    nothing = any(f.kind == "nothing_written" for f in before)
    return before + (only_store(fault.array, failed.kernel, source) if nothing else [])


def written_before(fault: KernelFault, record: Record, dynamic: int = 0) -> list[Finding]:
    """`By then, line 30 has written only elements from tile[0] to tile[271].` dynamic: bytes of dynamic shared memory."""
    at = [int(n) for n in re.findall(r"\d+", fault.index)]
    shape = [int(n) for n in re.findall(r"\d+", fault.shape)] or [0]
    known = [n for n, held in enumerate(record.arrays) if (held.name, held.space) == (fault.array, "shared")]
    if not fault.size or len(shape) != len(at) or len(at) > len(ORDINALS) or len(known) != 1:
        return []
    size, flat = fault.size, sum(n * prod(shape[i + 1 :]) for i, n in enumerate(at))
    who, a = record.who_of(fault.thread, fault.block), record.accesses
    a = a[(a["array"] == known[0]) & (a["who"] >> 10 == who >> 10)]
    a = a[np.argsort(a["row"], kind="stable")]
    writes = np.isin(a["how"], WRITING)
    mine = (a["who"] == who) & (a["line"] == fault.line) & (a["how"] == LOAD) & (a["offset"] == size * flat)
    unwritten = (i for i in np.flatnonzero(mine).tolist() if flat not in elements_of(a[:i][writes[:i]], size))
    read = next(unwritten, None)
    if read is None:
        return []
    before = a[:read][writes[:read]]
    places, most = elements_of(before, size), prod(shape) if shape != [0] else dynamic // size
    lines = sorted({int(n) for n in before["line"]})
    return described(fault.array, at, [n for n in places.tolist() if 0 <= n < most], shape, lines)


def elements_of(accesses: np.ndarray, size: int) -> np.ndarray:
    """The elements of a size that accesses reach, each once."""
    each = np.maximum(1, accesses["nbytes"] // size).astype(int)
    nth = np.arange(each.sum()) - np.repeat(each.cumsum() - each, each)
    return np.unique(np.repeat(accesses["offset"] // size, each) + nth)


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
    spans = ((ORDINALS[i], *ends[i]) for i in outside)
    some = [f"{nth} index {first}" + f" to {last}" * (last > first) for nth, first, last in spans]
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
