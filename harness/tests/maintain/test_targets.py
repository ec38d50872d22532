"""The tables of targets in the lessons are those of the puzzles' gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.maintain.targets import counted, section, with_targets

COURSE = open_course(Path(__file__).resolve().parent)
COUNTED = counted(COURSE)


@pytest.mark.parametrize("puzzle", COUNTED, ids=lambda p: p.id)
def test_every_target_stands_in_the_lesson(puzzle):
    lesson = puzzle.lesson_path.read_text(encoding="utf-8")
    assert with_targets(lesson, puzzle) == lesson, "python -m backwarp.maintain.targets writes it"


def test_a_target_that_the_idea_does_not_need_is_listed():
    assert "| passes over the banks of shared memory | 3,600 | |" in section(COURSE.load("22"))
    assert "with TILE = 16:" in section(COURSE.load("26"))
