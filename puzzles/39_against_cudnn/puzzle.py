"""Puzzle 39: the forward convolution in large tiles: in float, and in TF32 on tensor cores with channels last; and the
gradient of the input in one to three dimensions."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from backwarp.reference import conv
from backwarp.reference.half import tf32

from backwarp.course import Case, Gate, In, Kernel, Launch, Mistake, Out, Puzzle, ceil_div, mistakes_in
from backwarp.course.conv_cases import column_sizes, ints, options, own_sizes, size, solid, solid_ints
from backwarp.course.convolutions import backward_input, forward
from backwarp.course.mistakes import slow
from backwarp.course.sizes import integers, only, with_inputs

FLOAT, TF32, BACK = "conv2d_forward_float", "conv2d_forward_tf32", "conv_nd_backward_input"
FORWARD = FLOAT, TF32
SIDES = ("D", "T", "d"), ("H", "R", "h"), ("W", "S", "w")


def channels_last(a, d):
    """The output of the rounded numbers, computed with channels in second place."""
    input, weights = (np.moveaxis(tf32(a[name]), -1, 1) for name in ("input", "weights"))
    return np.moveaxis(conv.forward(input, weights, a["bias"], **options(d)), 1, -1)


PIXEL = "copy_async(&patches[to][first + y][lane + 32 * i], from + image[i], inside);"
DOWN = "int down = c < C_in ? r * dilation_h : NOWHERE, right = s * dilation_w;"
NUMBERS = """for (int i = 0; i < 8; i += 4) {
                *reinterpret_cast<float4*>(&p[i]) = *reinterpret_cast<const float4*>(&a[i / 4 * BM / 2]);
                *reinterpret_cast<float4*>(&q[i]) = *reinterpret_cast<const float4*>(&b[i / 4 * BN / 2]);
            }"""
ROUND_B = "for (int e = 0; e < 4; e++) b[n + e / 2][e % 2] = to_tf32(__uint_as_float(b[n + e / 2][e % 2]));"
#: loops that are not unrolled: the same kernel, compiled in a fraction of the time
SHORT = {
    FLOAT: (("#pragma unroll\n        for (int k = 0; k < BK", "unroll", "unroll 1"),),
    TF32: (("for (int k = 0; k < PIECES", "for", '_Pragma("unroll 1") for'),),
    BACK: (("#pragma unroll\n        for (int j = 0; j < BK", "unroll", "unroll 1"),),
}


MISTAKES = (
    *mistakes_in(
        FLOAT,
        slow("blocks of 64 x 64", "copy_async(slot", ("128, BN = 128", "64, BN = 64")),
        slow(
            "numbers one by one",
            "volatile",
            (
                NUMBERS,
                """for (int i = 0; i < 8; i++) {
                p[i] = *(volatile const float*)&a[i / 4 * BM / 2 + i % 4];
                q[i] = *(volatile const float*)&b[i / 4 * BN / 2 + i % 4];
            }""",
            ),
        ),
        slow("filters not padded", "copy_async(slot", ("BK][BM + 4", "BK][BM")),
        slow(
            "through registers",
            "patches[to][first + y][lane + 32 * i] = inside",
            (PIXEL, "patches[to][first + y][lane + 32 * i] = inside ? from[image[i]] : 0.0f;"),
        ),
        slow(
            "divisions for every copy",
            "s = at % S",
            (
                DOWN,
                "int at = next * BK + first + y;\n                s = at % S, r = at / S % R, c = at / (S * R);\n"
                "                " + DOWN,
            ),
        ),
        Mistake(
            "fours where planes are not aligned",
            ("plane % 4 == 0", "n + 3 < width"),
            expect=("misaligned", "race"),
        ),
        Mistake(
            "neighbouring columns",
            ("j / 4 * BN / 2 + 4 * x", "8 * x + j"),
            says="A thread stores its sums in 8 neighbouring columns; it has the four from 4 x on, and four "
            "more BN / 2 further on.",
            hint=2,
        ),
        also=SHORT[FLOAT],
    ),
    *mistakes_in(
        TF32,
        slow("the swizzle of puzzle 35", "ldmatrix_x4", ("row / 2 %", "row %")),
        slow("copied float by float", "copy4_async", ("% 4 == 0", "< 0")),
        Mistake(
            "not rounded",
            (("for (int e = 0; e < 4; e++) a[m][e] = to_tf32(__uint_as_float(a[m][e]));", ""), (ROUND_B, "")),
            says="Numbers are cut off after 10 bits, not rounded: mma.sync ignores the rest. Use to_tf32.",
            hint=3,
        ),
        Mistake(
            "filters from 8 on forgotten",
            ("4 + e / 2 * 8", "4"),
            says="Registers 2 and 3 of the sums belong 8 filters below registers 0 and 1; here they are stored over them.",
            hint=3,
        ),
        Mistake(
            "carry of the channels missing",
            ("fours, s++;", "fours;"),
            says="Where the channels of a tap end, the next tap begins: s must go up by one.",
            hint=2,
        ),
        also=SHORT[TF32],
    ),
    *mistakes_in(
        BACK,
        slow("weights float by float", "copy4_async(&filters", ("% 4 == 0", "< 0")),
        slow(
            "fours of elements",
            "grad_input[",
            ("j][x + BN / 8 * i", "j][i / 4 * BN / 2 + 4 * x + i % 4"),
            ("x + BN / 8 * i", "i / 4 * BN / 2 + 4 * x + i % 4"),
        ),
        Mistake(
            "carry of the filters missing",
            ("taps_t, k++;", "taps_t;"),
            says="Where t passes the last tap of the class the next filter begins: k must go up by one.",
            hint=2,
        ),
        also=SHORT[BACK],
    ),
)


def grid(d, t):
    """A block for every BN positions and BM filters."""
    return ceil_div(d["width"], t["BN"]), ceil_div(d["C_out"], t["BM"])


def classes(d):
    """Elements, in all images, and taps of the classes of puzzle 31."""
    sides = [
        [
            (len(range(d[n])[c::stride]), len(range(d[f])[(c + d[f"pad_{side}"]) % stride :: stride]))
            for c in range(stride)
        ]
        for n, f, side in SIDES
        for stride in [d[f"stride_{side}"]]
    ]
    return [
        (d["batch"] * elements, taps)
        for elements, taps in (tuple(map(prod, zip(*c))) for c in product(*sides))
    ]


def back_grid(d, t):
    strides = {n: d[f"stride_{side}"] for n, _, side in SIDES}  # no class has more than the first
    elements = d["batch"] * prod(ceil_div(d[n], stride) for n, stride in strides.items())
    strides = prod(strides.values())
    return Launch(
        (ceil_div(d["C_in"], t["BM"]) * ceil_div(elements, t["BN"]), strides), t["BM"] // 8 * (t["BN"] // 8)
    )


def back_blocks(d, steps=lambda depth: 1):
    """Blocks with work, each times steps(depth)."""
    tiles = ((ceil_div(elements, 128), d["C_out"] * taps) for elements, taps in classes(d))
    return ceil_div(d["C_in"], 128) * sum(blocks * steps(depth) for blocks, depth in tiles)


def volumes(pick):
    """Of one to three directions."""
    rank, more = pick(1, 3), {}
    if rank == 3:
        more = dict(D=pick(2, 4), T=pick(1, 2), stride_d=pick(1, 2), pad_d=pick(0, 1))
    rows = (pick(3, 5), pick(1, 3), pick(1, 3), pick(0, 2)) if rank > 1 else (1, 1, 1, 0)
    H, R, stride, pad = rows
    strides, pads = (stride, pick(1, 3)), (pad, pick(0, 2))
    return size(pick(30, 40), pick(1, 9), H, pick(3, 6), pick(2, 9), R, pick(1, 3), strides, pads, **more)


SLICES = dict(stride=(1, 2), pad=(1, 0), D=4, T=3, stride_d=2, pad_d=1)


def limits(kernel, steps):
    """What closes the loopholes. steps(d): of the solution, for every block."""

    def blocks(d):
        return ceil_div(d["C_out"], 128) * ceil_div(d["width"], 128)

    return Gate.limits(
        kernel,
        shared_stores_from_registers=0,
        shared_conflicts=0,
        # a barrier for each of 8 warps in every step
        barriers=lambda d: 1.25 * 8 * steps(d) * blocks(d),
        # 64 for each of 256 threads, once
        integer_divisions=lambda d: 64 * 256 * blocks(d),
        flops=lambda d: 1.05 * 2 * 128 * 128 * d["rows"] * blocks(d),
    )


READ_ONCE = "A weight is read once for every BN positions, a pixel once for every BM filters and tap: larger tiles move less."
NO_COPY = "While these products are made, no copy is under way: start those of a later step before, and wait for them after."

PUZZLE = Puzzle(
    title="Against cuDNN",
    part=6,
    teaches="What the fastest kernels of this course have in common, and how near a GPU's limits they can come.",
    practice="CUTLASS calls these kernels SIMT and tensor-op implicit GEMM; cuDNN chooses among dozens of tile sizes.",
    lines=210,
    kernels=(
        forward(FLOAT, lambda d, t: Launch(grid(d, t), t["BM"] // 8 * (t["BN"] // 8)), ints()),
        Kernel(
            TF32,
            params=(
                In("input", b="batch", h="H", w="W", c="C_in"),
                In("weights", k="C_out", r="R", s="S", c="C_in"),
                In("bias", k="C_out"),
                Out("output", b="batch", p="H_out", q="W_out", k="C_out"),
                *ints(),
            ),
            launch=lambda d, t: Launch(grid(d, t), 32 * (t["BM"] // t["WM"]) * (t["BN"] // t["WN"])),
            reference=channels_last,
            short=("R", "S"),
        ),
        backward_input(BACK, back_grid, solid_ints(), channels_last=True),
    ),
    dims=lambda d: solid({**column_sizes(d), **d}),
    bench=size(128, 128, 71, 71, 256, 3, 3, stride=(2, 2), pad=(1, 1)),
    cases=(
        *only(
            FORWARD,
            with_inputs(
                "cudnn_tiny",
                size(1, 1, 2, 3, 1, 1, 2),
                "done by hand in the lesson; with one channel, both layouts are the same",
                input=[[[[1, 2, 3], [4, 5, 6]]]],
                weights=[[[[2, -1]]]],
                bias=[1],
            ),
            Case("one_position", size(2, 3, 4, 3, 5, 4, 3), "the filter as large as the image"),
            Case("one_channel", size(3, 1, 6, 5, 2, 3, 2, pad=(1, 1)), "pieces with one channel in them"),
            Case("aligned", size(2, 8, 5, 7, 6, 2, 2), "planes and channels are multiples of 4"),
            Case("channels_11", size(2, 11, 5, 4, 3, 3, 2), "three pieces for each tap, steps of four"),
            Case("channels_6", size(2, 6, 7, 5, 4, 3, 3), "a piece and a half for each tap"),
            integers(size(2, 3, 7, 5, 4, 3, 2)),
            Case("wide_filter", size(1, 2, 3, 19, 2, 2, 17, pad=(0, 1)), "a row of taps longer than a step"),
            Case(
                "all_asymmetric",
                size(2, 3, 9, 13, 4, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2)),
                "no two parameters of rows and columns agree",
            ),
            Case("nothing_divides", size(3, 5, 8, 7, 131, 3, 3, pad=(1, 1)), "131 filters, 168 positions"),
            *(
                Case(
                    f"filter_{R}x{S}",
                    size(1, 1, R + 2, S + 1, 2, R, S),
                    "a long filter",
                    kernels=(TF32,),
                    stress=True,
                )
                for R, S in ((257, 1), (1, 257))
            ),
            own_sizes(C_in=(1, 12), H=(3, 4), W=(3, 4), C_out=(2, 20), pad_h=0, pad_w=(0, 1)),
            Case(
                "counted",
                size(2, 16, 8, 8, 128, 3, 3, pad=(1, 1)),
                "one full block; this one is counted",
                again=lambda pick: size(1, 4 * pick(2, 3), 4, 32, 256, 5, 5, pad=(2, 2)),
            ),
        ),
        *only(
            (BACK,),
            Case("sound", size(2, 5, 1, 13, 7, 1, 4, stride=(1, 3), pad=(0, 2)), "one dimension"),
            Case("image", size(2, 131, 7, 5, 3, 3, 2, stride=(2, 1), pad=(1, 1)), "131 channels: two tiles"),
            Case(
                "video",
                size(3, 8, 6, 9, 11, 2, 3, stride=(1, 2), pad=(0, 1), D=5, T=3, stride_d=3, pad_d=2),
                "no two directions agree; blocks without elements",
            ),
            Case(
                "video_few_taps",
                size(2, 4, 3, 4, 2, 1, 2, stride=(2, 2), D=4, T=2, stride_d=3, pad_d=1),
                "12 classes, some without taps",
            ),
            Case("one_tap", size(2, 3, 5, 4, 9, 1, 1, D=3), "a product of matrices; eight filters a step"),
            Case(
                "volume",
                size(4, 6, 6, 7, 3, 3, 3, pad=(1, 1), D=5, T=2, pad_d=1),
                "exact sums; 18 taps, not as many each way; seven tiles",
                values="integers",
            ),
            Case("own_volumes", note="sizes drawn from your file's text", draw=volumes),
            Case(
                "volumes_counted",
                size(2, 128, 16, 16, 64, 3, 3, stride=(2, 2), pad=(1, 1)),
                "a block for each of four classes; this one is counted",
                again=lambda pick: size(1, 256, 8, 32, 16 * pick(2, 3), 2, 2, **SLICES),
            ),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "shared_requests_per_flop",
            0.0025,
            kernels=(FLOAT,),
            below=0.0331,
            hint=2,
            says="Four floats can be read at once, and each used for a row or column of 8 sums: a step takes "
            "4 requests for 64 products.",
        ),
        Gate(
            "bytes_per_flop",
            0.065,
            kernels=(FLOAT,),
            below=0.211,
            says=f"{READ_ONCE} And four sums of neighbouring positions are stored with one write.",
        ),
        Gate(
            "instructions_per_multiply_add",
            1.7,
            kernels=(FLOAT,),
            below=8.46,
            says="Every other instruction takes an issue slot from the products: compute indices before the "
            "loop, add to them in it, and let loops with constant bounds be unrolled.",
        ),
        Gate("flops_without_copies", 15, kernels=(FLOAT,), below=11.4, says=NO_COPY),
        Gate(
            "shared_requests_per_flop",
            0.0003,
            kernels=(TF32,),
            hint=3,
            says="Too many requests to shared memory: one ldmatrix_x4 brings a warp 16 filters or positions "
            "of two pieces; and the larger WM and WN, the more often a fragment is used.",
        ),
        Gate(
            "shared_conflicts",
            0,
            kernels=(TF32,),
            hint=3,
            says="Each 8 x 8 matrix is fetched in one go if its 8 rows of 16 bytes lie in different banks. A "
            "row of a tile is half as long as in puzzle 35, so two rows share a place in the order.",
        ),
        Gate("bytes_per_flop", 0.065, kernels=(TF32,), says=READ_ONCE),
        Gate(
            "instructions_per_multiply_add",
            0.35,
            kernels=(TF32,),
            says="Every other instruction takes an issue slot from mma.sync: copy 16 bytes at a time where "
            "channels are a multiple of 4, and compute indices before the loop.",
        ),
        Gate("flops_without_copies", 20, kernels=(TF32,), says=NO_COPY),
        Gate(
            "bytes_per_flop",
            0.072,
            kernels=(BACK,),
            says="A weight is read once for BN elements, a gradient once for BM channels. Neighbouring lanes "
            "should copy neighbouring weights, and store neighbouring elements.",
        ),
        Gate("flops_without_copies", 15, kernels=(BACK,), says=NO_COPY),
        *Gate.limits(
            BACK,
            instructions_per_multiply_add=1.7,
            shared_stores_from_registers=0,
            shared_conflicts=0,
            barriers=lambda d: 1.25 * 8 * back_blocks(d, lambda depth: ceil_div(depth, 8)),
            integer_divisions=lambda d: 110 * 256 * back_blocks(d),
            flops=lambda d: 1.05 * 2 * 128 * 128 * back_blocks(d, lambda depth: 8 * ceil_div(depth, 8)),
        ),
        *limits(FLOAT, lambda d: ceil_div(d["rows"], 8)),
        *limits(TF32, lambda d: d["R"] * d["S"] * ceil_div(ceil_div(d["C_in"], 4), 4)),
    ),
    hints=(
        "Put it together in three steps, and grade after each. First puzzle 30 with tiles of BK x BM and BK "
        "x BN and the 8 x 8 sums of puzzle 27: right, with a plain store to shared memory. Then the copies "
        "and groups of puzzle 34. Then move out of the loop what does not change in it: a lane copies pixels "
        "of the same BN / 32 positions in every step, so where their patches begin is found once, and from "
        "row to row (c, r, s) is found by adding and carrying. A row of the image that is negative becomes a "
        "large number as an unsigned int: one comparison instead of two. The gradient of the input comes "
        "last: the classes of puzzle 31 in these tiles, with this pipeline.",
        "In the tile of weights the rows of the matrix are BM + 4 words apart, so that 8 rows and 4 filters "
        "of a warp fall into 32 banks; the tile of pixels needs nothing. In the product, thread t takes "
        "fours at 4 x and BN / 2 + 4 x of the one tile and at 4 y and BM / 2 + 4 y of the other, x and y "
        "being remainder and quotient of t by BN / 8. In the second kernel the channels are the fastest: a "
        "row of the matrix is cut into pieces of 4 channels of one tap, and the last piece of a tap may be "
        "incomplete; the next tap begins with a new piece. In the third kernel both tiles have a row for "
        "each (k, t, r, s), taps of the class fastest; it is found once for a warp, and each carry reaches "
        "the next.",
        "In the second kernel both tiles lie alike: a row for a filter or a position, with PIECES of 4 "
        "words. Eight lanes of an ldmatrix name 8 rows, one piece of each. For A, the filters, the four "
        "matrices are as in puzzle 35: rows 0 to 7 and 8 to 15 of the first piece, then of the second. For "
        "B, the positions, they are the two pieces of rows 0 to 7, then of rows 8 to 15, so that registers "
        "0, 1 and 2, 3 are two fragments. Two rows fill the banks once, so what moves the pieces must change "
        "from one pair of rows to the next. Round after loading. In the third kernel a thread multiplies two "
        "fours of channels with eight elements, 16 apart, each loaded by itself; a class without taps has no "
        "steps, but must not divide by their number.",
    ),
)
