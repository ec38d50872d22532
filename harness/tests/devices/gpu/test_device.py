"""The GPU device. The process, its end and its messages are tested with a stand-in for CuPy; a real GPU's
behaviour is tested if there is one."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

from backwarp.devices import child, launching
from backwarp.devices.gpu import device as gpu
from backwarp.devices.gpu.device import GPU
from backwarp.devices.launching import cut_output
from backwarp.devices.nvrtc.nvrtc12 import Nvrtc12, find
from backwarp.devices.nvrtc.symbols import parameter_sizes
from backwarp.errors import CompileError, DeviceError, KernelFault, LaunchError

FAKE = Path(__file__).parents[2] / "fakes" / "fake_cupy"
SOURCE = """
#define K extern "C" __global__ void
K scale(float* a, int n, float f) { a[threadIdx.x] *= f; }
K past_the_end(float* a, int n) { a[n] = 1; }
K before_the_start(float* a, int n) { a[-1] = 1; }
K prints(int lines) { printf("line"); }
K illegal() {}
K misaligned() {}
K asserts() {}
K launch_failure() {}
K hungry() {}
K unheard_of() {}
K endless() {}
K dies() {}
K process(long long* a) { *a = 1; }
K shared(long long* a) { *a = 1; }
#include <cooperative_groups.h>
K meets() { cooperative_groups::this_grid().sync(); }
__constant__ float table[6];
K reads_table(float* a) { *a = table[0]; }
"""


@pytest.fixture(scope="module")
def fake():
    """The environment of a machine with a (pretended) GPU and CuPy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FAKE))
        yield


@pytest.fixture(scope="module")
def shared(fake):
    with GPU() as device:
        yield device


@pytest.fixture
def device(shared):
    """One device for all tests, since it recovers from everything they do to it."""
    shared.checks, shared.time_limit = "full", 10.0
    return shared


@pytest.fixture
def kernel(device):
    return device.compile(SOURCE).get_function


# --- the common path -----------------------------------------------------------------------------


def test_a_constant_is_filled(device):
    module = device.compile(SOURCE)
    assert module.constants == {"table": 24}
    module.set_constant("table", numpy.float32([1, 2, 3, 4]))
    x = device.empty((6,), numpy.float32, name="x")
    module.get_function("reads_table")(1, 1, (x,))
    assert x.get()[:4].tolist() == [1, 2, 3, 4] and numpy.isnan(x.get()[4:]).all()
    table = module.get_global("table", numpy.float32)
    table.set(numpy.arange(6))
    assert table.get().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(LaunchError, match="table has 24 bytes; 28 do not fit"):
        module.set_constant("table", numpy.zeros(7, numpy.float32))


def test_launch_and_copy_back(device):
    assert (device.name, device.kind, device.capability) == ("Fake H200", "gpu", (9, 0))
    assert "Fake H200" in device.reason and device.limits.shared_per_block_optin == 232448
    module = device.compile(SOURCE)
    kernel = module.get_function("scale")
    assert kernel.params == (8, 4, 4) and "illegal" in module.functions
    x = device.array(numpy.arange(6, dtype=numpy.float32).reshape(2, 3), name="x", axes="hw")
    launch = kernel(1, (6,), (x, numpy.int32(6), numpy.float32(2)))
    assert launch.stdout == "" and launch.counters == {} and launch.notes == []
    assert (x.get() == numpy.arange(6).reshape(2, 3) * 2).all()
    assert (x.shape, x.dtype, x.nbytes, x.name) == ((2, 3), numpy.float32, 24, "x")
    assert x.intact() is None


def test_a_graph_runs_again(device):
    module, factor = device.compile(SOURCE), numpy.float32(2)
    x, count = device.array(numpy.ones(3, numpy.float32), name="x"), numpy.int32(3)
    with device.graph() as graph:
        module.set_constant("table", x)
        node = module.get_function("scale")(1, 3, (x, count, factor))
        module.get_function("prints")(1, 1, (numpy.int32(1),))
        with pytest.raises(LaunchError, match="nothing runs while a graph is recorded"):
            x.get()
    assert graph.launch().stdout == "line 0\n"
    node.change((x, count, 2 * factor))
    graph.launch()
    assert x.get().tolist() == [8, 8, 8] and (graph.seconds > 0).all()
    assert module.get_global("table", numpy.float32).get()[:3].tolist() == [2, 2, 2]
    y = device.empty((4,), numpy.float32, name="y")
    with device.graph() as graph:
        y.set(0)
        module.get_function("past_the_end")(1, 1, (y, numpy.int32(4)))
        y.set(1)
    with pytest.raises(KernelFault, match=r"2 elements were written past the end of y") as caught:
        graph.launch()
    assert caught.value.node == 1 and y.get().tolist() == [0, 0, 0, 0]


def test_a_graph_is_captured_and_queued_again_with_other_arguments(device):
    device.checks = "none"
    module, three = device.compile(SOURCE), numpy.int32(3)
    x, y = (device.array(numpy.ones(3, numpy.float32), name=name) for name in "xy")
    with device.graph() as graph:
        y.set(2)
        node = module.get_function("scale")(1, 3, (x, three, numpy.float32(2)))
        module.set_constant("table", x)
        module.get_function("scale")(1, 3, (y, three, numpy.float32(5)))
        module.get_function("prints")(1, 1, (numpy.int32(1),))
    # one by one, captured, once more, queued, captured
    for factor, scaled in ((2, 2), (2, 4), (2, 8), (3, 24), (3, 72)):
        if factor != 2 and scaled == 24:
            node.change((x, three, numpy.float32(factor)))
        assert graph.launch().stdout == "line 0\n"
        assert x.get().tolist() == [scaled] * 3 and y.get().tolist() == [10] * 3
        assert module.get_global("table", numpy.float32).get()[0] == scaled
        assert len(graph.seconds) == 5 and graph.seconds[1] > 0
    number = graph._known[1]
    del graph, node
    gc.collect()
    x.get()
    with pytest.raises(DeviceError, match="KeyError"):
        device._ask("replay", number, {})
    x, y = (device.array(numpy.ones(3, numpy.float32), name=name) for name in "xy")
    with device.graph() as graph:
        module.get_function("scale")(1, 3, (x, three, numpy.float32(2)))
        fault = module.get_function("illegal")(1, 1, ())
    with pytest.raises(KernelFault, match="illegal memory access") as caught:
        graph.launch()
    assert caught.value.node == 1
    with pytest.raises(DeviceError, match="x was lost"):
        graph.launch()
    with device.graph() as graph:
        fault = module.get_function("meets")(1, 1, ())
    graph.launch()
    fault.kernel.symbol, fault.kernel.cooperative = "illegal", False  # from now on it faults
    fault.change(())
    with pytest.raises(KernelFault, match="one of the kernels of a graph: meets"):
        graph._known = (0, 0)
        graph.launch()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_fresh_floats_are_nan(device, dtype):
    assert numpy.isnan(device.empty((3, 2), dtype).get()).all()


def test_other_fresh_memory_is_poison(device):
    assert (device.empty(4, numpy.int32).get() == 0x7F7F7F7F).all()
    assert (device.empty((2, 2), numpy.uint8).get() == 0x7F).all()
    assert device.empty((0, 3), numpy.float32).get().shape == (0, 3)
    assert device.empty((), numpy.int16).get() == 0x7F7F


def test_any_layout_is_copied_in(device):
    x = numpy.arange(12.0).reshape(3, 4).T[::2]
    y = device.array(x)
    assert (y.get() == x).all()
    y.set(3)
    assert (y.get() == 3).all() and y.size == 6
    assert device.array(numpy.float32(3)).get() == 3


# --- output --------------------------------------------------------------------------------------


def test_the_kernels_printf_is_captured(kernel):
    prints = kernel("prints")
    assert prints(1, 1, (numpy.int32(2),)).stdout == "line 0\nline 1\n"
    assert prints(1, 1, (numpy.int32(1),)).stdout == "line 0\n"


def test_much_output_is_cut_and_counted(kernel):
    launch = kernel("prints")(1, 1, (numpy.int32(100_000),))
    kept = launch.stdout.splitlines()
    assert len(launch.stdout) <= launching.OUTPUT_CHARACTERS and launch.stdout.endswith("\n")
    assert len(kept) + launch.stdout_dropped == 100_000


def test_output_is_cut_at_a_line():
    assert cut_output("ab\ncd\nef") == ("ab\ncd\nef", 0)
    assert cut_output("ab\ncd\nef", 7) == ("ab\ncd\n", 1)
    assert cut_output("abcdefgh\nx\n", 4) == ("abcd", 2)


# --- guard bands ---------------------------------------------------------------------------------


def test_a_write_past_the_end_is_a_fault(device, kernel):
    x = device.array(numpy.zeros((2, 5), numpy.float32), name="grad", axes="kc")
    with pytest.raises(KernelFault) as caught:
        kernel("past_the_end")(1, 1, (x, numpy.int32(10)))
    fault = caught.value
    assert (fault.kind, fault.array, fault.index) == ("out-of-bounds", "grad", "10")
    assert fault.shape == "[k=2, c=5]"
    assert "2 elements were written past the end of grad: [10] of 10" in str(fault)
    assert x.intact().startswith("2 elements were written past the end of grad")


def test_a_write_before_the_start_is_a_fault(device, kernel):
    x, y = (device.array(numpy.zeros(3, numpy.float32), name=n) for n in "xy")
    with pytest.raises(KernelFault, match=r"1 element was written before the start of x: \[-1\] of 3"):
        kernel("before_the_start")(1, 1, (x, numpy.int32(3)))
    assert y.intact() is None


def test_without_checks_the_guards_are_looked_at_on_demand(device, kernel):
    device.checks = "none"
    x = device.array(numpy.zeros(3, numpy.float32))
    kernel("past_the_end")(1, 1, (x, numpy.int32(3)))
    assert "past the end of array" in x.intact()


# --- faults, and life after them -----------------------------------------------------------------


@pytest.mark.parametrize(
    "name, kind, text, explained",
    [
        (
            "illegal",
            "invalid-address",
            "an illegal memory access was encountered (cudaErrorIllegalAddress)",
            "outside every array",
        ),
        (
            "misaligned",
            "misaligned",
            "misaligned address (cudaErrorMisalignedAddress)",
            "not a multiple of the access size",
        ),
        (
            "launch_failure",
            "invalid-address",
            "unspecified launch failure (cudaErrorLaunchFailure)",
            "without saying why",
        ),
    ],
)
def test_a_fault_is_named_and_later_work_goes_on(device, name, kind, text, explained):
    module = device.compile(SOURCE, name="k.cu")
    before = device.array(numpy.ones(2, numpy.float32), name="before")
    with pytest.raises(KernelFault) as caught:
        module.get_function(name)(1, 1, ())
    assert (caught.value.kind, caught.value.headline, caught.value.file) == (kind, text, "k.cu")
    assert explained in caught.value.explanation
    with pytest.raises(DeviceError, match="before was lost when the GPU was restarted"):
        before.get()
    with pytest.raises(DeviceError, match="was lost"):
        module.get_function("scale")(1, 1, (before, numpy.int32(2), numpy.float32(3)))
    x = device.array(numpy.ones(2, numpy.float32))
    module.get_function("scale")(1, 1, (x, numpy.int32(2), numpy.float32(3)))
    assert (x.get() == 3).all()


def test_an_assert_has_line_block_and_thread(kernel):
    with pytest.raises(KernelFault) as caught:
        kernel("asserts")(1, 1, ())
    fault = caught.value
    assert (fault.kind, fault.line, fault.block, fault.thread) == ("assert", 7, (1, 0, 0), (5, 2, 0))
    assert fault.headline == "Assertion `x < 3` failed" and fault.launch.stdout == ""


def test_a_kernel_that_never_ends_is_ended(device, kernel):
    device.time_limit = 0.3
    pid = device._process._child.pid
    start = time.monotonic()
    with pytest.raises(KernelFault) as caught:
        kernel("endless")(1, 1, ())
    assert time.monotonic() - start < 5
    assert caught.value.kind == "timeout" and "endless ran for more than 0.3 seconds" in str(caught.value)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    device.time_limit = 10
    assert kernel("prints")(1, 1, (numpy.int32(1),)).stdout == "line 0\n"


def test_a_process_that_dies_is_named(kernel):
    with pytest.raises(DeviceError, match="ended unexpectedly .SIGSEGV"):
        kernel("dies")(1, 1, ())
    assert kernel("prints")(1, 1, (numpy.int32(1),)).stdout == "line 0\n"


def test_a_process_that_cannot_start_says_why(monkeypatch, tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('numpy is unwell')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DeviceError, match="ended unexpectedly .status 1: ImportError: numpy is unwell"):
        GPU()


def test_an_unknown_error_restarts_too(kernel):
    with pytest.raises(DeviceError, match="cudaErrorUnknown"):
        kernel("unheard_of")(1, 1, ())
    assert kernel("prints")(1, 1, (numpy.int32(1),)).stdout == "line 0\n"


def test_launch_errors_do_not_restart(device, kernel):
    pid = device._process._child.pid
    with pytest.raises(LaunchError, match="needs more registers") as caught:
        kernel("hungry")(1, 1, ())
    assert caught.value.code == "cudaErrorLaunchOutOfResources"
    with pytest.raises(DeviceError, match="does not fit in the GPU"):
        device.empty((1 << 29,), numpy.float32)
    with pytest.raises(CompileError, match="kernel.cu does not compile"):
        device.compile("int")
    assert device._process._child.pid == pid


def test_ctrl_c_leaves_no_answer_behind(device, kernel, monkeypatch):
    monkeypatch.setattr(child.Child, "_take", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        kernel("prints")(1, 1, (numpy.int32(5),))
    monkeypatch.undo()
    assert kernel("prints")(1, 1, (numpy.int32(1),)).stdout == "line 0\n"


def test_the_work_is_in_another_process_which_ends_with_the_device(fake):
    with GPU() as device:
        x = device.empty((1,), numpy.int64)
        device.compile(SOURCE).get_function("process")(1, 1, (x,))
        pid = int(x.get()[0])
        assert pid != os.getpid()
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(DeviceError, match="closed"):
        device.array(numpy.zeros(1))
    device.close()


def test_the_child_ends_when_its_parent_is_killed(fake):
    program = """
import os, sys, numpy
from backwarp.devices.gpu.device import GPU
device = GPU()
print(device._process._child.pid, flush=True)
device.compile('extern "C" __global__ void endless() {}').get_function("endless")(1, 1, ())
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(FAKE), str(FAKE.parents[2])))}
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
    child = int(parent.stdout.readline())
    time.sleep(0.5)
    parent.kill()
    parent.communicate()
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "zombie" in Path(f"/proc/{child}/status").read_text():
            return
        time.sleep(0.1)
    pytest.fail("the child lives on")


def test_arrays_let_go_of_are_freed(device):
    kept = device.array(numpy.zeros(2))
    handle = device.array(numpy.zeros(2))._handle
    gc.collect()
    kept.get()
    with pytest.raises(DeviceError, match="KeyError"):
        device._ask("get", handle)


# --- what is refused before a launch -------------------------------------------------------------


@pytest.mark.parametrize(
    "grid, block, code, text",
    [
        (1, (1025,), "cudaErrorInvalidConfiguration", "block.x is 1025; the limit is 1024"),
        (1, (32, 33), "cudaErrorInvalidConfiguration", "32 x 33 = 1056 threads; the limit is 1024"),
        (0, 32, "cudaErrorInvalidConfiguration", "grid.x is 0"),
        ((1, 70000), 32, "cudaErrorInvalidConfiguration", "grid.y is 70000; the limit is 65535"),
        ((1, 1, 1, 1), 32, "cudaErrorInvalidConfiguration", "1 to 3 dimensions"),
        (1.5, 32, "cudaErrorInvalidConfiguration", "whole numbers"),
    ],
)
def test_grids_and_blocks(kernel, grid, block, code, text):
    with pytest.raises(LaunchError, match=text) as caught:
        kernel("illegal")(grid, block, ())
    assert caught.value.code == code


@pytest.mark.parametrize(
    "args, text",
    [
        ((), "takes 3 arguments; 0 were given"),
        (("x", 3, numpy.float32(1)), "argument 2 of scale is a Python int"),
        (("x", numpy.int32(3), 1.0), "argument 3 of scale is a Python float"),
        (("x", numpy.int32(3), numpy.float64(1)), "argument 3 of scale is a float64 of 8 bytes; .* 4 bytes"),
        (("x", "x", numpy.float32(1)), "argument 2 of scale is an array .* of 8 bytes"),
        ((numpy.zeros(3), numpy.int32(3), numpy.float32(1)), "argument 1 of scale is a NumPy array"),
        (("x", None, numpy.float32(1)), "argument 2 of scale is a NoneType"),
    ],
)
def test_arguments(device, kernel, args, text):
    x = device.array(numpy.zeros(3, numpy.float32))
    with pytest.raises(LaunchError, match=text):
        kernel("scale")(1, 1, tuple(x if isinstance(a, str) else a for a in args))


def test_shared_memory_is_asked_for(device, kernel):
    x = device.empty((1,), numpy.int64)
    shared = kernel("shared")
    shared(1, 1, (x,), shared_mem=1000)
    assert x.get()[0] == 0
    with pytest.raises(LaunchError, match="1024 bytes of static and 60000 of dynamic .* a block has 49152"):
        shared(1, 1, (x,), shared_mem=60_000)
    shared.max_dynamic_shared_size_bytes = 60_000
    shared(1, 1, (x,), shared_mem=60_000)
    assert x.get()[0] == 60_000
    shared.max_dynamic_shared_size_bytes = 232_448
    with pytest.raises(LaunchError, match="1024 bytes of static and 232448 of dynamic"):
        shared(1, 1, (x,), shared_mem=232_448)


def test_a_grid_that_meets_has_to_fit(kernel):
    """The stand-in asserts that only this kernel is launched cooperatively."""
    kernel("meets")(132 * 8, 256, ())
    with pytest.raises(LaunchError, match="1057 blocks of 256 threads do not fit .* 1056 do") as caught:
        kernel("meets")(132 * 8 + 1, 256, ())
    assert caught.value.code == "cudaErrorCooperativeLaunchTooLarge"


def test_an_unknown_kernel(kernel):
    with pytest.raises(LaunchError, match="no kernel called scal"):
        kernel("scal")


def test_parameter_sizes():
    ptx = """.visible .entry k(\n .param .u64 .ptr .align 1 k_param_0,\n .param .align 16 .b8 k_param_1[48],
    .param .f32 k_param_2,\n .param .u8 k_param_3\n)\n{ }\n.visible .entry none()\n{}"""
    assert parameter_sizes(ptx, "k") == (8, 48, 4, 1)
    assert parameter_sizes(ptx, "none") == ()


# --- is there a GPU? -----------------------------------------------------------------------------


def test_no_device_is_said_plainly(fake, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "0")
    with pytest.raises(DeviceError, match="no device"):
        GPU()


def test_without_cupy_the_message_says_what_to_run(monkeypatch, tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('CuPy is broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DeviceError, match="CuPy cannot be loaded: CuPy is broken. Run: backwarp doctor"):
        GPU()


def test_a_driver_of_cuda_12_wants_its_own_compiler(fake, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_DRIVER", "12040")
    with GPU() as device:
        if find() is None:
            with pytest.raises(DeviceError, match=r"\[cuda12\]"):
                device.compile(SOURCE)
        else:
            assert "scale" in device.compile(SOURCE).functions


@pytest.mark.skipif(find() is None, reason="nvidia-cuda-nvrtc-cu12 is not installed")
def test_nvrtc12_lists_its_architectures():
    code, archs = Nvrtc12().nvrtcGetSupportedArchs()
    assert not code and 80 in archs


@pytest.mark.parametrize(
    "driver, cupy, expected",
    [
        (gpu.Driver(problem="no NVIDIA driver on this machine"), True, (False, "no NVIDIA driver")),
        (gpu.Driver(12040, 1), False, (False, "[cuda12]")),
        (gpu.Driver(13000, 1), False, (False, "[cuda13]")),
        (gpu.Driver(13000, 2), True, (True, "2 GPU")),
    ],
)
def test_available(monkeypatch, driver, cupy, expected):
    monkeypatch.setattr(gpu, "driver", lambda: driver)
    monkeypatch.setattr(gpu, "find_spec", lambda name: object() if cupy else None)
    usable, why = gpu.available()
    assert usable == expected[0] and expected[1] in why


# --- a real GPU ----------------------------------------------------------------------------------


@pytest.fixture
def real():
    usable, why = gpu.available()
    if not usable:
        pytest.skip(why)
    with GPU() as device:
        yield device


@pytest.mark.gpu
def test_real_launch_printf_and_guards(real):
    module = real.compile("""
        __global__ void scale(float* a, int n, float f) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) a[i] *= f;
            if (i == 0) printf("n = %d\\n", n);
        }
        __global__ void past(float* a, int n) { a[n + 1] = 1; }""")
    x = real.array(numpy.arange(1000, dtype=numpy.float32), name="x")
    launch = module.get_function("scale")(4, 256, (x, numpy.int32(1000), numpy.float32(3)))
    assert (x.get() == numpy.arange(1000) * 3).all() and launch.stdout == "n = 1000\n"
    with pytest.raises(KernelFault, match=r"\[1001\] of 1000"):
        module.get_function("past")(1, 1, (x, numpy.int32(1000)))


@pytest.mark.gpu
def test_real_faults_and_recovery(real):
    module = real.compile("""
        __global__ void illegal(float* a) { a[1ll << 40] = 1; }
        __global__ void odd(float* a) { *(float*)((char*)a + 1) = 1; }
        __global__ void asserts(float* a) { assert(threadIdx.x < 3); }
        __global__ void endless(volatile float* a) { while (a[0] == a[0]) a[1] += 1; }
        __global__ void one(float* a) { a[0] = 1; }""")
    real.time_limit = 2
    kinds = {"illegal": "invalid-address", "odd": "misaligned", "asserts": "assert", "endless": "timeout"}
    for name, kind in kinds.items():
        x = real.array(numpy.zeros(4, numpy.float32))
        with pytest.raises(KernelFault) as caught:
            module.get_function(name)(1, 32, (x,))
        assert caught.value.kind == kind
        if kind == "assert":  # whichever lane is told first
            assert caught.value.line == 4 and caught.value.thread[0] >= 3
    x = real.array(numpy.zeros(4, numpy.float32))
    module.get_function("one")(1, 1, (x,))
    assert x.get()[0] == 1


@pytest.mark.gpu
def test_real_shared_memory(real):
    source = """__global__ void k(float* a) {
        extern __shared__ float s[]; s[threadIdx.x] = 2; a[0] = s[threadIdx.x]; }"""
    x = real.empty((1,), numpy.float32)
    kernel = real.compile(source).get_function("k")
    kernel.max_dynamic_shared_size_bytes = 90_000
    kernel(1, 1, (x,), shared_mem=90_000)
    assert x.get()[0] == 2


@pytest.mark.gpu
def test_real_variables(real):
    module = real.compile("""
        __constant__ float table[4];
        __device__ int count;
        __managed__ int seen;
        __global__ void k(float* a) { a[threadIdx.x] = table[threadIdx.x]; atomicAdd(&count, 1); seen = 7; }""")
    module.set_constant("table", numpy.float32([1, 2, 3, 4]))
    x = real.empty((4,), numpy.float32)
    module.get_function("k")(1, 4, (x,))
    assert x.get().tolist() == [1, 2, 3, 4]
    assert [module.get_global(name, numpy.int32).get()[0] for name in ("count", "seen")] == [4, 7]


@pytest.mark.gpu
def test_real_grid_that_meets(real):
    module = real.compile("""
        #include <cooperative_groups.h>
        __global__ void k(int* a) {
            a[blockIdx.x] = blockIdx.x;
            cooperative_groups::this_grid().sync();
            a[gridDim.x + blockIdx.x] = a[gridDim.x - 1 - blockIdx.x];
        }""")
    x = real.empty((200,), numpy.int32)
    module.get_function("k")(100, 32, (x,))
    assert x.get()[100:].tolist() == list(range(100))[::-1]
    with pytest.raises(LaunchError, match="do not fit"):
        module.get_function("k")(1_000_000, 32, (x,))


@pytest.mark.gpu
def test_real_structs_printf_and_time(real):
    """A struct by value; more output than is kept; times that grow with the work."""
    module = real.compile("""
        struct Pair { int n; double f; };
        __global__ void store(float* a, Pair p) { a[0] = p.n * p.f; }
        __global__ void chatter(int n) { for (int i = 0; i < n; i++) printf("line %d\\n", i); }
        __global__ void spin(float* a, int n) { float x = a[0]; for (int i = 0; i < n; i++) x = x * x + 1; a[0] = x; }""")
    x = real.array(numpy.zeros(1, numpy.float32))
    pair = numpy.array((5, 0, 0.5), "i4, i4, f8")[()]
    module.get_function("store")(1, 1, (x, pair))
    assert x.get()[0] == 2.5
    launch = module.get_function("chatter")(1, 1, (numpy.int32(50_000),))
    assert launch.stdout.startswith("line 0\nline 1\n") and launch.stdout_dropped
    short, long = (
        min(module.get_function("spin").time(1, 1, (x, numpy.int32(n)), repeat=3)) for n in (1000, 1_000_000)
    )
    assert 0 < short < long
