"""Puzzle 25: a matrix transposed through a tile in shared memory, without bank conflicts."""

from __future__ import annotations

from backwarp.course import Case, Gate, In, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div
from backwarp.course.mistakes import slow
from backwarp.course.sizes import by_hand, drawn, integers, own_sizes

KERNEL = "transpose"
FILL = """for (int i = threadIdx.y; i < TILE; i += HEIGHT) {
        int row"""
WRITE = "if (line < columns && place < rows) output[line * rows + place] = tile[threadIdx.x][i];"

MISTAKES = (
    slow("no padding", WRITE, ("TILE + 1", "TILE")),
    slow(
        "turned while it is read",
        "tile[threadIdx.x][i] = input[row * columns + column];",
        ("i][threadIdx.x", "threadIdx.x][i"),
        ("TILE + 1", "TILE"),
        ("tile[threadIdx.x][i];", "tile[i][threadIdx.x];"),
    ),
    slow(
        "no tile, columns written",
        "output[column * rows + row] = input",
        ("tile[i][threadIdx.x]", "output[column * rows + row]"),
        ("x * TILE + i;", "x * TILE + i; continue;"),
    ),
    slow(
        "written twice",
        "bytes of global memory",
        (WRITE, WRITE + "\n        __syncthreads();\n        " + WRITE),
    ),
    slow(
        "the first warp reads",
        "by the busiest warps",
        (
            FILL,
            FILL.replace("i = threadIdx.y", "i = 0")
            .replace("HEIGHT", "1")
            .replace("i < TILE", "threadIdx.y == 0 && i < TILE"),
        ),
    ),
    Mistake(
        "tile written as it was read",
        ("threadIdx.x][i", "i][threadIdx.x"),
        expect="uninitialised-read",
        says="The tiles are at the right places, but each is written as it was read: a row of the output is "
        "a column of the tile.",
        hint=2,
    ),
    Mistake(
        "block not turned",
        (("place = blockIdx.y", "place = blockIdx.x"), ("x * TILE + i", "y * TILE + i")),
        says="Every tile is transposed but stays where it was: in the output, swap the block's x and y.",
        hint=2,
    ),
)

PUZZLE = Puzzle(
    title="Bank conflicts: a matrix transposed",
    part=3,
    teaches="How shared memory is divided into 32 banks, and why a column of a 32 x 32 tile lies in one.",
    practice="NVIDIA's transpose sample pads its tile by a column as well; CUTLASS permutes the addresses "
    "instead (a swizzle), which takes no memory.",
    lines=15,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("input", r="rows", c="columns"),
                Out("output", c="columns", r="rows"),
                Int("rows"),
                Int("columns"),
            ),
            launch=lambda d, t: Launch(
                grid=(ceil_div(d["columns"], t["TILE"]), ceil_div(d["rows"], t["TILE"])),
                block=(t["TILE"], t["HEIGHT"]),
            ),
            reference=lambda a, d: a["input"].T,
        ),
    ),
    bench=dict(rows=8192, columns=8192),
    cases=(
        by_hand("transpose_tiny_2x3", dict(rows=2, columns=3), input=[[1, 2, 3], [4, 5, 6]]),
        Case("one_row", dict(rows=1, columns=40), "2 x 1 tiles"),
        Case("one_column", dict(rows=40, columns=1), "1 x 2 tiles"),
        Case("a_tile", dict(rows=32, columns=32), "no thread without work"),
        integers(dict(rows=20, columns=33), "exact"),
        Case("wide", dict(rows=7, columns=100), "4 x 1 tiles"),
        Case("nothing_divides", dict(rows=70, columns=45), "2 x 3 tiles"),
        own_sizes(rows=(33, 90), columns=(33, 90)),
        Case(
            "counted",
            dict(rows=64, columns=96),
            "3 x 2 full tiles; this one is counted",
            again=drawn(rows=(96, 160, 32), columns=(128, 192, 32)),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "conflicts_per_request",
            0,
            below=15.5,
            hint=3,
            says="Lanes that want different words of the same bank get them one after the other. Down a "
            "column of the tile, the banks are a row's length apart: only an odd length reaches all 32 of "
            "them.",
        ),
        Gate(
            "sectors_over_ideal",
            1.05,
            below=4.5,
            says="Where neighbouring lanes touch different rows of a matrix in global memory, each moves a "
            "sector for one element: let the tile turn the columns into rows, so that both sides are "
            "coalesced.",
        ),
        *Gate.limits(
            global_bytes=lambda d: 1.05 * 2 * 4 * d["rows"] * d["columns"],
            global_requests=lambda d: 1.05 * 2 * d["rows"] * d["columns"] / 32,
            global_requests_busiest=lambda d: 2 * 2 * d["rows"] * d["columns"] / 32 / d["HEIGHT"],
            shared_wavefronts=lambda d: 1.05 * 2 * d["rows"] * d["columns"] / 32,
        ),
    ),
    hints=(
        "Rows of the input are read along their length, and rows of the output are written along theirs; "
        "only then are both coalesced (puzzle 23). In between the elements change hands: the thread that "
        "writes an element is not the thread that read it. That is what the tile in shared memory is for, "
        "and why the whole block has to wait in between.",
        "The block at (x, y) of the input belongs to (y, x) of the output. When reading, the thread's x "
        "counts columns of the input; when writing, it counts rows of the input, which lie side by side in "
        "the output. So the thread takes its x as the first index into the tile where it writes, and as the "
        "second where it reads. Each time a loop over i, from the thread's y in steps of HEIGHT, goes down "
        "the rows of the tile.",
        "Word number w of shared memory lies in bank w % 32. With 32 words in a row, element [l][i] is word "
        "32 l + i: the same bank for every l. Give the rows one word more, which nobody uses: 33 l + i is in "
        "another bank for every l. Rows are still read and written without conflict.",
    ),
)
