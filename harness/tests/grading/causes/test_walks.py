"""Pointers that go on from tile to tile along the axis that the blocks share out."""

from __future__ import annotations

import pytest

from harness.course.cuda_text import read
from harness.course.declare import In, Int, Kernel, Launch, Out
from harness.grading.causes.walks import wrong_walks

KERNEL = Kernel(
    "f",
    (In("A", m="M", k="K"), In("B", k="K", n="N"), Out("C", m="M", n="N"), Int("M"), Int("N"), Int("K")),
    lambda d, t: Launch(1, 1),
    lambda a, d: a["A"] @ a["B"],
)
CASES = [{"M": 2, "N": 3, "K": 4}, {"M": 5, "N": 6, "K": 4}]


def told(start: str, step: str) -> list[str]:
    text = (
        "constexpr int TILE = 16;\n__global__ void f(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "int tx = threadIdx.x, ty = threadIdx.y, m = blockIdx.y * TILE + ty, n = blockIdx.x * TILE + tx;\n"
        f"{start};\nfor (int t = 0; t < K; t += TILE) {{\nC[0] += p[0] + B[at];\n{step};\n}}\n}}\n"
    )
    return [slip.says for slip in wrong_walks(KERNEL, read(text).function("f"), CASES)]


ALONG_N = "Line 7 moves p on along n of B, where each block has its own places (blockIdx); the next tile lies along k, TILE * N further on."


@pytest.mark.parametrize(
    ("start", "step", "says"),
    [
        ("const float* p = B + ty * N + n", "p += TILE", [ALONG_N]),
        ("const float* p = B + ty * N + blockIdx.x * TILE + tx", "p += TILE", [ALONG_N]),
        ("int at = ty * N + n; const float* p", "at += TILE", [ALONG_N.replace("moves p", "moves at")]),
        (
            "const float* p = A + m * K + tx",
            "p += TILE * K",
            [
                "Line 7 moves p on along m of A, where each block has its own places (blockIdx); the next tile lies along k, 16 further on."
            ],
        ),
        ("const float* p = A + m * K + tx", "p += TILE", []),
        ("const float* p = B + ty * N + n", "p += TILE * N", []),
        ("const float* p = B + ty * N + n", "p += TILE * gridDim.x", []),
        ("const float* p = B + ty * N + 2 * blockIdx.x * TILE + tx", "p += TILE", []),
        ("const float* p = B + ty * N + tx", "p += TILE", []),
        ("const float* p = C + m * N + n", "p += TILE", []),
        ("int at = 0; const float* p = B", "at += TILE", []),
    ],
)
def test_the_step_from_tile_to_tile(start, step, says):
    assert told(start, step) == says
