"""Puzzle 04: ReLU, forward, in place and backward, one thread per element."""

from __future__ import annotations

import numpy as np

from harness.course import (  # fmt: skip
    Case,
    Gradient,
    In,
    InOut,
    Int,
    Kernel,
    Launch,
    Misconception,
    Mutant,
    Out,
    Puzzle,
    ceil_div,
)
from reference import dense

FORWARD, INPLACE, BACKWARD = "relu_forward", "relu_inplace", "relu_backward"
SPECIAL = [1, np.nan, -2, np.inf, 0.0, -np.inf, 0.5, -0.0, -3, np.nan, 3, -4, np.nan, 1e-30, -1e-30, 1e30, -9]


def with_zeros(rng, a, d):
    """Normal numbers, about a third of them replaced by 0 and -0."""
    values, dice = rng.standard_normal(d["n"]), rng.integers(0, 6, d["n"])
    return np.select([dice == 0, dice == 1], [0.0, -0.0], values)


def cut(rng, a, d):
    """What ReLU leaves of normal numbers."""
    return dense.relu(rng.standard_normal(d["n"]))


def forward_mistakes(kernel, name, prefix=""):
    """The wrong kernels that a student may write in either form, for the array `name`."""

    def wrong(id, hint, says, compute):
        return Misconception(prefix + id, kernel, says, lambda a, d: compute(a[name]), hint)

    return (
        wrong("identity", 1, "The numbers come out as they went in: negative ones must become 0.",
              lambda x: x),
        wrong("negative_kept", 1, "It is the wrong way round: negative numbers are kept, the others are 0.",
              lambda x: np.minimum(x, 0)),
        wrong("absolute", 1, "Negative numbers lose their sign; they must become 0.", np.abs),
        wrong("step", 1, "Positive numbers became 1; they must stay what they are.",
              lambda x: np.where(x > 0, 1.0, np.where(np.isnan(x), np.nan, 0.0))),
        wrong("leaky", 1, "Negative numbers became a hundredth of themselves; that is leaky ReLU.",
              lambda x: np.where(x < 0, 0.01 * x, x)),
        wrong("nan_lost", 3,
              "NaN became 0: no comparison with NaN is true, and fmaxf drops it; it must stay NaN.",
              lambda x: np.fmax(x, 0)),
        wrong("multiplied", 3,
              "A factor of 0 makes NaN of -infinity: choose between x and 0, do not multiply.",
              lambda x: x * (x > 0)),
    )  # fmt: skip


def wrong(id, hint, says, compute):
    return Misconception(id, BACKWARD, says, lambda a, d: compute(a["grad_output"], a["input"]), hint)


MISCONCEPTIONS = (
    *forward_mistakes(FORWARD, "input"),
    *forward_mistakes(INPLACE, "data", "inplace_"),
    wrong("passes_at_zero", 2,
          "The gradient passes where the input is 0: it must pass only where the input is above 0.",
          lambda g, x: np.where(x >= 0, g, 0)),
    wrong("passes_at_plus_zero", 2,
          "The gradient passes at 0 and not at -0: test the value, not the sign bit.",
          lambda g, x: np.where(np.signbit(x), 0, g)),
    wrong("half_at_zero", 2,
          "Half of the gradient passes where the input is 0; the course takes 0 there, as PyTorch does.",
          lambda g, x: np.where(x > 0, g, np.where(x == 0, 0.5 * g, 0))),
    wrong("not_stopped", 2,
          "This is grad_output as it came: it must be stopped where the input was not positive.",
          lambda g, x: g),
    wrong("stopped_by_its_own_sign", 2,
          "Negative gradients became 0: what counts is the sign of the input, not that of the gradient.",
          lambda g, x: dense.relu(g)),
    wrong("both_signs_tested", 2,
          "Gradients that are negative are stopped, too: only the input decides.",
          lambda g, x: np.where((x > 0) & (g > 0), g, 0)),
    wrong("wrong_way_round", 2,
          "It is the wrong way round: the gradient passes where the input was not positive.",
          lambda g, x: np.where(x > 0, 0, g)),
    wrong("gradient_ignored", 2,
          "This is the slope of ReLU, 1 or 0; it is to be multiplied with grad_output (the chain rule).",
          lambda g, x: 1.0 * (x > 0)),
    wrong("forward_again", 2,
          "This is the output of the forward pass: where the input is positive, the gradient passes, not x.",
          lambda g, x: dense.relu(x)),
    wrong("multiplied_with_x", 2,
          "The gradient is multiplied with the input; where ReLU lets x pass, its slope is 1, not x.",
          lambda g, x: g * dense.relu(x)),
    wrong("slope_of_the_absolute_value", 2,
          "Where the input is negative, minus the gradient is stored; it must be 0.",
          lambda g, x: g * np.sign(x)),
)  # fmt: skip

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n    "
LOAD = "float x = input[i];"
CHOICE = "x < 0.0f ? 0.0f : x"
STORE = f"output[i] = {CHOICE};"
INPLACE_IF = "if (i < n && data[i] < 0.0f) data[i] = 0.0f;"
TEST = "input[i] > 0.0f ? grad_output[i] : 0.0f"
FORWARD_GUARD = INDEX + "if (i >= n) return;\n    float x"
BACKWARD_GUARD = INDEX + "if (i >= n) return;\n    grad_input"


def mutant(name, old, new, expect="wrong", also=()):
    kernel = {"inplace": INPLACE, "backward": BACKWARD}.get(name.split(":")[0], FORWARD)
    return Mutant(name, kernel, old, new, expect, also)


MUTANTS = (
    # forward
    mutant("nothing cut", CHOICE, "x", "identity"),
    mutant("comparison turned", CHOICE, "x > 0.0f ? 0.0f : x", "negative_kept"),
    mutant("fminf", CHOICE, "fminf(x, 0.0f)", "negative_kept"),
    mutant("absolute value", CHOICE, "fabsf(x)", "absolute"),
    mutant("minus instead of 0", CHOICE, "x < 0.0f ? -x : x", "absolute"),
    mutant("1 instead of x", CHOICE, "x > 0.0f ? 1.0f : x < 0.0f ? 0.0f : x", "step"),
    mutant("leaky", CHOICE, "x < 0.0f ? 0.01f * x : x", "leaky"),
    mutant("fmaxf", CHOICE, "fmaxf(x, 0.0f)", "nan_lost"),
    mutant("x if positive, else 0", CHOICE, "x > 0.0f ? x : 0.0f", "nan_lost"),
    mutant("multiplied with the comparison", CHOICE, "x * (x > 0.0f)", "multiplied"),
    mutant("stored only where positive", STORE, "if (x > 0.0f) output[i] = x;", ("wrong", "unwritten")),
    mutant("NaN not stored", STORE, "if (x > 0.0f) output[i] = x; else if (x <= 0.0f) output[i] = 0.0f;",
           "unwritten"),
    mutant("in the int", LOAD, "int x = input[i];"),
    mutant("no guard", FORWARD_GUARD, INDEX + "float x", "out-of-bounds"),
    mutant("guard one too late", FORWARD_GUARD, FORWARD_GUARD.replace(">=", ">"), "out-of-bounds"),
    mutant("block left out", FORWARD_GUARD, "int i = threadIdx.x;\n    if (i >= n) return;\n    float x",
           ("race", "unwritten")),
    mutant("not stored", STORE, "", "unwritten"),
    # in place
    mutant("inplace: nothing cut", "data[i] = 0.0f;", "data[i] = data[i];", "inplace_identity"),
    mutant("inplace: comparison turned", INPLACE_IF, INPLACE_IF.replace("<", ">").replace("i >", "i <"),
           "inplace_negative_kept"),
    mutant("inplace: minus instead of 0", "data[i] = 0.0f;", "data[i] = -data[i];", "inplace_absolute"),
    mutant("inplace: 1 instead of x", INPLACE_IF,
           "if (i < n) data[i] = data[i] > 0.0f ? 1.0f : data[i] < 0.0f ? 0.0f : data[i];", "inplace_step"),
    mutant("inplace: leaky", "data[i] = 0.0f;", "data[i] *= 0.01f;", "inplace_leaky"),
    mutant("inplace: fmaxf", INPLACE_IF, "if (i < n) data[i] = fmaxf(data[i], 0.0f);", "inplace_nan_lost"),
    mutant("inplace: 0 unless positive", INPLACE_IF, "if (i < n && !(data[i] > 0.0f)) data[i] = 0.0f;",
           "inplace_nan_lost"),
    mutant("inplace: multiplied with the comparison", INPLACE_IF, "if (i < n) data[i] *= data[i] > 0.0f;",
           "inplace_multiplied"),
    mutant("inplace: no guard", "i < n && data[i]", "data[i]", "out-of-bounds"),
    mutant("inplace: guard one too late", "i < n && data", "i <= n && data", "out-of-bounds"),
    mutant("inplace: test before guard", "i < n && data[i] < 0.0f", "data[i] < 0.0f && i < n",
           "out-of-bounds"),
    # backward
    mutant("backward: passes at 0", TEST, TEST.replace(">", ">="), "passes_at_zero"),
    mutant("backward: sign bit tested", TEST, TEST.replace("input[i] > 0.0f", "!signbit(input[i])"),
           "passes_at_plus_zero"),
    mutant("backward: half at 0", TEST, f"input[i] == 0.0f ? 0.5f * grad_output[i] : {TEST}", "half_at_zero"),
    mutant("backward: not stopped", TEST, "grad_output[i]", "not_stopped"),
    mutant("backward: tests the gradient", TEST, TEST.replace("input", "grad_output"),
           "stopped_by_its_own_sign"),
    mutant("backward: tests both", TEST, TEST.replace(" ?", " && grad_output[i] > 0.0f ?"),
           "both_signs_tested"),
    mutant("backward: wrong way round", TEST, "input[i] > 0.0f ? 0.0f : grad_output[i]", "wrong_way_round"),
    mutant("backward: gradient ignored", TEST, "input[i] > 0.0f ? 1.0f : 0.0f", "gradient_ignored"),
    mutant("backward: forward again", TEST, "input[i] > 0.0f ? input[i] : 0.0f", "forward_again"),
    mutant("backward: multiplied with x", TEST, TEST.replace("put[i] :", "put[i] * input[i] :"),
           "multiplied_with_x"),
    mutant("backward: slope of the absolute value", TEST,
           "input[i] > 0.0f ? grad_output[i] : input[i] < 0.0f ? -grad_output[i] : 0.0f",
           "slope_of_the_absolute_value"),
    mutant("backward: stored only where it passes", f"grad_input[i] = {TEST};",
           "if (input[i] > 0.0f) grad_input[i] = grad_output[i];", "unwritten"),
    mutant("backward: added to what was there", f"grad_input[i] = {TEST}", f"grad_input[i] += {TEST}",
           ("uninitialised-read", "wrong", "unwritten")),
    mutant("backward: no guard", BACKWARD_GUARD, INDEX + "grad_input", "out-of-bounds"),
    mutant("backward: last element left out", BACKWARD_GUARD, BACKWARD_GUARD.replace("n)", "n - 1)"),
           "unwritten"),
)  # fmt: skip


def launch(d, t):
    return Launch(grid=ceil_div(d["n"], d["threads"]), block=d["threads"])


PUZZLE = Puzzle(
    title="ReLU, forward and backward",
    part=1,
    teaches="How a layer passes a gradient on, and what 0 and NaN do to a comparison.",
    practice=(
        "Compilers such as torch.compile fuse a ReLU into the kernel beside it, so that it takes no pass "
        "over memory of its own."
    ),
    lines=10,
    kernels=(
        Kernel(
            FORWARD, params=(In("input", i="n"), Out("output", i="n"), Int("n")), launch=launch,
            reference=lambda a, d: dense.relu(a["input"]),
        ),
        Kernel(
            INPLACE, params=(InOut("data", i="n"), Int("n")), launch=launch,
            reference=lambda a, d: dense.relu(a["data"]),
        ),
        Kernel(
            BACKWARD,
            params=(In("grad_output", i="n"), In("input", i="n"), Out("grad_input", i="n"), Int("n")),
            launch=launch,
            reference=lambda a, d: dense.relu_backward(a["grad_output"], a["input"]),
        ),
    ),
    gradient_of={
        # small steps, so that none crosses the corner at 0
        BACKWARD: Gradient(
            lambda x, a, d: np.sum(a["grad_output"] * dense.relu(x)), at="input", epsilon=1e-6
        ),
    },
    bench=dict(n=1 << 24, threads=256),
    cases=(
        Case(
            "relu_tiny_6", dict(n=6, threads=4), note="2 blocks of 4 threads; done by hand in the lesson",
            inputs={
                "input": [-2, 3, 0, -0.5, 1.5, -4],
                "data": [-2, 3, 0, -0.5, 1.5, -4],
                "grad_output": [5, -1, 7, 2, -3, 6],
            },
        ),
        Case(
            "nan_and_infinity", dict(n=17, threads=8), note="NaN, +-infinity, 0 and -0",
            inputs={"input": SPECIAL, "data": SPECIAL}, special=True, kernels=(FORWARD, INPLACE),
        ),
        Case("zeros", dict(n=37, threads=8), note="0 and -0 among the inputs",
             inputs={"input": with_zeros, "data": with_zeros}),
        Case("relu_numerical_gradient_check", dict(n=40, threads=32), note="each input moved by epsilon",
             check="gradient", kernels=(BACKWARD,)),
        Case("from_the_output", dict(n=45, threads=32), note="the output of the forward pass as its input",
             inputs={"input": cut}, kernels=(BACKWARD,)),
        Case("integers", dict(n=64, threads=64), note="exactly one block", values="integers"),
        Case("one_more_than_a_block", dict(n=257, threads=256)),
        Case("relu_lenet_conv1", dict(n=4 * 6 * 24 * 24, threads=256), note="4 images, LeNet's first layer"),
        Case("own_sizes", draw=lambda pick: dict(n=pick(300, 3000), threads=pick(5, 300)),
             note="sizes that belong to your file"),
        Case("blocks_of_one", dict(n=70_001, threads=1), note="more blocks than 16 bits can count", stress=True),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "Start each kernel as in vector_add: the thread's number i over all blocks, and a guard. Then choose "
        "between two values for element i. C has an operator for that: condition ? value if true : value if "
        "false. In place, a thread may read and write its own element as often as it likes.",
        "Going backward, the output was x where x > 0 and fixed at 0 elsewhere. So if x grows by a little "
        "e, the output grows by e or by nothing, and the loss by e times grad_output or by nothing. At "
        "exactly 0 the course chooses that nothing passes. The sign of grad_output does not matter.",
        "With NaN every comparison is false: NaN > 0, NaN < 0 and NaN == 0 alike. So a NaN takes the "
        "branch behind the colon. Phrase the forward question so that this branch is the one that keeps x. "
        "Library functions such as fmaxf return the other number if one is NaN.",
    ),
)  # fmt: skip
