"""An index of one thread each that goes further than the launch has threads."""

from __future__ import annotations

import pytest

from harness.course.checkout import Course
from harness.course.declare import Int, Kernel, Launch, Out
from harness.cuda.text import read
from harness.grading.causes.too_few import (
    split_grids,
    too_few_in_a_block,
    too_few_threads,
    whole_blocks_spare,
)
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
            "that launch has only 64 threads, one for each element of grad_weights (C_out * C_in * F * F = 12), rounded up to "
            "whole blocks of 64, so no thread does i = 64 or more.",
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


KERNEL = Kernel("f", (Out("y", n="N"), Int("N"), Int("C")), lambda d, t: Launch(1, 1), lambda a, d: None)
FILL = "__shared__ float s[99];\nint t = threadIdx.y * blockDim.x + threadIdx.x, e = t;\n{}"


def found(look, body, *cases):
    """What is said in these cases that fail: (N, C, launch)."""
    own = read(f"__global__ void f(float* y, int N, int C) {{\n{body}\n}}").function("f")
    return [
        slip.says for slip in look(KERNEL, own, [({"N": n, "C": c}, launch) for n, c, launch in cases], [])
    ]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("if (e < N + 1) s[e] = 0;", True),
        ("if (e < N) s[e] = 0; if (e + 8 < N) s[e + 8] = 0;", False),
        ("for (int i = e; i < N; i += 8) s[i] = 0;", False),
        ("if (e >= N) return; y[e / 2] = 0; s[e / 32] = 0;", False),
        ("if (e < N) y[e] = 0; s[e] = 0;", False),
        ("if (threadIdx.x < N) s[threadIdx.x] = 0;", False),
    ],
)
def test_more_elements_of_a_tile_than_a_block_has_threads(body, told):
    says = found(too_few_in_a_block, FILL.format(body), (9, 1, Launch(2, (4, 2))))
    assert bool(says) == told
    assert not told or says[0].startswith(
        "Line 4 lets e go up to N + 1 (10 in a failing case); a block has only 8 threads there, so no thread does e = 8 or more."
    )
    assert not found(too_few_in_a_block, FILL.format(body), (7, 1, Launch(2, (4, 2))))


def test_blocks_that_are_divided_into_unequal_parts():
    body = "int tiles = C;\nint c = blockIdx.x % tiles, n = blockIdx.x / tiles;"
    assert found(split_grids, body, (1, 2, Launch(4, 8)), (1, 2, Launch(3, 8))) == [
        "Line 3 has blockIdx.x % tiles. In a failing case tiles is 2, and the launch has 3 blocks along x, which is no multiple "
        "of that."
    ]
    assert not found(split_grids, body, (1, 2, Launch(4, 8)), (1, 2, Launch(1, 8)))
