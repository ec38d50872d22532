"""A value computed differently than in the solution is pointed out, however it is written or named."""

from __future__ import annotations

import pytest

from harness.cuda.text import read
from harness.grading.causes.near_solution import differences


@pytest.mark.parametrize(
    ("own", "says"),
    [("row * n", True), ("n", True), ("min(n, row * n)", False), ("row", False)],
)
def test_a_limit_that_is_lost(own, says):
    texts = [
        f"__global__ void k(float* y, int n) {{\nint row = blockIdx.x;\nint end = {e}; y[end] = 1; }}"
        for e in (own, "min(row * n, n)")
    ]
    found = [slip.says for slip in differences(*map(read, texts), "k", {"n"})]
    said = f"Line 3 sets end to {own} alone: must it not be kept at or below something else as well?"
    assert found == [said] * says


def test_a_limit_that_is_lost_under_another_name():
    """What is computed is compared, not how it is written; a kernel that needs no limit has none to lose."""
    text = "__global__ void k(float* y, int n, int m) {{\nint row = blockIdx.x, all = n * m;\n{} }}"
    right = "int count = row + m, end = min(row * n + count, all); for (int i = row; i < end; i++) y[i] = 1;"
    for own, wrong in (
        ("int stop = m + row * n + row; for (int i = row; i < stop; i++) y[i] = 1;", True),
        ("int stop = m + row * n + row; for (int i = row; i < stop && i < all; i++) y[i] = 1;", False),
        ("int most = m * n; for (int i = row; i < most; i++) y[i] = 1;", False),
    ):
        found = [slip.says for slip in differences(*(read(text.format(e)) for e in (own, right)), "k", {"n"})]
        assert any(says.startswith("Line 3 sets stop to") for says in found) == wrong
        assert wrong or not any(" sets " in says for says in found)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ("int each = n / parts, other = (m + parts - 1) / parts;", ["n / parts"]),
        ("int each = (n - 1 + parts) / parts, other = (parts + m - 1) / parts;", []),
        ("int each = n / parts, other = m / parts;", []),
        ("int each = (n - 1) / parts + 1, other = (m - 1) / parts + 1;", []),
        ("int each = n / parts % m, other = m;", []),
        ("int each = (n / parts) % m, other = m;", []),
        ("int each = n / parts, other = n % parts;", []),
        ("int each = n / parts, other = n - each * parts;", []),
        ("int each = n / parts, other = each % m;", []),
        ("int each = n / parts, other = n - m;", ["n / parts"]),
    ],
)
def test_a_division_that_is_rounded_down(own, says):
    text = "__global__ void k(float* y, int n, int m, int parts) {{\n{} y[each] = other; }}"
    right = "int each = (n + parts - 1) / parts, other = (m + parts - 1) / parts;"
    found = [s.says for s in differences(*(read(text.format(e)) for e in (own, right)), "k", {"n"})]
    assert found == [
        f"Line 2: {e} is rounded down, so what is left over belongs to nobody: must it not be rounded up?"
        for e in says
    ]


@pytest.mark.parametrize(("quotient", "asked"), [("(i + n) / d", False), ("n / d", True)])
def test_a_quotient_of_what_a_function_is_given_may_be_one_that_the_solution_rounds_down(quotient, asked):
    text = "__global__ void k(float* y, int n, int d) {{ int i = blockIdx.x; y[{}] = (n + d - 1) / d + {}; }}"
    helper = f"__device__ int up(int n, int d) {{ return (n + d - 1) / d; }}\n__device__ int first(int i, int n, int d) {{ return {quotient}; }}\n"
    right = text.format("(i + n) / d", "(n + d) / d + (i + d - 1) / d")
    mine = helper + text.format("first(i, n, d)", "up(n, d)").replace("(n + d - 1) / d", "up(n, d)")
    found = [s.says for s in differences(read(mine), read(right), "k", {"n"})]
    assert any("is rounded down" in says for says in found) == asked


@pytest.mark.parametrize(
    ("own", "wrong"),
    [("a * n + b", True), ("b * n + a", False), ("a + n * b", False), ("a * n + n", False), ("a * b", False)],
)
def test_parts_that_are_multiplied_by_something_else(own, wrong):
    text = "__global__ void k(float* y, int n, int m) {{ int a = threadIdx.x, b = blockIdx.x;\nint w = {}; y[w] = 1; }}"
    found = [s.says for s in differences(*(read(text.format(e)) for e in (own, "a + b * n")), "k", {"n"})]
    assert found == [f"Line 2: is each part multiplied by what it should be in w = {own}?"] * wrong


def test_what_the_parts_are_is_another_question():
    """The same sum, in other words, of a part that is wrong itself."""
    text = (
        "__global__ void k(float* y, int n, int m) {{ int a = {}, b = blockIdx.x;\nint w = {}; y[w] = 1; }}"
    )
    own, right = text.format("threadIdx.x + m", "n * b + a"), text.format("threadIdx.x", "a + b * n")
    assert not [s.says for s in differences(read(own), read(right), "k", {"n"}) if "each part" in s.says]


@pytest.mark.parametrize(
    ("own", "says"),
    [("exp2f(x[0])", True), ("__expf(x[0])", False), ("exp(x[0])", False), ("exp2f(expf(x[0]))", False)],
)
def test_another_function_of_the_family(own, says):
    text = "__global__ void k(float* y, const float* x) {{ y[0] = {}; }}"
    found = [s.says for s in differences(*(read(text.format(e)) for e in (own, "expf(x[0])")), "k", ())]
    assert found == ["Line 1: is exp2f the right function in exp2f(x[0])?"] * says


@pytest.mark.parametrize(("own", "says"), [("max(n, 8)", True), ("max(n - 1, 0)", False)])
def test_the_smaller_of_other_numbers_is_not_missed(own, says):
    text = "__global__ void k(float* y, int n) {{ y[0] = {}; }}"
    found = [s.says for s in differences(*(read(text.format(e)) for e in (own, "min(n, 8)")), "k", ())]
    assert any("right function" in text for text in found) == says


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ("t[n]", True),
        ("t[n][j]", True),
        ("t[n + i]", False),
        ("t[n] * i", False),
        ("y[i - 1]", False),
        ("0", False),
    ],
)
def test_a_store_of_the_same_in_every_turn(own, says):
    text = "__global__ void k(float* y, float* t, int n, int j) {{ for (int i = 1; i < n; i++)\ny[i] = {}; }}"
    found = [s.says for s in differences(*(read(text.format(e)) for e in (own, "t[n + i]")), "k", ())]
    assert (
        found
        == [
            f"Line 2 stores {own} in every iteration of the loop of line 1, and nothing in it changes from one iteration to the next: all iterations "
            "store the same element."
        ]
        * says
    )
    assert not differences(*(read(text.format("t[n]")),) * 2, "k", ())
