"""Random programs of products of four warps: optimised, so that products are computed together and sums stay with the group, they
leave bit by bit what they leave without."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import device, line_of

_HEAD = r"""
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 in_shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
#define P(d, da, db, add) asm volatile("{.reg .pred p; setp.ne.b32 p, %6, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, p, 1, 1, 0, 0;}" \
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(da), "l"(db), "r"(add) : "memory")
#define H(d, da, db, add) asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%0,%1}, %2, %3, p, 1, -1, 0, 0;}" \
    : "+r"(d[0]), "+r"(d[1]) : "l"(da), "l"(db), "r"(add) : "memory")
#define R(d, a, db, add) asm volatile("{.reg .pred p; setp.ne.b32 p, %9, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p, 1, 1, 0;}" \
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(db), "r"(add) : "memory")
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
"""
_FRAME = r"""
extern "C" __global__ void NAME(float* y, const u32* x, int n) {
    __shared__ alignas(1024) u32 s[4096];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) s[i] = x[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    int t = threadIdx.x;
    u64 at = (in_shared(s) & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32;  // no swizzle: halves of K 128 bytes apart, 8 rows 256
    float f[3][4] = {};
    u32 h[2] = {}, a[4] = {x[t], x[t + 1], x[t + 2], x[t + 3]};
    BODY
    WAIT(0);
    for (int k = 0; k < 12; k++) y[k * blockDim.x + t] = f[k / 4][k % 4];
    for (int k = 0; k < 2; k++) y[(12 + k) * blockDim.x + t] = __uint_as_float(h[k] & 0x7fff7fff) == 0 ? 0 : h[k] % 65536;
}
"""


def _body(rng, depth: int = 0) -> str:
    pick = lambda n: int(rng.integers(n))  # noqa: E731
    lines, last = [], 0
    for _ in range(3 + pick(8)):
        sums = last = pick(3) if not pick(3) else last  # mostly the same as before
        a, b = (f"at + {8 * pick(32)} + ({8 * pick(8)} << (n & 1))" for _ in "ab")
        add = ("1", "1", "1", "0", f"(n >> {pick(3)} & 1)")[pick(5)]
        kind = pick(16)
        if kind < 8:
            lines += [f"P(f[{sums}], {a}, {b}, {add});"]
        elif kind == 8:
            lines += [f"H(h, {a}, {b}, {add});"]
        elif kind == 9:
            lines += [f"R(f[{sums}], a, {b}, {add});"]
        elif kind == 10:
            lines += ["COMMIT;"]
        elif kind == 11:
            lines += ["COMMIT;", f"WAIT({pick(2)});"]
        elif kind == 12:  # some of the threads change their sums
            lines += [
                "COMMIT;",
                "WAIT(0);",
                f"if (t % {1 + pick(5)} == 0) f[{sums}][{pick(4)}] *= 0.5f;",
                "FENCE;",
            ]
        elif kind == 13:
            lines += ["COMMIT;", "WAIT(0);", f"a[{pick(4)}] ^= 0x{pick(16):x}00{pick(16):x};", "FENCE;"]
        elif kind == 14:
            lines += ["COMMIT;", "WAIT(0);", f"f[{sums}][{pick(4)}] += f[{pick(3)}][{pick(4)}];", "FENCE;"]
        elif not depth:
            lines += [f"for (int i = 0; i < n % {2 + pick(3)}; i++) {{", _body(rng, 1), "}"]
    return "\n".join(["FENCE;", *lines, "COMMIT;"])


def random_kernel(seed: int, name: str = "k") -> str:
    return _FRAME.replace("NAME", name).replace("BODY", _body(np.random.default_rng(seed)))


def results(seeds: range, checks: str, launches=((128, 5), (256, 2))) -> list[np.ndarray]:
    source = _HEAD + "".join(random_kernel(seed, f"k{seed}") for seed in seeds)
    dev = device(checks)
    module = dev.compile(source)
    x = np.random.default_rng(1).normal(size=8192).astype(np.float16).view(np.uint32)
    found = []
    for seed in seeds:
        for threads, n in launches:
            y = dev.empty(14 * threads, np.float32, name="y")
            module.get_function(f"k{seed}")(1, threads, (y, dev.array(x, "x"), np.int32(n)))
            found.append(y.get())
    return found


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 200), marks=pytest.mark.soak)])
def test_chains_change_no_bit(seeds):
    for alone, together in zip(results(seeds, "full"), results(seeds, "memory"), strict=True):
        assert np.isfinite(alone).any()
        np.testing.assert_array_equal(alone.view(np.uint32), together.view(np.uint32))


def test_a_product_of_a_chain_that_differs_is_named():
    body = "FENCE;\nP(f[0], at, at, 1);\nP(f[0], at + 8 * (t / 64), at, 1);  // DIFFERS\nP(f[0], at, at, 1);\nCOMMIT;"
    source = _HEAD + _FRAME.replace("NAME", "k").replace("BODY", body)
    for checks in ("full", "memory"):
        dev = device(checks)
        with pytest.raises(KernelFault) as found:
            dev.compile(source).get_function("k")(
                1, 128, (dev.empty(2048, np.float32), dev.array(np.zeros(4096, np.uint32)), np.int32(1))
            )
        assert (found.value.kind, found.value.line) == ("shuffle-mask", line_of(source, "DIFFERS"))
