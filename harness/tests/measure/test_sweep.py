"""`backwarp sweep`: other values of a file's constants, counted and graded."""

from __future__ import annotations

import pytest

from backwarp.course.checkout import open_course
from backwarp.cuda.values import tunables
from backwarp.errors import CourseError
from backwarp.grading.gates import weigh
from backwarp.measure.sweep import combinations, result, sweep, with_values
from backwarp.report.sweep import limits_of, measure_of, picture, share

COURSE = open_course()


@pytest.fixture(scope="module")
def rows():
    puzzle = COURSE.load("26")
    return sweep(puzzle, puzzle.solution_path, {"TILE": [8, 16, 40]})


def test_values_pass_are_over_a_limit_or_cannot_be_launched(rows):
    assert [(row.values["TILE"], result(row)) for row in rows] == [
        (8, "over a limit"),
        (16, "passes"),
        (40, "launch"),
    ]


def test_every_count_is_shown_as_a_share_of_its_limit(rows):
    limit = "matmul", "bytes_per_flop"
    assert limit in limits_of(rows)
    first, second = (measure_of(row, limit) for row in rows[:2])
    assert share(first) > 1 >= share(second)
    # a block of 8 x 8 moves twice the bytes of one of 16 x 16
    assert share(first) / share(second) == pytest.approx(2, rel=0.1)


def test_a_limit_that_only_another_shape_is_over_is_shown_too():
    puzzle = COURSE.load("43")
    row = sweep(puzzle, puzzle.solution_path, {"BK": [30]})[0]
    over = [(m.case, m.quantity) for m in row.measures if not m.passed]
    assert result(row) == "over a limit" and over == [("fc1_weights", "flops")]


def test_a_limit_on_what_constants_decide_is_counted_by_nothing():
    puzzle = COURSE.load("43")
    gate, case = puzzle.gates[0], puzzle.cases[0]
    file = tunables(puzzle.solution_path.read_text())
    for BN, BK, room in ((64, 16, 36), (64, 32, 28), (128, 32, 32), (128, 64, 16)):
        file.update(BN=BN, BK=BK)
        found = weigh(gate, puzzle, case, file, {"lines": {}})
        assert (found.value, found.passed) == (64 - room, room >= 32)


def test_what_passes_is_bold_in_the_plot(rows):
    labels = picture(rows, "tiles").axes[0].get_xticklabels()
    assert [(label.get_text(), label.get_fontweight()) for label in labels] == [
        ("TILE 8", "normal"),
        ("TILE 16", "bold"),
        ("TILE 40", "normal"),
    ]


def test_constants_of_the_file_get_the_values():
    text = (
        "constexpr int A = 1, B = A * 2;\nconstexpr int C = B; // A = 1\nvoid f() { constexpr int D = 4; }\n"
    )
    assert with_values(text, {"A": 8, "C": 3}).splitlines()[:2] == [
        "constexpr int A = 8, B = A * 2;",
        "constexpr int C = 3; // A = 1",
    ]
    with pytest.raises(CourseError, match="A, B, C"):
        with_values(text, {"D": 1})


def test_too_many_combinations_are_refused_before_any_runs():
    assert combinations({"A": [1, 2], "B": [3]}) == [{"A": 1, "B": 3}, {"A": 2, "B": 3}]
    with pytest.raises(CourseError, match="81 combinations"):
        combinations({name: [1, 2, 3] for name in "ABCD"})


def test_what_cannot_be_swept_is_said():
    for number, says in (("09", "no limits"), ("26", "untouched stub")):
        puzzle = COURSE.load(number)
        with pytest.raises(CourseError, match=says):
            sweep(puzzle, puzzle.stub_path, {"TILE": [8]})
