"""Puzzle 14: convolution in groups, depthwise included, forward and backward, all groups in one launch."""

from __future__ import annotations

import numpy as np

from backwarp.course import Case, Gradient, Puzzle
from backwarp.course import convolutions as passes
from backwarp.course.conv_cases import ints, output_sizes, own_sizes, size
from backwarp.course.sizes import by_hand, gradient_check, integers, one_thread_each, with_inputs

FORWARD, INPUT, WEIGHTS = "conv2d_forward", "conv2d_backward_input", "conv2d_backward_weights"

PUZZLE = Puzzle(
    title="Convolution in groups",
    part=2,
    teaches="How groups cut the weights of a convolution, and how one launch works on all of them.",
    practice="PyTorch has kernels of its own for depthwise convolutions beside cuDNN's grouped ones.",
    lines=50,
    kernels=(
        passes.forward(FORWARD, one_thread_each("batch", "C_out", "H_out", "W_out"), ints("groups")),
        passes.backward_input(INPUT, one_thread_each("batch", "C_in", "H", "W"), ints("groups")),
        passes.backward_weights(WEIGHTS, one_thread_each("C_out", "C_group", "R", "S"), ints("groups")),
    ),
    dims=lambda d: {**output_sizes(d), "C_group": d["C_in"] // d["groups"], "threads": 128, **d},
    gradient_of={INPUT: Gradient(passes.loss_of_input), WEIGHTS: Gradient(passes.loss_of_weights)},
    bench=size(64, 144, 56, 56, 144, 3, 3, pad=(1, 1), groups=144),
    cases=(
        by_hand(
            "conv_grouped_tiny",
            size(1, 4, 1, 2, 4, 1, 1, groups=2),
            input=[[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]],
            weights=[[[[2]], [[-1]]], [[[1]], [[3]]], [[[1]], [[1]]], [[[-2]], [[1]]]],
            bias=[0, 0, 0, 1],
            grad_output=[[[[1, 2]], [[3, -1]], [[1, 1]], [[2, 0]]]],
        ),
        with_inputs(
            "one_pixel",
            size(1, 4, 2, 3, 6, 1, 2, groups=2),
            "one pixel of channel 2 is 1, the weights are numbered: the picture of the lesson",
            kernels=(FORWARD,),
            input=np.arange(24) == 13,
            weights=range(1, 25),
            bias=[0] * 6,
        ),
        Case("one_group", size(2, 3, 5, 4, 2, 3, 2, groups=1), "an ordinary convolution"),
        Case("one_channel", size(2, 1, 5, 6, 3, 2, 3, groups=1), "one channel, three filters"),
        Case("two_groups_of_unequal_sides", size(2, 4, 5, 6, 6, 3, 2, groups=2), "2 channels, 3 filters"),
        Case("more_channels_than_filters", size(2, 9, 5, 4, 6, 2, 3, groups=3), "3 channels, 2 filters"),
        Case("depthwise", size(2, 5, 6, 7, 5, 3, 3, pad=(1, 1), groups=5), "one channel, one filter a group"),
        Case("depthwise_multiplier_3", size(2, 4, 6, 5, 12, 3, 2, groups=4), "three filters a channel"),
        Case(
            "all_parameters",
            size(2, 6, 9, 13, 4, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2), groups=2),
            "groups with stride, padding and dilation",
        ),
        Case("output_1x1", size(3, 4, 5, 3, 6, 3, 2, dilation=(2, 2), groups=2), "one position"),
        gradient_check(
            "conv_grouped_numerical_gradient_check",
            size(2, 4, 5, 4, 6, 2, 2, stride=(2, 1), pad=(1, 0), groups=2),
        ),
        integers(size(2, 6, 6, 5, 9, 3, 2, stride=(1, 2), pad=(0, 1), groups=3)),
        Case(
            "mobilenet_block",
            size(2, 16, 10, 10, 16, 3, 3, stride=(2, 2), pad=(1, 1), groups=16),
            "depthwise, 3 x 3, stride 2",
        ),
        own_sizes(C_in=(2, 4, 2), C_out=(2, 6, 2), groups=2, threads=(30, 90)),
    ),
    hints=(
        "A group is a small convolution of its own, with C_in / groups channels and C_out / groups filters. "
        "Nothing of puzzle 13 changes inside it: rows, columns, padding. So each kernel needs two numbers, "
        "how many channels and how many filters a group has, and then the group of its own element. The "
        "loops over channels or filters run over one group only.",
        "The first C_out / groups filters are group 0, the next ones group 1, and so on; the channels of the "
        "input likewise. So a group is found by a division, and its members begin at the group's number "
        "times the members of a group. Forward and weight gradient know the filter and want the channels of "
        "its group; the input gradient knows the channel and wants the filters of its group.",
        "There are two numbers for a channel. Within its group it counts from 0 to C_in / groups: this one "
        "indexes the weights, whose second axis is that short. In the whole input it counts from 0 to C_in: "
        "this one indexes the input. Filters have just one number, k, for weights, bias and output. Stride, "
        "padding and dilation are those of puzzle 13.",
    ),
)
