"""Functions of the file that only return an expression are looked into."""

from __future__ import annotations

import pytest

from backwarp.cuda.evaluate import computed, fingerprint, products
from backwarp.cuda.text import read

TEXT = """__device__ int at(int c, int h, int w, int H, int W) {{ return (c * H + h) * W + w; }}
__device__ int twice(int n) {{ int m = 2 * n; return m; }}
__device__ int most(int a, int b) {{ return a > b ? a : b; }}
__global__ void f(float* y, int N, int M) {{
    auto up = [](int a, int b) {{ return (a + b - 1) / b; }};
    y[0] = {};
}}
"""


def value(text: str):
    (store,) = read(TEXT.format(text)).function("f").body.all("assignment_expression")
    return store.part("right")


def test_the_terms_of_what_is_returned():
    assert sorted(products(value("at(1, N, M - 1, 4, M)"))) == sorted(
        products(value("(1 * 4 + N) * M + (M - 1)"))
    )
    assert fingerprint(value("at(0, N, 0, 4, M)")) == fingerprint(value("N * M"))


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("up(N, 4)", 3),
        ("at(1, N, M, 4, M)", 33),
        ("twice(N)", None),
        ("(M - N + 1) / M", -3),
        ("(M - N + 1) % M", -1),
    ],
)
def test_the_value_of_what_is_returned(text, worth):
    assert computed(value(text), {"N": 10, "M": 2}) == (worth if text != "at(1, N, M, 4, M)" else 30)


def test_a_choice_is_no_sum():
    assert products(value("most(N, M)"), lambda e: e.code) == [(1, ("most(N, M)",))]
