"""Puzzle 32: the weight gradient as an implicit matrix product, its sums split over blocks, in two passes."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, Gate, Gradient, In, Int, Kernel, Launch, Out, Puzzle, ceil_div
from backwarp.course.conv_cases import ints, options, output_sizes, own_sizes, shape, size
from backwarp.course.mistakes import Mistake, mistakes_in, slow
from backwarp.course.sizes import by_hand, gradient_check, integers, one_thread_each
from backwarp.course.tile_limits import tile_limits

SPLIT, ADD, TILE = "conv2d_backward_weights_split", "add_splits", 16


def shares(d):
    """For every split its positions, of all images."""
    i = np.arange(d["batch"] * d["H_out"] * d["W_out"])
    length = ceil_div(i.size, d["splits"])
    return [i[split * length :][:length] for split in range(d["splits"])]


def only(a, d, positions):
    """grad_output with 0 at all positions but these."""
    kept = np.isin(np.arange(d["batch"] * d["H_out"] * d["W_out"]), positions)
    return a["grad_output"] * kept.reshape(d["batch"], 1, d["H_out"], d["W_out"])


def partials(a, d):
    """The sums of every split: [splits, C_out, C_in, R, S]."""
    more = {"weight_shape": shape(d, "C_out", "C_in", "R", "S"), **options(d)}
    found = np.zeros((d["splits"], *more["weight_shape"]))
    for split, i in enumerate(shares(d)):
        if i.size:
            found[split] = conv.backward_weights(only(a, d, i), a["input"], **more)
    return found


def must_move(d, tile=TILE):
    """Bytes: grad_output for every column of tiles, the windows for every row, and the sums of the splits."""
    columns = d["C_in"] * d["R"] * d["S"]
    reads = ceil_div(columns, tile) * d["C_out"] + ceil_div(d["C_out"], tile) * columns
    positions = d["batch"] * d["H_out"] * d["W_out"]
    return 4 * (positions * reads + d["splits"] * d["C_out"] * columns)


LOOP = "for (int start = first; start < last; start += TILE) {"
PRODUCT = "sum += grads[y][n] * windows[x][n];"
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

MISTAKES = (
    *mistakes_in(
        SPLIT,
        slow(
            "no tiles, as in puzzle 13",
            "float pixel = input[",
            (LOOP, PUZZLE_13 + LOOP.replace("start = first", "start = last")),
        ),
        slow("windows not padded", PRODUCT, ("TILE + 1", "TILE")),
        slow(
            "a barrier for every product",
            "waits of warps at barriers",
            (PRODUCT, "__syncthreads();\n            " + PRODUCT),
        ),
        Mistake(
            "stretch not cut at the end of the split",
            (("last && k", "positions && k"), ("i < last", "i < positions")),
            says="The last stretch of a split goes on in the next one: past its end the tiles hold 0.",
            hint=2,
        ),
    ),
    *mistakes_in(
        ADD,
        slow(
            "splits added with atomics",
            "atomicAdd(",
            (
                "sum += partial[split * weights + idx]",
                "atomicAdd(&grad_weights[idx], partial[split * weights + idx])",
            ),
            (ADD_LOOP, "grad_weights[idx] = sum;\n    " + ADD_LOOP),
            ("    }\n    grad_weights[idx] = sum;", "    }"),
        ),
        slow(
            "second pass: neighbours far apart",
            "add_splits: 115,200 bytes of global memory",
            (
                "if (idx >= weights) return;",
                "if (idx >= weights) return;\n"
                "    if (weights % 16 == 0) idx = idx % (weights / 16) * 16 + idx / (weights / 16);",
            ),
        ),
    ),
)


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
    practice="CUTLASS splits this sum too (split-K), either with a workspace and a second kernel, as here, "
    "or one block after the other.",
    lines=31,
    kernels=(
        Kernel(
            SPLIT,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                In("input", b="batch", c="C_in", h="H", w="W"),
                Out("partial", t="splits", **FILTERS),
                *ints("splits"),
            ),
            launch=tiles,
            reference=partials,
        ),
        Kernel(
            ADD,
            params=(
                In("partial", t="splits", **FILTERS),
                Out("grad_weights", **FILTERS),
                Int("splits"),
                Int("weights"),
            ),
            launch=one_thread_each("C_out", "C_in", "R", "S"),
            reference=lambda a, d: a["partial"].sum(0),
        ),
    ),
    dims=lambda d: {
        **output_sizes(d),
        "threads": 128,
        "splits": 2,
        "weights": d["C_out"] * d["C_in"] * d["R"] * d["S"],
        **d,
    },
    gradient_of={SPLIT: Gradient(loss)},
    bench=size(128, 128, 71, 71, 256, 3, 3, stride=(2, 2), pad=(1, 1), splits=16),
    cases=(
        by_hand(
            "implicit_bw_tiny",
            size(1, 1, 3, 3, 2, 2, 2, stride=(2, 2), pad=(1, 1)),
            grad_output=[[[[1, 2], [3, -1]], [[0, 1], [-1, 2]]]],
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
            partial=[
                [[[[0, 0], [4, 7]]], [[[0, 0], [2, 3]]]],
                [[[[-5, 6], [-8, 12]]], [[[10, 8], [16, 11]]]],
            ],
        ),
        Case("output_1x1", size(3, 2, 4, 3, 3, 4, 3, splits=5), "3 positions for 5 splits: two have none"),
        Case("drawn", size(1, 1, 5, 5, 6, 3, 3, pad=(1, 1), stride=(2, 2)), "the picture, in tiles of 4"),
        Case(
            "filter_1x1_stride_2",
            size(2, 17, 7, 9, 3, 1, 1, stride=(2, 2), splits=1),
            "one split, 17 columns",
        ),
        Case("one_channel_wide", size(3, 1, 5, 8, 17, 3, 5, pad=(0, 2)), "17 rows, 15 columns; W > H"),
        gradient_check(
            "implicit_bw_numerical_gradient_check",
            size(2, 2, 5, 4, 2, 3, 2, pad=(1, 0), stride=(1, 2), dilation=(2, 1)),
        ),
        integers(
            size(2, 3, 9, 6, 4, 3, 3, stride=(2, 1), pad=(2, 1), dilation=(1, 2), splits=3, threads=32),
            "exact sums; nothing divides",
        ),
        Case(
            "strides_differ",
            size(2, 8, 10, 9, 18, 3, 2, stride=(2, 3), pad=(1, 2), dilation=(2, 1), splits=1),
            "three full tiles of columns; every parameter differs between rows and columns",
        ),
        Case("long_splits", size(3, 1, 7, 6, 2, 2, 2), "45 positions: three stretches, the last not full"),
        own_sizes(C_out=(2, 20), splits=(2, 5)),
        Case(
            "counted",
            size(2, 3, 12, 12, 16, 5, 5),
            "LeNet's second layer, 3 of 6 channels, 2 images: the case of the gates",
            again=lambda pick: size(3, pick(4, 6), 10, 18, 32, 3, 3, splits=3),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_bytes",
            lambda d: int(1.5 * must_move(d)),
            kernels=(SPLIT,),
            below=1_803_968,
            hint=2,
            says="A tile of 16 x 16 needs each element of its rows of grad_output and of its columns of "
            "windows once: let the block read them into shared memory, neighbours along the positions.",
        ),
        Gate(
            "global_atomic_operations",
            0,
            hint=3,
            says="The order of atomic additions changes from run to run, and with it the last bits of the "
            "sum. Store every split's sums in a place of its own; the second kernel adds them in order.",
        ),
        Gate(
            "conflicts_per_request",
            0.2,
            kernels=(SPLIT,),
            hint=3,
            says="Lanes that want the same position of neighbouring windows want words that are a row of the "
            "tile apart: with rows of an odd length these are in different banks (puzzle 25).",
        ),
        *tile_limits(SPLIT, lambda d: [(d["C_out"], d["C_in"] * d["R"] * d["S"], s.size) for s in shares(d)]),
        *Gate.limits(
            ADD,
            flops=lambda d: 1.05 * d["splits"] * d["weights"],
            global_bytes=lambda d: 1.3 * 4 * (d["splits"] + 1) * d["weights"],
            global_requests=lambda d: 1.1 * (d["splits"] + 1) * ceil_div(d["weights"], 32),
            global_requests_busiest=lambda d: 2 * (d["splits"] + 1) * ceil_div(d["weights"], d["threads"]),
        ),
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
        "the input follow as in puzzle 13. What lies outside of the image, past the split or beside the "
        "matrix is 0.",
        "When multiplying, y is the row and x the column of the gradient: step n takes row y of the first "
        "tile and row x of the second, both at n. So neighbours are a row apart in the second tile, and its "
        "rows should be one word longer than TILE. Weight (c, r, s) is column (c * R + r) * S + s. The "
        "workspace has a whole array of weights for each split; the second kernel adds one weight of each, "
        "from split 0 on.",
    ),
)
