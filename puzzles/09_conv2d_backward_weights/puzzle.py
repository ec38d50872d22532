"""Puzzle 09: the gradients of a convolution's weights and bias, one thread per gradient element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, Gradient, Puzzle
from backwarp.course.conv_cases import SMALL_SQUARES, square
from backwarp.course.convolutions import backward_bias, backward_weights, loss_of_weights
from backwarp.course.mistakes import Mistake, mistakes_in
from backwarp.course.sizes import Ints, by_hand, gradient_check, integers, one_thread_each, own_sizes

WEIGHTS, BIAS = "conv2d_backward_weights", "conv2d_backward_bias"

MISTAKES = (
    *mistakes_in(
        WEIGHTS,
        Mistake(
            "loop over the batch stops after image 0",
            ("batch; b", "1; b"),
            says="This is exactly the gradient of batch item 0 alone: nothing of the other images is added.",
            hint=2,
        ),
        Mistake("one row too far", ("H + p + r", "H + p + r + 1"), expect="out-of-bounds"),
    ),
)


def loss_of_bias(bias, a, d):
    """The same as a function of the bias; the weights may be anything, so they are 0."""
    input = np.zeros((d["batch"], d["C_in"], d["H"], d["W"]))
    weights = np.zeros((d["C_out"], d["C_in"], d["F"], d["F"]))
    return np.sum(a["grad_output"] * conv.forward(input, weights, bias))


PUZZLE = Puzzle(
    title="Convolution, gradient of the weights",
    part=1,
    teaches="How the gradient of a shared weight is a sum over every place where the weight was used.",
    practice="cuDNN calls this pass the backward filter; PyTorch's convolution_backward returns it together "
    "with the gradients of the input and the bias.",
    lines=25,
    kernels=(
        backward_weights(WEIGHTS, one_thread_each("C_out", "C_in", "F", "F"), Ints("batch C_in H W C_out F")),
        backward_bias(BIAS, one_thread_each("C_out")),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "threads": 64, **d},
    gradient_of={WEIGHTS: Gradient(loss_of_weights), BIAS: Gradient(loss_of_bias)},
    bench=square(128, 64, 56, 56, 64, 3),
    cases=(
        by_hand(
            "conv_bw_tiny_3x3",
            square(1, 1, 3, 3, 1, 2),
            grad_output=[[[[1, 2], [3, -1]]]],
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
        ),
        Case("one_channel_wide", square(2, 1, 5, 8, 1, 3), "W > H"),
        Case("output_1x1", square(3, 2, 4, 4, 3, 4), "the filter covers the image"),
        Case("filter_1x1", square(2, 3, 4, 5, 4, 1), "only channels"),
        gradient_check("conv_bw_numerical_gradient_check", square(2, 2, 5, 6, 3, 3)),
        integers(square(2, 3, 6, 9, 4, 3)),
        Case("many_filters", square(2, 1, 4, 5, 130, 2), "3 blocks for the bias"),
        Case("batch_odd", square(3, 4, 9, 7, 5, 2), "all sizes differ; H > W"),
        Case("nothing_divides", square(3, 5, 33, 31, 17, 3), "long sums"),
        Case("many_blocks", square(2, 13, 7, 6, 37, 3, threads=32), "136 blocks of 32; 2 for the bias"),
        Case("conv_bw_lenet_conv1", square(8, 1, 28, 28, 6, 5), "LeNet's first"),
        Case("conv_bw_lenet_conv2", square(8, 6, 12, 12, 16, 5), "LeNet's second"),
        own_sizes(**SMALL_SQUARES, threads=(30, 90)),
    ),
    mistakes=MISTAKES,
    hints=(
        "Each thread owns one weight, grad_weights[k, c, r, s], and asks: in which products of the forward "
        "pass was my weight a factor? In every output of channel k, at every position (p, q), in every "
        "image. So the gradient is a plain sum of products, one per output position and image, with no "
        "division. The bias was added to the same outputs, each time with a factor of 1.",
        "Split idx as a clock splits seconds: the last axis of grad_weights turns fastest, so s is the "
        "remainder of idx by F; divide by F and go on with r, then c, then k. Then three nested loops: b to "
        "batch, p to H_out, q to W_out. One running sum is set to zero once before the loops, added to in "
        "the innermost, and stored once after them.",
        "One product: grad_output at (b, k, p, q) times input at (b, c, p + r, q + s). The flat position of "
        "an element: take its first index; for every further axis multiply by that axis's size and add that "
        "axis's index. Use the sizes of the array you read: grad_output has C_out, H_out, W_out after the "
        "batch, input has C_in, H, W. In the bias kernel k is the thread's own number, compared with C_out.",
    ),
)
