"""Slips of kernels whose threads work together."""

from __future__ import annotations

import pytest

from backwarp.course.declare import In, Int, Kernel, Launch, Out
from backwarp.cuda.text import read
from backwarp.errors import KernelFault, Place
from backwarp.grading.slips.block_slips import block_slips, same_slot, takes_what_changes

PARAMS = (In("x", m="M"), Out("y", m="M"), Int("M"))
LAUNCH = Launch((3, 1), (16, 1))
KERNEL = Kernel("f", PARAMS, lambda d, t: LAUNCH, lambda a, d: a["x"])


def function(body: str):
    text = f"constexpr int W = 8;\n__global__ void f(const float* x, float* y, int M) {{\n{body}\n}}\n"
    return read(text).function("f")


def said(body: str, M: int = 40) -> list[str]:
    failed = [({"M": M}, LAUNCH)]
    return [str(slip) for slip in block_slips(KERNEL, function(body), failed)]


NAMED = "\nint i = blockIdx.x * W + threadIdx.x;"
OVERLAP = "int i = blockIdx.x + threadIdx.x;"


def test_blocks_that_begin_one_after_the_other():
    (says,) = said(OVERLAP)
    assert says.startswith(
        "Line 3: in blockIdx.x + threadIdx.x, each block begins one after the block before it"
    )
    assert said("int t = threadIdx.x, b = blockIdx.x; int i = t + b;")
    assert not said("int i = blockIdx.x * 16 + threadIdx.x;")


def test_blocks_of_a_size_that_they_do_not_have():
    own = function("int i = blockIdx.x * 256 + threadIdx.x;")
    failed = [({"M": 40}, Launch(3, threads)) for threads in (16, 4)]
    (says,) = (str(slip) for slip in block_slips(KERNEL, own, failed))
    assert says.startswith(
        "Line 3 takes blocks to be 256 threads apart along x: blockIdx.x * 256 + threadIdx.x."
    )
    assert "a block has 16: use blockDim.x" in says
    (says,) = (str(slip) for slip in block_slips(KERNEL, function(NAMED), failed))
    assert says.startswith("Line 4 takes blocks to be 8 threads apart along x: blockIdx.x * W + threadIdx.x.")
    for few in (
        failed[:1],
        [({"M": 40}, Launch(3, 256)), failed[0]],
    ):  # each may have 16 elements; one is right
        assert not list(block_slips(KERNEL, own, few))


def test_a_loop_that_goes_through_the_parts_of_other_blocks():
    loop = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < {}; i += {}) y[i] = 0;"
    (says,) = said(loop.format("M", "blockDim.x"))
    assert says.startswith(
        "Line 3: i begins in the block's own part and moves on by blockDim.x, through the parts of"
    )
    assert not said(loop.format("M", "blockDim.x * gridDim.x"))
    assert not said("int last = M * (blockIdx.x + 1);\n" + loop.format("last", "blockDim.x"))


def test_a_block_for_each_element_may_begin_one_after_the_other():
    assert not said(OVERLAP, M=3)


@pytest.mark.parametrize(
    ("index", "wrong"),
    [
        ("i", True),
        ("i + 1", True),
        ("threadIdx.x", False),
        ("i - blockIdx.x * 16", False),
        ("j - i", False),
        ("(j - i) * (M - 1)", False),
    ],
)
def test_a_place_of_the_grid_in_shared_memory(index, wrong):
    found = said(f"__shared__ float s[16]; int i = blockIdx.x * 16 + threadIdx.x, j = M;\ny[i] = s[{index}];")
    assert bool(found) == wrong
    assert not wrong or found == [
        f"Line 4 looks in s at {index}, which counts through all blocks (blockIdx is in it); s belongs to one block, and "
        "counts from 0 in each."
    ]


TREE = """__shared__ float s[64]; int t = threadIdx.x;
for (int n = 1; n < 64; n *= 2) {
    if (t % n == 0) s[t] += s[t + n];
    BARRIER
}"""


def race(line: int = 5, other: int = 5, kind: str = "race", does=("write", "read")) -> KernelFault:
    place = Place("kernel.cu", other, (32, 0, 0), (0, 0, 0), does[0])
    return KernelFault(
        kind=kind,
        headline="",
        explanation="",
        access=does[1],
        file="kernel.cu",
        line=line,
        thread=(16, 0, 0),
        array="s",
        index="32",
        other=place,
    )


def test_who_adds_what_to_what():
    says = str(takes_what_changes(race(), function(TREE.replace("BARRIER", "__syncthreads();"))) or "")
    assert says == (
        "In the same iteration of the loop in line 4, thread 32 adds to s[32], and thread 16 adds s[32] to its own: a thread whose "
        "element is taken must not add in that iteration. Does t % n == 0 leave thread 32 out?"
    )


def test_the_other_thread_may_be_the_one_that_takes():
    own = function(TREE.replace("BARRIER", "__syncthreads();"))
    says = str(takes_what_changes(race(does=("read", "write")), own) or "")
    assert "thread 16 adds to s[32], and thread 32 adds s[32] to its own" in says
    assert not takes_what_changes(race(does=("write", "atomic")), own)


def test_without_a_barrier_in_each_turn_that_is_the_cause():
    for barrier in ("", "if (n > 4) __syncthreads();"):
        assert not takes_what_changes(race(), function(TREE.replace("BARRIER", barrier)))


def test_other_faults_are_left_alone():
    own = function(TREE.replace("BARRIER", "__syncthreads();"))
    assert not takes_what_changes(race(other=3), own) and not takes_what_changes(race(kind="timeout"), own)


RING = """__shared__ float ring[3][16];
for (int step = -2; step < M; step++) {{
    int next = step + {}, to = next % 3;
    copy(&ring[to][threadIdx.x], x + next);
    y[step] += ring[step % 3][0];
}}"""


@pytest.mark.parametrize(
    ("body", "same"),
    [
        (RING.format(3), True),
        (RING.format("2 + 1"), True),
        (RING.format(2), False),
        (RING.format(3).replace("% 3", "% M"), False),
        (RING.format(3).replace("ring[step % 3][0]", "ring[0][step % 3]"), False),
        (RING.format(3).replace("to = next % 3", "to = next").replace("step % 3", "step + 3"), False),
        (
            RING.format(3).replace("    y[step]", "}\nfor (int step = 0; step < M; step++) {\n    y[step]"),
            False,
        ),
    ],
)
def test_a_slot_that_is_filled_while_it_is_read(body, same):
    own = function(body)
    lines = [
        next(n for n, text in enumerate(own.file.lines, 1) if word in text) for word in ("copy", "y[step]")
    ]
    other = Place("kernel.cu", lines[0], (1, 0, 0), (0, 0, 0))
    fault = KernelFault("race", "Race", "A copy", line=lines[1], array="ring", other=other)
    says = str(same_slot(fault, own) or "")
    assert bool(says) == same
    assert not same or says.startswith(
        f"In one iteration of the loop, line {lines[0]} uses ring[to] and line {lines[1]} uses"
    )
    assert not same_slot(KernelFault("race", "Race", "A copy", line=lines[1], array="ring"), own)
