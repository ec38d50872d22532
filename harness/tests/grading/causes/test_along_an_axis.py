"""Outputs that an axis explains."""

from __future__ import annotations

import numpy as np
import pytest

from harness.course.declare import Case, Out
from harness.grading.causes.along_an_axis import right_along
from harness.grading.causes.naming import Observation
from harness.grading.compare import Expected

RIGHT = np.arange(1.0, 13).reshape(3, 4)
MOVED = RIGHT + np.array([[5], [-2], [-3]])


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (
            MOVED,
            "Added up along t, y is right: the terms are all there, but some are at another t than they should",
        ),
        (
            np.tile(RIGHT.sum(0), (3, 1)),
            "Each element of y holds the sum of what belongs to every t: it should take only what belongs to its own t.",
        ),
        (np.tile(RIGHT.sum(0), (3, 1)) + MOVED, ""),
        (RIGHT + 1, ""),
        (RIGHT, ""),
        (RIGHT[::-1, ::-1] * np.nan, ""),
    ],
)
def test_outputs_that_an_axis_explains(got, says):
    target = Expected(Out("y", t="T", k="K"), RIGHT, np.full(RIGHT.shape, 1e-4), RIGHT)
    seen = Observation(Case("c", {}), {}, {}, (target,), {"y": got.astype(np.float32)}, {})
    assert right_along([seen]).startswith(says) and bool(right_along([seen])) == bool(says)
