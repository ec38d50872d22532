"""Derived cases: every axis is long in one, and values are small and large where outputs follow them."""

from __future__ import annotations

from math import prod

import pytest

from backwarp.course.checkout import Course
from backwarp.course.declare import Case
from backwarp.cuda.values import tunables
from backwarp.grading.derived import ENOUGH, LONG, Axes, Reach, whole
from backwarp.grading.grade import Options, grade_file
from backwarp.maintain.check_cases import SMALL
from tests import ROOT

COURSE = Course(ROOT)
#: exponentials, and arrays of whole numbers
NEVER_SCALED = {"softmax_cross_entropy_forward", "softmax_cross_entropy_backward", "predict_sectors"}


def graded_as(puzzle):
    return whole(puzzle, 1, tunables(puzzle.solution_path.read_text(encoding="utf-8")))


def test_every_axis_of_every_puzzle_is_longer_than_16_bits_can_count():
    missing = set()
    for id in COURSE.ids():
        puzzle = graded_as(COURSE.load(id))
        for kernel in puzzle.kernels:
            cases = [c for c in puzzle.cases if c.once and c.stress and kernel in puzzle.kernels_of(c)]
            dims = [puzzle.full_dims(c) for c in cases]
            longest = {n: max(d[n] for d in dims if n in d) for d in dims for n in d}
            declared = [c.name for c in COURSE.load(id).cases]
            derived = [puzzle.full_dims(c) for c in cases if c.name not in declared]
            assert all(sum(prod(a.shape(d)) for a in kernel.arrays) <= Reach().elements for d in derived)
            axes = Axes(puzzle, kernel, {}).axes
            short = {axis for axis in axes if longest.get(axis, 0) < 1 << 15} - {*kernel.short}
            missing |= {axis for axis in short if not {axis, f"{puzzle.number} {axis}"} & SMALL}
            few = {axis: longest[axis] for axis in axes if 1 << 15 <= longest.get(axis, 0) < LONG[0]}
            assert not few or puzzle.number not in ("01", "02", "07", "09", "13", "20", "26")
    assert not missing


def test_axes_are_shorter_where_a_file_has_nothing_that_only_longer_ones_show():
    puzzle = COURSE.load(COURSE.resolve("02"))
    longest = {}
    for number in (False, True):
        cases = whole(puzzle, 1, {}, number).cases
        longest[number] = {c.name: max(c.dims.values()) for c in cases if c.name.startswith("great_")}
    assert longest[False].keys() == longest[True].keys() == {"great_M", "great_N", "great_K"}
    assert {*longest[False].values()} == {ENOUGH} and {*longest[True].values()} == {LONG[0]}


def test_every_kernel_whose_outputs_follow_its_inputs_gets_small_and_large_ones():
    missing = set()
    for id in COURSE.ids():
        puzzle = graded_as(COURSE.load(id))
        scaled = {k.name for c in puzzle.cases if c.scale for k in puzzle.kernels_of(c)}
        missing |= {k.name for k in puzzle.kernels} - scaled
    assert missing == NEVER_SCALED


SUM = "sum += A[row * K + k] * B[k * N + col];"
#: (puzzle, text, its replacement, the case that shows it)
WRONG = [
    ("02", "int row = b", "short row = b", "great_M"),
    ("02", "int row = b", "unsigned short row = b", "great_M"),
    ("02", "int col = b", "unsigned short col = b", "great_N"),
    ("02", "for (int k", "for (unsigned short k", "great_K"),
    ("02", SUM, f"float t = {SUM[7:-1]}; if (fabsf(t) > 1e-6f) sum += t;", "small_values"),
    ("02", SUM, f"{SUM} sum = fminf(sum, 1e9f);", "large_values"),
    ("02", "for (int k", "for (short k", "great_K"),
    ("11", "learning_rate * v", "fminf(learning_rate, 10.0f) * v", "great_factors"),
    ("30", "int top = p", "short top = p", "great_H"),
    ("32", "int w = q", "short w = q", "great_W"),
    ("02", "for (int k = 0; k < K", "for (int k = 0; k < min(K, 20000)", "great_K"),
    ("25", "int column =", "short column =", "great_columns"),
    ("11", "float slope = gradient[i]", "float slope = fminf(gradient[i], 20.0f)", "large_values"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("number", "old", "new", "case"), WRONG)
def test_what_only_such_cases_show_is_wrong(tmp_path, number, old, new, case):
    puzzle = COURSE.load(COURSE.resolve(number))
    text = puzzle.solution_path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tmp_path / "kernel.cu").write_text(text.replace(old, new), encoding="utf-8")
    verdict = grade_file(puzzle, tmp_path / "kernel.cu", Options("cpu"))
    failed = [c.name for c in verdict.cases if c.status == "failed"]
    assert case in failed and not verdict.passed
    if case.endswith("values"):
        assert any("Every case with ordinary values is right" in line for line in verdict.lines)


def test_a_square_filter_is_gone_through_in_both_directions():
    """A right kernel of puzzle 10 may go through all F * F weights for each of H * W elements."""
    puzzle = COURSE.load("10")
    (kernel,) = puzzle.kernels
    dims = dict(batch=1, C_in=1, C_out=1, H=7, W=8, F=3, threads=2)
    assert Axes(puzzle, kernel, {}).products(puzzle.full_dims(Case("small", dims))) == 7 * 8 * 3 * 3
    (case,) = (c for c in graded_as(puzzle).cases if c.name == "great_F")
    full = puzzle.full_dims(case)
    assert full["F"] > 127 and full["H"] * full["W"] * full["F"] ** 2 <= 1 << 28
