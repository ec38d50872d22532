"""Puzzle 35: the weight gradient in TF32 and a matrix product in half, on tensor cores."""

from __future__ import annotations

from backwarp.reference import conv, dense
from backwarp.reference.half import tf32

from backwarp.course import Case, Gate, Gradient, In, Kernel, Launch, Out, Puzzle, ceil_div
from backwarp.course.conv_cases import square
from backwarp.course.convolutions import loss_of_weights
from backwarp.course.mistakes import Mistake, mistakes_in, slow
from backwarp.course.sizes import Ints, by_hand, drawn, gradient_check, integers, own_sizes

TF32, HALF = "conv2d_backward_weights_tf32", "matmul_half"


def gradient(a, d):
    """The weight gradient of the rounded inputs."""
    filters = d["C_out"], d["C_in"], d["F"], d["F"]
    return conv.backward_weights(tf32(a["grad_output"]), tf32(a["input"]), filters)


def representable(rng, a, d):
    """Inputs of a convolution that TF32 holds as they are: finite differences know no rounding."""
    sizes = ("batch", "C_in", "H", "W") if a else ("batch", "C_out", "H_out", "W_out")
    return tf32(rng.standard_normal([d[n] for n in sizes]))


A_FRAGMENT = "x[e] = to_tf32(grads[g + e % 2 * 8][k + t + e / 2 * 4]);"
MULTIPLY = "mma_m16n8k8_tf32(sum, x, y);"
B_ROWS = "ldmatrix_x4_trans(y, &b[place(k + lane % 16, n + lane / 16)]);"
SCALAR = """for (int z = k; z < k + 8; z++) {
                for (int e = 0; e < 4; e++) {
                    float u = grads[g + e / 2 * 8][z], v = windows[8 * warp + 2 * t + e % 2][z];
                    sum[e] += u * v;
                }
            }"""
ROUNDED = SCALAR.replace("u * v", "__uint_as_float(to_tf32(u)) * __uint_as_float(to_tf32(v))")
BY_HAND = """for (int e = 0; e < 4; e++) {
                    y[e] = 0;
                    for (int z = 0; z < 2; z++) {
                        int row = k + e % 2 * 8 + lane % 4 * 2 + z, at = place(row, n + e / 2) + lane / 4;
                        y[e] |= (unsigned)__half_as_ushort(b[at]) << 16 * z;
                    }
                }"""
FROM_GLOBAL = """int i = start + k + t + e / 2 * 4;
                int q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
                int m = top + g + e % 2 * 8;
                bool inside = i < positions && m < C_out;
                x[e] = to_tf32(inside ? grad_output[((b * C_out + m) * H_out + p) * W_out + q] : 0.0f);"""
#: loops that are not unrolled: the same kernel, compiled in a fraction of the time
LOOPS = {
    TF32: ("for (int m = warp", "for (int n = warp", "for (int k = 0; k < 32"),
    HALF: (
        "for (int i = threadIdx.x",
        "for (int k = 0; k < 64",
        "for (int n = 0; n < 8; n += 2)",
        "for (int n = 0; n < 8; n++)",
    ),
}
SHORT = {
    kernel: tuple((loop, f'_Pragma("unroll 1") {loop}') for loop in loops) for kernel, loops in LOOPS.items()
}

MISTAKES = (
    *mistakes_in(
        TF32,
        slow("scalar products of the rounded numbers, as in puzzle 27", "sum[e] +=", (MULTIPLY, ROUNDED)),
        slow("rows not padded", "to_tf32(", ("PAD = 4;", "PAD = 0;")),
        slow("A's fragments straight from global memory", "x[e] = to_tf32(", (A_FRAGMENT, FROM_GLOBAL)),
        slow(
            "scalar products beside mma.sync that nobody needs",
            "FLOP, target at most 688,128",
            (
                MULTIPLY,
                ROUNDED
                + """
            float more[4] = {};
            for (int n = 0; n < 5; n++) mma_m16n8k8_tf32(more, x, y);
            if (more[0] > 1e30f) sum[0] += 1.0f;""",
            ),
        ),
        Mistake(
            "not rounded",
            (("x[e] = to_tf32", "x[e] = __float_as_uint"), ("= to_tf32", "= __float_as_uint")),
            says="Numbers are cut off after 10 bits, not rounded: mma.sync ignores the rest. Use to_tf32.",
        ),
        Mistake(
            "scalar products of floats",
            (MULTIPLY, SCALAR),
            says="This is the product of the full floats, which is more accurate than what tensor cores "
            "compute, but not what the puzzle asks for: round both numbers with to_tf32, and multiply with "
            "mma.sync.",
        ),
        Mistake(
            "registers 1 and 2 exchanged",
            (("e % 2 * 8][k + t + e / 2", "e / 2 * 8][k + t + e % 2")),
            says="Registers 1 and 2 of A are swapped: 1 is 8 rows further down, 2 is 4 steps further on.",
            hint=2,
        ),
        also=SHORT[TF32],
    ),
    *mistakes_in(
        HALF,
        slow("B's fragments loaded half by half", "__half_as_ushort(b[at])", (B_ROWS, BY_HAND)),
        slow("not swizzled", "ldmatrix_x4", ("(piece ^ row % 8)", "piece")),
        also=SHORT[HALF],
    ),
)


def pairs(d):
    """Pairs of tiles, of 16 x 32 and 32 x 32, that all blocks of the first kernel fill."""
    positions = d["batch"] * d["H_out"] * d["W_out"]
    return ceil_div(d["C_out"], 16) * ceil_div(d["weights"], 32) * ceil_div(positions, 32)


IDLE = "Products computed one by one leave the tensor cores idle: one mma.sync computes {} of them."
FROM_TILES = "Global memory is read too often: take the fragments from the tiles."

PUZZLE = Puzzle(
    title="Tensor cores",
    part=4,
    teaches="How the lanes of a warp hold matrices between them and multiply them with one instruction.",
    practice="CUTLASS issues this mma.sync on Ampere, and loads fragments by ldmatrix from swizzled tiles.",
    lines=29,
    kernels=(
        Kernel(
            TF32,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                In("input", b="batch", c="C_in", h="H", w="W"),
                Out("grad_weights", k="C_out", c="C_in", r="F", s="F"),
                *Ints("batch C_in H W C_out F"),
            ),
            launch=lambda d, t: Launch((ceil_div(d["weights"], 32), ceil_div(d["C_out"], 16)), 128),
            reference=gradient,
        ),
        Kernel(
            HALF,
            params=(
                In("A", dtype="float16", m="M", k="K"),
                In("B", dtype="float16", k="K", n="N"),
                Out("C", m="M", n="N"),
                *Ints("M N K"),
            ),
            launch=lambda d, t: Launch((ceil_div(d["N"], 64), ceil_div(d["M"], 64)), 128),
            reference=lambda a, d: dense.matmul(a["A"], a["B"]),
        ),
    ),
    dims=lambda d: (
        {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "weights": d["C_in"] * d["F"] ** 2}
        if "F" in d
        else {}
    ),
    gradient_of={TF32: Gradient(loss_of_weights)},
    bench=square(128, 64, 56, 56, 64, 3, M=4096, N=4096, K=4096),
    cases=(
        by_hand(
            "tensor_tiny",
            square(1, 1, 3, 3, 1, 2),
            kernels=(TF32,),
            grad_output=[[[[1, 2], [3, -1]]]],
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
        ),
        Case("drawn", square(2, 8, 2, 2, 16, 1, M=16, N=8, K=16), "one mma fills the result; the picture"),
        Case("output_1x1", square(3, 2, 3, 3, 3, 3), "3 positions", kernels=(TF32,)),
        Case("one_element", dict(M=1, N=1, K=17), "17 products", kernels=(HALF,)),
        gradient_check(
            "tensor_numerical_gradient_check",
            square(2, 2, 4, 5, 2, 2),
            "each weight moved by epsilon; inputs that TF32 holds",
            kernels=(TF32,),
            inputs={"grad_output": representable, "input": representable},
        ),
        integers(square(2, 3, 9, 6, 4, 3, M=9, N=19, K=35), "exact sums; H > W"),
        Case("nothing_divides", square(3, 4, 5, 6, 17, 3, M=67, N=70, K=90), "2 x 2 blocks each"),
        Case("lenet_conv1", square(2, 1, 28, 28, 6, 5), "LeNet's first", kernels=(TF32,)),
        own_sizes(
            batch=(257, 262),
            C_in=(1, 4),
            H=(2, 4),
            W=(2, 4),
            C_out=(17, 20),
            F=(1, 2),
            M=(65, 140),
            N=(65, 140),
            K=(17, 60),
        ),
        Case(
            "counted",
            square(2, 6, 12, 12, 16, 5, M=64, N=128, K=64),
            "LeNet's second; 2 blocks of the product",
            again=drawn(
                batch=3, C_in=(7, 9), H=10, W=18, C_out=32, F=3, M=128, N=(192, 256, 64), K=(128, 192, 64)
            ),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate("scalar_share", 10, kernels=(TF32,), below=100, says=IDLE.format("1,024")),
        Gate(
            "shared_conflicts",
            0,
            kernels=(TF32,),
            hint=2,
            says="The lanes of a register take 4 neighbours from each of 8 rows: make the rows of the tiles "
            "so much longer that these fall into 32 different banks.",
        ),
        Gate("bytes_per_flop", 0.45, kernels=(TF32,), says=FROM_TILES),
        Gate("scalar_share", 10, kernels=(HALF,), below=100, says=IDLE.format("2,048")),
        Gate(
            "shared_conflicts",
            0,
            kernels=(HALF,),
            hint=3,
            says="Each 8 x 8 matrix is fetched at once if its 8 rows of 16 bytes lie in different banks; in "
            "rows of 128 bytes without a swizzle, a column of pieces lies in the same banks. Swizzle, or "
            "make the rows longer.",
        ),
        Gate(
            "shared_requests_per_flop",
            0.0004,
            kernels=(HALF,),
            below=0.00128,
            hint=3,
            says="Too many requests to shared memory: one ldmatrix_x4 loads four 8 x 8 matrices.",
        ),
        Gate("bytes_per_flop", 0.15, kernels=(HALF,), says=FROM_TILES),
        *Gate.limits(
            TF32,
            flops=lambda d: 1.05 * 2 * 16 * 32 * 32 * pairs(d),
            global_requests=lambda d: 1.1 * 48 * pairs(d) + 20 * ceil_div(d["weights"], 32),
            shared_wavefronts=lambda d: 1.1 * (48 + 96) * pairs(d),
            barriers=lambda d: 1.25 * 2 * 4 * pairs(d),
        ),
        *Gate.limits(
            HALF,
            flops=lambda d: 1.05 * 2 * d["M"] * d["N"] * d["K"],
            global_requests=lambda d: 1.1 * (32 * d["M"] * d["N"] * d["K"] / 64**3 + d["M"] * d["N"] / 32),
            shared_wavefronts=lambda d: 1.1 * (128 + 320) * d["M"] * d["N"] * d["K"] / 64**3,
            barriers=lambda d: 1.25 * 2 * 4 * d["M"] * d["N"] * d["K"] / 64**3,
        ),
    ),
    hints=(
        "A fragment is what one lane holds of a matrix: the drawings in mma.cuh say which elements, in which "
        "register. Two numbers are all you need: lane / 4, which picks a row of A and of the sums and a "
        "column of B, and lane % 4, which picks the step along k. TF32 has the range of a float and 10 bits "
        "after the point; round each number once, with to_tf32, on its way from the tile to a register. The "
        "sums stay float.",
        "First kernel: the tile of windows lies with a row for each weight, so column n of B is its row n, "
        "and warp w has rows 8 w to 8 w + 7. Both fragments are then read alike: a row by lane / 4, a "
        "position by lane % 4, starting at k. In one request the 32 lanes touch 8 rows and 4 neighbours in "
        "each. They fall into 32 banks if a row begins 4 banks after the one above it; 32 words are once "
        "around all the banks.",
        "Second kernel: lane 8 i + j names row j of matrix i. For A the matrices 0 to 3 are: upper left, "
        "lower left, upper right, lower right, so a lane's row and piece follow from the remainder and the "
        "quotient of lane by 16. For B it is the same with k for the rows; two registers then serve columns "
        "0 to 7, the other two columns 8 to 15. Swizzle: exclusive or of the piece's number with the last "
        "three bits of the row moves the 8 pieces of a column to 8 different places in their rows.",
    ),
)
