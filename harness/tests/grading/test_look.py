"""The command that a verdict names for looking further, and a single case as numbers."""

from __future__ import annotations

import shlex

import pytest

from backwarp import cli
from backwarp.errors import CourseError
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.recorded import record_file
from backwarp.report.case import case_lines
from backwarp.step import traced
from tests import sampled
from tests.grading.test_recorded import course, wrong_kernel


def graded(name: str, tmp_path, **how):
    """(puzzle, file, verdict) of a wrong kernel, without looking for what it computes."""
    puzzle, source = wrong_kernel(name)
    path = tmp_path / "my kernel.cu"
    path.write_text(source)
    return puzzle, path, grade_file(puzzle, path, Options(unnamed=False, again=False, most=1, **how))


@pytest.mark.parametrize(("name", "verb"), sampled([("bound", "trace"), ("no barrier", "step")], every=1))
def test_the_command_leads_to_what_the_verdict_says(name, verb, tmp_path):
    puzzle, path, verdict = graded(name, tmp_path)
    words = shlex.split(verdict.look)
    assert words[:5] == ["backwarp", verb, puzzle.number, "--file", str(path)]
    found = record_file(puzzle, path)
    assert (found.case.name, found.kernel.name) == (verdict.case, verdict.kernel)
    if verb == "trace":
        _, seen = traced(found, words[words.index("--element") + 1])
        assert f"{seen.array}[m=0,n={seen.flat}]" == found.wrong and len(seen.missing) == 1
    else:
        assert found.fault and found.fault.line == verdict.fault["line"] and "--element" not in words


def test_where_the_right_answer_is_no_sum_the_run_is_stepped_through(tmp_path):
    puzzle = course().load("04")
    (tmp_path / "kernel.cu").write_text(puzzle.solution_path.read_text().replace("? 0.0f", "? 1.0f"))
    verdict = grade_file(puzzle, tmp_path / "kernel.cu", Options(unnamed=False, again=False, most=1))
    assert shlex.split(verdict.look)[-2:] == ["--to", f"output[{verdict.mismatches[0]['first']['index']}]"]
    assert " step " in verdict.look and verdict.kind == "wrong"


def test_a_single_case_is_run_and_its_numbers_are_shown(tmp_path):
    _, _, verdict = graded("bound", tmp_path, case="matmul_tiny_2x3")
    assert [(c.name, c.status) for c in verdict.cases] == [("matmul_tiny_2x3", "failed")]
    text = "\n".join("".join(part for part, _ in line) for line in case_lines(verdict))
    assert "    A[m=1,k=0..3]   3  1  2  4\n" in text
    assert "    C[m=0,n=0..2]   *4 *10  -3   expected   3  8 -3\n" in text
    with pytest.raises(CourseError, match="has no case none; it has matmul_tiny_2x3"):
        graded("bound", tmp_path, case="none")


@pytest.mark.parametrize(
    "arguments", [["1", "2", "--case", "x"], ["1", "--case", "x", "--keep", "--file", "y"]]
)
def test_a_single_case_is_of_one_puzzle_and_keeps_nothing(arguments, capsys):
    with pytest.raises(SystemExit) as done:
        cli.main(["grade", *arguments])
    assert done.value.code == 2 and "--case" in capsys.readouterr().err
