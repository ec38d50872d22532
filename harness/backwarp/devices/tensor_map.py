"""Tensor maps: what a kernel's `const __grid_constant__ CUtensorMap` parameter is given, for copies by TMA.

    tiles = device.tensor_map(x, box=(64, 64), swizzle="128B")          # x: 2-D, boxes of 64 rows and 64 columns
    pixels = device.tensor_map_im2col(x, channels=64, pixels=64, lower=(-1, -1), upper=(-1, -1))    # x: N, H, W, C
    kernel(grid, block, (tiles, pixels, y))

Axes are those of the array, outermost first; coordinates in a kernel run the other way round, innermost first. All
limits of the driver's encoder are checked here, so that a map that is accepted works on a GPU too.

Source: CUDA Driver API, "Tensor Map Object Management" (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import LaunchError

NBYTES = 128  # of a CUtensorMap
SWIZZLES = ("none", "32B", "64B", "128B")
FILLS = ("zeros", "nan")
#: names of CUtensorMapDataType; those of NumPy's types, and two that NumPy has no type for
TYPES = {
    **{name: name.upper() for name in ("uint8", "uint16", "uint32", "int32", "uint64", "int64")},
    **{name: name.upper() for name in ("float16", "float32", "float64")},
    "bfloat16": "BFLOAT16",
}
_STAND_IN = {"bfloat16": "uint16"}
_LONGEST_AXIS, _LONGEST_STRIDE = 1 << 32, 1 << 40
_LARGEST_BOX, _LARGEST_STEP, _MOST_CHANNELS, _MOST_PIXELS = 256, 8, 256, 1024
_CORNER_BITS = {3: 16, 4: 8, 5: 5}  # by rank


@dataclass(frozen=True)
class TensorMap:
    """Everything innermost first, as the driver has it. dims: elements. strides: bytes, of all axes but the first. box:
    elements of a tile; for im2col, channels and pixels. steps: every how manyeth element. lower, upper: corners of the box
    of pixels, "" for tiles. Keeps its array alive."""

    array: object
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: str = "none"
    oob: str = "zeros"
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    device: object = field(default=None, compare=False)

    @property
    def nbytes(self) -> int:
        """Of an element."""
        return np.dtype(_STAND_IN.get(self.dtype, self.dtype)).itemsize

    def get(self) -> np.ndarray:
        """Its 128 bytes (uint8), for a member of a struct, a __constant__ variable or an array of maps; they are a map as long as
        the array lives."""
        return np.frombuffer(self.device.map_bytes(self), np.uint8).copy()

    @property
    def fields(self) -> dict[str, object]:
        """As plain data, without the array."""
        names = ("dtype", "dims", "strides", "box", "steps", "swizzle", "oob", "lower", "upper")
        return {name: getattr(self, name) for name in names}


def tensor_map(
    device,
    array,
    box: Sequence[int],
    swizzle: str = "none",
    element_strides: Sequence[int] = (),
    oob: str = "zeros",
    dtype: str = "",
    shape: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> TensorMap:
    """A map for copies of tiles. box: elements per axis. element_strides: a tile takes every so-manyeth element. oob: what is
    read outside, "zeros" or "nan". dtype: "bfloat16" for an array of uint16. shape, strides (bytes): another view of the
    array's memory than its own. Errors: LaunchError, for everything that the driver's encoder refuses."""
    name, size, shape, strides = _view(device, array, dtype, shape, strides, oob, swizzle)
    rank = len(shape)
    if not 1 <= rank <= 5:
        raise _invalid(f"a tensor map has 1 to 5 axes; {_name(array)} has {rank}")
    box, steps = (
        _per_axis("box", box, rank),
        _per_axis("element_strides", element_strides or [1] * rank, rank),
    )
    for axis, (n, step) in enumerate(zip(box, steps)):
        if not 1 <= n <= _LARGEST_BOX:
            raise _invalid(f"the box has {n} elements along axis {axis}; it may have 1 to {_LARGEST_BOX}")
        if not 1 <= step <= _LARGEST_STEP:
            raise _invalid(f"the element stride of axis {axis} is {step}; it may be 1 to {_LARGEST_STEP}")
    _check_row(box[-1] * size, swizzle, "box")
    return TensorMap(
        array, name, shape[::-1], strides[-2::-1], box[::-1], steps[::-1], swizzle, oob, device=device
    )


def tensor_map_im2col(
    device,
    array,
    channels: int,
    pixels: int,
    lower: Sequence[int],
    upper: Sequence[int],
    swizzle: str = "none",
    element_strides: Sequence[int] = (),
    oob: str = "zeros",
    dtype: str = "",
    shape: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> TensorMap:
    """A map for copies of the pixels that a convolution reads. array: images x (depth x height x) width x channels. lower, upper:
    corners of the box in which pixels begin, relative to an image's first and last, per spatial axis: for a convolution
    -padding, and padding - (filter - 1) * dilation. element_strides: those of the convolution, per spatial axis. The others:
    see `tensor_map`."""
    name, size, shape, strides = _view(device, array, dtype, shape, strides, oob, swizzle)
    rank = len(shape)
    if not 3 <= rank <= 5:
        raise _invalid(
            f"an im2col map has 3 to 5 axes (images, 1 to 3 of pixels, channels); {_name(array)} has {rank}"
        )
    spatial, limit = rank - 2, 1 << _CORNER_BITS[rank] - 1
    lower, upper = _per_axis("lower", lower, spatial), _per_axis("upper", upper, spatial)
    steps = _per_axis("element_strides", element_strides or [1] * spatial, spatial)
    for axis, corner in enumerate((*lower, *upper)):
        if not -limit <= corner < limit:
            which = "lower" if axis < spatial else "upper"
            raise _invalid(
                f"{which}[{axis % spatial}] is {corner}; with {rank} axes it may be {-limit} to {limit - 1}"
            )
    for axis, step in enumerate(steps):
        if not 1 <= step <= _LARGEST_STEP:
            raise _invalid(f"the element stride of axis {axis + 1} is {step}; it may be 1 to {_LARGEST_STEP}")
    for axis, n in enumerate(shape[1:-1]):
        if n + upper[axis] - lower[axis] < 1:
            raise _invalid(
                f"the box of pixels is empty along axis {axis + 1}: {n} + {upper[axis]} - {lower[axis]}"
            )
    if not 1 <= channels <= _MOST_CHANNELS:
        raise _invalid(f"a copy takes {channels} channels; it may take 1 to {_MOST_CHANNELS}")
    if not 1 <= pixels <= _MOST_PIXELS:
        raise _invalid(f"a copy takes {pixels} pixels; it may take 1 to {_MOST_PIXELS}")
    _check_row(channels * size, swizzle, "copy's channels")
    return TensorMap(
        array,
        name,
        shape[::-1],
        strides[-2::-1],
        (channels, pixels),
        (1, *steps[::-1], 1),
        swizzle,
        oob,
        lower[::-1],
        upper[::-1],
        device,
    )


def _view(device, array, dtype, shape, strides, oob, swizzle) -> tuple[str, int, tuple, tuple]:
    """(name of the type, bytes of an element, shape, strides in bytes)"""
    if getattr(array, "device", None) is not device:
        raise _invalid("a tensor map is of an array of the same device: device.array(...)")
    own = str(np.dtype(array.dtype))
    name = dtype or own
    if name not in TYPES or _STAND_IN.get(name, name) != own:
        known = ", ".join(TYPES)
        raise _invalid(
            f"a tensor map of {own} as {name}: its types are {known} (bfloat16: of an array of uint16)"
        )
    if swizzle not in SWIZZLES or oob not in FILLS:
        raise _invalid(
            f"swizzle={swizzle!r}, oob={oob!r}: one of {', '.join(SWIZZLES)}, and one of {', '.join(FILLS)}"
        )
    if oob == "nan" and "float" not in name:
        raise _invalid(f"oob='nan' is for floating-point types; this map is of {name}")
    size = np.dtype(array.dtype).itemsize
    given, shape = bool(shape), tuple(map(int, shape or array.shape))
    if strides and len(strides) != len(shape):
        raise _invalid(f"{len(strides)} strides for {len(shape)} axes")
    strides = tuple(map(int, strides)) or tuple(
        size * int(np.prod(shape[axis + 1 :], dtype=object)) for axis in range(len(shape))
    )
    if strides and strides[-1] != size:
        raise _invalid(
            f"the innermost axis has a stride of {strides[-1]} bytes; it must be that of an element, {size}"
        )
    for axis, n in enumerate(shape):
        if not 1 <= n <= _LONGEST_AXIS:
            raise _invalid(f"axis {axis} has {n} elements; it may have 1 to {_LONGEST_AXIS}")
    for axis, stride in enumerate(strides[:-1]):
        if stride % 16 or not 0 < stride < _LONGEST_STRIDE:
            raise _invalid(
                f"one step along axis {axis} of {_name(array)} is {stride} bytes; with TMA it is a multiple of 16: pad the"
                " innermost axis"
            )
    reached = sum((n - 1) * stride for n, stride in zip(shape, strides)) + size
    if given and reached > array.nbytes:
        raise _invalid(f"the map reaches {reached} bytes; {_name(array)} has {array.nbytes}")
    return name, size, shape, strides


def _check_row(nbytes: int, swizzle: str, what: str) -> None:
    """A row of what a copy brings."""
    if nbytes % 16:
        raise _invalid(f"the innermost axis of the {what} takes {nbytes} bytes; it takes a multiple of 16")
    if swizzle != "none" and nbytes > int(swizzle[:-1]):
        raise _invalid(
            f"the innermost axis of the {what} takes {nbytes} bytes; with swizzle={swizzle!r} at most {swizzle[:-1]}"
        )


def _per_axis(what: str, values: Sequence[int], rank: int) -> tuple[int, ...]:
    values = tuple(map(int, (values,) if isinstance(values, int) else values))
    if len(values) != rank:
        raise _invalid(f"{what} has {len(values)} numbers for {rank} ax{'es' if rank > 1 else 'is'}")
    return values


def _name(array) -> str:
    return getattr(array, "name", "the array")


def _invalid(message: str) -> LaunchError:
    return LaunchError(message, "cudaErrorInvalidValue")
