"""Puzzle 05: softmax and cross entropy, the loss, its mean and its gradient, one thread per sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from backwarp.reference import loss

from backwarp.course import Case, Gradient, In, Int, Kernel, Launch, Out, Puzzle
from backwarp.course.mistakes import Mistake, mistakes_in
from backwarp.course.sizes import by_hand, gradient_check, integers, one_thread_each, own_sizes, with_inputs

FORWARD, MEAN, BACKWARD = "softmax_cross_entropy_forward", "mean_loss", "softmax_cross_entropy_backward"


# A logit of size z is known to 2^-24 z, and so is what is left of it after a subtraction. These functions get
# the sizes of the logits, not the logits.


def loss_magnitude(a, d):
    """The largest loss that a row of logits of these sizes can have; RTOL_LOSS is 30 roundings."""
    return 2 * a["logits"].max(1) + np.log(d["classes"]) + 1


RTOL_LOSS = 2e-6


def gradient_magnitude(a, d):
    """Probabilities are at most 1; their relative error grows with the logits."""
    largest = a["logits"].max(1, keepdims=True)
    return np.broadcast_to(1 + largest / 64, a["logits"].shape) / d["batch"]


SEARCH = """float largest = row[0];
    for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);
    // END SOLUTION"""


LOOP = "for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);"
TERM = "sum += expf(row[k] - largest);"
NOT_RESCALED = Mistake(
    "sum not rescaled",
    ((LOOP, ""), (TERM, "sum += expf(row[k] - (largest = fmaxf(largest, row[k])));")),
    says="When a larger logit comes, the sum so far still holds exp(logit - largest) with the old value of largest: multiply "
    "it by exp(old - new) first, and only then change largest.",
    hint=2,
)


def no_shift(text):
    return text.replace(" - largest)", ")")


MISTAKES = (
    *mistakes_in(
        FORWARD,
        NOT_RESCALED,
        Mistake(
            "search starts at 0",
            (SEARCH, SEARCH.replace("row[0]", "0.0f").replace("k = 1", "k = 0")),
            says="Rows of large negative logits go wrong: the search for the largest must start with row[0].",
        ),
        Mistake(
            "largest not added",
            ("+ (largest - row[labels[b]])", "- row[labels[b]]"),
            says="This is log(sum) minus the label's logit: the largest logit, subtracted before, is missing.",
            hint=2,
        ),
        Mistake(
            "log of the sum missing",
            ("logf(sum) + (largest - row[labels[b]])", "largest - row[labels[b]]"),
            says="This is the largest logit minus the label's: the logarithm of the sum is missing.",
            hint=2,
        ),
        Mistake(
            "log missing",
            ("logf(sum)", "sum"),
            says="The sum is used as it is: its logarithm is needed.",
            hint=2,
        ),
        Mistake(
            "probability stored",
            ("logf(sum) + (largest - row[labels[b]])", "expf(row[labels[b]] - largest) / sum"),
            says="This is the probability of the label; the loss is minus its logarithm.",
            hint=2,
        ),
    ),
    *mistakes_in(
        BACKWARD,
        replace(NOT_RESCALED, name="backward: sum not rescaled"),
        Mistake(
            "backward: 1 not divided",
            ("(probability - right) / batch", "probability / batch - right"),
            says="Only the probability is divided by the batch size; so must be the 1 of the label.",
        ),
        Mistake(
            "backward: label left out",
            ("(probability - right)", "probability"),
            says="These are the probabilities divided by the batch size: 1 must be subtracted at the label.",
        ),
        Mistake(
            "backward: not normalised",
            (") / sum;", ");"),
            says="exp(logit - largest) is not yet a probability: divide it by the sum of the row.",
        ),
        Mistake(
            "backward: largest subtracted in the sum only",
            ("k] - largest) / sum", "k]) / sum"),
            says="No probabilities: the largest logit is subtracted in the sum, but not in the numerator.",
        ),
        hint=3,
    ),
)


def random_labels(rng, a, d):
    return rng.integers(0, d["classes"], d["batch"])


LOGITS = In("logits", b="batch", k="classes")
LABELS = In("labels", dtype="int32", values=random_labels, b="batch")

PUZZLE = Puzzle(
    title="Softmax and cross entropy",
    part=1,
    teaches="How a network's error becomes one number and its gradient starts, without exp overflowing.",
    practice="torch.nn.functional.cross_entropy is a log_softmax, with the maximum subtracted as here, and "
    "then a nll_loss; a row belongs to a warp or a block.",
    lines=17,
    kernels=(
        Kernel(
            FORWARD,
            params=(LOGITS, LABELS, Out("losses", b="batch"), Int("batch"), Int("classes")),
            launch=one_thread_each("batch"),
            reference=lambda a, d: loss.cross_entropy(a["logits"], a["labels"]),
            magnitude=loss_magnitude,
            rtol=RTOL_LOSS,
        ),
        Kernel(
            MEAN,
            params=(
                In("losses", values=lambda rng, a, d: -np.log(rng.random(d["batch"])), b="batch"),
                Out("mean", n=1),
                Int("batch"),
            ),
            launch=lambda d, t: Launch(grid=1, block=1),
            reference=lambda a, d: [a["losses"].mean()],
        ),
        Kernel(
            BACKWARD,
            params=(LOGITS, LABELS, Out("grad_logits", b="batch", k="classes"), Int("batch"), Int("classes")),
            launch=one_thread_each("batch"),
            reference=lambda a, d: loss.cross_entropy_backward(a["logits"], a["labels"]),
            magnitude=gradient_magnitude,
        ),
    ),
    dims=lambda d: {"threads": 64, **d},
    gradient_of={
        BACKWARD: Gradient(lambda z, a, d: loss.mean_cross_entropy(z, a["labels"]), at="logits", epsilon=1e-4)
    },
    bench=dict(batch=16384, classes=1000),
    cases=(
        by_hand(
            "softmax_tiny_2x3",
            dict(batch=2, classes=3),
            logits=[[2, 1, 0], [0, -1, 1]],
            labels=[0, 1],
            losses=[0.4076, 2.4076],
        ),
        Case("one_class", dict(batch=5, classes=1), "a single class: loss 0, gradient 0"),
        Case("one_sample", dict(batch=1, classes=10)),
        integers(dict(batch=64, classes=3), "an exact mean", inputs={"losses": "integers"}, kernels=(MEAN,)),
        gradient_check("softmax_numerical_gradient_check", dict(batch=4, classes=5), kernels=(BACKWARD,)),
        with_inputs(
            "logits_of_1000",
            dict(batch=10, classes=4),
            "exp(1000) is beyond float, in each place",
            logits=[
                [1000, 0, -1000, 1],
                [-1000, -1000, -999, -1000],
                [0, -1000, 1, 2],
                [1000, 999, 998, -1000],
                [500, -500, 499, 0],
                [1000, 1000, 1000, 1000],
                [-1000, 1000, 0, 0],
                [3, 1, -2, 0],
                [0, -1000, 1000, 1],
                [-1000, 1, 0, 1000],
            ],
            labels=[0, 1, 1, 2, 1, 3, 0, 2, 0, 1],
        ),
        Case("nothing_divides", dict(batch=67, classes=13, threads=32), "the third block has 3 samples"),
        Case("softmax_lenet", dict(batch=64, classes=10), "a batch of LeNet"),
        Case("many_samples", dict(batch=300, classes=7), "5 blocks"),
        own_sizes(batch=(70, 300), classes=(3, 40), threads=(20, 90)),
    ),
    mistakes=MISTAKES,
    hints=(
        "A thread owns a whole row and goes through it more than once, each time with a loop over the "
        "classes: once to find the largest logit (start with the first one and keep the larger of two), once "
        "to add up. mean_loss is run by a single thread, so it is a plain loop over the batch with one "
        "division at the end.",
        "Every number that expf gets is a logit minus the largest of its row, so it is 0 or negative, and "
        "the sum is at least 1. The loss is the logarithm of the sum, plus the largest logit, minus the "
        "logit of the label, so the logarithm of a quotient is never needed. The label is a number of a "
        "class, so it is an index into the row.",
        "In the gradient, a thread goes through its row a third time. For each class it computes the "
        "probability, expf of the shifted logit divided by the sum; subtracts 1 if this class is the label "
        "of the sample; divides by batch; and stores it in row b of grad_logits, which is laid out as the "
        "logits are.",
    ),
)
