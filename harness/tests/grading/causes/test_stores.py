"""What is stored in an output: a comparison."""

from __future__ import annotations

import pytest

from harness.course.declare import In, Int, Kernel, Launch, Out
from harness.grading.causes.stores import stores_a_comparison


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ("g[i] * x[i] > 0.0f", "g[i] * x[i] > 0.0f"),
        ("(x[i] > 0)", "x[i] > 0"),
        ("on", "x[i] != 0"),
        ("x[i] > 0 ? g[i] : 0", ""),
        ("g[i] * (x[i] > 0)", ""),
    ],
)
def test_a_comparison_that_is_stored_is_0_or_1(stored, says):
    params = In("grad", i="n"), In("input", i="n"), Out("grad_input", i="n"), Int("n")
    kernel = Kernel("k", params, lambda d, t: Launch(1, 1), lambda a, d: a["grad"])
    text = f"__global__ void k(float* g, float* x, float* y, int n) {{ int i = threadIdx.x;\nbool on = x[i] != 0;\ny[i] = {stored}; }}"
    found = f"Line 3 stores 0 or 1 in y: whether {says} holds." if says else ""
    assert stores_a_comparison(kernel, text) == found
