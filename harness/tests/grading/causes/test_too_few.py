"""An index of one thread each that goes further than the launch has threads."""

from __future__ import annotations

import pytest

from harness.course.checkout import Course
from harness.course.cuda_text import read
from harness.course.declare import Int, Kernel, Launch, Out
from harness.grading.causes.too_few import too_few_threads, whole_blocks_spare
from harness.tests.lenet.small import ROOT

COURSE = Course(ROOT)
MEAN = "mean_loss(const float* losses, float* mean, int n)"
WEIGHTS = "conv2d_backward_weights(const float* g, const float* x, float* d, int N, int C, int H, int W, int K, int F)"
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"


def told(number, head, body):
    puzzle = COURSE.load(number)
    name = head.partition("(")[0]
    (kernel,) = (k for k in puzzle.kernels if k.name == name)
    own = read(f"__global__ void {head} {{\n{body}\n}}").function(name)
    cases = [puzzle.full_dims(c) for c in puzzle.cases if not c.stress and kernel in puzzle.kernels_of(c)]
    launches = [(d, kernel.launch(dict(d), {})) for d in cases]
    return [slip.says for slip in too_few_threads(kernel, own, launches, [])]


@pytest.mark.parametrize(
    ("number", "head", "body", "says"),
    [
        (
            "05",
            MEAN,
            INDEX + "if (i < n) atomicAdd(mean, losses[i] / n);",
            "Line 3 lets i go up to n (2 in a failing case)",
        ),
        (
            "05",
            MEAN,
            INDEX + "if (i >= n) return;\natomicAdd(mean, losses[i] / n);",
            "only one thread, so no thread does i = 1 or more.",
        ),
        (
            "09",
            WEIGHTS,
            "int P = H - F + 1, Q = W - F + 1;\n"
            + INDEX
            + "if (i >= N * K * P * Q) return;\natomicAdd(d, g[i]);",
            "no thread does i = 64 or more.",
        ),
    ],
)
def test_an_index_beyond_the_threads_is_told(number, head, body, says):
    found = told(number, head, body)
    assert says in found[0]


@pytest.mark.parametrize(
    ("number", "head", "body"),
    [
        (
            "05",
            MEAN,
            "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) mean[0] += losses[i];",
        ),
        ("05", MEAN, INDEX + "while (i < n) { if (i < n) mean[0] += losses[i]; i += blockDim.x; }"),
        ("05", MEAN, INDEX + "for (int b = i; b < n; b++) if (i < n) mean[0] += losses[b];"),
        ("05", MEAN, INDEX + "if (i < 1) for (int b = 0; b < n; b++) mean[0] += losses[b];"),
        ("09", WEIGHTS, INDEX + "if (i < K * C * F * F) d[i] = 0;"),
    ],
)
def test_loops_and_right_bounds_are_left_alone(number, head, body):
    assert told(number, head, body) == []


def test_a_launch_of_more_blocks_than_its_elements_need():
    def spare(blocks, n):
        kernel = Kernel("k", (Out("y", n="N"), Int("N")), lambda d, t: Launch(blocks, 32), lambda a, d: None)
        return whole_blocks_spare(kernel, {"N": n}, {})

    assert spare(4, 4) and spare(2, 32)
    assert not spare(1, 1) and not spare(2, 33)
