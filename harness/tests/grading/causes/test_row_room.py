"""Shared arrays whose rows are longer than there is room for."""

from __future__ import annotations

import pytest

from harness.course.declare import In, Kernel, Launch, Out
from harness.errors import KernelFault
from harness.grading.causes.row_room import rows_too_long

KERNEL = Kernel("f", (In("x", m="M"), Out("y", m="M")), lambda d, t: Launch(1, 32), lambda a, d: a["x"])
TEXT = """constexpr int N = 32, W = 16, PITCH = N + 1;
__global__ void f(const float* x, float* y) {{
    __shared__ float s[{}];
    int a = threadIdx.x, b = threadIdx.y;
    s[{}] = x[a];
    y[a] = s[{}];
}}
"""


@pytest.mark.parametrize(
    ("room", "put", "taken", "at", "says"),
    [
        ("N * N", "a * PITCH + b", "b * PITCH + a + 8", "1031", "N of them need N * PITCH = 1056"),
        ("N * N", "a * (N + 1) + b", "b * PITCH + a", "1031", "N of them need N * (N + 1) = 1056"),
        ("N * N", "a * PITCH + b", "b * PITCH + a", "1056", ""),
        ("N * PITCH", "a * PITCH + b", "b * PITCH + a", "1056", ""),
        ("N * N", "a * PITCH + b", "b * N + a", "1031", ""),
        ("N * W", "a * PITCH + b", "b * PITCH + a", "520", ""),
        ("1024", "a * PITCH + b", "b * PITCH + a", "1031", ""),
    ],
)
def test_rows_need_more_room(room, put, taken, at, says):
    fault = KernelFault("out-of-bounds", "", "", line=6, array="s", index=at)
    told = rows_too_long(fault, KERNEL, TEXT.format(room, put, taken))
    assert bool(told) == bool(says)
    if told:
        assert (
            told[0].startswith("s (line 3) has N * N = 1024 elements, and its rows are ") and says in told[0]
        )
        assert " = 33 long: " in told[0]
