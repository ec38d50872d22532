"""Floats that are kept in integers, and lanes taken for distances; and what may well be meant."""

from __future__ import annotations

import pytest

from harness.course.cuda_text import read
from harness.course.declare import In, Int, Kernel, Launch, Out
from harness.grading.causes.lane_slips import lane_for_a_distance
from harness.grading.causes.narrow_slips import (
    passed_as_an_integer,
    stored_as_an_integer,
    stores_a_comparison,
)

HELPERS = "__device__ float half(int v) { return v / 2.0f; }\n__device__ int place(int v) { return v % 7; }\n"


def found(body):
    text = f"{HELPERS}__global__ void k(const float* A, float* c, int n, int* t) {{\n{body}\n}}\n"
    own = read(text).function("k")
    detectors = stored_as_an_integer, passed_as_an_integer, lane_for_a_distance
    return [slip.says for detect in detectors for slip in detect(own)]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "__shared__ int a[9][9];\na[0][n] = n < 9 ? A[n] : 0.0f;\nc[0] += a[0][1] * A[n];",
            "Line 4 declares a as int, so that line 5 drops the fraction of what it stores there.",
        ),
        (
            "short s[4];\ns[n] = A[n];\nfloat v = fmaf(s[0], A[1], c[0]);",
            "Line 4 declares s as short, so that line 5",
        ),
        (
            "unsigned v = 0;\nfor (int i = 0; i < n; i++) { v = A[i]; c[0] += v; }",
            "Line 4 declares v as unsigned",
        ),
        (
            "float s = half(A[n]);",
            "Line 1 declares the parameter v as int, and line 4 passes the float A[n]: its",
        ),
        (
            "float v = A[n];\nfor (int m = 16; m > 0; m /= 2) v += __shfl_sync(~0u, v, m);",
            "Line 5: the third argument of __shfl_sync is the number of a lane, so every lane gets v of lane m.",
        ),
        (
            "float v = A[n];\nfor (int m = 1; m < 32; m = m * 2) v = fmaxf(v, __shfl_sync(~0u, v, m));",
            "of lane m.",
        ),
    ],
)
def test_a_slip_is_named(body, says):
    (told,) = found(body)
    assert says in told


@pytest.mark.parametrize(
    "body",
    [
        "__shared__ int bins[9];\nbins[n] = A[n];\nc[bins[0]] = 1;",
        "__shared__ int q[9];\nq[n] = (int)A[n];\nc[0] += q[1] * A[n];",
        "__shared__ int q[9];\nq[n] = 127 * A[n];\nc[0] += q[1] * A[n];",
        "__shared__ float a[9];\na[n] = A[n];\nc[0] += a[1] * A[n];",
        "t[n] = A[n];\nc[0] += t[1] * A[n];",
        "int at = place(A[n]);\nfloat s = half(n);",
        "float v = A[n];\nfor (int i = 0; i < 32; i++) v += __shfl_sync(~0u, v, i);",
        "float v = A[n];\nfor (int m = 16; m > 0; m /= 2) v += __shfl_sync(~0u, v, n ^ m) + __shfl_xor_sync(~0u, v, m);",
    ],
)
def test_what_may_be_meant_is_not(body):
    assert not found(body)


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
