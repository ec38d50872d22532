"""The picture of a tree: its numbers and its pairs are those of a run."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from harness.checkout import open_course
from harness.devices import open_device
from harness.errors import CourseError
from harness.report.steps import Step, draw_solution, needed, run, steps_of, watched

COURSE = open_course(Path(__file__).resolve().parent)
BARRIER = r"__syncthreads\(\);"
PICTURES = {"19": (BARRIER, "part[tid]"), "20": (r"value \+= __shfl[^;]*;|return value;", "value")}


def test_every_statement_is_watched():
    found = watched("if (a) f();\nwhile (b) f();", r"f\(\);", "x")
    assert found.count('{ printf("%d %d %.9g\\n", blockIdx.x, threadIdx.x, x); f(); }') == 2
    with pytest.raises(CourseError, match="no statement like g"):
        watched("f();", "g", "x")


def test_the_tree_of_puzzle_19():
    puzzle = COURSE.load("19")
    case, kernel = puzzle.cases[0], puzzle.kernels[0]
    source = watched(puzzle.solution_path.read_text(encoding="utf-8"), *PICTURES["19"])
    with open_device("cpu", checks="memory") as device:
        rows = run(device, puzzle, case, kernel, source)
        random = run(device, puzzle, replace(case, inputs={}), kernel, source)
    assert rows[0] == [4, 2, 5, 3, 8, 7] and rows[-1][0] == 29
    steps = steps_of(random)
    assert steps == [Step({0: 3, 1: 4, 2: 5}), Step({0: 2}), Step({0: 1})]
    assert [s.label for s in steps] == ["+ 3", "+ 2", "+ 1"]
    assert needed(steps) == [{0, 1, 2, 3, 4, 5}, {0, 1, 2}, {0, 1}, {0}]


@pytest.mark.parametrize("number", PICTURES)
def test_no_text_overlaps_or_leaves_the_picture(number):
    picture = draw_solution(COURSE.load(number), *PICTURES[number])
    picture.canvas.draw()
    frame = picture.bbox
    boxes = [(t.get_text(), t.get_window_extent()) for t in picture.axes[0].texts if t.get_text()]
    assert all(b.x0 >= 0 and b.y0 >= 0 and b.x1 <= frame.x1 and b.y1 <= frame.y1 for _, b in boxes)
    for (text, a), (other, b) in combinations(boxes, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 0 or down <= 0, f"{text!r} overlaps {other!r}"
