"""Which of several faults of a launch is named first, and which are said to follow from it."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, device

CASES = {
    "a racing read decides who reaches a barrier": (
        """if (t == 0) n = 4;
        __syncthreads();
        while (n > 0) {
            if (t == 0) n -= 1;  // FIRST
            __syncthreads();
        }
        g[t] = n;""",
        "race n, barrier-divergence*, race n*",
    ),
    "who goes around a barrier races": (
        """s[t] = t;
        if (t < 64) __syncthreads();  // FIRST
        g[t] = s[127 - t];""",
        "barrier-divergence, race s*",
    ),
    "a racing read is an index": (
        """if (t == 0) n = 0;
        int at = n;  // FIRST
        g[1000 * at + t] = 1;""",
        "race n, out-of-bounds*",
    ),
    "what a racing atomic returns is an index": (
        """if (t == 0) n = 0;
        if (t % 2) {
            int at = atomicAdd(&n, 1);  // FIRST
            g[at] = t;
        }""",
        "race n, out-of-bounds*, race g*",
    ),
    "a stray index has nothing to do with a race": (
        """s[t] = t;
        g[t] = s[127 - t];
        if (t == 5) g[5000] = 1;  // FIRST""",
        "out-of-bounds, race s",
    ),
    "a stray index ends a thread before its barriers": (
        """s[t] = t;
        if (t == 5) g[5000] = 1;  // FIRST
        __syncwarp();
        g[t] = s[t ^ 1];
        __syncthreads();
        g[t] = s[127 - t];""",
        "out-of-bounds",
    ),
    "a stray index ends a thread that others wait for": (
        """if (t == 5) g[5000] = 1;  // FIRST
        if (t == 5) atomicExch(g, 1);
        if (t == 64) while (!atomicAdd(g, 0)) {}""",
        "out-of-bounds, timeout*",
    ),
    "a lock is released by a plain store": (
        """if (t % 32 == 0) {
            while (atomicCAS(&n, 0, 1)) {}
            __threadfence_block();
            g[0] += 1;
            __threadfence_block();
            n = 0;  // FIRST
        }""",
        "race n, race g*, race g*, race n",
    ),
    "what nobody wrote decides who reaches a barrier": (
        """if (s[t] > t) __syncthreads();  // FIRST
        g[t] = 1;""",
        "uninitialised-read s",
    ),
    "what nobody wrote is a consequence of a barrier that some go around": (
        """if (t < 64) {
            s[t] = 1;
            __syncthreads();  // FIRST
        }
        g[t] = s[t];""",
        "barrier-divergence, uninitialised-read s*",
    ),
}


def source() -> str:
    text = ""
    for i, (body, _) in enumerate(CASES.values()):
        zero = "if (t == 0) n = 0; __syncthreads();" if "atomicCAS" in body else ""
        text += f"{K}k{i}(int* g) {{ int t = threadIdx.x; __shared__ int s[128], n; {zero}\n{body}\n}}\n"
    return text


@pytest.fixture(scope="module")
def module():
    return device().compile(source())


@pytest.fixture(autouse=True)
def impatient():
    """Threads that wait for ever are given up soon."""
    before, device().time_limit = device().time_limit, 0.2
    yield
    device().time_limit, device().schedule = before, 0


def described(fault: KernelFault) -> str:
    found = (fault, *fault.more)
    return ", ".join(f"{f.kind}{f' {f.array}' * (f.kind[0] in 'ru')}{'*' * f.follows}" for f in found)


@pytest.mark.parametrize("name", CASES)
def test_causes_come_first(module, name):
    number, (_, says), dev = list(CASES).index(name), CASES[name], device()
    line = source()[: source().index("FIRST", source().index(f"k{number}("))].count("\n") + 1
    seen = set()
    for dev.schedule in range(4):
        with pytest.raises(KernelFault) as caught:
            module.get_function(f"k{number}")(1, 128, (dev.array(np.zeros(256, np.int32), name="g"),))
        seen.add(described(caught.value))
        assert line in (caught.value.line, caught.value.other and caught.value.other.line)
    assert says in seen and {one.split(", ")[0] for one in seen} == {says.split(", ")[0]}, seen


@pytest.mark.soak  # CUDA's header takes seconds to compile; the lock above is of the same kind
def test_a_barrier_in_memory_comes_before_what_it_should_order():
    source = f"""#include <cuda/barrier>
{K}k(int* g) {{
    __shared__ cuda::barrier<cuda::thread_scope_block> met;
    __shared__ int s[128];
    int t = threadIdx.x;
    if (t == 0) init(&met, blockDim.x);
    s[t] = t;
    met.wait(met.arrive());
    g[t] = s[127 - t];
}}"""
    dev = device()
    kernel = dev.compile(source).get_function("k")
    for dev.schedule in range(4):
        with pytest.raises(KernelFault) as caught:
            kernel(1, 128, (dev.array(np.zeros(128, np.int32), name="g"),))
        assert (caught.value.kind, caught.value.array) == ("race", "met")


@pytest.mark.parametrize("plain", [True, False])
def test_a_loop_that_waits_for_plain_memory(plain):
    """No other thread can be let in: a compiler may read such memory once."""
    loop = "while (g[1] == 0) {}" if plain else "int i = 0, sum = 0; while (i < 5) sum += g[i]; g[0] = sum;"
    dev = device()
    with pytest.raises(KernelFault) as caught:
        kernel = dev.compile(f"{K}k(int* g) {{ {loop} }}").get_function("k")
        kernel(1, 1, (dev.array(np.zeros(8, np.int32), name="g"),))
    assert caught.value.kind == "timeout"
    assert ("volatile, or read by an atomic" in caught.value.explanation) == plain
