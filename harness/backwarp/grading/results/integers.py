"""Wrong integers: places in an input that hold an equal value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...course.declare import Kernel
from ...course.parameters import Array
from ..compare import Expected, axis_index
from ..findings import Finding

if TYPE_CHECKING:
    from .naming import Observation


def explain(kernel: Kernel, observations: Sequence[Observation]) -> Finding | None:
    """On the only wrong output, if it holds integers."""
    failed = [o for o in observations if o.failed]
    wrong = {t.array.name for o in failed for t in o.targets if not t.right(o.results[t.array.name]).all()}
    if len(wrong) != 1:
        return None
    (name,) = wrong
    seen = [(o, next(t for t in o.targets if t.array.name == name)) for o in failed]
    seen = [(o, t) for o, t in seen if not left_out(o, t)]
    if not seen or not seen[0][1].array.dtype.startswith("int"):
        return None
    source = counted(kernel, *seen[0])
    return of_equals(source, seen) if source else None


def left_out(o: Observation, target: Expected) -> bool:
    """Whether an element was never written."""
    written = o.written.get(target.array.name)
    return written is not None and not written.all()


def counted(kernel: Kernel, o: Observation, target: Expected) -> Array | None:
    """The input whose planes the right integers are indices into; the output has its leading axes."""
    if len(target.array.letters) < 4:
        return None
    for a in (a for a in kernel.arrays if a.role == "in" and a.dtype == "float32"):
        same = a.letters[:-2] == target.array.letters[:-2] and len(a.letters) == len(target.array.letters)
        if same and (target.values >= 0).all() and target.values.max() < plane(a, o):
            return a
    return None


def plane(a: Array, o: Observation) -> int:
    return int(np.prod(o.arrays[a.name].shape[-2:]))


def of_equals(a: Array, seen: Sequence[tuple[Observation, Expected]]) -> Finding | None:
    """Which of several equal elements counts."""
    signs, first = set(), {}
    for o, target in seen:
        got, want = o.results[target.array.name].astype(np.int64), target.values.astype(np.int64)
        wrong = np.argwhere(got != want)
        if (got < 0).any() or (got >= plane(a, o)).any():
            return None
        for at in map(tuple, wrong):
            x = o.arrays[a.name][at[:-2]].ravel()[[got[at], want[at]]]
            if x[0] != x[1] and not np.isnan(x).all():
                return None
            signs.add((bool(want[at] > got[at]), bool(np.isnan(x).all())))
            if not first:
                width = o.arrays[a.name].shape[-1]
                h, w = a.letters[-2:]
                places = [f"{h}={n // width},{w}={n % width}" for n in (want[at], got[at])]
                name = f"{target.array.name}[{axis_index(target.array.letters, at)}]"
                first = dict(name=name, right=places[0], now=places[1])
                first |= dict(array=a.name, value=float(x[0]))
    if not signs:
        return None
    later, nan = signs.pop() if len(signs) == 1 else (None, False)
    return Finding.of("place_of_equal", later=later, nan=nan, **first)
