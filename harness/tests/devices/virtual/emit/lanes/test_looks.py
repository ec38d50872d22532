"""Full checks of lanes where some rows, side by side with others, have no lane that takes part."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices.virtual.launches import K
from tests.devices.virtual.scouting import (
    assert_lanes,
    both,
    inputs,
    lanes,  # noqa: F401  a fixture
    outputs,
)

#: rows run side by side after this, and each has numbers left where the addresses of its lanes are kept
START = """\
    __shared__ float s[48]; int x = threadIdx.x, y = threadIdx.y, i = 16 * y + x; float sum = 0;
    if (i < 48) s[i] = a[i]; __syncthreads();
    #pragma unroll 1
    for (int k = 0; k < 9; k++) sum = sum * 0.5f + a[k] * y;
    if (x < 15) junk[x == 15 ? 1 << 28 : i] = 0x7fffff00 + i;
"""
SOME = {  # what the rows but one do
    "scattered": "if (y != {row}) sum += s[x * 5 % 16 + y];",
    "scattered, of every size": "if (y != {row}) sum += ((unsigned char*)s)[x * 5 % 16 + y] + *(double*)(s + x * 10 % 32);",
    "of an array": "if (y != {row}) sum += a[x * 5 % 16 + y];",
    "outside for others": "if (y != {row}) sum += a[(y == {row} ? 1 << 28 : 0) + x * 5 % 16];",
    "one place": "if (y != {row}) sum += s[y == {row} ? 1 << 28 : y];",
    "by one thread": "sum = 0; if (y == ({row} + 1) % 4 && x == 3) s[5] = x;",
    "by one thread, in its own place": "sum = 0; if (y == ({row} + 1) % 4 && x == 3) s[y == {row} ? 1 << 28 : y] = x;",
    "scattered stores": "__syncthreads(); if (y != {row}) junk[x * 5 % 16 + 16 * y] = x;",
}


@pytest.mark.parametrize("row", [0, 3])
@pytest.mark.parametrize("what", SOME)
def test_rows_without_a_lane(what, row):
    source = K + (
        f"k(const float* a, float* out, unsigned* junk) {{ {START} {SOME[what].format(row=row)} __syncthreads();"
        " out[i] = sum + s[x]; }"
    )
    arrays = [inputs(64, readonly=False), outputs(64), outputs(64, np.uint32)]
    module, (fault, notes), _ = both(source, arrays, grid=1, block=(16, 4))
    assert module.get_function("k").info.rows == 4
    assert_lanes(module)
    assert not (fault or notes)
