"""Counters whose values can be worked out by hand."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from backwarp.devices.texture import (
    ARRAY,
    SURFACE,
    CUDAarray,
    ResourceDescriptor,
    SurfaceObject,
    TextureDescriptor,
    TextureObject,
)
from backwarp.devices.virtual.explain import metrics as c
from backwarp.devices.virtual.ptx.spellings import find
from tests.devices.virtual.launches import K, device, line_of, run

F = np.float32
I = np.int32


def floats(*shape):
    return np.ones(shape, F)


def counted(source: str, *args, **launch) -> dict:
    return run(source, *args, checks="count", **launch).counters


#: index -> sectors, and as few as there could be
SECTORS = [
    ("i", 4, 4),
    ("i + 1", 5, 4),  # consecutive, but not aligned
    ("i + 8", 4, 4),
    ("2 * i", 8, 4),
    ("3 * i", 12, 4),
    ("8 * i", 32, 4),
    ("32 * i", 32, 4),  # a column
    ("i / 2", 2, 2),
    ("0", 1, 1),  # one word for all
    ("i & 7", 1, 1),
    ("i ^ 31", 4, 4),  # backwards
    ("(i * 5) & 31", 4, 4),  # a permutation
    ("i / 16 * 100 + i % 16", 5, 4),  # two rows of 64 bytes, the second 16 bytes off
    ("i == 5 ? 1000 : i", 5, 4),  # lane 5 elsewhere; its sector is still needed by others
]
#: type -> sectors, bytes
WIDER = [
    ("char", 1, 32),
    ("short", 2, 64),
    ("float", 4, 128),
    ("float2", 8, 256),
    ("float4", 16, 512),
    ("double2", 16, 512),
]


@cache
def loads() -> tuple[list, object]:
    """What is loaded in the tests, and a kernel for each."""
    wanted = [(index, "float") for index, *_ in SECTORS] + [("i", type_) for type_, *_ in WIDER]
    wanted.append(("3 * i", "float4"))
    return wanted, device("count").compile(
        "\n".join(
            f"{K}k{n}(const {type_}* a, {type_}* out) {{ int i = threadIdx.x; out[i] = a[{index}]; }}"
            for n, (index, type_) in enumerate(wanted)
        )
    )


def load(index: str, type_: str = "float", block: int = 32) -> dict:
    """Every lane of one warp loads element `index` of an array."""
    (wanted, module), dev = loads(), device("count")
    kernel = module.get_function(f"k{wanted.index((index, type_))}")
    return kernel(1, block, (dev.array(floats(1 << 12)), dev.array(floats(1 << 12)))).counters


# -- global memory: sectors per request ---------------------------------------------------------------------


@pytest.mark.parametrize("index, sectors, ideal", SECTORS)
def test_sectors_per_request(index, sectors, ideal):
    counters = load(index)
    assert counters["global_load_requests"] == 1
    assert c.sectors_per_request(counters) == counters["global_load_sectors"] == sectors
    assert c.ideal_sectors_per_request(counters) == ideal
    assert counters["global_load_bytes"] == 128


@pytest.mark.parametrize("type_, sectors, nbytes", WIDER)
def test_a_wider_type_takes_more_sectors(type_, sectors, nbytes):
    counters = load("i", type_)
    for kind in ("load", "store"):
        assert counters[f"global_{kind}_requests"] == 1
        assert counters[f"global_{kind}_sectors"] == counters[f"global_{kind}_sectors_ideal"] == sectors
        assert counters[f"global_{kind}_bytes"] == nbytes


def test_float4_with_gaps():
    counters = load("3 * i", "float4")  # 16 bytes in every 48: one sector each, no two lanes the same
    assert counters["global_load_sectors"] == 32
    assert counters["global_load_sectors_ideal"] == 16


def test_a_tail_is_a_smaller_request():
    source = f"{K}k(const float* a, float* out, int n) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = a[i]; }}"
    counters = counted(source, floats(1000), floats(1000), I(1000), grid=4, block=256)
    assert counters["global_load_requests"] == counters["global_store_requests"] == 32
    assert counters["global_load_sectors"] == 1000 // 8
    assert counters["global_load_bytes"] == 4000
    assert counters["branches"] == 32
    assert counters["divergent_branches"] == 1  # the last warp: 8 lanes of 32
    assert c.branch_efficiency(counters) == 31 / 32


def test_warps_that_do_nothing_make_no_request():
    source = f"{K}k(float* out, int n) {{ int i = threadIdx.x; if (i < n) out[i] = 1; }}"
    counters = counted(source, floats(256), I(64), block=256)
    assert counters["global_store_requests"] == 2
    assert counters["divergent_branches"] == 0


def test_a_block_with_a_warp_across_rows():
    source = f"{K}k(const float* a, float* out) {{ out[threadIdx.y * 64 + threadIdx.x] = a[threadIdx.x * 64 + threadIdx.y]; }}"
    counters = counted(source, floats(64, 64), floats(64, 64), block=(16, 16))
    assert counters["global_store_requests"] == counters["global_load_requests"] == 8
    assert c.sectors_per_request(counters, "store") == 4  # two rows of 16 floats
    assert c.sectors_per_request(counters) == 16  # 16 rows of the array, 2 neighbouring floats of each


# -- products of matrices: by formula ------------------------------------------------------------------------

MATMUL = f"""{K}k(const float* a, const float* b, float* out, int n) {{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];  // FAULT
    out[row * n + column] = sum;
}}"""

TILED = f"""constexpr int T = 16;
{K}k(const float* a, const float* b, float* out, int n) {{
    __shared__ float x[T][T], y[T][T];
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += T) {{
        x[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        y[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < T; k++) sum += x[threadIdx.y][k] * y[k][threadIdx.x];
        __syncthreads();
    }}
    out[row * n + column] = sum;
}}"""


def test_matrix_product_naive():
    n = 64
    counters = counted(MATMUL, floats(n, n), floats(n, n), floats(n, n), I(n), grid=(2, 8), block=(32, 8))
    assert counters["global_load_bytes"] == 2 * n**3 * 4
    assert counters["global_load_requests"] == 2 * n**3 // 32
    assert counters["global_load_sectors"] == n**3 // 32 * (1 + 4)  # a: one word for the warp; b: a row of 32
    assert counters["global_store_bytes"] == n * n * 4
    assert counters["flops_fp32"] == c.flops(counters) == 2 * n**3
    assert counters["fp32_fma"] == n**3
    line = counters["lines"][line_of(MATMUL)]
    assert line["fp32_fma"] == n**3 and line["global_load_requests"] == 2 * n**3 // 32
    assert c.arithmetic_intensity(counters) == 2 * n**3 / (32 * (n**3 // 32 * 5 + n * n // 8))


def test_matrix_product_tiled():
    n, t = 64, 16
    counters = counted(
        TILED, floats(n, n), floats(n, n), floats(n, n), I(n), grid=(n // t, n // t), block=(t, t)
    )
    tiles = (n // t) ** 3
    assert counters["global_load_bytes"] == 2 * n**3 // t * 4
    assert counters["global_load_requests"] == 2 * tiles * t * t // 32
    assert counters["global_load_sectors"] == counters["global_load_sectors_ideal"] == 2 * tiles * t * t // 8
    assert counters["flops_fp32"] == 2 * n**3
    assert counters["barriers"] == 2 * tiles * t * t // 32
    assert counters["shared_store_bytes"] == 2 * n**3 // t * 4
    assert c.shared_conflicts(counters) == 0  # the two rows of a warp are 16 banks apart


def test_convolution():
    source = f"""{K}k(const float* x, const float* w, float* y, int W, int F, int Q) {{
        int q = threadIdx.x, p = blockIdx.x;
        float sum = 0;
        for (int r = 0; r < F; r++) for (int s = 0; s < F; s++) sum += w[r * F + s] * x[(p + r) * W + q + s];
        y[p * Q + q] = sum;
    }}"""
    size, f = 12, 5
    q = size - f + 1
    counters = counted(
        source, floats(size, size), floats(f, f), floats(q, q), I(size), I(f), I(q), grid=q, block=q
    )
    assert counters["flops_fp32"] == 2 * q * q * f * f
    assert counters["global_load_bytes"] == 2 * q * q * f * f * 4


# -- shared memory -------------------------------------------------------------------------------------------

TRANSPOSE = (
    K
    + """k(const float* a, float* out) {
    __shared__ float tile[32][WIDTH];
    for (int y = threadIdx.y; y < 32; y += 8) tile[y][threadIdx.x] = a[y * 32 + threadIdx.x];
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8) out[y * 32 + threadIdx.x] = tile[threadIdx.x][y];  // FAULT
}"""
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width, excess", [(32, 31), (33, 0), (34, 1), (36, 3), (48, 15)])
def test_transpose(width, excess):
    """Lanes that read a column: gcd(width, 32) of them share a bank."""
    source = TRANSPOSE.replace("WIDTH", str(width))
    counters = counted(source, floats(32, 32), floats(32, 32), block=(32, 8))
    assert counters["shared_store_requests"] == counters["shared_load_requests"] == 32
    assert c.conflicts_per_request(counters, "store") == 0
    assert c.conflicts_per_request(counters, "load") == excess
    assert counters["shared_load_wavefronts"] == 32 * (1 + excess)
    assert counters["lines"][line_of(source)].get("shared_load_conflicts", 0) == 32 * excess
    assert counters["barriers"] == 8
    assert c.sectors_per_request(counters) == c.sectors_per_request(counters, "store") == 4


#: index, type -> wavefronts, and as few as there could be
WAVEFRONTS = [
    ("i", "float", 1, 1),
    ("0", "float", 1, 1),
    ("i / 2", "float", 1, 1),
    ("2 * i", "float", 2, 1),
    ("3 * i", "float", 1, 1),
    ("8 * i", "float", 8, 1),
    ("i * 32", "float", 32, 1),
    ("i % 2 * 32", "float", 2, 1),  # two words of one bank, 16 lanes each
    ("i", "char", 1, 1),
    ("i * 4", "char", 1, 1),
    ("i * 128", "char", 32, 1),
    ("i", "short", 1, 1),
    ("i", "float2", 2, 2),  # half warps
    ("0", "float2", 2, 2),
    ("2 * i", "float2", 4, 2),
    ("i * 16", "float2", 32, 2),
    ("i", "float4", 4, 4),  # quarter warps
    ("i * 8", "float4", 32, 4),
    ("i / 8", "float4", 4, 4),
]


@cache
def tiles():
    """A kernel for each of WAVEFRONTS."""
    return device("count").compile(
        "\n".join(
            f"""{K}k{n}({type_}* out) {{
                __shared__ {type_} s[1024 * 4 / sizeof({type_})];
                int i = threadIdx.x;
                for (int j = i; j < 1024 * 4 / sizeof({type_}); j += blockDim.x) s[j] = {type_}();
                __syncthreads();
                out[i] = s[{index}];
            }}"""
            for n, (index, type_, *_) in enumerate(WAVEFRONTS)
        )
    )


@pytest.mark.parametrize("index, type_, wavefronts, ideal", WAVEFRONTS)
def test_wavefronts(index, type_, wavefronts, ideal):
    number, dev = WAVEFRONTS.index((index, type_, wavefronts, ideal)), device("count")
    counters = tiles().get_function(f"k{number}")(1, 32, (dev.array(floats(4096)),)).counters
    assert counters["shared_load_requests"] == 1
    assert counters["shared_load_wavefronts"] == wavefronts
    assert counters["shared_load_wavefronts_ideal"] == ideal
    assert counters["shared_load_conflicts"] == wavefronts - ideal


def test_idle_groups_take_no_wavefront():
    source = f"""{K}k(float4* out) {{
        __shared__ float4 s[32];
        s[threadIdx.x] = float4();
        __syncthreads();
        if (threadIdx.x < 12) out[threadIdx.x] = s[threadIdx.x];
    }}"""
    counters = counted(source, floats(32, 4))
    # 12 lanes: two quarters
    assert counters["shared_load_wavefronts"] == counters["shared_load_wavefronts_ideal"] == 2
    assert counters["shared_store_wavefronts"] == 4


def test_dynamic_and_generic_shared_memory():
    source = f"""__device__ __noinline__ float get(const float* p) {{ return *p; }}
    {K}k(const float* a, float* out) {{
        extern __shared__ float s[];
        s[threadIdx.x] = 1;
        __syncthreads();
        out[threadIdx.x] = get(threadIdx.x % 2 ? s + threadIdx.x : a + threadIdx.x);
    }}"""
    counters = counted(source, floats(32), floats(32), shared_mem=128)
    assert counters["shared_load_requests"] == counters["global_load_requests"] == 1
    assert counters["shared_load_bytes"] == counters["global_load_bytes"] == 64
    assert counters["global_load_sectors"] == 4
    assert counters["shared_load_conflicts"] == 0


# -- divergence ----------------------------------------------------------------------------------------------


def test_lanes_that_loop_differently():
    source = f"{K}k(const float* a, float* out, int n) {{\n    float sum = 0;\n#pragma unroll 1\n    for (int j = 0; j < (int)threadIdx.x; j++) sum += a[j * n + threadIdx.x];\n    out[threadIdx.x] = sum;\n}}"
    counters = counted(source, floats(32 * 32), floats(32), I(32))
    lines = counters["lines"][4]
    assert counters["global_load_requests"] == 31  # iteration j: lanes j + 1 to 31
    assert counters["global_load_bytes"] == 4 * 31 * 32 // 2
    assert counters["global_load_sectors"] == sum(4 - (j + 1) // 8 for j in range(31))
    assert counters["global_store_requests"] == 1  # together again
    assert lines["fp32_add"] == 31 * 32 // 2


def test_either_branch_is_a_request_of_its_own():
    source = f"""{K}k(const float* a, float* out) {{
        int i = threadIdx.x;
        if (i % 2) out[i] = __ldcg(a + i);
        else out[i] = 2 * __ldcg(a + 64 + i);
    }}"""
    counters = counted(source, floats(128), floats(32))
    assert counters["global_load_requests"] == 2
    assert counters["global_load_sectors"] == 8
    assert counters["divergent_branches"] == 1


def test_lanes_leave_a_loop_by_break_and_return():
    source = f"""{K}k(const volatile float* a, float* out, int n) {{
        int i = threadIdx.x;
        for (int j = 0; j < n; j++) {{
            float x = a[32 * j + i];  // FAULT
            if (i == 3 * j) return;
            if (i == 5 * j + 1) break;
        }}
        out[i] = 1;
    }}"""
    counters = counted(source, floats(32 * 16), floats(32), I(16))
    line = counters["lines"][line_of(source)]
    assert line["global_load_requests"] == 16
    gone = {0: 0} | {
        i: min([i // 3] * (i % 3 == 0) + [(i - 1) // 5] * (i % 5 == 1) + [15]) for i in range(1, 32)
    }
    assert line["global_load_bytes"] == 4 * sum(n + 1 for n in gone.values())
    returned = sum(i % 3 == 0 and not (i % 5 == 1 and (i - 1) // 5 < i // 3) for i in range(32))
    assert counters["global_store_requests"] == 1
    assert counters["global_store_bytes"] == 4 * (32 - returned)


def test_a_switch_with_a_table():
    source = f"""{K}k(const float* a, float* out) {{
        int i = threadIdx.x;
        switch (i % 8) {{
            case 0: out[i] = a[i]; break;
            case 1: out[i] = a[i] * a[i + 1]; break;
            case 2: out[i] = a[i] - a[i + 2]; break;
            case 3: out[i] = sqrtf(a[i]); break;
            case 4: out[i] = a[i + 4] / 3; break;
            case 5: out[i] = 7; break;
            case 6: out[i] = a[2 * i] + 1; break;
        }}
    }}"""
    counters = counted(source, floats(128), floats(32))
    assert counters["global_store_bytes"] == 28 * 4
    assert counters["divergent_branches"] >= 1
    assert counters["global_load_bytes"] == 4 * (4 + 8 + 8 + 4 + 4 + 4)


def test_the_path_of_calls_counts():
    source = f"""__device__ __noinline__ float get(const volatile float* a, int n) {{
        float sum = 0;
        for (int j = 0; j < n; j++) sum += a[32 * j + threadIdx.x];  // FAULT
        return sum;
    }}
    {K}k(const float* a, float* out, int n) {{
        float sum = threadIdx.x < 16 ? get(a, n) : 0;
        sum += get(a, n + 1);
        for (int j = 0; j < n; j++) sum += get(a, (threadIdx.x + j) % 3);
        out[threadIdx.x] = sum;
    }}"""
    n = 3
    counters = counted(source, floats(32 * 8), floats(32), I(n))
    line = counters["lines"][line_of(source)]
    assert line["global_load_requests"] == n + (n + 1) + 2 * n
    assert line["global_load_bytes"] == 4 * (
        16 * n + 32 * (n + 1) + sum((i + j) % 3 for i in range(32) for j in range(n))
    )


def test_a_function_that_may_wait_in_a_loop():
    """It is expanded in place; its iterations belong to an iteration of the loop around it."""
    source = f"""__device__ __noinline__ float get(const volatile float* a, int j, int n) {{
        if (n < 0) __syncthreads();
        float sum = 0;
        for (int i = 0; i < (threadIdx.x + j) % 3; i++) sum += a[i * 32 + threadIdx.x];  // FAULT
        return sum;
    }}
    {K}k(const float* a, float* out, int n) {{
        float sum = 0;
        for (int j = 0; j < n; j++) sum += get(a, j * j, n);
        out[threadIdx.x] = sum;
    }}"""
    counters = counted(source, floats(128), floats(32), I(9))
    line = counters["lines"][line_of(source)]
    assert line["global_load_requests"] == 2 * 9
    assert line["global_load_bytes"] == 4 * sum((i + j * j) % 3 for i in range(32) for j in range(9))


def test_recursion():
    source = f"""__device__ float sum(const volatile float* a, int n) {{ return n ? a[n * 32 + threadIdx.x] + sum(a, n - 1) * 2 + sum(a, n - 2 > 0 ? n - 2 : 0) : 0; }}
    {K}k(const float* a, float* out) {{ out[threadIdx.x] = sum(a, threadIdx.x % 4 + 2); }}"""
    counters = counted(source, floats(32 * 8), floats(32))

    def calls(n):
        return 1 + calls(n - 1) + calls(max(n - 2, 0)) if n else 0

    assert counters["global_load_bytes"] == 4 * 8 * sum(calls(n) for n in (2, 3, 4, 5))
    # lanes go down the same path of calls together, the deepest alone
    assert counters["global_load_requests"] == calls(5)
    assert counters["split"] == 0


def test_lanes_per_instruction():
    counters = load("i")
    assert c.lanes_per_instruction(counters) == 32
    assert c.lanes_per_instruction(load("i", block=8)) == 8


def test_a_spin_lock_is_counted():
    source = f"""{K}k(int* lock, int* out) {{
        for (bool done = false; !done;) {{
            if (atomicCAS(lock, 0, 1) == 0) {{ out[0] += 1; __threadfence(); atomicExch(lock, 0); done = true; }}
        }}
    }}"""
    counters = counted(source, np.zeros(1, I), np.zeros(1, I), grid=2, block=64)
    assert counters["global_load_bytes"] == counters["global_store_bytes"] == 128 * 4
    assert counters["global_atomic_operations"] >= 256


# -- operations ----------------------------------------------------------------------------------------------


#: expression -> what is counted for each thread
OPERATIONS = [
    ("x + y", {"fp32_add": 1, "flops_fp32": 1}),
    ("x - y", {"fp32_add": 1, "flops_fp32": 1}),
    ("x * y", {"fp32_mul": 1, "flops_fp32": 1}),
    ("x * y + 1", {"fp32_fma": 1, "flops_fp32": 2}),
    ("__fdividef(x, y)", {"fp32_other": 1, "flops_fp32": 1}),
    ("rsqrtf(x)", {"fp32_other": 1, "flops_fp32": 1}),
    ("fmaxf(x, y)", {"flops_fp32": 0}),
    ("__dadd_rn(x, y)", {"fp64_add": 1, "flops_fp64": 1, "flops_fp32": 0}),
    ("(float)((double)x * y + 1.0)", {"fp64_fma": 1, "flops_fp64": 2}),
]


@cache
def operations():
    """A kernel for each of OPERATIONS."""
    return device("count").compile(
        "\n".join(
            f"{K}k{n}(const float* a, float* out) {{ int i = threadIdx.x; float x = a[i], y = a[i + 32]; out[i] = {expression}; }}"
            for n, (expression, _) in enumerate(OPERATIONS)
        )
    )


@pytest.mark.parametrize("number", range(len(OPERATIONS)), ids=[expression for expression, _ in OPERATIONS])
def test_floating_point_operations(number):
    counts, dev = OPERATIONS[number][1], device("count")
    kernel = operations().get_function(f"k{number}")
    counters = kernel(1, 32, (dev.array(floats(64)), dev.array(floats(32)))).counters
    assert {name: counters[name] for name in counts} == {name: 32 * n for name, n in counts.items()}


def test_half_precision():
    source = f"""#include <cuda_fp16.h>
    {K}k(const __half2* a, __half2* out) {{ int i = threadIdx.x; out[i] = __hfma2(a[i], a[i], __hadd2(a[i], a[i + 32])); }}"""
    counters = counted(source, floats(64), floats(32))
    assert counters["fp16_fma"] == counters["fp16_add"] == 64
    assert counters["flops_fp16"] == 64 * 3


def test_tensor_cores():
    source = f"""#include <mma.h>
    using namespace nvcuda::wmma;
    {K}k(const __half* a, const __half* b, float* out) {{
        fragment<matrix_a, 16, 16, 16, __half, row_major> x;
        fragment<matrix_b, 16, 16, 16, __half, col_major> y;
        fragment<accumulator, 16, 16, 16, float> z;
        fill_fragment(z, 0.0f);
        load_matrix_sync(x, a, 16);
        load_matrix_sync(y, b, 16);
        mma_sync(z, x, y, z);
        store_matrix_sync(out, z, 16, mem_row_major);
    }}"""
    counters = counted(source, np.ones((16, 16), np.float16), np.ones((16, 16), np.float16), floats(16, 16))
    assert counters["flops_tensor"] == c.flops(counters) == 2 * 16**3
    assert counters["global_load_bytes"] == 2 * 16 * 16 * 2
    assert counters["global_load_sectors"] == 2 * 16
    assert counters["global_store_sectors"] == 32


def test_integer_instructions():
    source = f"{K}k(int* out, int n) {{ out[threadIdx.x] = (n ^ (int)threadIdx.x) * 3; }}"
    counters = counted(source, np.zeros(32, I), I(5))
    line = counters["lines"][1]
    assert line["integer_instructions"] >= 32 * 3  # xor, mul, address
    assert line["thread_instructions"] == 32 * line["warp_instructions"]


# -- the rest ------------------------------------------------------------------------------------------------


def test_atomics():
    source = f"""{K}k(int* out, int n) {{
        __shared__ int bins[32];
        int i = threadIdx.x;
        bins[i % 32] = 0;
        __syncthreads();
        atomicAdd(&bins[i % n], 1);
        __syncthreads();
        if (i < n) atomicAdd(&out[i], bins[i]);
    }}"""
    counters = counted(source, np.zeros(32, I), I(8), grid=3, block=64)
    assert counters["shared_atomic_requests"] == 3 * 2
    assert counters["shared_atomic_operations"] == 3 * 64
    assert counters["shared_atomic_serial"] == 3 * 2 * 4  # four lanes at each of 8 addresses
    assert counters["global_atomic_requests"] == 3
    assert counters["global_atomic_operations"] == 3 * 8
    assert counters["global_atomic_serial"] == 3
    assert counters["global_atomic_sectors"] == 3
    assert counters["barriers"] == 3 * 2 * 2


def test_a_reduction_with_shuffles():
    source = f"""{K}k(const float* a, float* out) {{
        float x = a[blockIdx.x * blockDim.x + threadIdx.x];
        for (int d = 16; d; d /= 2) x += __shfl_down_sync(0xffffffff, x, d);
        if (threadIdx.x % 32 == 0) atomicAdd(out, x);
    }}"""
    counters = counted(source, floats(512), floats(1), grid=4, block=128)
    assert counters["warp_collectives"] == 16 * 5
    assert counters["fp32_add"] == 512 * 5
    assert counters["global_atomic_operations"] == counters["global_atomic_requests"] == 16
    assert counters["divergent_branches"] == 16


def test_local_memory_is_interleaved():
    source = f"""{K}k(float* out, const int* order, int n) {{
        float mine[16];
        for (int j = 0; j < n; j++) mine[order[j]] = j;
        out[threadIdx.x] = mine[order[0]] + mine[threadIdx.x % 4];  // FAULT
    }}"""
    counters = counted(source, floats(32), np.arange(16, dtype=I), I(16))
    assert counters["local_store_requests"] == 16
    # one row of 128 bytes
    assert counters["local_store_sectors"] == counters["local_store_sectors_ideal"] == 16 * 4
    line = counters["lines"][line_of(source)]
    assert line["local_load_requests"] == 2
    assert line["local_load_sectors"] == 4 + 16  # one row; four rows, in each the sectors of all lanes
    assert line["local_load_sectors_ideal"] == 8


def test_asynchronous_copies():
    source = f"""#include <cuda_pipeline.h>
    {K}k(const float4* a, float* out) {{
        __shared__ float4 s[64];
        __pipeline_memcpy_async(&s[threadIdx.x], &a[threadIdx.x], 16);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        out[threadIdx.x] = s[threadIdx.x ^ 1].x;
    }}"""
    counters = counted(source, floats(64, 4), floats(64), block=64)
    assert counters["global_load_requests"] == counters["shared_store_requests"] == 2
    assert counters["global_load_sectors"] == 32
    assert counters["shared_store_wavefronts"] == 8
    assert counters["async_copies"] == 2


def test_floating_point_beside_copies():
    source = f"""#include <cuda_pipeline.h>
    {K}k(const float* a, float* out) {{
        __shared__ float s[32];
        int i = threadIdx.x;
        out[i] = a[i] * 3;
        if (i < 24) __pipeline_memcpy_async(&s[i], &a[i], 4);
        __pipeline_commit();
        out[i] = out[i] * a[i] + a[i];  // BESIDE
        __pipeline_wait_prior(0);
        out[i] = a[i] + out[i];
    }}"""
    counters = counted(source, floats(32), floats(32))
    assert counters["flops_fp32"] == 32 * 4
    assert counters["flops_overlapped"] == 24 * 2
    assert counters["lines"][line_of(source, "BESIDE")]["flops_overlapped"] == 24 * 2


def test_copies_that_a_thread_waits_for_without_having_computed():
    """Of two copies only the first has a FLOP between its start and its wait; another pair waits at once, together."""
    copy = "__pipeline_memcpy_async(&s[{0}][i], &a[i], 4); __pipeline_commit();"
    body = f"""
        __shared__ float s[4][32];
        int i = threadIdx.x;
        {copy.format(0)} out[i] = a[i] * 3.0f; {copy.format(1)}
        __pipeline_wait_prior(0);
        {copy.format(2)} {copy.format(3)} __pipeline_wait_prior(1); __pipeline_wait_prior(0);
        out[i] += s[0][i] + s[1][i] + s[2][i] + s[3][i];
    """
    source = f"#include <cuda_pipeline.h>\n{K}k(const float* a, float* out) {{ {body} }}"
    assert counted(source, floats(32), floats(32))["async_copies_idle"] == 3 * 32


def test_the_busiest_warp_of_each_block():
    """Of 4 warps: warp 2 makes two requests more than the others' one load and one store; shared ones do not count."""
    body = """
        __shared__ float s[128];
        int i = threadIdx.x;
        s[i] = i < 64 || i >= 96 ? 0.0f : a[i] + a[128 + i];
        out[i] = s[i] + a[i / 64];
    """
    counters = counted(
        f"{K}k(const float* a, float* out) {{ {body} }}", floats(256), floats(128), grid=3, block=128
    )
    assert counters["global_requests_busiest"] == 3 * 4
    assert c.global_requests(counters) == 3 * (4 * 2 + 2)


def test_integer_divisions():
    source = f"{K}k(int* out, int n) {{ out[threadIdx.x] = (int)threadIdx.x / n + n % 7 + n / 16; }}"
    assert counted(source, np.zeros(32, I), I(5))["integer_divisions"] == 32  # by a constant, it is a product


def test_ldmatrix():
    source = f"""{K}k(unsigned* out) {{
        __shared__ __align__(16) unsigned short s[16][WIDTH];
        for (int i = threadIdx.x; i < 16 * WIDTH; i += 32) s[i / WIDTH][i % WIDTH] = i;
        __syncwarp();
        unsigned where = __cvta_generic_to_shared(&s[threadIdx.x % 16][threadIdx.x / 16 * 8]), r[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%0,%1,%2,%3}}, [%4];"
            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(where));
        out[threadIdx.x] = r[0] + r[1] + r[2] + r[3];
    }}"""
    rows_of_32_bytes = counted(source.replace("WIDTH", "16"), np.zeros(32, np.uint32))
    assert rows_of_32_bytes["shared_load_requests"] == 1
    assert rows_of_32_bytes["shared_load_wavefronts"] == 8  # rows 0 and 4 of a matrix are in the same banks
    assert counted(source.replace("WIDTH", "24"), np.zeros(32, np.uint32))["shared_load_wavefronts"] == 4
    stored = source.replace("WIDTH", "24").replace(
        "asm volatile",
        """asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%0, %0};" :: "r"(where));
        asm volatile""",
    )
    more = counted(stored, np.zeros(32, np.uint32))["shared_store_wavefronts"]
    assert (
        more == counted(source.replace("WIDTH", "24"), np.zeros(32, np.uint32))["shared_store_wavefronts"] + 2
    )


def test_textures_and_surfaces():
    """Which are no accesses of global memory."""
    dev = device("count")
    image = CUDAarray.of(np.zeros((2, 64), np.float32), SURFACE, device=dev)
    resource = ResourceDescriptor(ARRAY, cuArr=image)
    kernel = dev.compile(f"""{K}k(cudaTextureObject_t image, cudaSurfaceObject_t to) {{
        float texel = tex2D<float>(image, threadIdx.x, 1);
        if (threadIdx.x < 40) surf2Dwrite(texel + 1, to, 4 * threadIdx.x, 0, cudaBoundaryModeZero);
    }}""").get_function("k")
    counters = kernel(3, 64, (TextureObject(resource, TextureDescriptor()), SurfaceObject(resource))).counters
    assert (counters["texture_requests"], counters["surface_requests"]) == (6, 6)
    assert counters["global_load_requests"] == counters["global_store_requests"] == 0


def test_early_returns_and_barriers():
    source = f"""{K}k(const float* a, float* out, int n) {{
        __shared__ float s[64];
        int i = threadIdx.x;
        if (i >= n) return;
        s[i] = a[i];
        __syncthreads();
        out[i] = s[n - 1 - i];
    }}"""
    counters = counted(source, floats(64), floats(64), I(40), block=64)
    assert counters["global_load_requests"] == counters["global_store_requests"] == counters["barriers"] == 2
    assert counters["global_load_bytes"] == 160


def test_counts_do_not_depend_on_the_schedule():
    seen = []
    for seed in (0, 1, 2):
        device("count").schedule = seed
        seen.append(
            counted(TILED, floats(48, 48), floats(48, 48), floats(48, 48), I(48), grid=(3, 3), block=(16, 16))
        )
    device("count").schedule = 0
    assert seen[0] == seen[1] == seen[2]


def test_lines_add_up_and_everything_is_json():
    counters = counted(
        TILED, floats(64, 64), floats(64, 64), floats(64, 64), I(64), grid=(4, 4), block=(16, 16)
    )
    for name in c.METRICS.keys() - c.OF_NO_LINE:
        assert sum(line.get(name, 0) for line in counters["lines"].values()) == counters[name], name
    assert json.loads(json.dumps(counters))["flops_fp32"] == counters["flops_fp32"]
    twice = c.add(counters, counters)
    assert twice["flops_fp32"] == 2 * counters["flops_fp32"]
    assert twice["lines"].keys() == counters["lines"].keys()


def test_only_this_mode_counts():
    assert run(f"{K}k(float* out) {{ out[threadIdx.x] = 1; }}", floats(32), checks="memory").counters == {}


def test_two_launches_are_counted_apart():
    assert load("i") == load("i")


def test_a_fault_is_a_fault():
    from backwarp.errors import KernelFault

    with pytest.raises(KernelFault, match="out of bounds|Invalid"):
        counted(f"{K}k(float* out) {{ out[threadIdx.x] = 1; }}", floats(31))


def test_little_memory_is_said(monkeypatch):
    """Where a warp's table is full, what is in it is added up at once, and `split` says so."""
    from backwarp.devices import open_device
    from backwarp.devices.virtual.run import tally

    monkeypatch.setattr(tally, "_MOST", 1 << 12)
    source = f"""__device__ __noinline__ float sum(const volatile float* a, int n) {{ float s = 0; for (int j = 0; j < n; j++) s += a[j]; return s; }}
    {K}k(const float* a, float* out, int n) {{ out[threadIdx.x] = sum(a, n); }}"""
    dev = open_device("cpu", checks="count")
    arrays = dev.array(floats(100)), dev.array(floats(32))
    counters = dev.compile(source).get_function("k")(1, 32, (*arrays, I(100))).counters
    assert counters["split"] > 0
    assert counters["global_load_bytes"] == 32 * 100 * 4  # what threads do is still exact
    assert counters["global_load_requests"] > 100


@pytest.mark.parametrize("name", c.METRICS)
def test_metrics_say_what_they_are(name):
    metric = c.METRICS[name]
    assert metric.unit and metric.meaning
    assert not metric.ncu or metric.ncu.endswith(".sum")


@pytest.mark.parametrize(
    "opcode, found",
    [
        ("fma.rn.ftz.f32", {"fp32_fma": 1}),
        ("sub.f64", {"fp64_add": 1}),
        ("mul.rn.f16x2", {"fp16_mul": 2}),
        ("fma.rn.bf16", {"fp16_fma": 1}),
        ("ex2.approx.ftz.f32", {"fp32_other": 1}),
        ("mad.lo.s32", {"integer_instructions": 1}),
        ("mul.wide.u32", {"integer_instructions": 1}),
        ("setp.lt.and.s32", {"integer_instructions": 1}),
        ("setp.lt.f32", {}),
        ("and.pred", {}),
        ("and.b64", {"integer_instructions": 1}),
        ("mov.b32", {}),
        ("selp.b32", {}),
        ("cvt.s64.s32", {}),
        ("min.f32", {}),
        ("max.s32", {"integer_instructions": 1}),
        ("ld.global.u32", {}),
        ("bar.sync", {"barriers": 1}),
        ("div.s32", {"integer_instructions": 1, "integer_divisions": 1}),
        ("rem.u64", {"integer_instructions": 1, "integer_divisions": 1}),
        ("div.rn.f32", {"fp32_other": 1}),
        ("cp.async.ca.shared.global", {"async_copies": 1}),
        ("cp.async.cg.shared.global.L2::128B", {"async_copies": 1}),
        ("cp.async.wait_group", {}),
        ("barrier.sync.aligned", {"barriers": 1}),
        ("bar.warp.sync", {"warp_collectives": 1}),
        ("shfl.sync.down.b32", {"warp_collectives": 1}),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", {"flops_tensor": 128}),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", {}),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", {"flops_tensor": 256}),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", {"flops_tensor": 16}),
    ],
)
def test_what_an_opcode_counts_as(opcode, found):
    assert c.kinds(find(opcode)) == {"instructions": 1, **found}
