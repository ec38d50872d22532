"""Puzzle 02: the product of two matrices, one thread per element of the result."""

from __future__ import annotations

from backwarp.reference import dense

from backwarp.course import Case, In, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div

KERNEL = "matmul"


COL = "int col = blockIdx.x * blockDim.x + threadIdx.x;"
ROW = "int row = blockIdx.y * blockDim.y + threadIdx.y;"
GUARD = "if (row >= M || col >= N) return;"
START = "float sum = 0.0f;"
LOOP = "for (int k = 0; k < K; k++) {"
A, B, C = "A[row * K + k]", "B[k * N + col]", "C[row * N + col]"


MISTAKES = (
    # the threads
    Mistake(
        "x and y exchanged",
        (
            (COL, "int col = blockIdx.y * blockDim.y + threadIdx.y;"),
            (ROW, "int row = blockIdx.x * blockDim.x + threadIdx.x;"),
        ),
        says="Rows or columns that the launch covers are never written: x is used for the row and y for the "
        "column; swap them.",
    ),
    Mistake(
        "sizes of a block exchanged",
        (
            (COL, "int col = blockIdx.x * blockDim.y + threadIdx.x;"),
            (ROW, "int row = blockIdx.y * blockDim.x + threadIdx.y;"),
        ),
        expect=("unwritten", "race"),
    ),
    Mistake(
        "size of a block in y for that in x",
        (COL, COL.replace("blockDim.x", "blockDim.y")),
        expect=("unwritten", "race"),
    ),
    Mistake(
        "size of a block written as 16",
        (
            (COL, "int col = blockIdx.x * 16 + threadIdx.x;"),
            (ROW, "int row = blockIdx.y * 16 + threadIdx.y;"),
        ),
        expect="unwritten",
    ),
    Mistake(
        "block left out",
        ((COL, "int col = threadIdx.x;"), (ROW, "int row = threadIdx.y;")),
        expect=("unwritten", "race"),
    ),
    Mistake("y left out", (ROW, "int row = blockIdx.x * blockDim.x + threadIdx.x;"), expect="unwritten"),
    Mistake("row of the block left out", (ROW, "int row = threadIdx.y;"), expect=("unwritten", "race")),
    Mistake("no guard", (GUARD, ""), expect=("out-of-bounds", "race")),
    Mistake("guard with and", (GUARD, "if (row >= M && col >= N) return;"), expect=("out-of-bounds", "race")),
    Mistake("guard for the rows only", (GUARD, "if (row >= M) return;"), expect=("out-of-bounds", "race")),
    Mistake("guard for the columns only", (GUARD, "if (col >= N) return;"), expect="out-of-bounds"),
    Mistake(
        "guard one too late", (GUARD, "if (row > M || col > N) return;"), expect=("out-of-bounds", "race")
    ),
    Mistake(
        "guard swapped",
        (GUARD, "if (row >= N || col >= M) return;"),
        expect=("unwritten", "out-of-bounds"),
        says="Threads leave although C has their element: row is compared with N and col with M.",
    ),
    Mistake(
        "guard on the place in memory only",
        (GUARD, "if (row * N + col >= M * N) return;"),
        expect=("out-of-bounds", "race"),
    ),
    # the matrices
    Mistake(
        "B column by column",
        (B, "B[col * K + k]"),
        says="B is read column by column; it is stored row by row, so one step down is N elements.",
        hint=3,
    ),
    Mistake(
        "A column by column",
        (A, "A[k * M + row]"),
        says="A is read column by column; it is stored row by row, so one step down is K elements.",
        hint=3,
    ),
    Mistake(
        "rows of A taken to be N long",
        (A, "A[row * N + k]"),
        expect="out-of-bounds",
        says="The rows of A are taken to be N elements long; A has M rows of K elements.",
        hint=3,
    ),
    Mistake(
        "rows of B taken to be K long",
        (B, "B[k * K + col]"),
        expect="out-of-bounds",
        says="The rows of B are taken to be K elements long; B has K rows of N elements.",
        hint=3,
    ),
    Mistake("rows of C taken to be M long", (C, "C[row * M + col]"), expect=("race", "out-of-bounds")),
    Mistake(
        "C column by column",
        (C, "C[col * M + row]"),
        says="The right numbers are in the wrong places: C is stored column by column, not row by row.",
        hint=3,
    ),
    Mistake(
        "row missing in A",
        (A, "A[k]"),
        says="Every row of C is the same: row is missing from the index of A.",
        hint=3,
    ),
    Mistake(
        "col missing in B",
        (B, "B[k * N]"),
        says="Every column of C is the same: col is missing from the index of B.",
        hint=3,
    ),
    Mistake(
        "k missing in B",
        (B, "B[col]"),
        says="Every element of A meets row 0 of B: k is missing from the index of B.",
        hint=3,
    ),
    Mistake(
        "k missing in A",
        (A, "A[row * K]"),
        says="Every element of B meets column 0 of A: k is missing from the index of A.",
        hint=3,
    ),
    Mistake(
        "B for A and A for B",
        ((A, "B[row * K + k]"), (B, "A[k * N + col]")),
        expect=("wrong", "out-of-bounds"),
    ),
    # the sum
    Mistake(
        "last product missing",
        (LOOP, "for (int k = 0; k < K - 1; k++) {"),
        says="The last product of every sum is missing: the sum stops one too early.",
        hint=2,
    ),
    Mistake(
        "first product missing",
        (LOOP, "for (int k = 1; k < K; k++) {"),
        says="The first product of every sum is missing: k counts from 0.",
        hint=2,
    ),
    Mistake("one product too many", (LOOP, "for (int k = 0; k <= K; k++) {"), expect="out-of-bounds"),
    Mistake(
        "k runs to N",
        (LOOP, "for (int k = 0; k < N; k++) {"),
        expect="wrong",
    ),
    Mistake(
        "overwritten instead of added",
        ("sum += A", "sum = A"),
        says="Only the last product is in the result: each one replaces the sum instead of being added to it.",
        hint=2,
    ),
    Mistake(
        "A ignored",
        ("sum += A[row * K + k] * B", "sum += B"),
        says="These are the sums of B's columns: A is missing from the product.",
        hint=2,
    ),
    Mistake(
        "B ignored",
        ("sum += A[row * K + k] * B[k * N + col];", "sum += A[row * K + k];"),
        says="These are the sums of A's rows: B is missing from the product.",
        hint=2,
    ),
    Mistake(
        "added for multiplied",
        ("+ k] * B[", "+ k] + B["),
        says="The elements that meet are added; they must be multiplied.",
        hint=2,
    ),
    Mistake(
        "averaged",
        (" = sum;", " = sum / K;"),
        says="The sum is divided by K; a matrix product is a sum.",
        hint=2,
    ),
    Mistake(
        "subtracted",
        ("sum += A", "sum -= A"),
        says="Every element has the wrong sign: products are added, not subtracted.",
        hint=2,
    ),
    Mistake("sum not set to anything", (START, "float sum;"), expect=("uninitialised-read", "wrong")),
    Mistake("sum in an int", (START, "int sum = 0;")),
    Mistake("added up in C", (" = sum;", " += sum;"), expect=("uninitialised-read", "wrong", "unwritten")),
    Mistake("not stored", ("C[row * N + col] = sum;", ""), expect="unwritten"),
    Mistake("never ends", (LOOP, "for (int k = 0; k < K;) {"), expect="timeout"),
)

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
                In("A", m="M", k="K"),
                In("B", k="K", n="N"),
                Out("C", m="M", n="N"),
                Int("M"),
                Int("N"),
                Int("K"),
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
            "matmul_tiny_2x3",
            dict(M=2, N=3, K=4, tx=2, ty=2),
            note="2 x 1 blocks of 2 x 2 threads; done by hand in the lesson",
            inputs={"A": [[1, 2, 0, -1], [3, 1, 2, 4]], "B": [[2, 0, 1], [1, 5, -2], [0, 1, 3], [1, 2, 0]]},
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
        Case(
            "own_sizes",
            note="sizes drawn from your file's text",
            draw=lambda pick: dict(
                M=pick(11, 70), N=pick(11, 70), K=pick(3, 50), tx=pick(3, 20), ty=pick(2, 12)
            ),
        ),
    ),
    mistakes=MISTAKES,
    hints=(
        "The launch has enough threads in x for the columns of C and in y for its rows. The rule from "
        "vector_add gives a thread's number in x; the same rule with y in place of x gives its number in y. "
        "The number in x is the column, the one in y the row. There are M rows and N columns, and a thread "
        "has work only if both its row and its column exist.",
        "One running sum per thread, a plain float variable that starts at zero. One loop, over k, in which "
        "row and column stay as they are: in round k the thread takes the element of A in its own row and "
        "in column k, and the element of B in row k and in its own column, and adds their product. Store "
        "the sum once, after the loop.",
        "The place of an element is the number of elements before it: all the rows above it, each as long "
        "as a row of that matrix, and the elements to its left. A row of A has K elements, a row of B has "
        "N, a row of C has N. So in A one step of k moves by 1, and in B it moves by N.",
    ),
)
