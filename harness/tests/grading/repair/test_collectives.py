"""Edits of collectives: masks, other shuffles, conditions that keep threads away."""

import pytest

from harness.grading.repair.collectives import edits
from harness.grading.repair.repair import Repair
from harness.tests.devices.virtual.launches import K

HEAD = f"#define ALL 0xffffffffu\n{K}k(float* x, int n) {{ int t = threadIdx.x; "


def texts(body: str, kind: str) -> set[str]:
    source = f"{HEAD}{body} }}\n"
    return {Repair(found, 0.0, source).text for found in edits(source, "k", {"kind": kind})}


@pytest.mark.parametrize(
    "wrong, right",
    [
        (
            "x[0] = __shfl_sync(0xffff, x[1], 0); x[2] = __shfl_sync(0xffff, x[1], 1);",
            "x[0] = __shfl_sync(0xffffffff, x[1], 0); x[2] = __shfl_sync(0xffffffff, x[1], 1);",
        ),
        ("__syncwarp((1 << n) - 1);", "__syncwarp(0xffffffff);"),
        (
            "x[0] += __shfl_sync(ALL, x[0], 2); x[0] += __shfl_sync(ALL, x[0], 1);",
            "x[0] += __shfl_down_sync(ALL, x[0], 2); x[0] += __shfl_down_sync(ALL, x[0], 1);",
        ),
        ("if (t < n) x[0] += __shfl_down_sync(ALL, x[0], 1);", "x[0] += __shfl_down_sync(ALL, x[0], 1);"),
        (
            "if (t < n) { float v = x[t]; v = __reduce_max_sync(ALL, v); x[0] = v; }",
            "if (t < 32) { float v = t < n ? x[t] : 0; v = __reduce_max_sync(ALL, v); x[0] = v; }",
        ),
        ("if (t < n) { x[t] = 0; __syncthreads(); }", "{ x[t] = 0; __syncthreads(); }"),
    ],
)
def test_all_lanes_take_part(wrong, right):
    assert f"{HEAD}{right} }}\n" in texts(wrong, "shuffle-mask")


def test_who_leaves_too_soon_stays_and_stores_nothing():
    wrong = "if (t >= n || t == 7) return;\n x[n + t] = t; __syncthreads();\n x[t] = x[n]; t++;"
    right = "\n x[n + t] = t; __syncthreads();\n if (t < n && t != 7) x[t] = x[n]; t++;"
    assert f"{HEAD}{right} }}\n" in texts(wrong, "uninitialised-read")
    assert not texts("if (t >= n) return; x[t] = 0;", "uninitialised-read")
    assert not texts("__syncthreads(); if (t >= n) { return; } x[t] = 0;", "uninitialised-read")


def test_who_leaves_too_soon_stays_and_loads_nothing():
    wrong = (
        "__shared__ float s[9]; if (t >= n) return; for (;;) { s[0] = x[t]; __syncthreads(); x[t] += s[1]; }"
    )
    guard = "if (t < n) "
    for first in ("", guard):  # whether what is shared is loaded by all
        right = f"__shared__ float s[9];  for (;;) {{ {first}s[0] = x[t]; __syncthreads(); {guard}x[t] += s[1]; }}"
        assert f"{HEAD}{right} }}\n" in texts(wrong, "barrier-divergence")


def test_nothing_is_changed_without_a_reason():
    body = "__syncwarp(); __syncwarp(ALL); __syncwarp(-1); if (t < n) __syncwarp(~0u);"
    assert not texts(body, "race")
