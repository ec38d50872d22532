"""Puzzle 32: the weight gradient as an implicit matrix product, its sums split over blocks, in two passes."""

from __future__ import annotations

import numpy as np

from harness.course import (  # fmt: skip
    Case,
    Gate,
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
from harness.course.conv_cases import (  # fmt: skip
    ints,
    one_thread_each,
    options,
    output_sizes,
    own_sizes,
    shape,
    size,
    stress_cases_of_tiles,
)
from harness.course.conv_mistakes import convolution, fetched, weight_gradient
from harness.course.tile_limits import tile_limits
from harness.course.tile_mistakes import multiplied, turned
from reference import conv

SPLIT, ADD, TILE = "conv2d_backward_weights_split", "add_splits", 16


def shares(d, length=None):
    """For every split its positions, of all images; length: how many, by default the right number."""
    i = np.arange(d["batch"] * d["H_out"] * d["W_out"])
    length = ceil_div(i.size, d["splits"]) if length is None else length
    return [i[split * length :][:length] for split in range(d["splits"])]


def only(a, d, positions):
    """grad_output with 0 at all positions but these."""
    kept = np.isin(np.arange(d["batch"] * d["H_out"] * d["W_out"]), positions)
    return a["grad_output"] * kept.reshape(d["batch"], 1, d["H_out"], d["W_out"])


def partials(a, d, of=None, layer=None):
    """The sums of every split: [splits, C_out, C_in, R, S]. of: their positions. layer: of a wrong kernel."""
    parts = [{**a, "grad_output": only(a, d, positions)} for positions in (shares(d) if of is None else of)]
    if layer is not None:
        return np.stack([weight_gradient(part, layer) for part in parts])
    filters = shape(d, "C_out", "C_in", "R", "S")
    more = {"weight_shape": filters, **options(d)}
    return np.stack([conv.backward_weights(p["grad_output"], a["input"], **more) for p in parts])


def stretches(a, d, kept):
    """The sums from those positions for which kept(n, end) holds: number n of the `end` of a split."""
    return partials(a, d, [s[kept(np.arange(s.size), s.size)] for s in shares(d)])


def taps_turned(a, d):
    """The tap of a column is found as if the rows of the filter were the fastest axis."""
    right = partials(a, d)
    return right.swapaxes(-1, -2).reshape(right.shape)


def windows_turned(a, d):
    """The product of every split with its tiles of windows read as if their rows were columns."""
    weights = np.indices(shape(d, "C_in", "R", "S")).reshape(3, -1)
    grads, windows = a["grad_output"].swapaxes(0, 1).reshape(d["C_out"], -1), fetched(a, d, *weights).T
    found = [
        multiplied(grads[:, s], turned(windows[s], TILE), d["C_out"], weights.shape[1]) for s in shares(d)
    ]
    return np.reshape(found, shape(d, "splits", "C_out", "C_in", "R", "S"))


def into_the_next_split(d):
    """The positions of every split to the end of its last stretch."""
    last = d["batch"] * d["H_out"] * d["W_out"]
    return [
        np.arange(s[0], min(s[0] + ceil_div(s.size, TILE) * TILE, last)) if s.size else s for s in shares(d)
    ]


def channel_by_channel(grad_output):
    """What is read where the images of a channel are taken to lie together: [k, b] for [b, k]."""
    batch, filters = grad_output.shape[:2]
    return grad_output.reshape(filters, batch, *grad_output.shape[2:]).swapaxes(0, 1)


def must_move(d, tile=TILE):
    """Bytes: grad_output for every column of tiles, the windows for every row, and the sums of the splits."""
    columns = d["C_in"] * d["R"] * d["S"]
    reads = ceil_div(columns, tile) * d["C_out"] + ceil_div(d["C_out"], tile) * columns
    positions = d["batch"] * d["H_out"] * d["W_out"]
    return 4 * (positions * reads + d["splits"] * d["C_out"] * columns)


def wrong(id, hint, says, compute, kernel=SPLIT):
    return Misconception(id, kernel, says, compute, hint)


def other_layer(id, hint, says, change):
    """A kernel that takes the layer for another one."""
    return wrong(id, hint, says, lambda a, d: partials(a, d, layer=change(convolution(d))))


MISCONCEPTIONS = (
    wrong("remainder_lost", 1,
          "The last positions are in no split: positions / splits is rounded down; it has to be rounded up.",
          lambda a, d: partials(a, d, shares(d, d["batch"] * d["H_out"] * d["W_out"] // d["splits"]))),
    wrong("one_position_twice", 1,
          "Every split takes one position too many, the first of the next split.",
          lambda a, d: partials(a, d, [np.append(s, s[-1:] + 1) for s in shares(d)])),
    wrong("all_positions_in_every_split", 1,
          "Every split holds the sums over all positions: the block's split must limit its stretches.",
          lambda a, d: partials(a, d, [np.concatenate(shares(d))] * d["splits"])),
    wrong("first_split_again", 1,
          "Every split holds the sums of split 0: its stretches must begin at its own first position.",
          lambda a, d: partials(a, d, [shares(d)[0]] * d["splits"])),
    wrong("into_the_next_split", 2,
          "The last stretch of a split goes on with positions of the next one: past the split's end the tiles "
          "hold 0.",
          lambda a, d: partials(a, d, into_the_next_split(d))),
    wrong("tail_of_a_split_missing", 2,
          "The positions after the last full stretch of a split are missing: the last tiles are used too, "
          "filled up with 0.",
          lambda a, d: stretches(a, d, lambda n, end: n < end // TILE * TILE)),
    wrong("last_stretch_only", 2,
          "Only the last stretch of every split is in the sum: it starts again for every pair of tiles.",
          lambda a, d: stretches(a, d, lambda n, end: n >= (end - 1) // TILE * TILE)),
    wrong("last_of_a_stretch_missing", 2,
          "The last product of every pair of tiles is missing: there are TILE of them.",
          lambda a, d: stretches(a, d, lambda n, end: n % TILE < TILE - 1)),
    other_layer("stride_ignored", 2,
                "The filter moves by 1 from position to position; it must move by the stride.",
                lambda layer: layer.but(stride_h=1, stride_w=1)),
    other_layer("padding_ignored", 2,
                "The filter starts at the image's first row and column; it must start outside, by the "
                "padding.",
                lambda layer: layer.but(pad_h=0, pad_w=0)),
    other_layer("dilation_ignored", 2,
                "The taps of the filter lie side by side; they must be a dilation apart.",
                lambda layer: layer.but(dilation_h=1, dilation_w=1)),
    wrong("taps_turned", 3, "The column is split with r as the fastest axis; in the weights it is s.",
          taps_turned),
    wrong("windows_turned", 3, "The tiles of windows are read as if their rows were columns.", windows_turned),
    wrong("grad_output_channel_by_channel", 2,
          "grad_output is read as if the images of a channel lay together; channel k of image b begins at "
          "(b * C_out + k) * H_out * W_out.",
          lambda a, d: partials({**a, "grad_output": channel_by_channel(a["grad_output"])}, d)),
    wrong("image_0_of_the_input", 3,
          "All images of grad_output meet image 0 of the input: b is missing in the index of the input.",
          lambda a, d: partials({**a, "input": np.broadcast_to(a["input"][:1], a["input"].shape)}, d)),
    wrong("split_0_only", 3, "This is split 0 alone: the others are not added.", lambda a, d: a["partial"][0],
          ADD),
    wrong("last_split_only", 3,
          "This is the last split alone: the sum is overwritten (=) instead of added to (+=).",
          lambda a, d: a["partial"][-1], ADD),
    wrong("splits_side_by_side", 3,
          "The splits of a weight are taken to lie side by side; each split is a whole array of weights.",
          lambda a, d: a["partial"].reshape(-1, d["splits"]).sum(1).reshape(a["partial"].shape[1:]), ADD),
)  # fmt: skip

TILES = "windows[TILE][TILE + 1];"
TAP = "int s = j % S, r = j / S % R, c = j / (S * R);"
LENGTH = "int length = (positions + splits - 1) / splits;"
SHARE = "int first = split * length, last = min(first + length, positions);"
LOOP = "for (int start = first; start < last; start += TILE) {"
ROW = "int h = p * stride_h - pad_h + r * dilation_h;"
COLUMN = "int w = q * stride_w - pad_w + s * dilation_w;"
GRADS = "grads[y][x] = i < last && k < C_out ?"
WINDOWS = "windows[y][x] = i < last && inside ? input[((b * C_in + c) * H + h) * W + w] : 0.0f;"
FULL = "__syncthreads();  // both tiles are full"
USED = "__syncthreads();  // nobody needs them any more"
STEPS = "for (int n = 0; n < TILE; n++) {"
PRODUCT = "sum += grads[y][n] * windows[x][n];"
STORE = "if (k < C_out && column < columns) partial[(split * C_out + k) * columns + column] = sum;"
ADD_LOOP = "for (int split = 0; split < splits; split++) {"
PUZZLE_13 = """int own = j - y + x;
    for (int i = first; i < last && k < C_out && own < columns; i++) {
        int q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
        int h = p * stride_h - pad_h + own / S % R * dilation_h;
        int w = q * stride_w - pad_w + own % S * dilation_w;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
        float pixel = input[((b * C_in + own / (S * R)) * H + h) * W + w];
        sum += grad * pixel;
    }
    """


def mutant(name, old, new, expect="wrong", also=(), line="", kernel=SPLIT):
    return Mutant(name, kernel, old, new, expect, also, line)


def both(name, row, column, expect):
    """A mutant with another row and another column of the input."""
    return mutant(name, ROW, row, expect, also=((COLUMN, column),))


MUTANTS = (
    # right, not yet fast
    mutant("no tiles, as in puzzle 13", LOOP, PUZZLE_13 + LOOP.replace("start = first", "start = last"),
           "slow",
           line="float pixel = input["),
    mutant("tiles of 8", "constexpr int TILE = 16;", "constexpr int TILE = 8;", "slow"),
    mutant("windows not padded", TILES, TILES.replace("TILE + 1", "TILE"), "slow", line=PRODUCT),
    mutant("splits added with atomics", "sum += partial[split * weights + idx];",
           "atomicAdd(&grad_weights[idx], partial[split * weights + idx]);", "slow", kernel=ADD,
           line="atomicAdd(",
           also=((ADD_LOOP, "grad_weights[idx] = sum;\n    " + ADD_LOOP),
                 ("    }\n    grad_weights[idx] = sum;", "    }"))),
    mutant("a barrier for every product", PRODUCT, "__syncthreads();\n            " + PRODUCT, "slow",
           line="waits of warps at barriers"),
    mutant("second pass: neighbours far apart", "if (idx >= weights) return;", "if (idx >= weights) return;\n"
           "    if (weights % 16 == 0) idx = idx % (weights / 16) * 16 + idx / (weights / 16);", "slow",
           line="add_splits: 115,200 bytes of global memory", kernel=ADD),
    # the splits
    mutant("length rounded down", LENGTH, "int length = positions / splits;", "remainder_lost"),
    mutant("a position too many", SHARE, SHARE.replace("first + length,", "first + length + 1,"),
           "one_position_twice"),
    mutant("all positions", SHARE, "int first = 0, last = positions;", "all_positions_in_every_split"),
    mutant("last split not cut", SHARE, "int first = split * length, last = first + length;",
           "out-of-bounds"),
    mutant("stretch not cut at the end of the split", GRADS, GRADS.replace("i < last", "i < positions"),
           "into_the_next_split",
           also=((WINDOWS, WINDOWS.replace("i < last", "i < positions")),)),
    mutant("all splits into one workspace", STORE, STORE.replace("(split * C_out + k)", "k"), "race"),
    # barriers
    mutant("tiles not waited for", FULL, "", "race"),
    mutant("tiles filled again too early", USED, "", "race"),
    mutant("threads without a weight leave", "float sum = 0.0f;",
           "if (k >= C_out || j - y + x >= columns) return;\n    float sum = 0.0f;",
           ("uninitialised-read", "race")),
    # tails
    mutant("tail of the split missing", LOOP, LOOP.replace("start < last", "start + TILE <= last"),
           "tail_of_a_split_missing"),
    mutant("no zeros in the windows", WINDOWS,
           "if (i < last && inside) windows[y][x] = input[((b * C_in + c) * H + h) * W + w];",
           ("uninitialised-read", "wrong")),
    mutant("rows of grad_output not tested", GRADS, "grads[y][x] = i < last ?", "out-of-bounds"),
    mutant("stored outside of the weights", STORE, STORE.replace(" && column < columns", ""),
           ("out-of-bounds", "race")),
    # the sum
    mutant("sum starts again for every stretch", LOOP, LOOP + " sum = 0.0f;", "last_stretch_only"),
    mutant("split 0 again", SHARE, "int first = 0, last = min(length, positions);", "first_split_again"),
    mutant("one step too few in a tile", STEPS, STEPS.replace("TILE", "TILE - 1"),
           "last_of_a_stretch_missing"),
    # the windows
    both("stride ignored", ROW.replace(" * stride_h", ""), COLUMN.replace(" * stride_w", ""),
         "stride_ignored"),
    both("padding ignored", ROW.replace(" - pad_h", ""), COLUMN.replace(" - pad_w", ""), "padding_ignored"),
    mutant("tiles of windows turned", PRODUCT, PRODUCT.replace("[x][n]", "[n][x]"), "windows_turned"),
    mutant("grad_output channel by channel", GRADS + " grad_output[((b * C_out + k) * H_out + p) * W_out + q]",
           GRADS + " grad_output[k * positions + i]", "grad_output_channel_by_channel"),
    mutant("taps turned", TAP, "int r = j % R, s = j / R % S, c = j / (S * R);", "taps_turned"),
    mutant("image 0 of the input", WINDOWS, WINDOWS.replace("(b * C_in + c)", "c"), "image_0_of_the_input"),
    # the second pass
    mutant("split 0 only", ADD_LOOP, ADD_LOOP.replace("< splits", "< 1"), "split_0_only", kernel=ADD),
    mutant("overwritten instead of added", "sum += partial", "sum = partial", "last_split_only", kernel=ADD),
    mutant("splits side by side", "partial[split * weights + idx]", "partial[idx * splits + split]",
           "splits_side_by_side", kernel=ADD),
    mutant("no guard", "if (idx >= weights) return;", "", "out-of-bounds", kernel=ADD),
    both("dilation ignored", ROW.replace(" * dilation_h", ""), COLUMN.replace(" * dilation_w", ""),
         "dilation_ignored"),
)  # fmt: skip


def loss(w, a, d):
    """A loss whose gradient is grad_output where every split of the positions has weights of its own."""
    pairs = zip(shares(d), w, strict=True)
    return sum(np.sum(only(a, d, i) * conv.forward(a["input"], own, **options(d))) for i, own in pairs)


def tiles(d, t):
    """Blocks in x: the tiles of the gradient, row of tiles after row; in y: the splits."""
    side = t["TILE"]
    number = ceil_div(d["C_out"], side) * ceil_div(d["C_in"] * d["R"] * d["S"], side)
    return Launch(grid=(number, d["splits"]), block=(side, side))


FILTERS = {"k": "C_out", "c": "C_in", "r": "R", "s": "S"}

PUZZLE = Puzzle(
    title="Gradient of the weights as an implicit matrix product",
    part=4,
    teaches="How a matrix that is never stored is multiplied, and how blocks share a long sum.",
    practice=(
        "CUTLASS splits this sum too (split-K), either with a workspace and a second kernel, as here, or "
        "one block after the other."
    ),
    lines=31,
    kernels=(
        Kernel(
            SPLIT,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                In("input", b="batch", c="C_in", h="H", w="W"),
                Out("partial", t="splits", **FILTERS), *ints("splits"),
            ),
            launch=tiles,
            reference=lambda a, d: partials(a, d),
        ),
        Kernel(
            ADD,
            params=(In("partial", t="splits", **FILTERS), Out("grad_weights", **FILTERS), Int("splits"),
                    Int("weights")),
            launch=one_thread_each("C_out", "C_in", "R", "S"),
            reference=lambda a, d: a["partial"].sum(0),
        ),
    ),
    dims=lambda d: {
        **output_sizes(d), "threads": 128, "splits": 2, "weights": d["C_out"] * d["C_in"] * d["R"] * d["S"],
        **d,
    },
    gradient_of={SPLIT: Gradient(loss)},
    bench=size(128, 128, 71, 71, 256, 3, 3, stride=(2, 2), pad=(1, 1), splits=16),
    cases=(
        Case(
            "implicit_bw_tiny", size(1, 1, 3, 3, 2, 2, 2, stride=(2, 2), pad=(1, 1)),
            note="done by hand in the lesson",
            inputs={
                "grad_output": [[[[1, 2], [3, -1]], [[0, 1], [-1, 2]]]],
                "input": [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
                "partial": [[[[[0, 0], [4, 7]]], [[[0, 0], [2, 3]]]],
                            [[[[-5, 6], [-8, 12]]], [[[10, 8], [16, 11]]]]],
            },
        ),
        Case("output_1x1", size(3, 2, 4, 3, 3, 4, 3, splits=5),
             note="3 positions for 5 splits: two have none"),
        Case("drawn", size(1, 1, 5, 5, 6, 3, 3, pad=(1, 1), stride=(2, 2)),
             note="the picture, with tiles of 4 x 4"),
        Case("filter_1x1_stride_2", size(2, 17, 7, 9, 3, 1, 1, stride=(2, 2), splits=1),
             note="one split; a column more than a tile"),
        Case("one_channel_wide", size(3, 1, 5, 8, 17, 2, 3, pad=(0, 2)),
             note="a row more than a tile; W > H"),
        Case("implicit_bw_numerical_gradient_check",
             size(2, 2, 5, 4, 2, 3, 2, pad=(1, 0), stride=(1, 2), dilation=(2, 1)),
             note="each weight moved by epsilon", check="gradient"),
        Case("integers", size(2, 3, 9, 6, 4, 3, 3, stride=(2, 1), pad=(2, 1), dilation=(1, 2), splits=3),
             note="exact sums; nothing divides", values="integers"),
        Case("strides_differ",
             size(2, 2, 10, 9, 3, 3, 2, stride=(2, 3), pad=(1, 2), dilation=(2, 1), splits=1),
             note="no two parameters of rows and columns agree"),
        Case("long_splits", size(3, 1, 7, 6, 2, 2, 2),
             note="splits of 45 positions: three stretches, the last not full"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: own_sizes(pick, C_out=pick(2, 20), splits=pick(2, 5))),
        *stress_cases_of_tiles(),
        Case("many_tiles", size(1, 4129, 1, 2, 2, 1, 1), stress=True,
             note="more tiles of 16 channels than a byte can count"),
        Case("many_splits", size(2, 1, 12, 12, 2, 1, 1, splits=257), stress=True,
             note="more splits than a byte can count"),
        Case("counted", size(2, 3, 12, 12, 16, 5, 5),
             note="LeNet's second layer, 3 of 6 channels, 2 images: the gates'"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    gates=(
        Gate("global_bytes", lambda d: int(1.5 * must_move(d)), case="counted", kernels=(SPLIT,),
             below=1_803_968, hint=2,
             says="A tile of 16 x 16 needs each element of its rows of grad_output and of its columns of "
                  "windows once: let the block read them into shared memory, neighbours along the "
                  "positions."),
        Gate("global_atomic_operations", 0, case="counted", hint=3,
             says="The order of atomic additions changes from run to run, and with it the last bits of the "
                  "sum. Store every split's sums in a place of its own; the second kernel adds them in "
                  "order."),
        Gate("conflicts_per_request", 0.1, case="counted", kernels=(SPLIT,), hint=3,
             says="Lanes that want the same position of neighbouring windows want words a row of the tile apart: rows "
             "of an odd length bring them into different banks (puzzle 25)."),
        *tile_limits("counted", SPLIT, lambda d: [(d["C_out"], d["C_in"] * d["R"] * d["S"], s.size) for s in shares(d)]),
        *Gate.limits("counted", ADD, flops=lambda d: 1.05 * d["splits"] * d["weights"],
                     global_bytes=lambda d: 1.3 * 4 * (d["splits"] + 1) * d["weights"],
                     global_requests=lambda d: 1.1 * (d["splits"] + 1) * ceil_div(d["weights"], 32),
                     global_requests_busiest=lambda d: 2 * (d["splits"] + 1) * ceil_div(d["weights"], d["threads"])),
    ),
    hints=(
        "The gradient is a matrix with a row for each output channel and a column for each weight of a "
        "filter. Its element is a sum over all positions of all images, counted in one go. A split has "
        "positions / splits of them, rounded up, and the last splits may have fewer, or none; their blocks "
        "still store zeros. blockIdx.x counts the tiles of the gradient, row of tiles after row.",
        "The walk is that of puzzle 26, from the split's first position on, TILE at a time. When filling, "
        "let x count positions in both tiles: then one division of the position into image, row and column "
        "serves both, and neighbouring threads read neighbouring elements. y is a channel in one tile and a "
        "column in the other; the column's channel and tap do not change along the walk. Row and column of "
        "the input follow as in puzzle 13. What lies outside of the image, after the split or beside the "
        "matrix is 0.",
        "When multiplying, y is the row and x the column of the gradient: step n takes row y of the first "
        "tile and row x of the second, both at n. So neighbours are a row apart in the second tile, and its "
        "rows should be one word longer than TILE. Weight (c, r, s) is column (c * R + r) * S + s. The "
        "workspace has a whole array of weights for each split; the second kernel adds one weight of each, "
        "from split 0 on.",
    ),
)  # fmt: skip
