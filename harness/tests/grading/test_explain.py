"""Kernels written in a different style: what they add up is found and explained."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from backwarp.errors import KernelFault
from backwarp.grading.explain import Asked, explain
from backwarp.grading.findings import Finding, in_order
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.probes import budget
from backwarp.grading.runs import Outcome
from backwarp.grading.verdict import Verdict
from backwarp.maintain import check_mistakes
from tests.grading.first_cases import small

from .test_grade_puzzles import PUZZLES

POINTERS = """(const float* grad_output, const float* input, float* grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    int outs = (H - F + 1) * (W - F + 1), tap = blockIdx.x % (F * F), pair = blockIdx.x / (F * F);
    float mine = 0;
    for (int image = 0; image < batch; image++) {
        const float* dy = grad_output + (image * C_out + pair / C_in) * outs;
        const float* x = input + ((image * C_in + pair % C_in) * H + tap / F) * W + tap % F;
        for (int at = threadIdx.x; at < outs; at += blockDim.x) mine += dy[at] * x[at];
    }
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0) slot[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; i++) mine += slot[i];
        grad_weights[blockIdx.x] = mine;
    }
}
"""


def test_what_is_added_up_is_told(tmp_path, monkeypatch):
    """Positions are used as places in the input, whose rows are longer. A slow kernel is not run again and again."""
    puzzle = PUZZLES["21_weights_block"]
    text = puzzle.solution_path.read_text(encoding="utf-8")
    name = "void conv2d_backward_weights"
    start = text.index(name) + len(name)
    body = re.sub(r"\{", "{\n    __shared__ float slot[32];", POINTERS, count=1)
    path = tmp_path / "kernel.cu"
    path.write_text(text[:start] + body, encoding="utf-8")
    said = r"In case .*, a step along p moves by (\d+) in input(?:, as in grad_output \(W_out\))?; it should move by (\d+)"
    assert re.search(
        said, str(grade_file(small(puzzle), path, Options("cpu", 0), check_mistakes.impatient).lines)
    )
    monkeypatch.setattr(budget, "MOST", 0)
    assert not re.search(
        said, str(grade_file(small(puzzle), path, Options("cpu", 0), check_mistakes.impatient).lines)
    )


def test_who_adds_what_to_what_in_a_tree(tmp_path):
    puzzle = PUZZLES["19_bias_block"]
    text = puzzle.solution_path.read_text(encoding="utf-8")
    start = text.index("    for (int n = blockDim.x")
    tree = "for (int n = 1; n < blockDim.x; n *= 2) {\nif (tid % n == 0 && tid + n < blockDim.x) part[tid] += part[tid + n];\n"
    path = tmp_path / "kernel.cu"
    path.write_text(
        text[:start] + tree + text[text.index("        __syncthreads();\n    }", start) :], encoding="utf-8"
    )
    lines = str(grade_file(small(puzzle), path, Options("cpu", 0), check_mistakes.impatient).lines)
    found = re.search(
        r"thread (\d+) adds to part\[(\d+)\], and thread (\d+) adds part\[(\d+)\] to its own", lines
    )
    adds, element, takes, same = map(int, found.groups())
    assert adds == element == same > takes


def test_a_tree_that_leaves_threads_out(tmp_path):
    """The threads divide the positions of each image separately, as no declared mistake does."""
    puzzle = PUZZLES["19_bias_block"]
    text = puzzle.solution_path.read_text(encoding="utf-8")
    edits = (
        (
            "for (int i = tid; i < batch * plane; i += blockDim.x) {\n        int b = i / plane;",
            "for (int b = 0; b < batch; b++) for (int i = tid; i < plane; i += blockDim.x) {",
        ),
        (
            "for (int n = blockDim.x; n > 1; n = (n + 1) / 2) {",
            "for (int n = blockDim.x / 2; n > 0; n /= 2) {",
        ),
        ("        int half = (n + 1) / 2;\n", ""),
        ("if (tid < n / 2) part[tid] += part[tid + half];", "if (tid < n) part[tid] += part[tid + n];"),
    )
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "kernel.cu"
    path.write_text(text, encoding="utf-8")
    (says,) = grade_file(small(puzzle, 8), path, Options("cpu", 0), check_mistakes.impatient).causes
    assert says.startswith("In case block_of_7, what threads ")


@pytest.mark.soak
def test_threads_that_do_the_same_work_are_not_suspected_of_short_integers(tmp_path):
    puzzle = PUZZLES["01_vector_add"]
    text = puzzle.solution_path.read_text(encoding="utf-8")
    path = tmp_path / "kernel.cu"
    begin, end = text.index("    if (i >= n)"), text.index("    c[i] =")
    loop = "    for (; i < n; i++)\n    "
    path.write_text(text[:begin] + loop + text[end:], encoding="utf-8")
    lines = grade_file(puzzle, path, Options("cpu", 0), check_mistakes.impatient).lines
    assert lines[0].startswith("Already in case") and not any(
        "keep an index in a short" in line for line in lines
    )


def test_what_everything_follows_from_comes_first():
    """Threads that do the same stray nowhere."""
    unused = Finding.of("unused_axis", kernel="f", index="blockIdx.x", shape="2", of="grid")
    findings = [Finding.of("nothing_gets", array="x", out="y"), unused]

    def leading(findings, kind):
        return [f.kind for f in in_order(findings, kind) if f.leads]

    assert leading(findings, "race") == [unused.kind]
    assert leading(findings, "out-of-bounds") == []


@pytest.mark.parametrize("kind", ["race", "out-of-bounds"])
def test_a_kernel_without_indices_is_told_so_before_its_race_without_advice(kind):
    puzzle = PUZZLES["11_sgd"]
    text = puzzle.solution_path.read_text(encoding="utf-8")
    start = text.index("{", text.index("void sgd_step"))
    source = text[:start] + "{ for (int i = 0; i < n; i++) weights[i] -= velocity[i] = gradient[i]; }"
    case = max(puzzle.cases, key=lambda c: c.dims["n"])
    fault = KernelFault(kind, "A fault", "It is one. Put a barrier there.", line=2)
    fault.more.append(KernelFault(kind, "", "", line=3))
    shown = Outcome(case, puzzle.kernels[0], "fault", fault)
    verdict = Verdict(puzzle.id, "kernel.cu")
    lines = explain(Asked(puzzle, source, shown, [shown], lambda *_: None), verdict)
    alike = next(cause for cause in verdict.causes if "sgd_step never uses threadIdx.x" in cause)
    where = next(i for i, line in enumerate(lines) if line.startswith("A fault"))
    assert alike in verdict.causes and (lines[0] == alike) == (where > 0) == (kind == "race")
    assert (alike in verdict.suspicions) == (kind != "race")
    assert ("a barrier" in str(lines), "Also" in str(lines)) == (kind != "race",) * 2


def test_a_tree_that_leaves_warps_out(tmp_path):
    puzzle = PUZZLES["21_weights_block"]
    text = puzzle.solution_path.read_text(encoding="utf-8")
    start, end = (
        text.index("        int warps = blockDim.x / 32;"),
        text.index("        if (lane == 0) grad_weights"),
    )
    tree = """        for (int n = blockDim.x / 64; n > 0; n /= 2) {
            if (lane < n) slot[lane] += slot[lane + n];
            __syncwarp();
        }
        sum = slot[0];
"""
    path = tmp_path / "kernel.cu"
    path.write_text(text[:start] + tree + text[end:], encoding="utf-8")
    (says,) = grade_file(small(puzzle, 12), path, Options("cpu", 0), check_mistakes.impatient).causes
    assert "what warp " in says


def test_parameters_in_another_order_are_no_suspicion(tmp_path):
    """A repair may rename what is used instead, in other lines."""
    puzzle = PUZZLES["09_conv2d_backward_weights"]
    text = puzzle.solution_path.read_text(encoding="utf-8")
    names = re.search(r"\(\s*(const float\* grad_output)[^\n]*\n\s*(const float\* input)", text)
    first, second = sorted((names.span(1), names.span(2)))
    swapped = text[: first[0]] + names[2] + text[first[1] : second[0]] + names[1] + text[second[1] :]
    path = tmp_path / "kernel.cu"
    path.write_text(swapped, encoding="utf-8")
    verdict = grade_file(small(puzzle), path, Options("cpu", 0), check_mistakes.impatient)
    (cause,) = (c for c in verdict.causes if "The launch passes grad_output, input" in c)
    assert cause not in verdict.suspicions


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("int i = threadIdx.x; if (i < n) c[i] = a[i] + b[i];", "unwritten"),
        ("for (int i = threadIdx.x; i < n; i += blockDim.x) c[i] = a[i] + b[i];", "fault"),
    ],
)
def test_a_race_of_equal_values_leads_only_where_the_results_are_right(tmp_path, body, kind):
    """All blocks compute the same elements: the first ones, or all."""
    path = tmp_path / "kernel.cu"
    path.write_text(
        f'extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {{ {body} }}'
    )
    verdict = grade_file(PUZZLES["01_vector_add"], path, Options("cpu", 0), check_mistakes.impatient)
    assert (verdict.kind, bool(verdict.fault and verdict.fault["same_value"])) == (kind, kind == "fault")


def test_a_race_of_equal_values_comes_after_one_of_others(tmp_path):
    """In the first cases the slots that the first warp clears are 0 in any case."""
    puzzle = PUZZLES["20_bias_warp"]
    text, store = puzzle.solution_path.read_text(encoding="utf-8"), "    if (lane == 0) slot[warp] = sum;"
    assert store in text
    path = tmp_path / "kernel.cu"
    path.write_text(text.replace(store, f"    if (warp == 0) slot[lane] = 0.0f;\n{store}"), encoding="utf-8")
    verdict = grade_file(puzzle, path, Options("cpu", 0))
    assert verdict.fault["kind"] == "race" and not verdict.fault["same_value"]


def test_what_results_look_like_is_refuted_by_the_accesses(tmp_path):
    """input is read with the step of grad_output; as if grad_output were read with that of input."""
    puzzle = PUZZLES["09_conv2d_backward_weights"]
    text = puzzle.solution_path.read_text(encoding="utf-8")
    right = "input[((b * C_in + c) * H + p + r) * W + q + s]"
    assert right in text
    path = tmp_path / "kernel.cu"
    path.write_text(
        text.replace(right, "input[(b * C_in + c) * H * W + (p + r) * W_out + q + s]"), encoding="utf-8"
    )
    verdict = grade_file(puzzle, path, Options("cpu"))
    assert {f.facts["array"] for f in verdict.findings if "array" in f.facts} == {"input"}


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_results_of_any_bits_are_explained():
    """Bytes in the wrong place are floats of any size: their sums and differences are not finite."""

    class Shown:
        error, mismatches = None, ()

        @property
        def lines(self):
            return np.float32([3e38]) * 10

    assert explain(SimpleNamespace(fault=None, shown=Shown()), None) == [np.inf]
