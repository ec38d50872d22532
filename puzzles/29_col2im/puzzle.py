"""Puzzle 29: col2im, the adjoint of im2col, gathered by the elements of the image."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, Gate, Gradient, In, InOut, Kernel, Mistake, Puzzle
from backwarp.course.conv_cases import (
    ALONE_IN_COLUMNS,
    COUNTED_COLUMNS,
    MATRIX,
    as_columns,
    column_case,
    column_ints,
    column_sizes,
    from_columns,
    own_sizes,
    shape,
    unfolding,
)
from backwarp.course.mistakes import slow
from backwarp.course.sizes import gradient_check, integers, one_thread_each, with_inputs

KERNEL = "col2im"


def image_of(a, d):
    grid = from_columns(a["grad_columns"], d)
    return conv.fold(grid, shape(d, "batch", "C_in", "H", "W"), **unfolding(d))


def loss(x, a, d):
    """A loss whose gradient at the column matrix is grad_columns, as a function of the image."""
    return np.sum(a["grad_columns"] * as_columns(conv.unfold(x, **unfolding(d))))


SUM = "float sum = 0.0f;"
ADD = "sum += grad_columns[row * width + column];"
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

MISTAKES = (
    slow("scattered with atomics", "atomicAdd(", (SUM, SCATTER)),
    slow(
        "neighbours down the image",
        ADD,
        ("w = idx % W, h = idx / W % H", "h = idx % H, w = idx / H % W"),
        ("grad_input[idx]", "grad_input[((b * C_in + c) * H + h) * W + w]"),
    ),
    Mistake(
        "remainder of a negative",
        (
            ("< 0 || down % stride_h != 0", "% stride_h > 0 || down <= -stride_h"),
            ("< 0 || right % stride_w != 0", "% stride_w > 0 || right <= -stride_w"),
        ),
        says="Entries of positions above or left of the first one are counted at position 0: in C, -1 / 2 is "
        "0 and -1 % 2 is -1.",
        hint=2,
    ),
)


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
                In("grad_columns", i="rows", j="width").merging(**MATRIX),
                InOut("grad_input", b="batch", c="C_in", h="H", w="W", values="zeros"),
                *column_ints(),
            ),
            launch=one_thread_each("batch", "C_in", "H", "W"),
            reference=image_of,
        ),
    ),
    dims=lambda d: {**column_sizes(d), "threads": 128, **d},
    gradient_of={KERNEL: Gradient(loss)},
    bench=column_case(32, 64, 56, 56, 3, 3, pad=(1, 1)),
    cases=(
        with_inputs(
            "col2im_tiny",
            column_case(1, 1, 3, 4, 2, 2, stride=(2, 1), pad=(1, 0), dilation=(1, 2)),
            "the layer of puzzle 28; done by hand in the lesson",
            grad_columns=[[2, 4, 6, -2], [-1, -2, -3, 1], [1, 2, 3, -1], [3, 6, 9, -3]],
        ),
        Case("filter_1x1_stride_2", column_case(2, 3, 6, 5, 1, 1, stride=(2, 2)), "most are in no column"),
        Case("drawn", column_case(1, 2, 3, 4, 2, 2), "the picture of the lesson", values="integers"),
        Case("one_position", column_case(2, 3, 4, 3, 4, 3), "the filter as large as the image"),
        Case("one_channel", column_case(3, 1, 6, 5, 3, 2, pad=(1, 1)), "a row is just a tap"),
        integers(column_case(2, 3, 7, 5, 3, 2)),
        *ALONE_IN_COLUMNS[1:],
        Case("remainder_rows", column_case(2, 3, 10, 8, 3, 3, stride=(2, 2)), "the last row is in no column"),
        gradient_check(
            "measured",
            column_case(1, 2, 4, 5, 3, 2, stride=(2, 1), pad=(1, 1)),
            "measured: the gradient of a loss, by differences",
        ),
        own_sizes(threads=(30, 90)),
        COUNTED_COLUMNS,
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_atomic_operations",
            0,
            below=15488,
            says="An atomic is for an element to which several threads add. Let each element of the image "
            "fetch its own entries: then one thread has its sum, in one order, and stores it.",
        ),
        Gate(
            "global_load_sectors",
            lambda d: 5 * entries(d) / 32,
            below=4_224,
            hint=3,
            says="Entries that lie far apart take a sector each. Along a row of the matrix q changes, and "
            "along a row of the image w: let neighbours have neighbouring w.",
        ),
        *Gate.limits(
            global_requests=lambda d: (1.1 * entries(d) + d["batch"] * d["C_in"] * d["H"] * d["W"]) / 32,
            flops=lambda d: 1.05 * entries(d),
        ),
    ),
    hints=(
        "Think from the element of the image, not from the entry of the matrix. Each tap (r, s) lies on the "
        "element at one position at most. Puzzle 13's gradient of the input solved h = p * stride - pad + r "
        "* dilation for p; do the same here, for the rows and for the columns.",
        "There is no position where the steps to divide are negative, where they are not a multiple of the "
        "stride, or where the quotient is H_out (or W_out) or more. Test in this order: in C, the remainder "
        "of a negative number is negative or 0. A tap without a position adds nothing; go on with the next.",
        "The entry's row is the number of the tap, c the slowest and s the fastest; its column the number of "
        "the position, b the slowest and q the fastest: both as in puzzle 28. A row is width entries long. "
        "Add the entries up in a variable and store it once at the end, in element idx.",
    ),
)
