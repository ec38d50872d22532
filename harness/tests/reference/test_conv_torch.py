"""The oracle against PyTorch, on parameters drawn at random; only where PyTorch is installed."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import conv

from tests import convolutions
from tests.convolutions import Layer

EXAMPLES = range(200)


@pytest.fixture(scope="module")
def torch():
    """Imported where a test needs it: that takes a second."""
    found = pytest.importorskip("torch")
    found.set_num_threads(1)
    return found


def normal(seed: int, *shapes: tuple[int, ...]):
    random = np.random.default_rng(seed)
    return [random.normal(size=shape) for shape in shapes]


def close(got, expected) -> None:
    assert got.shape == tuple(expected.shape)
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-10, atol=1e-10)


def check_against_torch(torch, layer: Layer, mask: tuple[bool, bool, bool]) -> None:
    channels = layer.output_channels
    x, w, b = normal(0, layer.input, layer.weight, (channels,))
    parameters = dict(
        stride=layer.stride, padding=layer.padding, dilation=layer.dilation, groups=layer.groups
    )
    if layer.transposed:
        parameters["output_padding"] = layer.output_padding
    forward = conv.transposed if layer.transposed else conv.forward

    y = forward(x, w, b, **parameters)
    close(y, torch.ops.aten.convolution(*map(torch.from_numpy, (x, w, b)), *layer.aten))

    (g,) = normal(1, y.shape)
    expected = torch.ops.aten.convolution_backward(
        *map(torch.from_numpy, (g, x, w)), [channels], *layer.aten, mask
    )
    for got, want in zip(
        conv.convolution_backward(g, x, w, [channels], *layer.aten, mask), expected, strict=True
    ):
        assert (got is None) == (want is None)
        if want is not None:
            close(got, want)


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution(torch, transposed):
    for seed in EXAMPLES:
        rng = np.random.default_rng(seed)
        check_against_torch(torch, convolutions.layer(rng, transposed), convolutions.mask(rng))


def test_asymmetric_padding(torch):
    for seed in EXAMPLES:
        rng = np.random.default_rng(seed)
        layer = convolutions.layer(rng, transposed=False)
        more = [((0, 0), (0, 1), (2, 0))[rng.integers(3)] for _ in layer.padding]
        check_asymmetric_padding(torch, layer, more)


def check_asymmetric_padding(torch, layer: Layer, extra: list[tuple[int, int]]) -> None:
    """ATen has no such padding: the image is padded first, and autograd crops the gradient."""
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
