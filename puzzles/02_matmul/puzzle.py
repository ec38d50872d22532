"""Puzzle 02: the product of two matrices, one thread per element of the result."""

from __future__ import annotations

from backwarp.course import Case, Mistake, Puzzle
from backwarp.course.convolutions import matmul
from backwarp.course.sizes import integers, own_sizes, tiled, with_inputs

KERNEL = "matmul"
ROW = "int row = blockIdx.y * blockDim.y + threadIdx.y;"

MISTAKES = (
    Mistake(
        "x and y exchanged",
        (
            ("x * blockDim.x + threadIdx.x", "y * blockDim.y + threadIdx.y"),
            (ROW, "int row = blockIdx.x * blockDim.x + threadIdx.x;"),
        ),
        says="Rows or columns are never written: x is used for the row and y for the column; swap them.",
    ),
    Mistake(
        "guard swapped",
        ("M || col >= N", "N || col >= M"),
        expect=("unwritten", "out-of-bounds"),
        says="Threads leave although C has their element: row is compared with N and col with M.",
    ),
)
BLOCK = dict(tx=16, ty=16)

PUZZLE = Puzzle(
    title="Multiply two matrices",
    part=1,
    teaches="How a grid of two dimensions gives every thread a row and a column, and how rows lie in memory.",
    practice="cuBLAS and CUTLASS compute the same sums in tiles that are kept in shared memory and "
    "registers: puzzles 26 and 27.",
    lines=8,
    kernels=(matmul(KERNEL, tiled("N", "M")),),
    bench=dict(M=4096, N=4096, K=4096, tx=16, ty=16),
    cases=(
        with_inputs(
            "matmul_tiny_2x3",
            dict(M=2, N=3, K=4, tx=2, ty=2),
            "2 x 1 blocks of 2 x 2 threads; done by hand in the lesson",
            A=[[1, 2, 0, -1], [3, 1, 2, 4]],
            B=[[2, 0, 1], [1, 5, -2], [0, 1, 3], [1, 2, 0]],
        ),
        Case("one_element", dict(M=1, N=1, K=20, **BLOCK), "a row times a column"),
        Case("one_product", dict(M=5, N=7, K=1, **BLOCK), "a column times a row: sums of one product"),
        Case("one_row", dict(M=1, N=35, K=6, **BLOCK), "C is as wide as 3 blocks and 1 row high"),
        Case("one_column", dict(M=35, N=1, K=6, **BLOCK), "C is as high as 3 blocks and 1 column wide"),
        Case("blocks_8x4", dict(M=9, N=21, K=7, tx=8, ty=4), "3 x 3 blocks that are not square"),
        integers(dict(M=7, N=10, K=13, **BLOCK)),
        Case("full_blocks", dict(M=16, N=32, K=5, **BLOCK), "no thread without work"),
        Case("tall", dict(M=70, N=18, K=21, **BLOCK), "more rows than columns"),
        Case("nothing_divides", dict(M=33, N=50, K=37, **BLOCK), "4 x 3 blocks"),
        Case("matmul_lenet_256_120", dict(M=8, N=120, K=256, **BLOCK), "8 images, LeNet's third layer"),
        own_sizes(M=(11, 70), N=(11, 70), K=(3, 50), tx=(3, 20), ty=(2, 12)),
    ),
    mistakes=MISTAKES,
    hints=(
        "The launch has enough threads in x for the columns of C and in y for its rows. The rule from "
        "vector_add gives a thread's number in x; the same rule with y in place of x gives its number in y. "
        "The number in x is the column, the one in y the row. There are M rows and N columns, and a thread "
        "has work only if both its row and its column exist.",
        "One running sum per thread, a plain float variable that starts at zero. One loop, over k, in which "
        "row and column stay as they are: in round k the thread takes the element of A in its own row and in "
        "column k, and the element of B in row k and in its own column, and adds their product. Store the "
        "sum once, after the loop.",
        "The place of an element is the number of elements before it: all the rows above it, each as long as "
        "a row of that matrix, and the elements to its left. A row of A has K elements, a row of B has N, a "
        "row of C has N. So in A one step of k moves by 1, and in B it moves by N.",
    ),
)
