"""What an element is the sum of, followed back through records, beside the terms of the right answer."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.virtual.replay.record import MATRIX, Record
from backwarp.devices.virtual.replay.replay import Replay
from backwarp.errors import CourseError
from backwarp.grading.probes.budget import Spent
from backwarp.grading.probes.summed import LEAST, numbered
from backwarp.grading.recorded import record_file
from backwarp.grading.trace import AGAIN, FOREIGN, RIGHT, ZERO, trace
from backwarp.report.trace import lines_of
from backwarp.step import traced
from tests import sampled
from tests.grading.test_recorded import course, wrong_kernel

#: whose outputs are sums: through loops, tiles, a tree, shuffles, atomics, float4, register tiles, copies in the background
SUMS = ["02", "09", "13", "19", "20", "21", "24", "27", "31", "34"]


def of_wrong(name: str, tmp_path, element: str = ""):
    """(the trace of a wrong kernel, its text)"""
    puzzle, source = wrong_kernel(name)
    (tmp_path / "kernel.cu").write_text(source)
    recorded = record_file(puzzle, tmp_path / "kernel.cu")
    replay, found = traced(recorded, element)
    return found, "\n".join("".join(part for part, _ in line) for line in lines_of(recorded, replay, found))


@pytest.mark.parametrize("number", sampled(SUMS, every=5))
def test_a_solution_has_the_terms_of_the_right_answer(number):
    puzzle = course().load(number)
    recorded = record_file(puzzle, puzzle.solution_path, kernel=puzzle.kernels[0].name)
    replay, output = Replay(Record(recorded.record)), recorded.kernel.outputs[0]
    size = int(np.prod(output.shape(puzzle.full_dims(recorded.case))))
    for flat in {0, size // 2, size - 1}:
        found = trace(recorded, replay, output.name, flat)
        assert found.expected and not found.missing and {a.verdict for a in found.added} <= {RIGHT, ZERO}
        assert sum(a.verdict == RIGHT for a in found.added) == found.expected


def test_a_term_that_is_missing_is_named(tmp_path):
    found, said = of_wrong("bound", tmp_path, "m=0,n=0")
    assert [a.verdict for a in found.added] == [RIGHT] * 3 and found.expected == 4
    assert found.missing == [(("A", 3), ("B", 9))]
    assert "missing: A[m=0,k=3]" in said and "k = 2" in said and "line 29" in said


def test_terms_are_followed_through_the_fragments_of_a_warp(tmp_path):
    """Of tiles whose halves are put together by shifts. B's tile is loaded as it is stored, not transposed."""
    found, said = of_wrong("fragment", tmp_path, "m=0,n=0")
    verdicts = [a.verdict for a in found.added]
    assert verdicts.count(RIGHT) == 3 and set(verdicts) == {RIGHT, ZERO} and len(found.missing) == 14
    assert "A[m=0,k=1] (" in said and "missing: A[m=0,k=1]" in said
    puzzle = course().load("35")
    recorded = record_file(puzzle, puzzle.solution_path, kernel="matmul_half")
    replay, found = traced(recorded, "m=0,n=0")
    assert [a.verdict for a in found.added if a.verdict != ZERO] == [RIGHT] * 17 and not found.missing
    of_b = (a for a in replay.record.accesses if a["how"] == MATRIX and replay.named(a) == "b[0]")
    gets = replay.said(
        next(of_b)
    )  # transposed: a register has two rows of a column, whose pieces are swizzled
    assert (
        gets.startswith("gives the row from b[0], gets b[0] ") and " b[72] " in gets and " b[1] " not in gets
    )


@pytest.mark.soak  # as above, with another kernel
def test_a_term_of_another_element_is_marked(tmp_path):
    found, said = of_wrong("index", tmp_path)
    verdicts = [a.verdict for a in found.added]
    assert FOREIGN in verdicts and AGAIN not in verdicts and len(found.missing) == verdicts.count(FOREIGN)
    assert "r = 1" in said and "<- no term of it" in said


def test_one_of_several_outputs_has_to_be_named():
    puzzle = course().load("08")
    recorded = record_file(puzzle, puzzle.solution_path, kernel=puzzle.kernels[0].name)
    first, second = (a.name for a in recorded.kernel.outputs)
    with pytest.raises(CourseError) as said:
        traced(recorded, "b=0")
    assert f"{first}[b=0]" in str(said.value) and f"{second}[b=0]" in str(said.value)


def test_an_array_with_more_elements_than_there_are_numbers_is_given_up():
    with pytest.raises(Spent):
        numbered(np.random.default_rng(1), np.zeros(LEAST + 1))


def test_what_is_no_output_is_said(tmp_path):
    for element, says in (("A[0]", "no output"), ("q=3[", "no element"), ("9,9,9", "no element")):
        with pytest.raises(CourseError, match=says):
            of_wrong("bound", tmp_path, element)
