"""Puzzle 05: softmax and cross entropy, the loss, its mean and its gradient, one thread per sample."""

from __future__ import annotations

import numpy as np

from harness.course import (  # fmt: skip
    Case,
    Gradient,
    In,
    Int,
    Kernel,
    Launch,
    Misconception,
    Mutant,
    Out,
    Puzzle,
    ceil_div,
)
from reference import loss

FORWARD, MEAN, BACKWARD = "softmax_cross_entropy_forward", "mean_loss", "softmax_cross_entropy_backward"


# ---- how far right kernels may be off -----------------------------------------------------------------
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


# ---- wrong kernels ------------------------------------------------------------------------------------


def exp32(x):
    """exp as float has it: infinity from 89 on, 0 from -104 down."""
    return np.exp(x.astype(np.float32)).astype(np.float64)


def known(x):
    """NaN for what is not finite: a kernel may get infinity there, or NaN."""
    return np.where(np.isfinite(x), x, np.nan)


def of_label(a, rows):
    return rows[np.arange(len(rows)), a["labels"]]


def shifted_loss(a, shift):
    """log(sum exp(z - shift)) + shift - z[label], where float can compute that; shift: one number per row."""
    z, shift = a["logits"], shift[:, None]
    return known(np.log(exp32(z - shift).sum(1)) + of_label(a, shift - z))


def log_of_softmax(a, shift):
    """-log of the probability that float finds for the label."""
    terms = exp32(a["logits"] - shift[:, None])
    return known(-np.log(of_label(a, terms) / terms.sum(1)))


def shifted_gradient(a, d, shift):
    """The gradient, where float can compute the probabilities with this shift."""
    terms = exp32(a["logits"] - shift[:, None])
    return known((terms / terms.sum(1, keepdims=True) - right(a, d)) / d["batch"])


def shift_in_the_sum_only(a, d):
    """exp(z) / sum exp(z - m) for the probability."""
    sums = exp32(a["logits"] - highest(a)[:, None]).sum(1, keepdims=True)
    return known((exp32(a["logits"]) / sums - right(a, d)) / d["batch"])


def highest(a):
    return a["logits"].max(1)


def right(a, d):
    return loss.one_hot(a["labels"], d["classes"])


def losses(a, logits=None, labels=None):
    return loss.cross_entropy(
        a["logits"] if logits is None else logits, a["labels"] if labels is None else labels
    )


def gradient(a, logits=None, labels=None):
    return loss.cross_entropy_backward(
        a["logits"] if logits is None else logits, a["labels"] if labels is None else labels
    )


def first(array):
    """The first row (or number) in the place of all of them."""
    return np.broadcast_to(array[:1], array.shape)


def transposed(a, d):
    """The logits as a kernel sees them that takes them for [classes, batch]."""
    return a["logits"].reshape(d["classes"], d["batch"]).T


def last_class_missing(a, d):
    terms = exp32(a["logits"] - highest(a)[:, None])[:, :-1]
    return known(np.log(terms.sum(1)) + highest(a) - of_label(a, a["logits"]))


def label_only(a, d):
    """Only the element of the label is written."""
    return np.where(right(a, d) == 1, gradient(a), np.nan)


def wrong(id, hint, says, compute, kernel=FORWARD):
    return Misconception(id, kernel, says, compute, hint)


MISCONCEPTIONS = (
    wrong("overflow", 2,
          "exp of a large logit overflows: float ends at exp(88). Subtract the largest logit of the row.",
          lambda a, d: shifted_loss(a, 0 * highest(a))),
    wrong("softmax_overflow", 2,
          "exp of the logits themselves overflows, or is 0 in the whole row, and the quotient is NaN: "
          "subtract the largest logit of the row first.",
          lambda a, d: log_of_softmax(a, 0 * highest(a))),
    wrong("log_of_softmax", 2,
          "A probability below 1e-45 is stored as 0, and log(0) is -infinity: take the logarithm of the sum "
          "only, not of the quotient.",
          lambda a, d: log_of_softmax(a, highest(a))),
    wrong("largest_starts_at_0", 1,
          "Rows of large negative logits go wrong: the search for the largest starts at 0, not with row[0].",
          lambda a, d: shifted_loss(a, np.maximum(highest(a), 0))),
    wrong("largest_is_the_first", 1,
          "What is subtracted is the first logit of the row, not the largest.",
          lambda a, d: shifted_loss(a, a["logits"][:, 0])),
    wrong("largest_of_row_0", 1,
          "What is subtracted is the largest logit of sample 0; every sample has its own.",
          lambda a, d: shifted_loss(a, first(highest(a)))),
    wrong("smallest_subtracted", 1,
          "What is subtracted is the smallest logit of the row, so exp overflows; take the largest.",
          lambda a, d: shifted_loss(a, a["logits"].min(1))),
    wrong("largest_not_added", 2,
          "This is log(sum) minus the label's logit: the largest logit, subtracted before, is missing.",
          lambda a, d: losses(a) - highest(a)),
    wrong("log_of_sum_missing", 2,
          "This is the largest logit minus the label's: the logarithm of the sum is missing.",
          lambda a, d: highest(a) - of_label(a, a["logits"])),
    wrong("log_missing", 2,
          "The sum is used as it is: its logarithm is needed.",
          lambda a, d: np.exp(losses(a) - highest(a) + of_label(a, a["logits"]))
          + highest(a) - of_label(a, a["logits"])),
    wrong("probability", 2,
          "This is the probability of the label; the loss is minus its logarithm.",
          lambda a, d: np.exp(-losses(a))),
    wrong("binary_logarithm", 2,
          "The logarithm has base 2; logf is the natural one, which belongs to expf.",
          lambda a, d: (losses(a) - highest(a) + of_label(a, a["logits"])) / np.log(2)
          + highest(a) - of_label(a, a["logits"])),
    wrong("negated", 2,
          "Every loss has the wrong sign: it is minus the logarithm of a number below 1, so it is positive.",
          lambda a, d: -losses(a)),
    wrong("label_ignored", 2,
          "This is the loss as if every label were 0: the label decides which logit is subtracted.",
          lambda a, d: losses(a, labels=0 * a["labels"])),
    wrong("label_of_sample_0", 3,
          "Every sample gets the label of sample 0: b is missing in the index of the labels.",
          lambda a, d: losses(a, labels=first(a["labels"]))),
    wrong("logits_of_sample_0", 3,
          "Every sample gets the logits of sample 0: b is missing in the index of the logits.",
          lambda a, d: losses(a, first(a["logits"]))),
    wrong("logits_transposed", 3,
          "The logits are read as [classes, batch]; they are stored sample by sample.",
          lambda a, d: losses(a, transposed(a, d))),
    wrong("last_class_missing", 1,
          "The last class is missing in the sum: k runs from 0 to classes - 1.",
          last_class_missing),
    wrong("sum_overwritten", 2,
          "Only the last class is in the sum: it is overwritten (=) instead of added to (+=).",
          lambda a, d: known(np.log(exp32(a["logits"][:, -1] - highest(a)))
                             + highest(a) - of_label(a, a["logits"]))),
    wrong("divided_by_batch", 2,
          "Every loss is divided by the batch size already; the mean is formed by mean_loss.",
          lambda a, d: losses(a) / d["batch"]),
    # the mean
    wrong("mean_is_sum", 1, "This is the sum of the losses: divide it by the batch size.",
          lambda a, d: [a["losses"].sum()], MEAN),
    wrong("mean_first_only", 1, "Only the loss of sample 0 is in the mean.",
          lambda a, d: [a["losses"][0] / d["batch"]], MEAN),
    wrong("mean_is_first", 1, "This is the loss of sample 0, not the mean.",
          lambda a, d: [a["losses"][0]], MEAN),
    wrong("mean_last_only", 1,
          "Only the last loss is in the mean: the sum is overwritten (=) instead of added to (+=).",
          lambda a, d: [a["losses"][-1] / d["batch"]], MEAN),
    wrong("mean_last_missing", 1, "The last loss is missing in the sum.",
          lambda a, d: [a["losses"][:-1].sum() / d["batch"]], MEAN),
    # the gradient
    wrong("gradient_not_divided", 3,
          "The gradient is batch times too large: the loss is a mean, so every gradient is divided by batch, "
          "here and nowhere else.",
          lambda a, d: gradient(a) * d["batch"], BACKWARD),
    wrong("gradient_divided_by_classes", 3,
          "The gradient is divided by the number of classes; the mean goes over the samples.",
          lambda a, d: gradient(a) * d["batch"] / d["classes"], BACKWARD),
    wrong("gradient_divided_twice", 3,
          "The gradient is divided by the batch size twice.",
          lambda a, d: gradient(a) / d["batch"], BACKWARD),
    wrong("one_not_divided", 3,
          "Only the probability is divided by the batch size; the 1 of the label must be, too.",
          lambda a, d: loss.softmax(a["logits"]) / d["batch"] - right(a, d), BACKWARD),
    wrong("gradient_without_label", 3,
          "These are the probabilities divided by the batch size: 1 must be subtracted at the label.",
          lambda a, d: loss.softmax(a["logits"]) / d["batch"], BACKWARD),
    wrong("one_subtracted_everywhere", 3,
          "1 is subtracted from every probability; only the label's has it subtracted.",
          lambda a, d: (loss.softmax(a["logits"]) - 1) / d["batch"], BACKWARD),
    wrong("gradient_at_label_only", 3,
          "Only the label's element is written; the other classes have a gradient, too: their probability.",
          label_only, BACKWARD),
    wrong("gradient_negated", 3,
          "The gradient has the wrong sign: it is the probability minus 1 at the label, so negative there.",
          lambda a, d: -gradient(a), BACKWARD),
    wrong("not_normalised", 3,
          "exp(logit - largest) is not yet a probability: divide it by the sum of the row.",
          lambda a, d: (exp32(a["logits"] - highest(a)[:, None]) - right(a, d)) / d["batch"], BACKWARD),
    wrong("largest_subtracted_in_the_sum_only", 3,
          "These are not probabilities: the largest logit is subtracted in the sum, but not above it.",
          shift_in_the_sum_only, BACKWARD),
    wrong("gradient_with_label_0", 3,
          "This is the gradient as if every label were 0.",
          lambda a, d: gradient(a, labels=0 * a["labels"]), BACKWARD),
    wrong("gradient_with_label_of_sample_0", 3,
          "Every sample gets the label of sample 0: b is missing in the index of the labels.",
          lambda a, d: gradient(a, labels=first(a["labels"])), BACKWARD),
    wrong("gradient_of_sample_0", 3,
          "Every sample gets the probabilities of sample 0: b is missing in the index of the logits.",
          lambda a, d: gradient(a, first(a["logits"])), BACKWARD),
    wrong("gradient_transposed", 3,
          "The right numbers are at the wrong places: grad_logits is filled as [classes, batch].",
          lambda a, d: gradient(a).T.reshape(d["batch"], d["classes"]), BACKWARD),
    wrong("gradient_overflow", 2,
          "exp of a large logit overflows, and infinity / infinity is NaN: subtract the largest logit of the "
          "row first.",
          lambda a, d: shifted_gradient(a, d, 0 * highest(a)), BACKWARD),
    wrong("gradient_largest_starts_at_0", 1,
          "Rows of large negative logits go wrong: the search for the largest starts at 0, not with row[0].",
          lambda a, d: shifted_gradient(a, d, np.maximum(highest(a), 0)), BACKWARD),
)  # fmt: skip

GIVEN = """if (b >= batch) return;
    const float* row = logits + b * classes;  // row[k] is logits[b, k]"""
SEARCH = """float largest = row[0];
    for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);
    // END SOLUTION"""
SUM = "for (int k = 0; k < classes; k++) sum += expf(row[k] - largest);\n    losses[b] = "
VALUE = "logf(sum) + (largest - row[labels[b]])"
MEAN_SUM = "for (int b = 0; b < batch; b++) sum += losses[b];"
MEAN_STORE = "mean[0] = sum / batch;"
BW_ROW = """if (b >= batch) return;
    const float* row = logits + b * classes;

"""
BW_SEARCH = """float largest = row[0];
    for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);

    float sum"""
BW_SUM = "for (int k = 0; k < classes; k++) sum += expf(row[k] - largest);\n\n    for"
PROBABILITY = "float probability = expf(row[k] - largest) / sum;"
RIGHT = "k == labels[b] ? 1.0f : 0.0f"
BW_VALUE = "(probability - right) / batch"
BW_STORE = f"grad_logits[b * classes + k] = {BW_VALUE};"


def mutant(name, old, new, expect="wrong", also=()):
    kernel = {"mean": MEAN, "backward": BACKWARD}.get(name.split(":")[0], FORWARD)
    return Mutant(name, kernel, old, new, expect, also)


def no_shift(text):
    return text.replace(" - largest)", ")")


MUTANTS = (
    # the loss
    mutant("no largest subtracted", SUM, no_shift(SUM), "overflow",
           also=((VALUE, "logf(sum) - row[labels[b]]"),)),
    mutant("log of the plain softmax", SUM, no_shift(SUM), "softmax_overflow",
           also=((VALUE, "-logf(expf(row[labels[b]]) / sum)"),)),
    mutant("log of the softmax", VALUE, "-logf(expf(row[labels[b]] - largest) / sum)", "log_of_softmax"),
    mutant("search starts at 0", SEARCH, SEARCH.replace("row[0]", "0.0f").replace("k = 1", "k = 0"),
           "largest_starts_at_0"),
    mutant("search missing", SEARCH, "float largest = row[0];\n    // END SOLUTION", "largest_is_the_first"),
    mutant("search in row 0", SEARCH, SEARCH.replace("row[", "logits["), "largest_of_row_0"),
    mutant("search for the smallest", SEARCH, SEARCH.replace("fmaxf", "fminf"),
           "smallest_subtracted"),
    mutant("search goes too far", SEARCH, SEARCH.replace("k < classes", "k <= classes"), "out-of-bounds"),
    mutant("largest not set to anything", SEARCH, SEARCH.replace(" = row[0]", ""),
           ("uninitialised-read", "wrong")),
    mutant("largest not added", VALUE, "logf(sum) - row[labels[b]]", "largest_not_added"),
    mutant("log of the sum missing", VALUE, "largest - row[labels[b]]", "log_of_sum_missing"),
    mutant("log missing", VALUE, "sum + (largest - row[labels[b]])", "log_missing"),
    mutant("probability stored", VALUE, "expf(row[labels[b]] - largest) / sum", "probability"),
    mutant("log of base 2", VALUE, VALUE.replace("logf", "log2f"), "binary_logarithm"),
    mutant("sign", VALUE, f"-({VALUE})", "negated"),
    mutant("class 0 for the label", VALUE, VALUE.replace("labels[b]", "0"), "label_ignored"),
    mutant("label of sample 0", VALUE, VALUE.replace("labels[b]", "labels[0]"), "label_of_sample_0"),
    mutant("sample for the label", VALUE, VALUE.replace("labels[b]", "b"), ("wrong", "out-of-bounds")),
    mutant("row of sample 0", GIVEN, GIVEN.replace(" + b * classes", ""), "logits_of_sample_0"),
    mutant("logits as [classes, batch]", GIVEN, GIVEN.replace("b * classes", "b"), "logits_transposed",
           also=((SEARCH, SEARCH.replace("row[k]", "row[k * batch]")),
                 (SUM, SUM.replace("row[k]", "row[k * batch]")),
                 (VALUE, VALUE.replace("labels[b]", "labels[b] * batch")))),
    mutant("rows of batch logits", GIVEN, GIVEN.replace("b * classes", "b * batch"),
           ("wrong", "out-of-bounds")),
    mutant("last class missing in the sum", SUM, SUM.replace("k < classes", "k < classes - 1"),
           "last_class_missing"),
    mutant("sum goes too far", SUM, SUM.replace("k < classes", "k <= classes"), "out-of-bounds"),
    mutant("sum overwritten", SUM, SUM.replace("+=", "="), "sum_overwritten"),
    mutant("divided by batch", VALUE, f"({VALUE}) / batch", "divided_by_batch"),
    mutant("size of a block written as 64", "blockDim.x + threadIdx.x;\n    " + GIVEN,
           "64 + threadIdx.x;\n    " + GIVEN, "unwritten"),
    mutant("256 classes at most", "k < classes; k++) sum", "k < min(classes, 256); k++) sum"),
    mutant("no guard", GIVEN, GIVEN.replace("if (b >= batch) return;", ""), "out-of-bounds"),
    mutant("not stored", f"losses[b] = {VALUE};", "", "unwritten"),
    # the mean
    mutant("mean: not divided", MEAN_STORE, "mean[0] = sum;", "mean_is_sum"),
    mutant("mean: sample 0 only", MEAN_SUM, MEAN_SUM.replace("< batch", "< 1"), "mean_first_only"),
    mutant("mean: loss of sample 0", MEAN_STORE, "mean[0] = losses[0];", "mean_is_first"),
    mutant("mean: overwritten", MEAN_SUM, MEAN_SUM.replace("+=", "="), "mean_last_only"),
    mutant("mean: last missing", MEAN_SUM, MEAN_SUM.replace("< batch", "< batch - 1"), "mean_last_missing"),
    mutant("mean: one too many", MEAN_SUM, MEAN_SUM.replace("< batch", "<= batch"), "out-of-bounds"),
    mutant("mean: loss of its own thread", MEAN_SUM, "sum = losses[threadIdx.x];", "mean_first_only"),
    mutant("mean: stored for every sample", MEAN_STORE,
           "for (int b = 0; b < batch; b++) mean[b] = sum / batch;", "out-of-bounds"),
    mutant("mean: added up in the output", MEAN_STORE, "mean[0] += sum / batch;",
           ("uninitialised-read", "wrong", "unwritten")),
    # the gradient
    mutant("backward: not divided by batch", BW_VALUE, "probability - right", "gradient_not_divided"),
    mutant("backward: divided by classes", BW_VALUE, BW_VALUE.replace("batch", "classes"),
           "gradient_divided_by_classes"),
    mutant("backward: divided twice", BW_VALUE, f"{BW_VALUE} / batch", "gradient_divided_twice"),
    mutant("backward: 1 not divided", BW_VALUE, "probability / batch - right", "one_not_divided"),
    mutant("backward: label left out", BW_VALUE, "probability / batch", "gradient_without_label"),
    mutant("backward: 1 subtracted everywhere", RIGHT, "1.0f", "one_subtracted_everywhere"),
    mutant("backward: label only", BW_STORE, f"if (k == labels[b]) {BW_STORE}", "gradient_at_label_only"),
    mutant("backward: sign", BW_VALUE, "(right - probability) / batch", "gradient_negated"),
    mutant("backward: not normalised", PROBABILITY, "float probability = expf(row[k] - largest);",
           "not_normalised"),
    mutant("backward: class 0 for the label", RIGHT, RIGHT.replace("labels[b]", "0"),
           "gradient_with_label_0"),
    mutant("backward: label of sample 0", RIGHT, RIGHT.replace("labels[b]", "labels[0]"),
           "gradient_with_label_of_sample_0"),
    mutant("backward: sample for the label", RIGHT, RIGHT.replace("labels[b]", "b")),
    mutant("backward: row of sample 0", BW_ROW, BW_ROW.replace(" + b * classes", ""), "gradient_of_sample_0"),
    mutant("backward: stored as [classes, batch]", "grad_logits[b * classes + k]",
           "grad_logits[k * batch + b]", "gradient_transposed"),
    mutant("backward: b missing in grad_logits", "grad_logits[b * classes + k]", "grad_logits[k]", "race"),
    mutant("backward: no largest subtracted", BW_SUM, no_shift(BW_SUM), "gradient_overflow",
           also=((PROBABILITY, no_shift(PROBABILITY)),)),
    mutant("backward: largest subtracted in the sum only", PROBABILITY, no_shift(PROBABILITY),
           "largest_subtracted_in_the_sum_only"),
    mutant("backward: search starts at 0", BW_SEARCH,
           BW_SEARCH.replace("row[0]", "0.0f").replace("k = 1", "k = 0"), "gradient_largest_starts_at_0"),
    mutant("backward: last class not stored", "for (int k = 0; k < classes; k++) {",
           "for (int k = 0; k < classes - 1; k++) {", "unwritten"),
    mutant("backward: one class too many", "for (int k = 0; k < classes; k++) {",
           "for (int k = 0; k <= classes; k++) {", ("out-of-bounds", "race")),
    mutant("backward: whole division", BW_VALUE, "int(probability - right) / batch"),
    mutant("backward: no guard", BW_ROW, BW_ROW.replace("if (b >= batch) return;", ""), "out-of-bounds"),
    mutant("backward: never ends", BW_SUM, BW_SUM.replace("; k++)", ";)"), "timeout"),
)  # fmt: skip


def random_labels(rng, a, d):
    return rng.integers(0, d["classes"], d["batch"])


def one_thread_per_sample(d, t):
    return Launch(grid=ceil_div(d["batch"], d["threads"]), block=d["threads"])


LOGITS = In("logits", b="batch", k="classes")
LABELS = In("labels", dtype="int32", values=random_labels, b="batch")

PUZZLE = Puzzle(
    title="Softmax and cross entropy",
    part=1,
    teaches="How a network's error becomes one number and its gradient starts, without exp overflowing.",
    practice=(
        "torch.nn.functional.cross_entropy is a log_softmax, with the maximum subtracted as here, and then "
        "a nll_loss; a row belongs to a warp or a block."
    ),
    lines=17,
    kernels=(
        Kernel(
            FORWARD,
            params=(LOGITS, LABELS, Out("losses", b="batch"), Int("batch"), Int("classes")),
            launch=one_thread_per_sample,
            reference=lambda a, d: loss.cross_entropy(a["logits"], a["labels"]),
            magnitude=loss_magnitude, rtol=RTOL_LOSS,
        ),
        Kernel(
            MEAN,
            params=(
                In("losses", values=lambda rng, a, d: -np.log(rng.random(d["batch"])), b="batch"),
                Out("mean", n=1), Int("batch"),
            ),
            launch=lambda d, t: Launch(grid=1, block=1),
            reference=lambda a, d: [a["losses"].mean()],
        ),
        Kernel(
            BACKWARD,
            params=(LOGITS, LABELS, Out("grad_logits", b="batch", k="classes"), Int("batch"), Int("classes")),
            launch=one_thread_per_sample,
            reference=lambda a, d: loss.cross_entropy_backward(a["logits"], a["labels"]),
            magnitude=gradient_magnitude,
        ),
    ),
    dims=lambda d: {"threads": 64, **d},
    gradient_of={
        BACKWARD: Gradient(
            lambda z, a, d: loss.mean_cross_entropy(z, a["labels"]), at="logits", epsilon=1e-4
        ),
    },
    bench=dict(batch=16384, classes=1000),
    cases=(
        Case(
            "softmax_tiny_2x3", dict(batch=2, classes=3), note="done by hand in the lesson",
            inputs={"logits": [[2, 1, 0], [0, -1, 1]], "labels": [0, 1], "losses": [0.4076, 2.4076]},
        ),
        Case("one_class", dict(batch=5, classes=1), note="always right: loss 0, gradient 0"),
        Case("one_sample", dict(batch=1, classes=10)),
        Case("integers", dict(batch=64, classes=3), note="an exact mean", inputs={"losses": "integers"},
             values="integers", kernels=(MEAN,)),
        Case("softmax_numerical_gradient_check", dict(batch=4, classes=5), note="each logit moved by epsilon",
             check="gradient", kernels=(BACKWARD,)),
        Case(
            "logits_of_1000", dict(batch=8, classes=4), note="exp(1000) is beyond float",
            inputs={
                "logits": [
                    [1000, 0, -1000, 1], [-1000, -1000, -999, -1000], [0, -1000, 1, 2],
                    [1000, 999, 998, -1000], [500, -500, 499, 0], [1000, 1000, 1000, 1000],
                    [-1000, 1000, 0, 0], [3, 1, -2, 0],
                ],
                "labels": [0, 1, 1, 2, 1, 3, 0, 2],
            },
        ),
        Case("nothing_divides", dict(batch=67, classes=13, threads=32), note="the third block has 3 samples"),
        Case("softmax_lenet", dict(batch=64, classes=10), note="a batch of LeNet"),
        Case("many_samples", dict(batch=300, classes=7), note="5 blocks"),
        Case("own_sizes", draw=lambda pick: dict(batch=pick(70, 300), classes=pick(3, 40), threads=pick(20, 90)),
             note="sizes that belong to your file"),
        Case("many_classes", dict(batch=2, classes=259), note="more classes than a byte can count", stress=True),
        Case("great_many_samples", dict(batch=65_541, classes=2, threads=1),
             note="more samples, and blocks, than 16 bits can count", stress=True),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "A thread owns a whole row and goes through it more than once, each time with a loop over the "
        "classes: once to find the largest logit (start with the first one and keep the larger of two), "
        "once to add up. mean_loss is run by a single thread, so it is a plain loop over the batch with one "
        "division at the end.",
        "Every number that expf gets is a logit minus the largest of its row, so it is 0 or negative, "
        "and the sum is at least 1. The loss is the logarithm of the sum, plus the largest logit, "
        "minus the logit of the label: a logarithm of a quotient never has to be formed. The label is a "
        "number of a class, so it is an index into the row.",
        "In the gradient, a thread goes through its row a third time. For each class it computes the "
        "probability, expf of the shifted logit divided by the sum; subtracts 1 if this class is the label "
        "of the sample; divides by batch; and stores it in row b of grad_logits, which is laid out as the "
        "logits are.",
    ),
)  # fmt: skip
