"""The oracle of max pooling against loops, finite differences, PyTorch and numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from reference import pool

INF, NAN = np.inf, np.nan

# name: (input shape, parameters, output shape). The output shapes are worked out by hand.
LAYERS = {
    "windows of 2": ((2, 3, 6, 4), {}, (2, 3, 3, 2)),
    "odd height": ((2, 3, 7, 4), {}, (2, 3, 3, 2)),
    "odd width": ((1, 2, 4, 5), {}, (1, 2, 2, 2)),
    "odd both": ((3, 1, 5, 9), {}, (3, 1, 2, 4)),
    "one window": ((2, 2, 2, 2), {}, (2, 2, 1, 1)),
    "window of 3 x 2": ((2, 2, 7, 7), dict(window=(3, 2)), (2, 2, 2, 3)),
    "windows overlap": ((2, 2, 7, 6), dict(window=3, stride=(2, 1)), (2, 2, 3, 4)),
    "gaps between windows": ((1, 2, 8, 9), dict(window=(1, 2), stride=(2, 4)), (1, 2, 4, 2)),
    "window of 1": ((1, 2, 3, 4), dict(window=1), (1, 2, 3, 4)),
    "window as large as the image": ((2, 3, 4, 5), dict(window=(4, 5)), (2, 3, 1, 1)),
}
each_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())


def drawn(layer):
    input_shape, parameters, output_shape = layer
    random = np.random.default_rng(0)
    return random.normal(size=input_shape), random.normal(size=output_shape), parameters


def window_of(layer) -> tuple[tuple[int, int], tuple[int, int]]:
    window = layer[1].get("window", 2)
    stride = layer[1].get("stride", window)
    return tuple((v, v) if isinstance(v, int) else v for v in (window, stride))


def naive(x, layer):
    """Every window by itself, with Python's own max: (output, argmax)."""
    (R, S), (down, right) = window_of(layer)
    output, argmax = np.empty(layer[2]), np.empty(layer[2], int)
    for n, c, p, q in np.ndindex(layer[2]):
        places = [(p * down + r, q * right + s) for r in range(R) for s in range(S)]
        h, w = max(places, key=lambda place: x[(n, c, *place)])  # the first of equal ones
        output[n, c, p, q], argmax[n, c, p, q] = x[n, c, h, w], h * x.shape[3] + w
    return output, argmax


def in_one_window(values):
    """(output, argmax) of one window of 2 x 2."""
    output, argmax = pool.max_pool(np.reshape(values, (1, 1, 2, 2)))
    return output.item(), argmax.item()


@each_layer
def test_equals_naive_loops(layer):
    x, _, parameters = drawn(layer)
    output, argmax = pool.max_pool(x, **parameters)
    assert output.shape == argmax.shape == layer[2]
    expected = naive(x, layer)
    np.testing.assert_array_equal(output, expected[0])
    np.testing.assert_array_equal(argmax, expected[1])
    np.testing.assert_array_equal(pool.max_pool(np.round(x), **parameters)[1], naive(np.round(x), layer)[1])


@each_layer
def test_the_places_are_those_of_the_maxima(layer):
    x, _, parameters = drawn(layer)
    output, argmax = pool.max_pool(x, **parameters)
    planes = x.reshape(*x.shape[:2], -1)
    found = np.take_along_axis(planes, argmax.reshape(*planes.shape[:2], -1), axis=2)
    np.testing.assert_array_equal(found.reshape(output.shape), output)


@each_layer
def test_the_gradient_equals_central_differences(layer):
    x, g, parameters = drawn(layer)
    gradient = pool.max_pool_backward(g, pool.max_pool(x, **parameters)[1], x.shape)
    epsilon = 1e-6
    for index in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[index] += epsilon
        below[index] -= epsilon
        change = pool.max_pool(above, **parameters)[0] - pool.max_pool(below, **parameters)[0]
        assert gradient[index] == pytest.approx((g * change).sum() / (2 * epsilon), abs=1e-6)


def test_forward_and_backward_by_hand():
    x = [[[[1, 3, 2, 0], [4, 2, 5, 5], [-1, -2, 6, 1], [-3, -4, 0, 7], [9, 9, 9, 9]]]]
    output, argmax = pool.max_pool(x)
    assert output.tolist() == [[[[4, 5], [-1, 7]]]]
    assert argmax.tolist() == [[[[4, 6], [8, 15]]]]
    gradient = pool.max_pool_backward([[[[10, 20], [30, 40]]]], argmax, (1, 1, 5, 4))
    assert gradient.tolist() == [[[[0, 0, 0, 0], [10, 0, 20, 0], [30, 0, 0, 0], [0, 0, 0, 40], [0, 0, 0, 0]]]]


@pytest.mark.parametrize(
    ("values", "output", "place"),
    [
        ([1, 5, 5, 2], 5, 1),
        ([5, 5, 5, 5], 5, 0),
        ([-INF, -INF, -INF, -INF], -INF, 0),
        ([-INF, -INF, -INF, -5], -5, 3),
        ([1, INF, 2, INF], INF, 1),
        ([3, NAN, 5, 7], NAN, 1),
        ([NAN, 1, 2, 3], NAN, 0),
        ([3, NAN, INF, NAN], NAN, 3),
        ([-0.0, 0.0, 0.0, 0.0], -0.0, 0),
    ],
)
def test_ties_infinities_and_nan(values, output, place):
    np.testing.assert_equal(in_one_window(values), (output, place))


def test_overlapping_windows_add_their_gradients():
    x = [[[[0, 0, 0], [0, 9, 0], [0, 0, 1]]]]
    _, argmax = pool.max_pool(x, window=2, stride=1)
    assert argmax.tolist() == [[[[4, 4], [4, 4]]]]
    assert pool.max_pool_backward([[[[1, 2], [3, 4]]]], argmax, (1, 1, 3, 3))[0, 0, 1, 1] == 10


def test_lenet_shapes_with_default_arguments():
    for shape, half in (((2, 6, 24, 24), (2, 6, 12, 12)), ((2, 16, 8, 8), (2, 16, 4, 4))):
        output, argmax = pool.max_pool(np.zeros(shape))
        assert output.shape == half
        assert pool.max_pool_backward(output, argmax, shape).shape == shape


def test_an_empty_batch():
    output, argmax = pool.max_pool(np.zeros((0, 2, 4, 5)))
    assert output.shape == argmax.shape == (0, 2, 2, 2)
    assert pool.max_pool_backward(output, argmax, (0, 2, 4, 5)).shape == (0, 2, 4, 5)


def test_the_input_stays_as_it_is_and_results_are_float64():
    x = np.ones((1, 1, 2, 2), np.float32)
    output, argmax = pool.max_pool(x)
    output[:] = 7
    assert (x == 1).all() and output.dtype == np.float64 and argmax.dtype == np.int64


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pool.max_pool(np.ones((2, 4, 4))), r"\(N, C, H, W\)"),
        (lambda: pool.max_pool(np.ones((1, 1, 1, 4))), "does not fit: along h"),
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), window=(2, 5)), "along w it has 5"),
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), window=0), "at least 1"),
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), stride=0), "stride is 0"),
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), window=(1, 2, 3)), "3 entries"),
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), window=1.5), "whole numbers"),
        (lambda: backward(np.ones((1, 1, 2, 3))), r"argmax \(1, 1, 2, 2\)"),
        (lambda: backward(shape=(2, 1, 4, 4)), "same N and C"),
        (lambda: backward(shape=(1, 4, 4)), r"\(N, C, H, W\)"),
        (lambda: backward(argmax=np.zeros((1, 1, 2, 2))), "integers"),
        (lambda: backward(argmax=np.full((1, 1, 2, 2), 16)), "from 16 to 16"),
        (lambda: backward(argmax=np.full((1, 1, 2, 2), -1)), "0 to 15"),
    ],
)
def test_what_cannot_be_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def backward(grad_output=np.ones((1, 1, 2, 2)), argmax=np.zeros((1, 1, 2, 2), int), shape=(1, 1, 4, 4)):
    return pool.max_pool_backward(grad_output, argmax, shape)


@each_layer
def test_equals_pytorch(layer):
    torch = pytest.importorskip("torch")
    x, g, parameters = drawn(layer)
    x = np.round(2 * x)  # ties
    x.flat[:: x.size // 5] = (NAN, INF, -INF, NAN, -INF, NAN)[: len(x.flat[:: x.size // 5])]
    window, stride = window_of(layer)
    t = torch.tensor(x, requires_grad=True)
    expected, places = torch.nn.functional.max_pool2d(t, window, stride, return_indices=True)
    expected.backward(torch.tensor(g))
    output, argmax = pool.max_pool(x, **parameters)
    np.testing.assert_array_equal(output, expected.detach().numpy())
    np.testing.assert_array_equal(argmax, places.numpy())
    np.testing.assert_allclose(pool.max_pool_backward(g, argmax, x.shape), t.grad.numpy(), rtol=1e-12)
