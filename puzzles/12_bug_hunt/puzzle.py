"""Puzzle 12: four kernels that compile and almost work; the student repairs them.

The stub is the code with its mistakes: what the solution has between BEGIN STUB and END STUB. The cases are
of such sizes that the mistakes show one after another, in the order of the file, and each in a way of its
own: as a named misconception, as a pattern of wrong elements (so H for W is left without a name), as an
access outside of an array, and as a race.
"""

from __future__ import annotations

import numpy as np

from harness.course import Case, In, Int, Kernel, Launch, Misconception, Mutant, Out, Puzzle, ceil_div
from reference import conv

BIAS, POOL, SMOOTH, SUM = "bias_gradient", "average_pool2d", "smooth", "running_sum"
BLOCK = 64


# ---- the right answers, with the parts that a wrong kernel gets wrong as parameters -----------------------


def channel_sums(a, d, of=lambda b, c, d: b * d["C"] + c):
    """The sum of the planes of(b, c) over all images b; NaN where there is no such plane."""
    planes = a["grad_output"].sum((2, 3)).ravel()
    at = of(*np.indices((d["batch"], d["C"])), d)
    return np.where(at < planes.size, planes[at % planes.size], np.nan).sum(0)


def means(a, d, corner=lambda p, q, d: 2 * p * d["W"] + 2 * q):
    """The mean of the 2 x 2 elements from the place corner(p, q) of every plane on."""
    planes = a["input"].reshape(d["batch"], d["C"], -1)
    first = corner(*np.indices((d["H_out"], d["W_out"])), d)
    return sum(planes[:, :, first + step] for step in (0, 1, d["W"], d["W"] + 1)) / 4


def smoothed(a, d, stops_at=lambda n: n):
    """The mean of each element and its neighbours, from element 0 up to stops_at(n), exclusive."""
    x, i = a["loss"], np.arange(d["n"])
    taken = [np.where((0 <= j) & (j < stops_at(d["n"])), x[j % d["n"]], np.nan) for j in (i - 1, i, i + 1)]
    return np.nansum(taken, 0) / np.maximum(np.isfinite(taken).sum(0), 1)


def ends_by_three(a, d):
    padded = np.pad(a["loss"], 1)
    return (padded[:-2] + padded[1:-1] + padded[2:]) / 3


def ends_repeated(a, d):
    padded = np.pad(a["loss"], 1, mode="edge")
    return (padded[:-2] + padded[1:-1] + padded[2:]) / 3


def running_sums(a, d, last=lambda t: t):
    """For element t of every block, the sum of the elements 0 to last(t) of its block."""
    blocks = ceil_div(d["n"], BLOCK)
    padded = np.pad(a["loss"], (0, blocks * BLOCK - d["n"])).reshape(blocks, BLOCK)
    sums = np.pad(np.cumsum(padded, 1), ((0, 0), (1, 0)))  # sums[j, t]: of the t elements before t
    return sums[:, last(np.arange(BLOCK)) + 1].ravel()[: d["n"]]


def wrong(id, kernel, hint, says, compute):
    return Misconception(id, kernel, says, compute, hint)


MISCONCEPTIONS = (
    wrong("batch_stride_without_channels", BIAS, 1,
          "The step from image to image in grad_output is one plane, but every image has C planes.",
          lambda a, d: channel_sums(a, d, lambda b, c, d: b + c)),
    wrong("batch_missing", BIAS, 1,
          "Image 0 is added up once for every image: b is missing in the index.",
          lambda a, d: channel_sums(a, d, lambda b, c, d: c)),
    wrong("channel_stride_with_batch", BIAS, 1,
          "The planes are counted channel by channel; they are stored image by image, C planes each.",
          lambda a, d: channel_sums(a, d, lambda b, c, d: c * d["batch"] + b)),
    wrong("rows_of_the_output", POOL, 1,
          "The rows of the input are taken to be W_out elements long; they are W long.",
          lambda a, d: means(a, d, lambda p, q, d: 2 * p * d["W_out"] + 2 * q)),
    wrong("rows_overlap", POOL, 1,
          "The windows lie 1 row apart; window (p, q) starts in row 2 * p.",
          lambda a, d: means(a, d, lambda p, q, d: p * d["W"] + 2 * q)),
    wrong("last_neighbour_missing", SMOOTH, 2,
          "The last element is left out, by its neighbour and by itself: the elements are 0 to n - 1.",
          lambda a, d: smoothed(a, d, lambda n: n - 1) if d["n"] > 2 else np.full(d["n"], np.nan)),
    wrong("ends_by_three", SMOOTH, 2,
          "The ends are too small: they have one neighbour, so their sum is divided by 2, not by 3.",
          ends_by_three),
    wrong("ends_repeated", SMOOTH, 2,
          "The ends count twice: a neighbour that does not exist is left out, not replaced.",
          ends_repeated),
    wrong("own_element_missing", SUM, 3,
          "Every sum stops one too early: it includes the thread's own element.",
          lambda a, d: running_sums(a, d, last=lambda t: t - 1)),
    wrong("first_warp_only", SUM, 3,
          "The sums of a block stop at its element 31, the last of its first warp: a block has BLOCK "
          "threads.",
          lambda a, d: running_sums(a, d, last=lambda t: np.minimum(t, 31))),
)  # fmt: skip

PLANE = "grad_output + (b * C + c) * H * W;"
CORNER = "plane + 2 * p * W + 2 * q;"
EXISTS = "if (j < 0 || j >= n) continue;"
FILL = "if (i < n) part[threadIdx.x] = loss[i];"
BARRIER = "    // BEGIN SOLUTION\n    __syncthreads();\n    // END SOLUTION\n"
T_LOOP = "for (int t = 0; t <= threadIdx.x; t++)"


def mutant(name, kernel, old, new, expect="wrong", also=()):
    return Mutant(name, kernel, old, new, expect, also)


MUTANTS = (
    # the four mistakes of the stub
    mutant("batch stride", BIAS, PLANE, "grad_output + (b + c)  * H * W;", "batch_stride_without_channels"),
    mutant("H for W", POOL, CORNER, "plane + 2 * p * H  + 2 * q;"),
    mutant("halo one too wide", SMOOTH, EXISTS, "if (j < 0 || j > n)  continue;", "out-of-bounds"),
    mutant("barrier missing", SUM, BARRIER, "", "race"),
    # other mistakes, as wrong repairs
    mutant("batch missing", BIAS, PLANE, "grad_output + c * H * W;", "batch_missing"),
    mutant("channel by channel", BIAS, PLANE, "grad_output + (c * batch + b) * H * W;",
           "channel_stride_with_batch"),
    mutant("batch and channel exchanged", BIAS, PLANE, "grad_output + (c * C + b) * H * W;",
           ("wrong", "out-of-bounds")),
    mutant("rows of the output", POOL, CORNER, "plane + 2 * p * W_out + 2 * q;", "rows_of_the_output"),
    mutant("rows overlap", POOL, CORNER, "plane + p * W + 2 * q;", "rows_overlap"),
    mutant("columns overlap", POOL, CORNER, "plane + 2 * p * W + q;"),
    mutant("no test", SMOOTH, EXISTS, "", "out-of-bounds"),
    mutant("test on the left missing", SMOOTH, EXISTS, "if (j >= n) continue;", "out-of-bounds"),
    mutant("last element left out", SMOOTH, EXISTS, "if (j < 0 || j >= n - 1) continue;",
           "last_neighbour_missing"),
    mutant("first element left out", SMOOTH, EXISTS, "if (j <= 0 || j >= n) continue;"),
    mutant("stops at the end", SMOOTH, EXISTS, "if (j < 0 || j >= n) break;"),
    mutant("ends not written", SMOOTH, EXISTS, "if (j < 0 || j >= n) return;", "unwritten"),
    mutant("ends divided by three", SMOOTH, "sum / count;", "sum / 3;", "ends_by_three"),
    mutant("ends repeated", SMOOTH, "sum += loss[j];", "sum += loss[min(max(j, 0), n - 1)];", "ends_repeated",
           also=((EXISTS, ""),)),
    mutant("barrier before the array is filled", SUM, f"{FILL}\n{BARRIER}", f"__syncthreads();\n    {FILL}\n",
           "race"),
    mutant("barrier after the sum", SUM, BARRIER, "", "race",
           also=(("sums[i] = sum;", "__syncthreads();\n    sums[i] = sum;"),)),
    mutant("barrier of a warp", SUM, "__syncthreads();", "__syncwarp();", "race"),
    mutant("barrier of thread 0", SUM, BARRIER, "    if (threadIdx.x == 0) __syncthreads();\n",
           ("race", "barrier-divergence")),
    mutant("two barriers for two halves", SUM, BARRIER,
           "    if (threadIdx.x < 32) __syncthreads();\n    else __syncthreads();\n", "barrier-divergence"),
    mutant("memory fence for a barrier", SUM, "__syncthreads();", "__threadfence_block();", "race"),
    mutant("own element left out", SUM, T_LOOP, "for (int t = 0; t < threadIdx.x; t++)",
           "own_element_missing"),
    mutant("whole block", SUM, T_LOOP, "for (int t = 0; t < BLOCK; t++)", "uninitialised-read"),
    mutant("one element too many", SUM, T_LOOP, "for (int t = 0; t <= threadIdx.x + 1; t++)",
           ("out-of-bounds", "uninitialised-read")),
    mutant("first warp only", SUM, T_LOOP, "for (int t = 0; t <= threadIdx.x && t < 32; t++)",
           "first_warp_only"),
    mutant("no block", SUM, "sum += part[t];", "sum += loss[t];"),
)  # fmt: skip


def derived(d):
    """The size of a pooled plane, in cases with planes."""
    return {"H_out": d["H"] // 2, "W_out": d["W"] // 2} if "H" in d else {}


PUZZLE = Puzzle(
    title="Bug hunt",
    part=1,
    teaches="How to read what the grader says: a named mistake, a pattern, a stray access, a race.",
    practice=(
        "On a GPU NVIDIA's compute-sanitizer finds such bugs; its tools are memcheck, initcheck, racecheck "
        "and synccheck."
    ),
    lines=4,
    repair=True,
    kernels=(
        Kernel(
            BIAS,
            params=(
                In("grad_output", b="batch", c="C", h="H", w="W"),
                Out("grad_bias", c="C"),
                Int("batch"), Int("C"), Int("H"), Int("W"),
            ),
            launch=lambda d, t: Launch(grid=ceil_div(d["C"], BLOCK), block=BLOCK),
            reference=lambda a, d: conv.backward_bias(a["grad_output"]),
        ),
        Kernel(
            POOL,
            params=(
                In("input", b="batch", c="C", h="H", w="W"),
                Out("output", b="batch", c="C", p="H_out", q="W_out"),
                Int("batch"), Int("C"), Int("H"), Int("W"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C"] * d["H_out"] * d["W_out"], BLOCK), block=BLOCK
            ),
            reference=lambda a, d: means(a, d),
        ),
        Kernel(
            SMOOTH,
            params=(In("loss", i="n"), Out("smoothed", i="n"), Int("n")),
            launch=lambda d, t: Launch(grid=ceil_div(d["n"], BLOCK), block=BLOCK),
            reference=lambda a, d: smoothed(a, d),
        ),
        Kernel(
            SUM,
            params=(In("loss", i="n"), Out("sums", i="n"), Int("n")),
            launch=lambda d, t: Launch(grid=ceil_div(d["n"], BLOCK), block=BLOCK),
            reference=lambda a, d: running_sums(a, d),
        ),
    ),
    dims=derived,
    bench=dict(batch=64, C=64, H=112, W=112, n=1 << 20),
    cases=(
        Case(
            "bias_tiny", dict(batch=3, C=2, H=1, W=2), kernels=(BIAS,), note="done by hand in the lesson",
            inputs={"grad_output": [[[1, 2], [10, 20]], [[3, 4], [30, 40]], [[5, 6], [50, 60]]]},
        ),
        Case("pool_small", dict(batch=1, C=1, H=4, W=6), kernels=(POOL,), note="W > H",
             inputs={"input": list(range(24))}),
        Case("smooth_16", dict(n=16), kernels=(SMOOTH,)),
        Case("sum_of_40", dict(n=40), kernels=(SUM,), note="one block, not full"),
        Case("output_1x1", dict(batch=4, C=5, H=2, W=3), kernels=(POOL,)),
        Case("one_channel", dict(batch=3, C=1, H=5, W=8), kernels=(BIAS, POOL)),
        Case("integers", dict(batch=2, C=3, H=6, W=10, n=130), note="exact sums", values="integers",
             kernels=(BIAS, POOL, SUM)),
        Case("one_element", dict(batch=3, C=4, H=7, W=4, n=1), note="a loss without neighbours; H > W"),
        Case("full_blocks", dict(n=256), kernels=(SMOOTH, SUM), note="4 blocks"),
        Case("nothing_divides", dict(batch=3, C=5, H=9, W=7, n=1000)),
        Case("many_channels", dict(batch=4, C=67, H=5, W=4, n=4097), note="65 blocks of losses"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(2, 4), C=pick(65, 90), H=pick(2, 9), W=pick(2, 9),
                                    n=pick(300, 3000))),
        Case("wide_image", dict(batch=2, C=1, H=3, W=519), note="more columns than a byte can count", stress=True,
             kernels=(BIAS, POOL)),
        Case("large_image", dict(batch=1, C=1, H=515, W=131, n=65_601), stress=True,
             note="more pixels, and losses, than 16 bits can count"),
        Case("many_planes", dict(batch=259, C=257, H=2, W=2), note="more planes than 16 bits can count", stress=True,
             kernels=(BIAS, POOL)),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "The first two never leave their arrays, but read at wrong places in them. Count elements: how many "
        "lie before the plane of channel c in image b? How many lie before row 2 * p of a plane? Try the "
        "numbers of the case that failed, not numbers where rows are as long as columns are high.",
        "In the third, the report names an element that does not exist, so ask which j leads there and which thread has "
        "it. Only the outermost thread is concerned. Compare the two halves of the test: what is the first "
        "number on either side that must not pass?",
        "In the fourth, every thread fills one element of the shared array, and reads those that other "
        "threads fill. Nothing makes it wait for them. One line is missing, between the last write and the "
        "first read, at a place that all threads of the block pass.",
    ),
)  # fmt: skip
