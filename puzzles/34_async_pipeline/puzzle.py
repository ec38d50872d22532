"""Puzzle 34: the implicit product of puzzle 30, with the next tiles copied while the threads multiply."""

from __future__ import annotations

from backwarp.course import Case, Gate, Mistake, Puzzle
from backwarp.course.conv_cases import COUNTED_IN_TILES, column_sizes, ints, own_sizes, size
from backwarp.course.convolutions import forward
from backwarp.course.mistakes import mistakes_in, slow
from backwarp.course.sizes import integers, with_inputs
from backwarp.course.tile_limits import implicit_product, in_tiles, one_tile_each, tile_limits

KERNEL = "implicit_gemm_async"
LOOP = "for (int step = 1 - STAGES; step < steps; step++) {"
NEXT = "int next = step + STAGES - 1, to = next % STAGES;"
SPLIT = "\n        s = (next * TILE + y) % S, r = (next * TILE + y) / S % R, c = (next * TILE + y) / (S * R);"
END = "}\n        commit_copies();  // also where there is nothing to copy: groups are counted"
ADD = "sum += filters[step % STAGES][y][i] * patches[step % STAGES][i][x];"
ADDED = ADD + "\n        }"
NOTHING = """}
        commit_copies();
        wait_copies<0>();
        __shared__ float nothing[TILE][TILE];
        copy_async(&nothing[y][x], weights, false);
        commit_copies();"""
PUZZLE_30 = """\
for (int start = 0; start < rows; start += TILE) {
        __shared__ float f[TILE][TILE], g[TILE][TILE];
        f[y][x] = k < C_out && start + x < rows ? weights[k * rows + start + x] : 0.0f;
        int row = start + y, t = row % S, u = row / S % R, v = row / (S * R);
        int h = top + u * dilation_h, w = left + t * dilation_w;
        bool inside = row < rows && column < width && h >= 0 && h < H && w >= 0 && w < W;
        g[y][x] = inside ? input[((b * C_in + v) * H + h) * W + w] : 0.0f;
        __syncthreads();
        for (int n = 0; n < TILE; n++) sum += f[y][n] * g[n][x];
        __syncthreads();
    }
    """
#: not unrolled: the same kernel, compiled sooner
PRODUCTS = "for (int i = 0; i < TILE; i++) {"


def early(name, *edits):
    return Mistake(name, edits, "uninitialised-read", line="may not have finished")


MISTAKES = mistakes_in(
    "",
    slow(
        "through registers, as in puzzle 30",
        "f[y][x] = k < C_out && start + x < rows",
        (LOOP, PUZZLE_30 + LOOP.replace("1 - STAGES", "steps")),
    ),
    slow("waits for what it has just started", ADD, (END, END + "\n        wait_copies<0>();")),
    slow("a second barrier", "stands after the wait", (ADDED, ADDED + "\n        __syncthreads();")),
    slow(
        "divisions in every step",
        SPLIT.strip(),
        (NEXT, NEXT + SPLIT),
        ("s += add_s, r += add_r, c += add_c;", ""),
        ("if (s >= S) s -= S, r++;", ""),
    ),
    slow("waits for all but a copy of nothing", "copies waited for at once", (END, NOTHING)),
    early(
        "no wait", ("wait_copies<STAGES - 2>();  // what this thread copied for this step has arrived", "")
    ),
    early("waits for a group too few", ("STAGES - 2", "STAGES - 1")),
    early("no commit", (END, "}")),
    early("last copies not waited for", (END, "commit_copies();\n        }")),
    Mistake(
        "copies started before the barrier",
        (
            ("__syncthreads();  // so has all else, and nobody reads the pair before any more", ""),
            (END, END + "\n        __syncthreads();"),
        ),
        expect="race",
    ),
    Mistake(
        "a buffer too few",
        (("next % STAGES", "next % (STAGES - 1)"), (ADD, "% STAGES", "% (STAGES - 1)")),
        expect="race",
    ),
    Mistake(
        "pipeline not emptied",
        ("step < steps", "step + STAGES - 1 < steps"),
        says="The last STAGES - 1 pairs are copied but never multiplied: go on until the pipeline is empty.",
        hint=2,
    ),
    also=((PRODUCTS, '_Pragma("unroll 1") ' + PRODUCTS),),
)

PUZZLE = Puzzle(
    title="Asynchronous pipeline",
    part=4,
    teaches="How the next tiles reach shared memory while threads multiply: cp.async, groups, buffers.",
    practice="CUTLASS has multistage kernels built like this: cp.async, and a number of stages to choose.",
    lines=29,
    kernels=(forward(KERNEL, one_tile_each, ints()),),
    dims=lambda d: {**column_sizes(d), **d},
    bench=size(128, 128, 71, 71, 256, 3, 3, stride=(2, 2), pad=(1, 1)),
    cases=(
        with_inputs(
            "async_tiny",
            size(1, 1, 2, 3, 1, 2, 3, stride=(1, 2), pad=(0, 1)),
            "a single step; done by hand in the lesson, with tiles of 2 x 2",
            input=[[[[1, 2, 3], [4, 5, 6]]]],
            weights=[[[[2, 1, -1], [1, 3, 2]]]],
            bias=[1],
        ),
        Case("one_step", size(2, 5, 3, 4, 3, 1, 1), "filters of 1 x 1; filled and emptied at once"),
        Case("two_steps_one_channel", size(3, 1, 6, 5, 2, 5, 4, pad=(1, 1)), "fewer steps than buffers"),
        Case("one_position", size(2, 3, 4, 3, 5, 4, 3), "the filter as large as the image; 3 steps"),
        Case("drawn", size(1, 2, 5, 6, 5, 3, 3), "the picture, with tiles of 4 x 4"),
        integers(size(2, 3, 7, 5, 4, 3, 3)),
        Case("full_tiles", size(2, 4, 5, 5, 16, 2, 2), "nothing to guard: 16 x 16 times 16 x 32"),
        Case("filter_1x1_stride_2", size(1, 33, 4, 6, 3, 1, 1, stride=(2, 2)), "a row is a channel"),
        Case("wide_filter", size(1, 2, 3, 19, 2, 2, 17, pad=(0, 1)), "a row of taps longer than a tile"),
        Case(
            "all_asymmetric",
            size(2, 3, 9, 13, 4, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2)),
            "every parameter differs between rows and columns",
        ),
        Case("nothing_divides", size(1, 5, 7, 6, 17, 3, 3, pad=(1, 1)), "17 filters, 45 rows, 42 positions"),
        Case("many_steps", size(1, 9, 5, 4, 3, 5, 3), "135 rows: 9 steps"),
        own_sizes(C_out=(2, 20)),
        COUNTED_IN_TILES,
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "shared_stores_from_registers",
            0,
            below=1152,
            says="A thread that reads an element and then stores it must wait in between: start a copy "
            "(copy_async) instead, which needs no register and no waiting.",
        ),
        Gate(
            "flops_without_copies",
            25,
            below=100,
            hint=2,
            says="While these products are computed, no copy is under way: start those of a later step "
            "before them, and wait for them afterwards.",
        ),
        Gate(
            "barriers",
            lambda d: 1.215 * 8 * in_tiles(implicit_product(d))[1],
            below=1152,
            hint=2,
            says="One barrier per step is enough, if it stands after the wait and before new copies are "
            "started: it says that this pair is full, and that every thread is done with the previous pair.",
        ),
        Gate(
            "integer_divisions",
            lambda d: 16 * 256 * in_tiles(implicit_product(d))[0],
            below=62_592,
            hint=3,
            says="A GPU has no instruction that divides integers: split TILE once, before the loop, and find "
            "the next (c, r, s) by adding.",
        ),
        *Gate.limits(
            # those of two steps: nothing comes before
            async_copies_idle=lambda d: 2 * 2 * d["C_out"] * d["width"],
            async_copies=lambda d: 1.75 * 2 * d["C_out"] * d["width"] * d["rows"] / (16 * 32),
        ),
        *tile_limits(KERNEL, implicit_product, but="barriers"),
    ),
    hints=(
        "Begin with your kernel of puzzle 30. Its tiles get one more index in front, the number of the pair. "
        "Where a thread stored an element, it calls copy_async with the address of the place in the tile, "
        "the address of the element and the condition; the condition may be false, then the second address "
        "is never used and 0 is written. Neither tile is complete until its copies have been waited for, and "
        "a barrier has been passed.",
        "Let the loop count from 1 - STAGES on, so that in each iteration copies are started for the step "
        "STAGES - 1 later, and the first turns do nothing else. The order in a turn is: wait, barrier, start "
        "copies, commit, multiply. Commit in every iteration, also when nothing is left to copy. Then, when "
        "a step begins, STAGES - 2 groups are newer than the one that it needs. Step n lives in pair n % "
        "STAGES.",
        "Row y of the first tile is split as in puzzle 30. TILE rows further, s has grown by TILE % S, r by "
        "the rest's remainder, c by what is left. A sum of two numbers less than S is less than 2 S, so at "
        "most one S is taken off, and that adds one to r; the same then holds for r and R, and for c. Rows "
        "past the last have a c that is too large. Everything else, such as the bias and the place of the "
        "output, is as in puzzle 30.",
    ),
)
