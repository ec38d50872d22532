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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda x, right: right, ""),
        (
            lambda x, right: right // 8 * 6 + right % 8,
            "In case small, y is 6 * h + w (H = 6); it should be 8 * h + w (W = 8), the place of the element in its plane "
            "of x.",
        ),
        (lambda x, right: right + 100, "Every element of y is 100 too large, in all failing cases."),
        (
            lambda x, right: right + (right % 3 > 1),
            "Every wrong element of y is 1 too large, in all failing cases.",
        ),
        (lambda x, right: right**2, ""),
    ],
)
def test_another_formula(change, says):
    assert told(change) == says


def test_the_number_of_the_tap():
    p, q = np.indices((3, 4))
    says = told(lambda x, right: (right // 8 - 2 * p) * 2 + right % 8 - 2 * q)
    assert says.startswith("In case small, y is 2 * h + w - 4 * p - 2 * q; it should be 8 * h + w (W = 8)")


def test_a_small_case_and_a_special_one_do_not_hide_the_rule():
    """A formula is that of most cases; where all numbers are infinite, there may be none."""
    p, q = np.indices((3, 4))
    x = np.random.default_rng(0).permutation(192).reshape(2, 2, 6, 8).astype(np.float32)
    right = places(x, later=True)
    got = (right // 8 - 2 * p) * 2 + right % 8 - 2 * q
    target = Expected(PARAMS[1], right.astype(float), np.zeros(right.shape), np.zeros(right.shape))
    one = np.ones((1, 1, 1, 1))
    small = Expected(PARAMS[1], 3 * one, 0 * one, 0 * one)

    def seen(name, target, x, got, special=False):
        return Observation(Case(name, {}, special=special), DIMS, {"x": x}, (target,), {"y": got}, {})

    odd = seen("odd", target, x, (got % 2) * right, special=True)
    cases = [
        seen("tiny", small, x[:1, :1, :2, :2], one.astype(int)),
        odd,
        seen("a", target, x, got),
        seen("b", target, x, got),
    ]
    assert said(explain(KERNEL, cases)).startswith("In case a, y is 2 * h + w - 4 * p - 2 * q; it should")


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
