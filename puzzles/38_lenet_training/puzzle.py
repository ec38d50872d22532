"""Puzzle 38: the training of LeNet, from the step of puzzle 37."""

from __future__ import annotations

import numpy as np
from backwarp.reference import lenet, loss, optim

from backwarp.course import Case, Mistake, Program, Puzzle, mistakes_in
from backwarp.course.sizes import drawn
from backwarp.lenet.checks import solution_kernels
from backwarp.lenet.requests import REQUESTS
from backwarp.lenet.training_checks import (
    MOMENTUM,
    PEAK,
    WEIGHT_DECAY,
    check_training,
    numpy_losses,
    schedule,
)


def cosine(done):
    return PEAK * (1 + np.cos(np.pi * done)) / 2


def rated(warm, after):
    """A schedule of a warm-up (in steps and its length) and what comes after it."""

    def compute(a, d):
        step, steps = a["step"], d["steps"]
        length = max(1, steps // 10)
        return np.where(step < length, warm(step, length), after(step, steps, length))

    return compute


def rise(step, length):
    return PEAK * (step + 1) / length


def fall(step, steps, length):
    return cosine((step - length) / (steps - length))


def updated(momentum=MOMENTUM, decay=WEIGHT_DECAY):
    """Weights after an update with other numbers."""
    return lambda a, d: optim.sgd(a["weights"], a["velocity"], a["gradient"], d["rate"], momentum, decay)[0]


def uphill(a, d):
    return 2 * a["weights"] - updated()(a, d)


def swapped(a, d):
    return optim.sgd(a["weights"], a["gradient"], a["velocity"], d["rate"], MOMENTUM, WEIGHT_DECAY)[0]


def never_updated(a, d):
    return [
        loss.mean_cross_entropy(lenet.forward(a["start"], images)["logits"], labels)
        for images, labels in a["pairs"]
    ]


def same_batch(a, d):
    return numpy_losses(a["start"], a["pairs"][:1] * len(a["pairs"]))[1]


def rate_of_step_0(a, d):
    count = len(a["pairs"])
    return numpy_losses(a["start"], a["pairs"], [schedule(0, count)] * count)[1]


def rate_of_next_step(a, d):
    count = len(a["pairs"])
    return numpy_losses(a["start"], a["pairs"], [schedule(step + 1, count) for step in range(count)])[1]


RATE, UPDATE, TRAIN, ACCURACY = "learning_rate", "update", "train", "accuracy"
ARRAYS = 'net[name], net["velocity_" + name], net["grad_" + name]'
LOAD = "        net.load(images, labels)\n        net.forward()\n        net.backward()\n"
UPDATE_LINE = "update(net, learning_rate(step, len(batches)))"

MISTAKES = (
    *mistakes_in(
        RATE,
        Mistake(
            "constant rate",
            ("    warm_up = max(1, steps // 10)\n", "    return PEAK\n    warm_up = 1\n"),
            says="The rate is the same in every step.",
            computes=lambda a, d: PEAK + 0 * a["step"],
        ),
        Mistake(
            "no warm-up",
            ("PEAK * (step + 1) / warm_up", "PEAK"),
            says="The rate starts at its peak: the warm-up is missing.",
            computes=rated(lambda step, n: PEAK, fall),
        ),
        Mistake(
            "rate never falls",
            ("PEAK * (1 + math.cos(math.pi * done)) / 2", "PEAK"),
            says="After the warm-up the rate stays at its peak: it must fall.",
            computes=rated(rise, lambda step, steps, n: PEAK),
        ),
        Mistake(
            "warm-up starts at 0",
            ("(step + 1)", "step"),
            says="The first rate is 0, so the first step does nothing: count from 1.",
            computes=rated(lambda step, n: PEAK * step / n, fall),
        ),
        Mistake(
            "straight fall",
            ("(1 + math.cos(math.pi * done)) / 2", "(1 - done)"),
            says="The rate falls in a straight line; it must fall along a cosine.",
            computes=rated(rise, lambda step, steps, n: PEAK * (1 - (step - n) / (steps - n))),
        ),
        Mistake(
            "cosine not lifted",
            ("(1 + math.cos(math.pi * done)) / 2", "math.cos(math.pi * done)"),
            says="The rate becomes negative: add 1 to the cosine and halve the sum.",
            computes=rated(rise, lambda step, steps, n: PEAK * np.cos(np.pi * (step - n) / (steps - n))),
        ),
        Mistake(
            "fall counted from step 0",
            ("(step - warm_up) / (steps - warm_up)", "step / steps"),
            says="The fall is counted from step 0; it begins when the warm-up is over.",
            computes=rated(rise, lambda step, steps, n: cosine(step / steps)),
        ),
        Mistake(
            "rate reaches 0 in the last step",
            ("(steps - warm_up)", "max(1, steps - warm_up - 1)"),
            says="The rate reaches 0 in the last step, which then does nothing; it would reach 0 one step later.",
            computes=rated(rise, lambda step, steps, n: cosine((step - n) / max(1, steps - n - 1))),
        ),
        Mistake(
            "whole cosine",
            ("math.pi *", "2 * math.pi *"),
            says="The rate falls and rises again: half a cosine goes from 0 to pi.",
            computes=rated(rise, lambda step, steps, n: cosine(2 * (step - n) / (steps - n))),
        ),
    ),
    *mistakes_in(
        UPDATE,
        Mistake(
            "no momentum",
            ("=MOMENTUM", "=0"),
            says="The momentum is 0; it must be MOMENTUM.",
            computes=updated(momentum=0),
        ),
        Mistake(
            "no weight decay",
            ("=WEIGHT_DECAY", "=0"),
            says="The weight decay is 0; it must be WEIGHT_DECAY.",
            computes=updated(decay=0),
        ),
        Mistake(
            "momentum and decay swapped",
            ("MOMENTUM, weight_decay=WEIGHT_DECAY", "WEIGHT_DECAY, weight_decay=MOMENTUM"),
            says="Momentum and weight decay are swapped.",
            computes=updated(momentum=WEIGHT_DECAY, decay=MOMENTUM),
        ),
        Mistake(
            "velocity and gradient swapped",
            ('velocity_" + name], net["grad_', 'grad_" + name], net["velocity_'),
            says="Velocity and gradient are swapped.",
            computes=swapped,
        ),
        Mistake(
            "uphill",
            ("learning_rate=", "learning_rate=-"),
            says="The parameters move along the gradient, not against it; the kernel already has the minus.",
            computes=uphill,
        ),
        Mistake("rate capped", ("learning_rate=rate", "learning_rate=min(rate, PEAK)")),
        Mistake("no weight decay at small rates", ("=WEIGHT_DECAY", "=WEIGHT_DECAY * (rate > PEAK / 50)")),
        Mistake(
            "only the weights",
            ("net.parameters", '(n for n in net.parameters if n.endswith("weights"))'),
            expect="unwritten",
        ),
        Mistake(
            "gradient stored over",
            (ARRAYS, 'net["grad_" + name], net["velocity_" + name], net[name]'),
            expect="unwritten",
        ),
        hint=2,
    ),
    *mistakes_in(
        TRAIN,
        Mistake(
            "no update",
            ("update(net, learning_rate(step, len(batches)))", "pass"),
            says="Every loss is that of the initial parameters: nothing is learned in between.",
            computes=never_updated,
        ),
        Mistake(
            "rate of step 0",
            ("step, len", "0, len"),
            says="Every step uses the learning rate of step 0.",
            computes=rate_of_step_0,
        ),
        Mistake(
            "rate of the next step",
            ("step, len", "step + 1, len"),
            says="Every step uses the learning rate of the step after it.",
            computes=rate_of_next_step,
        ),
        Mistake(
            "always batch 0",
            (LOAD, "images, labels", "*batches[0]"),
            says="Every step uses batch 0: each must load its own images and labels.",
            computes=same_batch,
        ),
        Mistake(
            "update before backward",
            ((LOAD, "        net.backward()\n", ""), (UPDATE_LINE, UPDATE_LINE + "\n        net.backward()")),
        ),
        Mistake("a rate that is held at the end", ("step, len", "min(step, len(batches) - 2), len")),
        Mistake("a later batch left out", (LOAD, "images, labels", "*batches[min(step, 18)]")),
        Mistake("arrays instead of losses", ("loss.get()[0])", "loss)")),
        hint=3,
    ),
    *mistakes_in(
        ACCURACY,
        Mistake(
            "mean of the batches",
            (("labels).sum(", "labels).mean("), ("len(labels)", "1")),
            says="It is the mean over the batches, but the last one has fewer images.",
            computes=lambda a, d: np.mean([b.mean() for b in a["batches"]]),
        ),
        Mistake(
            "last batch only",
            (("right +=", "right ="), ("total +=", "total =")),
            says="Only the last batch counts: add up over all of them.",
            computes=lambda a, d: a["batches"][-1].mean(),
        ),
        Mistake(
            "wrong answers counted",
            ("== labels", "!= labels"),
            says="It is the share of the wrong answers.",
            computes=lambda a, d: 1 - a["right"].mean(),
        ),
        Mistake(
            "percent",
            ("right / max", "100 * right / max"),
            says="It is in percent; it must be a share from 0 to 1.",
            computes=lambda a, d: 100 * a["right"].mean(),
        ),
        Mistake(
            "every batch as large as the first",
            ("len(labels)", "len(batches[0][1])"),
            says="The last batch is counted as a full one.",
            computes=lambda a, d: a["right"].sum() / (len(a["batches"]) * len(a["batches"][0])),
        ),
        hint=3,
    ),
)

PUZZLE = Puzzle(
    title="Training LeNet",
    part=5,
    teaches="What surrounds the kernels: learning rate, update, the loop over batches, and an honest "
    "accuracy.",
    practice="LeCun, Bottou, Bengio and Haffner trained LeNet-5 on MNIST in 'Gradient-Based Learning Applied "
    "to Document Recognition' (1998).",
    lines=18,
    kernels=(),
    program=Program(
        "train.py",
        ("learning_rate(step, steps)", "update(net, rate)", "train(net, batches)", "accuracy(net, batches)"),
        lambda f, case, device, seed: check_training(f, case, device, seed, MISTAKES),
        REQUESTS,
        seconds=60,
        prepare=solution_kernels,
    ),
    cases=(
        Case("learning_rate", dict(steps=20), "done by hand in the lesson"),
        Case("learning_rate_few_steps", dict(steps=7), "a warm-up of one step"),
        Case("learning_rate_own_steps", draw=drawn(steps=(21, 90)), note="a number of your file"),
        Case("learning_rate_many_steps", draw=drawn(steps=(1000, 2000)), note="as many as a training has"),
        Case("update", {}, "every parameter, against the rule of puzzle 11"),
        Case("six_steps", dict(steps=6, batch=8), "the last batch is smaller"),
        Case("own_steps", draw=drawn(steps=(20, 40), batch=(2, 9)), note="rate and decay of every step"),
        Case("accuracy", dict(batch=16, images=53), "the last batch is smaller"),
        Case("accuracy_own_sizes", draw=drawn(batch=(7, 30), images=(91, 200)), note="sizes of your file"),
        Case("overfit_10_images", dict(steps=60), "ten digits by heart"),
        Case("train_digits", dict(epochs=2, batch=32), "1,438 digits; 359 that it has never seen"),
    ),
    mistakes=MISTAKES,
    hints=(
        "The learning rate has two parts. With 20 steps the warm-up is 2 steps long: the rate of step 0 is "
        "half the peak, that of step 1 the peak. The other 18 steps fall: how much of them is done, from 0 "
        "towards 1? Half a cosine goes from cos(0) = 1 to cos(pi) = -1; shift it up and scale it so that it "
        "goes from 1 to 0.",
        "sgd_step is the last kernel of part 1: its signature has three arrays, the parameter, its velocity, "
        'its gradient. For a parameter called name, LeNet keeps the other two under "velocity_" + name and '
        '"grad_" + name. The three numbers follow by name, each of them as the file\'s constants have it.',
        "One step of training uses five things in this order: load puts the batch on the device, forward and "
        "backward are yours from puzzle 37, update needs the gradients that backward has just stored, and "
        "the loss is what forward stored. For the accuracy there is no backward and no update. Count right "
        "answers and images over all batches and divide once, at the end.",
    ),
)
