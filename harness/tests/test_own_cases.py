"""`backwarp testing`: a student's cases against wrong kernels."""

from __future__ import annotations

import shutil

import pytest

from backwarp import own_cases
from backwarp.cli import main
from backwarp.course.checkout import Course
from backwarp.course.declare import Case
from backwarp.errors import CourseError
from tests import ROOT

COURSE = Course(ROOT)
SQUARE = {"M": 2, "N": 2, "K": 2, "tx": 2, "ty": 2}
DIFFERENT = {"M": 5, "N": 7, "K": 3, "tx": 4, "ty": 2}


def written(tmp_path, *cases: dict) -> object:
    path = tmp_path / own_cases.FILE
    path.write_text(
        "\n".join("[[case]]\n" + "\n".join(f"{k} = {v}" for k, v in case.items()) for case in cases)
    )
    return path


def test_different_sizes_catch_what_a_square_lets_through():
    puzzle = COURSE.load("02")
    square = own_cases.tested(puzzle, [Case("square", SQUARE)])
    different = own_cases.tested(puzzle, [Case("different", DIFFERENT)])
    assert square.of == different.of and 0 < square.caught < different.caught
    assert len(square.away) == square.of - square.caught
    for wrong, kernel in square.away:
        assert kernel.name == "matmul" and own_cases.changed_lines(puzzle, wrong)


def test_with_several_kernels_each_has_its_wrong_ones():
    puzzle = COURSE.load("04")
    wrong = own_cases.chosen(puzzle)
    assert len(wrong) == len(puzzle.kernels) and all(wrong.values()) and own_cases.chosen(puzzle) == wrong
    found = own_cases.tested(puzzle, [Case("one", dict(puzzle.cases[0].dims))])
    assert found.of == sum(map(len, wrong.values())) or found.of > 0


@pytest.mark.parametrize(
    ("cases", "says"),
    [
        ([{}], "K is missing"),
        ([DIFFERENT | {"Q": 3}], "Q is no size"),
        ([DIFFERENT | {"K": '"three"'}], "no whole number"),
        ([DIFFERENT | {"K": -1}], "no whole number"),
        ([DIFFERENT | {"M": 10**9}], "elements"),
        ([DIFFERENT] * 9, "8 are enough"),
        ([], "has no case"),
    ],
)
def test_what_is_wrong_with_a_case_is_said(tmp_path, cases, says):
    with pytest.raises(CourseError, match=says):
        own_cases.cases_of(COURSE.load("02"), written(tmp_path, *cases))


def test_sizes_that_do_not_go_together_are_refused(tmp_path):
    dims = dict(COURSE.load("09").cases[0].dims) | {"H": 2, "F": 5}
    with pytest.raises(CourseError, match="negative size|do not go together"):
        own_cases.cases_of(COURSE.load("09"), written(tmp_path, dims))


@pytest.mark.parametrize("text", ["[[case", "case = 3", "\xff"])
def test_a_broken_file_is_one_sentence(tmp_path, text):
    path = tmp_path / own_cases.FILE
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CourseError, match="cases.toml"):
        own_cases.cases_of(COURSE.load("02"), path)


def test_the_template_is_a_case_that_works(tmp_path):
    for puzzle in COURSE.puzzles():
        if not puzzle.program:
            own_cases.write_template(puzzle, tmp_path / own_cases.FILE)
            assert own_cases.cases_of(puzzle, tmp_path / own_cases.FILE)


def test_what_got_away_is_shown_to_who_has_solved_the_puzzle(tmp_path, monkeypatch, capsys):
    for folder in ("puzzles/02_matmul", "solutions/02_matmul"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "solutions/equivalent.toml", tmp_path / "solutions")
    monkeypatch.chdir(tmp_path)

    def said() -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["testing", "02"])
        return end.value.code, capsys.readouterr().out

    assert "is new" in said()[1]
    written(tmp_path / "puzzles/02_matmul", SQUARE)
    status, before = said()
    assert status == 1 and "is shown here" in before and "in the place of" not in before
    shutil.copy(ROOT / "solutions/02_matmul/kernel.cu", tmp_path / "puzzles/02_matmul/kernel.cu")
    with pytest.raises(SystemExit):
        main(["grade", "02"])
    capsys.readouterr()
    assert "in the place of" in said()[1]
