"""Halves and their sums against exact values, and the gradient behind a scale against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import conv, half

RNG = np.random.default_rng(42)


def test_sums_in_half_stop_growing_and_short_runs_do_not():
    ones = np.ones(5000)
    assert half.summed(ones, 5000) == 2048
    assert half.summed(ones, 64) == 5000
    assert half.summed(2.0**-12 + np.zeros(3), 3) == 3 * 2.0**-12


def test_a_scale_keeps_small_gradients_and_loses_large_ones():
    grad = [2.0**-26, -(2.0**-25), 3 * 2.0**-26, 1.0, 0.0]
    assert half.lost(grad) == pytest.approx(2 / 4)  # 2**-25 lies between 0 and 2**-24, and rounds to even
    assert half.lost(grad, 1024) == 0
    halves, overflow = half.scaled(grad, 65_504)
    assert np.isfinite(halves).all() and overflow == 0
    assert half.scaled(grad, 65_519)[1] == 0 and half.scaled(grad, 65_520)[1] == 1
    assert half.scaled([np.nan], 1)[1] == 1


def test_the_gradient_of_the_weights_is_that_of_finite_differences():
    input, weights = RNG.normal(size=(2, 3, 9, 8)), RNG.normal(size=(4, 3, 5, 5))
    grad_output, step = RNG.normal(size=(2, 4, 5, 4)), 1e-6
    grad = half.backward_weights(512 * grad_output, input, 512, 5)
    for at in [(0, 0, 0, 0), (1, 2, 4, 0), (3, 1, 2, 3)]:
        e = np.zeros(weights.shape)
        e[at] = step
        moved = conv.forward(input, weights + e) - conv.forward(input, weights - e)
        assert grad[at] == pytest.approx(np.sum(grad_output * moved) / (2 * step), rel=1e-6)
