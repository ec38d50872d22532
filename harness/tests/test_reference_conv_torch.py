"""The oracle against PyTorch, on parameters drawn at random; only where PyTorch is installed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference import conv

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

SAME_EVERY_TIME = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


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


@st.composite
def layers(draw, transposed: bool) -> Layer:
    dims = draw(st.integers(1, 3))
    largest = {1: 9, 2: 6, 3: 4}[dims]

    def one_per_dimension(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(dims))

    taps = one_per_dimension(1, 3)
    stride, padding, dilation = one_per_dimension(1, 3), one_per_dimension(0, 2), one_per_dimension(1, 3)
    groups = draw(st.integers(1, 3))
    input_channels = groups * draw(st.integers(1, 3))
    filters_of_a_group = draw(st.integers(1, 3))  # 2 or 3 with one channel per group: depthwise, multiplied
    output_padding = (0,) * dims
    if transposed:
        # the output must keep at least one element
        excess = [2 * p - d * (r - 1) for p, d, r in zip(padding, dilation, taps)]
        shortest = [1 + max(0, math.ceil(e / s)) for e, s in zip(excess, stride)]
        output_padding = tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation))
        weight = (input_channels, filters_of_a_group, *taps)
    else:
        # the filter must fit
        shortest = [max(1, d * (r - 1) + 1 - 2 * p) for r, d, p in zip(taps, dilation, padding)]
        weight = (groups * filters_of_a_group, input_channels // groups, *taps)
    sizes = tuple(draw(st.integers(low, max(low, largest))) for low in shortest)
    batch = draw(st.integers(1, 3))
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


def normal(seed: int, *shapes: tuple[int, ...]):
    random = np.random.default_rng(seed)
    return [random.normal(size=shape) for shape in shapes]


def close(got, expected) -> None:
    assert got.shape == tuple(expected.shape)
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-10, atol=1e-10)


def check_against_torch(layer: Layer, mask: tuple[bool, bool, bool]) -> None:
    channels = layer.weight[1] * layer.groups if layer.transposed else layer.weight[0]
    x, w, b = normal(0, layer.input, layer.weight, (channels,))
    parameters = dict(
        stride=layer.stride, padding=layer.padding, dilation=layer.dilation, groups=layer.groups
    )
    if layer.transposed:
        parameters["output_padding"] = layer.output_padding
    forward = conv.transposed if layer.transposed else conv.forward
    aten = (layer.stride, layer.padding, layer.dilation, layer.transposed, layer.output_padding, layer.groups)

    y = forward(x, w, b, **parameters)
    close(y, torch.ops.aten.convolution(*map(torch.from_numpy, (x, w, b)), *aten))

    (g,) = normal(1, y.shape)
    expected = torch.ops.aten.convolution_backward(*map(torch.from_numpy, (g, x, w)), [channels], *aten, mask)
    for got, want in zip(conv.convolution_backward(g, x, w, [channels], *aten, mask), expected, strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            close(got, want)


masks = st.sampled_from([(True, True, True)] * 3 + [tuple(map(bool, bits)) for bits in np.ndindex(2, 2, 2)])


@SAME_EVERY_TIME
@given(layers(transposed=False), masks)
def test_convolution(layer, mask):
    check_against_torch(layer, mask)


@SAME_EVERY_TIME
@given(layers(transposed=True), masks)
def test_transposed_convolution(layer, mask):
    check_against_torch(layer, mask)


@SAME_EVERY_TIME
@given(layers(transposed=False), st.data())
def test_asymmetric_padding(layer, data):
    """ATen has none: there, the image is padded first, and autograd takes the padding off the gradient."""
    more = st.sampled_from([(0, 0), (0, 1), (2, 0)])
    extra = [data.draw(more) for _ in layer.padding]
    pairs = tuple((p + before, p + after) for p, (before, after) in zip(layer.padding, extra))
    x, w = (torch.from_numpy(a).requires_grad_() for a in normal(0, layer.input, layer.weight))
    padded = torch.nn.functional.pad(x, [p for pair in reversed(pairs) for p in pair])
    zero = [0] * len(pairs)
    y = torch.ops.aten.convolution(
        padded, w, None, layer.stride, zero, layer.dilation, False, zero, layer.groups
    )
    g = torch.from_numpy(normal(1, tuple(y.shape))[0])
    y.backward(g)

    parameters = dict(stride=layer.stride, padding=pairs, dilation=layer.dilation, groups=layer.groups)
    numpy_x, numpy_w, numpy_g = (a.detach().numpy() for a in (x, w, g))
    close(conv.forward(numpy_x, numpy_w, **parameters), y.detach())
    close(conv.backward_input(numpy_g, numpy_w, layer.input, **parameters), x.grad)
    close(conv.backward_weights(numpy_g, numpy_x, layer.weight, **parameters), w.grad)
