"""Warps that run as vectors: matrix instructions give the same bits as one thread at a time. See
test_products for products."""

from __future__ import annotations

import pytest

from tests.devices.virtual.emit.lanes.bodies import BUILDS, Bodies

START = """#include "mma.cuh"
__device__ void mma_s8(int* d, unsigned a, unsigned b) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a), "r"(b));
}
__device__ void mma_double(double* d, double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));
}
__device__ void ldmatrix_x1(unsigned& r, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r) : "r"((unsigned)__cvta_generic_to_shared(row)));
}
"""
I = "int t = threadIdx.x, lane = t % 32, i = blockIdx.x * blockDim.x + t;"
FRAGMENTS = f"{I} unsigned a[4], b[2]; float d[4] = {{x[i], 0, 1, x[i + 128]}}; for (int e = 0; e < 4; e++) a[e] = to_tf32(x[i + 32 * e]); for (int e = 0; e < 2; e++) b[e] = to_tf32(x[(i * 7 + e) % 512]);"
TILE = f"{I} __shared__ __align__(16) __half tile[4][32][8]; __half (*own)[8] = tile[t / 32]; for (int e = 0; e < 8; e++) own[lane][e] = __float2half(x[(i * 8 + e) % 512]); __syncthreads();"
OUT = "for (int e = 0; e < 4; e++) out[i + 128 * e] = d[e];"
#: bodies of `(const float* x, const int* j, float* out, int n)`: 512 elements each, those of j in 0..255
BODIES = {
    "a product": f"{FRAGMENTS} mma_m16n8k8_tf32(d, a, b); {OUT}",
    "a sum of products": f"{FRAGMENTS} for (int k = 0; k < n; k++) {{ mma_m16n8k8_tf32(d, a, b); a[2] = to_tf32(x[i] + k); }} {OUT}",
    "one after the other": f"{FRAGMENTS} float s[4] = {{}}; mma_m16n8k8_tf32(d, a, b); mma_m16n8k8_tf32(s, a, b); for (int e = 0; e < 4; e++) a[e] = to_tf32(d[3 - e]); mma_m16n8k8_tf32(d, a, b); mma_m16n8k8_tf32(d, a, a + 1); for (int e = 0; e < 4; e++) d[e] += s[e]; {OUT}",
    "numbers that all lanes share": f"{I} unsigned a[4] = {{to_tf32(n), 0, to_tf32(0.5f), to_tf32(x[0])}}, b[2] = {{to_tf32(3), to_tf32(x[n])}}; float d[4] = {{}}; mma_m16n8k8_tf32(d, a, b); {OUT}",
    "in some warps": f"{FRAGMENTS} if (t / 32 != 1) mma_m16n8k8_tf32(d, a, b); if (n > 4) mma_m16n8k8_tf32(d, a, b); {OUT}",
    "then some leave": f"{FRAGMENTS} mma_m16n8k8_tf32(d, a, b); if (d[0] > 1 || j[i] < 50) return; {OUT}",
    "halves": f"{TILE} unsigned a[4], b[4]; float d[4] = {{}}; ldmatrix_x4(a, own[lane]); ldmatrix_x4_trans(b, own[31 - lane]); for (int k = 0; k < n; k++) {{ mma_m16n8k16_f16(d, a, b); mma_m16n8k16_f16(d, a, b + 2); }} {OUT}",
    "rows anywhere": f"{TILE} unsigned r[4]; ldmatrix_x4(r, tile[j[i] % (blockDim.x / 32)][j[i] / 8]); for (int e = 0; e < 4; e++) ((unsigned*)out)[i + 128 * e] = r[e] & 0x7bff7bff;",
    "fewer matrices": f"{TILE} unsigned r[4]; const __half* row = own[0] + 8 * lane; ldmatrix_x2(r, row + lane / 16 * 77777); ldmatrix_x2_trans(r + 2, (const char*)own[lane % 16] + lane / 16); ldmatrix_x1(r[3], row + lane / 8 * 77777); for (int e = 0; e < 4; e++) ((unsigned*)out)[i + 128 * e] = r[e] & 0x7bff7bff;",
    "bytes": f"{I} int d[2] = {{0x7fffffff - j[i], -j[i]}}; for (int k = 0; k < n; k++) mma_s8(d, j[i] * 0x01020304u, j[(i + k) % 512] * 0x04030201u); out[i] = d[0] % 9973; out[128 + i] = d[1] % 9973;",
    "doubles": f"{I} double d[2] = {{x[i], 0}}; for (int k = 0; k < n; k++) mma_double(d, x[i] / 3.0, x[(i + k) % 512] / 7.0); out[i] = d[0]; out[128 + i] = d[1] - d[0];",
    "in an array that need not be aligned": f"{I} __shared__ unsigned short tile[4 * 512]; for (int e = 0; e < 16; e++) tile[t * 16 + e] = j[i] + e; __syncthreads(); unsigned r[2]; ldmatrix_x2(r, &tile[t / 32 * 512 + lane % 16 * 8 + 8]); ((unsigned*)out)[i] = r[0] & 0x7bff7bff; ((unsigned*)out)[128 + i] = r[1] & 0x7bff7bff;",
}
#: as BODIES, but one by one
ALONE = {
    "some have left": f"{FRAGMENTS} if (j[i] < 9) return; mma_m16n8k8_tf32(d, a, b); for (int e = 0; e < 4; e++) ((unsigned*)out)[i + 128 * e] = __float_as_uint(d[e]) & 0x7fffff;",
    "stored rows": f"""{TILE} asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {{%1}};" :: "r"((unsigned)__cvta_generic_to_shared(own[lane])), "r"(j[i])); __syncthreads(); out[i] = __half2float(own[lane][1]);""",
}
BLOCKS = ((128, 1), (32, 1), (64, 2))
CHECKED = Bodies(BODIES, ALONE, 5, START)


@BUILDS
@pytest.mark.parametrize("width", [pytest.param(8, marks=pytest.mark.soak), 16])
def test_lanes_give_the_bits_of_one_thread_at_a_time(width, optimised):
    CHECKED.check(width, BLOCKS, optimised)


#: as BODIES, but something is wrong in the line
WRONG = {
    "a row behind the array": f"{TILE} unsigned r[4];\nldmatrix_x4(r, &own[lane][0] + (t == 95) * 4096);  // FAULT\nout[i] = r[0];",
    "a row that is not aligned": f"{TILE} unsigned r[4];\nldmatrix_x2(r, &own[lane][0] + (t == 47));  // FAULT\nout[i] = r[0];",
}


@BUILDS
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_names_the_thread_and_the_line(name, optimised):
    CHECKED.check_fault(WRONG[name], optimised)
