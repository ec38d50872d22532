"""Puzzle 04: ReLU, forward, in place and backward, one thread per element."""

from __future__ import annotations

import numpy as np
from backwarp.reference import dense

from backwarp.course import Case, Gradient, In, InOut, Int, Kernel, Out, Puzzle
from backwarp.course.mistakes import Mistake, mistakes_in
from backwarp.course.sizes import gradient_check, integers, one_thread_each, own_sizes, with_inputs

FORWARD, INPLACE, BACKWARD = "relu_forward", "relu_inplace", "relu_backward"
SPECIAL = [float(x) for x in "1 nan -2 inf 0 -inf 0.5 -0.0 -3 -nan 3 -4 nan 1e-30 -1e-30 1e30 -9".split()]


def with_zeros(rng, a, d):
    """Normal numbers, about a third of them replaced by 0 and -0."""
    values, dice = rng.standard_normal(d["n"]), rng.integers(0, 6, d["n"])
    return np.select([dice == 0, dice == 1], [0.0, -0.0], values)


def close_to_zero(rng, a, d):
    """Numbers of all sizes from 1e-35 to 1e-5."""
    return rng.standard_normal(d["n"]) * 10 ** rng.uniform(-35, -5, d["n"])


def cut(rng, a, d):
    """What ReLU leaves of normal numbers."""
    return dense.relu(rng.standard_normal(d["n"]))


DROPPED = "NaN became 0: no comparison with NaN is true, and fmaxf drops it; it must stay NaN."
TURNED = "It is the wrong way round: negative numbers are kept, the others are 0."

MISTAKES = (
    *mistakes_in(
        FORWARD,
        Mistake("comparison turned", ("x < 0.0f", "x > 0.0f"), says=TURNED),
        Mistake(
            "absolute value",
            ("x < 0.0f ? 0.0f : x", "fabsf(x)"),
            says="Negative numbers lose their sign; they must become 0.",
        ),
        Mistake(
            "1 instead of x",
            ("x < 0.0f", "x > 0.0f ? 1.0f : x < 0.0f"),
            says="Positive numbers became 1; they must stay what they are.",
        ),
        Mistake(
            "leaky",
            ("0.0f : x", "0.01f * x : x"),
            says="Negative numbers became a hundredth of themselves; that is leaky ReLU.",
        ),
        Mistake("fmaxf", ("x < 0.0f ? 0.0f : x", "fmaxf(x, 0.0f)"), says=DROPPED, hint=3),
        Mistake(
            "sign bit",
            ("x < 0.0f", "signbit(x)"),
            says="A NaN became 0 where its sign bit is set, as a processor's own is; it is not below 0, and must stay NaN.",
            hint=3,
        ),
    ),
    *mistakes_in(
        INPLACE,
        Mistake("inplace: comparison turned", ("data[i] < 0", "data[i] > 0"), says=TURNED),
        Mistake(
            "inplace: fmaxf",
            ("if (i < n && data[i] < 0.0f) data[i] = 0.0f", "if (i < n) data[i] = fmaxf(data[i], 0.0f)"),
            says=DROPPED,
            hint=3,
        ),
    ),
    *mistakes_in(
        BACKWARD,
        Mistake(
            "backward: passes at 0",
            ("input[i] > 0", "input[i] >= 0"),
            says="The gradient passes where the input is 0: it must pass only where the input is above 0.",
        ),
        Mistake(
            "backward: sign bit tested",
            ("input[i] > 0.0f", "!signbit(input[i])"),
            says="The gradient passes at 0 and not at -0: test the value, not the sign bit.",
        ),
        Mistake(
            "backward: half at 0",
            ("input[i] > 0", "input[i] == 0.0f ? 0.5f * grad_output[i] : input[i] > 0"),
            says="Half of the gradient passes where the input is 0; the course takes 0 there, as PyTorch does.",
        ),
        Mistake(
            "backward: multiplied with x",
            ("[i] : 0.0f", "[i] * input[i] : 0.0f"),
            says="The gradient is multiplied by the input; where ReLU lets x pass, its slope is 1, not x.",
        ),
        hint=2,
    ),
)

PUZZLE = Puzzle(
    title="ReLU, forward and backward",
    part=1,
    teaches="How a layer passes a gradient on, and what 0 and NaN do to a comparison.",
    practice="Compilers such as torch.compile fuse a ReLU into the kernel beside it, so that it takes no "
    "pass over memory of its own.",
    lines=10,
    kernels=(
        Kernel(
            FORWARD,
            params=(In("input", i="n"), Out("output", i="n"), Int("n")),
            launch=one_thread_each("n"),
            reference=lambda a, d: dense.relu(a["input"]),
        ),
        Kernel(
            INPLACE,
            params=(InOut("data", i="n"), Int("n")),
            launch=one_thread_each("n"),
            reference=lambda a, d: dense.relu(a["data"]),
        ),
        Kernel(
            BACKWARD,
            params=(In("grad_output", i="n"), In("input", i="n"), Out("grad_input", i="n"), Int("n")),
            launch=one_thread_each("n"),
            reference=lambda a, d: dense.relu_backward(a["grad_output"], a["input"]),
        ),
    ),
    gradient_of={
        # small steps, so that none crosses the corner at 0
        BACKWARD: Gradient(lambda x, a, d: np.sum(a["grad_output"] * dense.relu(x)), at="input", epsilon=1e-6)
    },
    bench=dict(n=1 << 24, threads=256),
    cases=(
        with_inputs(
            "relu_tiny_6",
            dict(n=6, threads=4),
            "2 blocks of 4 threads; done by hand in the lesson",
            input=[-2, 3, 0, -0.5, 1.5, -4],
            data=[-2, 3, 0, -0.5, 1.5, -4],
            grad_output=[5, -1, 7, 2, -3, 6],
        ),
        with_inputs(
            "nan_and_infinity",
            dict(n=17, threads=8),
            "NaN, +-infinity, 0 and -0",
            special=True,
            kernels=(FORWARD, INPLACE),
            input=SPECIAL,
            data=SPECIAL,
        ),
        with_inputs("zeros", dict(n=37, threads=8), "0 and -0 as inputs", input=with_zeros, data=with_zeros),
        with_inputs(
            "close_to_zero",
            dict(n=45, threads=16),
            "no number is so small that it counts as 0",
            input=close_to_zero,
            data=close_to_zero,
        ),
        gradient_check("relu_numerical_gradient_check", dict(n=40, threads=32), kernels=(BACKWARD,)),
        with_inputs(
            "from_the_output",
            dict(n=45, threads=32),
            "the output of the forward pass as its input",
            kernels=(BACKWARD,),
            input=cut,
        ),
        integers(dict(n=64, threads=64), "exactly one block"),
        Case("one_more_than_a_block", dict(n=257, threads=256)),
        Case("relu_lenet_conv1", dict(n=4 * 6 * 24 * 24, threads=256), "4 images, LeNet's first layer"),
        own_sizes(n=(300, 3000), threads=(5, 300)),
    ),
    mistakes=MISTAKES,
    hints=(
        "Start each kernel as in vector_add: the thread's number i over all blocks, and a guard. Then choose "
        "between two values for element i. C has an operator for that: condition ? value if true : value if "
        "false. In place, a thread may read and write its own element as often as it likes.",
        "Going backward, the output was x where x > 0 and fixed at 0 elsewhere. So if x grows by a small e, "
        "the output grows by e or by nothing, and the loss by e times grad_output or by nothing. At exactly "
        "0 the course chooses that nothing passes. The sign of grad_output does not matter.",
        "With NaN every comparison is false: NaN > 0, NaN < 0 and NaN == 0 alike. So a NaN takes the branch "
        "after the colon. Phrase the forward question so that this branch is the one that keeps x. Library "
        "functions such as fmaxf return the other number if one is NaN.",
    ),
)
