"""Grids over cores: every block once, in the order of the seed; threads that wait; limits of time; Ctrl-C."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from backwarp.devices.virtual.compile.targets import target
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.devices.virtual.run import crew, workers
from backwarp.devices.virtual.run.workers import block_order, opposite_order, thread_order
from backwarp.errors import KernelFault
from tests import ROOT
from tests.devices.virtual.launches import FLAVOURS, K, device

SOURCE = f"""
__device__ unsigned tickets;
{K}coordinates(int* out, int threads) {{
  int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int* o = out + 4 * (b * threads + t);
  atomicAdd(o, 1);
  o[1] = threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z;
  o[2] = blockIdx.x + 100 * blockIdx.y + 10000 * blockIdx.z;
  o[3] = blockDim.x * blockDim.y * blockDim.z * 1000 + gridDim.x * gridDim.y * gridDim.z;
}}
{K}order_of_blocks(int* order, unsigned* ticket) {{
  if (threadIdx.x == 0) order[blockIdx.x] = atomicAdd(ticket, 1);
}}
{K}order_of_threads(int* order, unsigned* ticket) {{ order[threadIdx.x] = atomicAdd(ticket, 1); }}
{K}few(float* out, int n) {{
  long long b = blockIdx.x + (long long)gridDim.x * (blockIdx.y + (long long)gridDim.y * blockIdx.z);
  long long i = b * blockDim.x + threadIdx.x;
  if (i < n) out[i] = i;
}}
{K}nothing() {{}}
{K}endless(float* out) {{ while (out[0] < 1) out[threadIdx.x + 1] += 1; }}
{K}long_loop(float* out, int n) {{ float s = 0; for (int i = 0; i < n; i++) s += i * out[1]; out[0] = s; }}
{K}fill(int* out) {{ out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x * 1000 + threadIdx.x; }}
"""


@pytest.fixture(scope="module")
def modules():
    return {checks: device(checks).compile(SOURCE) for checks in FLAVOURS}


@pytest.fixture
def dev():
    """The device without full checks; its settings are restored afterwards."""
    dev = device("memory")
    before = dev.schedule, dev.time_limit, dev.step_budget
    yield dev
    dev.schedule, dev.time_limit, dev.step_budget = before


def zeros(dev, *shape, dtype=np.int32):
    return dev.array(np.zeros(shape, dtype))


# --- every block and thread once ---------------------------------------------------------------------


@pytest.mark.parametrize("checks", ["memory", "none"])
def test_few_blocks_are_split_between_workers_if_their_threads_cannot_tell(checks):
    shared = f"{K}through(int* out) {{ __shared__ int s[512]; s[threadIdx.x] = threadIdx.x; out[threadIdx.x] = s[threadIdx.x]; }}"
    alone = f"{K}mark(int* out) {{ out[threadIdx.x] += threadIdx.x + 1; }}"
    with VirtualGPU(checks, cores=3) as dev:
        dev.quick = False
        module = dev.compile(shared + alone)
        for name, threads, blocks, split in [
            ("mark", 512, 1, True),
            ("mark", 100, 1, True),  # and four more, one by one
            ("mark", target().lanes, 1, False),  # a single group
            ("mark", 512, 12, False),
            ("through", 512, 1, False),
        ]:
            kernel, out = module.get_function(name), zeros(dev, 512)
            plan = kernel.plan((blocks, 1, 1), (threads, 1, 1), 0)
            assert (plan.shares > blocks) == split, name
            plan.seconds = 1  # as if it were worth while
            kernel(blocks, threads, (out,))
            if blocks == 1:
                wanted = np.arange(512) + (name == "mark")
                assert (out.get() == np.where(np.arange(512) < threads, wanted, 0)).all()


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize(
    "grid, block",
    [
        (1, 1),
        (7, 33),
        ((7, 5, 3), (3, 5, 2)),
        ((1, 1, 11), (1, 7, 1)),
        ((2, 31), (64, 2)),
        ((5, 1, 2), (1, 1, 64)),
        (101, 1024),
    ],
)
def test_every_thread_of_every_block_once(modules, grid, block, checks):
    dev = device(checks)
    gx, gy, gz = (*np.atleast_1d(grid), 1, 1)[:3]
    bx, by, bz = (*np.atleast_1d(block), 1, 1)[:3]
    blocks, threads = gx * gy * gz, bx * by * bz
    for dev.schedule in (0, 1, 6):
        out = zeros(dev, blocks, threads, 4)
        modules[checks].get_function("coordinates")(grid, block, (out, np.int32(threads)))
        got = out.get()
        b, t = np.arange(blocks)[:, None], np.arange(threads)[None]
        assert (got[..., 0] == 1).all()
        np.testing.assert_array_equal(
            got[..., 1], t % bx + 100 * (t // bx % by) + 10000 * (t // bx // by) + 0 * b
        )
        np.testing.assert_array_equal(
            got[..., 2], b % gx + 100 * (b // gx % gy) + 10000 * (b // gx // gy) + 0 * t
        )
        assert (got[..., 3] == threads * 1000 + blocks).all()
    dev.schedule = 0


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_any_number_of_cores(cores):
    with VirtualGPU("memory", cores=cores) as dev:
        kernel = dev.compile(SOURCE).get_function("fill")
        for blocks in (1, cores, 997):
            out = zeros(dev, blocks, 64)
            kernel(blocks, 64, (out,))
            np.testing.assert_array_equal(out.get(), np.arange(blocks)[:, None] * 1000 + np.arange(64))


# --- the order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [1, 2, 3, 10, 97, 1000])
def test_order_of_blocks_is_a_permutation(blocks):
    for seed in range(5):
        multiplier, offset = block_order(blocks, seed)
        order = [(i * multiplier + offset) % blocks for i in range(blocks)]
        assert sorted(order) == list(range(blocks))
        multiplier, offset = opposite_order(blocks, multiplier, offset)
        assert [(i * multiplier + offset) % blocks for i in range(blocks)] == order[::-1]
    assert block_order(blocks, 0) == (1, 0)


def test_order_of_the_largest_grids():
    for blocks in (2**31 - 1, 2**31, 2**40, (2**31 - 1) * 65535 * 65535):
        multiplier, offset = block_order(blocks, 3)
        assert (blocks - 1) * multiplier + offset < 2**64
        multiplier, offset = opposite_order(blocks, multiplier, offset)
        assert (blocks - 1) * multiplier + offset < 2**64


@pytest.mark.parametrize("threads", [1, 31, 32, 33, 100, 1024])
def test_order_of_threads_is_a_permutation_that_keeps_warps_together(threads):
    assert thread_order(threads, 0).tolist() == list(range(threads))
    for seed in range(1, 6):
        order = thread_order(threads, seed)
        assert sorted(order.tolist()) == list(range(threads))
        warps = order.astype(int) // 32
        assert (np.diff(warps) != 0).sum() == -(-threads // 32) - 1
        assert (np.diff(order.astype(int))[np.diff(warps) == 0] == (-1 if seed % 2 else 1)).all()


def test_groups_of_threads_are_ordered_by_their_first():
    assert thread_order(40, 0, together=16).tolist() == [0, 16, *range(32, 40)]  # those left over one by one
    assert thread_order(64, 0, together=4, rows=2, row=8).tolist() == [0, 4, 16, 20, 32, 36, 48, 52]
    assert sorted(thread_order(64, 3, 4, 2, 8).tolist()) == [0, 4, 16, 20, 32, 36, 48, 52]


def test_seeds_change_the_order_and_repeat_it():
    with VirtualGPU("memory", cores=1) as dev:
        module = dev.compile(SOURCE)
        for name, launch in (("order_of_blocks", (97, 32)), ("order_of_threads", (1, 256))):
            seen = []
            for dev.schedule in (0, 1, 2, 3, 1):
                order = zeros(dev, 97 if name == "order_of_blocks" else 256)
                module.get_function(name)(*launch, (order, dev.array(np.zeros(1, np.uint32))))
                seen.append(order.get().tolist())
            assert seen[0] == sorted(seen[0]) and seen[1] == seen[4]
            assert len({tuple(s) for s in seen}) == 4 and all(sorted(s) == seen[0] for s in seen)


# --- threads that wait for one another ------------------------------------------------------------------

WAITING = f"""
__device__ int lock; __device__ int count; __device__ volatile int flag;
{K}reset() {{ lock = count = 0; flag = 0; }}
{K}read(int* out) {{ *out = count; }}
{K}lock_of_a_warp() {{
  for (bool done = false; !done;)
    if (atomicCAS(&lock, 0, 1) == 0) {{
      atomicAdd(&count, 1);
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }}
}}
{K}lock_without_care() {{
  while (atomicCAS(&lock, 0, 1) != 0) {{}}
  atomicAdd(&count, 1);
  __threadfence();
  atomicExch(&lock, 0);
}}
{K}flag_between_blocks() {{
  if (blockIdx.x == gridDim.x - 1) {{ __threadfence(); flag = 1; }}
  else while (flag == 0) {{}}
  atomicAdd(&count, 1);
}}
{K}flag_between_warps() {{
  if (threadIdx.x == 100) {{ atomicExch(&lock, 7); }}
  while (atomicAdd(&lock, 0) != 7) {{}}
  __syncthreads();
  atomicAdd(&count, 1);
}}
{K}chain_of_blocks() {{  // each block waits for the one before it
  if (threadIdx.x == 0) {{
    while (atomicAdd(&lock, 0) != blockIdx.x) {{}}
    atomicAdd(&count, 1);
    __threadfence();
    atomicExch(&lock, blockIdx.x + 1);
  }}
}}
"""


@pytest.fixture(scope="module")
def waiting():
    return {checks: device(checks).compile(WAITING) for checks in FLAVOURS}


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize(
    "name, grid, block, count",
    [
        ("lock_of_a_warp", 1, 32, 32),
        ("lock_of_a_warp", 6, 64, 384),
        ("lock_without_care", 1, 64, 64),
        ("flag_between_blocks", 2, 32, 64),
        ("flag_between_blocks", 8, 32, 256),
        ("flag_between_warps", 1, 128, 128),
        ("chain_of_blocks", 8, 32, 8),
    ],
)
def test_threads_that_wait_for_others_go_on(waiting, name, grid, block, count, checks):
    dev, module = device(checks), waiting[checks]
    for dev.schedule in (0, 1, 2):
        module.get_function("reset")(1, 1, ())
        module.get_function(name)(grid, block, ())
        out = zeros(dev, 1)
        module.get_function("read")(1, 1, (out,))
        assert out.get()[0] == count
    dev.schedule = 0


# --- huge grids, and limits of time ---------------------------------------------------------------------


def test_a_million_blocks_that_do_nothing(modules, dev):
    dev.time_limit = 300  # however busy the machine is
    assert modules["memory"].get_function("nothing")(1_000_000, 64, ()).notes == []
    out = zeros(dev, 10, dtype=np.float32)
    modules["memory"].get_function("few")(100_000, 64, (out, np.int32(10)))
    assert out.get().tolist() == list(range(10))


@pytest.mark.parametrize("grid", [1_000_000, 2**31 - 1, (2**31 - 1, 65535, 65535)])
@pytest.mark.parametrize("seed", [0, 3])
def test_a_grid_far_too_large_is_stopped(modules, dev, grid, seed):
    dev.schedule, dev.time_limit = seed, 0.0
    out = zeros(dev, 10, dtype=np.float32)
    with pytest.raises(KernelFault) as caught:
        modules["memory"].get_function("few")(grid, 1024, (out, np.int32(10)))
    fault = caught.value
    assert (fault.kind, fault.line) == ("timeout", 1 + SOURCE[: SOURCE.index("few(")].count("\n"))
    assert (
        fault.explanation
        == "The launch took too long: does the grid have far more threads than there is work?"
    )


@pytest.mark.parametrize("checks", FLAVOURS)
def test_the_time_limit_of_a_loop(modules, checks):
    dev = device(checks)
    before, dev.time_limit = dev.time_limit, 0.0
    try:
        with pytest.raises(KernelFault, match="when it was stopped, a thread was in this loop"):
            modules[checks].get_function("long_loop")(
                1, 1, (dev.array(np.ones(4, np.float32)), np.int32(2**31 - 1))
            )
    finally:
        dev.time_limit = before


def test_an_endless_loop_on_all_cores(modules, dev):
    dev.step_budget = 1 << 20
    with pytest.raises(KernelFault) as caught:
        modules["memory"].get_function("endless")(64, 64, (zeros(dev, 65, dtype=np.float32),))
    assert caught.value.kind == "timeout" and "more than 100 million times" in caught.value.explanation


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("copied", [0, 1], ids=["", "that reads something unset, and follows it"])
def test_what_the_others_do_without_a_thread_that_was_stopped_is_not_held_against_them(schedule, copied):
    source = f"""{K}k(float* out, int n, int copied) {{
    __shared__ float s[64], next[64];
    int t = threadIdx.x;
    if (copied) next[t] = s[t];  // harmless: it goes nowhere
    for (int i = 0; i != (t == 3 ? -1 : n); i++)
        s[t] = i;
    next[t] = t;
    if (n == 0) return;
    __syncthreads();
    out[t] = next[63 - t];
    s[63 - t] = 1;
}}"""
    with VirtualGPU("full", cores=1) as dev:
        dev.quick, dev.schedule, dev.step_budget = True, schedule, 1 << 12
        kernel = dev.compile(source).get_function("k")
        with pytest.raises(KernelFault) as caught:
            kernel(1, 64, (zeros(dev, 64, dtype=np.float32), np.int32(4), np.int32(copied)))
    assert [f.kind for f in (caught.value, *caught.value.more)] == ["timeout"]


def test_the_device_goes_on_after_a_timeout(modules, dev):
    dev.step_budget = 1 << 12
    with pytest.raises(KernelFault):
        modules["memory"].get_function("endless")(8, 512, (zeros(dev, 513, dtype=np.float32),))
    dev.step_budget = 1 << 27
    out = zeros(dev, 4, 512)
    modules["memory"].get_function("fill")(4, 512, (out,))
    assert out.get()[3, 511] == 3511


# --- where a launch runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "shared_out"), [(0, True), (1e9, False)])
def test_a_small_grid_is_shared_out_once_it_has_taken_long(monkeypatch, limit, shared_out):
    monkeypatch.setattr(workers, "INLINE_SECONDS", limit)
    with VirtualGPU("memory", cores=2) as dev:
        fill = dev.compile(SOURCE).get_function("fill")
        expected = (1000 * np.arange(3)[:, np.newaxis] + np.arange(32)).ravel()
        for calls in range(3):
            assert bool(dev.workers._crew) == (shared_out and calls > 1)
            out = zeros(dev, 96)
            fill(3, 32, (out,))
            assert np.array_equal(out.get(), expected)
        one = zeros(dev, 32)
        for _ in range(2):
            fill(1, 32, (one,))
        assert np.array_equal(one.get(), np.arange(32))


def test_a_small_grid_that_workers_share_in_little_time_stays_shared(monkeypatch):
    now = iter([0, 3, 10, 12, 20, 22, 30, 32])
    monkeypatch.setattr(workers, "INLINE_SECONDS", 2.5)
    monkeypatch.setattr(workers, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    with VirtualGPU("memory", cores=2) as dev:
        fill, out = dev.compile(SOURCE).get_function("fill"), zeros(dev, 96)
        found, crew = [], dev.workers._with_crew
        monkeypatch.setattr(dev.workers, "_with_crew", lambda code: found.append("shared") or crew(code))
        for number in range(4):
            found.append(number)
            fill(3, 32, (out,))
        assert found == [0, 1, "shared", 2, "shared", 3, "shared"]


def test_the_threads_of_a_device_end_with_it():
    def threads():
        return {t for t in threading.enumerate() if t.name.startswith("virtual-gpu-")}

    before = threads()
    with VirtualGPU("memory", cores=3) as dev:
        fill = dev.compile(SOURCE).get_function("fill")
        for _ in range(50):
            fill(65, 32, (zeros(dev, 65 * 32),))
        mine = threads() - before
        assert len(mine) == 3
    for thread in mine:
        thread.join(timeout=60)
    assert not threads() & mine


# --- Ctrl-C ------------------------------------------------------------------------------------------------

INTERRUPTED = '''
import os, signal, threading
import numpy as np
from backwarp.devices import open_device

dev = open_device("cpu", checks="memory")
dev.time_limit, dev.step_budget, dev.quick = 1e6, 1 << 62, True
module = dev.compile("""
extern "C" __global__ void endless(volatile int* out) { out[1] = 1; while (out[0] == 0) {} }
extern "C" __global__ void counts(int* out) { atomicExch(out + 1, 1); while (true) {} }
extern "C" __global__ void fine(int* out) { out[0] = 7; }
""")

for name in ("endless", "counts"):
    out = dev.array(np.zeros(2, np.int32))
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt_once_it_runs():
        while out.get()[1] == 0:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_once_it_runs).start()
    try:
        module.get_function(name)(64, 64, (out,))
    except KeyboardInterrupt:
        print("interrupted", name)
out = dev.array(np.zeros(2, np.int32))
module.get_function("fine")(64, 64, (out,))
print("then", out.get()[0])
'''


def test_ctrl_c_stops_a_launch():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.stdout == "interrupted endless\ninterrupted counts\nthen 7\n", done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.sampled(2)
@pytest.mark.parametrize("recorded", [False, True])
def test_ctrl_c_at_any_moment_however_often_stops_a_launch(monkeypatch, recorded):
    class Interrupted:
        """The library, with a Ctrl-C that is seen as sem_post returns, and another while the launch ends."""

        def __getattr__(self, name):
            def call(*arguments):
                result = getattr(library, name)(*arguments)
                if name in left and left[name]:
                    left[name] -= 1
                    raise KeyboardInterrupt
                return result

            return call

    library, left = crew._C, {"sem_post": 1, "sem_timedwait": 1}
    with VirtualGPU("memory") as dev:
        dev.time_limit, dev.step_budget = 1e6, 1 << 62
        module = dev.compile(
            f"{K}endless(volatile int* go) {{ while (*go == 0); }}\n{K}one(int* out) {{ *out = 1; }}"
        )
        out, graph = dev.array(np.zeros(1, np.int32)), dev.graph()
        with graph if recorded else contextlib.nullcontext():
            launch = partial(module.get_function("endless"), 64, 64, (out,))
            if recorded:
                launch()
        monkeypatch.setattr(crew, "_C", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            graph.launch() if recorded else launch()
        assert not left["sem_post"]
        module.get_function("one")(64, 64, (out,))
        assert out.get() == 1
