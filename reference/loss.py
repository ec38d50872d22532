"""The loss of a classifier: softmax and cross entropy in one, and its gradient.

    logits  (N, K)   one row per sample, one number per class; any real numbers, not yet probabilities
    labels  (N,)     the right class of every sample, integers from 0 to K - 1

Softmax turns a row z into probabilities, and the cross entropy is minus the logarithm of the one that the
right class y gets:

    p[k] = exp(z[k]) / sum over j of exp(z[j])              loss = -log p[y]

exp(1000) is beyond float64, and for z = (0, -1000) p[1] is so small that it is stored as 0, with the
logarithm -infinity. Neither happens when the largest logit m of the row is taken out first and p is never
formed:

    loss = log(sum over j of exp(z[j] - m)) + (m - z[y])

The largest term of the sum is exp(0) = 1, so the sum lies between 1 and K.

The loss of a batch is the mean over its samples. So the gradient of every logit has the factor 1 / N here,
the chain rule carries it into all gradients before this one, and no other layer divides by the batch size
again.
Arrays of any real type are accepted and converted to float64. Mismatched arguments raise ValueError.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


def softmax(logits: ArrayLike) -> Array:
    """The probabilities (N, K) of logits (N, K): positive or 0, every row adds up to 1."""
    return np.exp(log_softmax(logits))


def log_softmax(logits: ArrayLike) -> Array:
    """The logarithms (N, K) of the probabilities; finite wherever the logits are."""
    logits = _logits(logits)
    below = logits - logits.max(axis=1, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=1, keepdims=True))


def cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Array:
    """The loss (N,) of every sample: -log of the probability of its label."""
    logits = _logits(logits)
    labels = _labels(labels, logits.shape)
    below = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(below).sum(axis=1)) - below[np.arange(len(labels)), labels]


def mean_cross_entropy(logits: ArrayLike, labels: ArrayLike) -> float:
    """The loss of the batch: the mean of `cross_entropy`. It needs at least one sample."""
    losses = cross_entropy(logits, labels)
    if not losses.size:
        raise ValueError("logits have no rows; the mean over no samples does not exist")
    return float(losses.mean())


def cross_entropy_backward(logits: ArrayLike, labels: ArrayLike) -> Array:
    """The gradient (N, K) of `mean_cross_entropy` with respect to the logits.

    grad_logits[n,k] = (softmax[n,k] - (1 where k is the label of n, else 0)) / N
    """
    logits = _logits(logits)
    labels = _labels(labels, logits.shape)
    return (softmax(logits) - one_hot(labels, logits.shape[1])) / max(len(labels), 1)


def one_hot(labels: ArrayLike, classes: int) -> Array:
    """(N, K): 1 at the label of every row, 0 elsewhere."""
    labels = _labels(labels, (np.size(labels), classes))
    found = np.zeros((len(labels), classes))
    found[np.arange(len(labels)), labels] = 1
    return found


def _logits(logits: ArrayLike) -> Array:
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim != 2 or not logits.shape[1]:
        raise ValueError(
            f"logits have the shape {logits.shape}; they must be (N, K), with at least one class K, and with "
            "the batch size N even when it is 1"
        )
    return logits


def _labels(labels: ArrayLike, shape: tuple[int, ...]) -> Array:
    """The labels as integers, one per row of logits of that shape, each the number of a class."""
    labels = np.asarray(labels)
    samples, classes = shape
    if labels.shape != (samples,):
        raise ValueError(f"labels have the shape {labels.shape}; {samples} samples need ({samples},)")
    if labels.dtype.kind not in "iu" and labels.size:
        raise ValueError(f"labels are {labels.dtype}; they must be integers, the numbers of the classes")
    labels = labels.astype(np.int64)
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        raise ValueError(
            f"labels[{wrong[0]}] is {labels[wrong[0]]}, but there are {classes} classes, 0 to {classes - 1}"
        )
    return labels
