"""Who waits where when a block stands still at barriers in memory, and which of the waits is told of first."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.hopper.rings import INCLUDE
from tests.devices.virtual.launches import device, line_of

#: a warp fills two places by ordinary stores, and four warps read them
_RING = """#include "hopper.cuh"
extern "C" __global__ void ring(int* y, int steps) {
    __shared__ int tile[2];
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x, sum = 0;
    if (t == 0) {
        make_barrier(&full[0], 1); make_barrier(&full[1], 1);
        make_barrier(&empty[0], 128); make_barrier(&empty[1], 128);  // MADE
        show_barriers();
    }
    __syncthreads();
    if (t == 0)
        for (int n = 0; n < steps; n++) {
            wait_for_phase(&empty[n % 2], (n / 2 + 1) % 2);  // EMPTY
            tile[n % 2] = n;
            arrive(&full[n % 2]);  // FILLED
        }
    if (t < 32) return;
    for (int n = 0; n < steps; n++) {
        wait_for_phase(&full[n % 2], n / 2 % 2);  // FULL
        sum += tile[n % 2];
        arrive(&empty[n % 2]);  // RELEASED
    }
    y[t - 32] = sum;
}
"""
_FULL, _EMPTY = "n / 2 % 2);  // FULL", "(n / 2 + 1) % 2);  // EMPTY"


def _run(*changes: tuple[str, str], checks: str = "full") -> KernelFault | np.ndarray:
    """In the order of the threads: the producer fills both places before anybody reads."""
    text = _RING
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    dev = device(checks)
    before, dev.schedule = dev.schedule, 0
    y = dev.array(np.zeros(128, np.int32), "y")
    try:
        dev.compile(text, include_dirs=(INCLUDE,)).get_function("ring")(1, 160, (y, np.int32(6)))
    except KernelFault as fault:
        return fault
    finally:
        dev.schedule = before
    return y.get()


def test_a_right_ring_is_silent():
    assert (_run() == 15).all()


#: what is changed; the line of the wait that leads, and the other one; of all others, their lines and threads; figures
_WRONG = {
    "made for one of those who arrive": (
        [("&empty[0], 128", "&empty[0], 1")],
        ("EMPTY", "MADE"),
        {"FULL": "threads 32 to 159"},
        ("for 1 arrival", "128 phases", "parity 0 of empty[0]"),
    ),
    "made for more than arrive": (
        [("&empty[0], 128", "&empty[0], 130")],
        ("EMPTY", "RELEASED"),
        {"FULL": "threads 32 to 159"},
        ("2 arrivals of 130", "Thread 0 waits for parity 0 of empty[0]"),
    ),
    "one warp does not arrive": (
        [("arrive(&empty", "if (t >= 64) arrive(&empty")],
        ("EMPTY", "RELEASED"),
        {"FULL": "threads 32 to 159"},
        ("32 arrivals of 128",),
    ),
    "all wait for the next phase": (
        [(_FULL, "(n / 2 + 1) % 2);  // FULL")],
        ("FULL", "FILLED"),
        {"EMPTY": "thread 0"},
        ("Threads 32 to 159 wait for parity 1 of full[0]", "phase of parity 0 is over, and nobody"),
    ),
    "one warp waits for the next phase": (
        [(_FULL, "n == 0 && t / 32 == 2 ? 1 : " + _FULL)],
        ("FULL", "FILLED"),
        {"EMPTY": "thread 0", "FULL": "96 threads from 32 on"},
        ("Threads 64 to 95 wait for parity 1 of full[0]", "phase of parity 0 is over, and these"),
    ),
    "the first wait is for what nobody has done": (
        [(_EMPTY, "n / 2 % 2);  // EMPTY")],
        ("EMPTY", None),
        {"FULL": "threads 32 to 159"},
        ("128 arrivals", "only a wait for parity 1 passes"),
    ),
    "a barrier of the block in one role": (
        [("sum += tile[n % 2];", "if (n == 1) __syncthreads();  // SYNC\n        sum += tile[n % 2];")],
        ("EMPTY", None),
        {"SYNC": "threads 32 to 159"},
        ("128 arrivals",),
    ),
}


@pytest.mark.parametrize("name", _WRONG)
def test_the_wait_that_leads_and_all_others_are_named(name):
    changes, (line, other), others, figures = _WRONG[name]
    text = _RING
    for change in changes:
        text = text.replace(*change)
    fault = _run(*changes)
    assert isinstance(fault, KernelFault) and (fault.kind, fault.line) == (
        "stuck-at-phase",
        line_of(text, line),
    )
    assert (fault.other and fault.other.line) == (other and line_of(text, other))
    for word, threads in others.items():
        assert f"line {line_of(text, word)}, {threads}," in fault.explanation
    assert all(figure in fault.explanation for figure in figures)
    assert not fault.more


def test_without_the_other_checks_it_is_the_same():
    changes = _WRONG["made for one of those who arrive"][0]
    assert str(_run(*changes)) == str(_run(*changes, checks="memory"))


def test_who_calls_a_function_that_waits_is_named():
    own = (
        "__device__ void await(Barrier* b, unsigned parity) {\n    wait_for_phase(b, parity);  // WAITS\n}\n"
    )
    changes = [
        ('extern "C"', own + 'extern "C"'),
        ("        wait_for_phase", "        await"),
        ("&empty[0], 128", "&empty[0], 130"),
    ]
    text = _RING
    for change in changes:
        text = text.replace(*change)
    fault = _run(*changes)
    assert fault.line == line_of(text, "WAITS")
    assert all(f"called in line {line_of(text, word)}," in fault.explanation for word in ("EMPTY", "FULL"))
