"""The picture of a tree: its numbers and its pairs are those of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.devices import open_device
from backwarp.errors import CourseError
from backwarp.report.pictures.steps import (
    WATCHED,
    Exchange,
    exchanges,
    needed,
    run,
    steps_of_a_block,
    watched,
)
from tests.report.pictures.test_pictures import no_text_overlaps

COURSE = open_course(Path(__file__).resolve().parent)


def test_every_statement_is_watched():
    found = watched("if (a) f();\nwhile (b) f();", r"f\(\);", "x")
    assert found.count('threadIdx.x < 32) printf("%d %.9g\\n", threadIdx.x, x); f(); }') == 2
    with pytest.raises(CourseError, match="no statement like g"):
        watched("f();", "g", "x")


def test_the_tree_of_puzzle_19():
    puzzle = COURSE.load("19")
    case, kernel = puzzle.cases[0], puzzle.kernels[0]
    source = watched(puzzle.solution_path.read_text(encoding="utf-8"), *WATCHED["19"])
    with open_device("cpu", checks="memory") as device:
        rows = run(device, puzzle, case, kernel, source)
        random = run(device, puzzle, replace(case, inputs={}), kernel, source)
    assert rows[0] == [4, 2, 5, 3, 8, 7] and rows[-1][0] == 29
    steps = exchanges(random)
    assert steps == [Exchange({0: 3, 1: 4, 2: 5}), Exchange({0: 2}), Exchange({0: 1})]
    assert [s.label for s in steps] == ["+ 3", "+ 2", "+ 1"]
    assert needed(steps) == [{0, 1, 2, 3, 4, 5}, {0, 1, 2}, {0, 1}, {0}]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", WATCHED)
def test_no_text_overlaps_or_leaves_the_picture(number):
    puzzle = COURSE.load(number)
    no_text_overlaps(steps_of_a_block(puzzle, puzzle.solution_path.read_text(encoding="utf-8")))
