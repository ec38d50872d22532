"""Kernels whose threads are lanes: blocks without complete groups have separate code, compiled when
needed."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K

SOURCE = f"""
__constant__ int factor;
__device__ int total;
{K}mirrored(const int* x, int* y) {{
    extern __shared__ int tile[];
    tile[threadIdx.x] = factor * x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
    if (threadIdx.x == 0) total += blockDim.x;
}}"""
BLOCKS = (64, 21, 1, 32, 21, 48)


@pytest.fixture(params=[False, True], ids=["here", "confined"])
def dev(request):
    with open_device("cpu", checks="memory", confined=request.param) as device:
        yield device


def _launch(device, kernel, block: int) -> None:
    x = device.array(np.arange(100, dtype=np.int32), readonly=True)
    y = device.empty(block, np.int32, name="y")
    kernel(1, block, (x, y), shared_mem=4 * block)
    assert y.get().tolist() == [3 * i for i in reversed(range(block))]


def test_blocks_of_any_shape_share_the_variables_of_a_file(dev):
    module = dev.compile(SOURCE)
    kernel = module.get_function("mirrored")
    module.set_constant("factor", np.int32(3))
    for block in BLOCKS:
        _launch(dev, kernel, block)
    assert module.get_global("total", np.int32).get().tolist() == [sum(BLOCKS)]


def test_a_fault_in_code_of_single_threads_names_its_line(dev):
    kernel = dev.compile(SOURCE).get_function("mirrored")
    x, y = dev.array(np.zeros(100, np.int32)), dev.empty(9, np.int32, name="y")
    with pytest.raises(KernelFault) as caught:
        kernel(1, 21, (x, y), shared_mem=84)
    assert caught.value.kind == "out-of-bounds" and SOURCE.splitlines()[caught.value.line - 1].startswith(
        "    y["
    )


def test_a_graph_of_blocks_of_both_sorts(dev):
    module = dev.compile(SOURCE)
    kernel = module.get_function("mirrored")
    module.set_constant("factor", np.int32(3))
    x, outputs = dev.array(np.arange(100, dtype=np.int32)), [dev.empty(b, np.int32) for b in BLOCKS]
    with dev.graph() as graph:
        for block, y in zip(BLOCKS, outputs, strict=True):
            kernel(1, block, (x, y), shared_mem=4 * block)
    for _ in range(2):
        graph.launch()
    for block, y in zip(BLOCKS, outputs, strict=True):
        assert y.get().tolist() == [3 * i for i in reversed(range(block))]


def test_more_shared_memory_than_usual_is_allowed_for_each_sort():
    device = VirtualGPU("memory", cores=1)
    kernel = device.compile(SOURCE).get_function("mirrored")
    kernel.max_dynamic_shared_size_bytes = 60_000
    x, y = (device.array(np.zeros(64, np.int32)) for _ in range(2))
    for block in (64, 21):
        kernel(1, block, (x, y), shared_mem=60_000)


def test_code_of_single_threads_is_made_when_it_is_needed():
    device = VirtualGPU("memory", cores=1)
    builds = []
    build = device.build

    def built(*request, **how):
        if how.get("when", "now") == "now":  # others depend on how long launches take
            builds.append(how["lanes"])
        return build(*request, **how)

    device.build = built
    module = device.compile(SOURCE)
    kernel = module.get_function("mirrored")
    module.set_constant("factor", np.int32(3))
    _launch(device, kernel, 64)
    assert kernel.info.lanes > 1 and builds == [0]
    for block in BLOCKS:
        _launch(device, kernel, block)
    assert builds == [0, 1]
