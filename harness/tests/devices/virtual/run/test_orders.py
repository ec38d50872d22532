"""A launch runs in several orders: races that show only if a thread looks late, or between two steps of another."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from backwarp.devices.virtual import launch
from backwarp.devices.virtual.run import orders
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, device

#: FENCE: without it there is a race on x[0]
RACY = {
    "looks_once": (
        2,
        "if (blockIdx.x == 0) { int old = atomicAdd(&flag, 0); x[0] = 42; FENCE; atomicExch(&flag, old + 1); }"
        "else if (atomicAdd(&flag, 0)) { __threadfence(); x[1] = x[0]; }",
    ),
    "try_lock": (
        16,
        "if (atomicCAS(&flag, 0, 1) == 0) { FENCE; x[0] += 1; FENCE; atomicExch(&flag, 0); } else atomicAdd(x + 1, 1);",
    ),
    "passed_on": (
        3,
        "if (blockIdx.x == 1) { x[0] = 42; __threadfence(); *(volatile int*)&flag = 1; }"
        "else if (blockIdx.x == 2) { if (*(volatile int*)&flag) { FENCE; *(volatile int*)&second = 1; } }"
        "else if (*(volatile int*)&second) { __threadfence(); x[1] = x[0]; }",
    ),
    "there_and_back": (
        2,
        "if (blockIdx.x == 0) { x[0] = 1; __threadfence(); atomicExch(&flag, 1); int back = atomicAdd(&flag, 0); FENCE;"
        " if (back == 2) x[0] = 2; }"
        "else if (atomicAdd(&flag, 0) == 1) { __threadfence(); x[1] = x[0]; __threadfence(); atomicExch(&flag, 2); }",
    ),
    "lazily": (
        2,
        "if (!*(volatile int*)&second) { while (atomicCAS(&flag, 0, 1)) {} __threadfence();"
        " if (!*(volatile int*)&second) { x[0] = 1; __threadfence(); *(volatile int*)&second = 1; }"
        " __threadfence(); atomicExch(&flag, 0); } FENCE; atomicAdd(x + 1, x[0]);",
    ),
}
SOURCE = "__device__ int flag, second;\n" + "".join(
    f"{K}{name}{suffix}(int* x) {{ if (threadIdx.x) return; {body.replace('FENCE', fence)} }}\n"
    for name, (_, body) in RACY.items()
    for suffix, fence in (("", ""), ("_right", "__threadfence()"))
)


@pytest.fixture(scope="module")
def kernels():
    return device().compile(SOURCE)


@pytest.fixture
def dev():
    dev = device()
    dev.agree = False
    yield dev
    dev.schedule, dev.agree = 0, True


def run(dev, kernels, name: str, blocks: int) -> None:
    for variable in ("flag", "second"):
        kernels.set_constant(variable, np.zeros(1, np.int32))
    kernels.get_function(name)(blocks, 32, (dev.array(np.zeros(2, np.int32), name="x"),))


@pytest.mark.parametrize("name", RACY)
def test_a_race_shows_in_one_launch_whatever_its_seed(kernels, dev, name):
    for dev.schedule in range(8):
        with pytest.raises(KernelFault) as found:
            run(dev, kernels, name, RACY[name][0])
        assert (found.value.kind, found.value.array, found.value.index) == ("race", "x", "0")


@pytest.mark.parametrize("name", RACY)
def test_with_the_fence_there_is_none(kernels, dev, name):
    for dev.schedule in range(8):
        run(dev, kernels, f"{name}_right", RACY[name][0])


@pytest.mark.parametrize("blocks", [2, 64])
def test_a_lock_that_is_tried_once(kernels, dev, blocks):
    for dev.schedule in range(4):
        with pytest.raises(KernelFault, match="(?i)race"):
            run(dev, kernels, "try_lock", blocks)


def test_the_more_there_is_to_do_the_fewer_orders():
    counts = [
        len(list(orders.between(0, True, lambda work=work: work))) for work in (1, 9000, 20_000, 1 << 20)
    ]
    assert counts == [orders.MOST - 2, 6, 2, 0]
    assert not list(orders.between(0, False, lambda: 1))


@pytest.mark.parametrize(("threads", "count"), [(2, range(orders.MOST, orders.MOST + 1)), (128, range(2, 7))])
def test_what_is_little_to_do_in_one_order_may_be_much_in_another(dev, threads, count):
    """Of all threads that wait for a lock, one gets it."""
    kernel = dev.compile(
        f"__device__ int lock; {K}k(int* x) {{ while (atomicCAS(&lock, 0, 1)) {{}} __threadfence(); *x += 1; __threadfence();"
        " atomicExch(&lock, 0); }"
    ).get_function("k")
    x, launched = dev.array(np.zeros(1, np.int32), name="x"), launch.Execution._launch
    with mock.patch.object(launch.Execution, "_launch", autospec=True, side_effect=launched) as launches:
        kernel(8, threads, (x,))
    assert launches.call_count in count and x.get() == 8 * threads
