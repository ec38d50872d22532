"""Puzzle 41: convolution, bias, ReLU and pooling in one kernel, and the gradient of the weights behind them."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv, fused

from backwarp.course import Case, Constant, Gate, Gradient, In, Kernel, Launch, Out, Puzzle, ceil_div
from backwarp.course.mistakes import Mistake, mistakes_in, slow
from backwarp.course.sizes import Ints, gradient_check, integers, own_sizes, with_inputs

FORWARD, BACKWARD = "fused_layer", "fused_backward_weights"
COUNTED = "fused_lenet_conv1"
F = 5

MISTAKES = (
    *mistakes_in(
        FORWARD,
        Mistake(
            "place within the window",
            ("(2 * p + i) * W_out + 2 * q", "2 * i"),
            says="A place is counted within the window: it is h * W_out + w in the plane of the convolution.",
        ),
        Mistake(
            "place kept where ReLU leaves 0",
            (("best = 0.0f", "best = -INFINITY"), ("[idx] = best", "[idx] = fmaxf(best, 0.0f)")),
            says="Where ReLU leaves 0, a place is stored instead of -1: a gradient would pass that has no way back.",
        ),
        slow("one filter per block", "", ("FILTERS = 3", "FILTERS = 1")),
        slow("one float at a time", "", ("= two.y;", "= *(volatile float*)&tile[2 * y + i][2 * x + j + 1];")),
        hint=3,
    ),
)


def some_places(rng, a, d):
    """places as a forward pass could have left them: one of the four of every window, or -1."""
    p, q = np.indices((d["batch"], d["C_out"], d["H_pool"], d["W_pool"]))[2:]
    r, s = rng.integers(0, 2, (2, *p.shape))
    return np.where(rng.random(p.shape) < 0.4, -1, (2 * p + r) * d["W_out"] + 2 * q + s)


def loss_of_weights(weights, a, d):
    """A loss whose gradient at what the convolution leaves at `places` is grad_output."""
    planes = conv.forward(a["input"], weights).reshape(d["batch"], d["C_out"], -1)
    n, k = np.indices(a["places"].shape)[:2]
    kept = planes[n, k, np.maximum(a["places"], 0)]
    return np.sum(np.where(a["places"] >= 0, a["grad_output"] * kept, 0.0))


def sizes(a, d):
    """sum |a*b| of the outputs, and for places the size of a plane."""
    output = fused.forward(abs(a["input"]), abs(a["weights"]), abs(a["bias"]))[0]
    return {"output": output, "places": np.full(output.shape, d["H_out"] * d["W_out"])}


def pooled(d):
    """Pooled outputs of all images."""
    return d["batch"] * d["C_out"] * d["H_pool"] * d["W_pool"]


def multiply_adds(d):
    """With a window of the input for every pooled output."""
    return F * F * d["C_in"] * pooled(d)


def warps(d):
    """Of a launch of the forward kernel."""
    tiles = ceil_div(d["H_pool"], d["HEIGHT"]) * ceil_div(d["W_pool"], d["WIDTH"])
    return tiles * d["batch"] * ceil_div(d["C_out"], d["FILTERS"]) * ceil_div(d["WIDTH"] * d["HEIGHT"], 32)


SIZES = Ints("batch C_in H W C_out")

PUZZLE = Puzzle(
    title="A layer of LeNet in one kernel",
    part=6,
    teaches="What it saves to keep a layer's numbers in registers from the convolution to the pooling, and back.",
    practice="Compilers of networks fuse like this: torch.compile and TensorRT put what follows a convolution into it.",
    lines=60,
    kernels=(
        Kernel(
            FORWARD,
            params=(
                In("input", values="integers", b="batch", c="C_in", h="H", w="W"),
                In("bias", values="integers", k="C_out"),
                Out("output", b="batch", k="C_out", p="H_pool", q="W_pool"),
                Out("places", dtype="int32", b="batch", k="C_out", p="H_pool", q="W_pool"),
                *SIZES,
            ),
            flops=lambda d: 4 * multiply_adds(d) * 2,
            short=("C_in", "C_out"),  # the weights have room for 4096
            constants=(Constant("weights", 4096, values="integers", k="C_out", c="C_in", r=F, s=F),),
            launch=lambda d, t: Launch(
                grid=(
                    ceil_div(d["W_pool"], t["WIDTH"]),
                    ceil_div(d["H_pool"], t["HEIGHT"]),
                    d["batch"] * ceil_div(d["C_out"], t["FILTERS"]),
                ),
                block=(t["WIDTH"], t["HEIGHT"]),
            ),
            reference=lambda a, d: dict(
                zip(("output", "places"), fused.forward(a["input"], a["weights"], a["bias"]))
            ),
            magnitude=sizes,
        ),
        Kernel(
            BACKWARD,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_pool", q="W_pool"),
                In("places", dtype="int32", values=some_places, b="batch", k="C_out", p="H_pool", q="W_pool"),
                In("input", b="batch", c="C_in", h="H", w="W"),
                Out("grad_weights", k="C_out", c="C_in", r=F, s=F),
                *SIZES,
            ),
            launch=lambda d, t: Launch(grid=d["C_out"] * d["C_in"], block=t["THREADS"]),
            reference=lambda a, d: fused.backward_weights(a["grad_output"], a["places"], a["input"], F),
            flops=lambda d: multiply_adds(d) * 2,
            magnitude=lambda a, d: fused.backward_weights(
                abs(a["grad_output"]), a["places"], abs(a["input"]), F
            ),
        ),
    ),
    dims=lambda d: {
        "H_out": d["H"] - F + 1,
        "W_out": d["W"] - F + 1,
        "H_pool": (d["H"] - F + 1) // 2,
        "W_pool": (d["W"] - F + 1) // 2,
        **d,
    },
    gradient_of={BACKWARD: Gradient(loss_of_weights)},
    bench=dict(batch=256, C_in=6, H=116, W=116, C_out=16),
    cases=(
        with_inputs(
            "fused_tiny_6x6",
            dict(batch=1, C_in=1, H=6, W=6, C_out=2),
            "done by hand in the lesson: the second filter ends in 0",
            input=[
                [1, 2, 0, 1, 0, 3],
                [0, 1, 3, 0, 2, 1],
                [2, 0, 1, 1, 0, 0],
                [1, 0, 2, 0, 1, 2],
                [0, 3, 1, 0, 1, 0],
                [2, 1, 0, 1, 0, 1],
            ],
            weights=[
                [[[1, 0, 0, 0, 2], [0] * 5, [0, 0, -1, 0, 0], [0] * 5, [1, 0, 0, 0, 1]]],
                [[[-1, 0, 0, 0, -2], [0] * 5, [0, 0, 1, 0, 0], [0] * 5, [-1, 0, 0, 0, -1]]],
            ],
            bias=[-2, -1],
            grad_output=[10, 20],
            places=[1, -1],
        ),
        Case("odd_and_wide", dict(batch=2, C_in=1, H=7, W=12, C_out=3), "a row is left over"),
        Case("odd_and_tall", dict(batch=1, C_in=3, H=14, W=9, C_out=2), "H > W, a column is left over"),
        gradient_check(
            "fused_bw_numerical_gradient_check", dict(batch=2, C_in=2, H=9, W=8, C_out=2), kernels=(BACKWARD,)
        ),
        integers(dict(batch=3, C_in=2, H=10, W=11, C_out=4), "exact sums back"),
        Case("nothing_divides", dict(batch=2, C_in=2, H=25, W=45, C_out=5), "2 x 2 tiles, 2 groups"),
        Case(
            "filters_to_the_end",
            dict(batch=1, C_in=1, H=6, W=6, C_out=163),
            "the constant array has room for 163 filters, and not for one more",
        ),
        Case(
            "many_images",
            dict(batch=32_800, C_in=1, H=6, W=6, C_out=1),
            "more images than a short can count",
            stress=True,
            once="memory",
        ),
        Case(
            "many_channels",
            dict(batch=1, C_in=32_800, H=6, W=6, C_out=1),
            "more channels than a short can count",
            kernels=(BACKWARD,),
            stress=True,
            once="memory",
        ),
        own_sizes(batch=(2, 5), C_in=(1, 3), H=(8, 24), W=(8, 42), C_out=(2, 7)),
        Case("fused_lenet_conv2", dict(batch=2, C_in=6, H=12, W=12, C_out=16), "LeNet's second"),
        Case(
            COUNTED,
            dict(batch=4, C_in=1, H=28, W=28, C_out=6),
            "LeNet's first; this one is counted",
            again=lambda pick: dict(
                batch=pick(2, 3), C_in=pick(2, 3), C_out=3 * pick(3, 4), H=4 + 16 * pick(2, 3), W=36
            ),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_bytes",
            lambda d: 8 * pooled(d) + 8 * d["batch"] * d["C_in"] * d["H"] * d["W"] * ceil_div(d["C_out"], 3),
            kernels=(FORWARD,),
            below=433_152,
            says="Every filter of a block uses the inputs that a thread has copied: let a block compute "
            "three filters or more from one tile, and store nothing but the pooled outputs and their places.",
        ),
        Gate(
            "shared_wavefronts",
            lambda d: 1.1 * warps(d) * d["C_in"] * (2 * (F + 1) * (F + 1) // 2 + 10),
            kernels=(FORWARD,),
            hint=2,
            says="Neighbouring threads begin two columns apart: one float at a time, they meet in every "
            "second bank. Read two at a time, as float2.",
        ),
        Gate(
            "flops",
            lambda d: F * F * d["C_out"] * d["C_in"] * (1.5 * pooled(d) / d["C_out"] + 6.6 * d["THREADS"]),
            kernels=(BACKWARD,),
            below=811_200,
            hint=2,
            says="Of four positions of the convolution one has a gradient, or none: go through the pooled "
            "outputs, and skip those with place -1.",
        ),
        *Gate.limits(FORWARD, flops=lambda d: 2.1 * F * F * d["C_in"] * 4 * 32 * warps(d) * d["FILTERS"]),
        *Gate.limits(
            BACKWARD,
            global_requests=lambda d: (
                1.25 * d["C_out"] * d["C_in"] * ((F * F + 2) * ceil_div(pooled(d) // d["C_out"], 32) + 8)
            ),
        ),
    ),
    hints=(
        "A block's tile begins at row 2 * HEIGHT * blockIdx.y of the input, and column 2 * WIDTH * "
        "blockIdx.x: two rows and columns for every pooled output, and F - 1 more at the end. In z, filters "
        "change fastest: with groups = C_out / FILTERS, rounded up, z % groups is the group and z / groups "
        "the image. The last group may have fewer filters. Threads without an output copy and wait like all "
        "others.",
        "Forward, the tile has an even number of columns and a thread begins at an even one, so two floats "
        "there can be read as one float2. With own[6][6] and sum[FILTERS][2][2] in loops that are unrolled, "
        "all of it stays in registers. Put #pragma unroll before a loop over FILTERS that skips filters from "
        "C_out on: its bounds are constant, but the compiler may leave it a loop. Backward, a thread takes "
        "the pooled outputs t, t + THREADS, ... of channel k in all images; one with place -1 is skipped, "
        "for any other the window of the input begins at row place / W_out, column place % W_out.",
        "Sum (i, j) of thread (x, y) is the convolution at row 2 * p + i, column 2 * q + j. Begin with best "
        "= 0 and the place -1, and let a sum take over if it is larger than best, row by row: then ReLU and "
        "the largest of four are one comparison each. Backward, after the shuffles lane 0 of every warp has "
        "its warp's sum; thread j < F * F adds up those of weight j.",
    ),
)
