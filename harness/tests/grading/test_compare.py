"""The tolerance, measured; mismatches and their patterns."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.declare import Case, Gradient, In, InOut, Kernel, Launch, Out, Puzzle
from backwarp.errors import CourseError
from backwarp.grading.compare import (
    ATOL,
    RTOL,
    compare,
    error_map,
    expectations,
    pattern,
    show_pair,
)

ONE = Case("c", {"N": 4, "M": 3})
PARAMS = (In("x", n="N", m="M"), Out("y", n="N", m="M"))


def targets(reference, x, case=ONE, params=PARAMS, gradient=None, **changes):
    kernel = Kernel("k", params, lambda d, t: Launch(1, 1), reference, **changes)
    puzzle = Puzzle("t", 1, "x", (kernel,), (case,), ("h",), gradient_of={"k": gradient} if gradient else {})
    return expectations(puzzle, case, kernel, {"x": x})


def target(x=None, **changes):
    x = np.arange(1, 13, dtype=np.float32).reshape(4, 3) if x is None else x
    return targets(lambda a, d: a["x"], x, **changes)[0]


def sums(terms, how):
    """Sums over axis 0 as a kernel would form them."""
    if how == "sequential":
        return np.cumsum(terms, axis=0, dtype=np.float32)[-1]
    if how == "tree":
        while len(terms) > 1:
            half = len(terms) // 2
            rest = terms[2 * half :]
            terms = np.concatenate([terms[:half] + terms[half : 2 * half], rest])
        return terms[0]
    if how == "double":
        return terms.astype(np.float64).sum(0).astype(np.float32)
    return np.cumsum(terms.astype(np.float16), axis=0, dtype=np.float16)[-1].astype(np.float32)


@pytest.mark.parametrize("count", [1, 4, 9, 150, 10_000, 1_000_000])
def test_the_tolerance_passes_float_sums_and_rejects_half_sums(count):
    rng = np.random.default_rng(count)
    a, b = rng.standard_normal((2, count, 4)).astype(np.float32)
    exact, size = (a.astype(np.float64) * b).sum(0), np.abs(a.astype(np.float64) * b).sum(0)
    errors = {
        how: np.abs(sums(a * b, how) - exact) / size for how in ("sequential", "tree", "double", "half")
    }
    for how in ("sequential", "tree", "double"):
        assert errors[how].max() < RTOL / 50, how
    assert errors["half"].max() > 10 * RTOL


@pytest.mark.parametrize("count", [100, 10_000])
def test_the_tolerance_passes_sums_of_positive_terms(count):
    a = np.abs(np.random.default_rng(0).standard_normal((count, 16))).astype(np.float32)
    assert (np.abs(sums(a, "sequential") - a.astype(np.float64).sum(0)) < RTOL * a.sum(0)).all()


def test_the_tolerance_grows_with_the_terms_and_not_with_the_result():
    x = np.float32([[1e3, -1e3, 0.5]])
    found = targets(lambda a, d: a["x"].sum(1), x, Case("c", {"N": 1, "M": 3}), (PARAMS[0], Out("y", n="N")))[
        0
    ]
    assert found.values == 0.5
    np.testing.assert_allclose(found.tolerance, ATOL + RTOL * 2000.5)


def test_a_declared_magnitude_and_tolerance_are_used():
    found = target(magnitude=lambda a, d: a["x"] * 10, rtol=1e-3, atol=1.0)
    np.testing.assert_allclose(found.tolerance, 1 + 1e-3 * 10 * found.values)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_never_pass(bad):
    found = target(x=np.full((4, 3), np.float32(bad)))
    assert compare(found, np.full((4, 3), np.float32(bad))).count == 12


UNUSUAL = np.float32([[1, np.nan, np.inf], [-np.inf, 2, np.nan], [3, 4, 5], [6, 7, 8]])
SPECIAL = Case("c", {"N": 4, "M": 3}, special=True)


def test_a_special_case_wants_nan_and_infinity_where_the_reference_has_them():
    found = target(x=UNUSUAL, case=SPECIAL)
    poison = np.full((4, 3), np.uint32(0xFFFFFFFF)).view(np.float32)
    assert compare(found, UNUSUAL.copy(), poison) is None
    for index, bad in (((0, 1), 0.0), ((0, 2), -np.inf), ((0, 2), 3e38), ((1, 0), np.nan), ((1, 1), np.inf)):
        got = UNUSUAL.copy()
        got[index] = bad
        assert compare(found, got, poison).count == 1


def test_a_half_that_is_finite_is_not_near_infinity():
    parameters = (PARAMS[0], Out("y", dtype="float16", n="N", m="M"))
    found = targets(lambda a, d: a["x"], UNUSUAL, SPECIAL, parameters)[0]
    got = UNUSUAL.astype(np.float16)
    assert compare(found, got) is None
    got[0, 2] = 65504
    assert compare(found, got).count == 1


def test_an_updated_array_may_have_elements_that_come_out_as_they_were():
    before = np.float32([[1, 2, 3]])
    found = targets(
        lambda a, d: a["x"] + 1, before, Case("c", {"N": 1, "M": 3}), (InOut("x", n="N", m="M"),)
    )[0]
    assert compare(found, before.copy(), before).unwritten == 3
    assert compare(found, np.float32([[1, 7, 3]]), before).unwritten == 0


def test_poison_is_no_expected_nan_unless_the_array_came_in_like_that():
    assert compare(target(x=UNUSUAL, case=SPECIAL), UNUSUAL.copy(), before=UNUSUAL.copy()).count == 2
    inplace = targets(lambda a, d: a["x"], UNUSUAL, SPECIAL, (InOut("x", n="N", m="M"),))[0]
    assert compare(inplace, UNUSUAL.copy(), before=UNUSUAL.copy()) is None


def test_integer_cases_are_compared_for_equality():
    found = target(case=Case("c", {"N": 4, "M": 3}, values="integers"))
    got = found.values.astype(np.float32)
    assert compare(found, got) is None
    got[3, 2] = np.nextafter(got[3, 2], np.float32(0))
    assert compare(found, got).count == 1


def test_integer_cases_that_are_not_exact_are_refused():
    with pytest.raises(CourseError, match="not exact"):
        target(x=np.full((4, 3), 2.0**25, np.float32), case=Case("c", {"N": 4, "M": 3}, values="integers"))


def test_integer_outputs_are_compared_for_equality():
    found = target(params=(PARAMS[0], Out("y", dtype="int32", n="N", m="M")))
    got = found.values.astype(np.int32)
    assert compare(found, got) is None
    got[0, 0] += 1
    assert compare(found, got).first.got == 2


def test_half_outputs_may_be_rounded():
    x = np.float32([[1 / 3]])
    found = target(
        x=x, case=Case("c", {"N": 1, "M": 1}), params=(PARAMS[0], Out("y", dtype="float16", n="N", m="M"))
    )
    assert compare(found, x.astype(np.float16)) is None
    assert compare(found, np.float16(0.99) * x.astype(np.float16))


def test_several_outputs_come_as_a_dict():
    both = (PARAMS[0], Out("y", n="N", m="M"), Out("z", n="N"))
    x = np.ones((4, 3), np.float32)
    y, z = targets(lambda a, d: {"z": a["x"].sum(1), "y": a["x"]}, x, params=both)
    assert (y.values.shape, z.values.shape) == ((4, 3), (4,))
    for wrong in (lambda a, d: {"y": a["x"]}, lambda a, d: {"y": a["x"], "z": a["x"]}):
        with pytest.raises(CourseError, match="the reference of k"):
            targets(wrong, x, params=both)


def test_a_reference_cannot_spoil_the_inputs():
    x = np.ones((4, 3), np.float32)
    targets(lambda a, d: np.multiply(a["x"], 2, out=a["x"]), x)
    assert (x == 1).all()


def test_finite_differences_replace_the_reference():
    case = Case("c", {"N": 4, "M": 3}, check="gradient")
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    for gradient in (
        Gradient(lambda p, a, d: (p * a["x"]).sum()),  # linear in the weights p
        Gradient(lambda p, a, d: (p**2).sum() / 2, at="x"),
    ):
        found = targets(lambda a, d: a["x"], x, case, gradient=gradient)[0]
        np.testing.assert_allclose(found.values, x, rtol=1e-6)
        assert found.by == "by finite differences"
        assert compare(found, x * np.float32(1.002)).expected_by == "by finite differences"


def test_a_mismatch_names_the_first_and_the_worst_element():
    found = target()
    got = found.values.astype(np.float32)
    got[1, 0], got[2, 1] = 5, -100
    wrong = compare(found, got)
    assert (wrong.count, wrong.total) == (2, 12)
    assert (wrong.first.index, wrong.first.got, wrong.first.expected) == ("n=1,m=0", 5, 4)
    assert wrong.worst.index == "n=2,m=1"


def test_unwritten_elements_are_those_that_still_hold_the_poison():
    found = target()
    poison = np.full((4, 3), np.nan, np.float32)
    got = found.values.astype(np.float32)
    got[3] = poison[3]
    got[0, 0] = -poison[0, 0]  # another NaN: the kernel computed it
    wrong = compare(found, got, poison)
    assert (wrong.count, wrong.unwritten) == (4, 3)


def test_the_bits_of_poison_may_have_been_stored():
    found = target()
    poison, got = np.full((4, 3), np.nan, np.float32), found.values.astype(np.float32)
    got[0], got[3] = poison[0], poison[3]
    written = np.zeros((4, 3), bool)
    written[3] = True
    wrong = compare(found, got, poison, written)
    assert (wrong.count, wrong.unwritten, wrong.updated) == (6, 3, False)
    assert wrong.first.index == "n=3,m=0"  # one that has been stored
    errors = np.reshape(error_map(found, got, poison, written)["errors"], (4, 3))
    assert np.isnan(errors[0]).all() and np.isinf(errors[3]).all()


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (np.s_[:], "every element"),
        (np.s_[..., 2], "exactly the elements with s=2 (the last)"),
        (np.s_[-1], "exactly the elements with k=3 (the last)"),
        (np.s_[:, 1:], "exactly the elements with c>=1"),
        (np.s_[:, :2], "exactly the elements with c<=1"),
        (np.s_[1:3], "exactly the elements with 1<=k<=2"),
        (np.s_[2, :, 0], "exactly the elements with k=2 and s=0 (the first)"),
        (np.s_[::2], "exactly the elements with k=0 or 2"),
        (np.s_[[0, 2, 3], 1], "exactly the elements with k=0, 2 or 3 and c=1"),
        (
            (np.array([1, 3]), np.array([0, 2]), np.array([0, 1])),
            "exactly the elements [k=1,c=0,s=0] and [k=3,c=2,s=1]",
        ),
        (
            (np.array([1, 3, 3, 3, 3]), np.array([0, 2, 2, 0, 0]), np.array([0, 1, 0, 1, 0])),
            "all that differ have k=1 or 3 and c=0 or 2 and s<=1",
        ),
    ],
)
def test_the_pattern_of_axes(where, says):
    wrong = np.zeros((4, 3, 3), bool)
    wrong[where] = True
    assert pattern(wrong, "kcs") == says


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (np.s_[10:], "every element from flat index 10 on"),
        (np.s_[1::2], "every 2nd element from flat index 1 on"),
        (np.s_[2::7], "every 7th element from flat index 2 on"),
        (np.s_[3:30:11], "exactly the elements [k=0,n=3], [k=1,n=5] and [k=2,n=7]"),
        (np.s_[1:20:2], "every 2nd element from flat index 1 to 19"),
        (np.s_[4:15], "every element from flat index 4 to 14"),
        (np.array([0, 13, 17, 30, 31, 35]), ""),
    ],
)
def test_the_pattern_of_flat_indices(where, says):
    wrong = np.zeros(36, bool)
    wrong[where] = True
    found = pattern(wrong.reshape(4, 9), "kn")
    assert found == says or not says and "flat" not in found


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ([2, 3, 7], "exactly the elements with i=2, 3 or 7"),
        ([0, 1, 2, 3, 9], "exactly the elements with i=0 to 3 or 9"),
        ([1, 2, 3, 5, 7], "exactly the elements with i=1 to 3, 5 or 7"),
        ([0, 3, 6, 9], "exactly the elements with i=0, 3, ... 9"),
        ([1, 3, 5, 8, 10, 12], ""),
    ],
)
def test_an_irregular_set_is_listed_or_not_told(where, says):
    wrong = np.zeros(13, bool)
    wrong[where] = True
    assert pattern(wrong, "i") == says


def test_a_single_element_has_no_pattern():
    assert pattern(np.ones((1, 1), bool), "ab") == ""


@pytest.mark.parametrize(
    ("got", "want", "shown"),
    [
        (-1.17182, 0.44121, ("-1.1718", "0.44121")),
        (1.00001, 1.00002, ("1.00001", "1.00002")),
        (float("nan"), 1.0, ("nan", "1")),
        (3, 4.0, ("3", "4")),
        (1e20, 0.0, ("1e+20", "0")),
    ],
)
def test_numbers_are_shown_with_the_digits_that_differ(got, want, shown):
    assert show_pair(got, want) == shown
