"""Puzzle 10: the gradient of a convolution's input, one thread per input element."""

from __future__ import annotations

from backwarp.course import Case, Gradient, Mistake, Puzzle
from backwarp.course.conv_cases import one_thread_each
from backwarp.course.convolutions import backward_input, loss_of_input
from backwarp.course.sizes import Ints, gradient_check, integers, own_sizes, with_inputs

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
    bench=dict(batch=128, C_in=64, H=56, W=56, C_out=64, F=3),
    cases=(
        with_inputs(
            "conv_bwi_tiny_3x3",
            dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2),
            "done by hand in the lesson",
            grad_output=[[[[1, 2], [3, 1]]]],
            weights=[[[[2, -1], [1, 3]]]],
        ),
        Case("filter_1x1", dict(batch=2, C_in=3, H=4, W=3, C_out=4, F=1), "only channels"),
        Case("one_channel_wide", dict(batch=2, C_in=1, H=5, W=8, C_out=1, F=3), "W > H"),
        Case(
            "output_1x1",
            dict(batch=3, C_in=2, H=4, W=4, C_out=3, F=4),
            "the filter covers the image: one position, every tap used once",
        ),
        gradient_check("conv_bwi_numerical_gradient_check", dict(batch=2, C_in=2, H=5, W=6, C_out=3, F=3)),
        integers(dict(batch=2, C_in=3, H=6, W=9, C_out=4, F=3)),
        Case(
            "batch_odd", dict(batch=3, C_in=4, H=9, W=7, C_out=5, F=2, threads=96), "all sizes differ; H > W"
        ),
        Case("fewer_filters_than_channels", dict(batch=2, C_in=5, H=7, W=8, C_out=2, F=3), "C_out < C_in"),
        Case(
            "output_smaller_than_filter",
            dict(batch=2, C_in=2, H=7, W=6, C_out=3, F=5),
            "every element lies near the border",
        ),
        Case("nothing_divides", dict(batch=3, C_in=5, H=19, W=17, C_out=7, F=3), "38 blocks"),
        Case("conv_bwi_lenet_conv2", dict(batch=8, C_in=6, H=12, W=12, C_out=16, F=5), "LeNet's second"),
        own_sizes(
            batch=(257, 290), C_in=(2, 4), H=(4, 8), W=(4, 8), C_out=(2, 5), F=(1, 3), threads=(30, 90)
        ),
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
