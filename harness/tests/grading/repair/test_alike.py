"""Accesses of a shared array that disagree are made alike."""

import pytest

from harness.grading.repair.alike import edits
from harness.grading.repair.repair import Repair
from harness.tests.devices.virtual.launches import K

HEAD = (
    f"{K}k(float* o, int W) {{ __shared__ float a[32 * 33], b[32][32]; int x = threadIdx.x, y = threadIdx.y; "
)


@pytest.mark.parametrize(
    "put, taken, put_right, taken_right",
    [
        ("a[y * (W + 1) + x]", "a[x * W + y]", "a[y * W + x]", "a[x * (W + 1) + y]"),
        ("b[y][x ^ y]", "b[x][y]", "", "b[x][y ^ x]"),
        ("b[y][x ^ (y & 7)]", "b[x + 1][y]", "", "b[x + 1][y ^ ((x + 1) & 7)]"),
        ("b[y][x]", "b[x][(x >> 2) ^ y]", "b[y][x ^ (y >> 2)]", ""),
        ("a[y * W + (x ^ y)]", "a[x * W + y]", "", "a[x * W + (y ^ x)]"),
        ("a[y * W + x]", "a[x * W + y]", "", ""),
        ("b[y][x ^ 3]", "b[x][y]", "", ""),  # depends on no row
        ("a[x]", "a[y * W + (x ^ y)]", "", ""),
    ],
)
def test_one_side_is_changed_as_the_other_is(put, taken, put_right, taken_right):
    def text(put, taken):
        return f"{HEAD}{put} = 1.0f; __syncthreads(); o[0] = {taken}; }}\n"

    source = text(put, taken)
    made = {Repair(found, 0.0, source).text for found in edits(source, "k")}
    wanted = [(put_right, taken)] * bool(put_right) + [(put, taken_right)] * bool(taken_right)
    assert made == {text(*both).replace("[y * (W) + x]", "[y * W + x]") for both in wanted}
