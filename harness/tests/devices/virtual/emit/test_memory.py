"""Atomic operations: what they leave in memory, what they return, and that no update is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.devices.virtual.launches import FLAVOURS, K, chosen, device, in_each_build

N = 96
RNG = np.random.default_rng(5)
_C = {
    "i4": "int",
    "u4": "unsigned",
    "i8": "long long",
    "u8": "unsigned long long",
    "f4": "float",
    "f8": "double",
}


@dataclass
class Op:
    """`call(p, v)`: folding `step` over the values of all threads takes memory from `start` to its final value."""

    call: str
    step: Callable
    types: tuple[str, ...]
    start: int = 7
    low: int = -40
    high: int = 40
    ordered: bool = False  # the result depends on the order: one thread only


def wrapping_increment(old, limit):
    return 0 if old >= limit else old + 1


def wrapping_decrement(old, limit):
    return limit if old == 0 or old > limit else old - 1


OPS = {
    "add": Op("atomicAdd(p, v)", lambda old, v: old + v, ("i4", "u4", "u8", "f4", "f8")),
    "sub": Op("atomicSub(p, v)", lambda old, v: old - v, ("i4", "u4")),
    "min": Op("atomicMin(p, v)", min, ("i4", "u4", "i8", "u8")),
    "max": Op("atomicMax(p, v)", max, ("i4", "u4", "i8", "u8")),
    "and": Op("atomicAnd(p, v)", lambda old, v: old & v, ("i4", "u4", "u8"), start=-1),
    "or": Op("atomicOr(p, v)", lambda old, v: old | v, ("i4", "u4", "u8"), start=0),
    "xor": Op("atomicXor(p, v)", lambda old, v: old ^ v, ("i4", "u4", "u8")),
    "inc": Op("atomicInc(p, 17)", lambda old, v: wrapping_increment(old, 17), ("u4",)),
    "dec": Op("atomicDec(p, 17)", lambda old, v: wrapping_decrement(old, 17), ("u4",)),
    "exch": Op("atomicExch(p, v)", lambda old, v: v, ("i4", "u4", "u8", "f4"), ordered=True),
    "cas": Op(
        "atomicCAS(p, 7, v)", lambda old, v: v if old == 7 else old, ("i4", "u4", "u8"), ordered=True, low=8
    ),
    "add_block": Op("atomicAdd_block(p, v)", lambda old, v: old + v, ("i4", "f8")),
    "add_system": Op("atomicAdd_system(p, v)", lambda old, v: old + v, ("u4", "f4")),
    "cas_loop": Op("cas_add(p, v)", lambda old, v: old + v, ("i4",)),
}
CASES = {f"{name}_{t}": (name, t) for name, op in OPS.items() for t in op.types}


def source(cases) -> str:
    kernels = [
        "__device__ int cas_add(int* p, int v) { int seen = atomicOr(p, 0), old;\n"
        "  do { old = seen; seen = atomicCAS(p, old, old + v); } while (seen != old); return old; }"
    ]
    for name, t in map(CASES.get, cases):
        c, call = _C[t], OPS[name].call
        kernels += [
            f"{K}{name}_{t}({c}* p, {c}* old, const {c}* values) {{\n"
            f"  {c} v = values[threadIdx.x + blockIdx.x * blockDim.x];\n"
            f"  old[threadIdx.x + blockIdx.x * blockDim.x] = {call};\n}}",
            f"{K}{name}_{t}_shared({c}* result, {c}* old, const {c}* values, {c} start) {{\n"
            f"  __shared__ {c} word[2];\n  {c}* p = word + 1;\n"
            f"  if (threadIdx.x == 0) word[0] = word[1] = start;\n  __syncthreads();\n"
            f"  {c} v = values[threadIdx.x];\n  old[threadIdx.x] = {call};\n  __syncthreads();\n"
            f"  if (threadIdx.x == 0) *result = *p;\n}}",
            f"{K}{name}_{t}_unused({c}* p, const {c}* values) {{\n"
            f"  {c} v = values[threadIdx.x];\n  {call};\n}}",
        ]
    return "\n".join(kernels)


@pytest.fixture(scope="module")
def modules(request):
    return {c: device(c).compile(source(sorted(chosen(request, "case", checks=c)))) for c in FLAVOURS}


def values_of(op: Op, t: str, count: int) -> np.ndarray:
    low = max(op.low, 0) if t[0] == "u" else op.low
    return RNG.integers(low, op.high, count).astype(t)


def fold(op: Op, t: str, start, values) -> tuple[list, object]:
    """(the value before each step, the last one), wrapped to the type."""
    before, now = [], start
    for v in values.tolist():
        before.append(now)
        now = np.array(op.step(now, v)).astype(np.dtype(t), casting="unsafe").item()
    return before, now


def start_of(op: Op, t: str):
    return np.array([op.start]).astype("i8").astype(t)[0]


@pytest.mark.parametrize("case, checks", in_each_build(dict.fromkeys(CASES, FLAVOURS)))
def test_global(modules, case, checks):
    (name, t), dev = CASES[case], device(checks)
    op = OPS[name]
    grid, block = (1, 1) if op.ordered else (1, N) if name.endswith("_block") else (4, N // 4)
    values, start = values_of(op, t, grid * block), start_of(op, t)
    p, old = dev.array(np.array([99, start, 99], t)), dev.array(np.zeros(grid * block, t))
    whole = dev.array(values, readonly=True)
    middle = p.pointer + p.dtype.itemsize
    modules[checks].get_function(case)(grid, block, (np.uint64(middle), old, whole))
    before, last = fold(op, t, start.item(), values)
    assert p.get().tolist() == [99, last, 99]
    if name not in (
        "min",
        "max",
        "and",
        "or",
    ):  # the values in between are the same in any order of equal steps
        assert name in ("add", "sub", "xor", "add_block", "add_system", "cas_loop") or sorted(
            old.get()
        ) == sorted(before)
    assert start in old.get()  # somebody was first


@pytest.mark.parametrize("case, checks", in_each_build(dict.fromkeys(CASES, FLAVOURS)))
def test_shared_and_result_not_used(modules, case, checks):
    (name, t), dev = CASES[case], device(checks)
    op = OPS[name]
    block = 1 if op.ordered else N
    values, start = values_of(op, t, block), start_of(op, t)
    _, last = fold(op, t, start.item(), values)
    result, old = dev.array(np.zeros(1, t)), dev.array(np.zeros(block, t))
    given = dev.array(values, readonly=True)
    modules[checks].get_function(f"{case}_shared")(1, block, (result, old, given, start))
    assert result.get()[0] == last
    p = dev.array(np.array([start]))
    modules[checks].get_function(f"{case}_unused")(1, block, (p, given))
    assert p.get()[0] == last


# --- what they are used for ----------------------------------------------------------------------

USES = f"""
{K}histogram(const unsigned char* data, int* bins, int n) {{
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[data[i] % 16], 1);
}}
{K}histogram_shared(const unsigned char* data, int* bins, int n) {{
  __shared__ int local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[data[i] % 16], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}}
__device__ float max_float(float* p, float v) {{
  int* word = (int*)p;
  int seen = atomicOr(word, 0), old;
  do {{
    old = seen;
    seen = atomicCAS(word, old, __float_as_int(fmaxf(v, __int_as_float(old))));
  }} while (seen != old);
  return __int_as_float(seen);
}}
{K}largest(const float* data, float* out, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) max_float(out, data[i]);
}}
{K}append(const int* data, int* out, int* count, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && data[i] > 0) out[atomicAdd(count, 1)] = data[i];
}}
__device__ unsigned tickets;
{K}last_block(const float* data, volatile float* partial, float* out) {{
  __shared__ bool last;
  float v = data[blockIdx.x * blockDim.x + threadIdx.x];
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x == 0) {{
    partial[blockIdx.x] = v;
    __threadfence();
    last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
  }}
  __syncthreads();
  if (last && threadIdx.x == 0) {{
    float s = 0;
    for (int b = 0; b < gridDim.x; b++) s += partial[b];
    *out = s;
  }}
}}
"""


@pytest.fixture(scope="module")
def uses():
    return {checks: device(checks).compile(USES) for checks in FLAVOURS}


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("name", ["histogram", "histogram_shared"])
def test_histogram(uses, name, checks):
    dev = device(checks)
    data = RNG.integers(0, 256, 20_000).astype(np.uint8)
    bins = dev.array(np.zeros(16, np.int32))
    uses[checks].get_function(name)(16, 64, (dev.array(data), bins, np.int32(data.size)))
    np.testing.assert_array_equal(bins.get(), np.bincount(data % 16, minlength=16))


@pytest.mark.parametrize("checks", FLAVOURS)
def test_maximum_by_compare_and_swap(uses, checks):
    dev = device(checks)
    data = RNG.normal(size=1000).astype(np.float32)
    out = dev.array(np.full(1, -np.inf, np.float32))
    uses[checks].get_function("largest")(8, 128, (dev.array(data), out, np.int32(data.size)))
    assert out.get()[0] == data.max()


@pytest.mark.parametrize("checks", FLAVOURS)
def test_append(uses, checks):
    dev = device(checks)
    data = RNG.integers(-9, 9, 500).astype(np.int32)
    out, count = dev.array(np.zeros(500, np.int32)), dev.array(np.zeros(1, np.int32))
    uses[checks].get_function("append")(4, 128, (dev.array(data), out, count, np.int32(500)))
    kept = sorted(data[data > 0])
    assert count.get()[0] == len(kept) and sorted(out.get()[: len(kept)]) == kept


@pytest.mark.parametrize("checks", FLAVOURS)
def test_last_block_sums_up(uses, checks):
    """threadFenceReduction of CUDA's samples, twice: the ticket counter wraps."""
    dev = device(checks)
    data = RNG.integers(-9, 9, 40 * 32).astype(np.float32)
    for dev.schedule in (0, 3):
        partial, out = dev.array(np.zeros(40, np.float32)), dev.array(np.zeros(1, np.float32))
        uses[checks].get_function("last_block")(40, 32, (dev.array(data), partial, out))
        assert out.get()[0] == data.sum()
    dev.schedule = 0


# --- halves --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checks", FLAVOURS)
def test_halves(checks):
    source = f"""#include <cuda_fp16.h>
    {K}k(__half* one, __half2* two, __half2* old) {{
      atomicAdd(one + 1, __float2half(0.5f));
      old[threadIdx.x] = atomicAdd(two, __floats2half2_rn(1.f, -2.f));
    }}"""
    dev = device(checks)
    one = dev.array(np.array([9, 1, 9, 9], np.float16))
    two, old = dev.array(np.array([1, 1], np.float16)), dev.array(np.zeros(64, np.float16))
    dev.compile(source).get_function("k")(1, 32, (one, two, old))
    assert one.get().tolist() == [9, 17, 9, 9] and two.get().tolist() == [33, -63]
    assert sorted(old.get()[::2].tolist()) == list(range(1, 33))
