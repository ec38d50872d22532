"""Clusters of blocks: shared memory of one another, barriers, copies to several, and what is wrong with them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from backwarp.errors import KernelFault, LaunchError
from tests.devices.virtual.launches import device, line_of

_SOURCE = (Path(__file__).parents[2] / "kernels" / "clusters.cu").read_text()
CLUSTERS = 2


def _integers(n: int, most: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, most, n, np.int32)


def _by_neighbours(x, size):
    x = x.reshape(-1, size, 64)
    found = x * x
    found[:, 1:, 0] += x[:, :-1, -1]
    found[:, :-1, -1] += x[:, 1:, 0]
    return found.reshape(-1)


def _sent(x, size):
    got = np.roll(x.reshape(-1, size, 64), -1, 1).reshape(-1, 1, 64)
    return np.concatenate([got, 4 * got], 1).reshape(-1)


def _ring(x, size):
    sums = x.reshape(CLUSTERS, 7, 64).sum(1)
    return (sums[:, None] * np.arange(1, size + 1)[None, :, None]).reshape(-1)


#: kernel -> (threads, numbers of x for a cluster of a size, the most of one, what is expected of them), more arguments
KERNELS = {
    "sum": (64, lambda n: 64 * n, 100, lambda x, n: x.reshape(-1, 64 * n).sum(1)),
    "histogram": (
        96,
        lambda n: 96 * n,
        None,
        lambda x, n: np.array(
            [np.bincount(part, minlength=32 * n) for part in x.reshape(-1, 96 * n)]
        ).reshape(-1),
    ),
    "ring": (64, lambda n: 7 * 64, 100, _ring, np.int32(7)),
    "sent": (64, lambda n: 64 * n, 100, _sent),
    "reported": (
        64,
        lambda n: 64 * n,
        1000,
        lambda x, n: np.array([(part.max(), part.size) for part in x.reshape(-1, 64 * n)]).reshape(-1),
    ),
    "halo": (64, lambda n: 64 * n, 100, _by_neighbours),
    "handed": (
        64,
        lambda n: 64 * n,
        100,
        lambda x, n: np.concatenate([x, x.reshape(-1, 2, 64)[:, ::-1].reshape(-1)]),
    ),
    "rounds": (
        64,
        lambda n: 64 * n,
        100,
        lambda x, n: np.roll(np.roll(x.reshape(-1, n, 64), 7, 1), 32, 2).reshape(-1),
    ),
    "flags": (32, lambda n: n, 100, lambda x, n: x.reshape(-1, n).cumsum(1).reshape(-1)),
}


def _source(kernel: str, size: int, *changes: tuple[str, str]) -> str:
    """The text of one kernel, changed. Cooperative groups take a while to compile."""
    head, *rest = re.split(r"^(?=// y)", _SOURCE, flags=re.M)
    text = next(part for part in rest if f" {kernel}(" in part)
    if "cg::" not in text:
        head = re.sub(r".*cooperative_groups.*\n", "", head)
    text = f"#define CLUSTER {size}\n{head}{text}"
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


@cache
def _module(dev, source: str):
    return dev.compile(source, name="clusters.cu")


def _run(dev, source: str, name: str, size: int):
    threads, count, most, expected, *more = KERNELS[name]
    x = _integers(CLUSTERS * count(size), most or 32 * size)
    if name == "sent":
        x = x.astype(np.float32)
    wanted = expected(x, size)
    y = dev.array(np.zeros_like(wanted, x.dtype), name="y")
    kernel = _module(dev, source).get_function(name)
    kernel(CLUSTERS * size, threads, (dev.array(x, name="x"), y, *more))
    return y.get(), wanted


_OWN = "__cluster_dims__(CLUSTER)"


@pytest.mark.parametrize("checks", ["memory", "full"])
def test_a_launch_says_how_large_clusters_are(checks):
    threads, count, most, expected = KERNELS["sum"]
    for size in (2, 16):
        source = _source("sum", size, (_OWN, ""))
        x = _integers(CLUSTERS * count(size), most)
        dev, wanted = device(checks), expected(x, size)
        kernel, y = (
            _module(dev, source).get_function("sum"),
            dev.array(np.zeros_like(wanted, x.dtype), name="y"),
        )
        kernel.non_portable_cluster_size_allowed = size == 16
        kernel(CLUSTERS * size, threads, (dev.array(x, name="x"), y), cluster=size)
        assert (y.get() == wanted).all(), size


@pytest.mark.parametrize(
    "own, cluster, grid, message",
    [
        ("", (3, 1, 1), 4, "multiple of 3"),
        ("", 16, 16, "16 where the kernel sets non_portable"),
        ("", (0, 1, 1), 4, "cluster.x is 0"),
        ("", 2.5, 4, "whole numbers"),
        ("__cluster_dims__(2, 1, 1)", (4, 1, 1), 4, "no launch changes"),
        ("__cluster_dims__(2, 1, 1)", 2, 4, ""),
    ],
)
def test_clusters_that_a_launch_cannot_have(own, cluster, grid, message):
    source = f'extern "C" __global__ void {own} k(int* y) {{ y[blockIdx.x] = blockIdx.x + 1; }}'
    dev = device("memory")
    kernel, y = _module(dev, source).get_function("k"), dev.array(np.zeros(grid, np.int32))
    if not message:
        kernel(grid, 1, (y,), cluster=cluster)
        return
    with pytest.raises(LaunchError) as refused:
        kernel(grid, 1, (y,), cluster=cluster)
    assert message in str(refused.value) and not y.get().any()


@pytest.mark.parametrize("checks", ["memory", "full", "count", "none"])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_right_kernels(checks, size):
    for name in KERNELS:
        found, wanted = _run(device(checks), _source(name, size), name, size)
        assert (found == wanted).all(), name


#: kernel, what is changed, the fault, and the mark of its line
WRONG = {
    "no meeting at the end": ("sum", [("    cluster.sync();  // ended\n", "")], "ended-block", "read"),
    "no meeting before": (
        "sum",
        [("cluster.sync();  // summed", "__syncthreads();")],
        "unstarted-block",
        "read",
    ),
    "a rank too many": (
        "sum",
        [("r < cluster.num_blocks()", "r <= cluster.num_blocks()")],
        "no-rank",
        "read",
    ),
    "another element": ("sum", [("(&part, r)", "(&part + 1, r)")], "out-of-bounds", "read"),
    "not all meet": (
        "sum",
        [
            (
                "    cluster.sync();  // summed",
                "    if (threadIdx.x < 32) cluster.sync();\n    else __syncthreads();  // apart",
            )
        ],
        "barrier-divergence",
        "apart",
    ),
    "counted before cleared": (
        "histogram",
        [("meet();  // cleared", "__syncthreads();")],
        "unstarted-block",
        "counted",
    ),
    "stored before counted": (
        "histogram",
        [("meet();  // counted by all", "__syncthreads();")],
        "race",
        "stored",
    ),
    "updates of a block's scope": (
        "histogram",
        [("red.relaxed.cluster", "red.relaxed.cta")],
        "race",
        "counted",
    ),
    "plain updates": (
        "histogram",
        [
            (
                'asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;" ::',
                'asm volatile("{.reg .u32 n; ld.shared::cluster.u32 n, [%0]; add.u32 n, n, 1; st.shared::cluster.u32 [%0], n;}" ::',
            )
        ],
        "race",
        "counted",
    ),
    "mask without a block": (
        "ring",
        [("(1 << CLUSTER) - 1", "(1 << CLUSTER) - 2")],
        "stuck-at-phase",
        "awaited",
    ),
    "mask with nobody": ("ring", [("(1 << CLUSTER) - 1", "(2 << CLUSTER) - 1")], "no-rank", "copied"),
    "released to itself alone": (
        "ring",
        [("arrive_at(&empty[i], r)", "arrive_at(&empty[i], rank())"), ("r < CLUSTER; r++", "r < 1; r++")],
        "stuck-at-phase",
        "awaited",
    ),
    "filled before all have read": (
        "ring",
        [
            ("arrive_at(&empty[i], r)", "arrive_at(&empty[i], rank())"),
            ("r < CLUSTER; r++", "r < 1; r++"),
            ("CLUSTER * N)", "N)"),
        ],
        "race",
        "used",
    ),
    "ends before the last arrivals": ("ring", [("    meet();  // finished\n", "")], "ended-block", "arrived"),
    "used before all have barriers": (
        "ring",
        [("meet();  // made", "__syncthreads();")],
        "unstarted-block",
        ("copied", "arrived"),
    ),
    "sent before expected": (
        "sent",
        [("meet();  // expected", "__syncthreads();")],
        "unstarted-block",
        ("sent", "passed"),
    ),
    "not waited for": (
        "sent",
        [("    await(&bar, 0);  // received\n", "")],
        ("uninitialised-read", "race"),
        "got",
    ),
    "no fence": (
        "sent",
        [('    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n', "")],
        "unfenced",
        "passed",
    ),
    "relaxed arrival": (
        "halo",
        [("arrive();  // edges", 'asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");')],
        ("unstarted-block", "race"),
        "fetched",
    ),
    "read before the wait": (
        "halo",
        [
            ("    wait();\n    if", "    if"),
            (
                "    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;\n    arrive();\n",
                "    wait();\n    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;\n    arrive();\n",
            ),
        ],
        "unstarted-block",
        "fetched",
    ),
    "arrives twice": (
        "halo",
        [("arrive();  // edges", "arrive(); arrive();  // edges")],
        "cluster-barrier",
        None,
    ),
    "waits twice": (
        "halo",
        [("    wait();  // halo ended", "    wait();\n    wait();  // halo ended")],
        "cluster-barrier",
        None,
    ),
    "no wait at the end": ("halo", [("    wait();  // halo ended\n", "")], "ended-block", "fetched"),
    "handed before all have stored": (
        "handed",
        [("meet();  // between", "__syncthreads();")],
        "race",
        "kept",
    ),
    "one box": (
        "rounds",
        [
            ("box[i % 2][threadIdx.x], (", "box[0][threadIdx.x], ("),
            ("box[i % 2][threadIdx.x ^ 32]", "box[0][threadIdx.x ^ 32]"),
        ],
        "race",
        "taken",
    ),
    "a flag that releases nothing": (
        "flags",
        [("st.release.cluster", "st.relaxed.cluster")],
        "race",
        ("given", "handed"),
    ),
    "a flag that acquires nothing": (
        "flags",
        [("ld.acquire.cluster", "ld.relaxed.cluster")],
        "race",
        ("given", "handed"),
    ),
    "a flag for the block": (
        "flags",
        [("ld.acquire.cluster", "ld.acquire.cta")],
        "race",
        ("given", "handed", "acquired"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name):
    kernel, changes, kinds, marks = WRONG[name]
    source = _source(kernel, 4, *changes)
    for seed in (0, 1, 2):
        dev = device("full")
        dev.schedule = seed
        with pytest.raises(KernelFault) as caught:
            _run(dev, source, kernel, 4)
        fault = caught.value
        assert fault.kind in ((kinds,) if isinstance(kinds, str) else kinds), str(fault)
        wanted = (marks,) if isinstance(marks, str) else marks or ()
        assert (name, fault.kind) != (
            "not waited for",
            "race",
        ) or "until the barrier that" in fault.explanation
        lines = {line_of(source, mark) for mark in wanted}
        assert not lines or lines & {fault.line, fault.other.line if fault.other else 0}, str(fault)


def test_where_a_block_is():
    grid, dev = (4, 6, 2), device("memory")
    y = dev.array(np.zeros((48, 16), np.int32), name="y")
    _module(dev, _source("where", 1)).get_function("where")(grid, 32, (y,))
    z, by, bx = np.unravel_index(np.arange(48), grid[::-1])
    rank, n = bx % 2 + by % 2 * 2, np.ones(48, int)
    wanted = [
        rank,
        4 * n,
        bx % 2,
        by % 2,
        2 * n,
        2 * n,
        bx // 2,
        by // 2,
        z,
        2 * n,
        3 * n,
        2 * n,
        n,
        rank ^ 3,
        rank * 32 + 1,
        128 * n,
    ]
    assert (y.get() == np.stack(wanted, 1)).all()


@pytest.mark.parametrize("size, blocks, says", [(2, 3, "multiple of 2"), (16, 16, "the limit is 8")])
def test_launches_that_are_refused(size, blocks, says):
    with pytest.raises(LaunchError, match=says):
        dev = device("memory")
        x = dev.array(np.zeros(blocks * 64, np.int32))
        _module(dev, _source("sum", size)).get_function("sum")(blocks, 64, (x, x))
