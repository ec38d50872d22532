"""Which inputs an output depends on, if it is not a sum; kernels are Python here."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.declare import In, Kernel, Launch, Out
from backwarp.grading.probes.budget import Budget
from backwarp.grading.probes.dependences import explain

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
    assert str(explain(kernel, DIMS, {"x": x}, largest(**wrong), Budget()) or "") == says


def test_what_changes_in_other_inputs_is_not_missing():
    """The larger one of a sum and a bias changes with the sum here, and does not there."""

    def run(a, d=DIMS, keep=np.add):
        x = a["x"]
        return {"y": np.stack([keep(np.abs(x[:, p * 2 : p * 2 + 2]).sum(1), 2.0) for p in (0, 1)], 1)}

    kernel = Kernel("f", PARAMS, lambda d, t: Launch(1, 1), lambda a, d: run(a)["y"])
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    assert explain(kernel, DIMS, {"x": x}, lambda a: run(a, keep=np.maximum), Budget()) is None


def test_a_share_of_nearly_one_changes_too():
    """Beside a far greater element, none of a softmax changes; beside one a little greater, all do."""

    def softmax(a, d=DIMS, rescaled=True):
        y = np.exp(a["x"] - a["x"].max(1, keepdims=True) * rescaled)
        return {"y": y / (y.sum(1, keepdims=True) + (not rescaled))}

    kernel = Kernel(
        "f",
        (In("x", b="batch", h="H"), Out("y", b="batch", h="H")),
        lambda d, t: Launch(1, 1),
        lambda a, d: softmax(a)["y"],
    )
    x = np.zeros((2, 4), np.float32)
    assert explain(kernel, DIMS, {"x": x}, lambda a: softmax(a, rescaled=False), Budget()) is None


def test_elements_of_a_grid():
    def run(a, d=DIMS, step=2):
        return {"y": np.stack([a["x"][:, :3:step].max(1)] * 2, 1)}

    kernel = Kernel("f", PARAMS, lambda d, t: Launch(1, 1), lambda a, d: run(a)["y"])
    x = np.zeros((2, 4), np.float32)
    assert str(explain(kernel, DIMS, {"x": x}, lambda a: run(a, step=1), Budget())) == (
        "y[b=0,p=0] changes with x[b=0,h=0 to 2]; it should change with x[b=0,h={0,2}]."
    )
