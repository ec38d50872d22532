"""Puzzle 27: a matrix product with a square of C to a thread, kept in registers."""

from __future__ import annotations

from backwarp.course import Case, Gate, Launch, Mistake, Puzzle, ceil_div
from backwarp.course.convolutions import matmul
from backwarp.course.mistakes import mistakes_in, slow
from backwarp.course.sizes import drawn, integers, own_sizes, with_inputs

KERNEL = "matmul"
ONE_READ = """if (columns % 4 == 0) {
            v"""


def sized(**sizes):
    """The edits that give constants other values."""
    now = dict(BM=64, BN=64, TM=8, TN=8)
    text = "constexpr int {} = {};".format
    return tuple((text(name, now[name]), text(name, size)) for name, size in sizes.items())


PUZZLE_26 = """{
        __shared__ float as[16][16], bs[16][16];
        int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
        float all = 0.0f;
        for (int first = 0; first < K; first += 16) {
            as[y][x] = row < M && first + x < K ? A[row * K + first + x] : 0.0f;
            bs[y][x] = first + y < K && col < N ? B[(first + y) * N + col] : 0.0f;
            __syncthreads();
            for (int k = 0; k < 16; k++) all += as[y][k] * bs[k][x];
            __syncthreads();
        }
        if (row < M && col < N) C[row * N + col] = all;
        return;
    }
    """
FILLS = "for (int i = t; i < BM * BK / 4; i += THREADS) {", "for (int i = t; i < BK * BN / 4; i += THREADS) {"
HELPERS = "float4 load4", "void store4"
#: not expanded in place: the same kernel, compiled in a third of the time
SHORT = tuple((f"__device__ {helper}", f"__noinline__ __device__ {helper}") for helper in HELPERS)
SHORT += tuple((fill, '_Pragma("unroll 1") ' + fill) for fill in FILLS)


ROW_OF_SUMS = """for (int i = 0; i < TM; i++) {
                for (int j = 0; j < TN; j++) sum"""

MISTAKES = (
    slow(
        "blocks of 32 x 32",
        "v = *reinterpret_cast<const float4*>(p);",
        ("BM = 64;", "BM = 32;"),
        ("BN = 64;", "BN = 32;"),
        ("__device__ float4", "__noinline__ __device__ float4"),
        ("__device__ void", "__noinline__ __device__ void"),
        ("for (int i = t; i < BM", '_Pragma("unroll 1") for (int i = t; i < BM'),
        ("for (int i = t; i < BK", '_Pragma("unroll 1") for (int i = t; i < BK'),
    ),
    *mistakes_in(
        "",
        slow(
            "an element per thread, as in puzzle 26",
            "for (int k = 0; k < 16; k++) all += as[y][k] * bs[k][x];",
            ("constexpr int THREADS", PUZZLE_26 + "constexpr int THREADS"),
            *sized(BM=16, BN=16, TM=1, TN=1),
        ),
        slow(
            "sums indexed at run time",
            "4,784,128 bytes of local memory",
            (ROW_OF_SUMS, "#pragma unroll 1\n            " + ROW_OF_SUMS),
        ),
        slow("tile of A not padded", "a[k][m] = v.x", ("BK][BM + 4", "BK][BM")),
        Mistake(
            "aligned or not", (ONE_READ, "columns % 4 == 0", "column + 3 < columns"), expect="misaligned"
        ),
        Mistake("tile of A padded by one", ("4], b[BK", "1], b[BK"), expect="misaligned"),
        Mistake(
            "left missing",
            ("left + n", "n"),
            says="Every block uses the first columns of B: the block's first column is missing where B is read.",
            hint=2,
        ),
        also=SHORT,
    ),
)


def in_blocks(d):
    """FLOP, with all that a block computes where C ends within it."""
    m, n, k = (ceil_div(d[size], d[tile]) * d[tile] for size, tile in (("M", "BM"), ("N", "BN"), ("K", "BK")))
    return 2 * m * n * k


PUZZLE = Puzzle(
    title="Matrix product in registers",
    part=4,
    teaches="How a thread with 8 x 8 sums uses every number that it reads from a tile eight times.",
    practice="CUTLASS has the same levels and one between them: tiles for a block, for a warp, for a thread.",
    lines=60,
    kernels=(
        matmul(
            KERNEL,
            lambda d, t: Launch(
                grid=(ceil_div(d["N"], t["BN"]), ceil_div(d["M"], t["BM"])),
                block=(t["BN"] // t["TN"], t["BM"] // t["TM"]),
            ),
        ),
    ),
    bench=dict(M=4096, N=4096, K=4096),
    cases=(
        with_inputs(
            "matmul_tiny_2x3",
            dict(M=2, N=3, K=4),
            "that of puzzle 02; drawn in the lesson",
            A=[[1, 2, 0, -1], [3, 1, 2, 4]],
            B=[[2, 0, 1], [1, 5, -2], [0, 1, 3], [1, 2, 0]],
        ),
        Case("one_element", dict(M=1, N=1, K=20), "three tiles long"),
        Case("one_product", dict(M=5, N=7, K=1), "a tile with one step in it"),
        integers(dict(M=7, N=10, K=35)),
        Case("rows_of_fours", dict(M=30, N=36, K=12), "all rows aligned"),
        Case("A_aligned", dict(M=9, N=33, K=8), "rows of A are aligned, those of B and C are not"),
        Case("B_aligned", dict(M=66, N=8, K=9), "rows of B and C are aligned, those of A are not"),
        Case("nothing_divides", dict(M=67, N=70, K=21), "2 x 2 blocks"),
        own_sizes(M=(65, 140), N=(65, 140), K=(9, 40)),
        Case(
            "counted",
            dict(M=64, N=128, K=64),
            "2 blocks, 8 pairs of tiles; this one is counted",
            again=drawn(M=(128, 256, 128), N=256, K=(80, 112, 16)),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "shared_requests_per_flop",
            0.005,
            below=0.0332,
            hint=3,
            says="A thread with one sum takes two numbers from the tiles for every product. With a square of "
            "sums it uses each number for a whole row or column of them; and it can take four at a time.",
        ),
        Gate(
            "bytes_per_flop",
            0.1,
            below=0.281,
            hint=2,
            says="An element of A is read once for every BN columns of C, and one of B once for every BM "
            "rows: larger tiles move less. And a request moves whole sectors of 32 bytes: fours that the "
            "lanes of a warp store together should lie next to each other, so give a lane two fours of "
            "columns that are far apart, not 8 side by side.",
        ),
        *Gate.limits(
            flops=lambda d: 1.05 * in_blocks(d),
            # a float for each lane: fours need a quarter
            global_requests=lambda d: (
                1.1 * (d["K"] * (d["M"] * ceil_div(d["N"], 64) + d["N"]) + d["M"] * d["N"]) / 32
            ),
            # 4 x 4 sums in a thread: half a number for each product
            shared_wavefronts=lambda d: 1.25 * in_blocks(d) / 2 / 32 / 2,
            shared_conflicts=lambda d: in_blocks(d) / 8192,
            barriers=lambda d: in_blocks(d) / 4096,
        ),
    ),
    hints=(
        "A float4 holds x, y, z and w, 16 bytes, and its address must be a multiple of 16. A, B and C begin "
        "at such an address, as do tiles that are declared so, and each row if their length is a multiple of "
        "4; a column that is a multiple of 4 keeps it. In such a row there is no partial four either: if the "
        "first is inside, all are. In every other matrix, each of the four needs its own comparison, and "
        "those that are missing count as 0.",
        "The tiles have BM * BK / 4 and BK * BN / 4 fours. The threads of the block take one each, then the "
        "next as many, until all are copied. From the number of a four follow its row and its first column, "
        "by division and remainder. Four neighbours of A are four steps of one row; in the transposed tile "
        "they lie in four rows, so they are stored one by one. Four neighbours of B stay neighbours.",
        "A thread with eight neighbouring columns would read its second four where another thread reads its "
        "first, from the same banks. So the thread takes the four at 4 x, and again BN / 2 further on: then "
        "the threads of a row read neighbouring fours. The same with rows, and the sums must be stored in "
        "the same places. The 8 and 8 numbers and the 64 sums are plain arrays in the thread; with loops "
        "whose bounds are known at compile time they become registers.",
    ),
)
