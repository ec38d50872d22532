"""Threads that wait for memory to change: how often each of them polls does not grow with their number."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.virtual.runtime import abi
from backwarp.errors import KernelFault

from ..launches import K, chosen, device, line_of, only

HEAD = "(int* g, int wanted) { int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;"
#: each thread takes a lock, adds one, and gives it back
LOCKS = {
    "spin": "while (atomicCAS(&lock, 0, 1) != 0) {} __threadfence(); *g += 1; __threadfence(); atomicExch(&lock, 0);",
    "ticket": "int mine = atomicAdd(&tickets, 1); while (*(volatile int*)&serving != mine) {} __threadfence(); *g += 1;"
    "__threadfence(); *(volatile int*)&serving = mine + 1;",
    "exchange": "cuda::atomic_ref<int, cuda::thread_scope_device> a(lock);"
    "while (a.exchange(1, cuda::memory_order_acquire)) {} *g += 1; a.store(0, cuda::memory_order_release);",
    "of_eight": "int* mine = &locks[i / 8]; while (atomicCAS(mine, 0, 1) != 0) {} __threadfence(); g[i / 8] += 1;"
    "__threadfence(); atomicExch(mine, 0);",
    "of_a_block": "__shared__ int own; if (t == 0) own = 0; __syncthreads(); while (atomicCAS_block(&own, 0, 1) != 0) {}"
    "__threadfence_block(); g[blockIdx.x] += 1; __threadfence_block(); atomicExch_block(&own, 0);",
}
#: what only looks like a wait for one place, or ends by itself: each thread adds one
OTHERS = {
    "gives_up": "for (int n = 0; n < 50 && *(volatile int*)&never == 0; n++) {} atomicAdd(g, 1);",
    "either_of_two": "if (i == 0) atomicExch(&lock, 1); while (!*(volatile int*)&lock && !*(volatile int*)&never) {}"
    "atomicAdd(g, 1);",
    "waits_for_one_who_gives_up": "if (i == 0) { for (int n = 0; n < 50 && *(volatile int*)&never == 0; n++) {}"
    "atomicExch(&lock, 1); } while (!*(volatile int*)&lock && !*(volatile int*)&never) {} atomicAdd(g, 1);",
    "all_have_come": "atomicAdd(&tickets, 1); while (*(volatile int*)&tickets < wanted) {} atomicAdd(g, 1);",
    "small_flags": "if (i == 0) { *(volatile char*)&small = 1; } while (!*(volatile char*)&small) {}"
    "if (i == 1) *(volatile short*)&half = 2; while (*(volatile short*)&half != 2) {}"
    "if (i == 2) *(volatile long long*)&big = 1ll << 40; while (*(volatile long long*)&big >> 40 != 1) {} atomicAdd(g, 1);",
    "goes_on_working": "while (atomicAdd(&lock, 0) == 0 && i) {} for (int n = 0; n < 40; n++) atomicMax(&tickets, n);"
    "atomicExch(&lock, 1); atomicAdd(g, 1);",
}
#: kernel -> what is wrong, and its line
FAULTS = {
    "never_given_back": ("timeout", "while (atomicCAS(&lock, 0, 1) != 0) {} // FAULT1\n *g += 1;"),
    "ticket_lost": (
        "timeout",
        "int mine = atomicAdd(&tickets, 1); if (mine == 5) return;"
        "while (*(volatile int*)&serving != mine) {} // FAULT2\n atomicExch(&serving, mine + 1);",
    ),
    "lock_without_fences": (
        "race",
        "while (atomicCAS(&lock, 0, 1) != 0) {}\n *g += 1; // FAULT3\n atomicExch(&lock, 0);",
    ),
    "released_too_early": (
        "race",
        "while (atomicCAS(&lock, 0, 1) != 0) {} __threadfence(); __threadfence();"
        "atomicExch(&lock, 0);\n *g += 1; // FAULT4",
    ),
    "one_without_lock": (
        "race",
        "if (i % 500 != 7) { while (atomicCAS(&lock, 0, 1) != 0) {}"
        "__threadfence(); *g += 1; __threadfence(); atomicExch(&lock, 0); }\n else *g += 1; // FAULT5",
    ),
}
BODIES = LOCKS | OTHERS | {name: body for name, (_, body) in FAULTS.items()}
SOURCE = (
    "#include <cuda/atomic>\n__device__ int lock, tickets, serving, never, locks[512];\n"
    "__device__ char small; __device__ short half; __device__ long long big;\n"
    + "".join(f"{K}{name}{HEAD} {body}\n}}\n" for name, body in BODIES.items())
    + f"{K}zero() {{ lock = tickets = serving = small = half = big = 0; for (int i = 0; i < 512; i++) locks[i] = 0; }}\n"
)
STEPS = 128 << 11


@pytest.fixture(scope="module")
def kernels(request):
    some = chosen(request) | {"ticket", "zero"}
    source = SOURCE if "exchange" in some else SOURCE.replace("#include <cuda/atomic>", "")  # slow to compile
    module = device().compile(only(source, some))
    module.quick = False  # it is not worth optimising
    return module


@pytest.fixture
def dev():
    dev = device()
    before = dev.schedule, dev.keep_rows, dev.time_limit, dev.step_budget
    yield dev
    dev.schedule, dev.keep_rows, dev.time_limit, dev.step_budget = before


def launch(dev, kernels, name: str, grid: int, block: int):
    """The launch of a kernel, and the sum that it has computed."""
    rows, dev.keep_rows = dev.keep_rows, 0
    kernels.get_function("zero")(1, 1, ())
    dev.keep_rows = rows
    g = dev.array(np.zeros(grid * block, np.int32))
    done = kernels.get_function(name)(grid, block, (g, np.int32(grid * block)))
    return done, int(g.get().sum())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name, grid, block, seed",
    [
        pytest.param("spin", 8, 256, 0, marks=pytest.mark.soak),  # as "exchange", with other opcodes
        ("spin", 64, 32, 2),
        ("ticket", 32, 64, 1),
        pytest.param("exchange", 8, 256, 3, marks=pytest.mark.soak),
        pytest.param("of_eight", 8, 256, 0, marks=pytest.mark.soak),
        ("of_a_block", 2, 1024, 1),
    ],
)
def test_a_lock_with_thousands_of_contenders(kernels, dev, name, grid, block, seed):
    """Each thread takes dozens of steps, not thousands, wherever it is in the queue."""
    dev.schedule, dev.keep_rows, dev.time_limit = seed, 16 * STEPS, 300
    done, total = launch(dev, kernels, name, grid, block)
    accesses = np.array([p[0] == "at" for p in done.record["points"]])[done.record["rows"]["point"]]
    assert total == grid * block and accesses.sum() < STEPS and not done.record["full"]


def test_the_looks_are_the_same_under_one_seed(kernels, dev):
    dev.schedule, dev.keep_rows = 5, STEPS
    first, again = (launch(dev, kernels, "ticket", 4, 64)[0].record["rows"] for _ in range(2))
    assert np.array_equal(first[["point", "who"]], again[["point", "who"]])


@pytest.mark.sampled
@pytest.mark.parametrize("name", OTHERS)
def test_nobody_waits_who_need_not(kernels, dev, name):
    for grid, block in ((1, 64), (3, 33)):
        for dev.schedule in (0, 3):
            assert launch(dev, kernels, name, grid, block)[1] == grid * block


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FAULTS)
def test_a_lock_that_does_not_work_is_told_with_its_line(kernels, dev, name):
    kind, _ = FAULTS[name]
    for grid, block in ((1, 96), (8, 128)):
        dev.step_budget = 1 << 16 if kind == "timeout" else abi.LATE
        dev.time_limit = 0.0 if kind == "timeout" and grid > 1 else 60
        with pytest.raises(KernelFault) as caught:
            launch(dev, kernels, name, grid, block)
        line = line_of(SOURCE, f"FAULT{1 + list(FAULTS).index(name)}")
        assert (caught.value.kind, caught.value.line) == (kind, line), caught.value
