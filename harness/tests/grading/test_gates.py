"""Counted gates: right and fast passes, right and slow fails with the line that costs most."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from backwarp.course.checkout import Course
from backwarp.course.declare import CourseError, Gate
from backwarp.grading import gates
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.quantities import QUANTITIES
from backwarp.measure import profile
from backwarp.measure.profile import profile_file
from backwarp.report.profile import show_profile
from backwarp.report.text import verdict_lines
from tests import ROOT

COURSE = Course(ROOT)
SAYS = "Neighbouring threads should touch neighbouring elements."
BACKWARDS = """extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i];
    int j = i % 32 * (n / 32) + i / 32;
    if (n % 32) j = i;
    c[j] = (j == i ? x : a[j]) + b[j];
}
"""


def puzzle_with(*found, small=2):
    """With its first cases, as the others only take longer."""
    puzzle = COURSE.load("01_vector_add")
    dims = {"n": 1024, "threads": 256}
    counted = replace(puzzle.cases[0], name="counted", dims=dims, inputs={}, check="reference")
    cases = (*puzzle.cases[:small], counted)
    return replace(puzzle, cases=cases, gates=found)


def graded(tmp_path, source, *found):
    path = tmp_path / "kernel.cu"
    path.write_text(source)
    return grade_file(puzzle_with(*found), path, Options("cpu"))


def solution():
    return COURSE.load("01_vector_add").solution_path.read_text()


def gate(quantity, most, **more):
    return Gate(quantity, most, SAYS, case="counted", **more)


def test_the_solution_moves_what_it_must_and_says_so(tmp_path):
    verdict = graded(tmp_path, solution(), gate("global_bytes", 3 * 4 * 1024), gate("sectors_per_request", 4))
    assert verdict.passed
    assert [m["value"] for m in verdict.gates] == [12288, 4.0, 0, 0, 0]
    assert verdict.lines == [  # nothing of what it has none of
        "vector_add: 12,288 bytes of global memory moved, target at most 12,288",
        "vector_add: 4 sectors per request, target at most 4",
    ]


def test_a_right_kernel_that_strides_is_not_yet_fast(tmp_path):
    verdict = graded(tmp_path, BACKWARDS, gate("sectors_per_store", lambda d: d["n"] / 256, below=32))
    assert (verdict.status, verdict.kind, verdict.diagnosis, verdict.exit_status) == (
        "failed",
        "slow",
        "slow",
        1,
    )
    text = "\n".join("".join(t for t, _ in line) for line in verdict_lines(verdict))
    assert "right, not yet fast   counted: n=1024 threads=256" in text
    assert "32 sectors per store, target at most 4 (one rung below: 32)" in text
    assert "7 |     c[j] = (j == i ? x : a[j]) + b[j];" in text and SAYS in text
    assert "Next: backwarp profile 01" in text


def test_a_wrong_kernel_is_not_counted(tmp_path):
    verdict = graded(tmp_path, BACKWARDS.replace("+ b[j]", "- b[j]"), gate("sectors_per_store", 1))
    assert verdict.kind == "wrong" and verdict.gates == []


def test_several_gates_are_told_together(tmp_path):
    verdict = graded(tmp_path, solution(), gate("global_bytes", 1), gate("global_load_requests", 2))
    assert [m["line_share"] == 1.0 for m in verdict.gates[:2]] == [True, True]
    assert "vector_add: 64 global load requests, target at most 2" in verdict.lines


def test_every_quantity_is_a_number(tmp_path):
    verdict = graded(tmp_path, solution(), *(gate(name, 10**9) for name in QUANTITIES))
    assert verdict.passed and [m["quantity"] for m in verdict.gates] == list(QUANTITIES)
    assert all(0 <= m["value"] <= 12288 for m in verdict.gates)


def test_a_profile_says_what_would_pass(tmp_path):
    """The gates whose case was counted, with the costliest line of those that fail."""
    case = COURSE.load("01_vector_add").cases[-1].name
    many, few = Gate("global_requests", 10**9, SAYS, case=case), Gate("flops", 0, SAYS, case=case)
    elsewhere = gate("flops", 10**9)
    puzzle, path = puzzle_with(many, few, elsewhere, small=None), tmp_path / "kernel.cu"
    path.write_text(solution())
    found, text = profile_file(puzzle, path, case), io.StringIO()
    show_profile(found, text)
    assert [m.passed for m in found.targets if m.is_shown] == [True, False]
    assert "To pass backwarp grade 01:\n  ok   vector_add: " in text.getvalue()
    assert "  over vector_add: " in text.getvalue() and " has 100% of it\n" in text.getvalue()


def test_a_limit_is_of_the_sizes_and_of_what_the_file_chose(tmp_path):
    """limits() are gates whose sentences are the quantities' own."""
    sizes = Gate.limits(
        "vector_add", case="counted", global_requests=lambda d: d["PER_LANE"] * 3 * d["n"] / 32
    )
    tuned = "constexpr int PER_LANE = 1;\n" + solution()
    assert graded(tmp_path, tuned, *sizes).passed
    verdict = graded(tmp_path, tuned.replace("= 1", "= 1 / 2"), *sizes)
    assert verdict.kind == "slow" and verdict.lines[-1] == QUANTITIES["global_requests"].says


NOT_NEEDED = {
    "local_bytes": (
        "float v[4] = {a[i], b[i], 0.0f, 0.0f}; v[3 & n + i] += 0.0f; float x = v[0] + v[1];",
        "float x",
    ),
    "global_atomic_operations": ("c[i] = a[i]; atomicAdd(&c[i], b[i]); float x = c[i];", "atomicAdd"),
    "shared_atomic_serial": (
        "__shared__ float s[1024]; s[threadIdx.x] = a[i]; atomicAdd(&s[threadIdx.x], b[i]); "
        "float x = s[threadIdx.x];",
        "atomicAdd",
    ),
}


#: 320 passes, 124 of them by the conflicts of line 7; most are in line 5, which has none
COLUMN = """extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
    __shared__ float tile[32][32], next[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    for (int k = t; k < 1024; k += blockDim.x)
        tile[k / 32][k % 32] = t, next[t] = k;
    __syncthreads();
    float x = t < 32 ? tile[t][0] : 0.0f;
    if (i < n) c[i] = a[i] + b[i] + (x + next[t] > 1e9f);
}
"""


@pytest.mark.parametrize(("most", "line"), [(250, 7), (100, 5)])
def test_the_line_with_the_conflicts_is_named_where_it_would_pass_without(tmp_path, most, line):
    verdict = graded(tmp_path, COLUMN, gate("shared_wavefronts", most))
    of = "all bank conflicts" if line == 7 else "it"
    assert any(
        text.startswith(f"Line {line} costs the most") and text.endswith(f"of {of}:")
        for text in verdict.lines
    )


@pytest.mark.sampled
@pytest.mark.parametrize("name", NOT_NEEDED)
def test_what_no_kernel_needs_has_a_gate_wherever_something_is_counted(tmp_path, name):
    body, line = NOT_NEEDED[name]
    source = solution().replace("c[i] = a[i] + b[i];", f"{{ {body} c[i] = x; }}")
    own = gate("global_load_sectors", 10**9)
    verdict = graded(tmp_path, source, own)
    assert verdict.kind == "slow" and QUANTITIES[name].noun in verdict.lines[0] and line in verdict.lines[2]
    assert verdict.lines[-1] == QUANTITIES[name].says
    assert graded(tmp_path, source, own, gate(name, 10**9)).passed  # as the puzzle says otherwise


SLOW_26 = """    float sum = 0.0f;
    if (CONDITION) {
        for (int k = 0; k < K && row < M && col < N; k++) sum += A[row * K + k] * B[k * N + col];
        if (row < M && col < N) C[row * N + col] = sum;
        return;
    }
"""


@pytest.mark.sampled
@pytest.mark.parametrize("condition", ["M != 64", "N != 64", "K != 64"])
def test_a_kernel_that_knows_the_case_is_not_fast(tmp_path, condition):
    """The sizes that the file's seed draws are counted too."""
    puzzle, path = COURSE.load("26_gemm_tiled"), tmp_path / "kernel.cu"
    (case,) = (c for c in puzzle.cases if c.name == "counted")
    gated, text = replace(puzzle, cases=(case,)), puzzle.solution_path.read_text()
    path.write_text(text.replace("    float sum = 0.0f;\n", SLOW_26.replace("CONDITION", condition)))
    for seed in (0, 1):
        verdict = grade_file(gated, path, Options("cpu", seed))
        assert (verdict.kind, verdict.dims) == ("slow", case.counted_again(seed).dims)
        assert "bytes of global memory moved per FLOP, target at most 0.3" in verdict.lines[0]
        assert (
            "It passes with the sizes of counted itself, but it has to pass with others too." in verdict.lines
        )
    path.write_text(text)
    passed = grade_file(gated, path, Options("cpu", 1))
    assert passed.passed and all(m["dims"]["M"] == 64 for m in passed.gates)


def test_what_a_kernel_prints_costs_local_memory(tmp_path):
    puzzle, path = COURSE.load("25_bank_conflicts"), tmp_path / "kernel.cu"
    text = puzzle.solution_path.read_text()
    path.write_text(text.replace("__syncthreads();", '__syncthreads(); printf("%d\\n", rows);', 1))
    gated = replace(puzzle, cases=tuple(c for c in puzzle.cases if c.name == "counted"))
    verdict = grade_file(gated, path, Options("cpu", 0))
    assert (
        verdict.kind == "slow"
        and "printf takes its arguments from local memory: take it out." in verdict.lines
    )


def test_a_kernel_may_be_wrong_with_other_sizes_alone(tmp_path):
    puzzle, path = COURSE.load("26_gemm_tiled"), tmp_path / "kernel.cu"
    path.write_text(
        puzzle.solution_path.read_text().replace("float sum = 0.0f;", "float sum = M > 100 && M < 300;")
    )
    gated = replace(puzzle, cases=tuple(c for c in puzzle.cases if c.name == "counted"))
    verdict = grade_file(gated, path, Options("cpu", 0))
    assert (verdict.kind, verdict.case) == ("wrong", "counted") and verdict.dims["M"] > 100


def test_what_is_counted_is_told_of_the_case_of_the_gates(tmp_path):
    """Also where another case is larger."""
    puzzle, path = puzzle_with(gate("global_requests", 10**9)), tmp_path / "kernel.cu"
    path.write_text(solution())
    larger = replace(puzzle.cases[-1], name="larger", dims={"n": 4096, "threads": 256})
    found = profile_file(replace(puzzle, cases=(*puzzle.cases, larger)), path)
    assert [k.case for k in found.kernels] == ["counted"] and found.targets[0].value == 96


def test_kernels_that_do_not_end_are_named_and_the_others_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "LONGEST", 0.1)
    puzzle, path, text = COURSE.load("09"), tmp_path / "kernel.cu", io.StringIO()
    source = puzzle.solution_path.read_text()
    path.write_text(source.replace("q < W_out; q++", "q < W_out; q += 0", 1))
    found = profile_file(puzzle, path)
    show_profile(found, text)
    assert found.endless == ("conv2d_backward_weights",) and not found.verdict.passed
    assert [k.kernel for k in found.kernels] == ["conv2d_backward_bias"]
    assert "conv2d_backward_weights took too long" in text.getvalue()


def test_numbers_that_differ_look_different():
    over = gates.Measure("k", "counted", {}, "bytes_per_flop", 0.30001, 0.3, None, 0, 0.0, "", 1)
    assert gates.sentence(over) == "k: 0.30001 bytes of global memory moved per FLOP, target at most 0.3"
    assert gates.sentence(replace(over, value=0.29999)).startswith("k: 0.3 bytes")
    assert (gates.per_cent(1.0), gates.per_cent(0.9999), gates.per_cent(0.5)) == ("100 %", "99 %", "50 %")


def test_a_limit_without_advice_adds_no_empty_line():
    over = gates.Measure("k", "counted", {}, "flops", 9, 3, None, 1, 0.9, "", 1, idea=False)
    assert all(gates.explain(over, "y[i] = x[i];\n"))


def test_a_profile_fits_on_a_narrow_terminal(monkeypatch):
    found, out = profile_file(COURSE.load("20"), COURSE.load("20").solution_path), io.StringIO()
    monkeypatch.setenv("COLUMNS", "80")
    show_profile(found, out)
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_a_gate_of_a_case_that_is_not_there_is_a_mistake_of_the_course():
    with pytest.raises(CourseError, match="counts in 'huge'"):
        replace(COURSE.load("01_vector_add"), gates=(Gate("flops", 1, SAYS, case="huge"),))


@pytest.mark.parametrize(
    ("x", "text"), [(1234567, "1,234,567"), (4.0, "4"), (7.951, "7.95"), (0.03125, "0.0312")]
)
def test_numbers_are_short(x, text):
    assert gates.number(x) == text
