"""Which elements of the inputs every element of an output changes with, found by changing them one by one.

Where a right result is no sum, such as a maximum or a softmax, this still tells which elements a wrong kernel reads for
what, however it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ...course.declare import Kernel
from ...course.parameters import Array
from ..compare import axis_index, either, right_outputs
from .formulas import described
from .summed import MOST, Arrays, Run, Terms, located

MOST_SHOWN = 6  # elements that are listed one by one


def told(kernel: Kernel, dims: Mapping[str, int], arrays: Arrays, run: Run, over: Callable[[], bool]) -> str:
    """Where an output changes with other elements than it should; "" if it does not. over: see `time_is_over`."""

    def right(inputs: Arrays) -> Arrays:
        with np.errstate(all="ignore"):
            return right_outputs(kernel, inputs, dims)

    for output in (a for a in kernel.outputs if a.dtype == "float32" and a.role == "out"):
        for a in kernel.arrays:
            if a.role != "in" or a.dtype != "float32" or not 1 < arrays[a.name].size <= MOST:
                continue
            ways = changing(output, a, arrays, right, 1, over), changing(output, a, arrays, right, -1, over)
            sign = 1 if ways[0] and ways[1] and len(ways[0].at) >= len(ways[1].at) else -1
            want, got = ways[sign < 0], changing(output, a, arrays, run, sign, over)
            if want and got and len(want.at) and len(got.at) and (says := different(want, got)):
                return says
    return ""


def changing(
    output: Array, array: Array, arrays: Arrays, run: Run, sign: int, over: Callable[[], bool]
) -> Terms | None:
    """The pairs of elements of which one changes where the other becomes very large, or very small."""
    x, name = arrays[array.name], output.name
    far = sign * np.float32(2 * np.abs(x).max() + 1)
    first, found = run(arrays), []
    if first is None or not np.isfinite(first[name]).all():
        return None
    for i in range(x.size):
        changed = x.copy()
        changed.flat[i] = far
        done = run({**arrays, array.name: changed}) if not over() else None
        if done is None:
            return None
        same = np.isclose(done[name], first[name], rtol=1e-6, atol=0)
        found += [(at, i, 0, 1) for at in np.flatnonzero(~same)]
    return located((output, array), (first[name].shape, x.shape), found)


def different(want: Terms, got: Terms) -> str:
    """The sentence on two sets of pairs; "" where they are the same."""
    out, source = (a.name for a in want.arrays)
    lacks, more = (~np.isin(a.keys(), b.keys()) for a, b in ((want, got), (got, want)))
    if not lacks.any() and not more.any():
        return ""
    if not more.any() and (where := described(want, lacks)):
        return f"{out} does not change with the elements of {source} with {where}; it should."
    places = got.flat(0)[more] if more.any() else want.flat(0)[lacks]
    both = sorted(set(places.tolist()) & set(want.flat(0)[lacks].tolist()))
    at = both[0] if both else int(places.min())
    place = axis_index(want.arrays[0].letters, np.unravel_index(at, want.shapes[0]))
    sets = [elements(t.only(t.flat(0) == at)) for t in (got, want)]
    if not all(sets):
        return ""
    return f"{out}[{place}] changes with {sets[0]}; it should change with {sets[1]}."


def elements(terms: Terms) -> str:
    """`input[b=0,c=0,h=0 to 1,w=2 to 3]` where they fill such a block, else one by one; "" for too many."""
    array, at = terms.arrays[1], np.unique(terms.at[:, terms.columns(1)], axis=0)
    if not len(at):
        return f"nothing of {array.name}"
    low, high = at.min(0), at.max(0)
    if np.prod(high - low + 1) == len(at):
        ranges = [
            f"{a}={x}{f' to {y}' * int(x < y)}" for a, x, y in zip(array.letters, low, high, strict=True)
        ]
        return f"{array.name}[{','.join(ranges)}]"
    if len(at) > MOST_SHOWN:
        return ""
    return either([f"{array.name}[{axis_index(array.letters, row)}]" for row in at], "and")
