"""The course checks itself, as far as no device is needed: declarations, hints, misconceptions, mutants.

Stubs are derived from the solutions, so this holds in a checkout where a student has edited or deleted them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.course.checkout import Course
from harness.course.declare import stub_text
from harness.course.inputs import make_inputs
from harness.grading import naming
from harness.grading.compare import expectations
from harness.grading.grade import in_order
from harness.grading.naming import Observation, explain, prediction

COURSE = Course(Path(harness.__file__).resolve().parent.parent)
IDS = COURSE.ids()
NAMED = [(i, m.id) for i in IDS if COURSE.load(i).kernels for m in COURSE.load(i).misconceptions]
FAULTS = {
    "out-of-bounds", "misaligned", "uninitialised-read", "race", "barrier-divergence", "shuffle-mask",
    "timeout", "assert", "invalid-address", "read-only", "stack-overflow",
}  # fmt: skip
KINDS = {"wrong", "unwritten", "launch", "schedule", "input-changed", "compile", "slow"}
PYTHON = {"syntax", "exception", "missing-function", "signature", "timeout"}


@cache
def case_of(puzzle_id, case_name, kernel_name):
    """(case, dims, inputs, expectations), computed once for all misconceptions."""
    puzzle = COURSE.load(puzzle_id)
    case, kernel = next(c for c in puzzle.cases if c.name == case_name), puzzle.kernel(kernel_name)
    arrays = make_inputs(puzzle, case, kernel)
    return case, puzzle.full_dims(case), arrays, expectations(puzzle, case, kernel, arrays)


@pytest.fixture(autouse=True, scope="module")
def predicted_once():
    """What a misconception leads to in a case is computed once for all tests of its kernel."""
    known, of = {}, []

    def once(m, kernel, seen):
        if of != [kernel]:
            known.clear()
            of[:] = [kernel]
        key = m.id, id(seen.arrays)  # which `case_of` keeps
        if key not in known:
            known[key] = prediction(m, kernel, seen)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(naming, "prediction", once)
        yield


def stored(values, dtype):
    """Values as an output array holds them; NaN in an array of integers is poison."""
    if dtype.startswith("float"):
        return values.astype(dtype)
    poison = int.from_bytes(b"\x7f" * np.dtype(dtype).itemsize)
    return np.where(np.isnan(values), poison, np.nan_to_num(values)).astype(dtype)


def foreseen(puzzle, case, m):
    """What a kernel with the misconception `m` would show; None where that cannot be known."""
    kernel = puzzle.kernel(m.kernel)
    case, dims, arrays, targets = case_of(puzzle.id, case.name, kernel.name)
    values = naming.prediction(m, kernel, Observation(case, dims, arrays, targets, {}, {}))
    results = {t.array.name: stored(values[t.array.name], t.array.dtype) for t in targets}
    before = {t.array.name: stored(np.full(t.values.shape, np.nan), t.array.dtype) for t in targets}
    return Observation(case, dims, arrays, targets, results, before)


def test_the_solutions_mirror_the_puzzles():
    solutions = sorted(p.parent.name for p in (COURSE.root / "solutions").glob("*/*.*"))
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


@pytest.mark.parametrize("puzzle_id", IDS)
def test_hints_do_not_give_the_solution_away(puzzle_id):
    puzzle = COURSE.load(puzzle_id)
    solution = puzzle.solution_path.read_text(encoding="utf-8")
    secret = re.findall(r"// BEGIN SOLUTION\n(.*?)// END SOLUTION", solution, re.DOTALL)
    lines = {"".join(line.split()) for part in secret for line in part.splitlines()}
    for hint in puzzle.hints:
        flat = "".join(hint.split())
        assert sum(line in flat for line in lines if len(line) > 12) <= 1


@pytest.mark.parametrize("puzzle_id", IDS)
def test_a_mutant_changes_the_solution_and_expects_what_there_is(puzzle_id):
    puzzle = COURSE.load(puzzle_id)
    solution = puzzle.solution_path.read_text(encoding="utf-8")
    known = {m.id for m in puzzle.misconceptions} | FAULTS | KINDS | (PYTHON if puzzle.program else set())
    assert puzzle.mutants
    for mutant in puzzle.mutants:
        assert mutant.apply(solution) != solution
        assert set(mutant.expected) <= known, mutant.name


@pytest.mark.parametrize("puzzle_id", IDS)
def test_the_references_give_finite_values_in_every_case(puzzle_id):
    puzzle = COURSE.load(puzzle_id)
    for case in in_order(puzzle):
        for kernel in puzzle.kernels_of(case):
            for target in case_of(puzzle_id, case.name, kernel.name)[3]:
                finite = np.isfinite(target.values)
                assert (finite.all() or case.special) and np.isfinite(target.tolerance).all()
                allowed = target.magnitude + target.tolerance
                assert (allowed >= np.abs(target.values) * (1 - 1e-6))[finite].all()


@pytest.mark.parametrize(("puzzle_id", "name"), NAMED)
def test_a_misconception_is_named_when_a_kernel_has_it(puzzle_id, name):
    puzzle = COURSE.load(puzzle_id)
    m = next(m for m in puzzle.misconceptions if m.id == name)
    seen = [
        foreseen(puzzle, case, m)
        for case in in_order(puzzle)
        if puzzle.kernel(m.kernel) in puzzle.kernels_of(case) and not case.stress
    ]
    known = [o for o in seen if not any(np.isnan(a).all() for a in o.results.values())]
    failed = [o for o in known if o.failed]
    assert failed, "no case tells this misconception from the right answer"
    claim = explain(puzzle, puzzle.kernel(m.kernel), failed[:1] + [o for o in known if o is not failed[0]])
    assert claim and claim.id == name


def test_the_weight_gradient_has_enough_wrong_kernels():
    puzzle = COURSE.load("09_conv2d_backward_weights")
    wrong = [m for m in puzzle.mutants if m.kernel == "conv2d_backward_weights"]
    named = [m for m in wrong if set(m.expected) & {known.id for known in puzzle.misconceptions}]
    assert len(wrong) >= 21 and len(named) >= 12
