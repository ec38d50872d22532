"""Elements that no product reaches, and that lack what is added to each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...course.declare import Kernel
from ...course.parameters import Array
from .naming import Observation

LEAST = 2  # wrong elements


def bare_elements(kernel: Kernel, seen: Sequence[Observation]) -> str:
    """Every wrong element of the kernel's only output is 0 and should be the bias of its channel."""
    if len(kernel.outputs) != 1:
        return ""
    (output,) = kernel.outputs
    added = [a for a in kernel.arrays if a.is_input and set(a.letters) < set(output.letters)]
    count = 0
    for o in seen:
        (target,) = o.targets
        got, want = o.results[output.name], target.values
        wrong = ~target.right(got)
        count += int(wrong.sum())
        if got[wrong].any():
            return ""
        alone = {a.name: np.broadcast_to(spread(o.arrays[a.name], a, output), want.shape) for a in added}
        added = [a for a in added if np.allclose(alone[a.name][wrong], want[wrong])]
    if count < LEAST or len(added) != 1:
        return ""
    (bias,) = added
    element = f"{bias.name}[{','.join(bias.letters)}]"
    return (
        f"Every wrong element of {output.name} is 0 and should be {element}: no product is added to it, but "
        f"{bias.name} is still to be added."
    )


def spread(values: np.ndarray, array: Array, output: Array) -> np.ndarray:
    """An array with the axes of the output, of size 1 where it has none of its own."""
    order = [array.letters.index(letter) for letter in output.letters if letter in array.letters]
    missing = [i for i, letter in enumerate(output.letters) if letter not in array.letters]
    return np.expand_dims(np.transpose(values.astype(np.float64), order), missing)
