"""The runtime's machine code: made once, whoever needs it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from backwarp.devices.virtual.compile import runtime_code
from backwarp.devices.virtual.compile.levels import LEVELS, levels_here
from tests import SOURCES

SUM = """
extern "C" __global__ void sum(const float* x, float* out, int wait) {
    __shared__ float s[64];
    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    for (int n = 32; n; n /= 2) {
        if (wait) __syncthreads();
        if (threadIdx.x < n) s[threadIdx.x] += s[threadIdx.x + n];
    }
    if (threadIdx.x == 0) atomicAdd(out, s[0]);
}
"""


def test_threads_that_need_the_runtime_wait_for_the_one_that_compiles_it(monkeypatch):
    begun, others, makers = threading.Event(), threading.Event(), []

    def made() -> bytes:
        makers.append(threading.current_thread())
        begun.set()
        others.wait(10)
        return b"code"

    monkeypatch.setattr(runtime_code, "_provided", [])
    monkeypatch.setattr(runtime_code, "_made", made)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(runtime_code.code())) for _ in range(3)]
    threads[0].start()
    begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    others.set()
    for thread in threads:
        thread.join(10)
    assert found == [b"code"] * 3 and makers == threads[:1]


@pytest.fixture
def released(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime_code, "_RELEASED", tmp_path)
    monkeypatch.setattr(
        runtime_code, "_store", SimpleNamespace(get=lambda key: None, put=lambda key, code: None)
    )
    monkeypatch.setattr(runtime_code, "_compiled", lambda source, target="": f"compiled {target}".encode())
    return tmp_path


def test_what_a_release_brings_is_taken_for_the_best_processor_that_this_one_is(released, monkeypatch):
    for level in LEVELS:
        runtime_code.write_for(level)
    for here, code in (
        (list(LEVELS), b"compiled x86-64-v4"),
        (["x86-64-v3"], b"compiled x86-64-v3"),
        ([], b"compiled "),
    ):
        monkeypatch.setattr(runtime_code, "levels_here", lambda here=here: here)
        assert runtime_code._made() == code


def test_a_release_of_other_texts_is_not_taken(released, monkeypatch):
    monkeypatch.setattr(runtime_code, "levels_here", lambda: list(LEVELS))
    with monkeypatch.context() as before:
        before.setattr(runtime_code, "own_text", lambda: "of an earlier version")
        runtime_code.write_for("x86-64-v4")
    assert runtime_code._made() == b"compiled "


@pytest.mark.parametrize(
    ("flags", "levels"),
    [
        ("avx2 avx bmi1 bmi2 f16c fma abm movbe popcnt", ["x86-64-v3"]),
        (
            "avx512f avx512bw avx512cd avx512dq avx512vl avx2 avx bmi1 bmi2 f16c fma abm movbe popcnt",
            ["x86-64-v4", "x86-64-v3"],
        ),
        ("avx512f avx2 avx bmi1 bmi2 f16c fma abm movbe popcnt", ["x86-64-v3"]),
        ("avx sse4_2", []),
    ],
)
def test_the_kernel_says_which_processor_this_is(monkeypatch, flags, levels):
    monkeypatch.setattr(
        "pathlib.Path.read_text", lambda *_, **__: f"model name: x\nflags\t\t: fpu {flags} sse\n"
    )
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert levels_here() == levels
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")  # emulated on that one
    assert levels_here() == ["neon"]


def test_machine_code_of_one_architecture_is_not_taken_for_another(monkeypatch):
    """A container of the other kind may have the same cache, and sees the same processor."""
    here = runtime_code.machine()
    runtime_code.machine.cache_clear()
    monkeypatch.setattr(platform, "machine", lambda: "another")
    assert runtime_code.machine() != here
    runtime_code.machine.cache_clear()


def test_on_arm_code_that_another_thread_has_loaded_is_run_after_a_barrier():
    assert "aarch64.isb" in runtime_code._glue("neon") and "isb" not in runtime_code._glue("x86-64-v3")


RUNS = """
import sys
import numpy as np
from backwarp.devices.virtual.compile import runtime_code
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import KernelFault
runtime_code.provide(runtime_code._compiled(runtime_code._source(), sys.argv[1]))
device = VirtualGPU()
kernel = device.compile(sys.argv[2]).get_function("sum")
x, out = device.array(np.ones(256, np.float32)), device.array(np.zeros(1, np.float32))
kernel((4,), (64,), (x, out, np.int32(1)))
print(out.get()[0])
try:
    kernel((4,), (64,), (x, out, np.int32(0)))
except KernelFault as fault:
    print(fault.kind)
"""


@pytest.mark.parametrize("level", levels_here())
def test_code_for_a_level_runs_kernels_like_code_for_this_processor(level):
    """Barriers, shared memory, atomics, races."""
    command = [sys.executable, "-c", RUNS, level, SUM]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["256.0", "race"], done.stderr
