"""Which access a fault is about, in files with names of their own: told from the text."""

from __future__ import annotations

import pytest

from backwarp.course.array_names import name_in_file
from backwarp.course.declare import In, Int, Kernel, Launch, Out
from backwarp.cuda.accesses import access_at
from backwarp.cuda.follow import names_in
from backwarp.cuda.text import read
from backwarp.errors import KernelFault
from backwarp.grading.probes.outside_axis import varies
from backwarp.grading.sentences import fault

TEXT = """struct Size { int rows, cols; };
__device__ float dot(const float* u, const float* v, const Size& size, int i) {
    return u[i * size.cols] * v[i];
}
__global__ void f(const float* in, const float* wt, float* res, int n) {
    const Size size = {n, n};
    const float* row = in + threadIdx.x * n;
    res[threadIdx.x] = dot(row, wt + 3, size, threadIdx.x);
    float own[2];
    own[1] = row[2] + *wt;
    res[0] = row[1] + in[0];
}
"""
KERNEL = Kernel(
    "f",
    (In("x", n="n"), In("w", n="n"), Out("y", n="n"), Int("n")),
    lambda d, t: Launch(1, 1),
    lambda a, d: a["x"],
)


@pytest.mark.parametrize(
    ("line", "array", "how", "access"),
    [
        (3, "x", "read", "u[i * size.cols]"),
        (3, "w", "read", "v[i]"),
        (8, "y", "write", "res[threadIdx.x]"),
        (10, "x", "read", "row[2]"),
        (10, "w", "read", "*wt"),
        (11, "x", "read", ""),  # there are two
        (11, "y", "write", "res[0]"),
        (1, "x", "read", ""),
    ],
)
def test_an_array_is_found_behind_pointers_and_in_helpers(line, array, how, access):
    found = access_at(read(TEXT), line, name_in_file(array, KERNEL, TEXT), how)
    assert (found.code if found else "") == access


def test_the_caret_stands_under_the_array_by_any_name():
    found = KernelFault(
        "out-of-bounds",
        "Invalid __global__ read of size 4 bytes",
        "",
        line=10,
        array="w",
        source=TEXT.split("\n")[9],
    )
    assert fault(found, TEXT, "wt")[2].index("^") == fault(found, TEXT, "wt")[1].index("*wt")


def test_sizes_that_a_helper_is_given_do_not_vary():
    file = read(TEXT)
    helper, place = file.function("dot"), TEXT.index("u[i")
    assert list(names_in(file, helper.body, place)) == ["i", "size.cols", "i"]
    assert [varies(file, helper, name, place) for name in ("size", "i")] == [False, True]
