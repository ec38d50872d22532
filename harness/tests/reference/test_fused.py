"""The fused layer against its parts, and its gradient against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import conv, fused, pool

RNG = np.random.default_rng(41)
INPUT, WEIGHTS, BIAS = (RNG.normal(size=shape) for shape in ((2, 3, 10, 9), (4, 3, 3, 3), (4,)))


def unfused(weights):
    return pool.max_pool(np.maximum(conv.forward(INPUT, weights, BIAS), 0))[0]


def test_it_computes_what_its_parts_do_one_after_the_other():
    output, places = fused.forward(INPUT, WEIGHTS, BIAS)
    assert np.array_equal(output, unfused(WEIGHTS))
    assert 0 < np.count_nonzero(places < 0) < places.size
    assert np.array_equal(places < 0, output == 0)
    planes = conv.forward(INPUT, WEIGHTS, BIAS).reshape(2, 4, -1)
    found = np.take_along_axis(planes, np.maximum(places, 0).reshape(2, 4, -1), axis=2)
    assert np.array_equal(np.where(places < 0, 0, found.reshape(places.shape)), output)


def test_the_gradient_of_the_weights_is_that_of_finite_differences():
    output, places = fused.forward(INPUT, WEIGHTS, BIAS)
    grad_output, step = RNG.normal(size=output.shape), 1e-6
    grad = fused.backward_weights(grad_output, places, INPUT, 3)
    for at in [(0, 0, 0, 0), (1, 2, 1, 0), (3, 1, 2, 2)]:
        e = np.zeros(WEIGHTS.shape)
        e[at] = step
        slope = np.sum(grad_output * (unfused(WEIGHTS + e) - unfused(WEIGHTS - e))) / (2 * step)
        assert grad[at] == pytest.approx(slope, abs=1e-5)
