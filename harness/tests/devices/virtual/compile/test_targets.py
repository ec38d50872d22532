"""Code for other processors than this machine's: what an x86 processor without AVX-512 runs, and the text that ARM's gets."""

import struct
from functools import cache

import numpy as np
import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.compile import pipeline
from backwarp.devices.virtual.compile.recipes import recipe
from backwarp.devices.virtual.compile.targets import target
from backwarp.devices.virtual.device import VirtualGPU
from tests.devices.virtual.launches import only

_AARCH64 = 183  # e_machine of ELF
SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void sums(const float* x, const int* at, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < i % 5; k++) { if (at[i] % (k + 2) == 1) continue; sum += x[at[i] + k] * expf(x[k]); }
    y[i] = sum;
}
extern "C" __global__ void halves(const half* x, const short* at, double* y) {
    int i = threadIdx.x;
    half v = __hmul(x[at[i]], x[i]);
    if (i & 1) y[i] = __half2float(v) / at[i];
    else y[7 * i] = (double)at[i] + __popc(i);
}
extern "C" __global__ void quads(const float4* x, unsigned char* y, long long far) {
    int i = threadIdx.x;
    float4 v = x[i];
    y[i] = v.x + v.y * v.z + v.w;
    y[i * far] = (i * far) % 7;
}
"""


@cache
def ptx() -> str:
    return compile_ptx(SOURCE, "kernel.cu", "fast").text


@pytest.mark.parametrize("checks", ["memory", pytest.param("none", marks=pytest.mark.soak)])
def test_lanes_of_arm_processors_are_verified_and_become_an_object(checks):
    lowered, code = pipeline.compile_ptx(ptx(), "kernel.cu", recipe(checks, target="neon"), 1 << 30)
    assert code[:4] == b"\x7fELF" and struct.unpack_from("<H", code, 18) == (_AARCH64,)
    assert {kernel.lanes for kernel in lowered.kernels.values()} == {4}


def test_a_machine_without_avx512():
    assert "+avx512" not in target("avx2").features and target("avx2").masks == "i32"
    found = []
    for name in ("", "avx2"):
        dev = VirtualGPU("memory", cores=1)
        dev.target = name
        x, at = (
            dev.array(np.arange(1, 65).astype(t), name=n) for t, n in ((np.float32, "x"), (np.int32, "at"))
        )
        kernel, y = (
            dev.compile(only(SOURCE, ["sums"])).get_function("sums"),
            dev.array(np.zeros(64, np.float32), name="y"),
        )
        kernel(2, 32, (x, at, y, np.int32(50)))
        assert kernel.info.lanes == target(name).lanes
        found.append(y.get().tobytes())
    assert found[0] == found[1]
