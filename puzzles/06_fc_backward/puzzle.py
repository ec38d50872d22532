"""Puzzle 06: the gradients of a fully connected layer, one thread per gradient element."""

from __future__ import annotations

import numpy as np

from harness.course import (  # fmt: skip
    Case,
    Gradient,
    In,
    Int,
    Kernel,
    Launch,
    Misconception,
    Mutant,
    Out,
    Puzzle,
    ceil_div,
)
from reference import dense

WEIGHTS, INPUT, BIAS = "fc_backward_weights", "fc_backward_input", "fc_backward_bias"


def of_weights(a, grad_output=None, input=None):
    """The right gradient of the weights, with an array replaced by what a wrong kernel uses for it."""
    return dense.backward_weights(
        a["grad_output"] if grad_output is None else grad_output, a["input"] if input is None else input
    )


def of_input(a, grad_output=None, weights=None):
    return dense.backward_input(
        a["grad_output"] if grad_output is None else grad_output,
        a["weights"] if weights is None else weights,
    )


def of_bias(grad_output):
    return dense.backward_bias(grad_output)


def first(array, axis):
    """The first row (axis 0) or column (axis 1) in the place of all of them."""
    return np.broadcast_to(np.take(array, [0], axis), array.shape)


def as_if(array):
    """The array as a kernel sees it that takes rows for columns: [n, m] where it is [m, n]."""
    return array.reshape(array.shape[::-1]).T


def stored_as_if(array):
    """What lies in memory when the array is stored column by column."""
    return array.T.reshape(array.shape)


def reread(array, index):
    """What a kernel reads that takes `index(i, j)` for the place of array[i, j]; NaN outside of it."""
    flat, position = array.ravel(), index(*np.indices(array.shape))
    inside = (position >= 0) & (position < flat.size)
    return np.where(inside, flat[np.where(inside, position, 0)], np.nan)


def axes_swapped(right, across, down, d):
    """x is taken for the row and y for the column, in a launch of that many columns and rows."""
    row, column = np.indices(right.shape)
    launched_x, launched_y = ceil_div(across, d["tx"]) * d["tx"], ceil_div(down, d["ty"]) * d["ty"]
    return np.where((row < launched_x) & (column < launched_y), right, np.nan)


def wrong_of(kernel, prefix):
    def wrong(id, hint, says, compute):
        return Misconception(prefix + id, kernel, says, compute, hint)

    return wrong


w, x, db = wrong_of(WEIGHTS, "weights_"), wrong_of(INPUT, "input_"), wrong_of(BIAS, "bias_")

MISCONCEPTIONS = (
    # the weights
    w("sample_0_only", 2, "This is the gradient of sample 0 alone: the loop over the batch is missing.",
      lambda a, d: of_weights(a, a["grad_output"][:1], a["input"][:1])),
    w("last_sample_only", 2,
      "This is the gradient of the last sample alone: the sum is overwritten (=) instead of added to (+=).",
      lambda a, d: of_weights(a, a["grad_output"][-1:], a["input"][-1:])),
    w("last_sample_missing", 2, "The last sample is missing: b runs from 0 to batch - 1.",
      lambda a, d: of_weights(a, a["grad_output"][:-1], a["input"][:-1])),
    w("divided_by_batch", 1,
      "The gradient is divided by the batch size; the loss has done that already, in grad_output.",
      lambda a, d: of_weights(a) / d["batch"]),
    w("negated", 1, "This is minus the gradient; the minus comes later, when the weights are changed.",
      lambda a, d: -of_weights(a)),
    w("gradient_ignored", 1, "This is the sum of the inputs: grad_output is not multiplied in.",
      lambda a, d: of_weights(a, np.ones_like(a["grad_output"]))),
    w("input_ignored", 1, "This is the gradient of the bias: the input is not multiplied in.",
      lambda a, d: of_weights(a, input=np.ones_like(a["input"]))),
    w("stored_as_n_in_n_out", 3,
      "The right numbers are at the wrong places: grad_weights is [n_out, n_in], like the weights.",
      lambda a, d: stored_as_if(of_weights(a))),
    w("grad_stride_n_in", 3, "The rows of grad_output are taken to be n_in long; they are n_out long.",
      lambda a, d: of_weights(a, reread(a["grad_output"], lambda b, o: b * d["n_in"] + o))),
    w("input_stride_n_out", 3, "The rows of the input are taken to be n_out long; they are n_in long.",
      lambda a, d: of_weights(a, input=reread(a["input"], lambda b, i: b * d["n_out"] + i))),
    w("grad_transposed", 3,
      "grad_output is read as [n_out, batch]; it is stored sample by sample, as [batch, n_out].",
      lambda a, d: of_weights(a, as_if(a["grad_output"]))),
    w("input_transposed", 3,
      "The input is read as [n_in, batch]; it is stored sample by sample, as [batch, n_in].",
      lambda a, d: of_weights(a, input=as_if(a["input"]))),
    w("sample_missing_in_grad", 3,
      "Every sample is multiplied with the gradient of sample 0: b is missing in the index of grad_output.",
      lambda a, d: of_weights(a, first(a["grad_output"], 0))),
    w("sample_missing_in_input", 3,
      "Every gradient is multiplied with the input of sample 0: b is missing in the index of the input.",
      lambda a, d: of_weights(a, input=first(a["input"], 0))),
    w("output_missing", 3,
      "All outputs get the gradient of output 0: o is missing in the index of grad_output.",
      lambda a, d: of_weights(a, first(a["grad_output"], 1))),
    w("input_missing", 3, "All inputs get the gradient of input 0: i is missing in the index of the input.",
      lambda a, d: of_weights(a, input=first(a["input"], 1))),
    w("axes_swapped", 2, "Rows or columns stay empty: x is used for o and y for i; x must be i.",
      lambda a, d: axes_swapped(of_weights(a), d["n_in"], d["n_out"], d)),
    # the input
    x("output_0_only", 2, "Only output 0 is followed back: the loop over the outputs is missing.",
      lambda a, d: of_input(a, a["grad_output"][:, :1], a["weights"][:1])),
    x("last_output_only", 2,
      "Only the last output is followed back: the sum is overwritten (=) instead of added to (+=).",
      lambda a, d: of_input(a, a["grad_output"][:, -1:], a["weights"][-1:])),
    x("last_output_missing", 2, "The last output is missing: o runs from 0 to n_out - 1.",
      lambda a, d: of_input(a, a["grad_output"][:, :-1], a["weights"][:-1])),
    x("divided_by_batch", 1,
      "The gradient is divided by the batch size; the loss has done that already, in grad_output.",
      lambda a, d: of_input(a) / d["batch"]),
    x("averaged", 1, "The gradient is divided by n_out; it is the sum over the outputs.",
      lambda a, d: of_input(a) / d["n_out"]),
    x("gradient_ignored", 1, "This is the sum of the weights: grad_output is not multiplied in.",
      lambda a, d: of_input(a, np.ones_like(a["grad_output"]))),
    x("weights_ignored", 1, "This is the sum of grad_output: the weights are not multiplied in.",
      lambda a, d: of_input(a, weights=np.ones_like(a["weights"]))),
    x("weights_transposed", 3,
      "The weights are read as [n_in, n_out]; they are [n_out, n_in], and here the sum walks down a column.",
      lambda a, d: of_input(a, weights=as_if(a["weights"]))),
    x("weights_stride_n_out", 3, "The rows of the weights are taken to be n_out long; they are n_in long.",
      lambda a, d: of_input(a, weights=reread(a["weights"], lambda o, i: o * d["n_out"] + i))),
    x("sample_missing", 3,
      "Every sample gets the gradient of sample 0: b is missing in the index of grad_output.",
      lambda a, d: of_input(a, first(a["grad_output"], 0))),
    x("output_missing_in_grad", 3,
      "Every weight is multiplied with the gradient of output 0: o is missing in the index of grad_output.",
      lambda a, d: of_input(a, first(a["grad_output"], 1))),
    x("output_missing_in_weights", 3,
      "Every gradient is multiplied with a weight of output 0: o is missing in the index of the weights.",
      lambda a, d: of_input(a, weights=first(a["weights"], 0))),
    x("input_missing", 3, "All inputs get the gradient of input 0: i is missing in the index of the weights.",
      lambda a, d: of_input(a, weights=first(a["weights"], 1))),
    x("stored_as_n_in_batch", 3,
      "The right numbers are at the wrong places: grad_input is [batch, n_in], like the input.",
      lambda a, d: stored_as_if(of_input(a))),
    x("axes_swapped", 2, "Samples or inputs stay empty: x is used for b and y for i; x must be i.",
      lambda a, d: axes_swapped(of_input(a), d["n_in"], d["batch"], d)),
    # the bias
    db("sample_0_only", 1, "This is the gradient of sample 0 alone: the loop over the batch is missing.",
       lambda a, d: of_bias(a["grad_output"][:1])),
    db("last_sample_only", 2,
       "Only the last sample is in the sum: it is overwritten (=) instead of added to (+=).",
       lambda a, d: of_bias(a["grad_output"][-1:])),
    db("last_sample_missing", 2, "The last sample is missing: b runs from 0 to batch - 1.",
       lambda a, d: of_bias(a["grad_output"][:-1])),
    db("divided_by_batch", 1,
       "This is the mean over the batch; the gradient is the sum, the loss has divided by batch already.",
       lambda a, d: of_bias(a["grad_output"]) / d["batch"]),
    db("output_missing", 3,
       "Every output gets the sum of output 0: o is missing in the index of grad_output.",
       lambda a, d: of_bias(first(a["grad_output"], 1))),
    db("sample_missing", 3, "Sample 0 is added up once per sample: b is missing in the index of grad_output.",
       lambda a, d: of_bias(first(a["grad_output"], 0))),
    db("transposed", 3,
       "grad_output is read as [n_out, batch]: neighbours in memory are added up, but they belong to "
       "different outputs.",
       lambda a, d: of_bias(as_if(a["grad_output"]))),
)  # fmt: skip

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


def mutant(name, old, new, expect="wrong", also=()):
    kernel = {"input": INPUT, "bias": BIAS}.get(name.split(":")[0], WEIGHTS)
    return Mutant(name, kernel, old, new, expect, also)


MUTANTS = (
    # the weights
    mutant("sample 0 only", W_LOOP, W_LOOP.replace("< batch", "< 1"), "weights_sample_0_only"),
    mutant("overwritten", f"sum += {W_GRAD}", f"sum = {W_GRAD}", "weights_last_sample_only"),
    mutant("last sample missing", W_LOOP, W_LOOP.replace("< batch", "< batch - 1"),
           "weights_last_sample_missing"),
    mutant("one sample too many", W_LOOP, W_LOOP.replace("< batch", "<= batch"), "out-of-bounds"),
    mutant("divided by batch", W_STORE, W_STORE.replace("sum", "sum / batch"), "weights_divided_by_batch"),
    mutant("subtracted", f"sum += {W_GRAD}", f"sum -= {W_GRAD}", "weights_negated"),
    mutant("grad_output ignored", f"sum += {W_GRAD}", "sum += input", "weights_gradient_ignored"),
    mutant("input ignored", f"{W_GRAD}[b * n_in + i];", "grad_output[b * n_out + o];",
           "weights_input_ignored"),
    mutant("stored as [n_in, n_out]", W_STORE, "grad_weights[i * n_out + o] = sum;",
           "weights_stored_as_n_in_n_out"),
    mutant("grad_output with rows of n_in", W_GRAD, "grad_output[b * n_in + o] * input",
           ("weights_grad_stride_n_in", "out-of-bounds")),
    mutant("input with rows of n_out", W_INPUT, "input[b * n_out + i];",
           ("weights_input_stride_n_out", "out-of-bounds")),
    mutant("grad_output as [n_out, batch]", W_GRAD, "grad_output[o * batch + b] * input",
           "weights_grad_transposed"),
    mutant("input as [n_in, batch]", W_INPUT, "input[i * batch + b];", "weights_input_transposed"),
    mutant("b missing in grad_output", W_GRAD, "grad_output[o] * input", "weights_sample_missing_in_grad"),
    mutant("b missing in the input", W_INPUT, "input[i];", "weights_sample_missing_in_input"),
    mutant("o missing in grad_output", W_GRAD, "grad_output[b * n_out] * input", "weights_output_missing"),
    mutant("i missing in the input", W_INPUT, "input[b * n_in];", "weights_input_missing"),
    mutant("x and y exchanged", W_X, "int i = blockIdx.y * blockDim.y + threadIdx.y;\n    int o",
           "weights_axes_swapped", also=((W_Y, "int o = blockIdx.x * blockDim.x + threadIdx.x;"),)),
    mutant("size of a block in x written as 16", W_X, W_X.replace("blockDim.x", "16"), "unwritten"),
    mutant("size of a block in y written as 16", W_Y, W_Y.replace("blockDim.y", "16"), "unwritten"),
    mutant("no guard", W_GUARD, "", ("out-of-bounds", "race")),
    mutant("guard with and", W_GUARD, W_GUARD.replace("||", "&&"), ("out-of-bounds", "race")),
    mutant("guard with batch", W_GUARD, W_GUARD.replace("n_out", "batch"),
           ("unwritten", "out-of-bounds", "race")),
    mutant("sum not set to anything", W_START, W_START.replace(" = 0.0f", ""),
           ("uninitialised-read", "wrong")),
    mutant("added to what was there", W_STORE, W_STORE.replace("=", "+="),
           ("uninitialised-read", "wrong", "unwritten")),
    mutant("all outputs stored in row 0", W_STORE, "grad_weights[i] = sum;", "race"),
    # the input
    mutant("input: output 0 only", X_LOOP, X_LOOP.replace("< n_out", "< 1"), "input_output_0_only"),
    mutant("input: overwritten", f"sum += {X_GRAD}", f"sum = {X_GRAD}", "input_last_output_only"),
    mutant("input: last output missing", X_LOOP, X_LOOP.replace("< n_out", "< n_out - 1"),
           "input_last_output_missing"),
    mutant("input: one output too many", X_LOOP, X_LOOP.replace("< n_out", "<= n_out"), "out-of-bounds"),
    mutant("input: divided by batch", X_STORE, X_STORE.replace("sum", "sum / batch"),
           "input_divided_by_batch"),
    mutant("input: averaged", X_STORE, X_STORE.replace("sum", "sum / n_out"), "input_averaged"),
    mutant("input: grad_output ignored", f"sum += {X_GRAD}", "sum += weights", "input_gradient_ignored"),
    mutant("input: weights ignored", f"{X_GRAD}[o * n_in + i];", "grad_output[b * n_out + o];",
           "input_weights_ignored"),
    mutant("input: weights as [n_in, n_out]", X_WEIGHT, "weights[i * n_out + o];",
           "input_weights_transposed"),
    mutant("input: weights with rows of n_out", X_WEIGHT, "weights[o * n_out + i];",
           ("input_weights_stride_n_out", "out-of-bounds")),
    mutant("input: b missing in grad_output", X_GRAD, "grad_output[o] * weights", "input_sample_missing"),
    mutant("input: o missing in grad_output", X_GRAD, "grad_output[b * n_out] * weights",
           "input_output_missing_in_grad"),
    mutant("input: o missing in the weights", X_WEIGHT, "weights[i];", "input_output_missing_in_weights"),
    mutant("input: i missing in the weights", X_WEIGHT, "weights[o * n_in];", "input_input_missing"),
    mutant("input: stored as [n_in, batch]", X_STORE, "grad_input[i * batch + b] = sum;",
           "input_stored_as_n_in_batch"),
    mutant("input: grad_output with rows of n_in", X_GRAD, "grad_output[b * n_in + o] * weights",
           ("wrong", "out-of-bounds")),
    mutant("input: x and y exchanged", X_X, "int i = blockIdx.y * blockDim.y + threadIdx.y;\n    int b",
           "input_axes_swapped", also=((X_Y, "int b = blockIdx.x * blockDim.x + threadIdx.x;"),)),
    mutant("input: size of a block in x written as 16", X_X, X_X.replace("blockDim.x", "16"), "unwritten"),
    mutant("input: size of a block in y written as 16", X_Y, X_Y.replace("blockDim.y", "16"), "unwritten"),
    mutant("input: no guard", X_GUARD, "", ("out-of-bounds", "race")),
    mutant("input: guard with n_out", X_GUARD, X_GUARD.replace("n_in", "n_out"),
           ("unwritten", "out-of-bounds", "race")),
    mutant("input: not stored", X_STORE, "", "unwritten"),
    mutant("input: never ends", X_LOOP, X_LOOP.replace("o++", ""), "timeout"),
    # the bias
    mutant("bias: sample 0 only", B_LOOP, B_LOOP.replace("< batch", "< 1"), "bias_sample_0_only"),
    mutant("bias: overwritten", B_GRAD, B_GRAD.replace("+=", "="), "bias_last_sample_only"),
    mutant("bias: last sample missing", B_LOOP, B_LOOP.replace("< batch", "< batch - 1"),
           "bias_last_sample_missing"),
    mutant("bias: one sample too many", B_LOOP, B_LOOP.replace("< batch", "<= batch"), "out-of-bounds"),
    mutant("bias: divided by batch", B_STORE, "grad_bias[o] = sum / batch;", "bias_divided_by_batch"),
    mutant("bias: o missing", B_GRAD, "sum += grad_output[b * n_out];", "bias_output_missing"),
    mutant("bias: b missing", B_GRAD, "sum += grad_output[o];", "bias_sample_missing"),
    mutant("bias: grad_output as [n_out, batch]", B_GRAD, "sum += grad_output[o * batch + b];",
           "bias_transposed"),
    mutant("bias: no guard", B_GUARD, "", "out-of-bounds"),
    mutant("bias: guard one too late", B_GUARD, "if (o > n_out) return;", "out-of-bounds"),
    mutant("bias: size of a block written as 64", B_INDEX, B_INDEX.replace("blockDim.x", "64"), "unwritten"),
    mutant("bias: block left out", B_INDEX, "int o = threadIdx.x;", ("unwritten", "race")),
    mutant("bias: all stored in element 0", B_STORE, "grad_bias[0] = sum;", "race"),
)  # fmt: skip


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
            params=(GRAD_OUTPUT, In("input", b="batch", i="n_in"), Out("grad_weights", o="n_out", i="n_in"),
                    *SIZES),
            launch=two_dimensional("n_in", "n_out"),
            reference=lambda a, d: dense.backward_weights(a["grad_output"], a["input"]),
        ),
        Kernel(
            INPUT,
            params=(GRAD_OUTPUT, In("weights", o="n_out", i="n_in"), Out("grad_input", b="batch", i="n_in"),
                    *SIZES),
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
        WEIGHTS: Gradient(loss_of_weights), INPUT: Gradient(loss_of_input), BIAS: Gradient(loss_of_bias),
    },
    bench=dict(batch=256, n_in=4096, n_out=4096),
    cases=(
        Case(
            "fc_bw_tiny_2x4", dict(batch=2, n_in=4, n_out=3),
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
        Case("fc_bw_numerical_gradient_check", dict(batch=3, n_in=5, n_out=4),
             note="each one moved by epsilon", check="gradient"),
        Case("integers", dict(batch=9, n_in=7, n_out=5), note="exact sums", values="integers"),
        Case("many_samples", dict(batch=70, n_in=9, n_out=6), note="5 blocks in y for the input"),
        Case("wide", dict(batch=3, n_in=40, n_out=20), note="3 x 2 blocks for the weights"),
        Case("nothing_divides", dict(batch=19, n_in=37, n_out=67, tx=8, ty=4, threads=32),
             note="blocks of 8 x 4 threads, and of 32 for the bias"),
        Case("fc_bw_lenet_84_10", dict(batch=8, n_in=84, n_out=10), note="LeNet's last layer"),
        Case("fc_bw_lenet_120_84", dict(batch=8, n_in=120, n_out=84), note="LeNet's fourth"),
        Case("fc_bw_lenet_256_120", dict(batch=8, n_in=256, n_out=120), note="LeNet's third"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(3, 40), n_in=pick(5, 50), n_out=pick(35, 70), tx=pick(3, 20),
                                    ty=pick(2, 12), threads=pick(20, 34))),
        Case("large_input", dict(batch=257, n_in=261, n_out=2, tx=1, ty=1),
             note="more than 65,536 elements in input", stress=True),
        Case("large_weights", dict(batch=2, n_in=257, n_out=263, tx=1, ty=1, threads=1),
             note="more than 65,536 elements in weights", stress=True),
        Case("large_output", dict(batch=259, n_in=2, n_out=257, tx=1, ty=1, threads=1),
             note="more than 65,536 elements in grad_output", stress=True),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "Ask of each number which outputs change when it changes a little, and by what factor. A weight (o, "
        "i) appears in output o of every sample, with the factor input (b, i). An input (b, i) appears in "
        "every output of its own sample, with the factor weight (o, i). A bias o appears in output o of "
        "every sample, with the factor 1. Each gradient is the sum of grad_output times these factors.",
        "Three times the pattern of fc_forward: numbers from x and y, a guard, a sum that starts at zero, "
        "one loop, one store. What the loop runs over is the letter that the result lacks: b for the "
        "weights (o, i), o for the input (b, i), b for the bias (o). In the first two, x goes with i, the "
        "fast axis of the result, and the guard compares with the sizes of the result.",
        "Places: grad_output has rows of n_out, so sample b, output o is at b times n_out plus o, in all "
        "three kernels. The input, grad_input, the weights and grad_weights have rows of n_in: row times "
        "n_in plus i, where the row is b for the first two and o for the others. The loops step by "
        "whole rows, except that fc_backward_input steps along a row of grad_output.",
    ),
)  # fmt: skip
