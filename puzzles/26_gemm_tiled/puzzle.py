"""Puzzle 26: a matrix product through tiles in shared memory, with tails in all three dimensions."""

from __future__ import annotations

from backwarp.course import Case, Gate, Launch, Mistake, Puzzle, ceil_div
from backwarp.course.convolutions import matmul
from backwarp.course.mistakes import slow
from backwarp.course.sizes import drawn, integers, own_sizes, with_inputs
from backwarp.course.tile_limits import tile_limits

KERNEL = "matmul"
LOOP = "for (int start = 0; start < K; start += TILE) {"
FILL_A = "a[y][x] = row < M && start + x < K ? A[row * K + start + x] : 0.0f;"
ADD = "sum += a[y][k] * b[k][x];"
PUZZLE_02 = """for (int k = 0; k < K && row < M && col < N; k++) {
        sum += A[row * K + k] * B[k * N + col];
    }
    """
FIRST_WARP = """\
for (int i = y * TILE + x; y * TILE < 32 && i < TILE * TILE; i += 32) {
            int v = i / TILE, u = i % TILE, m = row - y + v, n = col - x + u;
            a[v][u] = m < M && start + u < K ? A[m * K + start + u] : 0.0f;
            b[v][u] = start + v < K && n < N ? B[(start + v) * N + n] : 0.0f;
        }"""

MISTAKES = (
    slow(
        "no tiles, as in puzzle 02",
        "sum += A[row * K + k] * B[k * N + col];",
        (LOOP, PUZZLE_02 + LOOP.replace("start = 0", "start = K")),
    ),
    slow(
        "B not from its tile",
        "sum += a[y][k] * B[(start + k) * N + col];",
        (ADD, "if (start + k < K && col < N) sum += a[y][k] * B[(start + k) * N + col];"),
    ),
    slow(
        "tile of B kept by columns",
        "sum += a[y][k] * b[x][k];",
        ("b[y][x] =", "b[x][y] ="),
        ("b[k][x];", "b[x][k];"),
    ),
    slow(
        "no tiles, and FLOP that nobody needs",
        "FLOP, target at most 550,502",
        (
            LOOP,
            PUZZLE_02 + "for (int i = 0; i < 7 * K; i++) {\n        "
            "if (fmaf(sum, 1.5f, i) > 1e30f) sum += 1.0f;\n    }\n    "
            + LOOP.replace("start = 0", "start = K"),
        ),
    ),
    slow(
        "the first warp fills the tiles",
        "by the busiest warps",
        (FILL_A, FIRST_WARP),
        ("b[y][x] = start + y < K && col < N ? B[(start + y) * N + col] : 0.0f;", ""),
    ),
    Mistake("tiles not waited for", ("__syncthreads();  // both tiles are full", ""), expect="race"),
    Mistake(
        "blocks exchanged",
        (("x * TILE", "y * TILE"), ("y * TILE + y", "x * TILE + y")),
        says="Block (x, y) computes the tile of block (y, x): x counts the tiles along N, the columns of C, "
        "and y those along M.",
    ),
)

PUZZLE = Puzzle(
    title="Matrix product through tiles",
    part=4,
    teaches="How the threads of a block read each element of a tile once, for all of them to use.",
    practice="This is the example of the chapter on shared memory in NVIDIA's CUDA C++ Programming Guide.",
    lines=16,
    kernels=(
        matmul(
            KERNEL,
            lambda d, t: Launch(
                grid=(ceil_div(d["N"], t["TILE"]), ceil_div(d["M"], t["TILE"])), block=(t["TILE"], t["TILE"])
            ),
        ),
    ),
    bench=dict(M=4096, N=4096, K=4096),
    cases=(
        with_inputs(
            "matmul_tiny_2x3",
            dict(M=2, N=3, K=4),
            "that of puzzle 02; done by hand in the lesson",
            A=[[1, 2, 0, -1], [3, 1, 2, 4]],
            B=[[2, 0, 1], [1, 5, -2], [0, 1, 3], [1, 2, 0]],
        ),
        Case("one_element", dict(M=1, N=1, K=20), "a row times a column, two tiles long"),
        Case("one_product", dict(M=5, N=7, K=1), "a tile with one step in it"),
        Case("tails_of_one", dict(M=17, N=17, K=17), "one more than a tile, everywhere"),
        integers(dict(M=7, N=10, K=35)),
        Case("small_tiles", dict(M=9, N=10, K=11), "drawn in the lesson, with tiles of 4 x 4"),
        Case("full_tiles", dict(M=16, N=32, K=16), "nothing to guard"),
        Case("tall", dict(M=50, N=9, K=21), "more rows than columns"),
        Case("nothing_divides", dict(M=33, N=50, K=37), "4 x 3 blocks, 3 pairs of tiles"),
        own_sizes(M=(17, 60), N=(17, 60), K=(17, 60)),
        Case(
            "counted",
            dict(M=64, N=64, K=64),
            "4 x 4 blocks, 4 pairs of tiles; this one is counted",
            again=drawn(M=(128, 192, 64), N=(128, 192, 64), K=(96, 128, 32)),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "bytes_per_flop",
            0.3,
            below=2.03,
            says="With tiles in shared memory, an element of A is read once for every TILE columns of C, and "
            "one of B once for every TILE rows: a larger TILE moves less. Without them each product reads "
            "two elements, and where x does not go along the rows of both matrices, whole sectors for one "
            "element each.",
        ),
        Gate(
            "conflicts_per_request",
            0.2,
            hint=3,
            says="Lanes that want different words of one bank wait for each other (puzzle 25): the thread's "
            "x should be the last index.",
        ),
        *tile_limits(KERNEL, lambda d: [(d["M"], d["N"], d["K"])]),
    ),
    hints=(
        "A block computes a square of C. For that it needs TILE rows of A and TILE columns of B, all of them "
        "over the whole length of K, too much to keep. So it walks along K in stretches of TILE steps. The "
        "part of A's rows that belongs to one stretch is a square tile, and so is that of B's columns. There "
        "are as many elements in a tile as threads in the block: each thread copies one of A and one of B.",
        "The sum lives through all stretches; it is set to 0 once. In every stretch: copy, wait, add up TILE "
        "products, wait. The first barrier is there because a thread uses what others have copied; the "
        "second because nobody may overwrite a tile while others still read it. All threads of the block "
        "take part in both, including those that have no element of C: they copy for the others. An element "
        "that does not exist counts as 0, and adds nothing to any sum.",
        "When copying, the thread's x goes along the row, in A and in B, so that neighbours read neighbours. "
        "In A the row is the thread's row of C and x counts steps from the start of the stretch; in B the "
        "column is the thread's column of C and y counts the steps. When multiplying, step k takes the tile "
        "of A at the thread's y and k, and the tile of B at k and the thread's x.",
    ),
)
