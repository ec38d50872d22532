"""Puzzle 09: the gradients of a convolution's weights and bias, one thread per gradient element."""

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
from reference import conv

WEIGHTS, BIAS = "conv2d_backward_weights", "conv2d_backward_bias"


def gradient(a, d, grad_output=None, input=None):
    """The right answer, with an array replaced by what a wrong kernel uses for it."""
    return conv.backward_weights(
        a["grad_output"] if grad_output is None else grad_output,
        a["input"] if input is None else input,
        (d["C_out"], d["C_in"], d["F"], d["F"]),
    )


def first(array, axis):
    """The first slice along an axis, in the place of all of them."""
    return np.broadcast_to(np.take(array, [0], axis), array.shape)


def without_last(array, axis):
    """The array with zeros in the last slice along an axis."""
    keep = np.arange(array.shape[axis]) < array.shape[axis] - 1
    return array * keep.reshape([-1 if i == axis else 1 for i in range(array.ndim)])


def reread(array, index):
    """What a kernel reads that takes `index(i, j, k, l)` for the flat position of array[i, j, k, l].

    NaN where that is outside of the array.
    """
    flat, position = array.ravel(), index(*np.indices(array.shape))
    inside = (position >= 0) & (position < flat.size)
    return np.where(inside, flat[np.where(inside, position, 0)], np.nan)


def smaller_output(a, d):
    """H_out = H - F and W_out = W - F, in the bounds of the loops and in the strides of grad_output."""
    rows, columns = d["H_out"] - 1, d["W_out"] - 1
    read = reread(a["grad_output"], lambda b, k, p, q: ((b * d["C_out"] + k) * rows + p) * columns + q)
    return gradient(a, d, without_last(without_last(read, 2), 3))


def columns_bounded_by_rows(a, d):
    """q < H_out: where the output is wide, columns are missing; where it is tall, q leaves the row."""
    if d["H_out"] > d["W_out"]:
        return np.full((d["C_out"], d["C_in"], d["F"], d["F"]), np.nan)
    return gradient(a, d, a["grad_output"] * (np.arange(d["W_out"]) < d["H_out"]))


def last_product(a, d):
    """sum = product where sum += product is meant."""
    window = a["input"][-1, :, d["H_out"] - 1 :, d["W_out"] - 1 :]
    return a["grad_output"][-1, :, -1, -1][:, None, None, None] * window


def written_by(size, threads, right):
    """The right answer where i = blockIdx.x * size + threadIdx.x finds it, NaN elsewhere."""
    first = np.arange(ceil_div(right.size, threads)) * size
    written = np.isin(np.arange(right.size), np.add.outer(first, np.arange(threads)))
    return np.where(written.reshape(right.shape), right, np.nan)


def bias_gradient(grad_output):
    return conv.backward_bias(grad_output)


def wrong(id, hint, says, compute, kernel=WEIGHTS):
    return Misconception(id, kernel, says, compute, hint)


MISCONCEPTIONS = (
    wrong("batch_0_only", 2,
          "This is exactly the gradient of batch item 0 alone: "
          "the loop over the batch is missing or its stride is 0.",
          lambda a, d: gradient(a, d, a["grad_output"][:1], a["input"][:1])),
    wrong("last_image_only", 2,
          "This is exactly the gradient of the last batch item alone: the sum starts again for every image.",
          lambda a, d: gradient(a, d, a["grad_output"][-1:], a["input"][-1:])),
    wrong("input_batch_missing", 3,
          "Every image's gradient is multiplied with image 0: b is missing in the index of the input.",
          lambda a, d: gradient(a, d, input=first(a["input"], 0))),
    wrong("grad_batch_missing", 3,
          "Every image is multiplied with the gradient of image 0: b is missing in the index of grad_output.",
          lambda a, d: gradient(a, d, first(a["grad_output"], 0))),
    wrong("batch_missing", 3,
          "Image 0 is counted once for every image: b is missing in both indices.",
          lambda a, d: gradient(a, d, first(a["grad_output"], 0), first(a["input"], 0))),
    wrong("divided_by_batch", 1,
          "This is the gradient divided by the batch size; the gradient is the plain sum over the batch.",
          lambda a, d: gradient(a, d) / d["batch"]),
    wrong("filter_transposed", 2,
          "Rows and columns of the filter are exchanged: r and s have changed places.",
          lambda a, d: gradient(a, d).swapaxes(2, 3)),
    wrong("filter_flipped", 3,
          "The filter's gradient is turned by 180 degrees: "
          "weight (r, s) belongs to input[p + r, q + s], with plus signs.",
          lambda a, d: gradient(a, d)[:, :, ::-1, ::-1]),
    wrong("gradient_flipped", 3,
          "grad_output is read back to front: "
          "grad_output[p, q] belongs to input[p + r, q + s], nothing is flipped.",
          lambda a, d: gradient(a, d, a["grad_output"][:, :, ::-1, ::-1])),
    wrong("last_row_missing", 2,
          "The last row of grad_output is left out: p runs from 0 to H_out - 1, and H_out is H - F + 1.",
          lambda a, d: gradient(a, d, without_last(a["grad_output"], 2))),
    wrong("last_column_missing", 2,
          "The last column of grad_output is left out: q runs from 0 to W_out - 1, and W_out is W - F + 1.",
          lambda a, d: gradient(a, d, without_last(a["grad_output"], 3))),
    wrong("last_row_and_column_missing", 2,
          "The last row and the last column of grad_output are left out: both loops stop one too early.",
          lambda a, d: gradient(a, d, without_last(without_last(a["grad_output"], 2), 3))),
    wrong("output_one_too_small", 2,
          "This is what H_out = H - F and W_out = W - F give; one row and one column are missing (+ 1).",
          smaller_output),
    wrong("columns_bounded_by_rows", 2,
          "Columns of grad_output from H_out on are left out: q must run to W_out, it runs to H_out.",
          columns_bounded_by_rows),
    wrong("first_row_only", 2,
          "Only row 0 of grad_output is used: the loop over p is missing or stops after one round.",
          lambda a, d: gradient(a, d, a["grad_output"] * (np.arange(d["H_out"]) < 1)[:, None])),
    wrong("negated", 1,
          "This is exactly minus the gradient: products are added; the minus comes later, in the update.",
          lambda a, d: -gradient(a, d)),
    wrong("last_product_only", 2,
          "Only the very last product is in the result: the sum is overwritten (=) instead of added to (+=).",
          last_product),
    wrong("channels_exchanged", 2,
          "The right numbers are at the wrong places: idx is split with c as the slowest axis; it is k.",
          lambda a, d: gradient(a, d).swapaxes(0, 1).reshape(d["C_out"], d["C_in"], d["F"], d["F"])),
    wrong("input_channel_0_only", 3,
          "Every input channel gets the gradient of channel 0: c is missing in the index of the input.",
          lambda a, d: gradient(a, d, input=first(a["input"], 1))),
    wrong("output_channel_0_only", 3,
          "Every output channel gets the gradient of channel 0: k is missing in the index of grad_output.",
          lambda a, d: gradient(a, d, first(a["grad_output"], 1))),
    wrong("gradient_ignored", 1,
          "This is a plain sum of input windows: grad_output is not multiplied in.",
          lambda a, d: gradient(a, d, np.ones_like(a["grad_output"]))),
    wrong("input_ignored", 1,
          "This is a plain sum of grad_output, as for the bias: the input is not multiplied in.",
          lambda a, d: gradient(a, d, input=np.ones_like(a["input"]))),
    wrong("filter_offset_missing", 3,
          "All weights of a filter get the gradient of weight (0, 0): "
          "r and s are missing in the index of the input.",
          lambda a, d: first(first(gradient(a, d), 2), 3)),
    wrong("row_offset_missing", 3,
          "All rows of a filter get the gradient of row 0: r is missing in the index of the input.",
          lambda a, d: first(gradient(a, d), 2)),
    wrong("column_offset_missing", 3,
          "All columns of a filter get the gradient of column 0: s is missing in the index of the input.",
          lambda a, d: first(gradient(a, d), 3)),
    wrong("h_used_for_w", 3,
          "The rows of the input are taken to be H elements long; they are W long.",
          lambda a, d: gradient(a, d, input=reread(
              a["input"], lambda b, c, h, w: ((b * d["C_in"] + c) * d["H"] + h) * d["H"] + w))),
    wrong("h_and_w_swapped", 3,
          "H and W have changed places in the index of the input: a channel has H rows of W elements.",
          lambda a, d: gradient(a, d, input=reread(
              a["input"], lambda b, c, h, w: ((b * d["C_in"] + c) * d["W"] + h) * d["H"] + w))),
    wrong("h_out_and_w_out_swapped", 3,
          "H_out and W_out have changed places in the index of grad_output: its rows are W_out long.",
          lambda a, d: gradient(a, d, reread(
              a["grad_output"],
              lambda b, k, p, q: ((b * d["C_out"] + k) * d["W_out"] + p) * d["H_out"] + q))),
    wrong("output_size_used_for_input", 3,
          "The input is indexed with H_out and W_out; its rows are W long and its channels H rows high.",
          lambda a, d: gradient(a, d, input=reread(
              a["input"], lambda b, c, h, w: ((b * d["C_in"] + c) * d["H_out"] + h) * d["W_out"] + w))),
    wrong("w_out_used_for_w", 3,
          "The rows of the input are taken to be W_out elements long; they are W long.",
          lambda a, d: gradient(a, d, input=reread(
              a["input"], lambda b, c, h, w: ((b * d["C_in"] + c) * d["H"] + h) * d["W_out"] + w))),
    wrong("one_block", 2,
          "Only the first blockDim.x elements are written: "
          "idx counts the threads of one block, not of all blocks.",
          lambda a, d: written_by(0, d["threads"], gradient(a, d))),
    wrong("size_of_a_block_is_64", 2,
          "Elements between the blocks are not written: the size of a block is taken to be 64; "
          "it is blockDim.x.",
          lambda a, d: written_by(64, d["threads"], gradient(a, d))),
    wrong("input_batch_stride_without_channels", 3,
          "The step from image to image in the input is one channel, not C_in channels.",
          lambda a, d: gradient(a, d, input=reread(
              a["input"], lambda b, c, h, w: ((b + c) * d["H"] + h) * d["W"] + w))),
    wrong("grad_batch_stride_without_channels", 3,
          "The step from image to image in grad_output is one channel, not C_out channels.",
          lambda a, d: gradient(a, d, reread(
              a["grad_output"], lambda b, k, p, q: ((b + k) * d["H_out"] + p) * d["W_out"] + q))),
    wrong("grad_batch_stride_c_in", 3,
          "The step from image to image in grad_output is C_in channels; grad_output has C_out channels.",
          lambda a, d: gradient(a, d, reread(
              a["grad_output"], lambda b, k, p, q: ((b * d["C_in"] + k) * d["H_out"] + p) * d["W_out"] + q))),
    # the bias
    wrong("bias_one_block", 3,
          "Only the first blockDim.x channels are written: k counts the threads of one block, "
          "not of all blocks.",
          lambda a, d: written_by(0, d["threads"], bias_gradient(a["grad_output"])), kernel=BIAS),
    wrong("bias_size_of_a_block_is_64", 3,
          "Channels between the blocks are not written: the size of a block is taken to be 64; "
          "it is blockDim.x.",
          lambda a, d: written_by(64, d["threads"], bias_gradient(a["grad_output"])), kernel=BIAS),
    wrong("bias_batch_0_only", 1,
          "This is exactly the bias gradient of batch item 0 alone: "
          "the loop over the batch is missing or its stride is 0.",
          lambda a, d: bias_gradient(a["grad_output"][:1]), kernel=BIAS),
    wrong("bias_batch_missing", 3,
          "Image 0 is added up once for every image: b is missing in the index of grad_output.",
          lambda a, d: bias_gradient(first(a["grad_output"], 0)), kernel=BIAS),
    wrong("bias_averaged", 1,
          "This is the mean of grad_output; the gradient of the bias is the sum.",
          lambda a, d: a["grad_output"].mean((0, 2, 3)), kernel=BIAS),
    wrong("bias_divided_by_batch", 1,
          "This is the bias gradient divided by the batch size; the gradient is the plain sum.",
          lambda a, d: bias_gradient(a["grad_output"]) / d["batch"], kernel=BIAS),
    wrong("bias_channel_0_only", 3,
          "Every output channel gets the sum of channel 0: k is missing in the index of grad_output.",
          lambda a, d: bias_gradient(first(a["grad_output"], 1)), kernel=BIAS),
    wrong("bias_batch_stride_without_channels", 3,
          "The step from image to image in grad_output is one channel, not C_out channels.",
          lambda a, d: bias_gradient(reread(
              a["grad_output"], lambda b, k, p, q: ((b + k) * d["H_out"] + p) * d["W_out"] + q)),
          kernel=BIAS),
    wrong("bias_first_row_only", 2,
          "Only row 0 of grad_output is added up: every channel has H_out rows of W_out elements.",
          lambda a, d: a["grad_output"][:, :, 0].sum((0, 2)), kernel=BIAS),
    wrong("bias_last_missing", 2,
          "The last element of every channel is left out of the sum.",
          lambda a, d: bias_gradient(a["grad_output"]) - a["grad_output"][:, :, -1, -1].sum(0), kernel=BIAS),
    wrong("bias_last_element_only", 2,
          "Only the very last element of the channel is in the result: "
          "the sum is overwritten (=) instead of added to (+=).",
          lambda a, d: a["grad_output"][-1, :, -1, -1], kernel=BIAS),
)  # fmt: skip

GUARD = "if (idx >= C_out * C_in * F * F) return;"
FILTER = """int s = idx % F;
    int r = idx / F % F;"""
CHANNELS = """int c = idx / (F * F) % C_in;
    int k = idx / (F * F * C_in);"""
START = """float sum = 0.0f;
    for (int b = 0; b < batch; b++) {
        for (int p"""
B_LOOP = """for (int b = 0; b < batch; b++) {
        for (int p"""
P_LOOP = "for (int p = 0; p < H_out; p++) {"
Q_LOOP = "for (int q = 0; q < W_out; q++) {"
GRAD = "grad_output[((b * C_out + k) * H_out + p) * W_out + q]"
INPUT = "input[((b * C_in + c) * H + p + r) * W + q + s]"
ADD = "sum += grad * input"
STORE = "grad_weights[idx] = sum;"

BIAS_INDEX = "int k = blockIdx.x * blockDim.x + threadIdx.x;"
BIAS_GUARD = "if (k >= C_out) return;"
BIAS_LOOPS = """for (int b = 0; b < batch; b++) {
        for (int i"""
I_LOOP = "for (int i = 0; i < H_out * W_out; i++) {"
BIAS_GRAD = "grad_output[(b * C_out + k) * H_out * W_out + i]"


def mutant(name, old, new, expect="wrong", also=()):
    return Mutant(name, BIAS if name.startswith("bias") else WEIGHTS, old, new, expect, also)


MUTANTS = (
    # the batch
    mutant("loop over the batch stops after image 0", B_LOOP, B_LOOP.replace("< batch", "< 1"),
           "batch_0_only"),
    mutant("sum starts again for every image", B_LOOP, B_LOOP.replace("{", "{ sum = 0.0f;"),
           "last_image_only"),
    mutant("b missing in the input", INPUT, "input[(c * H + p + r) * W + q + s]", "input_batch_missing"),
    mutant("b missing in grad_output", GRAD, "grad_output[(k * H_out + p) * W_out + q]",
           "grad_batch_missing"),
    mutant("b missing in both", INPUT, "input[(c * H + p + r) * W + q + s]", "batch_missing",
           also=((GRAD, "grad_output[(k * H_out + p) * W_out + q]"),)),
    mutant("input batch stride without channels", INPUT, "input[((b + c) * H + p + r) * W + q + s]",
           "input_batch_stride_without_channels"),
    mutant("input batch stride with C_out", INPUT, "input[((b * C_out + c) * H + p + r) * W + q + s]",
           "out-of-bounds"),
    mutant("grad_output batch stride without channels", GRAD,
           "grad_output[((b + k) * H_out + p) * W_out + q]",
           "grad_batch_stride_without_channels"),
    mutant("grad_output batch stride with C_in", GRAD,
           "grad_output[((b * C_in + k) * H_out + p) * W_out + q]",
           "grad_batch_stride_c_in"),
    mutant("divided by batch", STORE, "grad_weights[idx] = sum / batch;", "divided_by_batch"),
    mutant("one image too many", B_LOOP, B_LOOP.replace("< batch", "<= batch"), "out-of-bounds"),
    # rows and columns
    mutant("r and s swapped in the split", FILTER, "int r = idx % F;\n    int s = idx / F % F;",
           "filter_transposed"),
    mutant("r and s swapped in the input", INPUT, "input[((b * C_in + c) * H + p + s) * W + q + r]",
           "filter_transposed"),
    mutant("H for W in the input", INPUT, "input[((b * C_in + c) * H + p + r) * H + q + s]", "h_used_for_w"),
    mutant("H and W swapped in the input", INPUT, "input[((b * C_in + c) * W + p + r) * H + q + s]",
           "h_and_w_swapped"),
    mutant("H_out and W_out swapped in grad_output", GRAD,
           "grad_output[((b * C_out + k) * W_out + p) * H_out + q]", "h_out_and_w_out_swapped"),
    mutant("H_out and W_out for H and W", INPUT, "input[((b * C_in + c) * H_out + p + r) * W_out + q + s]",
           "output_size_used_for_input"),
    mutant("W_out for W", INPUT, "input[((b * C_in + c) * H + p + r) * W_out + q + s]", "w_out_used_for_w"),
    mutant("loop bounds swapped", P_LOOP, "for (int p = 0; p < W_out; p++) {", "out-of-bounds",
           also=((Q_LOOP, "for (int q = 0; q < H_out; q++) {"),)),
    mutant("q runs to H_out", Q_LOOP, "for (int q = 0; q < H_out; q++) {", "columns_bounded_by_rows"),
    mutant("loops run over the input", P_LOOP, "for (int p = 0; p < H; p++) {", "out-of-bounds",
           also=((Q_LOOP, "for (int q = 0; q < W; q++) {"),)),
    mutant("last row missing", P_LOOP, "for (int p = 0; p < H_out - 1; p++) {", "last_row_missing"),
    mutant("last column missing", Q_LOOP, "for (int q = 0; q < W_out - 1; q++) {", "last_column_missing"),
    mutant("last row and column missing", P_LOOP, "for (int p = 0; p < H - F; p++) {",
           "last_row_and_column_missing", also=((Q_LOOP, "for (int q = 0; q < W - F; q++) {"),)),
    mutant("one row too many", P_LOOP, "for (int p = 0; p <= H_out; p++) {", "out-of-bounds"),
    mutant("output taken one too small", "int H_out = H - F + 1;", "int H_out = H - F;",
           "output_one_too_small",
           also=(("int W_out = W - F + 1;", "int W_out = W - F;"),)),
    mutant("first row only", P_LOOP, "for (int p = 0; p < 1; p++) {", "first_row_only"),
    mutant("filter flipped", INPUT, "input[((b * C_in + c) * H + p + F - 1 - r) * W + q + F - 1 - s]",
           "filter_flipped"),
    mutant("gradient flipped", GRAD,
           "grad_output[((b * C_out + k) * H_out + H_out - 1 - p) * W_out + W_out - 1 - q]",
           "gradient_flipped"),
    mutant("r and s missing", INPUT, "input[((b * C_in + c) * H + p) * W + q]", "filter_offset_missing"),
    mutant("r missing", INPUT, "input[((b * C_in + c) * H + p) * W + q + s]", "row_offset_missing"),
    mutant("s missing", INPUT, "input[((b * C_in + c) * H + p + r) * W + q]", "column_offset_missing"),
    mutant("minus for plus", INPUT, "input[((b * C_in + c) * H + p - r) * W + q - s]", "out-of-bounds"),
    mutant("one row too far", INPUT, "input[((b * C_in + c) * H + p + r + 1) * W + q + s]", "out-of-bounds"),
    # channels
    mutant("k and c swapped in the split", CHANNELS,
           "int k = idx / (F * F) % C_out;\n    int c = idx / (F * F * C_out);", "channels_exchanged"),
    mutant("c missing in the input", INPUT, "input[(b * C_in * H + p + r) * W + q + s]",
           "input_channel_0_only"),
    mutant("k missing in grad_output", GRAD, "grad_output[(b * C_out * H_out + p) * W_out + q]",
           "output_channel_0_only"),
    mutant("k and c swapped in the arrays", GRAD, "grad_output[((b * C_out + c) * H_out + p) * W_out + q]",
           ("wrong", "out-of-bounds"), also=((INPUT, "input[((b * C_in + k) * H + p + r) * W + q + s]"),)),
    # the sum
    mutant("gradient ignored", ADD, "sum += input", "gradient_ignored"),
    mutant("input ignored", f"{ADD}[((b * C_in + c) * H + p + r) * W + q + s];", "sum += grad;",
           "input_ignored"),
    mutant("overwritten instead of added", ADD, "sum = grad * input", "last_product_only"),
    mutant("gradient squared", ADD, "sum += grad * grad * input"),
    mutant("subtracted", ADD, "sum -= grad * input", "negated"),
    mutant("sum starts at 1", START, START.replace("0.0f", "1.0f")),
    mutant("sum not set to anything", START, START.replace("sum = 0.0f", "sum"),
           ("uninitialised-read", "wrong")),
    mutant("sum in an int", START, START.replace("float sum", "int sum")),
    mutant("added to what was there", STORE, "grad_weights[idx] += sum;",
           ("uninitialised-read", "wrong", "unwritten")),
    # the threads
    mutant("weights counted in 16 bits", "int idx = ", "short idx = ", "out-of-bounds"),
    mutant("no guard", GUARD, "", "out-of-bounds"),
    mutant("guard one too late", GUARD, GUARD.replace(">=", ">"), "out-of-bounds"),
    mutant("last weight left out", GUARD, "if (idx >= C_out * C_in * F * F - 1) return;", "unwritten"),
    mutant("guard forgets C_out", GUARD, "if (idx >= C_in * F * F) return;", "unwritten"),
    mutant("block left out", "int idx = blockIdx.x * blockDim.x + threadIdx.x;", "int idx = threadIdx.x;",
           ("one_block", "race")),
    mutant("size of a block written as 64", "int idx = blockIdx.x * blockDim.x", "int idx = blockIdx.x * 64",
           "size_of_a_block_is_64"),
    mutant("not stored", STORE, "", "unwritten"),
    mutant("never ends", Q_LOOP, "for (int q = 0; q < W_out;) {", "timeout"),
    # the bias
    mutant("bias: image 0 only", BIAS_LOOPS, BIAS_LOOPS.replace("< batch", "< 1"), "bias_batch_0_only"),
    mutant("bias: b missing", BIAS_GRAD, "grad_output[k * H_out * W_out + i]", "bias_batch_missing"),
    mutant("bias: divided by batch", "grad_bias[k] = sum;", "grad_bias[k] = sum / batch;",
           "bias_divided_by_batch"),
    mutant("bias: mean", "grad_bias[k] = sum;", "grad_bias[k] = sum / (batch * H_out * W_out);",
           "bias_averaged"),
    mutant("bias: k missing", BIAS_GRAD, "grad_output[b * C_out * H_out * W_out + i]", "bias_channel_0_only"),
    mutant("bias: batch stride without channels", BIAS_GRAD, "grad_output[(b + k) * H_out * W_out + i]",
           "bias_batch_stride_without_channels"),
    mutant("bias: first row only", I_LOOP, "for (int i = 0; i < W_out; i++) {", "bias_first_row_only"),
    mutant("bias: last element missing", I_LOOP, "for (int i = 0; i < H_out * W_out - 1; i++) {",
           "bias_last_missing"),
    mutant("bias: overwritten instead of added", "sum += grad_output", "sum = grad_output",
           "bias_last_element_only"),
    mutant("bias: one image too many", BIAS_LOOPS, BIAS_LOOPS.replace("< batch", "<= batch"),
           "out-of-bounds"),
    mutant("bias: block left out", BIAS_INDEX, "int k = threadIdx.x;", ("bias_one_block", "race")),
    mutant("bias: size of a block written as 64", BIAS_INDEX, BIAS_INDEX.replace("blockDim.x", "64"),
           "bias_size_of_a_block_is_64"),
    mutant("bias: size of a block written as 32", BIAS_INDEX, BIAS_INDEX.replace("blockDim.x", "32"),
           ("unwritten", "race")),
    mutant("bias: size of a block left out", BIAS_INDEX, "int k = blockIdx.x + threadIdx.x;",
           ("unwritten", "race")),
    mutant("bias: no guard", BIAS_GUARD, "", "out-of-bounds"),
    mutant("bias: guard one too late", BIAS_GUARD, "if (k > C_out) return;", "out-of-bounds"),
)  # fmt: skip


def loss_of_weights(w, a, d):
    """A loss whose gradient at the convolution's output is grad_output, as a function of the weights."""
    return np.sum(a["grad_output"] * conv.forward(a["input"], w))


def loss_of_bias(bias, a, d):
    """The same as a function of the bias; the weights may be anything, so they are 0."""
    input = np.zeros((d["batch"], d["C_in"], d["H"], d["W"]))
    weights = np.zeros((d["C_out"], d["C_in"], d["F"], d["F"]))
    return np.sum(a["grad_output"] * conv.forward(input, weights, bias))


PUZZLE = Puzzle(
    title="Convolution, gradient of the weights",
    part=1,
    teaches="How the gradient of a shared weight is a sum over every place where the weight was used.",
    practice=(
        "cuDNN calls this pass the backward filter; PyTorch's convolution_backward returns it together with"
        " the gradients of the input and the bias."
    ),
    lines=25,
    kernels=(
        Kernel(
            WEIGHTS,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                In("input", b="batch", c="C_in", h="H", w="W"),
                Out("grad_weights", k="C_out", c="C_in", r="F", s="F"),
                Int("batch"), Int("C_in"), Int("H"), Int("W"), Int("C_out"), Int("F"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["C_out"] * d["C_in"] * d["F"] ** 2, d["threads"]), block=d["threads"]
            ),
            reference=lambda a, d: gradient(a, d),
        ),
        Kernel(
            BIAS,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                Out("grad_bias", k="C_out"),
                Int("batch"), Int("C_out"), Int("H_out"), Int("W_out"),
            ),
            launch=lambda d, t: Launch(grid=ceil_div(d["C_out"], d["threads"]), block=d["threads"]),
            reference=lambda a, d: bias_gradient(a["grad_output"]),
        ),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "threads": 64, **d},
    gradient_of={WEIGHTS: Gradient(loss_of_weights), BIAS: Gradient(loss_of_bias)},
    bench=dict(batch=128, C_in=64, H=56, W=56, C_out=64, F=3),
    cases=(
        Case(
            "conv_bw_tiny_3x3", dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2),
            note="done by hand in the lesson",
            inputs={
                "grad_output": [[[[1, 2], [3, -1]]]],
                "input": [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
            },
        ),
        Case("one_channel_wide", dict(batch=2, C_in=1, H=5, W=8, C_out=1, F=3), note="W > H"),
        Case("output_1x1", dict(batch=3, C_in=2, H=4, W=4, C_out=3, F=4), note="the filter covers the image"),
        Case("filter_1x1", dict(batch=2, C_in=3, H=4, W=5, C_out=4, F=1), note="only channels"),
        Case("conv_bw_numerical_gradient_check", dict(batch=2, C_in=2, H=5, W=6, C_out=3, F=3),
             note="each weight moved by epsilon", check="gradient"),
        Case("integers", dict(batch=2, C_in=3, H=6, W=9, C_out=4, F=3), note="exact sums", values="integers"),
        Case("many_filters", dict(batch=2, C_in=1, H=4, W=5, C_out=130, F=2), note="3 blocks for the bias"),
        Case("batch_odd", dict(batch=3, C_in=4, H=9, W=7, C_out=5, F=2), note="all sizes differ; H > W"),
        Case("nothing_divides", dict(batch=3, C_in=5, H=33, W=31, C_out=17, F=3), note="long sums"),
        Case("many_blocks", dict(batch=2, C_in=13, H=7, W=6, C_out=37, F=3, threads=32),
             note="136 blocks of 32 threads; 2 for the bias"),
        Case("conv_bw_lenet_conv1", dict(batch=8, C_in=1, H=28, W=28, C_out=6, F=5), note="LeNet's first"),
        Case("conv_bw_lenet_conv2", dict(batch=8, C_in=6, H=12, W=12, C_out=16, F=5), note="LeNet's second"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(257, 290), C_in=pick(2, 4), H=pick(4, 8), W=pick(4, 8),
                                    C_out=pick(2, 5), F=pick(1, 3), threads=pick(30, 90))),
        Case("large_image", dict(batch=1, C_in=1, H=263, W=259, C_out=1, F=2), stress=True,
             note="more pixels than 16 bits can count"),
        Case("many_channels", dict(batch=2, C_in=261, H=1, W=1, C_out=257, F=1, threads=1), stress=True,
             note="more weights, and blocks, than 16 bits can count"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "Each thread owns one weight, grad_weights[k, c, r, s], and asks: in which products of the forward "
        "pass was my weight a factor? In every output of channel k, at every position (p, q), in every "
        "image. So the gradient is a plain sum of products, one per output position and image, with no "
        "division. The bias was added to the same outputs, each time with the factor 1.",
        "Split idx as a clock splits seconds: the last axis of grad_weights turns fastest, so s is the "
        "remainder of idx by F; divide by F and go on with r, then c, then k. Then three nested loops: b to "
        "batch, p to H_out, q to W_out. One running sum is set to zero once before the loops, added to in "
        "the innermost, and stored once after them.",
        "One product: grad_output at (b, k, p, q) times input at (b, c, p + r, q + s). The flat position of "
        "an element: take its first index; for every further axis multiply by that axis's size and add that "
        "axis's index. Use the sizes of the array you read: grad_output has C_out, H_out, W_out after the "
        "batch, input has C_in, H, W. In the bias kernel k is the thread's own number, compared with C_out.",
    ),
)  # fmt: skip
