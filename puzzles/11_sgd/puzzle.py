"""Puzzle 11: one step of stochastic gradient descent with momentum and weight decay, in place."""

from __future__ import annotations

from backwarp.reference import optim

from backwarp.course import Case, Float, In, InOut, Int, Kernel, Mistake, Puzzle
from backwarp.course.sizes import by_hand, integers, one_thread_each, own_sizes, with_inputs

KERNEL = "sgd_step"


def step(a, d, **changes):
    """The right answer, with some inputs or factors replaced by what a wrong kernel uses for them."""
    names = ("weights", "velocity", "gradient", "learning_rate", "momentum", "weight_decay")
    weights, velocity = optim.sgd(*(changes.get(name, {**a, **d}[name]) for name in names))
    return {"weights": weights, "velocity": velocity}


KEEP = "velocity[i] = v;"
MOVE = "weights[i] -= learning_rate * v;"

MISTAKES = (
    Mistake(
        "step with the old velocity",
        (
            ("weights[i] -= learning_rate * v;", ""),
            (KEEP, "weights[i] -= learning_rate * velocity[i];\n    velocity[i] = v;"),
        ),
        says="The weights move against the old velocity: the step must use the new one.",
        hint=3,
    ),
    Mistake(
        "looking ahead",
        ("learning_rate * v", "learning_rate * (slope + momentum * v)"),
        says="The weights move against gradient + momentum * velocity (Nesterov); here it is velocity alone.",
        hint=3,
    ),
    Mistake(
        "decay after the step",
        (
            ("[i] + weight_decay * weights[i]", "[i]"),
            (MOVE, f"{MOVE}\n    weights[i] -= learning_rate * weight_decay * weights[i];"),
        ),
        says="The decay is taken from the new weight, after the step: it is added to the gradient before.",
        hint=2,
    ),
)


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
    practice="torch.optim.SGD can update all parameters of a model in a few launches (foreach, fused), since "
    "a launch costs more than the update of a small array.",
    lines=6,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                InOut("weights", i="n"),
                InOut("velocity", i="n"),
                In("gradient", i="n"),
                Int("n"),
                Float("learning_rate"),
                Float("momentum"),
                Float("weight_decay"),
            ),
            launch=one_thread_each("n"),
            reference=step,
            magnitude=sizes,
        ),
    ),
    dims=lambda d: {"threads": 128, **d},
    bench=dict(n=1 << 24, learning_rate=0.1, momentum=0.9, weight_decay=0.0005),
    cases=(
        by_hand(
            "sgd_tiny_4",
            dict(n=4, **factors(0.5, 0.5, 0.25)),
            weights=[2, -4, 8, 0],
            velocity=[4, 2, -2, 6],
            gradient=[1, 3, -4, -1],
        ),
        with_inputs("first_step", dict(n=10, **factors(0.2, 0.9, 0.1)), "no velocity yet", velocity="zeros"),
        Case("plain", dict(n=11, **factors(0.3, 0.0, 0.0)), "no momentum, no decay"),
        Case("momentum_only", dict(n=12, **factors(0.1, 0.9, 0.0))),
        Case("decay_only", dict(n=13, **factors(0.1, 0.0, 0.5))),
        with_inputs("no_gradient", dict(n=14, **factors(0.5, 0.5, 0.5)), "momentum alone", gradient="zeros"),
        integers(dict(n=37, threads=8, **factors(0.5, 0.5, 0.25)), "exact sums; 5 blocks of 8 threads"),
        Case("exactly_one_block", dict(n=128, **factors(0.25, 0.6, 0.3))),
        Case("one_more_than_a_block", dict(n=129, **factors(0.7, 0.8, 0.2))),
        Case("sgd_lenet", dict(n=44_426, **factors(0.01, 0.9, 5e-4)), "all weights of LeNet"),
        own_sizes(draw=lambda pick: dict(n=pick(300, 3000), threads=pick(5, 300), **factors(0.1, 0.9, 0.01))),
        Case("many_blocks", dict(n=100_003, **factors(0.4, 0.7, 0.3)), "782 blocks"),
        Case(
            "great_factors",
            note="factors that nobody would choose",
            draw=lambda pick: dict(n=32, threads=32, **factors(*(pick(1000, 4000) / 16 for _ in range(3)))),
        ),
        Case(
            "small_rate",
            note="weights are 0, so that a small step counts",
            inputs={"weights": "zeros"},
            draw=lambda pick: dict(
                n=32, threads=32, **factors(pick(11, 99) * 1e-6, pick(991, 999) / 1000, 0.5)
            ),
        ),
        Case(
            "small_decay",
            note="nothing but the decay moves a weight",
            inputs={"velocity": "zeros", "gradient": "zeros"},
            draw=lambda pick: dict(n=32, threads=32, **factors(0.5, 0.5, pick(11, 99) * 1e-6)),
        ),
    ),
    mistakes=MISTAKES,
    hints=(
        "Nothing is summed up here, and no thread needs another's numbers: thread i reads its weight, its "
        "velocity and its gradient, and writes weight and velocity back to where they were. Find i and guard "
        "it as in puzzle 01. The three factors are plain float variables, the same for all threads.",
        "The velocity comes first. The slope at this weight is its gradient plus weight_decay times the "
        "weight as it is now. The new velocity is momentum times the old velocity, plus that slope. Keep it "
        "in a variable, and store it in the array too: the next training step will find it there.",
        "The weight loses learning_rate times the new velocity. The learning rate is used here and nowhere "
        "else, and this is the only minus. Read the old weight for the decay before you change it.",
    ),
)
