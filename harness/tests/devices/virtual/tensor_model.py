"""What copies of tensors bring, in NumPy. Axes are those of the array, outermost first."""

from __future__ import annotations

import numpy as np

BITS = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


def swizzled(offset, swizzle: str):
    """Where a byte lies, of shared memory aligned to 1024 bytes."""
    return offset ^ (offset >> 7 & (1 << BITS[swizzle]) - 1) << 4


def in_memory(tile: np.ndarray, swizzle: str) -> np.ndarray:
    """The bytes of a tile in shared memory."""
    flat = np.ascontiguousarray(tile).view(np.uint8).reshape(-1)
    found = np.empty_like(flat)
    found[swizzled(np.arange(flat.size), swizzle)] = flat
    return found


def element(array: np.ndarray, at, fill):
    inside = all(0 <= x < n for x, n in zip(at, array.shape))
    return array[tuple(at)] if inside else fill


def tile(array: np.ndarray, start, box, steps, fill=0) -> np.ndarray:
    """Of the innermost axis every element counts, whatever its step."""
    steps = (*steps[:-1], 1)
    counts = [-(-n // step) for n, step in zip(box, steps)]
    out = np.empty(counts, array.dtype)
    for index in np.ndindex(*counts):
        out[index] = element(array, [s + i * step for s, i, step in zip(start, index, steps)], fill)
    return out


def im2col(array, start, offsets, channels, pixels, lower, upper, steps, fill=0) -> np.ndarray:
    """start: image, pixel, channel; offsets: of the pixel in the filter."""
    image, *at, channel = start
    ends = [n + u for n, u in zip(array.shape[1:-1], upper)]
    out = np.empty((pixels, channels), array.dtype)
    for p in range(pixels):
        for c in range(channels):
            place = [x + o for x, o in zip(at, offsets)]
            out[p, c] = element(array, [image, *place, channel + c], fill)
        for axis in reversed(range(len(at))):
            at[axis] += steps[axis]
            if at[axis] < ends[axis]:
                break
            at[axis] = lower[axis]
        else:
            image += 1
    return out
