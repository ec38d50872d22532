"""Messages about wrong files, on the virtual GPU; right files pass, however they are written.

Everything starts from the solutions, so this holds in a checkout where a student has edited the stubs.
"""

from __future__ import annotations

import pickle
import re

import pytest

from backwarp.course.checkout import Course
from backwarp.course.stubs import stub_text
from backwarp.grading import runs
from backwarp.grading.grade import Options, grade_file, only
from backwarp.maintain import check_mistakes
from backwarp.report.text import MOST_LINES, verdict_lines
from tests import ROOT, sampled
from tests.grading.first_cases import small

COURSE = Course(ROOT)
PUZZLES = {p.id: p for p in COURSE.puzzles() if p.kernels}  # those in Python: programs/test_grade
WEIGHTS = "09_conv2d_backward_weights"


def solution(puzzle_id):
    return PUZZLES[puzzle_id].solution_path.read_text(encoding="utf-8")


def lines(verdict):
    return ["".join(text for text, _ in line) for line in verdict_lines(verdict)]


@pytest.fixture
def grade(tmp_path):
    """Grades a text (or bytes) as the kernel file of a puzzle; every report is short."""

    def run(puzzle, source, name="kernel.cu", seed=0, whole=False):
        puzzle, path = PUZZLES[puzzle] if isinstance(puzzle, str) else puzzle, tmp_path / name
        if source is not None:
            path.write_bytes(source if isinstance(source, bytes) else source.encode())
        puzzle = puzzle if whole else small(puzzle)
        verdict = grade_file(puzzle, path, Options("cpu", seed), check_mistakes.impatient)
        assert len(lines(verdict)) <= MOST_LINES
        assert pickle.loads(pickle.dumps(verdict)).lines == verdict.lines
        return verdict

    return run


def edited(*pairs):
    text = solution(WEIGHTS)
    for old, new in pairs:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    return text


LOOPS = "    float sum = 0.0f;\n    for (int b = 0; b < batch; b++) {\n        for (int p"
ROW = "((b * C_in + c) * H + p + r) * W + q + s"
GUARD = "if (idx >= C_out * C_in * F * F) return;"
MISTAKES = {
    "syntax error": (
        [("float sum = 0.0f;", "float sum = 0.0f")],
        "compile",
        ['kernel.cu:34: error: expected a ";"', "34 |", "^"],
    ),
    "row after row": ([(ROW, "(b * C_in + c) * H + (p + r + 1) * W + q + s")], None, []),
    "out of the image": (
        [(ROW, "(((b + 1) * C_in + c) * H + (p + r + 1)) * W + q + s")],
        "out-of-bounds",
        ["kernel.cu:38", "(0,0,0)", "input[b=1,c=0,h=1,w=0]", "shape b x"],
    ),
    "no guard": ([(GUARD, "")], "out-of-bounds", ["thread (4,0,0)", "grad_output[b=1,"]),
    "never ends": ([("float sum = 0.0f;", "float sum = 0.0f; while (true);")], "timeout", ["kernel.cu:"]),
    "no batch loop": (
        [(LOOPS, LOOPS.replace("b < batch", "b < 1"))],
        "loop over the batch stops after image 0",
        ["batch item 0 alone"],
    ),
    "wrong name": ([("backward_weights(", "bw_weights(")], "missing-kernel", ["conv2d_bw_weights", "Rename"]),
    "a parameter too many": (
        [("int C_out, int F) {", "int C_out, int F, int more) {")],
        "signature",
        ["10 parameters instead of 9", "conv2d_backward_weights(const float* grad_output"],
    ),
    "a parameter of another size": (
        [("int C_out, int F) {", "int C_out, long F) {")],
        "signature",
        ["Parameter 9", "8 bytes", "int F"],
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(name, grade):
    edits, diagnosis, parts = MISTAKES[name]
    verdict = grade(WEIGHTS, edited(*edits))
    text = "\n".join(lines(verdict))
    assert verdict.exit_status == 1 and verdict.diagnosis == (diagnosis or verdict.diagnosis), text
    for part in parts:
        assert part in text


def test_a_hundred_thousand_printf_lines_are_cut_and_it_is_said(grade):
    loop = 'for (int i = 0; i < 100000; i++) printf("sum %d\\n", i);\n    float sum = 0.0f;'
    verdict = grade(WEIGHTS, edited(("float sum = 0.0f;", loop)), whole=True)
    assert verdict.exit_status == 1 and verdict.stdout.startswith("sum 0\n")
    assert any(
        re.search("and [0-9,]+ more lines, cut|printed [0-9,]+ lines", line) for line in lines(verdict)
    )


def test_unset_values_are_followed_on_a_slow_machine_too(grade, monkeypatch):
    """No launch ends in its first time limit, and code that follows unset values is not optimised."""
    monkeypatch.setattr(runs, "QUICK", 1e-9)
    unset = re.sub(r"= a\[i\] \+ b\[i\]", "= s[threadIdx.x]", solution("01_vector_add"))
    verdict = grade("01_vector_add", unset.replace("int i =", "__shared__ float s[256];\n    int i =", 1))
    assert verdict.diagnosis == "uninitialised-read"


def test_a_file_outside_the_course_is_refused_and_not_shown(grade, tmp_path):
    (tmp_path / "secret.txt").write_text("the secret content")
    for include in (f'"{tmp_path}/secret.txt"', '"secret.txt"', '"../../../../../../etc/passwd"'):
        verdict = grade(WEIGHTS, f"#include {include}\n" + solution(WEIGHTS))
        text = "\n".join([*lines(verdict), *verdict.lines, str(verdict.diagnostics)])
        assert verdict.exit_status == 1 and "#include" in text
        assert "secret content" not in text and "root:" not in text


@pytest.mark.parametrize(
    ("data", "says"), [(b"", "is empty"), (b"\xff\xfe", "UTF-8"), (None, "does not exist")]
)
def test_a_file_that_is_no_text_is_explained(data, says, grade):
    verdict = grade(WEIGHTS, data)
    assert verdict.exit_status == 2 and says in verdict.lines[0]


SUM = re.search(r"    float sum = 0.0f;.*?grad_weights\[idx\] = sum;\n", solution(WEIGHTS), re.DOTALL)[0]
OTHER_ORDER = """\
    float sum = 0.0f;
    for (int q = W_out - 1; q >= 0; q--)
        for (int p = 0; p < H_out; ++p)
            for (int b = 0; b < batch; ++b)
                sum += input[((b * C_in + c) * H + p + r) * W + q + s] *
                       grad_output[((b * C_out + k) * H_out + p) * W_out + q];
    grad_weights[idx] = sum;
"""
POINTERS = """\
    const float* in = input + (c * H + r) * W + s;
    const float* grad = grad_output + k * H_out * W_out;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++, in += C_in * H * W, grad += C_out * H_out * W_out)
        for (int p = 0; p < H_out; p++)
            for (int q = 0; q < W_out; q++) sum = fmaf(grad[p * W_out + q], in[p * W + q], sum);
    grad_weights[idx] = sum;
"""
HELPER = """\
__device__ int at(int a, int b, int B, int c, int C, int d, int D) {
    return ((a * B + b) * C + c) * D + d;
}
"""
RIGHT = {
    "other loop order": (SUM, OTHER_ORDER),
    "double accumulation": ("float sum = 0.0f", "double sum = 0.0"),
    "pointer arithmetic": (SUM, POINTERS),
    "kernels without extern C": ('extern "C" ', ""),
    "helper function": ("input[" + ROW + "]", "input[at(b, c, C_in, p + r, H, q + s, W)]"),
    "unrolled loop": ("for (int q = 0;", "#pragma unroll 4\n            for (int q = 0;"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sampled(RIGHT))  # tests/kernels has more of them
def test_another_right_way_to_write_it_passes(name, grade):
    old, new = RIGHT[name]
    assert old in solution(WEIGHTS)
    verdict = grade(WEIGHTS, HELPER + solution(WEIGHTS).replace(old, new), whole=True)
    assert verdict.passed, lines(verdict)


def test_another_seed_changes_inputs_and_not_the_verdict(tmp_path):
    puzzle = PUZZLES[WEIGHTS]
    assert all(
        grade_file(small(puzzle), puzzle.solution_path, Options("cpu", seed)).passed for seed in (1, 2)
    )


def test_each_case_of_a_puzzle_can_be_graded_alone():
    """Its gates count in a case of their own."""
    for id in COURSE.ids():
        puzzle = COURSE.load(id)
        alone = only(puzzle, puzzle.cases[0].name)
        assert alone.cases == puzzle.cases[:1] and not alone.gates


def test_what_is_wrong_is_shown_before_what_is_still_empty(grade):
    puzzle = PUZZLES["04_relu"]
    stub = stub_text(puzzle)
    body = "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) output[i] = input[i] > 1 ? input[i] : 0;\n"
    verdict = grade("04_relu", re.sub(r"(    // TODO\(1\)[^\n]*\n)", lambda m: m[1] + body, stub))
    assert (verdict.kernel, verdict.kind) == ("relu_forward", "wrong")
    empty = [f.facts["kernel"] for f in verdict.findings if f.kind == "still_empty"]
    assert empty == ["relu_inplace", "relu_backward"]
