"""Why an element has no value: told from the kernel's text."""

from __future__ import annotations

import numpy as np

from backwarp.course.declare import Case, In, Kernel, Launch, Out
from backwarp.errors import KernelFault, Place
from backwarp.grading.compare import Expected
from backwarp.grading.results.naming import Observation
from backwarp.grading.slips.unset import (
    left_in_a_loop,
    read_unset,
    too_few_threads,
    written_twice,
)
from tests.grading.said import said

KERNEL = Kernel("k", (In("a", n="N"), Out("c", n="N")), lambda d, t: Launch(1, 1), lambda a, d: a["a"])
TEXT = """extern "C" __global__ void k(const float* a, float* c) {
    c[0] += 1;
    c[1] = c[2];
    for (int i = 0; i < 9; i++) {
        if (a[i] < 0) return;
    }
    c[3] = 1;
}
"""


def unset(array, line, headline="Uninitialized __global__ memory read"):
    return said(
        read_unset(KernelFault("uninitialised-read", headline, "", line=line, array=array), KERNEL, TEXT)
    )


def test_an_output_has_no_values_to_add_to():
    assert "store the result with =" in unset("c", 2)[0]
    assert "only what it has stored there before" in unset("c", 7)[0]
    assert not unset("a", 7)


def test_an_atomic_adds_to_nothing():
    found = KernelFault("uninitialised-read", "Uninitialized __global__ memory read", "", line=2, array="c")
    text = "__global__ void k(const float* a, float* c) {\n    atomicAdd(&c[0], a[0]);\n}\n"
    assert said(read_unset(found, KERNEL, text))[0].endswith(
        "and an atomic changes what is there: let one thread store the result with =."
    )


def test_a_return_in_a_loop():
    assert said(left_in_a_loop(KERNEL, TEXT))[0].startswith(
        "The return in line 5 leaves the kernel from inside a loop, before the store in line 7;"
    )
    assert not left_in_a_loop(KERNEL, TEXT.replace("return;", "continue;"))
    assert not left_in_a_loop(KERNEL, "")


def test_a_launch_of_fewer_threads_than_elements():
    def told(stored, launch):
        poison, right = np.full((3, 4), np.nan, np.float32), np.zeros((3, 4))
        got = np.where(np.arange(12).reshape(3, 4) < stored, np.float32(1), poison)
        target = Expected(KERNEL.outputs[0], right, right, right)
        return said(
            too_few_threads(Observation(Case("c", {}), {}, {}, (target,), {"c": got}, {"c": poison}), launch)
        )

    assert told(8, Launch(2, (2, 2))) == [
        "The launch has 8 threads, and c has 12 elements: one each is too few. A thread stores several."
    ]
    assert not told(7, Launch(2, 4)) and not told(12, Launch(3, 4)) and not told(0, Launch(2, 4))


def test_elements_that_are_written_twice_while_others_are_not():
    block = (0, 0, 0)
    found = KernelFault("same-write", "", "", line=7, thread=(1, 0, 0), block=block, array="y", index="3")
    found.other = Place("kernel.cu", 7, (0, 0, 0), block)
    (says,) = said(written_twice(found))
    assert says == (
        "Threads (0,0,0) and (1,0,0) both write y[3] (line 7): do they compute their places as they should?"
    )
