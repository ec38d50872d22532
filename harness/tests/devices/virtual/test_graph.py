"""Graphs of launches: recorded once, run many times, with the faults of launches one by one."""

from __future__ import annotations

import gc
import os
import signal

import numpy as np
import pytest

from backwarp.devices.virtual.confined import ConfinedGPU
from backwarp.devices.virtual.confined_process import PROCESS
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import DeviceError, KernelFault, LaunchError

SOURCE = """
__constant__ float factor[2];
extern "C" __global__ void add(const float* x, float* y, float much, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += factor[0] * x[i] + much;
}
extern "C" __global__ void turn(float* y) {
    __shared__ float s[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    s[threadIdx.x] = y[i];
    __syncthreads();
    y[i] = s[63 - threadIdx.x];
}
extern "C" __global__ void says(const float* y) { printf("y = %g\\n", y[0]); }
extern "C" __global__ void endless(float* y) { while (y[0] < 1) y[threadIdx.x + 1] += 1; }  // LOOP
extern "C" __global__ void faults(float* y, int n) { y[blockIdx.x * 32 + threadIdx.x + n] = 1; }  // FAULT
__device__ int depth(int n) { return n ? 1 + depth(n - 1) * (n % 7 != 9) : 0; }
extern "C" __global__ void deep(float* y) { y[0] = depth(y[1] < 5 ? 500 : 1); }
"""
LINES = {
    mark: n
    for n, line in enumerate(SOURCE.splitlines(), 1)
    for mark in ("LOOP", "FAULT")
    if f"// {mark}" in line
}
N = 64 * 48  # more than run in the calling thread


@pytest.fixture(
    scope="module", params=[(VirtualGPU, "memory"), (VirtualGPU, "full"), (ConfinedGPU, "memory")], ids=str
)
def dev(request):
    kind, checks = request.param
    with kind(checks) as device:
        device.quick = kind is VirtualGPU
        device.tested = device.compile(SOURCE)
        device.tested.quick = False
        yield device


@pytest.fixture
def k(dev):
    return dev.tested.get_function


def arrays(dev, n=N):
    return (
        dev.array(np.arange(n, dtype=np.float32), name="x"),
        dev.array(np.zeros(n, np.float32), name="y"),
    )


def much(x, y, value, n=N):
    return x, y, np.float32(value), np.int32(n)


def test_a_graph_does_again_what_was_recorded_with_the_memory_of_now(dev, k):
    x, y = arrays(dev)
    zeros, factors = np.zeros(N, np.float32), dev.array(np.float32([2, 0]))
    with dev.graph() as graph:
        y.set(zeros)
        dev.tested.set_constant("factor", factors)
        first = k("add")(N // 64, 64, much(x, y, 1))
        k("turn")(N // 64, 64, (y,))
        k("add")(1, 32, much(x, y, 100, n=1))
        dev.tested.set_constant("factor", np.float32([3]))
        k("add")(1, 32, much(x, y, 0, n=2))
    zeros[:] = 7  # what was recorded stays
    assert not y.get().any() and graph.seconds.tolist() == [0] * 7
    before = np.arange(N, dtype=np.float32)
    for factor, value in ((2, 1), (2, 1), (5, 4)):
        factors.set(np.float32([factor, 0]))
        first.change(much(x, y, value))
        graph.launch()
        expected = (factor * before + value).reshape(-1, 64)[:, ::-1].ravel()
        expected[:2] += [100, 3]
        assert np.array_equal(y.get(), expected)
    launches = [node in graph.launches for node in graph.nodes]
    assert launches == [False, False, True, True, True, False, True]
    assert all(seconds > 0 for seconds, launch in zip(graph.seconds, launches) if launch)


def test_the_fault_of_a_graph_is_that_of_its_launch_and_ends_it(dev, k):
    x, y = arrays(dev)
    dev.tested.set_constant("factor", np.float32([1]))
    with dev.graph() as graph:
        k("add")(N // 64, 64, much(x, y, 1))
        x.set(0)
        fault = k("faults")(2, 32, (y, np.int32(N - 20)))
        x.set(5)
        k("add")(N // 64, 64, much(x, y, 1))
    messages = []
    for launch in (graph.launch, fault.run, graph.launch):
        with pytest.raises(KernelFault) as caught:
            launch()
        messages.append(str(caught.value))
    assert caught.value.node == 2 and len(set(messages)) == 1
    assert (caught.value.kind, caught.value.line, caught.value.thread) == (
        "out-of-bounds",
        LINES["FAULT"],
        (20, 0, 0),
    )
    assert (caught.value.array, caught.value.index) == ("y", str(N))
    assert not x.get().any() and y.get()[5] == 5 + 1 + 1  # the second time, x is 0
    fault.change((y, np.int32(0)))
    graph.launch()
    assert x.get()[0] == 5


def test_a_launch_that_never_ends_ends_the_graph(dev, k):
    x, y = arrays(dev)
    with dev.graph() as graph:
        k("turn")(1, 64, (x,))
        k("endless")(48, 64, (y,))
        k("turn")(1, 64, (x,))
    before, dev.step_budget = dev.step_budget, 1 << 12
    try:
        for _ in range(2):
            with pytest.raises(KernelFault) as caught:
                graph.launch()
            assert (caught.value.kind, caught.value.line, caught.value.node) == ("timeout", LINES["LOOP"], 1)
    finally:
        dev.step_budget = before
    assert x.get()[0] == 0  # turned once in each


def test_what_a_graph_prints_and_how_deep_its_calls_are(dev, k):
    _, y = arrays(dev)
    with dev.graph() as graph:
        for _ in range(2):
            k("says")(1, 2, (y,))
            k("deep")(1, 1, (y,))
    assert graph.launch().stdout == "y = 0\ny = 0\ny = 500\ny = 500\n"
    assert graph.launch().stdout == "y = 500\n" * 4


def test_a_graph_keeps_its_arrays(dev, k):
    x, y = arrays(dev)
    with dev.graph() as graph:
        k("turn")(1, 64, (x,))
        k("turn")(1, 64, (x,))
        k("turn")(1, 64, (x,))
    node = graph.nodes[0]
    del x, y
    gc.collect()
    others = [arrays(dev) for _ in range(3)]
    graph.launch()
    assert node.args[0].get()[:64].tolist() == list(range(64))[::-1] and others[0][0].get()[0] == 0


def test_what_cannot_be_recorded_is_refused(dev, k):
    x, y = arrays(dev)
    graph = dev.graph()
    with graph:
        for refused in (
            y.get,
            graph.launch,
            dev.graph().__enter__,
            lambda: k("add")(1, 32, (x, y)),
            lambda: k("add")(1, 2048, much(x, y, 1)),
            lambda: dev.tested.set_constant("factor", x),
        ):
            with pytest.raises(LaunchError):
                refused()
        late = dev.array(np.float32([1]), name="late")  # is filled at once
    assert graph.launch().stdout == "" and graph.nodes == [] and late.get()[0] == 1
    with pytest.raises(LaunchError, match="has been recorded"), graph:
        pass
    with pytest.raises(ZeroDivisionError), dev.graph() as graph:
        k("turn")(1, 64, (x,))
        raise ZeroDivisionError
    assert graph.launch().stdout == "" and x.get()[0] == 0 and dev.recording is None


def test_other_settings_of_the_device_hold_in_a_graph(dev, k):
    with dev.graph() as graph:
        k("turn")(1, 64, (arrays(dev)[0],))
    graph.launch()
    dev.time_limit, before = 1e-9, dev.time_limit
    x, y = arrays(dev)
    try:
        with dev.graph() as late:
            k("endless")(1, 64, (y,))
        dev.step_budget, budget = 1 << 60, dev.step_budget
        with pytest.raises(KernelFault, match="took too long"):
            late.launch()
        dev.step_budget = budget
    finally:
        dev.time_limit = before
    graph.launch()


def test_a_graph_whose_arrays_are_lost_is_refused():
    with ConfinedGPU("memory") as device:
        kernel = device.compile(SOURCE).get_function("turn")
        x, _ = arrays(device, 64)
        with device.graph() as graph:
            node = kernel(1, 64, (x,))
        graph.launch()
        assert x.get()[0] == 63
        os.kill(PROCESS._child.pid, signal.SIGKILL)
        with pytest.raises(DeviceError, match="ended unexpectedly"):
            graph.launch()
        for _ in range(2):
            with pytest.raises(DeviceError, match="x was lost"):
                graph.launch()
        fresh = device.array(np.arange(64, dtype=np.float32))
        node.change((fresh,))
        graph.launch()
        assert fresh.get()[0] == 63


def test_quickly_compiled_kernels_are_optimised_in_a_graph():
    with VirtualGPU("memory", cores=1) as device:
        device.quick = True
        module = device.compile(SOURCE)
        x, _ = arrays(device, 64)
        with device.graph() as graph:
            module.get_function("turn")(1, 64, (x,))
        graph.launch()
        module.seconds, before = 100.0, module.executable
        graph.launch()
        assert module.executable is not before and not module.quick and x.get()[0] == 0
