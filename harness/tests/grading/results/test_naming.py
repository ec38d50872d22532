"""Naming wrong outputs: only when the name is the only explanation."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.declare import Case, In, Int, Kernel, Launch, Mistake, Out, Puzzle
from backwarp.course.inputs import make_inputs
from backwarp.grading.compare import expectations
from backwarp.grading.results.naming import Observation, explain, name_of, offset
from tests.grading.said import said

CASES = (
    Case("one", {"B": 1, "N": 4, "M": 4}),
    Case("two", {"B": 3, "N": 4, "M": 5}),
    Case("square", {"B": 2, "N": 4, "M": 4}),
)


def total(a, d):
    return a["x"].sum(0)


def unwritten_last_row(a, d):
    y = total(a, d)
    y[-1] = np.nan
    return y


NAMED = {
    "first_only": lambda a, d: a["x"][0],
    "last_only": lambda a, d: a["x"][-1],
    "transposed": lambda a, d: total(a, d).T.reshape(d["N"], d["M"]),
    "last_row_missing": unwritten_last_row,
    "again": lambda a, d: a["x"][0],
    "first_only too": lambda a, d: a["x"][0],
    "second": lambda a, d: a["x"][1],
    "mean": lambda a, d: a["x"].mean(0),
    "fails": lambda a, d: total(a, d).reshape(7, 7),
    "never_known": lambda a, d: total(a, d) * np.nan,
    "overflow": lambda a, d: np.where(total(a, d) > 1, np.nan, total(a, d)),
}


def make_puzzle(names=(), cases=CASES):
    params = (In("x", b="B", n="N", m="M"), Out("y", n="N", m="M"), Int("B"))
    kernel = Kernel("k", params, lambda d, t: Launch(1, 1), total)
    named = tuple(Mistake(n, ("a", "b"), says=f"This is {n.removesuffix(' too')}.", hint=2) for n in names)
    return Puzzle("t", 1, "x", (kernel,), cases, ("a", "b"), mistakes=named, id="01_a")


def foresee(mistake, seen):
    """What the mistake writes: that of NAMED, where it can be computed."""
    try:
        return {"y": NAMED[mistake.name]({"x": seen.arrays["x"].astype(np.float64)}, seen.dims)}
    except ValueError:
        return None


def see(puzzle, case, write):
    """The observation of a kernel that computes `write(a, d)`."""
    kernel, dims = puzzle.kernels[0], puzzle.full_dims(case)
    arrays = make_inputs(puzzle, case, kernel)
    got = np.asarray(write({"x": arrays["x"].astype(np.float64)}, dims)).astype(np.float32)
    poison = np.full(got.shape, np.nan, np.float32)
    targets = expectations(puzzle, case, kernel, arrays)
    return Observation(
        case, dims, arrays, targets, {"y": np.where(np.isnan(got), poison, got)}, {"y": poison}
    )


def claim(write, names=(), cases=CASES):
    puzzle = make_puzzle(names, cases)
    seen = sorted((see(puzzle, case, write) for case in cases), key=lambda o: not o.failed)
    found = explain(puzzle, puzzle.kernels[0], seen, foresee)
    return found and name_of(found)


ALL = ("first_only", "last_only", "transposed", "last_row_missing", "never_known")


@pytest.mark.parametrize("name", ["first_only", "last_only", "last_row_missing"])
def test_a_declared_mistake_is_recognised(name):
    assert claim(NAMED[name], ALL) == name


def test_infinity_is_as_good_as_nan_for_a_value_that_cannot_be_known():
    def write(a, d):
        return np.where(total(a, d) > 1, np.inf, total(a, d))

    assert claim(write, ("overflow", *ALL)) == "overflow"
    assert claim(lambda a, d: np.where(total(a, d) > 1, 7.0, total(a, d)), ("overflow", *ALL)) is None


def test_the_claim_carries_the_sentence_and_the_hint():
    puzzle = make_puzzle(ALL)
    found = explain(puzzle, puzzle.kernels[0], [see(puzzle, CASES[1], NAMED["first_only"])], foresee)
    assert (str(found), found.facts["hint"]) == ("This is first_only.", 2)


def test_two_that_fit_are_not_guessed_between():
    write = NAMED["first_only"]
    assert claim(write, ("first_only", "last_only"), CASES[:1]) is None  # B=1: both are right
    assert claim(write, ("first_only", "again")) is None


def test_two_that_fit_and_say_the_same_are_one_mistake():
    assert claim(NAMED["first_only"], ("first_only", "first_only too")) == "first_only"


def test_where_a_mistake_writes_nothing_a_number_is_another_mistake():
    """The last row is not written by the mistake, and wrong here."""

    def write(a, d):
        y = total(a, d)
        y[-1] = 7.0
        return y

    assert claim(write, ALL) is None


def test_one_that_fits_the_first_case_only_is_not_claimed():
    def write(a, d):
        return a["x"][0] if d["B"] == 2 else a["x"][0] + 1

    assert claim(write, ALL) is None


def test_one_that_would_fail_a_case_that_passed_is_not_claimed():
    def write(a, d):
        return a["x"][0] if d["B"] == 2 else total(a, d)

    assert claim(write, ALL) is None


def test_another_failing_case_tells_two_apart():
    cases = (Case("same", {"B": 2, "N": 1, "M": 1}), CASES[1])
    assert claim(NAMED["second"], ("second", "last_only"), cases[:1]) is None
    assert claim(NAMED["second"], ("second", "last_only"), cases) == "second"


def test_a_mistake_whose_kernel_faults_is_passed_over():
    assert claim(NAMED["first_only"], ("fails", "first_only")) == "first_only"


def test_a_right_output_is_nobodys_mistake():
    assert claim(total, ALL) is None


def test_noise_is_nobodys_mistake():
    noise = np.random.default_rng(1).standard_normal((9, 9))
    assert claim(lambda a, d: total(a, d) + noise[: d["N"], : d["M"]], ALL) is None


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("factor", lambda a, d: -total(a, d)),
        ("factor", lambda a, d: total(a, d) * 2),
        ("divided", lambda a, d: total(a, d) / (d["B"] * 1.0)),
        ("multiplied", lambda a, d: total(a, d) * d["M"]),
        ("half", lambda a, d: a["x"].astype(np.float16).sum(0, dtype=np.float16)),
        ("half", lambda a, d: a["x"].astype(np.float16).astype(np.float64).sum(0)),
    ],
)
def test_what_fits_any_kernel_needs_no_declaration(name, write):
    assert claim(write) == name


def test_a_declared_name_comes_before_a_general_one():
    assert claim(NAMED["mean"], ("mean",)) == "mean"


def test_a_general_name_must_fit_every_failing_case():
    assert claim(lambda a, d: total(a, d) * (2 if d["B"] == 1 else 1.5 + np.arange(d["M"]))) is None


def test_one_element_alone_has_no_factor():
    assert claim(lambda a, d: total(a, d) * 2, cases=(Case("c", {"B": 2, "N": 1, "M": 1}),)) is None


def test_a_size_that_only_some_cases_have_is_no_factor():
    cases = (Case("a", {"B": 2, "N": 2, "M": 3, "D": 4}), Case("b", {"B": 5, "N": 3, "M": 2}))
    assert claim(lambda a, d: total(a, d) * d["M"], cases=cases) == "multiplied"
    assert claim(lambda a, d: total(a, d) * d.get("D", 7), cases=cases) == "factor"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (lambda d: np.log(d["N"] + d["B"] - 1.0) + 2, "Every element of y is 3.3863 too large, in case one."),
        (lambda d: -0.5, "Every element of y is 0.5 too small, in all failing cases."),
        (lambda d: -np.log(d["M"]), "Every element of y is log(M) too small: 1.3863 in case one."),
        (lambda d: d["B"] + 0.0, "Every element of y is B too large: 1 in case one."),
        (lambda d: np.arange(d["M"]), ""),
    ],
)
def test_a_number_too_many(more, says):
    puzzle = make_puzzle(cases=CASES)
    seen = [see(puzzle, case, lambda a, d: total(a, d) + more(d)) for case in CASES]
    assert said(offset([o for o in seen if o.failed])) == says


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda y: np.maximum(y, 0), "Every element of y that should be less than 0 is 0."),
        (lambda y: np.minimum(y, 0.5), "Every element of y that should be greater than 0.5 is 0.5."),
        (lambda y: np.where(y < 0, 0, 2 * y), ""),
        (lambda y: np.where(y < 0, y, 0), "Every element of y that should be greater than 0 is 0."),
        (lambda y: np.where(np.abs(y) < 0.5, 0, y), ""),
    ],
)
def test_what_is_kept_within_a_limit(change, says):
    puzzle = make_puzzle()
    seen = [see(puzzle, case, lambda a, d: change(total(a, d))) for case in CASES]
    claim = explain(puzzle, puzzle.kernels[0], seen, foresee)
    assert (str(claim) if claim else "") == says
