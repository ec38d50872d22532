"""Which elements of the inputs every element of an output depends on, found by changing them one by one.

This shows which elements a wrong kernel reads for what, however it is written, even if the right result is
not a sum but, say, a maximum or a softmax.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...course.declare import Kernel
from ...course.parameters import Array
from ..compare import axis_index
from ..findings import Finding
from .budget import Budget
from .formulas import alike, described
from .one_element import elements
from .summed import Arrays, Run, Terms, located, right_results

LARGEST = 1000  # elements of an input
UP, DOWN = 2.0, -2.0  # in multiples of the largest element
OTHERS = (3, 4)  # seeds of other inputs
MOVES = (UP, DOWN, 0.1, -0.1, 0.5)


def explain(
    kernel: Kernel, dims: Mapping[str, int], arrays: Arrays, run: Run, budget: Budget
) -> Finding | None:
    """Where an output depends on other elements than it should; None if it does not. Errors: Spent."""
    right, arrays = right_results(kernel, dims, budget), with_no_zeros(kernel, arrays)
    first = run(arrays)
    if first is None:
        return None
    for output in (a for a in kernel.outputs if a.dtype == "float32" and a.role == "out"):
        if not np.isfinite(first[output.name]).all():
            continue
        for a in kernel.arrays:
            if a.role != "in" or a.dtype != "float32" or not 1 < arrays[a.name].size <= LARGEST:
                continue
            every = range(arrays[a.name].size)
            up, down = (changing(output, a, arrays, right, (far,), every) for far in (UP, DOWN))
            move = UP if up and down and len(up.at) >= len(down.at) else DOWN
            want, got = (up if move is UP else down), changing(output, a, arrays, run, (move,), every)
            if not want or not got or alike(want, got):
                continue
            doubtful = sorted(set(changed(want, got)))
            want = merged(want, changing(output, a, arrays, right, MOVES, doubtful))
            got = merged(got, changing(output, a, arrays, run, MOVES, doubtful))
            for seed in OTHERS if got else ():  # of a maximum, one element changes here, and another there
                others = with_no_zeros(kernel, arrays, seed)
                got = got and merged(got, changing(output, a, others, run, (UP, DOWN), doubtful))
            if want and got and len(want.at) and len(got.at) and (what := different(want, got)):
                return what
    return None


def with_no_zeros(kernel: Kernel, arrays: Arrays, seed: int = 2) -> Arrays:
    """The inputs with other numbers, none of which is lost in a product with 0 or beside a larger one."""
    rng = np.random.default_rng(seed)
    floats = [a.name for a in kernel.arrays if a.role == "in" and a.dtype == "float32"]
    return {**arrays, **{n: rng.normal(size=arrays[n].shape).astype(np.float32) for n in floats}}


def changing(
    output: Array,
    array: Array,
    arrays: Arrays,
    run: Run,
    moves: Sequence[float],
    which: Iterable[int],
) -> Terms | None:
    """The pairs (output element, element of `which`) where the first changes when the second is moved by any of these."""
    x, name = arrays[array.name], output.name
    size = np.float32(np.abs(x).max() + 1)
    first, found = run(arrays), set()
    if first is None or not np.isfinite(first[name]).all():
        return None
    for i in which:
        for move in moves:
            moved = x.copy()
            moved.flat[i] += np.float32(move) * size
            done = run({**arrays, array.name: moved})
            if done is None:
                return None
            same = np.isclose(done[name], first[name], rtol=1e-6, atol=0)
            found |= {(int(at), i, 0, 1) for at in np.flatnonzero(~same)}
    return located((output, array), (first[name].shape, x.shape), sorted(found))


def changed(want: Terms, got: Terms) -> list[int]:
    """The elements of the input that occur in only one of the two."""
    alone = [a.only(~np.isin(a.keys(), b.keys())).flat(1).tolist() for a, b in ((want, got), (got, want))]
    return alone[0] + alone[1]


def merged(known: Terms, more: Terms | None) -> Terms | None:
    """The union: what a large change leaves as it is, such as a share of 1, may react to a small one."""
    if more is None:
        return None
    both = np.unique(np.concatenate([known.at, more.at]), axis=0)
    return replace(known, at=both, times=np.ones(len(both)))


def different(want: Terms, got: Terms) -> Finding | None:
    """How two sets of pairs differ; None where they are the same."""
    out, source = (a.name for a in want.arrays)
    lacks, more = (~np.isin(a.keys(), b.keys()) for a, b in ((want, got), (got, want)))
    if not lacks.any() and not more.any():
        return None
    of, where = ("", "") if more.any() else described(want, lacks)
    if of + where:
        return Finding.of("does_not_depend", out=out, of=of, array=source, which=where)
    places = got.flat(0)[more] if more.any() else want.flat(0)[lacks]
    both = sorted(set(places.tolist()) & set(want.flat(0)[lacks].tolist()))
    at = both[0] if both else int(places.min())
    place = axis_index(want.arrays[0].letters, np.unravel_index(at, want.shapes[0]))
    sets = [elements(t.only(t.flat(0) == at)) for t in (got, want)]
    if not all(sets):
        return None
    return Finding.of("depends_on", place=f"{out}[{place}]", now=sets[0], right=sets[1])
