"""Stochastic gradient descent with momentum and weight decay, as PyTorch's `torch.optim.SGD` does it.

    velocity = momentum * velocity + gradient + weight_decay * weights
    weights  = weights - learning_rate * velocity

Before the first step the velocity is 0, so the first step follows the gradient alone. The learning rate is
applied to the velocity, not stored in it. `gradient` is used unchanged: taking the mean over the batch is up
to the loss. (PyTorch's dampening and Nesterov momentum, off by default, are not implemented.)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .conv_plan import Array


def sgd(
    weights: ArrayLike,
    velocity: ArrayLike,
    gradient: ArrayLike,
    learning_rate: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Array, Array]:
    """One step: the new (weights, velocity), float64, of the shape that all three arrays have.

    The arguments are not modified. Raises ValueError.
    """
    weights, velocity, gradient = (np.asarray(a, dtype=np.float64) for a in (weights, velocity, gradient))
    for name, array in (("velocity", velocity), ("gradient", gradient)):
        if array.shape != weights.shape:
            raise ValueError(
                f"{name}.shape is {array.shape}, but weights.shape is {weights.shape}; every weight has its "
                f"own element of {name}"
            )
    for name, value in (
        ("learning_rate", learning_rate),
        ("momentum", momentum),
        ("weight_decay", weight_decay),
    ):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}; it must be a number from 0 up")
    velocity = momentum * velocity + gradient + weight_decay * weights
    return weights - learning_rate * velocity, velocity
