"""Kernels that run out of time: those that never end, and those that are only slow."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from backwarp.course.checkout import Course
from backwarp.course.declare import Case
from backwarp.devices import confined_device
from backwarp.devices.child import Child
from backwarp.errors import KernelFault
from backwarp.grading import endless
from backwarp.grading.grade import prepare
from backwarp.grading.runs import Outcome, Pace, Setup, Trial, given
from tests import ROOT

COURSE = Course(ROOT)
ADD = "sum += A[row * K + k] * B[k * N + col];"
#: loops of puzzle 02 through K = 65,600 products, by one thread
SLOW = [
    f"for (int k = 0; k < K; k++) {{ for (int j = 0; j < K; j++) __syncthreads(); {ADD} }}",
    f"for (int k = 0; k < K; k++) {{ for (int j = 0; j < 9999; j++) __syncthreads(); {ADD} }}",
]
NEVER = [
    f"for (unsigned short k = 0; k < K; k++) {{ __syncthreads(); {ADD} }}",
    f"for (int k = 0; k < K; k++) {{ {ADD} if (k > 50000) k--; }}",
    f"for (int k = 0; k < K; k++) {{ {ADD} }} while (K > 40000) __syncthreads();",
]
WRONG = f"for (int k = 0; k < K; k++) {{ for (int j = 0; j < K; j++) __syncthreads(); if (k % 1000) {ADD} }}"


@pytest.mark.parametrize(
    ("loop", "slow"), [*((loop, True) for loop in SLOW), *((loop, False) for loop in (*NEVER, WRONG))]
)
def test_what_is_only_slow_is_told_from_what_never_ends(monkeypatch, loop, slow):
    monkeypatch.setattr(endless, "LIMIT", 0.1)
    puzzle = COURSE.load(COURSE.resolve("02"))
    text = puzzle.solution_path.read_text(encoding="utf-8")
    start = text.index("    for (int k")
    text = text[:start] + loop + text[text.index("    C[row") :]
    with confined_device("cpu", checks="memory", seed=1) as device:
        setup = Setup(device, (1,))
        prepare(setup, puzzle, text, "kernel.cu")
        case = Case("great_K", dict(M=1, N=1, K=65_600, tx=1, ty=1), once="memory")
        trial = Trial(Outcome(case, puzzle.kernels[0]), Pace(longest=0.2))
        trial.begin(puzzle, {}, 1)
        trial.run(setup)
        assert trial.outcome.timed_out
        assert endless.is_slow(trial, puzzle, setup, {}, 1, given) == slow


class Counted:
    """In place of a trial: its launch takes a tenth of a millisecond of processor time for each step along its axis, and no time by the
    clock."""

    spent = 0.0

    def __init__(self, outcome: Outcome, pace: Pace):
        self.outcome, self.limit = outcome, pace.longest

    def begin(self, *given: object) -> None:
        pass

    def run(self, setup: object) -> None:
        takes = self.outcome.case.dims["K"] * 1e-4
        Counted.spent += min(takes, self.limit)
        if takes > self.limit:
            self.outcome.kind, self.outcome.error = "fault", KernelFault("timeout", "", "")


def test_time_is_the_processors_whatever_else_runs(monkeypatch):
    monkeypatch.setattr(endless, "Trial", Counted)
    monkeypatch.setattr(Child, "spent_by_all", lambda: Counted.spent)
    trial = Counted(Outcome(Case("great_K", dict(K=65_600), once="memory"), None), Pace(longest=2.0))
    trial.run(None)
    assert trial.outcome.timed_out
    assert endless.is_slow(trial, None, SimpleNamespace(device=SimpleNamespace(step_budget=1)), {}, 1, given)
