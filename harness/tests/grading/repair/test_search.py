"""A repair is one change that makes the file pass: the best one is applied, and the file graded again."""

from __future__ import annotations

import itertools
import time
from functools import cache
from itertools import islice
from types import SimpleNamespace

import pytest

from backwarp.course.checkout import Course
from backwarp.devices.child import Child
from backwarp.grading import failures
from backwarp.grading.grade import Options
from backwarp.grading.repair.edits import Edit
from backwarp.grading.repair.repair import Repair
from backwarp.grading.repair.schemata import Schemata
from backwarp.grading.repair.search import Search, repairs
from backwarp.grading.verdict import Verdict
from backwarp.maintain.check import graded
from tests import ROOT
from tests.devices.virtual.launches import K
from tests.grading.first_cases import small

COURSE = Course(ROOT)
SECONDS = 300  # far more than a search takes


@pytest.fixture(autouse=True)
def no_search_for_sums(monkeypatch):
    """The search for repairs does not ask what a kernel adds up."""
    monkeypatch.setattr(failures, "added_up", lambda *_, **__: None)


@cache
def puzzle(number: str):
    found = COURSE.load(COURSE.resolve(number))
    return found if found.gates else small(found)


def found(number: str, old: str, new: str):
    """(the repairs of the solution with one text replaced, the line of the text)."""
    solution = puzzle(number).solution_path.read_text(encoding="utf-8")
    assert solution.count(old) == 1
    line = solution.count("\n", 0, solution.index(old)) + 1
    wrong = solution.replace(old, new)
    verdict = graded(puzzle(number), wrong, Options("cpu"))
    assert not verdict.passed
    return repairs(puzzle(number), wrong, verdict, budget=SECONDS, aided=False), line


#: of each kind one, in a kernel that compiles quickly
FEW = [
    ("02", "A[row * K + k]", "A[row * N + k]", None),  # another variable
    ("02", "k < K", "k <= K", ("k <= K", "k < K")),  # a fault
    ("02", "A[row * K + k] * ", "", ("B[k * N + col]", "B[k * N + col] * A[row * K + k]")),
    ("03", "b >= batch || o >= n_out", "b > batch || o > n_out", None),  # both signs
    ("23", "= sum + bias[o]", "= sum", ("sum", "sum + bias[o]")),  # what is nowhere used
]
#: the same edits elsewhere, in larger kernels, and what test_schemata, test_insertions and test_terms have without a search
MORE = [
    ("02", "sum += A", "sum = A", None),
    ("02", "row >= M || col >= N", "row >= N || col >= M", ("N || col >= M", "M || col >= N")),
    ("02", "B[k * N + col]", "B[col * K + k]", ("col * K + k", "k * N + col")),
    (
        "17",
        "int top = h + pad_h - r;\n            int left = w + pad_w - s;",
        "int top = h - r;\n            int left = w - s;",
        None,
    ),
    ("18", "i < 4 && row + i < rows", "i < 4", None),  # by the loop's own variable
    (
        "26",
        "        }\n        __syncthreads();  // nobody needs them any more",
        "        }",
        None,
    ),  # a race
    (
        "08",
        "x > best || isnan(x)) {\n                best = x;",
        "x > best || isnan(x)) {",
        None,
    ),  # a value
    ("17", "< size + pad ?", "<= size + pad ?", None),  # what a function returns
    ("28", "pad_w + s * dilation_w", "pad_h + s * dilation_h", None),  # both names
    ("32", "min(first + length, positions)", "first + length", None),
    ("09", "(b * C_out + k) * H_out * W_out + i", "k * H_out * W_out + i", ("k", "(b * C_out + k)")),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "number, old, new, repaired", FEW + [pytest.param(*wrong, marks=pytest.mark.soak) for wrong in MORE]
)
def test_a_change_is_found_in_its_line_and_makes_the_file_pass(number, old, new, repaired):
    found_repairs, line = found(number, old, new)
    best = found_repairs[0].as_dict()
    missing = best["before"] == ""  # it may be inserted some lines from there as well
    assert best["kind"] and (best["line"] == line or missing and abs(best["line"] - line) <= 8)
    assert repaired is None or (best["before"], best["after"]) == repaired
    assert graded(puzzle(number), found_repairs[0].text, Options("cpu")).passed


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "before", ["", "    int row = 0;\n    row = n;\n    const int col = row;\n    row = col;\n"]
)
def test_a_statement_that_cannot_be_added_takes_nothing_away(before):
    """Beside `y[i] = x[i]` there is no `x[i] = y[i]`, as x is const, and beside `row = n` no `col = n`."""
    _, _, *others = puzzle("04").solution_path.read_text(encoding="utf-8").split('extern "C"')
    wrong = (
        'extern "C" __global__ void relu_forward(const float* x, float* y, int n) {\n'
        f"    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n{before}"
        f"    y[i] = x[i] < 0.0f ? 1.0f : x[i];\n}}\n" + "".join(f'extern "C"{other}' for other in others)
    )
    verdict = graded(puzzle("04"), wrong, Options("cpu"))
    found = repairs(puzzle("04"), wrong, verdict, budget=SECONDS, aided=False)
    assert [repair.line for repair in found] == [4 + before.count("\n")]


@pytest.mark.soak
def test_nothing_is_said_of_what_no_single_change_repairs():
    solution = puzzle("02").solution_path.read_text(encoding="utf-8")
    wrong = solution.replace("A[row * K + k]", "1.0f").replace("B[k * N + col]", "2.0f")
    verdict = graded(puzzle("02"), wrong, Options("cpu"))
    assert (
        verdict.kind == "wrong" and repairs(puzzle("02"), wrong, verdict, budget=SECONDS, aided=False) == []
    )


def test_a_right_kernel_is_not_searched():
    verdict = graded(puzzle("01"), puzzle("01").solution_path.read_text(encoding="utf-8"), Options("cpu"))
    assert repairs(puzzle("01"), "", verdict) == []


def test_a_file_of_very_many_variables_is_not_searched():
    verdict = SimpleNamespace(cases=[], is_repairable=True)  # all that is asked of it
    assert repairs(puzzle("01"), "".join(f"int v{n};" for n in range(501)), verdict) == []


@pytest.mark.parametrize("end, tried", [(3.0, 2), (1.5, 1)])
def test_of_what_is_right_one_is_graded_after_the_end_and_all_before(end, tried):
    source = puzzle("01").solution_path.read_text(encoding="utf-8")
    verdict = graded(puzzle("01"), source.replace("a[i] + b[i]", "a[i] - b[i]"), Options("cpu"))
    search = Search(puzzle("01"), source, verdict, "kernel.cu", None, end, print, clock=lambda: 2.0)
    texts = []
    search.passes = texts.append  # none does
    choices = (c for site in Schemata(source, search.kernel.name).sites for c in site.choices())
    search.graded([(choice,) for choice in islice(choices, 2)])
    assert len(texts) == tried


def test_lines_that_the_stub_has_are_changed_later():
    source = puzzle("18").solution_path.read_text(encoding="utf-8")
    verdict = graded(puzzle("01"), "", Options("cpu"))
    search = Search(puzzle("18"), source, verdict, "kernel.cu", None, 1.0, print)
    lines = source.split("\n")
    given, own = (
        next(n for n, line in enumerate(lines, 1) if text in line) for text in ("int across", "make_float4")
    )
    assert given in search.given_lines and own not in search.given_lines
    sites = [s for s in Schemata(source, "transpose_float4").sites if s.piece.line in (given, own)]
    search.verdict.kernel, search.suspected = "transpose_float4", {}
    search.tiers(sites)
    assert {(s.piece.line, s.suspect < 0) for s in sites} == {(given, True), (own, False)}


def test_two_threads_with_one_index_may_have_it_from_a_line_before():
    source = f"{K}k(float* x, int n) {{\n    int i = n;\n    x[i] = 1.0f;\n    x[0] = 2.0f;\n}}\n"
    verdict = graded(puzzle("01"), "", Options("cpu"))
    lines = {}
    for other in (None, {"line": 4}):
        verdict.fault = {"kind": "race", "line": 3, "other": other}
        lines[other is None] = Search(puzzle("01"), source, verdict, "kernel.cu", None, 0.0, print).disordered
    assert lines == {True: {2, 3}, False: {3, 4}}


def test_a_search_has_a_budget_of_work_and_not_endless_time_by_the_clock():
    verdict, now = graded(puzzle("01"), "", Options("cpu")), time.monotonic()
    search = Search(puzzle("01"), "", verdict, "kernel.cu", None, 9.0, print, until=now + 99.0)
    assert search.left == 9.0
    search.clock.add(2.0)
    assert search.left == 7.0
    search.until = now - 1.0
    assert search.left < 0


def test_the_same_work_is_done_under_any_load(monkeypatch):
    """No processor time, no clock: what is tried is counted."""
    done, found, wrong = [], [], puzzle("02").solution_path.read_text().replace("sum += A", "sum = 2.0f * A")
    verdict = graded(puzzle("02"), wrong, Options("cpu"))
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self: (run(self), done.append(self.clock()))[0])
    for step in (0, 100):  # seconds of processor time between two looks at it
        spent = itertools.count(0, step)
        monkeypatch.setattr(Child, "spent_by_all", lambda spent=spent: next(spent))
        found.append([r.as_dict() for r in repairs(puzzle("02"), wrong, verdict, budget=2.0, aided=False)])
    assert found[0] == found[1] and done[0] == done[1] > 0


@pytest.mark.parametrize("slow", [1, 2])
def test_what_is_right_and_too_slow_is_kept_until_nothing_better_is_found(monkeypatch, slow):
    """18: taking the path for single elements makes it right, and slow."""
    made = Search(
        puzzle("18"), "", Verdict("18", "kernel.cu", kind="wrong"), "", None, time.monotonic() + 99, print
    )
    monkeypatch.setattr(Search, "passes", lambda self, text: True)
    monkeypatch.setattr(Search, "is_fast", lambda self, text: text == str(slow))
    tried = [Repair((Edit(0, 0, str(n), "a term"),), 1.0, "") for n in range(3)]
    assert [made.is_fast_with(repair) for repair in tried] == [n == slow for n in range(3)]
    assert [repair.is_fast for repair in made.slow] == [False] * 2
