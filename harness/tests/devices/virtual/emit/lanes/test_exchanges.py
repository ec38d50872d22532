"""Warps that run as vectors: exchanges give the same bits as one thread at a time."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.emit.lanes.exchanges import sources
from tests.devices.virtual.emit.lanes.bodies import BUILDS, Bodies

I = "int t = threadIdx.y * blockDim.x + threadIdx.x, i = blockIdx.x * blockDim.x * blockDim.y + t; const unsigned all = 0xffffffff;"
#: bodies of `(const float* x, const int* j, float* out, int n)`: 512 elements each, those of j in 0..255
BODIES = {
    "a sum": f"{I} float s = x[i]; for (int d = 16; d; d /= 2) s += __shfl_down_sync(all, s, d); if (t % 32 == 0) out[i / 32] = s; out[128 + i] = s;",
    "a sum of a block": f"""{I} __shared__ float slot[32]; float s = 0; for (int k = t; k < n; k += blockDim.x * blockDim.y) s += x[k] * x[k + 3];
        for (int d = 16; d; d /= 2) s += __shfl_down_sync(all, s, d);
        if (t % 32 == 0) slot[t / 32] = s;
        __syncthreads();
        if (t / 32 == 0) {{
            s = t < blockDim.x * blockDim.y / 32 ? slot[t] : 0;
            for (int d = 16; d; d /= 2) s += __shfl_down_sync(all, s, d);
            if (t == 0) out[blockIdx.x] = s;
        }}""",
    "a sum by the first warp": f"""{I} __shared__ float slot[128]; slot[t] = x[i]; __syncthreads();
        if (t < 32) {{ float s = 0; for (int k = t; k < blockDim.x * blockDim.y; k += 32) s += slot[k];
            s += __shfl_xor_sync(all, s, 16); s += __shfl_xor_sync(all, s, 1); out[i] = s; }}""",
    "signed numbers": f"""{I} int u = threadIdx.x, warp = u / 32, lane = u % 32; float s = x[i];
        for (int r = warp; r < n / 10; r += 2) {{ s += __shfl_up_sync(all, s, 3) * lane; if (lane == 0) out[128 + i / 32 * 16 + r] = s; }}
        out[i] = s + warp;""",
    "up": f"{I} float s = x[i]; out[i] = __shfl_up_sync(all, s, 1) + 2 * __shfl_up_sync(all, s, 31) + 3 * __shfl_up_sync(all, s, 2, 8);",
    "down": f"{I} float s = x[i]; out[i] = __shfl_down_sync(all, s, 9) + 2 * __shfl_down_sync(all, s, 1, 4) + 3 * __shfl_down_sync(all, s, 0);",
    "across": f"{I} float s = x[i]; out[i] = __shfl_xor_sync(all, s, 5) + 2 * __shfl_xor_sync(all, s, 31) + 3 * __shfl_xor_sync(all, s, 9, 8);",
    "from one": f"{I} float s = x[i]; out[i] = __shfl_sync(all, s, 0) + 2 * __shfl_sync(all, s, 37) + 3 * __shfl_sync(all, s, 5, 4); out[128 + i] = __shfl_sync(all, t, 7);",
    "in range": f"""{I} int d, p, q; asm("{{.reg .pred p; shfl.sync.up.b32 %0|p, %2, 5, 0, -1; selp.s32 %1, 1, 0, p;}}" : "=r"(d), "=r"(p) : "r"(j[i]));
        asm("{{.reg .pred p; shfl.sync.down.b32 _|p, %1, 3, 0x1807, -1; selp.s32 %0, 1, 0, p;}}" : "=r"(q) : "r"(i)); out[i] = d + 1000 * p + 2000 * q;""",
    "eight bytes": f"{I} double s = x[i] / 3.0; for (int d = 16; d; d /= 2) s += __shfl_xor_sync(all, s, d); out[i] = s; long long k = (long long)j[i] << 33 | i; out[128 + i] = __shfl_down_sync(all, k, 4) % 1009;",
    "some have left": f"{I} if (i >= n || x[i] > 1) return; float s = x[i]; ((unsigned*)out)[i] = __float_as_uint(__shfl_down_sync(all, s, 1)); out[128 + i] = __ballot_sync(all, s > 0) % 97u;",
    "all have left": f"{I} if (i >= 32) return; out[i] = __shfl_down_sync(all, x[i], 1) + (i / 32);",
    "votes": f"""{I} int k = j[i] % 8; out[i] = __any_sync(all, k == 3) + 2 * __all_sync(all, k < 8) + 4 * __all_sync(all, k < 7) + 8 * __any_sync(all, k > 7) + 16 * __uni_sync(all, n) + 32 * __uni_sync(all, k);
        ((unsigned*)out)[128 + i] = __ballot_sync(all, k > 2) ^ __ballot_sync(all, n > 2); if (i >= n) return; out[256 + i] = __all_sync(all, i < n) + 2 * __uni_sync(all, i < n) + 4 * __any_sync(all, i < 4);""",
    "redux": f"""{I} unsigned* o = (unsigned*)out; int k = j[i] - 100; if (i >= n) return;
        o[i] = __reduce_add_sync(all, k) ^ __reduce_min_sync(all, k) * 3 ^ __reduce_max_sync(all, k) * 5; o[128 + i] = __reduce_min_sync(all, (unsigned)k) + __reduce_max_sync(all, (unsigned)k) * 7;
        o[256 + i] = __reduce_and_sync(all, k | 64) + __reduce_or_sync(all, k & 48) * 3 + __reduce_xor_sync(all, k) * 5 + __reduce_add_sync(all, n);""",
    "syncwarp": f"{I} __shared__ float s[128]; s[t] = x[i]; __syncwarp(); float a = s[t ^ 1]; __syncwarp(); s[t] = a * 2; __syncwarp(); out[i] = s[t ^ 3];",
    "a scan": f"{I} int s = j[i], lane = t & 31; for (int d = 1; d < 32; d *= 2) {{ int more = __shfl_up_sync(all, s, d); if (lane >= d) s += more; }} out[i] = s;",
    "compared with the warp": f"""{I} int u = threadIdx.x; float s = x[i]; if (u >= 32) s *= __shfl_xor_sync(all, s, 1); if (u > 63) s += __shfl_xor_sync(all, s, 2);
        if (u + blockIdx.x * 64 < 96) s -= __shfl_xor_sync(all, s, 4); if ((u & ~31) != 32) s += __shfl_xor_sync(all, s, 8); out[i] = s;""",
    "numbers of a lane": f"{I} int lane = threadIdx.x & 31, warp = threadIdx.x >> 5; float s = x[warp * 32 + lane] + x[lane * 3 + warp]; out[i] = s + __shfl_xor_sync(all, lane, 3) + warp; if (lane < 30) out[128 + 32 * (i / 32) + lane] = x[lane + 1];",
    "a loop of some lanes": f"{I} int u = threadIdx.x, warp = u >> 5; for (; u < n; u += j[i] % 5 * 32 + 32) out[i] += x[u] + (u >> 5); out[i] += warp + (u >> 5) + __shfl_xor_sync(all, u, 1);",
    "where some are": f"{I} int u = 0, a = 5; if (j[i] & 1) {{ u = threadIdx.x + 64; a = u >> 5; out[i] = u & 31; }} out[128 + i] = a + (u >> 5) + __shfl_xor_sync(all, u, 1);",
}
#: as BODIES, but one by one
ALONE = {
    "half a warp": f"{I} if (t % 32 < 16) out[i] = __shfl_down_sync(0xffff, x[i], 8, 16);",
    "in one way": f"{I} float s = x[i]; if (j[i / 32 * 32 + t % 2] & 1) s += __shfl_xor_sync(__activemask(), s, 0); out[i] = s;",
    "a distance of the lane's own": f"{I} out[i] = __shfl_sync(all, x[i], j[i]);",
    "alike": f"{I} out[i] = __popc(__match_any_sync(all, j[i] % 4));",
    "a mask that is not known": f"{I} out[i] = __shfl_xor_sync(n > 3 ? all : 1u << t % 32, x[i], 1);",
}
BLOCKS = ((128, 1), (32, 2), (64, 2), (32, 1), (16, 8), (48, 1))
CHECKED = Bodies(BODIES, ALONE, 117, few=8)


@BUILDS
@pytest.mark.parametrize("width", [pytest.param(8, marks=pytest.mark.soak), 16])
def test_lanes_give_the_bits_of_one_thread_at_a_time(width, optimised):
    CHECKED.check(width, BLOCKS, optimised)


def test_schedules_change_the_order_of_warps():
    assert CHECKED.bits(16, (64, 2), schedule=3) == CHECKED.bits(1, (64, 2))


#: as BODIES, but something is wrong in the line
WRONG = {
    "one too far": f"{I}\nfloat s = x[i + (t == 45) * 600];  // FAULT\nout[i] = s + __shfl_xor_sync(all, s, 1);",
    "after a shuffle": f"{I} int k = __shfl_xor_sync(all, j[i], 3);\nout[k * 20] = 1;  // FAULT",
    "behind a shared array": f"{I} __shared__ float slot[2], more[9]; more[t % 9] = 0; float s = __shfl_down_sync(all, x[i], 1);\nif (t % 32 == 0) slot[t / 32] = s;  // FAULT\n__syncthreads(); out[i] = slot[t / 64] + more[0];",
    "the second warp": f"{I} float s = x[i]; if (threadIdx.x / 32 == 1)\ns += __shfl_xor_sync(all, x[i + 480], 1);  // FAULT\nout[i] = s;",
    "for ever": f"{I} float s = 1;\nfor (int k = 0; __any_sync(all, s > 0); k++) {{ s = s * s + x[k & 1]; }}  // FAULT\nout[i] = s;",
}


@pytest.mark.sampled(2)
@BUILDS
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_names_the_thread_the_line_and_the_element(name, optimised):
    CHECKED.check_fault(WRONG[name], optimised)


def test_whose_value_a_lane_gets():
    """Of 32 lanes: shuffles by one, of segments of eight, and those that are out of range."""
    assert sources("down", 1, 31, 32) == [(i + 1, True) for i in range(31)] + [(31, False)]
    assert sources("up", 1, 0, 32) == [(0, False)] + [(i, True) for i in range(31)]
    assert sources("bfly", 1, 31, 32) == [(i ^ 1, True) for i in range(32)]
    assert sources("idx", 9, 0x181F, 32) == [(i & 24 | 1, True) for i in range(32)]
    assert sources("down", 6, 0x181F, 32)[:3] == [(6, True), (7, True), (2, False)]
