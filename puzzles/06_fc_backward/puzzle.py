"""Puzzle 06: the gradients of a fully connected layer, one thread per gradient element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import dense

from backwarp.course import (
    Case,
    Gradient,
    In,
    Int,
    Kernel,
    Launch,
    Mistake,
    Out,
    Puzzle,
    ceil_div,
    mistakes_in,
)

WEIGHTS, INPUT, BIAS = "fc_backward_weights", "fc_backward_input", "fc_backward_bias"


W_X = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n    int o"
W_Y = "int o = blockIdx.y * blockDim.y + threadIdx.y;"
W_GUARD = "if (o >= n_out || i >= n_in) return;"
W_START = W_GUARD + "\n    float sum = 0.0f;"
W_LOOP = "for (int b = 0; b < batch; b++) {"
W_GRAD, W_INPUT = "grad_output[b * n_out + o] * input", "input[b * n_in + i];"
W_STORE = "grad_weights[o * n_in + i] = sum;"
X_X = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n    int b"
X_Y = "int b = blockIdx.y * blockDim.y + threadIdx.y;"
X_GUARD = "if (b >= batch || i >= n_in) return;"
X_LOOP = "for (int o = 0; o < n_out; o++) {"
X_GRAD, X_WEIGHT = "grad_output[b * n_out + o] * weights", "weights[o * n_in + i];"
X_STORE = "grad_input[b * n_in + i] = sum;"
B_INDEX = "int o = blockIdx.x * blockDim.x + threadIdx.x;"
B_GUARD = "if (o >= n_out) return;"
B_LOOP = "for (int b = 0; b < batch; b++) sum"
B_GRAD = "sum += grad_output[b * n_out + o];"
B_STORE = "grad_bias[o] = sum;"


MISTAKES = (
    *mistakes_in(
        WEIGHTS,
        # the weights
        Mistake(
            "sample 0 only",
            (W_LOOP, W_LOOP.replace("< batch", "< 1")),
            says="This is the gradient of sample 0 alone: nothing of the other samples is added.",
            hint=2,
        ),
        Mistake(
            "overwritten",
            (f"sum += {W_GRAD}", f"sum = {W_GRAD}"),
            says="This is the gradient of the last sample alone: each one replaces the sum instead of being added to it.",
            hint=2,
        ),
        Mistake(
            "last sample missing",
            (W_LOOP, W_LOOP.replace("< batch", "< batch - 1")),
            says="The last sample is missing: b runs from 0 to batch - 1.",
            hint=2,
        ),
        Mistake(
            "one sample too many", (W_LOOP, W_LOOP.replace("< batch", "<= batch")), expect="out-of-bounds"
        ),
        Mistake(
            "divided by batch",
            (W_STORE, W_STORE.replace("sum", "sum / batch")),
            says="The gradient is divided by the batch size; grad_output already contains that division.",
        ),
        Mistake(
            "subtracted",
            (f"sum += {W_GRAD}", f"sum -= {W_GRAD}"),
            says="The sign is wrong: the minus comes later, when the weights are updated.",
        ),
        Mistake(
            "grad_output ignored",
            (f"sum += {W_GRAD}", "sum += input"),
            says="This is the sum of the inputs: grad_output is missing from the product.",
        ),
        Mistake(
            "input ignored",
            (f"{W_GRAD}[b * n_in + i];", "grad_output[b * n_out + o];"),
            says="This is the gradient of the bias: the input is missing from the product.",
        ),
        Mistake(
            "stored as [n_in, n_out]",
            (W_STORE, "grad_weights[i * n_out + o] = sum;"),
            says="The right numbers are in the wrong places: grad_weights is [n_out, n_in], like the "
            "weights.",
            hint=3,
        ),
        Mistake(
            "grad_output with rows of n_in",
            (W_GRAD, "grad_output[b * n_in + o] * input"),
            expect="out-of-bounds",
            says="The rows of grad_output are taken to be n_in long; they are n_out long.",
            hint=3,
        ),
        Mistake(
            "input with rows of n_out",
            (W_INPUT, "input[b * n_out + i];"),
            expect="out-of-bounds",
            says="The rows of the input are taken to be n_out long; they are n_in long.",
            hint=3,
        ),
        Mistake(
            "grad_output as [n_out, batch]",
            (W_GRAD, "grad_output[o * batch + b] * input"),
            says="grad_output is read as [n_out, batch]; it is stored sample by sample, as [batch, n_out].",
            hint=3,
        ),
        Mistake(
            "input as [n_in, batch]",
            (W_INPUT, "input[i * batch + b];"),
            says="The input is read as [n_in, batch]; it is stored sample by sample, as [batch, n_in].",
            hint=3,
        ),
        Mistake(
            "b missing in grad_output",
            (W_GRAD, "grad_output[o] * input"),
            says="Every sample is multiplied by the gradient of sample 0: b is missing from the index of "
            "grad_output.",
            hint=3,
        ),
        Mistake(
            "b missing in the input",
            (W_INPUT, "input[i];"),
            says="Every gradient is multiplied by the input of sample 0: b is missing from the index of the "
            "input.",
            hint=3,
        ),
        Mistake(
            "o missing in grad_output",
            (W_GRAD, "grad_output[b * n_out] * input"),
            says="All outputs get the gradient of output 0: o is missing from the index of grad_output.",
            hint=3,
        ),
        Mistake(
            "i missing in the input",
            (W_INPUT, "input[b * n_in];"),
            says="All inputs get the gradient of input 0: i is missing from the index of the input.",
            hint=3,
        ),
        Mistake(
            "x and y exchanged",
            (
                (W_X, "int i = blockIdx.y * blockDim.y + threadIdx.y;\n    int o"),
                (W_Y, "int o = blockIdx.x * blockDim.x + threadIdx.x;"),
            ),
            says="Rows or columns are never written: x is used for o and y for i; swap them.",
            hint=2,
        ),
        Mistake(
            "size of a block in x written as 16", (W_X, W_X.replace("blockDim.x", "16")), expect="unwritten"
        ),
        Mistake(
            "size of a block in y written as 16", (W_Y, W_Y.replace("blockDim.y", "16")), expect="unwritten"
        ),
        Mistake("no guard", (W_GUARD, ""), expect=("out-of-bounds", "race")),
        Mistake("guard with and", (W_GUARD, W_GUARD.replace("||", "&&")), expect=("out-of-bounds", "race")),
        Mistake(
            "guard with batch",
            (W_GUARD, W_GUARD.replace("n_out", "batch")),
            expect=("unwritten", "out-of-bounds", "race"),
        ),
        Mistake(
            "sum not set to anything",
            (W_START, W_START.replace(" = 0.0f", "")),
            expect=("uninitialised-read", "wrong"),
        ),
        Mistake(
            "added to what was there",
            (W_STORE, W_STORE.replace("=", "+=")),
            expect=("uninitialised-read", "wrong", "unwritten"),
        ),
        Mistake("all outputs stored in row 0", (W_STORE, "grad_weights[i] = sum;"), expect="race"),
    ),
    *mistakes_in(
        INPUT,
        # the input
        Mistake(
            "input: output 0 only",
            (X_LOOP, X_LOOP.replace("< n_out", "< 1")),
            says="Only output 0 is followed back: nothing of the other outputs is added.",
            hint=2,
        ),
        Mistake(
            "input: overwritten",
            (f"sum += {X_GRAD}", f"sum = {X_GRAD}"),
            says="Only the last output is followed back: each one replaces the sum instead of being added to it.",
            hint=2,
        ),
        Mistake(
            "input: last output missing",
            (X_LOOP, X_LOOP.replace("< n_out", "< n_out - 1")),
            says="The last output is missing: o runs from 0 to n_out - 1.",
            hint=2,
        ),
        Mistake(
            "input: one output too many",
            (X_LOOP, X_LOOP.replace("< n_out", "<= n_out")),
            expect="out-of-bounds",
        ),
        Mistake(
            "input: divided by batch",
            (X_STORE, X_STORE.replace("sum", "sum / batch")),
            says="The gradient is divided by the batch size; grad_output already contains that division.",
        ),
        Mistake(
            "input: averaged",
            (X_STORE, X_STORE.replace("sum", "sum / n_out")),
            says="The gradient is divided by n_out; it is the sum over the outputs.",
        ),
        Mistake(
            "input: grad_output ignored",
            (f"sum += {X_GRAD}", "sum += weights"),
            says="This is the sum of the weights: grad_output is missing from the product.",
        ),
        Mistake(
            "input: weights ignored",
            (f"{X_GRAD}[o * n_in + i];", "grad_output[b * n_out + o];"),
            says="This is the sum of grad_output: the weights are missing from the product.",
        ),
        Mistake(
            "input: weights as [n_in, n_out]",
            (X_WEIGHT, "weights[i * n_out + o];"),
            says="The weights are read as [n_in, n_out]; they are [n_out, n_in], and here the sum walks down "
            "a column.",
            hint=3,
        ),
        Mistake(
            "input: weights with rows of n_out",
            (X_WEIGHT, "weights[o * n_out + i];"),
            expect="out-of-bounds",
            says="The rows of the weights are taken to be n_out long; they are n_in long.",
            hint=3,
        ),
        Mistake(
            "input: b missing in grad_output",
            (X_GRAD, "grad_output[o] * weights"),
            says="Every sample gets the gradient of sample 0: b is missing from the index of grad_output.",
            hint=3,
        ),
        Mistake(
            "input: o missing in grad_output",
            (X_GRAD, "grad_output[b * n_out] * weights"),
            says="Every weight is multiplied by the gradient of output 0: o is missing from the index of "
            "grad_output.",
            hint=3,
        ),
        Mistake(
            "input: o missing in the weights",
            (X_WEIGHT, "weights[i];"),
            says="Every gradient is multiplied by a weight of output 0: o is missing from the index of the "
            "weights.",
            hint=3,
        ),
        Mistake(
            "input: i missing in the weights",
            (X_WEIGHT, "weights[o * n_in];"),
            says="All inputs get the gradient of input 0: i is missing from the index of the weights.",
            hint=3,
        ),
        Mistake(
            "input: stored as [n_in, batch]",
            (X_STORE, "grad_input[i * batch + b] = sum;"),
            says="The right numbers are in the wrong places: grad_input is [batch, n_in], like the input.",
            hint=3,
        ),
        Mistake(
            "input: grad_output with rows of n_in",
            (X_GRAD, "grad_output[b * n_in + o] * weights"),
            expect=("wrong", "out-of-bounds"),
        ),
        Mistake(
            "input: x and y exchanged",
            (
                (X_X, "int i = blockIdx.y * blockDim.y + threadIdx.y;\n    int b"),
                (X_Y, "int b = blockIdx.x * blockDim.x + threadIdx.x;"),
            ),
            says="Samples or inputs are never written: x is used for b and y for i; swap them.",
            hint=2,
        ),
        Mistake(
            "input: size of a block in x written as 16",
            (X_X, X_X.replace("blockDim.x", "16")),
            expect="unwritten",
        ),
        Mistake(
            "input: size of a block in y written as 16",
            (X_Y, X_Y.replace("blockDim.y", "16")),
            expect="unwritten",
        ),
        Mistake("input: no guard", (X_GUARD, ""), expect=("out-of-bounds", "race")),
        Mistake(
            "input: guard with n_out",
            (X_GUARD, X_GUARD.replace("n_in", "n_out")),
            expect=("unwritten", "out-of-bounds", "race"),
        ),
        Mistake("input: not stored", (X_STORE, ""), expect="unwritten"),
        Mistake("input: never ends", (X_LOOP, X_LOOP.replace("o++", "")), expect="timeout"),
    ),
    *mistakes_in(
        BIAS,
        # the bias
        Mistake(
            "bias: sample 0 only",
            (B_LOOP, B_LOOP.replace("< batch", "< 1")),
            says="This is the gradient of sample 0 alone: nothing of the other samples is added.",
        ),
        Mistake(
            "bias: overwritten",
            (B_GRAD, B_GRAD.replace("+=", "=")),
            says="Only the last sample is in the sum: each one replaces the sum instead of being added to it.",
            hint=2,
        ),
        Mistake(
            "bias: last sample missing",
            (B_LOOP, B_LOOP.replace("< batch", "< batch - 1")),
            says="The last sample is missing: b runs from 0 to batch - 1.",
            hint=2,
        ),
        Mistake(
            "bias: one sample too many",
            (B_LOOP, B_LOOP.replace("< batch", "<= batch")),
            expect="out-of-bounds",
        ),
        Mistake(
            "bias: divided by batch",
            (B_STORE, "grad_bias[o] = sum / batch;"),
            says="This is the mean over the batch; the gradient is the plain sum: the loss has already "
            "divided by batch.",
        ),
        Mistake(
            "bias: o missing",
            (B_GRAD, "sum += grad_output[b * n_out];"),
            says="Every output gets the sum of output 0: o is missing from the index of grad_output.",
            hint=3,
        ),
        Mistake(
            "bias: b missing",
            (B_GRAD, "sum += grad_output[o];"),
            says="Sample 0 is added up once per sample: b is missing from the index of grad_output.",
            hint=3,
        ),
        Mistake(
            "bias: grad_output as [n_out, batch]",
            (B_GRAD, "sum += grad_output[o * batch + b];"),
            says="grad_output is read as [n_out, batch]: neighbours in memory are added up, but they belong "
            "to different outputs.",
            hint=3,
        ),
        Mistake("bias: no guard", (B_GUARD, ""), expect="out-of-bounds"),
        Mistake("bias: guard one too late", (B_GUARD, "if (o > n_out) return;"), expect="out-of-bounds"),
        Mistake(
            "bias: size of a block written as 64",
            (B_INDEX, B_INDEX.replace("blockDim.x", "64")),
            expect="unwritten",
        ),
        Mistake("bias: block left out", (B_INDEX, "int o = threadIdx.x;"), expect=("unwritten", "race")),
        Mistake("bias: all stored in element 0", (B_STORE, "grad_bias[0] = sum;"), expect="race"),
    ),
)


def two_dimensional(columns, rows):
    """One thread per element: blocks that cover so many columns and rows, given by dimension name."""
    return lambda d, t: Launch(
        grid=(ceil_div(d[columns], d["tx"]), ceil_div(d[rows], d["ty"])), block=(d["tx"], d["ty"])
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
SIZES = (Int("batch"), Int("n_in"), Int("n_out"))

PUZZLE = Puzzle(
    title="Fully connected layer, backward",
    part=1,
    teaches="How the chain rule turns one matrix product into two more, and a bias into a sum.",
    practice=(
        "PyTorch's autograd hands both gradients of a dense layer to cuBLAS, as two products of matrices."
    ),
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
            launch=two_dimensional("n_in", "n_out"),
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
            launch=two_dimensional("n_in", "batch"),
            reference=lambda a, d: dense.backward_input(a["grad_output"], a["weights"]),
        ),
        Kernel(
            BIAS,
            params=(GRAD_OUTPUT, Out("grad_bias", o="n_out"), Int("batch"), Int("n_out")),
            launch=lambda d, t: Launch(grid=ceil_div(d["n_out"], d["threads"]), block=d["threads"]),
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
        Case(
            "fc_bw_tiny_2x4",
            dict(batch=2, n_in=4, n_out=3),
            note="the layer of puzzle 03; done by hand in the lesson",
            inputs={
                "grad_output": [[1, -1, 2], [4, 3, -2]],
                "input": [[1, 2, 0, -1], [3, 1, 2, 4]],
                "weights": [[2, 1, 0, 1], [0, 5, 1, 2], [1, -2, 3, 0]],
            },
        ),
        Case("one_sample", dict(batch=1, n_in=5, n_out=4), note="sums of one product, for the weights"),
        Case("one_output", dict(batch=6, n_in=4, n_out=1), note="sums of one product, for the input"),
        Case("one_input", dict(batch=5, n_in=1, n_out=7)),
        Case(
            "fc_bw_numerical_gradient_check",
            dict(batch=3, n_in=5, n_out=4),
            note="every number moved by epsilon",
            check="gradient",
        ),
        Case("integers", dict(batch=9, n_in=7, n_out=5), note="exact sums", values="integers"),
        Case("many_samples", dict(batch=70, n_in=9, n_out=6), note="5 blocks in y for the input"),
        Case("wide", dict(batch=3, n_in=40, n_out=20), note="3 x 2 blocks for the weights"),
        Case(
            "nothing_divides",
            dict(batch=19, n_in=37, n_out=67, tx=8, ty=4, threads=32),
            note="blocks of 8 x 4 threads, and of 32 for the bias",
        ),
        Case("fc_bw_lenet_84_10", dict(batch=8, n_in=84, n_out=10), note="LeNet's last layer"),
        Case("fc_bw_lenet_120_84", dict(batch=8, n_in=120, n_out=84), note="LeNet's fourth"),
        Case("fc_bw_lenet_256_120", dict(batch=8, n_in=256, n_out=120), note="LeNet's third"),
        Case(
            "own_sizes",
            note="sizes drawn from your file's text",
            draw=lambda pick: dict(
                batch=pick(3, 40),
                n_in=pick(5, 50),
                n_out=pick(35, 70),
                tx=pick(3, 20),
                ty=pick(2, 12),
                threads=pick(20, 34),
            ),
        ),
    ),
    mistakes=MISTAKES,
    hints=(
        "Ask of each number which outputs change when it changes a little, and by what factor. A weight (o, "
        "i) appears in output o of every sample, with the factor input (b, i). An input (b, i) appears in "
        "every output of its own sample, with the factor weight (o, i). A bias o appears in output o of "
        "every sample, with the factor 1. Each gradient is the sum of grad_output times these factors.",
        "Three times the pattern of fc_forward: numbers from x and y, a guard, a sum that starts at zero, "
        "one loop, one store. The loop runs over the letter that the result does not have: b for the "
        "weights (o, i), o for the input (b, i), b for the bias (o). In the first two, x goes with i, the "
        "fast axis of the result, and the guard compares with the sizes of the result.",
        "Places: grad_output has rows of n_out, so sample b, output o is at b times n_out plus o, in all "
        "three kernels. The input, grad_input, the weights and grad_weights have rows of n_in: row times "
        "n_in plus i, where the row is b for the first two and o for the others. The loops step by "
        "whole rows, except that fc_backward_input steps along a row of grad_output.",
    ),
)
