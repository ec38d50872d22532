"""Puzzle 12: its stub has four mistakes, which show one after the other, each as a different kind of finding."""

from __future__ import annotations

import re
from functools import cache

import pytest

from backwarp.course.checkout import Course
from backwarp.course.stubs import stub_text
from backwarp.grading.grade import Options
from backwarp.maintain.check import graded
from tests import ROOT, sampled

PUZZLE = Course(ROOT).load("12")
FINDINGS = {
    "bias_gradient": "batch stride",
    "average_pool2d": "wrong",
    "smooth": "out-of-bounds",
    "running_sum": "race",
}


@cache
def grade(text):
    return graded(PUZZLE, text, Options("cpu"))


def parts(text):
    """What stands before the first kernel, then kernel by kernel."""
    return re.split(r"(?m)^(?=// TODO)", text)


def repaired(*names):
    """The stub with the solution's text for some kernels."""
    stub, solution = parts(stub_text(PUZZLE)), parts(PUZZLE.solution_path.read_text(encoding="utf-8"))
    assert len(stub) == len(solution) == 1 + len(FINDINGS)
    right = [any(f" {name}(" in part for name in names) for part in solution]
    return "".join(b if is_right else a for a, b, is_right in zip(stub, solution, right, strict=True))


def test_the_untouched_stub_is_graded_and_all_four_kernels_fail():
    verdict = grade(stub_text(PUZZLE))
    assert verdict.kind == "wrong" and verdict.kernel == "bias_gradient"
    assert verdict.diagnosis == FINDINGS["bias_gradient"]
    kinds = {
        c.kernel: c.kind for c in reversed(verdict.cases) if c.status == "failed"
    }  # in the first case of each
    assert kinds == dict.fromkeys(FINDINGS, "wrong") | {"smooth": "fault", "running_sum": "fault"}


#: each kernel alone: below
@pytest.mark.soak
@pytest.mark.parametrize("count", sampled(range(len(FINDINGS))))
def test_repaired_in_order_the_next_kernel_is_explained(count):
    verdict = grade(repaired(*list(FINDINGS)[:count]))
    assert (verdict.kernel, verdict.diagnosis) == list(FINDINGS.items())[count]
    assert not {c.kernel for c in verdict.cases if c.status == "failed"} & set(list(FINDINGS)[:count])


#: the first of all four is found above
@pytest.mark.parametrize("name", sampled(FINDINGS, ("average_pool2d", "running_sum"), every=0))
def test_each_mistake_alone_has_its_finding(name):
    text = repaired(*(set(FINDINGS) - {name}))
    verdict = graded(PUZZLE, text, Options("cpu", again=False, unnamed=False))
    assert (verdict.kernel, verdict.diagnosis) == (name, FINDINGS[name])


@pytest.mark.soak
def test_the_second_mistake_is_told_by_its_pattern():
    verdict = grade(repaired("bias_gradient"))
    assert verdict.lines[1] == "Wrong: exactly the elements with p=1 (the last)."


def test_stub_and_solution_differ_in_one_line_a_kernel():
    solution = PUZZLE.solution_path.read_text(encoding="utf-8")
    assert solution.count("// BEGIN SOLUTION") == 4 and solution.count("// BEGIN STUB") == 3


def test_the_report_in_the_lesson_is_that_of_the_stub():
    lesson = PUZZLE.lesson_path.read_text(encoding="utf-8")
    assert all(line in lesson for line in grade(stub_text(PUZZLE)).lines)
