"""The course checks itself, without a device: declarations and references.

Stubs are derived from the solutions, so this holds in a checkout where a student has edited or deleted them.
"""

from __future__ import annotations

import re

import pytest

from backwarp.course.checkout import Course
from backwarp.course.stubs import stub_text
from backwarp.maintain.check_cases import references
from tests import ROOT

COURSE = Course(ROOT)
IDS = COURSE.ids()


def test_the_solutions_mirror_the_puzzles():
    solutions = sorted(p.parent.name for p in (COURSE.root / "solutions").glob("[0-9]*/*.*"))
    assert solutions == sorted(IDS)


@pytest.mark.parametrize("puzzle_id", IDS)
def test_a_puzzle_is_complete(puzzle_id):
    puzzle = COURSE.load(puzzle_id)
    stub, solution = stub_text(puzzle), puzzle.solution_path.read_text(encoding="utf-8")
    assert "TODO(1)" in stub and "SOLUTION" not in stub and stub.split() != solution.split()
    lesson = puzzle.lesson_path.read_text(encoding="utf-8")
    for kernel in puzzle.kernels:
        assert kernel.name in stub and kernel.name in lesson
    assert len(puzzle.hints) >= 3 and all(hint.strip() for hint in puzzle.hints)
    assert puzzle.title and puzzle.teaches and puzzle.lines


@pytest.mark.sampled
@pytest.mark.parametrize("puzzle_id", IDS)
def test_the_references_give_finite_values_in_every_case(puzzle_id):
    assert [*references(COURSE.load(puzzle_id))] == []


AXES = {"H": "W", "W": "H", "R": "S", "S": "R", "_h": "_w", "_w": "_h"}  # what a slip exchanges


def test_no_slip_between_rows_and_columns_is_unseen_in_the_size_of_the_output():
    """Where a solution computes an extent from sizes, each name of the other axis in its place changes a case."""
    unseen, tried = [], 0
    for puzzle in (p for p in COURSE.puzzles() if not p.program):
        text = puzzle.solution_path.read_text()
        for name, formula in re.findall(r"int (\w+_out) = ([\w\s+*/()-]+);", text):
            for found in re.finditer(r"\w+?(_[hw]\b)|\b[HWRS]\b", formula):
                tried += 1
                old, axis = found[0], found[1] or found[0]
                new = old.removesuffix(axis) + AXES[axis]
                slip = formula[: found.start()] + new + formula[found.end() :]
                right, wrong = (compile(text.replace("/", "//"), name, "eval") for text in (formula, slip))
                if all(eval(right, {}, case.dims) == eval(wrong, {}, case.dims) for case in puzzle.cases):
                    unseen.append(f"{puzzle.id}, {name}: {new} for {old}")
    assert tried > 50 and not unseen


def test_a_list_reads_part_and_title_without_executing_declarations(monkeypatch):
    declared = [(p.part, p.title) for p in COURSE.puzzles()]
    monkeypatch.setattr("backwarp.course.checkout.load_puzzle", None)
    assert [COURSE.heading(i) for i in COURSE.ids()] == declared
