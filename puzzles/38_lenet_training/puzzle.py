"""Puzzle 38: the training of LeNet, from the step of puzzle 37."""

from __future__ import annotations

import numpy as np

from harness.course import Case, Misconception, Mutant, Program, Puzzle
from harness.lenet.checks import (  # fmt: skip
    MOMENTUM,
    PEAK,
    WEIGHT_DECAY,
    check_training,
    numpy_losses,
    schedule,
    solution_kernels,
)
from reference import lenet, loss, optim


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


def updated(rate=1.0, momentum=MOMENTUM, decay=WEIGHT_DECAY):
    """Weights after an update with other numbers; rate as a factor."""
    return lambda a, d: optim.sgd(
        a["weights"], a["velocity"], a["gradient"], abs(rate) * d["rate"], momentum, decay
    )[0]


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

MISCONCEPTIONS = (
    Misconception("constant_rate", RATE, "The rate is the same in every step.",
                  lambda a, d: PEAK + 0 * a["step"]),
    Misconception("no_warm_up", RATE, "The rate starts at its peak: the warm-up is missing.",
                  rated(lambda step, n: PEAK, fall)),
    Misconception("no_decay", RATE, "After the warm-up the rate stays at its peak: it has to fall.",
                  rated(rise, lambda step, steps, n: PEAK)),
    Misconception("warm_up_from_0", RATE,
                  "The first rate is 0, so the first step does nothing: count from 1.",
                  rated(lambda step, n: PEAK * step / n, fall)),
    Misconception("straight_decay", RATE, "The rate falls in a straight line; it has to fall along a cosine.",
                  rated(rise, lambda step, steps, n: PEAK * (1 - (step - n) / (steps - n)))),
    Misconception("negative_rate", RATE, "The rate becomes negative: add 1 to the cosine and halve the sum.",
                  rated(rise, lambda step, steps, n: PEAK * np.cos(np.pi * (step - n) / (steps - n)))),
    Misconception("warm_up_counted_twice", RATE,
                  "The fall is counted from step 0; it begins when the warm-up is over.",
                  rated(rise, lambda step, steps, n: cosine(step / steps))),
    Misconception("whole_cosine", RATE, "The rate falls and rises again: half a cosine goes from 0 to pi.",
                  rated(rise, lambda step, steps, n: cosine(2 * (step - n) / (steps - n)))),
    Misconception("momentum_missing", UPDATE, "The momentum is 0; it has to be MOMENTUM.",
                  updated(momentum=0), 2),
    Misconception("decay_missing", UPDATE, "The weight decay is 0; it has to be WEIGHT_DECAY.",
                  updated(decay=0), 2),
    Misconception("numbers_swapped", UPDATE, "Momentum and weight decay have changed places.",
                  updated(momentum=WEIGHT_DECAY, decay=MOMENTUM), 2),
    Misconception("velocity_and_gradient_swapped", UPDATE, "Velocity and gradient have changed places.",
                  swapped, 2),
    Misconception("uphill", UPDATE,
                  "The parameters move along the gradient; the kernel already has the minus.",
                  uphill, 2),
    Misconception("never_updated", TRAIN,
                  "That is the loss of the first parameters: nothing is learned in between.",
                  never_updated, 3),
    Misconception("same_batch", TRAIN, "Every step uses batch 0: each must load its own images and labels.",
                  same_batch, 3),
    Misconception("rate_of_step_0", TRAIN, "Every step uses the learning rate of step 0.", rate_of_step_0, 3),
    Misconception("rate_of_next_step", TRAIN, "Every step uses the learning rate of the step after it.",
                  rate_of_next_step, 3),
    Misconception("mean_of_means", ACCURACY,
                  "It is the mean over the batches, but the last one has fewer images.",
                  lambda a, d: np.mean([b.mean() for b in a["batches"]]), 3),
    Misconception("last_batch_only", ACCURACY, "Only the last batch counts: add up over all of them.",
                  lambda a, d: a["batches"][-1].mean(), 3),
    Misconception("share_of_wrong", ACCURACY, "It is the share of the wrong answers.",
                  lambda a, d: 1 - a["right"].mean(), 3),
    Misconception("percent", ACCURACY, "It is in percent; a share from 0 to 1 was asked for.",
                  lambda a, d: 100 * a["right"].mean(), 3),
    Misconception("full_batches_assumed", ACCURACY, "The last batch is counted as a full one.",
                  lambda a, d: a["right"].sum() / (len(a["batches"]) * len(a["batches"][0])), 3),
)  # fmt: skip


def mutant(name, function, old, new, expect="wrong", also=()):
    return Mutant(name, function, old, new, expect, also)


WARM_UP = "        return PEAK * (step + 1) / warm_up\n"
DONE = "done = (step - warm_up) / (steps - warm_up)"
FALL = "return PEAK * (1 + math.cos(math.pi * done)) / 2"
NUMBERS = "learning_rate=rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY"
ARRAYS = 'net[name], net["velocity_" + name], net["grad_" + name]'
LOAD = "        net.load(images, labels)\n        net.forward()\n        net.backward()\n"
UPDATE_LINE = "update(net, learning_rate(step, len(batches)))"
RIGHT = "(net.logits.get().argmax(axis=1) == labels).sum()"

MUTANTS = (
    mutant("constant rate", RATE, "    warm_up = max(1, steps // 10)\n", "    return PEAK\n    warm_up = 1\n",
           "constant_rate"),
    mutant("no warm-up", RATE, WARM_UP, "        return PEAK\n", "no_warm_up"),
    mutant("rate never falls", RATE, FALL, "return PEAK", "no_decay"),
    mutant("warm-up starts at 0", RATE, "(step + 1) / warm_up", "step / warm_up", "warm_up_from_0"),
    mutant("straight fall", RATE, FALL, "return PEAK * (1 - done)", "straight_decay"),
    mutant("cosine not lifted", RATE, FALL, "return PEAK * math.cos(math.pi * done)", "negative_rate"),
    mutant("fall counted from step 0", RATE, DONE, "done = step / steps", "warm_up_counted_twice"),
    mutant("whole cosine", RATE, "math.pi * done", "2 * math.pi * done", "whole_cosine"),
    mutant("warm-up one step longer", RATE, "if step < warm_up:", "if step <= warm_up:"),
    mutant("no rate returned", RATE, FALL, "PEAK * (1 + math.cos(math.pi * done)) / 2"),
    mutant("no momentum", "update", NUMBERS, NUMBERS.replace("MOMENTUM", "0"), "momentum_missing"),
    mutant("no weight decay", "update", NUMBERS, NUMBERS.replace("WEIGHT_DECAY", "0"), "decay_missing"),
    mutant("momentum and decay swapped", "update", NUMBERS,
           "learning_rate=rate, momentum=WEIGHT_DECAY, weight_decay=MOMENTUM", "numbers_swapped"),
    mutant("velocity and gradient swapped", "update", ARRAYS,
           'net[name], net["grad_" + name], net["velocity_" + name]', "velocity_and_gradient_swapped"),
    mutant("uphill", "update", NUMBERS, NUMBERS.replace("=rate", "=-rate"), "uphill"),
    mutant("learning rate left out", "update", NUMBERS, "momentum=MOMENTUM, weight_decay=WEIGHT_DECAY",
           "launch"),
    mutant("peak rate in every step", "update", NUMBERS, NUMBERS.replace("=rate", "=PEAK")),
    mutant("only the weights", "update", "for name in net.parameters:",
           'for name in (n for n in net.parameters if n.endswith("weights")):', "unwritten"),
    mutant("gradient stored over", "update", ARRAYS,
           'net["grad_" + name], net["velocity_" + name], net[name]',
           "unwritten"),
    mutant("no update", TRAIN, UPDATE_LINE, "pass", "never_updated"),
    mutant("rate of step 0", TRAIN, "learning_rate(step, len(batches))", "learning_rate(0, len(batches))",
           "rate_of_step_0"),
    mutant("rate of the next step", TRAIN, "learning_rate(step, len(batches))",
           "learning_rate(step + 1, len(batches))", "rate_of_next_step"),
    mutant("always batch 0", TRAIN, LOAD, LOAD.replace("images, labels", "*batches[0]"), "same_batch"),
    mutant("not loaded", TRAIN, LOAD, LOAD.split("\n", 1)[1], "launch"),
    mutant("no forward", TRAIN, LOAD, LOAD.replace("        net.forward()\n", "")),
    mutant("no backward", TRAIN, LOAD, LOAD.replace("        net.backward()\n", "")),
    mutant("backward before forward", TRAIN, LOAD,
           "        net.load(images, labels)\n        net.backward()\n        net.forward()\n"),
    mutant("update before backward", TRAIN, LOAD, LOAD.replace("        net.backward()\n", ""),
           also=((UPDATE_LINE, UPDATE_LINE + "\n        net.backward()"),)),
    mutant("losses not kept", TRAIN, "losses.append(net.loss.get()[0])", "loss = net.loss.get()[0]"),
    mutant("arrays instead of losses", TRAIN, "losses.append(net.loss.get()[0])", "losses.append(net.loss)"),
    mutant("mean of the batches", ACCURACY, "right += " + RIGHT,
           "right += " + RIGHT.replace("sum()", "mean()"),
           "mean_of_means", also=(("total += len(labels)", "total += 1"),)),
    mutant("last batch only", ACCURACY, "right += " + RIGHT, "right = " + RIGHT, "last_batch_only",
           also=(("total += len(labels)", "total = len(labels)"),)),
    mutant("wrong answers counted", ACCURACY, "argmax(axis=1) == labels)", "argmax(axis=1) != labels)",
           "share_of_wrong"),
    mutant("percent", ACCURACY, "return right / max(total, 1)", "return 100 * right / max(total, 1)",
           "percent"),
    mutant("every batch as large as the first", ACCURACY, "total += len(labels)",
           "total += len(batches[0][1])",
           "full_batches_assumed"),
    mutant("largest along the batch", ACCURACY, "argmax(axis=1) == labels)", "argmax(axis=0) == labels)",
           "exception"),
    mutant("least logit", ACCURACY, "argmax(axis=1) == labels)", "argmin(axis=1) == labels)"),
    mutant("no forward for the accuracy", ACCURACY, "        net.forward()\n        right", "        right"),
)  # fmt: skip

PUZZLE = Puzzle(
    title="Training LeNet",
    part=5,
    teaches="What surrounds the kernels: learning rate, update, the loop over batches, and an honest "
    "accuracy.",
    practice=(
        "LeCun, Bottou, Bengio and Haffner trained LeNet-5 on MNIST in 'Gradient-Based Learning Applied to "
        "Document Recognition' (1998)."
    ),
    lines=18,
    kernels=(),
    program=Program(
        "train.py",
        ("learning_rate(step, steps)", "update(net, rate)", "train(net, batches)", "accuracy(net, batches)"),
        lambda f, case, device, seed: check_training(f, case, device, seed, MISCONCEPTIONS),
        seconds=60,
        prepare=solution_kernels,
    ),
    cases=(
        Case("learning_rate", dict(steps=20), note="done by hand in the lesson"),
        Case("learning_rate_few_steps", dict(steps=7), note="a warm-up of one step"),
        Case("learning_rate_own_steps", draw=lambda pick: dict(steps=pick(21, 90)),
             note="a number that belongs to your file"),
        Case("update", {}, note="every parameter, against the rule of puzzle 11"),
        Case("six_steps", dict(steps=6, batch=8), note="the last batch is smaller"),
        Case("accuracy", dict(batch=16), note="the last batch is smaller"),
        Case("overfit_10_images", dict(steps=60), note="ten digits by heart"),
        Case("train_digits", dict(epochs=2, batch=32), note="1,438 digits; 359 that it has never seen"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "The learning rate has two parts. With 20 steps the warm-up is 2 steps long: the rate of step 0 is "
        "half the peak, that of step 1 the peak. The other 18 steps fall: how much of them is done, from 0 "
        "towards 1? Half a cosine goes from cos(0) = 1 to cos(pi) = -1; move it up and scale it so that it "
        "goes from 1 to 0.",
        "sgd_step is the last kernel of part 1: its signature has three arrays, the parameter, its "
        "velocity, its gradient. For a parameter called name, LeNet keeps the other two under \"velocity_\" "
        "+ name and \"grad_\" + name. The three numbers follow by name, each of them as the file's constants "
        "have it.",
        "One step of training uses five things in this order: load puts the batch on the device, forward "
        "and backward are yours from puzzle 37, update needs the gradients that backward has just stored, "
        "and the loss is what forward stored. For the accuracy there is no backward and no update. Count "
        "right answers and images over all batches and divide once, at the end.",
    ),
)  # fmt: skip
