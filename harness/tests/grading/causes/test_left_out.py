"""Elements of a tile that a condition leaves out, though they are read."""

from __future__ import annotations

import pytest

from harness.course.checkout import Course
from harness.grading import failures
from harness.grading.grade import Options, grade_file
from harness.tests.grading.first_cases import small
from harness.tests.lenet.small import ROOT

LOAD = "a[y][x] = row < M && start + x < K ? A[row * K + start + x] : 0.0f;"
STORES = "Line 29 stores into a only where"


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (
            "if (row < M && start + x < K) a[y][x] = A[row * K + start + x];",
            f"{STORES} row < M && start + x < K, and elements that it leaves out are read as well: elsewhere, store a 0.",
        ),
        (
            "if (row < M) { if (start + x < K) a[y][x] = A[row * K + start + x]; }",
            f"{STORES} row < M and start + x < K, and elements that it leaves out are read as well: elsewhere, store a 0.",
        ),
        ("if (row < M && start + x < K - 1) a[y][x] = A[row * K + start + x];", ""),  # a 0 would be wrong
        ("if (row < M && start + x < K) a[x][y] = A[row * K + start + x];", ""),
    ],
)
def test_a_zero_is_asked_for_where_it_is_all_that_is_missing(load, says, tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "added_up", lambda *_, **__: "")
    puzzle = Course(ROOT).load("26")
    source = puzzle.solution_path.read_text(encoding="utf-8")
    assert LOAD in source
    path = tmp_path / "kernel.cu"
    path.write_text(source.replace(LOAD, load), encoding="utf-8")
    found = [line for line in grade_file(small(puzzle), path, Options("cpu", 0)).lines if STORES in line]
    assert found == [says] * bool(says)
