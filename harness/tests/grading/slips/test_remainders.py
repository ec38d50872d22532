"""A division of a size that leaves a remainder in all cases that go wrong, and in no other."""

from __future__ import annotations

import pytest

from harness.course.declare import In, Int, Kernel, Launch, Out
from harness.cuda.text import read
from harness.grading.slips.remainders import dropped_remainders, masks, other_sizes

KERNEL = Kernel(
    "f", (In("x", i="n"), Out("y", i="n"), Int("n")), lambda d, t: Launch(1, 1), lambda a, d: a["x"]
)
TEXT = "__global__ void f(const float* x, float* y, int size) {{\nint half = {};\ny[half] = x[half];\n}}"


@pytest.mark.parametrize(
    ("half", "failed", "says"),
    [
        ("size / 2", [5, 7], "size / 2"),
        ("size / 2", [5], ""),  # and a case with a remainder is right
        ("size / 2", [5, 7, 8], ""),
        ("size / FOUR", [5, 7], "size / FOUR"),
        ("size / 0", [5, 7], ""),
        ("(size + 1) / 2", [5, 7], ""),
        ("size / 1", [5, 7], ""),
    ],
)
def test_a_remainder_is_dropped(half, failed, says):
    own, right = (read(TEXT.format(e)).function("f") for e in (half, "size"))
    every = [{"n": n} for n in (4, 5, 7, 8)]
    dims = [{"n": n} for n in failed]
    found = [str(s) for s in dropped_remainders(KERNEL, own, right, dims, every, {"FOUR": 4})]
    assert found == [
        f"Line 2 rounds {says} down, and in every case that fails it leaves a remainder."
    ] * bool(says)


def test_what_the_solution_does_as_well():
    own = read(TEXT.format("size / 2")).function("f")
    assert not list(dropped_remainders(KERNEL, own, own, [{"n": 5}], [{"n": 4}, {"n": 5}], {}))


STRIDED = Kernel(
    "f",
    (In("x", h="H"), Out("y", p="P"), Int("H"), Int("stride")),
    lambda d, t: Launch(1, 1),
    lambda a, d: a["x"],
)


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ("(H + stride - 1) / stride + 1", "Line 2 rounds up: in a failing case n is 5, where P is 4."),
        ("(H - stride) / stride + 1", "Line 2 rounds down: "),
        ("H / stride + 1", ""),
        ("H / (stride + 1)", ""),
        ("8 / stride + 1", ""),
    ],
)
def test_a_size_that_is_rounded_otherwise(size, says):
    text = f"__global__ void f(const float* x, float* y, int H, int stride) {{\nint n = {size};\ny[n] = x[n];\n}}"
    every = [{"H": h, "stride": s, "P": h // s + 1} for h, s in ((4, 2), (6, 2), (6, 3), (7, 2), (8, 3))]
    if "- stride" in size:
        every = [{**d, "P": d["H"] // d["stride"] + (d["H"] % d["stride"] > 0)} for d in every]
    failed = [d for d in every if d["H"] % d["stride"]]
    found = [str(slip) for slip in other_sizes(STRIDED, read(text).function("f"), failed, every)]
    assert len(found) == bool(says)
    assert not says or found[0].startswith(says)


HELPER = """__device__ int along(int size, int step) {{
    int n = 1;
    while (n * step < size) n++;
    return n{};
}}
__global__ void f(const float* x, float* y, int H, int stride) {{
    int n = along(H, stride), i = threadIdx.x;
    if (i < n) y[i] = x[i {} n];
}}
"""
MAKES = "Line 7 makes n = {} in a failing case, where y has P = {}; line 4 returns it."


@pytest.mark.parametrize(
    ("more", "sign", "says"),
    [
        (" + (size == 7)", "/", [MAKES.format(5, 4)]),  # right in all cases that pass
        (" + 1", "%", [MAKES.format(3, 2)]),  # none does, and i is taken modulo it
        (" + 1", "/", []),
        ("", "%", []),
    ],
)
def test_a_size_that_a_function_returns(more, sign, says):
    own = read(HELPER.format(more, sign)).function("f")
    every = [{"H": h, "stride": s, "P": -(-h // s)} for h, s in ((4, 2), (6, 2), (9, 3), (7, 2), (8, 3))]
    failed = [d for d in every if d["H"] == 7] if "7" in more else every
    assert [str(slip) for slip in other_sizes(STRIDED, own, failed, every)] == says


@pytest.mark.parametrize(("mask", "told"), [("size - 1", True), ("size", False), ("3", False)])
def test_a_mask_for_a_size_that_is_no_power_of_two(mask, told):
    own = read(TEXT.format(f"threadIdx.x & ({mask})")).function("f")
    says = "Line 2: threadIdx.x & (size - 1) is threadIdx.x % size only if size is a power of two; in a failing case it is 6."
    assert [str(s) for s in masks(KERNEL, own, [{"n": 4}, {"n": 6}])] == [says] * told
    assert not list(masks(KERNEL, own, [{"n": 4}, {"n": 8}]))
