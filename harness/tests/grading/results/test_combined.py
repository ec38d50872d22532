"""Results that are sums of the right quantities, wrongly combined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.course.declare import Case, In, Kernel, Launch, Out
from harness.grading.compare import Expected
from harness.grading.results.combined import exchanged, explain
from harness.grading.results.naming import Observation
from harness.tests.grading.said import said


def parts(a, d):
    x = a["x"]
    return {"the largest": x.max(1), "the log of the sum": np.log(np.exp(x).sum(1)), "the first": x[:, 0]}


KERNEL = Kernel(
    "f",
    (In("x", b="B", k="K"), Out("y", b="B")),
    lambda d, t: Launch(1, 1),
    lambda a, d: sum(f * p for f, p in zip((1, 1, -1), parts(a, d).values(), strict=True)),
    parts=parts,
)


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ((1, 1, -1), ""),
        ((1, -1, -1), "In y, the log of the sum is subtracted; it should be added."),
        ((2, 1, -1), "In y, the largest is added twice; it should be added once."),
        ((1, 1, 0), "In y, the first must be subtracted."),
        ((1, 0, 0), "In y, the log of the sum must be added and the first subtracted."),
        (
            (2, -1, -1),
            "In y, the largest is added twice; it should be added once, and the log of the sum is subtracted; it "
            "should be added.",
        ),
        ((0.5, 1, -1), ""),
    ],
)
def test_quantities(factors, says):
    x = np.random.default_rng(3).normal(size=(9, 4)).astype(np.float32)
    right = KERNEL.reference({"x": x}, {})
    got = sum(f * p for f, p in zip(factors, parts({"x": x}, {}).values(), strict=True)).astype(np.float32)
    target = Expected(KERNEL.outputs[0], right, np.full(9, 1e-5), np.abs(right))
    seen = Observation(Case("one", {"B": 9, "K": 4}), {"B": 9, "K": 4}, {"x": x}, (target,), {"y": got}, {})
    assert said(explain(KERNEL, [seen])) == says
    assert explain(replace(KERNEL, parts=None), [seen]) is None


def test_one_quantity_in_place_of_another():
    names = ["the probability", "the label", "the mean"]
    assert exchanged(names, [1, -1, 0], [0, -1, 1]) == ("the mean", "the probability")
    assert exchanged(names, [0, -1, 1], [1, -1, 0]) == ("the probability", "the mean")
    assert not exchanged(names, [1, -1, 0], [0, -1, -1]) and not exchanged(names, [1, -1, 0], [1, 0, 1])
