"""Full checks by lanes of kernels that copy asynchronously: the verdict of single threads alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices.virtual.launches import K
from tests.devices.virtual.scouting import (
    assert_lanes,
    both,
    inputs,
    lanes,  # noqa: F401  a fixture
    outputs,
)

HEAD = """
template <int SIZE> __device__ void copy(void* to, const void* from, int bytes = SIZE) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(at), "l"(from), "n"(SIZE), "r"(bytes) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
template <int N> __device__ void wait_but() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
"""
START = "__shared__ __align__(16) float s[256], r[256]; int t = threadIdx.x, i = blockIdx.x * 64 + t;"
#: kernels of (const float* a, float* out, float* b), whose a has 512 elements and b as many that are writable
RIGHT = {
    "4 bytes": "copy<4>(s + t, a + i); commit(); wait(); __syncthreads(); out[i] = s[63 - t];",
    "8 bytes": "copy<8>(s + 2 * t, a + 2 * i); wait(); __syncthreads(); out[i] = s[63 - t] + s[127 - t];",
    "16 bytes": "copy<16>(s + 4 * t, a + 4 * i); wait(); __syncthreads(); out[i] = s[63 - t] + s[255 - t];",
    "from an array that may be written": "copy<4>(s + t, b + i); wait(); __syncthreads(); out[i] = s[63 - t]; b[256 + i] = 1;",
    "what the thread has written": "b[i] = t; copy<4>(s + t, b + i); wait(); __syncthreads(); out[i] = s[63 - t];",
    "one's own, without a barrier": "copy<4>(s + t, a + i); wait(); out[i] = s[t];",
    "a pipeline": "float sum = 0; copy<4>(s + t, a + i); commit(); for (int k = 0; k < 4; k++) {"
    " if (k < 3) copy<4>(s + (k + 1) % 2 * 64 + t, a + (i + 64 * k) % 512); commit(); wait_but<1>(); __syncthreads();"
    " sum += s[k % 2 * 64 + 63 - t]; __syncthreads(); } out[i] = sum;",
    "zeros": "copy<4>(s + t, a + (t < 32 ? i : 1 << 28), t < 32 ? 4 : 0); wait(); __syncthreads(); out[i] = s[63 - t];",
    "more than are in flight": "for (int k = 0; k < 70; k++) copy<4>(s + t, a + i); wait(); __syncthreads(); out[i] = s[63 - t];",
    "scattered": "copy<4>(s + t * 5 % 64, a + i * 7 % 128); wait(); __syncthreads(); out[i] = s[63 - t];",
    "by some": "if (t % 3) copy<4>(s + t, a + i); else s[t] = 1; wait(); __syncthreads(); out[i] = s[63 - t];",
}
WRONG = {
    "no wait": "copy<4>(s + t, a + i); __syncthreads(); out[i] = s[63 - t] + 1;",
    "no wait, one's own": "copy<4>(s + t, a + i); float x = s[t]; wait(); out[i] = x > 1 ? 2 : 3;",
    "a wait for too little": "copy<4>(s + t, a + i); commit(); wait_but<1>(); __syncthreads(); out[i] = s[63 - t] + 1;",
    "no barrier": "copy<4>(s + t, a + i); wait(); out[i] = s[63 - t];",
    "a barrier before the wait": "copy<4>(s + t, a + i); __syncthreads(); wait(); out[i] = s[63 - t];",
    "others still read": "s[t] = t; __syncthreads(); float x = s[63 - t]; copy<4>(s + t, a + i); wait(); __syncthreads(); out[i] = x + s[t];",
    "to one place": "copy<4>(s + t / 2, a + i); wait(); __syncthreads(); out[i] = s[t / 2];",
    "what another writes": "b[i ^ 1] = t; copy<4>(s + t, b + i); wait(); __syncthreads(); out[i] = s[t];",
    "another writes it meanwhile": "copy<4>(s + t, b + i); b[i ^ 1] = t; wait(); __syncthreads(); out[i] = s[t];",
    "what is not written": "copy<4>(s + t, out + i); wait(); __syncthreads(); b[i] = s[t] > 0 ? 1 : 2; out[i] = 1;",
    "from outside": "copy<4>(s + t, a + 470 + t); wait(); __syncthreads(); out[i] = s[t];",
    "to outside": "copy<4>(r + 193 + t, a + i); wait(); __syncthreads(); out[i] = 1;",
    "misaligned": "copy<8>(s + t, a + 2 * i); wait(); __syncthreads(); out[i] = 1;",
}


@pytest.mark.parametrize("what", [*RIGHT, *WRONG])
def test_copies(what):
    body = (RIGHT | WRONG)[what]
    source = HEAD + K + f"k(const float* a, float* out, float* b) {{ {START} {body} }}"
    arrays = [inputs(512), outputs(512), inputs(512, readonly=False)]
    module, (fault, notes), (_, out, _) = both(source, arrays)
    assert module.get_function("k").info.scouts
    assert bool(fault or notes) == (what in WRONG)
    if what in RIGHT and "more" not in what:
        assert_lanes(module)
        assert np.isfinite(out[:128]).all()
