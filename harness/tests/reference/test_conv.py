"""The oracle of the convolution lessons against loops, finite differences and numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import conv

# name: (input shape, weight shape, parameters, output shape). The output shapes are worked out by hand.
CONVOLUTIONS = {
    "2-D": ((2, 3, 7, 5), (4, 3, 3, 2), {}, (2, 4, 5, 4)),
    "filter of one row": ((3, 2, 6, 9), (5, 2, 1, 3), {}, (3, 5, 6, 7)),
    "filter as large as the image": ((1, 1, 5, 5), (1, 1, 5, 5), {}, (1, 1, 1, 1)),
    "padding": ((2, 1, 4, 3), (2, 1, 3, 2), dict(padding=(2, 1)), (2, 2, 6, 4)),
    "padding beyond the filter": ((1, 2, 3, 4), (2, 2, 2, 2), dict(padding=3), (1, 2, 8, 9)),
    "image smaller than the filter": ((2, 2, 2, 1), (3, 2, 3, 3), dict(padding=1), (2, 3, 2, 1)),
    "asymmetric padding": ((2, 2, 4, 5), (3, 2, 3, 2), dict(padding=((2, 0), (0, 1))), (2, 3, 4, 5)),
    "stride and padding": ((2, 3, 9, 7), (4, 3, 3, 2), dict(stride=(2, 1), padding=(1, 0)), (2, 4, 5, 6)),
    "uneven stride": ((2, 2, 8, 6), (3, 2, 3, 3), dict(stride=(3, 2), padding=1), (2, 3, 3, 3)),
    "remainder": ((2, 3, 10, 8), (4, 3, 3, 3), dict(stride=2), (2, 4, 4, 3)),
    "stride beyond the filter": ((2, 3, 6, 5), (4, 3, 1, 1), dict(stride=2), (2, 4, 3, 3)),
    "dilation": ((2, 2, 7, 6), (3, 2, 3, 2), dict(dilation=(2, 3)), (2, 3, 3, 3)),
    "dilation and stride": ((1, 2, 9, 8), (2, 2, 2, 3), dict(stride=(3, 2), dilation=(4, 2)), (1, 2, 2, 2)),
    "groups": ((2, 4, 5, 4), (6, 2, 3, 2), dict(groups=2), (2, 6, 3, 3)),
    "depthwise": ((2, 3, 5, 4), (3, 1, 3, 2), dict(groups=3), (2, 3, 3, 3)),
    "depthwise, multiplier 2": ((2, 3, 5, 4), (6, 1, 2, 3), dict(groups=3, stride=(2, 1)), (2, 6, 2, 2)),
    "everything": (
        (2, 4, 8, 7),
        (6, 2, 3, 2),
        dict(stride=(2, 3), padding=((1, 2), (0, 1)), dilation=(2, 1), groups=2),
        (2, 6, 4, 3),
    ),
    "everything but asymmetry": (
        (2, 4, 8, 7),
        (6, 2, 2, 3),
        dict(stride=(2, 3), padding=(1, 2), dilation=(3, 2), groups=2),
        (2, 6, 4, 3),
    ),
    "1-D": ((2, 3, 9), (4, 3, 3), {}, (2, 4, 7)),
    "1-D, everything": (
        (2, 4, 11),
        (4, 2, 3),
        dict(stride=3, padding=((0, 2),), dilation=2, groups=2),
        (2, 4, 3),
    ),
    "3-D": ((1, 2, 3, 4, 5), (2, 2, 2, 1, 3), {}, (1, 2, 2, 4, 3)),
    "3-D, everything": (
        (2, 4, 4, 5, 6),
        (2, 2, 1, 2, 3),
        dict(stride=(3, 2, 1), padding=((0, 1), 1, (2, 0)), dilation=(1, 3, 2), groups=2),
        (2, 2, 2, 2, 4),
    ),
}

TRANSPOSED = {
    "2-D": ((2, 3, 3, 4), (3, 2, 2, 3), {}, (2, 2, 4, 6)),
    "stride": ((2, 2, 3, 2), (2, 3, 3, 2), dict(stride=(2, 3)), (2, 3, 7, 5)),
    "stride beyond the filter": ((1, 2, 3, 2), (2, 2, 1, 1), dict(stride=(2, 3)), (1, 2, 5, 4)),
    "output padding": (
        (2, 2, 3, 2),
        (2, 3, 3, 2),
        dict(stride=(2, 3), padding=1, output_padding=(1, 2)),
        (2, 3, 6, 5),
    ),
    "output padding below the dilation": (
        (1, 2, 3, 2),
        (2, 2, 2, 2),
        dict(dilation=(2, 3), output_padding=(1, 2)),
        (1, 2, 6, 7),
    ),
    "asymmetric padding": (
        (2, 2, 4, 3),
        (2, 2, 3, 2),
        dict(stride=(1, 2), padding=((2, 0), (0, 1))),
        (2, 2, 4, 5),
    ),
    "groups": ((2, 4, 3, 2), (4, 3, 2, 2), dict(groups=2, stride=2), (2, 6, 6, 4)),
    "depthwise, multiplier 2": ((2, 3, 2, 3), (3, 2, 3, 2), dict(groups=3), (2, 6, 4, 4)),
    "everything": (
        (2, 4, 3, 4),
        (4, 2, 3, 2),
        dict(stride=(2, 3), padding=((1, 2), (0, 1)), output_padding=(1, 2), groups=2, dilation=(2, 1)),
        (2, 4, 7, 12),
    ),
    "everything but asymmetry": (
        (2, 4, 3, 2),
        (4, 3, 2, 3),
        dict(stride=(2, 3), padding=(1, 2), output_padding=(2, 1), groups=2, dilation=(3, 2)),
        (2, 6, 8, 5),
    ),
    "1-D, everything": (
        (2, 4, 4),
        (4, 3, 3),
        dict(stride=3, padding=((0, 2),), output_padding=2, groups=2, dilation=2),
        (2, 6, 14),
    ),
    "3-D, everything": (
        (1, 2, 2, 3, 2),
        (2, 2, 1, 2, 3),
        dict(
            stride=(3, 2, 1), padding=(0, 1, (2, 0)), output_padding=(2, 1, 0), groups=2, dilation=(1, 3, 2)
        ),
        (1, 4, 6, 7, 4),
    ),
}

# name: (kind, *case)
LAYERS = {name: ("convolution", *case) for name, case in CONVOLUTIONS.items()} | {
    f"transposed {name}": ("transposed", *case) for name, case in TRANSPOSED.items()
}

each_layer = pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS.keys())


class Layer:
    """One case with its arrays, and the functions under test for its kind of convolution."""

    def __init__(self, case):
        kind, self.x_shape, self.w_shape, self.parameters, self.y_shape = case
        self.transposed = kind == "transposed"
        random = np.random.default_rng(0)
        self.x, self.w, self.g = (random.normal(size=s) for s in (self.x_shape, self.w_shape, self.y_shape))
        self.bias = random.normal(size=self.y_shape[1])

    def forward(self, x, w, bias=None):
        return (conv.transposed if self.transposed else conv.forward)(x, w, bias, **self.parameters)

    def grad_input(self):
        function = conv.transposed_backward_input if self.transposed else conv.backward_input
        return function(self.g, self.w, self.x_shape, **self.parameters)

    def grad_weight(self):
        function = conv.transposed_backward_weights if self.transposed else conv.backward_weights
        return function(self.g, self.x, self.w_shape, **self.parameters)


def products(layer: Layer):
    """Every product x[i] * w[j] of the layer and the y[k] it is part of, as (i, j, k): nothing but loops."""
    dims = len(layer.x_shape) - 2

    def each(name, default):
        value = layer.parameters.get(name, default)
        return [value] * dims if isinstance(value, int) else list(value)

    stride, dilation = each("stride", 1), each("dilation", 1)
    before = [entry if isinstance(entry, int) else entry[0] for entry in each("padding", 0)]
    groups = layer.parameters.get("groups", 1)
    x_channels, y_channels = layer.x_shape[1] // groups, layer.y_shape[1] // groups

    start, reached = (layer.x_shape, layer.y_shape) if layer.transposed else (layer.y_shape, layer.x_shape)
    for n, group, c, k in np.ndindex(layer.x_shape[0], groups, x_channels, y_channels):
        x_channel, y_channel = group * x_channels + c, group * y_channels + k
        for position in np.ndindex(*start[2:]):
            for tap in np.ndindex(*layer.w_shape[2:]):
                meets = tuple(
                    p * s + t * d - b for p, s, t, d, b in zip(position, stride, tap, dilation, before)
                )
                if any(not 0 <= at < size for at, size in zip(meets, reached[2:])):
                    continue
                if layer.transposed:
                    yield (n, x_channel, *position), (x_channel, k, *tap), (n, y_channel, *meets)
                else:
                    yield (n, x_channel, *meets), (y_channel, c, *tap), (n, y_channel, *position)


# ---- every layer -----------------------------------------------------------------------------------


@each_layer
def test_equals_naive_loops(case):
    layer = Layer(case)
    y, grad_x, grad_w = np.zeros(layer.y_shape), np.zeros(layer.x_shape), np.zeros(layer.w_shape)
    for i, j, k in products(layer):
        y[k] += layer.x[i] * layer.w[j]
        grad_x[i] += layer.g[k] * layer.w[j]
        grad_w[j] += layer.g[k] * layer.x[i]
    got = layer.forward(layer.x, layer.w)
    assert got.shape == layer.y_shape
    np.testing.assert_allclose(got, y, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.grad_input(), grad_x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.grad_weight(), grad_w, rtol=0, atol=1e-12)


@pytest.mark.sampled
@each_layer
def test_gradients_equal_central_differences(case):
    layer = Layer(case)

    def loss(x, w, bias):
        return np.sum(layer.forward(x, w, bias) * layer.g)

    def differences(*arrays, of, epsilon=1e-3):
        gradient = np.zeros(arrays[of].shape)
        for index in np.ndindex(*gradient.shape):
            sides = []
            for sign in (+1, -1):
                moved = [array.copy() for array in arrays]
                moved[of][index] += sign * epsilon
                sides.append(loss(*moved))
            gradient[index] = (sides[0] - sides[1]) / (2 * epsilon)
        return gradient

    arrays = (layer.x, layer.w, layer.bias)
    np.testing.assert_allclose(layer.grad_input(), differences(*arrays, of=0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(layer.grad_weight(), differences(*arrays, of=1), rtol=0, atol=1e-9)
    np.testing.assert_allclose(conv.backward_bias(layer.g), differences(*arrays, of=2), rtol=0, atol=1e-9)


@each_layer
def test_adjoint_identity(case):
    """The layer is linear in x and in w, so <layer(x, w), g> = <x, grad_input> = <w, grad_weight>."""
    layer = Layer(case)
    expected = np.sum(layer.forward(layer.x, layer.w) * layer.g)
    assert np.sum(layer.x * layer.grad_input()) == pytest.approx(expected, rel=1e-10)
    assert np.sum(layer.w * layer.grad_weight()) == pytest.approx(expected, rel=1e-10)


@each_layer
def test_bias_is_added_once_per_channel(case):
    layer = Layer(case)
    added = layer.forward(layer.x, layer.w, layer.bias) - layer.forward(layer.x, layer.w)
    expected = np.empty(layer.y_shape)
    for n, k in np.ndindex(*layer.y_shape[:2]):
        expected[n, k] = layer.bias[k]
    np.testing.assert_allclose(added, expected, rtol=0, atol=1e-12)


def has_pairs(padding) -> bool:
    return isinstance(padding, tuple) and any(isinstance(entry, tuple) for entry in padding)


# ATen's padding is the same on both sides, so the layers with pairs of it are not for convolution_backward
SYMMETRIC = {name: case for name, case in LAYERS.items() if not has_pairs(case[3].get("padding", 0))}


@pytest.mark.parametrize("case", SYMMETRIC.values(), ids=SYMMETRIC.keys())
def test_convolution_backward_is_the_three_gradients(case):
    layer = Layer(case)
    expected = layer.grad_input(), layer.grad_weight(), conv.backward_bias(layer.g)
    for mask in np.ndindex(2, 2, 2):
        got = aten_backward(layer, [bool(wanted) for wanted in mask])
        assert len(got) == 3
        for gradient, wanted, one in zip(got, mask, expected):
            if wanted:
                np.testing.assert_array_equal(gradient, one)
            else:
                assert gradient is None


def aten_backward(layer: Layer, mask):
    get = layer.parameters.get
    stride, padding, dilation = get("stride", 1), get("padding", 0), get("dilation", 1)
    rest = layer.transposed, get("output_padding", 0), get("groups", 1), mask
    bias_sizes = [layer.y_shape[1]]
    return conv.convolution_backward(layer.g, layer.x, layer.w, bias_sizes, stride, padding, dilation, *rest)


@each_layer
def test_empty_batch(case):
    layer = Layer(case)
    layer.x, layer.g = layer.x[:0], layer.g[:0]
    layer.x_shape = layer.x.shape
    assert layer.forward(layer.x, layer.w, layer.bias).shape == (0, *layer.y_shape[1:])
    assert layer.grad_input().shape == layer.x.shape
    np.testing.assert_array_equal(layer.grad_weight(), np.zeros(layer.w_shape))
    np.testing.assert_array_equal(conv.backward_bias(layer.g), np.zeros(layer.y_shape[1]))


# ---- by hand ---------------------------------------------------------------------------------------

IMAGE = [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]]
FILTER = [[[[1, 2], [3, 4]]]]


def test_forward_by_hand():
    # top left: 1*1 + 2*2 + 4*3 + 5*4 = 37; the filter is not flipped
    assert conv.forward(IMAGE, FILTER).tolist() == [[[[37, 47], [67, 77]]]]


def test_forward_bias_by_hand():
    assert conv.forward(IMAGE, FILTER, [100]).tolist() == [[[[137, 147], [167, 177]]]]


def test_backward_weights_by_hand():
    # d/dweight[0,0] = 1*1 + 2*10 + 4*100 + 5*1000
    grad_output = [[[[1, 10], [100, 1000]]]]
    expected = [[[[5421, 6532], [8754, 9865]]]]
    assert conv.backward_weights(grad_output, IMAGE, (1, 1, 2, 2)).tolist() == expected


def test_backward_input_by_hand():
    # the middle pixel meets all four positions: 1*4 + 10*3 + 100*2 + 1000*1
    grad_output = [[[[1, 10], [100, 1000]]]]
    expected = [[[[1, 12, 20], [103, 1234, 2040], [300, 3400, 4000]]]]
    assert conv.backward_input(grad_output, FILTER, (1, 1, 3, 3)).tolist() == expected


def test_backward_bias_by_hand():
    grad_output = [[[[1, 2]], [[10, 20]]], [[[3, 4]], [[30, 40]]]]  # N=2, K=2, P=1, Q=2
    assert conv.backward_bias(grad_output).tolist() == [10, 100]


def test_stride_dilation_and_asymmetric_padding_by_hand():
    # padded: 0 0 1 2 3 4 5; taps 0 and 2 apart: positions 0, 3 -> (0, 1) and (2, 4)
    got = conv.forward([[[1, 2, 3, 4, 5]]], [[[1, 10]]], stride=3, padding=((2, 0),), dilation=2)
    assert got.tolist() == [[[10, 42]]]
    # padded: 1 2 3 4 5 0 0: positions 0, 3 -> (1, 3) and (4, 0)
    got = conv.forward([[[1, 2, 3, 4, 5]]], [[[1, 10]]], stride=3, padding=((0, 2),), dilation=2)
    assert got.tolist() == [[[31, 4]]]


def test_groups_by_hand():
    # channels 1, 2 | 3, 4 and filters for the first group, then for the second
    x, w = [[[1], [2], [3], [4]]], [[[1], [10]], [[5], [0]], [[1], [10]], [[0], [1]]]
    assert conv.forward(x, w, groups=2).tolist() == [[[21], [5], [43], [4]]]


def test_depthwise_multiplier_keeps_the_outputs_of_a_channel_together():
    x, w = [[[1], [100]]], [[[1]], [[2]], [[3]], [[4]]]
    assert conv.forward(x, w, groups=2).tolist() == [[[1], [2], [300], [400]]]


def test_transposed_by_hand():
    x, w = [[[1, 2]]], [[[1, 10, 100]]]
    assert conv.transposed(x, w).tolist() == [[[1, 12, 120, 200]]]
    assert conv.transposed(x, w, stride=2).tolist() == [[[1, 10, 102, 20, 200]]]
    assert conv.transposed(x, w, stride=2, output_padding=1).tolist() == [[[1, 10, 102, 20, 200, 0]]]
    assert conv.transposed(x, w, [7], stride=2, padding=((0, 1),)).tolist() == [[[8, 17, 109, 27]]]
    assert conv.transposed(x, w, stride=2, padding=1, output_padding=1).tolist() == [[[10, 102, 20, 200]]]
    assert conv.transposed(x, w, dilation=2).tolist() == [[[1, 2, 10, 20, 100, 200]]]


def test_transposed_is_backward_data():
    random = np.random.default_rng(1)
    g, w = random.normal(size=(2, 4, 3, 3)), random.normal(size=(4, 3, 3, 2))
    parameters = dict(stride=(2, 3), padding=(1, 0))
    np.testing.assert_array_equal(
        conv.transposed(g, w, output_padding=(1, 2), **parameters),
        conv.backward_input(g, w, (2, 3, 6, 10), **parameters),
    )


def test_remainder_rows_and_columns_get_no_gradient():
    grad = conv.backward_input(np.ones((1, 1, 4, 3)), np.ones((1, 1, 3, 3)), (1, 1, 10, 8), stride=2)
    assert not grad[:, :, 9:, :].any() and not grad[:, :, :, 7:].any()
    assert grad[:, :, :9, :7].all()


def test_lenet_shapes_with_default_arguments():
    x, w = np.ones((2, 6, 12, 12)), np.ones((16, 6, 5, 5))
    y = conv.forward(x, w)
    assert y.shape == (2, 16, 8, 8) and (y == 150).all()
    grad_w = conv.backward_weights(np.ones_like(y), x, w.shape)
    assert grad_w.shape == w.shape and (grad_w == 2 * 8 * 8).all()
    assert conv.backward_input(np.ones_like(y), w, x.shape).shape == x.shape


# ---- arguments -------------------------------------------------------------------------------------


def test_aten_forms_of_the_arguments():
    x, w = np.ones((2, 3, 5, 5)), np.ones((4, 3, 3, 3))
    g = np.random.default_rng(3).normal(size=(2, 4, 3, 3))
    expected = conv.convolution_backward(g, x, w, (4,), 1, 0, 1, False, 0, 1, (True, True, True))
    for one in ([1], (1, 1), np.array([1, 1])):
        zero = [0] * len(one)
        for bias_sizes in ([4], np.array([4]), None):
            got = conv.convolution_backward(g, x, w, bias_sizes, one, zero, one, False, zero, 1, [1, 1, 1])
            for a, b in zip(got, expected):
                np.testing.assert_array_equal(a, b)
    # bias_sizes do not matter where no bias gradient is wanted: autograd passes [0] for a layer without one
    assert conv.convolution_backward(g, x, w, [0], 1, 0, 1, False, 0, 1, (False,) * 3) == (None,) * 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_results_are_float64_whatever_comes_in(dtype):
    x, w = np.full((1, 2, 4, 4), 3, dtype), np.full((2, 2, 3, 3), 5, dtype)
    y = conv.forward(x, w, np.ones(2, dtype))
    results = [y, conv.transposed(x, w)]
    results += conv.convolution_backward(y.astype(dtype), x, w, [2], 1, 0, 1, False, 0, 1, [True] * 3)
    assert [result.dtype for result in results] == [np.float64] * 5


def test_sums_are_float64_for_float32_arrays():
    g = np.array([[[1e8, 1.0, -1e8]]], np.float32)
    assert conv.backward_bias(g).tolist() == [1]
    assert conv.backward_weights(g, np.ones((1, 1, 3), np.float32), (1, 1, 1)).tolist() == [[[1]]]


def test_arrays_of_any_memory_order():
    random = np.random.default_rng(4)
    x, w, g = (random.normal(size=s) for s in ((2, 4, 5, 6), (6, 2, 3, 3), (2, 6, 3, 4)))
    expected = conv.convolution_backward(g, x, w, [6], 1, 0, 1, False, 0, 2, [True] * 3)
    turned = [np.asfortranarray(a) for a in (g, x, w)]
    got = conv.convolution_backward(*turned, [6], 1, 0, 1, False, 0, 2, [True] * 3)
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@each_layer
def test_inputs_are_left_alone(case):
    layer = Layer(case)
    before = [a.copy() for a in (layer.x, layer.w, layer.g)]
    results = layer.forward(layer.x, layer.w), layer.grad_input(), layer.grad_weight()
    for array, old in zip((layer.x, layer.w, layer.g), before):
        np.testing.assert_array_equal(array, old)
        assert not any(np.shares_memory(array, result) for result in results)
