"""Tensor maps as the runtime reads them (TensorMap in state.h), in the 128 bytes of a CUtensorMap."""

from __future__ import annotations

import numpy as np

from ...tensor_map import FILLS, SWIZZLES, TensorMap
from ..runtime import abi


def map_bytes(device, tensor: TensorMap) -> bytes:
    """Of a tensor of this device: see TensorMap.get."""
    return encoded(tensor, tensor.array.pointer)


def encoded(tensor: TensorMap, address: int) -> bytes:
    """A kernel's argument. address: of the tensor's memory, on the device."""
    row = np.zeros((), abi.DTYPES["TensorMap"])
    rank = len(tensor.dims)
    row["magic"], row["address"] = abi.TENSOR_MAGIC, address
    row["dims"], row["strides"], row["box"] = 1, 0, 1
    row["dims"][:rank] = np.minimum(tensor.dims, (1 << 32) - 1)
    row["strides"][: rank - 1], row["box"][: len(tensor.box)] = tensor.strides, tensor.box
    row["size"] = tensor.nbytes
    row["steps"] = sum(step << 4 * axis for axis, step in enumerate(tensor.steps))
    type_ = abi.TENSOR_TYPES.index(tensor.dtype)
    im2col = bool(tensor.lower)
    fields = rank, SWIZZLES.index(tensor.swizzle), FILLS.index(tensor.oob), im2col, type_
    row["kind"] = sum(value << 4 * place for place, value in enumerate(fields))
    for corner in ("lower", "upper"):
        row[corner][: rank - 2 if im2col else 0] = np.array(getattr(tensor, corner), np.int32).view(np.uint32)
    return row.tobytes()
