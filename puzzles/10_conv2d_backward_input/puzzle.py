"""Puzzle 10: the gradient of a convolution's input, one thread per input element."""

from __future__ import annotations

from backwarp.course import Case, Gradient, Mistake, Puzzle
from backwarp.course.conv_cases import SMALL_SQUARES, square
from backwarp.course.convolutions import backward_input, loss_of_input
from backwarp.course.sizes import Ints, by_hand, gradient_check, integers, one_thread_each, own_sizes

KERNEL = "conv2d_backward_input"
STORE = "grad_input[idx] = sum;"

MISTAKES = (
    Mistake(
        "scattered without an atomic",
        (STORE, "grad_input[idx] = sum;\n    grad_input[idx / 2] += sum;"),
        expect=("race", "uninitialised-read", "wrong", "schedule"),
    ),
)

PUZZLE = Puzzle(
    title="Convolution, gradient of the input",
    part=1,
    teaches="How to turn a sum that scatters into one that gathers, so that no two threads meet.",
    practice="cuDNN calls this pass backward data; the forward pass of torch.nn.ConvTranspose2d is the same "
    "kernel (puzzle 16).",
    lines=20,
    kernels=(
        backward_input(KERNEL, one_thread_each("batch", "C_in", "H", "W"), Ints("batch C_in H W C_out F")),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "threads": 128, **d},
    gradient_of={KERNEL: Gradient(loss_of_input)},
    bench=square(128, 64, 56, 56, 64, 3),
    cases=(
        by_hand(
            "conv_bwi_tiny_3x3",
            square(1, 1, 3, 3, 1, 2),
            grad_output=[[[[1, 2], [3, 1]]]],
            weights=[[[[2, -1], [1, 3]]]],
        ),
        Case("filter_1x1", square(2, 3, 4, 3, 4, 1), "only channels"),
        Case("one_channel_wide", square(2, 1, 5, 8, 1, 3), "W > H"),
        Case("output_1x1", square(3, 2, 4, 4, 3, 4), "the filter covers the image: each tap once"),
        gradient_check("conv_bwi_numerical_gradient_check", square(2, 2, 5, 6, 3, 3)),
        integers(square(2, 3, 6, 9, 4, 3)),
        Case("batch_odd", square(3, 4, 9, 7, 5, 2, threads=96), "all sizes differ; H > W"),
        Case("fewer_filters_than_channels", square(2, 5, 7, 8, 2, 3), "C_out < C_in"),
        Case("output_smaller_than_filter", square(2, 2, 7, 6, 3, 5), "every element lies near the border"),
        Case("nothing_divides", square(3, 5, 19, 17, 7, 3), "38 blocks"),
        Case("conv_bwi_lenet_conv2", square(8, 6, 12, 12, 16, 5), "LeNet's second"),
        own_sizes(**SMALL_SQUARES, threads=(30, 90)),
    ),
    mistakes=MISTAKES,
    hints=(
        "Each thread owns one input element and asks: in which products of the forward pass was I a factor? "
        "There was one for every filter k and every tap (r, s) that ever lay on me. The other factor was "
        "that tap's weight, and the product went to the output element where the filter stood then. So the "
        "gradient is a plain sum of grad_output times weight, over k, r and s, with no division.",
        "Split idx like a clock: w turns fastest, then h, c and b. Then three nested loops, over all C_out "
        "filters and the F rows and F columns of taps. For every tap work out where the filter stood. Near "
        "the border that position may not exist, above or left of the image as well as too far down or "
        "right: leave that one tap out (continue) and go on with the next. The sum is stored once.",
        "If the filter stands at (p, q), its tap (r, s) lies on element (p + r, q + s). You know the element "
        "and the tap, so p is h - r and q is w - s. Positions run from 0 to H_out - 1 and from 0 to W_out - "
        "1; H and W do not matter here. grad_output is indexed by b, k, p, q with the sizes C_out, H_out, "
        "W_out; the weights by k, c, r, s with C_in, F, F.",
    ),
)
