"""Seeded inputs: different everywhere, the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.declare import Case, In, InOut, Kernel, Launch, Out, Puzzle
from backwarp.course.inputs import make_inputs
from backwarp.errors import CourseError

X, Y = In("x", b="B", n="N"), Out("y", n="N")


def made(*params, case=None, seed=0, id="01_a"):
    kernel = Kernel("k", params or (X, Y), lambda d, t: Launch(1, 1), lambda a, d: a["x"][0])
    case = case or Case("c", {"B": 30, "N": 1000})
    return make_inputs(Puzzle("t", 1, "x", (kernel,), (case,), ("h",), id=id), case, kernel, seed)


def test_normal_values_are_all_different_and_none_is_zero():
    x = made()["x"]
    assert (x.shape, x.dtype) == ((30, 1000), np.float32)
    assert len(np.unique(x)) == x.size and x.all()
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05


def test_only_inputs_are_made():
    assert set(made(X, InOut("z", n="N"), Y)) == {"x", "z"}


def test_the_seed_the_puzzle_the_case_and_the_name_decide_and_the_order_does_not():
    other = In("z", b="B", n="N")
    x = made()["x"]
    np.testing.assert_array_equal(x, made(other, X, Y)["x"])
    for different in (
        made(seed=1)["x"],
        made(id="02_a")["x"],
        made(case=Case("d", {"B": 30, "N": 1000}))["x"],
        made(other, Y)["z"],
    ):
        assert not (x == different).any()


def test_integers_are_small_and_never_zero():
    x = made(case=Case("c", {"B": 3, "N": 100}, values="integers"))["x"]
    assert x.dtype == np.float32
    assert sorted(np.unique(x)) == [-4, -3, -2, -1, 1, 2, 3, 4]


@pytest.mark.parametrize(("dtype", "low"), [("int32", -100), ("uint8", 0), ("int64", -100)])
def test_integer_arrays_hold_integers(dtype, low):
    x = made(In("x", dtype=dtype, b="B", n="N"), Y)["x"]
    assert x.dtype == dtype and x.min() == low and x.max() == 100


def test_a_puzzle_can_make_values_from_earlier_inputs():
    labels = In("l", dtype="int32", values=lambda rng, a, d: a["x"].argmax(1), b="B")
    found = made(X, labels, Y)
    np.testing.assert_array_equal(found["l"], found["x"].argmax(1))


def test_zeros_for_arrays_that_are_added_to():
    assert not made(InOut("x", values="zeros", b="B", n="N"))["x"].any()


@pytest.mark.parametrize("values", [[1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]]])
def test_a_case_can_fix_its_inputs(values):
    x = made(case=Case("c", {"B": 2, "N": 3}, inputs={"x": values}))["x"]
    np.testing.assert_array_equal(x, np.float32([[1, 2, 3], [4, 5, 6]]))


def test_a_case_can_say_how_its_inputs_are_made():
    def zeros_between(rng, a, d):
        return rng.standard_normal((d["B"], d["N"])) * [0, 1, 0]

    x = made(case=Case("c", {"B": 2, "N": 3}, inputs={"x": zeros_between}))["x"]
    assert x.dtype == np.float32 and x.astype(bool).tolist() == [[False, True, False]] * 2
    own = In("x", values="zeros", b="B", n="N")
    x = made(own, Y, case=Case("c", {"B": 2, "N": 3}, inputs={"x": "integers"}))["x"]
    assert x.all() and (x == np.round(x)).all()


def test_the_nan_of_inputs_is_not_the_nan_of_poison():
    x = made(case=Case("c", {"B": 1, "N": 3}, inputs={"x": [np.nan, 1, -np.nan]}))["x"]
    assert np.isnan(x).tolist() == [[True, False, True]] and np.signbit(x).tolist() == [[False, False, True]]
    assert not np.isin(x.view(np.uint32), [0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF]).any()


def test_fixed_inputs_of_the_wrong_size_are_refused():
    with pytest.raises(CourseError, match="case c: x has 2 values"):
        made(case=Case("c", {"B": 2, "N": 3}, inputs={"x": [1, 2]}))
