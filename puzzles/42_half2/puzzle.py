"""Puzzle 42: the gradient of the weights from packed halves, and the scale that keeps small gradients."""

from __future__ import annotations

from backwarp.reference import conv, half

from backwarp.course import Case, Float, Gate, Gradient, In, InOut, Int, Kernel, Launch, Out, Puzzle, ceil_div
from backwarp.course.mistakes import Mistake, mistakes_in, slow
from backwarp.course.sizes import Ints, drawn, gradient_check, integers, own_sizes, with_inputs

SCALE, BACKWARD = "scale_to_half", "conv2d_backward_weights_half2"
COUNTED = "half_lenet_conv1"
F = 5
CONVERTED = "__floats2half2_rn(scale * two.x, scale * two.y)"
ADDED = "run[r * F + s] = __hfma2(grad, x, run[r * F + s]);"

MISTAKES = (
    *mistakes_in(
        SCALE,
        Mistake(
            "rounded before it is scaled",
            (CONVERTED, "__hmul2(__float2half2_rn(scale), __floats2half2_rn(two.x, two.y))"),
            says="The gradients are rounded to half before they are multiplied by scale: by then the small ones are 0.",
        ),
        Mistake(
            "not scaled",
            ("scale * two.x, scale *", "two.x,"),
            says="The gradients are not multiplied by scale: as halves, the small ones are 0.",
        ),
    ),
    *mistakes_in(
        BACKWARD,
        Mistake(
            "a whole sum in half",
            ("steps == RUN", "steps < 0"),
            says="A thread adds up all its products in half: after RUN steps its sums have to go on in float.",
            hint=3,
        ),
        slow(
            "products in float",
            "",
            (
                ADDED,
                "sum[r * F + s] += __low2float(grad) * __low2float(x) + __high2float(grad) * __high2float(x);",
            ),
        ),
        slow(
            "products one by one",
            "",
            (
                ADDED,
                "__half2 y = run[r * F + s]; run[r * F + s] = __halves2half2(__hfma(__low2half(grad), "
                "__low2half(x), __low2half(y)), __hfma(__high2half(grad), __high2half(x), __high2half(y)));",
            ),
        ),
        slow("one half at a time", "", ("i % 2 == 0", "i < 0")),
    ),
)


def small(rng, a, d):
    """Gradients of many sizes: as halves, some lose digits, and some are 0."""
    return rng.standard_normal(d["n"]) * 2.0 ** rng.integers(-34, -8, d["n"])


def one_large(rng, a, d):
    """A gradient at an odd place becomes infinite."""
    grad = rng.standard_normal(d["n"])
    grad[2 * rng.integers(d["n"] // 2) + 1] = 65
    return grad


def positive(rng, a, d):
    """Whole numbers from 1 to 4, so that sums only grow."""
    sizes = ("batch", "C_in", "H", "W") if a else ("batch", "C_out", "H_out", "W_out")
    return rng.integers(1, 5, [d[name] for name in sizes])


def loss_of_weights(weights, a, d):
    """A loss whose gradient at the outputs is grad_output without its scale."""
    return (a["grad_output"] * conv.forward(a["input"], weights)).sum() / d["scale"]


def pairs_of_channels(d):
    return d["C_out"] * d["C_in"]


def per_thread(d):
    """Steps of a thread of the second kernel."""
    return ceil_div(d["batch"] * d["H_out"] * ceil_div(d["W_out"], 2), d["THREADS"])


def steps(d):
    """Of all warps of the second kernel: one for 32 pairs of positions."""
    return pairs_of_channels(d) * ceil_div(d["batch"] * d["H_out"] * ceil_div(d["W_out"], 2), 32)


SIZES = drawn(n=(1000, 9000), batch=(2, 4), C_in=(1, 3), H=(8, 24), W=(8, 24), C_out=(2, 5))

PUZZLE = Puzzle(
    title="Packed halves",
    part=6,
    teaches="Two halves in a register, sums too large for a half, and gradients too small for one.",
    practice="torch.amp scales the loss, skips a step after an overflow, and keeps the weights in float.",
    lines=51,
    kernels=(
        Kernel(
            SCALE,
            params=(
                In("grad", values=small, i="n"),
                Out("scaled", dtype="float16", i="n"),
                InOut("overflow", dtype="int32", values="zeros", i=1),
                Float("scale"),
                Int("n"),
            ),
            launch=lambda d, t: Launch(grid=ceil_div(d["n"], 2 * t["THREADS"]), block=t["THREADS"]),
            reference=lambda a, d: dict(zip(("scaled", "overflow"), half.scaled(a["grad"], d["scale"]))),
            atol=0.0,
            rtol=0.0,
        ),
        Kernel(
            BACKWARD,
            params=(
                In("grad_output", dtype="float16", b="batch", k="C_out", p="H_out", q="W_out"),
                In("input", dtype="float16", b="batch", c="C_in", h="H", w="W"),
                Out("grad_weights", k="C_out", c="C_in", r=F, s=F),
                Float("scale"),
                *Ints("batch C_in H W C_out"),
            ),
            launch=lambda d, t: Launch(grid=d["C_out"] * d["C_in"], block=t["THREADS"]),
            reference=lambda a, d: half.backward_weights(a["grad_output"], a["input"], d["scale"], F),
            rtol=2.0**-10,
            short=("C_in", "C_out"),  # a block for each pair takes long
            flops=lambda d: 2 * F * F * d["batch"] * d["C_in"] * d["C_out"] * d["H_out"] * d["W_out"],
        ),
    ),
    dims=lambda d: {"H_out": d["H"] - F + 1, "W_out": d["W"] - F + 1, **d} if "H" in d else d,
    gradient_of={BACKWARD: Gradient(loss_of_weights)},
    bench=dict(scale=1024, n=1 << 24, batch=256, C_in=6, H=116, W=116, C_out=16),
    cases=(
        with_inputs(
            "half_tiny_6x7",
            dict(scale=4, n=3, batch=1, C_in=1, H=6, W=7, C_out=1),
            "done by hand in the lesson: odd rows, an odd number of gradients",
            grad=[0.25, -3, 2.0**-26],
            grad_output=[[[[4, 8, -4], [0, 4, 12]]]],
            input=[
                [
                    [
                        [1, 2, 0, 1, 0, 3, 1],
                        [0, 1, 3, 0, 2, 1, 2],
                        [2, 0, 1, 1, 0, 0, 1],
                        [1, 0, 2, 0, 1, 2, 0],
                        [0, 3, 1, 0, 1, 0, 2],
                        [2, 1, 0, 1, 0, 1, 1],
                    ]
                ]
            ],
        ),
        Case("output_1x1", dict(scale=8, n=1, batch=2, C_in=1, H=5, W=5, C_out=1), "pairs of one"),
        Case("even", dict(scale=64, n=10, batch=2, C_in=2, H=9, W=8, C_out=3), "pairs at even places"),
        Case(
            "odd_and_wide",
            dict(scale=16, n=301, batch=2, C_in=3, H=7, W=11, C_out=2),
            "every second row begins at an odd place",
        ),
        gradient_check(
            "half_bw_numerical_gradient_check",
            dict(scale=32, batch=2, C_in=2, H=8, W=9, C_out=2),
            kernels=(BACKWARD,),
        ),
        integers(dict(scale=2, n=700, batch=3, C_in=2, H=11, W=10, C_out=4), inputs={"grad": "integers"}),
        Case(
            "sums_beyond_half",
            dict(scale=1, batch=4, C_in=1, H=260, W=260, C_out=1),
            "whole numbers whose sums exceed 2,048 by far, and must be exact",
            once="memory",
            kernels=(BACKWARD,),
            values="integers",
            inputs={"grad_output": positive, "input": positive},
        ),
        with_inputs(
            "small_gradients",
            dict(scale=1 << 20, n=1025),
            "each within a half, but only with its scale",
            kernels=(SCALE,),
            grad=lambda rng, a, d: rng.standard_normal(d["n"]) * 2.0**-22,
        ),
        with_inputs(
            "overflow",
            dict(scale=1024, n=2001),
            "the second of a pair becomes infinite",
            kernels=(SCALE,),
            special=True,
            grad=one_large,
        ),
        with_inputs(
            "overflow_at_the_end",
            dict(scale=2, n=257),
            "the last is one without a neighbour, and becomes infinite",
            kernels=(SCALE,),
            special=True,
            grad=[1] * 256 + [-32_760],
        ),
        own_sizes(lambda pick: {"scale": 2 ** pick(3, 9), **SIZES(pick)}),
        Case(
            COUNTED,
            dict(scale=1024, n=8192, batch=16, C_in=1, H=28, W=28, C_out=6),
            "LeNet's first layer; this one is counted",
            again=lambda pick: dict(
                scale=512,
                n=2 * pick(5000, 9000),
                batch=pick(10, 14),
                C_in=pick(2, 3),
                H=pick(30, 40),
                W=2 * pick(15, 20),
                C_out=pick(2, 3),
            ),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_requests",
            lambda d: 2.2 * ceil_div(d["n"], 64),
            kernels=(SCALE,),
            below=512,
            says="Every thread has two elements side by side: read them as one float2, and store them as one __half2.",
        ),
        Gate(
            "global_requests",
            lambda d: 1.2 * (3 * F + 1) * steps(d) + 2 * pairs_of_channels(d),
            kernels=(BACKWARD,),
            below=44_934,
            hint=2,
            says="A pair that begins at an even place is one request, and a row of a window is three pairs: "
            "the inputs of odd s are halves of these.",
        ),
        Gate(
            "flops_fp32",
            lambda d: 1.1 * pairs_of_channels(d) * F * F * (d["THREADS"] * (7 + 2 * per_thread(d) / 8) + 5),
            kernels=(BACKWARD,),
            below=2_899_950,
            hint=2,
            says="Products and their sums belong in half, two with each __hfma2; in float there are the sums "
            "of at least eight steps each, and those of the block.",
        ),
        Gate(
            "instructions_per_multiply_add",
            5,
            kernels=(BACKWARD,),
            hint=3,
            says="One __hfma2 multiplies and adds both halves of a pair; taking them apart costs more than it saves.",
        ),
    ),
    hints=(
        "The scale comes first, in float; then __floats2half2_rn rounds two floats to a __half2. Thread i of "
        "the grid has elements 2 * i and 2 * i + 1, and the last one may have only one of them. A half is "
        "infinite from 65,520 on: isfinite of __low2float and __high2float says so. Change overflow only "
        "then, with an atomic function, as several threads may have found one; the counted case has none, "
        "and no atomic update is allowed there.",
        "A thread takes the pairs t, t + THREADS, ... of channel k in all images, with (W_out + 1) / 2 pairs "
        "in a row. A pair of gradients at column q meets, for each s, the inputs at q + s and q + s + 1: the "
        "6 inputs from q on are three pairs, and for odd s __halves2half2 joins the high half of one with "
        "the low half of the next. Where W_out is odd, the last gradient of a row has no neighbour: put 0 "
        "there, and read no input beyond the row.",
        "__hfma2(a, b, c) is a * b + c for both halves. Count the steps: after RUN of them, and after the "
        "thread's last, add the low and the high half of each sum to its float, and begin again with 0. At "
        "the end all F * F floats go through the shuffles of puzzle 41, and the threads that store divide by "
        "scale.",
    ),
)
