"""Puzzle 12: four kernels that compile and almost work; the student repairs them.

The stub is the code with its mistakes: what the solution has between BEGIN STUB and END STUB. The cases are
of such sizes that the mistakes show one after another, in the order of the file, and each in a way of its
own: as a named mistake, as a pattern of wrong elements (so H for W is left without a name), as an
access outside of an array, and as a race.
"""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, In, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div, mistakes_in
from backwarp.course.sizes import Ints, by_hand, integers, own_sizes, with_inputs

BIAS, POOL, SMOOTH, SUM = "bias_gradient", "average_pool2d", "smooth", "running_sum"
BLOCK = 64


def means(a, d):
    """The mean of the 2 x 2 elements of every window."""
    planes = a["input"].reshape(d["batch"], d["C"], -1)
    p, q = np.indices((d["H_out"], d["W_out"]))
    first = 2 * p * d["W"] + 2 * q
    return sum(planes[:, :, first + step] for step in (0, 1, d["W"], d["W"] + 1)) / 4


def smoothed(a, d):
    """The mean of each element and its neighbours, as far as there are any."""
    x, i = a["loss"], np.arange(d["n"])
    taken = [np.where((0 <= j) & (j < d["n"]), x[j % d["n"]], np.nan) for j in (i - 1, i, i + 1)]
    return np.nansum(taken, 0) / np.isfinite(taken).sum(0)


def running_sums(a, d):
    """For every element the sum of the elements of its block up to it."""
    padded = np.pad(a["loss"], (0, -d["n"] % BLOCK))
    return np.cumsum(padded.reshape(-1, BLOCK), 1).ravel()[: d["n"]]


BARRIER = "    // BEGIN SOLUTION\n    __syncthreads();\n    // END SOLUTION\n"

MISTAKES = (
    *mistakes_in(
        BIAS,
        Mistake(
            "batch stride",
            ("(b * C + c)", "(b + c) "),
            says="The step from image to image in grad_output is one plane, but every image has C planes.",
        ),
    ),
    *mistakes_in(
        SUM,
        Mistake("barrier missing", (BARRIER, ""), expect="race"),
        Mistake(
            "barrier of thread 0",
            (BARRIER, "    if (threadIdx.x == 0) __syncthreads();\n"),
            expect=("race", "barrier-divergence"),
        ),
        Mistake(
            "two barriers for two halves",
            (BARRIER, "    if (threadIdx.x < 32) __syncthreads();\n    else __syncthreads();\n"),
            expect="barrier-divergence",
        ),
    ),
)


def derived(d):
    """The size of a pooled plane, in cases with planes."""
    return {"H_out": d["H"] // 2, "W_out": d["W"] // 2} if "H" in d else {}


PUZZLE = Puzzle(
    title="Bug hunt",
    part=1,
    teaches="How to read what the grader says: a named mistake, a pattern, a stray access, a race.",
    practice="On a GPU compute-sanitizer finds such bugs, by memcheck, initcheck, racecheck and synccheck.",
    lines=4,
    repair=True,
    kernels=(
        Kernel(
            BIAS,
            params=(
                In("grad_output", b="batch", c="C", h="H", w="W"),
                Out("grad_bias", c="C"),
                *Ints("batch C H W"),
            ),
            launch=lambda d, t: Launch(grid=ceil_div(d["C"], BLOCK), block=BLOCK),
            reference=lambda a, d: conv.backward_bias(a["grad_output"]),
        ),
        Kernel(
            POOL,
            params=(
                In("input", b="batch", c="C", h="H", w="W"),
                Out("output", b="batch", c="C", p="H_out", q="W_out"),
                *Ints("batch C H W"),
            ),
            launch=lambda d, t: Launch(
                grid=ceil_div(d["batch"] * d["C"] * d["H_out"] * d["W_out"], BLOCK), block=BLOCK
            ),
            reference=means,
        ),
        Kernel(
            SMOOTH,
            params=(In("loss", i="n"), Out("smoothed", i="n"), Int("n")),
            launch=lambda d, t: Launch(grid=ceil_div(d["n"], BLOCK), block=BLOCK),
            reference=smoothed,
        ),
        Kernel(
            SUM,
            params=(In("loss", i="n"), Out("sums", i="n"), Int("n")),
            launch=lambda d, t: Launch(grid=ceil_div(d["n"], BLOCK), block=BLOCK),
            reference=running_sums,
        ),
    ),
    dims=derived,
    bench=dict(batch=64, C=64, H=112, W=112, n=1 << 20),
    cases=(
        by_hand(
            "bias_tiny",
            dict(batch=3, C=2, H=1, W=2),
            kernels=(BIAS,),
            grad_output=[[[1, 2], [10, 20]], [[3, 4], [30, 40]], [[5, 6], [50, 60]]],
        ),
        with_inputs(
            "pool_small", dict(batch=1, C=1, H=4, W=6), "W > H", kernels=(POOL,), input=list(range(24))
        ),
        Case("smooth_16", dict(n=16), kernels=(SMOOTH,)),
        Case("sum_of_40", dict(n=40), "one block, not full", kernels=(SUM,)),
        Case("output_1x1", dict(batch=4, C=5, H=2, W=3), kernels=(POOL,)),
        Case("one_channel", dict(batch=3, C=1, H=5, W=8), kernels=(BIAS, POOL)),
        integers(dict(batch=2, C=3, H=6, W=10, n=130), kernels=(BIAS, POOL, SUM)),
        Case("one_element", dict(batch=3, C=4, H=7, W=4, n=1), "a loss without neighbours; H > W"),
        Case("full_blocks", dict(n=256), "4 blocks", kernels=(SMOOTH, SUM)),
        Case("nothing_divides", dict(batch=3, C=5, H=9, W=7, n=1000)),
        Case("many_channels", dict(batch=4, C=67, H=5, W=4, n=4097), "65 blocks of losses"),
        own_sizes(batch=(2, 4), C=(65, 90), H=(2, 9), W=(2, 9), n=(300, 3000)),
    ),
    mistakes=MISTAKES,
    hints=(
        "The first two never leave their arrays, but read the wrong places in them. Count elements: how many "
        "lie before the plane of channel c in image b? How many lie before row 2 * p of a plane? Try the "
        "numbers of the case that failed, not numbers where rows are as long as columns are high.",
        "In the third, the report names an element that does not exist, so ask which j leads there and which "
        "thread has it. Only the outermost thread is affected. Compare the two halves of the test: what is "
        "the first number on either side that must not pass?",
        "In the fourth, every thread fills one element of the shared array, and reads those that other "
        "threads fill. Nothing makes it wait for them. One line is missing, between the last write and the "
        "first read, where all threads of the block pass.",
    ),
)
