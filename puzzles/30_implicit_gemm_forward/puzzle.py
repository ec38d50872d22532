"""Puzzle 30: the convolution as a tiled product with a column matrix that is computed, not stored."""

from __future__ import annotations

import numpy as np

from harness.course import Case, Gate, In, Kernel, Launch, Misconception, Mutant, Out, Puzzle, ceil_div
from harness.course.conv_cases import column_sizes, ints, options, own_sizes, size, stress_cases_of_tiles
from harness.course.conv_mistakes import convolution, fetched, forward, matrices, outputs, product, some_rows
from harness.course.tile_limits import tile_limits
from harness.course.tile_mistakes import blocks_exchanged, multiplied, rows_by_x, turned
from reference import conv

KERNEL, TILE = "implicit_gemm_forward", 16


# ---- what wrong kernels compute ----------------------------------------------------------------------------


def first_pixels_again(a, d):
    """The right answer, with the columns' first tile in the place of all."""
    filters, columns = matrices(a, d)
    return product(a, d, filters, columns[np.arange(d["rows"]) % TILE])


def as_matrix(a, d):
    """The product stored as it is, C_out x width."""
    filters, columns = matrices(a, d)
    found = filters @ columns + a["bias"][:, None]
    return found.reshape(d["batch"], d["C_out"], d["H_out"], d["W_out"])


def split_as(a, d, *order):
    """Row i split into indices of this order, the fastest first: the pixels meet other weights."""
    i, found = np.arange(d["rows"]), {}
    for name in order:
        i, found[name] = np.divmod(i, d[name])
    return product(a, d, matrices(a, d)[0], fetched(a, d, found["C_in"], found["R"], found["S"]))


def of_tiles(compute):
    """The output of the sums that compute(filters, columns, d) gives."""
    return lambda a, d: outputs(a, d, compute(*matrices(a, d), d))


def layer(a, d, **other):
    return forward(a, convolution(d).but(**other))


def wrong(id, hint, says, compute):
    return Misconception(id, KERNEL, says, compute, hint)


MISCONCEPTIONS = (
    wrong("dilation_ignored", 1,
          "The taps of the filter lie side by side; they must be a dilation apart.",
          lambda a, d: layer(a, d, dilation_h=1, dilation_w=1)),
    wrong("bias_missing", 1,
          "The bias is missing: it is added once to every output.",
          lambda a, d: forward({**a, "bias": 0 * a["bias"]}, convolution(d))),
    wrong("first_image_everywhere", 3,
          "The outputs of all images are those of image 0: b is missing in the index of the input.",
          lambda a, d: np.broadcast_to(layer(a, d)[:1], layer(a, d).shape)),
    wrong("taps_by_columns", 3,
          "The pixels meet the weights of other taps: r is taken to be the fastest index of a row, it is s.",
          lambda a, d: split_as(a, d, "R", "S", "C_in")),
    wrong("channels_fastest", 3,
          "The pixels meet the weights of other taps: c is taken to be the fastest index of a row, it is the "
          "slowest.",
          lambda a, d: split_as(a, d, "C_in", "S", "R")),
    wrong("weights_turned", 3,
          "The weights are read as if they had a row for every tap: those of filter k begin at k * rows.",
          lambda a, d: product(a, d, a["weights"].reshape(d["rows"], d["C_out"]).T, matrices(a, d)[1])),
    wrong("rows_by_x", 2,
          "In the tile of pixels x counts the rows of the matrix as well: y counts them, x the positions.",
          of_tiles(lambda filters, columns, d: rows_by_x(filters, columns, TILE))),
    wrong("pixels_turned", 2,
          "The tiles of pixels are read as if their rows were columns.",
          of_tiles(lambda filters, columns, d: multiplied(
              filters, turned(columns, TILE), d["C_out"], d["width"]))),
    wrong("blocks_exchanged", 1,
          "Block (x, y) computes the tile of block (y, x): x counts the tiles of positions, y those of "
          "filters.",
          of_tiles(lambda filters, columns, d: blocks_exchanged(filters @ columns, TILE))),
    wrong("bias_in_every_step", 1,
          "The bias is added once for every pair of tiles; it belongs to the sum once.",
          lambda a, d: forward({**a, "bias": a["bias"] * ceil_div(d["rows"], TILE)}, convolution(d))),
    wrong("output_as_matrix", 3,
          "The outputs are stored as the product has them, a row for every filter; in the output, the "
          "filters of one image stand together.", as_matrix),
    wrong("tail_missing", 2,
          "The rows after the last full tile are missing: the last tiles are used too, filled up with 0.",
          lambda a, d: some_rows(a, d, lambda i: i < d["rows"] // TILE * TILE)),
    wrong("last_tile_only", 2,
          "Only the products of the last pair of tiles are in the sum: it starts again for every tile.",
          lambda a, d: some_rows(a, d, lambda i: i >= (d["rows"] - 1) // TILE * TILE)),
    wrong("first_pixels_again", 2,
          "Every tile of weights meets the first tile of pixels: the start of the stretch is missing.",
          first_pixels_again),
)  # fmt: skip

DOWN, RIGHT = "int h = top + r * dilation_h;", "int w = left + s * dilation_w;"
LOOP = "for (int start = 0; start < rows; start += TILE) {"
FILTERS = "filters[y][x] = k < C_out && start + x < rows ? weights[k * rows + start + x] : 0.0f;"
ROW = "int row = start + y;"
SPLIT = "int s = row % S, r = row / S % R, c = row / (S * R);"
INSIDE = "bool inside = row < rows && column < width && h >= 0 && h < H && w >= 0 && w < W;"
PATCHES = "patches[y][x] = inside ? input[((b * C_in + c) * H + h) * W + w] : 0.0f;"
USED = "__syncthreads();  // nobody needs them any more"
ADD = "sum += filters[y][i] * patches[i][x];"
STORE = "if (k < C_out && column < width) output[((b * C_out + k) * H_out + p) * W_out + q] = bias[k] + sum;"
PIXEL = "sum += weights[k * rows + (c * R + r) * S + s] * input[((b * C_in + c) * H + h) * W + w];"
PUZZLE_13 = f"""\
for (int c = 0; c < C_in && k < C_out && column < width; c++) {{
        for (int r = 0; r < R; r++) {{
            for (int s = 0; s < S; s++) {{
                int h = top + r * dilation_h, w = left + s * dilation_w;
                if (h < 0 || h >= H || w < 0 || w >= W) continue;
                {PIXEL}
            }}
        }}
    }}
    """


def mutant(name, old, new, expect="wrong", also=(), line=""):
    return Mutant(name, KERNEL, old, new, expect, also, line)


MUTANTS = (
    # right, not yet fast
    mutant("no tiles, as in puzzle 13", LOOP, PUZZLE_13 + LOOP.replace("start = 0", "start = rows"), "slow",
           line="sum += weights[k * rows + (c * R + r) * S + s]"),
    mutant("tiles of 8", "constexpr int TILE = 16;", "constexpr int TILE = 8;", "slow"),
    mutant("tile of pixels kept by columns", PATCHES, PATCHES.replace("[y][x]", "[x][y]"), "slow",
           also=((ADD, ADD.replace("[i][x]", "[x][i]")),), line=ADD.replace("[i][x]", "[x][i]")),
    mutant("a line of the tile in an array that is indexed at run time", ADD, "line[i] = patches[i][x];", "slow",
           (("for (int i = 0; i < TILE; i++) {", "float line[TILE];\n        for (int i = 0; i < TILE; i++) {"),
            ("        " + USED, "#pragma unroll 1\n        for (int i = 0; i < TILE; i++) sum += filters[y][i] * line[i];\n"
             "        " + USED)), "bytes of local memory"),
    # the convolution
    mutant("bias in every step", USED, USED + "\n        if (k < C_out) sum += bias[k];", "bias_in_every_step",
           also=((STORE, STORE.replace("bias[k] + ", "")),)),
    mutant("image missing", PATCHES, PATCHES.replace("(b * C_in + c)", "c"), "first_image_everywhere"),
    mutant("taps by columns", SPLIT, "int r = row % R, s = row / R % S, c = row / (S * R);",
           "taps_by_columns"),
    mutant("channels fastest", SPLIT, "int c = row % C_in, s = row / C_in % S, r = row / (S * C_in);",
           "channels_fastest"),
    mutant("weights turned", FILTERS, FILTERS.replace("k * rows + start + x", "(start + x) * C_out + k"),
           "weights_turned"),
    mutant("rows by x", ROW, ROW.replace("y", "x"), "rows_by_x"),
    mutant("tile of pixels turned", ADD, ADD.replace("[i][x]", "[x][i]"), "pixels_turned"),
    mutant("blocks exchanged", "blockIdx.y * TILE + y", "blockIdx.x * TILE + y", "blocks_exchanged",
           also=(("blockIdx.x * TILE + x", "blockIdx.y * TILE + x"),)),
    mutant("output as a matrix", STORE,
           "if (k < C_out && column < width) output[k * width + column] = bias[k] + sum;",
           "output_as_matrix"),
    # tails
    mutant("tail missing", LOOP, LOOP.replace("start < rows", "start + TILE <= rows"), "tail_missing"),
    mutant("pixels below the last row", INSIDE, INSIDE.replace("row < rows && ", ""),
           ("out-of-bounds", "wrong")),
    mutant("no zeros", PATCHES, "if (inside) patches[y][x] = input[((b * C_in + c) * H + h) * W + w];",
           ("uninitialised-read", "wrong")),
    # the sum
    mutant("start missing in the pixels", SPLIT, SPLIT.replace("row", "y"), "first_pixels_again"),
    mutant("tiles filled again too early", USED, "", "race"),
    mutant("threads without an output leave", "float sum = 0.0f;",
           "if (k >= C_out || column >= width) return;\n    float sum = 0.0f;",
           ("uninitialised-read", "race")),
    mutant("dilation ignored", DOWN, DOWN.replace(" * dilation_h", ""), "dilation_ignored",
           also=((RIGHT, RIGHT.replace(" * dilation_w", "")),)),
    mutant("bias missing", STORE, STORE.replace("bias[k] + ", ""), "bias_missing"),
    mutant("sum starts again for every tile", LOOP, LOOP + " sum = 0.0f;", "last_tile_only"),
)  # fmt: skip

PUZZLE = Puzzle(
    title="Implicit GEMM, forward",
    part=4,
    teaches="How a convolution is a matrix product without the matrix: its tiles are filled from the image.",
    practice=(
        "The first paper on cuDNN (Chetlur et al., 2014) forms the tiles of the matrix on the fly like "
        "this; CUTLASS calls it implicit GEMM, too."
    ),
    lines=24,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("input", b="batch", c="C_in", h="H", w="W"),
                In("weights", k="C_out", c="C_in", r="R", s="S"), In("bias", k="C_out"),
                Out("output", b="batch", k="C_out", p="H_out", q="W_out"), *ints(),
            ),
            launch=lambda d, t: Launch(
                grid=(ceil_div(d["width"], t["TILE"]), ceil_div(d["C_out"], t["TILE"])),
                block=(t["TILE"], t["TILE"]),
            ),
            reference=lambda a, d: conv.forward(a["input"], a["weights"], a["bias"], **options(d)),
        ),
    ),
    dims=lambda d: {**column_sizes(d), **d},
    bench=size(128, 128, 71, 71, 256, 3, 3, stride=(2, 2), pad=(1, 1)),
    cases=(
        Case(
            "implicit_gemm_tiny", size(1, 1, 3, 4, 1, 2, 2, stride=(2, 1), pad=(1, 0), dilation=(1, 2)),
            note="the layer of puzzle 28; done by hand in the lesson",
            inputs={
                "input": [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]],
                "weights": [[[[2, -1], [1, 3]]]],
                "bias": [1],
            },
        ),
        Case("filter_1x1", size(2, 5, 3, 4, 3, 1, 1), note="the column matrix is the image"),
        Case("one_position", size(2, 3, 4, 3, 5, 4, 3), note="the filter as large as the image"),
        Case("one_channel", size(3, 1, 6, 5, 2, 3, 2, pad=(1, 1)), note="rows for taps alone"),
        Case("drawn", size(1, 2, 4, 6, 5, 2, 3), note="drawn in the lesson, with tiles of 4 x 4"),
        Case("integers", size(2, 3, 7, 5, 4, 3, 2), note="exact sums", values="integers"),
        Case("full_tiles", size(2, 4, 5, 5, 16, 2, 2), note="nothing to guard: 16 x 16 times 16 x 32"),
        Case("stride_alone", size(2, 3, 9, 7, 4, 3, 2, stride=(2, 3)), note="rows by 2, columns by 3"),
        Case("padding_alone", size(2, 3, 4, 6, 2, 3, 2, pad=(1, 2)), note="1 row, 2 columns of zeros"),
        Case("dilation_alone", size(2, 2, 8, 9, 3, 3, 3, dilation=(2, 3)), note="gaps of 1 and of 2"),
        Case("all_asymmetric", size(2, 3, 9, 8, 4, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2)),
             note="no two parameters of rows and columns agree"),
        Case("nothing_divides", size(1, 5, 7, 6, 17, 3, 3, pad=(1, 1)),
             note="17 filters, 45 rows, 42 positions"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: own_sizes(pick, C_out=pick(2, 20))),
        *stress_cases_of_tiles(),
        Case("counted", size(1, 16, 8, 8, 32, 3, 3, pad=(1, 1)),
             note="2 x 4 blocks, 9 pairs of tiles; this one is counted"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    gates=(
        Gate(
            "bytes_per_flop", 0.3, case="counted", below=2.8, hint=2,
            says="Neighbours need the same filters and patches: let the block read each of them once, into shared "
            "memory, and let x go along a filter in the one tile and along positions in the other. The larger "
            "the tiles, the fewer blocks read the same.",
        ),
        Gate(
            "global_bytes", 160_000, case="counted", below=226_304, hint=2,
            says="This is as much as writing the column matrix and reading it again, or more: read pixels "
            "from the image, once for every tile that it is in.",
        ),
        Gate(
            "conflicts_per_request", 0.1, case="counted", hint=2,
            says="Lanes that want different words of one bank wait for each other (puzzle 25): the thread's x should "
            "be the last index.",
        ),
        *tile_limits("counted", KERNEL, lambda d: [(d["C_out"], d["width"], d["rows"])]),
    ),
    hints=(
        "Take your kernel of puzzle 26 and call its matrices by their new names: A is the weights, C_out x "
        "rows, exactly as they are in memory; B is the column matrix, rows x width. Only one line of it "
        "reads B. In its place goes what puzzle 28 computes for one element: which tap, which position, "
        "where in the image that is, and 0 if it is padding. The bias is added when the sum is stored.",
        "In a tile of pixels, the thread's x counts positions and y counts rows. Its position is the same in "
        "all stretches, so split it before the loop, and keep the image row and column of the patch's upper "
        "left corner. Its row of the matrix is the start of the stretch and y; it changes with every "
        "stretch, and so do its tap and channel. Both barriers stay where they were.",
        "A row of the matrix is split like an element of a filter: remainder by S is s, then remainder by R "
        "is r, and the rest is c. A column is split by W_out and H_out into q, p and b. The output is not "
        "the product's matrix: the element of filter k at (b, p, q) is stored where the output has it, "
        "batch the slowest, then the filter, then row and column.",
    ),
)  # fmt: skip
