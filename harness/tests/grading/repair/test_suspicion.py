"""The suspected lines: those that a verdict names, and those around them."""

from __future__ import annotations

import pytest

from backwarp.grading.repair.suspicion import (
    FEW,
    NAMED,
    alone,
    is_one_place,
    stretches,
    suspected,
    users,
)
from backwarp.grading.verdict import Verdict
from tests.devices.virtual.launches import K
from tests.grading.said import suspicion

SOURCE = f"""{K}k(const float* weights, const float* input, float* out, int n, int stride) {{
    int t = threadIdx.x;
    int row = t / n;
    int place = row * stride;
    float w = weights[place];
    float x = input[t];
    out[t] = w * x;
}}
"""


def verdict(**of) -> Verdict:
    return Verdict(puzzle="01", file="kernel.cu", device="cpu", status="failed", **of)


def test_a_line_that_is_named_and_those_that_set_or_use_what_it_has():
    found = suspected(SOURCE, verdict(findings=[suspicion("Line 5: is place the right one?", 5)]))
    assert found[5] == NAMED
    assert 0 < found[4] < NAMED and 0 < found[7] < NAMED  # place is set, and w is used there
    assert 6 not in found


def test_every_line_that_is_named_is_suspected():
    fault = {"kind": "race", "line": 9, "other": {"line": 3}, "more": [{"line": 4}, {"line": 9}]}
    found = suspected("", verdict(findings=[suspicion("", 6, 7)], fault=fault))
    assert {line for line in found if found[line] == NAMED} >= {3, 4, 6, 7}


def test_the_head_of_an_endless_loop():
    source = f"{K}k(int* x, int n) {{\n for (int i = n; i > 0; i /= 1)\n  x[0] += n;\n}}\n"
    assert suspected(source, verdict(fault={"kind": "timeout", "line": 3}))[2] == NAMED


def test_what_is_filled_by_a_call_is_used_where_it_is_read():
    source = f"{K}k(float* a) {{\n float x[2], y[2];\n load(x, a);\n y[0] = x[1];\n a[0] = y[0];\n}}\n"
    assert users(source, 3, 0.2) == {2: 0.2, 4: 0.2, 5: 0.1}


def test_a_small_kernel_is_changed_as_a_whole_and_of_a_large_one_few_lines():
    assert alone(SOURCE, "k", {5: NAMED}) == []
    long = SOURCE.replace("    out[t]", "    x += w * x + t + row + place;\n" * 30 + "    out[t]")
    lines = dict.fromkeys(range(7, 37), 0.1) | {5: NAMED}
    found = alone(long, "k", lines)
    assert found[0] == 5 and 1 < len(found) <= FEW // 6 + 1


def test_the_other_lines_are_tried_in_stretches():
    long = SOURCE.replace("    out[t]", "    x += w * x + t + row + place;\n" * 30 + "    out[t]")
    helper = "__device__ int twice(int n) {\n    return 2 * n;\n}\n"
    other = long.replace(" k(", " other(")
    source, first = helper + long + other, long.count("\n") + 3
    found = stretches(source, "k", [5, 8])
    assert sorted(line for own in found for line in own) == [
        n for n in range(1, first + 1) if n not in (5, 8)
    ]
    assert len(found) == 3 and all(own == sorted(own) for own in found)
    assert stretches("", "k", []) == []


HEAD = """
#define TWICE(x) scaled(x)
constexpr int SCALE = 2, OTHER = 3;
struct Pair { int first; };
__device__ int scaled(int v) { return SCALE * v; }
"""


@pytest.mark.parametrize(
    ("first", "second", "there_is"),
    [
        ("out[0] = 1;", "out[0] = 2;", False),
        ("out[0] = SCALE;", "out[0] = OTHER;", False),
        ("out[0] = SCALE;", "out[0] = TWICE(out[0]);", True),  # through a macro, a function
        ("out[0] = scaled(1);", "out[0] = scaled(2);", True),
        ("Pair p; p.first = out[0];", "Pair q; out[0] = q.first;", True),
        ("int SCALE = 1; out[0] = 1;", "int i = 1; out[0] = i;", False),
    ],
)
def test_one_change_reaches_two_kernels_where_they_share_something(first, second, there_is):
    source = HEAD + "".join(
        f'extern "C" __global__ void {name}(int* out) {{ {body} }}\n'
        for name, body in zip("ab", (first, second))
    )
    assert is_one_place(source, {"a", "b"}) is there_is
    assert is_one_place(source, {"a"})
