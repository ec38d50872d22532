"""Puzzle 02: the product of two matrices, one thread per element of the result."""

from __future__ import annotations

import numpy as np

from harness.course import Case, In, Int, Kernel, Launch, Misconception, Mutant, Out, Puzzle, ceil_div
from reference import dense

KERNEL = "matmul"


def product(a, A=None, B=None):
    """The right answer, with a matrix replaced by what a wrong kernel uses for it."""
    return dense.matmul(a["A"] if A is None else A, a["B"] if B is None else B)


def reread(matrix, index):
    """What a kernel reads that takes `index(i, j)` for the place of matrix[i, j]; NaN outside of it."""
    flat, position = matrix.ravel(), index(*np.indices(matrix.shape))
    inside = (position >= 0) & (position < flat.size)
    return np.where(inside, flat[np.where(inside, position, 0)], np.nan)


def repeated(matrix, axis):
    """The first row (axis 0) or column (axis 1) in the place of all of them."""
    return np.broadcast_to(np.take(matrix, [0], axis), matrix.shape)


def threads_across_and_down(d):
    """How many threads the launch has in x and in y."""
    return ceil_div(d["N"], d["tx"]) * d["tx"], ceil_div(d["M"], d["ty"]) * d["ty"]


def written_where(rows, columns, a, d):
    """The right answer in the elements (m, n) with m < rows and n < columns, NaN in the others."""
    m, n = np.indices((d["M"], d["N"]))
    return np.where((m < rows) & (n < columns), product(a), np.nan)


def axes_swapped(a, d):
    """x is taken for the row and y for the column."""
    across, down = threads_across_and_down(d)
    return written_where(across, down, a, d)


def wrong(id, hint, says, compute):
    return Misconception(id, KERNEL, says, compute, hint)


MISCONCEPTIONS = (
    wrong("axes_swapped", 1,
          "Rows or columns that the launch covers stay empty: x is used for the row and y for the column; "
          "x must be the column.",
          axes_swapped),
    wrong("guard_swapped", 1,
          "Threads leave although C has their element: row is compared with N and col with M.",
          lambda a, d: written_where(d["N"], d["M"], a, d)),
    wrong("B_transposed", 3,
          "B is read as if its columns lay one behind the other; its rows do: one step down is N elements.",
          lambda a, d: product(a, B=a["B"].reshape(d["N"], d["K"]).T)),
    wrong("A_transposed", 3,
          "A is read as if its columns lay one behind the other; its rows do: one step down is K elements.",
          lambda a, d: product(a, A=a["A"].reshape(d["K"], d["M"]).T)),
    wrong("A_stride_N", 3,
          "The rows of A are taken to be N elements long; A has M rows of K elements.",
          lambda a, d: product(a, A=reread(a["A"], lambda m, k: m * d["N"] + k))),
    wrong("B_stride_K", 3,
          "The rows of B are taken to be K elements long; B has K rows of N elements.",
          lambda a, d: product(a, B=reread(a["B"], lambda k, n: k * d["K"] + n))),
    wrong("C_transposed", 3,
          "The right numbers are at the wrong places: C is filled column by column, not row by row.",
          lambda a, d: product(a).T.reshape(d["M"], d["N"])),
    wrong("A_row_missing", 3,
          "Every row of C is the same: row is missing in the index of A.",
          lambda a, d: product(a, A=repeated(a["A"], 0))),
    wrong("B_column_missing", 3,
          "Every column of C is the same: col is missing in the index of B.",
          lambda a, d: product(a, B=repeated(a["B"], 1))),
    wrong("B_row_missing", 3,
          "Every element of A meets row 0 of B: k is missing in the index of B.",
          lambda a, d: product(a, B=repeated(a["B"], 0))),
    wrong("A_column_missing", 3,
          "Every element of B meets column 0 of A: k is missing in the index of A.",
          lambda a, d: product(a, A=repeated(a["A"], 1))),
    wrong("last_k_missing", 2,
          "The last product of every sum is missing: k stops one too early.",
          lambda a, d: product(a, a["A"][:, :-1], a["B"][:-1])),
    wrong("first_k_missing", 2,
          "The first product of every sum is missing: k counts from 0.",
          lambda a, d: product(a, a["A"][:, 1:], a["B"][1:])),
    wrong("last_product_only", 2,
          "Only the last product is in the result: the sum is overwritten (=) instead of added to (+=).",
          lambda a, d: product(a, a["A"][:, -1:], a["B"][-1:])),
    wrong("k_bounded_by_N", 2,
          "Only the first N products are added up: k must run to K, it runs to N.",
          lambda a, d: product(a, a["A"][:, : d["N"]], a["B"][: d["N"]])
          if d["N"] <= d["K"] else np.full((d["M"], d["N"]), np.nan)),
    wrong("A_ignored", 2,
          "These are the sums of B's columns: A is not multiplied in.",
          lambda a, d: product(a, A=np.ones_like(a["A"]))),
    wrong("B_ignored", 2,
          "These are the sums of A's rows: B is not multiplied in.",
          lambda a, d: product(a, B=np.ones_like(a["B"]))),
    wrong("added_for_multiplied", 2,
          "This is the sum of A + B, element by element; the elements that meet are multiplied.",
          lambda a, d: product(a, A=np.ones_like(a["A"])) + product(a, B=np.ones_like(a["B"]))),
    wrong("negated", 2,
          "Every element has the right size and the wrong sign: products are added, not subtracted.",
          lambda a, d: -product(a)),
    wrong("averaged", 2,
          "The sum is divided by K; a matrix product is a sum.",
          lambda a, d: product(a) / d["K"]),
)  # fmt: skip

COL = "int col = blockIdx.x * blockDim.x + threadIdx.x;"
ROW = "int row = blockIdx.y * blockDim.y + threadIdx.y;"
GUARD = "if (row >= M || col >= N) return;"
START = "float sum = 0.0f;"
LOOP = "for (int k = 0; k < K; k++) {"
A, B, C = "A[row * K + k]", "B[k * N + col]", "C[row * N + col]"


def mutant(name, old, new, expect="wrong", also=()):
    return Mutant(name, KERNEL, old, new, expect, also)


MUTANTS = (
    # the threads
    mutant("x and y exchanged", COL, "int col = blockIdx.y * blockDim.y + threadIdx.y;", "axes_swapped",
           also=((ROW, "int row = blockIdx.x * blockDim.x + threadIdx.x;"),)),
    mutant("sizes of a block exchanged", COL, "int col = blockIdx.x * blockDim.y + threadIdx.x;",
           ("unwritten", "race"), also=((ROW, "int row = blockIdx.y * blockDim.x + threadIdx.y;"),)),
    mutant("size of a block in y for that in x", COL, COL.replace("blockDim.x", "blockDim.y"),
           ("unwritten", "race")),
    mutant("size of a block written as 16", COL, "int col = blockIdx.x * 16 + threadIdx.x;", "unwritten",
           also=((ROW, "int row = blockIdx.y * 16 + threadIdx.y;"),)),
    mutant("block left out", COL, "int col = threadIdx.x;", ("unwritten", "race"),
           also=((ROW, "int row = threadIdx.y;"),)),
    mutant("y left out", ROW, "int row = blockIdx.x * blockDim.x + threadIdx.x;", "unwritten"),
    mutant("row of the block left out", ROW, "int row = threadIdx.y;", ("unwritten", "race")),
    mutant("no guard", GUARD, "", ("out-of-bounds", "race")),
    mutant("guard with and", GUARD, "if (row >= M && col >= N) return;", ("out-of-bounds", "race")),
    mutant("guard for the rows only", GUARD, "if (row >= M) return;", ("out-of-bounds", "race")),
    mutant("guard for the columns only", GUARD, "if (col >= N) return;", "out-of-bounds"),
    mutant("guard one too late", GUARD, "if (row > M || col > N) return;", ("out-of-bounds", "race")),
    mutant("guard swapped", GUARD, "if (row >= N || col >= M) return;",
           ("guard_swapped", "unwritten", "out-of-bounds")),  # most cases end in a fault
    mutant("guard on the place in memory only", GUARD, "if (row * N + col >= M * N) return;",
           ("out-of-bounds", "race")),
    # the matrices
    mutant("B column by column", B, "B[col * K + k]", "B_transposed"),
    mutant("A column by column", A, "A[k * M + row]", "A_transposed"),
    mutant("rows of A taken to be N long", A, "A[row * N + k]", ("A_stride_N", "out-of-bounds")),
    mutant("rows of B taken to be K long", B, "B[k * K + col]", ("B_stride_K", "out-of-bounds")),
    mutant("rows of C taken to be M long", C, "C[row * M + col]", ("race", "out-of-bounds")),
    mutant("C column by column", C, "C[col * M + row]", "C_transposed"),
    mutant("row missing in A", A, "A[k]", "A_row_missing"),
    mutant("col missing in B", B, "B[k * N]", "B_column_missing"),
    mutant("k missing in B", B, "B[col]", "B_row_missing"),
    mutant("k missing in A", A, "A[row * K]", "A_column_missing"),
    mutant("B for A and A for B", A, "B[row * K + k]", ("wrong", "out-of-bounds"),
           also=((B, "A[k * N + col]"),)),
    # the sum
    mutant("last product missing", LOOP, "for (int k = 0; k < K - 1; k++) {", "last_k_missing"),
    mutant("first product missing", LOOP, "for (int k = 1; k < K; k++) {", "first_k_missing"),
    mutant("one product too many", LOOP, "for (int k = 0; k <= K; k++) {", "out-of-bounds"),
    mutant("k runs to N", LOOP, "for (int k = 0; k < N; k++) {", ("k_bounded_by_N", "out-of-bounds")),
    mutant("overwritten instead of added", "sum += A", "sum = A", "last_product_only"),
    mutant("A ignored", "sum += A[row * K + k] * B", "sum += B", "A_ignored"),
    mutant("B ignored", "sum += A[row * K + k] * B[k * N + col];", "sum += A[row * K + k];", "B_ignored"),
    mutant("added for multiplied", "+ k] * B[", "+ k] + B[", "added_for_multiplied"),
    mutant("averaged", " = sum;", " = sum / K;", "averaged"),
    mutant("subtracted", "sum += A", "sum -= A", "negated"),
    mutant("sum not set to anything", START, "float sum;", ("uninitialised-read", "wrong")),
    mutant("sum in an int", START, "int sum = 0;"),
    mutant("added up in C", " = sum;", " += sum;", ("uninitialised-read", "wrong", "unwritten")),
    mutant("not stored", "C[row * N + col] = sum;", "", "unwritten"),
    mutant("never ends", LOOP, "for (int k = 0; k < K;) {", "timeout"),
)  # fmt: skip

BLOCK = dict(tx=16, ty=16)

PUZZLE = Puzzle(
    title="Multiply two matrices",
    part=1,
    teaches="How a grid of two dimensions gives every thread a row and a column, and how rows lie in memory.",
    practice=(
        "cuBLAS and CUTLASS compute the same sums in tiles that are kept in shared memory and registers: "
        "puzzles 26 and 27."
    ),
    lines=8,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("A", m="M", k="K"), In("B", k="K", n="N"), Out("C", m="M", n="N"),
                Int("M"), Int("N"), Int("K"),
            ),
            launch=lambda d, t: Launch(
                grid=(ceil_div(d["N"], d["tx"]), ceil_div(d["M"], d["ty"])), block=(d["tx"], d["ty"])
            ),
            reference=lambda a, d: dense.matmul(a["A"], a["B"]),
        ),
    ),
    bench=dict(M=4096, N=4096, K=4096, tx=16, ty=16),
    cases=(
        Case(
            "matmul_tiny_2x3", dict(M=2, N=3, K=4, tx=2, ty=2),
            note="2 x 1 blocks of 2 x 2 threads; done by hand in the lesson",
            inputs={
                "A": [[1, 2, 0, -1], [3, 1, 2, 4]],
                "B": [[2, 0, 1], [1, 5, -2], [0, 1, 3], [1, 2, 0]],
            },
        ),
        Case("one_element", dict(M=1, N=1, K=20, **BLOCK), note="a row times a column"),
        Case("one_product", dict(M=5, N=7, K=1, **BLOCK), note="a column times a row: sums of one product"),
        Case("one_row", dict(M=1, N=35, K=6, **BLOCK), note="C is as wide as 3 blocks and 1 row high"),
        Case("one_column", dict(M=35, N=1, K=6, **BLOCK), note="C is as high as 3 blocks and 1 column wide"),
        Case("blocks_8x4", dict(M=9, N=21, K=7, tx=8, ty=4), note="3 x 3 blocks that are not square"),
        Case("integers", dict(M=7, N=10, K=13, **BLOCK), note="exact sums", values="integers"),
        Case("full_blocks", dict(M=16, N=32, K=5, **BLOCK), note="no thread without work"),
        Case("tall", dict(M=70, N=18, K=21, **BLOCK), note="more rows than columns"),
        Case("nothing_divides", dict(M=33, N=50, K=37, **BLOCK), note="4 x 3 blocks"),
        Case("matmul_lenet_256_120", dict(M=8, N=120, K=256, **BLOCK), note="8 images, LeNet's third layer"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(M=pick(11, 70), N=pick(11, 70), K=pick(3, 50), tx=pick(3, 20),
                                    ty=pick(2, 12))),
        Case("large_A", dict(M=257, N=2, K=261, **BLOCK), note="more than 65,536 elements in A", stress=True),
        Case("large_B", dict(M=2, N=263, K=257, **BLOCK), note="more than 65,536 elements in B", stress=True),
        Case("large_C", dict(M=259, N=257, K=2, tx=1, ty=1), note="more than 65,536 elements in C", stress=True),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "The launch has enough threads in x for the columns of C and in y for its rows. The rule from "
        "vector_add gives a thread's number in x; the same rule with y in the place of x gives its number "
        "in y. The number in x is the column, the one in y the row. There are M rows and N columns, and a "
        "thread has work only if both of its numbers exist.",
        "One running sum per thread, a plain float variable that starts at zero. One loop, over k, in which "
        "row and column stay as they are: in round k the thread takes the element of A in its own row and "
        "in column k, and the element of B in row k and in its own column, and adds their product. Store "
        "the sum once, after the loop.",
        "The place of an element is the number of elements before it: all the rows above it, each as long "
        "as a row of that matrix, and the elements to its left. A row of A has K elements, a row of B has "
        "N, a row of C has N. So in A one step of k moves by 1, and in B it moves by N.",
    ),
)  # fmt: skip
