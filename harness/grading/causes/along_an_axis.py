"""Terms that are all there, but in another part of the output: added up along one axis, the output is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .naming import Observation


def right_along(seen: Sequence[Observation]) -> str:
    """The sentence on the first wrong output; "" if it is not right along exactly one axis, in all failing cases."""
    wrong = [(o, t) for o in seen for t in o.targets if not t.right(o.results[t.array.name]).all()]
    if not wrong:
        return ""
    array = wrong[0][1].array
    left = set(array.letters)
    for o, target in wrong:
        got = o.results[target.array.name].astype(np.float64)
        if target.array is not array or not np.isfinite(got).all() or not target.values.any():
            return ""
        for axis, letter in enumerate(array.letters):
            with np.errstate(invalid="ignore"):
                apart = np.abs(got.sum(axis) - target.values.sum(axis))
            if (apart > target.tolerance.sum(axis)).any():
                left.discard(letter)
    if len(left) != 1:
        return ""
    (letter,) = left
    return (
        f"Added up along {letter}, {array.name} is right: the terms are all there, but some are at another {letter} than "
        "they should be."
    )
