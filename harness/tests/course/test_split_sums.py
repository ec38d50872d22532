"""Puzzle 22: with atomics, two runs differ in the last bits; in two passes, all runs are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backwarp.course.checkout import open_course
from backwarp.devices import open_device

SOLUTION = open_course(Path(__file__).resolve().parent).load("22").solution_path.read_text(encoding="utf-8")
STORE = "partial[(part * C_out * C_in * F + row) * F + threadIdx.x] = total;"
ATOMIC = SOLUTION.replace(STORE, "atomicAdd(&partial[row * F + threadIdx.x], total);")
N, C, H, W, K, F, PARTS = 8, 6, 12, 12, 2, 5, 8  # of LeNet's second layer, an image a part
WEIGHTS = K * C * F * F
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def device():
    with open_device("cpu", checks="memory") as found:
        yield found


def first_pass(device, source, partial):
    rng = np.random.default_rng(22)
    grad_output = device.array(rng.standard_normal((N, K, H - F + 1, W - F + 1)).astype(np.float32))
    images = device.array(rng.standard_normal((N, C, H, W)).astype(np.float32))
    kernel = device.compile(source).get_function("conv2d_backward_weights_partial")
    kernel((K * C * F, PARTS), 64, (grad_output, images, partial, *map(np.int32, (N, C, H, W, K, F, PARTS))))


def in_two_passes(device):
    partial = device.empty((PARTS, WEIGHTS), np.float32)
    first_pass(device, SOLUTION, partial)
    weights = device.empty((WEIGHTS,), np.float32)
    add = device.compile(SOLUTION).get_function("add_parts")
    add(-(-WEIGHTS // 64), 64, (partial, weights, np.int32(PARTS), np.int32(WEIGHTS)))
    return weights.get()


def with_atomics(device):
    weights = device.array(np.zeros(WEIGHTS, np.float32))
    first_pass(device, ATOMIC, weights)
    return weights.get()


def test_atomics_in_another_order_give_other_bits_and_two_passes_do_not(device):
    assert ATOMIC != SOLUTION
    found = {run: [] for run in (with_atomics, in_two_passes)}
    for run, results in found.items():
        for device.schedule in SEEDS:
            results.append(run(device))
    assert all((x == found[in_two_passes][0]).all() for x in found[in_two_passes])
    assert any((x != found[with_atomics][0]).any() for x in found[with_atomics])
    for x in found[with_atomics]:
        np.testing.assert_allclose(x, found[in_two_passes][0], rtol=0, atol=2e-4)
