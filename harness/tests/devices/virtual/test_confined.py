"""Kernels in a separate process: the same results as in this one, and machine code that can do no harm."""

from __future__ import annotations

import dataclasses
import os
import signal

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.confine import supported
from backwarp.devices.texture import (
    ARRAY,
    SURFACE,
    CUDAarray,
    ResourceDescriptor,
    SurfaceObject,
    TextureDescriptor,
    TextureObject,
)
from backwarp.devices.virtual import confined_process
from backwarp.devices.virtual.answers import CODEC
from backwarp.devices.virtual.compile import llvm
from backwarp.devices.virtual.compile.recipes import WIDE, recipe
from backwarp.errors import CompileError, DeviceError, KernelFault, LaunchError

SOURCE = """
#include <cassert>
__constant__ float scale[2];

__global__ void scaled(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scale[0] * x[i] + scale[1];
    if (i == 1) printf("x[1] = %g\\n", x[1]);
}
__global__ void past_the_end(float* y, int n) {
    int i = threadIdx.x;
    if (i <= n) y[i] = i;
}
__global__ void races(float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = s[31 - threadIdx.x];
}
__global__ void unset(float* y) {
    float sum;
    if (threadIdx.x > 40) sum = 1;
    if (sum > 3) y[threadIdx.x] = sum;
}
__global__ void endless(volatile int* y) { while (y[0] == 0) {} }
__global__ void same(float* y) { y[0] = 1; }
__global__ void textured(float* y, cudaTextureObject_t image, cudaSurfaceObject_t to, int step) {
    y[threadIdx.x] = tex2D<float>(image, threadIdx.x, 0);
    if (blockIdx.x == 0) surf2Dwrite(y[threadIdx.x], to, step * int(threadIdx.x), 0);
}
"""


def outcome(confined_: bool, checks: str) -> list:
    """All that a launch of each kernel says, as plain values."""
    found = []
    with open_device("cpu", checks=checks, seed=3, confined=confined_) as device:
        device.quick, device.step_budget = True, 1 << 16
        module = device.compile(SOURCE, name="kernel.cu")
        module.set_constant("scale", np.array([2, 1], np.float32))
        x = device.array(np.arange(40, dtype=np.float32), name="x", axes="i", readonly=True)
        y = device.empty(40, np.float32, name="y", axes="i")
        z = device.array(np.zeros(4, np.int32), name="z")
        image = CUDAarray.of(np.ones((2, 32), np.float32), SURFACE, device=device, name="image")
        resource = ResourceDescriptor(ARRAY, cuArr=image)
        objects = TextureObject(resource, TextureDescriptor()), SurfaceObject(resource)
        arguments = {
            "scaled": (x, y, np.int32(40)),
            "past_the_end": (y, np.int32(40)),
            "endless": (z,),
            "textured": (y, *objects, np.int32(5)),
        }
        found += [module.functions, module.constants, device.name, device.room, x.shape, y.nbytes]
        for name in module.functions:
            device.keep_rows = 4096 if checks == "full" else 0
            kernel = module.get_function(name)
            device.time_limit = 0.2 if name == "endless" else 10.0
            found += [name, kernel.params]
            try:
                launch = kernel(2, 32, arguments.get(name, (y,)))
            except KernelFault as fault:
                found += [fault.kind, str(fault), fault.thread, fault.block, fault.index, fault.count]
                found += [str(f) for f in fault.more]
                launch = fault.launch
            if launch is not None:
                if name != "endless":  # how far it got depends on time
                    found.append(launch.counters)
                found += [launch.stdout, [str(n) for n in launch.notes], launch.turns]
                found += [launch.record["rows"][["point", "who"]].tolist()] if launch.record else []
            found += [y.get().tobytes(), None if y.written is None else y.written.tolist()]
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("checks", ["full", "memory", "count"])
def test_it_says_what_a_device_in_this_process_says(checks):
    assert outcome(True, checks) == outcome(False, checks)


def test_lanes_look_first_and_single_threads_where_there_are_none():
    sources = (
        "{ int i = threadIdx.x; y[i / two] = i; }",
        "{ for (; atomicExch(y + 40, 0) > 5;); y[threadIdx.x / two] = threadIdx.x; }",
    )
    with open_device("cpu", confined=True) as device:
        for body, lanes in zip(sources, (True, False), strict=True):
            module = device.compile(f"__global__ void k(float* y, int two) {body}")
            assert module.lowered.kernels[next(iter(module.lowered.kernels))].scouts == lanes
            y = device.array(np.zeros(64, np.float32))
            module.get_function("k")(1, 32, (y, np.int32(1)))
            with pytest.raises(KernelFault) as found:
                module.get_function("k")(1, 32, (y, np.int32(2)))
            assert found.value.kind == "race"


def test_what_is_refused_is_refused_alike():
    for confined_ in (True, False):
        with open_device("cpu", confined=confined_) as device:
            with pytest.raises(CompileError, match="does not compile") as error:
                device.compile("__global__ void f( {", name="kernel.cu")
            assert error.value.diagnostics[0].line == 1
            kernel = device.compile("__global__ void f(float* x) {}").get_function("f")
            with pytest.raises(LaunchError, match="limit is 1024"):
                kernel(1, 2048, (device.empty(1),))
            with pytest.raises(LaunchError, match="pass numpy.int32"):
                kernel(1, 1, (3,))
            with (
                pytest.raises(LaunchError, match="another device"),
                open_device("cpu", confined=confined_) as other,
            ):
                kernel(1, 1, (other.empty(1),))
            with pytest.raises(DeviceError, match="memory"):
                x = device.empty(1 << 40, np.uint8)
                kernel(1, 1, (x,))


def test_more_shared_memory_than_usual_is_asked_for():
    source = """__global__ void last(int* x, int n) {
        extern __shared__ int s[]; s[n - 1] = n; x[0] = s[n - 1];
    }"""
    with open_device("cpu", checks="memory", confined=True) as device:
        kernel, x = device.compile(source).get_function("last"), device.array(np.zeros(1, np.int32))
        with pytest.raises(LaunchError, match="where the kernel opts in"):
            kernel(1, 1, (x, np.int32(15_000)), shared_mem=60_000)
        kernel.max_dynamic_shared_size_bytes = 60_000
        kernel(1, 1, (x, np.int32(15_000)), shared_mem=60_000)
        assert x.get()[0] == 15_000
        with pytest.raises(LaunchError, match="60004 of dynamic"):
            kernel(1, 1, (x, np.int32(15_001)), shared_mem=60_004)
        kernel.module.optimise()
        with device.graph() as graph:
            kernel(1, 1, (x, np.int32(14_000)), shared_mem=56_000)
        graph.launch()
        assert x.get()[0] == 14_000


def test_arrays_can_be_overwritten_and_are_freed():
    with open_device("cpu", checks="memory", confined=True) as device:
        x = device.array(np.zeros(4, np.int16), name="x")
        x.set(7)
        assert x.get().tolist() == [7] * 4
        first = x.pointer
        del x
        assert device.array(np.zeros(4, np.int16)).pointer == first


def test_a_kernel_for_fixed_sizes_says_the_same():
    with open_device("cpu", checks="memory", confined=True) as device:
        module = device.compile(
            "__global__ void f(int* x, int n) { for (int i = 0; i < n; i++) x[i] = i * i; }"
        )
        x, kernel = device.empty(9, np.int32), module.get_function("f")
        kernel.fixed((x, np.int32(9)))(1, 1, (x, np.int32(9)))
        assert x.get().tolist() == [i * i for i in range(9)]


def test_optimising_changes_no_result():
    with open_device("cpu", confined=True) as device:
        device.quick = True
        module = device.compile("__global__ void f(float* x) { x[threadIdx.x] *= 3; }")
        x = device.array(np.ones(8, np.float32))
        module.get_function("f")(1, 8, (x,))
        assert module.quick
        module.optimise()
        module.get_function("f")(1, 8, (x,))
        assert not module.quick and x.get().tolist() == [9.0] * 8


# -- when the process ends -------------------------------------------------------------------------------


@pytest.fixture
def ready():
    """A device, its module and an array, after a first launch."""
    with open_device("cpu", checks="memory", confined=True) as device:
        module = device.compile(
            '__constant__ int c; extern "C" __global__ void f(int* x) { x[threadIdx.x] = c; }'
        )
        module.set_constant("c", np.int32(5))
        x = device.empty(4, np.int32, name="x")
        module.get_function("f")(1, 4, (x,))
        yield device, module, x


def test_the_process_is_given_the_build_that_it_asks_for():
    with open_device("cpu", checks="memory", confined=True) as device:
        device.quick = True
        module = device.compile(SOURCE)
        for asked, lanes in (
            (WIDE, True),
            (1, False),
            (0, False),
            (-2, False),
            ("", False),
            (np.ones(3), False),
        ):
            built = module.better(True, False, asked, False, False, ("", (), ()))
            assert any(kernel.lanes > 1 for kernel in built.lowered.kernels.values()) == lanes


@pytest.mark.parametrize(
    "patience, much",
    [(1, confined_process.MEMORY), (20, confined_process.EMULATOR)],
    ids=["plain", "emulated"],
)
def test_a_process_that_holds_nothing_and_has_taken_much_is_ended(ready, monkeypatch, patience, much):
    """Else what it keeps would count as the next kernel's."""
    device, module, x = ready
    process = confined_process.PROCESS
    monkeypatch.setattr(confined_process, "patience", lambda: patience)
    monkeypatch.setattr(type(process._child), "used", lambda self: much // 2)
    process.renew()
    monkeypatch.setattr(type(process._child), "used", lambda self: much // 2 + 1)
    before = process.generation
    process.renew()
    assert process.generation == before  # it has x
    monkeypatch.setattr(process, "_arrays", {})
    process.renew()
    assert process.generation == before + 1
    monkeypatch.undo()
    again = device.empty(4, np.int32)
    module.get_function("f")(1, 4, (again,))
    assert again.get().tolist() == [5] * 4


def test_a_process_that_was_ended_is_replaced(ready):
    device, module, x = ready
    os.kill(confined_process.PROCESS._child.pid, signal.SIGKILL)
    with pytest.raises(DeviceError, match="ended unexpectedly .SIGKILL."):
        x.get()
    with pytest.raises(DeviceError, match="x was lost"):
        x.get()
    again = device.empty(4, np.int32)
    module.get_function("f")(1, 4, (again,))
    assert again.get().tolist() == [5] * 4  # the constant is there too


def test_nonsense_from_the_process_is_an_error_of_the_device(ready, monkeypatch):
    device, module, x = ready
    child = confined_process.PROCESS._child
    messages = ("ok", np.zeros(3)), ("error", "no"), ("ask", "build", [5]), ("ask", "get", "x"), 3
    for answer in (b"nonsense", *map(CODEC.dumps, messages)):
        monkeypatch.setattr(child, "receive", lambda limit, answer=answer: CODEC.loads(answer))
        with pytest.raises(DeviceError, match="the process that runs kernels answers nonsense"):
            x.get()
        monkeypatch.undo()
        x = device.empty(4, np.int32)
        child = confined_process.PROCESS._child


# -- machine code that is out for harm -------------------------------------------------------------------

HOSTILE = """
@name = private constant [{length} x i8] c"{path}\\00"
@shell = private constant [{shell_length} x i8] c"{shell}\\00"
declare i32 @open(ptr, i32, ...)
declare i32 @fork()
declare i32 @kill(i32, i32)
declare i32 @getppid()
declare i32 @socket(i32, i32, i32)
declare i32 @unlink(ptr)
declare i32 @system(ptr)
declare void @_exit(i32)

define i32 @bit(i32 %result, i32 %bit) {{
  %done = icmp sge i32 %result, 0
  %value = select i1 %done, i32 %bit, i32 0
  ret i32 %value
}}
define void @"f.block"(i64 %env) {{
  %r0 = call i32 (ptr, i32, ...) @open(ptr @name, i32 0)
  %r1 = call i32 (ptr, i32, ...) @open(ptr @name, i32 2)
  %r2 = call i32 @fork()
  %parent = call i32 @getppid()
  %r3 = call i32 @kill(i32 %parent, i32 9)
  %r4 = call i32 @socket(i32 2, i32 1, i32 0)
  %r5 = call i32 @system(ptr @shell)
  %r6 = call i32 @unlink(ptr @name)
  %b0 = call i32 @bit(i32 %r0, i32 1)
  %b1 = call i32 @bit(i32 %r1, i32 2)
  %b2 = call i32 @bit(i32 %r2, i32 4)
  %b3 = call i32 @bit(i32 %r3, i32 8)
  %b4 = call i32 @bit(i32 %r4, i32 16)
  %done = sub i32 0, %r5  ; where no shell can be started, system() gives 127 * 256
  %b5 = call i32 @bit(i32 %done, i32 32)
  %b6 = call i32 @bit(i32 %r6, i32 64)
  %s1 = or i32 %b0, %b1
  %s2 = or i32 %b2, %b3
  %s3 = or i32 %b4, %b5
  %s4 = or i32 %s1, %s2
  %s5 = or i32 %s3, %b6
  %s6 = or i32 %s4, %s5
  call void @_exit(i32 %s6)
  ret void
}}
"""


@pytest.mark.skipif(not supported().complete, reason="this system has no Landlock or no seccomp")
def test_machine_code_that_calls_the_system_does_no_harm(ready, tmp_path, monkeypatch):
    device, module, _ = ready
    victim, trace = tmp_path / "victim", tmp_path / "trace"
    victim.write_text("mine")
    shell = f"touch {trace}"
    text = HOSTILE.format(path=victim, length=len(str(victim)) + 1, shell=shell, shell_length=len(shell) + 1)
    code = llvm.compile_object(text, recipe("memory", quick=True))
    module.built = dataclasses.replace(module.built, code=code)
    confined_process.PROCESS.end()  # the module is sent again
    with pytest.raises(DeviceError, match=r"ended unexpectedly .status 0."):  # none of the calls was made
        module.get_function("f")(1, 1, (device.empty(1, np.int32),))
    assert victim.read_text() == "mine" and not trace.exists()
