"""A convolution (stride 1, no padding), bias, ReLU and 2 x 2 max pooling as one layer, and the way back to its weights.

    input   (N, C, H, W)        weights  (K, C, F, F)      bias  (K,)
    output  (N, K, P, Q)        P = (H - F + 1) // 2, Q = (W - F + 1) // 2
    places  (N, K, P, Q)        h * W_out + w of each maximum in the plane of the convolution; -1 where ReLU leaves 0

ReLU never decreases, so the largest of four values after it is ReLU of the largest before it: one comparison with 0
does for four. `places` holds all that the backward pass needs to know of both: the gradient of an output goes to one
position of the convolution, or nowhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from . import conv, pool
from .conv_plan import Array


def forward(input: ArrayLike, weights: ArrayLike, bias: ArrayLike) -> tuple[Array, Array]:
    """output and places."""
    largest, places = pool.max_pool(conv.forward(input, weights, bias))
    return np.maximum(largest, 0.0), np.where(largest > 0, places, -1)


def grad_convolution(grad_output: ArrayLike, places: ArrayLike, shape: tuple[int, ...]) -> Array:
    """The gradient at the convolution's own output (N, K, H_out, W_out): that of each pooled output at its place."""
    grad_output, places = np.asarray(grad_output, float), np.asarray(places)
    found = np.zeros((*shape[:2], shape[2] * shape[3]))
    n, k = np.indices(places.shape)[:2]
    np.add.at(found, (n, k, np.maximum(places, 0)), np.where(places >= 0, grad_output, 0.0))
    return found.reshape(shape)


def backward_weights(grad_output: ArrayLike, places: ArrayLike, input: ArrayLike, side: int) -> Array:
    """The gradient of the weights (K, C, side, side)."""
    n, c, h, w = np.shape(input)
    k = np.shape(places)[1]
    grad = grad_convolution(grad_output, places, (n, k, h - side + 1, w - side + 1))
    return conv.backward_weights(grad, input, (k, c, side, side))
