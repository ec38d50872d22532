"""Reading untrusted NumPy files: every header is checked before it is used. And arrays without contents."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import numpy as np

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_KINDS = "biufcV"  # numbers, and structs of numbers


class Empty(np.ndarray):
    """An array whose memory stays uninitialised: a kernel that reads it is reported."""


def read(path: str | os.PathLike) -> np.ndarray:
    """The array of a `.npy` file, in this machine's byte order.

    Errors: OSError; ValueError, which says what is wrong with it.
    """
    # non-blocking, so that a pipe or an endless device cannot hang us
    with open(os.open(Path(path), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        shape, fortran, dtype = _header(file)
        count, there = math.prod(shape), found.st_size - file.tell()
        if any(n < 0 for n in shape) or count * dtype.itemsize != there:
            raise ValueError(f"its header promises {count * dtype.itemsize} bytes, and {there} are there")
        data = np.fromfile(file, dtype, count)
    if data.size != count:
        raise ValueError("it was changed while it was read")
    data = data.reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(data.astype(dtype.newbyteorder("="), copy=False)).reshape(shape)


def _header(file) -> tuple[tuple[int, ...], bool, np.dtype]:
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = _HEADERS[version](file)
    except Exception:  # whatever a damaged header can raise
        raise ValueError("its header is damaged") from None
    if not _is_of_numbers(dtype):
        raise ValueError(f"its elements are {str(dtype)[:40]}, not numbers")
    if len(shape) > 32 or math.prod(shape) > 1 << 62:
        raise ValueError("its header is damaged")
    return shape, fortran, dtype


def _is_of_numbers(dtype: np.dtype) -> bool:
    if dtype.subdtype:
        return _is_of_numbers(dtype.base)
    if dtype.fields:
        return all(_is_of_numbers(field[0]) for field in dtype.fields.values())
    return dtype.kind in _KINDS and not dtype.hasobject and dtype.itemsize > 0
