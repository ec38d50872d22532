"""Puzzle 28: im2col, the matrix whose columns are the patches under the filter."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, Gate, In, Kernel, Out, Puzzle
from backwarp.course.conv_cases import (
    ALONE_IN_COLUMNS,
    COUNTED_COLUMNS,
    MATRIX,
    as_columns,
    column_case,
    column_ints,
    column_sizes,
    own_sizes,
    unfolding,
)
from backwarp.course.mistakes import slow
from backwarp.course.sizes import integers, one_thread_each, with_inputs

KERNEL = "im2col"


def columns(a, d):
    return as_columns(conv.unfold(a["input"], **unfolding(d)))


COLUMN, CHANNEL = "int column = idx % width;", "int c = idx / width;"
STORE = "columns[row * width + column] = pixel;"

MISTAKES = (
    slow("channels next to each other", STORE, ("idx % width", "idx / C_in"), ("idx / width", "idx % C_in")),
    slow(
        "the patch in an array that is indexed at run time",
        "bytes of local memory",
        ("columns[row * width + column]", "patch[row % (R * S)]"),
        ("for (int r = 0; r < R; r++) {", "float patch[64];\n    for (int r = 0; r < R; r++) {"),
        (
            "            patch[row % (R * S)] = pixel;\n        }\n    }\n",
            "            patch[row % (R * S)] = pixel;\n        }\n    }\n#pragma unroll 1\n    for (int n = 0; n < R * S; n++) "
            "columns[(c * R * S + n) * width + column] = patch[n];\n",
        ),
    ),
)


def stores(d):
    """Requests that write the matrix, a float for each lane; as many read it."""
    return d["rows"] * d["width"] / 32


PUZZLE = Puzzle(
    title="The image as a matrix of patches",
    part=4,
    teaches="How a convolution becomes a matrix product, and what the matrix costs.",
    practice="Caffe computed its convolutions this way; torch.nn.Unfold is im2col as an operator of its own.",
    lines=17,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("input", b="batch", c="C_in", h="H", w="W"),
                Out("columns", i="rows", j="width").merging(**MATRIX),
                *column_ints(),
            ),
            launch=one_thread_each("C_in", "batch", "H_out", "W_out"),
            reference=columns,
        ),
    ),
    dims=lambda d: {**column_sizes(d), "threads": 128, **d},
    bench=column_case(32, 64, 56, 56, 3, 3, pad=(1, 1)),
    cases=(
        with_inputs(
            "im2col_tiny",
            column_case(1, 1, 3, 4, 2, 2, stride=(2, 1), pad=(1, 0), dilation=(1, 2)),
            "the image of puzzle 13; done by hand in the lesson",
            input=[[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]],
        ),
        with_inputs(
            "one_pixel",
            column_case(1, 2, 3, 4, 2, 2, pad=(0, 1)),
            "one pixel is 1; it is in the matrix 4 times",
            input=np.arange(24) == 17,
        ),
        Case("filter_1x1", column_case(2, 3, 3, 5, 1, 1), "the image again, the channels in front"),
        Case("one_position", column_case(2, 3, 4, 3, 4, 3), "the filter as large as the image"),
        Case("one_channel", column_case(3, 1, 6, 5, 3, 2, pad=(1, 1)), "a row is just a tap"),
        integers(column_case(2, 3, 7, 5, 3, 2), "exact numbers"),
        *ALONE_IN_COLUMNS,
        Case("padding_wider_than_filter", column_case(1, 2, 3, 4, 2, 2, pad=(3, 2)), "patches of zeros only"),
        own_sizes(threads=(30, 90)),
        COUNTED_COLUMNS,
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_store_sectors",
            lambda d: 4.5 * stores(d),
            below=9_216,
            hint=3,
            says="Elements that lie far apart take a sector each. Along a row of the matrix the position "
            "changes, q the fastest: let it change from thread to thread, the channel the slowest.",
        ),
        Gate(
            "global_load_sectors",
            lambda d: 6 * stores(d),
            below=8_448,
            hint=3,
            says="Pixels that lie far apart take a sector each: let q change from thread to thread.",
        ),
        *Gate.limits(global_requests=lambda d: 1.1 * 2 * stores(d), flops=0),
    ),
    hints=(
        "Start from the forward kernel of puzzle 13. The element under tap (r, s) of the filter at position "
        "(p, q) lies in the row and the column that you computed there, from stride, padding and dilation. "
        "Here nothing is multiplied and nothing is added: the element itself is stored.",
        "A row of the matrix belongs to a tap (c, r, s): they are numbered like the elements of one filter "
        "in memory, s the fastest, so that the weights, as they are, make a matrix with the same order. "
        "Every element of the matrix must be written; where a tap lies on padding, write 0.",
        "A column belongs to a position (b, p, q), numbered with q the fastest and b the slowest. A warp "
        "writes side by side if its threads have neighbouring columns in the same row: so idx counts through "
        "the columns first (remainder), and the channel is what is left (quotient).",
    ),
)
