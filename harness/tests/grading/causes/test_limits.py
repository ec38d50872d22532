"""The comparison that ends where the sums of a wrong kernel do."""

from __future__ import annotations

import pytest

from harness.course.declare import In, Int, Kernel, Launch, Out
from harness.grading.causes.limits import ends_there

PARAMS = (In("x", h="H", w="W"), Out("y", h="H"), Int("H"), Int("W"), Int("F"))
KERNEL = Kernel("f", PARAMS, lambda d, t: Launch(1, 1), lambda a, d: None)
SOURCE = """__global__ void f(const float* x, float* y, int H, int W, int F) {{
    int P = H - F + 1, Q = W - F + 1, h = threadIdx.y, v = threadIdx.x;
    float own = {} ? x[h * W + v] : 0;
    if (h < F) y[h] = own;
}}
"""


@pytest.mark.parametrize(
    ("test", "limits", "told"),
    [
        ("h < P", "h<=4", " Line 3 asks whether h < P, and P is 5 there."),
        (
            "h < P && v < Q",
            "h<=4 and w<=7",
            " Line 3 asks whether h < P, and P is 5 there; line 3 asks whether v < Q, and Q is 8 there.",
        ),
        ("h < P", "h<=3", ""),
        ("h < P && v < P", "h<=4", " Line 3 asks whether h < P, and P is 5 there."),
        ("v < P && v + 1 < P", "h<=4", ""),
        ("h < H", "h<=6", ""),
    ],
)
def test_the_comparison_with_that_limit(test, limits, told):
    says = f"the sums of y have only the elements of x with {limits}."
    assert ends_there(KERNEL, SOURCE.format(test), {"H": 7, "W": 10, "F": 3}, says) == told
