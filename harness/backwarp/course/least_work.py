"""What a kernel has to do at least: FLOP, and bytes that have to move."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from .declare import Array, Kernel


def flops(kernel: Kernel, dims: Mapping[str, int]) -> int | None:
    """FLOP of the textbook formula, including products with padding; None if no formula is known.

    As the kernel declares it, else twice the multiply-adds of a convolution, a matrix product or a dense
    layer, recognised by the sizes that the kernel takes.
    """
    if kernel.flops:
        return kernel.flops(dict(dims))
    takes = {p.name for p in kernel.params if not isinstance(p, Array)}
    if {"M", "N", "K"} <= takes:
        return 2 * dims["M"] * dims["N"] * dims["K"]
    if {"n_in", "n_out"} <= takes:
        return 2 * dims["batch"] * dims["n_in"] * dims["n_out"]
    if not {"C_in", "C_out"} <= takes or not takes & {"F", "R"}:
        return None
    taps = dims["F"] ** 2 if "F" in takes else math.prod(dims[n] for n in "TRS" if n in takes)
    end = "" if transposed(kernel) else "_out"
    places = math.prod(dims[f"{n}{end}"] for n in "DHW" if f"{n}{end}" in dims)
    return 2 * dims["batch"] * dims["C_in"] * dims["C_out"] // dims.get("groups", 1) * taps * places


def transposed(kernel: Kernel) -> bool:
    """Does it belong to a transposed convolution?"""
    return any(p.name.startswith("out_pad") for p in kernel.params)


def array_bytes(kernel: Kernel, dims: Mapping[str, int]) -> int:
    """Bytes of all arrays of a kernel."""
    return sum(math.prod(a.shape(dims)) * np.dtype(a.dtype).itemsize for a in kernel.arrays)


def least_bytes(kernel: Kernel, dims: Mapping[str, int]) -> int:
    """Bytes that have to move if every input is read and every output written once."""
    return sum(
        math.prod(a.shape(dims)) * np.dtype(a.dtype).itemsize * (a.is_input + a.is_output)
        for a in kernel.arrays
    )
