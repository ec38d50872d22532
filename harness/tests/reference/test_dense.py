"""Matrix product, fully connected layer and ReLU against loops, differences and numbers worked by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from backwarp.reference import conv, dense

# batch, inputs, outputs
SIZES = {
    "one of each": (1, 1, 1),
    "one sample": (1, 4, 3),
    "one input": (3, 1, 2),
    "one output": (3, 4, 1),
    "more inputs": (2, 5, 3),
    "more outputs": (3, 2, 5),
    "more samples": (7, 3, 2),
}
each_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())


def layer(sizes):
    """input, weights, bias, grad_output"""
    batch, inputs, outputs = sizes
    random = np.random.default_rng(batch)
    shapes = (batch, inputs), (outputs, inputs), (outputs,), (batch, outputs)
    return [random.normal(size=shape) for shape in shapes]


def differences(loss, point, epsilon=1e-3):
    """Central differences of loss(point)."""
    gradient = np.zeros(point.shape)
    for index in np.ndindex(*point.shape):
        sides = []
        for sign in (+1, -1):
            moved = point.copy()
            moved[index] += sign * epsilon
            sides.append(loss(moved))
        gradient[index] = (sides[0] - sides[1]) / (2 * epsilon)
    return gradient


# ---- every size ------------------------------------------------------------------------------------


@each_size
def test_equals_naive_loops(sizes):
    x, w, bias, g = layer(sizes)
    y, grad_x, grad_w = np.zeros(g.shape) + bias, np.zeros(x.shape), np.zeros(w.shape)
    for b, i, o in np.ndindex(*sizes):
        y[b, o] += x[b, i] * w[o, i]
        grad_x[b, i] += g[b, o] * w[o, i]
        grad_w[o, i] += g[b, o] * x[b, i]
    np.testing.assert_allclose(dense.forward(x, w, bias), y, rtol=0, atol=1e-12)
    np.testing.assert_allclose(dense.matmul(x, w.T), y - bias, rtol=0, atol=1e-12)
    np.testing.assert_allclose(dense.backward_input(g, w), grad_x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(dense.backward_weights(g, x), grad_w, rtol=0, atol=1e-12)


@each_size
def test_gradients_equal_central_differences(sizes):
    x, w, bias, g = layer(sizes)

    def loss(x, w, bias):
        return np.sum(dense.forward(x, w, bias) * g)

    for got, of in (
        (dense.backward_input(g, w), differences(lambda p: loss(p, w, bias), x)),
        (dense.backward_weights(g, x), differences(lambda p: loss(x, p, bias), w)),
        (dense.backward_bias(g), differences(lambda p: loss(x, w, p), bias)),
    ):
        np.testing.assert_allclose(got, of, rtol=0, atol=1e-9)


@each_size
def test_the_three_passes_are_matrix_products(sizes):
    x, w, _, g = layer(sizes)
    np.testing.assert_allclose(dense.forward(x, w), dense.matmul(x, w.T), rtol=0, atol=1e-12)
    np.testing.assert_allclose(dense.backward_weights(g, x), dense.matmul(g.T, x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(dense.backward_input(g, w), dense.matmul(g, w), rtol=0, atol=1e-12)


@each_size
def test_a_fully_connected_layer_is_a_convolution_whose_filter_covers_the_image(sizes):
    x, w, bias, g = layer(sizes)
    x4, w4, g4 = (a[:, :, None, None] for a in (x, w, g))
    np.testing.assert_allclose(dense.forward(x, w, bias), conv.forward(x4, w4, bias)[..., 0, 0])
    grad_w = conv.backward_weights(g4, x4, w4.shape)[..., 0, 0]
    np.testing.assert_allclose(dense.backward_weights(g, x), grad_w, rtol=0, atol=1e-12)
    grad_x = conv.backward_input(g4, w4, x4.shape)[..., 0, 0]
    np.testing.assert_allclose(dense.backward_input(g, w), grad_x, rtol=0, atol=1e-12)


@each_size
def test_inputs_are_left_alone(sizes):
    arrays = x, w, bias, g = layer(sizes)
    before = [a.copy() for a in arrays]
    results = [
        dense.forward(x, w, bias),
        dense.backward_input(g, w),
        dense.backward_weights(g, x),
        dense.backward_bias(g),
        dense.relu(x),
        dense.relu_backward(x, x),
    ]
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
        assert not any(np.shares_memory(array, result) for result in results)


def test_empty_batch():
    x, w, g = np.zeros((0, 4)), np.ones((3, 4)), np.zeros((0, 3))
    assert dense.forward(x, w, np.ones(3)).shape == (0, 3)
    assert dense.backward_input(g, w).shape == (0, 4)
    assert not dense.backward_weights(g, x).any() and not dense.backward_bias(g).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_results_are_float64_whatever_comes_in(dtype):
    x = np.array([[3, -2]], dtype)
    results = [
        dense.matmul(x, x.T),
        dense.forward(x, x, x[0, :1]),
        dense.backward_input(x[:, :1], x),
        dense.backward_weights(x, x),
        dense.backward_bias(x),
        dense.relu(x),
        dense.relu_backward(x, x),
    ]
    assert [result.dtype for result in results] == [np.float64] * len(results)


# ---- by hand ---------------------------------------------------------------------------------------

X = [[1, 2, 3], [4, 5, 6]]
W = [[1, 0, -1], [2, 1, 0]]
G = [[1, 2], [10, -1]]


def test_matmul_by_hand():
    # row 1 of the first, column 0 of the second: 4*1 + 5*2 + 6*3
    assert dense.matmul(X, [[1, 0], [2, 1], [3, -1]]).tolist() == [[14, -1], [32, -1]]


def test_layer_by_hand():
    # output 1 of sample 0: 1*2 + 2*1 + 3*0 + 100
    assert dense.forward(X, W, [10, 100]).tolist() == [[8, 104], [8, 113]]
    assert dense.forward(X, W).tolist() == [[-2, 4], [-2, 13]]


def test_gradients_by_hand():
    # weight [0, 2]: 1*3 + 10*6; input [1, 0]: 10*1 - 1*2
    assert dense.backward_weights(G, X).tolist() == [[41, 52, 63], [-2, -1, 0]]
    assert dense.backward_input(G, W).tolist() == [[5, 2, -1], [8, -1, -10]]
    assert dense.backward_bias(G).tolist() == [11, 1]


def test_lenet_shapes():
    x = np.ones((2, 256))
    for outputs, sums in ((120, 256), (84, 256 * 120), (10, 256 * 120 * 84)):
        x = dense.forward(x, np.ones((outputs, x.shape[1])))
        assert x.shape == (2, outputs) and (x == sums).all()


# ---- ReLU ------------------------------------------------------------------------------------------


def test_relu_by_hand():
    inf, nan = np.inf, np.nan
    x = [[-2.0, 3.0, 0.0, -0.0], [inf, -inf, nan, 1e-45]]
    np.testing.assert_array_equal(dense.relu(x), [[0, 3, 0, 0], [inf, 0, nan, 1e-45]])
    g = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    np.testing.assert_array_equal(dense.relu_backward(g, x), [[0, 2, 0, 0], [5, 0, 7, 8]])


def test_relu_gradient_equals_central_differences():
    random = np.random.default_rng(0)
    x, g = random.normal(size=(2, 5, 4)) + 0.0, random.normal(size=(2, 5, 4))
    x[np.abs(x) < 0.01] = 0.5  # away from the corner
    expected = differences(lambda p: np.sum(dense.relu(p) * g), x)
    np.testing.assert_allclose(dense.relu_backward(g, x), expected, rtol=0, atol=1e-9)


def test_relu_gradient_from_the_output_is_that_from_the_input():
    random = np.random.default_rng(1)
    x, g = random.normal(size=(2, 50))
    x[::7], x[3::7] = 0.0, -0.0
    np.testing.assert_array_equal(dense.relu_backward(g, x), dense.relu_backward(g, dense.relu(x)))


def test_a_blocked_gradient_is_0_even_where_it_was_not_finite():
    assert dense.relu_backward([np.nan, np.inf], [-1.0, 0.0]).tolist() == [0, 0]


# ---- errors ----------------------------------------------------------------------------------------

ERRORS = {
    "columns and rows": (lambda: dense.matmul(np.ones((2, 3)), np.ones((2, 3))), "3 columns, but b (2, 3)"),
    "a vector": (lambda: dense.matmul(np.ones(3), np.ones((3, 2))), "a has 1 dimension, shape (3,)"),
    "an image": (lambda: dense.forward(np.ones((1, 1, 2, 2)), np.ones((3, 4))), "input has 4 dimensions"),
    "weights turned": (
        lambda: dense.forward(np.ones((2, 4)), np.ones((4, 3))),
        "input (2, 4) has 4 inputs of the layer, but weights (4, 3) has 3",
    ),
    "bias of the inputs": (
        lambda: dense.forward(np.ones((2, 4)), np.ones((3, 4)), np.ones(4)),
        "bias is (4,), but weights (3, 4) make it (3,)",
    ),
    "another batch": (
        lambda: dense.backward_weights(np.ones((2, 3)), np.ones((5, 4))),
        "grad_output (2, 3) has 2 samples of the batch, but input (5, 4) has 5",
    ),
    "another layer": (
        lambda: dense.backward_input(np.ones((2, 3)), np.ones((4, 3))),
        "grad_output (2, 3) has 3 outputs of the layer, but weights (4, 3) has 4",
    ),
    "no batch": (lambda: dense.backward_bias(np.ones(3)), "it must be (B, O)"),
    "another shape": (lambda: dense.relu_backward(np.ones(3), np.ones((3, 1))), "x is (3, 1)"),
}


@pytest.mark.parametrize("call, says", ERRORS.values(), ids=ERRORS.keys())
def test_what_cannot_be_is_refused(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()


def test_equals_torch():
    torch = pytest.importorskip("torch")
    x, w, bias, g = (torch.tensor(a, requires_grad=True) for a in layer((5, 7, 3)))
    x.data[0, 0] = x.data[1, 1] = 0.0
    hidden = torch.relu(x)
    torch.nn.functional.linear(hidden, w, bias).backward(g.detach())
    values = [t.detach().numpy() for t in (x, w, g)]
    grad_hidden = dense.backward_input(values[2], values[1])
    np.testing.assert_allclose(dense.relu_backward(grad_hidden, values[0]), x.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(
        dense.backward_weights(values[2], dense.relu(values[0])), w.grad.numpy(), atol=1e-12
    )
    np.testing.assert_allclose(dense.backward_bias(values[2]), bias.grad.numpy(), atol=1e-12)
    special = torch.tensor([float("nan"), -0.0, float("inf"), -float("inf")], requires_grad=True)
    torch.relu(special).backward(torch.ones(4))
    np.testing.assert_array_equal(dense.relu(special.detach().numpy()), torch.relu(special).detach().numpy())
    np.testing.assert_array_equal(
        dense.relu_backward(np.ones(4), special.detach().numpy()), special.grad.numpy()
    )
