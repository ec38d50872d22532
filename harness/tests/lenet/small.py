"""What the tests of LeNet share: a few digits, and a copy of the course to put puzzles and files into."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from backwarp.course.checkout import Course
from backwarp.lenet import data
from tests import ROOT

DIGITS = data.load()
FEW = replace(
    DIGITS,
    train_images=DIGITS.train_images[:20],
    train_labels=DIGITS.train_labels[:20],
    test_images=DIGITS.test_images[:9],
    test_labels=DIGITS.test_labels[:9],
)


def course_in(folder: Path) -> Course:
    """The course, with room for other puzzles and for the student's state."""
    for part in ("puzzles", "solutions"):
        (folder / part).mkdir()
        for puzzle in (ROOT / part).iterdir():
            (folder / part / puzzle.name).symlink_to(puzzle)
    return Course(folder)
