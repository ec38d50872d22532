"""The sums that misconceptions are made of: with nothing wrong, they are those of the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.course.conv_mistakes import (  # fmt: skip
    convolution,
    grid_sum,
    image_sum,
    position,
    transposed,
    truncated,
    weight_sum,
)
from reference import conv

some = st.integers


@st.composite
def dims(draw):
    """Sizes of a convolution whose filter fits, as puzzles name them, and its arrays."""
    d = dict(batch=2, groups=draw(some(1, 2)))
    d["C_in"], d["C_out"] = (d["groups"] * draw(some(1, 3)) for _ in range(2))
    for axis, taps, size in (("h", "R", "H"), ("w", "S", "W")):
        stride, pad, dilation, count = (draw(some(low, 3)) for low in (1, 0, 1, 1))
        d |= {f"stride_{axis}": stride, f"pad_{axis}": pad, f"dilation_{axis}": dilation, taps: count}
        reach = dilation * (count - 1) + 1
        d[size] = max(1, reach - 2 * pad) + draw(some(0, 4))
        d[f"{size}_out"] = (d[size] + 2 * pad - reach) // stride + 1
    return d


def arrays(d):
    rng = np.random.default_rng(0)
    image = rng.standard_normal((d["batch"], d["C_in"], d["H"], d["W"]))
    grid = rng.standard_normal((d["batch"], d["C_out"], d["H_out"], d["W_out"]))
    weights = rng.standard_normal((d["C_out"], d["C_in"] // d["groups"], d["R"], d["S"]))
    return image, grid, weights


def options(d):
    pairs = {"stride": "stride", "padding": "pad", "dilation": "dilation"}
    return {name: (d[f"{ours}_h"], d[f"{ours}_w"]) for name, ours in pairs.items()} | {"groups": d["groups"]}


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(dims())
def test_a_layer_without_a_mistake_gives_the_sums_of_the_reference(d):
    image, grid, weights = arrays(d)
    layer, right = convolution(d), options(d)
    same = np.testing.assert_allclose
    same(grid_sum(layer, image, weights), conv.forward(image, weights, **right), atol=1e-12)
    same(
        image_sum(layer, grid, weights), conv.backward_input(grid, weights, image.shape, **right), atol=1e-12
    )
    same(
        weight_sum(layer, grid, image), conv.backward_weights(grid, image, weights.shape, **right), atol=1e-12
    )


def test_a_transposed_layer_has_its_output_for_the_image():
    d = dict(C_in=4, C_out=6, H=2, W=3, H_out=7, W_out=5, R=3, S=2, stride_h=2, groups=2, batch=1)
    layer = transposed(d)
    assert (layer.C, layer.K, layer.H, layer.W, layer.P, layer.Q) == (6, 4, 7, 5, 2, 3)
    assert layer.rows == (2, 0, 1) and layer.columns == (1, 0, 1)


def test_rows_and_columns_are_swapped_by_name():
    d = dict(C_in=1, C_out=1, H=1, W=1, H_out=1, W_out=1, R=1, S=1, stride_h=2, stride_w=3, pad_h=1, pad_w=0)
    layer = convolution(d).swapped("stride", "pad")
    assert layer.rows == (3, 0, 1) and layer.columns == (2, 1, 1)


def test_division_rounds_towards_zero_as_in_c():
    quotient, remainder = truncated(np.array([-3, -2, -1, 0, 1, 3]), 2)
    assert quotient.tolist() == [-1, -1, 0, 0, 0, 1]
    assert remainder.tolist() == [-1, 0, -1, 0, 1, 1]


@pytest.mark.parametrize(("steps", "there"), [(-2, -1), (-1, -1), (0, 0), (1, -1), (2, 1)])
def test_a_position_exists_at_multiples_of_the_stride(steps, there):
    assert position(np.array([steps]), 0, 2, 0, 1) == there
