"""Puzzle 33: the weight gradient of a convolution in groups: all groups in one launch; depthwise, in one pass."""

from __future__ import annotations

import numpy as np

from harness.conv_cases import ints, options, output_sizes, shape, size
from harness.conv_mistakes import convolution, weight_gradient
from harness.course import Case, Gate, Gradient, In, Kernel, Launch, Misconception, Mutant, Out, Puzzle, ceil_div
from reference import conv

GROUPED, DEPTHWISE = "conv2d_backward_weights_grouped", "conv2d_backward_weights_depthwise"
TILE, LANES, ROWS = 16, 16, 4


def right(a, d):
    filters = shape(d, "C_out", "C_group", "R", "S")
    return conv.backward_weights(a["grad_output"], a["input"], filters, **options(d))


def tiles(d, side=TILE):
    """Rows and columns of the tiles of one group's gradient."""
    return ceil_div(d["C_out"] // d["groups"], side), ceil_div(d["C_group"] * d["R"] * d["S"], side)


def must_move(d):
    """Bytes of the first kernel: in each group, grad_output once for every column of tiles, the windows for every row."""
    down, across = tiles(d)
    reads = across * d["C_out"] + down * d["C_in"] * d["R"] * d["S"]
    return 4 * (d["batch"] * d["H_out"] * d["W_out"] * reads + d["C_out"] * d["C_group"] * d["R"] * d["S"])


def once(d):
    """Bytes of the arrays of the second kernel."""
    image = d["C_in"] * d["H"] * d["W"] + d["C_out"] * d["H_out"] * d["W_out"]
    return 4 * (d["batch"] * image + d["C_out"] * d["R"] * d["S"])


def grouped_launch(d, t):
    """Blocks in x: the tiles of one group, row of tiles after row; in y: the groups."""
    down, across = tiles(d, t["TILE"])
    return Launch(grid=(down * across, d["groups"]), block=(t["TILE"], t["TILE"]))


def depthwise_launch(d, t):
    """A block for every channel, with LANES threads for every weight of it."""
    filters, lanes, rows = d["C_out"] // d["C_in"], t["LANES"], t["ROWS"]
    weights = filters * d["R"] * d["S"]
    keep = (rows - 1) * d["stride_h"] + (d["R"] - 1) * d["dilation_h"] + 1
    shared = keep * d["W"] + filters * rows * d["W_out"] + weights * (lanes + 1)
    return Launch(grid=d["C_in"], block=(lanes, min(weights, 32)), shared_mem=4 * shared)


def loss(w, a, d):
    """A loss whose gradient at the convolution's output is grad_output, as a function of the weights."""
    return np.sum(a["grad_output"] * conv.forward(a["input"], w, **options(d)))


ARRAYS = (
    In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
    In("input", b="batch", c="C_in", h="H", w="W"),
    Out("grad_weights", k="C_out", c="C_group", r="R", s="S"),
)

PUZZLE = Puzzle(
    title="Grouped and depthwise gradient of the weights",
    part=4,
    teaches="How one launch multiplies the matrices of all groups, and what to do where they are too small for tiles.",
    lines=56,
    kernels=(
        Kernel(GROUPED, params=(*ARRAYS, *ints("groups")), launch=grouped_launch, reference=right),
        Kernel(DEPTHWISE, params=(*ARRAYS, *ints()), launch=depthwise_launch, reference=right),
    ),
    dims=lambda d: {**output_sizes(d), "C_group": d["C_in"] // d["groups"], **d},
    gradient_of={GROUPED: Gradient(loss), DEPTHWISE: Gradient(loss)},
    cases=(
        Case("implicit_grouped_tiny", size(1, 2, 2, 3, 2, 1, 2, groups=2), note="done by hand in the lesson"),
        Case("one_group", size(2, 3, 5, 4, 2, 3, 2, groups=1), note="an ordinary convolution", kernels=(GROUPED,)),
        Case("output_1x1", size(3, 4, 5, 3, 8, 3, 2, dilation=(2, 2), groups=4), note="multiplier 2"),
        Case("one_channel", size(2, 1, 9, 7, 3, 2, 3, groups=1), note="one channel, three filters"),
        Case("filter_1x1_stride_2", size(2, 34, 7, 9, 6, 1, 1, stride=(2, 2), groups=2), note="17 columns", kernels=(GROUPED,)),
        Case("wide", size(2, 2, 4, 20, 34, 3, 3, pad=(1, 1), groups=2), note="17 filters of one channel"),
        Case("grouped_numerical_gradient_check", size(2, 4, 5, 4, 6, 2, 2, stride=(2, 1), pad=(1, 0), groups=2), check="gradient", kernels=(GROUPED,)),
        Case("depthwise_numerical_gradient_check", size(2, 2, 11, 4, 4, 3, 2, stride=(2, 1), pad=(2, 1), dilation=(2,1), groups=2), check="gradient", kernels=(DEPTHWISE,)),
        Case("integers", size(2, 6, 9, 8, 4, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2), groups=2), values="integers", kernels=(GROUPED,)),
        Case("integers_depthwise", size(3, 2, 17, 8, 2, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2), groups=2), values="integers"),
        Case("stride_larger", size(2, 2, 35, 8, 2, 2, 2, stride=(4, 3), groups=2)),
        Case("many_weights", size(1, 1, 9, 8, 1, 7, 6, pad=(3,2), groups=1)),
        Case("depthwise_counted", size(2, 4, 16, 16, 8, 3, 3, pad=(1, 1), groups=4)),
        Case("counted", size(2, 16, 8, 8, 16, 3, 3, pad=(1, 1), groups=4), kernels=(GROUPED,)),
    ),
    misconceptions=(), mutants=(), hints=("a b c " * 10, "d", "e"),
)
PUZZLE.cases
