"""The zoo: small kernels that each do one wrong thing, and exactly what is said about them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest

from harness.errors import KernelFault
from harness.tests.virtual import FLAVOURS, K, device, line_of

FULL, MEMORY = ("full",), ("memory",)
NULL = np.uint64(0)


@dataclass
class Case:
    """A kernel, how it is launched, and what is expected of the first fault.

    The kernel stands in `source` with its name left out: `(const float* a) { ... }`; `before` is declared before
    it. `// FAULT` marks the line, `// OTHER` the other side's. says: the explanation, or the end of it.
    """

    source: str
    says: str
    kind: str = "out-of-bounds"
    headline: str = ""
    thread: tuple | None = (0, 0, 0)
    block_index: tuple | None = (0, 0, 0)
    array: str = ""
    index: str = ""
    shape: str = ""
    args: str = "a b n"
    grid: object = 1
    block: object = 32
    shared: int = 0
    before: str = ""
    flavours: tuple = FLAVOURS
    more: tuple = ()  # kinds of the faults after the first
    count: int | None = None
    settings: dict = field(default_factory=dict)


A = dict(array="a", shape="i = 10")
B = dict(array="b", shape="i = 10")
I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
FOUR_D = dict(array="input", shape="b x c x h x w = 2 x 3 x 4 x 5", args="input b n")

ZOO = {
    # -- the edges of an array ----------------------------------------------------------------------
    "before_the_first": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < n) b[i] = a[i - 1]; }}  // FAULT",
        "This reads a, 1 element before its start; a has 10 elements.",
        headline="Invalid __global__ read of size 4 bytes", index="i=-1", count=1, **A,
    ),
    "after_the_last": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < n) b[i] = a[i + 1]; }}  // FAULT",
        "This reads a[i=10], just past its end; a has 10 elements.",
        index="i=10", thread=(9, 0, 0), **A,
    ),
    "no_bounds_check": Case(
        f"(const float* a, float* b, int n) {{ {I} b[i] = 1; }}  // FAULT",
        "This writes b[i=10], just past its end; b has 10 elements. 54 threads do this.",
        headline="Invalid __global__ write of size 4 bytes", index="i=10", thread=(2, 0, 0), block_index=(1, 0, 0),
        grid=8, block=8, count=54, **B,
    ),
    "far_away": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < n) b[i] = a[i + 50000000]; }}  // FAULT",
        "This reads a[i=50000000], 49999991 past its last element; a has 10 elements. 10 threads do this.",
        index="i=50000000", **A,
    ),
    "far_before": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < n) b[i - 70000000] = a[i]; }}  // FAULT",
        "This writes b, 70000000 elements before its start; b has 10 elements. 10 threads do this.",
        index="i=-70000000", **B,
    ),
    "index_overflows": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 3) b[i] = a[i * 1000000007]; }}  // FAULT",
        "This reads a, 1294967275 elements before its start; a has 10 elements.",
        index="i=-1294967275", thread=(3, 0, 0), **A,
    ),
    "into_the_red_zone": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 1) b[-20] = a[0]; }}  // FAULT",
        "This writes b, 20 elements before its start; b has 10 elements.", index="i=-20", thread=(1, 0, 0), **B,
    ),
    "next_batch": Case(
        "(const float* input, float* b, int n) {\n  int h = threadIdx.x;\n"
        "  for (int w = 0; w < 5; w++) b[0] = input[((1 * 3 + 2) * 4 + h) * 5 + w];  // FAULT\n}",
        "This reads input[b=2,c=0,h=0,w=0], just past its end; input has 120 elements, shape b x c x h x w = 2 x 3 x 4 x 5.",
        index="b=2,c=0,h=0,w=0", thread=(4, 0, 0), block=5, **FOUR_D,
    ),
    "channel_below": Case(
        f"(const float* input, float* b, int n) {{ {I} if (i == 0) b[0] = input[-7]; }}  // FAULT",
        "This reads input, 7 elements before its start; input has 120 elements, shape b x c x h x w = 2 x 3 x 4 x 5.",
        index="b=-1,c=2,h=2,w=3", **FOUR_D,
    ),
    "three_dimensions": Case(
        "(const float* a, float* b, int n) {\n"
        "  int i = (threadIdx.z * 2 + threadIdx.y) * 2 + threadIdx.x + 8 * (blockIdx.z + blockIdx.x);\n"
        "  b[i] = 0;  // FAULT\n}",
        "This writes b[i=10], just past its end; b has 10 elements. 20 threads do this.",
        index="i=10", thread=(0, 1, 0), block_index=(1, 0, 0), grid=(2, 1, 2), block=(2, 2, 2), count=20, **B,
    ),
    "byte_past_the_end": Case(
        f"(unsigned char* bytes) {{ {I} if (i < 11) bytes[i] = 7; }}  // FAULT",
        "This writes bytes[10], just past its end; bytes has 10 elements.",
        headline="Invalid __global__ write of size 1 bytes", thread=(10, 0, 0), array="bytes", index="10",
        shape="10", args="bytes",
    ),
    "word_over_the_end_of_bytes": Case(
        f"(unsigned char* bytes) {{ {I} if (i == 0) ((unsigned*)bytes)[2] = 7; }}  // FAULT",
        "This writes 4 bytes from bytes[8] to bytes[11]; bytes has 10 elements.",
        array="bytes", index="10", shape="10", args="bytes",
    ),
    "vector_over_the_end": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 2) ((float4*)b)[i] = ((const float4*)a)[0]; }}  // FAULT",
        "This writes 16 bytes from b[i=8] to b[i=11]; b has 10 elements.",
        headline="Invalid __global__ write of size 16 bytes", index="i=10", thread=(2, 0, 0), flavours=MEMORY, **B,
    ),
    "vector_one_element_over": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 2) ((float2*)(b + 1))[i * 2].y = a[0]; }}  // FAULT",
        "This writes b[i=10], just past its end; b has 10 elements.", index="i=10", thread=(2, 0, 0), **B,
    ),
    "freed_row": Case(
        f"(const double* d, float* b, int n) {{ {I} if (i == 0) b[0] = (float)d[5]; }}  // FAULT",
        "This reads d[5], just past its end; d has 5 elements.",
        headline="Invalid __global__ read of size 8 bytes", array="d", index="5", shape="5", args="d b n",
    ),
    "pointer_walks_off": Case(
        "(const float* a, float* b, int n) {\n  const float* p = a;\n  float s = 0;\n"
        "  for (int j = 0; j <= n; j++) s += *p++;  // FAULT\n  b[threadIdx.x] = s;\n}",
        "This reads a[i=10], just past its end; a has 10 elements.", index="i=10", block=1, count=1, **A,
    ),
    "pointer_in_a_struct": Case(
        f"(Pair pair) {{ {I} if (i < 3) pair.p[i - 3000000 * (i == 2)] = pair.n; }}  // FAULT",
        "This writes b, 2999998 elements before its start; b has 10 elements.",
        before="struct Pair { int n; float* p; };", args="pair", index="i=-2999998", thread=(2, 0, 0), **B,
    ),
    "pointer_in_memory": Case(
        f"(float* const* pointers, int n) {{ {I} if (i == 0) pointers[1][n + 2] = 1; }}  // FAULT",
        "This writes b[i=12], 3 past its last element; b has 10 elements.", args="pointers n", index="i=12", **B,
    ),
    "one_of_two_arrays": Case(
        f"(const float* a, float* b, int n) {{ {I} const float* p = i % 2 ? a : b; if (i == 3) b[0] = p[n]; }}  // FAULT",
        "This reads a[i=10], just past its end; a has 10 elements.", index="i=10", thread=(3, 0, 0), **A,
    ),
    # -- no array at all ------------------------------------------------------------------------------
    "null_pointer": Case(
        f"(float* p) {{ {I} if (i < 2) p[i] = 1; }}  // FAULT",
        "This writes at address 0x0, a null pointer: was the pointer ever set? 2 threads do this.",
        kind="invalid-address", args="null",
    ),
    "null_plus_index": Case(
        f"(const float* p, float* b) {{ {I} if (i == 10) b[0] = p[i]; }}  // FAULT",
        "This reads at address 0x28, a null pointer plus an index: was the pointer ever set?",
        kind="invalid-address", thread=(10, 0, 0), args="null b",
    ),
    "wild_pointer": Case(
        f"(float* p) {{ {I} if (i == 0) *p = 1; }}  // FAULT",
        "This writes at address 0x123456789ab8, where no array is: where does the pointer come from?",
        kind="invalid-address", args="wild",
    ),
    "function_pointer_never_set": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < n) b[i] = functions[i % 3](2);  // FAULT\n"
        "  if (i == 100) functions[2] = same; }",
        "The pointer that is called here does not hold a function with these parameters: was it ever set?"
        " 3 threads do this.",
        kind="invalid-address", headline="an illegal instruction was encountered", thread=(2, 0, 0),
        before="typedef float (*Function)(float); __device__ float same(float x) { return x; }\n"
        "__device__ float twice(float x) { return 2 * x; } __device__ Function functions[3] = {same, twice};",
    ),
    # -- alignment ------------------------------------------------------------------------------------
    "misaligned_float2": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 0) *(float2*)(b + 3) = make_float2(1, 2); }}  // FAULT",
        "at once from b[i=3] on, whose address is 4 more than a multiple of 8.",
        kind="misaligned", headline="Invalid __global__ write of size 8 bytes: misaligned address", index="i=3",
        flavours=MEMORY, **B,
    ),
    "misaligned_float4": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 1) b[i] = __ldg((const float4*)(a + 2)).w; }}  // FAULT",
        "This reads 16 bytes at once from a[i=2] on, whose address is 8 more than a multiple of 16.",
        kind="misaligned", index="i=2", thread=(1, 0, 0), **A,
    ),
    "misaligned_double": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 0) *(double*)(b + 1) = 1; }}  // FAULT",
        "This writes 8 bytes at once from b[i=1] on, whose address is 4 more than a multiple of 8.",
        kind="misaligned", index="i=1", **B,
    ),
    "misaligned_int_in_bytes": Case(
        f"(unsigned char* bytes) {{ {I} if (i == 0) *(int*)(bytes + 3) = 1; }}  // FAULT",
        "This writes 4 bytes at once from bytes[3] on, whose address is 3 more than a multiple of 4.",
        kind="misaligned", array="bytes", index="3", shape="10", args="bytes",
    ),
    # -- what may only be read --------------------------------------------------------------------------
    "writes_its_input": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < 4) ((float*)a)[i] = 0; }}  // FAULT",
        "This writes a[i=0], but a is an input (const): kernels may only read it. 4 threads do this.",
        kind="read-only", headline="Invalid __global__ write of size 4 bytes", index="i=0", **A,
    ),
    "atomic_on_input": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 5) atomicAdd((float*)&a[i], 1.f); }}  // FAULT",
        "This changes a[i=5], but a is an input (const): kernels may only read it.",
        kind="read-only", headline="Invalid __global__ atomic of size 4 bytes", index="i=5", thread=(5, 0, 0), **A,
    ),
    "writes_constant": Case(
        f"(const float* a, float* b, int n) {{ {I} float* p = const_cast<float*>(a_constant + n - 10);\n"
        "  if (i == 2) p[i] = 1; }  // FAULT",
        "This writes a_constant[2], but a_constant is __constant__ memory: kernels may only read it.",
        kind="read-only", before="__constant__ float a_constant[4] = {1, 2, 3, 4};",
        headline="Invalid __constant__ write of size 4 bytes", array="a_constant", index="2", shape="4",
        thread=(2, 0, 0), flavours=FULL,
    ),
    # -- atomics ------------------------------------------------------------------------------------------
    "atomic_past_the_end": Case(
        f"(const float* a, float* b, int n) {{ {I}\n  if (i <= n)\n    atomicAdd(&b[i], 1.f);  // FAULT\n}}",
        "This changes b[i=10], just past its end; b has 10 elements.",
        headline="Invalid __global__ atomic of size 4 bytes", index="i=10", thread=(10, 0, 0), **B,
    ),
    "atomic_far_away": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 0) atomicMax((int*)b + 1000000000, 3); }}  // FAULT",
        "This changes b[i=1000000000], 999999991 past its last element; b has 10 elements.",
        index="i=1000000000", **B,
    ),
    # -- variables of the module ----------------------------------------------------------------------------
    "constant_overflow": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < n) b[i] = weights[i]; }}  // FAULT",
        "This reads weights[9], just past its end; weights has 9 elements.",
        before="__constant__ float weights[9];", headline="Invalid __constant__ read of size 4 bytes",
        array="weights", index="9", shape="9", thread=(9, 0, 0),
    ),
    "device_variable_overflow": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < 13) table[i / 4][i % 4] = i; }}  // FAULT",
        "This writes table[3,0], just past its end; table has 12 elements, shape 3 x 4.",
        before="__device__ int table_before[5]; __device__ int table[3][4]; __device__ int table_after[5];",
        array="table", index="3,0", shape="3 x 4", thread=(12, 0, 0),
    ),
    "between_variables": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 0) second[-40 - n] = first[0]; }}  // FAULT",
        "This writes second, 50 elements before its start; second has 7 elements.",
        before="__device__ int first[5]; __device__ int second[7];", array="second", index="-50", shape="7",
    ),
    # -- shared memory ------------------------------------------------------------------------------------
    "shared_overflow": Case(
        f"(const float* a, float* b, int n) {{ {I} __shared__ float tile[8]; __shared__ float next[8];\n"
        "  next[i % 8] = 0;\n  if (i < 9) tile[i] = 1;  // FAULT\n"
        "  __syncthreads();\n  if (i < 8) b[i] = tile[i] + next[i];\n}",
        "This writes tile[8], just past its end; tile has 8 elements.",
        headline="Invalid __shared__ write of size 4 bytes", array="tile", index="8", shape="8", thread=(8, 0, 0),
    ),
    "shared_negative": Case(
        f"(const float* a, float* b, int n) {{ {I} __shared__ float row[4]; __shared__ float ring[32];\n"
        "  row[i % 4] = 0;\n  ring[i - 1] = 1;  // FAULT\n  __syncthreads();\n  if (i < n) b[i] = ring[i] + row[0];\n}",
        "This writes ring, 1 element before its start; ring has 32 elements.",
        array="ring", index="-1", shape="32",
    ),
    "shared_far_away": Case(
        f"(const float* a, float* b, int n) {{ {I} __shared__ float far[32]; far[i] = 0;\n"
        "  if (i == 1) far[i * 100000000] = 1;  // FAULT\n  if (i < n) b[i] = far[i];\n}",
        "This writes far[100000000], 99999969 past its last element; far has 32 elements.",
        array="far", index="100000000", shape="32", thread=(1, 0, 0),
    ),
    "shared_far_before": Case(
        f"(const float* a, float* b, int n) {{ {I} __shared__ float low[32]; low[i] = 0;\n"
        "  if (i == 1) low[i - 100000001] = 1;  // FAULT\n  if (i < n) b[i] = low[i];\n}",
        "This writes low, 100000000 elements before its start; low has 32 elements.",
        array="low", index="-100000000", shape="32", thread=(1, 0, 0),
    ),
    "shared_two_dimensions": Case(
        f"(const float* a, float* b, int n) {{ {I} __shared__ float square[TILE][TILE + 1];\n"
        "  for (int r = 0; r <= TILE; r++)\n    square[r][i] = r;  // FAULT\n  b[0] = square[0][0];\n}",
        "This writes square[4,0], just past its end; square has 20 elements, shape 4 x 5. 4 threads do this.",
        before="constexpr int TILE = 4;", array="square", index="4,0", shape="4 x 5", block=4,
    ),
    "dynamic_shared_overflow": Case(
        f"(const float* a, float* b, int n) {{ {I} extern __shared__ float pool[];\n"
        "  pool[i] = 1;  // FAULT\n  __syncthreads();\n  if (i < n) b[i] = pool[i];\n}",
        "This writes pool[16], just past its end; pool has 16 elements: the launch asks for 64 bytes of dynamic"
        " shared memory. 16 threads do this.",
        shared=64, array="pool", index="16", thread=(16, 0, 0),
    ),
    "dynamic_shared_forgotten": Case(
        f"(const float* a, float* b, int n) {{ {I} extern __shared__ float pool[];\n"
        "  if (i == 0) pool[i] = 1;  // FAULT\n  b[0] = n;\n}",
        "This writes pool[0], the launch asks for no dynamic shared memory.", array="pool", index="0",
    ),
    # -- local memory -------------------------------------------------------------------------------------
    "local_overflow": Case(
        "(const float* a, float* b, int n) {\n  float window[4];\n"
        "  for (int j = 0; j < n - 5; j++) window[j] = a[j];  // FAULT\n  b[0] = window[n - 8];\n}",
        "This writes window[4], just past its end; window has 4 elements. 2 threads do this.",
        headline="Invalid __local__ write of size 4 bytes", array="window", index="4", shape="4", block=2,
    ),
    "local_overflow_in_a_function": Case(
        "(const float* a, float* b, int n) {\n  float outer[8];\n  for (int j = 0; j < 8; j++) outer[j] = j;\n"
        "  b[0] = smooth(outer, n);\n}",
        "This reads taps[3], just past its end; taps has 3 elements.",
        before="__device__ __noinline__ float smooth(const float* x, int n) {\n  float taps[3] = {1, 2, 1};\n  float s = 0;\n"
        "  for (int j = 0; j < n - 6; j++) s += taps[j] * x[j];  // FAULT\n  return s;\n}",
        array="taps", index="3", shape="3", block=1,
    ),
    "local_overflow_into_the_next": Case(
        "(const float* a, float* b, int n) {\n  float head[4]; int tail[4]; int one = 1; int* p = &one;\n"
        "  for (int j = 0; j < 4; j++) head[j] = tail[j] = j;\n  if (threadIdx.x == 1)\n"
        "    for (int j = 0; j < n - 5; j++) head[j] = a[j];  // FAULT\n"
        "  b[threadIdx.x] = head[n - 8] + tail[n - 7] + *p;\n}",
        "This writes head[4], just past its end; head has 4 elements.",
        array="head", index="4", shape="4", block=2, thread=(1, 0, 0), flavours=FULL,
    ),
    "local_negative": Case(
        "(const float* a, float* b, int n) {\n  short low[2][3] = {}; double high[2] = {};\n"
        "  high[n - 12] = a[0];  // FAULT\n  b[0] = low[n - 9][n - 8] + high[n - 9];\n}",
        "This writes high, 2 elements before its start; high has 2 elements.",
        headline="Invalid __local__ write of size 8 bytes", array="high", index="-2", shape="2", block=1,
        flavours=FULL,
    ),
    "local_struct": Case(
        "(const float* a, float* b, int n) {\n  Taps taps = {{1, 2, 3}, 4};\n  int other[3] = {};\n"
        "  taps.w[n - 4] = a[0];  // FAULT\n  b[0] = taps.w[n - 9] + other[n - 8] + taps.n;\n}",
        "This writes taps[6], 3 past its last element; taps has 4 elements.",
        before="struct Taps { float w[3]; int n; };", array="taps", index="6", block=1, flavours=FULL,
    ),
    # -- calls -----------------------------------------------------------------------------------------------
    "recursion": Case(
        "(const float* a, float* b, int n) { b[threadIdx.x] = down(n); }",
        "Functions call each other more than 1024 deep: does the recursion end?",
        before="__device__ __noinline__ float down(float x) { return x < -1e30f ? x : down(x - 1) + 1; }  // FAULT",
        kind="stack-overflow", headline="Stack overflow", block=4,
    ),
    "local_memory_full": Case(
        "(const float* a, float* b, int n) {  // FAULT\n  float huge[80000000];\n  huge[n * 1000] = 1;\n"
        "  huge[n] = 2;\n  b[0] = huge[n * 1000] + huge[n];\n}",
        "The local arrays of this thread do not fit into its local memory.", kind="stack-overflow", block=1,
    ),
    "fault_in_a_function": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i <= n) b[i % n] = fetch(a, i); }}",
        "This reads a[i=10], just past its end; a has 10 elements.", index="i=10", thread=(10, 0, 0), block=11,
        before="__device__ __noinline__ float fetch(const float* p, int j) {\n  return p[j];  // FAULT\n}", **A,
    ),
    "fault_in_an_inline_function": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i < n) b[i] = shifted(a + 2, i); }}",
        "This reads a[i=10], just past its end; a has 10 elements. 2 threads do this.", index="i=10", thread=(8, 0, 0),
        before="__device__ __forceinline__ float shifted(const float* p, int j) {\n  return p[j];  // FAULT\n}", **A,
    ),
    "fault_in_a_template": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 0) b[i] = at<5>(a) + at<7>(a) * at<6>(b); }}",
        "This reads a[i=10], just past its end; a has 10 elements.", index="i=10",
        before="template <int N> __device__ __noinline__ float at(const float* p) { return N < 7 ? 0 : p[N + 3]; }  // FAULT",
        flavours=FULL, **A,
    ),
    # -- loops that never end ----------------------------------------------------------------------------------
    "while_true": Case(
        "(const float* a, float* b, int n) {\n  while (true) {}  // FAULT\n}",
        "A thread went round this loop, or one around it, over 100 million times: does its condition ever become false?",
        kind="timeout", headline="the launch timed out and was terminated", thread=None, block=1,
    ),
    "condition_never_changes": Case(
        "(const float* a, float* b, int n) {\n  int j = 0;\n  while (j < n) b[threadIdx.x] += a[j];  // FAULT\n}",
        "does its condition ever become false?", kind="timeout", block=1, settings=dict(step_budget=1 << 22),
    ),
    "huge_count": Case(
        "(const float* a, float* b, int n) {\n"
        "  for (long long j = 0; j < 1000000000000ll; j++) b[threadIdx.x] += a[j % n];  // FAULT\n}",
        "does its condition ever become false?", kind="timeout", block=1, settings=dict(step_budget=1 << 22),
    ),
    "flag_that_nobody_sets": Case(
        "(const float* a, float* b, int n) {\n  while (flag_nobody == 0) {}  // FAULT\n  b[threadIdx.x] = 1;\n}",
        "Threads wait in this loop for memory to change, and no thread ever changes it.",
        kind="timeout", before="__device__ volatile int flag_nobody;", block=2, settings=dict(step_budget=1 << 22),
    ),
    "time_is_up": Case(
        "(const float* a, float* b, int n) {\n  for (int j = 0; j < n * 100000000; j++)  // FAULT\n    b[0] += a[j % n];\n}",
        "The launch took too long; when it was stopped, a thread was in this loop.",
        kind="timeout", block=1, settings=dict(time_limit=0.0), thread=None,
    ),
    # -- barriers ---------------------------------------------------------------------------------------------
    "barrier_in_one_branch": Case(
        "(const float* a, float* b, int n) {\n  if (threadIdx.x < 16)\n    __syncthreads();  // FAULT\n"
        "  else\n    b[0] = 1;\n  __syncthreads();  // OTHER\n}",
        "16 threads of the block wait at this barrier; thread (16, 0, 0) waits at line {other}."
        " Every thread of the block must reach the same __syncthreads().",
        kind="barrier-divergence", headline="Barrier error detected. Divergent thread(s) in block", flavours=FULL,
    ),
    "two_barriers": Case(
        "(const float* a, float* b, int n) {\n  if (threadIdx.x % 2)\n    __syncthreads();  // OTHER\n"
        "  else\n    __syncthreads();  // FAULT\n}",
        "16 threads of the block wait at this barrier; thread (1, 0, 0) waits at line {other}."
        " Every thread of the block must reach the same __syncthreads().",
        kind="barrier-divergence", flavours=FULL,
    ),
    "barrier_for_more_threads": Case(
        '(const float* a, float* b, int n) {\n  asm volatile("bar.sync 1, 64;");  // FAULT\n}',
        "32 threads of the block wait at this barrier, which opens for 64 threads: the others never come.",
        kind="barrier-divergence",
    ),
    "fault_before_a_barrier": Case(
        f"(const float* a, float* b, int n) {{ {I}\n  if (i == 3) b[n] = 1;  // FAULT\n  __syncthreads();\n"
        "  if (i < n) b[i] = 1;\n}",
        "This writes b[i=10], just past its end; b has 10 elements.", index="i=10", thread=(3, 0, 0), **B,
    ),
    "fault_before_two_barriers": Case(
        f"(const float* a, float* b, int n) {{ {I}\n  if (i == 40) b[n] = 1;  // FAULT\n  __syncthreads();\n"
        '  asm volatile("bar.sync 1, 64;");\n  if (i < n) b[i] = 1;\n}',
        "This writes b[i=10], just past its end; b has 10 elements.", index="i=10", thread=(40, 0, 0), block=64, **B,
    ),
    # -- masks ---------------------------------------------------------------------------------------------------
    "syncwarp_leaves_out_its_caller": Case(
        "(const float* a, float* b, int n) {\n  __syncwarp(1);  // FAULT\n}",
        "The mask 0x00000001 leaves out lane 1, which makes this call.",
        kind="shuffle-mask", headline="Barrier error detected. Invalid arguments", thread=(1, 0, 0),
    ),
    "shuffle_leaves_out_its_caller": Case(
        "(const float* a, float* b, int n) {\n  float v = __shfl_down_sync(0xffff, a[0], 1);  // FAULT\n"
        "  if (threadIdx.x == 0) b[0] = v;\n}",
        "The mask 0x0000ffff leaves out lane 16, which makes this call.", kind="shuffle-mask", thread=(16, 0, 0),
    ),
    "shuffle_names_returned_lanes": Case(
        f"(const float* a, float* b, int n) {{ {I}\n  if (i >= n) return;\n"
        "  b[i] = __shfl_down_sync(0xffffffff, a[i], 1);  // FAULT\n}",
        "The mask 0xffffffff names lanes 10-31, which have returned before this call.",
        kind="shuffle-mask", headline="Barrier error detected. Divergent thread(s) in warp", flavours=FULL,
    ),
    "shuffle_names_a_returned_lane": Case(
        f"(const float* a, float* b, int n) {{ {I}\n  if (i == 5) return;\n"
        "  float v = __shfl_xor_sync(0xffffffff, a[0], 1);  // FAULT\n  if (i == 0) b[0] = v;\n}",
        "The mask 0xffffffff names lane 5, which has returned before this call.", kind="shuffle-mask", flavours=FULL,
    ),
    "shuffle_names_diverged_lanes": Case(
        f"(const float* a, float* b, int n) {{ {I}\n  float v = 0;\n  if (i < 16)\n"
        "    v = __shfl_down_sync(0xffffffff, a[0], 1);  // FAULT\n  __syncthreads();  // OTHER\n"
        "  if (i == 0) b[0] = v;\n}",
        "The mask 0xffffffff names lanes 16-31, which never make this call: thread (16, 0, 0) waits at line {other}.",
        kind="shuffle-mask",
    ),
    "syncwarp_names_diverged_lanes": Case(
        f"(const float* a, float* b, int n) {{ {I}\n  if (i % 2) __syncwarp();  // FAULT\n}}",
        "The mask 0xffffffff names 16 lanes, which have returned before this call.",
        kind="shuffle-mask", thread=(1, 0, 0), flavours=FULL,
    ),
    # -- the kernel itself says so ------------------------------------------------------------------------------------
    "assertion": Case(
        f'(const float* a, float* b, int n) {{ {I}\n  assert(i < 3 && "at most three");  // FAULT\n}}',
        'assert(i < 3 && "at most three") is false here. 29 threads do this.',
        kind="assert", headline='Assertion `i < 3 && "at most three"` failed', thread=(3, 0, 0), count=29,
    ),
    "trap": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i == 7) __trap(); }}  // FAULT",
        "The kernel called __trap().", kind="assert", headline="an illegal instruction was encountered",
        thread=(7, 0, 0),
    ),
    # -- several at once ----------------------------------------------------------------------------------------------
    "two_faults": Case(
        f"(const float* a, float* b, int n) {{ {I}\n  if (i == 9) b[i + 1] = 1;\n"
        "  if (i == 2) ((float*)a)[0] = 1;  // FAULT\n  if (i == 4) *(double*)(b + 1) = 1;\n}",
        "This writes a[i=0], but a is an input (const): kernels may only read it.",
        kind="read-only", index="i=0", thread=(2, 0, 0), more=("misaligned", "out-of-bounds"), **A,
    ),
    "first_in_the_grid": Case(
        f"(const float* a, float* b, int n) {{ {I} if (i >= 100) b[i] = a[0]; }}  // FAULT",
        "This writes b[i=100], 91 past its last element; b has 10 elements. 28 threads do this.",
        index="i=100", thread=(4, 0, 0), block_index=(3, 0, 0), grid=4, count=28, settings=dict(schedule=5), **B,
    ),
    "more_than_are_counted": Case(
        f"(const float* a, float* b, int n) {{ {I} b[i + n] = 1; }}  // FAULT",
        "Many threads do this.", index=None, thread=None, block_index=None, grid=64, block=256, **B,
    ),
}  # fmt: skip


def zoo_source() -> str:
    parts = []
    for name, case in ZOO.items():
        source = case.source
        for mark in ("FAULT", "OTHER"):
            source = source.replace(f"// {mark}", f"// {mark}:{name}")
        parts += [case.before.replace("// FAULT", f"// FAULT:{name}"), f"{K}{name}{source}"]
    return "\n".join(p for p in parts if p) + "\n"


SOURCE = zoo_source()


@pytest.fixture(scope="module")
def modules():
    return {checks: device(checks).compile(SOURCE) for checks in FLAVOURS}


def arguments(dev, names: str) -> dict:
    def kept(name: str):
        alive.append(made[name]())
        return alive[-1]

    made = {
        "a": lambda: dev.array(np.arange(10, dtype=np.float32), name="a", axes="i", readonly=True),
        "b": lambda: dev.array(np.zeros(10, np.float32), name="b", axes="i"),
        "input": lambda: dev.array(np.ones((2, 3, 4, 5), np.float32), name="input", axes="bchw", readonly=True),
        "bytes": lambda: dev.array(np.zeros(10, np.uint8), name="bytes"),
        "d": lambda: dev.array(np.zeros(5), name="d"),
        "pair": lambda: np.array((3, 0, kept("b").pointer), "i4, i4, u8")[()],
        "pointers": lambda: dev.array(np.array([kept("a").pointer, kept("b").pointer], np.uint64), name="pointers"),
        "n": lambda: np.int32(10),
        "null": lambda: NULL,
        "wild": lambda: np.uint64(0x123456789AB8),
    }
    return {name: made[name]() for name in names.split()}


alive = []  # arrays that only the device points to


def launch(modules, checks: str, name: str) -> KernelFault:
    case, dev = ZOO[name], device(checks)
    before = {key: getattr(dev, key) for key in case.settings}
    for key, value in case.settings.items():
        setattr(dev, key, value)
    try:
        with pytest.raises(KernelFault) as caught:
            modules[checks].get_function(name)(
                case.grid, case.block, tuple(arguments(dev, case.args).values()), case.shared
            )
    finally:
        for key, value in before.items():
            setattr(dev, key, value)
    return caught.value


@pytest.mark.parametrize("name, checks", [(n, f) for n, c in ZOO.items() for f in c.flavours])
def test_zoo(modules, name, checks):
    case, fault = ZOO[name], launch(modules, checks, name)
    assert fault.kind == case.kind
    says = case.says
    if "// OTHER" in case.source:
        other = line_of(SOURCE, f"OTHER:{name}")
        assert fault.other.line == other and fault.other.block == (0, 0, 0)
        says = says.format(other=other)
    assert fault.explanation.endswith(says)
    if case.headline:
        assert fault.headline == case.headline
    assert (fault.file, fault.line) == ("kernel.cu", line_of(SOURCE, f"FAULT:{name}"))
    assert fault.source == SOURCE.splitlines()[fault.line - 1]
    assert fault.severity == "error"
    assert (fault.array, fault.shape) == (case.array, case.shape)
    for found, expected in ((fault.index, case.index), (fault.thread, case.thread), (fault.block, case.block_index)):
        assert expected is None or found == expected
    if case.count is not None:
        assert fault.count == case.count
    assert tuple(f.kind for f in fault.more) == case.more
    assert fault.launch.notes == []  # beside a fault they are only its consequence
    assert "\n" not in fault.explanation and len(fault.explanation) < 180


@pytest.mark.parametrize("checks", FLAVOURS)
def test_barrier_after_an_early_return_is_a_note(checks):
    """Since Volta a barrier does not wait for threads that have returned; older rules, and readers, may."""
    source = f"""{K}early(float* b, int n) {{
      int i = threadIdx.x;
      if (i >= n) return;
      __syncthreads();  // NOTE
      b[i] = 1;
    }}"""
    dev = device(checks)
    b = arguments(dev, "b")["b"]
    done = dev.compile(source).get_function("early")(1, 32, (b, np.int32(10)))
    assert b.get().tolist() == [1] * 10
    if checks == "memory":
        assert done.notes == []
        return
    (note,) = done.notes
    assert (note.kind, note.severity, note.line) == ("barrier-divergence", "note", line_of(source, "NOTE"))
    assert note.headline == "Divergent thread(s) in block"
    assert note.explanation == (
        "22 threads had returned before this barrier: it does not wait for them."
    )


def test_deep_recursion_of_a_large_function_does_not_exhaust_the_stack():
    """A frame of many kilobytes, a thousand deep: a fault, not the end of the process."""
    values = "\n".join(f"  float v{j} = p[(unsigned)(x + {j}) % 10] * {j};" for j in range(500))
    total = " + ".join(f"v{j} * v{j * 7 % 500}" for j in range(500))
    source = f"""__device__ __noinline__ float f(int x, const float* p) {{
    {values}
      float rest = x < -100000 ? 0 : f(x - 1, p);
      return rest + {total};
    }}
    {K}k(const float* a, float* b) {{ b[0] = f(1, a); }}"""
    dev = device("full")
    arrays = arguments(dev, "a b")
    with pytest.raises(KernelFault) as caught:
        dev.compile(source).get_function("k")(1, 1, (arrays["a"], arrays["b"]))
    assert caught.value.kind == "stack-overflow" and "does the recursion end?" in caught.value.explanation


def test_a_fault_survives_a_trip_between_processes(modules):
    fault = launch(modules, "full", "two_faults")
    copy = pickle.loads(pickle.dumps(fault))
    assert str(copy) == str(fault) and copy.more[0].kind == fault.more[0].kind


def test_the_schedule_changes_no_message(modules):
    dev, said = device("memory"), set()
    for dev.schedule in range(6):
        fault = launch(modules, "memory", "no_bounds_check")
        said.add((str(fault), fault.thread, fault.block))
    dev.schedule = 0
    assert len(said) == 1
