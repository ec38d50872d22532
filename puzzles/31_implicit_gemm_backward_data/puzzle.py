"""Puzzle 31: the input gradient as implicit matrix products, one for every class with taps of its own; in two dimensions,
and in one to three with one mapping."""

from __future__ import annotations

from itertools import product
from math import prod

from backwarp.course import Case, Gate, Gradient, Launch, Mistake, Puzzle, ceil_div, mistakes_in
from backwarp.course.conv_cases import ints, output_sizes, own_sizes, size, solid, solid_ints
from backwarp.course.convolutions import backward_input, loss_of_input
from backwarp.course.mistakes import slow
from backwarp.course.sizes import by_hand, gradient_check, integers, only
from backwarp.course.tile_limits import in_tiles, tile_limits

KERNEL, SOLID = "conv2d_backward_input", "conv_nd_backward_input"
SIDES = ("D", "T", "d"), ("H", "R", "h"), ("W", "S", "w")


def classes(d):
    """The number of elements and of taps of every class, in one image and channel."""

    def of_a_side(size, filter, stride, pad):
        return [
            (len(range(size)[c::stride]), len(range(filter)[(c + pad) % stride :: stride]))
            for c in range(stride)
        ]

    sides = [of_a_side(d[n], d[f], d[f"stride_{side}"], d[f"pad_{side}"]) for n, f, side in SIDES]
    return [tuple(map(prod, zip(*each))) for each in product(*sides)]


def dense(d):
    """Rows, columns and depth of the product of every class."""
    return [(d["C_in"], d["batch"] * elements, d["C_out"] * taps) for elements, taps in classes(d)]


def flops(d):
    """Those with padding too: for every class its elements times its taps."""
    return int(1.2 * 2 * sum(map(prod, dense(d))))


LOOP = "for (int start = 0; start < depth; start += TILE) {"
R_OF, S_OF = "int r = first_r + i / taps_s % taps_r * stride_h;", "int s = first_s + i % taps_s * stride_w;"
BY_ITSELF = """for (int i = 0; i < depth && c < C_in && n < elements; i++) {
        int t = i / taps_s % taps_r, u = i % taps_s, k = i / (taps_s * taps_r);
        int p = row + (class_h + pad_h) / stride_h - t, q = column + (class_w + pad_w) / stride_w - u;
        if (p < 0 || p >= H_out || q < 0 || q >= W_out) continue;
        float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
        sum += grad * weights[((k * C_in + c) * R + first_r + t * stride_h) * S + first_s + u * stride_w];
    }
    """

MISTAKES = mistakes_in(
    KERNEL,
    slow(
        "every thread by itself, as in puzzle 13",
        "sum += grad * weights[",
        (LOOP, BY_ITSELF + LOOP.replace("start = 0", "start = depth")),
    ),
    slow(
        "all taps in every class",
        "sum += filters[y][j] * grads[j][x];",
        ("(R - first_r + stride_h - 1) / stride_h", "R"),
        ("(S - first_s + stride_w - 1) / stride_w", "S"),
        ("first_r + i / taps_s % taps_r * stride_h", "i / taps_s % taps_r"),
        ("first_s + i % taps_s * stride_w", "i % taps_s"),
        ("? weights", "&& r % stride_h == first_r && s % stride_w == first_s ? weights"),
        ("- i % taps_s", "- i % taps_s / stride_w"),
        ("- i / taps_s % taps_r", "- i / taps_s % taps_r / stride_h"),
    ),
    slow(
        "tile of grad_output kept by columns",
        "sum += filters[y][j] * grads[x][j];",
        ("grads[y][x]", "grads[x][y]"),
        ("grads[j][x]", "grads[x][j]"),
    ),
    Mistake(
        "rows of a class rounded down",
        (("class_h + stride_h - 1", "class_h"), ("class_w + stride_w - 1", "class_w")),
        says="The last row or column of some class is missing: (H - class_h) / stride_h must be rounded up.",
    ),
    Mistake(
        "tail missing",
        ("< depth;", "+ TILE <= depth;"),
        says="The products after the last full stretch are missing: use the last tiles too, padded with 0.",
        hint=2,
    ),
)


def launch(d, t):
    """Blocks in x: the tiles of the largest class; in y: the classes."""
    side, strides = t["TILE"], [d[f"stride_{side}"] for _, _, side in SIDES]
    elements = d["batch"] * prod(ceil_div(d[n], stride) for (n, _, _), stride in zip(SIDES, strides))
    return Launch((ceil_div(d["C_in"], side) * ceil_div(elements, side), prod(strides)), (side, side))


def costs(kernel, case, below):
    """The limits of a kernel; below: the counts of puzzles 13 and 15."""
    return (
        Gate(
            "flops",
            flops,
            kernels=(kernel,),
            below=below[0],
            says="Zeros between steps of the stride need no products: let each class loop over its own taps.",
        ),
        Gate(
            "global_bytes",
            lambda d: (
                3.05
                * 4
                * (512 * in_tiles(dense(d))[1] + prod(d[n] for n in ("batch", "C_in", "D", "H", "W")))
            ),
            kernels=(kernel,),
            below=below[1],
            hint=2,
            says="Neighbours need the same weights and grad_output: let the block read each element of a "
            "tile once, into shared memory.",
        ),
        *tile_limits(kernel, dense, but="flops"),
    )


PUZZLE = Puzzle(
    title="Gradient of the input as implicit matrix products",
    part=4,
    teaches="How a stride splits one product with many zeros into several dense ones.",
    practice="CUTLASS has a strided dgrad as well, without the products with the zeros that a stride makes.",
    lines=73,
    kernels=(
        backward_input(KERNEL, launch, [p for p in ints() if not p.name.startswith("dilation")]),
        backward_input(SOLID, launch, solid_ints()),
    ),
    dims=lambda d: solid({**output_sizes(d), **d}),
    gradient_of={KERNEL: Gradient(loss_of_input), SOLID: Gradient(loss_of_input)},
    bench=size(128, 128, 71, 71, 256, 3, 3, stride=(2, 2), pad=(1, 1)),
    cases=(
        by_hand(
            "implicit_bd_tiny",
            size(1, 1, 3, 4, 1, 3, 2, stride=(2, 1), pad=(1, 0)),
            grad_output=[[[[1, 2, 3], [-1, 0, 2]]]],
            weights=[[[[1, 2], [3, -1], [0, 4]]]],
        ),
        Case("output_1x1", size(3, 2, 4, 3, 3, 4, 3), "stride 1: one class"),
        Case("drawn", size(1, 1, 5, 7, 2, 3, 3, stride=(2, 2), pad=(1, 1)), "the picture; four classes"),
        Case("filter_1x1_stride_2", size(2, 3, 7, 5, 4, 1, 1, stride=(2, 2)), "three classes have no tap"),
        Case("one_channel", size(3, 1, 6, 5, 2, 2, 3, stride=(1, 2), pad=(1, 2)), "strides differ"),
        gradient_check(
            "implicit_bd_numerical_gradient_check", size(2, 2, 5, 4, 2, 3, 2, stride=(2, 1), pad=(1, 1))
        ),
        Case("stride_larger_than_filter", size(2, 2, 8, 9, 3, 2, 2, stride=(3, 4), pad=(1, 0)), "12 classes"),
        Case("narrow", size(2, 2, 7, 1, 3, 2, 2, stride=(2, 3), pad=(0, 1)), "classes without elements"),
        integers(size(2, 17, 5, 6, 3, 3, 3, stride=(2, 2), pad=(0, 1)), "one channel more than a tile"),
        Case("two_stretches", size(2, 3, 9, 8, 11, 3, 3, stride=(2, 2), pad=(1, 1)), "11 to 44 products"),
        own_sizes(C_out=(2, 20)),
        *only(
            (SOLID,),
            Case("sound", size(2, 3, 1, 13, 5, 1, 4, stride=(1, 3), pad=(0, 2)), "one dimension"),
            Case(
                "video",
                size(2, 3, 4, 7, 3, 2, 3, stride=(1, 2), pad=(0, 1), D=5, T=3, stride_d=3, pad_d=2),
                "no two directions agree; six classes",
            ),
            Case(
                "video_few_taps",
                size(2, 2, 3, 4, 2, 1, 2, stride=(2, 2), D=4, T=2, stride_d=3, pad_d=1),
                "12 classes, some without taps",
            ),
            gradient_check(
                "video_numerical_gradient_check",
                size(1, 2, 3, 3, 2, 3, 2, stride=(2, 1), pad=(1, 0), D=4, T=2, stride_d=2, pad_d=1),
            ),
            Case(
                "video_counted",
                size(1, 16, 8, 8, 16, 3, 3, stride=(2, 2), pad=(1, 1), D=8, T=3, stride_d=2, pad_d=1),
                "3 x 3 x 3, stride 2, padding 1",
                again=lambda pick: size(
                    2,
                    32,
                    4,
                    16,
                    32,
                    5,
                    2,
                    stride=(2, 2),
                    pad=(2, 0),
                    D=2 * pick(1, 2),
                    T=2,
                    stride_d=2,
                    pad_d=0,
                ),
            ),
        ),
        Case(
            "counted",
            size(1, 32, 16, 16, 16, 3, 3, stride=(2, 2), pad=(1, 1)),
            "the usual 3 x 3, stride 2, padding 1: the case of the gates",
            kernels=(KERNEL,),
            again=lambda pick: size(2, 48, 8, 32, 8 * pick(3, 4), 5, 5, stride=(2, 2), pad=(2, 2)),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        *costs(KERNEL, "counted", (2_359_296, 2_293_760)),
        *costs(SOLID, "video_counted", (7_077_888, 3_550_000)),
    ),
    hints=(
        "Take rows alone, with stride 2 and padding 1. Row h meets tap r where h + 1 - r is even: rows of "
        "one parity meet tap 1 alone, those of the other taps 0 and 2. So the class of a row is its "
        "remainder by the stride; its first tap is the remainder of class plus padding, and the others "
        "follow a stride apart. Columns are the same. Numbers of rows and of taps are divisions rounded up; "
        "either can come out as 0.",
        "Within a class everything is dense. The product has a row for each channel c, a column for each "
        "element of the class in all images, and C_out * taps_r * taps_s products for each sum. Taps count "
        "fastest along s, then r, then k. A block whose first element is beyond the class leaves as a whole, "
        "before it divides by its numbers of rows and columns. The walk is that of puzzle 26: y is c in the "
        "tile of weights and the step in that of grad_output.",
        "Row number m of a class is row class + m * stride of the image. Its position under the first tap is "
        "m plus (class + padding) / stride, rounded down; each further tap of the class lies one position "
        "earlier. Positions before 0 or past the last one count as 0 in the tile. The sum of a class without "
        "taps is 0 and is stored. For the second kernel, write this once as a function of one direction, and "
        "call it for d, h and w; a direction of length 1 needs no special case.",
    ),
)
