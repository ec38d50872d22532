"""Puzzle 01: add two vectors, one thread per element."""

from __future__ import annotations

from backwarp.course import Case, In, Int, Kernel, Mistake, Out, Puzzle
from backwarp.course.sizes import integers, one_thread_each, own_sizes, with_inputs

MISTAKES = (
    Mistake(
        "guard one too early",
        ("if (i >= n)", "if (i >= n - 1)"),
        says="Everything is right but the last element, which is not written: the test on n is off by one.",
        hint=3,
    ),
    Mistake(
        "block and thread swapped",
        ("blockIdx.x * blockDim.x + threadIdx", "threadIdx.x * blockDim.x + blockIdx"),
        says="The elements written lie blockDim.x apart: threadIdx.x and blockIdx.x are swapped.",
        hint=3,
    ),
    Mistake(
        "counted from 1",
        ("threadIdx.x;", "threadIdx.x + 1;"),
        says="Everything is right except element 0, which is not written: the elements count from 0.",
        hint=3,
    ),
)

PUZZLE = Puzzle(
    title="Add two vectors",
    part=1,
    teaches="How a thread finds its own number, and why it must check that number.",
    practice="PyTorch adds arrays the same way, with several neighbouring elements for each thread, fetched "
    "by one wide load where they are aligned.",
    lines=3,
    kernels=(
        Kernel(
            "vector_add",
            params=(In("a", i="n"), In("b", i="n"), Out("c", i="n"), Int("n")),
            launch=one_thread_each("n"),
            reference=lambda a, d: a["a"] + a["b"],
        ),
    ),
    bench=dict(n=1 << 24, threads=256),
    cases=(
        with_inputs(
            "tiny_10",
            dict(n=10, threads=4),
            "3 blocks of 4 threads for 10 elements; drawn in the lesson",
            a=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            b=[10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
        ),
        Case("odd_block", dict(n=11, threads=3), "the size of a block need not be a power of two"),
        integers(dict(n=37, threads=8)),
        Case("exactly_one_block", dict(n=64, threads=64)),
        Case("one_more_than_a_block", dict(n=257, threads=256), "the second block has one element"),
        own_sizes(n=(300, 3000), threads=(5, 300)),
        Case("many_blocks", dict(n=100_003, threads=256), "391 blocks; nothing divides the size"),
    ),
    mistakes=MISTAKES,
    hints=(
        "All threads run the same lines. Only blockIdx.x and threadIdx.x differ from thread to thread, so i "
        "must be made from them. Work it out on paper for 3 blocks of 4 threads: which i should thread 0 of "
        "block 2 get?",
        "Before block 2 come two whole blocks, each of blockDim.x threads. So a thread's number is the "
        "number of threads in all blocks before its own, plus its place in its own block.",
        "The last block is rarely full: with 10 elements and blocks of 4, threads 10 and 11 exist but "
        "elements 10 and 11 do not. The elements are 0 to n - 1; a thread whose i is not among them returns "
        "at once. The others read a and b at i and write c at i.",
    ),
)
