"""The checked shapes and parameters of a convolution, which `conv` needs before it computes.

Anything impossible is a ValueError that says which sizes do not match, and which would.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float64]
Shape = tuple[int, ...]
PerDimension = int | Sequence[int]
Padding = int | Sequence[int | tuple[int, int]]

AT_ONCE = 1 << 16  # elements of images whose patches are in memory at the same time
AXES = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


@dataclass(frozen=True)
class Plan:
    """One checked convolution: its shapes, and its parameters with one entry per spatial dimension.

    Image and grid are input and output of a convolution, output and input of a transposed one.
    """

    image_shape: Shape  # (N, C, H, W)
    weight_shape: Shape  # (K, C / groups, R, S)
    grid_shape: Shape  # (N, K, P, Q)
    stride: Shape
    padding: tuple[tuple[int, int], ...]  # (before, after)
    dilation: Shape
    groups: int

    def taps(self) -> tuple[tuple[tuple, tuple], ...]:
        """For each filter tap (r, s): the index of its weights, and of the image elements it meets.

        Both index the last axes of an array. The second belongs to the padded image and selects one element
        per grid position: row p * stride + r * dilation for p = 0, 1, ... P - 1, and columns likewise.
        """
        return _taps(self.weight_shape[2:], self.grid_shape[2:], self.stride, self.dilation)

    def positions(self) -> tuple[tuple[tuple, tuple], ...]:
        """For each grid position: its index, and that of the image elements that its taps meet."""
        return _taps(self.grid_shape[2:], self.weight_shape[2:], self.dilation, self.stride)

    def met(self, image: Array) -> Iterator[tuple[slice, Array]]:
        """For a few images of the batch at a time: which they are, and the padded element that each channel and filter tap
        meets at each grid position, (images, groups, C / groups * R * S, P * Q)."""
        padded = self.by_group(self.padded(image), axis=1)
        dims = len(self.stride)
        reach = [spread * (taps - 1) + 1 for taps, spread in zip(self.weight_shape[2:], self.dilation)]
        windows = sliding_window_view(padded, reach, tuple(range(-dims, 0)))
        every = [slice(None, (p - 1) * step + 1, step) for p, step in zip(self.grid_shape[2:], self.stride)]
        taps = [slice(None, None, spread) for spread in self.dilation]
        windows = windows[(..., *every, *taps)].transpose(
            0, 1, 2, *range(3 + dims, 3 + 2 * dims), *range(3, 3 + dims)
        )
        size = self.groups, math.prod(self.weight_shape[1:]), math.prod(self.grid_shape[2:])
        few = max(AT_ONCE // math.prod(size), 1)
        for first in range(0, len(windows), few):
            these = slice(first, first + few)
            yield these, windows[these].reshape(-1, *size)

    def padded(self, image: Array) -> Array:
        """The padded image; the image itself if there is no padding."""
        if not any(map(any, self.padding)):
            return image
        return np.pad(image, ((0, 0), (0, 0), *self.padding))

    def cropped(self, padded: Array) -> Array:
        inside = [
            slice(before, before + size) for (before, _), size in zip(self.padding, self.image_shape[2:])
        ]
        return padded[(..., *inside)]

    def by_group(self, array: Array, axis: int) -> Array:
        """The channels at `axis` as two axes: group, and channel within the group."""
        *front, channels = array.shape[: axis + 1]
        return array.reshape(*front, self.groups, channels // self.groups, *array.shape[axis + 1 :])


@lru_cache(256)
def _taps(filter: Shape, grid: Shape, stride: Shape, dilation: Shape) -> tuple[tuple[tuple, tuple], ...]:
    per_dimension = list(zip(grid, stride, dilation))
    taps = []
    for tap in np.ndindex(*filter):
        window = [
            slice(r * dilation, r * dilation + (positions - 1) * stride + 1, stride)
            for r, (positions, stride, dilation) in zip(tap, per_dimension)
        ]
        taps.append(((..., *tap), (..., *window)))
    return tuple(taps)


# ---- shapes and parameters ----------------------------------------------------------------------


def convolution_plan(input_shape, weight_shape, stride, padding, dilation, groups) -> Plan:
    """The plan of an ordinary convolution, whose grid is its output. Raises ValueError."""
    dims = _check_ranks(input_shape, weight_shape)
    stride, padding, dilation = _parameters(stride, padding, dilation, dims)
    groups = _whole("groups", groups, at_least=1)

    N, C = input_shape[:2]
    K, channels_of_a_group = weight_shape[:2]
    _check_divisible("output channels (weight.shape[0])", K, groups)
    _check_divisible("input channels (input.shape[1])", C, groups)
    if C // groups != channels_of_a_group:
        raise ValueError(
            f"weight {weight_shape} has {channels_of_a_group} channels per filter, but input {input_shape} "
            f"has {C} channels in groups={groups}; weight.shape[1] must be {C} / {groups} = {C // groups}"
        )

    grid_sizes = []
    for axis, size, taps, (before, after), step, spread in zip(
        AXES[dims], input_shape[2:], weight_shape[2:], padding, stride, dilation
    ):
        reach = spread * (taps - 1) + 1
        if reach > size + before + after:
            raise ValueError(
                f"the filter does not fit: along {axis} it reaches over {reach} elements ({taps} taps, "
                f"dilation {spread}), the padded input has {size + before + after} "
                f"({before} + {size} + {after}); use a smaller filter or dilation, or more padding"
            )
        grid_sizes.append((size + before + after - reach) // step + 1)
    return Plan(input_shape, weight_shape, (N, K, *grid_sizes), stride, padding, dilation, groups)


def transposed_plan(input_shape, weight_shape, stride, padding, output_padding, groups, dilation) -> Plan:
    """The plan of a transposed convolution, whose grid is its input. Raises ValueError."""
    dims = _check_ranks(input_shape, weight_shape)
    stride, padding, dilation = _parameters(stride, padding, dilation, dims)
    output_padding = per_dimension("output_padding", output_padding, dims, at_least=0)
    groups = _whole("groups", groups, at_least=1)

    N, C = input_shape[:2]
    _check_divisible("input channels (input.shape[1])", C, groups)
    if C != weight_shape[0]:
        raise ValueError(
            f"weight {weight_shape} is for {weight_shape[0]} input channels, but input {input_shape} has "
            f"{C}; a transposed convolution takes weight as (C, K/groups, ...), so weight.shape[0] must be "
            "input.shape[1]"
        )

    image_sizes = []
    for axis, size, taps, (before, after), extra, step, spread in zip(
        AXES[dims], input_shape[2:], weight_shape[2:], padding, output_padding, stride, dilation
    ):
        if size < 1:
            raise ValueError(f"input {input_shape} is empty along {axis}; it needs at least one element")
        if extra >= max(step, spread):
            raise ValueError(
                f"output_padding is {extra} along {axis}; it must be smaller than the stride, {step}, or "
                f"the dilation, {spread}: take at most {max(step, spread) - 1}"
            )
        unpadded = (size - 1) * step + spread * (taps - 1) + extra + 1
        if unpadded - before - after < 1:
            raise ValueError(
                f"nothing is left of the output along {axis}: it has {unpadded} elements, of which padding "
                f"takes away {before} + {after}; use less padding"
            )
        image_sizes.append(unpadded - before - after)
    image_shape = (N, weight_shape[1] * groups, *image_sizes)
    return Plan(image_shape, weight_shape, input_shape, stride, padding, dilation, groups)


def aten_plan(
    input_shape, weight_shape, stride, padding, dilation, transposed, output_padding, groups
) -> Plan:
    """The plan for the arguments of PyTorch's aten::convolution. Raises ValueError.

    As in ATen, padding is the same on both sides, and output_padding must be 0 unless transposed.
    """
    dims = spatial_dims(weight_shape)
    padding = per_dimension("padding", padding, dims, at_least=0)
    output_padding = per_dimension("output_padding", output_padding, dims, at_least=0)
    if transposed:
        return transposed_plan(input_shape, weight_shape, stride, padding, output_padding, groups, dilation)
    if any(output_padding):
        raise ValueError(
            f"output_padding is {output_padding}, but this convolution is not transposed; make it 0"
        )
    return convolution_plan(input_shape, weight_shape, stride, padding, dilation, groups)


def check_backward(plan: Plan, transposed, grad_output_shape, bias_sizes, output_mask) -> tuple[bool, ...]:
    """The entries of output_mask, if they match the plan. Raises ValueError."""
    if len(output_mask) != 3:
        raise ValueError(
            f"output_mask has {len(output_mask)} entries; it takes three booleans: input, weight, bias"
        )
    output_shape = plan.image_shape if transposed else plan.grid_shape
    check_same("grad_output.shape", grad_output_shape, output_shape)
    if output_mask[2] and bias_sizes is not None:
        check_same("bias_sizes", as_shape("bias_sizes", bias_sizes), (output_shape[1],))
    return tuple(map(bool, output_mask))


def spatial_dims(weight_shape: Shape) -> int:
    """The number of spatial dimensions, determined by the weight."""
    if not 3 <= len(weight_shape) <= 5:
        raise ValueError(
            f"weight has {len(weight_shape)} dimensions, shape {weight_shape}; it must have two for the "
            "channels, then one, two or three for the filter, as in (K, C/groups, R, S)"
        )
    if 0 in weight_shape[2:]:
        raise ValueError(
            f"weight {weight_shape} has a filter without taps; every filter size must be at least 1"
        )
    return len(weight_shape) - 2


def _check_ranks(input_shape: Shape, weight_shape: Shape) -> int:
    """The number of spatial dimensions, if input and weight agree on it."""
    dims = spatial_dims(weight_shape)
    if len(input_shape) != dims + 2:
        raise ValueError(
            f"input has {len(input_shape)} dimensions, shape {input_shape}, but weight {weight_shape} has "
            f"{dims + 2}; input must be batch, channels, then one size per filter dimension, with the batch "
            "size N even when it is 1: input[np.newaxis]"
        )
    return dims


def _check_divisible(what: str, channels: int, groups: int) -> None:
    if channels % groups:
        raise ValueError(
            f"{channels} {what} cannot be divided into groups={groups}; take a number of groups that "
            f"divides {channels}"
        )


def check_same(name: str, got: Shape, expected: Shape) -> None:
    if got != expected:
        raise ValueError(
            f"{name} is {got}, but the other shapes and the parameters make it {expected}; check that all "
            "of them belong to the same convolution"
        )


def as_shape(name: str, sizes: Sequence[int]) -> Shape:
    if not isinstance(sizes, (Sequence, np.ndarray)):
        raise ValueError(f"{name} is {sizes!r}; it must be a whole shape, such as (2, 3, 7, 5)")
    return tuple(_whole(f"an entry of {name}", size, at_least=0) for size in sizes)


def _parameters(stride, padding, dilation, dims: int) -> tuple[Shape, tuple[tuple[int, int], ...], Shape]:
    return (
        per_dimension("stride", stride, dims, at_least=1),
        _pairs(padding, dims),
        per_dimension("dilation", dilation, dims, at_least=1),
    )


def per_dimension(name: str, value: PerDimension, dims: int, at_least: int) -> Shape:
    return tuple(_whole(name, v, at_least) for v in _spread_over(name, value, dims))


def _pairs(padding: Padding, dims: int) -> tuple[tuple[int, int], ...]:
    """Padding as one (before, after) per dimension; a plain number means the same on both sides."""
    pairs = []
    for entry in _spread_over("padding", padding, dims):
        pair = tuple(entry) if isinstance(entry, (Sequence, np.ndarray)) else (entry, entry)
        if len(pair) != 2:
            raise ValueError(f"padding has the entry {entry!r}; each is one number or a pair (before, after)")
        pairs.append(tuple(_whole("padding", p, at_least=0) for p in pair))
    return tuple(pairs)


def _spread_over(name: str, value, dims: int) -> list:
    """One entry per dimension; a single one applies to all."""
    entries = list(value) if isinstance(value, (Sequence, np.ndarray)) else [value]
    if len(entries) not in (1, dims):
        raise ValueError(
            f"{name} {value!r} has {len(entries)} entries, but the filter has {dims} "
            f"dimension{'s' * (dims > 1)}; give one number, or one entry per dimension"
        )
    return entries * dims if len(entries) == 1 else entries


def _whole(name: str, value, at_least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; only whole numbers will do there") from None
    if number < at_least:
        raise ValueError(f"{name} is {number}; it must be at least {at_least}")
    return number
