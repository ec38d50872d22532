"""Puzzle 18: images and filters from one layout to another; the second step moves four elements at a time."""

from __future__ import annotations

import numpy as np
from backwarp.reference.layout import convert

from backwarp.course import Case, Gate, In, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div, mistakes_in

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


# ---- wrong kernels in NumPy --------------------------------------------------------------------------


NCHW, NHWC = "input[((n * C + c) * H + h) * W + w]", "input[((n * H + h) * W + w) * C + c]"
KCRS, RSCK = "weights[((k * C + c) * R + r) * S + s]", "weights[((r * S + s) * C + c) * K + k]"
GUARD, FILTER_GUARD = "if (idx >= batch * C * H * W) return;", "if (idx >= K * C * R * S) return;"
ODD = "rows % 4 != 0 || columns % 4 != 0"
FROM = "const float* from = input + (n * rows + row) * columns + column;"
ROW_LOOP = "for (int i = 0; i < 4 && row + i < rows; i++) {"
STORES = """*(float4*)to = make_float4(a.x, b.x, c.x, d.x);
    *(float4*)(to + rows) = make_float4(a.y, b.y, c.y, d.y);
    *(float4*)(to + 2 * rows) = make_float4(a.z, b.z, c.z, d.z);
    *(float4*)(to + 3 * rows) = make_float4(a.w, b.w, c.w, d.w);"""
#: (a column of the block, a row of it) four times: what is stored, and what a copy would store


def split(*axes):
    """The text that splits idx by these axes, each an index and a size, the fastest first: "kK", "cC"."""
    lines, below = [], []
    for index, size in axes:
        quotient = f"idx / ({' * '.join(below)})" if len(below) > 1 else " / ".join(["idx", *below])
        lines.append(f"int {index} = {quotient}{f' % {size}' if len(below) < len(axes) - 1 else ''};")
        below.append(size)
    return "\n    ".join(lines)


AS_RSCK, AS_KCRS = split("kK", "cC", "sS", "rR"), split("sS", "rR", "cC", "kK")
AS_NHWC, AS_NCHW = split("cC", "wW", "hH", "nN"), split("wW", "hH", "cC", "nN")


MISTAKES = (
    *mistakes_in(
        TO_NHWC,
        Mistake(
            "copied",
            (NCHW, "input[idx]"),
            says="This is the input unchanged: element idx of the output has a different place in the input.",
        ),
        Mistake(
            "from NHWC to NCHW",
            ((AS_NHWC, AS_NCHW), (NCHW, NHWC)),
            says="This is NHWC to NCHW; the input is NCHW, and the output must be NHWC.",
            hint=2,
        ),
        Mistake(
            "rows and columns exchanged",
            (AS_NHWC, split("cC", "hH", "wW", "nN")),
            says="These are the right numbers, laid out as [batch, W, H, C]: w must change faster than h.",
            hint=2,
        ),
        Mistake(
            "image 0 only",
            (NCHW, "input[(c * H + h) * W + w]"),
            says="Every image is image 0: n is missing from the index of the input.",
            hint=3,
        ),
        Mistake(
            "H for W",
            (NCHW, "input[((n * C + c) * H + h) * H + w]"),
            expect="out-of-bounds",
            says="The rows of the input are taken to be H elements long; they are W long.",
            hint=3,
        ),
        Mistake("no guard", (GUARD, ""), expect="out-of-bounds"),
        Mistake("guard forgets the batch", (GUARD, "if (idx >= C * H * W) return;"), expect="unwritten"),
    ),
    *mistakes_in(
        TO_NCHW,
        Mistake(
            "back: from NCHW to NHWC",
            ((AS_NCHW, AS_NHWC), (NHWC, NCHW)),
            says="This is NCHW to NHWC; here the input is NHWC, and the output must be NCHW.",
            hint=2,
        ),
        Mistake(
            "back: image 0 only",
            (NHWC, "input[(h * W + w) * C + c]"),
            says="Every image is image 0: n is missing from the index of the input.",
            hint=3,
        ),
        Mistake(
            "back: pixels one element apart",
            (NHWC, "input[(n * H + h) * W + w + c]"),
            says="The pixels of the input are taken to be one element apart; each has C elements.",
            hint=3,
        ),
    ),
    *mistakes_in(
        TO_RSCK,
        Mistake(
            "filters: as KRSC",
            (AS_RSCK, split("cC", "sS", "rR", "kK")),
            says="These are the right numbers, laid out as [K, R, S, C]: k must change fastest, and r "
            "slowest.",
            hint=2,
        ),
        Mistake(
            "filters: as CRSK",
            (AS_RSCK, split("kK", "sS", "rR", "cC")),
            says="These are the right numbers, laid out as [C, R, S, K]: r and s must come first.",
            hint=2,
        ),
        Mistake(
            "filters: as RSKC",
            (AS_RSCK, split("cC", "kK", "sS", "rR")),
            says="These are the right numbers, laid out as [R, S, K, C]: k must change faster than c.",
            hint=2,
        ),
        Mistake(
            "filters: as SRCK",
            (AS_RSCK, split("kK", "cC", "rR", "sS")),
            says="These are the right numbers, laid out as [S, R, C, K]: s must change faster than r.",
            hint=2,
        ),
        Mistake(
            "filters: size of a block written as 128", ("blockDim.x", "128"), expect=("unwritten", "wrong")
        ),
    ),
    *mistakes_in(
        TO_KCRS,
        Mistake(
            "filters back: from KCRS to RSCK",
            ((AS_KCRS, AS_RSCK), (RSCK, KCRS)),
            says="This is KCRS to RSCK; here the input is RSCK, and the output must be KCRS.",
            hint=2,
        ),
        Mistake(
            "filters back: as CKRS",
            (AS_KCRS, split("sS", "rR", "kK", "cC")),
            says="These are the right numbers, laid out as [C, K, R, S]: c must change faster than k.",
            hint=2,
        ),
        Mistake(
            "filters back: r and s exchanged",
            (RSCK, "weights[((s * R + r) * C + c) * K + k]"),
            says="The filters are read as [S, R, C, K]; they are stored as [R, S, C, K].",
            hint=3,
        ),
        Mistake(
            "filters back: guard one too late",
            (FILTER_GUARD, FILTER_GUARD.replace(">=", ">")),
            expect="out-of-bounds",
        ),
    ),
    *mistakes_in(
        BLOCKS,
        Mistake(
            "blocks: not transposed",
            (
                ("a.x, b.x, c.x, d.x", "a.x, a.y, a.z, a.w"),
                ("a.y, b.y, c.y, d.y", "b.x, b.y, b.z, b.w"),
                ("a.z, b.z, c.z, d.z", "c.x, c.y, c.z, c.w"),
                ("a.w, b.w, c.w, d.w", "d.x, d.y, d.z, d.w"),
            ),
            says="The blocks are where they belong, but not transposed: a stored float4 is a column of the "
            "block.",
            hint=3,
        ),
        Mistake(
            "blocks: first column only",
            (STORES, STORES.splitlines()[0]),
            says="Only the first column of every block is stored: it has four.",
            hint=3,
        ),
        Mistake(
            "blocks: image 0",
            (FROM, FROM.replace("(n * rows + row)", "row")),
            says="Every image is image 0: n is missing from the place of the block in the input.",
            hint=2,
        ),
        Mistake("blocks: float4 always", (ODD, "false"), expect=("misaligned", "out-of-bounds")),
        Mistake(
            "blocks: only the rows looked at", (ODD, "rows % 4 != 0"), expect=("misaligned", "out-of-bounds")
        ),
        Mistake(
            "blocks: only the columns looked at",
            (ODD, "columns % 4 != 0"),
            expect=("misaligned", "out-of-bounds"),
        ),
        Mistake(
            "blocks: edge not looked at",
            (ROW_LOOP, "for (int i = 0; i < 4; i++) {"),
            expect=("wrong", "out-of-bounds", "race"),
        ),
        Mistake(
            "blocks: rows of the output",
            ("from + columns", "from + rows"),
            expect=("wrong", "out-of-bounds", "misaligned"),
        ),
        Mistake(
            "blocks: element by element",
            ("rows % 4 != 0 || columns % 4 != 0", "true"),
            expect="slow",
            line="to[j * rows + i] = from[i * columns + j];",
        ),
        Mistake(
            "blocks: in an array that is indexed at run time",
            (
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
            expect="slow",
            line="bytes of local memory moved",
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
    practice=(
        "Tensor cores prefer channels last: PyTorch offers it as torch.channels_last, and cuDNN transposes "
        "with kernels like these where the layout does not fit."
    ),
    lines=52,
    kernels=tuple(map(declared, LAYOUTS)),
    dims=lambda d: {"rows": d["C"], "columns": d["H"] * d["W"], "threads": 128, **d},
    bench=dict(batch=32, C=256, H=56, W=56, K=256, R=3, S=3),
    cases=(
        Case(
            "layouts_tiny",
            dict(batch=1, C=2, H=2, W=3, K=2, R=1, S=2),
            note="done by hand in the lesson",
            inputs={"input": range(12), "weights": range(8)},
        ),
        Case("one_channel", dict(batch=2, C=1, H=4, W=3, K=3, R=3, S=2), note="both layouts are the same"),
        Case("one_pixel", dict(batch=2, C=5, H=1, W=1, K=4, R=1, S=1), note="the same here"),
        Case("fours", dict(batch=2, C=8, H=2, W=6, K=4, R=2, S=3), note="float4 everywhere"),
        Case("fours_of_channels", dict(batch=2, C=4, H=3, W=5, K=5, R=3, S=1), note="15 pixels: no float4"),
        Case("fours_of_pixels", dict(batch=2, C=6, H=4, W=3, K=7, R=2, S=4), note="6 channels: no float4"),
        Case("colours", dict(batch=3, C=3, H=7, W=5, K=6, R=5, S=3, threads=96), note="all sizes odd"),
        Case("integers", dict(batch=2, C=4, H=6, W=2, K=3, R=3, S=2), values="integers"),
        Case(
            "rows_of_pixels",
            dict(batch=2, C=8, H=3, W=8, K=1, R=1, S=1, rows=24, columns=8),
            kernels=(BLOCKS,),
            note="from NHWC to NCHW: rows are pixels, columns channels",
        ),
        Case("lenet_conv2", dict(batch=2, C=6, H=12, W=12, K=16, R=5, S=5), note="LeNet's second layer"),
        Case(
            "many_blocks",
            dict(batch=2, C=32, H=16, W=12, K=32, R=3, S=3),
            note="for `backwarp profile`",
            again=lambda pick: dict(batch=3, C=8 * pick(5, 7), H=4 * pick(5, 7), W=4 * pick(4, 6)),
        ),
        Case(
            "own_sizes",
            note="sizes drawn from your file's text",
            draw=lambda pick: dict(
                batch=pick(2, 4),
                C=pick(9, 20),
                H=pick(7, 12),
                W=pick(7, 12),
                K=pick(3, 20),
                R=pick(2, 5),
                S=pick(2, 5),
                threads=pick(20, 90),
            ),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_requests",
            lambda d: 8 * ceil_div(d["batch"] * d["rows"] * d["columns"], 16 * 32),
            kernels=(BLOCKS,),
            case="many_blocks",
            below=768,
            hint=3,
            says="One request moves one float for each lane; with float4 it moves four, and a quarter of "
            "them is enough.",
        ),
        # blocks next to each other on one side are apart on the other: there a sector is moved for 16 bytes
        *Gate.limits(
            "many_blocks", BLOCKS, global_bytes=lambda d: 1.05 * 12 * d["batch"] * d["rows"] * d["columns"]
        ),
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
        "Row i of the block starts i * columns further on in the input. In the output, column j starts "
        "j * rows further on, and its float4 is made of the j-th members of your four. Otherwise copy one by "
        "one, and mind where rows and columns end.",
    ),
)
