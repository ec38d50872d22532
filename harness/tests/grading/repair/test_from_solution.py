"""Repairs suggested by the solution: differences between two texts, and the fewest that are needed."""

from dataclasses import replace
from random import Random

import pytest

from backwarp.grading.grade import Options
from backwarp.grading.repair.from_solution import changes, is_of_ones_own, kind_of, smallest
from backwarp.grading.repair.from_solution import repairs as suggested
from backwarp.grading.repair.repair import Repair
from backwarp.grading.repair.search import Search, repairs
from backwarp.grading.repair.telling import KINDS
from backwarp.maintain.check import graded
from backwarp.maintain.check_mistakes import solution_text
from backwarp.maintain.check_mutants import wrong_ones
from tests.grading.repair.test_search import COURSE, SECONDS, puzzle
from tests.soak import golden

SOLUTION = """
constexpr int TILE = 16;

extern "C" __global__ void k(const float* x, float* y, int n, int m) {
    __shared__ float part[TILE];
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // the element
    if (i >= n) return;
    float sum = 0.0f;
    for (int j = 0; j < m; j++) {
        sum += x[i * m + j];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    y[i] = part[threadIdx.x] + 1.0f;
}
"""


OTHER_WAY = """
extern "C" __global__ void k(const float* x, float* y, int n, int m) {
    const int t = threadIdx.x;
    const int first = blockIdx.x * blockDim.x;
    float all = -1.0f;
    int j = m - 1;
    while (j >= 0) {
        all = all + x[(first + t) * m + j];
        j = j - 2;
    }
    if (first + t < n) y[first + t] = all + 2.0f;
}
"""


def test_of_a_kernel_of_ones_own_only_single_statements_are_made_to_agree():
    assert is_of_ones_own(OTHER_WAY, SOLUTION, "k") and not is_of_ones_own(
        SOLUTION.replace("j < m", "j <= m"), SOLUTION, "k"
    )
    tried = []
    assert not list(suggested(OTHER_WAY, SOLUTION, "k", tried.append))
    assert 0 < len(tried) <= len(changes(OTHER_WAY, SOLUTION, "k"))


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ([("i * m + j", "i * n + j")], [("n", "m", "another value")]),
        ([("x[i * m + j]", "x[i * m]")], [("", " + j", "a term")]),
        ([("i >= n", "i > n")], [(">", ">=", "a comparison")]),
        ([("    __syncthreads();\n", "")], [("", " __syncthreads();", "a barrier")]),
        ([("    if (i >= n) return;\n", "")], [("", " if (i >= n) return;", "a statement that is missing")]),
        ([("if (i >= n) return;", "")], [("", " if (i >= n) return;", "a statement that is missing")]),
        ([("= sum;", "= sum; part[0] = sum;")], [("part[0] = sum;", "", "a statement too many")]),
        ([("TILE = 16", "TILE = 8")], [("8", "16", "another value")]),
        ([("__shared__ float", "float")], [("", "__shared__ ", "a memory")]),
        ([("sum", "acc"), ("(int j", "(int c"), ("j < m; j++", "c < m; c++"), ("m + j", "m + c")], []),
        (
            [("float* x", "float* in"), ("x[i * m", "in[j * m"), ("int j = 0", "int j = 1")],
            [("1", "0", "another value"), ("j", "i", "another value")],
        ),
    ],
)
def test_the_texts_differ_statement_by_statement(edits, found):
    text = SOLUTION
    for old, new in edits:
        text = text.replace(old, new)
    parts = changes(text, SOLUTION, "k")
    assert [(text[e.start : e.end], e.after, e.says) for part in parts for e in part] == found
    repaired = Repair(tuple(e for part in parts for e in part), 0.0, text).text
    assert changes(repaired, SOLUTION, "k") == []


def test_a_kernel_that_is_built_in_another_way_is_left_alone():
    other = 'extern "C" __global__ void k(const float* x, float* y, int n, int m) { while (n-- > 0) y[n] = *x++; }'
    assert changes(other, SOLUTION, "k") == []


def test_what_is_wrong_is_not_hidden_by_a_second_declaration():
    right = SOLUTION.replace("    for (int j", "    int at;\n    for (int j").replace("int at;", "")
    right = right.replace(
        "        sum += x[i * m + j];", "        int at = i * m + j;\n        sum += x[at];"
    )
    wrong = right.replace("        int at = i * m + j;\n", "").replace(
        "float sum = 0.0f;", "float sum = 0.0f;\n    int at = i * m;"
    )
    asked = []
    assert not list(
        suggested(wrong, right, "k", lambda text: bool(asked.append(text)) or "        int at" in text)
    )
    assert not any(text.count("int at") > 1 for text in asked)


def test_what_only_removes_something_is_tried_before_what_adds_something():
    wrong = SOLUTION.replace("if (i >= n) return;", "").replace("= sum;", "= sum; part[0] = sum;")
    (found,) = suggested(wrong, SOLUTION, "k", lambda text: True)
    assert found.text.split() == wrong.replace(" part[0] = sum;", "").split()


@pytest.mark.parametrize(
    ("needed", "most"), [({3}, 8), ({0, 11}, 24), ({5, 6, 7}, 24), (set(range(12)), 60), (set(), 1)]
)
def test_of_all_differences_the_fewest_are_kept(needed, most):
    asked = []

    def is_right(edits):
        asked.append(edits)
        return bool(needed) and needed <= set(edits)

    assert set(smallest([(i,) for i in range(12)] if needed else [], is_right)) == needed
    assert len(asked) == len(set(asked)) <= most


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (["W_out"], ["H_out"], "another value"),
        (["r", "*", "W", "+", "s"], ["s", "*", "W", "+", "r"], "two that are exchanged"),
        (["+="], ["="], "how it is stored"),
        (["&&"], ["||"], "a logical operator"),
        (["-"], ["+"], "an operator"),
        (["*", "stride_w"], [], "a factor"),
        (["int"], ["float"], "a type"),
        (["("], [], "an order of operations"),
        ([], ["__syncwarp", "(", ")", ";"], "a barrier"),
        ([], ["||", "w", ">=", "W"], "a condition"),
        ([], ["w", ">=", "W", "||"], "a condition"),
        (["true", "||"], [], "a condition"),
        ([], ["x", "<", "0", "?", "0", ":"], "a choice"),
        (["c", "C_out", "k"], ["k", "C_in", "c"], "another value"),
        (["__shfl_up_sync"], ["__shfl_down_sync"], "a function"),
        ([], ["=", "0.0f"], "a first value"),
        ([], ["i", "++"], "the step of a loop"),
        ([], ["blockIdx.x", "*", "blockDim.x", "+"], "a term"),
        (["x", "<", "0"], ["isnan", "(", "x", ")"], "an expression"),
    ],
)
def test_each_kind_of_change_has_its_name(before, after, says):
    assert kind_of(before, after) == says and says in KINDS


OWN = """
extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    const int r = threadIdx.y + blockIdx.y * blockDim.y;
    const int c = threadIdx.x + blockIdx.x * blockDim.x;
    if (r >= M || c >= N) return;
    float acc = 0.0f;
    for (int i = 0; i < K; i++) {
        acc += A[r * N + i] * B[i * N + c];
    }
    C[r * N + c] = acc;
}
"""


def test_in_a_kernel_of_ones_own_other_names_stay():
    verdict = graded(puzzle("02"), OWN, Options("cpu"))
    (found,) = repairs(puzzle("02"), OWN, verdict, budget=SECONDS)
    assert (found.line, found.as_dict()["before"], found.as_dict()["after"]) == (8, "N", "K")
    assert found.text == OWN.replace("r * N + i", "r * K + i")
    assert graded(puzzle("02"), found.text, Options("cpu")).passed


EXCHANGED = """extern "C" __global__ void sgd_step(float* weights, float* velocity, const float* gradient, int n,
                                    float learning_rate, float momentum, float weight_decay) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) {
        float w = weights[t], u = velocity[t];
        u *= weight_decay;
        u += gradient[t];
        u += momentum * w;
        velocity[t] = u;
        weights[t] = w - learning_rate * u;
    }
}
"""


def test_the_parameters_that_the_stub_gives_stay_as_they_are():
    verdict = graded(puzzle("11"), EXCHANGED, Options("cpu"))
    found = repairs(puzzle("11"), EXCHANGED, verdict, budget=SECONDS)
    assert found and {line for repair in found for line in repair.lines} == {6, 8}


def test_changes_in_several_places_are_one_repair():
    """As no single change repairs them, which the search without the solution finds."""
    wrong = OWN.replace("r * N + i", "i * N + r").replace("acc = 0.0f", "acc = 1.0f")
    verdict = graded(puzzle("02"), wrong, Options("cpu"))
    (found,) = repairs(puzzle("02"), wrong, verdict, budget=SECONDS)
    assert found.text == OWN.replace("r * N + i", "r * K + i") and (found.line, found.last_line) == (6, 8)


def test_a_slow_kernel_becomes_fast():
    solution = puzzle("25").solution_path.read_text(encoding="utf-8")
    wrong = solution.replace("tile[TILE][TILE + 1]", "tile[TILE][TILE]")
    verdict = graded(puzzle("25"), wrong, Options("cpu"))
    (found,) = repairs(puzzle("25"), wrong, verdict, budget=SECONDS)
    assert verdict.kind == "slow" and found.text == solution


@pytest.mark.parametrize("number", ["02", "12"])
def test_the_solution_is_not_asked_where_there_is_none_or_the_bug_is_the_puzzle(
    number, tmp_path, monkeypatch
):
    searches = []
    monkeypatch.setattr(Search, "run", lambda search: searches.append(search.aided) or [])
    verdict = graded(puzzle("02"), OWN, Options("cpu"))
    for asked in (puzzle(number), replace(puzzle(number), root=tmp_path)):
        repairs(asked, OWN, verdict)
        repairs(asked, OWN, verdict, aided=False)
    assert searches == [number == "02", False, False, False]


def test_what_is_not_written_yet_is_not_given_away():
    lines = SOLUTION.splitlines(keepends=True)
    short = "".join(line for line in lines if "sum" not in line and "for" not in line and "    }" not in line)
    assert changes(short, SOLUTION, "k")
    assert not [*suggested(short, SOLUTION, "k", lambda text: "sum += x" in text)]
    assert [
        *suggested(short.replace("part[", "float sum = 1.0f;\n    part[", 1), SOLUTION, "k", lambda _: True)
    ]


def test_of_a_statement_only_what_has_to_change_is_told():
    own = SOLUTION.replace("y[i] = part[threadIdx.x] + 1.0f", "y[i] = 2.0f * part[threadIdx.x] + 1.0f - y[i]")
    (found,) = suggested(own, SOLUTION, "k", lambda text: "- y[i]" not in text)
    assert found.text == own.replace(" - y[i]", "")


def test_a_loop_of_one_statement_is_not_too_much_to_tell():
    own = SOLUTION.replace("    for", "    sum = 0.0f;\n    for", 1)
    missing = own.replace("    y[", "    for (int i = 0; i < 4; i++) sum += 1.0f;\n    y[", 1)
    (found,) = suggested(own, missing, "k", lambda text: "i < 4" in text)
    assert found.text.split() == missing.split()


@pytest.mark.soak
@pytest.mark.parametrize("number", sorted(p.parent.name for p in COURSE.root.glob("puzzles/*/kernel.cu")))
def test_mistakes_of_the_course_are_repaired_in_their_lines(number):
    whole, found, missed = COURSE.load(number), 0, 0
    right = solution_text(whole)
    for m in Random(number).sample(wrong_ones(whole), 4):
        w = golden.wrong(m.name, whole, right, m.apply(right))
        verdict = graded(whole, w.text, Options("cpu"))
        made = repairs(whole, w.text, verdict) if verdict.is_runnable else []
        for repair in made:
            assert graded(whole, repair.text, Options("cpu")).passed, m.name
        there = any(golden.near(w.lines) & {*repair.lines} for repair in made)
        found, missed = found + there, missed + (verdict.is_runnable and not there)
    assert missed <= 1 <= found
