"""Which functions may suspend, whatever is asked first."""

from __future__ import annotations

from itertools import permutations

import pytest

from backwarp.devices.virtual.analyse.waits import Waits
from backwarp.devices.virtual.ptx.callgraph import CallGraph
from tests.devices.virtual.ptx_text import module

CALLS = """
.func c();
.func a();
.func b() { call a, (); ret; }
.func a() { call b, (); call c, (); ret; }
.func c() { bar.sync 0; ret; }
.func d() { ret; }
"""


@pytest.mark.parametrize("order", [*permutations("abc")])
def test_functions_that_call_each_other_wait_if_one_of_them_does(order):
    waits = Waits(CallGraph(module(CALLS)), interleaved=False, threads=True)
    assert all(waits.must_wait(name) for name in order) and not waits.must_wait("d")
