"""Kernels of many kinds: what they do is the same with and without a record, and the record leads to it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.devices.virtual.replay.record import Record
from backwarp.devices.virtual.replay.replay import Replay
from backwarp.errors import KernelFault
from tests import KERNELS
from tests.devices.virtual.launches import Quick
from tests.grading.test_recorded import check_loads

ROWS = 1 << 20


def ints(n: int, dtype=np.int32) -> np.ndarray:
    return np.zeros(n, dtype)


def floats(n: int, dtype=np.float32) -> np.ndarray:
    return np.arange(n, dtype=dtype)


#: (blocks, threads, arguments)
CASES = {
    "ticket": (4, 64, [ints(256)]),
    "recursion": (1, 32, [ints(32)]),
    "pointers": (1, 32, [floats(32)]),
    "structs": (1, 40, [floats(40)]),
    "spin": (1, 64, [ints(1)]),
    "last_block": (5, 32, [floats(5), floats(1), floats(160)]),
    "groups": (1, 64, [floats(64)]),
    "halves": (1, 32, [floats(32, np.float16), floats(32, np.float16)]),
    "doubles": (1, 16, [floats(16, np.float64), floats(32, np.float64)]),
    "choices": (1, 40, [ints(40)]),
    "shadows": (1, 32, [ints(32)]),
    "votes": (1, 32, [ints(32, np.uint32)]),
    "prints": (1, 32, [ints(32)]),
    "bytes": (1, 16, [ints(64, np.uint8), floats(16, np.int16)]),
    "dynamic": (1, 32, [floats(32)]),
    "mins": (2, 32, [ints(4), floats(1)]),
    "early": (1, 64, [ints(64), np.int32(50)]),
    "gridsync": (4, 32, [ints(4)]),
}


@cache
def module(rows: int):
    device = Quick("full")
    device.keep_rows = rows
    return device, device.compile((KERNELS / "recorded.cu").read_text())


def run(name: str, rows: int):
    """(what the arrays hold, the launch, its fault)"""
    device, compiled = module(rows)
    blocks, threads, given = CASES[name]
    arguments = [
        device.array(a, name=f"x{i}") if isinstance(a, np.ndarray) else a for i, a in enumerate(given)
    ]
    fault = None
    try:
        shared = 256 if name == "dynamic" else 0
        launch = compiled.get_function(name)(blocks, threads, tuple(arguments), shared_mem=shared)
    except KernelFault as error:
        launch, fault = error.launch, error
    return {a.name: a.get() for a in arguments if hasattr(a, "name")}, launch, fault


@pytest.mark.soak  # two files with cooperative groups are compiled
@pytest.mark.parametrize("name", CASES)
def test_the_record_of_a_kernel(name):
    (held, launch, fault), (plain, other, otherwise) = run(name, ROWS), run(name, 0)
    assert str(fault) == str(otherwise) and launch.stdout == other.stdout
    replay = Replay(Record(launch.record), fault)
    check_loads(replay)
    for array, values in held.items():
        assert values.tobytes() == plain[array].tobytes()
        assert replay.memory(array, len(replay.moments))[0].tobytes() == values.tobytes()
