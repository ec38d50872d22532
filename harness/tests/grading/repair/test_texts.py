"""Edits of types, casts and loops: each needs a reason in the text."""

import pytest

from harness.grading.repair.repair import Repair
from harness.grading.repair.texts import edits, of_shared_arrays, of_speed
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
        ("atomicAdd(&x[n], 1.0f);", "x[n] = 1.0f;"),
        ("while (n < 3) x[n] = 0.0f;", "if (n < 3) x[n] = 0.0f;"),
        ("while (m) { if (n < 3) { n++; } m--; }", "while (m) { while (n < 3) { n++; } m--; }"),
    ],
)
def test_what_is_given_a_reason(wrong, right):
    source = f"{K}k(float* x, int n, int m) {{ {wrong} }}\n"
    assert f"{K}k(float* x, int n, int m) {{ {right} }}\n" in texts_of(source)


def texts_of(source):
    return {Repair(tuple(found), 0.0, source).text for found in edits(source, "k")}


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("if (n > m); x[n] = 0.0f;", "if (n > m) x[n] = 0.0f;"),
        ("for (int i = 0; i < n; i++); { x[m] = 0.0f; }", "for (int i = 0; i < n; i++) { x[m] = 0.0f; }"),
        ("if (n = m) x[n] = 0.0f;", "if (n == m) x[n] = 0.0f;"),
        ("x[0] = (n = m) ? 1 : 0;", "x[0] = (n == m) ? 1 : 0;"),
        (
            "__half h = __float2half(x[0]); h = __hadd(h, __float2half(x[1] * x[2])); x[3] = __half2float(h);",
            "float h = x[0]; h = h + (x[1] * x[2]); x[3] = h;",
        ),
        ("half h = (half)0; h += half(x[1]); x[3] = h;", "float h = 0; h += x[1]; x[3] = h;"),
    ],
)
def test_slips(wrong, right):
    source = f"{K}k(float* x, int n, int m) {{ {wrong} }}\n"
    assert f"{K}k(float* x, int n, int m) {{ {right} }}\n" in texts_of(source)


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("int half_of(int v) { return v / 2; }", "float half_of(float v) { return v / 2; }"),
        ("int half_of(float v) { return v / 2; }", "float half_of(float v) { return v / 2; }"),
        ("float half_of(int v) { return v / 2; }", "float half_of(float v) { return v / 2; }"),
    ],
)
def test_a_function_takes_and_returns_fractions(wrong, right):
    kernel = f"{K}k(float* x, int n) {{ x[n] = half_of(x[0]); }}\n"
    assert f"__device__ {right}\n{kernel}" in texts_of(f"__device__ {wrong}\n{kernel}")


def test_nothing_is_changed_without_one():
    body = "for (int i = 0; i < n; i++) x[i] = (float)i; int m = n; while (m > 0) m--; while (n < m++);\n __syncthreads();"
    body += "if (n == m) n = m; const half* h;"
    assert not list(edits(f"{K}k(float* x, int n) {{ {body} }}\n", "k"))


@pytest.mark.parametrize(
    "wrong, right",
    [
        (
            "for (unsigned i = n; i >= 0; i--) { x[i] = 0.0f; }",
            "for (int i = n; i >= 0; i--) { x[i] = 0.0f; }",
        ),
        ("float part = n / m;", "float part = (float)(n) / m;"),
        (
            "for (int i = 0; i < n; i++) { float sum = 0.0f; sum += x[i]; x[0] = sum; }",
            "float sum = 0.0f; for (int i = 0; i < n; i++) { sum += x[i]; x[0] = sum; }",
        ),
    ],
)
def test_what_is_declared_otherwise(wrong, right):
    source = f"{K}k(float* x, int n, int m) {{ {wrong} }}\n"
    found = {" ".join(text.split()) for text in texts_of(source)}
    assert f"{K}k(float* x, int n, int m) {{ {right} }}" in found


def test_arrays_of_a_block_and_what_they_hold():
    source = f"{K}k(float* x) {{ float a[4][8 + 1]; a[0][0] = x[0]; __syncthreads(); x[0] = a[0][0]; }}\n"
    fault = {"kind": "misaligned", "array": "a"}
    found = {e.after for e in of_shared_arrays(source, "k", fault)}
    assert {"__shared__ ", "8", "8 + 4", "8 + 1][4"} <= found
    assert not list(of_shared_arrays(source.replace("float a", "__shared__ float a"), "k", {}))
    source = f"{K}k(float* x) {{ __shared__ float a[32]; a[threadIdx.x] = x[0]; __syncthreads(); }}\n"
    outside = {"kind": "out-of-bounds", "array": "a"}
    assert "1024" in {e.after for e in of_shared_arrays(source, "k", outside)}
    source = f"{K}k(float* x) {{ float a[4]; x[0] = a[0]; }}\n"
    unset = {"kind": "uninitialised-read", "array": ""}
    assert {e.apply(source) for e in of_shared_arrays(source, "k", unset)} == {
        source.replace("a[4]", "a[4] = {}")
    }


@pytest.mark.parametrize(
    ("declared", "first"),
    [
        ("float sum;", " if (threadIdx.x == 0) sum = 0; __syncthreads();"),
        ("float sum[8];", " for (int i = threadIdx.x; i < 8; i += blockDim.x) sum[i] = 0; __syncthreads();"),
    ],
)
def test_what_a_block_shares_is_set_to_0(declared, first):
    fault = {"kind": "uninitialised-read", "array": "sum"}
    source = f"{K}k(float* x) {{ __shared__ {declared} atomicAdd(&sum[0], x[0]); }}\n"
    found = {e.apply(source) for e in of_shared_arrays(source, "k", fault)}
    assert found == {source.replace(declared, declared + first)}
    assert not list(of_shared_arrays(source, "k", {"kind": "race", "array": "sum"}))
    assert not list(of_shared_arrays(source.replace("atomicAdd", "f"), "k", fault))


SLOW = """constexpr int SIDE = 8;
extern "C" __global__ void k(const float* a, float* out, int n) {
    __shared__ float tile[SIDE][SIDE];
    int x = threadIdx.x, y = threadIdx.y;
    tile[x][y] = a[y * n + x];
    __syncthreads();
    out[y * n + x] = 2.0f * tile[x][SIDE - 1 - y];
    out[y * n + x] = 2.0f * tile[x][SIDE - 1 - y];
}
"""


def test_what_may_make_a_right_kernel_faster():
    found = set()
    for some in of_speed(SLOW, "k"):
        text = SLOW
        for edit in sorted(some, key=lambda e: -e.start):
            text = edit.apply(text)
        found.add(text)
    last = "    out[y * n + x] = 2.0f * tile[x][SIDE - 1 - y];\n"
    assert SLOW.replace("[x][y]", "[y][x]").replace("[x][SIDE - 1 - y]", "[SIDE - 1 - y][x]") in found
    assert {SLOW.replace("__syncthreads();", ""), SLOW.replace("SIDE = 8", "SIDE = 16")} <= found
    assert SLOW.replace("[SIDE][SIDE]", "[SIDE][SIDE + 1]") in found
    assert SLOW.replace(last + last, last + "    \n") in found
