"""Whether a kernel is right only if its inputs rise, or only if they fall.

A running maximum, and everything kept with it, must stay right when a larger element comes later; if the
inputs fall along an axis, none does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...course.declare import Kernel
from ..findings import Finding
from .budget import Budget
from .dependences import with_no_zeros
from .summed import Arrays, Run, right_results

CLOSE = 1e-3


def explain(
    kernel: Kernel, dims: Mapping[str, int], arrays: Arrays, run: Run, budget: Budget
) -> Finding | None:
    """None if the order of the elements makes no such difference. Errors: Spent."""
    right, arrays = right_results(kernel, dims, budget), with_no_zeros(kernel, arrays)
    outputs = [a.name for a in kernel.outputs if a.role == "out"]
    for a in (a for a in kernel.arrays if a.role == "in" and a.dtype == "float32"):
        for axis, (letter, _) in enumerate(a.axes):
            if arrays[a.name].shape[axis] < 3:
                continue
            rising = {**arrays, a.name: np.sort(arrays[a.name], axis)}
            falling = {**arrays, a.name: np.flip(rising[a.name], axis)}
            wrong = [wrong_output(run(inputs), right(inputs), outputs) for inputs in (rising, falling)]
            if wrong[0] is None or wrong[1] is None or bool(wrong[0]) == bool(wrong[1]):
                continue
            good, bad = ("smaller", "larger") if wrong[0] else ("larger", "smaller")
            out = wrong[0] or wrong[1]
            return Finding.of("right_in_one_order", out=out, array=a.name, letter=letter, good=good, bad=bad)
    return None


def wrong_output(done: Arrays | None, right: Arrays, outputs: list[str]) -> str | None:
    """The first wrong output; "" if none is, None if that is not known."""
    if done is None:
        return None
    for name in outputs:
        room = CLOSE * (np.abs(right[name]).max(initial=0.0) + 1)
        if not np.allclose(done[name], right[name], rtol=0, atol=room):
            return name
    return ""
