"""Threads that are lanes: copies (cp.async) arrive as late as those of one thread at a time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.devices.virtual.device import VirtualGPU
from harness.errors import KernelFault
from harness.tests.devices.virtual.launches import K, line_of

INCLUDE = (Path(harness.__file__).parents[1] / "puzzles" / "include",)
N, THREADS = 117, 128
START = """#include "async.cuh"
template <int Size> __device__ void copy(void* to, const void* from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(Size), "r"(bytes) : "memory");
}
"""
I = "int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;"
SLOTS = f"{I} __shared__ __align__(16) float slot[128][4]; for (int e = 0; e < 4; e++) slot[t][e] = -e - 1;"
OUT = "for (int e = 0; e < 4; e++) out[i + 128 * e] = slot[t][e];"
#: bodies of `(const float* x, const int* j, float* out, int n)`: 512 elements each, those of j in 0..255
BODIES = {
    "late": f"{SLOTS} copy_async(&slot[t][0], x + i, true); copy_async(&slot[t][1], x + i + n, i < n); commit_copies(); out[i] = slot[t][0]; out[128 + i] = slot[t][1]; wait_copies<0>(); out[256 + i] = slot[t][0]; out[384 + i] = slot[t][1];",
    "groups": f"""{SLOTS} for (int e = 0; e < 4; e++) {{ copy_async(&slot[t][e], x + i + 128 * e, j[i] % 5 != e); commit_copies(); }}
        for (int e = 0; e < 4; e++) out[i + 128 * e] = 0; wait_copies<2>(); for (int e = 0; e < 4; e++) out[i + 128 * e] += slot[t][e];
        commit_copies(); wait_copies<2>(); for (int e = 0; e < 4; e++) out[i + 128 * e] += 3 * slot[t][e];""",
    "a pipeline": f"""{I} __shared__ float tile[2][128]; float sum = 0; copy_async(&tile[0][t], x + i, true); commit_copies();
        for (int k = 1; k < 4; k++) {{ copy_async(&tile[k % 2][t], x + (i + 97 * k) % 512, i % 3 != k); commit_copies(); wait_copies<1>(); __syncthreads(); sum += k * tile[(k - 1) % 2][t ^ 5]; __syncthreads(); }}
        out[i] = sum;""",
    "sixteen bytes": f'{SLOTS} copy<16>(slot[t], x + j[i] / 4 * 4, j[i] % 18); asm volatile("cp.async.wait_all;" ::: "memory"); {OUT}',
    "eight bytes": f"{SLOTS} copy<8>(&slot[t][j[i] % 2 * 2], x + 2 * t, j[i] % 9); commit_copies(); wait_copies<0>(); {OUT}",
    "from nowhere": f"{SLOTS} copy_async(&slot[t][2], x - 1000000 * (j[i] % 2), j[i] % 2 == 0); commit_copies(); wait_copies<0>(); {OUT}",
    "of some lanes": f"{SLOTS} if (j[i] % 3) {{ copy_async(&slot[t][0], x + i, true); if (j[i] % 2) copy_async(&slot[t][3], x + j[i], i < n); }} commit_copies(); wait_copies<0>(); {OUT}",
    "more than there is room for": f"{SLOTS} for (int k = 0; k < 70 + n % 2; k++) {{ copy_async(&slot[t][k % 4], x + (i + k) % 512, true); if (k % 9 == 0) commit_copies(); }} {OUT} commit_copies(); wait_copies<0>(); for (int e = 0; e < 4; e++) out[i + 128 * e] += 2 * slot[t][e];",
    "never waited for": f"{SLOTS} copy_async(&slot[t][0], x + i, true); commit_copies(); {OUT}",
    "on both sides of a wait": f"{SLOTS} __syncthreads(); float a = slot[t][1]; copy_async(&slot[t][1], x + i, true); copy_async(&slot[t][2], x + i, true); commit_copies(); a += slot[t][2]; wait_copies<0>(); out[i] = a; out[128 + i] = slot[t][1] - slot[t][2] + slot[t][3];",
    "in order": f"{SLOTS} copy_async(&slot[t][0], x + i, true); copy_async(&slot[t][0], x + (i + 1) % 512, j[i] % 2); commit_copies(); wait_copies<0>(); {OUT}",
    "of a warp": f"{SLOTS} copy_async(&slot[t][1], x + i, j[i] % 2); commit_copies(); wait_copies<0>(); float s = slot[t][1]; for (int d = 16; d; d /= 2) s += __shfl_xor_sync(0xffffffff, s, d); out[i] = s;",
    "then some leave": f"{SLOTS} copy_async(&slot[t][1], x + i, true); commit_copies(); wait_copies<0>(); if (i >= n) return; {OUT}",
}
#: as BODIES, but one by one
ALONE = {
    "some have left": f"{SLOTS} copy_async(&slot[t][1], x + i, true); commit_copies(); if (j[i] % 2) return; wait_copies<0>(); {OUT}",
    "where some are": f"{SLOTS} copy_async(&slot[t][1], x + i, true); commit_copies(); if (j[i] % 2) wait_copies<0>(); {OUT}",
}
BLOCKS = ((128, 1), (64, 2), (32, 4), (48, 1))


@cache
def opened(width: int, target: str) -> VirtualGPU:
    made = VirtualGPU("memory", cores=1)
    made.lanes, made.target, made.quick = width, target, width == 1
    return made


@cache
def bits(width: int, block: tuple[int, int], target: str) -> dict[str, bytes]:
    """What each body leaves in `out`."""
    dev, rng, found = opened(width, target), np.random.default_rng(1), {}
    x = dev.array(rng.standard_normal(512).astype(np.float32), name="x")
    j = dev.array(rng.integers(0, 256, 512, np.int32), name="j")
    for name, kernel in kernels(width, target).items():
        assert (kernel.info.lanes > 1) == (width > 1 and name in BODIES), name
        out = dev.array(np.zeros(512, np.float32), name="out")
        kernel(THREADS // (block[0] * block[1]), block, (x, j, out, np.int32(N)))
        found[name] = out.get().tobytes()
    return found


@cache
def kernels(width: int, target: str) -> dict[str, object]:
    bodies = BODIES | ALONE
    source = START + "\n".join(
        f"{K}k{m}(const float* x, const int* j, float* out, int n) {{ {body} }}"
        for m, body in enumerate(bodies.values())
    )
    module = opened(width, target).compile(source, include_dirs=INCLUDE)
    return {name: module.get_function(f"k{m}") for m, name in enumerate(bodies)}


@pytest.mark.parametrize(("width", "target"), [(8, "avx2"), (16, "")])
def test_lanes_give_the_bits_of_one_thread_at_a_time(width, target):
    for block in BLOCKS:
        alone = bits(1, block, "")
        for name, found in bits(width, block, target).items():
            assert found == alone[name] and any(found), (name, block)


#: as BODIES, but something is wrong in the line
WRONG = {
    "from behind the array": f"{SLOTS}\ncopy_async(&slot[t][0], x + i + (t == 45) * 600, true);  // FAULT\n{OUT}",
    "to behind the array": f"{SLOTS}\ncopy_async(&slot[t][0] + (t == 77) * 512, x + i, true);  // FAULT\n{OUT}",
    "not aligned": f"{SLOTS}\ncopy4_async(slot[t], x + 4 * (i % 100) + (t == 19), 4, true);  // FAULT\n{OUT}",
}


@cache
def fault(name: str, width: int) -> tuple:
    """What is told first of a wrong kernel, and in which thread."""
    source = f"{START}{K}k(const float* x, const int* j, float* out, int n) {{\n{WRONG[name]}\n}}"
    dev = opened(width, "")
    given = ((np.float32, "x"), (np.int32, "j"), (np.float32, "out"))
    x, j, out = (dev.array(np.arange(512).astype(t), name=n) for t, n in given)
    kernel = dev.compile(source, include_dirs=INCLUDE).get_function("k")
    assert (kernel.info.lanes > 1) == (width > 1)
    with pytest.raises(KernelFault) as caught:
        kernel(1, THREADS, (x, j, out, np.int32(N)))
    told = caught.value
    assert told.line == line_of(source, "FAULT")
    return told.kind, told.thread, told.block, told.array, told.index


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_names_the_thread_the_line_and_the_element(name):
    assert fault(name, 16) == fault(name, 1)
