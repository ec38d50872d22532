"""Tensor maps on a GPU: by the driver's encoder."""

from __future__ import annotations

import numpy

from backwarp.devices.tensor_map import FILLS, SWIZZLES, TYPES
from backwarp.errors import LaunchError


def encoded(address: int, fields: dict) -> numpy.ndarray:
    """The 128 bytes of a CUtensorMap, as a kernel's argument. fields: see TensorMap. Errors: LaunchError."""
    from cuda.bindings import driver

    def wide(values):
        return [driver.cuuint64_t(n) for n in values]

    def narrow(values):
        return [driver.cuuint32_t(n) for n in values]

    type_ = driver.CUtensorMapDataType(list(TYPES).index(fields["dtype"]))
    head = type_, len(fields["dims"]), address, wide(fields["dims"]), wide(fields["strides"])
    tail = (
        driver.CUtensorMapInterleave(0),
        driver.CUtensorMapSwizzle(SWIZZLES.index(fields["swizzle"])),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill(FILLS.index(fields["oob"])),
    )
    if fields["lower"]:
        corners = list(fields["lower"]), list(fields["upper"])
        code, made = driver.cuTensorMapEncodeIm2col(
            *head, *corners, *fields["box"], narrow(fields["steps"]), *tail
        )
    else:
        code, made = driver.cuTensorMapEncodeTiled(
            *head, narrow(fields["box"]), narrow(fields["steps"]), *tail
        )
    if int(code):
        raise LaunchError(f"the driver refuses the tensor map ({code.name})", "cudaErrorInvalidValue")
    return numpy.array([int(word) for word in made.opaque], numpy.uint64).view("V128")[0]
