"""Convolutions of every kind, drawn at random, for tests against PyTorch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Layer:
    transposed: bool
    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int

    @property
    def output_channels(self) -> int:
        return self.weight[1] * self.groups if self.transposed else self.weight[0]

    @property
    def aten(self) -> tuple:
        """The parameters in the order of aten::convolution."""
        return (self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups)


def layer(rng: np.random.Generator, transposed: bool) -> Layer:
    dims = between(rng, 1, 3)
    largest = {1: 9, 2: 6, 3: 4}[dims]

    def one_per_dimension(low, high):
        return tuple(between(rng, low, high) for _ in range(dims))

    taps = one_per_dimension(1, 3)
    stride, padding, dilation = one_per_dimension(1, 3), one_per_dimension(0, 2), one_per_dimension(1, 3)
    groups = between(rng, 1, 3)
    input_channels = groups * between(rng, 1, 3)
    filters_of_a_group = between(rng, 1, 3)  # 2 or 3 with one channel per group: depthwise, multiplied
    output_padding = (0,) * dims
    if transposed:
        # the output must keep at least one element
        excess = [2 * p - d * (r - 1) for p, d, r in zip(padding, dilation, taps)]
        shortest = [1 + max(0, math.ceil(e / s)) for e, s in zip(excess, stride)]
        output_padding = tuple(between(rng, 0, max(s, d) - 1) for s, d in zip(stride, dilation))
        weight = (input_channels, filters_of_a_group, *taps)
    else:
        # the filter must fit
        shortest = [max(1, d * (r - 1) + 1 - 2 * p) for r, d, p in zip(taps, dilation, padding)]
        weight = (groups * filters_of_a_group, input_channels // groups, *taps)
    sizes = tuple(between(rng, low, max(low, largest)) for low in shortest)
    batch = between(rng, 1, 3)
    return Layer(
        transposed,
        (batch, input_channels, *sizes),
        weight,
        stride,
        padding,
        dilation,
        output_padding,
        groups,
    )


def mask(rng: np.random.Generator) -> tuple[bool, bool, bool]:
    """Which gradients are wanted: often all of them."""
    return (True, True, True) if rng.random() < 0.3 else tuple(bool(rng.integers(2)) for _ in range(3))


def between(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))
