"""Puzzle 07: the convolution of LeNet, one thread per output element."""

from __future__ import annotations

from backwarp.reference import conv

from backwarp.course import Case, In, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div

KERNEL = "conv2d_forward"


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


MISTAKES = (
    Mistake("divided by a rounded inverse", ("idx % W_out", "idx - int(idx * (1.0f / W_out)) * W_out")),
    Mistake("no guard", (GUARD, ""), expect="out-of-bounds"),
    Mistake("guard one too late", (GUARD, GUARD.replace(">=", ">")), expect="out-of-bounds"),
    Mistake(
        "guard forgets the batch",
        (GUARD, "if (idx >= C_out * H_out * W_out) return;"),
        says="Only image 0 is written: the threads of the other images leave, because the guard forgets the "
        "batch.",
    ),
    Mistake(
        "size of a block written as 128",
        (INDEX, INDEX.replace("blockDim.x", "128")),
        says="Elements between the blocks are not written: the size of a block is taken to be 128; it is "
        "blockDim.x.",
    ),
    Mistake(
        "block left out",
        (INDEX, "threadIdx.x"),
        expect="race",
        says="Only the first blockDim.x elements are written: idx counts the threads of one block, not of "
        "all blocks.",
    ),
    Mistake(
        "bias missing",
        (BIAS, "float sum = 0.0f;"),
        says="The bias is missing: every output is too small by exactly bias[k].",
        hint=2,
    ),
    Mistake(
        "bias subtracted",
        (BIAS, "float sum = -bias[k];"),
        says="The bias is subtracted: every output is too small by exactly 2 * bias[k].",
        hint=2,
    ),
    Mistake(
        "bias[0] for all",
        (BIAS, "float sum = bias[0];"),
        says="Every output channel gets bias[0]: the index of the bias must be k.",
        hint=2,
    ),
    Mistake(
        "bias in the inner loop",
        ((BIAS, "float sum = 0.0f;"), (f"weight * {INPUT};", f"weight * {INPUT} + bias[k];")),
        says="The bias is added once for every product; it must be added just once.",
        hint=2,
    ),
    Mistake(
        "bias in the channel loop",
        ((BIAS, "float sum = 0.0f;"), (C_LOOP, C_LOOP + " sum += bias[k];")),
        says="The bias is added once for every input channel; it must be added just once.",
        hint=2,
    ),
    Mistake(
        "sum not set to anything",
        (BIAS, "float sum;"),
        expect=("uninitialised-read", "bias missing", "wrong"),
    ),
    Mistake(
        "true convolution",
        (WEIGHT, "weights[((k * C_in + c) * F + F - 1 - r) * F + F - 1 - s]"),
        says="The filter is flipped in both directions: weights[r, s] belongs to input[p + r, q + s].",
        hint=3,
    ),
    Mistake(
        "r and s swapped in the filter",
        (WEIGHT, "weights[((k * C_in + c) * F + s) * F + r]"),
        says="The filter is transposed: r and s are swapped in one index.",
        hint=3,
    ),
    Mistake(
        "r and s swapped in the input",
        (INPUT, "input[((b * C_in + c) * H + p + s) * W + q + r]"),
        expect="r and s swapped in the filter",
    ),
    Mistake(
        "minus for plus", (INPUT, "input[((b * C_in + c) * H + p - r) * W + q - s]"), expect="out-of-bounds"
    ),
    Mistake(
        "one row too far",
        (INPUT, "input[((b * C_in + c) * H + p + r + 1) * W + q + s]"),
        expect="out-of-bounds",
    ),
    Mistake(
        "channel 0 only",
        (C_LOOP, "for (int c = 0; c < 1; c++) {"),
        says="Only input channel 0 is used: nothing of the other channels is added.",
        hint=2,
    ),
    Mistake(
        "sum starts again for every channel",
        (C_LOOP, C_LOOP + " sum = bias[k];"),
        says="Only the last input channel is in the result: nothing of the other channels is added.",
        hint=2,
    ),
    Mistake(
        "c missing in the input",
        (INPUT, "input[(b * C_in * H + p + r) * W + q + s]"),
        says="Every filter channel is laid over input channel 0: c is missing from the index of the input.",
        hint=3,
    ),
    Mistake(
        "c missing in the weights",
        (WEIGHT, "weights[(k * C_in * F + r) * F + s]"),
        says="Every input channel meets filter channel 0: c is missing from the index of the weights.",
        hint=3,
    ),
    Mistake(
        "k missing in the weights",
        (WEIGHT, "weights[(c * F + r) * F + s]"),
        says="Every output channel uses the filter of channel 0: k is missing from the index of the weights.",
        hint=3,
    ),
    Mistake(
        "b missing in the input",
        (INPUT, "input[(c * H + p + r) * W + q + s]"),
        says="Every image of the batch gives the output of image 0: b is missing from the index of the "
        "input.",
        hint=3,
    ),
    Mistake(
        "batch stride of one channel",
        (INPUT, "input[((b + c) * H + p + r) * W + q + s]"),
        says="The step from image to image in the input is one channel, not C_in channels.",
        hint=3,
    ),
    Mistake(
        "batch stride with C_out",
        (INPUT, "input[((b * C_out + c) * H + p + r) * W + q + s]"),
        expect="out-of-bounds",
    ),
    Mistake(
        "H for W",
        (INPUT, "input[((b * C_in + c) * H + p + r) * H + q + s]"),
        says="The rows of the input are taken to be H elements long; they are W long.",
        hint=3,
    ),
    Mistake(
        "H_out and W_out for H and W",
        (INPUT, "input[((b * C_in + c) * H_out + p + r) * W_out + q + s]"),
        says="The input is indexed with H_out and W_out; its rows are W long and its channels H rows high.",
        hint=3,
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
    Mistake(
        "image before channel",
        (CHANNEL, "int b = idx / (W_out * H_out) % batch;\n    int k = idx / (W_out * H_out * batch);"),
        says="The right numbers are in the wrong places, as if the output were [C_out, batch, ...]; images come first.",
    ),
    Mistake(
        "row before column",
        (DECODE, "int p = idx % H_out;\n    int q = idx / H_out % W_out;"),
        says="The right numbers are in the wrong places, as if p changed fastest; in the output, q does.",
    ),
    Mistake(
        "p and q missing",
        (INPUT, "input[((b * C_in + c) * H + r) * W + s]"),
        says="Every position gets the output of position (0, 0): p and q are missing from the index of the "
        "input.",
        hint=3,
    ),
    Mistake(
        "overwritten instead of added",
        ("sum += weight", "sum = weight"),
        says="Only the very last product is in the result: each one replaces the sum instead of being added to it.",
        hint=2,
    ),
    Mistake(
        "subtracted",
        ("sum += weight", "sum -= weight"),
        says="The products are subtracted from the bias; they are added to it.",
        hint=2,
    ),
    Mistake(
        "sum set to 0 for every channel",
        (C_LOOP, C_LOOP + " sum = 0.0f;"),
        says="Only the last input channel is in the result, without the bias: nothing else is added.",
        hint=2,
    ),
    Mistake(
        "sum in an int",
        (BIAS, "int sum = bias[k];"),
        says="The sum is cut to a whole number at every addition: it is declared int; it must be float.",
        hint=2,
    ),
    Mistake(
        "channels from 1",
        (C_LOOP, C_LOOP.replace("c = 0", "c = 1")),
        says="Input channel 0 is left out: c runs from 0.",
        hint=2,
    ),
    Mistake(
        "filter rows from 1",
        (R_LOOP, R_LOOP.replace("r = 0", "r = 1")),
        says="The first row of the filter is left out: r runs from 0.",
        hint=2,
    ),
    Mistake(
        "filter columns from 1",
        (S_LOOP, S_LOOP.replace("s = 0", "s = 1")),
        says="The first column of the filter is left out: s runs from 0.",
        hint=2,
    ),
    Mistake(
        "H and W swapped",
        (INPUT, "input[((b * C_in + c) * W + p + r) * H + q + s]"),
        says="H and W are swapped in the index of the input: a channel has H rows of W elements.",
        hint=3,
    ),
    Mistake(
        "W_out for W",
        (INPUT, "input[((b * C_in + c) * H + p + r) * W_out + q + s]"),
        says="The rows of the input are taken to be W_out elements long; they are W long.",
        hint=3,
    ),
    Mistake(
        "p and q swapped",
        (INPUT, "input[((b * C_in + c) * H + q + r) * W + p + s]"),
        expect="out-of-bounds",
        says="p and q are swapped in the index of the input: the row is p + r, the column q + s.",
        hint=3,
    ),
    Mistake(
        "r missing",
        (INPUT, "input[((b * C_in + c) * H + p) * W + q + s]"),
        says="Every row of the filter meets the same row of the input: r is missing from the index of the "
        "input.",
        hint=3,
    ),
    Mistake(
        "s missing",
        (INPUT, "input[((b * C_in + c) * H + p + r) * W + q]"),
        says="Every column of the filter meets the same column of the input: s is missing from the index of "
        "the input.",
        hint=3,
    ),
    Mistake(
        "weights without c",
        (WEIGHT, "weights[(k * F + r) * F + s]"),
        says="The weights are indexed with k, r and s only: a filter has C_in slices, and c chooses one.",
        hint=3,
    ),
    Mistake(
        "k and c swapped in the weights",
        (WEIGHT, "weights[((c * C_out + k) * F + r) * F + s]"),
        says="k and c are swapped in the index of the weights: their shape is C_out, C_in, F, F.",
        hint=3,
    ),
    Mistake(
        "averaged",
        (STORE, "output[idx] = sum / (C_in * F * F);"),
        says="The sum is divided by the number of its products; a convolution is a sum.",
    ),
    Mistake("not stored", (STORE, ""), expect="unwritten"),
    Mistake(
        "padded: the output is taken to be H x W",
        (("int H_out = H - F + 1;", "int H_out = H;"), ("int W_out = W - F + 1;", "int W_out = W;")),
        expect="out-of-bounds",
    ),
)

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
                Int("batch"),
                Int("C_in"),
                Int("H"),
                Int("W"),
                Int("C_out"),
                Int("F"),
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
            "conv_fw_tiny_3x3",
            dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2),
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
        Case(
            "batch_odd",
            dict(batch=3, C_in=4, H=9, W=7, C_out=5, F=2, threads=96),
            note="all sizes differ; H > W; 8 blocks of 96 threads",
        ),
        Case("nothing_divides", dict(batch=3, C_in=5, H=19, W=17, C_out=7, F=3), note="42 blocks"),
        Case("conv_fw_lenet_conv1", dict(batch=4, C_in=1, H=28, W=28, C_out=6, F=5), note="LeNet's first"),
        Case("conv_fw_lenet_conv2", dict(batch=4, C_in=6, H=12, W=12, C_out=16, F=5), note="LeNet's second"),
        Case(
            "large_image",
            dict(batch=1, C_in=1, H=263, W=329, C_out=1, F=2, threads=1),
            stress=True,
            note="more pixels, and blocks, than 16 bits can count",
        ),
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
        "Each thread owns one number, output[b, k, p, q]. Find its b, k, p and q first: idx counts the "
        "outputs in the order in which they lie in memory, as a clock counts seconds. Seconds are the "
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
)
