"""Tiles whose rows and columns change places between storing and reading."""

from __future__ import annotations

import pytest

from harness.cuda.text import read
from harness.grading.slips.tile_slips import turned_tiles

TEXT = """constexpr int TILE = 16;
__global__ void f(const float* A, float* C, int M, int K) {{
    __shared__ float {};
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {{
        {};
        for (int k = 0; k < TILE; k++) sum += {};
    }}
}}
"""
OF_A = "A[row * K + k0 + x]"


@pytest.mark.parametrize(
    ("array", "store", "taken", "wrong"),
    [
        ("s[TILE][TILE]", f"s[y][x] = {OF_A}", "s[y][k]", False),
        ("s[TILE][TILE]", f"s[x][y] = {OF_A}", "s[k][y]", False),
        ("s[TILE][TILE]", f"s[x][y] = {OF_A}", "s[y][k]", True),
        ("s[TILE][TILE + 1]", "s[y][x] = A[(k0 + x) * M + y]", "s[k][x]", True),
        ("s[TILE][TILE + 1]", "s[y][x] = A[(k0 + y) * M + x]", "s[k][x]", False),
        (
            "s[2][TILE * TILE]",
            f"float v = k0 + y < K ? {OF_A} : 0; s[1][x * TILE + y] = v",
            "s[1][y * TILE + k]",
            True,
        ),
        ("s[TILE * TILE]", f"s[y * TILE + x] = k0 + y < K ? {OF_A} : 0", "s[y * TILE + k]", False),
        ("s[TILE][TILE]", "s[x][y] = A[k0]", "s[y][k]", False),
    ],
)
def test_a_tile_is_turned_between_the_two(array, store, taken, wrong):
    says = [str(slip) for slip in turned_tiles(read(TEXT.format(array, store, taken)).function("f"))]
    assert bool(says) == wrong
    assert (
        not wrong
        or says[0].startswith("In line 7, the ")
        and "is the place along k0 (threadIdx.x is" in says[0]
    )


def test_the_row_and_the_column_are_named():
    (slip,) = turned_tiles(read(TEXT.format("s[TILE][TILE]", f"s[x][y] = {OF_A}", "s[y][k]")).function("f"))
    assert str(slip) == (
        "In line 7, the row of s[x][y] is the place along k0 (threadIdx.x is added to it), and in line 8, the column of s[y][k] "
        "is: rows and columns of s change places between the two."
    )


def test_a_tile_may_be_turned_on_purpose():
    """A matrix is transposed through its tile, as the solution of that task does."""
    way = """__global__ void f(const float* A, float* C, int M, int K) {
    __shared__ float s[32 * 33];
    int x = threadIdx.x, y = threadIdx.y;
    OUTER
    for (int k = 0; k < 32; k += 8) s[(y + k) * 33 + x] = A[(y + k + STEP) * K + x];
    __syncthreads();
    for (int k = 0; k < 32; k += 8) C[(y + k) * M + x] = s[x * 33 + y + k];
    CLOSE
}
"""
    plain = way.replace("OUTER", "").replace("CLOSE", "").replace("STEP", "0")
    many = (
        way.replace("OUTER", "for (int i = 0; i < K; i += 32) {").replace("CLOSE", "}").replace("STEP", "i")
    )
    solution = read(plain.replace("k = 0", "k = y").replace("y + k", "k").replace("33", "32")).function("f")
    assert not list(turned_tiles(read(plain).function("f")))
    assert list(turned_tiles(read(many.replace("y + k + i", "y + i")).function("f")))
    assert not list(turned_tiles(read(many.replace("y + k + i", "y + i")).function("f"), solution))
    other = TEXT.format("s[TILE][TILE]", f"s[y][x] = {OF_A}", "s[y][k]")
    turned = read(other.replace("s[y][x]", "s[x][y]")).function("f")
    assert list(turned_tiles(turned, read(other).function("f")))
