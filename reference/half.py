"""Gradients kept as halves: multiplied by a scale, so that small ones are not lost, and summed up again.

A half has 11 significant bits. The smallest is 2**-24, the largest 65,504; what rounds to more is infinite. So the sum
of ones in half ends at 2,048, and a gradient below 2**-25 is 0.

    scaled      half(grad * scale)
    overflow    1 if one of them is not finite, else what it was
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from . import conv
from .conv_plan import Array


def rounded(values: ArrayLike) -> Array:
    """The nearest halves, as float64; infinite where none is near."""
    with np.errstate(over="ignore"):
        return np.asarray(values, float).astype(np.float16).astype(float)


def tf32(values: ArrayLike) -> Array:
    """Floats rounded to 10 bits after the point as cvt.rna.tf32.f32 does, as float64."""
    bits = np.asarray(values, np.float32).view(np.uint32) + np.uint32(0x1000)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(float)


def scaled(grad: ArrayLike, scale: float) -> tuple[Array, Array]:
    """The halves, as float64, and overflow (1,)."""
    halves = rounded(np.asarray(grad, float) * scale)
    return halves, np.array([int(not np.isfinite(halves).all())])


def lost(grad: ArrayLike, scale: float = 1.0) -> float:
    """The share of the gradients that are not 0, but are as halves, multiplied by a scale."""
    grad = np.asarray(grad, float)
    return float(np.mean(rounded(grad[grad != 0] * scale) == 0))


def summed(terms: ArrayLike, run: int) -> float:
    """The sum of terms one after the other: in half for `run` of them, then on in float64, and so forth."""
    terms, total = np.asarray(terms, float), 0.0
    for start in range(0, len(terms), run):
        part = 0.0
        for term in terms[start : start + run]:
            part = float(rounded(part + term))
        total += part
    return total


def backward_weights(scaled: ArrayLike, input: ArrayLike, scale: float, side: int) -> Array:
    """The gradient of the weights (K, C, side, side) from the scaled one of the outputs (N, K, P, Q)."""
    shape = np.shape(scaled)[1], np.shape(input)[1], side, side
    return conv.backward_weights(scaled, input, shape) / scale
