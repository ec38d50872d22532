"""Matrix products, fully connected layers and ReLU, with their gradients.

    a        (M, K)      b        (K, N)      a @ b   (M, N)
    input    (B, I)      batch, inputs of the layer
    weights  (O, I)      outputs of the layer, inputs: one row of weights per output, as in PyTorch
    bias     (O,)
    output   (B, O)

A fully connected layer is one matrix product, and its gradients are two more. Output [b, o] sums
input[b, i] * weights[o, i] over i; with the loss L and grad_output = dL/doutput, the chain rule sends the
same three factors along in three directions:

    forward             output[b,o]       sums  input[b,i]       * weights[o,i]   over the inputs i
    backward input      grad_input[b,i]   sums  grad_output[b,o] * weights[o,i]   over the outputs o
    backward weights    grad_weights[o,i] sums  grad_output[b,o] * input[b,i]     over the batch b

All gradients are sums over the batch, not means: dividing by B is up to the loss (see loss.py). Arrays of any
real type are accepted and converted to float64. Shapes that do not match are a ValueError.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray

# ---- matrices --------------------------------------------------------------------------------------


def matmul(a: ArrayLike, b: ArrayLike) -> Array:
    """The product of a (M, K) and b (K, N): (M, N).

    product[m,n] = sum over k of a[m,k] * b[k,n]
    """
    a, b = _matrix("a", a, "(M, K)"), _matrix("b", b, "(K, N)")
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a {a.shape} has {a.shape[1]} columns, but b {b.shape} has {b.shape[0]} rows; both are K"
        )
    return a @ b


# ---- fully connected layer ---------------------------------------------------------------------------


def forward(input: ArrayLike, weights: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """The layer with input (B, I), weights (O, I) and bias (O,): (B, O).

    output[b,o] = bias[o] + sum over i of input[b,i] * weights[o,i]
    """
    input, weights = _matrix("input", input, "(B, I)"), _matrix("weights", weights, "(O, I)")
    _check_shared("input", input, 1, "weights", weights, 1, "inputs of the layer")
    output = input @ weights.T
    if bias is None:
        return output
    bias = np.asarray(bias, dtype=np.float64)
    if bias.shape != (len(weights),):
        raise ValueError(
            f"bias is {bias.shape}, but weights {weights.shape} make it ({len(weights)},): one per output"
        )
    return output + bias


def backward_weights(grad_output: ArrayLike, input: ArrayLike) -> Array:
    """dL/dweights of `forward`, from grad_output (B, O) and input (B, I): (O, I).

    grad_weights[o,i] = sum over b of grad_output[b,o] * input[b,i]
    """
    grad_output, input = _matrix("grad_output", grad_output, "(B, O)"), _matrix("input", input, "(B, I)")
    _check_shared("grad_output", grad_output, 0, "input", input, 0, "samples of the batch")
    return grad_output.T @ input


def backward_input(grad_output: ArrayLike, weights: ArrayLike) -> Array:
    """dL/dinput of `forward`, from grad_output (B, O) and weights (O, I): (B, I).

    grad_input[b,i] = sum over o of grad_output[b,o] * weights[o,i]
    """
    grad_output = _matrix("grad_output", grad_output, "(B, O)")
    weights = _matrix("weights", weights, "(O, I)")
    _check_shared("grad_output", grad_output, 1, "weights", weights, 0, "outputs of the layer")
    return grad_output @ weights


def backward_bias(grad_output: ArrayLike) -> Array:
    """dL/dbias of `forward`: grad_output (B, O) summed over b: (O,)."""
    return _matrix("grad_output", grad_output, "(B, O)").sum(axis=0)


# ---- ReLU --------------------------------------------------------------------------------------------


def relu(x: ArrayLike) -> Array:
    """max(x, 0) of every element, for arrays of any shape. NaN stays NaN, as in PyTorch."""
    x = np.asarray(x, dtype=np.float64)
    return np.where(x < 0, 0.0, x)


def relu_backward(grad_output: ArrayLike, x: ArrayLike) -> Array:
    """dL/dx of `relu`: grad_output where x > 0, and 0 where x <= 0, including at 0, where relu has a corner.

    x may be the input or the output of `relu`: both are positive in the same places. Where x is NaN, the
    gradient passes, as in PyTorch.
    """
    grad_output, x = np.asarray(grad_output, dtype=np.float64), np.asarray(x, dtype=np.float64)
    if grad_output.shape != x.shape:
        raise ValueError(f"grad_output is {grad_output.shape}, but x is {x.shape}; relu keeps the shape")
    return np.where(x <= 0, 0.0, grad_output)


# ---- checks --------------------------------------------------------------------------------------------


def _matrix(name: str, values: ArrayLike, axes: str) -> Array:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(
            f"{name} has {matrix.ndim} dimension{'s' * (matrix.ndim != 1)}, shape {matrix.shape}; it must be "
            f"{axes}, with both sizes even where one of them is 1"
        )
    return matrix


def _check_shared(name: str, a: Array, axis: int, other: str, b: Array, other_axis: int, what: str) -> None:
    """The two sizes that a sum runs over are the same."""
    if a.shape[axis] != b.shape[other_axis]:
        raise ValueError(
            f"{name} {a.shape} has {a.shape[axis]} {what}, but {other} {b.shape} has {b.shape[other_axis]}; "
            "check that both belong to the same layer"
        )
