"""Results that depend on the order of threads: what is a fault, what is a note, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.virtual.explain.agreement import MOVED, OTHER, ROUNDED, compared
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, device

#: statements of a kernel of float* y, const float* x
FAULTS = {
    "a_warp_sum_without_a_barrier": "__shared__ volatile float s[64]; s[t] = x[t]; s[t + 32] = 0; __syncthreads();"
    " for (int n = 16; n; n /= 2) { if (t < n) s[t] += s[t + n]; } if (t == 0) *y = s[0];",
    "two_steps": "*(volatile float*)y = *(volatile float*)y + x[t];",
    "an_atomic_look": "atomicExch(y, atomicAdd(y, 0.0f) + x[t]);",
    "bytes": "volatile unsigned char* c = (volatile unsigned char*)y; c[0] = c[0] + 1;",
    "two_flags": "if (t == 0) atomicExch(&first, 1); if (t == 1 && *(volatile int*)&first) y[0] = 1;",
}
NOTES = {
    "who_is_first": ("if (atomicCAS(&first, 0, 1) == 0) *y = t;", "decides"),
    "places": ("y[atomicAdd(&first, 1)] = x[t] + t;", "the same values are in other places"),
    "a_list": (
        "int seen, old = *(volatile int*)&first; do { seen = old; y[t] = seen; __threadfence();"
        " old = atomicCAS(&first, seen, t + 1); } while (old != seen);",
        "decides",
    ),
    "a_swap_of_no_use": ("atomicExch(y + 1, x[t] + t);", "their order decides"),
    "a_volatile_store": ("*(volatile float*)y = x[t] + t;", "their order decides"),
    "two_kinds_of_updates": (
        "if (t % 2) atomicAdd((int*)y, 3); else atomicMax((int*)y, 40);",
        "their order decides",
    ),
    "a_swap_if_nothing_is_there": ("atomicCAS((int*)y, 0, t + 1);", "their order decides"),
    "rounding": (
        "while (atomicCAS(&first, 0, 1)) {} __threadfence(); *y += 0.1f * t; __threadfence(); atomicExch(&first, 0);",
        "added in another order",
    ),
}
NOTHING = {
    "a_warp_sum": "__shared__ volatile float s[64]; s[t] = x[t]; s[t + 32] = 0; __syncthreads();"
    " for (int n = 16; n; n /= 2) { float v = s[t + n]; __syncwarp(); s[t] += v; __syncwarp(); } if (t == 0) *y = s[0];",
    "a_counter": "if (atomicAdd(&first, 1) == 31) *y = first;",
    "swaps_of_one_value": "atomicExch(y, 5.0f); atomicMax((int*)y + 1, t); atomicAdd((int*)y + 2, t);",
    "a_clock": "atomicAdd(&first, 1); if (*(volatile int*)&second == 0) y[t] = clock64() % 1000;",
    "a_flag": "if (t == 0) { *y = 1; __threadfence(); atomicExch(&first, 1); } else { while (!*(volatile int*)&first) {}"
    " __threadfence(); y[t] = *y; }",
    "a_swap": "float seen, old = *(volatile float*)y; do { seen = old; old = __int_as_float(atomicCAS((int*)y,"
    " __float_as_int(seen), __float_as_int(seen + x[t]))); } while (old != seen);",
}
BODIES = FAULTS | {name: body for name, (body, _) in NOTES.items()} | NOTHING
SOURCE = "__device__ int first, second;\n" + "".join(
    f"{K}{name}(float* y, const float* x) {{ int t = threadIdx.x;\n  {body}\n}}\n"
    for name, body in BODIES.items()
)


@pytest.fixture(scope="module")
def kernels():
    return device().compile(SOURCE)


@pytest.fixture
def dev():
    dev = device()
    yield dev
    dev.schedule, dev.several_orders, dev.agree = 0, True, True


def run(dev, kernels, name: str):
    kernels.set_constant("first", np.zeros(1, np.int32))
    y = dev.array(np.zeros(32, np.float32), name="y")
    return kernels.get_function(name)(1, 32, (y, dev.array(np.ones(32, np.float32), name="x"))), y.get()


@pytest.mark.parametrize("name", FAULTS)
def test_a_result_that_depends_on_what_a_thread_finds(kernels, dev, name):
    for dev.schedule in range(3):
        with pytest.raises(
            KernelFault, match=r"y\[0\] is .* in one order of threads and .* in another"
        ) as found:
            run(dev, kernels, name)
        assert found.value.kind == "order-dependent" and found.value.array == "y"
        assert SOURCE.splitlines()[found.value.line - 2].startswith(f"{K}{name}(")


@pytest.mark.parametrize("name", NOTES)
def test_what_may_be_meant_is_a_note(kernels, dev, name):
    for dev.schedule in range(3):
        launch, _ = run(dev, kernels, name)
        (note,) = launch.notes
        assert (
            note.kind == "order-dependent" and note.severity == "note" and NOTES[name][1] in note.explanation
        )


@pytest.mark.parametrize("name", NOTHING)
def test_results_that_agree(kernels, dev, name):
    for dev.schedule in range(3):
        assert run(dev, kernels, name)[0].notes == []


def test_only_where_it_is_asked_for(kernels, dev):
    dev.several_orders = False
    assert run(dev, kernels, "two_steps")[1][0] < 32
    dev.several_orders, dev.agree = True, False
    assert run(dev, kernels, "two_steps")[1][0] < 32


def test_the_arrays_are_those_of_the_last_order(kernels, dev):
    _, told = run(dev, kernels, "who_is_first")
    dev.agree = False
    assert (run(dev, kernels, "who_is_first")[1] == told).all()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_rounding(dtype):
    a = np.array([1, 1000, np.nan], dtype)
    assert compared(a, a * (1 + 2 * np.finfo(dtype).eps)) == ROUNDED
    assert compared(a, a + np.array([100, 0, 0], dtype)) == OTHER
    assert compared(a, a[::-1].copy()) == MOVED


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "u8", "c16"])
def test_places(dtype):
    a = np.arange(5).astype(dtype)
    assert compared(a, np.roll(a, 2)) == MOVED
    assert compared(a, a + np.array(1, dtype)) == OTHER
