"""One launch for each value of a constant, judged as it runs; memory is as before."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from backwarp.devices.virtual.confined import ConfinedGPU
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.devices.virtual.launch import Execution
from backwarp.devices.virtual.variants import FAULTS, POISON, RIGHT, WRONG, Batch, Wanted
from backwarp.errors import LaunchError

SOURCE = """
__constant__ int choice[2];
extern "C" __global__ void k(float* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (choice[0] != 1 && i >= n) return;
    while (choice[0] == 2 && n) out[n > 0] += 1.0f;
    if (i != 4 || choice[0] != 4) out[i] += i == 5 ? choice[1] : 2;
    if (i == 0) count[0] = choice[0] == 6 ? 7 : 3;
}
"""
#: (what is chosen, the last element), what becomes of it
CHOICES = {
    (0, 9): RIGHT,
    (0, 8): WRONG,
    (1, 9): FAULTS,  # no guard
    (2, 9): FAULTS,  # it never ends
    (3, 9): RIGHT,
    (4, 9): WRONG,  # one element is left out
    (6, 9): WRONG,  # the other output
}


def test_an_output_that_becomes_poison_is_written():
    """What is not is only looked at when all blocks have run."""
    with VirtualGPU("memory") as device:
        device.quick = True
        kernel = device.compile(
            '__constant__ int c[1]; extern "C" __global__ void k(float* p, const float* q) {'
            " p[blockIdx.x] = c[0] ? q[0] + 1.0f : 1.0f; }"
        ).get_function("k")
        out, right = device.empty(4), np.full(4, 2.0)
        execution = Execution(kernel, (4, 1, 1), (1, 1, 1), (out, device.empty(1)), 0)
        batch = Batch(execution, "c", [Wanted(out, right, right * 0)], apart=True)
        found = batch._launched(np.ones((1, batch.row_bytes), np.uint8), batch._parts(), 1 << 62)
        assert found.tolist() == [0]
        assert batch.run(np.ones((1, 1), np.int32), 100).tolist() == [WRONG]
        assert (out.get().view(np.uint32) == POISON).all()


@pytest.mark.parametrize("open_device", [VirtualGPU, ConfinedGPU])
@pytest.mark.parametrize("checks", ["full", "memory"])
def test_each_launch_starts_from_the_same_memory(open_device, checks):
    with open_device(checks) as device:
        device.quick, device.step_budget = True, 1 << 12
        kernel = device.compile(SOURCE).get_function("k")
        out, count = device.array(np.ones(6, np.float32), name="out"), device.empty(1, np.int32, name="count")
        right = np.array([3, 3, 3, 3, 3, 10])
        wanted = [Wanted(out, right, right * 0), Wanted(count, np.array([3]), np.array([0]))]
        rows = np.array([*CHOICES], np.int32)
        launch = partial(kernel.variants, "choice", rows, 4, 2, (out, count, np.int32(6)), wanted)
        for apart in (False, True):
            assert launch(seconds=100, apart=apart).tolist() == [*CHOICES.values()]
        assert out.get().tolist() == [1] * 6
        assert launch(seconds=0).size == 0


def test_infinity_is_right_only_where_it_may_be():
    with VirtualGPU("memory") as device:
        device.quick = True
        kernel = device.compile(
            '__constant__ float c[1]; extern "C" __global__ void k(float* p) { *p = 1 / c[0]; }'
        )
        kernel, out = kernel.get_function("k"), device.empty(1)
        for special, what in ((False, WRONG), (True, RIGHT)):
            wanted = [Wanted(out, np.array([np.inf]), np.array([0.5]), special)]
            assert kernel.variants("c", np.zeros((1, 1), np.float32), 1, 1, (out,), wanted).tolist() == [what]
        half = device.empty(1, np.float16)
        with pytest.raises(LaunchError, match="float16"):
            kernel.variants("c", np.zeros((1, 1)), 1, 1, (half,), [Wanted(half, 0, 0)])
