"""Loops where a block has fewer threads than a tile has elements."""

import pytest

from harness.cuda.text import read
from harness.grading.repair.fills import loops_that_fill
from harness.grading.repair.repair import Repair
from harness.tests.devices.virtual.launches import K

HEAD = "constexpr int THREADS = 64;\n" + K + "k(float* x, int n) {{ __shared__ float tile[99]; {} }}\n"


def texts(body: str) -> list[str]:
    source = HEAD.format(body)
    function = read(source).function("k")
    return [Repair(found, 0.0, source).text for found in loops_that_fill(function)]


@pytest.mark.parametrize(
    "wrong, right",
    [
        (
            "int t = threadIdx.x; n++; if (t < n) { tile[t] = x[t]; }",
            "int t = threadIdx.x; n++; for (int i = t; i < n; i += {}) {{ tile[i] = x[i]; }}",
        ),
        (
            "int t = threadIdx.x; int e = t; if (e < n) tile[e] = 0;",
            "int t = threadIdx.x; for (int e = t; e < n; e += {}) tile[e] = 0;",
        ),
    ],
)
def test_a_thread_stores_several_elements(wrong, right):
    assert texts(wrong) == [HEAD.format(right.format(step)) for step in ("THREADS", "blockDim.x")]


@pytest.mark.parametrize(
    "body",
    [
        "int t = threadIdx.x; if (t < n) x[t] = 0;",  # not of the block
        "int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) tile[0] = t;",
        "int t = threadIdx.x; if (t < n) tile[t] = 0; else tile[0] = 0;",
    ],
)
def test_other_conditions_stay(body):
    assert not texts(body)
