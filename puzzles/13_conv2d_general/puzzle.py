"""Puzzle 13: convolution with stride, padding and dilation, forward and backward, one thread per element."""

from __future__ import annotations

import numpy as np

from backwarp.course import Case, Gradient, Mistake, Puzzle, mistakes_in
from backwarp.course import convolutions as passes
from backwarp.course.conv_cases import ALONE, ints, output_sizes, own_sizes, size
from backwarp.course.sizes import by_hand, gradient_check, integers, one_thread_each, with_inputs

FORWARD, INPUT = "conv2d_forward", "conv2d_backward_input"
WEIGHTS, BIAS = "conv2d_backward_weights", "conv2d_backward_bias"

MISTAKES = (
    *mistakes_in(
        INPUT,
        Mistake(
            "input: remainder of a negative",
            (
                ("< 0 || down % stride_h != 0", "% stride_h > 0"),
                ("< 0 || right % stride_w != 0", "% stride_w > 0"),
                ("p >= H_out", "p < 0 || p >= H_out || q < 0"),
            ),
            says="Products of positions above or left of the first one are counted at position 0: in C, -1 / "
            "2 is 0 and -1 % 2 is -1.",
            hint=2,
        ),
    ),
)

PUZZLE = Puzzle(
    title="Convolution with stride, padding and dilation",
    part=2,
    teaches="How one equation, h = p * stride - pad + r * dilation, gives all passes of every convolution.",
    practice="cuDNN describes a convolution by the same three pairs of numbers: padding, stride, dilation.",
    lines=50,
    kernels=(
        passes.forward(FORWARD, one_thread_each("batch", "C_out", "H_out", "W_out"), ints()),
        passes.backward_input(INPUT, one_thread_each("batch", "C_in", "H", "W"), ints()),
        passes.backward_weights(WEIGHTS, one_thread_each("C_out", "C_in", "R", "S"), ints()),
        passes.backward_bias(BIAS, one_thread_each("C_out")),
    ),
    dims=lambda d: {**output_sizes(d), "threads": 128, **d},
    gradient_of={INPUT: Gradient(passes.loss_of_input), WEIGHTS: Gradient(passes.loss_of_weights)},
    bench=size(128, 128, 71, 71, 256, 3, 3, stride=(2, 2), pad=(1, 1)),
    cases=(
        by_hand(
            "conv_general_tiny",
            size(1, 1, 3, 4, 1, 2, 2, stride=(2, 1), pad=(1, 0), dilation=(1, 2)),
            input=[[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]],
            weights=[[[[2, -1], [1, 3]]]],
            bias=[1],
            grad_output=[[[[1, 2], [3, -1]]]],
        ),
        with_inputs(
            "one_pixel",
            size(1, 1, 5, 7, 1, 3, 3, stride=(2, 1), pad=(1, 1), dilation=(1, 2)),
            "one pixel is 1, the taps are numbered 1 to 9: the picture of the lesson",
            kernels=(FORWARD,),
            input=np.arange(35) == 24,
            weights=range(1, 10),
            bias=[0],
        ),
        *ALONE,
        Case("filter_1x1_stride_2", size(2, 3, 6, 5, 4, 1, 1, stride=(2, 2)), "most inputs are never read"),
        Case("stride_larger_than_filter", size(2, 1, 9, 8, 1, 2, 2, stride=(3, 4)), "gaps between windows"),
        Case("remainder_rows", size(2, 3, 10, 8, 4, 3, 3, stride=(2, 2)), "the last row is never read"),
        Case("padding_covers_the_filter", size(2, 2, 3, 4, 3, 2, 2, stride=(1, 2), pad=(2, 3)), "zeros only"),
        Case("output_1x1", size(3, 2, 5, 7, 3, 3, 3, dilation=(2, 3)), "the filter covers the image"),
        gradient_check(
            "conv_general_numerical_gradient_check",
            size(2, 2, 5, 6, 3, 3, 2, stride=(2, 1), pad=(1, 1), dilation=(1, 2)),
        ),
        integers(size(2, 3, 7, 10, 3, 2, 3, stride=(2, 1), pad=(1, 2), dilation=(1, 3))),
        Case("resnet_block", size(2, 5, 14, 14, 6, 3, 3, stride=(2, 2), pad=(1, 1)), "3 x 3, stride 2"),
        own_sizes(threads=(30, 90)),
    ),
    mistakes=MISTAKES,
    hints=(
        "All four kernels are those of part 1 with one relation replaced. There, tap r of the filter at "
        "position p lay on row p + r. Now count the rows of the padded image: position p starts at p "
        "strides, tap r is r dilations further. Then go from padded rows to the image's own: the padding "
        "comes before its row 0. Columns are the same with their own three numbers.",
        "Forward and weight gradient know p and r and want h. Where h is not a row of the image, there is a "
        "zero of the padding, and the product is left out (continue). The input gradient knows h and r and "
        "wants p: solve for it. What is left to divide by the stride may be negative, may leave a remainder, "
        "may lead past H_out: in all three cases no position put this tap on the element. Test for negative "
        "before you use % or /, which round towards zero in C.",
        "For rows: position times stride, minus padding, plus tap times dilation gives the row. Solved the "
        "other way: row plus padding minus tap times dilation must be a multiple of the stride, from zero to "
        "stride times (H_out minus one). The padding changes its sign because it changes sides. Nothing else "
        "differs from puzzles 07, 09 and 10, except that the filter has R rows and S columns.",
    ),
)
