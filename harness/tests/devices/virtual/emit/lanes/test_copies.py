"""Threads that are lanes: copies (cp.async) arrive as late as those of one thread at a time."""

from __future__ import annotations

import pytest

from tests.devices.virtual.emit.lanes.bodies import BUILDS, Bodies

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
CHECKED = Bodies(BODIES, ALONE, 117, START)


@BUILDS
@pytest.mark.parametrize("width", [8, pytest.param(16, marks=pytest.mark.soak)])
def test_lanes_give_the_bits_of_one_thread_at_a_time(width, optimised):
    CHECKED.check(width, BLOCKS, optimised)


#: as BODIES, but something is wrong in the line
WRONG = {
    "from behind the array": f"{SLOTS}\ncopy_async(&slot[t][0], x + i + (t == 45) * 600, true);  // FAULT\n{OUT}",
    "to behind the array": f"{SLOTS}\ncopy_async(&slot[t][0] + (t == 77) * 512, x + i, true);  // FAULT\n{OUT}",
    "not aligned": f"{SLOTS}\ncopy4_async(slot[t], x + 4 * (i % 100) + 2 * (t == 19), 4, true);  // FAULT\n{OUT}",
}


@BUILDS
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_names_the_thread_the_line_and_the_element(name, optimised):
    CHECKED.check_fault(WRONG[name], optimised)
