"""Puzzle 11: one step of stochastic gradient descent with momentum and weight decay, in place."""

from __future__ import annotations

from harness.course import (  # fmt: skip
    Case,
    Float,
    In,
    InOut,
    Int,
    Kernel,
    Launch,
    Misconception,
    Mutant,
    Puzzle,
    ceil_div,
)
from reference import optim

KERNEL = "sgd_step"


def step(a, d, **changes):
    """The right answer, with some inputs or factors replaced by what a wrong kernel uses for them."""
    names = ("weights", "velocity", "gradient", "learning_rate", "momentum", "weight_decay")
    weights, velocity = optim.sgd(*(changes.get(name, {**a, **d}[name]) for name in names))
    return {"weights": weights, "velocity": velocity}


def moved(a, d, by, velocity):
    """A step of learning_rate times `by`, and what is left in the velocity."""
    return {"weights": a["weights"] - d["learning_rate"] * by, "velocity": velocity}


def without_decay(a, d):
    return step(a, d, weight_decay=0.0)["velocity"]


def dampened(a, d):
    slope = (1 - d["momentum"]) * (a["gradient"] + d["weight_decay"] * a["weights"])
    return step(a, d, gradient=slope, weight_decay=0.0)


def decay_of_the_new_weight(a, d):
    after = step(a, d, weight_decay=0.0)
    return {**after, "weights": after["weights"] * (1 - d["learning_rate"] * d["weight_decay"])}


def rate_in_the_velocity(a, d):
    slope = a["gradient"] + d["weight_decay"] * a["weights"]
    velocity = d["momentum"] * a["velocity"] + d["learning_rate"] * slope
    return {"weights": a["weights"] - velocity, "velocity": velocity}


def looking_ahead(a, d):
    """Nesterov's momentum."""
    velocity = step(a, d)["velocity"]
    slope = a["gradient"] + d["weight_decay"] * a["weights"]
    return moved(a, d, slope + d["momentum"] * velocity, velocity)


def wrong(id, hint, says, compute):
    return Misconception(id, KERNEL, says, compute, hint)


MISCONCEPTIONS = (
    wrong("velocity_not_stored", 2,
          "The weights are right, but the velocity is as it was: the next step would know nothing of this "
          "one.",
          lambda a, d: {**step(a, d), "velocity": a["velocity"]}),
    wrong("weights_not_stored", 3,
          "The velocity is right, but the weights are as they were.",
          lambda a, d: {**step(a, d), "weights": a["weights"]}),
    wrong("velocity_ignored", 2,
          "The old velocity has no effect: a part of it, momentum times velocity, stays in the new one.",
          lambda a, d: step(a, d, momentum=0.0)),
    wrong("velocity_untouched", 2,
          "This is a step against the gradient alone, without momentum or decay; the velocity is as it was.",
          lambda a, d: moved(a, d, a["gradient"], a["velocity"])),
    wrong("old_velocity_used", 3,
          "The weights move against the old velocity: the step must use the new one.",
          lambda a, d: moved(a, d, a["velocity"], step(a, d)["velocity"])),
    wrong("momentum_missing", 2,
          "The old velocity stays whole: it must be multiplied with momentum.",
          lambda a, d: step(a, d, momentum=1.0)),
    wrong("momentum_on_everything", 2,
          "momentum multiplies the gradient too; it belongs to the old velocity alone.",
          lambda a, d: step(a, d, gradient=d["momentum"] * a["gradient"],
                            weight_decay=d["momentum"] * d["weight_decay"])),
    wrong("dampened", 2,
          "The gradient is multiplied with (1 - momentum); it enters the velocity whole.",
          dampened),
    wrong("looking_ahead", 3,
          "The weights move against gradient + momentum * velocity (Nesterov); here it is the velocity "
          "alone.",
          looking_ahead),
    wrong("rate_missing", 3,
          "The weights move by the whole velocity: the learning rate is missing.",
          lambda a, d: step(a, d, learning_rate=1.0)),
    wrong("rate_in_the_velocity", 3,
          "The learning rate is stored in the velocity; it belongs to the step of the weights.",
          rate_in_the_velocity),
    wrong("uphill", 3,
          "The weights move along the velocity, which makes the loss larger: subtract, do not add.",
          lambda a, d: moved(a, d, -step(a, d)["velocity"], step(a, d)["velocity"])),
    wrong("gradient_negated", 2,
          "The gradient enters the velocity with a minus; the only minus is in the step of the weights.",
          lambda a, d: step(a, d, gradient=-a["gradient"])),
    wrong("decay_missing", 2,
          "There is no weight decay: weight_decay times the weight is added to the gradient.",
          lambda a, d: step(a, d, weight_decay=0.0)),
    wrong("decay_outside_the_velocity", 2,
          "The decay pulls at the weights, but not at the velocity: it is added to the gradient before "
          "anything else.",
          lambda a, d: moved(a, d, without_decay(a, d) + d["weight_decay"] * a["weights"],
                             without_decay(a, d))),
    wrong("decay_after_the_step", 2,
          "The decay is taken from the new weight, after the step: it is added to the gradient before.",
          decay_of_the_new_weight),
    wrong("decay_subtracted", 2,
          "The decay makes the weights larger: it must have the sign of the gradient.",
          lambda a, d: step(a, d, gradient=a["gradient"] - 2 * d["weight_decay"] * a["weights"])),
    wrong("decay_without_the_weight", 2,
          "weight_decay itself is added to the gradient: it must be multiplied with the weight.",
          lambda a, d: step(a, d, gradient=a["gradient"] + d["weight_decay"], weight_decay=0.0)),
    wrong("factors_exchanged", 2,
          "momentum and weight_decay have changed places: momentum goes with the velocity.",
          lambda a, d: step(a, d, momentum=d["weight_decay"], weight_decay=d["momentum"])),
)  # fmt: skip

INDEX = "blockIdx.x * blockDim.x + threadIdx.x"
GUARD = "if (i >= n) return;"
SLOPE = "float slope = gradient[i] + weight_decay * weights[i];"
NEW = "float v = momentum * velocity[i] + slope;"
KEEP = "velocity[i] = v;"
MOVE = "weights[i] -= learning_rate * v;"


def mutant(name, old, new, expect="wrong", also=()):
    return Mutant(name, KERNEL, old, new, expect, also)


MUTANTS = (
    # the velocity
    mutant("velocity not stored", KEEP, "", "velocity_not_stored"),
    mutant("velocity ignored", NEW, "float v = slope;", "velocity_ignored"),
    mutant("plain gradient descent", NEW, "", "velocity_untouched",
           also=((KEEP, ""), (MOVE, "weights[i] -= learning_rate * gradient[i];"))),
    mutant("step with the old velocity", MOVE, "", "old_velocity_used",
           also=((KEEP, "weights[i] -= learning_rate * velocity[i];\n    velocity[i] = v;"),)),
    mutant("momentum missing", NEW, "float v = velocity[i] + slope;", "momentum_missing"),
    mutant("momentum on everything", NEW, "float v = momentum * (velocity[i] + slope);",
           "momentum_on_everything"),
    mutant("dampened", NEW, "float v = momentum * velocity[i] + (1 - momentum) * slope;", "dampened"),
    mutant("looking ahead", MOVE, "weights[i] -= learning_rate * (slope + momentum * v);", "looking_ahead"),
    mutant("velocity of a neighbour", NEW, "float v = momentum * velocity[i + 1] + slope;",
           ("out-of-bounds", "race")),
    mutant("velocity of weight 0", NEW, "float v = momentum * velocity[0] + slope;", ("race", "wrong")),
    mutant("velocity added up", KEEP, "velocity[i] += v;"),
    # the step
    mutant("weights not stored", MOVE, "", "weights_not_stored"),
    mutant("learning rate missing", MOVE, "weights[i] -= v;", "rate_missing"),
    mutant("learning rate in the velocity", NEW,
           "float v = momentum * velocity[i] + learning_rate * slope;", "rate_in_the_velocity",
           also=((MOVE, "weights[i] -= v;"),)),
    mutant("learning rate twice", NEW, "float v = momentum * velocity[i] + learning_rate * slope;"),
    mutant("uphill", MOVE, "weights[i] += learning_rate * v;", "uphill"),
    mutant("gradient negated", SLOPE, "float slope = weight_decay * weights[i] - gradient[i];",
           "gradient_negated"),
    mutant("moved twice, first along the gradient", SLOPE,
           f"weights[i] -= learning_rate * gradient[i];\n    {SLOPE}"),
    mutant("overwritten", MOVE, "weights[i] = -learning_rate * v;"),
    mutant("divided by n", MOVE, "weights[i] -= learning_rate * v / n;"),
    # the decay
    mutant("decay missing", SLOPE, "float slope = gradient[i];", "decay_missing"),
    mutant("decay outside the velocity", SLOPE, "float slope = gradient[i];", "decay_outside_the_velocity",
           also=((MOVE, "weights[i] -= learning_rate * (v + weight_decay * weights[i]);"),)),
    mutant("decay after the step", SLOPE, "float slope = gradient[i];", "decay_after_the_step",
           also=((MOVE, f"{MOVE}\n    weights[i] -= learning_rate * weight_decay * weights[i];"),)),
    mutant("decay subtracted", SLOPE, "float slope = gradient[i] - weight_decay * weights[i];",
           "decay_subtracted"),
    mutant("decay without the weight", SLOPE, "float slope = gradient[i] + weight_decay;",
           "decay_without_the_weight"),
    mutant("decay of the square", SLOPE,
           "float slope = gradient[i] + weight_decay * weights[i] * weights[i];"),
    mutant("decay doubled", SLOPE, "float slope = gradient[i] + 2 * weight_decay * weights[i];"),
    mutant("momentum and decay exchanged", SLOPE, "float slope = gradient[i] + momentum * weights[i];",
           "factors_exchanged", also=((NEW, "float v = weight_decay * velocity[i] + slope;"),)),
    # the threads
    mutant("size of a block written as 128", INDEX, INDEX.replace("blockDim.x", "128"),
           ("unwritten", "wrong")),
    mutant("no guard", GUARD, "", "out-of-bounds"),
    mutant("guard one too late", GUARD, "if (i > n) return;", "out-of-bounds"),
    mutant("guard one too early", GUARD, "if (i >= n - 1) return;", "unwritten"),
    mutant("block left out", INDEX, "threadIdx.x", ("race", "unwritten", "schedule")),
    mutant("integer factors", "float v = momentum", "float v = (int)momentum", "velocity_ignored"),
    mutant("never ends", GUARD, "while (i < n) velocity[i] = gradient[i];", "timeout"),
)  # fmt: skip


def sizes(a, d):
    """The sums of the terms' sizes; the arrays are absolute values."""
    velocity = step(a, d)["velocity"]
    return {"velocity": velocity, "weights": a["weights"] + d["learning_rate"] * velocity}


def factors(learning_rate, momentum, weight_decay):
    return dict(learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)


PUZZLE = Puzzle(
    title="Stochastic gradient descent",
    part=1,
    teaches="How a kernel updates arrays in place, and what the velocity of a weight is.",
    practice=(
        "torch.optim.SGD can update all parameters of a model in a few launches (foreach, fused), as a "
        "launch costs more than a small array."
    ),
    lines=6,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                InOut("weights", i="n"), InOut("velocity", i="n"), In("gradient", i="n"),
                Int("n"), Float("learning_rate"), Float("momentum"), Float("weight_decay"),
            ),
            launch=lambda d, t: Launch(grid=ceil_div(d["n"], d["threads"]), block=d["threads"]),
            reference=step,
            magnitude=sizes,
        ),
    ),
    dims=lambda d: {"threads": 128, **d},
    bench=dict(n=1 << 24, learning_rate=0.1, momentum=0.9, weight_decay=0.0005),
    cases=(
        Case(
            "sgd_tiny_4", dict(n=4, **factors(0.5, 0.5, 0.25)),
            note="done by hand in the lesson",
            inputs={"weights": [2, -4, 8, 0], "velocity": [4, 2, -2, 6], "gradient": [1, 3, -4, -1]},
        ),
        Case("first_step", dict(n=10, **factors(0.2, 0.9, 0.1)), note="every velocity is 0",
             inputs={"velocity": "zeros"}),
        Case("plain", dict(n=11, **factors(0.3, 0.0, 0.0)), note="no momentum, no decay"),
        Case("momentum_only", dict(n=12, **factors(0.1, 0.9, 0.0))),
        Case("decay_only", dict(n=13, **factors(0.1, 0.0, 0.5))),
        Case("no_gradient", dict(n=14, **factors(0.5, 0.5, 0.5)), note="what was begun goes on",
             inputs={"gradient": "zeros"}),
        Case("integers", dict(n=37, threads=8, **factors(0.5, 0.5, 0.25)),
             note="exact sums; 5 blocks of 8 threads",
             values="integers"),
        Case("exactly_one_block", dict(n=128, **factors(0.25, 0.6, 0.3))),
        Case("one_more_than_a_block", dict(n=129, **factors(0.7, 0.8, 0.2))),
        Case("sgd_lenet", dict(n=44_426, **factors(0.01, 0.9, 5e-4)), note="all weights of LeNet"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(n=pick(300, 3000), threads=pick(5, 300), **factors(0.1, 0.9, 0.01))),
        Case("blocks_of_one", dict(n=70_001, threads=1, **factors(0.1, 0.9, 0.01)),
             note="more blocks than 16 bits can count", stress=True),
        Case("many_blocks", dict(n=100_003, **factors(0.4, 0.7, 0.3)), note="782 blocks"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "Nothing is summed up here, and no thread needs another one's numbers: thread i reads its weight, "
        "its velocity and its gradient, and writes weight and velocity back to where they were. Find i and "
        "guard it as in puzzle 01. The three factors are plain float variables, the same for all threads.",
        "The velocity comes first. The slope at this weight is its gradient plus weight_decay times the "
        "weight as it is now. The new velocity is momentum times the old velocity, plus that slope. Keep it "
        "in a variable, and store it in the array too: the next training step will find it there.",
        "The weight loses learning_rate times the new velocity. The learning rate is used here and nowhere "
        "else, and this is the only minus. Read the old weight for the decay before you change it.",
    ),
)  # fmt: skip
