"""Kernels that are right only where their inputs fall, or rise; they are Python here."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.declare import In, Kernel, Launch, Out
from backwarp.grading.probes.budget import Budget
from backwarp.grading.probes.orders import explain
from tests.grading.said import said

DIMS = {"batch": 3, "k": 5}


def largest_and_sum(rescales=True, last=False):
    """The sum of exponentials, as it is found in one pass."""

    def run(a, d=DIMS):
        y = np.zeros(3)
        for b, row in enumerate(a["x"].astype(float)):
            top, total = row[0], 1.0
            for x in row[1:]:
                if x > top or last:
                    total, top = total * np.exp(top - x) if rescales else total, x
                total += np.exp(x - top)
            y[b] = top + np.log(total)
        return {"y": y}

    return run


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, ""),
        (
            {"rescales": False},
            "y is right where each element of x along k is smaller than the one before, and wrong where",
        ),
        ({"rescales": False, "last": True}, ""),
    ],
)
def test_a_sum_that_is_not_rescaled(wrong, says):
    params = (In("x", b="batch", k="k"), Out("y", b="batch"))
    kernel = Kernel("f", params, lambda d, t: Launch(1, 1), lambda a, d: largest_and_sum()(a)["y"])
    x = np.zeros((3, 5), np.float32)
    found = said(explain(kernel, DIMS, {"x": x}, largest_and_sum(**wrong), Budget()))
    assert found.startswith(says) and bool(found) == bool(says)


def test_a_kernel_that_fails_is_not_judged():
    kernel = Kernel("f", (In("x", k="k"), Out("y", k="k")), lambda d, t: Launch(1, 1), lambda a, d: a["x"])
    assert explain(kernel, DIMS, {"x": np.zeros(5, np.float32)}, lambda a: None, Budget()) is None
