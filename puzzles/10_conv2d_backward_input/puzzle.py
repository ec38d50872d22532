"""Puzzle 10: the gradient of a convolution's input, one thread per input element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, Gradient, In, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div

KERNEL = "conv2d_backward_input"


GUARD = "if (idx >= batch * C_in * H * W) return;"
DECODE = """int w = idx % W;
    int h = idx / W % H;"""
CHANNEL = """int c = idx / (W * H) % C_in;
    int b = idx / (W * H * C_in);"""
START = "float sum = 0.0f;"
K_LOOP = "for (int k = 0; k < C_out; k++) {"
R_LOOP = "for (int r = 0; r < F; r++) {"
S_LOOP = "for (int s = 0; s < F; s++) {"
P, Q = "int p = h - r;", "int q = w - s;"
EXISTS = "if (p < 0 || p >= H_out || q < 0 || q >= W_out) continue;"
GRAD = "grad_output[((b * C_out + k) * H_out + p) * W_out + q]"
WEIGHT = "weights[((k * C_in + c) * F + r) * F + s]"
ADD = "sum += grad * weights"
STORE = "grad_input[idx] = sum;"


MISTAKES = (
    # where the filter stood
    Mistake(
        "filter not turned",
        (WEIGHT, "weights[((k * C_in + c) * F + F - 1 - r) * F + F - 1 - s]"),
        says="The filter is laid over grad_output as in the forward pass: it is not turned by 180 degrees, or "
        "turned twice. On the way back weights[r, s] meets position (h - r, w - s).",
        hint=3,
    ),
    Mistake(
        "correlation over a padded gradient",
        ((P, "int p = h - F + 1 + r;"), (Q, "int q = w - F + 1 + s;")),
        expect="filter not turned",
    ),
    Mistake("filter turned in rows only", (WEIGHT, "weights[((k * C_in + c) * F + F - 1 - r) * F + s]")),
    Mistake(
        "plus for minus",
        ((P, "int p = h + r;"), (Q, "int q = w + s;")),
        says="This is a sum over the positions (h + r, w + s); tap (r, s) lay on (h, w) when the filter "
        "stood at (h - r, w - s).",
        hint=3,
    ),
    Mistake("minus the wrong way round", ((P, "int p = r - h;"), (Q, "int q = s - w;"))),
    Mistake(
        "r and s swapped in the filter",
        (WEIGHT, "weights[((k * C_in + c) * F + s) * F + r]"),
        says="The filter is transposed: r and s are swapped in one index.",
        hint=3,
    ),
    Mistake(
        "r and s swapped in the position",
        ((P, "int p = h - s;"), (Q, "int q = w - r;")),
        expect="r and s swapped in the filter",
    ),
    Mistake("h and w swapped in the position", ((P, "int p = w - r;"), (Q, "int q = h - s;"))),
    Mistake(
        "r and s missing",
        ((P, "int p = h;"), (Q, "int q = w;")),
        says="All taps use the position (h, w): r and s are missing from the position.",
        hint=3,
    ),
    Mistake(
        "r missing",
        (P, "int p = h;"),
        says="All rows of the filter use the row h of grad_output: r is missing, the row is h - r.",
        hint=3,
    ),
    Mistake(
        "s missing",
        (Q, "int q = w;"),
        says="All columns of the filter use the column w of grad_output: s is missing, the column is w - s.",
        hint=3,
    ),
    Mistake("no test", (EXISTS, ""), expect="out-of-bounds"),
    Mistake("no test for negative rows", (EXISTS, EXISTS.replace("p < 0 || ", "")), expect="out-of-bounds"),
    Mistake(
        "no test for negative columns", (EXISTS, EXISTS.replace("q < 0 || ", "")), expect="out-of-bounds"
    ),
    Mistake(
        "no test for rows past the end",
        (EXISTS, EXISTS.replace("p >= H_out || ", "")),
        expect="out-of-bounds",
    ),
    Mistake(
        "no test for columns past the end",
        (EXISTS, EXISTS.replace(" || q >= W_out", "")),
        expect="out-of-bounds",
    ),
    Mistake("one row too many", (EXISTS, EXISTS.replace("p >= H_out", "p > H_out")), expect="out-of-bounds"),
    Mistake(
        "one column too many", (EXISTS, EXISTS.replace("q >= W_out", "q > W_out")), expect="out-of-bounds"
    ),
    Mistake(
        "row 0 left out",
        (EXISTS, EXISTS.replace("p < 0", "p <= 0")),
        says="Row 0 of grad_output is left out: the test must reject p < 0 but not p == 0.",
        hint=2,
    ),
    Mistake(
        "column 0 left out",
        (EXISTS, EXISTS.replace("q < 0", "q <= 0")),
        says="Column 0 of grad_output is left out: the test must reject q < 0 but not q == 0.",
        hint=2,
    ),
    Mistake(
        "last row left out",
        (EXISTS, EXISTS.replace("p >= H_out", "p >= H_out - 1")),
        says="The last row of grad_output is left out: positions go up to H_out - 1, and H_out is H - F + 1.",
        hint=2,
    ),
    Mistake(
        "last column left out",
        (EXISTS, EXISTS.replace("q >= W_out", "q >= W_out - 1")),
        says="The last column of grad_output is left out: positions go up to W_out - 1, and W_out is W - "
        "F + 1.",
        hint=2,
    ),
    Mistake(
        "tested with the size of the input",
        (EXISTS, "if (p < 0 || p >= H || q < 0 || q >= W) continue;"),
        expect="out-of-bounds",
    ),
    Mistake(
        "H_out and W_out swapped in the test",
        (EXISTS, "if (p < 0 || p >= W_out || q < 0 || q >= H_out) continue;"),
        expect="out-of-bounds",
    ),
    Mistake("leaves the loop", (EXISTS, EXISTS.replace("continue", "break"))),
    Mistake("leaves the kernel", (EXISTS, EXISTS.replace("continue", "return")), expect="unwritten"),
    Mistake(
        "border set to 0",
        (STORE, "grad_input[idx] = h < F - 1 || h >= H_out || w < F - 1 || w >= W_out ? 0.0f : sum;"),
        says="The border of the image gets 0: near it only some taps have a position, and those still count.",
        hint=2,
    ),
    Mistake(
        "last filter row left out",
        (R_LOOP, "for (int r = 0; r < F - 1; r++) {"),
        says="The last row of the filter is left out: r runs from 0 to F - 1.",
        hint=2,
    ),
    Mistake(
        "last filter column left out",
        (S_LOOP, "for (int s = 0; s < F - 1; s++) {"),
        says="The last column of the filter is left out: s runs from 0 to F - 1.",
        hint=2,
    ),
    Mistake("one filter row too many", (R_LOOP, "for (int r = 0; r <= F; r++) {"), expect="out-of-bounds"),
    # channels
    Mistake(
        "output channel 0 only",
        (K_LOOP, "for (int k = 0; k < 1; k++) {"),
        says="Only output channel 0 is used: nothing of the other channels is added.",
        hint=2,
    ),
    Mistake(
        "sum starts again for every channel",
        (K_LOOP, K_LOOP + " sum = 0.0f;"),
        says="Only the last output channel is in the result: nothing of the other channels is added.",
        hint=2,
    ),
    Mistake(
        "loop over the input channels",
        (K_LOOP, "for (int k = 0; k < C_in; k++) {"),
        expect=("wrong", "out-of-bounds"),
    ),
    Mistake(
        "k and c exchanged in the weights",
        (WEIGHT, "weights[((c * C_out + k) * F + r) * F + s]"),
        says="k and c are swapped in the index of the weights, which are stored filter by filter: k comes "
        "first.",
        hint=3,
    ),
    Mistake(
        "k and c exchanged, with C_in",
        (WEIGHT, "weights[((c * C_in + k) * F + r) * F + s]"),
        expect=("wrong", "out-of-bounds"),
    ),
    Mistake(
        "k missing in the weights",
        (WEIGHT, "weights[(c * F + r) * F + s]"),
        says="Every output channel uses the filter of channel 0: k is missing from the index of the weights.",
        hint=3,
    ),
    Mistake(
        "c missing in the weights",
        (WEIGHT, "weights[(k * C_in * F + r) * F + s]"),
        says="Every input channel gets the gradient of channel 0: c is missing from the index of the "
        "weights.",
        hint=3,
    ),
    Mistake(
        "k missing in grad_output",
        (GRAD, "grad_output[(b * C_out * H_out + p) * W_out + q]"),
        says="Every filter meets the gradient of channel 0: k is missing from the index of grad_output.",
        hint=3,
    ),
    Mistake(
        "c for k in grad_output",
        (GRAD, "grad_output[((b * C_out + c) * H_out + p) * W_out + q]"),
        expect=("wrong", "out-of-bounds"),
    ),
    # the batch
    Mistake(
        "b missing in grad_output",
        (GRAD, "grad_output[(k * H_out + p) * W_out + q]"),
        says="Every image gets the gradient of image 0: b is missing from the index of grad_output.",
        hint=3,
    ),
    Mistake(
        "batch stride without channels",
        (GRAD, "grad_output[((b + k) * H_out + p) * W_out + q]"),
        says="The step from image to image in grad_output is one channel, not C_out channels.",
        hint=3,
    ),
    Mistake(
        "batch stride with C_in",
        (GRAD, "grad_output[((b * C_in + k) * H_out + p) * W_out + q]"),
        says="The step from image to image in grad_output is C_in channels; grad_output has C_out channels.",
        hint=3,
    ),
    Mistake(
        "divided by batch",
        (STORE, "grad_input[idx] = sum / batch;"),
        says="This is the gradient divided by the batch size; each image has its own gradient, and nothing "
        "is divided.",
    ),
    # rows and columns
    Mistake(
        "H_out and W_out swapped",
        (GRAD, "grad_output[((b * C_out + k) * W_out + p) * H_out + q]"),
        says="H_out and W_out are swapped in the index of grad_output: its rows are W_out long.",
        hint=3,
    ),
    Mistake(
        "H and W for H_out and W_out",
        (GRAD, "grad_output[((b * C_out + k) * H + p) * W + q]"),
        expect="out-of-bounds",
    ),
    Mistake(
        "row before column",
        (DECODE, "int h = idx % H;\n    int w = idx / H % W;"),
        says="The right numbers are in the wrong places, as if h changed fastest; in grad_input, w does.",
    ),
    Mistake(
        "image before channel",
        (CHANNEL, "int b = idx / (W * H) % batch;\n    int c = idx / (W * H * batch);"),
        says="The right numbers are in the wrong places, as if grad_input were [C_in, batch, ...]; images come first.",
    ),
    Mistake(
        "output taken one too small",
        (("int H_out = H - F + 1;", "int H_out = H - F;"), ("int W_out = W - F + 1;", "int W_out = W - F;")),
    ),
    Mistake(
        "padded: the output is taken to be H x W",
        (("int H_out = H - F + 1;", "int H_out = H;"), ("int W_out = W - F + 1;", "int W_out = W;")),
        expect="out-of-bounds",
    ),
    # the sum
    Mistake(
        "weights ignored",
        (f"{ADD}[((k * C_in + c) * F + r) * F + s];", "sum += grad;"),
        says="This is a plain sum of grad_output: the weights are missing from the product.",
    ),
    Mistake(
        "gradient ignored",
        (ADD, "sum += weights"),
        says="This is a plain sum of weights: grad_output is missing from the product.",
    ),
    Mistake(
        "overwritten instead of added",
        (ADD, "sum = grad * weights"),
        says="Only the very last product is in the result: each one replaces the sum instead of being added to it.",
        hint=2,
    ),
    Mistake(
        "averaged",
        (STORE, "grad_input[idx] = sum / (C_out * F * F);"),
        says="The sum is divided by the number of taps; the gradient is a sum.",
    ),
    Mistake(
        "subtracted",
        (ADD, "sum -= grad * weights"),
        says="The sign is wrong: products are added, not subtracted.",
    ),
    Mistake("sum not set to anything", (START, "float sum;"), expect=("uninitialised-read", "wrong")),
    Mistake("sum in an int", (START, "int sum = 0;")),
    Mistake(
        "added to what was there",
        (STORE, "grad_input[idx] += sum;"),
        expect=("uninitialised-read", "wrong", "unwritten"),
    ),
    Mistake(
        "scattered without an atomic",
        (STORE, "grad_input[idx] = sum;\n    grad_input[idx / 2] += sum;"),
        expect=("race", "uninitialised-read", "wrong", "schedule"),
    ),
    # the threads
    Mistake(
        "size of a block written as 128", ("blockIdx.x * blockDim.x", "blockIdx.x * 128"), expect="unwritten"
    ),
    Mistake("no guard", (GUARD, ""), expect="out-of-bounds"),
    Mistake("guard one too late", (GUARD, GUARD.replace(">=", ">")), expect="out-of-bounds"),
    Mistake(
        "guard one too early", (GUARD, "if (idx >= batch * C_in * H * W - 1) return;"), expect="unwritten"
    ),
    Mistake(
        "guard with C_out",
        (GUARD, "if (idx >= batch * C_out * H * W) return;"),
        expect=("out-of-bounds", "unwritten"),
    ),
    Mistake(
        "guard of the output", (GUARD, "if (idx >= batch * C_in * H_out * W_out) return;"), expect="unwritten"
    ),
    Mistake("not stored", (STORE, ""), expect="unwritten"),
    Mistake("never ends", (S_LOOP, "for (int s = 0; s < F;) {"), expect="timeout"),
)


def loss_of_input(x, a, d):
    """A loss whose gradient at the convolution's output is grad_output, as a function of the input."""
    return np.sum(a["grad_output"] * conv.forward(x, a["weights"]))


PUZZLE = Puzzle(
    title="Convolution, gradient of the input",
    part=1,
    teaches="How to turn a sum that scatters into one that gathers, so that no two threads meet.",
    practice=(
        "cuDNN calls this pass backward data; the forward pass of torch.nn.ConvTranspose2d is the same "
        "kernel (puzzle 16)."
    ),
    lines=20,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                In("weights", k="C_out", c="C_in", r="F", s="F"),
                Out("grad_input", b="batch", c="C_in", h="H", w="W"),
                Int("batch"),
                Int("C_in"),
                Int("H"),
                Int("W"),
                Int("C_out"),
                Int("F"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C_in"] * d["H"] * d["W"], d["threads"]), block=d["threads"]
            ),
            reference=lambda a, d: conv.backward_input(
                a["grad_output"], a["weights"], (d["batch"], d["C_in"], d["H"], d["W"])
            ),
        ),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "threads": 128, **d},
    gradient_of={KERNEL: Gradient(loss_of_input)},
    bench=dict(batch=128, C_in=64, H=56, W=56, C_out=64, F=3),
    cases=(
        Case(
            "conv_bwi_tiny_3x3",
            dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2),
            note="done by hand in the lesson",
            inputs={"grad_output": [[[[1, 2], [3, 1]]]], "weights": [[[[2, -1], [1, 3]]]]},
        ),
        Case("filter_1x1", dict(batch=2, C_in=3, H=4, W=3, C_out=4, F=1), note="only channels"),
        Case("one_channel_wide", dict(batch=2, C_in=1, H=5, W=8, C_out=1, F=3), note="W > H"),
        Case(
            "output_1x1",
            dict(batch=3, C_in=2, H=4, W=4, C_out=3, F=4),
            note="the filter covers the image: one position, every tap used once",
        ),
        Case(
            "conv_bwi_numerical_gradient_check",
            dict(batch=2, C_in=2, H=5, W=6, C_out=3, F=3),
            note="each input element moved by epsilon",
            check="gradient",
        ),
        Case("integers", dict(batch=2, C_in=3, H=6, W=9, C_out=4, F=3), note="exact sums", values="integers"),
        Case(
            "batch_odd",
            dict(batch=3, C_in=4, H=9, W=7, C_out=5, F=2, threads=96),
            note="all sizes differ; H > W",
        ),
        Case(
            "fewer_filters_than_channels", dict(batch=2, C_in=5, H=7, W=8, C_out=2, F=3), note="C_out < C_in"
        ),
        Case(
            "output_smaller_than_filter",
            dict(batch=2, C_in=2, H=7, W=6, C_out=3, F=5),
            note="every element lies near the border",
        ),
        Case("nothing_divides", dict(batch=3, C_in=5, H=19, W=17, C_out=7, F=3), note="38 blocks"),
        Case("conv_bwi_lenet_conv2", dict(batch=8, C_in=6, H=12, W=12, C_out=16, F=5), note="LeNet's second"),
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
        "Each thread owns one input element and asks: in which products of the forward pass was I a factor? "
        "There was one for every filter k and every tap (r, s) that ever lay on me. The other factor was "
        "that tap's weight, and the product went to the output element where the filter stood then. So the "
        "gradient is a plain sum of grad_output times weight, over k, r and s, with no division.",
        "Split idx like a clock: w turns fastest, then h, c and b. Then three nested loops, over all C_out "
        "filters and the F rows and F columns of taps. For every tap work out where the filter stood. Near "
        "the border that position may not exist, above or left of the image as well as too far down or "
        "right: leave that one tap out (continue) and go on with the next. The sum is stored once.",
        "If the filter stands at (p, q), its tap (r, s) lies on element (p + r, q + s). You know the "
        "element and the tap, so p is h - r and q is w - s. Positions run from 0 to H_out - 1 and from 0 to "
        "W_out - 1; H and W do not matter here. grad_output is indexed by b, k, p, q with the sizes C_out, "
        "H_out, W_out; the weights by k, c, r, s with C_in, F, F.",
    ),
)
