"""Which elements of a tile had been written when an unwritten one was read."""

from __future__ import annotations

import pytest

from backwarp.course.checkout import Course
from backwarp.grading import failures
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.probes.written import described
from tests.grading.first_cases import small
from tests.grading.said import said
from tests.lenet.small import ROOT

COURSE = Course(ROOT)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("number", "edit", "says"),
    [
        (
            "25",
            ("i < TILE; i += HEIGHT) {\n        int row", "i < TILE / 2; i += HEIGHT) {\n        int row"),
            "By then, line 28 has written only elements of tile with first index 0 to 15.",
        ),
        (
            "22",
            ("if (threadIdx.x % 32 == 0) slot", "if (threadIdx.x == 0) slot"),
            "By then, line 63 has written only elements of slot with first index 0.",
        ),
        (
            "24",
            ("i = y; i < down && top + i < H", "i = y; i < HEIGHT && top + i < H"),
            "line 41 has written only 8 rows of 11 elements, 34 apart, from tile[0] to tile[248].",
        ),
        (
            "24",
            (
                "bool has_output = p < H_out && q < W_out;",
                "bool has_output = true; if (p >= H_out || q >= W_out) return;",
            ),
            "line 41 has written only tile[0] to tile[1] and tile[33] to tile[34].",  # by all threads
        ),
        ("12", ("part[threadIdx.x] = loss[i];", "part[threadIdx.x + 1] = loss[i];"), "part[1] to part[40]."),
        (
            "19",
            ("part[tid] = sum;", "if (tid < 16) part[tid] = sum;"),
            "lines 30 and 38 have written only part[0] to part[15].",
        ),
        (
            "26",
            ("        b[y][x] =", "        if (y < TILE / 2) b[y][x] ="),
            "line 30 has written only elements of b with first index 0 to 7.",
        ),
    ],
)
def test_what_was_written(number, edit, says, tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "added_up", lambda *_, **__: None)
    puzzle = COURSE.load(number)
    source = puzzle.solution_path.read_text(encoding="utf-8")
    assert edit[0] in source
    path = tmp_path / "kernel.cu"
    path.write_text(source.replace(*edit, 1), encoding="utf-8")
    verdict = grade_file(small(puzzle, 6), path, Options("cpu", 0))
    assert verdict.diagnosis == "uninitialised-read"
    told = [line for line in verdict.lines if line.startswith("By then")]
    assert len(told) == bool(says) and all(line.endswith(says) for line in told), verdict.lines


def test_ends_are_told_only_of_an_element_outside():
    assert said(described("x", [4], [0, 2], [0], [7])) == ["By then, line 7 has written only x[0] and x[2]."]
    assert said(described("x", [1], [0, 0], [0], [7])) == ["By then, line 7 has written only x[0]."]
    many = [0, 1, 5, 6, 10, 11, 15, 16]
    assert said(described("x", [3], many, [0], [7])) == [
        "By then, line 7 has written only 4 rows of 2 elements, 5 apart, from x[0] to x[16]."
    ]
    assert said(described("x", [18], [*many, 17], [0], [7])) == [
        "By then, line 7 has written only elements from x[0] to x[17]."
    ]
    assert said(described("x", [3], [*many, 17], [0], [7])) == []
    assert said(described("x", [3], [1], [0], [0, 7])) == []  # in a header
    assert said(described("x", [1, 1], [0, 3], [2, 3], [7, 8, 9])) == [
        "By then, lines 7, 8 and 9 have written only elements of x with second index 0."
    ]
    assert said(described("x", [0, 0], [], [2, 3], [])) == ["By then, nothing of x has been written."]
