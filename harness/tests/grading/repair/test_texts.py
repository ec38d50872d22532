"""Edits of types, casts and loops: each needs a reason in the text."""

import pytest

from harness.grading.repair.texts import edits
from harness.tests.devices.virtual.launches import K


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("int sum = 0; sum += x[0]; x[1] = sum;", "float sum = 0; sum += x[0]; x[1] = sum;"),
        ("short i = n; x[i] = 0.0f;", "int i = n; x[i] = 0.0f;"),
        ("x[n] = (int)x[0];", "x[n] = x[0];"),
        ("for (int i = 0; i < n;) { x[i] = 0.0f; }", "for (int i = 0; i < n; i++) { x[i] = 0.0f; }"),
        ("n = int(n * (1.0f / m)) * m;", "n = (n / m) * m;"),
        ("n = (int)(n * (1.0f / m));", "n = (n / m);"),
        ("while (n < 3) x[n] = 0.0f;", "if (n < 3) x[n] = 0.0f;"),
    ],
)
def test_what_is_given_a_reason(wrong, right):
    source = f"{K}k(float* x, int n, int m) {{ {wrong} }}\n"
    assert f"{K}k(float* x, int n, int m) {{ {right} }}\n" in {e.apply(source) for e in edits(source, "k")}


def test_nothing_is_changed_without_one():
    body = "for (int i = 0; i < n; i++) x[i] = (float)i; int m = n; while (m > 0) m--;"
    assert not list(edits(f"{K}k(float* x, int n) {{ {body} }}\n", "k"))
