"""Functions of the file are run as C does, for given numbers."""

from __future__ import annotations

import pytest

from harness.cuda.text import read
from harness.grading.slips.run_functions import result

TEXT = """constexpr int TWO = 2;
__device__ int half(int n) {{ return n / TWO; }}
__device__ bool odd(int n) {{ return n % 2; }}
__device__ int steps(int n, bool up) {{
    int found = 0;
    for (int i = 0; ; i++) {{
        if (i == 1) continue;
        if (i >= n) break;
        found += i;
    }}
    do found *= 2; while (found < 5 && found > 0);
    {{ int more = up ? 1 : -1; found -= more; }}
    return min(found, 100);
}}
__device__ int endless(int n) {{ while (true) n += 1; return n; }}
__device__ int scaled(int n) {{ float x = n; return x / 2; }}
__device__ int twice(int n) {{ if (n > 3) {{ int n = 4; }} return n; }}
__device__ int again(int n) {{ return again(n); }}
__global__ void f(float* y, int N) {{
    int less = N - 12;
    int now = N;
    now++;
    unsigned bits = N;
    float real = N;
    y[0] = {};
}}
"""


@pytest.mark.parametrize(
    ("text", "worth", "line"),
    [
        ("half(less)", -1, 2),  # towards 0
        ("less % 2", -1, 0),
        ("odd(less)", 1, 3),
        ("steps(4, true)", 9, 13),
        ("steps(4, 0) + half(N)", 15, 2),
        ("steps(0, !N)", 1, 13),
        ("max(N, 5) - -1", 10, 0),
        ("half(now)", None, 0),  # it has changed since
        ("endless(N)", None, 0),
        ("again(N)", None, 0),
        ("scaled(N)", None, 0),
        ("twice(N)", None, 0),
        ("N / (N - N)", None, 0),
        ("bits - N", None, 0),
        ("real / 2", None, 0),
        ("N * N * 100000000", None, 0),
        ("threadIdx.x + N", None, 0),
    ],
)
def test_what_is_returned(text, worth, line):
    (store,) = [
        e for e in read(TEXT.format(text)).function("f").body.all("assignment_expression") if "[" in e.code
    ]
    assert result(store.part("right"), {"N": 9}) == (None if worth is None else (worth, line))
