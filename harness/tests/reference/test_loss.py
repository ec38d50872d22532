"""Softmax and cross entropy against their definition, differences, extremes and numbers worked by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from backwarp.reference import loss

LOG = np.log


def random_case(samples, classes, spread=1.0):
    random = np.random.default_rng(samples * classes)
    return random.normal(size=(samples, classes)) * spread, random.integers(0, classes, samples)


def test_by_hand():
    # exp: 1, 2, 5; probabilities 1/8, 2/8, 5/8
    z = [[0, LOG(2), LOG(5)]] * 3
    np.testing.assert_allclose(loss.softmax(z), [[1 / 8, 2 / 8, 5 / 8]] * 3)
    np.testing.assert_allclose(loss.cross_entropy(z, [0, 1, 2]), [LOG(8), LOG(4), LOG(8 / 5)])
    assert loss.mean_cross_entropy(z, [0, 1, 2]) == pytest.approx((LOG(8) + LOG(4) + LOG(8 / 5)) / 3)
    expected = np.array([[1 - 8, 2, 5], [1, 2 - 8, 5], [1, 2, 5 - 8]]) / 8 / 3
    np.testing.assert_allclose(loss.cross_entropy_backward(z, [0, 1, 2]), expected)


def test_one_hot_by_hand():
    assert loss.one_hot([2, 0], 3).tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("samples, classes", [(1, 1), (1, 5), (4, 1), (3, 2), (6, 10)])
def test_equals_the_definition_where_that_can_be_computed(samples, classes):
    z, labels = random_case(samples, classes)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    np.testing.assert_allclose(loss.softmax(z), p, rtol=1e-12)
    np.testing.assert_allclose(loss.log_softmax(z), LOG(p), rtol=0, atol=1e-12)
    picked = [-LOG(p[n, y]) for n, y in enumerate(labels)]
    np.testing.assert_allclose(loss.cross_entropy(z, labels), picked, rtol=0, atol=1e-12)


@pytest.mark.parametrize("samples, classes", [(1, 1), (1, 5), (4, 1), (3, 2), (6, 10)])
def test_the_gradient_equals_central_differences(samples, classes):
    z, labels = random_case(samples, classes)
    expected, epsilon = np.zeros(z.shape), 1e-5
    for index in np.ndindex(*z.shape):
        sides = []
        for sign in (+1, -1):
            moved = z.copy()
            moved[index] += sign * epsilon
            sides.append(loss.mean_cross_entropy(moved, labels))
        expected[index] = (sides[0] - sides[1]) / (2 * epsilon)
    np.testing.assert_allclose(loss.cross_entropy_backward(z, labels), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
def test_probabilities_and_gradients_add_up(spread):
    z, labels = random_case(5, 7, spread)
    np.testing.assert_allclose(loss.softmax(z).sum(1), 1, rtol=1e-12)
    gradient = loss.cross_entropy_backward(z, labels)
    np.testing.assert_allclose(gradient.sum(1), 0, rtol=0, atol=1e-12)
    right = loss.one_hot(labels, 7) == 1
    assert (gradient[right] <= 0).all() and (gradient[~right] >= 0).all()


def test_a_constant_added_to_a_row_changes_nothing():
    z, labels = random_case(4, 6)
    shifted = z + np.array([[1e3], [-1e3], [5e5], [0]])
    np.testing.assert_allclose(loss.cross_entropy(shifted, labels), loss.cross_entropy(z, labels), atol=1e-9)


def test_logits_of_1000_neither_overflow_nor_lose_the_loss():
    z = [[1000, -1000], [1000, -1000], [-1000, -1000], [1000, 1000]]
    with np.errstate(all="raise", under="ignore"):
        losses = loss.cross_entropy(z, [0, 1, 1, 0])
        gradient = loss.cross_entropy_backward(z, [0, 1, 1, 0])
    np.testing.assert_allclose(losses, [0, 2000, LOG(2), LOG(2)], rtol=1e-15)
    np.testing.assert_allclose(gradient * 4, [[0, 0], [1, -1], [0.5, -0.5], [-0.5, 0.5]], atol=1e-15)


def test_one_class_is_always_right():
    assert loss.cross_entropy([[3], [-7]], [0, 0]).tolist() == [0, 0]
    assert loss.cross_entropy_backward([[3], [-7]], [0, 0]).tolist() == [[0], [0]]


def test_empty_batch_has_no_mean():
    none = np.zeros((0, 3)), np.zeros(0, int)
    assert loss.cross_entropy(*none).shape == (0,) and loss.cross_entropy_backward(*none).shape == (0, 3)
    with pytest.raises(ValueError, match="no rows"):
        loss.mean_cross_entropy(*none)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_results_are_float64_and_inputs_left_alone(dtype):
    z, labels = np.array([[3, -2, 1]], dtype), np.array([1], np.uint8)
    results = [
        loss.softmax(z),
        loss.log_softmax(z),
        loss.cross_entropy(z, labels),
        loss.cross_entropy_backward(z, labels),
    ]
    assert [result.dtype for result in results] == [np.float64] * 4
    assert z.tolist() == [[3, -2, 1]] and labels.tolist() == [1]


ERRORS = {
    "a label too large": (
        lambda: loss.cross_entropy([[0, 0]], [2]),
        "labels[0] is 2, but there are 2 classes",
    ),
    "a negative label": (lambda: loss.cross_entropy([[0, 0]] * 2, [0, -1]), "labels[1] is -1"),
    "labels too few": (lambda: loss.cross_entropy([[0, 0]] * 2, [0]), "2 samples need (2,)"),
    "labels one-hot": (lambda: loss.cross_entropy_backward([[0, 0]], [[1, 0]]), "the shape (1, 2)"),
    "labels not whole": (lambda: loss.cross_entropy([[0, 0]], [0.5]), "labels are float64"),
    "one row as a vector": (lambda: loss.softmax([0, 0]), "logits have the shape (2,)"),
    "no classes": (lambda: loss.softmax(np.zeros((2, 0))), "at least one class"),
}


@pytest.mark.parametrize("call, says", ERRORS.values(), ids=ERRORS.keys())
def test_what_cannot_be_is_refused(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()


def test_equals_torch():
    torch = pytest.importorskip("torch")
    z, labels = random_case(6, 10, 5.0)
    logits = torch.tensor(z, requires_grad=True)
    mean = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
    mean.backward()
    assert loss.mean_cross_entropy(z, labels) == pytest.approx(mean.item(), rel=1e-12)
    np.testing.assert_allclose(loss.cross_entropy_backward(z, labels), logits.grad.numpy(), atol=1e-14)
