"""Threads that leave before a library function's barrier: it does not order their last accesses."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import line_of, run

LEAVING = {
    "a barrier that counts": "if (t % 4 == 3) return; int n = __syncthreads_count(t == 0);",
    "a barrier that asks all": "if (t % 4 == 3) return; int n = __syncthreads_and(t >= 0);",
    "a barrier of cooperative groups": "if (t % 4 == 3) return; cooperative_groups::this_thread_block().sync(); int n = 1;",
}


@pytest.mark.parametrize("name", LEAVING)
def test_a_barrier_orders_nothing_that_threads_did_who_left_before_it(name):
    header = "#include <cooperative_groups.h>" * ("cooperative" in name)
    source = f"""{header}
extern "C" __global__ void k(int* x) {{
    int t = threadIdx.x;
    if (t == 31) x[0] = 1;  // FIRST
    {LEAVING[name]}
    if (t == 32) x[0] = n + 1;  // LAST
}}"""
    with pytest.raises(KernelFault) as caught:
        run(source, np.zeros(1, np.int32), block=64)
    assert caught.value.kind == "race"
    assert {caught.value.line, caught.value.other.line} == {line_of(source, "FIRST"), line_of(source, "LAST")}
