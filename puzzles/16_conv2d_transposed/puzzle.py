"""Puzzle 16: the transposed convolution, forward as a gather, and its gradients."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, Gradient, In, Kernel, Mistake, Out, Puzzle, mistakes_in
from backwarp.course.conv_cases import ints, shape, transposed_output_sizes
from backwarp.course.conv_cases import options as options_of_a_convolution
from backwarp.course.conv_cases import size as size_of_a_convolution
from backwarp.course.sizes import by_hand, gradient_check, integers, one_thread_each, own_sizes, with_inputs

FORWARD, INPUT = "conv_transpose2d_forward", "conv_transpose2d_backward_input"
WEIGHTS = "conv_transpose2d_backward_weights"


def size(*sizes, out_pad=(0, 0), groups=1, **more):
    """The dims of a case; pairs are (rows, columns)."""
    more |= dict(out_pad_h=out_pad[0], out_pad_w=out_pad[1], groups=groups)
    return size_of_a_convolution(*sizes, **more)


def draw(pick):
    groups, stride = pick(2, 4), (pick(1, 3), pick(1, 3))
    return size(
        pick(257, 270),
        groups * pick(1, 2),
        pick(2, 4),
        pick(2, 4),
        groups * pick(1, 2),
        pick(2, 4),
        pick(2, 4),
        stride=stride,
        pad=(pick(0, 1), pick(0, 1)),
        out_pad=(pick(0, stride[0] - 1), pick(0, stride[1] - 1)),
        groups=groups,
        threads=pick(20, 90),
    )


def options(d):
    return {"output_padding": (d["out_pad_h"], d["out_pad_w"]), **options_of_a_convolution(d)}


MISTAKES = (
    *mistakes_in(
        FORWARD,
        Mistake(
            "forward: remainder of a negative",
            (
                ("< 0 || down % stride_h != 0", "% stride_h > 0"),
                ("< 0 || right % stride_w != 0", "% stride_w > 0"),
                ("h >= H || w", "h < 0 || h >= H || w < 0 || w"),
            ),
            says="Products of rows above or columns left of the input are counted at row or column 0: in C, "
            "-1 / 2 is 0 and -1 % 2 is -1.",
            hint=2,
        ),
        Mistake(
            "forward: no bias where no stamp reaches",
            ("[idx] = sum", "[idx] = sum == bias[channel] ? 0.0f : sum"),
            says="Output elements that no stamp reaches are 0; they hold the bias.",
        ),
    ),
)


def loss_of_weights(w, a, d):
    """A loss whose gradient at the layer's output is grad_output, as a function of the weights."""
    return np.sum(a["grad_output"] * conv.transposed(a["input"], w, **options(d)))


def loss_of_input(x, a, d):
    return np.sum(a["grad_output"] * conv.transposed(x, a["weights"], **options(d)))


IN = In("input", b="batch", c="C_in", h="H", w="W")
FILTERS = In("weights", c="C_in", k="K_group", r="R", s="S")
GRAD = In("grad_output", b="batch", k="C_out", p="H_out", q="W_out")
INTS = ints("out_pad_h", "out_pad_w", "groups")

PUZZLE = Puzzle(
    title="Transposed convolution",
    part=2,
    teaches="How the backward pass of one layer is the forward pass of another, and the other way round.",
    practice="torch.nn.ConvTranspose2d calls cuDNN's backward-data pass as its forward pass.",
    lines=55,
    kernels=(
        Kernel(
            FORWARD,
            params=(
                IN,
                FILTERS,
                In("bias", k="C_out"),
                Out("output", b="batch", k="C_out", p="H_out", q="W_out"),
                *INTS,
            ),
            launch=one_thread_each("batch", "C_out", "H_out", "W_out"),
            reference=lambda a, d: conv.transposed(a["input"], a["weights"], a["bias"], **options(d)),
        ),
        Kernel(
            INPUT,
            params=(GRAD, FILTERS, Out("grad_input", b="batch", c="C_in", h="H", w="W"), *INTS),
            launch=one_thread_each("batch", "C_in", "H", "W"),
            reference=lambda a, d: conv.transposed_backward_input(
                a["grad_output"], a["weights"], shape(d, "batch", "C_in", "H", "W"), **options(d)
            ),
        ),
        Kernel(
            WEIGHTS,
            params=(GRAD, IN, Out("grad_weights", c="C_in", k="K_group", r="R", s="S"), *INTS),
            launch=one_thread_each("C_in", "K_group", "R", "S"),
            reference=lambda a, d: conv.transposed_backward_weights(
                a["grad_output"], a["input"], shape(d, "C_in", "K_group", "R", "S"), **options(d)
            ),
        ),
    ),
    dims=lambda d: {**transposed_output_sizes(d), "K_group": d["C_out"] // d["groups"], "threads": 128, **d},
    gradient_of={INPUT: Gradient(loss_of_input), WEIGHTS: Gradient(loss_of_weights)},
    bench=size(32, 256, 14, 14, 128, 4, 4, stride=(2, 2), pad=(1, 1), groups=1),
    cases=(
        by_hand(
            "conv_transposed_tiny",
            size(1, 1, 2, 2, 1, 2, 3, stride=(1, 2)),
            input=[[[[1, 2], [3, 4]]]],
            weights=[[[[1, 2, -1], [3, 0, 1]]]],
            bias=[0],
            grad_output=[[[[1, 2, 0, 1, 1], [0, 1, 1, 2, 0], [1, 0, 3, 1, 1]]]],
        ),
        with_inputs(
            "one_pixel",
            size(1, 1, 3, 4, 1, 3, 3, stride=(2, 1), pad=(1, 0), dilation=(1, 2), out_pad=(1, 0)),
            "one pixel is 1, the taps are numbered 1 to 9: the picture of the lesson",
            kernels=(FORWARD,),
            input=np.arange(12) == 5,
            weights=range(1, 10),
            bias=[0],
        ),
        Case("stride_alone", size(2, 3, 3, 4, 2, 3, 2, stride=(2, 3)), "stamps 2 and 3 apart"),
        Case("padding_alone", size(2, 2, 5, 4, 3, 2, 3, pad=(1, 2)), "the output is cut"),
        Case("dilation_alone", size(2, 2, 3, 4, 3, 3, 2, dilation=(2, 3)), "stamps with holes"),
        Case(
            "output_padding",
            size(2, 2, 4, 3, 3, 3, 3, stride=(2, 3), pad=(1, 1), out_pad=(1, 2)),
            "extra rows and columns at the end",
        ),
        Case(
            "groups_of_unequal_sides",
            size(2, 4, 3, 4, 6, 2, 3, stride=(2, 1), groups=2),
            "2 channels in and 3 out for each group",
        ),
        Case("depthwise", size(2, 3, 4, 3, 3, 2, 2, stride=(2, 2), groups=3), "one channel a group"),
        Case(
            "all_asymmetric",
            size(2, 6, 4, 3, 4, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2), out_pad=(2, 1), groups=2),
            "every parameter differs between rows and columns",
        ),
        Case(
            "stride_larger_than_filter",
            size(2, 1, 3, 4, 2, 1, 2, stride=(2, 3), out_pad=(1, 2)),
            "most of the output is bias",
        ),
        Case("output_1x1", size(3, 2, 1, 1, 3, 3, 5, pad=(1, 2)), "all but one element is cut off"),
        gradient_check(
            "conv_transposed_numerical_gradient_check",
            size(2, 2, 3, 4, 4, 2, 3, stride=(2, 1), pad=(1, 1), dilation=(1, 2), out_pad=(1, 0), groups=2),
        ),
        integers(size(2, 4, 4, 3, 2, 3, 2, stride=(1, 2), pad=(1, 0), out_pad=(0, 1), groups=2)),
        Case(
            "decoder_layer",
            size(2, 8, 7, 7, 4, 4, 4, stride=(2, 2), pad=(1, 1)),
            "the usual 4 x 4, stride 2, padding 1: twice the size",
        ),
        own_sizes(draw),
    ),
    mistakes=MISTAKES,
    hints=(
        "Think of stamps first: input element (h, w) adds its value times the filter to a patch of the "
        "output. That is what the input gradient of a convolution does, seen from the other side. As there, "
        "do not scatter. Each thread owns one output element and asks which elements, with which tap, "
        "contributed to it. An element that nothing reaches holds the bias, also in the rows that "
        "output_padding adds.",
        "Forward: the thread knows p and r and wants h, so it divides by the stride; negative, remainder and "
        "past the end are left out, as in puzzle 13's input gradient. The two gradients know h and r and "
        "want p: they only multiply and test the borders. Groups are those of puzzle 14: find the group of "
        "your own channel by a division, then its partners on the other side.",
        "Rows: p is h times stride, minus padding, plus r times dilation; solved for h, add the padding and "
        "subtract the tap. The weights have the input channel, counted through all groups, as first index "
        "and the output channel counted within its group as second. Input, output and bias take channels "
        "counted through all groups.",
    ),
)
