"""Guards that compare a place along one axis with the size of another."""

from __future__ import annotations

import pytest

from harness.course.declare import In, Int, Kernel, Launch, Out
from harness.cuda.text import read
from harness.grading.slips.guarded_axes import wrong_guards

KERNEL = Kernel(
    "f",
    (In("A", m="M", k="K"), In("B", k="K", n="N"), Out("C", m="M", n="N"), Int("M"), Int("N"), Int("K")),
    lambda d, t: Launch(1, 1),
    lambda a, d: a["A"] @ a["B"],
)
CASES = [{"M": 2, "N": 3, "K": 4}, {"M": 5, "N": 6, "K": 4}]


def told(body: str, cases=CASES) -> list[str]:
    text = (
        "__global__ void f(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        f"int i = threadIdx.y, row = blockIdx.y, col = blockIdx.x, t = 16;\n{body}\n}}\n"
    )
    return [str(slip) for slip in wrong_guards(KERNEL, read(text).function("f"), cases)]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("int k = t + i; float b = k < N && col < N ? B[k * N + col] : 0;", True),
        ("int k = t + i; if (k >= N) return;\nfloat b = B[k * N + col];", True),
        ("int k = t + i; const float* at = B + t; if (k < N) C[0] = at[k * N + col];", True),
        ("int k = t + i; float b = k < K && col < N ? B[k * N + col] : 0;", False),
        ("int k = t + i; float b = k < N && k < K ? B[k * N + col] : 0;", False),
        ("int k = t + i; float b = k < t && col < N ? B[k * N + col] : 0;", False),
        ("int k = t + i; float b = k < N ? B[(k + i) * N + col] : 0;", False),
        ("int k = t + i; float b = N > k ? A[row * K + k] : 0;", True),
        ("int k = t + i; float b = k < N ? B[k] : 0;", False),
        ("if (row < M) C[0] = A[i * M + row];", False),
        ("float b = t + i < N && col < N ? B[(t + i) * N + col] : 0;", "t + i"),
        ("float b = row < M && t + i < N ? A[row * K + t + i] : 0;", "t + i"),
        ("float b = t + i < K && col < N ? B[(t + i) * N + col] : 0;", False),
        ("float b = i + t < N ? A[row * K + i + t + 1] : 0;", False),
        ("float b = i - t < N ? A[row * K + i - t] : 0;", False),
        ("if (row < M) { const float* at = A + row; C[0] = at[i * M]; }", False),
    ],
)
def test_a_size_of_another_axis(body, wrong):
    found = told(body)
    assert bool(found) == bool(wrong)
    name = "k" if wrong is True else wrong
    assert (
        not wrong
        or f"compares {name} with N, and " in found[0]
        and found[0].endswith(", of which there are K.")
    )


def test_a_part_of_an_axis_may_be_all_that_is_needed():
    body = "int k = t + i; float b = k < N && col < N ? B[k * N + col] : 0;"
    assert not told(body, CASES[:1]) and not told(body, CASES[1:])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("for (int k = col; k < K; k += N) C[0] += B[k];", True),
        ("for (int k = col; k < K * N; k += N) C[0] += B[k];", False),
        ("for (int k = 0; k < K; k += t) C[0] += A[k];", False),
        ("for (int k = col; k < N; k += M) C[0] += B[k];", False),
    ],
)
def test_a_loop_from_row_to_row_that_ends_after_too_few(body, says):
    assert (
        told(body)
        == [
            "Line 3 compares k with K, and steps it by N, from one k of B to the next: K such steps are K * N elements."
        ]
        * says
    )


@pytest.mark.parametrize(("place", "says"), [("t", True), ("r * N + col", False)])
def test_a_condition_on_another_variable_than_the_one_in_the_index(place, says):
    """But not on one that is computed from it."""
    body = f"int r = blockIdx.y + threadIdx.y, at = {place}; if (at < M * N) C[0] = A[r * K + i];"
    assert ["whether there is such a m, r, is not asked" in slip for slip in told(body)] == [True] * says
