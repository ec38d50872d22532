"""Full checks by lanes of kernels with matrix instructions: the verdict of single threads alone."""

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
__device__ void load(unsigned* r, const void* row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ void load_two(unsigned* r, const void* row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
__device__ void multiply(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
"""
#: two warps; each lane has a row of 16 bytes in each of two tiles
START = """
    __shared__ __align__(16) unsigned s[64][4], w[64][4]; int t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned r[4], q[4]; float d[4] = {};
"""
FILL = "for (int k = 0; k < 4; k++) s[t][k] = 0x3c003c00 + a[t] * 0;"
OUT = "for (int e = 0; e < 4; e++) out[e * 64 + t] = d[e];"
READ = "for (int e = 0; e < 4; e++) out[e * 64 + t] = r[e] & 0xff;"
RIGHT = {
    "after a barrier": f"{FILL} __syncthreads(); load(r, s[t]); {READ}",
    "the other warp's": f"{FILL} __syncthreads(); load(r, s[63 - t]); {READ}",
    "by both warps": f"{FILL} __syncthreads(); load(r, s[lane]); load_two(q, s[lane % 16]); multiply(d, r, q); {OUT}",
    "one's own row": f"{FILL} load(r, s[t]); {READ}",
    "of the warp, which has met": f"{FILL} __syncwarp(); load(r, s[warp * 32 + 31 - lane]); {READ}",
    "a product": f"{FILL} __syncthreads(); for (int k = 0; k < 3; k++) {{ load(r, s[lane]); load_two(q, s[16 + lane % 16]);"
    f" multiply(d, r, q); }} {OUT}",
    "written again after a barrier": f"{FILL} __syncthreads(); load(r, s[63 - t]); __syncthreads(); {FILL} __syncthreads();"
    f" load(q, s[63 - t]); multiply(d, r, q); {OUT}",
    "read, then written by the warp that has met": f"{FILL} load(r, s[t]); __syncwarp(); s[t ^ 1][0] = 5; __syncwarp();"
    f" load(r, s[t]); {READ}",
}
WRONG = {
    "of the warp, which has not met": f"{FILL} load(r, s[warp * 32 + 31 - lane]); {READ}",
    "the other warp's, too early": f"{FILL} load(r, s[63 - t]); {READ}",
    "the other warp's, too early, although the warp has met": f"{FILL} __syncwarp(); load(r, s[63 - t]); {READ}",
    "written again too early": f"{FILL} __syncthreads(); load(r, s[63 - t]); s[t][2] = 1; {READ}",
    "written by another warp after it was read by both": f"{FILL} __syncthreads(); load(r, s[lane]); if (warp) s[lane][1] = 7; {READ}",
    "not written": f"if (t != 40) {FILL} __syncthreads(); load(r, s[t]); d[0] = r[1] > 5 ? 1 : 2; {OUT}",
    "outside": f"{FILL} __syncthreads(); load(r, s[t + 1]); {READ}",
    "misaligned": f"{FILL} __syncthreads(); load(r, &s[t / 2][1]); {READ}",
    "a register is not set": f"{FILL} __syncthreads(); load(r, s[lane]); if (a[t] > 900) q[0] = 1; q[1] = 2; multiply(d, r, q);"
    " if (d[0] > 1) out[t] = d[0];",
}


@pytest.mark.parametrize("what", [*RIGHT, *WRONG])
def test_matrices(what):
    source = HEAD + K + f"k(const float* a, float* out) {{ {START} {(RIGHT | WRONG)[what]} }}"
    module, (fault, notes), (_, out) = both(source, [inputs(64), outputs(256)], grid=1, block=64)
    assert module.get_function("k").info.scouts
    assert bool(fault or notes) == (what in WRONG)
    if what in RIGHT:
        assert_lanes(module)
        assert np.isfinite(out).all()
