"""Coarsened threads that do not run as vector lanes: the same bits as one by one; faults with the right
thread and line."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.devices.virtual.analyse.uniformity import FACTOR, FACTOR_WITH_BARRIERS, coarsening
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.devices.virtual.ptx import parse as ptx
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, device, line_of

#: each `k(const float* x, float* out, int n)`; 64 elements of each, blocks of 32 or less
AGREE = {
    # all take the loop's branch together; the last threads of the last block return
    "guard": """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int j = 0; j < n; j++) sum += x[j] * (i + j);
    out[i] = sum;""",
    # each its own value of a condition within the loop
    "skip": """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0, other = 1;
    for (int j = 0; j < n; j++) {
        sum += x[j] * i; other += sum * x[j]; sum += other; other *= x[j];
        if ((i ^ j) & 2) out[i] = sum;
    }
    out[i] += other;""",
    # loops of different lengths, inside one of the same length
    "lengths": """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    unsigned k = 0;
    for (int r = 0; r < n; r++) {
        sum += x[r] * i; sum *= x[r] + 1; sum -= x[r]; sum += x[r] * sum; sum *= x[r] + 2; sum += i; sum *= x[r];
        for (int s = 0; s < i % 5; s++) out[i + 64] = k = 3 * k + (s ^ r);
    }
    if (i < n) out[i] = sum + k;""",
    # shared memory and barriers, tails of rows and columns, what is read under a condition
    "tile": """
    __shared__ float tile[8][9];
    int row = threadIdx.x / 8 % 8, column = threadIdx.x % 8, i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += 8) {
        tile[row][column] = i < 63 && t + column < n ? x[i] + t : 0.0f;
        __syncthreads();
        for (int k = 0; k < 4; k++) sum += tile[k][column] * (row + 1);
        __syncthreads();
    }
    if (i % 3) out[i] = sum;""",
    # reads of memory that other threads write, in order
    "atomics": """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = 0; j < 4; j++) atomicAdd(&out[(i + j) % n], 1.0f);
    """,
}
IN_A_ROW = """
{K}k(const float* x, float* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int j = 0; j < n; j++) {{
        {body}
    }}
    out[i] = sum;
}}
"""


@cache
def one_by_one(checks: str) -> VirtualGPU:
    """A device without lanes."""
    made = VirtualGPU(checks)
    made.quick, made.lanes, made.step_budget = True, 1, 1 << 16
    return made


def run(
    source: str, checks: str = "memory", block: int = 32, fixed: bool = True, factor: int = FACTOR
) -> bytes:
    """The bits that `k` leaves in `out`. fixed: compiled for its sizes, that many threads together."""
    dev = one_by_one(checks)
    x = dev.array(np.random.default_rng(0).standard_normal(64).astype(np.float32), name="x", axes="i")
    out = dev.array(np.zeros(128, np.float32), name="out", axes="i")
    kernel = dev.compile(source).get_function("k")
    args = x, out, np.int32(61)
    if fixed:
        kernel = kernel.fixed(args)
        assert kernel.info.coarsening == factor
    kernel(64 // block, block, args)
    return out.get().tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("checks", ["memory", pytest.param("none", marks=pytest.mark.soak)])  # it checks less
@pytest.mark.parametrize("name", AGREE)
def test_coarsened_threads_give_the_bits_of_one_by_one(name, checks):
    source = f"{K}k(const float* x, float* out, int n) {{{AGREE[name]}\n}}"
    factor = {"atomics": 1, "tile": FACTOR_WITH_BARRIERS}.get(name, FACTOR)
    bits = run(source, checks, factor=factor)
    assert bits == run(source, checks, fixed=False) and any(bits)
    # rows that coarsened threads would cross
    assert run(source, checks, 2, factor=factor) == run(source, checks, 2, fixed=False)


#: as AGREE, but what one thread does may hold up, or be held up by, its neighbour: one by one
ONE_BY_ONE = {
    "copies": """
    __shared__ float tile[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned to = __cvta_generic_to_shared(&tile[threadIdx.x]);
    float sum = 0;
    for (int j = 0; j < n; j++) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(&x[(i + j) % 64]));
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 0;");
        sum += tile[threadIdx.x] * n;
    }
    out[i % 64] = sum;""",
    "a lock": """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned* lock = (unsigned*)&out[127];
    float sum = 0;
    for (int j = 0; j < n; j++) sum += x[j] * (i + j);
    while (atomicCAS(lock, 0u, 1u)) {}
    out[0] += 1;
    __threadfence();
    atomicExch(lock, 0u);
    out[1 + i] = sum;""",
    "the mask of who is there": """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int j = 0; j < n; j++) sum += x[j] * (j + i);
    out[i % 64] = sum + __activemask();""",
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_what_coarsened_threads_would_get_wrong(name):
    source = f"{K}k(const float* x, float* out, int n) {{{ONE_BY_ONE[name]}\n}}"
    bits = run(source, factor=1)
    assert bits == run(source, fixed=False) and any(bits)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
@pytest.mark.parametrize("thread", [0, 2, 31])
def test_a_fault_names_the_thread_and_the_line(thread, barrier):
    body = f"{barrier} sum += x[j]; sum *= x[j + (i == {thread}) * 4];  // FAULT"
    source = IN_A_ROW.format(K=K, body=body)
    with pytest.raises(KernelFault) as caught:
        run(source, factor=FACTOR_WITH_BARRIERS if barrier else FACTOR)
    fault = caught.value
    assert (fault.kind, fault.thread, fault.block) == ("out-of-bounds", (thread, 0, 0), (0, 0, 0))
    assert (fault.line, fault.array, fault.index) == (line_of(source), "x", "i=64")


def test_a_loop_that_never_ends_is_stopped():
    source = IN_A_ROW.format(K=K, body="sum += x[j]; if (sum == sum) j = 0;")
    with pytest.raises(KernelFault) as caught:
        run(source)
    assert caught.value.kind == "timeout" and caught.value.line


REFUSED = {
    "a shuffle": "sum += __shfl_down_sync(~0u, x[j], 1);",
    "a warp barrier": "__syncwarp(); sum += x[j];",
    "a function that stays one": "sum += recursive(j, x);",
    "local memory": "float a[40]; for (int m = 0; m < 40; m++) a[(m * n + i) % 40] = m; sum += a[(i + j) % 40];",
    "a barrier where threads may part": "if (x[i] < 9) __syncthreads(); sum += x[j];",
    "many sums": "sum += x[j];" + "".join(f"s[{m}] += x[j] * {m}.5f;" for m in range(8)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_goes_one_by_one(what):
    before = "__device__ __noinline__ float recursive(int j, const float* x)"
    before += " { return j < 2 ? x[j] : recursive(j / 2, x) + recursive(j - 1, x) * 0.5f; }\n"
    source = before + IN_A_ROW.format(K=K, body=REFUSED[what])
    if what == "many sums":
        source = source.replace("float sum = 0;", "float sum = 0, s[8] = {};")
        source = source.replace("= sum;", "= sum" + "".join(f" + s[{m}]" for m in range(8)) + ";")
    dev = device("memory")
    compiled = dev.compile(source).compiled
    function = ptx.parse(compiled.text, "kernel.cu").functions[compiled.find("k")]
    waits = any(x in compiled.text for x in ("bar.", "shfl"))
    assert coarsening(function, waits) is None


def test_where_threads_part_and_where_they_agree():
    dev = device("memory")
    compiled = dev.compile(f"{K}k(const float* x, float* out, int n) {{{AGREE['guard']}\n}}").compiled
    function = ptx.parse(compiled.text, "kernel.cu").functions["k"]
    found = coarsening(function, waits=False)
    body = function.body
    (guard,) = found.guards
    assert guard.base == "bra" and guard.pred in found.varying and not found.regions
    behind = [item for item in body[body.index(guard) + 1 :] if isinstance(item, ptx.Instruction)]
    loops = [item for item in behind if item.base == "bra"]
    assert loops and not found.serial & set(loops)  # all threads loop together
    loads = [item for item in behind if item.opcode == "ld.global.f32"]
    assert loads and not found.serial & set(loads)  # x[j] is the same for all of them
    (store,) = (item for item in behind if item.base == "st")
    assert store in found.serial
