"""Puzzle 30: the convolution as a tiled product with a column matrix that is computed, not stored."""

from __future__ import annotations

from backwarp.course import Case, Gate, Mistake, Puzzle
from backwarp.course.conv_cases import ALONE, COUNTED_IN_TILES, column_sizes, ints, own_sizes, size
from backwarp.course.convolutions import forward
from backwarp.course.mistakes import slow
from backwarp.course.sizes import integers, with_inputs
from backwarp.course.tile_limits import implicit_product, in_tiles, one_tile_each, tile_limits

KERNEL = "implicit_gemm_forward"
LOOP = "for (int start = 0; start < rows; start += TILE) {"
USED = "__syncthreads();  // nobody needs them any more"
ADD = "sum += filters[y][i] * patches[i][x];"
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

MISTAKES = (
    slow(
        "no tiles, as in puzzle 13",
        "sum += weights[k * rows + (c * R + r) * S + s]",
        (LOOP, PUZZLE_13 + LOOP.replace("start = 0", "start = rows")),
    ),
    slow(
        "tile of pixels kept by columns",
        ADD.replace("[i][x]", "[x][i]"),
        ("patches[y][x]", "patches[x][y]"),
        ("patches[i][x]", "patches[x][i]"),
    ),
    slow(
        "a line of the tile in an array that is indexed at run time",
        "bytes of local memory",
        ("sum += filters[y][i] *", "line[i] ="),
        ("for (int i = 0; i < TILE; i++) {", "float line[TILE];\n        for (int i = 0; i < TILE; i++) {"),
        (
            "        " + USED,
            "#pragma unroll 1\n        for (int i = 0; i < TILE; i++) sum += filters[y][i] * line[i];\n"
            "        " + USED,
        ),
    ),
    Mistake(
        "blocks exchanged",
        (("y * TILE", "x * TILE"), ("x * TILE + x", "y * TILE + x")),
        says="Block (x, y) computes the tile of (y, x): x counts the tiles of positions, y those of filters.",
    ),
)

PUZZLE = Puzzle(
    title="Implicit GEMM, forward",
    part=4,
    teaches="How a convolution is a matrix product without the matrix: its tiles are filled from the image.",
    practice="The first paper on cuDNN (Chetlur et al., 2014) forms the tiles of the matrix on the fly like "
    "this; CUTLASS calls it implicit GEMM, too.",
    lines=24,
    kernels=(forward(KERNEL, one_tile_each, ints()),),
    dims=lambda d: {**column_sizes(d), **d},
    bench=size(128, 128, 71, 71, 256, 3, 3, stride=(2, 2), pad=(1, 1)),
    cases=(
        with_inputs(
            "implicit_gemm_tiny",
            size(1, 1, 3, 4, 1, 2, 2, stride=(2, 1), pad=(1, 0), dilation=(1, 2)),
            "the layer of puzzle 28; done by hand in the lesson",
            input=[[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]],
            weights=[[[[2, -1], [1, 3]]]],
            bias=[1],
        ),
        Case("filter_1x1", size(2, 5, 3, 4, 3, 1, 1), "the column matrix is the image"),
        Case("one_position", size(2, 3, 4, 3, 5, 4, 3), "the filter as large as the image"),
        Case("one_channel", size(3, 1, 6, 5, 2, 3, 2, pad=(1, 1)), "a row is just a tap"),
        Case("drawn", size(1, 2, 4, 6, 5, 2, 3), "drawn in the lesson, with tiles of 4 x 4"),
        integers(size(2, 3, 7, 5, 4, 3, 2)),
        Case("full_tiles", size(2, 4, 5, 5, 16, 2, 2), "nothing to guard: 16 x 16 times 16 x 32"),
        *ALONE,
        Case("nothing_divides", size(1, 5, 7, 6, 17, 3, 3, pad=(1, 1)), "17 filters, 45 rows, 42 positions"),
        own_sizes(C_out=(2, 20)),
        COUNTED_IN_TILES,
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "bytes_per_flop",
            0.3,
            below=2.8,
            hint=2,
            says="Neighbours need the same filters and patches: let the block read each of them once, into "
            "shared memory, and let x run along a filter in the one tile and along positions in the other. "
            "The larger the tiles, the fewer blocks read the same.",
        ),
        Gate(
            "global_bytes",
            lambda d: 1.03 * 4 * (512 * in_tiles(implicit_product(d))[1] + d["C_out"] * d["width"]),
            below=226_304,
            hint=2,
            says="This moves at least as much as writing the column matrix and reading it again: read each "
            "pixel straight from the image, once for every tile that needs it.",
        ),
        Gate(
            "conflicts_per_request",
            0.2,
            hint=2,
            says="Lanes that want different words of one bank wait for each other (puzzle 25): the thread's "
            "x should be the last index.",
        ),
        *tile_limits(KERNEL, implicit_product),
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
        "the product's matrix: the element of filter k at (b, p, q) is stored where the output has it, batch "
        "the slowest, then the filter, then row and column.",
    ),
)
