"""Puzzle 10: the gradient of a convolution's input, one thread per input element."""

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

KERNEL = "conv2d_backward_input"


def gradient(a, d, grad_output=None, weights=None):
    """The right answer, with an array replaced by what a wrong kernel uses for it."""
    return conv.backward_input(
        a["grad_output"] if grad_output is None else grad_output,
        a["weights"] if weights is None else weights,
        (d["batch"], d["C_in"], d["H"], d["W"]),
    )


def gathered(a, d, p=lambda h, r: h - r, q=lambda w, s: w - s):
    """The kernel in NumPy, with other positions p(h, r) and q(w, s) for an element and a tap."""
    result = np.zeros((d["batch"], d["C_in"], d["H"], d["W"]))
    for r in range(d["F"]):
        for s in range(d["F"]):
            rows, columns = p(np.arange(d["H"]), r), q(np.arange(d["W"]), s)
            there = ((0 <= rows) & (rows < d["H_out"]))[:, None] & (0 <= columns) & (columns < d["W_out"])
            grad = a["grad_output"][:, :, rows.clip(0, d["H_out"] - 1)][..., columns.clip(0, d["W_out"] - 1)]
            result += np.einsum("bkhw,kc->bchw", grad * there, a["weights"][:, :, r, s])
    return result


def first(array, axis):
    """The first slice along an axis, in the place of all of them."""
    return np.broadcast_to(np.take(array, [0], axis), array.shape)


def without(array, axis, index):
    """The array with zeros in one slice along an axis; index -1: the last."""
    keep = np.arange(array.shape[axis]) != index % array.shape[axis]
    return array * keep.reshape([-1 if i == axis else 1 for i in range(array.ndim)])


def reread(array, index):
    """What a kernel reads that takes `index(i, j, k, l)` for the flat position of array[i, j, k, l].

    NaN where that is outside of the array.
    """
    flat, position = array.ravel(), index(*np.indices(array.shape))
    inside = (position >= 0) & (position < flat.size)
    return np.where(inside, flat[np.where(inside, position, 0)], np.nan)


def only_under_the_whole_filter(a, d):
    """0 where a tap would be at a position that does not exist."""
    h, w = np.indices((d["H"], d["W"]))
    inner = (h >= d["F"] - 1) & (h < d["H_out"]) & (w >= d["F"] - 1) & (w < d["W_out"])
    return gradient(a, d) * inner


def last_product(a, d):
    """sum = product where sum += product is meant: the last k, and the last tap whose position exists."""
    h, w = np.arange(d["H"]), np.arange(d["W"])
    r, s = np.minimum(h, d["F"] - 1), np.minimum(w, d["F"] - 1)
    grad = a["grad_output"][:, -1][:, h - r][:, :, w - s]
    return grad[:, None] * a["weights"][-1][:, r][:, :, s]


def regrouped(a, d, order):
    """The result of a kernel that takes the axes of idx in another order than (b, c, h, w).

    The axes named in `order` (outermost first) are read off idx; the result goes to element idx.
    """
    right = gradient(a, d)
    return right.transpose(["bchw".index(axis) for axis in order]).reshape(right.shape)


def wrong(id, hint, says, compute):
    return Misconception(id, KERNEL, says, compute, hint)


MISCONCEPTIONS = (
    # where the filter stood
    wrong("filter_not_turned", 3,
          "The filter is laid over grad_output as in the forward pass; on the way back it is turned by 180 "
          "degrees: tap (r, s) meets position (h - r, w - s).",
          lambda a, d: gradient(a, d, weights=a["weights"][:, :, ::-1, ::-1])),
    wrong("plus_for_minus", 3,
          "This is a sum over the positions (h + r, w + s); tap (r, s) lay on (h, w) when the filter "
          "stood at (h - r, w - s).",
          lambda a, d: gathered(a, d, lambda h, r: h + r, lambda w, s: w + s)),
    wrong("filter_transposed", 3,
          "Rows and columns of the filter are exchanged: r and s have changed places in one index.",
          lambda a, d: gradient(a, d, weights=a["weights"].swapaxes(2, 3))),
    wrong("offsets_missing", 3,
          "All taps use the position (h, w): r and s are missing in the position.",
          lambda a, d: gathered(a, d, lambda h, r: h, lambda w, s: w)),
    wrong("row_offset_missing", 3,
          "All rows of the filter use the row h of grad_output: r is missing, the row is h - r.",
          lambda a, d: gathered(a, d, p=lambda h, r: h)),
    wrong("column_offset_missing", 3,
          "All columns of the filter use the column w of grad_output: s is missing, the column is w - s.",
          lambda a, d: gathered(a, d, q=lambda w, s: w)),
    wrong("first_row_missing", 2,
          "Row 0 of grad_output is left out: position 0 exists (p < 0 does not, p == 0 does).",
          lambda a, d: gradient(a, d, without(a["grad_output"], 2, 0))),
    wrong("first_column_missing", 2,
          "Column 0 of grad_output is left out: position 0 exists (q < 0 does not, q == 0 does).",
          lambda a, d: gradient(a, d, without(a["grad_output"], 3, 0))),
    wrong("last_row_missing", 2,
          "The last row of grad_output is left out: positions go up to H_out - 1, and H_out is H - F + 1.",
          lambda a, d: gradient(a, d, without(a["grad_output"], 2, -1))),
    wrong("last_column_missing", 2,
          "The last column of grad_output is left out: positions go up to W_out - 1, and W_out is W - F + 1.",
          lambda a, d: gradient(a, d, without(a["grad_output"], 3, -1))),
    wrong("border_zero", 2,
          "The border of the image gets 0: near it only some taps have a position, and those still count.",
          only_under_the_whole_filter),
    wrong("last_filter_row_missing", 2,
          "The last row of the filter is left out: r runs from 0 to F - 1.",
          lambda a, d: gradient(a, d, weights=without(a["weights"], 2, -1))),
    wrong("last_filter_column_missing", 2,
          "The last column of the filter is left out: s runs from 0 to F - 1.",
          lambda a, d: gradient(a, d, weights=without(a["weights"], 3, -1))),
    # channels
    wrong("channel_0_only", 2,
          "Only output channel 0 is used: the loop over k is missing or stops after one round.",
          lambda a, d: gradient(a, d, a["grad_output"][:, :1], a["weights"][:1])),
    wrong("last_channel_only", 2,
          "Only the last output channel is in the result: the sum starts again for every k.",
          lambda a, d: gradient(a, d, a["grad_output"][:, -1:], a["weights"][-1:])),
    wrong("k_and_c_exchanged", 3,
          "k and c have changed places in the index of the weights, which are stored filter (k) by filter.",
          lambda a, d: gradient(a, d, weights=reread(
              a["weights"], lambda k, c, r, s: ((c * d["C_out"] + k) * d["F"] + r) * d["F"] + s))),
    wrong("filter_0_only", 3,
          "Every output channel uses the filter of channel 0: k is missing in the index of the weights.",
          lambda a, d: gradient(a, d, weights=first(a["weights"], 0))),
    wrong("input_channel_0_only", 3,
          "Every input channel gets the gradient of channel 0: c is missing in the index of the weights.",
          lambda a, d: gradient(a, d, weights=first(a["weights"], 1))),
    wrong("grad_channel_0_only", 3,
          "Every filter meets the gradient of channel 0: k is missing in the index of grad_output.",
          lambda a, d: gradient(a, d, first(a["grad_output"], 1))),
    # the batch
    wrong("grad_batch_missing", 3,
          "Every image gets the gradient of image 0: b is missing in the index of grad_output.",
          lambda a, d: gradient(a, d, first(a["grad_output"], 0))),
    wrong("grad_batch_stride_without_channels", 3,
          "The step from image to image in grad_output is one channel, not C_out channels.",
          lambda a, d: gradient(a, d, reread(
              a["grad_output"], lambda b, k, p, q: ((b + k) * d["H_out"] + p) * d["W_out"] + q))),
    wrong("grad_batch_stride_c_in", 3,
          "The step from image to image in grad_output is C_in channels; grad_output has C_out channels.",
          lambda a, d: gradient(a, d, reread(
              a["grad_output"], lambda b, k, p, q: ((b * d["C_in"] + k) * d["H_out"] + p) * d["W_out"] + q))),
    wrong("divided_by_batch", 1,
          "This is the gradient divided by the batch size; each image has its own gradient, nothing is "
          "divided.",
          lambda a, d: gradient(a, d) / d["batch"]),
    # rows and columns
    wrong("h_out_and_w_out_swapped", 3,
          "H_out and W_out have changed places in the index of grad_output: its rows are W_out long.",
          lambda a, d: gradient(a, d, reread(
              a["grad_output"],
              lambda b, k, p, q: ((b * d["C_out"] + k) * d["W_out"] + p) * d["H_out"] + q))),
    wrong("row_and_column_swapped", 1,
          "The right numbers are at the wrong places: idx is split with the row before the column.",
          lambda a, d: regrouped(a, d, "bcwh")),
    wrong("channel_and_image_swapped", 1,
          "The right numbers are at the wrong places: idx is split with the image before the channel.",
          lambda a, d: regrouped(a, d, "cbhw")),
    # the sum
    wrong("weights_ignored", 1,
          "This is a plain sum of grad_output: the weights are not multiplied in.",
          lambda a, d: gradient(a, d, weights=np.ones_like(a["weights"]))),
    wrong("gradient_ignored", 1,
          "This is a plain sum of weights: grad_output is not multiplied in.",
          lambda a, d: gradient(a, d, np.ones_like(a["grad_output"]))),
    wrong("last_product_only", 2,
          "Only the very last product is in the result: the sum is overwritten (=) instead of added to (+=).",
          last_product),
    wrong("averaged", 1,
          "The sum is divided by the number of taps; the gradient is a sum.",
          lambda a, d: gradient(a, d) / (d["C_out"] * d["F"] ** 2)),
    wrong("negated", 1,
          "This is exactly minus the gradient: products are added.",
          lambda a, d: -gradient(a, d)),
)  # fmt: skip

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


def mutant(name, old, new, expect="wrong", also=()):
    return Mutant(name, KERNEL, old, new, expect, also)


MUTANTS = (
    # where the filter stood
    mutant("filter not turned", WEIGHT, "weights[((k * C_in + c) * F + F - 1 - r) * F + F - 1 - s]",
           "filter_not_turned"),
    mutant("correlation over a padded gradient", P, "int p = h - F + 1 + r;", "filter_not_turned",
           also=((Q, "int q = w - F + 1 + s;"),)),
    mutant("filter turned in rows only", WEIGHT, "weights[((k * C_in + c) * F + F - 1 - r) * F + s]"),
    mutant("plus for minus", P, "int p = h + r;", "plus_for_minus", also=((Q, "int q = w + s;"),)),
    mutant("minus the wrong way round", P, "int p = r - h;", also=((Q, "int q = s - w;"),)),
    mutant("r and s swapped in the filter", WEIGHT, "weights[((k * C_in + c) * F + s) * F + r]",
           "filter_transposed"),
    mutant("r and s swapped in the position", P, "int p = h - s;", "filter_transposed",
           also=((Q, "int q = w - r;"),)),
    mutant("h and w swapped in the position", P, "int p = w - r;", also=((Q, "int q = h - s;"),)),
    mutant("r and s missing", P, "int p = h;", "offsets_missing", also=((Q, "int q = w;"),)),
    mutant("r missing", P, "int p = h;", "row_offset_missing"),
    mutant("s missing", Q, "int q = w;", "column_offset_missing"),
    mutant("no test", EXISTS, "", "out-of-bounds"),
    mutant("no test for negative rows", EXISTS, EXISTS.replace("p < 0 || ", ""), "out-of-bounds"),
    mutant("no test for negative columns", EXISTS, EXISTS.replace("q < 0 || ", ""), "out-of-bounds"),
    mutant("no test for rows past the end", EXISTS, EXISTS.replace("p >= H_out || ", ""), "out-of-bounds"),
    mutant("no test for columns past the end", EXISTS, EXISTS.replace(" || q >= W_out", ""), "out-of-bounds"),
    mutant("one row too many", EXISTS, EXISTS.replace("p >= H_out", "p > H_out"), "out-of-bounds"),
    mutant("one column too many", EXISTS, EXISTS.replace("q >= W_out", "q > W_out"), "out-of-bounds"),
    mutant("row 0 left out", EXISTS, EXISTS.replace("p < 0", "p <= 0"), "first_row_missing"),
    mutant("column 0 left out", EXISTS, EXISTS.replace("q < 0", "q <= 0"), "first_column_missing"),
    mutant("last row left out", EXISTS, EXISTS.replace("p >= H_out", "p >= H_out - 1"), "last_row_missing"),
    mutant("last column left out", EXISTS, EXISTS.replace("q >= W_out", "q >= W_out - 1"),
           "last_column_missing"),
    mutant("tested with the size of the input", EXISTS, "if (p < 0 || p >= H || q < 0 || q >= W) continue;",
           "out-of-bounds"),
    mutant("H_out and W_out swapped in the test", EXISTS,
           "if (p < 0 || p >= W_out || q < 0 || q >= H_out) continue;", "out-of-bounds"),
    mutant("leaves the loop", EXISTS, EXISTS.replace("continue", "break")),
    mutant("leaves the kernel", EXISTS, EXISTS.replace("continue", "return"), "unwritten"),
    mutant("border set to 0", STORE,
           "grad_input[idx] = h < F - 1 || h >= H_out || w < F - 1 || w >= W_out ? 0.0f : sum;",
           "border_zero"),
    mutant("last filter row left out", R_LOOP, "for (int r = 0; r < F - 1; r++) {",
           "last_filter_row_missing"),
    mutant("last filter column left out", S_LOOP, "for (int s = 0; s < F - 1; s++) {",
           "last_filter_column_missing"),
    mutant("one filter row too many", R_LOOP, "for (int r = 0; r <= F; r++) {", "out-of-bounds"),
    # channels
    mutant("output channel 0 only", K_LOOP, "for (int k = 0; k < 1; k++) {", "channel_0_only"),
    mutant("sum starts again for every channel", K_LOOP, K_LOOP + " sum = 0.0f;", "last_channel_only"),
    mutant("loop over the input channels", K_LOOP, "for (int k = 0; k < C_in; k++) {",
           ("wrong", "out-of-bounds")),
    mutant("k and c exchanged in the weights", WEIGHT, "weights[((c * C_out + k) * F + r) * F + s]",
           "k_and_c_exchanged"),
    mutant("k and c exchanged, with C_in", WEIGHT, "weights[((c * C_in + k) * F + r) * F + s]",
           ("wrong", "out-of-bounds")),
    mutant("k missing in the weights", WEIGHT, "weights[(c * F + r) * F + s]", "filter_0_only"),
    mutant("c missing in the weights", WEIGHT, "weights[(k * C_in * F + r) * F + s]", "input_channel_0_only"),
    mutant("k missing in grad_output", GRAD, "grad_output[(b * C_out * H_out + p) * W_out + q]",
           "grad_channel_0_only"),
    mutant("c for k in grad_output", GRAD, "grad_output[((b * C_out + c) * H_out + p) * W_out + q]",
           ("wrong", "out-of-bounds")),
    # the batch
    mutant("b missing in grad_output", GRAD, "grad_output[(k * H_out + p) * W_out + q]",
           "grad_batch_missing"),
    mutant("batch stride without channels", GRAD, "grad_output[((b + k) * H_out + p) * W_out + q]",
           "grad_batch_stride_without_channels"),
    mutant("batch stride with C_in", GRAD, "grad_output[((b * C_in + k) * H_out + p) * W_out + q]",
           "grad_batch_stride_c_in"),
    mutant("divided by batch", STORE, "grad_input[idx] = sum / batch;", "divided_by_batch"),
    # rows and columns
    mutant("H_out and W_out swapped", GRAD, "grad_output[((b * C_out + k) * W_out + p) * H_out + q]",
           "h_out_and_w_out_swapped"),
    mutant("H and W for H_out and W_out", GRAD, "grad_output[((b * C_out + k) * H + p) * W + q]",
           "out-of-bounds"),
    mutant("row before column", DECODE, "int h = idx % H;\n    int w = idx / H % W;",
           "row_and_column_swapped"),
    mutant("image before channel", CHANNEL,
           "int b = idx / (W * H) % batch;\n    int c = idx / (W * H * batch);", "channel_and_image_swapped"),
    mutant("output taken one too small", "int H_out = H - F + 1;", "int H_out = H - F;",
           also=(("int W_out = W - F + 1;", "int W_out = W - F;"),)),
    mutant("padded: the output is taken to be H x W", "int H_out = H - F + 1;", "int H_out = H;",
           "out-of-bounds", also=(("int W_out = W - F + 1;", "int W_out = W;"),)),
    # the sum
    mutant("weights ignored", f"{ADD}[((k * C_in + c) * F + r) * F + s];", "sum += grad;", "weights_ignored"),
    mutant("gradient ignored", ADD, "sum += weights", "gradient_ignored"),
    mutant("overwritten instead of added", ADD, "sum = grad * weights", "last_product_only"),
    mutant("averaged", STORE, "grad_input[idx] = sum / (C_out * F * F);", "averaged"),
    mutant("subtracted", ADD, "sum -= grad * weights", "negated"),
    mutant("sum not set to anything", START, "float sum;", ("uninitialised-read", "wrong")),
    mutant("sum in an int", START, "int sum = 0;"),
    mutant("added to what was there", STORE, "grad_input[idx] += sum;",
           ("uninitialised-read", "wrong", "unwritten")),
    mutant("scattered without an atomic", STORE, "grad_input[idx] = sum;\n    grad_input[idx / 2] += sum;",
           ("race", "uninitialised-read", "wrong", "schedule")),
    # the threads
    mutant("size of a block written as 128", "blockIdx.x * blockDim.x", "blockIdx.x * 128", "unwritten"),
    mutant("no guard", GUARD, "", "out-of-bounds"),
    mutant("guard one too late", GUARD, GUARD.replace(">=", ">"), "out-of-bounds"),
    mutant("guard one too early", GUARD, "if (idx >= batch * C_in * H * W - 1) return;", "unwritten"),
    mutant("guard with C_out", GUARD, "if (idx >= batch * C_out * H * W) return;",
           ("out-of-bounds", "unwritten")),
    mutant("guard of the output", GUARD, "if (idx >= batch * C_in * H_out * W_out) return;", "unwritten"),
    mutant("not stored", STORE, "", "unwritten"),
    mutant("never ends", S_LOOP, "for (int s = 0; s < F;) {", "timeout"),
)  # fmt: skip


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
                Int("batch"), Int("C_in"), Int("H"), Int("W"), Int("C_out"), Int("F"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C_in"] * d["H"] * d["W"], d["threads"]), block=d["threads"]
            ),
            reference=lambda a, d: gradient(a, d),
        ),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "threads": 128, **d},
    gradient_of={KERNEL: Gradient(loss_of_input)},
    bench=dict(batch=128, C_in=64, H=56, W=56, C_out=64, F=3),
    cases=(
        Case(
            "conv_bwi_tiny_3x3", dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2),
            note="done by hand in the lesson",
            inputs={"grad_output": [[[[1, 2], [3, 1]]]], "weights": [[[[2, -1], [1, 3]]]]},
        ),
        Case("filter_1x1", dict(batch=2, C_in=3, H=4, W=3, C_out=4, F=1), note="only channels"),
        Case("one_channel_wide", dict(batch=2, C_in=1, H=5, W=8, C_out=1, F=3), note="W > H"),
        Case("output_1x1", dict(batch=3, C_in=2, H=4, W=4, C_out=3, F=4),
             note="the filter covers the image: one position, every tap used once"),
        Case("conv_bwi_numerical_gradient_check", dict(batch=2, C_in=2, H=5, W=6, C_out=3, F=3),
             note="each input element moved by epsilon", check="gradient"),
        Case("integers", dict(batch=2, C_in=3, H=6, W=9, C_out=4, F=3), note="exact sums", values="integers"),
        Case("batch_odd", dict(batch=3, C_in=4, H=9, W=7, C_out=5, F=2, threads=96),
             note="all sizes differ; H > W"),
        Case("fewer_filters_than_channels", dict(batch=2, C_in=5, H=7, W=8, C_out=2, F=3),
             note="C_out < C_in"),
        Case("output_smaller_than_filter", dict(batch=2, C_in=2, H=7, W=6, C_out=3, F=5),
             note="every element lies near the border"),
        Case("nothing_divides", dict(batch=3, C_in=5, H=19, W=17, C_out=7, F=3), note="38 blocks"),
        Case("conv_bwi_lenet_conv2", dict(batch=8, C_in=6, H=12, W=12, C_out=16, F=5), note="LeNet's second"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(257, 290), C_in=pick(2, 4), H=pick(4, 8), W=pick(4, 8),
                                    C_out=pick(2, 5), F=pick(1, 3), threads=pick(30, 90))),
        Case("tall_images", dict(batch=2, C_in=1, H=263, W=3, C_out=1, F=2), stress=True,
             note="more rows than a byte can count"),
        Case("wide_images", dict(batch=129, C_in=1, H=3, W=328, C_out=1, F=2, threads=1), stress=True,
             note="more pixels, and blocks, than 16 bits can count"),
        Case("many_channels", dict(batch=2, C_in=261, H=1, W=1, C_out=257, F=1, threads=96), stress=True,
             note="more weights than 16 bits can count"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
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
)  # fmt: skip
