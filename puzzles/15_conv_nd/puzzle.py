"""Puzzle 15: convolution in one, two and three dimensions and its gradients, one thread per answer."""

from __future__ import annotations

from backwarp.course import Case, Gradient, Puzzle
from backwarp.course.conv_cases import solid_ints
from backwarp.course.convolutions import (
    backward_input,
    backward_weights,
    forward,
    loss_of_input,
    loss_of_weights,
)
from backwarp.course.sizes import by_hand, gradient_check, integers, one_thread_each, own_sizes

FORWARD, INPUT, WEIGHTS = "conv_nd_forward", "conv_nd_backward_input", "conv_nd_backward_weights"
SIDES = "d", "h", "w"
INTS = solid_ints("dilation_d", "dilation_h", "dilation_w", "groups")
IMAGE, TAPS, GRID = ("D", "H", "W"), ("T", "R", "S"), ("D_out", "H_out", "W_out")


def size(
    batch, C_in, image, C_out, taps, stride=(1, 1, 1), pad=(0, 0, 0), dilation=(1, 1, 1), groups=1, **more
):
    """The dims of a case; triples are (depth, rows, columns)."""
    triples = {"stride": stride, "pad": pad, "dilation": dilation}
    each = {f"{name}_{side}": n for name, triple in triples.items() for side, n in zip(SIDES, triple)}
    sides = dict(zip(IMAGE + TAPS, image + taps))
    return dict(batch=batch, C_in=C_in, C_out=C_out, **sides, **each, groups=groups, **more)


def draw(pick):
    groups = pick(2, 3)
    image, taps, stride, pad = (
        tuple(pick(*limits) for _ in range(3)) for limits in ((2, 4), (1, 2), (1, 2), (0, 1))
    )
    return size(
        pick(257, 262),
        groups * pick(1, 2),
        image,
        groups * pick(1, 2),
        taps,
        stride,
        pad,
        groups=groups,
        threads=pick(20, 90),
    )


def sound(batch, C_in, W, C_out, S, stride=1, pad=0, dilation=1, **more):
    """The dims of a case with one dimension."""
    triples = (1, 1, stride), (0, 0, pad), (1, 1, dilation)
    return size(batch, C_in, (1, 1, W), C_out, (1, 1, S), *triples, **more)


def completed(d):
    """The sizes of a case, with those that follow from them."""
    grid = {
        count: (d[n] + 2 * pad - dilation * (d[taps] - 1) - 1) // stride + 1
        for count, n, taps, (stride, pad, dilation) in zip(GRID, IMAGE, TAPS, steps(d))
    }
    return {**grid, "C_group": d["C_in"] // d["groups"], "threads": 128, **d}


def steps(d):
    """(stride, padding, dilation) of every side."""
    return [tuple(d[f"{name}_{side}"] for name in ("stride", "pad", "dilation")) for side in SIDES]


ALONE = dict(stride=(1, 1, 2), pad=(0, 1, 1), dilation=(2, 1, 1))

PUZZLE = Puzzle(
    title="Convolution in one, two and three dimensions",
    part=2,
    teaches="How one kernel serves sound, images and video, and the gradient as a convolution with the "
    "filter turned.",
    practice="PyTorch runs a 1-D convolution as a 2-D one whose image has a single row.",
    lines=80,
    kernels=(
        forward(FORWARD, one_thread_each("batch", "C_out", *GRID), INTS, bias=False),
        backward_input(INPUT, one_thread_each("batch", "C_in", *IMAGE), INTS),
        backward_weights(WEIGHTS, one_thread_each("C_out", "C_group", *TAPS), INTS),
    ),
    dims=completed,
    gradient_of={INPUT: Gradient(loss_of_input), WEIGHTS: Gradient(loss_of_weights)},
    bench=size(8, 32, (16, 56, 56), 64, (3, 3, 3), pad=(1, 1, 1)),
    cases=(
        by_hand(
            "conv_nd_tiny_sound",
            sound(1, 1, 6, 1, 3, stride=2, pad=1),
            input=[1, 2, 3, 4, 5, 6],
            weights=[2, -1, 3],
            grad_output=[1, 2, -1],
        ),
        Case("sound", sound(2, 3, 11, 4, 4, stride=3, pad=2, dilation=2), "D = H = 1"),
        Case("sound_depthwise", sound(2, 5, 9, 5, 2, dilation=4, groups=5), "each channel by itself"),
        Case(
            "along_the_depth",
            size(2, 2, (9, 1, 1), 3, (3, 1, 1), stride=(2, 1, 1), pad=(1, 0, 0)),
            "H = W = 1: sound along another axis",
        ),
        Case("image", size(2, 2, (1, 7, 5), 3, (1, 3, 2), stride=(1, 2, 1), pad=(0, 1, 1)), "D = 1"),
        Case("one_channel", size(2, 1, (3, 4, 5), 2, (2, 3, 2))),
        Case("video", size(2, 2, (4, 5, 6), 3, (2, 3, 2)), "three dimensions, nothing else"),
        Case("video_stride", size(2, 2, (6, 5, 7), 2, (2, 2, 3), stride=(2, 1, 3)), "some are under no tap"),
        Case("video_padding", size(1, 2, (3, 4, 2), 3, (3, 2, 3), pad=(2, 0, 1))),
        Case("video_dilation", size(1, 2, (5, 4, 7), 3, (2, 3, 2), dilation=(3, 1, 4))),
        Case(
            "video_all_parameters",
            size(2, 2, (6, 8, 5), 3, (2, 3, 2), stride=(2, 3, 1), pad=(1, 2, 3), dilation=(3, 1, 2)),
        ),
        Case("groups", size(2, 4, (3, 3, 4), 6, (2, 1, 2), groups=2)),
        Case(
            "groups_all_parameters",
            size(
                2, 6, (4, 6, 7), 3, (2, 2, 3), stride=(1, 2, 3), pad=(2, 1, 0), dilation=(2, 3, 1), groups=3
            ),
        ),
        Case(
            "stride_beyond_the_filter",
            size(2, 2, (5, 6, 4), 2, (1, 1, 1), stride=(2, 3, 2)),
            "most elements are under no tap",
        ),
        Case("output_1x1x1", size(3, 3, (2, 3, 4), 5, (2, 3, 4)), "the filter covers the input"),
        integers(size(2, 3, (3, 4, 5), 2, (2, 3, 2), stride=(1, 2, 1), pad=(1, 1, 0))),
        gradient_check(
            "conv_nd_numerical_gradient_check",
            size(1, 2, (3, 3, 4), 2, (2, 1, 2), stride=(1, 2, 1), pad=(1, 0, 1), groups=2),
        ),
        Case(
            "batch_odd",
            size(3, 4, (3, 7, 5), 6, (2, 3, 1), **ALONE, groups=2, threads=96),
            "blocks of 96 threads",
        ),
        own_sizes(draw),
    ),
    hints=(
        "Take your kernels of puzzle 14 and put a third direction in front of rows and columns wherever they "
        "have two: in the split of idx, in the loops, in the test whether there is such a place, in every "
        "index. Its letters are d, o and t, its sizes D, D_out and T. Sound and images need no special "
        "treatment: with D = 1 and T = 1 the loop over t runs once and every test passes.",
        "The split of idx has five wheels: the last axis turns fastest. Output: q, p, o, k, and b is left. "
        "Input: w, h, d, channel, b. Weights: s, r, t, c (of C_in / groups), k. A flat position takes the "
        "first index, then for every further axis times its size plus its index. The groups are those of "
        "puzzle 14: filter k belongs to group k / (C_out / groups), and so on.",
        "One rule holds for each direction separately: input = position * stride - pad + tap * dilation. "
        "Forward and for the weights you know position and tap, and test whether the input is there. For the "
        "input's gradient you know input and tap: add pad and subtract tap * dilation. What is left must not "
        "be negative, the stride must divide it without a remainder, and the quotient must be below the "
        "number of positions in that direction.",
    ),
)
