"""cp.async, mbarrier, cuda::barrier and cuda::pipeline; synchronisation of a grid and between blocks."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault, LaunchError
from tests.devices.virtual.launches import FLAVOURS, K, device, line_of, result, run, zeros

#: what CUDA's header has, in three lines: with full checks, its many instances of templates take long to compile
PIPELINE = """\
#define __pipeline_memcpy_async(to, from, n) asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" \\
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(n) : "memory")
#define __pipeline_commit() asm volatile("cp.async.commit_group;" ::: "memory")
#define __pipeline_wait_prior(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
"""

_COPY = """#include <cuda_pipeline.h>
extern "C" __global__ void k(const float4* a, float4* out) {
    __shared__ float4 tile[64];
    int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[i], &a[i], 16);  // COPIED
    __pipeline_commit();
    WAIT
    __syncthreads();
    out[i] = tile[63 - i];
}
"""
_SHORT = _COPY.replace("#include <cuda_pipeline.h>\n", PIPELINE)


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("checks", FLAVOURS)
def test_copies_have_arrived_after_the_wait(checks):
    out = zeros((64, 4), checks=checks)
    run(_COPY.replace("WAIT", "__pipeline_wait_prior(0);"), numbers(64, 4), out, block=64, checks=checks)
    assert (out.get() == numbers(64, 4)[::-1]).all()


def test_without_the_wait_nothing_has_arrived():
    out = zeros((64, 4), checks="memory")
    run(_COPY.replace("WAIT", ""), numbers(64, 4), out, block=64, checks="memory")
    assert np.isnan(out.get()).all()
    with pytest.raises(KernelFault) as caught:
        run(_SHORT.replace("WAIT", ""), numbers(64, 4), zeros((64, 4)), block=64)
    assert caught.value.kind == "uninitialised-read" and caught.value.array == "tile"


def test_wait_group_lets_the_newest_groups_be_late():
    source = """#include <cuda_pipeline.h>
extern "C" __global__ void k(const float* a, float* out) {
    __shared__ float tile[3];
    for (int i = 0; i < 3; i++) {
        tile[i] = -1;
        __pipeline_memcpy_async(&tile[i], &a[i], 4);
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    for (int i = 0; i < 3; i++) out[i] = tile[i];
    __pipeline_wait_prior(0);
    out[3] = tile[2];
}"""
    out = zeros(4, checks="memory")
    run(source, numbers(3) + 5, out, block=1, checks="memory")
    assert out.get().tolist() == [5, 6, -1, 7]


def test_zero_fill_reads_only_the_bytes_it_is_told_to():
    source = """#include <cuda_pipeline.h>
extern "C" __global__ void k(const float4* a, float4* out) {
    __shared__ float4 tile[2];
    int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[i], &a[i], 16, i ? 16 : 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[i] = tile[i];
}"""
    out = zeros((2, 4))
    run(source, numbers(1, 4) + 1, out, block=2)  # lane 1 would lie outside of a
    assert out.get().tolist() == [[1, 2, 3, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("what", ["source", "target"])
def test_copies_are_checked_where_they_are_started(what):
    index = {"source": ("i", "i + 1"), "target": ("i + 1", "i")}[what]
    source = _SHORT.replace("&tile[i], &a[i]", f"&tile[{index[0]}], &a[{index[1]}]").replace(
        "WAIT", "__pipeline_wait_prior(0);"
    )
    with pytest.raises(KernelFault) as caught:
        run(source, numbers(64, 4), zeros((64, 4)), block=64)
    fault = caught.value
    assert (fault.kind, fault.line, fault.thread) == (
        "out-of-bounds",
        line_of(source, "COPIED"),
        (63, 0, 0),
    )


@pytest.mark.parametrize("checks", FLAVOURS)
def test_shared_addresses_wrap_around_at_32_bits(checks):
    """NVRTC adds a constant to a register that lies before the first shared array: -65536 + 65536 is 0."""
    source = (
        K
        + """k(const float* a, float* out) {
    __shared__ float stored[64], copied[64];
    int i = threadIdx.x;
    unsigned to = (unsigned)__cvta_generic_to_shared(&stored[i]) - 65536;
    asm volatile("st.shared.f32 [%0+65536], %1; st.shared.f32 [%0+65664], %1;" :: "r"(to), "f"(a[i]) : "memory");
    to = (unsigned)__cvta_generic_to_shared(&copied[i]) - 65536;
    asm volatile("cp.async.ca.shared.global [%0+65536], [%1], 4; cp.async.wait_all;" :: "r"(to), "l"(a + i) : "memory");
    out[i] = stored[i] + stored[i + 32] + copied[i];
}"""
    )
    out = zeros(32, checks=checks)
    run(source, numbers(32), out, checks=checks)
    assert (out.get() == 3 * numbers(32)).all()


_RING = (
    PIPELINE
    + """
extern "C" __global__ void k(const float* a, float* out) {
    __shared__ float tile[64];
    int i = threadIdx.x;
    tile[i] = 1;
    __syncthreads();
    out[i] = tile[63 - i];  // USED
    BEFORE
    __pipeline_memcpy_async(&tile[i], &a[i], 4);  // COPIED
    __pipeline_commit();
    AFTER
    __pipeline_wait_prior(0);
    __syncthreads();
    out[i] += tile[63 - i];
}
"""
)


def ring(before: str = "", after: str = "", source: str = _RING):
    run(source.replace("BEFORE", before).replace("AFTER", after), numbers(64), zeros(64), block=64)


def test_a_copy_may_arrive_as_soon_as_it_is_started():
    """Others have not read the place yet, though they will have done so when the copy is waited for."""
    with pytest.raises(KernelFault) as caught:
        ring(after="__syncthreads();")
    fault = caught.value
    assert (fault.kind, fault.array) == ("race", "tile")
    assert {fault.line, fault.other.line} == {line_of(_RING, "USED"), line_of(_RING, "COPIED")}


def test_a_barrier_before_the_wait_is_too_early():
    """There is a barrier between the two lines, so the message must not claim otherwise."""
    wait, barrier = "__pipeline_wait_prior(0);", "__syncthreads();"
    early = _RING.replace(f"{wait}\n    {barrier}", f"{barrier}\n    {wait}")
    with pytest.raises(KernelFault) as caught:
        ring(before="__syncthreads();", source=early)
    says = caught.value.explanation
    assert (
        f"A copy (line {line_of(_RING, 'COPIED')}) started by thread (" in says and "between them" not in says
    )
    line = early[: early.index(wait)].count("\n") + 1
    assert f"between the wait for the copy (line {line}) and this use" in says


def test_what_a_copy_is_to_replace_cannot_be_read_any_more():
    with pytest.raises(KernelFault) as caught:
        ring(before="__syncthreads();", after="out[i] = tile[i];")
    fault = caught.value
    assert (fault.kind, fault.array, fault.line) == (
        "uninitialised-read",
        "tile",
        line_of(_RING, "COPIED") + 2,
    )
    assert f"copy, started at line {line_of(_RING, 'COPIED')}, may not have finished" in fault.explanation


@pytest.mark.parametrize("block", [1, 32, 64])
def test_nor_by_an_instruction_that_has_read_it_before(block):
    """Racecheck has seen this thread read it in this interval; the copy makes it unset again."""
    source = (
        f"{PIPELINE}\n"
        + """
extern "C" __global__ void k(const float* a, float* out) {
    __shared__ float tile[64];
    int i = threadIdx.x;
    tile[i] = -1;
    float sum = 0;
    for (int n = 0; n < 3; n++) {
        sum += tile[i];  // FAULT
        if (n == 1) __pipeline_memcpy_async(&tile[i], &a[i], 4);
        __pipeline_commit();
    }
    __pipeline_wait_prior(0);
    out[i] = sum;
}"""
    )
    with pytest.raises(KernelFault) as caught:
        run(source, numbers(64), zeros(64), block=block)
    assert (caught.value.kind, caught.value.line) == ("uninitialised-read", line_of(source, "FAULT"))


def test_a_word_that_is_half_written_waits_for_no_copy():
    source = _RING.replace("tile[i] = 1;", "((char*)tile)[4 * i] = 1;")
    with pytest.raises(KernelFault) as caught:
        ring(before="__syncthreads();", source=source)
    assert caught.value.kind == "uninitialised-read" and "never written" in caught.value.explanation


# -- blocks that wait for one another -----------------------------------------------------------------


GRID = f"""#include <cooperative_groups.h>
namespace cg = cooperative_groups;
{K}reverse(float* out) {{
    auto grid = cg::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x, last = gridDim.x * blockDim.x - 1;
    out[i] = i;
    grid.sync();  // FIRST
    float other = out[last - i];
    grid.sync();
    out[i] = other;
}}
{K}rank(float* out) {{
    auto grid = cg::this_grid();
    out[grid.thread_rank()] = grid.size() - grid.block_rank();
}}
{K}left(float* out) {{
    auto grid = cg::this_grid();
    if (blockIdx.x == 3) return;
    grid.sync();  // LEFT
}}
{K}fewer(float* out) {{
    auto grid = cg::this_grid();
    for (int k = 0; k < 6 - blockIdx.x / 6; k++) {{
        out[grid.thread_rank()] += 1;
        grid.sync();  // FEWER
    }}
}}
{K}fault(float* out) {{
    auto grid = cg::this_grid();
    if (blockIdx.x == 3) out[-1] = 1;  // FAULT
    grid.sync();
}}
{K}masters(float* out) {{
    auto grid = cg::this_grid();
    if (threadIdx.x == 0) grid.sync();  // MASTERS
}}
"""


@pytest.fixture(scope="module")
def grids():
    return {checks: device(checks).compile(GRID) for checks in FLAVOURS}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("checks", FLAVOURS)
def test_grid_sync(grids, checks):
    out = zeros(512, checks=checks)
    done = grids[checks].get_function("reverse")(8, 64, (out,))
    told = [(note.kind, note.line) for note in done.notes]
    assert told == [("cooperative-launch", line_of(GRID, "FIRST"))] * (checks == "full")
    assert (out.get() == numbers(512)[::-1]).all()
    with pytest.raises(LaunchError, match="together") as caught:
        grids[checks].get_function("reverse")(5000, 1, (zeros(5000, checks=checks),))
    assert caught.value.code == "cudaErrorCooperativeLaunchTooLarge"


@pytest.mark.parametrize("checks", FLAVOURS)
def test_a_grid_that_only_asks_for_its_size_may_have_any(grids, checks):
    out = zeros(400, checks=checks)
    grids[checks].get_function("rank")(200, 2, (out,))
    assert (out.get() == 400 - np.arange(400) // 2).all()


@pytest.mark.parametrize(
    "name, blocks, says",
    [
        ("left", 8, "7 blocks wait at this barrier of the grid; block (3,0,0) never arrives."),
        ("left", 32, "31 blocks wait at this barrier of the grid; block (3,0,0) never arrives."),
        ("fewer", 7, "6 blocks wait at this barrier of the grid; block (6,0,0) never arrives."),
        (
            "fewer",
            8,
            "6 blocks wait at this barrier of the grid; block (6,0,0) never arrives, nor does 1 more.",
        ),
        (
            "fewer",
            9,
            "6 blocks wait at this barrier of the grid; block (6,0,0) never arrives, nor do 2 more.",
        ),
        ("fault", 8, "This writes out, 1 element before its start;"),
        ("masters", 2, "1 thread of the block waits at this barrier; 31 others went around it,"),
    ],
)
def test_a_block_that_never_comes_to_the_barrier_of_the_grid(grids, name, blocks, says):
    dev = device()
    try:
        for dev.schedule in (0, 1):
            with pytest.raises(KernelFault) as caught:
                grids["full"].get_function(name)(blocks, 32, (zeros(32 * blocks),))
            fault = caught.value
            assert fault.kind == ("out-of-bounds" if name == "fault" else "barrier-divergence")
            assert fault.line == line_of(GRID, name.upper())
            assert fault.explanation.startswith(says) and fault.more == []
    finally:
        dev.schedule = 0


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("waiter", [0, 7])
def test_a_block_waits_for_flags_of_others(waiter, checks):
    source = f"""__device__ int arrived;
{K}k(float* out) {{
    if (threadIdx.x) return;
    if (blockIdx.x == {waiter}) {{
        while (atomicAdd(&arrived, 0) < gridDim.x - 1) {{ }}
        out[0] = atomicAdd(&arrived, 0);
    }} else atomicAdd(&arrived, 1);
}}"""
    out = zeros(1, checks=checks)
    run(source, out, grid=8, checks=checks)
    assert out.get()[0] == 7


def test_last_block_reduction_is_clean():
    source = f"""__device__ unsigned done;
__device__ float part[16];
{K}k(float* out) {{
    __shared__ bool last;
    if (threadIdx.x == 0) {{
        part[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        last = atomicAdd(&done, 1) == gridDim.x - 1;
        __threadfence();
    }}
    __syncthreads();
    if (last && threadIdx.x == 0) {{
        float sum = 0;
        for (int b = 0; b < gridDim.x; b++) sum += part[b];
        out[0] = sum;
    }}
}}"""
    out = zeros(1)
    run(source, out, grid=16)
    assert out.get()[0] == 136


# -- calls through pointers ---------------------------------------------------------------------------


@pytest.mark.parametrize("checks", FLAVOURS)
def test_functions_in_a_table(checks):
    before = """__device__ float next(float x) { return x + 1; }
__device__ float twice(float x) { return x * 2; }
typedef float (*Function)(float);
__device__ Function table[2] = {next, twice};"""
    got = result(
        "int i = threadIdx.x; out[i] = table[i % 2](a[i]);", 32, numbers(32), before=before, checks=checks
    )
    assert (got == np.where(np.arange(32) % 2, numbers(32) * 2, numbers(32) + 1)).all()


@pytest.mark.parametrize("checks", FLAVOURS)
def test_virtual_functions(checks):
    before = """struct Base { __device__ virtual float f(float x) = 0; };
struct Next : Base { __device__ float f(float x) override { return x + 1; } };
struct Twice : Base { __device__ float f(float x) override { return x * 2; } };"""
    body = """int i = threadIdx.x;
Next next; Twice twice;
Base* base = i % 2 ? (Base*)&twice : (Base*)&next;
out[i] = base->f(a[i]);"""
    got = result(body, 32, numbers(32), before=before, checks=checks)
    assert (got == np.where(np.arange(32) % 2, numbers(32) * 2, numbers(32) + 1)).all()


def test_a_call_through_a_wild_pointer_is_a_fault():
    before = "typedef float (*Function)(float);\n__device__ float next(float x) { return x + 1; }\n__device__ Function f = next;"
    with pytest.raises(KernelFault):
        result(
            "Function g = (Function)((unsigned long long)f + a[0]); out[0] = g(1.0f);",
            1,
            np.full(1, 7, np.int64),
            before=before,
            block=1,
        )
    assert device().checks == "full"
