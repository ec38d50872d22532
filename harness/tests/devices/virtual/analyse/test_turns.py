"""Other threads run after a thread has read shared data: updates in two steps are lost, atomic ones are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backwarp.course.checkout import Course
from backwarp.devices.virtual.runtime.abi import TURNS
from backwarp.grading.grade import Options, grade_file
from tests import KERNELS, ROOT
from tests.devices.virtual.launches import K, device

COURSE = Course(ROOT)
HEAD = "(float* g, const float* x) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
LOST = {
    "volatile_pointer": "volatile float* v = g; *v = *v + x[i];",
    "in_a_function": "two_steps(g, x[i]);",
    "compare_and_swap_once": "float old = *g; atomicCAS((int*)g, __float_as_int(old), __float_as_int(old + x[i]));",
    "exchange": "atomicExch(g, atomicAdd(g, 0.0f) + x[i]);",
    "relaxed": 'float old; asm volatile("ld.relaxed.gpu.f32 %0, [%1];" : "=f"(old) : "l"(g)); old += x[i];'
    'asm volatile("st.relaxed.gpu.f32 [%0], %1;" :: "l"(g), "f"(old));',
    "acquire": 'float old; asm volatile("ld.acquire.gpu.f32 %0, [%1];" : "=f"(old) : "l"(g)); old += x[i];'
    'asm volatile("st.release.gpu.f32 [%0], %1;" :: "l"(g), "f"(old));',
    "out_of_step": "volatile float* v = g; for (int k = 0; k < threadIdx.x % 4; k++) __syncwarp(1 << threadIdx.x % 32);"
    "*v = *v + x[i];",
    "a_lock_that_is_none": "if (atomicAdd(&lock, 0) == 0) { atomicExch(&lock, 1); *(volatile float*)g += x[i]; atomicExch(&lock, 0); }"
    "else atomicAdd(g, x[i]);",
}
KEPT = {
    "atomic_add": "atomicAdd(g, x[i]);",
    "result_copied_but_not_used": "float old = atomicAdd(g, x[i]); float copy = old;",
    "swap_until_it_succeeds": "float seen, old = *g; do { seen = old; old = __int_as_float(atomicCAS((int*)g,"
    "__float_as_int(seen), __float_as_int(seen + x[i]))); } while (old != seen);",
    "spin_lock": "while (atomicCAS(&lock, 0, 1)) {} __threadfence(); *(volatile float*)g += x[i]; __threadfence(); atomicExch(&lock, 0);",
    "ticket": "int mine = atomicAdd(&tickets, 1); while (*(volatile int*)&serving != mine) {} __threadfence();"
    "*(volatile float*)g += x[i]; __threadfence(); *(volatile int*)&serving = mine + 1;",
    "through_a_pointer": "atomicAdd(g, table[i % 2](&tickets, 0) * 0 + x[i]);",
    "recursive": "atomicAdd(g, deep(&tickets, 3) * 0 + x[i]);",
    "its_own": "volatile float mine = x[i]; volatile float all[2]; all[i % 2] = mine; atomicAdd(g, all[i % 2]);",
}
SOURCE = (
    """__device__ int lock, tickets, serving;
__device__ void two_steps(volatile float* g, float x) { float old = *g; *g = old + x; }
__device__ __noinline__ int once(int* p, int n) { return atomicAdd(p, 1) + *(volatile int*)p; }
__device__ __noinline__ int twice(int* p, int n) { return once(p, n) + once(p, n); }
__device__ int (*table[2])(int*, int) = {once, twice};
__device__ int look(volatile int* p) { int seen = *p; return seen; }
__device__ int deep(int* p, int n) { return n ? deep(p, n - 1) + look(p) : once(p, n); }
"""
    + "".join(f"{K}{name}{HEAD} {body} }}\n" for name, body in (LOST | KEPT).items())
    + f"""{K}zero() {{ lock = tickets = serving = 0; }}
{K}warp_sums(float* g, const float* x) {{
    __shared__ volatile float s[64];
    int t = threadIdx.x;
    s[t] = x[t]; s[t + 32] = 0;
    __syncthreads();
    for (int step = 16; step > 0; step /= 2) {{ if (t < step) s[t] += s[t + step]; SYNC }}
    if (t == 0) *g = s[0];
}}
{K}much(volatile int* g, int n) {{ for (int i = 0; i < n; i++) if (*g) break; }}
"""
)
MANY = ("out_of_step", "a_lock_that_is_none")  # two threads may be lucky
SHAPES = ((1, 2), (1, 64), (2, 1), (5, 33))


@pytest.fixture(scope="module")
def kernels():
    return device().compile(SOURCE.replace("SYNC", ""))


@pytest.fixture
def dev():
    dev = device()
    dev.agree = False
    yield dev
    dev.schedule, dev.turns, dev.agree = 0, True, True


def total(dev, kernels, name: str, grid: int, block: int) -> float:
    """The sum that a kernel computes when every thread adds one."""
    kernels.get_function("zero")(1, 1, ())
    g = dev.array(np.zeros(1, np.float32))
    kernels.get_function(name)(grid, block, (g, dev.array(np.ones(grid * block, np.float32))))
    return g.get()[0]


@pytest.mark.sampled
@pytest.mark.parametrize("name", LOST)
def test_an_update_in_two_steps_is_lost_under_every_schedule(kernels, dev, name):
    for grid, block in SHAPES[1:2] if name in MANY else SHAPES:
        for dev.schedule in range(16):
            assert total(dev, kernels, name, grid, block) < grid * block, (grid, block, dev.schedule)


@pytest.mark.parametrize("name", KEPT)
def test_a_right_update_is_not(kernels, dev, name):
    for grid, block in SHAPES:
        for dev.schedule in (0, 1, 2):
            assert total(dev, kernels, name, grid, block) == grid * block


def test_without_turns_nobody_comes_between(kernels, dev):
    dev.turns = False
    assert total(dev, kernels, "volatile_pointer", 1, 64) == 64


def test_only_those_wait_that_use_what_they_read(kernels):
    for name in ("atomic_add", "result_copied_but_not_used", "its_own"):
        info = kernels.get_function(name).info
        assert not info.coroutine and not info.resident and info.turns == ()
    for name in ("volatile_pointer", "compare_and_swap_once", "exchange", "in_a_function"):
        info = kernels.get_function(name).info
        assert info.coroutine and info.resident and len(info.turns) == 1


def test_a_launch_names_the_lines(kernels, dev):
    launch = kernels.get_function("much")(1, 1, (dev.array(np.zeros(1, np.int32)), np.int32(1)))
    assert launch.turns == (1 + next(i for i, line in enumerate(SOURCE.splitlines()) if "much" in line),)
    assert kernels.get_function("zero")(1, 1, ()).turns == ()


def test_a_reduction_that_counts_on_lanes_in_step(dev):
    for sync, sums in (("__syncwarp();", {32.0}), ("", set(range(32)))):
        kernel = dev.compile(SOURCE.replace("SYNC", sync)).get_function("warp_sums")
        for dev.schedule in range(16):
            g = dev.empty(1)
            kernel(1, 32, (g, dev.array(np.ones(32, np.float32))))
            assert g.get()[0] in sums


def test_many_reads_are_not_all_followed_by_a_turn(kernels, dev):
    """A million of them take no longer than a few times TURNS."""
    g, reads = dev.array(np.zeros(1, np.int32)), 8 * TURNS
    kernels.get_function("much")(1, 1, (g, np.int32(reads)))


@pytest.mark.parametrize("name, line", [("19_wrong_volatile", 13), ("29_wrong_one_try", 16)])
def test_the_grader_says_that_others_come_between(name, line):
    puzzle = COURSE.load(name[:2])
    few = replace(puzzle, cases=puzzle.cases[:3], gates=())
    verdict = grade_file(few, KERNELS / f"{name}.cu", Options("cpu"))
    assert verdict.kind == "schedule" and f"data that they change in line {line} and" in verdict.lines[-1]
