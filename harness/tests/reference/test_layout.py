"""Layouts against loops, by their properties, and against PyTorch's channels_last."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import layout

SIZES = {"N": 2, "C": 3, "H": 4, "W": 5, "K": 6, "R": 2, "S": 7}
PAIRS = [
    ("NCHW", "NHWC"),
    ("NHWC", "NCHW"),
    ("KCRS", "RSCK"),
    ("RSCK", "KCRS"),
    ("KCRS", "KRSC"),
    ("kc", "CK"),
    ("NCHW", "NCHW"),
]


def numbered(source):
    shape = [SIZES[axis] for axis in source.upper()]
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_element_finds_its_place(source, target):
    x = numbered(source)
    y = layout.convert(x, source, target)
    assert y.shape == tuple(SIZES[axis] for axis in target.upper())
    assert y.dtype == x.dtype and y.flags.c_contiguous and not np.shares_memory(x, y)
    for index in np.ndindex(x.shape):
        at = dict(zip(source.upper(), index))
        assert y[tuple(at[axis] for axis in target.upper())] == x[index]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_there_and_back_is_nothing(source, target):
    x = numbered(source)
    np.testing.assert_array_equal(layout.convert(layout.convert(x, source, target), target, source), x)


def test_the_gradient_of_a_layout_is_the_way_back():
    """A change of layout is linear, so <g, convert(x)> = <convert back(g), x>."""
    random = np.random.default_rng(0)
    x, g = random.normal(size=(2, 3, 4, 5)), random.normal(size=(2, 4, 5, 3))
    forward, back = layout.convert(x, "NCHW", "NHWC"), layout.convert(g, "NHWC", "NCHW")
    assert (g * forward).sum() == pytest.approx((back * x).sum())


def test_steps_are_those_of_memory():
    assert layout.steps("NCHW", (2, 3, 5, 7)) == {"N": 105, "C": 35, "H": 7, "W": 1}
    x = layout.convert(numbered("NCHW"), "NCHW", "NHWC")
    assert list(layout.steps("NHWC", x.shape).values()) == [s // x.itemsize for s in x.strides]
    assert layout.steps("NHWC", (2, 0, 5, 3)) == {"N": 0, "H": 15, "W": 3, "C": 1}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: layout.convert(np.ones((1, 1, 1, 1)), "NCHW", "KCRS"), "different axes"),
        (lambda: layout.convert(np.ones((1, 1, 1)), "NCHW", "NHWC"), "has 3 axes"),
        (lambda: layout.convert(np.ones((1, 1)), "CC", "CC"), "twice"),
        (lambda: layout.steps("NCHW", (1, 2, 3)), "needs 4 sizes, not 3"),
    ],
)
def test_what_cannot_be_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_equals_pytorch():
    torch = pytest.importorskip("torch")
    x = numbered("NCHW")
    t = torch.tensor(x).contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(
        layout.convert(x, "NCHW", "NHWC").ravel(), t.as_strided((t.numel(),), (1,)).numpy()
    )
    assert list(t.stride()) == [layout.steps("NHWC", (2, 4, 5, 3))[axis] for axis in "NCHW"]
