"""Convolutions and their gradients, in 1, 2 and 3 spatial dimensions.

Shapes are written for two dimensions; one and three work the same way:

    input   (N, C, H, W)             batch, input channels, height, width
    weight  (K, C / groups, R, S)    output channels, channels of one group, filter height, filter width
    output  (N, K, P, Q)             P = (H + before + after - dilation * (R - 1) - 1) // stride + 1

As in every deep learning library, "convolution" means cross-correlation: the filter is not flipped.

All passes are sums over the same list of products. Take output position p and filter tap r. They meet
input row

    h = p * stride + r * dilation - before          (0 <= h < H, or the product is left out)

and each such pair contributes  input[h] * weight[r]  to  output[p].  With the loss L and
grad_output = dL/doutput, the chain rule sends the same three factors along in three directions:

    forward             output[p]       sums  input[h]       * weight[r]   over the taps
    backward data       grad_input[h]   sums  grad_output[p] * weight[r]   over the pairs that meet h
    backward weights    grad_weight[r]  sums  grad_output[p] * input[h]    over the positions (and the batch)

A transposed convolution is backward data used as a layer of its own: its output takes the place of the input.
Hence the neutral names below: the *image* is the side that gets padded and the *grid* the side that counts
filter positions.

    convolution               image = input     grid = output
    transposed convolution    image = output    grid = input

`stride`, `dilation` and `output_padding` are one number, or one per dimension; so is `padding`, where
each may also be a pair (before, after): ((1, 2), (0, 0)) is one row above, two below, and no columns.
Arrays of any real type are accepted and converted to float64.
Anything impossible is a ValueError that says which sizes do not match.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .conv_plan import (
    Array,
    Padding,
    PerDimension,
    Plan,
    as_shape,
    aten_plan,
    check_backward,
    check_same,
    convolution_plan,
    transposed_plan,
)

# ---- the three sums ------------------------------------------------------------------------------
# Each is a product of matrices for every image n of the batch and group g. A matrix's rows are the grid channels k
# or the image channels c of that group; its columns are grid positions p, or filter taps r.


def _grid(image: Array, weight: Array, plan: Plan) -> Array:
    """grid[n,k,p] = sum over c,r of padded[n, c, p*stride + r*dilation] * weight[k,c,r]."""
    weight = _flat(plan.by_group(weight, axis=0), 2)
    grid = _flat(plan.by_group(np.zeros(plan.grid_shape), axis=1), 3)
    for images, met in plan.met(image):
        np.matmul(weight, met, out=grid[images])
    return grid.reshape(plan.grid_shape)


def _image(grid: Array, weight: Array, plan: Plan) -> Array:
    """padded[n, c, p*stride + r*dilation] += grid[n,k,p] * weight[k,c,r] for every k,p,r; then cropped."""
    grid = plan.by_group(grid, axis=1)
    weight = plan.by_group(weight, axis=0).swapaxes(1, 2)
    padded = plan.by_group(plan.padded(np.zeros(plan.image_shape)), axis=1)
    if math.prod(plan.weight_shape[2:]) > math.prod(plan.grid_shape[2:]):  # fewer steps for a long filter
        for position, window in plan.positions():
            padded[window] += np.einsum("gck...,ngk->ngc...", weight, grid[position])
    else:
        grid = _flat(grid, 3)
        for tap, window in plan.taps():
            padded[window] += (weight[tap] @ grid).reshape(padded[window].shape)
    return plan.cropped(padded).reshape(plan.image_shape)


def _weights(grid: Array, image: Array, plan: Plan) -> Array:
    """weight[k,c,r] = sum over n,p of grid[n,k,p] * padded[n, c, p*stride + r*dilation]."""
    grid = _flat(plan.by_group(grid, axis=1), 3)
    weight = _flat(plan.by_group(np.zeros(plan.weight_shape), axis=0), 2)
    for images, met in plan.met(image):
        weight += (grid[images] @ met.swapaxes(2, 3)).sum(axis=0)
    return weight.reshape(plan.weight_shape)


def unfold(
    input: ArrayLike, filter: Sequence[int], stride: PerDimension, padding: Padding, dilation: PerDimension
) -> Array:
    """The patches under the filter: (N, C * R * S, P * Q), a row per channel and tap, a column per position."""
    input = _array(input)
    plan = convolution_plan(input.shape, (1, input.shape[1], *filter), stride, padding, dilation, 1)
    return np.concatenate([met[:, 0] for _, met in plan.met(input)])


def fold(
    columns: ArrayLike,
    input_shape: Sequence[int],
    filter: Sequence[int],
    stride: PerDimension,
    padding: Padding,
    dilation: PerDimension,
) -> Array:
    """The adjoint of `unfold`: every entry is added to the element of the image that it was taken from."""
    N, C = input_shape[:2]
    plan = convolution_plan(tuple(input_shape), (1, C, *filter), stride, padding, dilation, 1)
    columns = _array(columns).reshape(N, C, *filter, *plan.grid_shape[2:])
    padded = plan.padded(np.zeros(plan.image_shape))
    if math.prod(filter) > math.prod(plan.grid_shape[2:]):
        for position, window in plan.positions():
            padded[window] += columns[position]
    else:
        for (_, *tap), window in plan.taps():
            padded[window] += columns[(slice(None), slice(None), *tap)]
    return plan.cropped(padded)


def _flat(array: Array, axes: int) -> Array:
    """The array with all but its first axes as one."""
    return array.reshape(*array.shape[:axes], math.prod(array.shape[axes:]))


# ---- convolution ---------------------------------------------------------------------------------


def forward(
    input: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
) -> Array:
    """The convolution of input (N, C, H, W) with weight (K, C/groups, R, S), plus bias (K,): (N, K, P, Q).

    output[n,k,p,q] = bias[k] + sum over c,r,s of weight[k,c,r,s]
                                * padded[n, c of the group of k, p*stride + r*dilation, q*stride + s*dilation]
    """
    input, weight = _array(input), _array(weight)
    plan = convolution_plan(input.shape, weight.shape, stride, padding, dilation, groups)
    return _add_bias(_grid(input, weight, plan), bias)


def backward_input(
    grad_output: ArrayLike,
    weight: ArrayLike,
    input_shape: Sequence[int],
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
) -> Array:
    """Backward data, dL/dinput of `forward`, from grad_output (N, K, P, Q): input_shape (N, C, H, W).

    grad_input[n,c,h,w] = sum over k of the group of c, and over the p,q,r,s that meet h,w, of
                          grad_output[n,k,p,q] * weight[k,c,r,s]

    The shape must be given, because with a stride inputs of several sizes have outputs of the same size. The
    last rows and columns of an input, where the filter did not fit once more, get a gradient of zero.
    """
    grad_output, weight = _array(grad_output), _array(weight)
    input_shape = as_shape("input_shape", input_shape)
    plan = convolution_plan(input_shape, weight.shape, stride, padding, dilation, groups)
    check_same("grad_output.shape", grad_output.shape, plan.grid_shape)
    return _image(grad_output, weight, plan)


def backward_weights(
    grad_output: ArrayLike,
    input: ArrayLike,
    weight_shape: Sequence[int],
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
) -> Array:
    """dL/dweight of `forward`, from grad_output (N, K, P, Q): weight_shape (K, C/groups, R, S).

    grad_weight[k,c,r,s] = sum over n,p,q of grad_output[n,k,p,q]
                           * padded[n, c of the group of k, p*stride + r*dilation, q*stride + s*dilation]

    A sum over the batch, not a mean: dividing by N is up to the loss.
    """
    grad_output, input = _array(grad_output), _array(input)
    weight_shape = as_shape("weight_shape", weight_shape)
    plan = convolution_plan(input.shape, weight_shape, stride, padding, dilation, groups)
    check_same("grad_output.shape", grad_output.shape, plan.grid_shape)
    return _weights(grad_output, input, plan)


def backward_bias(grad_output: ArrayLike) -> Array:
    """dL/dbias, for every kind of convolution: grad_output (N, K, P, Q) summed over n, p and q: (K,)."""
    grad_output = _array(grad_output)
    if not 3 <= grad_output.ndim <= 5:
        raise ValueError(
            f"grad_output has {grad_output.ndim} dimensions, shape {grad_output.shape}; it must be "
            "(N, K, Q), (N, K, P, Q) or (N, K, O, P, Q), with the batch size N even when it is 1"
        )
    every_axis_but_the_channels = (0, *range(2, grad_output.ndim))
    return grad_output.sum(axis=every_axis_but_the_channels)


# ---- transposed convolution: the same with input and output swapped ----------------------------------
# The arguments are in the order of torch.nn.functional.conv_transpose2d.


def transposed(
    input: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    stride: PerDimension = 1,
    padding: Padding = 0,
    output_padding: PerDimension = 0,
    groups: int = 1,
    dilation: PerDimension = 1,
) -> Array:
    """The transposed convolution of input (N, C, H, W) with weight (C, K/groups, R, S): (N, K, P, Q).

    Every input element stamps its multiple of the filter onto the output; stamps that overlap add up:

        output[n, k, h*stride + r*dilation - before] += input[n, c, h] * weight[c, k, r]

    P = (H - 1) * stride - before - after + dilation * (R - 1) + output_padding + 1, so padding makes the
    output smaller. output_padding, less than stride or dilation, makes it larger at the end: with a stride,
    it chooses among the sizes that the convolution would have reduced to H. It adds no values; rows that no
    stamp reaches hold only the bias.
    """
    input, weight = _array(input), _array(weight)
    plan = transposed_plan(input.shape, weight.shape, stride, padding, output_padding, groups, dilation)
    return _add_bias(_image(input, weight, plan), bias)


def transposed_backward_input(
    grad_output: ArrayLike,
    weight: ArrayLike,
    input_shape: Sequence[int],
    stride: PerDimension = 1,
    padding: Padding = 0,
    output_padding: PerDimension = 0,
    groups: int = 1,
    dilation: PerDimension = 1,
) -> Array:
    """dL/dinput of `transposed`, an ordinary convolution of grad_output (N, K, P, Q): (N, C, H, W).

    grad_input[n,c,h] = sum over k,r of weight[c,k,r] * grad_output[n, k, h*stride + r*dilation - before]
    """
    grad_output, weight = _array(grad_output), _array(weight)
    input_shape = as_shape("input_shape", input_shape)
    plan = transposed_plan(input_shape, weight.shape, stride, padding, output_padding, groups, dilation)
    check_same("grad_output.shape", grad_output.shape, plan.image_shape)
    return _grid(grad_output, weight, plan)


def transposed_backward_weights(
    grad_output: ArrayLike,
    input: ArrayLike,
    weight_shape: Sequence[int],
    stride: PerDimension = 1,
    padding: Padding = 0,
    output_padding: PerDimension = 0,
    groups: int = 1,
    dilation: PerDimension = 1,
) -> Array:
    """dL/dweight of `transposed`, from grad_output (N, K, P, Q): weight_shape (C, K/groups, R, S).

    grad_weight[c,k,r] = sum over n,h of input[n,c,h] * grad_output[n, k, h*stride + r*dilation - before]
    """
    grad_output, input = _array(grad_output), _array(input)
    weight_shape = as_shape("weight_shape", weight_shape)
    plan = transposed_plan(input.shape, weight_shape, stride, padding, output_padding, groups, dilation)
    check_same("grad_output.shape", grad_output.shape, plan.image_shape)
    return _weights(input, grad_output, plan)


# ---- all gradients at once -------------------------------------------------------------------------


def convolution_backward(
    grad_output: ArrayLike,
    input: ArrayLike,
    weight: ArrayLike,
    bias_sizes: Sequence[int] | None,
    stride: PerDimension,
    padding: PerDimension,
    dilation: PerDimension,
    transposed: bool,
    output_padding: PerDimension,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """PyTorch's aten::convolution_backward, argument for argument.

    Returns (grad_input, grad_weight, grad_bias), with None for each one that output_mask, three booleans,
    does not request. As in ATen, padding is the same on both sides, grad_bias is computed even if bias_sizes
    is None, and output_padding must be 0 unless transposed.
    """
    grad_output, input, weight = _array(grad_output), _array(input), _array(weight)
    options = stride, padding, dilation, transposed, output_padding, groups
    plan = aten_plan(input.shape, weight.shape, *options)
    want_input, want_weight, want_bias = check_backward(
        plan, transposed, grad_output.shape, bias_sizes, output_mask
    )

    grad_input = grad_weight = grad_bias = None
    if want_input:
        grad_input = _grid(grad_output, weight, plan) if transposed else _image(grad_output, weight, plan)
    if want_weight:
        grad_weight = _weights(input, grad_output, plan) if transposed else _weights(grad_output, input, plan)
    if want_bias:
        grad_bias = backward_bias(grad_output)
    return grad_input, grad_weight, grad_bias


def _add_bias(output: Array, bias: ArrayLike | None) -> Array:
    if bias is None:
        return output
    bias = _array(bias)
    check_same("bias.shape", bias.shape, (output.shape[1],))
    return output + bias.reshape(-1, *[1] * (output.ndim - 2))


def _array(values: ArrayLike) -> Array:
    return np.asarray(values, dtype=np.float64)
