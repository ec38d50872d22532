"""Code that cannot be intended: found where it is, and in no right kernel of the course and its tests."""

from __future__ import annotations

import pytest

from backwarp.cuda.text import read
from backwarp.grading.slips.statements import slips
from tests.lenet.small import ROOT

KERNEL = 'extern "C" __global__ void k(const float* a, float* c, int n, int F) {{\n{}\n}}\n'


def found(body):
    return slips(KERNEL.format(body), "k")


@pytest.mark.parametrize(
    ("body", "kind", "line"),
    [
        ("if (threadIdx.x < n);\nc[0] = 1;", "ends_at_once", 2),
        ("for (int i = 0; i < n; i++);\n{ c[0] = 1; }", "ends_at_once", 2),
        ("if (n < n) c[0] = 1;", "compares_with_itself", 2),
        (
            "float s = 0;\nfor (int i = 0; i < n; i++) { float x = a[i];\n s = x * 2; }\nc[0] = s;",
            "keeps_only_the_last",
            4,
        ),
    ],
)
def test_a_slip_is_named(body, kind, line):
    (finding,) = found(body)
    assert (finding.kind, finding.lines) == (kind, (line,))


@pytest.mark.parametrize(
    "body",
    [
        "if (n) ; else c[0] = 1;",
        "int i = 0; for (; i < n && a[i] > 0; i++);\nc[0] = i;",
        "c[0] = (n < F) == (F < 3);",
        "if (a[0] != a[0]) c[0] = 1;",
        "float s = 1;\nfor (int i = 0; i < n; i++) if (a[i] > 0) s = 2 * a[i];\nc[0] = s;",
        "float s = 0;\nfor (int i = 0; i < n; i++) { s = 0; for (int j = 0; j < F; j++) s += a[i + j]; c[i] = s; }",
        "float s = 0;\nfor (int i = 0; i < n; i++) { s = 2 * a[i]; c[i] = s; }\nc[0] = s;",
    ],
)
def test_what_may_be_meant_is_not(body):
    assert not found(body)


def test_helpers_that_the_kernel_calls_are_looked_at_and_others_not():
    helper = "__device__ float {}(float x, int n) {{ if (n < n); return x; }}\n"
    source = helper.format("used") + helper.format("spare") + KERNEL.format("c[0] = used(a[0], n);")
    assert {slip.lines for slip in slips(source, "k")} == {(1,)}


@pytest.mark.soak
def test_no_right_kernel_has_one():
    folders = (
        "solutions",
        "harness/tests/samples",
        "harness/tests/kernels",
        "harness/backwarp/devices/virtual/runtime",
    )
    files = [p for folder in folders for p in (ROOT / folder).rglob("*.cu") if p.name != "zoo.cu"]
    texts = [p.read_text(encoding="utf-8") for p in files]
    kernels = [(text, kernel.name) for text in texts for kernel in read(text).kernels]
    assert len(kernels) > 200
    assert not [slip for text, name in kernels for slip in slips(text, name)]
