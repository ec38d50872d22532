"""Wrong outputs that an axis explains: they are right once they are added up along it, or each element is the sum of
what is right along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .naming import Observation

Values = np.ndarray
#: (what the kernel stored, what is right, by how much it may differ, an axis) -> whether the axis explains it
Explains = Callable[[Values, Values, Values, int], bool]


def right_along(seen: Sequence[Observation]) -> str:
    """The sentence on the first wrong output; "" if exactly one axis does not explain it in all failing cases."""
    array, letter = explained(seen, is_moved)
    if letter:
        return (
            f"Added up along {letter}, {array} is right: the terms are all there, but some are at another {letter} than they "
            "should be."
        )
    array, letter = explained(seen, is_summed)
    if letter:
        return (
            f"Each element of {array} holds the sum of what belongs to every {letter}: it should take only what belongs to its "
            f"own {letter}."
        )
    return ""


def explained(seen: Sequence[Observation], explains: Explains) -> tuple[str, str]:
    """(the wrong output, the letter of the one axis that explains it in all failing cases); ("", "") if there is none."""
    wrong = [(o, t) for o in seen for t in o.targets if not t.right(o.results[t.array.name]).all()]
    if not wrong:
        return "", ""
    array = wrong[0][1].array
    left = set(array.letters)
    for o, target in wrong:
        got = o.results[target.array.name].astype(np.float64)
        if target.array is not array or not np.isfinite(got).all() or not target.values.any():
            return "", ""
        left -= {
            letter
            for axis, letter in enumerate(array.letters)
            if not explains(got, target.values, target.tolerance, axis)
        }
    return (array.name, left.pop()) if len(left) == 1 else ("", "")


def is_moved(got: Values, right: Values, tolerance: Values, axis: int) -> bool:
    """Whether the sums along the axis are right."""
    return bool((np.abs(got.sum(axis) - right.sum(axis)) <= tolerance.sum(axis)).all())


def is_summed(got: Values, right: Values, tolerance: Values, axis: int) -> bool:
    """Whether each element is the sum along the axis of the right ones."""
    apart = np.abs(got - right.sum(axis, keepdims=True))
    return bool((apart <= tolerance.sum(axis, keepdims=True)).all())
