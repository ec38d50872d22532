"""A kernel cannot tell which of its builds runs: it sees the same macros, addresses, processors and clocks in
each."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.virtual.device import VirtualGPU
from tests.devices.virtual.launches import K

BUILDS = ("full", "memory", "count")
SOURCE = f"""
__device__ int one;
static __device__ int unused[100000];  // but in unoptimised code
__device__ __noinline__ int f(int x) {{ return x + 1; }}
__device__ __noinline__ int g(int x) {{ return x + 2; }}
__device__ int (*table[2])(int) = {{f, g}};
{K}macros(unsigned long long* out) {{
#ifdef __CUDACC_DEBUG__
    out[0] = 1;
#endif
    int known = 5;
    out[1] = __builtin_constant_p(known);
    out[2] = sizeof(long) + sizeof(void*) + sizeof(long double) + __CUDA_ARCH__;
}}
{K}addresses(unsigned long long* out) {{
    __shared__ float tile[32];
    extern __shared__ float more[];
    float mine[32];
    for (int i = 0; i < 32; i++) mine[i] = tile[i] = more[i] = out[i % 4] + one;
    if (threadIdx.x > 2000000000u) unused[out[0]] = 1;
    out[0] = (unsigned long long)out;
    out[1] = (unsigned long long)tile;
    out[2] = (unsigned long long)more;
    out[3] = (unsigned long long)mine & ~0xfffull;
    out[4] = (unsigned long long)table[0] + table[1](3);
    out[5] = __isShared(tile) + 2 * __isGlobal(out) + 4 * __isLocal(mine) + 8 * __isGlobal(tile) + 16 * __isLocal(out);
    out[6] = mine[out[0] % 32];
}}
{K}registers(unsigned long long* out) {{
    unsigned r;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(r)); out[0] = r;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(r)); out[1] = r;
    asm volatile("mov.u32 %0, %%gridid;" : "=r"(r)); out[2] = r;
    asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(r)); out[3] = r;
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r)); out[4] = r;
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(r)); out[5] = r;
}}
{K}clocks(unsigned long long* out) {{
    unsigned long long start = clock64(), now, sum = 0;
    for (int i = 0; i < 1000; i++) sum += out[i % 7] * i + 1;
    out[0] = clock64() - start;
    unsigned short_start = clock();
    out[1] = unsigned(clock()) - short_start + 0 * sum;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    out[2] = now - start;
}}
{K}waits(unsigned long long* out) {{
    long long start = clock64();
    while (clock64() - start < 100000) {{}}
    out[0] = 1;
}}
"""


@pytest.mark.parametrize("name", ["macros", "addresses", "registers", "clocks", "waits"])
def test_builds_look_the_same(name):
    seen = []
    for checks in BUILDS:
        with VirtualGPU(checks) as dev:  # a new one: other tests have left arrays on theirs
            dev.quick = True
            kernel, out = dev.compile(SOURCE).get_function(name), dev.array(np.zeros(8, np.uint64))
            kernel(1, 1, (out,), shared_mem=128)
            seen.append(out.get().tolist())
    assert seen[0] == seen[1] == seen[2] and any(seen[0])


def test_clocks_go_on_from_launch_to_launch():
    with VirtualGPU("memory") as dev:
        kernel = dev.compile(f"{K}now(long long* out) {{ out[0] = clock64(); }}").get_function("now")
        out, seen = dev.array(np.zeros(1, np.int64)), []
        for _ in range(3):
            kernel(1, 1, (out,))
            seen.append(out.get()[0])
    assert seen[0] < seen[1] < seen[2]
