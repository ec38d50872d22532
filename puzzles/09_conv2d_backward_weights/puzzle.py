"""Puzzle 09: the gradients of a convolution's weights and bias, one thread per gradient element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

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

WEIGHTS, BIAS = "conv2d_backward_weights", "conv2d_backward_bias"


def bias_gradient(grad_output):
    return conv.backward_bias(grad_output)


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


MISTAKES = (
    *mistakes_in(
        WEIGHTS,
        # the batch
        Mistake(
            "loop over the batch stops after image 0",
            (B_LOOP, B_LOOP.replace("< batch", "< 1")),
            says="This is exactly the gradient of batch item 0 alone: nothing of the other images is added.",
            hint=2,
        ),
        Mistake(
            "sum starts again for every image",
            (B_LOOP, B_LOOP.replace("{", "{ sum = 0.0f;")),
            says="This is exactly the gradient of the last batch item alone: nothing of the other images is added.",
            hint=2,
        ),
        Mistake(
            "b missing in the input",
            (INPUT, "input[(c * H + p + r) * W + q + s]"),
            says="Every image's gradient is multiplied by image 0: b is missing from the index of the input.",
            hint=3,
        ),
        Mistake(
            "b missing in grad_output",
            (GRAD, "grad_output[(k * H_out + p) * W_out + q]"),
            says="Every image is multiplied by the gradient of image 0: b is missing from the index of "
            "grad_output.",
            hint=3,
        ),
        Mistake(
            "b missing in both",
            (
                (INPUT, "input[(c * H + p + r) * W + q + s]"),
                (GRAD, "grad_output[(k * H_out + p) * W_out + q]"),
            ),
            says="Image 0 is counted once for every image: b is missing from both indices.",
            hint=3,
        ),
        Mistake(
            "input batch stride without channels",
            (INPUT, "input[((b + c) * H + p + r) * W + q + s]"),
            says="The step from image to image in the input is one channel, not C_in channels.",
            hint=3,
        ),
        Mistake(
            "input batch stride with C_out",
            (INPUT, "input[((b * C_out + c) * H + p + r) * W + q + s]"),
            expect="out-of-bounds",
        ),
        Mistake(
            "grad_output batch stride without channels",
            (GRAD, "grad_output[((b + k) * H_out + p) * W_out + q]"),
            says="The step from image to image in grad_output is one channel, not C_out channels.",
            hint=3,
        ),
        Mistake(
            "grad_output batch stride with C_in",
            (GRAD, "grad_output[((b * C_in + k) * H_out + p) * W_out + q]"),
            says="The step from image to image in grad_output is C_in channels; grad_output has C_out "
            "channels.",
            hint=3,
        ),
        Mistake(
            "divided by batch",
            (STORE, "grad_weights[idx] = sum / batch;"),
            says="This is the gradient divided by the batch size; the gradient is the plain sum over the "
            "batch.",
        ),
        Mistake(
            "one image too many", (B_LOOP, B_LOOP.replace("< batch", "<= batch")), expect="out-of-bounds"
        ),
        # rows and columns
        Mistake(
            "r and s swapped in the split",
            (FILTER, "int r = idx % F;\n    int s = idx / F % F;"),
            says="The filter is transposed: r and s are swapped.",
            hint=2,
        ),
        Mistake(
            "r and s swapped in the input",
            (INPUT, "input[((b * C_in + c) * H + p + s) * W + q + r]"),
            expect="r and s swapped in the split",
        ),
        Mistake(
            "H for W in the input",
            (INPUT, "input[((b * C_in + c) * H + p + r) * H + q + s]"),
            says="The rows of the input are taken to be H elements long; they are W long.",
            hint=3,
        ),
        Mistake(
            "H and W swapped in the input",
            (INPUT, "input[((b * C_in + c) * W + p + r) * H + q + s]"),
            says="H and W are swapped in the index of the input: a channel has H rows of W elements.",
            hint=3,
        ),
        Mistake(
            "H_out and W_out swapped in grad_output",
            (GRAD, "grad_output[((b * C_out + k) * W_out + p) * H_out + q]"),
            says="H_out and W_out are swapped in the index of grad_output: its rows are W_out long.",
            hint=3,
        ),
        Mistake(
            "H_out and W_out for H and W",
            (INPUT, "input[((b * C_in + c) * H_out + p + r) * W_out + q + s]"),
            says="The input is indexed with H_out and W_out; its rows are W long and its channels H rows high.",
            hint=3,
        ),
        Mistake(
            "W_out for W",
            (INPUT, "input[((b * C_in + c) * H + p + r) * W_out + q + s]"),
            says="The rows of the input are taken to be W_out elements long; they are W long.",
            hint=3,
        ),
        Mistake(
            "loop bounds swapped",
            ((P_LOOP, "for (int p = 0; p < W_out; p++) {"), (Q_LOOP, "for (int q = 0; q < H_out; q++) {")),
            expect="out-of-bounds",
        ),
        Mistake(
            "q runs to H_out",
            (Q_LOOP, "for (int q = 0; q < H_out; q++) {"),
            says="Columns of grad_output from H_out on are left out: q must run to W_out, it runs to H_out.",
            hint=2,
        ),
        Mistake(
            "loops run over the input",
            ((P_LOOP, "for (int p = 0; p < H; p++) {"), (Q_LOOP, "for (int q = 0; q < W; q++) {")),
            expect="out-of-bounds",
        ),
        Mistake(
            "last row missing",
            (P_LOOP, "for (int p = 0; p < H_out - 1; p++) {"),
            says="The last row of grad_output is left out: p runs from 0 to H_out - 1, and H_out is H - F + 1.",
            hint=2,
        ),
        Mistake(
            "last column missing",
            (Q_LOOP, "for (int q = 0; q < W_out - 1; q++) {"),
            says="The last column of grad_output is left out: q runs from 0 to W_out - 1, and W_out is W - F "
            "+ 1.",
            hint=2,
        ),
        Mistake(
            "last row and column missing",
            ((P_LOOP, "for (int p = 0; p < H - F; p++) {"), (Q_LOOP, "for (int q = 0; q < W - F; q++) {")),
            says="The last row and the last column of grad_output are left out: both loops stop one too early.",
            hint=2,
        ),
        Mistake("one row too many", (P_LOOP, "for (int p = 0; p <= H_out; p++) {"), expect="out-of-bounds"),
        Mistake(
            "output taken one too small",
            (
                ("int H_out = H - F + 1;", "int H_out = H - F;"),
                ("int W_out = W - F + 1;", "int W_out = W - F;"),
            ),
            says="This is what H_out = H - F and W_out = W - F give; one row and one column are missing (+ 1).",
            hint=2,
        ),
        Mistake(
            "first row only",
            (P_LOOP, "for (int p = 0; p < 1; p++) {"),
            says="Only row 0 of grad_output is used: nothing of the other rows is added.",
            hint=2,
        ),
        Mistake(
            "filter flipped",
            (INPUT, "input[((b * C_in + c) * H + p + F - 1 - r) * W + q + F - 1 - s]"),
            says="The filter's gradient is turned by 180 degrees: weight (r, s) belongs to input[p + r, q + "
            "s], with plus signs.",
            hint=3,
        ),
        Mistake(
            "gradient flipped",
            (GRAD, "grad_output[((b * C_out + k) * H_out + H_out - 1 - p) * W_out + W_out - 1 - q]"),
            says="grad_output is read back to front: grad_output[p, q] belongs to input[p + r, q + s], and "
            "nothing is flipped.",
            hint=3,
        ),
        Mistake(
            "r and s missing",
            (INPUT, "input[((b * C_in + c) * H + p) * W + q]"),
            says="All weights of a filter get the gradient of weight (0, 0): r and s are missing from the "
            "index of the input.",
            hint=3,
        ),
        Mistake(
            "r missing",
            (INPUT, "input[((b * C_in + c) * H + p) * W + q + s]"),
            says="All rows of a filter get the gradient of row 0: r is missing from the index of the input.",
            hint=3,
        ),
        Mistake(
            "s missing",
            (INPUT, "input[((b * C_in + c) * H + p + r) * W + q]"),
            says="All columns of a filter get the gradient of column 0: s is missing from the index of the "
            "input.",
            hint=3,
        ),
        Mistake(
            "minus for plus",
            (INPUT, "input[((b * C_in + c) * H + p - r) * W + q - s]"),
            expect="out-of-bounds",
        ),
        Mistake(
            "one row too far",
            (INPUT, "input[((b * C_in + c) * H + p + r + 1) * W + q + s]"),
            expect="out-of-bounds",
        ),
        # channels
        Mistake(
            "k and c swapped in the split",
            (CHANNELS, "int k = idx / (F * F) % C_out;\n    int c = idx / (F * F * C_out);"),
            says="The right numbers are in the wrong places, as if grad_weights were [C_in, C_out, F, F]; it is "
            "[C_out, C_in, F, F].",
            hint=2,
        ),
        Mistake(
            "c missing in the input",
            (INPUT, "input[(b * C_in * H + p + r) * W + q + s]"),
            says="Every input channel gets the gradient of channel 0: c is missing from the index of the "
            "input.",
            hint=3,
        ),
        Mistake(
            "k missing in grad_output",
            (GRAD, "grad_output[(b * C_out * H_out + p) * W_out + q]"),
            says="Every output channel gets the gradient of channel 0: k is missing from the index of "
            "grad_output.",
            hint=3,
        ),
        Mistake(
            "k and c swapped in the arrays",
            (
                (GRAD, "grad_output[((b * C_out + c) * H_out + p) * W_out + q]"),
                (INPUT, "input[((b * C_in + k) * H + p + r) * W + q + s]"),
            ),
            expect=("wrong", "out-of-bounds"),
        ),
        # the sum
        Mistake(
            "gradient ignored",
            (ADD, "sum += input"),
            says="This is a plain sum of input windows: grad_output is missing from the product.",
        ),
        Mistake(
            "input ignored",
            (f"{ADD}[((b * C_in + c) * H + p + r) * W + q + s];", "sum += grad;"),
            says="This is a plain sum of grad_output, as for the bias: the input is missing from the "
            "product.",
        ),
        Mistake(
            "overwritten instead of added",
            (ADD, "sum = grad * input"),
            says="Only the very last product is in the result: each one replaces the sum instead of being added to it.",
            hint=2,
        ),
        Mistake("gradient squared", (ADD, "sum += grad * grad * input")),
        Mistake(
            "subtracted",
            (ADD, "sum -= grad * input"),
            says="The sign is wrong: products are added; the minus comes later, in the update.",
        ),
        Mistake("sum starts at 1", (START, START.replace("0.0f", "1.0f"))),
        Mistake(
            "sum not set to anything",
            (START, START.replace("sum = 0.0f", "sum")),
            expect=("uninitialised-read", "wrong"),
        ),
        Mistake("sum in an int", (START, START.replace("float sum", "int sum"))),
        Mistake(
            "added to what was there",
            (STORE, "grad_weights[idx] += sum;"),
            expect=("uninitialised-read", "wrong", "unwritten"),
        ),
        # the threads
        Mistake("weights counted in 16 bits", ("int idx = ", "short idx = "), expect="out-of-bounds"),
        Mistake("no guard", (GUARD, ""), expect="out-of-bounds"),
        Mistake("guard one too late", (GUARD, GUARD.replace(">=", ">")), expect="out-of-bounds"),
        Mistake(
            "last weight left out",
            (GUARD, "if (idx >= C_out * C_in * F * F - 1) return;"),
            expect="unwritten",
        ),
        Mistake("guard forgets C_out", (GUARD, "if (idx >= C_in * F * F) return;"), expect="unwritten"),
        Mistake(
            "block left out",
            ("int idx = blockIdx.x * blockDim.x + threadIdx.x;", "int idx = threadIdx.x;"),
            expect="race",
            says="Only the first blockDim.x elements are written: idx counts the threads of one block, not of "
            "all blocks.",
            hint=2,
        ),
        Mistake(
            "size of a block written as 64",
            ("int idx = blockIdx.x * blockDim.x", "int idx = blockIdx.x * 64"),
            says="Elements between the blocks are not written: the size of a block is taken to be 64; it is "
            "blockDim.x.",
            hint=2,
        ),
        Mistake("not stored", (STORE, ""), expect="unwritten"),
        Mistake("never ends", (Q_LOOP, "for (int q = 0; q < W_out;) {"), expect="timeout"),
    ),
    *mistakes_in(
        BIAS,
        # the bias
        Mistake(
            "bias: image 0 only",
            (BIAS_LOOPS, BIAS_LOOPS.replace("< batch", "< 1")),
            says="This is exactly the bias gradient of batch item 0 alone: nothing of the other images is added.",
        ),
        Mistake(
            "bias: b missing",
            (BIAS_GRAD, "grad_output[k * H_out * W_out + i]"),
            says="Image 0 is added up once for every image: b is missing from the index of grad_output.",
            hint=3,
        ),
        Mistake(
            "bias: divided by batch",
            ("grad_bias[k] = sum;", "grad_bias[k] = sum / batch;"),
            says="This is the bias gradient divided by the batch size; the gradient is the plain sum.",
        ),
        Mistake(
            "bias: mean",
            ("grad_bias[k] = sum;", "grad_bias[k] = sum / (batch * H_out * W_out);"),
            says="This is the mean of grad_output; the gradient of the bias is the sum.",
        ),
        Mistake(
            "bias: k missing",
            (BIAS_GRAD, "grad_output[b * C_out * H_out * W_out + i]"),
            says="Every output channel gets the sum of channel 0: k is missing from the index of "
            "grad_output.",
            hint=3,
        ),
        Mistake(
            "bias: batch stride without channels",
            (BIAS_GRAD, "grad_output[(b + k) * H_out * W_out + i]"),
            says="The step from image to image in grad_output is one channel, not C_out channels.",
            hint=3,
        ),
        Mistake(
            "bias: first row only",
            (I_LOOP, "for (int i = 0; i < W_out; i++) {"),
            says="Only row 0 of grad_output is added up: every channel has H_out rows of W_out elements.",
            hint=2,
        ),
        Mistake(
            "bias: last element missing",
            (I_LOOP, "for (int i = 0; i < H_out * W_out - 1; i++) {"),
            says="The last element of every channel is left out of the sum.",
            hint=2,
        ),
        Mistake(
            "bias: overwritten instead of added",
            ("sum += grad_output", "sum = grad_output"),
            says="Only the very last element of the channel is in the result: each one replaces the sum instead of being added to it.",
            hint=2,
        ),
        Mistake(
            "bias: one image too many",
            (BIAS_LOOPS, BIAS_LOOPS.replace("< batch", "<= batch")),
            expect="out-of-bounds",
        ),
        Mistake(
            "bias: block left out",
            (BIAS_INDEX, "int k = threadIdx.x;"),
            expect="race",
            says="Only the first blockDim.x channels are written: k counts the threads of one block, not of "
            "all blocks.",
            hint=3,
        ),
        Mistake(
            "bias: size of a block written as 64",
            (BIAS_INDEX, BIAS_INDEX.replace("blockDim.x", "64")),
            says="Channels between the blocks are not written: the size of a block is taken to be 64; it is "
            "blockDim.x.",
            hint=3,
        ),
        Mistake(
            "bias: size of a block written as 32",
            (BIAS_INDEX, BIAS_INDEX.replace("blockDim.x", "32")),
            expect=("unwritten", "race"),
        ),
        Mistake(
            "bias: size of a block left out",
            (BIAS_INDEX, "int k = blockIdx.x + threadIdx.x;"),
            expect=("unwritten", "race"),
        ),
        Mistake("bias: no guard", (BIAS_GUARD, ""), expect="out-of-bounds"),
        Mistake("bias: guard one too late", (BIAS_GUARD, "if (k > C_out) return;"), expect="out-of-bounds"),
    ),
)


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
                Int("batch"),
                Int("C_in"),
                Int("H"),
                Int("W"),
                Int("C_out"),
                Int("F"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["C_out"] * d["C_in"] * d["F"] ** 2, d["threads"]), block=d["threads"]
            ),
            reference=lambda a, d: conv.backward_weights(
                a["grad_output"], a["input"], (d["C_out"], d["C_in"], d["F"], d["F"])
            ),
        ),
        Kernel(
            BIAS,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                Out("grad_bias", k="C_out"),
                Int("batch"),
                Int("C_out"),
                Int("H_out"),
                Int("W_out"),
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
            "conv_bw_tiny_3x3",
            dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2),
            note="done by hand in the lesson",
            inputs={"grad_output": [[[[1, 2], [3, -1]]]], "input": [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]},
        ),
        Case("one_channel_wide", dict(batch=2, C_in=1, H=5, W=8, C_out=1, F=3), note="W > H"),
        Case("output_1x1", dict(batch=3, C_in=2, H=4, W=4, C_out=3, F=4), note="the filter covers the image"),
        Case("filter_1x1", dict(batch=2, C_in=3, H=4, W=5, C_out=4, F=1), note="only channels"),
        Case(
            "conv_bw_numerical_gradient_check",
            dict(batch=2, C_in=2, H=5, W=6, C_out=3, F=3),
            note="each weight moved by epsilon",
            check="gradient",
        ),
        Case("integers", dict(batch=2, C_in=3, H=6, W=9, C_out=4, F=3), note="exact sums", values="integers"),
        Case("many_filters", dict(batch=2, C_in=1, H=4, W=5, C_out=130, F=2), note="3 blocks for the bias"),
        Case("batch_odd", dict(batch=3, C_in=4, H=9, W=7, C_out=5, F=2), note="all sizes differ; H > W"),
        Case("nothing_divides", dict(batch=3, C_in=5, H=33, W=31, C_out=17, F=3), note="long sums"),
        Case(
            "many_blocks",
            dict(batch=2, C_in=13, H=7, W=6, C_out=37, F=3, threads=32),
            note="136 blocks of 32 threads; 2 for the bias",
        ),
        Case("conv_bw_lenet_conv1", dict(batch=8, C_in=1, H=28, W=28, C_out=6, F=5), note="LeNet's first"),
        Case("conv_bw_lenet_conv2", dict(batch=8, C_in=6, H=12, W=12, C_out=16, F=5), note="LeNet's second"),
        Case(
            "own_sizes",
            note="sizes drawn from your file's text",
            draw=lambda pick: dict(
                batch=pick(257, 290),
                C_in=pick(2, 4),
                H=pick(4, 8),
                W=pick(4, 8),
                C_out=pick(2, 5),
                F=pick(1, 3),
                threads=pick(30, 90),
            ),
        ),
    ),
    mistakes=MISTAKES,
    hints=(
        "Each thread owns one weight, grad_weights[k, c, r, s], and asks: in which products of the forward "
        "pass was my weight a factor? In every output of channel k, at every position (p, q), in every "
        "image. So the gradient is a plain sum of products, one per output position and image, with no "
        "division. The bias was added to the same outputs, each time with a factor of 1.",
        "Split idx as a clock splits seconds: the last axis of grad_weights turns fastest, so s is the "
        "remainder of idx by F; divide by F and go on with r, then c, then k. Then three nested loops: b to "
        "batch, p to H_out, q to W_out. One running sum is set to zero once before the loops, added to in "
        "the innermost, and stored once after them.",
        "One product: grad_output at (b, k, p, q) times input at (b, c, p + r, q + s). The flat position of "
        "an element: take its first index; for every further axis multiply by that axis's size and add that "
        "axis's index. Use the sizes of the array you read: grad_output has C_out, H_out, W_out after the "
        "batch, input has C_in, H, W. In the bias kernel k is the thread's own number, compared with C_out.",
    ),
)
