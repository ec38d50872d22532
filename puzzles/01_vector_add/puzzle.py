"""Puzzle 01: add two vectors, one thread per element."""

from __future__ import annotations

import numpy as np

from harness.course import Case, In, Int, Kernel, Launch, Misconception, Mutant, Out, Puzzle, ceil_div


def written_only(indices, a, d):
    """a + b at the elements that some thread writes, NaN at those that none does."""
    written = np.isin(np.arange(d["n"]), indices)
    return np.where(written, a["a"] + a["b"], np.nan)


def one_block(a, d):
    """i = threadIdx.x"""
    return written_only(np.arange(d["threads"]), a, d)


def one_per_block(a, d):
    """i = blockIdx.x"""
    return written_only(np.arange(ceil_div(d["n"], d["threads"])), a, d)


def block_and_thread_swapped(a, d):
    """i = threadIdx.x * blockDim.x + blockIdx.x"""
    thread, block = np.arange(d["threads"]), np.arange(ceil_div(d["n"], d["threads"]))
    return written_only(np.add.outer(thread * d["threads"], block), a, d)


def block_size_missing(a, d):
    """i = blockIdx.x + threadIdx.x"""
    return written_only(np.arange(d["threads"] + ceil_div(d["n"], d["threads"]) - 1), a, d)


def size_written_as(size):
    """i = blockIdx.x * size + threadIdx.x; where blocks are larger, two threads take the same i."""

    def compute(a, d):
        first = np.arange(ceil_div(d["n"], d["threads"])) * size
        return written_only(np.add.outer(first, np.arange(d["threads"])), a, d)

    return compute


def multiplied_by_thread(a, d):
    """i = blockIdx.x * threadIdx.x"""
    block, thread = np.arange(ceil_div(d["n"], d["threads"])), np.arange(d["threads"])
    return written_only(np.multiply.outer(block, thread), a, d)


def first_missing(a, d):
    """i = ... + 1"""
    return written_only(np.arange(1, d["n"]), a, d)


def last_missing(a, d):
    """if (i >= n - 1) return;"""
    return written_only(np.arange(d["n"] - 1), a, d)


def wrong(id, hint, says, compute):
    return Misconception(id, "vector_add", says, compute, hint)


MISCONCEPTIONS = (
    wrong(
        "one_block",
        2,
        "Only the first blockDim.x elements are written: "
        "i counts the threads of one block, not of all blocks.",
        one_block,
    ),
    wrong(
        "one_per_block",
        2,
        "Only one element per block is written: i does not depend on threadIdx.x.",
        one_per_block,
    ),
    wrong(
        "block_and_thread_swapped",
        3,
        "The elements written lie blockDim.x apart: threadIdx.x and blockIdx.x have changed places.",
        block_and_thread_swapped,
    ),
    wrong(
        "block_size_missing",
        2,
        "Neighbouring blocks write almost the same elements: blockIdx.x is not multiplied by blockDim.x.",
        block_size_missing,
    ),
    wrong(
        "size_of_a_block_is_4",
        2,
        "Elements between the blocks are not written: the size of a block is taken to be 4, "
        "as in the first case; it is blockDim.x.",
        size_written_as(4),
    ),
    wrong(
        "size_of_a_block_is_256",
        2,
        "Elements between the blocks are not written: the size of a block is taken to be 256; "
        "it is blockDim.x.",
        size_written_as(256),
    ),
    wrong(
        "multiplied_by_thread",
        2,
        "blockIdx.x is multiplied by threadIdx.x; it must be multiplied by blockDim.x, the size of a block.",
        multiplied_by_thread,
    ),
    wrong(
        "number_of_blocks_for_their_size",
        2,
        "blockIdx.x is multiplied by the number of blocks, gridDim.x; "
        "it must be multiplied by their size, blockDim.x.",
        lambda a, d: size_written_as(ceil_div(d["n"], d["threads"]))(a, d),
    ),
    wrong(
        "first_missing",
        3,
        "Everything is right except element 0, which is not written: the elements count from 0.",
        first_missing,
    ),
    wrong(
        "last_missing",
        3,
        "Everything is right except the last element, which is not written: the test on n is off by one.",
        last_missing,
    ),
    wrong("copied_a", 1, "This is exactly a: b is not added.", lambda a, d: a["a"]),
    wrong("copied_b", 1, "This is exactly b: a is not added.", lambda a, d: a["b"]),
    wrong("subtracted", 1, "This is exactly a[i] - b[i], not a[i] + b[i].", lambda a, d: a["a"] - a["b"]),
    wrong("multiplied", 1, "This is exactly a[i] * b[i], not a[i] + b[i].", lambda a, d: a["a"] * a["b"]),
    wrong(
        "same_first_element",
        3,
        "Every element is a[0] + b[0]: the arrays are read at 0, not at i.",
        lambda a, d: np.full(d["n"], a["a"][0] + a["b"][0]),
    ),
)

INDEX = "blockIdx.x * blockDim.x + threadIdx.x"
GUARD = "if (i >= n) return;"
SUM = "c[i] = a[i] + b[i];"


def mutant(name, old, new, expect="wrong", also=()):
    return Mutant(name, "vector_add", old, new, expect, also)


MUTANTS = (
    mutant("numbers in 16 bits", f"int i = {INDEX}", f"unsigned short i = {INDEX}", ("schedule", "unwritten", "race")),
    mutant("no guard", GUARD, "", "out-of-bounds"),
    mutant("guard one too late", GUARD, "if (i > n) return;", "out-of-bounds"),
    mutant("guard one too early", GUARD, "if (i >= n - 1) return;", "last_missing"),
    mutant("block left out", INDEX, "threadIdx.x", ("one_block", "race")),
    mutant("thread left out", INDEX, "blockIdx.x", ("one_per_block", "race")),
    mutant("block and thread swapped", INDEX, "threadIdx.x * blockDim.x + blockIdx.x",
           "block_and_thread_swapped"),
    mutant("size of a block written as 256", INDEX, "blockIdx.x * 256 + threadIdx.x",
           "size_of_a_block_is_256"),
    mutant("size of a block written as 4", INDEX, "blockIdx.x * 4 + threadIdx.x", "size_of_a_block_is_4"),
    mutant("multiplied by the thread", INDEX, "blockIdx.x * threadIdx.x",
           ("multiplied_by_thread", "race")),
    mutant("number of blocks for their size", INDEX, "blockIdx.x * gridDim.x + threadIdx.x",
           ("number_of_blocks_for_their_size", "race")),
    mutant("size of a block left out", INDEX, "blockIdx.x + threadIdx.x",
           ("block_size_missing", "race")),
    mutant("counted from 1", INDEX, INDEX + " + 1", "first_missing"),
    mutant("b not added", SUM, "c[i] = a[i];", "copied_a"),
    mutant("a not added", SUM, "c[i] = b[i];", "copied_b"),
    mutant("subtracted", SUM, "c[i] = a[i] - b[i];", "subtracted"),
    mutant("multiplied", SUM, "c[i] = a[i] * b[i];", "multiplied"),
    mutant("reads element 0", SUM, "c[i] = a[0] + b[0];", "same_first_element"),
    mutant("added to what was there", SUM, "c[i] += a[i] + b[i];",
           ("uninitialised-read", "wrong", "unwritten")),
    mutant("neighbour read", SUM, "c[i] = a[i] + b[i + 1];", "out-of-bounds"),
    mutant("only thread 0 of all works", GUARD, "if (i > 0) return;", "unwritten"),
    mutant("never ends", SUM, "while (i < n) c[i] = a[i] + b[i];", "timeout"),
)  # fmt: skip

PUZZLE = Puzzle(
    title="Add two vectors",
    part=1,
    teaches="How a thread finds its own number, and why it must check that number.",
    practice=(
        "PyTorch adds arrays the same way, with several neighbouring elements for each thread, fetched by "
        "one wide load where they are aligned."
    ),
    lines=3,
    kernels=(
        Kernel(
            "vector_add",
            params=(In("a", i="n"), In("b", i="n"), Out("c", i="n"), Int("n")),
            launch=lambda d, t: Launch(grid=ceil_div(d["n"], d["threads"]), block=d["threads"]),
            reference=lambda a, d: a["a"] + a["b"],
        ),
    ),
    bench=dict(n=1 << 24, threads=256),
    cases=(
        Case(
            "tiny_10", dict(n=10, threads=4),
            note="3 blocks of 4 threads for 10 elements; drawn in the lesson",
            inputs={
                "a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
                "b": [10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
            },
        ),
        Case("odd_block", dict(n=11, threads=3), note="the size of a block need not be a power of two"),
        Case("integers", dict(n=37, threads=8), note="exact sums", values="integers"),
        Case("exactly_one_block", dict(n=64, threads=64)),
        Case("one_more_than_a_block", dict(n=257, threads=256), note="the second block has one element"),
        Case("own_sizes", draw=lambda pick: dict(n=pick(300, 3000), threads=pick(5, 300)),
             note="sizes that belong to your file"),
        Case("blocks_of_one", dict(n=70_001, threads=1), note="more blocks than 16 bits can count", stress=True),
        Case("many_blocks", dict(n=100_003, threads=256), note="391 blocks; nothing divides the size"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
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
)  # fmt: skip
