"""What C++ means, whatever the PTX looks like: control flow, calls, memory spaces, parameters, inline assembly."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Callable

import numpy as np
import pytest

from harness.devices.nvrtc import Ptx, compile_ptx
from harness.devices.virtual.build import build_ptx
from harness.errors import BackwarpError, CompileError, LaunchError, Unsupported
from harness.tests.virtual import FLAVOURS, K, device, line_of, result, run

N = 64
A = np.random.default_rng(7).integers(-50, 50, N).astype(np.int32)
A[:4] = 0, 1, -1, 49
I = np.arange(N)


@dataclass
class Case:
    """`out[i] = ` what `model(i, a[i])` gives, in integers; `before` is declared before the kernel."""

    body: str
    model: Callable[[int, int], int]
    before: str = ""


def collatz(x: int) -> int:
    steps = 0
    while x > 1:
        x, steps = (3 * x + 1 if x % 2 else x // 2), steps + 1
    return steps


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def around(i: int) -> tuple[int, int]:
    return int(A[(i + 1) % N]), int(A[(i + 5) % N])


CASES = {
    # -- control flow -------------------------------------------------------------------------------
    "if_else": Case("if (x < 0) r = -x; else if (x > 20) r = 20; else r = x;", lambda i, x: min(abs(x), 20) if x > 0 else -x),
    "nested_ifs": Case(
        "if (x > 0) { if (i & 1) { if (x & 2) r = 1; else r = 2; } else r = 3; r += 10; } else r = 4;",
        lambda i, x: (((1 if x & 2 else 2) if i & 1 else 3) + 10) if x > 0 else 4,
    ),
    "while": Case("int v = i; while (v > 1) { v = v & 1 ? 3 * v + 1 : v / 2; r++; }", lambda i, x: collatz(i)),
    "do_while": Case("int v = i; do { v -= 7; r++; } while (v > 0);", lambda i, x: max(1, -(-i // 7))),
    "break_and_continue": Case(
        "for (int j = 0; j < n; j++) { if (j % 3 == 0) continue; if (j > i) break; r += j; }",
        lambda i, x: sum(j for j in range(i + 1) if j % 3),
    ),
    "nested_loops": Case(
        "for (int j = 0; j <= i % 7; j++) for (int k = j; k < 9; k += 2) { if (k == 5) break; r += j * k; }",
        lambda i, x: sum(j * k for j in range(i % 7 + 1) for k in range(j, 9, 2) if not (j % 2 and k >= 5)),
    ),
    "goto": Case("again: r += 3; if (r < i) goto again;", lambda i, x: 3 * max(1, -(-i // 3))),
    "switch_table": Case(
        "switch (i % 8) { case 0: r = 5; break; case 1: r = 7; case 2: r += 9; break; case 3: r = x; break;"
        " case 4: r = -x; break; case 5: r = i; break; case 6: return; default: r = 99; }",
        lambda i, x: [5, 16, 9, x, -x, i, 0, 99][i % 8],
    ),
    "switch_sparse": Case(
        "switch (x * 1000) { case -1000: r = 1; break; case 0: r = 2; break; case 49000: r = 3; break; default: r = 4; }",
        lambda i, x: {-1: 1, 0: 2, 49: 3}.get(x, 4),
    ),
    "switch_in_a_loop": Case(
        "for (int s = 0, t = i; s != 9;) switch (s) { case 0: s = t & 1 ? 2 : 5; break; case 2: r += 3; s = 5; break;"
        " case 5: t >>= 1; r++; s = t ? 0 : 9; break; }",
        lambda i, x: max(1, i.bit_length()) + 3 * bin(i).count("1"),
    ),
    "short_circuit": Case(
        "int c = 0; if ((x > 0 && ++c > 0) || (++c > 0 && i > 9)) r = c * 10; else r = c;",
        lambda i, x: 10 if x > 0 or i > 9 else 1,
    ),
    "conditional_chain": Case("r = x > 10 ? x > 30 ? 3 : 2 : x < -10 ? x < -30 ? 5 : 4 : 1;",
                              lambda i, x: (3 if x > 30 else 2) if x > 10 else (5 if x < -30 else 4) if x < -10 else 1),
    "early_return": Case("if (i % 3 == 0) { out[i] = 77; return; } r = 5;", lambda i, x: 5 if i % 3 else 77),
    "loop_of_zero_rounds": Case("r = 1; for (int j = n; j < n; j++) r = 9;", lambda i, x: 1),
    "predicated_stores": Case("out[i] = 1; if (x & 1) out[i] = 2; if (x & 2) out[i] += 4; r = out[i];",
                              lambda i, x: (2 if x & 1 else 1) + (4 if x & 2 else 0)),
    "unrolled": Case("#pragma unroll\nfor (int j = 0; j < 16; j++) if (j <= i) r += a[j] * j;",
                     lambda i, x: sum(int(A[j]) * j for j in range(16) if j <= i)),
    "not_unrolled": Case("#pragma unroll 1\nfor (int j = 0; j < 16; j++) r = r * 3 + a[j];",
                         lambda i, x: __import__("functools").reduce(lambda r, v: r * 3 + int(v), A[:16], 0)),
    "two_inductions": Case("for (int p = 0, q = n; p < q; p += 2, q -= 3) r += q - p;",
                           lambda i, x: sum(64 - 5 * j for j in range(13))),
    # -- calls ------------------------------------------------------------------------------------------
    "inline_call": Case("r = twice(x) + twice(i);", lambda i, x: 2 * x + 2 * i, "__device__ int twice(int v) { return v + v; }"),
    "real_call": Case("r = thrice(thrice(x)) - i;", lambda i, x: 9 * x - i,
                      "__device__ __noinline__ int thrice(int v) { return 3 * v; }"),
    "call_in_a_branch": Case("if (i & 1) r = halve(x); else r = halve(i) + 1;",
                             lambda i, x: (abs(x) // 2 * (1 if x > 0 else -1)) if i & 1 else i // 2 + 1,
                             "__device__ __noinline__ int halve(int v) { return v / 2; }"),
    "by_reference": Case("int u = x, v = i; exchange(u, v); r = 100 * u + v;", lambda i, x: 100 * i + x,
                         "__device__ __noinline__ void exchange(int& p, int& q) { int t = p; p = q; q = t; }"),
    "out_parameters": Case("int q; r = divide(i + 100, 7, &q); r = 1000 * q + r;", lambda i, x: 1000 * ((i + 100) // 7) + (i + 100) % 7,
                           "__device__ __noinline__ int divide(int a, int b, int* q) { *q = a / b; return a % b; }"),
    "struct_result": Case("Minmax m = minmax(x, i); r = 100 * m.low + m.high;", lambda i, x: 100 * min(x, i) + max(x, i),
                          "struct Minmax { int low, high; };\n"
                          "__device__ __noinline__ Minmax minmax(int p, int q) { return p < q ? Minmax{p, q} : Minmax{q, p}; }"),
    "struct_argument": Case("Point p{x, 2.5, {i, 7}}; r = weigh(p, 3);", lambda i, x: x + 2 + i + 7 + 3,
                            "struct Point { int x; double w; short s[2]; };\n"
                            "__device__ __noinline__ int weigh(Point p, int k) { return p.x + (int)p.w + p.s[0] + p.s[1] + k; }"),
    "small_types": Case("r = mix((signed char)x, (unsigned char)x, (short)i, true, 1ll << 33, 0.5f, 0.25);",
                        lambda i, x: x + (x & 255) + i + 1 + 4 + 2 + 4,
                        "__device__ __noinline__ int mix(signed char a, unsigned char b, short c, bool d, long long e, float f,"
                        " double g) { return a + b + c + d + (int)(e >> 31) + (int)(1 / f) + (int)(1 / g); }"),
    "small_results": Case("r = low(x) + (negative(x) ? 1000 : 0) + (int)(scaled(x) * 2) + (int)(wide(i) >> 40);",
                          lambda i, x: (x & 255) + (1000 if x < 0 else 0) + x + i,
                          "__device__ __noinline__ unsigned char low(int v) { return v; }\n"
                          "__device__ __noinline__ bool negative(int v) { return v < 0; }\n"
                          "__device__ __noinline__ double scaled(int v) { return v * 0.5; }\n"
                          "__device__ __noinline__ long long wide(int v) { return (long long)v << 40; }"),
    "recursion": Case("r = fib(i % 12);", lambda i, x: fibonacci(i % 12),
                      "__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }"),
    "mutual_recursion": Case("r = even(i) ? 1 : 2;", lambda i, x: 2 if i % 2 else 1,
                             "__device__ bool odd(int n);\n__device__ __noinline__ bool even(int n) { return n == 0 || odd(n - 1); }\n"
                             "__device__ __noinline__ bool odd(int n) { return n != 0 && even(n - 1); }"),
    "recursion_with_a_local_array": Case("r = digits(i * 37, 0);", lambda i, x: sum(map(int, str(i * 37))),
                                         "__device__ __noinline__ int digits(int v, int depth) { int d[3] = {v % 10, depth, v / 10};\n"
                                         "  int rest = v < 10 ? 0 : digits(d[2], depth + 1); return d[0] + rest + d[1] - depth; }"),
    "lambda": Case("auto add = [=](int v) { return v + x; }; r = apply(add, i);", lambda i, x: 2 * (i + x),
                   "template <class F> __device__ int apply(F f, int v) { return 2 * f(v); }"),
    "template": Case("r = power<5>(i % 5) + power<0>(x);", lambda i, x: (i % 5) ** 5 + 1,
                     "template <int P> __device__ int power(int v) { if constexpr (P == 0) return 1; else return v * power<P - 1>(v); }"),
    "class": Case("Counter c(x); c += i; ++c; r = c.value() + Counter::made;", lambda i, x: x + i + 1 + 40,
                  "class Counter { int n; public: static constexpr int made = 40; __device__ Counter(int v) : n(v) {}\n"
                  "  __device__ Counter& operator+=(int v) { n += v; return *this; } __device__ void operator++() { n++; }\n"
                  "  __device__ int value() const { return n; } };"),
    "overloads": Case("r = pick(x) + pick(2.0f) + pick(2.0);", lambda i, x: x + 10 + 20,
                      "__device__ int pick(int v) { return v; } __device__ int pick(float) { return 10; } __device__ int pick(double) { return 20; }"),
    "function_table": Case("r = operations[i % 3](x, 3) + operations[3](x, i); if (n < 0) operations[1] = less;",
                           lambda i, x: [x + 3, x - 3, x * 3][i % 3] + x + i,
                           "typedef int (*Operation)(int, int); __device__ int more(int p, int q) { return p + q; }\n"
                           "__device__ int less(int p, int q) { return p - q; } __device__ int times(int p, int q) { return p * q; }\n"
                           "__device__ Operation operations[4] = {more, less, times, more};"),
    "function_argument": Case("r = twice_over(i & 1 ? plus_one : doubled, x);", lambda i, x: x + 2 if i & 1 else 4 * x,
                              "__device__ int plus_one(int v) { return v + 1; } __device__ int doubled(int v) { return 2 * v; }\n"
                              "__device__ __noinline__ int twice_over(int (*f)(int), int v) { return f(f(v)); }"),
    "virtual_functions": Case("Base base; Derived derived(i); Base* p = x > 0 ? &derived : &base; r = p->get() + p->more(x);",
                              lambda i, x: i + 10 + x if x > 0 else 1 + x,
                              "struct Base { __device__ virtual int get() { return 1; } __device__ virtual int more(int v) { return v; } };\n"
                              "struct Derived : Base { int n; __device__ Derived(int v) : n(v) {} __device__ int get() override { return n + 10; } };"),
    "many_arguments": Case("r = sum12(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, i, x);", lambda i, x: 55 + i + x,
                           "__device__ __noinline__ int sum12(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l)"
                           " { return a + b + c + d + e + f + g + h + i + j + k + l; }"),
    "constexpr_function": Case("constexpr int t = table_size(3); int v[t]; for (int j = 0; j < t; j++) v[j] = j; r = v[i % t];",
                               lambda i, x: i % 9, "__device__ constexpr int table_size(int k) { return k * k; }"),
    "names_of_the_runtime": Case("r = rt_check(x) + aligned_alloc2(i) + bw_printf(1);", lambda i, x: x + 1 + i + 2 + 4,
                                 'extern "C" __device__ __noinline__ int rt_check(int v) { return v + 1; }\n'
                                 'extern "C" __device__ __noinline__ int aligned_alloc2(int v) { return v + 2; }\n'
                                 'extern "C" __device__ __noinline__ int bw_printf(int v) { return v + 3; }'),
    "names_of_the_library": Case("r = tanhf2(x) + clock_gettime(i, 2);", lambda i, x: 2 * x + i + 2,
                                 'extern "C" __device__ __noinline__ int tanhf2(int v) { return 2 * v; }\n'
                                 'extern "C" __device__ __noinline__ int clock_gettime(int v, int w) { return v + w; }'),
    # -- local memory -------------------------------------------------------------------------------------
    "local_array": Case("int v[16]; for (int j = 0; j < 16; j++) v[(j * 5 + i) % 16] = j; r = v[(x + 64) % 16];",
                        lambda i, x: next(j for j in range(16) if (j * 5 + i) % 16 == (x + 64) % 16)),
    "local_array_in_two_dimensions": Case("short v[4][6] = {}; v[i % 4][i % 6] = x; for (auto& row : v) for (short e : row) r += e;",
                                          lambda i, x: x),
    "pointer_to_a_local": Case("int v = x; int* p = i & 1 ? &v : &r; *p += 5; r += v;", lambda i, x: x + 5),
    "local_array_passed_on": Case("int v[5] = {1, 2, 3, 4, 5}; v[i % 5] += x; r = total(v, 5);", lambda i, x: 15 + x,
                                  "__device__ __noinline__ int total(const int* v, int n) { int s = 0; while (n--) s += v[n]; return s; }"),
    "array_of_structs": Case("Cell c[3]; for (int j = 0; j < 3; j++) c[j] = {(char)j, j * 1.5f, x + j}; r = c[i % 3].id + c[i % 3].n + (int)c[2].w;",
                             lambda i, x: 2 * (i % 3) + x + 3, "struct Cell { char id; float w; int n; };"),
    "union": Case("union { float f; int n; } u; u.f = 1.0f; r = (u.n >> 20) + x;", lambda i, x: 0x3F8 + x),
    "bit_fields": Case("Bits b{}; b.low = i; b.high = x; r = b.low * 100 + b.high;", lambda i, x: (i & 7) * 100 + (x & 15) - (x & 8) * 2,
                       "struct Bits { unsigned low : 3; int high : 4; };"),
    "memcpy_and_memset": Case("int v[4]; memset(v, 0xff, sizeof v); memcpy(v + 1, a + i % 60, 8); r = v[0] + v[1] + v[2] + v[3];",
                              lambda i, x: int(A[i % 60] + A[i % 60 + 1]) - 2),
    "volatile": Case("volatile int v = x; v += i; r = v + v;", lambda i, x: 2 * (x + i)),
    "swap_through_pointers": Case("int u[2] = {x, i}; int *p = u, *q = u + 1; if (*p > *q) { int t = *p; *p = *q; *q = t; } r = u[0] - u[1];",
                                  lambda i, x: -abs(x - i)),
    # -- constants and variables of the module ------------------------------------------------------------------
    "constants": Case("r = primes[i % 5] + grid[i % 2][i % 3] + pair.b + (int)(half_pi * 2);",
                      lambda i, x: [2, 3, 5, 7, 11][i % 5] + [[1, 2, 3], [4, 5, 6]][i % 2][i % 3] + 9 + 3,
                      "__constant__ int primes[5] = {2, 3, 5, 7, 11}; __constant__ int grid[2][3] = {{1, 2, 3}, {4, 5, 6}};\n"
                      "__constant__ struct { char a; int b; } pair = {1, 9}; __constant__ double half_pi = 1.5707963;"),
    "initialised_variables": Case("r = device_table[i % 3] + *into + device_bytes[i % 4] + (int)device_text[1] + zeroed[i % 9];",
                                  lambda i, x: [100, -200, 300][i % 3] - 200 + [1, 255, 3, 0][i % 4] + ord("e"),
                                  "__device__ int device_table[3] = {100, -200, 300}; __device__ int* into = device_table + 1;\n"
                                  'static __device__ unsigned char device_bytes[4] = {1, 255, 3}; __device__ const char* device_text = "text";\n'
                                  "__device__ int zeroed[9];"),
    "string_literals": Case('const char* s = i & 1 ? "odd" : "even"; while (*s) r = r * 2 + *s++;',
                            lambda i, x: __import__("functools").reduce(lambda r, c: r * 2 + ord(c), "odd" if i & 1 else "even", 0)),
    "namespaces": Case("r = outer::inner::value + outer::f(i);", lambda i, x: 5 + i + 5,
                       "namespace outer { namespace inner { __device__ int value = 5; } __device__ int f(int v) { return v + inner::value; } }"),
    # -- loads and stores of every width ----------------------------------------------------------------------------
    "bytes_and_shorts": Case("const signed char* c = (const signed char*)(a + i); const unsigned short* s = (const unsigned short*)(a + i);"
                             " r = c[0] + c[3] * 1000 + s[0] * 3 + s[1];",
                             lambda i, x: ((x & 127) - (x & 128)) + (-1 if x < 0 else 0) * 1000 + (x & 0xFFFF) * 3 + (0xFFFF if x < 0 else 0)),
    "vectors": Case("int4 v = ((const int4*)a)[i / 4]; int2 w = ((const int2*)a)[i / 2]; r = v.x + 2 * v.y + 3 * v.z + 4 * v.w + w.x - w.y;",
                    lambda i, x: sum((k + 1) * int(A[i // 4 * 4 + k]) for k in range(4)) + int(A[i // 2 * 2]) - int(A[i // 2 * 2 + 1])),
    "read_only_cache": Case("r = __ldg(a + i) + __ldcg(a) + __ldcs(a + 1);", lambda i, x: x + int(A[0]) + int(A[1])),
    "long_longs": Case("long long v = (long long)x * 10000000000ll + i; r = (int)(v / 10000000000ll) + (int)(v % 7);",
                       lambda i, x: int(np.fix((x * 10**10 + i) / 10**10)) + int(np.fmod(x * 10**10 + i, 7))),
    "doubles": Case("double v = x / 3.0; r = (int)(v * 3000.0 + (x > 0 ? 0.5 : -0.5));", lambda i, x: x * 1000),
    "pointer_arithmetic": Case("const int* p = a + n; p -= n - i; const int* q = &a[n]; r = *p + (int)(q - p);", lambda i, x: x + N - i),
    "pointer_as_number": Case("r = (int)((unsigned long long)(a + 3) - (unsigned long long)a) + ((unsigned long long)a % 16 == 0);", lambda i, x: 13),
    # -- shared memory -------------------------------------------------------------------------------------------
    "shared_arrays": Case("__shared__ int u[64]; __shared__ double v[64]; __shared__ char w[64]; u[i] = x; v[i] = i; w[i] = i % 5;\n"
                          "__syncthreads(); r = u[63 - i] + (int)v[(i + 1) % 64] + w[i ^ 1];",
                          lambda i, x: int(A[63 - i]) + (i + 1) % 64 + (i ^ 1) % 5),
    "shared_in_a_function": Case("r = rotate(x, i);", lambda i, x: int(A[(i + 3) % 64]),
                                 "__device__ int rotate(int v, int i) { __shared__ int ring[64]; ring[i] = v; __syncthreads(); return ring[(i + 3) % 64]; }"),
    "shared_in_a_template": Case("r = shift<1>(x, i) + shift<5>(x, i);", lambda i, x: sum(around(i)),
                                 "template <int S> __device__ __noinline__ int shift(int v, int i) { __shared__ int b[64 + S]; b[i] = v;\n"
                                 "  if (i < S) b[64 + i] = 0; __syncthreads(); int r = b[(i + S) % 64]; __syncthreads(); return r; }"),
    "shared_two_dimensions": Case("__shared__ int tile[8][9]; tile[i / 8][i % 8] = x; __syncthreads(); r = tile[i % 8][i / 8];",
                                  lambda i, x: int(A[i % 8 * 8 + i // 8])),
    "barriers_in_a_loop": Case("__shared__ int s[64]; s[i] = x; for (int d = 32; d; d /= 2) { __syncthreads(); if (i < d) s[i] += s[i + d]; }\n"
                               "__syncthreads(); r = s[0];", lambda i, x: int(A.sum())),
    "recursion_beside_a_barrier": Case("__shared__ int s[64]; s[i] = down(i % 9); __syncthreads(); r = s[63 - i];", lambda i, x: (63 - i) % 9 * 2,
                                       "__device__ __noinline__ int down(int v) { return v ? down(v - 1) + 2 : 0; }"),
    # -- inline assembly --------------------------------------------------------------------------------------------
    "asm_arithmetic": Case('asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(i), "n"(7));', lambda i, x: x * i + 7),
    "asm_with_a_loop": Case('asm volatile("{\\n .reg .pred p; .reg .u32 t; mov.u32 t, 3;\\n AGAIN: add.s32 %0, %0, t;\\n"\n'
                            '" setp.lt.s32 p, %0, %1;\\n @p bra AGAIN;\\n}" : "+r"(r) : "r"(i));', lambda i, x: 3 * max(1, -(-i // 3))),
    "asm_twice_the_same_labels": Case('for (int j = 0; j < 2; j++) asm volatile("{ .reg .pred q; setp.gt.s32 q, %1, 0; @q bra L1; add.s32 %0, %0, 10; L1: }"'
                                      ' : "+r"(r) : "r"(x - j));', lambda i, x: 10 * (x <= 0) + 10 * (x <= 1)),
    "asm_comments": Case('asm volatile("/* ; } { */ add.s32 %0, %0, 1; // more ; }\\n /* two\\n lines; */ add.s32 %0, %0, 2;" : "+r"(r));',
                         lambda i, x: 3),
    "asm_branch_table": Case('asm volatile("{ ts: .branchtargets A, B, C;\\n brx.idx %1, ts;\\n A: add.s32 %0, %0, 1;\\n B: add.s32 %0, %0, 10;\\n C: }"'
                             ' : "+r"(r) : "r"(i % 3));', lambda i, x: [11, 10, 0][i % 3]),
    "asm_special_registers": Case('int lane, warp; asm("mov.u32 %0, %%laneid;" : "=r"(lane)); asm("mov.u32 %0, %%warpid;" : "=r"(warp)); r = 100 * warp + lane;',
                                  lambda i, x: 100 * (i // 32) + i % 32),
    "asm_predicates": Case('asm("{ .reg .pred p, q; setp.lt.s32 p|q, %1, 0; selp.s32 %0, 5, 6, p; @q add.s32 %0, %0, 100; }" : "=r"(r) : "r"(x));',
                           lambda i, x: 5 if x < 0 else 106),
    "asm_exit": Case('out[i] = 3; if (i & 1) asm volatile("exit;"); r = 4;', lambda i, x: 3 if i & 1 else 4),
    "asm_directives": Case('asm volatile(".file 9 \\"/etc/passwd\\""); asm volatile(".loc 9 1 0"); asm volatile(".pragma \\"nounroll\\";"); r = x;',
                           lambda i, x: x),
    "asm_lanemasks": Case('unsigned m; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(m)); r = __popc(m);', lambda i, x: i % 32),
}  # fmt: skip

SOURCE = "\n".join(
    f"{case.before}\n{K}t_{name}(int* out, const int* a, int n) {{\n  int i = threadIdx.x, x = a[i], r = 0;\n"
    f"  {case.body}\n  out[i] = r;\n}}"
    for name, case in CASES.items()
)


@pytest.fixture(scope="module")
def modules():
    return {checks: device(checks).compile(SOURCE) for checks in FLAVOURS}


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("name", CASES)
def test_meaning(modules, name, checks):
    dev = device(checks)
    out, a = dev.array(np.zeros(N, np.int32), name="out"), dev.array(A, name="a", readonly=True)
    done = modules[checks].get_function(f"t_{name}")(1, N, (out, a, np.int32(N)))
    with np.errstate(over="ignore"):
        expected = np.array([CASES[name].model(int(i), int(A[i])) for i in I], np.int64).astype(np.int32)
    np.testing.assert_array_equal(out.get(), expected)
    assert done.stdout == ""


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("checks", FLAVOURS)
def test_parameters_of_every_type(checks):
    source = f"""
    struct Small {{ char c; short s; }};
    struct Large {{ double d; float f[3]; char c; long long n; }};
    {K}k(double* out, bool b, signed char c, unsigned char uc, short s, int n, unsigned u, long long l, float f, double d,
         float4 v, Small small, Large large, const double* p) {{
      double all[] = {{(double)b, (double)c, (double)uc, (double)s, (double)n, (double)u, (double)l, f, d, v.x, v.w,
                      (double)small.c, (double)small.s, large.d, large.f[2], (double)large.c, (double)large.n, p[1]}};
      for (int i = 0; i < 18; i++) out[i] = all[i];
    }}"""
    large = np.zeros((), "f8, (3,)f4, i1, i8")
    large = np.zeros((), np.dtype({"names": "dfcn", "formats": ["f8", "(3,)f4", "i1", "i8"], "offsets": [0, 8, 20, 24], "itemsize": 32}))
    large["d"], large["f"], large["c"], large["n"] = 1.5, (1, 2, 3), -7, -(2**40)
    small = np.array((5, -300), np.dtype("i1, i2", align=True))
    vector = np.array((1, 2, 3, 4), "f4, f4, f4, f4")
    dev = device(checks)
    out = dev.array(np.zeros(18), name="out")
    run(source, out, np.bool_(True), np.int8(-100), np.uint8(200), np.int16(-30000), np.int32(-5), np.uint32(4_000_000_000),
        np.int64(-(2**50)), np.float32(0.5), np.float64(0.1), vector, small, large, np.array([0.0, 9.0]), block=1,
        checks=checks)  # fmt: skip
    assert out.get().tolist() == [1, -100, 200, -30000, -5, 4_000_000_000, -(2**50), 0.5, 0.1, 1, 4, 5, -300, 1.5, 3,
                                  -7, -(2**40), 9]  # fmt: skip


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
    with pytest.raises(LaunchError, match="fill"):
        module.get_function("fill<9, int>")


def test_launch_bounds():
    source = 'extern "C" __global__ void __launch_bounds__(64) k(int* out) { out[threadIdx.x] = 1; }'
    assert result("out[threadIdx.x] = 1;", 4, block=4).tolist() == [1] * 4
    with pytest.raises(LaunchError, match=r"128 threads.*64|64.*128"):
        run(source, np.zeros(128, np.int32), block=128)


@pytest.mark.parametrize("checks", FLAVOURS)
def test_several_kernels_share_and_do_not_share(checks):
    """Shared memory is laid out for each kernel by itself, whatever the others use."""
    source = f"""
    __device__ int sum(int* s, int n) {{ int t = 0; for (int j = 0; j < n; j++) t += s[j]; return t; }}
    {K}large(int* out) {{ __shared__ int s[12000]; s[threadIdx.x] = 1; __syncthreads(); out[threadIdx.x] = sum(s, 4); }}
    {K}small(int* out) {{ __shared__ int s[4]; __shared__ int t[4]; s[threadIdx.x] = 2; t[threadIdx.x] = 3; __syncthreads();
      out[threadIdx.x] = sum(s, 4) + sum(t, 4); }}
    {K}dynamic(int* out) {{ extern __shared__ int s[]; s[threadIdx.x] = 4; __syncthreads(); out[threadIdx.x] = sum(s, 4); }}
    """
    dev = device(checks)
    module = dev.compile(source)
    for name, shared, expected in (("large", 0, 4), ("small", 0, 20), ("dynamic", 16, 16)):
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


# --- size ----------------------------------------------------------------------------------------


def test_a_thousand_cases():
    cases = "\n".join(f"case {j}: r = r * 3 + {j * j % 97}; out[i] = r; break;" for j in range(1000))
    i = np.arange(1024)
    got = result(f"int i = threadIdx.x, r = i; switch (i) {{ {cases} default: out[i] = -1; }}", 1024, dtype=np.int32,
                 block=1024, checks="memory")  # fmt: skip
    np.testing.assert_array_equal(got, np.where(i < 1000, i * 3 + i * i % 97, -1))


def test_deep_nesting():
    ifs = "".join(f"if (i > {j}) {{ c++; " for j in range(120)) + "}" * 120
    got = result(f"int i = threadIdx.x, c = 0; {ifs} out[i] = c;", 128, dtype=np.int32, block=128)
    np.testing.assert_array_equal(got, np.minimum(np.arange(128), 120))
    loops = "".join(f"for (int j{j} = 0; j{j} < 2; j{j}++) " for j in range(12))
    assert result(f"int c = 0; {loops} c++; out[threadIdx.x] = c;", 1, dtype=np.int32, block=1).tolist() == [4096]


def test_many_registers():
    body = """
    float s[200];
    #pragma unroll
    for (int j = 0; j < 200; j++) s[j] = a[(threadIdx.x + j) % 32];
    float r = 0;
    #pragma unroll
    for (int j = 0; j < 200; j++) r += s[j] * s[199 - j];
    out[threadIdx.x] = r;"""
    a = np.arange(32, dtype=np.float32)
    wide = a[(np.arange(32)[:, None] + np.arange(200)) % 32].astype(np.float64)
    np.testing.assert_allclose(result(body, 32, a, checks="memory"), (wide * wide[:, ::-1]).sum(1), rtol=1e-6)


def test_huge_arrays_cost_only_what_is_touched():
    source = f"__device__ float far[1u << 25];\n{K}k(float* out) {{ far[1u << 24] = 3; out[0] = far[1u << 24] + far[5]; }}"
    out = device("memory").array(np.zeros(1, np.float32))
    run(source, out, block=1, checks="memory")
    assert out.get().tolist() == [3]


# --- refusals ------------------------------------------------------------------------------------

REFUSED = {
    "malloc() on the device": f"{K}k(float* out) {{\n  float* p = (float*)malloc(4);  // HERE\n  p[0] = 1; out[0] = p[0];\n}}",
    "textures": f"{K}k(cudaTextureObject_t t, float* out) {{\n  out[0] = tex1Dfetch<float>(t, 1);  // HERE\n}}",
    "surfaces": f"{K}k(cudaSurfaceObject_t t, float* out) {{\n  out[0] = surf1Dread<float>(t, 1);  // HERE\n}}",
    "the PTX instruction `foo.bar": f'{K}k(int n) {{\n  asm volatile("foo.bar %0;" :: "r"(n));  // HERE\n}}',
    "the PTX instruction `add.rq.f32": f'{K}k(float* out) {{\n  asm volatile("add.rq.f32 %0, %0, %0;" : "+f"(out[0]));  // HERE\n}}',
    "Hopper's wgmma": f'{K}k() {{\n  asm volatile("wgmma.fence.sync.aligned;");  // HERE\n}}',
    "thread block clusters": f'{K}k(int* out) {{\n  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(out[0]));  // HERE\n}}',
    "a barrier or warp collective inside the recursive function": (
        "__device__ __noinline__ int f(int n, int* p) { __syncthreads(); p[n] = n; return n ? 3 * f(n - 1, p) + p[n] : 0; }\n"
        f"{K}k(int* out, int n) {{\n  out[0] = f(n, out);  // HERE\n}}"
    ),
    "a barrier or warp collective in a function that is called through a pointer": (
        "typedef int (*F)(int); __device__ int f(int n) { __syncthreads(); return n; } __device__ int g(int n) { return 2; }\n"
        "__device__ F table[2] = {f, g};\n"
        f"{K}k(int* out, int n) {{\n  out[0] = table[n & 1](n);  // HERE\n  if (n > 9) table[0] = g;\n}}"
    ),
    "the PTX branch `bra NOWHERE`": f'{K}k() {{\n  asm volatile("bra NOWHERE;");  // HERE\n}}',
    "PTX whose braces do not match": f'{K}k() {{\n  asm volatile("}} }}");  // HERE\n}}',
    "the PTX statement": f'{K}k() {{\n  asm volatile("@@@ ;;; [[[");  // HERE\n}}',
    "the special register %%r9": f'{K}k() {{\n  asm volatile("add.s32 %%r8, %%r9, 1;");  // HERE\n}}',
    "the PTX directive .texref": f'{K}k() {{\n  asm volatile(".texref x;");  // HERE\n}}',
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_the_line(what):
    source = REFUSED[what]
    for checks in FLAVOURS:
        with pytest.raises(Unsupported) as caught:
            device(checks).compile(source)
        assert what in caught.value.what
        (diagnostic,) = caught.value.diagnostics
        if "// HERE\n" in source:
            assert diagnostic.line == line_of(source, "HERE")
            assert diagnostic.source == source.splitlines()[diagnostic.line - 1]


@pytest.mark.parametrize(
    "asm",
    [
        "ret; } .visible .entry evil() { ret;", "{", ".global .b8 zz[4]; mov.u64 %%rd1, zz;", "call system, (%%rd1);",
        "call vprintf;", "mov.b64 {%%r1, %%rd2}, %%r1;", "add.s32 %%r1;", "ld.global.u32 %%r1;", "st.shared.f32 5, 6;",
        "bar.sync;", "shfl.sync.idx.b32 %%r1;", "setp.lt.s32 %%p1;", "atom.global.add.u32 %%r1, [%%rd1];", "brx.idx %%r1, nothing;",
        "cvt.u32.f32 %%r1, %%r1;", "mov.u64 %%rd1, _ZN4evilE;", "L: L:", "define void @f() { ret void }", "ld.param.u32 %%r1, [k_param_9];",
    ],
)  # fmt: skip
def test_assembly_that_no_compiler_wrote_is_refused_or_runs(asm):
    """Never a crash, and nothing but an error that a student can read."""
    source = f'{K}k(int* out) {{ out[threadIdx.x] = 1; asm volatile("{asm}"); }}'
    for checks in FLAVOURS:
        try:
            device(checks).compile(source)
        except CompileError as error:
            assert error.diagnostics or str(error)


def test_device_side_launch_does_not_compile():
    with pytest.raises(CompileError, match="device-side kernel launch"):
        device().compile(f"{K}child() {{}}\n{K}k() {{ child<<<1, 1>>>(); }}")


def test_too_much_static_shared_memory():
    with pytest.raises(CompileError, match=r"k uses too much shared data \(0xcb20 bytes, 0xc000 max\)"):
        device().compile(f"{K}k(float* out) {{ __shared__ float s[13000]; s[threadIdx.x] = 1; out[0] = s[5]; }}")


def test_damaged_ptx_is_built_or_refused():
    source = f"""
    __device__ __noinline__ int f(int v, int* p) {{ int t[3] = {{v, 1, 2}}; return p[0] < -5 ? t[v % 3] : f(v + 1, t) + 1; }}
    {K}k(float* out, int n) {{
      __shared__ float s[32];
      s[threadIdx.x] = out[threadIdx.x];
      __syncthreads();
      float v = __shfl_down_sync(~0u, s[31 - threadIdx.x], 2);
      switch (n) {{ case 0: v += 1; break; case 1: v *= 2; break; case 2: v -= 3; break; case 3: v /= 3; }}
      if (v > 3) printf("%f %d\\n", v, f(n, &n));
      out[threadIdx.x] = v;
    }}"""
    rng, outcomes = random.Random(3), {"built": 0, "refused": 0}
    texts = [compile_ptx(source, "kernel.cu", f).text.split("\n\t.section")[0].split("\n") for f in ("debug", "fast")]
    for _ in range(25):
        lines = list(rng.choice(texts))
        i, j = rng.randrange(8, len(lines)), rng.randrange(8, len(lines))
        lines[i] = rng.choice([lines[j], "", lines[i][: len(lines[i]) // 2], lines[i].replace("32", "64"), "}", "\tret;"])
        try:
            build_ptx(Ptx("\n".join(lines)), "kernel.cu", "full", 1 << 34)
            outcomes["built"] += 1
        except BackwarpError:
            outcomes["refused"] += 1
    assert outcomes["built"] and outcomes["refused"]
