"""Which condition keeps lanes from a collective."""

from __future__ import annotations

import pytest

from backwarp.errors import KernelFault
from backwarp.grading.slips.collectives import kept_away
from tests.grading.said import said

TEXT = """__device__ float all_sum(float v) {
    for (int m = 1; m < 32; m *= 2) v += __shfl_xor_sync(~0u, v, m);
    return v;
}
__global__ void k(const float* x, float* y, int n) {
    const int tid = threadIdx.x, warps = blockDim.x >> 5, lane = tid %% 32, warp = tid / 32;
    %s
    float t = all_sum(x[tid]);
    %s
    y[tid] = t;
}
"""


def told(first="", then="", line=2, absent=~3 & 0xFFFFFFFF):
    return said(
        kept_away(KernelFault("shuffle-mask", "", "", line=line, absent=absent), "k", TEXT % (first, then))
    )


@pytest.mark.parametrize(
    ("first", "then", "line", "says"),
    [
        (
            "",
            "if (tid < warps) t = all_sum(t);",
            2,
            "Line 9 calls all_sum only where tid < warps. Either all",
        ),
        (
            "",
            "if (n > 3 && lane == 0) t = all_sum(t);",
            2,
            "Line 9 calls all_sum only where n > 3 && lane == 0. ",
        ),
        (
            "if (lane > 7) return;",
            "",
            2,
            "Line 7 lets lanes return where lane > 7, before line 8 calls all_sum. ",
        ),
        (
            "",
            "if (tid < 9) t += __shfl_down_sync(~0u, t, 1);",
            9,
            "Line 9 makes this call only where tid < 9. ",
        ),
        (
            "",
            "if (lane < n) t += __shfl_down_sync(~0u, t, 1);",
            9,
            "makes this call only where lane < n. ",
        ),
    ],
)
def test_the_condition_is_named(first, then, line, says):
    (sentence,) = told(first, then, line)
    assert says in sentence


@pytest.mark.parametrize(
    ("first", "then", "line"),
    [
        ("", "if (warp == 0) t = all_sum(t);", 2),
        ("", "if (n > 3) t = all_sum(t);", 2),
        ("if (warp > 0) return;", "", 2),
        ("", "if (tid < 2) t = all_sum(t); else if (lane < 3) t = all_sum(2 * t);", 2),
        ("", "t += __shfl_down_sync(~0u, t, 1); if (lane == 0) y[0] = t;", 9),
    ],
)
def test_conditions_of_whole_warps_and_what_is_not_known_are_not(first, then, line):
    assert not told(first, then, line)
    assert not told("", "if (tid < warps) t = all_sum(t);", absent=0)
