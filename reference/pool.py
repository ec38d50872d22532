"""Max pooling with the place of every maximum kept, and its gradient.

    input    (N, C, H, W)    batch, channels, height, width
    output   (N, C, P, Q)    P = (H - R) // stride + 1 for windows of R x S elements

Window (p, q) covers rows p * stride to p * stride + R - 1, and columns likewise. Windows do not stick out,
so with windows of 2 the last row of an odd height belongs to none.

The forward pass keeps, for every window, where its maximum stood: `argmax`, the place h * W + w within the
image plane, as PyTorch's `return_indices=True` gives it. The backward pass needs nothing else: the output
changed only with that one element, so the whole gradient of the output goes there.

Which element is the maximum is settled as in PyTorch. The window is read row by row; an element takes over
when it is larger than the best so far, or when it is NaN. So the first of equal elements stays, a NaN is
never outdone by a number, and a window of nothing but -inf has its maximum at its first element.

`window` and `stride` are one number, or one for rows and one for columns. Arrays of any real type are taken
as float64. Everything that cannot be is a ValueError that says which sizes do not go together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reference.conv_plan import AXES, Array, PerDimension, Shape, as_shape, per_dimension

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Windows:
    """Where the windows of a pooling layer lie on its input."""

    input_shape: Shape  # (N, C, H, W)
    output_shape: Shape  # (N, C, P, Q)
    window: Shape  # (R, S)
    stride: Shape

    def taps(self) -> Iterator[tuple[tuple, Places]]:
        """For each element (r, s) of a window, row by row: which input elements it is, one per window.

        As an index of the input's last two axes, and as places h * W + w (P, Q).
        """
        for tap in np.ndindex(*self.window):
            h, w = (
                first + step * np.arange(count)
                for first, step, count in zip(tap, self.stride, self.output_shape[2:])
            )
            yield (..., h[:, np.newaxis], w), h[:, np.newaxis] * self.input_shape[3] + w


def max_pool(
    input: ArrayLike, window: PerDimension = 2, stride: PerDimension | None = None
) -> tuple[Array, Places]:
    """The largest element of every window of input (N, C, H, W), and its place: two arrays (N, C, P, Q).

    stride: the window's size where it is None, so that windows lie side by side.
    """
    input = np.asarray(input, dtype=np.float64)
    windows = pooling_windows(input.shape, window, stride)
    best = np.full(windows.output_shape, -np.inf)
    argmax = np.zeros(windows.output_shape, np.int64)
    for number, (elements, places) in enumerate(windows.taps()):
        value = input[elements]
        better = (value > best) | np.isnan(value) if number else np.ones_like(value, bool)
        best = np.where(better, value, best)
        argmax = np.where(better, places, argmax)
    return best, argmax


def max_pool_backward(grad_output: ArrayLike, argmax: ArrayLike, input_shape: Sequence[int]) -> Array:
    """dL/dinput of `max_pool`, from grad_output and argmax (N, C, P, Q): input_shape (N, C, H, W).

    grad_input[n,c,h,w] = sum of grad_output[n,c,p,q] over the windows with argmax[n,c,p,q] = h * W + w

    Where windows lie side by side, that is one window or none; elements that are no maximum get 0.
    """
    grad_output, argmax = np.asarray(grad_output, dtype=np.float64), np.asarray(argmax)
    input_shape = as_shape("input_shape", input_shape)
    _check_rank("input_shape", input_shape)
    if grad_output.shape != argmax.shape or argmax.ndim != 4 or argmax.shape[:2] != input_shape[:2]:
        raise ValueError(
            f"grad_output is {grad_output.shape}, argmax {argmax.shape} and the input {input_shape}; the "
            "first two must be alike, and all three have the same N and C"
        )
    size = input_shape[2] * input_shape[3]
    if not np.issubdtype(argmax.dtype, np.integer):
        raise ValueError(f"argmax has the type {argmax.dtype}; places are integers, as max_pool returns them")
    if argmax.size and not 0 <= argmax.min() <= argmax.max() < size:
        raise ValueError(
            f"argmax has places from {argmax.min()} to {argmax.max()}, but a plane of {input_shape[2]} x "
            f"{input_shape[3]} elements has the places 0 to {size - 1}; is it the argmax of this input?"
        )
    grad_input = np.zeros((*input_shape[:2], size))
    n, c = np.indices(argmax.shape)[:2]
    np.add.at(grad_input, (n, c, argmax), grad_output)
    return grad_input.reshape(input_shape)


def pooling_windows(input_shape: Shape, window: PerDimension, stride: PerDimension | None) -> Windows:
    """The checked windows of a pooling layer. Raises ValueError."""
    _check_rank("input", input_shape)
    window = per_dimension("window", window, 2, at_least=1)
    stride = window if stride is None else per_dimension("stride", stride, 2, at_least=1)
    for axis, size, reach in zip(AXES[2], input_shape[2:], window):
        if reach > size:
            raise ValueError(
                f"the window does not fit: along {axis} it has {reach} elements, input {input_shape} has "
                f"{size}; use a smaller window"
            )
    counts = ((size - reach) // step + 1 for size, reach, step in zip(input_shape[2:], window, stride))
    return Windows(input_shape, (*input_shape[:2], *counts), window, stride)


def _check_rank(name: str, shape: Shape) -> None:
    if len(shape) != 4:
        raise ValueError(
            f"{name} {shape} has {len(shape)} dimensions; it must be (N, C, H, W), with the batch size N "
            "even when it is 1"
        )
