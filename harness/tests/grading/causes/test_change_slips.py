"""Elements that are changed in every iteration, by a whole sum, or before their old value is used."""

from __future__ import annotations

import pytest

from harness.course.checkout import Course
from harness.course.cuda_text import read
from harness.grading.causes.change_slips import change_slips, repeated_changes
from harness.grading.differences import with_parameters_of
from harness.tests.lenet.small import ROOT

COURSE = Course(ROOT)


def repeated(body):
    text = "__global__ void f(float* y, const float* x, int* at, int n, int m) {\n%s\n}"
    return [slip.says for slip in repeated_changes(read(text % body).function("f"))]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "for (int k = 0; k < n; k++) {\n y[k] = x[k];\n y[at[0]] -= 1.0f / m; }",
            "subtracted from y[at[0]]",
        ),
        ("for (int r = 0; r < n; r++)\n for (int c = 0; c < m; c++) y[r] += x[r];", "loop over c (line 3)"),
    ],
)
def test_what_does_not_change_with_the_loop_is_done_in_every_turn(body, says):
    (text,) = repeated(body)
    assert says in text


@pytest.mark.parametrize(
    "body",
    [
        "for (int k = 0; k < n; k++) { if (k == at[0]) y[at[0]] -= 1.0f; }",
        "for (int k = 0; k < n; k++) y[0] += x[k];",
        "for (int k = 0; k < n; k++) { int i = k * m; y[0] += x[i]; }",
        "for (int k = 0; k < n; k++) { if (x[k] < 0) continue; y[0] += 1.0f; }",
        "for (int k = 0; k < n; k++) { float v = x[k]; y[0] += v; }",
        "for (int k = 0; k < n; k++) at[0] += 1;",
        "for (int k = 0; k < n; k++) y[0] += y[0];",
    ],
)
def test_what_depends_on_the_loop_or_counts_is_left_alone(body):
    assert repeated(body) == []


SGD = """extern "C" __global__ void sgd_step(float* w, float* u, const float* g, int n,
                                    float rate, float momentum, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    %s
}"""


def of_sgd(*lines):
    puzzle = COURSE.load("11")
    file = read(SGD % "\n    ".join(lines))
    solution = read(puzzle.solution_path.read_text(encoding="utf-8"))
    right = with_parameters_of(file, solution, "sgd_step").function("sgd_step")
    return [slip.says for slip in change_slips(puzzle.kernels[0], file.function("sgd_step"), right)]


def test_a_product_with_a_whole_sum_is_told():
    assert of_sgd("u[i] *= momentum + g[i] + decay * w[i];", "w[i] -= rate * u[i];") == [
        "Line 5: u[i] *= ... multiplies u[i] by the whole right side, (momentum + g[i] + decay * w[i])."
    ]
    assert of_sgd("float v = u[i];", "v *= momentum + g[i];", "u[i] = v;")[0].startswith("Line 6: v *= ...")
    assert of_sgd("u[i] *= momentum;", "u[i] += g[i] + decay * w[i];", "w[i] -= rate * u[i];") == []


def test_a_value_that_is_changed_before_it_is_used_is_told():
    update = "w[i] -= rate * (momentum * u[i] + g[i] + decay * w[i]);"
    assert of_sgd(update, "u[i] = momentum * u[i] + g[i] + decay * w[i];") == [
        "Line 5 changes w[i], and line 6 then uses the new value; u needs the old one."
    ]
    told = of_sgd(update, "float v = momentum * u[i] + g[i] + decay * w[i];", "u[i] = v;")
    assert told == ["Line 5 changes w[i], and line 6 then uses the new value; u needs the old one."]


def test_a_value_that_was_kept_may_be_changed_first():
    keeps = ("float old = w[i];", "float v = momentum * u[i] + g[i] + decay * old;")
    assert of_sgd(*keeps, "w[i] = old - rate * v;", "u[i] = v;") == []
    assert of_sgd("u[i] = momentum * u[i] + g[i] + decay * w[i];", "w[i] -= rate * u[i];") == []
