"""Which accesses race: decided per byte, by what orders them, and the same under every schedule."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K

SEEDS = range(16)
TYPES = ("__half", "short", "unsigned char", "bool", "float", "double", "float4")
SAFE = {
    "the lanes of one word, halves": """__shared__ short s[64]; s[t] = t; s[t] = s[t] + 1; g[t + 64 * blockIdx.x] = s[t];""",
    "a swap that fails only reads": "int* own = g + 128 + 64 * blockIdx.x; if (t == 0) own[0] = atomicCAS(&g[64], 99, 1); else own[t] = *(volatile int*)&g[64];",
    "a swap that fails, beside plain reads": "if (t == 0) atomicCAS(&g[64], 99, 1); else g[128 + t + 64 * blockIdx.x] = g[64];",
    "the lanes of a warp store one value": "g[64 + t / 32 + 2 * blockIdx.x] = 7;",
    "a warp stores one value, and another after it has met": """
        __shared__ short s[2];
        for (int i = 0; i < 3; i++) {
            if (t % 32 == 0 || i > 0) { g[64 + blockIdx.x * 2 + t / 32] = i; s[t / 32] = i; }
            __syncwarp();
        }""",
    "bytes of one word": "((char*)g)[t + 64 * blockIdx.x] = t;",
    "who has seen every update may start again": """
        if (t == 0 && atomicAdd(&g[64], 1) == gridDim.x - 1) g[64] = 0;""",
    "who has seen every update of two blocks": """
        int* own = &g[64 + blockIdx.x / 2]; if (t == 32 && atomicInc((unsigned*)own, 4) == 1) *own = 0;""",
    "the last block, with fences on both sides": """
        __shared__ bool last;
        if (t == 0) {
            g[blockIdx.x] = 1; __threadfence(); last = atomicAdd(&g[64], 1) == gridDim.x - 1; __threadfence();
        }
        __syncthreads();
        if (last && t < gridDim.x) g[t] = g[t] + 1;""",
    "lanes that have met": """
        __shared__ int s[64]; s[t] = t; __syncwarp(); g[t + 64 * blockIdx.x] = s[t ^ 1];""",
}
RACES = {
    "all store one value": "g[64] = 7;  // FAULT",
    "all store one value, and another after a barrier": """
        __shared__ char s;
        for (int i = 0; i < 3; i++) {
            if (t == 0 || i > 0) { g[64 + blockIdx.x] = i; s = i; }  // FAULT
            __syncthreads();
        }""",
    "two lines store one value": """
        __shared__ int s[63]; if (t < 32) s[t] = 0;
        if (t >= 32) s[t - 1] = 0;  // FAULT
        __syncthreads(); g[t + 64 * blockIdx.x] = s[t % 63];""",
    "a word of two lanes, half of it by another warp": """
        __shared__ short s[64];
        if (t < 2) s[t] = t;
        if (t == 40) s[1] = 5;  // FAULT
        __syncthreads(); g[t] = s[1];""",
    "who has seen no update starts again": "if (t == 0 && atomicAdd(&g[64], 1) == 0)\ng[64] = 0;  // FAULT",
    "two of four start again": "if (t == 0 && atomicAdd(&g[64], 1) >= gridDim.x - 2)\ng[64] = 0;  // FAULT",
    "all start again": "if (t == 0) atomicAdd(&g[64], 1);\nif (t == 0) g[64] = 0;  // FAULT",
    "set by one, updated by all": "if (t == 0) g[64] = 1;\natomicAdd(&g[64], t);  // FAULT",
    "read by all, written by one of a warp": """
        __shared__ int s; if (t == 0) s = 1; __syncthreads();
        int seen = s;
        __syncwarp();
        if (t == 0) s = seen + 1;  // FAULT
        __syncthreads(); g[t] = s;""",
    "elements of a neighbouring block": "if (blockIdx.x < 2) g[t + 64 * blockIdx.x] += g[t + 64 * blockIdx.x + 64];  // FAULT",
    "behind a fence of somebody else": """
        if (t == 1) __threadfence();
        if (t == 0) g[64] = blockIdx.x;  // FAULT""",
    "the last block, with its fence on the wrong side": """
        if (t == 0) {
            g[blockIdx.x] = blockIdx.x + 1;
            int ticket = atomicAdd(&g[64], 1);
            __threadfence();
            if (ticket == gridDim.x - 1) for (int b = 0; b < gridDim.x; b++) g[65] += g[b];  // FAULT
        }""",
    "the last block, without a fence": """
        if (t == 0) {
            g[blockIdx.x] = blockIdx.x + 1;
            volatile int* count = &g[64];
            atomicAdd(&g[64], 1);
            if (*count == gridDim.x) for (int b = 0; b < gridDim.x; b++) g[65] += g[b];  // FAULT
        }""",
    "what one block stores at last, and others at once": """
        for (int i = blockIdx.x > 0; i < 2; i++) {
            g[64] = i;  // FAULT
            __syncthreads();
        }""",
    "what one warp stores at last, and the other at once": """
        __shared__ char s;
        for (int i = t / 32; i < 2; i++) {
            s = i;  // FAULT
            __syncwarp();
        }""",
    "what one thread stores at last, and the other at once": """
        if (t < 2) for (int i = t; i < 2; i++) ((short*)g)[128 + blockIdx.x] = i;  // FAULT""",
    "what holders of a lock store, each in another block's sight": """
        if (t < 2) {
            while (atomicCAS(&g[80], 0, 1)) {}
            __threadfence_block();
            g[64] = t;  // FAULT
            __threadfence_block();
            atomicExch(&g[80], 0);
        }""",
    "updates that reach their block only": "atomicAdd_block(&g[64], 1);  // FAULT",
    "each block clears, then adds": "if (t == 0) g[64] = blockIdx.x;\natomicAdd(&g[64], 1);  // FAULT",
    "one byte, by two": "((char*)g)[(t + blockIdx.x) % 64 + 1] = t;  // FAULT",
    "a float4 and one of its floats": """
        if (t < 16) ((float4*)g)[t] = make_float4(1, 2, 3, blockIdx.x);
        if (t == 33) ((float*)g)[5] = 9;  // FAULT""",
    "who left before the barrier": """
        __shared__ int s[64]; s[t] = t;
        if (t == 40) return;
        __syncthreads(); g[t] = s[40];  // FAULT""",
}


def kernels(bodies: dict[str, str]) -> str:
    text = "#include <cuda_fp16.h>\n"
    for i, body in enumerate(bodies.values()):
        text += f"{K}k{i}(int* g) {{ int t = threadIdx.x;\n{body}\n}}\n"
    for i, of in enumerate(TYPES):
        if bodies is SAFE:
            twice = "v.x *= 2" if of == "float4" else "v = !v" if of == "bool" else f"v = v * ({of})2"
            text += f"""
{K}global{i}({of}* x) {{ int i = blockIdx.x * 64 + threadIdx.x; {of} v = x[i]; {twice}; x[i] = v; __syncthreads(); v = x[i]; {twice}; x[i] = v; }}
{K}shared{i}({of}* x) {{
    __shared__ {of} s[64]; int i = threadIdx.x, j = i + 64 * blockIdx.x; s[i] = x[j]; {of} v = s[i]; {twice}; s[i] = v;
    __syncthreads(); v = s[63 - i]; __syncthreads(); s[i] = v; x[j] = s[i];
}}"""
    return text


@cache
def module(safe: bool):
    device = VirtualGPU("full")
    device.quick = True
    return device, device.compile(kernels(SAFE if safe else RACES))


def found(safe: bool, name: str, seed: int) -> KernelFault | None:
    device, compiled = module(safe)
    device.schedule = seed
    try:
        compiled.get_function(name)(4, 64, (device.array(np.zeros(1024, np.int32), name="g"),))
    except KernelFault as fault:
        return fault
    return None


@pytest.mark.parametrize("name", SAFE)
def test_no_race(name):
    for seed in SEEDS:
        assert found(True, f"k{list(SAFE).index(name)}", seed) is None


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("of", TYPES)
def test_each_thread_its_own_element(of, space):
    for seed in SEEDS:
        assert found(True, f"{space}{TYPES.index(of)}", seed) is None


@pytest.mark.parametrize("name", RACES)
def test_race(name):
    index = list(RACES).index(name)
    source = kernels(RACES)
    line = source[: source.index("FAULT", source.index(f"k{index}("))].count("\n") + 1
    for seed in SEEDS:
        fault = found(False, f"k{index}", seed)
        assert fault and fault.kind == "race"
        assert fault.severity == "warning" or "one value" not in name
        assert line in [f.line for f in (fault, *fault.more)] + [
            f.other.line for f in (fault, *fault.more) if f.other
        ]
