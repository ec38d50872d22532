"""One launch for each value of a constant: what faults or never ends is dropped, and memory is as before."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from harness.devices.virtual.confined import ConfinedGPU
from harness.devices.virtual.device import VirtualGPU

SOURCE = """
__constant__ int choice[2];
extern "C" __global__ void k(float* out, int n) {
    while (choice[0] == 2 && n) out[n > 0] += 1.0f;
    out[choice[0] == 1 ? n : 0] += choice[1];
}
"""


@pytest.mark.parametrize("open_device", [VirtualGPU, ConfinedGPU])
@pytest.mark.parametrize("checks", ["full", "memory"])
def test_each_launch_starts_from_the_same_memory(open_device, checks):
    with open_device(checks) as device:
        device.quick, device.step_budget = True, 1 << 12
        kernel = device.compile(SOURCE).get_function("k")
        out = device.array(np.ones(2, np.float32), name="out")
        choices = np.array([[0, 7], [1, 0], [2, 0], [3, 9]], np.int32)
        launch = partial(kernel.variants, "choice", choices, 1, 1, (out, np.int32(2)), (out,))
        well, (values,) = launch(seconds=100)
        assert well.tolist() == [True, False, False, True]
        assert values.tolist() == [[8, 1], [10, 1]] and out.get().tolist() == [1, 1]
        well, (values,) = launch(seconds=0)
        assert well.size == 0 and values.shape == (0, 2)
