"""Puzzle 33: the weight gradient of a convolution in groups, in one launch; depthwise, in one pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.course import (  # fmt: skip
    Case,
    Gate,
    Gradient,
    In,
    Kernel,
    Launch,
    Misconception,
    Mutant,
    Out,
    Puzzle,
    ceil_div,
)
from harness.course.conv_cases import (
    ints,
    options,
    output_sizes,
    own_sizes,
    shape,
    size,
    stress_cases_of_tiles,
)
from harness.course.conv_mistakes import convolution, weight_gradient
from harness.course.tile_limits import tile_limits
from reference import conv

GROUPED, DEPTHWISE = "conv2d_backward_weights_grouped", "conv2d_backward_weights_depthwise"
TILE, THREADS, ROWS = 16, 128, 8


def right(a, d):
    filters = shape(d, "C_out", "C_group", "R", "S")
    return conv.backward_weights(a["grad_output"], a["input"], filters, **options(d))


def tiles(d, side=TILE):
    """Rows and columns of the tiles of one group's gradient."""
    return ceil_div(d["C_out"] // d["groups"], side), ceil_div(d["C_group"] * d["R"] * d["S"], side)


def positions(d):
    return d["batch"] * d["H_out"] * d["W_out"]


def must_move(d):
    """Bytes of the first kernel: for each column of tiles grad_output, for each row the windows; the sums."""
    (down, across), taps = tiles(d), d["R"] * d["S"]
    reads = across * d["C_out"] + down * d["C_in"] * taps
    return 4 * (positions(d) * reads + d["C_out"] * d["C_group"] * taps)


def flops_in_tiles(d):
    """What the first kernel computes, idle places included."""
    down, across = tiles(d)
    return 2 * d["groups"] * down * across * TILE * TILE * ceil_div(positions(d), TILE) * TILE


def sectors_read_once(d):
    return (d["batch"] * d["C_in"] * d["H"] * d["W"] + positions(d) * d["C_out"]) / 8


def group_of_filter(k, d):
    return k // (d["C_out"] // d["groups"])


def slice_of_filter(k, d):
    """Its number within the group."""
    return k % (d["C_out"] // d["groups"])


def of_channels(rule):
    """The weight gradient, with channel rule(k, j, d) for slice j of filter k."""
    return lambda a, d: weight_gradient(a, convolution(d).but(image_channel=lambda k, j: rule(k, j, d)))


def of_filters(rule):
    """The weight gradient, with channel rule(k, d) of grad_output for filter k."""
    return lambda a, d: right({**a, "grad_output": a["grad_output"][:, rule(np.arange(d["C_out"]), d)]}, d)


def of_positions(kept):
    """The weight gradient from those elements of grad_output for which kept(p, q, d) holds."""

    def compute(a, d):
        p, q = np.indices((d["H_out"], d["W_out"]))
        return right({**a, "grad_output": a["grad_output"] * kept(p, q, d)}, d)

    return compute


def ring(a, d, fill=None, read=None, again=True):
    """The gradient from the rows that a ring holds. fill(h, top, keep), read(h, top, keep): where row h is put, and
    looked for, in the stretch whose first row is `top`; h % keep. again: whether every image begins at its first row.
    """
    keep = (ROWS - 1) * d["stride_h"] + (d["R"] - 1) * d["dilation_h"] + 1
    usual = lambda h, top, keep: h % keep  # noqa: E731
    fill, read = fill or usual, read or usual
    w = np.arange(d["W_out"])[:, None] * d["stride_w"] - d["pad_w"] + np.arange(d["S"]) * d["dilation_w"]
    inside, w = (w >= 0) & (w < d["W"]), w.clip(0, d["W"] - 1)
    grads = a["grad_output"].reshape(d["batch"], d["C_in"], -1, d["H_out"], d["W_out"])
    found = np.zeros((*grads.shape[1:3], d["R"], d["S"]))
    rows, next = np.full((keep, d["C_in"], d["W"]), np.nan), 0
    for b in range(d["batch"]):
        next = 0 if again else next
        for start in range(0, d["H_out"], ROWS):
            top = start * d["stride_h"] - d["pad_h"]
            end = min(top + keep, d["H"])
            for h in range(max(next, top), end):
                rows[fill(h, top, keep)] = a["input"][b, :, h]
            next = max(end, 0)
            for p, r in np.ndindex(min(ROWS, d["H_out"] - start), d["R"]):
                h = (start + p) * d["stride_h"] - d["pad_h"] + r * d["dilation_h"]
                if 0 <= h < d["H"]:
                    pixels = np.where(inside, rows[read(h, top, keep)][:, w], 0)  # [C_in, W_out, S]
                    found[:, :, r] += np.einsum("cfq,cqs->cfs", grads[b, :, :, start + p], pixels)
    return found.reshape(d["C_out"], 1, d["R"], d["S"])


def wrong(id, kernel, hint, says, compute):
    return Misconception(id, kernel, says, compute, hint)


MISCONCEPTIONS = (
    wrong("channels_of_group_0", GROUPED, 1,
          "Every group reads the channels of group 0: the group's first channel is missing in the index of "
          "the input.",
          of_channels(lambda k, j, d: j)),
    wrong("channels_interleaved", GROUPED, 1,
          "Channel c of a group is taken to be channel c * groups + group; the channels of a group lie one "
          "after another.",
          of_channels(lambda k, j, d: j * d["groups"] + group_of_filter(k, d))),
    wrong("offset_of_one_channel", GROUPED, 1,
          "The channels of group g start at channel g; they start at g times the channels of a group.",
          of_channels(lambda k, j, d: group_of_filter(k, d) + j)),
    wrong("filters_of_group_0", GROUPED, 1,
          "Every group reads grad_output of the filters of group 0: the group's first filter is missing in "
          "its index.",
          of_filters(slice_of_filter)),
    wrong("filters_interleaved", DEPTHWISE, 2,
          "Filter f of channel c is taken to be filter f * C_in + c; the filters of a channel lie one after "
          "another.",
          of_filters(lambda k, d: slice_of_filter(k, d) * d["C_in"] + group_of_filter(k, d))),
    wrong("last_image_only", DEPTHWISE, 2,
          "This is exactly the gradient of the last image alone: the sums start again for every image.",
          lambda a, d: right({name: array[-1:] for name, array in a.items()}, d)),
    wrong("row_looked_for_from_the_stretch", DEPTHWISE, 2,
          "Row h is looked for at its distance from the stretch's first row; the ring has it at h % keep.",
          lambda a, d: ring(a, d, read=lambda h, top, keep: h - top)),
    wrong("ring_counted_from_the_stretch", DEPTHWISE, 2,
          "Rows are put at, and looked for at, their distance from the stretch's first row; those that the "
          "stretch before fetched lie elsewhere then: row h is at h % keep.",
          lambda a, d: ring(a, d, *[lambda h, top, keep: h - top] * 2)),
    wrong("rows_of_the_image_before", DEPTHWISE, 2,
          "An image begins with rows of the one before: none of its own are in the ring then, so the first row "
          "to fetch is its first.",
          lambda a, d: ring(a, d, again=False)),
    wrong("last_rows_missing", DEPTHWISE, 2,
          "The rows of grad_output after the last ROWS full ones are missing: the last stretch may have "
          "fewer.",
          of_positions(lambda p, q, d: p < d["H_out"] // ROWS * ROWS)),
    wrong("one_warp_only", DEPTHWISE, 3,
          "Only the sums of the first 32 threads are added up: a weight has THREADS of them.",
          of_positions(lambda p, q, d: (p % ROWS * d["W_out"] + q) % THREADS < 32)),
)  # fmt: skip

LOOP = "for (int start = 0; start < positions; start += TILE) {"
CHANNELS = "int filter = b * C_out + group * filters + k, channel = b * C_in + group * channels + c;"
STORE = "if (k < filters && column < columns) grad_weights[(group * filters + k) * columns + column] = sum;"
ZERO = "for (int i = 0; i < weights; i++) sums[i * THREADS + thread] = 0.0f;"
NEXT = "int next = 0;  // the first row that is not in the ring"
BANDS = "for (int start = 0; start < H_out; start += ROWS) {"
PUT = "pixels[i % (keep * W)] ="
ROW = "const float* row = pixels + h % keep * W;"
FETCH = "for (int i = max(next, top) * W + thread; i < end * W; i += THREADS) {"
GRAD = "grad_output[((b * C_out + c * filters + f) * H_out + p) * W_out + q];"
A_WEIGHT_EACH = """for (int i = 0, own = j - y + x; i < positions && k < filters && own < columns; i++) {
        int q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
        int h = p * stride_h - pad_h + own / S % R * dilation_h;
        int w = q * stride_w - pad_w + own % S * dilation_w;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        float grad = grad_output[((b * C_out + group * filters + k) * H_out + p) * W_out + q];
        float pixel = input[((b * C_in + group * channels + own / (S * R)) * H + h) * W + w];
        sum += grad * pixel;
    }
    """
ONE_CHANNEL_EACH = """for (int i = thread; i < weights; i += THREADS) {
        float sum = 0.0f;
        for (int n = 0; n < batch * H_out * W_out; n++) {
            int q = n % W_out, p = n / W_out % H_out, b = n / (W_out * H_out);
            int h = p * stride_h - pad_h + i / S % R * dilation_h;
            int w = q * stride_w - pad_w + i % S * dilation_w;
            if (h < 0 || h >= H || w < 0 || w >= W) continue;
            float grad = grad_output[((b * C_out + c * filters + i / (S * R)) * H_out + p) * W_out + q];
            float pixel = input[((b * C_in + c) * H + h) * W + w];
            sum += grad * pixel;
        }
        grad_weights[c * weights + i] = sum;
    }
    return;
    """


def grouped(name, old, new, expect="wrong", also=(), line=""):
    return Mutant(name, GROUPED, old, new, expect, also, line)


def depthwise(name, old, new, expect="wrong", also=(), line=""):
    return Mutant(name, DEPTHWISE, old, new, expect, also, line)


MUTANTS = (
    # right, not yet fast
    grouped("a thread per weight, as in puzzle 14", LOOP,
            A_WEIGHT_EACH + LOOP.replace("start = 0", "start = positions"),
            "slow", line="float pixel = input[((b * C_in + group * channels"),
    grouped("tiles larger than the groups", "constexpr int TILE = 16;", "constexpr int TILE = 32;", "slow",
            line="sum += grads[y][n] * windows[x][n];"),
    depthwise("depthwise: a thread per weight, as in puzzle 14", ZERO, ONE_CHANNEL_EACH + ZERO, "slow",
              line="float pixel = input[((b * C_in + c) * H + h) * W + w];"),
    depthwise("rows that two stretches need fetched twice", FETCH, FETCH.replace("next", "0"), "slow",
              line="pixels[i % (keep * W)] = input["),
    grouped("windows not padded", "windows[TILE][TILE + 1];", "windows[TILE][TILE];", "slow",
            line="sum += grads[y][n] * windows[x][n];"),
    depthwise("depthwise: sums of the threads far apart", "sums[i * THREADS + thread] = 0.0f;",
              "sums[thread * weights + i] = 0.0f;", "slow",
              line="passes over the banks of shared memory",
              also=(("sums + (f * R + r) * S * THREADS + thread;", "sums + thread * weights + (f * R + r) * S;"),
                    ("own[s * THREADS] +=", "own[s] +="),
                    ("sum += sums[i * THREADS + n];", "sum += sums[n * weights + i];"))),
    # the groups
    grouped("channels of group 0", CHANNELS, CHANNELS.replace("group * channels + ", ""),
            "channels_of_group_0"),
    grouped("channels interleaved", CHANNELS, CHANNELS.replace("group * channels + c", "c * groups + group"),
            "channels_interleaved"),
    grouped("filters of group 0", CHANNELS, CHANNELS.replace("group * filters + ", ""), "filters_of_group_0"),
    grouped("tile not cut at the end of the group", STORE,
            STORE.replace("k < filters", "group * filters + k < C_out"), "race"),
    grouped("columns of the next group", "bool inside = j < columns && ", "bool inside = ", "out-of-bounds"),
    # depthwise: the ring
    depthwise("rows used before they are there", "__syncthreads();  // the new rows are there", "", "race"),
    depthwise("rows fetched over those still needed",
              "__syncthreads();  // nobody needs the oldest rows any more", "", "race"),
    depthwise("the first image's rows for all", NEXT, "", "rows_of_the_image_before",
              also=((ZERO, ZERO + "\n    int next = 0;"),)),
    depthwise("rows looked for from the stretch", ROW, ROW.replace("h % keep", "(h - top)"),
              "row_looked_for_from_the_stretch"),
    depthwise("rows put where the stretch has them", ROW, ROW.replace("h % keep", "(h - top)"),
              "ring_counted_from_the_stretch",
              also=((PUT, PUT.replace("i % (keep * W)", "i - top * W")),)),
    # depthwise: the sums
    depthwise("sums start again for every image", NEXT, NEXT + "\n        " + ZERO, "last_image_only"),
    depthwise("last rows missing", BANDS, BANDS.replace("start < H_out", "start + ROWS <= H_out"),
              "last_rows_missing",
              also=((ZERO, ZERO + "\n    __syncthreads();"),)),
    depthwise("filters interleaved", GRAD, GRAD.replace("c * filters + f", "f * C_in + c"),
              "filters_interleaved"),
    depthwise("sums of one warp", "n < THREADS; n += 32", "n < 32; n += 32", "one_warp_only"),
    grouped("offset of one channel", CHANNELS, CHANNELS.replace("group * channels", "group"),
            "offset_of_one_channel"),
)  # fmt: skip


def grouped_launch(d, t):
    """Blocks in x: the tiles of one group, row of tiles after row; in y: the groups."""
    down, across = tiles(d, t["TILE"])
    return Launch(grid=(down * across, d["groups"]), block=(t["TILE"], t["TILE"]))


def depthwise_launch(d, t):
    """A block for every channel; shared memory for `keep` rows and for a sum per weight and thread."""
    threads, weights = t["THREADS"], d["C_out"] // d["C_in"] * d["R"] * d["S"]
    keep = (t["ROWS"] - 1) * d["stride_h"] + (d["R"] - 1) * d["dilation_h"] + 1
    return Launch(grid=d["C_in"], block=threads, shared_mem=4 * (keep * d["W"] + weights * threads))


def loss(w, a, d):
    """A loss whose gradient at the convolution's output is grad_output, as a function of the weights."""
    return np.sum(a["grad_output"] * conv.forward(a["input"], w, **options(d)))


ARRAYS = (
    In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
    In("input", b="batch", c="C_in", h="H", w="W"),
    Out("grad_weights", k="C_out", c="C_group", r="R", s="S"),
)


def weights(d):
    return d["C_out"] * d["R"] * d["S"]


def taps(d):
    """Products of the second kernel, those with padding too."""
    return weights(d) * positions(d)


def of_groups(d):
    """Rows, columns and depth of the product of every group."""
    return [(d["C_out"] // d["groups"], d["C_group"] * d["R"] * d["S"], positions(d))] * d["groups"]


PUZZLE = Puzzle(
    title="Gradient of grouped weights, and of depthwise ones",
    part=4,
    teaches="How one launch multiplies the matrices of all groups, and what to do where tiles are too large.",
    practice=(
        "cuDNN computes all groups of a convolution in one call as well: the number of groups belongs to "
        "its description."
    ),
    lines=62,
    kernels=(
        Kernel(GROUPED, params=(*ARRAYS, *ints("groups")), launch=grouped_launch, reference=right),
        Kernel(DEPTHWISE, params=(*ARRAYS, *ints()), launch=depthwise_launch, reference=right),
    ),
    dims=lambda d: {**output_sizes(d), "C_group": d["C_in"] // d["groups"], **d},
    bench=size(64, 144, 56, 56, 144, 3, 3, pad=(1, 1), groups=144),
    gradient_of={GROUPED: Gradient(loss), DEPTHWISE: Gradient(loss)},
    cases=(
        Case(
            "implicit_grouped_tiny", size(1, 4, 1, 2, 4, 1, 1, groups=2), kernels=(GROUPED,),
            note="the numbers of puzzle 14; done by hand in the lesson",
            inputs={
                "grad_output": [[[[1, 2]], [[3, -1]], [[1, 1]], [[2, 0]]]],
                "input": [[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]],
            },
        ),
        Case(
            "implicit_depthwise_tiny", size(1, 1, 3, 3, 1, 2, 2, groups=1), note="done by hand in the lesson",
            inputs={"grad_output": [[[[1, 2], [3, -1]]]], "input": [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]},
        ),
        Case("two_stretches", size(1, 1, 10, 2, 1, 2, 1, groups=1), kernels=(DEPTHWISE,),
             note="9 rows of grad_output: the ring goes round"),
        Case("output_1x1", size(3, 2, 5, 3, 4, 3, 2, dilation=(2, 2), groups=2),
             note="two filters for each channel"),
        Case("one_channel", size(2, 1, 4, 7, 3, 2, 3, groups=1), note="one channel, three filters; W > H"),
        Case("one_group", size(2, 3, 5, 4, 2, 3, 2, groups=1), note="an ordinary convolution",
             kernels=(GROUPED,)),
        Case("filter_1x1_stride_2", size(1, 34, 5, 3, 4, 1, 1, stride=(2, 2), groups=2),
             note="groups of 17 channels, one more than a tile", kernels=(GROUPED,)),
        Case("seventeen_filters", size(1, 2, 3, 5, 34, 2, 2, pad=(1, 0), groups=2),
             note="groups of 17 filters, one more than a tile", kernels=(GROUPED,)),
        Case("grouped_numerical_gradient_check",
             size(2, 4, 5, 4, 6, 2, 2, stride=(2, 1), pad=(1, 0), groups=2),
             note="each weight moved by epsilon", check="gradient", kernels=(GROUPED,)),
        Case("grouped_integers",
             size(2, 6, 6, 5, 4, 3, 2, stride=(1, 2), pad=(2, 1), dilation=(2, 1), groups=2),
             note="exact sums", values="integers", kernels=(GROUPED,)),
        Case("depthwise_numerical_gradient_check",
             size(2, 2, 10, 4, 4, 3, 2, stride=(1, 2), pad=(2, 1), dilation=(2, 1), groups=2),
             note="each weight moved by epsilon", check="gradient", kernels=(DEPTHWISE,)),
        Case("stride_larger_than_filter", size(2, 2, 37, 5, 2, 2, 1, stride=(4, 3), pad=(1, 0), groups=2),
             note="rows of the input that no filter meets", kernels=(DEPTHWISE,)),
        Case("depthwise_integers",
             size(2, 2, 25, 9, 2, 3, 4, stride=(2, 1), pad=(2, 3), dilation=(3, 2), groups=2),
             note="12 rows of grad_output", values="integers", kernels=(DEPTHWISE,)),
        Case("drawn", size(1, 4, 3, 4, 6, 1, 3, groups=2),
             note="the picture: 3 filters and 2 channels a group",
             kernels=(GROUPED,)),
        Case("drawn_depthwise", size(1, 1, 7, 6, 1, 3, 3, pad=(1, 1), groups=1), note="the picture",
             kernels=(DEPTHWISE,)),
        Case("counted_depthwise", size(2, 4, 16, 16, 8, 3, 3, stride=(1, 2), pad=(1, 1), groups=4),
             note="two filters for each channel: the gate's", kernels=(DEPTHWISE,)),
        Case("own_sizes", note="sizes that belong to your file", kernels=(GROUPED,),
             draw=lambda pick: own_sizes(pick, C_in=3 * pick(1, 3), C_out=3 * pick(1, 3), groups=3)),
        Case("own_sizes_depthwise", note="sizes that belong to your file", kernels=(DEPTHWISE,),
             draw=lambda pick: own_sizes(pick, C_in=3, C_out=3 * pick(1, 3), groups=3)),
        Case("many_tiles", size(1, 4129, 1, 2, 2, 1, 1, groups=1), kernels=(GROUPED,), stress=True,
             note="more tiles of 16 channels than a byte can count"),
        Case("many_groups", size(2, 257, 2, 3, 514, 1, 2, groups=257), stress=True,
             note="more groups than a byte can count"),
        Case("large_image", size(1, 1, 263, 259, 1, 2, 2, groups=1), kernels=(DEPTHWISE,), stress=True,
             note="more pixels than 16 bits can count"),
        *(replace(case, kernels=(GROUPED,)) for case in stress_cases_of_tiles(groups=1)),
        Case("counted", size(2, 16, 8, 8, 16, 3, 3, pad=(1, 1), groups=4),
             note="4 groups of 4 channels and 4 filters: the gates'", kernels=(GROUPED,)),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    gates=(
        Gate("global_bytes", lambda d: int(1.5 * must_move(d)), case="counted", kernels=(GROUPED,),
             below=893_440, hint=1,
             says="A tile of 16 x 16 needs each element of its rows of grad_output and of its columns of "
                  "windows once: let the block read them into shared memory, as in puzzle 32."),
        Gate("flops", flops_in_tiles, case="counted", kernels=(GROUPED,), hint=1,
             says="Where a tile is larger than the product of its group, threads multiply zeros: choose a "
                  "TILE nearer to the filters and the columns of a group."),
        Gate("global_load_sectors", lambda d: int(1.02 * sectors_read_once(d)), case="counted_depthwise",
             kernels=(DEPTHWISE,), below=7_150, hint=2,
             says="No element is needed by two blocks: read each once, and keep the rows of the input that "
                  "the next stretch needs too. A sector has 8 elements."),
        *tile_limits("counted", GROUPED, of_groups, but="flops"),
        # each product takes a pixel and reads and writes a sum in shared memory; at the end a warp adds up its sums
        *Gate.limits("counted_depthwise", DEPTHWISE,
                     flops=lambda d: 1.05 * (2 * taps(d) + (d["THREADS"] + 5 * 32) * weights(d)),
                     global_requests=lambda d: 1.25 * 8 * sectors_read_once(d) / 32 + weights(d),
                     shared_wavefronts=lambda d: 1.25 * (4 * taps(d) + 2 * d["THREADS"] * weights(d)) / 32),
    ),
    hints=(
        "Within a group the first kernel is puzzle 32's: rows are filters of the group, columns its "
        "channels and taps, and all positions are one split. Filters and channels of a group start at the "
        "group's number times how many a group has; in the weights, slices count from 0 in every group. "
        "Tails end with the group, not with the array: row `filters` of a tile belongs to another block.",
        "Put stretch after stretch of ROWS rows of grad_output. The first row of the input that it meets is "
        "the position's row times the stride, less the padding; `keep` rows from there are all that it "
        "needs, as far as they exist. Rows that the stretch before has fetched are in the ring: remember "
        "the first that is not, starting over for every image. Rows lie one after another in both, so element i of "
        "an image belongs at i modulo keep * W. Then each thread takes elements of the stretch, and for "
        "each filter of the channel one of grad_output, for all taps.",
        "The barrier before the products is for the new rows, the one after them for those that will be "
        "overwritten. A thread's sums are its own until the end. Then each warp takes a weight: its lanes "
        "add up the THREADS sums 32 apart, then as in puzzle 20. The weights of channel c are filters * R * "
        "S numbers in a row.",
    ),
)  # fmt: skip
