"""Code that cannot be intended: found where it is, and in no right kernel of the course and its tests."""

from __future__ import annotations

import pytest

from backwarp.cuda.text import read
from backwarp.grading.slips.statements import slips
from tests.lenet.small import ROOT

KERNEL = 'extern "C" __global__ void k(const float* a, float* c, int n, int F) {{\n{}\n}}\n'
LOOP = "float s = 0;\nfor (int r = 0; r < F; r++)\n    for (int q = 0; {}; {}) s += a[r + q];\nc[0] = s;"
BUFFER = "__shared__ float b[2][9];\n{}\nfor (int i = 0; i < n; i++) {{\n {}[i] = a[i]; {}\n}}\nc[0] = b[0][0] + b[1][0];"
SUMS = "float t = 0, p = 0;\nfor (int i = 0; i < n; i++) {{\n for (int j = 0; j < F; j++) p += a[j];\n {}\n}}\nc[0] = t + 1;"
UNBRACED = "float s = 0;\nfor (int i = 0; i < n; i++)\n    int j = 2 * i;\n{}s += a[i];\nc[0] = s;"


UNROLLED = " ".join(f"s += __shfl_down_sync(~0u, s, {o});" for o in (16, 8, 4, 2, 1))


def found(body):
    return [str(slip) for slip in slips(KERNEL.format(body), "k")]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("int i = threadIdx.x;\nif (i = n) return;", "Line 3 sets i to n with a single =; a comparison is"),
        ("if (threadIdx.x < n);\nc[0] = 1;", "Line 2 has a ; right after if (...)"),
        ("for (int i = 0; i < n; i++);\n{ c[0] = 1; }", "Line 2 has a ; right after for (...)"),
        ("int p = n; if (0 <= p < F) c[0] = 1;", "write 0 <= p && p < F."),
        ("if (n < n) c[0] = 1;", "Line 2 compares n with itself: n < n."),
        (
            "int i = threadIdx.x * 2;\nif (i + 1 >= n) return;\nc[i] = 1;\nc[i + 1] = 1;",
            "Line 3 leaves where i + 1 >= n, even if i is less than n: then nobody stores c[i].",
        ),
        (
            "float s = 0;\nfor (int i = 0; i < n; i++) {\n float s = 0; s += a[i];\n}\nc[0] = s;",
            "a second s,",
        ),
        (
            "float s = 0;\nfor (int i = 0; i < n; i++) { float x = a[i];\n s = x * 2; }\nc[0] = s;",
            "Line 4 sets s again in",
        ),
        (
            "float m = a[0];\nfor (int i = 0; i < n; i++) if (a[i] > m) m = i;\nc[0] = m;",
            "Line 3 compares a[i] with m, and then keeps i in it, not a[i].",
        ),
        ("float t[9];\nt[threadIdx.x] = 1;\n__syncthreads();\nc[0] = t[0];", "t without __shared__: every"),
        (
            "float s = 0;\nfor (int i = 0; i < n; i++) c[i] += a[i];\nc[0] = s;",
            "Line 4 stores s, which nothing has changed",
        ),
        ("c[0] = a[0] * (1 / n);", "it is 0 wherever n is greater than 1. Write 1.0f / n."),
        ("c[0] = a[0] * (1 / (n + 1));", "wherever n + 1 is greater than 1. Write 1.0f / (n + 1)."),
        (
            "float half = 1 / 2;\nc[0] = half;",
            "1 / 2 divides two integers, which drops the fraction. Write 1.0f",
        ),
        ("int s = 0;\ns += a[0] * 2;\nc[0] = s;", "Line 2 declares s as int: every fraction"),
        ("unsigned char g = a[0];\nc[0] = g;", "Line 2 keeps a[0] in g, which is declared as unsigned char"),
        ("int v = 0.5f * a[0];\nc[0] = v;", "Line 2 keeps 0.5f * a[0] in v, which is declared as int"),
        (
            "float m = a[n];\nint at = n;\nfor (int i = 0; i < F; i++) {\n int k = n + i; float x = a[k];\n"
            " if (x > m) { m = x; at = i; }\n}\nc[0] = a[at];",
            "Line 6 sets at to i, but line 5 reads a at k",
        ),
    ],
)
def test_a_slip_is_named(body, says):
    (told,) = found(body)
    assert says in told


@pytest.mark.parametrize(
    "body",
    [
        "int i; if ((i = n)) c[0] = i;",
        "if (n) ; else c[0] = 1;",
        "float m = 0;\nfor (int i = 0; i < n; i++) if (a[i] > m) m += a[i];\nc[0] = m;",
        "__shared__ int s[9]; int* p = s;\nfor (int i = 0; i < n; i++) {\n if (i < F) continue;\n *p++ = i;\n}",
        BUFFER.format("int cur = 0;", "b[cur]", "cur ^= 1;"),
        BUFFER.format("int cur = 0;", "b[cur]", "swap(cur);"),
        BUFFER.format("const int cur = 0;", "b[cur]", ""),
        SUMS.format("t += p; p = 0;"),
        SUMS.format("c[n] = p;"),
        SUMS.format("}\nfor (int i = 0; i < F; i++) { t += p;"),
        "float p = 0;\nfor (int i = 0; i < n; i++) { p += a[i]; c[i] = p; }",
        "for (int i = 0; i < n / 4; i++) c[i] = 1;",
        "const int A = 1;\nfor (int i = 1; i < A; i++) c[i] = 1;",
        "float* p = c;\nfor (int i = 0; i < 8; i++) {\n if (i + n >= F) continue;\n *p = a[i];\n p++;\n}",
        "const int A = 8;\nfor (int i = 0; i < A; i++) c[i] = 1;",
        "int i = 0; for (; i < n && a[i] > 0; i++);\nc[0] = i;",
        "c[0] = (n < F) == (F < 3);",
        "if (a[0] != a[0]) c[0] = 1;",
        "int i = n; if (i + 1 >= n) return;\nc[i] = a[i + 1] - a[i];",
        "int i = n; if (i < n) c[i] = 1;\nif (i + 1 >= n) return;\nc[i + 1] = 1;",
        LOOP.format("q < F - r", "q += r"),
        "for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += blockDim.x) c[i] = 1;",
        "float s = 0;\nfor (int i = n; i > 0; i--) s += *a++;\nc[0] = s;",
        "float s = 0;\nfor (int i = 0; i <= n; i++) s += a[i] + F;\nc[0] = s;",
        "int at = 0.5f * n;\nc[at] = a[at];",
        "float s = 1, m = a[0];\nfor (int i = 1; i < n; i++) { s = s * m + a[i]; m = a[i]; }\nc[0] = s;",
        "float s = 1;\nfor (int i = 1; i < n; i++) s += a[i] - a[0];\nc[0] = s;",
        "float s = 0;\nfor (int i = 1; i < n; i++) s += a[i];\nc[0] = s + a[0];",
        "float s = 0;\nfor (int i = 1; i < n; i++) s += a[i] - a[0];\nc[0] = 1 + s;",
        "float v;\nfor (int i = 0; i < n; i++) {\n if (i < F) v = a[i]; else v = 1;\n c[i] = v;\n}",
        "float m = a[0];\nfor (int i = 1; i < n; i++) { if (a[i] > m) m = a[i]; c[i] = m; }",
        "const float* p = a;\nfor (int i = 0; i < n; i++, p++) if (i < F) c[i] = *p;",
        "float s = 0;\nfor (int i = 1; i <= n; i++) s += a[i - 1];\nc[0] = s;",
        f"float s = a[n];\n{UNROLLED}\nif (threadIdx.x % 32 == 0) atomicAdd(&c[n], s);",
        f"float s = a[n];\n{UNROLLED}\nif (threadIdx.x % 32) return;\natomicAdd(&c[n], s);",
        f"float s = a[n];\n{UNROLLED}\ns = __shfl_sync(~0u, s, 0);\natomicAdd(&c[n], s / 32);",
        f"float s = a[n];\n{UNROLLED}\ns = __shfl_sync(~0u, s, 0);\nif (threadIdx.x < 2) c[threadIdx.x] = s;",
        "float s = a[n];\ns += __shfl_down_sync(~0u, s, 1);\natomicAdd(&c[n], s);",
        "float s = a[0];\nfor (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(~0u, s, o);\nif (threadIdx.x < 32) c[n] = s;",
        "float t[4];\nfor (int i = 0; i < n; i++) t[i % 4] = 0;\nc[0] = t[0];",
        "float t[4];\nfor (int i = 0; i < n; i++) { t[i % 4] = a[i]; c[i] = t[0] + t[1]; }",
        "float t[2][2];\nfor (int i = 0; i < 4; i++) t[i / 2][i % 2] = a[i];\nc[0] = t[0][0];",
        "float s = 0;\nfor (int i = 0; i < n; i++) { s += 1; c[i] = a[i] / s; }",
        LOOP.format("r + q < F", "q++"),
        "for (int i = threadIdx.x; i < n; i += blockDim.x) c[i] = 1;",
        "int t = threadIdx.x; for (int i = 0; i < n; i += blockDim.x) c[i + t] = 1;",
        "const float one = 1; c[0] = one; float two = 2; c[1] = two; c[2] = two * two;",
        "float s = 0; if (n) s = 1; c[0] = s;",
        "int row = n + threadIdx.x; for (int j = row; j < F; j++) c[j] = row;",
        UNBRACED.format(""),
        "float s = 0;\nif (n) {\n float s = a[0]; c[1] = s;\n}\ns = 1;\nc[0] = s;",
        "for (int i = 0; i < n; i++) { float s = F; s += a[i]; c[i] = s; }",
        "for (int i = 0; i < n; i++) { float s = F; s += a[i]; if (i == 3) c[0] = s; }",
        "for (int i = 0; i < n; i++) { float s = c[0]; s += a[i]; c[0] = s; }",
        "__shared__ float t[9];\nfor (int i = 0; i < n; i++) { float s = F; s += a[i]; t[0] = s; }\nc[0] = t[0];",
        "float s = 0;\nfor (int i = 0; i < n; i++) { if (i == F) s = 0; s += a[i]; }\nc[0] = s;",
        "float s = 0;\nfor (int i = 0; i < n; i++) { s = 0; s += a[i]; if (s > F) break; }\nc[0] = s;",
        "float s = 0;\nfor (int i = 0; i < n; i++) { s = 0; for (int j = 0; j < F; j++) s += a[i + j]; c[i] = s; }",
        "float s = 0;\nfor (int i = 0; i < n; i++) { s = 2 * a[i]; c[i] = s; }\nc[0] = s;",
        "float s = 1;\nfor (int i = 0; i < n; i++) if (a[i] > 0) s = 2 * a[i];\nc[0] = s;",
        "float t[9];\nfor (int i = 0; i < 9; i++) t[i] = a[threadIdx.x];\n__syncthreads();\nc[0] = t[n];",
        "__shared__ float t[9];\nt[threadIdx.x] = 1;\n__syncthreads();\nc[0] = t[0];",
        "float m = 0; int at = -1;\nfor (int i = 0; i < n; i++) if (at < 0 || a[i] > m) { m = a[i]; at = i; }\nc[0] = m + at;",
        "float m = 0;\nfor (int i = 0; i < n; i++) if (isnan(a[i]) || m < a[i] || i == 0) m = a[i];\nc[0] = m;",
        "c[0] = a[0] * (4 / 2) + a[n / 2] + a[1] / n; int h = 1 / n; c[1] = (float)(n / 2);",
        "int s = 0;\ns += (int)a[0];\ns += n;\nc[0] = s;",
        "for (int o = 16; o > 0; o /= 2) c[0] += __shfl_xor_sync(~0u, a[0], o);",
    ],
)
def test_what_may_be_meant_is_not(body):
    assert not found(body)


def test_helpers_that_the_kernel_calls_are_looked_at_and_others_not():
    helper = "__device__ float {}(float x, int n) {{ return x * (1 / n); }}\n"
    source = helper.format("used") + helper.format("spare") + KERNEL.format("c[0] = used(a[0], n);")
    assert [slip.lines for slip in slips(source, "k")] == [(1,)]


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
