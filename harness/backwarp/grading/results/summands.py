"""What one array adds to an output, such as a bias, where it is added several times or not added but, say, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...course.declare import Kernel
from ..compare import outputs_of, reference_arrays
from ..findings import Finding

if TYPE_CHECKING:
    from .naming import Observation


def reference(
    kernel: Kernel, arrays: Mapping[str, np.ndarray], dims: Mapping[str, int]
) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        return outputs_of(kernel, kernel.reference(dict(arrays), dict(dims)), dims)


def times(kernel: Kernel, failed: Sequence[Observation]) -> Finding | None:
    """An array that is added several times, such as a bias that every lane adds: `expected + (n - 1) *
    bias`."""
    name = kernel.outputs[0].name
    for a in kernel.arrays:
        if a.role not in ("in", "constant") or not a.dtype.startswith("float"):
            continue
        counts = set()
        for o in failed:
            arrays = reference_arrays(o.arrays)
            without = reference(kernel, {**arrays, a.name: np.zeros_like(arrays[a.name])}, o.dims)[name]
            share, more = o.targets[0].values - without, o.results[name] - without
            size = float((share**2).sum())
            with np.errstate(invalid="ignore", over="ignore"):
                count = float((share * more).sum()) / size if size else np.nan
            room = (1 + abs(count)) * 4 * np.maximum(o.targets[0].tolerance, 1e-5 * o.targets[0].magnitude)
            fits = np.isfinite(count) and without.any() and bool((np.abs(more - count * share) <= room).all())
            counts.add(round(count) if fits and abs(count - round(count)) < 1e-3 else None)
        if None not in counts and all(n > 1 for n in counts):
            return Finding.of("added_again", array=a.name, counts=sorted(counts))
    return None


JOINED = {"the larger": np.maximum, "the smaller": np.minimum, "the product": np.multiply}


def otherwise_joined(kernel: Kernel, failed: Sequence[Observation]) -> Finding | None:
    """A summand, such as a bias, that is not added to the rest: `fmaxf(sum, bias[k])`."""
    name = kernel.outputs[0].name
    inputs = [a for a in kernel.arrays if a.role in ("in", "constant") and a.dtype.startswith("float")]
    for a in sorted(inputs, key=lambda a: failed[0].arrays[a.name].size):
        left = dict(JOINED)
        for o in failed:
            arrays = reference_arrays(o.arrays)
            without = reference(kernel, {**arrays, a.name: np.zeros_like(arrays[a.name])}, o.dims)[name]
            share, got = o.targets[0].values - without, o.results[name].astype(np.float64)
            room = 4 * np.maximum(o.targets[0].tolerance, 1e-5 * o.targets[0].magnitude)
            if not without.any() or not share.any():
                return None
            with np.errstate(all="ignore"):
                left = {k: f for k, f in left.items() if (np.abs(f(share, without) - got) <= room).all()}
        if len(left) == 1:
            return Finding.of("otherwise_joined", out=name, how=next(iter(left)), array=a.name)
    return None
