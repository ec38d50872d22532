"""Puzzle 06: the gradients of a fully connected layer, one thread per gradient element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import dense

from backwarp.course import Case, Gradient, In, Int, Kernel, Out, Puzzle
from backwarp.course.mistakes import Mistake, mistakes_in
from backwarp.course.sizes import (
    Ints,
    gradient_check,
    integers,
    one_thread_each,
    own_sizes,
    tiled,
    with_inputs,
)

WEIGHTS, INPUT, BIAS = "fc_backward_weights", "fc_backward_input", "fc_backward_bias"

MISTAKES = (
    *mistakes_in(
        WEIGHTS,
        Mistake(
            "x and y exchanged",
            (
                ("x * blockDim.x + threadIdx.x", "y * blockDim.y + threadIdx.y"),
                ("o = blockIdx.y * blockDim.y + threadIdx.y", "o = blockIdx.x * blockDim.x + threadIdx.x"),
            ),
            says="Rows or columns are never written: x is used for o and y for i; swap them.",
            hint=2,
        ),
    ),
    *mistakes_in(
        INPUT,
        Mistake(
            "input: x and y exchanged",
            (
                ("x * blockDim.x + threadIdx.x", "y * blockDim.y + threadIdx.y"),
                ("b = blockIdx.y * blockDim.y + threadIdx.y", "b = blockIdx.x * blockDim.x + threadIdx.x"),
            ),
            says="Samples or inputs are never written: x is used for b and y for i; swap them.",
            hint=2,
        ),
    ),
)


def loss_of_weights(weights, a, d):
    """A loss whose gradient at the layer's output is grad_output, as a function of the weights."""
    return np.sum(a["grad_output"] * dense.forward(a["input"], weights))


def loss_of_input(input, a, d):
    return np.sum(a["grad_output"] * dense.forward(input, a["weights"]))


def loss_of_bias(bias, a, d):
    """The input and the weights may be anything, so they are 0."""
    input, weights = np.zeros((d["batch"], 1)), np.zeros((d["n_out"], 1))
    return np.sum(a["grad_output"] * dense.forward(input, weights, bias))


GRAD_OUTPUT = In("grad_output", b="batch", o="n_out")
SIZES = Ints("batch n_in n_out")

PUZZLE = Puzzle(
    title="Fully connected layer, backward",
    part=1,
    teaches="How the chain rule turns one matrix product into two more, and a bias into a sum.",
    practice="PyTorch's autograd hands both gradients of a dense layer to cuBLAS, as two products of matrices.",
    lines=21,
    kernels=(
        Kernel(
            WEIGHTS,
            params=(
                GRAD_OUTPUT,
                In("input", b="batch", i="n_in"),
                Out("grad_weights", o="n_out", i="n_in"),
                *SIZES,
            ),
            launch=tiled("n_in", "n_out"),
            reference=lambda a, d: dense.backward_weights(a["grad_output"], a["input"]),
        ),
        Kernel(
            INPUT,
            params=(
                GRAD_OUTPUT,
                In("weights", o="n_out", i="n_in"),
                Out("grad_input", b="batch", i="n_in"),
                *SIZES,
            ),
            launch=tiled("n_in", "batch"),
            reference=lambda a, d: dense.backward_input(a["grad_output"], a["weights"]),
        ),
        Kernel(
            BIAS,
            params=(GRAD_OUTPUT, Out("grad_bias", o="n_out"), Int("batch"), Int("n_out")),
            launch=one_thread_each("n_out"),
            reference=lambda a, d: dense.backward_bias(a["grad_output"]),
        ),
    ),
    dims=lambda d: {"tx": 16, "ty": 16, "threads": 64, **d},
    gradient_of={
        WEIGHTS: Gradient(loss_of_weights),
        INPUT: Gradient(loss_of_input),
        BIAS: Gradient(loss_of_bias),
    },
    bench=dict(batch=256, n_in=4096, n_out=4096),
    cases=(
        with_inputs(
            "fc_bw_tiny_2x4",
            dict(batch=2, n_in=4, n_out=3),
            "the layer of puzzle 03; done by hand in the lesson",
            grad_output=[[1, -1, 2], [4, 3, -2]],
            input=[[1, 2, 0, -1], [3, 1, 2, 4]],
            weights=[[2, 1, 0, 1], [0, 5, 1, 2], [1, -2, 3, 0]],
        ),
        Case("one_sample", dict(batch=1, n_in=5, n_out=4), "sums of one product, for the weights"),
        Case("one_output", dict(batch=6, n_in=4, n_out=1), "sums of one product, for the input"),
        Case("one_input", dict(batch=5, n_in=1, n_out=7)),
        gradient_check("fc_bw_numerical_gradient_check", dict(batch=3, n_in=5, n_out=4)),
        integers(dict(batch=9, n_in=7, n_out=5)),
        Case("many_samples", dict(batch=70, n_in=9, n_out=6), "5 blocks in y for the input"),
        Case("wide", dict(batch=3, n_in=40, n_out=20), "3 x 2 blocks for the weights"),
        Case(
            "nothing_divides",
            dict(batch=19, n_in=37, n_out=67, tx=8, ty=4, threads=32),
            "blocks of 8 x 4 threads, and of 32 for the bias",
        ),
        Case("fc_bw_lenet_84_10", dict(batch=8, n_in=84, n_out=10), "LeNet's last layer"),
        Case("fc_bw_lenet_120_84", dict(batch=8, n_in=120, n_out=84), "LeNet's fourth"),
        Case("fc_bw_lenet_256_120", dict(batch=8, n_in=256, n_out=120), "LeNet's third"),
        own_sizes(batch=(3, 40), n_in=(5, 50), n_out=(35, 70), tx=(3, 20), ty=(2, 12), threads=(20, 34)),
    ),
    mistakes=MISTAKES,
    hints=(
        "Ask of each number which outputs change when it changes a little, and by what factor. A weight (o, "
        "i) appears in output o of every sample, with the factor input (b, i). An input (b, i) appears in "
        "every output of its own sample, with the factor weight (o, i). A bias o appears in output o of "
        "every sample, with the factor 1. Each gradient is the sum of grad_output times these factors.",
        "Three times the pattern of fc_forward: numbers from x and y, a guard, a sum that starts at zero, "
        "one loop, one store. The loop runs over the letter that the result does not have: b for the weights "
        "(o, i), o for the input (b, i), b for the bias (o). In the first two, x goes with i, the fast axis "
        "of the result, and the guard compares with the sizes of the result.",
        "Places: grad_output has rows of n_out, so sample b, output o is at b times n_out plus o, in all "
        "three kernels. The input, grad_input, the weights and grad_weights have rows of n_in: row times "
        "n_in plus i, where the row is b for the first two and o for the others. The loops step by whole "
        "rows, except that fc_backward_input steps along a row of grad_output.",
    ),
)
