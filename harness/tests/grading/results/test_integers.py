"""Wrong places in an input; kernels are Python here."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.declare import Case, In, Int, Kernel, Launch, Out
from backwarp.grading.compare import Expected
from backwarp.grading.results.integers import explain
from backwarp.grading.results.naming import Observation
from tests.grading.said import said

DIMS = {"batch": 2, "C": 2, "H": 6, "W": 8, "P": 3, "Q": 4}
PARAMS = (
    In("x", b="batch", c="C", h="H", w="W"),
    Out("y", b="batch", c="C", p="P", q="Q", dtype="int32"),
    Int("H"),
    Int("W"),
)
KERNEL = Kernel("f", PARAMS, lambda d, t: Launch(1, 1), lambda a, d: places(a["x"]))


def places(x, later=False):
    """Of the largest of every 2 x 2."""
    windows = x.reshape(2, 2, 3, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(2, 2, 3, 4, 4)
    number = 3 - windows[..., ::-1].argmax(-1) if later else windows.argmax(-1)
    p, q = np.indices((3, 4))
    return (2 * p + number // 2) * 8 + 2 * q + number % 2


def told(change, x=None):
    x = np.random.default_rng(0).permutation(192).reshape(2, 2, 6, 8).astype(np.float32) if x is None else x
    right = places(x, later=True)
    case = Case("small", {})
    target = Expected(PARAMS[1], right.astype(float), np.zeros(right.shape), np.zeros(right.shape))
    seen = Observation(case, DIMS, {"x": x}, (target,), {"y": change(x, right).astype(np.int32)}, {})
    return said(explain(KERNEL, [seen]))


@pytest.mark.parametrize(("value", "what"), [(1.0, "equal elements"), (np.nan, "NaN")])
def test_the_first_of_equals(value, what):
    x = np.random.default_rng(0).random((2, 2, 6, 8)).astype(np.float32)
    x[0, 0, 2, 2:4] = value
    says = told(lambda x, right: places(x), x)
    assert says.startswith(
        "y[b=0,c=0,p=1,q=1] should be the place of h=2,w=3; it is that of h=2,w=2, where x is"
    )
    assert says.endswith(f"of several {what}, the last counts.")


def test_a_case_with_elements_that_were_never_written_does_not_hide_the_others():
    x = np.random.default_rng(0).random((2, 2, 6, 8)).astype(np.float32)
    x[0, 0, 2, 2:4] = 1
    right = places(x, later=True)
    target = Expected(PARAMS[1], right.astype(float), np.zeros(right.shape), np.zeros(right.shape))
    written = {"y": np.ones(right.shape, bool)}
    left = {"y": np.zeros(right.shape, bool)}
    seen = [
        Observation(Case(name, {}), DIMS, {"x": x}, (target,), {"y": places(x)}, {}, some)
        for name, some in (("nan", left), ("plain", written))
    ]
    assert said(explain(KERNEL, seen)).endswith("of several equal elements, the last counts.")
    assert not explain(KERNEL, seen[:1])
