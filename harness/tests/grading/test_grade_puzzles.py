"""The course checks itself on the virtual GPU: solutions pass, stubs and mutants fail, messages explain.

Everything starts from the solutions, so this holds in a checkout where a student has edited the stubs.
"""

from __future__ import annotations

import pickle
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.course.checkout import Course
from harness.course.declare import kernel_span, stub_text
from harness.devices import open_device
from harness.grading import naming, runs
from harness.grading.grade import Options, grade_file
from harness.grading.runs import in_order
from harness.report.text import MOST_LINES, verdict_lines
from harness.tests.course.test_puzzles import FAULTS, KINDS

COURSE = Course(Path(harness.__file__).resolve().parent.parent)
PUZZLES = {p.id: p for p in COURSE.puzzles() if p.kernels}  # those in Python: test_program_grade
IDS = list(PUZZLES)
MUTANTS = [pytest.param(i, m, id=f"{i[:2]}-{m.name}") for i, p in PUZZLES.items() for m in p.mutants]
SMALLEST = 6  # cases in which a mutant is tried at first
WEIGHTS = "09_conv2d_backward_weights"


def solution(puzzle_id):
    return PUZZLES[puzzle_id].solution_path.read_text(encoding="utf-8")


def alone(puzzle, mutant):
    """(puzzle, text) of a mutant with nothing but the kernel that it breaks: the others are right."""
    text, names = mutant.apply(solution(puzzle.id)), {k.name for k in puzzle.kernels}
    own = [g for g in puzzle.gates if mutant.kernel in (g.kernels or names)]
    gates = tuple(g for g in own if set(g.kernels or names) == {mutant.kernel})
    if "slow" in mutant.expected and len(gates) < len(own):
        return puzzle, text
    for kernel in puzzle.kernels:
        start, end = kernel_span(text, kernel.name)
        if kernel.name != mutant.kernel:
            text = text[:start] + "\n" * text.count("\n", start, end) + text[end:]
    kernel = puzzle.kernel(mutant.kernel)
    cases = tuple(replace(c, kernels=()) for c in puzzle.cases if kernel in puzzle.kernels_of(c))
    named = tuple(m for m in puzzle.misconceptions if m.kernel == mutant.kernel)
    return replace(puzzle, kernels=(kernel,), cases=cases, misconceptions=named, gates=gates), text


def lines(verdict):
    return ["".join(text for text, _ in line) for line in verdict_lines(verdict)]


@pytest.fixture(scope="module", autouse=True)
def same_inputs():
    """The inputs of a case, what is right and what misconceptions lead to are made once for all mutants."""
    made: dict = {}

    def once(make):
        def found(puzzle, case, kernel, given):  # a seed, or the inputs, which stay in `made`
            key = (
                make,
                puzzle.id,
                case.name,
                *case.dims.values(),
                kernel.name,
                given if isinstance(given, int) else id(given),
            )
            if key not in made:
                made[key] = make(puzzle, case, kernel, given), given
            return made[key][0]

        return found

    with pytest.MonkeyPatch.context() as patch:
        for name in ("make_inputs", "expectations"):
            patch.setattr(runs, name, once(getattr(runs, name)))
        foreseen, prediction = {}, naming.prediction

        def predicted(m, kernel, seen):
            key = m.id, kernel.name, id(seen.arrays)
            if key not in foreseen:
                foreseen[key] = prediction(m, kernel, seen), seen.arrays
            return foreseen[key][0]

        patch.setattr(naming, "prediction", predicted)
        yield


def impatient(*args, **options):
    """A device on which a thread may go round its loops 8 million times, not 134: no case here needs more."""
    device = open_device(*args, **options)
    device.step_budget = 1 << 23
    return device


@pytest.fixture
def grade(tmp_path):
    """Grades a text (or bytes) as the kernel file of a puzzle; every report is short."""

    def run(puzzle, source, name="kernel.cu", seed=0):
        puzzle, path = PUZZLES[puzzle] if isinstance(puzzle, str) else puzzle, tmp_path / name
        if source is not None:
            path.write_bytes(source if isinstance(source, bytes) else source.encode())
        verdict = grade_file(puzzle, path, Options("cpu", seed), impatient)
        assert len(lines(verdict)) <= MOST_LINES
        assert pickle.loads(pickle.dumps(verdict)).lines == verdict.lines
        return verdict

    return run


@pytest.mark.parametrize("puzzle_id", IDS)
def test_every_solution_passes(puzzle_id, grade):
    verdict = grade(puzzle_id, solution(puzzle_id), seed=None)
    assert verdict.passed, lines(verdict)
    assert all(c.status == "passed" for c in verdict.cases)


@pytest.mark.parametrize("puzzle_id", IDS)
def test_every_stub_compiles_and_fails(puzzle_id, grade):
    puzzle = PUZZLES[puzzle_id]
    text = stub_text(puzzle)
    assert puzzle.repair or grade(puzzle_id, text).kind == "untouched"
    assert grade(puzzle_id, "// mine\n" + text).kind in ("unwritten", "wrong", "fault")


@pytest.mark.parametrize(("puzzle_id", "mutant"), MUTANTS)
def test_every_mutant_fails_with_its_diagnosis(puzzle_id, mutant, grade, monkeypatch):
    """In its smallest cases, where those do: up to the first that fails, unless others have to confirm a name."""
    puzzle, text = alone(PUZZLES[puzzle_id], mutant)
    cases = [c for c in in_order(puzzle) if not c.stress]
    if set(mutant.expected) <= FAULTS | KINDS:
        with monkeypatch.context() as patch:
            patch.setattr(runs, "PATIENCE", 0)
            verdict = grade(replace(puzzle, cases=tuple(cases)), text)
    else:
        verdict = grade(replace(puzzle, cases=tuple(cases[:SMALLEST]), gates=()), text)
    if verdict.diagnosis not in mutant.expected:
        verdict = grade(puzzle, text)
    assert verdict.exit_status == 1
    assert verdict.diagnosis in mutant.expected, lines(verdict)
    assert mutant.line in "\n".join(verdict.lines)


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
    "no batch loop": ([(LOOPS, LOOPS.replace("b < batch", "b < 1"))], "batch_0_only", ["batch item 0 alone"]),
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
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained_quickly(name, grade):
    edits, diagnosis, parts = MISTAKES[name]
    started = time.perf_counter()
    verdict = grade(WEIGHTS, edited(*edits))
    assert time.perf_counter() - started < 10  # under 5 s on a machine that does nothing else
    text = "\n".join(lines(verdict))
    assert verdict.exit_status == 1 and verdict.diagnosis == (diagnosis or verdict.diagnosis), text
    for part in parts:
        assert part in text


def test_a_million_printf_lines_are_cut_and_it_is_said(grade):
    loop = 'for (int i = 0; i < 1000000; i++) printf("sum %d\\n", i);\n    float sum = 0.0f;'
    started = time.perf_counter()
    verdict = grade(WEIGHTS, edited(("float sum = 0.0f;", loop)))
    assert time.perf_counter() - started < 15
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


@pytest.mark.parametrize("name", RIGHT)
def test_another_right_way_to_write_it_passes(name, grade):
    old, new = RIGHT[name]
    assert old in solution(WEIGHTS)
    verdict = grade(WEIGHTS, HELPER + solution(WEIGHTS).replace(old, new))
    assert verdict.passed, lines(verdict)


def test_another_seed_changes_inputs_and_not_the_verdict(tmp_path):
    puzzle = PUZZLES[WEIGHTS]
    assert all(grade_file(puzzle, puzzle.solution_path, Options("cpu", seed)).passed for seed in (1, 2))
