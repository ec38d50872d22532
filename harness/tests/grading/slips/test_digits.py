"""Numbers that are taken apart by sizes that do not fit together."""

from __future__ import annotations

import pytest

from harness.cuda.text import read
from harness.grading.slips.digits import mixed_digits

FIT = [
    "int taps = H * W, n = C * taps; if (i < n) { int c = i / taps, t = i % taps; }",
    "int n = C * H; if (i < n && i < W) { int c = i / H; }",
    "if (i < total) { int c = i / (H * W); }",
    "if (i < C * taps) x[i] = 0; if (i >= C * H * W) return; int c = i / (H * W);",
    "int h = i / (g.H * g.W), n = i - h * (g.H * g.W), w = n - h * g.W;",
    "int w = i % W, h = i / W % H, c = i / (W * H) % C, b = i / (W * H * C);",
    "int place = i % (H * W), plane = i / (H * W), w = i % W, h = i / W % H;",
    "int taps = H * W, c = i / taps % C, s = i % W, r = i / W % H, b = i / (C * taps);",
    "int w = i % W, plane = i / (W * H);",
    "int rest = i; int w = rest % W; rest /= W; int h = rest % H; rest /= H;",
    "int x = i % TILE, y = i / 4, z = i / W;",
    "for (int n = i; n < C; n += H) { int w = n % W, h = n / W; }",
    "int h = i / W, w = i - h * W;",
    "int c = i / (H * W), n = i - c * W * H, m = n - 2 * H;",
    "int c = i / (g.R * g.S), tap = i - c * (g.R * g.S), r = tap / g.S, s = tap - r * g.S;",
    "int h = i / g->in.W, w = i - h * g->in.W, c = i / g->HW, n = i - c * (H * W);",
]
DO_NOT = [
    (
        "int n = C * g.H * g.W, taps = H * W; if (i < n) { int c = i / taps, t = i % taps; }",
        "Line 4 has i / taps, and i runs up to n = C * g.H * g.W (line 4): H * W is not among its factors.",
    ),
    (
        "int w = i % W, h = i / H;",
        "Line 4 has i / H, and i % W: the quotient after a remainder divides by",
    ),
    ("int w = i % W, h = i / W % H, c = i / (W * H) % C, b = i / (H * W) / W;", "has i / (H * W) / W, and"),
    ("int Q = W - 1, q = i % Q, p = i / W;", "has i / W, and i % Q"),
    ("for (int n = i; n < C; n += H) { int w = n % W, h = n / H; }", "has n / H, and"),
    (
        "int h = i / W % H, c = i / W % C;",
        "has i / W % C, and i / W % H: two remainders of one number, by different sizes",
    ),
    ("int h = i / W, w = i - h * H;", "Line 4 has i - h * H, where h is i / W: the remainder is i - h * W."),
    ("int c = i / (H * W), n = i - W * c;", "the remainder is i - c * (H * W)."),
    (
        "int h = i / g.W, w = i - h * g.H;",
        "Line 4 has i - h * g.H, where h is i / g.W: the remainder is i - h * g.W.",
    ),
    ("int c = i / (g.H * g.W), n = i - g.W * g.C * c;", "the remainder is i - c * (g.H * g.W)."),
    (
        "int rest = i; int w = rest % W; rest /= W; int h = rest % H; int c = rest % C;",
        "Line 4 has rest % C, and rest % H: two remainders of one number, by different sizes: must one",
    ),
    ("int rest = i; int w = rest % W; rest /= H;", "after that remainder, what is left is rest / W."),
]


def said(body):
    text = (
        f"constexpr int TILE = 4;\n__global__ void f(float* x, int i, int C, int H, int W) {{\n\n{body}\n}}\n"
    )
    return [str(slip) for slip in mixed_digits(read(text).function("f"))]


@pytest.mark.parametrize("body", FIT)
def test_sizes_that_fit(body):
    assert said(body) == []


@pytest.mark.parametrize(("body", "says"), DO_NOT)
def test_sizes_that_do_not(body, says):
    (only,) = said(body)
    assert says in only


def test_who_passes_a_remainder_to_a_function_does_not_ask_for_it():
    passes = "if (!on(C, i / W)) return; if (!on(H, i % W)) return;"
    assert said(passes) == []
    (asks,) = said("if (i % W) return;")
    assert "nothing is computed from i / W" in asks
    assert said("if (!on(C, i / W)) return; if (i % W) return;") == []
