"""The device's interface: arrays, modules, launches, and what CUDA would refuse."""

from __future__ import annotations

import gc
import re
import threading

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.virtual.compile import build
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import CompileError, DeviceError, KernelFault, LaunchError
from tests.devices.virtual.launches import FLAVOURS, K, device

SOURCE = f"""
{K}scale(float* x, int n, float f) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= f; }}
__global__ void plain(float* x) {{ x[0] = 1; }}
{K}nothing() {{}}
{K}shared_dynamic(int* out, int n) {{
  extern __shared__ int pool[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) pool[i] = i;
  __syncthreads();
  out[threadIdx.x] = pool[n - 1 - threadIdx.x];
}}
{K}shared_static(int* out) {{ __shared__ int s[2000]; s[threadIdx.x] = 1; __syncthreads(); out[0] = s[0]; }}
{K}wide(double d, long long l, short s, char c, bool b, float* p) {{ p[0] = d + l + s + c + b; }}
{K}read(const float* p, float* out) {{ out[0] = p[0]; }}
"""


@pytest.fixture(scope="module")
def modules():
    return {checks: device(checks).compile(SOURCE) for checks in FLAVOURS}


@pytest.fixture
def dev():
    return device("memory")


@pytest.fixture
def module(modules):
    return modules["memory"]


def refused(call, code: str) -> str:
    """The message of the LaunchError that a call must raise, with CUDA's name for it."""
    with pytest.raises(LaunchError) as caught:
        call()
    assert caught.value.code == code
    return str(caught.value)


# --- the device ------------------------------------------------------------------------------------


def test_opening():
    with open_device("cpu", checks="memory", seed=3) as dev:
        assert dev.kind == "cpu" and dev.name.startswith("virtual GPU (") and dev.schedule == 3
        assert dev.name in dev.reason and "\n" not in dev.reason
        assert dev.time_limit == 10
    dev.close()  # a second time


def test_unknown_devices_and_checks():
    with pytest.raises(DeviceError, match="'tpu'.*auto, gpu, cpu"):
        open_device("tpu")
    with pytest.raises(ValueError, match="'some'.*full, memory, count, draft, noted, none"):
        open_device("cpu", checks="some")


def test_no_checks_run_trusted_kernels():
    with VirtualGPU("none") as dev:
        x = dev.array(np.arange(5, dtype=np.float32))
        dev.compile(SOURCE).get_function("scale")(1, 32, (x, np.int32(5), np.float32(2)))
        assert x.get().tolist() == [0, 2, 4, 6, 8]


# --- arrays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("checks", FLAVOURS)
def test_a_module_compiled_quickly_is_optimised_once_it_has_run_for_long(checks, monkeypatch):
    with VirtualGPU(checks) as dev:
        dev.quick = True
        module, pool = dev.compile(SOURCE), dev.empty(40, np.int32)
        kernel, code = module.get_function("shared_dynamic"), module.executable
        for each, quick in ((60.0, True), (0.0, False), (0.0, False)):
            monkeypatch.setattr("backwarp.devices.virtual.device.OPTIMISING", each)
            kernel(1, 40, (pool, np.int32(40)), shared_mem=160)
            assert pool.get().tolist() == list(range(39, -1, -1))
            assert module.quick is quick and (module.executable is code) is quick


@pytest.mark.parametrize("wrong", [None, 3, 150, 199])
def test_a_long_launch_of_quick_code_goes_on_with_lanes(wrong, monkeypatch):
    source = """extern "C" __global__ void k(float* y, int n, int wrong) {
        __shared__ float s[64];
        s[threadIdx.x] = y[blockIdx.x * 64 + threadIdx.x];
        __syncthreads();
        int i = blockIdx.x * 64 + threadIdx.x;
        y[i + (blockIdx.x == wrong) * 99999] = s[threadIdx.x ^ 1] + n;
    }"""
    monkeypatch.setattr("backwarp.devices.virtual.kernel.LARGE", 1 << 10)
    monkeypatch.setattr("backwarp.devices.virtual.device.LOOKING", 1e-12)
    monkeypatch.setattr("backwarp.devices.virtual.device.WIDENING", 0.0)
    with VirtualGPU("memory") as dev:
        dev.quick, dev.build = True, lambda *given, when="", **how: build.build(*given, **how)  # waits for it
        module, ran = dev.compile(source), []
        kernel, y = module.get_function("k"), dev.array(np.arange(200 * 64, dtype=np.float32), name="y")
        single, run = module.executable, dev.workers.run
        dev.workers.run = lambda plan, launch: ran.append(plan) or run(plan, launch)
        args = y, np.int32(7), np.int32(-1 if wrong is None else wrong)
        for _ in range(2):
            if wrong is None:
                kernel(200, 64, args)
            else:
                with pytest.raises(KernelFault) as caught:
                    kernel(200, 64, args)
                assert (caught.value.line, caught.value.block) == (6, (wrong, 0, 0))
        assert wrong is not None or y.get().tolist() == list(range(14, 200 * 64 + 14))
        assert (
            ran[0].executable is single and ran[-1].executable is not single and module.wide and module.quick
        )


@pytest.mark.parametrize("dtype", "f2 f4 f8 i1 u1 i2 u2 i4 u4 i8 u8 ?".split())
def test_arrays_of_every_type(dev, dtype):
    values = (np.random.default_rng(0).integers(0, 2, (2, 3, 5))).astype(dtype)
    x = dev.array(values, name="x", axes="abc")
    assert (x.shape, x.dtype, x.nbytes, x.size, x.name) == (
        (2, 3, 5),
        np.dtype(dtype),
        values.nbytes,
        30,
        "x",
    )
    np.testing.assert_array_equal(x.get(), values)
    assert x.get().dtype == values.dtype and x.intact() is None


def test_get_is_a_copy_and_so_is_array(dev):
    values = np.zeros(3, np.float32)
    x = dev.array(values)
    values[0] = 1
    got = x.get()
    got[1] = 1
    assert x.get().tolist() == [0, 0, 0]


def test_arrays_from_views_lists_and_scalars(dev):
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    for view in (
        base[::2, 1::2],
        base.T,
        base[::-1],
        np.broadcast_to(np.int32(3), (2, 2)),
        np.asfortranarray(base),
    ):
        np.testing.assert_array_equal(dev.array(view).get(), view)
    assert dev.array([[1.5, 2], [3, 4]]).get().tolist() == [[1.5, 2], [3, 4]]


def test_empty_is_poison(dev):
    for dtype in ("f2", "f4", "f8"):
        assert np.isnan(dev.empty((3, 4), dtype).get()).all()
    assert (dev.empty(5, np.int32).get() == 0x7F7F7F7F).all()
    assert (dev.empty((2,), np.uint8).get() == 0x7F).all()
    assert dev.empty((0, 3)).get().shape == (0, 3)


def test_memory_that_is_used_again_is_poison():
    with VirtualGPU("memory") as own:  # a device whose memory nobody else frees
        x = own.array(np.ones(1000, np.float32))
        start = x.pointer
        del x
        gc.collect()
        y = own.empty(1000)
        assert y.pointer == start and np.isnan(y.get()).all()


def test_set(dev):
    x = dev.array(np.zeros((2, 3), np.float32))
    x.set([[1, 2, 3], [4, 5, 6]])
    assert x.get().tolist() == [[1, 2, 3], [4, 5, 6]]
    x.set(7)
    assert (x.get() == 7).all() and x.dtype == np.float32
    with pytest.raises(ValueError, match="broadcast"):
        x.set(np.zeros((3, 3)))


def test_set_makes_memory_written(modules):
    dev = device("full")
    x, out = dev.empty(1, name="x"), dev.array(np.zeros(1, np.float32))
    read = modules["full"].get_function("read")
    with pytest.raises(KernelFault) as caught:
        read(1, 1, (x, out))
    assert caught.value.kind == "uninitialised-read"
    x.set(3)
    read(1, 1, (x, out))
    assert out.get().tolist() == [3]


def test_more_than_there_is_memory(dev):
    with pytest.raises(DeviceError, match="out of device memory"):
        dev.empty(1 << 40)


def test_many_arrays_come_and_go(dev):
    for i in range(3000):
        dev.empty((1000 + i % 7,), np.float32)
    assert dev.empty(10).get().shape == (10,)


@pytest.mark.parametrize("checks", FLAVOURS)
def test_a_freed_array_belongs_to_nobody(modules, checks):
    dev = device(checks)
    keep = dev.array(np.zeros(50_000, np.float32), name="keep")
    x = dev.array(np.ones(300_000, np.float32), name="x")
    address = np.uint64(x.pointer + 600_000)
    del x
    gc.collect()
    with pytest.raises(KernelFault) as caught:
        modules[checks].get_function("read")(1, 1, (address, keep))
    assert caught.value.kind == "invalid-address" and "where there is no array" in caught.value.explanation


# --- modules ---------------------------------------------------------------------------------------


def test_functions_and_their_parameters(module):
    assert module.functions == (
        "scale",
        "plain",
        "nothing",
        "shared_dynamic",
        "shared_static",
        "wide",
        "read",
    )
    assert module.get_function("scale").params == (8, 4, 4)
    assert module.get_function("plain").params == (8,)
    assert module.get_function("nothing").params == ()
    assert module.get_function("wide").params == (8, 8, 2, 1, 1, 8)


def test_no_such_function(dev, module):
    message = refused(lambda: module.get_function("scales"), "cudaErrorInvalidDeviceFunction")
    assert "scales" in message and "scale, plain" in message
    empty = dev.compile("__device__ int f() { return 1; }")
    assert empty.functions == ()
    message = refused(lambda: empty.get_function("k"), "cudaErrorInvalidDeviceFunction")
    assert "__global__ void" in message


def test_overloads_cannot_be_told_apart(dev):
    module = dev.compile("__global__ void k(int* p) {} __global__ void k(float* p) {}")
    message = refused(lambda: module.get_function("k"), "cudaErrorInvalidDeviceFunction")
    assert "2 kernels" in message


def test_a_file_that_does_not_compile(dev):
    with pytest.raises(CompileError) as caught:
        dev.compile("__global__ void k(int* p) {\n  p[0] = q;\n}", name="mine.cu")
    (diagnostic,) = [d for d in caught.value.diagnostics if d.severity == "error"]
    assert (diagnostic.file, diagnostic.line, diagnostic.source) == ("mine.cu", 2, "  p[0] = q;")


def test_the_name_of_the_file_is_in_faults(dev):
    module = dev.compile(f"{K}k(float* p) {{\n  p[9] = 1;\n}}", name="mine.cu")
    with pytest.raises(KernelFault) as caught:
        module.get_function("k")(1, 1, (dev.array(np.zeros(3, np.float32), name="p"),))
    assert (caught.value.file, caught.value.line) == ("mine.cu", 2)
    assert str(caught.value).startswith(
        "mine.cu:2: Invalid __global__ write of size 4 bytes. This writes p[9]"
    )


@pytest.mark.parametrize("checks", FLAVOURS)
def test_headers_of_the_course(checks, tmp_path):
    (tmp_path / "tools.cuh").write_text(
        "#pragma once\n__device__ __forceinline__ float third(const float* p) {\n  return p[2];\n}\n"
    )
    source = f'#include "tools.cuh"\n{K}k(float* p) {{\n  p[0] = third(p);\n}}'
    dev = device(checks)
    kernel = dev.compile(source, include_dirs=(tmp_path,)).get_function("k")
    x = dev.array(np.array([1, 2, 3], np.float32), name="p")
    kernel(1, 1, (x,))
    assert x.get()[0] == 3
    with pytest.raises(KernelFault) as caught:
        kernel(1, 1, (dev.array(np.ones(2, np.float32), name="p"),))
    assert (caught.value.file, caught.value.line) == ("kernel.cu", 3)  # the student's line, not the header's
    with pytest.raises(CompileError, match="tools.cuh"):
        dev.compile(source)


# --- launches --------------------------------------------------------------------------------------


def test_a_launch_and_what_it_returns(dev, module):
    x = dev.array(np.arange(10, dtype=np.float32))
    done = module.get_function("scale")((2, 1), [8], (x, np.int32(10), np.float32(3)), shared_mem=0)
    assert (done.stdout, done.stdout_dropped, done.counters, done.notes) == ("", 0, {}, [])
    assert x.get().tolist() == [3.0 * i for i in range(10)]
    module.get_function("scale")(np.int64(1), (np.int32(10), 1, 1), [x, np.int32(10), np.float32(0)])
    assert not x.get().any()


INVALID = "cudaErrorInvalidConfiguration"


@pytest.mark.parametrize(
    "grid, block, parts",
    [
        (1, 1025, ("1025", "1024")),
        (1, (32, 33), ("1056", "1024")),
        (1, (1, 1, 65), ("block.z", "65", "64")),
        (1, (2048, 1, 1), ("block.x", "2048")),
        (0, 32, ("grid.x", "0")),
        (1, 0, ("block.x", "0")),
        (1, (8, 0), ("block.y", "0")),
        (-1, 32, ("grid.x", "-1")),
        ((1, 65536), 32, ("grid.y", "65536", "65535")),
        ((1, 1, 65536), 32, ("grid.z", "65535")),
        (2**31, 32, ("grid.x", str(2**31))),
        ((1, 1, 1, 1), 32, ("grid",)),
        (1, (), ("block",)),
        (1.5, 32, ("grid", "1.5")),
        (1, "32", ("block", "32")),
        (None, 32, ("grid", "None")),
    ],
)
def test_grids_and_blocks_that_cuda_refuses(module, grid, block, parts):
    message = refused(lambda: module.get_function("nothing")(grid, block, ()), INVALID)
    assert all(part in message for part in parts), message


def test_shared_memory_up_to_48_kib_and_more_where_asked_for(dev, module):
    kernel = module.get_function("shared_dynamic")
    for n in (32, 12 * 1024):
        out = dev.array(np.zeros(32, np.int32))
        kernel(1, 32, (out, np.int32(n)), shared_mem=4 * n)
        np.testing.assert_array_equal(out.get(), n - 1 - np.arange(32))
    launch = lambda n: kernel(1, 32, (out, np.int32(n)), shared_mem=4 * n)  # noqa: E731
    message = refused(lambda: launch(12 * 1024 + 1), "cudaErrorInvalidValue")
    assert "49156" in message and "49152" in message
    kernel.max_dynamic_shared_size_bytes = 100 << 10
    launch(25 << 10)
    assert out.get()[0] == (25 << 10) - 1
    assert "166912" in refused(
        lambda: kernel(1, 32, (out, np.int32(1)), shared_mem=200_000), "cudaErrorInvalidValue"
    )
    refused(lambda: kernel(1, 32, (out, np.int32(1)), shared_mem=-4), "cudaErrorInvalidValue")
    static = module.get_function("shared_static")
    assert static.max_dynamic_shared_size_bytes == 48 * 1024 - 8000
    refused(lambda: static(1, 32, (out,), shared_mem=41_153), "cudaErrorInvalidValue")


def argument_errors(dev):
    x = dev.array(np.zeros(4, np.float32), name="x")
    other = device("full").array(np.zeros(4, np.float32))
    good = (x, np.int32(4), np.float32(1))
    return {
        "too few": (good[:2], ("3 arguments", "2")),
        "too many": ((*good, x), ("3 arguments", "4")),
        "a Python int": ((x, 4, np.float32(1)), ("argument 2", "Python int", "numpy")),
        "a Python float": ((x, np.int32(4), 1.0), ("argument 3", "Python float")),
        "a Python bool": ((x, True, np.float32(1)), ("argument 2", "Python bool")),
        "a double for a float": (
            (x, np.int32(4), np.float64(1)),
            ("argument 3", "float64", "8 bytes", "4 bytes"),
        ),
        "a long for an int": ((x, np.int64(4), np.float32(1)), ("argument 2", "int64", "8 bytes", "4 bytes")),
        "an array for an int": ((x, x, np.float32(1)), ("argument 2", "pointer", "8 bytes", "4 bytes")),
        "an int for an array": (
            (np.int32(4), np.int32(4), np.float32(1)),
            ("argument 1", "int32", "4 bytes", "8 bytes"),
        ),
        "a NumPy array": ((np.zeros(4, np.float32), *good[1:]), ("argument 1", "NumPy array", "dev.array")),
        "a list": (([1.0], *good[1:]), ("argument 1", "list")),
        "nothing": ((None, *good[1:]), ("argument 1", "NoneType")),
        "another device's": ((other, *good[1:]), ("argument 1", "another device")),
    }


@pytest.mark.parametrize("what", argument_errors(device("memory")))
def test_arguments_that_do_not_fit(dev, module, what):
    args, parts = argument_errors(dev)[what]
    # good ones first: of their types, none is checked again
    module.get_function("scale")(1, 32, (dev.array(np.zeros(4, np.float32)), np.int32(4), np.float32(1)))
    message = refused(lambda: module.get_function("scale")(1, 32, args), "cudaErrorInvalidValue")
    assert all(part in message for part in parts), message


SCALARS = "int8 uint8 bool int16 uint16 float16 int32 uint32 float32 int64 uint64 longlong float64 complex64"


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in SCALARS.split()], ids=str)
def test_scalars_arrive_with_all_their_bits(dev, dtype):
    """The first of their type, and later ones; with 4 bytes before them, so that some are padded."""
    word = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}[dtype.itemsize]
    kernel = dev.compile(
        f"{K}k(int n, {word} x, unsigned char last, {word}* out) {{ if (n == 5 && last == 7) out[0] = x; }}"
    ).get_function("k")
    out = dev.array(np.zeros(1, f"u{dtype.itemsize}"))
    values = [1, 0] if dtype.kind == "b" else [3, 0, 101]
    values += {"i": [-1, -128], "f": [-0.0, np.inf, np.nan, -1.5], "c": [1 - 2j]}.get(dtype.kind, [])
    values = np.array(values, dtype)
    if dtype.kind == "f":  # one that signals, with bits of its own
        signals = {2: 0x7C01, 4: 0xFF812345, 8: 0x7FF0000000000123}[dtype.itemsize]
        values = np.append(values, np.array(signals, f"u{dtype.itemsize}").view(dtype))
    for value in values:
        kernel(1, 1, (np.int32(5), value, np.uint8(7), out))
        assert out.get().tobytes() == value.tobytes()


def test_a_refused_launch_changes_nothing(dev, module):
    x = dev.array(np.ones(4, np.float32))
    with pytest.raises(LaunchError):
        module.get_function("scale")(1, 2000, (x, np.int32(4), np.float32(2)))
    assert x.get().tolist() == [1] * 4
    module.get_function("scale")(1, 32, (x, np.int32(4), np.float32(2)))
    assert x.get().tolist() == [2] * 4


@pytest.mark.parametrize("checks", FLAVOURS)
def test_a_fault_poisons_nothing(modules, checks):
    dev = device(checks)
    kernel, x = modules[checks].get_function("scale"), dev.array(np.ones(4, np.float32), name="x")
    with pytest.raises(KernelFault):
        kernel(1, 32, (x, np.int32(5), np.float32(2)))
    y = dev.array(np.ones(4, np.float32))
    kernel(1, 32, (y, np.int32(4), np.float32(2)))
    assert y.get().tolist() == [2] * 4


def test_a_kernel_outlives_its_module_and_its_file(dev):
    kernel = dev.compile(f"__device__ int seen = 4;\n{K}k(int* out) {{ out[0] = seen++; }}").get_function("k")
    gc.collect()
    for expected in (4, 5):
        out = dev.array(np.zeros(1, np.int32))
        kernel(1, 1, (out,))
        assert out.get()[0] == expected


def test_launches_from_several_threads(dev, module):
    """A device runs one launch at a time, whichever thread asks."""
    kernel, results = module.get_function("scale"), {}

    def work(number: int) -> None:
        x = dev.array(np.full(4096, number, np.float32))
        for _ in range(20):
            kernel(64, 64, (x, np.int32(4096), np.float32(1)))
        kernel(64, 64, (x, np.int32(4096), np.float32(2)))
        results[number] = x.get()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((results[n] == 2 * n).all() for n in range(4))


@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float64"])
def test_which_elements_have_been_written(dtype):
    """Even if the stored bits are those of poison."""
    type_ = {"int8": "signed char", "float16": "short", "int32": "int", "float64": "long long"}[dtype]
    dev = device("full")
    kernel = dev.compile(
        f"{K}k({type_}* out) {{ if (threadIdx.x % 3 == 1) out[threadIdx.x] = -1; }}"
    ).get_function("k")
    out = dev.empty((4, 6), np.dtype(dtype), name="out")
    assert not out.written.any()
    kernel(1, 24, (out,))
    assert out.written.ravel().tolist() == [i % 3 == 1 for i in range(24)]
    assert device("memory").empty((3,), np.dtype(dtype)).written is None


TEMPLATES = """template <typename T, int N> __global__ void fill(T* out) { out[threadIdx.x] = N; }
namespace a { template <int N> __global__ void one(int* out) { out[0] = N; } }
"""


@pytest.mark.parametrize("confined", [False, True])
def test_instances_of_templates_are_made_when_asked_for(confined):
    with open_device("cpu", confined=confined) as device:
        module, x, y = (
            device.compile(TEMPLATES),
            device.array(np.zeros(4, np.int32)),
            device.array(np.zeros(4, np.float32)),
        )
        module.get_function("fill<int, 3>")(1, 4, (x,))
        module.get_function("fill<float,4>")(1, 4, (y,))
        module.get_function("a::one<5>")(1, 1, (x,))
        assert x.get().tolist() == [5, 3, 3, 3] and y.get().tolist() == [4] * 4


@pytest.mark.parametrize(
    "name, says",
    [
        ("fill<Foo, 3>", 'in fill<Foo, 3>: identifier "Foo" is undefined'),
        (
            "fill<int>",
            'in fill<int>: cannot determine which instance of function template "fill" is intended',
        ),
        ("none<3>", 'in none<3>: identifier "none" is undefined'),
        ("fill<int, 3>\n#include </etc/passwd>", "is not the name of a kernel"),
    ],
)
def test_an_instance_that_cannot_be_made(name, says):
    with open_device("cpu") as device, pytest.raises(CompileError, match=re.escape(says)):
        device.compile(TEMPLATES).get_function(name)
