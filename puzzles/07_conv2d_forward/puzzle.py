"""Puzzle 07: the convolution of LeNet, one thread per output element."""

from __future__ import annotations

import numpy as np

from harness.course import Case, In, Int, Kernel, Launch, Misconception, Mutant, Out, Puzzle, ceil_div
from reference import conv

KERNEL = "conv2d_forward"


def forward(a, input=None, weights=None, bias=None):
    """The right answer, with some arrays replaced by what a wrong kernel uses for them."""
    return conv.forward(
        a["input"] if input is None else input,
        a["weights"] if weights is None else weights,
        a["bias"] if bias is None else bias,
    )


def reread(array, index):
    """The array as a kernel sees it that computes `index` for its flat positions; NaN outside of it."""
    flat = array.ravel()
    inside = (index >= 0) & (index < flat.size)
    return np.where(inside, flat[np.where(inside, index, 0)], np.nan)


def input_at(a, index):
    return reread(a["input"], index(*np.indices(a["input"].shape)))


def gathered(a, d, input=None, weights=None):
    """The output of a kernel that reads at other places: input(b, c, p, q, r, s), weights(k, c, r, s)."""
    axes = np.ix_(*map(np.arange, (d["batch"], d["C_in"], d["H_out"], d["W_out"], d["F"], d["F"])))
    pixels = reread(a["input"], (input or input_place(d))(*axes))
    filters = a["weights"]
    if weights:
        filters = reread(filters, weights(*np.indices(filters.shape)))
    return np.einsum("bcpqrs,kcrs->bkpq", pixels, filters) + a["bias"][:, None, None]


def input_place(d):
    return lambda b, c, p, q, r, s: ((b * d["C_in"] + c) * d["H"] + p + r) * d["W"] + q + s


def last_product(a, d):
    """sum = product where sum += product is meant."""
    pixels = a["input"][:, -1, d["F"] - 1 :, d["F"] - 1 :]
    return a["weights"][:, -1, -1, -1][:, None, None] * pixels[:, None]


def sum_in_an_int(a, d):
    """int sum: what is behind the point is lost at every step; NaN where rounding decides what is left."""

    def truncated(x):
        near = (x != np.round(x)) & (np.abs(x - np.round(x)) < 1e-5)
        return np.where(near, np.nan, np.trunc(x))

    sum = truncated(np.broadcast_to(a["bias"][:, None, None], forward(a).shape))
    for c, r, s in np.ndindex(d["C_in"], d["F"], d["F"]):
        pixels = a["input"][:, c, r : r + d["H_out"], s : s + d["W_out"]]
        sum = truncated(sum + a["weights"][:, c, r, s][:, None, None] * pixels[:, None])
    return sum


def written_where(written, a):
    """The right answer at the places of the output that some thread writes, NaN at the others."""
    right = forward(a)
    return np.where(np.isin(np.arange(right.size), written).reshape(right.shape), right, np.nan)


def size_of_a_block_is_128(a, d):
    first = np.arange(ceil_div(forward(a).size, d["threads"])) * 128
    return written_where(np.add.outer(first, np.arange(d["threads"])), a)


def without_first(filters, axis):
    return filters * (np.indices(filters.shape)[axis] > 0)


def without_last_row(filters):
    return filters * (np.arange(filters.shape[2]) < filters.shape[2] - 1)[:, None]


def without_last_column(filters):
    return filters * (np.arange(filters.shape[3]) < filters.shape[3] - 1)


def regrouped(a, d, order):
    """The output as a kernel writes it that takes the axes of idx in another order than (b, k, p, q).

    The axes named in `order` (outermost first) are read off idx; the result goes to element idx.
    """
    right = forward(a)
    return right.transpose(["bkpq".index(axis) for axis in order]).reshape(right.shape)


def wrong(id, hint, says, compute):
    return Misconception(id, KERNEL, says, compute, hint)


MISCONCEPTIONS = (
    wrong("bias_missing", 2,
          "The bias is missing: every output is too small by exactly bias[k].",
          lambda a, d: forward(a, bias=0 * a["bias"])),
    wrong("bias_for_every_product", 2,
          "The bias is added once for every product; it belongs to the sum once.",
          lambda a, d: forward(a, bias=a["bias"] * d["C_in"] * d["F"] ** 2)),
    wrong("bias_for_every_channel", 2,
          "The bias is added once for every input channel; it belongs to the sum once.",
          lambda a, d: forward(a, bias=a["bias"] * d["C_in"])),
    wrong("bias_0_only", 2,
          "Every output channel gets bias[0]: the index of the bias must be k.",
          lambda a, d: forward(a, bias=np.full_like(a["bias"], a["bias"][0]))),
    wrong("bias_subtracted", 2,
          "The bias is subtracted: every output is too small by exactly 2 * bias[k].",
          lambda a, d: forward(a, bias=-a["bias"])),
    wrong("filter_flipped", 3,
          "The filter is upside down and left to right: "
          "LeNet's layer reads input[p + r, q + s], with plus signs.",
          lambda a, d: forward(a, weights=a["weights"][:, :, ::-1, ::-1])),
    wrong("filter_transposed", 3,
          "Rows and columns of the filter are exchanged: r and s have changed places in one index.",
          lambda a, d: forward(a, weights=a["weights"].swapaxes(2, 3))),
    wrong("channel_0_only", 2,
          "Only input channel 0 is used: the loop over c is missing or stops after one round.",
          lambda a, d: forward(a, a["input"][:, :1], a["weights"][:, :1])),
    wrong("last_channel_only", 2,
          "Only the last input channel is in the result: the sum starts again for every c.",
          lambda a, d: forward(a, a["input"][:, -1:], a["weights"][:, -1:])),
    wrong("input_channel_missing", 3,
          "Every filter channel is laid over input channel 0: c is missing in the index of the input.",
          lambda a, d: forward(a, np.broadcast_to(a["input"][:, :1], a["input"].shape))),
    wrong("filter_channel_missing", 3,
          "Every input channel meets filter channel 0: c is missing in the index of the weights.",
          lambda a, d: forward(a, weights=np.broadcast_to(a["weights"][:, :1], a["weights"].shape))),
    wrong("filter_0_only", 3,
          "Every output channel uses the filter of channel 0: k is missing in the index of the weights.",
          lambda a, d: forward(a, weights=np.broadcast_to(a["weights"][:1], a["weights"].shape))),
    wrong("input_batch_missing", 3,
          "Every image of the batch gives the output of image 0: b is missing in the index of the input.",
          lambda a, d: forward(a, np.broadcast_to(a["input"][:1], a["input"].shape))),
    wrong("batch_stride_without_channels", 3,
          "The step from image to image in the input is one channel, not C_in channels.",
          lambda a, d: forward(a, input_at(a, lambda b, c, h, w: ((b + c) * d["H"] + h) * d["W"] + w))),
    wrong("h_used_for_w", 3,
          "The rows of the input are taken to be H elements long; they are W long.",
          lambda a, d: forward(
            a, input_at(a, lambda b, c, h, w: ((b * d["C_in"] + c) * d["H"] + h) * d["H"] + w)
        )),
    wrong("output_size_used_for_input", 3,
          "The input is indexed with H_out and W_out; its rows are W long and its channels H rows high.",
          lambda a, d: forward(
            a, input_at(a, lambda b, c, h, w: ((b * d["C_in"] + c) * d["H_out"] + h) * d["W_out"] + w)
        )),
    wrong("last_filter_row_missing", 2,
          "The last row of the filter is left out: r runs from 0 to F - 1.",
          lambda a, d: forward(a, weights=without_last_row(a["weights"]))),
    wrong("last_filter_column_missing", 2,
          "The last column of the filter is left out: s runs from 0 to F - 1.",
          lambda a, d: forward(a, weights=without_last_column(a["weights"]))),
    wrong("channel_and_image_swapped", 1,
          "The right numbers are at the wrong places: idx is split with the image before the channel.",
          lambda a, d: regrouped(a, d, "kbpq")),
    wrong("row_and_column_swapped", 1,
          "The right numbers are at the wrong places: idx is split with the row before the column.",
          lambda a, d: regrouped(a, d, "bkqp")),
    wrong("offset_missing", 3,
          "Every position gets the output of position (0, 0): p and q are missing in the index of the input.",
          lambda a, d: np.broadcast_to(forward(a)[:, :, :1, :1], forward(a).shape)),
    wrong("last_product_only", 2,
          "Only the very last product is in the result: the sum is overwritten (=) instead of added to (+=).",
          last_product),
    wrong("products_subtracted", 2,
          "The products are subtracted from the bias; they are added to it.",
          lambda a, d: 2 * a["bias"][:, None, None] - forward(a)),
    wrong("last_channel_without_bias", 2,
          "Only the last input channel is in the result, without the bias: the sum is set to 0 for every c.",
          lambda a, d: forward(a, a["input"][:, -1:], a["weights"][:, -1:], 0 * a["bias"])),
    wrong("sum_in_an_int", 2,
          "These are whole numbers, cut off at every addition: the sum is declared int; it must be float.",
          sum_in_an_int),
    wrong("first_channel_missing", 2,
          "Input channel 0 is left out: c runs from 0.",
          lambda a, d: forward(a, weights=without_first(a["weights"], 1))),
    wrong("first_filter_row_missing", 2,
          "The first row of the filter is left out: r runs from 0.",
          lambda a, d: forward(a, weights=without_first(a["weights"], 2))),
    wrong("first_filter_column_missing", 2,
          "The first column of the filter is left out: s runs from 0.",
          lambda a, d: forward(a, weights=without_first(a["weights"], 3))),
    wrong("h_and_w_swapped", 3,
          "H and W have changed places in the index of the input: a channel has H rows of W elements.",
          lambda a, d: forward(
            a, input_at(a, lambda b, c, h, w: ((b * d["C_in"] + c) * d["W"] + h) * d["H"] + w)
        )),
    wrong("w_out_used_for_w", 3,
          "The rows of the input are taken to be W_out elements long; they are W long.",
          lambda a, d: forward(
            a, input_at(a, lambda b, c, h, w: ((b * d["C_in"] + c) * d["H"] + h) * d["W_out"] + w)
        )),
    wrong("p_and_q_swapped", 3,
          "p and q have changed places in the index of the input: the row is p + r, the column q + s.",
          lambda a, d: gathered(a, d, lambda b, c, p, q, r, s: input_place(d)(b, c, q, p, r, s))),
    wrong("row_offset_missing", 3,
          "Every row of the filter meets the same row of the input: r is missing in the index of the input.",
          lambda a, d: gathered(a, d, lambda b, c, p, q, r, s: input_place(d)(b, c, p, q, 0 * r, s))),
    wrong("column_offset_missing", 3,
          "Every column of the filter meets the same column of the input: "
          "s is missing in the index of the input.",
          lambda a, d: gathered(a, d, lambda b, c, p, q, r, s: input_place(d)(b, c, p, q, r, 0 * s))),
    wrong("filter_stride_without_channels", 3,
          "The weights are indexed with k, r and s only: a filter has C_in slices, and c chooses one.",
          lambda a, d: gathered(a, d, weights=lambda k, c, r, s: (k * d["F"] + r) * d["F"] + s + 0 * c)),
    wrong("filter_axes_swapped", 3,
          "k and c have changed places in the index of the weights: their shape is C_out, C_in, F, F.",
          lambda a, d: gathered(
            a, d, weights=lambda k, c, r, s: ((c * d["C_out"] + k) * d["F"] + r) * d["F"] + s
        )),
    wrong("image_0_only", 1,
          "Only image 0 is written: threads of the other images leave, as the guard forgets the batch.",
          lambda a, d: written_where(np.arange(d["C_out"] * d["H_out"] * d["W_out"]), a)),
    wrong("one_block", 1,
          "Only the first blockDim.x elements are written: "
          "idx counts the threads of one block, not of all blocks.",
          lambda a, d: written_where(np.arange(d["threads"]), a)),
    wrong("size_of_a_block_is_128", 1,
          "Elements between the blocks are not written: the size of a block is taken to be 128; "
          "it is blockDim.x.",
          size_of_a_block_is_128),
    wrong("averaged", 1,
          "The sum is divided by the number of its products; a convolution is a sum.",
          lambda a, d: forward(a) / (d["C_in"] * d["F"] ** 2)),
)  # fmt: skip

INDEX = "blockIdx.x * blockDim.x + threadIdx.x"
GUARD = "if (idx >= batch * C_out * H_out * W_out) return;"
DECODE = """int q = idx % W_out;
    int p = idx / W_out % H_out;"""
CHANNEL = """int k = idx / (W_out * H_out) % C_out;
    int b = idx / (W_out * H_out * C_out);"""
BIAS = "float sum = bias[k];"
C_LOOP = "for (int c = 0; c < C_in; c++) {"
R_LOOP = "for (int r = 0; r < F; r++) {"
S_LOOP = "for (int s = 0; s < F; s++) {"
WEIGHT = "weights[((k * C_in + c) * F + r) * F + s]"
INPUT = "input[((b * C_in + c) * H + p + r) * W + q + s]"
STORE = "output[idx] = sum;"


def mutant(name, old, new, expect="wrong", also=()):
    return Mutant(name, KERNEL, old, new, expect, also)


MUTANTS = (
    mutant("divided by a rounded inverse", "idx % W_out", "idx - int(idx * (1.0f / W_out)) * W_out"),
    mutant("no guard", GUARD, "", "out-of-bounds"),
    mutant("guard one too late", GUARD, GUARD.replace(">=", ">"), "out-of-bounds"),
    mutant("guard forgets the batch", GUARD, "if (idx >= C_out * H_out * W_out) return;",
           "image_0_only"),
    mutant("size of a block written as 128", INDEX, INDEX.replace("blockDim.x", "128"),
           "size_of_a_block_is_128"),
    mutant("block left out", INDEX, "threadIdx.x", ("one_block", "race")),
    mutant("bias missing", BIAS, "float sum = 0.0f;", "bias_missing"),
    mutant("bias subtracted", BIAS, "float sum = -bias[k];", "bias_subtracted"),
    mutant("bias[0] for all", BIAS, "float sum = bias[0];", "bias_0_only"),
    mutant("bias in the inner loop", BIAS, "float sum = 0.0f;", "bias_for_every_product",
           also=((f"weight * {INPUT};", f"weight * {INPUT} + bias[k];"),)),
    mutant("bias in the channel loop", BIAS, "float sum = 0.0f;", "bias_for_every_channel",
           also=((C_LOOP, C_LOOP + " sum += bias[k];"),)),
    mutant("sum not set to anything", BIAS, "float sum;", ("uninitialised-read", "bias_missing", "wrong")),
    mutant("true convolution", WEIGHT, "weights[((k * C_in + c) * F + F - 1 - r) * F + F - 1 - s]",
           "filter_flipped"),
    mutant("r and s swapped in the filter", WEIGHT, "weights[((k * C_in + c) * F + s) * F + r]",
           "filter_transposed"),
    mutant("r and s swapped in the input", INPUT, "input[((b * C_in + c) * H + p + s) * W + q + r]",
           "filter_transposed"),
    mutant("minus for plus", INPUT, "input[((b * C_in + c) * H + p - r) * W + q - s]", "out-of-bounds"),
    mutant("one row too far", INPUT, "input[((b * C_in + c) * H + p + r + 1) * W + q + s]",
           "out-of-bounds"),
    mutant("channel 0 only", C_LOOP, "for (int c = 0; c < 1; c++) {", "channel_0_only"),
    mutant("sum starts again for every channel", C_LOOP, C_LOOP + " sum = bias[k];", "last_channel_only"),
    mutant("c missing in the input", INPUT, "input[(b * C_in * H + p + r) * W + q + s]",
           "input_channel_missing"),
    mutant("c missing in the weights", WEIGHT, "weights[(k * C_in * F + r) * F + s]",
           "filter_channel_missing"),
    mutant("k missing in the weights", WEIGHT, "weights[(c * F + r) * F + s]", "filter_0_only"),
    mutant("b missing in the input", INPUT, "input[(c * H + p + r) * W + q + s]", "input_batch_missing"),
    mutant("batch stride of one channel", INPUT, "input[((b + c) * H + p + r) * W + q + s]",
           "batch_stride_without_channels"),
    mutant("batch stride with C_out", INPUT, "input[((b * C_out + c) * H + p + r) * W + q + s]",
           "out-of-bounds"),
    mutant("H for W", INPUT, "input[((b * C_in + c) * H + p + r) * H + q + s]", "h_used_for_w"),
    mutant("H_out and W_out for H and W", INPUT,
           "input[((b * C_in + c) * H_out + p + r) * W_out + q + s]", "output_size_used_for_input"),
    mutant("last filter row left out", R_LOOP, "for (int r = 0; r < F - 1; r++) {",
           "last_filter_row_missing"),
    mutant("last filter column left out", S_LOOP, "for (int s = 0; s < F - 1; s++) {",
           "last_filter_column_missing"),
    mutant("one filter row too many", R_LOOP, "for (int r = 0; r <= F; r++) {", "out-of-bounds"),
    mutant("image before channel", CHANNEL,
           "int b = idx / (W_out * H_out) % batch;\n    int k = idx / (W_out * H_out * batch);",
           "channel_and_image_swapped"),
    mutant("row before column", DECODE, "int p = idx % H_out;\n    int q = idx / H_out % W_out;",
           "row_and_column_swapped"),
    mutant("p and q missing", INPUT, "input[((b * C_in + c) * H + r) * W + s]", "offset_missing"),
    mutant("overwritten instead of added", "sum += weight", "sum = weight", "last_product_only"),
    mutant("subtracted", "sum += weight", "sum -= weight", "products_subtracted"),
    mutant("sum set to 0 for every channel", C_LOOP, C_LOOP + " sum = 0.0f;", "last_channel_without_bias"),
    mutant("sum in an int", BIAS, "int sum = bias[k];", "sum_in_an_int"),
    mutant("channels from 1", C_LOOP, C_LOOP.replace("c = 0", "c = 1"), "first_channel_missing"),
    mutant("filter rows from 1", R_LOOP, R_LOOP.replace("r = 0", "r = 1"), "first_filter_row_missing"),
    mutant("filter columns from 1", S_LOOP, S_LOOP.replace("s = 0", "s = 1"), "first_filter_column_missing"),
    mutant("H and W swapped", INPUT, "input[((b * C_in + c) * W + p + r) * H + q + s]", "h_and_w_swapped"),
    mutant("W_out for W", INPUT, "input[((b * C_in + c) * H + p + r) * W_out + q + s]", "w_out_used_for_w"),
    mutant("p and q swapped", INPUT, "input[((b * C_in + c) * H + q + r) * W + p + s]",
           ("p_and_q_swapped", "out-of-bounds")),
    mutant("r missing", INPUT, "input[((b * C_in + c) * H + p) * W + q + s]", "row_offset_missing"),
    mutant("s missing", INPUT, "input[((b * C_in + c) * H + p + r) * W + q]", "column_offset_missing"),
    mutant("weights without c", WEIGHT, "weights[(k * F + r) * F + s]", "filter_stride_without_channels"),
    mutant("k and c swapped in the weights", WEIGHT, "weights[((c * C_out + k) * F + r) * F + s]",
           "filter_axes_swapped"),
    mutant("averaged", STORE, "output[idx] = sum / (C_in * F * F);", "averaged"),
    mutant("not stored", STORE, "", "unwritten"),
    mutant("padded: the output is taken to be H x W", "int H_out = H - F + 1;", "int H_out = H;",
           "out-of-bounds", also=(("int W_out = W - F + 1;", "int W_out = W;"),)),
)  # fmt: skip

PUZZLE = Puzzle(
    title="Convolution, forward",
    part=1,
    teaches="How one thread per output element turns its number into (image, channel, row, column).",
    practice=(
        "cuDNN has several algorithms for this sum and picks one by shape: implicit GEMM (puzzle 30), "
        "Winograd's, FFT."
    ),
    lines=15,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("input", b="batch", c="C_in", h="H", w="W"),
                In("weights", k="C_out", c="C_in", r="F", s="F"),
                In("bias", k="C_out"),
                Out("output", b="batch", k="C_out", p="H_out", q="W_out"),
                Int("batch"), Int("C_in"), Int("H"), Int("W"), Int("C_out"), Int("F"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C_out"] * d["H_out"] * d["W_out"], d["threads"]),
                block=d["threads"],
            ),
            reference=lambda a, d: conv.forward(a["input"], a["weights"], a["bias"]),
        ),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "threads": 128, **d},
    bench=dict(batch=128, C_in=64, H=56, W=56, C_out=64, F=3),
    cases=(
        Case(
            "conv_fw_tiny_3x3", dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2),
            note="done by hand in the lesson",
            inputs={
                "input": [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
                "weights": [[[[2, -1], [1, 3]]]],
                "bias": [1],
            },
        ),
        Case("filter_1x1", dict(batch=2, C_in=3, H=3, W=4, C_out=4, F=1), note="only channels"),
        Case("one_channel_wide", dict(batch=2, C_in=1, H=5, W=8, C_out=1, F=3), note="W > H"),
        Case("output_1x1", dict(batch=2, C_in=3, H=4, W=4, C_out=5, F=4), note="the filter covers the image"),
        Case("integers", dict(batch=2, C_in=3, H=6, W=9, C_out=4, F=3), note="exact sums", values="integers"),
        Case("batch_odd", dict(batch=3, C_in=4, H=9, W=7, C_out=5, F=2, threads=96),
             note="all sizes differ; H > W; 8 blocks of 96 threads"),
        Case("nothing_divides", dict(batch=3, C_in=5, H=19, W=17, C_out=7, F=3), note="42 blocks"),
        Case("conv_fw_lenet_conv1", dict(batch=4, C_in=1, H=28, W=28, C_out=6, F=5), note="LeNet's first"),
        Case("conv_fw_lenet_conv2", dict(batch=4, C_in=6, H=12, W=12, C_out=16, F=5), note="LeNet's second"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(257, 290), C_in=pick(2, 4), H=pick(4, 8), W=pick(4, 8),
                                    C_out=pick(2, 5), F=pick(1, 3), threads=pick(30, 90))),
        Case("large_image", dict(batch=1, C_in=1, H=263, W=329, C_out=1, F=2, threads=1), stress=True,
             note="more pixels, and blocks, than 16 bits can count"),
        Case("many_channels", dict(batch=2, C_in=261, H=1, W=1, C_out=257, F=1, threads=96), stress=True,
             note="more weights than 16 bits can count"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "Each thread owns one number, output[b, k, p, q]. Find its owner's b, k, p and q first: idx counts "
        "the outputs in the order they lie in memory, like a clock counts seconds. Seconds are the "
        "remainder by 60, then divide and take the remainder again for minutes. Here the wheel that turns "
        "fastest is q, with W_out positions, then p, then k; what is left over is b.",
        "One running sum per thread, a plain float variable. It starts as the bias of channel k, once. "
        "Three nested loops go over c, r and s: all channels of the input, all rows and columns of the "
        "filter. After the loops the sum is stored once.",
        "One product: the weight at (k, c, r, s) times the input at (b, c, p + r, q + s). The flat position "
        "of an element: take its first index; for every further axis multiply by that axis's size and add "
        "that axis's index. Use the sizes of the array you read: the weights have C_out, C_in, F, F; the "
        "input has batch, C_in, H, W. Neither has H_out or W_out.",
    ),
)  # fmt: skip
