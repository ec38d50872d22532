"""Puzzle 28: im2col, the matrix whose columns are the patches under the filter."""

from __future__ import annotations

import numpy as np

from harness.course import Case, Gate, In, Kernel, Misconception, Mutant, Out, Puzzle
from harness.course.conv_cases import (  # fmt: skip
    as_columns,
    column_case,
    column_ints,
    column_sizes,
    one_tap_filters,
    one_thread_each,
    options,
    own_sizes,
    shape,
)
from harness.course.conv_mistakes import convolution, grid_sum
from reference import conv

KERNEL = "im2col"


def columns(a, d):
    return as_columns(conv.forward(a["input"], one_tap_filters(d), **options(d)))


# ---- what wrong kernels compute ----------------------------------------------------------------------------


def layer_of(d):
    return convolution({**d, "C_out": d["rows"]})


def taken(layer, a, d):
    """The columns, with the elements that a layer with other numbers in it finds."""
    return as_columns(grid_sum(layer, a["input"], one_tap_filters(d)))


def edges_repeated(a, d):
    wide = np.pad(a["input"], ((0, 0), (0, 0), *[(p, p) for p in (d["pad_h"], d["pad_w"])]), mode="edge")
    return taken(layer_of(d).but(pad_h=0, pad_w=0), {"input": wide}, d)


def axes(a, d):
    """The matrix with its six axes: c, r, s, b, p, q."""
    return columns(a, d).reshape(shape(d, "C_in", "R", "S", "batch", "H_out", "W_out"))


def matrix(six, d):
    return six.reshape(d["rows"], d["width"])


def wrong(id, hint, says, compute):
    return Misconception(id, KERNEL, says, compute, hint)


MISCONCEPTIONS = (
    wrong("stride_ignored", 1,
          "The filter moves by 1 from position to position; it must move by the stride.",
          lambda a, d: taken(layer_of(d).but(stride_h=1, stride_w=1), a, d)),
    wrong("dilation_ignored", 1,
          "The taps of the filter lie side by side; they must be a dilation apart.",
          lambda a, d: taken(layer_of(d).but(dilation_h=1, dilation_w=1), a, d)),
    wrong("padding_ignored", 1,
          "The filter starts at the image's first row and column; it must start outside, by the padding.",
          lambda a, d: taken(layer_of(d).but(pad_h=0, pad_w=0), a, d)),
    wrong("padding_added", 1,
          "The padding is added to the row and the column; it must be subtracted: "
          "position 0 is the padding above the image.",
          lambda a, d: taken(layer_of(d).but(pad_h=-d["pad_h"], pad_w=-d["pad_w"]), a, d)),
    wrong("stride_and_dilation_exchanged", 1,
          "Stride and dilation have changed places: positions are a stride apart, taps a dilation.",
          lambda a, d: taken(layer_of(d).but(
              stride_h=d["dilation_h"], dilation_h=d["stride_h"],
              stride_w=d["dilation_w"], dilation_w=d["stride_w"]), a, d)),
    wrong("strides_swapped", 1,
          "The rows are counted with stride_w and the columns with stride_h: exchange them.",
          lambda a, d: taken(layer_of(d).swapped("stride"), a, d)),
    wrong("edges_repeated", 2,
          "Outside of the image, the nearest pixel is used; the padding is zeros.", edges_repeated),
    wrong("padding_not_written", 2,
          "Where a tap lies on padding nothing is written: the matrix is not zero before you come, so write the "
          "zeros too.",
          lambda a, d: np.where(columns({"input": np.ones_like(a["input"])}, d) > 0, columns(a, d), np.nan)),
    wrong("first_channel_everywhere", 2,
          "The rows of all channels hold the pixels of channel 0: c is missing in the index of the input.",
          lambda a, d: matrix(np.broadcast_to(axes(a, d)[:1], axes(a, d).shape), d)),
    wrong("first_image_everywhere", 3,
          "The columns of all images hold the pixels of image 0: b is missing in the index of the input.",
          lambda a, d: matrix(np.broadcast_to(axes(a, d)[:, :, :, :1], axes(a, d).shape), d)),
    wrong("filter_turned", 2,
          "The rows of a channel stand in the opposite order: tap (0, 0) has the first of them.",
          lambda a, d: matrix(axes(a, d)[:, ::-1, ::-1], d)),
    wrong("taps_by_columns", 2,
          "The right rows in another order: r is taken to be the fastest index of a row, it is s.",
          lambda a, d: matrix(axes(a, d).transpose(0, 2, 1, 3, 4, 5), d)),
    wrong("channels_fastest", 2,
          "The right rows in another order: c is taken to be the fastest index of a row, it is the slowest.",
          lambda a, d: matrix(axes(a, d).transpose(1, 2, 0, 3, 4, 5), d)),
    wrong("images_fastest", 3,
          "The right columns in another order: b is taken to be the fastest index of a column, it is q.",
          lambda a, d: matrix(axes(a, d).transpose(0, 1, 2, 4, 5, 3), d)),
    wrong("matrix_turned", 3,
          "The matrix is written with a row for every position; it has a row for every tap.",
          lambda a, d: columns(a, d).T.reshape(d["rows"], d["width"])),
)  # fmt: skip

COLUMN, CHANNEL = "int column = idx % width;", "int c = idx / width;"
ROW = "int h = p * stride_h - pad_h + r * dilation_h;"
COL = "int w = q * stride_w - pad_w + s * dilation_w;"
INSIDE = "bool inside = h >= 0 && h < H && w >= 0 && w < W;"
PIXEL = "float pixel = inside ? input[((b * C_in + c) * H + h) * W + w] : 0.0f;"
TAP = "int row = (c * R + r) * S + s;"
STORE = "columns[row * width + column] = pixel;"


def both(name, row, column, expect):
    """A mutant with another row and another column of the image."""
    return Mutant(name, KERNEL, ROW, row, expect, ((COL, column),))


def one(name, old, new, expect="wrong", also=(), line=""):
    return Mutant(name, KERNEL, old, new, expect, also, line)


MUTANTS = (
    # right, not yet fast
    one("channels next to each other", COLUMN, "int column = idx / C_in;", "slow",
        also=((CHANNEL, "int c = idx % C_in;"),), line=STORE),
    one("a thread's position counted down the image",
        "int q = column % W_out;", "int q = column / H_out % W_out;", "slow", also=(
                      ("int p = column / W_out % H_out;", "int p = column % H_out;"),
                      (STORE, "columns[row * width + (b * H_out + p) * W_out + q] = pixel;")),
        line="columns[row * width + (b * H_out + p) * W_out + q] = pixel;"),
    one("zeros everywhere first", PIXEL, "columns[((c * R + r) * S + s) * width + column] = 0.0f;\n            "
        "__syncwarp(__activemask());\n            " + PIXEL, "slow", line="global store sectors"),
    one("the patch in an array that is indexed at run time", STORE, "patch[row % (R * S)] = pixel;", "slow",
        (("for (int r = 0; r < R; r++) {", "float patch[64];\n    for (int r = 0; r < R; r++) {"),
         ("            patch[row % (R * S)] = pixel;\n        }\n    }\n",
          "            patch[row % (R * S)] = pixel;\n        }\n    }\n#pragma unroll 1\n    for (int n = 0; n < R * S; n++) "
          "columns[(c * R * S + n) * width + column] = patch[n];\n")), "bytes of local memory"),
    # where the taps lie
    both("stride ignored", ROW.replace(" * stride_h", ""), COL.replace(" * stride_w", ""), "stride_ignored"),
    both("dilation ignored", ROW.replace(" * dilation_h", ""), COL.replace(" * dilation_w", ""),
         "dilation_ignored"),
    both("padding ignored", ROW.replace(" - pad_h", ""), COL.replace(" - pad_w", ""), "padding_ignored"),
    both("padding added", ROW.replace("- pad", "+ pad"), COL.replace("- pad", "+ pad"), "padding_added"),
    both("stride and dilation exchanged", "int h = p * dilation_h - pad_h + r * stride_h;",
         "int w = q * dilation_w - pad_w + s * stride_w;", "stride_and_dilation_exchanged"),
    both("strides swapped", ROW.replace("stride_h", "stride_w"), COL.replace("stride_w", "stride_h"),
         "strides_swapped"),
    both("edges repeated", ROW + " h = min(max(h, 0), H - 1);", COL + " w = min(max(w, 0), W - 1);",
         "edges_repeated"),
    # the padding
    one("padding not written", INSIDE, INSIDE + " if (!inside) continue;", "padding_not_written"),
    one("rows below the image not tested", INSIDE, INSIDE.replace(" && h < H", ""), "out-of-bounds"),
    # which element, and where it goes
    one("channel missing", PIXEL, PIXEL.replace("b * C_in + c", "b * C_in"), "first_channel_everywhere"),
    one("image missing", PIXEL, PIXEL.replace("(b * C_in + c)", "c"), "first_image_everywhere"),
    one("filter turned", TAP, "int row = (c * R + R - 1 - r) * S + S - 1 - s;", "filter_turned"),
    one("taps by columns", TAP, "int row = (c * S + s) * R + r;", "taps_by_columns"),
    one("channels fastest", TAP, "int row = (r * S + s) * C_in + c;", "channels_fastest"),
    one("images fastest", STORE, "columns[row * width + (p * W_out + q) * batch + b] = pixel;",
        "images_fastest"),
    one("matrix turned", STORE, "columns[column * C_in * R * S + row] = pixel;", "matrix_turned"),
)  # fmt: skip


def stores(d):
    """Requests that write the matrix, a float for each lane; as many read it."""
    return d["rows"] * d["width"] / 32


PUZZLE = Puzzle(
    title="The image as a matrix of patches",
    part=4,
    teaches="How a convolution becomes a matrix product, and what the matrix costs.",
    practice="Caffe computed its convolutions so; torch.nn.Unfold is im2col as an operator of its own.",
    lines=17,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("input", b="batch", c="C_in", h="H", w="W"), Out("columns", i="rows", j="width"),
                *column_ints(),
            ),
            launch=one_thread_each("C_in", "batch", "H_out", "W_out"),
            reference=columns,
        ),
    ),
    dims=lambda d: {**column_sizes(d), "threads": 128, **d},
    bench=column_case(32, 64, 56, 56, 3, 3, pad=(1, 1)),
    cases=(
        Case(
            "im2col_tiny", column_case(1, 1, 3, 4, 2, 2, stride=(2, 1), pad=(1, 0), dilation=(1, 2)),
            note="the image of puzzle 13; done by hand in the lesson",
            inputs={"input": [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]]},
        ),
        Case("one_pixel", column_case(1, 2, 3, 4, 2, 2, pad=(0, 1)), inputs={"input": np.arange(24) == 17},
             note="one pixel is 1, the matrix has it 4 times"),
        Case("filter_1x1", column_case(2, 3, 3, 5, 1, 1), note="the image again, the channels in front"),
        Case("one_position", column_case(2, 3, 4, 3, 4, 3), note="the filter as large as the image"),
        Case("one_channel", column_case(3, 1, 6, 5, 3, 2, pad=(1, 1)), note="rows for taps alone"),
        Case("integers", column_case(2, 3, 7, 5, 3, 2), note="exact numbers", values="integers"),
        Case("stride_alone", column_case(2, 3, 9, 7, 3, 2, stride=(2, 3)), note="rows by 2, columns by 3"),
        Case("padding_alone", column_case(2, 3, 4, 6, 3, 2, pad=(1, 2)), note="1 row, 2 columns of zeros"),
        Case("dilation_alone", column_case(2, 2, 8, 9, 3, 3, dilation=(2, 3)), note="gaps of 1 and of 2"),
        Case("all_asymmetric", column_case(2, 3, 9, 8, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2)),
             note="no two parameters of rows and columns agree"),
        Case("padding_wider_than_filter", column_case(1, 2, 3, 4, 2, 2, pad=(3, 2)),
             note="patches of zeros only"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: own_sizes(pick, threads=pick(30, 90))),
        Case("large_image", column_case(1, 1, 263, 259, 1, 2), stress=True,
             note="more pixels than 16 bits can count"),
        Case("many_channels", column_case(2, 261, 1, 2, 1, 1), stress=True,
             note="more channels than a byte can count"),
        Case("filter_257x1", column_case(1, 1, 259, 2, 257, 1), stress=True,
             note="more taps in a column than a byte can count"),
        Case("filter_1x257", column_case(1, 2, 2, 259, 1, 257), stress=True,
             note="more taps in a row than a byte can count"),
        Case("counted", column_case(2, 16, 8, 8, 3, 3, pad=(1, 1)),
             note="144 x 128 elements from 16 x 128 pixels; this one is counted"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    gates=(
        Gate(
            "global_store_sectors", lambda d: 4.5 * stores(d), case="counted", below=9_216, hint=3,
            says="Elements that lie far apart take a sector each. Along a row of the matrix the position changes, q "
            "the fastest: let it change from thread to thread, the channel the slowest.",
        ),
        Gate(
            "global_load_sectors", lambda d: 6 * stores(d), case="counted", below=8_448, hint=3,
            says="Pixels that lie far apart take a sector each: let q change from thread to thread.",
        ),
        *Gate.limits("counted", global_requests=lambda d: 1.1 * 2 * stores(d), flops=0),
    ),
    hints=(
        "Start from the forward kernel of puzzle 13. The element under tap (r, s) of the filter at position "
        "(p, q) lies in the row and the column that you computed there, from stride, padding and dilation. "
        "Here nothing is multiplied and nothing is added: the element itself is stored.",
        "A row of the matrix belongs to a tap (c, r, s): they are numbered like the elements of one filter "
        "in memory, s the fastest, so that the weights, as they are, make a matrix with the same order. "
        "Every element of the matrix must be written; where a tap lies on padding, write 0.",
        "A column belongs to a position (b, p, q), numbered with q the fastest and b the slowest. A warp "
        "writes side by side if its threads have neighbouring columns in the same row: so idx counts "
        "through the columns first (remainder), and the channel is what is left (quotient).",
    ),
)  # fmt: skip
