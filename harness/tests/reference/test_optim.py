"""The oracle of SGD against loops, finite differences, PyTorch and numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import optim

# name: (learning rate, momentum, weight decay)
SETTINGS = {
    "plain": (0.1, 0.0, 0.0),
    "momentum": (0.05, 0.9, 0.0),
    "weight decay": (0.1, 0.0, 0.01),
    "both": (0.01, 0.9, 5e-4),
    "nothing happens": (0.0, 0.5, 0.1),
    "momentum beyond 1": (0.1, 1.5, 2.0),
}
each_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())


def drawn(shape=(4, 3)):
    return np.random.default_rng(0).normal(size=(3, *shape))


@each_setting
def test_equals_a_naive_loop(setting):
    rate, momentum, decay = setting
    weights, velocity, gradient = drawn()
    w, v = weights.copy(), velocity.copy()
    for i in np.ndindex(w.shape):
        v[i] = momentum * v[i] + gradient[i] + decay * w[i]
        w[i] = w[i] - rate * v[i]
    got = optim.sgd(weights, velocity, gradient, *setting)
    np.testing.assert_array_equal(got, (w, v))


def test_a_step_by_hand():
    # v = 0.5 * 4 + 1 + 0.25 * 2 = 3.5, w = 2 - 0.5 * 3.5
    assert optim.sgd([2], [4], [1], 0.5, 0.5, 0.25) == ([0.25], [3.5])


def test_three_steps_on_a_slope_gather_speed():
    w, v = [0.0], [0.0]
    seen = []
    for _ in range(3):
        w, v = optim.sgd(w, v, [1.0], 1.0, momentum=0.5)
        seen.append((w.item(), v.item()))
    assert seen == [(-1, 1), (-2.5, 1.5), (-4.25, 1.75)]


def test_the_first_step_follows_the_gradient_alone():
    weights, _, gradient = drawn()
    zero = np.zeros_like(weights)
    fast, v = optim.sgd(weights, zero, gradient, 0.1, momentum=0.9)
    np.testing.assert_array_equal(fast, optim.sgd(weights, zero, gradient, 0.1)[0])
    np.testing.assert_array_equal(v, gradient)


def test_weight_decay_is_the_gradient_of_half_the_sum_of_squares():
    """The step on L = sum (w - t)**4 equals, with decay, that on L + decay / 2 * sum w**2, measured."""
    weights, velocity, target = drawn()
    rate, momentum, decay, epsilon = 0.1, 0.9, 0.3, 1e-5

    def loss(w):
        return ((w - target) ** 4).sum() + decay / 2 * (w**2).sum()

    measured = np.empty_like(weights)
    for index in np.ndindex(weights.shape):
        above, below = weights.copy(), weights.copy()
        above[index] += epsilon
        below[index] -= epsilon
        measured[index] = (loss(above) - loss(below)) / (2 * epsilon)
    got = optim.sgd(weights, velocity, 4 * (weights - target) ** 3, rate, momentum, decay)
    np.testing.assert_allclose(got, optim.sgd(weights, velocity, measured, rate, momentum), rtol=1e-7)


def test_momentum_is_worth_a_larger_rate_on_a_steady_slope():
    """After many steps with the same gradient the velocity is gradient / (1 - momentum)."""
    w, v = np.zeros(1), np.zeros(1)
    for _ in range(300):
        w, v = optim.sgd(w, v, [2.0], 0.1, momentum=0.9)
    np.testing.assert_allclose(v, [20.0])


def test_the_arrays_passed_in_stay_as_they_are():
    arrays = drawn()
    kept = arrays.copy()
    new = optim.sgd(*arrays.astype(np.float32), 0.1, 0.9, 0.1)
    optim.sgd(*arrays, 0.1, 0.9, 0.1)
    np.testing.assert_array_equal(arrays, kept)
    assert all(a.dtype == np.float64 and a.shape == (4, 3) for a in new)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([1, 2], [0], [1, 2], 0.1), "velocity.shape"),
        (([1, 2], [0, 0], [[1, 2]], 0.1), r"gradient.shape is \(1, 2\)"),
        (([1], [0], [1], -0.1), "learning_rate is -0.1"),
        (([1], [0], [1], 0.1, -1), "momentum is -1"),
        (([1], [0], [1], 0.1, 0.9, -1e-4), "weight_decay"),
        (([1], [0], [1], float("nan")), "from 0 up"),
        (([1], [0], [1], float("inf")), "from 0 up"),
    ],
)
def test_what_cannot_be_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        optim.sgd(*arguments)


@each_setting
def test_equals_pytorch(setting):
    torch = pytest.importorskip("torch")
    rate, momentum, decay = setting
    weights, _, _ = drawn()
    gradients = np.random.default_rng(1).normal(size=(5, *weights.shape))
    parameter = torch.nn.Parameter(torch.tensor(weights))
    optimiser = torch.optim.SGD([parameter], lr=rate, momentum=momentum, weight_decay=decay)
    velocity = np.zeros_like(weights)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optimiser.step()
        weights, velocity = optim.sgd(weights, velocity, gradient, rate, momentum, decay)
        np.testing.assert_allclose(weights, parameter.detach().numpy(), rtol=1e-12)
