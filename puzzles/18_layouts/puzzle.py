"""Puzzle 18: images and filters from one layout to another; the second step moves four elements at a time."""

from __future__ import annotations

import numpy as np
from backwarp.reference.layout import convert

from backwarp.course import Case, Gate, In, Int, Kernel, Launch, Out, Puzzle, ceil_div, mistakes_in
from backwarp.course.mistakes import slow
from backwarp.course.sizes import by_hand, drawn, integers, own_sizes

TO_NHWC, TO_NCHW, TO_RSCK, TO_KCRS = "nchw_to_nhwc", "nhwc_to_nchw", "kcrs_to_rsck", "rsck_to_kcrs"
BLOCKS = "transpose_float4"
#: kernel -> (name of its input, layout of the input, layout of the output)
LAYOUTS = {
    TO_NHWC: ("input", "NCHW", "NHWC"),
    TO_NCHW: ("input", "NHWC", "NCHW"),
    TO_RSCK: ("weights", "KCRS", "RSCK"),
    TO_KCRS: ("weights", "RSCK", "KCRS"),
    BLOCKS: ("input", "NIJ", "NJI"),
}
SIZES = {"N": "batch", "I": "rows", "J": "columns"}  # the others have the names of their axes


def named(letters):
    """{"n": "batch", "c": "C", ...}, as arrays are declared."""
    return {axis.lower(): SIZES.get(axis, axis) for axis in letters}


def sizes(letters, d):
    return [d[name] for name in named(letters).values()]


def reference(kernel):
    name, source, target = LAYOUTS[kernel]
    return lambda a, d: convert(a[name], source, target)


#: (a column of the block, a row of it) four times: what is stored, and what a copy would store


MISTAKES = (
    *mistakes_in(
        BLOCKS,
        slow(
            "blocks: element by element",
            "to[j * rows + i] = from[i * columns + j];",
            ("rows % 4 != 0 || columns % 4 != 0", "true"),
        ),
        slow(
            "blocks: in an array that is indexed at run time",
            "bytes of local memory moved",
            (
                (
                    "float4 a = *(const float4*)from;\n"
                    "    float4 b = *(const float4*)(from + columns);\n"
                    "    float4 c = *(const float4*)(from + 2 * columns);\n"
                    "    float4 d = *(const float4*)(from + 3 * columns);"
                ),
                (
                    "float e[4][4];\n"
                    "#pragma unroll 1\n"
                    "    for (int i = 0; i < 4; i++) *(float4*)e[i] = *(const float4*)(from + i * columns);\n"
                    "#pragma unroll 1\n"
                    "    for (int j = 0; j < 4; j++) *(float4*)(to + j * rows) = make_float4(e[0][j], e[1][j], e[2][j], e[3][j]);"
                ),
            ),
            (
                (
                    "*(float4*)to = make_float4(a.x, b.x, c.x, d.x);\n"
                    "    *(float4*)(to + rows) = make_float4(a.y, b.y, c.y, d.y);\n"
                    "    *(float4*)(to + 2 * rows) = make_float4(a.z, b.z, c.z, d.z);\n"
                    "    *(float4*)(to + 3 * rows) = make_float4(a.w, b.w, c.w, d.w);"
                ),
                "",
            ),
        ),
    ),
)


def threads_for(kernel):
    """One thread per element; one for 4 x 4 of them in the last kernel."""

    def launch(d, t):
        count = int(np.prod(sizes(LAYOUTS[kernel][1], d)))
        if kernel == BLOCKS:
            count = d["batch"] * ceil_div(d["rows"], 4) * ceil_div(d["columns"], 4)
        return Launch(ceil_div(count, d["threads"]), d["threads"])

    return launch


def declared(kernel):
    name, source, target = LAYOUTS[kernel]
    numbers = named("NIJ" if kernel == BLOCKS else "KCRS" if name == "weights" else "NCHW").values()
    return Kernel(
        kernel,
        params=(In(name, **named(source)), Out("output", **named(target)), *map(Int, numbers)),
        launch=threads_for(kernel),
        reference=reference(kernel),
        rtol=0.0,
        atol=0.0,  # nothing is rounded
    )


PUZZLE = Puzzle(
    title="Layouts",
    part=2,
    teaches="What the order of the axes in memory costs and saves, and how to change it.",
    practice="Tensor cores prefer channels last: PyTorch offers it as torch.channels_last, and cuDNN "
    "transposes with kernels like these where the layout does not fit.",
    lines=52,
    kernels=tuple(map(declared, LAYOUTS)),
    dims=lambda d: {"rows": d["C"], "columns": d["H"] * d["W"], "threads": 128, **d},
    bench=dict(batch=32, C=256, H=56, W=56, K=256, R=3, S=3),
    cases=(
        by_hand(
            "layouts_tiny", dict(batch=1, C=2, H=2, W=3, K=2, R=1, S=2), input=range(12), weights=range(8)
        ),
        Case("one_channel", dict(batch=2, C=1, H=4, W=3, K=3, R=3, S=2), "both layouts are the same"),
        Case("one_pixel", dict(batch=2, C=5, H=1, W=1, K=4, R=1, S=1), "the same here"),
        Case("fours", dict(batch=2, C=8, H=2, W=6, K=4, R=2, S=3), "float4 everywhere"),
        Case("fours_of_channels", dict(batch=2, C=4, H=3, W=5, K=5, R=3, S=1), "15 pixels: no float4"),
        Case("fours_of_pixels", dict(batch=2, C=6, H=4, W=3, K=7, R=2, S=4), "6 channels: no float4"),
        Case("colours", dict(batch=3, C=3, H=7, W=5, K=6, R=5, S=3, threads=96), "all sizes odd"),
        integers(dict(batch=2, C=4, H=6, W=2, K=3, R=3, S=2), ""),
        Case(
            "rows_of_pixels",
            dict(batch=2, C=8, H=3, W=8, K=1, R=1, S=1, rows=24, columns=8),
            "from NHWC to NCHW: rows are pixels, columns channels",
            kernels=(BLOCKS,),
        ),
        Case("lenet_conv2", dict(batch=2, C=6, H=12, W=12, K=16, R=5, S=5), "LeNet's second layer"),
        Case(
            "many_blocks",
            dict(batch=2, C=32, H=16, W=12, K=32, R=3, S=3),
            "for `backwarp profile`",
            again=drawn(batch=3, C=(40, 56, 8), H=(20, 28, 4), W=(16, 24, 4)),
        ),
        own_sizes(
            batch=(2, 4), C=(9, 20), H=(7, 12), W=(7, 12), K=(3, 20), R=(2, 5), S=(2, 5), threads=(20, 90)
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_requests",
            lambda d: 8 * ceil_div(d["batch"] * d["rows"] * d["columns"], 16 * 32),
            kernels=(BLOCKS,),
            below=768,
            hint=3,
            says="A request moves one float for each lane; with float4 it moves four: a quarter is enough.",
        ),
        # blocks next to each other on one side are apart on the other: there a sector is moved for 16 bytes
        *Gate.limits(BLOCKS, global_bytes=lambda d: 1.05 * 12 * d["batch"] * d["rows"] * d["columns"]),
    ),
    hints=(
        "Thread idx of the first four kernels owns element idx of the output, so split idx by the axes of "
        "the output: its last axis turns fastest. Then forget idx; you have n, c, h, w (or k, c, r, s), and "
        "one element of the input has the same four numbers. Where does it lie? The input's own order of "
        "axes says so.",
        "A flat position: take the index of the outermost axis; for every further axis multiply by that "
        "axis's size and add its index. In NHWC the further axes are H, W, C; in RSCK they are S, C, K. The "
        "last kernel: idx counts blocks. The remainder by `across`, times 4, is the first column; `down` "
        "gives the first row; the image is left. The block starts there in the input, and with rows and "
        "columns exchanged in the output.",
        "A float4 has four neighbours of a row, x, y, z and w; a pointer cast to const float4* reads them at "
        "once, if its address is a multiple of 16 bytes: so it is if rows and columns are multiples of 4. "
        "Row i of the block starts i * columns further on in the input. In the output, column j starts j * "
        "rows further on, and its float4 is made of the j-th members of your four. Otherwise copy one by "
        "one, and mind where rows and columns end.",
    ),
)
