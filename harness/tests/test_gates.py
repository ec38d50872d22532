"""Counted gates: right and fast passes, right and slow fails with the line that costs most."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness import gates
from harness.checkout import Course
from harness.course import CourseError, Gate
from harness.grade import Options, grade_file
from harness.profile import profile_file
from harness.report.profile import show_profile
from harness.report.text import verdict_lines

COURSE = Course(Path(harness.__file__).resolve().parent.parent)
SAYS = "Neighbouring threads should touch neighbouring elements."
BACKWARDS = """extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i];
    int j = i % 32 * (n / 32) + i / 32;
    if (n % 32) j = i;
    c[j] = (j == i ? x : a[j]) + b[j];
}
"""


def puzzle_with(*found):
    puzzle = COURSE.load("01_vector_add")
    dims = {"n": 1024, "threads": 256}
    cases = (*puzzle.cases, replace(puzzle.cases[0], name="counted", dims=dims, inputs={}, check="reference"))
    return replace(puzzle, cases=cases, gates=found)


def graded(tmp_path, source, *found):
    path = tmp_path / "kernel.cu"
    path.write_text(source)
    return grade_file(puzzle_with(*found), path, Options("cpu"))


def solution():
    return COURSE.load("01_vector_add").solution_path.read_text()


def gate(quantity, most, **more):
    return Gate(quantity, most, SAYS, case="counted", **more)


def test_the_solution_moves_what_it_must_and_says_so(tmp_path):
    verdict = graded(tmp_path, solution(), gate("global_bytes", 3 * 4 * 1024), gate("sectors_per_request", 4))
    assert verdict.passed
    assert [m["value"] for m in verdict.gates] == [12288, 4.0]
    assert verdict.lines[0] == "vector_add: 12,288 bytes of global memory moved, target at most 12,288"


def test_a_right_kernel_that_strides_is_not_yet_fast(tmp_path):
    verdict = graded(tmp_path, BACKWARDS, gate("sectors_per_store", lambda d: d["n"] / 256, below=32))
    assert (verdict.status, verdict.kind, verdict.diagnosis, verdict.exit_status) == ("failed", "slow", "slow", 1)
    text = "\n".join("".join(t for t, _ in line) for line in verdict_lines(verdict))
    assert "right, not yet fast   counted: n=1024 threads=256" in text
    assert "32 sectors per store, target at most 4 (one rung below: 32)" in text
    assert "7 |     c[j] = (j == i ? x : a[j]) + b[j];" in text and SAYS in text
    assert "Next: backwarp profile 01" in text


def test_a_wrong_kernel_is_not_counted(tmp_path):
    verdict = graded(tmp_path, BACKWARDS.replace("+ b[j]", "- b[j]"), gate("sectors_per_store", 1))
    assert verdict.kind == "wrong" and verdict.gates == []


def test_several_gates_are_told_together(tmp_path):
    verdict = graded(tmp_path, solution(), gate("global_bytes", 1), gate("global_load_requests", 2))
    assert [m["line_share"] == 1.0 for m in verdict.gates] == [True, True]
    assert "vector_add: 64 global load requests, target at most 2" in verdict.lines


def test_every_quantity_is_a_number(tmp_path):
    verdict = graded(tmp_path, solution(), *(gate(name, 10**9) for name in gates.QUANTITIES))
    assert verdict.passed and len(verdict.gates) == len(gates.QUANTITIES)
    assert all(0 <= m["value"] <= 12288 for m in verdict.gates)


def test_a_profile_says_what_would_pass(tmp_path):
    """Of the gates whose case was counted; where the most of it is, if it is too much."""
    case = COURSE.load("01_vector_add").cases[-1].name
    many, few, elsewhere = Gate("global_requests", 10**9, SAYS), Gate("flops", 0, SAYS), gate("flops", 10**9)
    puzzle, path = puzzle_with(many, few, elsewhere), tmp_path / "kernel.cu"
    path.write_text(solution())
    found, text = profile_file(puzzle, path, case), io.StringIO()
    show_profile(found, text)
    assert [m.passed for m in found.targets] == [True, False]
    assert "To pass backwarp grade 01:\n  ok   vector_add: " in text.getvalue()
    assert "  over vector_add: " in text.getvalue() and " has 100% of it\n" in text.getvalue()


def test_what_is_not_counted_is_a_mistake_of_the_course():
    with pytest.raises(CourseError, match="a gate counts 'sectros'"):
        gates.quantity("sectros")
    with pytest.raises(CourseError, match="counts in 'huge'"):
        replace(COURSE.load("01_vector_add"), gates=(Gate("flops", 1, SAYS, case="huge"),))


@pytest.mark.parametrize(("x", "text"), [(1234567, "1,234,567"), (4.0, "4"), (7.951, "7.95"), (0.03125, "0.0312")])
def test_numbers_are_short(x, text):
    assert gates.number(x) == text
