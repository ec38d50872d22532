"""What C++ means, whatever the PTX looks like: control flow, calls, memory spaces, parameters, assembly."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from backwarp.devices.virtual.compile import pipeline
from backwarp.devices.virtual.compile.recipes import recipe
from backwarp.errors import KernelFault, LaunchError
from tests import KERNELS
from tests.devices.virtual.launches import (
    FLAVOURS,
    K,
    chosen,
    device,
    in_each_build,
    only,
    result,
    run,
    zeros,
)

N = 64
A = np.random.default_rng(7).integers(-50, 50, N).astype(np.int32)
A[:4] = 0, 1, -1, 49
EVERY = np.arange(N)


def collatz(x: int) -> int:
    steps = 0
    while x > 1:
        x, steps = (3 * x + 1 if x % 2 else x // 2), steps + 1
    return steps


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def around(i: int) -> tuple[int, int]:
    return int(A[(i + 1) % N]), int(A[(i + 5) % N])


#: the kernels of kernels/meaning.cu: what each leaves for (i, a[i])
MODELS: dict[str, Callable[[int, int], int]] = {
    "if_else": lambda i, x: min(abs(x), 20) if x > 0 else -x,
    "nested_ifs": lambda i, x: ((1 if x & 2 else 2) if i & 1 else 3) + 10 if x > 0 else 4,
    "while": lambda i, x: collatz(i),
    "do_while": lambda i, x: max(1, -(-i // 7)),
    "break_and_continue": lambda i, x: sum(j for j in range(i + 1) if j % 3),
    "nested_loops": lambda i, x: sum(
        j * k for j in range(i % 7 + 1) for k in range(j, 9, 2) if not (j % 2 and k >= 5)
    ),
    "goto": lambda i, x: 3 * max(1, -(-i // 3)),
    "switch_table": lambda i, x: [5, 16, 9, x, -x, i, 0, 99][i % 8],
    "switch_sparse": lambda i, x: {-1: 1, 0: 2, 49: 3}.get(x, 4),
    "switch_in_a_loop": lambda i, x: max(1, i.bit_length()) + 3 * bin(i).count("1"),
    "short_circuit": lambda i, x: 10 if x > 0 or i > 9 else 1,
    "conditional_chain": lambda i, x: (
        (3 if x > 30 else 2) if x > 10 else (5 if x < -30 else 4) if x < -10 else 1
    ),
    "early_return": lambda i, x: 5 if i % 3 else 77,
    "loop_of_zero_rounds": lambda i, x: 1,
    "predicated_stores": lambda i, x: (2 if x & 1 else 1) + (4 if x & 2 else 0),
    "unrolled": lambda i, x: sum(int(A[j]) * j for j in range(16) if j <= i),
    "not_unrolled": lambda i, x: reduce(lambda r, v: r * 3 + int(v), A[:16], 0),
    "two_inductions": lambda i, x: sum(64 - 5 * j for j in range(13)),
    "inline_call": lambda i, x: 2 * x + 2 * i,
    "real_call": lambda i, x: 9 * x - i,
    "call_in_a_branch": lambda i, x: abs(x) // 2 * (1 if x > 0 else -1) if i & 1 else i // 2 + 1,
    "by_reference": lambda i, x: 100 * i + x,
    "out_parameters": lambda i, x: 1000 * ((i + 100) // 7) + (i + 100) % 7,
    "struct_result": lambda i, x: 100 * min(x, i) + max(x, i),
    "struct_argument": lambda i, x: x + 2 + i + 7 + 3,
    "small_types": lambda i, x: x + (x & 255) + i + 1 + 4 + 2 + 4,
    "small_results": lambda i, x: (x & 255) + (1000 if x < 0 else 0) + x + i,
    "recursion": lambda i, x: fibonacci(i % 12),
    "mutual_recursion": lambda i, x: 2 if i % 2 else 1,
    "recursion_with_a_local_array": lambda i, x: sum(map(int, str(i * 37))),
    "lambda": lambda i, x: 2 * (i + x),
    "template": lambda i, x: (i % 5) ** 5 + 1,
    "class": lambda i, x: x + i + 1 + 40,
    "overloads": lambda i, x: x + 10 + 20,
    "function_table": lambda i, x: [x + 3, x - 3, x * 3][i % 3] + x + i,
    "function_argument": lambda i, x: x + 2 if i & 1 else 4 * x,
    "virtual_functions": lambda i, x: i + 10 + x if x > 0 else 1 + x,
    "many_arguments": lambda i, x: 55 + i + x,
    "constexpr_function": lambda i, x: i % 9,
    "names_of_the_runtime": lambda i, x: x + 1 + i + 2 + 4,
    "names_of_the_library": lambda i, x: 2 * x + i + 2,
    "local_array": lambda i, x: next(j for j in range(16) if (j * 5 + i) % 16 == (x + 64) % 16),
    "local_array_in_two_dimensions": lambda i, x: x,
    "pointer_to_a_local": lambda i, x: x + 5,
    "local_array_passed_on": lambda i, x: 15 + x,
    "array_of_structs": lambda i, x: 2 * (i % 3) + x + 3,
    "union": lambda i, x: 1016 + x,
    "bit_fields": lambda i, x: (i & 7) * 100 + (x & 15) - (x & 8) * 2,
    "memcpy_and_memset": lambda i, x: int(A[i % 60] + A[i % 60 + 1]) - 2,
    "volatile": lambda i, x: 2 * (x + i),
    "swap_through_pointers": lambda i, x: -abs(x - i),
    "constants": lambda i, x: [2, 3, 5, 7, 11][i % 5] + [[1, 2, 3], [4, 5, 6]][i % 2][i % 3] + 9 + 3,
    "initialised_variables": lambda i, x: [100, -200, 300][i % 3] - 200 + [1, 255, 3, 0][i % 4] + ord("e"),
    "string_literals": lambda i, x: reduce(lambda r, c: r * 2 + ord(c), "odd" if i & 1 else "even", 0),
    "namespaces": lambda i, x: 5 + i + 5,
    "bytes_and_shorts": lambda i, x: (
        (x & 127) - (x & 128) + (-1 if x < 0 else 0) * 1000 + (x & 65535) * 3 + (65535 if x < 0 else 0)
    ),
    "vectors": lambda i, x: (
        sum((k + 1) * int(A[i // 4 * 4 + k]) for k in range(4)) + int(A[i // 2 * 2]) - int(A[i // 2 * 2 + 1])
    ),
    "read_only_cache": lambda i, x: x + int(A[0]) + int(A[1]),
    "long_longs": lambda i, x: int(np.fix((x * 10**10 + i) / 10**10)) + int(np.fmod(x * 10**10 + i, 7)),
    "doubles": lambda i, x: x * 1000,
    "pointer_arithmetic": lambda i, x: x + N - i,
    "pointer_as_number": lambda i, x: 13,
    "aligned": lambda i, x: int(A[i ^ 1]) + (i ^ 3) + 7 * x,
    "shared_arrays": lambda i, x: int(A[63 - i]) + (i + 1) % 64 + (i ^ 1) % 5,
    "shared_in_a_function": lambda i, x: int(A[(i + 3) % 64]),
    "shared_in_a_template": lambda i, x: sum(around(i)),
    "shared_two_dimensions": lambda i, x: int(A[i % 8 * 8 + i // 8]),
    "barriers_in_a_loop": lambda i, x: int(A.sum()),
    "recursion_beside_a_barrier": lambda i, x: (63 - i) % 9 * 2,
    "asm_arithmetic": lambda i, x: x * i + 7,
    "asm_with_a_loop": lambda i, x: 3 * max(1, -(-i // 3)),
    "asm_twice_the_same_labels": lambda i, x: 10 * (x <= 0) + 10 * (x <= 1),
    "asm_comments": lambda i, x: 3,
    "asm_branch_table": lambda i, x: [11, 10, 0][i % 3],
    "asm_special_registers": lambda i, x: 100 * (i // 32) + i % 32,
    "asm_predicates": lambda i, x: 5 if x < 0 else 106,
    "asm_exit": lambda i, x: 3 if i & 1 else 4,
    "asm_directives": lambda i, x: x,
    "asm_lanemasks": lambda i, x: i % 32,
}
SOURCE = (KERNELS / "meaning.cu").read_text()


@pytest.fixture(scope="module")
def modules(request):
    return {c: device(c).compile(only(SOURCE, chosen(request, checks=c))) for c in FLAVOURS}


@pytest.mark.parametrize("name, checks", in_each_build(dict.fromkeys(MODELS, FLAVOURS)))
def test_meaning(modules, name, checks):
    dev = device(checks)
    out, a = dev.array(np.zeros(N, np.int32), name="out"), dev.array(A, name="a", readonly=True)
    done = modules[checks].get_function(f"t_{name}")(1, N, (out, a, np.int32(N)))
    with np.errstate(over="ignore"):
        expected = np.array([MODELS[name](int(i), int(A[i])) for i in EVERY], np.int64).astype(np.int32)
    np.testing.assert_array_equal(out.get(), expected)
    assert done.stdout == ""


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("checks", FLAVOURS)
def test_parameters_of_every_type(checks):
    source = f"""
    struct Small {{ char c; short s; }};
    struct Large {{ double d; float f[3]; char c; long long n; }};
    {K}k(double* out, bool b, signed char c, unsigned char uc, short s, int n, unsigned u, long long l,
         float f, double d, float4 v, Small small, Large large, const double* p) {{
      double all[] = {{(double)b, (double)c, (double)uc, (double)s, (double)n, (double)u, (double)l, f, d,
                      v.x, v.w, (double)small.c, (double)small.s, large.d, large.f[2], (double)large.c,
                      (double)large.n, p[1]}};
      for (int i = 0; i < 18; i++) out[i] = all[i];
    }}"""
    fields = {"names": "dfcn", "formats": ["f8", "(3,)f4", "i1", "i8"], "offsets": [0, 8, 20, 24]}
    large = np.zeros((), np.dtype(fields | {"itemsize": 32}))
    large["d"], large["f"], large["c"], large["n"] = 1.5, (1, 2, 3), -7, -(2**40)
    small = np.array((5, -300), np.dtype("i1, i2", align=True))
    vector = np.array((1, 2, 3, 4), "f4, f4, f4, f4")
    dev = device(checks)
    out = dev.array(np.zeros(18), name="out")
    run(
        source,
        out,
        np.bool_(True),
        np.int8(-100),
        np.uint8(200),
        np.int16(-30000),
        np.int32(-5),
        np.uint32(4_000_000_000),
        np.int64(-(2**50)),
        np.float32(0.5),
        np.float64(0.1),
        vector,
        small,
        large,
        np.array([0.0, 9.0]),
        block=1,
        checks=checks,
    )
    assert out.get().tolist() == [
        1,
        -100,
        200,
        -30000,
        -5,
        4_000_000_000,
        -(2**50),
        0.5,
        0.1,
        1,
        4,
        5,
        -300,
        1.5,
        3,
        -7,
        -(2**40),
        9,
    ]


def test_a_hundred_parameters():
    names = ", ".join(f"int p{j}" for j in range(100))
    total = " + ".join(f"{j % 7 + 1} * p{j}" for j in range(100))
    source = f"{K}k(int* out, {names}) {{ out[threadIdx.x] = {total}; }}"
    dev = device("memory")
    out = dev.array(np.zeros(2, np.int32))
    run(source, out, *(np.int32(3 * j) for j in range(100)), block=2, checks="memory")
    assert out.get().tolist() == [sum((j % 7 + 1) * 3 * j for j in range(100))] * 2


def test_no_parameters_and_no_body():
    source = f"{K}nothing() {{}}\n__device__ int seen;\n{K}touch() {{ seen = threadIdx.x; }}"
    for checks in FLAVOURS:
        for name in ("nothing", "touch"):
            assert run(source, block=1, name=name, checks=checks).stdout == ""


# --- modules -------------------------------------------------------------------------------------

COUNTER = f"""
__device__ int count = 5;
{K}add(int n) {{ count += n; }}
{K}read(int* out) {{ *out = count; }}
"""


@pytest.mark.parametrize("checks", FLAVOURS)
def test_variables_live_as_long_as_their_module(checks):
    dev = device(checks)
    one, two = dev.compile(COUNTER), dev.compile(COUNTER)
    out = dev.array(np.zeros(1, np.int32))

    def read(module) -> int:
        module.get_function("read")(1, 1, (out,))
        return int(out.get()[0])

    one.get_function("add")(1, 1, (np.int32(3),))
    one.get_function("add")(1, 1, (np.int32(4),))
    assert (read(one), read(two)) == (12, 5)


def test_templates_and_name_expressions():
    source = """
    template <int N, class T> __global__ void fill(T* out) { out[threadIdx.x] = N; }
    namespace deep { __global__ void plain(float* out) { out[threadIdx.x] = 7; } }
    """
    dev = device("memory")
    module = dev.compile(source, name_expressions=("fill<3, float>", "fill<4, int>"))
    floats, ints = dev.array(np.zeros(2, np.float32)), dev.array(np.zeros(2, np.int32))
    module.get_function("fill<3, float>")(1, 2, (floats,))
    module.get_function("fill<4, int>")(1, 2, (ints,))
    assert floats.get().tolist() == [3, 3] and ints.get().tolist() == [4, 4]
    for name in ("plain", "deep::plain"):
        module.get_function(name)(1, 2, (floats,))
        assert floats.get().tolist() == [7, 7]
    with pytest.raises(LaunchError, match="there is no kernel called fill9"):
        module.get_function("fill9")


def test_launch_bounds():
    source = 'extern "C" __global__ void __launch_bounds__(64) k(int* out) { out[threadIdx.x] = 1; }'
    assert result("out[threadIdx.x] = 1;", 4, block=4).tolist() == [1] * 4
    with pytest.raises(LaunchError, match=r"128 threads.*64|64.*128"):
        run(source, np.zeros(128, np.int32), block=128)


@pytest.mark.parametrize("checks", FLAVOURS)
def test_several_kernels_share_and_do_not_share(checks):
    """Shared memory is laid out for each kernel separately."""
    source = f"""
    __device__ int sum(int* s, int n) {{ int t = 0; for (int j = 0; j < n; j++) t += s[j]; return t; }}
    {K}large(int* out) {{
      __shared__ int s[12000];
      s[threadIdx.x] = 1;
      __syncthreads();
      out[threadIdx.x] = sum(s, 4);
    }}
    {K}small(int* out) {{
      __shared__ int s[4];
      __shared__ int t[4];
      s[threadIdx.x] = 2;
      t[threadIdx.x] = 3;
      __syncthreads();
      out[threadIdx.x] = sum(s, 4) + sum(t, 4);
    }}
    {K}dynamic(int* out) {{
      extern __shared__ int s[];
      s[threadIdx.x] = 4;
      __syncthreads();
      out[threadIdx.x] = sum(s, 4);
    }}
    {K}aligned(int* out) {{
      extern __shared__ __align__(4096) int wide[];
      __shared__ int t[3];
      t[threadIdx.x % 3] = 3;
      wide[threadIdx.x] = 5;
      __syncthreads();
      unsigned at = (unsigned)__cvta_generic_to_shared(wide);
      asm volatile("mov.u32 %0, %0;" : "+r"(at));
      out[threadIdx.x] = sum(wide, 4) + sum(t, 3) + at % 4096;
    }}
    """
    dev = device(checks)
    module = dev.compile(source)
    for name, shared, expected in (
        ("large", 0, 4),
        ("small", 0, 20),
        ("dynamic", 16, 16),
        ("aligned", 16, 29),
    ):
        out = dev.array(np.zeros(4, np.int32))
        module.get_function(name)(1, 4, (out,), shared)
        assert out.get().tolist() == [expected] * 4


@pytest.mark.parametrize("checks", FLAVOURS)
def test_one_shared_array_of_a_function_in_two_kernels(checks):
    source = f"""
    __device__ __noinline__ int turn(int v) {{
      __shared__ int ring[8]; ring[threadIdx.x] = v; __syncthreads(); return ring[7 - threadIdx.x];
    }}
    {K}one(int* out) {{ out[threadIdx.x] = turn(threadIdx.x); }}
    {K}two(int* out) {{ __shared__ double own[5]; own[threadIdx.x % 5] = 1; __syncthreads();
      out[threadIdx.x] = turn(2 * threadIdx.x) + (int)own[0]; }}
    """
    dev = device(checks)
    module = dev.compile(source)
    for name, expected in (("one", [7 - i for i in range(8)]), ("two", [15 - 2 * i for i in range(8)])):
        out = dev.array(np.zeros(8, np.int32))
        module.get_function(name)(1, 8, (out,))
        assert out.get().tolist() == expected


@pytest.mark.parametrize("checks", FLAVOURS)
def test_accesses_far_apart_do_not_make_code_grow(checks):
    """Constant offsets of hundreds of megabytes, or some bytes: within the array, or found outside it."""
    far = 1 << 26
    body = f"int i = threadIdx.x; out[i] = a[i] + a[i + 1] + a[i + {far}] + a[i + {far + 1}] + a[i - {far}];"
    dev = device(checks)
    module = dev.compile(f"{K}k(float* out, const float* a) {{ {body} }}")
    lowered = pipeline.lower(module.compiled.text, "kernel.cu", recipe(checks, quick=True), dev.arena.size)
    assert len(lowered.text.splitlines()) < 2000
    out, a = zeros(4, checks=checks), dev.array(np.zeros(8, np.float32), name="a")
    with pytest.raises(KernelFault) as caught:
        module.get_function("k")(1, 4, (out, a))
    assert {f.index for f in [caught.value, *caught.value.more]} & {str(far), str(far + 1), str(-far)}
