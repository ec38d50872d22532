"""Max and average pooling, and their gradients.

    input    (N, C, H, W)    batch, channels, height, width
    output   (N, C, P, Q)    one element per window of R x S elements

Element (r, s) of window (p, q) is in row p * stride + r * dilation - padding; columns work the same way. P is
the number of window positions in the padded input, as for a convolution. Positions in the padding have no
value: they are never a maximum and add nothing to a mean.

With ceil_mode, P is rounded up: one more window may hang over the end of the padded input, but only if it
starts in the input or in the padding before it.

`max_pool` records where the maximum of every window is: `argmax`, the place h * W + w within the image plane,
as PyTorch's `return_indices=True` does. The backward pass needs nothing else: the output depends only on that
one element, so the whole gradient of the output goes there.

The maximum is chosen as in PyTorch. The window is read row by row; an element takes over if it is larger than
the best so far, or if it is NaN. So the first of equal elements wins, a NaN is never replaced by a number,
and a window of nothing but -inf has its maximum at its first element.

`avg_pool` divides the sum of a window by its number of elements. With count_include_pad this includes
elements in the padding, but never those that hang over the end of the padded input; without it, only elements
in the input count. divisor_override replaces both.

`window`, `stride`, `padding` and `dilation` are one number, or one for rows and one for columns; padding is
at most half of the window, as in PyTorch. Arrays of any real type are converted to float64. Anything
impossible is a ValueError that says which sizes do not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .conv_plan import AXES, Array, PerDimension, Shape, as_shape, check_same, per_dimension

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Windows:
    """Where the windows of a pooling layer lie on its input."""

    input_shape: Shape  # (N, C, H, W)
    output_shape: Shape  # (N, C, P, Q)
    window: Shape  # (R, S)
    stride: Shape
    padding: Shape
    dilation: Shape

    def taps(self) -> Iterator[tuple[tuple, Places, NDArray[np.bool_]]]:
        """For each element (r, s) of a window, row by row: which input elements it is, one per window.

        Given as an index of the input's last two axes, as places h * W + w (P, Q), and whether they are in
        the input (P, Q); where they are not, the index refers to some other element.
        """
        for tap in np.ndindex(*self.window):
            (h, below), (w, beside) = (self.along(axis, r) for axis, r in enumerate(tap))
            inside = below[:, np.newaxis] & beside
            yield (..., h[:, np.newaxis], w), h[:, np.newaxis] * self.input_shape[3] + w, inside

    def along(self, axis: int, tap: int) -> tuple[Places, NDArray[np.bool_]]:
        """The rows (axis 0) or columns of the windows' element `tap`, and which of them are in the input."""
        first = tap * self.dilation[axis] - self.padding[axis]
        at = first + self.stride[axis] * np.arange(self.output_shape[2 + axis])
        last = self.input_shape[2 + axis] - 1
        return at.clip(0, last), (at >= 0) & (at <= last)

    def divisors(self, count_include_pad: bool) -> NDArray[np.int64]:
        """How many elements of each window count in its mean (P, Q)."""
        counts = []
        for p, size, window, step, pad in zip(
            self.output_shape[2:], self.input_shape[2:], self.window, self.stride, self.padding
        ):
            first = step * np.arange(p) - pad
            end = np.minimum(first + window, size + pad)
            counts.append(end - first if count_include_pad else np.minimum(end, size) - np.maximum(first, 0))
        return np.multiply.outer(*counts)


def max_pool(
    input: ArrayLike,
    window: PerDimension = 2,
    stride: PerDimension | None = None,
    padding: PerDimension = 0,
    dilation: PerDimension = 1,
    ceil_mode: bool = False,
) -> tuple[Array, Places]:
    """The largest element of every window of input (N, C, H, W), and its place: two arrays (N, C, P, Q).

    stride: defaults to the window's size, so that windows lie side by side.
    """
    input = np.asarray(input, dtype=np.float64)
    windows = pooling_windows(input.shape, window, stride, padding, dilation, ceil_mode)
    best = np.full(windows.output_shape, -np.inf)
    argmax = np.full(windows.output_shape, -1)
    for elements, places, inside in windows.taps():
        value = input[elements]
        better = inside & ((value > best) | np.isnan(value) | (argmax < 0))
        best = np.where(better, value, best)
        argmax = np.where(better, places, argmax)
    return best, argmax


def max_pool_backward(grad_output: ArrayLike, argmax: ArrayLike, input_shape: Sequence[int]) -> Array:
    """dL/dinput of `max_pool`, from grad_output and argmax (N, C, P, Q): input_shape (N, C, H, W).

    grad_input[n,c,h,w] = sum of grad_output[n,c,p,q] over the windows with argmax[n,c,p,q] = h * W + w

    If windows lie side by side, that is at most one window; elements that are not a maximum get 0.
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


def avg_pool(
    input: ArrayLike,
    window: PerDimension = 2,
    stride: PerDimension | None = None,
    padding: PerDimension = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of every window of input (N, C, H, W): (N, C, P, Q).

    stride: defaults to the window's size. divisor_override: divides every sum if it is not None.
    """
    input = np.asarray(input, dtype=np.float64)
    windows = pooling_windows(input.shape, window, stride, padding, 1, ceil_mode)
    divisors = _divisors(windows, count_include_pad, divisor_override)
    sums = np.zeros(windows.output_shape)
    for elements, _, inside in windows.taps():
        sums += np.where(inside, input[elements], 0.0)
    return sums / divisors


def avg_pool_backward(
    grad_output: ArrayLike,
    input_shape: Sequence[int],
    window: PerDimension = 2,
    stride: PerDimension | None = None,
    padding: PerDimension = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """dL/dinput of `avg_pool`, from grad_output (N, C, P, Q): input_shape (N, C, H, W).

    grad_input[n,c,h,w] = sum of grad_output[n,c,p,q] / divisor[p,q] over the windows that contain h,w
    """
    grad_output = np.asarray(grad_output, dtype=np.float64)
    windows = pooling_windows(as_shape("input_shape", input_shape), window, stride, padding, 1, ceil_mode)
    check_same("grad_output.shape", grad_output.shape, windows.output_shape)
    shares = grad_output / _divisors(windows, count_include_pad, divisor_override)
    grad_input = np.zeros(windows.input_shape)
    for elements, _, inside in windows.taps():
        np.add.at(grad_input, elements, np.where(inside, shares, 0.0))
    return grad_input


def pooling_windows(
    input_shape: Shape,
    window: PerDimension,
    stride: PerDimension | None,
    padding: PerDimension = 0,
    dilation: PerDimension = 1,
    ceil_mode: bool = False,
) -> Windows:
    """The checked windows of a pooling layer. Raises ValueError."""
    _check_rank("input", input_shape)
    window = per_dimension("window", window, 2, at_least=1)
    stride = window if stride is None else per_dimension("stride", stride, 2, at_least=1)
    padding = per_dimension("padding", padding, 2, at_least=0)
    dilation = per_dimension("dilation", dilation, 2, at_least=1)
    counts = []
    for axis, size, taps, step, pad, spread in zip(
        AXES[2], input_shape[2:], window, stride, padding, dilation
    ):
        reach = spread * (taps - 1) + 1
        spare = size + 2 * pad - reach
        count = (spare + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (count - 1) * step >= size + pad:
            count -= 1  # the last window would start after the input
        if size < 1 or count < 1:
            raise ValueError(
                f"the window does not fit: along {axis} it has {taps} elements and reaches over {reach}, "
                f"the padded input has {size + 2 * pad}; use a smaller window"
            )
        if pad > taps // 2:
            raise ValueError(
                f"padding is {pad} along {axis}, more than half of the window, which has {taps} elements; "
                f"take at most {taps // 2}"
            )
        counts.append(count)
    windows = Windows(input_shape, (*input_shape[:2], *counts), window, stride, padding, dilation)
    for axis, (name, taps) in enumerate(zip(AXES[2], window)):
        starts = stride[axis] * np.arange(counts[axis]) - padding[axis]
        skipped = -(np.minimum(starts, 0) // dilation[axis])  # elements before the input
        held = (skipped < taps) & (starts + skipped * dilation[axis] < input_shape[2 + axis])
        if not held.all():
            raise ValueError(
                f"window {np.argmin(held)} along {name} holds no element of the input: dilation "
                f"{dilation[axis]} makes it step over the input; use a smaller dilation or less padding"
            )
    return windows


def _divisors(windows: Windows, count_include_pad: bool, override: int | None) -> NDArray | int:
    if override is None:
        return windows.divisors(count_include_pad)
    if not isinstance(override, (int, np.integer)) or override == 0:
        raise ValueError(f"divisor_override is {override!r}; it must be a whole number other than 0, or None")
    return override


def _check_rank(name: str, shape: Shape) -> None:
    if len(shape) != 4:
        raise ValueError(
            f"{name} {shape} has {len(shape)} dimensions; it must be (N, C, H, W), with the batch size N "
            "even when it is 1"
        )
