"""A wrong output that is a sum of the right quantities with a wrong sign, one missing, or one too many.

If a result is not a sum of its inputs, a puzzle may declare its summands: `Kernel.parts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...course.declare import Kernel
from ..compare import reference_arrays
from ..findings import Finding

if TYPE_CHECKING:
    from .naming import Observation

WHOLE = 1e-3  # how near a factor must be to an integer
CLOSE = 1e-5


def explain(kernel: Kernel, observations: Sequence[Observation]) -> Finding | None:
    """Which quantities are not added as they should be; None if the output is no such sum."""
    if kernel.parts is None or len(kernel.outputs) > 1 or not any(o.failed for o in observations):
        return None
    name, rows, right, got = kernel.outputs[0].name, [], [], []
    parts: dict[str, np.ndarray] = {}
    for o in observations:
        with np.errstate(all="ignore"):
            parts = kernel.parts(reference_arrays(o.arrays), dict(o.dims))
        table = np.stack([np.ravel(part) for part in parts.values()], 1)
        values = o.results[name].ravel().astype(np.float64)
        known = np.isfinite(table).all(1) & np.isfinite(values) & (np.abs(table).max(1) < 1 / CLOSE)
        rows.append(table[known])
        got.append(values[known])
        right.append(o.targets[0].values.ravel()[known])
    table = np.concatenate(rows)
    factors = [whole_factors(table, np.concatenate(each)) for each in (right, got)]
    if None in factors or factors[0] == factors[1]:
        return None
    if instead := exchanged(list(parts), *factors):
        return Finding.of("summand_exchanged", out=name, now=instead[0], right=instead[1])
    differ = [(part, a, b) for part, a, b in zip(parts, *factors, strict=True) if a != b]
    return Finding.of("summands", out=name, parts=differ)


def exchanged(parts: list[str], right: list[int], now: list[int]) -> tuple[str, str] | None:
    """(the part that is added, the part that should be), if nothing else differs."""
    differ = [i for i, (a, b) in enumerate(zip(right, now, strict=True)) if a != b]
    for i, j in (differ, differ[::-1]) if len(differ) == 2 else ():
        if (right[i], right[j]) == (now[j], now[i]) == (0, 1):
            return parts[i], parts[j]
    return None


def whole_factors(table: np.ndarray, values: np.ndarray) -> list[int] | None:
    """The integer factors with which the columns sum to the values, if they are unique."""
    if len(table) < 2 * table.shape[1]:
        return None
    factors, _, rank, _ = np.linalg.lstsq(table, values, rcond=None)
    whole = np.rint(factors)
    room = CLOSE * (np.abs(table).sum(1) + 1)
    fits = (np.abs(table @ whole - values) <= room).all() and np.abs(factors - whole).max() < WHOLE
    return whole.astype(int).tolist() if rank == table.shape[1] and fits else None
