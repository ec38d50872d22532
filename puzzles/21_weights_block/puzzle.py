"""Puzzle 21: the gradient of a convolution's weights, one block per weight."""

from __future__ import annotations

from backwarp.course import Case, Gate, Gradient, Launch, Puzzle
from backwarp.course.conv_cases import FEW_CHANNELS, square
from backwarp.course.convolutions import backward_weights, loss_of_weights
from backwarp.course.mistakes import slow
from backwarp.course.sizes import Ints, by_hand, gradient_check, integers, own_sizes

WEIGHTS = "conv2d_backward_weights"
START = "int idx = blockIdx.x;\n    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;"
LOOP = "for (int i = threadIdx.x; i < batch * H_out * W_out; i += blockDim.x) {"
INPUT = "input[((b * C_in + c) * H + p + r) * W + q + s]"
BELOW = """\
{
        int idx = blockIdx.x * blockDim.x + threadIdx.x;
        if (idx >= C_out * C_in * F * F) return;
        int s = idx % F, r = idx / F % F, c = idx / (F * F) % C_in, k = idx / (F * F * C_in);
        float sum = 0.0f;
        for (int b = 0; b < batch; b++) {
            for (int p = 0; p < H_out; p++) {
                for (int q = 0; q < W_out; q++) {
                    float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
                    sum += grad * input[((b * C_in + c) * H + (p + r)) * W + (q + s)];
                }
            }
        }
        grad_weights[idx] = sum;
        return;
    }
    int idx = 0, warp = 0, lane = 0;"""

MISTAKES = (
    slow(
        "the kernel of puzzle 09",
        "sum += grad * input[((b * C_in + c) * H + (p + r)) * W + (q + s)];",
        (START, BELOW),
    ),
    slow(
        "products that nobody needs",
        "FLOP",
        (
            f"sum += grad * {INPUT};",
            f"float x = {INPUT}, y = x;\n        sum += grad * x;\n"
            "        for (int n = 0; n < 8; n++) y = y * x + grad;\n        if (y > 1e30f) sum += y;",
        ),
    ),
    slow(
        "the first warp alone",
        "by the busiest warps",
        (LOOP, LOOP.replace("i < batch", "warp == 0 && i < batch").replace("blockDim.x", "32")),
    ),
)


def loads(d):
    """Requests that bring both elements of every product, a float for each lane."""
    return 2 * d["weights"] * d["batch"] * d["H_out"] * d["W_out"] / 32


PUZZLE = Puzzle(
    title="Gradient of the weights, a block per weight",
    part=3,
    teaches="How a block shares a long sum of products: neighbouring threads read neighbouring elements.",
    practice="PyTorch's kernel for the weights of a depthwise convolution also has a block for each weight.",
    lines=30,
    kernels=(
        backward_weights(
            WEIGHTS,
            lambda d, t: Launch(grid=d["C_out"] * d["C_in"] * d["F"] ** 2, block=d["threads"]),
            Ints("batch C_in H W C_out F"),
        ),
    ),
    dims=lambda d: {
        "H_out": d["H"] - d["F"] + 1,
        "W_out": d["W"] - d["F"] + 1,
        "threads": 128,
        "weights": d["C_out"] * d["C_in"] * d["F"] ** 2,
        **d,
    },
    gradient_of={WEIGHTS: Gradient(loss_of_weights)},
    bench=square(128, 64, 56, 56, 64, 3),
    cases=(
        by_hand(
            "conv_bw_tiny_3x3",
            square(2, 1, 3, 3, 1, 2, threads=32),
            grad_output=[[[[1, 2], [3, -1]]], [[[2, 0], [-1, 1]]]],
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]], [[[0, 1, 2], [1, 2, 3], [2, 0, 1]]]],
        ),
        Case("output_1x1", square(3, 2, 4, 4, 3, 4, threads=64), "the filter covers the image"),
        Case("filter_1x1", square(2, 3, 4, 5, 4, 1, threads=992), "only channels"),
        Case("one_channel_wide", square(2, 1, 5, 8, 2, 3, threads=64), "W > H"),
        gradient_check("conv_bw_numerical_gradient_check", square(2, 2, 4, 5, 3, 2, threads=32)),
        integers(square(2, 3, 6, 9, 4, 3, threads=96), "exact sums; 3 warps"),
        Case("batch_odd", square(3, 4, 9, 7, 5, 2), "all sizes differ; H > W"),
        Case("nothing_divides", square(3, 2, 13, 11, 3, 3, threads=160)),
        Case("conv_bw_lenet_conv1", square(1, 1, 28, 28, 6, 5), "LeNet's first"),
        Case("lenet_conv2_part", square(1, 6, 12, 12, 2, 5, threads=64), "LeNet's second, 2 of 16 channels"),
        own_sizes(**FEW_CHANNELS, threads=(32, 96, 32)),
        Case(
            "counted",
            square(2, 4, 6, 34, 4, 3),
            "the case of the gates",
            again=lambda pick: dict(
                batch=3, C_in=pick(5, 6), C_out=pick(5, 6), F=(F := pick(2, 4, 2)), H=F + pick(5, 6), W=F + 63
            ),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_load_sectors",
            lambda d: 4.6 * loads(d),
            below=18_080,
            hint=2,
            says="Neighbouring threads should read neighbouring elements of grad_output and of the input: "
            "let q change fastest from thread to thread.",
        ),
        Gate(
            "global_requests",
            lambda d: 1.1 * loads(d) + d["weights"],
            hint=2,
            says="Every product needs one element of each array; read neighbours together, and none twice.",
        ),
        Gate(
            "barriers",
            lambda d: 2 * d["C_out"] * d["C_in"] * d["F"] ** 2 * d["threads"] // 32,
            hint=3,
            says="Add up within the warps with shuffles first, as in puzzle 20: the block waits only once.",
        ),
        *Gate.limits(
            global_requests_busiest=lambda d: 2 * loads(d) * 32 / d["threads"] + d["weights"],
            flops=lambda d: 1.05 * (32 * loads(d) + 10 * d["weights"] * d["threads"]),
            shared_wavefronts=lambda d: 2.5 * d["weights"] * d["threads"] // 32,
        ),
    ),
    hints=(
        "The block plays the part of a thread of puzzle 09, so the number of the weight is that of the "
        "block, and it is split as there. What was a loop over b, p and q becomes one list of products, "
        "numbered from 0: column fastest, then row, then image. Its length is batch * H_out * W_out.",
        "Thread t takes the products t, t + blockDim.x, and so on. The number of a product is split like "
        "that of a weight: the remainder by W_out is the column, and so on with what is left. The two "
        "indices are then exactly those of puzzle 09: grad_output with H_out and W_out, the input with H and "
        "W, and with r and s added.",
        "The end is puzzle 20: shuffles in every warp, one slot for each warp, one barrier, shuffles once "
        "more in warp 0, where lanes without a slot contribute 0. No thread may leave before that, whether "
        "it had a product or not. One lane stores the sum, with =, as the weight of the block.",
    ),
)
