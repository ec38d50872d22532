"""Which inputs an output changes with, where it is no sum; kernels are Python here."""

from __future__ import annotations

import numpy as np
import pytest

from harness.course.declare import In, Kernel, Launch, Out
from harness.grading.causes.dependences import told

DIMS = {"batch": 2, "H": 4, "P": 2}
PARAMS = (In("x", b="batch", h="H"), Out("y", b="batch", p="P"))


def largest(step=2, window=2, begin=0):
    def run(a, d=DIMS):
        x, y = a["x"], np.zeros((2, 2))
        for b, p in np.ndindex(2, 2):
            y[b, p] = x[b, step * p + begin : step * p + window].max()
        return {"y": y}

    return run


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, ""),
        ({"step": 1}, "y[b=0,p=1] changes with x[b=0,h=1 to 2]; it should change with x[b=0,h=2 to 3]."),
        ({"begin": 1}, "y does not change with the elements of x with h=0 or 2; it should."),
    ],
)
def test_a_maximum(wrong, says):
    kernel = Kernel("f", PARAMS, lambda d, t: Launch(1, 1), lambda a, d: largest()(a)["y"])
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    assert told(kernel, DIMS, {"x": x}, largest(**wrong), lambda: False) == says
