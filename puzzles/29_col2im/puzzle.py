"""Puzzle 29: col2im, the adjoint of im2col, gathered by the elements of the image."""

from __future__ import annotations

import numpy as np

from harness.course import Case, Gate, Gradient, In, InOut, Kernel, Misconception, Mutant, Puzzle
from harness.course.conv_cases import (  # fmt: skip
    as_columns,
    column_case,
    column_ints,
    column_sizes,
    from_columns,
    one_tap_filters,
    one_thread_each,
    options,
    own_sizes,
    shape,
)
from harness.course.conv_mistakes import (  # fmt: skip
    convolution,
    gather,
    image_sum,
    position,
    remainder_ignored,
    remainder_of_the_element,
    remainder_positive_only,
    table,
)
from reference import conv

KERNEL = "col2im"


def image_of(a, d):
    grid = from_columns(a["grad_columns"], d)
    return conv.backward_input(grid, one_tap_filters(d), shape(d, "batch", "C_in", "H", "W"), **options(d))


def loss(x, a, d):
    """A loss whose gradient at the column matrix is grad_columns, as a function of the image."""
    return np.sum(a["grad_columns"] * as_columns(conv.forward(x, one_tap_filters(d), **options(d))))


# ---- what wrong kernels compute ----------------------------------------------------------------------------


def gathered(a, d, columns=None, **other):
    """The image, gathered by a layer with other numbers in it, or from another matrix."""
    grid = from_columns(a["grad_columns"] if columns is None else columns, d)
    return image_sum(convolution({**d, "C_out": d["rows"]}).but(**other), grid, one_tap_filters(d))


def swapped(a, d, name):
    """The parameter of the rows for the columns and the other way round."""
    return gathered(a, d, **{f"{name}_h": d[f"{name}_w"], f"{name}_w": d[f"{name}_h"]})


def rows_in_order(a, d, *order):
    """The image from the matrix with its rows taken to be numbered by other axes, the fastest last."""
    seen = a["grad_columns"].reshape(*shape(d, *order), d["width"])
    c_r_s = [order.index(name) for name in ("C_in", "R", "S")]
    return gathered(a, d, seen.transpose(*c_r_s, 3).reshape(d["rows"], -1))


def columns_in_order(a, d):
    """The image from the matrix with its columns taken to be numbered with b the fastest."""
    seen = a["grad_columns"].reshape(shape(d, "rows", "H_out", "W_out", "batch"))
    return gathered(a, d, seen.transpose(0, 3, 1, 2).reshape(d["rows"], d["width"]))


def broadcast(a, d, *axes):
    """The image from a matrix whose entries are those at 0 of these axes, of c, r, s, b, p, q."""
    six = a["grad_columns"].reshape(shape(d, "C_in", "R", "S", "batch", "H_out", "W_out"))
    for axis in axes:
        six = np.broadcast_to(six.take([0], axis), six.shape)
    return gathered(a, d, six.reshape(d["rows"], d["width"]))


def left_at_the_first(h, r, stride, pad, dilation):
    """The loop over the taps ends with the first that has no position."""
    p = position(h, r, stride, pad, dilation)
    return np.where(np.logical_and.accumulate(p >= 0, axis=1), p, -1)


def past_the_last(a, d, rows, columns):
    """The image where positions below `rows` and `columns` are taken to exist: NaN where that leaves the matrix."""
    layer, found = convolution({**d, "C_out": d["rows"]}), np.zeros(shape(d, "batch", "C_in", "H", "W"))
    flat = np.append(a["grad_columns"].ravel(), np.nan)
    b, c = np.arange(d["batch"])[:, None, None, None], np.arange(d["C_in"])[:, None, None]
    for r, s in np.ndindex(layer.R, layer.S):
        p = table(position, layer.H, layer.R, layer.rows)[:, r, None]
        q = table(position, layer.W, layer.S, layer.columns)[:, s]
        row, column = (c * layer.R + r) * layer.S + s, (b * layer.P + p) * layer.Q + q
        place = np.minimum(row * d["width"] + column, flat.size - 1)
        found += np.where((p >= 0) & (p < rows) & (q >= 0) & (q < columns), flat[place.clip(0)], 0)
    return found


def overwritten(a, d):
    """Of the entries of an image element the last alone: the sum is set, not added to."""
    layer, found = convolution({**d, "C_out": d["rows"]}), np.zeros(shape(d, "batch", "C_in", "H", "W"))
    p = table(layer.position, layer.H, layer.R, layer.rows)
    q = table(layer.position, layer.W, layer.S, layer.columns)
    met = gather(from_columns(a["grad_columns"], d), p, q)
    for r, s in np.ndindex(layer.R, layer.S):
        there = ((p >= 0) & (p < layer.P))[:, r, None] & ((q >= 0) & (q < layer.Q))[:, s]
        of_the_tap = met[:, r * layer.S + s :: layer.R * layer.S, :, r, :, s]
        found = np.where(there, of_the_tap, found)
    return found


def wrong(id, hint, says, compute):
    return Misconception(id, KERNEL, says, compute, hint)


MISCONCEPTIONS = (
    wrong("remainder_ignored", 2,
          "Elements between the steps of the filter get the entry of the position before them: "
          "a position exists only where the division by the stride leaves no remainder.",
          lambda a, d: gathered(a, d, position=remainder_ignored)),
    wrong("remainder_of_a_negative", 2,
          "Entries of positions above or left of the first one are counted at position 0: "
          "in C, -1 / 2 is 0 and -1 % 2 is -1.",
          lambda a, d: gathered(a, d, position=remainder_positive_only)),
    wrong("remainder_of_the_element", 1,
          "The remainder of the element's own row is tested; the steps to divide include padding and tap.",
          lambda a, d: gathered(a, d, position=remainder_of_the_element)),
    wrong("columns_past_the_last", 2,
          "Positions past the last column of the output are taken: q must be less than W_out, or it is a position "
          "of the next row.",
          lambda a, d: past_the_last(a, d, d["H_out"], np.inf)),
    wrong("rows_past_the_last", 2,
          "Positions past the last row of the output are taken: p must be less than H_out, or it is a position of "
          "the next image.",
          lambda a, d: past_the_last(a, d, np.inf, d["W_out"])),
    wrong("one_row_past_the_last", 2,
          "Position p = H_out is taken, a position of the next image: p runs to H_out - 1.",
          lambda a, d: past_the_last(a, d, d["H_out"] + 1, d["W_out"])),
    wrong("left_at_the_first", 2,
          "The loops end with the first tap that has no position: it says nothing about the next one (continue, "
          "not break).",
          lambda a, d: gathered(a, d, position=left_at_the_first)),
    wrong("image_0_of_the_columns", 3,
          "All images get the entries of image 0: b is missing in the number of the column.",
          lambda a, d: broadcast(a, d, 3)),
    wrong("channel_0_of_the_rows", 3,
          "All channels get the entries of channel 0: c is missing in the number of the row.",
          lambda a, d: broadcast(a, d, 0)),
    wrong("padding_ignored", 1,
          "The padding is missing: row h of the image is row h + pad_h for the filter.",
          lambda a, d: gathered(a, d, pad_h=0, pad_w=0)),
    wrong("padding_subtracted", 1,
          "The padding is subtracted; solved for the position, it must be added.",
          lambda a, d: gathered(a, d, pad_h=-d["pad_h"], pad_w=-d["pad_w"])),
    wrong("dilation_ignored", 1,
          "The taps of the filter lie side by side; they must be a dilation apart.",
          lambda a, d: gathered(a, d, dilation_h=1, dilation_w=1)),
    wrong("strides_swapped", 1,
          "The rows are divided by stride_w and the columns by stride_h: exchange them.",
          lambda a, d: swapped(a, d, "stride")),
    wrong("filter_turned", 3,
          "The rows of a channel are read in the opposite order: tap (0, 0) has the first of them.",
          lambda a, d: gathered(a, d, a["grad_columns"].reshape(d["C_in"], -1, d["width"])[:, ::-1]
                                .reshape(d["rows"], -1))),
    wrong("taps_by_columns", 3,
          "The rows are read in another order: r is taken to be the fastest index of a row, it is s.",
          lambda a, d: rows_in_order(a, d, "C_in", "S", "R")),
    wrong("images_fastest", 3,
          "The columns are read in another order: b is taken to be the fastest index of a column, it is q.",
          columns_in_order),
    wrong("matrix_turned", 3,
          "The matrix is read with a row for every position; it has a row for every tap.",
          lambda a, d: gathered(a, d, a["grad_columns"].reshape(d["width"], d["rows"]).T)),
    wrong("overwritten", 3,
          "Only the last of the entries is there: the sum is set (=) instead of added to (+=).", overwritten),
)  # fmt: skip

SUM = "float sum = 0.0f;"
DOWN, RIGHT = "int down = h + pad_h - r * dilation_h;", "int right = w + pad_w - s * dilation_w;"
ROW_EXISTS = "if (down < 0 || down % stride_h != 0 || down / stride_h >= H_out) continue;"
COLUMN_EXISTS = "if (right < 0 || right % stride_w != 0 || right / stride_w >= W_out) continue;"
LEAVES = """if (down < 0 || down % stride_h != 0) break;
        if (down / stride_h >= H_out) continue;"""
P, Q = "int p = down / stride_h;", "int q = right / stride_w;"
TAP = "int row = (c * R + r) * S + s;"
PLACE = "int column = (b * H_out + p) * W_out + q;"
ADD = "sum += grad_columns[row * width + column];"
SPLIT = "int w = idx % W, h = idx / W % H;"
SCATTER = """\
for (int i = idx; i < C_in * R * S * width; i += batch * C_in * H * W) {
        int row = i / width, column = i % width;
        int q = column % W_out, p = column / W_out % H_out, image = column / (W_out * H_out);
        int s = row % S, r = row / S % R, channel = row / (S * R);
        int y = p * stride_h - pad_h + r * dilation_h;
        int x = q * stride_w - pad_w + s * dilation_w;
        if (y < 0 || y >= H || x < 0 || x >= W) continue;
        atomicAdd(&grad_input[((image * C_in + channel) * H + y) * W + x], grad_columns[i]);
    }
    return;
    float sum = 0.0f;"""


def both(name, row, column, expect="wrong", old=(DOWN, RIGHT), also=()):
    """A mutant with another row and another column of positions."""
    return Mutant(name, KERNEL, old[0], row, expect, ((old[1], column), *also))


def one(name, old, new, expect="wrong", also=(), line=""):
    return Mutant(name, KERNEL, old, new, expect, also, line)


MUTANTS = (
    # right, not yet fast
    one("scattered with atomics", SUM, SCATTER, "slow", line="atomicAdd("),
    one("neighbours down the image", SPLIT, "int h = idx % H, w = idx / H % W;", "slow", line=ADD,
        also=(("grad_input[idx] = sum;", "grad_input[((b * C_in + c) * H + h) * W + w] = sum;"),)),
    one("added to memory tap by tap", ADD, ADD.replace("sum", "grad_input[idx]"), "slow",
        (("    grad_input[idx] = sum;\n", ""),), "global load sectors"),
    # the position
    both("remainder ignored", ROW_EXISTS.replace("down % stride_h != 0 || ", ""),
         COLUMN_EXISTS.replace("right % stride_w != 0 || ", ""), "remainder_ignored",
         (ROW_EXISTS, COLUMN_EXISTS)),
    both("remainder of a negative",
         "if (down % stride_h > 0 || down <= -stride_h || down / stride_h >= H_out) continue;",
         "if (right % stride_w > 0 || right <= -stride_w || right / stride_w >= W_out) continue;",
         "remainder_of_a_negative", (ROW_EXISTS, COLUMN_EXISTS)),
    both("remainder of the element", ROW_EXISTS.replace("down %", "h %"),
         COLUMN_EXISTS.replace("right %", "w %"), "remainder_of_the_element", (ROW_EXISTS, COLUMN_EXISTS)),
    both("padding ignored", DOWN.replace(" + pad_h", ""), RIGHT.replace(" + pad_w", ""), "padding_ignored"),
    both("padding subtracted", DOWN.replace("+ pad", "- pad"), RIGHT.replace("+ pad", "- pad"),
         "padding_subtracted"),
    both("dilation ignored", DOWN.replace(" * dilation_h", ""), RIGHT.replace(" * dilation_w", ""),
         "dilation_ignored"),
    both("strides swapped", ROW_EXISTS.replace("stride_h", "stride_w"),
         COLUMN_EXISTS.replace("stride_w", "stride_h"), "strides_swapped", (ROW_EXISTS, COLUMN_EXISTS),
         ((P, P.replace("stride_h", "stride_w")), (Q, Q.replace("stride_w", "stride_h")))),
    one("rows past the last position", ROW_EXISTS, ROW_EXISTS.replace(" || down / stride_h >= H_out", ""),
        ("rows_past_the_last", "out-of-bounds")),
    one("columns past the last position", COLUMN_EXISTS,
        COLUMN_EXISTS.replace(" || right / stride_w >= W_out", ""), ("columns_past_the_last", "out-of-bounds")),
    one("leaves the loops", ROW_EXISTS, LEAVES,
        "left_at_the_first",
        also=((COLUMN_EXISTS, LEAVES.replace("down", "right").replace("_h", "_w").replace("H_", "W_")),)),
    one("c missing in the row", TAP, "int row = r * S + s;", "channel_0_of_the_rows"),
    one("b missing in the column", PLACE, "int column = p * W_out + q;", "image_0_of_the_columns"),
    # which entry
    one("elements counted in 16 bits", "int idx = ", "short idx = ", "out-of-bounds"),
    one("taps by columns", TAP, "int row = (c * S + s) * R + r;", "taps_by_columns"),
    one("images fastest", PLACE, "int column = (p * W_out + q) * batch + b;", "images_fastest"),
    one("matrix turned", ADD, "sum += grad_columns[column * C_in * R * S + row];", "matrix_turned"),
    one("sum overwritten", ADD, ADD.replace("+=", "="), "overwritten"),
    one("filter turned", TAP, "int row = (c * R + R - 1 - r) * S + S - 1 - s;", "filter_turned"),
    one("one row past the last position", ROW_EXISTS, ROW_EXISTS.replace(">= H_out", "> H_out"),
        ("one_row_past_the_last", "out-of-bounds")),
)  # fmt: skip


def entries(d):
    """Of the matrix; each is added to one element of the image, if not to the padding."""
    return d["rows"] * d["width"]


PUZZLE = Puzzle(
    title="From the columns back to the image",
    part=4,
    teaches="How the adjoint of a copy is a sum, and how to gather it where scattering needs atomics.",
    practice="torch.nn.Fold is col2im, and its kernel gathers as well: a thread for each pixel, no atomics.",
    lines=16,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("grad_columns", i="rows", j="width"),
                InOut("grad_input", b="batch", c="C_in", h="H", w="W", values="zeros"), *column_ints(),
            ),
            launch=one_thread_each("batch", "C_in", "H", "W"),
            reference=image_of,
        ),
    ),
    dims=lambda d: {**column_sizes(d), "threads": 128, **d},
    gradient_of={KERNEL: Gradient(loss)},
    bench=column_case(32, 64, 56, 56, 3, 3, pad=(1, 1)),
    cases=(
        Case(
            "col2im_tiny", column_case(1, 1, 3, 4, 2, 2, stride=(2, 1), pad=(1, 0), dilation=(1, 2)),
            note="the layer of puzzle 28; done by hand in the lesson",
            inputs={"grad_columns": [[2, 4, 6, -2], [-1, -2, -3, 1], [1, 2, 3, -1], [3, 6, 9, -3]]},
        ),
        Case("filter_1x1_stride_2", column_case(2, 3, 6, 5, 1, 1, stride=(2, 2)),
             note="three of four elements are in no column"),
        Case("drawn", column_case(1, 2, 3, 4, 2, 2), note="the picture of the lesson", values="integers"),
        Case("one_position", column_case(2, 3, 4, 3, 4, 3), note="the filter as large as the image"),
        Case("one_channel", column_case(3, 1, 6, 5, 3, 2, pad=(1, 1)), note="rows for taps alone"),
        Case("integers", column_case(2, 3, 7, 5, 3, 2), note="exact sums", values="integers"),
        Case("padding_alone", column_case(2, 3, 4, 6, 3, 2, pad=(1, 2)), note="1 row, 2 columns of zeros"),
        Case("dilation_alone", column_case(2, 2, 8, 9, 3, 3, dilation=(2, 3)), note="gaps of 1 and of 2"),
        Case("all_asymmetric", column_case(2, 3, 9, 8, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2)),
             note="no two parameters of rows and columns agree"),
        Case("remainder_rows", column_case(2, 3, 10, 8, 3, 3, stride=(2, 2)),
             note="the last row is in no column"),
        Case("measured", column_case(1, 2, 4, 5, 3, 2, stride=(2, 1), pad=(1, 1)), check="gradient",
             note="measured: the gradient of a loss, by differences"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: own_sizes(pick, threads=pick(30, 90))),
        Case("tall_images", column_case(2, 1, 263, 2, 1, 2), note="more rows than a byte can count", stress=True),
        Case("wide_images", column_case(129, 1, 2, 263, 1, 2, threads=1), stress=True,
             note="more pixels, and blocks, than 16 bits can count"),
        Case("many_channels", column_case(2, 261, 1, 2, 1, 1), stress=True,
             note="more channels than a byte can count"),
        Case("filter_257x1", column_case(1, 1, 259, 2, 257, 1), stress=True,
             note="more taps in a column than a byte can count"),
        Case("filter_1x257", column_case(1, 2, 2, 259, 1, 257), stress=True,
             note="more taps in a row than a byte can count"),
        Case("counted", column_case(2, 16, 8, 8, 3, 3, pad=(1, 1)),
             note="144 x 128 entries to 16 x 128 elements; this one is counted"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    gates=(
        Gate(
            "global_atomic_operations", 0, case="counted", below=15488, hint=1,
            says="An atomic is for an element to which several threads add. Let each element of the image fetch its "
            "own entries: then one thread has its sum, in one order, and stores it.",
        ),
        Gate(
            "global_load_sectors", lambda d: 5 * entries(d) / 32, case="counted", below=4_224, hint=3,
            says="Entries that lie far apart take a sector each. Along a row of the matrix q changes, and along a row "
            "of the image w: let neighbours have neighbouring w.",
        ),
        *Gate.limits(
            "counted",
            global_requests=lambda d: (1.1 * entries(d) + d["batch"] * d["C_in"] * d["H"] * d["W"]) / 32,
            flops=lambda d: 1.05 * entries(d),
        ),
    ),
    hints=(
        "Think from the element of the image, not from the entry of the matrix. Each tap (r, s) lies on the "
        "element at one position at most. Puzzle 13's gradient of the input solved h = p * stride - pad + r "
        "* dilation for p; do the same here, for the rows and for the columns.",
        "There is no position where the steps to divide are negative, where they are not a multiple of "
        "the stride, or where the quotient is H_out (or W_out) or more. Test in this order: in C, the remainder "
        "of a negative number is negative or 0. A tap without a position adds nothing, go on with the next.",
        "The entry's row is the number of the tap, c the slowest and s the fastest; its column the number of "
        "the position, b the slowest and q the fastest: both as in puzzle 28. A row is width entries long. "
        "Add the entries up in a variable and store it once at the end, in element idx.",
    ),
)  # fmt: skip
