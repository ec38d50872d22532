"""Edits that each need a file of their own: types, threads that leave too soon, what may make a kernel faster."""

import pytest

from backwarp.grading.repair.repair import Repair
from backwarp.grading.repair.texts import edits, of_speed
from tests.devices.virtual.launches import K

HEAD = f"{K}k(float* x, int n) {{ int t = threadIdx.x; "


def texts(body: str) -> set[str]:
    source = f"{HEAD}{body} }}\n"
    return {Repair(found, 0.0, source).text for found in edits(source, "k")}


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("int sum = 0; sum += x[0]; x[1] = sum;", "float sum = 0; sum += x[0]; x[1] = sum;"),
        ("short i = n; x[i] = 0.0f;", "int i = n; x[i] = 0.0f;"),
    ],
)
def test_a_variable_has_another_type(wrong, right):
    assert texts(wrong) == {f"{HEAD}{right} }}\n"}


def test_nothing_is_changed_without_a_reason():
    assert not texts("for (int i = 0; i < n; i++) x[i] = (float)i; unsigned m = n; __syncthreads();")


def test_who_leaves_too_soon_stays_and_stores_nothing():
    wrong = "if (t >= n || t == 7) return;\n x[n + t] = t; __syncthreads();\n x[t] = x[n]; t++;"
    right = "\n x[n + t] = t; __syncthreads();\n if (t < n && t != 7) x[t] = x[n]; t++;"
    assert f"{HEAD}{right} }}\n" in texts(wrong)
    assert not texts("if (t >= n) return; x[t] = 0;")
    assert not texts("__syncthreads(); if (t >= n) { return; } x[t] = 0;")


def test_who_leaves_too_soon_stays_and_loads_nothing():
    wrong = (
        "__shared__ float s[9]; if (t >= n) return; for (;;) { s[0] = x[t]; __syncthreads(); x[t] += s[1]; }"
    )
    guard = "if (t < n) "
    for first in ("", guard):  # whether what is shared is loaded by all
        right = f"__shared__ float s[9];  for (;;) {{ {first}s[0] = x[t]; __syncthreads(); {guard}x[t] += s[1]; }}"
        assert f"{HEAD}{right} }}\n" in texts(wrong)


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
