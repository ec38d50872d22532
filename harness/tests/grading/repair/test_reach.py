"""Whether one change can reach several kernels."""

from __future__ import annotations

import pytest

from harness.grading.repair.suspicion import is_one_place

HEAD = """
#define TWICE(x) scaled(x)
constexpr int SCALE = 2, OTHER = 3;
struct Pair { int first; };
__device__ int scaled(int v) { return SCALE * v; }
"""


@pytest.mark.parametrize(
    ("first", "second", "there_is"),
    [
        ("out[0] = 1;", "out[0] = 2;", False),
        ("out[0] = SCALE;", "out[0] = OTHER;", False),
        ("out[0] = SCALE;", "out[0] = TWICE(out[0]);", True),  # through a macro, a function
        ("out[0] = scaled(1);", "out[0] = scaled(2);", True),
        ("Pair p; p.first = out[0];", "Pair q; out[0] = q.first;", True),
        ("int SCALE = 1; out[0] = 1;", "int i = 1; out[0] = i;", False),
    ],
)
def test_one_change_reaches_two_kernels_where_they_share_something(first, second, there_is):
    source = HEAD + "".join(
        f'extern "C" __global__ void {name}(int* out) {{ {body} }}\n'
        for name, body in zip("ab", (first, second))
    )
    assert is_one_place(source, {"a", "b"}) is there_is
    assert is_one_place(source, {"a"})
