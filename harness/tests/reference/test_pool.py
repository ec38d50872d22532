"""The oracles of max and average pooling against loops, finite differences, PyTorch and numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import pool

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
    "padding": ((2, 2, 5, 4), dict(window=(3, 2), stride=2, padding=1), (2, 2, 3, 3)),
    "padding of rows only": ((1, 2, 4, 6), dict(window=(2, 3), stride=(1, 2), padding=(1, 0)), (1, 2, 5, 2)),
    "rounded up": ((1, 2, 6, 5), dict(window=3, stride=2, ceil_mode=True), (1, 2, 3, 2)),
    "rounded up, with padding": (
        (1, 2, 6, 5),
        dict(window=3, stride=(3, 2), padding=(0, 1), ceil_mode=True),
        (1, 2, 2, 3),
    ),
    "a last window that would start in the padding": (
        (1, 2, 4, 7),
        dict(window=2, stride=(3, 4), padding=1, ceil_mode=True),
        (1, 2, 2, 2),
    ),
    "windows that hang over all but one row": (
        (1, 1, 5, 4),
        dict(window=(4, 3), stride=4, ceil_mode=True),
        (1, 1, 2, 1),
    ),
    "a window larger than the image": ((1, 2, 2, 3), dict(window=(3, 4), ceil_mode=True), (1, 2, 1, 1)),
}
DILATED = {
    "dilation": ((2, 2, 7, 6), dict(window=(3, 2), stride=2, dilation=(2, 3)), (2, 2, 2, 2)),
    "dilation and padding": (
        (1, 2, 7, 6),
        dict(window=3, stride=(2, 1), padding=1, dilation=(1, 2)),
        (1, 2, 4, 4),
    ),
    "dilation, rounded up": (
        (1, 2, 8, 6),
        dict(window=(3, 2), stride=3, padding=(1, 0), dilation=(2, 3), ceil_mode=True),
        (1, 2, 3, 2),
    ),
}
MEANS = {
    "as it is": {},
    "without the padding": dict(count_include_pad=False),
    "divided by 5": dict(divisor_override=5),
}
every_layer = pytest.mark.parametrize("layer", [*LAYERS.values(), *DILATED.values()], ids=[*LAYERS, *DILATED])
each_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())
each_mean = pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS.keys())


def drawn(layer):
    input_shape, parameters, output_shape = layer
    random = np.random.default_rng(0)
    return random.normal(size=input_shape), random.normal(size=output_shape), parameters


def window_of(layer) -> list[tuple[int, int]]:
    """Window, stride, padding and dilation, for rows and columns."""
    window = layer[1].get("window", 2)
    values = window, layer[1].get("stride", window), layer[1].get("padding", 0), layer[1].get("dilation", 1)
    return [(v, v) if isinstance(v, int) else v for v in values]


def standing(layer, p, q):
    """Every place (h, w) of window (p, q), also outside of the input, row by row."""
    (R, S), (down, right), (above, left), (dh, dw) = window_of(layer)
    return [(p * down + r * dh - above, q * right + s * dw - left) for r in range(R) for s in range(S)]


def inside(layer, places):
    H, W = layer[0][2:]
    return [(h, w) for h, w in places if 0 <= h < H and 0 <= w < W]


def naive(x, layer):
    """Every window by itself, with Python's own max: (output, argmax)."""
    output, argmax = np.empty(layer[2]), np.empty(layer[2], int)
    for n, c, p, q in np.ndindex(layer[2]):
        places = inside(layer, standing(layer, p, q))
        h, w = max(places, key=lambda place: x[(n, c, *place)])  # the first of equal ones
        output[n, c, p, q], argmax[n, c, p, q] = x[n, c, h, w], h * x.shape[3] + w
    return output, argmax


def naive_mean(x, layer, count_include_pad=True, divisor_override=None):
    """Every window by itself: the sum of its elements in the input, divided by the number that count."""
    (H, W), (above, left) = layer[0][2:], window_of(layer)[2]
    output = np.empty(layer[2])
    for n, c, p, q in np.ndindex(layer[2]):
        places = standing(layer, p, q)
        padded = [(h, w) for h, w in places if h < H + above and w < W + left]
        count = len(padded if count_include_pad else inside(layer, places))
        total = sum(x[(n, c, *place)] for place in inside(layer, places))
        output[n, c, p, q] = total / (divisor_override or count)
    return output


def in_one_window(values):
    """(output, argmax) of one window of 2 x 2."""
    output, argmax = pool.max_pool(np.reshape(values, (1, 1, 2, 2)))
    return output.item(), argmax.item()


@every_layer
def test_equals_naive_loops(layer):
    x, _, parameters = drawn(layer)
    output, argmax = pool.max_pool(x, **parameters)
    assert output.shape == argmax.shape == layer[2]
    expected = naive(x, layer)
    np.testing.assert_array_equal(output, expected[0])
    np.testing.assert_array_equal(argmax, expected[1])
    np.testing.assert_array_equal(pool.max_pool(np.round(x), **parameters)[1], naive(np.round(x), layer)[1])


@every_layer
def test_the_places_are_those_of_the_maxima(layer):
    x, _, parameters = drawn(layer)
    output, argmax = pool.max_pool(x, **parameters)
    planes = x.reshape(*x.shape[:2], -1)
    found = np.take_along_axis(planes, argmax.reshape(*planes.shape[:2], -1), axis=2)
    np.testing.assert_array_equal(found.reshape(output.shape), output)


@pytest.mark.sampled
@every_layer
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


@each_layer
@each_mean
def test_means_equal_naive_loops(layer, mean):
    x, _, parameters = drawn(layer)
    output = pool.avg_pool(x, **parameters, **mean)
    assert output.shape == layer[2]
    np.testing.assert_allclose(output, naive_mean(x, layer, **mean), rtol=1e-12, atol=1e-15)


@each_layer
@each_mean
def test_the_gradient_of_a_mean_is_its_adjoint(layer, mean):
    """A mean is linear, so <g, mean(x)> = <gradient(g), x> for all g and x."""
    x, g, parameters = drawn(layer)
    gradient = pool.avg_pool_backward(g, x.shape, **parameters, **mean)
    assert gradient.shape == x.shape
    assert (gradient * x).sum() == pytest.approx((g * pool.avg_pool(x, **parameters, **mean)).sum())


@pytest.mark.sampled
@each_layer
def test_the_gradient_of_a_mean_equals_central_differences(layer):
    x, g, parameters = drawn(layer)
    gradient = pool.avg_pool_backward(g, x.shape, **parameters, count_include_pad=False)
    for index in [*np.ndindex(x.shape)][:: 1 + x.size // 40]:
        above, below = x.copy(), x.copy()
        above[index] += 0.5  # any step will do: a mean is linear
        below[index] -= 0.5
        change = [pool.avg_pool(v, **parameters, count_include_pad=False) for v in (above, below)]
        assert gradient[index] == pytest.approx((g * (change[0] - change[1])).sum(), abs=1e-12)


def test_means_by_hand():
    """A plane of 3 x 3, windows of 2 with padding 1, stride 2, rounded up: what is a corner divided by?"""
    x = [[[[4, 8, 12], [16, 20, 24], [28, 32, 36]]]]
    kept = dict(window=2, stride=2, padding=1, ceil_mode=True)
    assert pool.avg_pool(x, **kept).tolist() == [[[[1, 5], [11, 28]]]]
    assert pool.avg_pool(x, **kept, count_include_pad=False).tolist() == [[[[4, 10], [22, 28]]]]
    assert pool.avg_pool(x, **kept, divisor_override=8).tolist() == [[[[0.5, 2.5], [5.5, 14]]]]
    hanging = dict(window=2, stride=2, ceil_mode=True)  # what hangs over never counts
    assert pool.avg_pool(x, **hanging).tolist() == [[[[12, 18], [30, 36]]]]
    gradient = pool.avg_pool_backward([[[[4, 2], [2, 1]]]], (1, 1, 3, 3), **hanging)
    assert gradient.tolist() == [[[[1, 1, 1], [1, 1, 1], [1, 1, 1]]]]


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
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), padding=2), "more than half of the window"),
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), padding=-1), "padding is -1"),
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), dilation=4), "reaches over 5"),
        (lambda: pool.max_pool(np.ones((1, 1, 4, 4)), dilation=0), "dilation is 0"),
        (lambda: pool.max_pool(np.ones((1, 1, 3, 9)), padding=1, dilation=4), "window 0 along h holds no"),
        (lambda: pool.avg_pool(np.ones((1, 1, 3, 3)), 8, 5, ceil_mode=True), "does not fit: along h"),
        (lambda: pool.avg_pool(np.ones((1, 1, 0, 3)), (1, 2), padding=(0, 1)), "along h"),
        (lambda: pool.avg_pool(np.ones((1, 1, 4, 4)), divisor_override=0), "other than 0"),
        (lambda: pool.avg_pool(np.ones((1, 1, 4, 4)), divisor_override=1.5), "whole number"),
        (lambda: pool.avg_pool_backward(np.ones((1, 1, 2, 3)), (1, 1, 4, 4)), r"make it \(1, 1, 2, 2\)"),
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


@every_layer
def test_equals_pytorch(layer):
    torch = pytest.importorskip("torch")
    x, g, parameters = drawn(layer)
    x = np.round(2 * x)  # ties
    x.flat[:: x.size // 5] = (NAN, INF, -INF, NAN, -INF, NAN)[: len(x.flat[:: x.size // 5])]
    t = torch.tensor(x, requires_grad=True)
    expected, places = torch.nn.functional.max_pool2d(
        t, *window_of(layer), ceil_mode=parameters.get("ceil_mode", False), return_indices=True
    )
    expected.backward(torch.tensor(g))
    output, argmax = pool.max_pool(x, **parameters)
    np.testing.assert_array_equal(output, expected.detach().numpy())
    np.testing.assert_array_equal(argmax, places.numpy())
    np.testing.assert_allclose(pool.max_pool_backward(g, argmax, x.shape), t.grad.numpy(), rtol=1e-12)


def test_sizes_drawn_at_random_equal_pytorch():
    """Sizes, refusals, maxima, means and gradients, of 600 layers of 1 x 1 x H x W."""
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    random, compared = np.random.default_rng(5), 0
    for _ in range(600):
        draw = {
            name: tuple(map(int, random.integers(low, high, 2)))
            for name, low, high in (
                ("size", 1, 9),
                ("window", 1, 5),
                ("stride", 1, 6),
                ("padding", 0, 3),
                ("dilation", 1, 4),
            )
        }
        size, window, stride, padding, dilation = draw.values()
        ceil_mode, include = bool(random.integers(2)), bool(random.integers(2))
        override = int(random.integers(-2, 8)) or None
        x = random.normal(size=(1, 1, *size))
        t = torch.tensor(x, requires_grad=True)
        try:
            output, argmax = pool.max_pool(x, window, stride, padding, dilation, ceil_mode)
        except ValueError as e:
            if "holds no element" not in str(e):  # PyTorch computes -inf at a place that does not exist
                with pytest.raises(RuntimeError):
                    F.max_pool2d(t, window, stride, padding, dilation, ceil_mode)
            continue
        expected, places = F.max_pool2d(t, window, stride, padding, dilation, ceil_mode, return_indices=True)
        np.testing.assert_array_equal(output, expected.detach().numpy())
        np.testing.assert_array_equal(argmax, places.numpy())
        try:
            output = pool.avg_pool(x, window, stride, padding, ceil_mode, include, override)
        except ValueError:
            with pytest.raises(RuntimeError):
                F.avg_pool2d(t, window, stride, padding, ceil_mode, include, override)
            continue
        expected = F.avg_pool2d(t, window, stride, padding, ceil_mode, include, override)
        np.testing.assert_allclose(output, expected.detach().numpy(), rtol=1e-12, atol=1e-14)
        g = random.normal(size=output.shape)
        expected.backward(torch.tensor(g))
        gradient = pool.avg_pool_backward(g, x.shape, window, stride, padding, ceil_mode, include, override)
        np.testing.assert_allclose(gradient, t.grad.numpy(), rtol=1e-12, atol=1e-14)
        compared += 1
    assert compared > 100
