"""How an element of an output came about: what was added, by which thread and where, beside the terms of the right answer."""

from __future__ import annotations

from dataclasses import dataclass

from ..devices.virtual.replay.replay import Replay
from ..devices.virtual.replay.slices import Leaf, Slice
from .probes.budget import Spent
from .probes.summed import of_element
from .recorded import Recorded

RIGHT, AGAIN, FOREIGN, ZERO = "", "again", "no term of it", "times 0"


@dataclass(frozen=True)
class Added:
    """One term. leaves: the elements that are multiplied. verdict: RIGHT, AGAIN (it has been added before), FOREIGN, or ZERO; None
    if the right answer is no sum of products. at: the moment."""

    who: int
    at: int
    leaves: tuple[Leaf, ...]
    verdict: str | None


@dataclass(frozen=True)
class Trace:
    """writes: (who, moment, value) of each thread that writes the element, or adds to it. added: in the order of time. missing: the
    products that are not there; expected: how many there are to be, or None.
    is_sum: whether the right answer may be a sum of products."""

    array: str
    flat: int
    writes: list[tuple[int, int, float | None]]
    added: list[Added]
    missing: list[tuple[Leaf, ...]]
    expected: int | None
    is_sum: bool


def trace(recorded: Recorded, replay: Replay, array: str, flat: int) -> Trace:
    """Of an element of an output: its flat index."""
    known = {held.name for held in replay.record.arrays}
    inputs = {a.name for a in recorded.kernel.arrays if a.is_input} & known
    found = Slice(replay, inputs)
    writes, rows = [], []
    for access, node in found.written(array, flat):
        values = replay.record.values(access)
        writes.append((node[0], int(replay.time[access["row"]]), values[0].item() if len(values) else None))
        rows += [(found.step(term.node), term) for term in found.terms(node)]
    rows.sort(key=lambda row: row[0])
    given = recorded.puzzle.full_dims(recorded.case), recorded.arrays
    want, is_sum = None, True
    try:
        want = of_element(recorded.kernel, *given, array, flat)
        is_sum = want is not None
    except Spent:
        pass
    left = list(want or ())
    added = []
    for at, term in rows:
        verdict = None if want is None else _verdict(set(term.leaves), want, left)
        verdict = ZERO if term.is_zero and verdict in (AGAIN, FOREIGN) else verdict
        added.append(Added(term.node[0], at, term.leaves, verdict))
    missing = [tuple(sorted(w)) for w in left]
    return Trace(array, flat, writes, added, missing, None if want is None else len(want), is_sum)


def _verdict(own: set[Leaf], want: list[frozenset[Leaf]], left: list[frozenset[Leaf]]) -> str:
    """What a product is; what it accounts for is taken out of `left`. It may have more factors, such as a scale."""
    used = [w for w in left if w <= own]
    for w in used:
        left.remove(w)
    rest = own.difference(*used)
    if used and not rest:
        return RIGHT
    return AGAIN if not rest or any(w <= own for w in want) else FOREIGN
