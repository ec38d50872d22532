"""Kernels that have had full checks for some seconds: what is still found, what is not, and that nobody is accused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import KernelFault

SOURCE = """
__constant__ float scale = 2.0f;
__device__ int counted;
__device__ float seen[8];
extern "C" __global__ void fill(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = scale * i;
}
extern "C" __global__ void work(const float* in, float* out, int times) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = out[i];
    for (int k = 0; k < times; k++) sum += in[(i + k) & 63];
    out[i] = sum;
    atomicAdd(&counted, 1);
    if (i < 8) seen[i] = sum;
}
extern "C" __global__ void through(float** out) { out[0][threadIdx.x] = 1; }
extern "C" __global__ void bytes(unsigned char* out) { if (threadIdx.x < 7) out[threadIdx.x] = 1; }
extern "C" __global__ void copy(const float* in, float* out) { if (in[threadIdx.x] > 0) out[threadIdx.x] = 1; }
extern "C" __global__ void last(const unsigned char* in, float* out) { if (in[6]) out[0] = 1; }
extern "C" __global__ void shared(float* out) {
    __shared__ float row[32];
    row[threadIdx.x] = out[threadIdx.x];
    SYNC;
    out[threadIdx.x] = row[threadIdx.x ^ 1];
    SYNC;
    row[threadIdx.x] = 0;
}
extern "C" __global__ void race(float* out, int times) {
    out[0] = threadIdx.x;
    for (int k = 0; blockIdx.x && k < times; k++) out[64 + threadIdx.x] += k;
}
extern "C" __global__ void outside(float* out) { out[threadIdx.x + 40] = 1; }
extern "C" __global__ void list(int** head) {
    int* made = (int*)malloc(4 * sizeof(int));
    for (int i = 0; i < 4; i++) made[i] = i;
    *head = made;
}
extern "C" __global__ void follow(int** head, int* out) {
    out[0] = 0;
    for (int i = 0; i < 4; i++) if (head[0][i]) out[0] += head[0][i];
    free(head[0]);
}
"""


@pytest.fixture(scope="module", params=[False, True], ids=["here", "confined"])
def device(request):
    with open_device("cpu", confined=True) if request.param else VirtualGPU() as device:
        device.quick = True
        yield device


@pytest.fixture
def launch(device):
    """launch(kernel, seconds, grid, block, *args): with so many seconds of full checks for each kernel."""
    module = device.compile(SOURCE, options=("-DSYNC=__syncthreads()",))

    def go(name: str, seconds: float, grid: int, block: int, *args):
        device.full_seconds = seconds
        try:
            return module.get_function(name)((grid,), (block,), args)
        finally:
            device.full_seconds = math.inf

    go.module = module
    return go


@pytest.mark.parametrize("seconds, spared", [(0, True), (1e-9, True), (math.inf, False)])
def test_a_launch_does_its_work_once(device, launch, seconds, spared):
    given, out = device.array(np.ones(64, np.float32)), device.array(np.ones(256, np.float32))
    launch.module.set_constant("scale", np.float32(3))
    assert launch("work", seconds, 4, 64, given, out, np.int32(20_000)).spared is spared
    np.testing.assert_array_equal(out.get(), 20_001)
    assert launch.module.get_global("counted", np.int32).get() == 256
    np.testing.assert_array_equal(launch.module.get_global("seen", np.float32).get(), 20_001)
    launch("fill", seconds, 1, 64, given, np.int32(64))
    np.testing.assert_array_equal(given.get(), 3 * np.arange(64))


@pytest.mark.parametrize("seconds", [0, math.inf])
def test_memory_is_checked_in_both_ways(device, launch, seconds):
    with pytest.raises(KernelFault) as found:
        launch("outside", seconds, 1, 32, device.empty(64, name="out"))
    assert (found.value.kind, found.value.array) == ("out-of-bounds", "out")


def test_a_mistake_that_shows_before_time_is_up_is_named(device, launch):
    with pytest.raises(KernelFault) as found:
        launch("race", 1e-9, 2, 64, device.array(np.zeros(128, np.float32)), np.int32(1 << 24))
    assert found.value.kind == "race"


def test_what_spared_launches_wrote_counts_as_written(device, launch):
    made, out, short = device.empty(32), device.array(np.zeros(32, np.float32)), device.empty(7, np.uint8)
    launch("fill", 0, 1, 32, made, np.int32(32))
    launch("copy", math.inf, 1, 32, made, out)
    made, table = device.empty(32), device.array(np.zeros(1, np.uint64))
    table.set(np.uint64(made.pointer))
    launch("through", 0, 1, 32, table)
    launch("copy", math.inf, 1, 32, made, out)
    launch("bytes", 0, 1, 32, short)
    launch("last", math.inf, 1, 1, short, out)


def test_what_nobody_wrote_is_still_named(device, launch):
    out, never = device.empty(32), device.empty(32, name="never")
    launch("fill", 0, 1, 32, out, np.int32(32))
    with pytest.raises(KernelFault) as found:
        launch("copy", math.inf, 1, 32, never, out)
    assert (found.value.kind, found.value.array) == ("uninitialised-read", "never")


@pytest.mark.parametrize("first", [0, math.inf])
def test_both_versions_find_shared_memory_as_they_need_it(device, launch, first):
    out = device.array(np.arange(32, dtype=np.float32))
    for seconds in (first, 0, math.inf, 0):
        launch("shared", seconds, 1, 32, out)
    np.testing.assert_array_equal(out.get(), np.arange(32))


@pytest.mark.parametrize("makes, takes", [(0, math.inf), (math.inf, 0), (0, 0)])
def test_what_kernels_allocate_is_known_to_both(device, launch, makes, takes):
    head, out = device.array(np.zeros(1, np.uint64)), device.empty(1, np.int32)
    launch("list", makes, 1, 1, head)
    launch("follow", takes, 1, 1, head, out)
    assert out.get()[0] == 6
