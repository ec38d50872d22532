"""How an element of an output came about: what was added, by which thread and where, beside the terms of the right answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..devices.virtual.replay.replay import Replay
from ..devices.virtual.replay.slices import Leaf, Slice
from .probes.budget import Budget, Spent
from .probes.summed import FLOATS, LEAST, is_sum, numbered, parts_of, right_results, terms
from .recorded import Recorded

RIGHT, AGAIN, FOREIGN, ZERO = "", "again", "no term of it", "times 0"
WORK = 20_000  # computations of the right answer


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
    products that are not there; expected: how many there are to be, or None."""

    array: str
    flat: int
    writes: list[tuple[int, int, float | None]]
    added: list[Added]
    missing: list[tuple[Leaf, ...]]
    expected: int | None


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
    want = _wanted(recorded, array, flat)
    left = list(want or ())
    added = []
    for at, term in rows:
        verdict = None if want is None else _verdict(set(term.leaves), want, left)
        verdict = ZERO if term.is_zero and verdict in (AGAIN, FOREIGN) else verdict
        added.append(Added(term.node[0], at, term.leaves, verdict))
    return Trace(
        array, flat, writes, added, [tuple(sorted(w)) for w in left], None if want is None else len(want)
    )


def _verdict(own: set[Leaf], want: list[frozenset[Leaf]], left: list[frozenset[Leaf]]) -> str:
    """What a product is; what it accounts for is taken out of `left`. It may have more factors than are looked at, such as a
    scale."""
    used = [w for w in left if w <= own]
    for w in used:
        left.remove(w)
    rest = own.difference(*used)
    if used and not rest:
        return RIGHT
    return AGAIN if not rest or any(w <= own for w in want) else FOREIGN


def _wanted(recorded: Recorded, array: str, flat: int) -> list[frozenset[Leaf]] | None:
    """The products that the right answer is the sum of; None if it is none, or finding out takes too long."""
    kernel, arrays = recorded.kernel, recorded.arrays
    output = next((a for a in kernel.outputs if a.name == array), None)
    floats = [a for a in kernel.arrays if a.is_input and a.dtype in FLOATS]
    right = right_results(kernel, recorded.puzzle.full_dims(recorded.case), Budget(WORK))
    zeros = {**arrays, **{a.name: np.zeros_like(arrays[a.name]) for a in floats}}
    rng = np.random.default_rng(1)
    numbers = {a.name: numbered(rng, arrays[a.name], LEAST) for a in floats}
    found: list[frozenset[Leaf]] = []
    try:
        for part in parts_of(right, zeros, numbers, floats, array) if output else ():
            chosen = sorted(part, key=lambda a: arrays[a.name].size)
            inputs = {**zeros, **{a.name: numbers[a.name] for a in chosen[1:]}}
            got = terms(output, chosen, inputs, right)
            if got is None or not is_sum(got, inputs, right):
                return None
            names = [a.name for a in got.arrays[1:]]
            indices = [got.flat(n + 1) for n in range(len(names))]
            for i in np.flatnonzero(got.flat(0) == flat).tolist():
                found.append(
                    frozenset((name, int(index[i])) for name, index in zip(names, indices, strict=True))
                )
    except Spent:
        return None
    return found or None
