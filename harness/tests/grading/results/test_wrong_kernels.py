"""What mistakes write is found by running them: all in one module, each in its own namespace."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.declare import Case, In, Int, Kernel, Launch, Mistake, Out, Puzzle, mistakes_in
from backwarp.course.inputs import make_inputs
from backwarp.grading.compare import expectations
from backwarp.grading.results import wrong_kernels
from backwarp.grading.results.naming import Observation
from backwarp.grading.results.wrong_kernels import WrongKernels, with_tunables

SOLUTION = """\
constexpr int SIDE = 4;
extern "C" __global__ void other(const int* x, int* y, int n) {
    y[threadIdx.x] = 7;
}
extern "C" __global__ void twice(const int* x, int* y, int n) {
    int i = blockIdx.x * SIDE + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
MISTAKES = mistakes_in(
    "twice",
    Mistake("thrice", ("2 * x", "3 * x"), says="It is three times x."),
    Mistake("first block", ("blockIdx.x * SIDE + ", ""), says="Only the first block works."),
    Mistake("last missing", ("i < n", "i < n - 1"), says="The last is missing."),
    Mistake("side", ("x[i];", "SIDE;"), says="It is the side."),
    Mistake("other side", (("SIDE = 4", "SIDE = 2"), ("x[i];", "SIDE;")), says="It is another side."),
    Mistake("behind", ("x[i];", "x[i + n];"), says="It faults."),
    Mistake("never ends", ("int i =", "while (n) {}\n    int i ="), says="It hangs."),
    Mistake("silent", ("2 * x", "4 * x")),
)
PARAMS = (In("x", n="n", dtype="int32"), Out("y", n="n", dtype="int32"), Int("n"))
TWICE, OTHER = (
    Kernel(name, PARAMS, lambda d, t: Launch(-(-d["n"] // t["SIDE"]), t["SIDE"]), lambda a, d: 2 * a["x"])
    for name in ("twice", "other")
)
CASE = Case("c", {"n": 7})


@pytest.fixture
def puzzle(tmp_path):
    rest = dict(title="t", part=1, teaches="x", hints=("h",), cases=(CASE,), id="01_a", root=tmp_path)
    made = Puzzle(kernels=(TWICE, OTHER), mistakes=MISTAKES, **rest)
    (tmp_path / "solutions" / made.id).mkdir(parents=True)
    made.solution_path.write_text(SOLUTION)
    return made


def foreseen(puzzle, *names, source=SOLUTION):
    """What these mistakes write, as lists; None where they fault."""
    arrays = make_inputs(puzzle, CASE, TWICE)
    seen = Observation(
        CASE, puzzle.full_dims(CASE), arrays, expectations(puzzle, CASE, TWICE, arrays), {}, {}
    )
    by_name = {m.name: m for m in MISTAKES}
    with WrongKernels(puzzle, TWICE, source) as foresee:
        found = [foresee(by_name[name], seen) for name in names]
    return arrays["x"], [values and values["y"].tolist() for values in found]


def test_mistakes_write_what_their_kernels_compute(puzzle):
    x, (thrice,) = foreseen(puzzle, "thrice")
    assert thrice == (3 * x).tolist()


def test_what_is_not_written_is_nan_in_an_array_of_integers_too(puzzle):
    x, (first, last) = foreseen(puzzle, "first block", "last missing")
    assert first[:4] == (2 * x[:4]).tolist() and np.isnan(first[4:]).all()
    assert last[:6] == (2 * x[:6]).tolist() and np.isnan(last[6])


def test_what_faults_or_hangs_explains_nothing_and_the_next_one_runs(puzzle, monkeypatch):
    monkeypatch.setattr(wrong_kernels, "STEPS", 1 << 12)
    x, (behind, hangs, thrice) = foreseen(puzzle, "behind", "never ends", "thrice")
    assert behind is None and hangs is None and thrice == (3 * x).tolist()


def test_mistakes_run_with_the_tunables_of_the_student_or_with_their_own(puzzle):
    mine = SOLUTION.replace("SIDE = 4", "SIDE = 3")
    _, (side, other) = foreseen(puzzle, "side", "other side", source=mine)
    assert side == [6] * 7 and other == [4] * 7


def test_tunables_that_do_not_compile_leave_nothing_to_say(puzzle):
    assert foreseen(puzzle, "thrice", source="constexpr int SIDE = 2147483647;\n")[1] == [None]


def test_one_build_serves_all_and_only_those_with_a_sentence(puzzle, monkeypatch):
    texts = []
    real = wrong_kernels.compiled
    monkeypatch.setattr(
        wrong_kernels, "compiled", lambda text, *rest: texts.append(text) or real(text, *rest)
    )
    foreseen(puzzle, "thrice", "side", "thrice")
    (text,) = texts
    assert "3 * x" in text and "4 * x" not in text and "void other" not in text


def test_a_tunable_that_the_mistake_changes_stays():
    solution = "constexpr int A = 4;\nconstexpr unsigned int B = 2 * A;\n"
    assert with_tunables(solution, solution, {"A": 8, "B": 8}) == solution.replace("A = 4", "A = 8")
    assert with_tunables(solution, solution, {"B": 5, "C": 1}) == solution.replace("2 * A", "5")
    wrong = solution.replace("4", "5")
    assert with_tunables(wrong, solution, {"A": 8, "B": 8}) == wrong
