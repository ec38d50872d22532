"""Puzzle 19: the gradient of a convolution's bias, one block per channel, with a tree in shared memory."""

from __future__ import annotations

from backwarp.course import Case, Gate, Gradient, Launch, Mistake, Puzzle
from backwarp.course.conv_cases import COUNTED_BIAS
from backwarp.course.convolutions import backward_bias, loads_of_gradient, loss_of_bias
from backwarp.course.mistakes import slow
from backwarp.course.sizes import by_hand, gradient_check, integers, own_sizes

BIAS = "conv2d_backward_bias"
FILL = "part[tid] = sum;\n    __syncthreads();"
TREE = "for (int n = blockDim.x; n > 1; n = (n + 1) / 2) {"
HALF = "int half = (n + 1) / 2;"
STEP = "if (tid < n / 2) part[tid] += part[tid + half];\n        __syncthreads();"
WHOLE_TREE = f"{TREE}\n        {HALF}\n        {STEP}\n    }}"
START = "int k = blockIdx.x;\n    int tid = threadIdx.x;"
BELOW = """\
{
        int k = blockIdx.x * blockDim.x + threadIdx.x;
        if (k >= C_out) return;
        float sum = 0.0f;
        for (int b = 0; b < batch; b++) {
            for (int i = 0; i < H_out * W_out; i++) {
                sum += grad_output[(b * C_out + k) * H_out * W_out + i];
            }
        }
        grad_bias[k] = sum;
        return;
    }
    int k = 0, tid = 0;"""
INTERLEAVED = """\
for (int s = 1; s < blockDim.x; s *= 2) {
        if (tid % (2 * s) == 0 && tid + s < blockDim.x) part[tid] += part[tid + s];
        __syncthreads();
    }"""
SERIAL = """\
if (tid == 0) {
        for (int t = 1; t < blockDim.x; t++) part[0] += part[t];
    }"""
ADD_TO_ONE = """\
if (tid == 0) part[0] = 0.0f;
    __syncthreads();
    atomicAdd(&part[0], sum);
    __syncthreads();"""

MISTAKES = (
    slow(
        "the kernel of puzzle 09", "sum += grad_output[(b * C_out + k) * H_out * W_out + i];", (START, BELOW)
    ),
    slow("interleaved addressing", "if (tid % (2 * s) == 0", (WHOLE_TREE, INTERLEAVED)),
    slow("thread 0 adds up all parts", "part[0] += part[t];", (WHOLE_TREE, SERIAL)),
    slow(
        "everybody adds to one element",
        "rounds of atomic updates of shared memory",
        (FILL, ADD_TO_ONE),
        (WHOLE_TREE, ""),
    ),
    slow(
        "the first warp alone",
        "by the busiest warps",
        (
            "i < batch * plane; i += blockDim.x",
            "tid < 32 && i < batch * plane; i += min(32, (int)blockDim.x)",
        ),
    ),
    Mistake(
        "barrier in the if",
        (
            STEP,
            "if (tid < n / 2) {\n            part[tid] += part[tid + half];\n            "
            "__syncthreads();\n        }",
        ),
        expect="barrier-divergence",
        line="others went around it",
    ),
    Mistake(
        "barrier behind a break",
        (STEP, "if (tid >= n / 2) break;\n        part[tid] += part[tid + half];\n        __syncthreads();"),
        expect="barrier-divergence",
        line="others went around it",
    ),
    Mistake("no barrier within a warp", (STEP, "__sync", "if (n > 32) __sync"), expect="race"),
)

PUZZLE = Puzzle(
    title="Gradient of the bias, a block per channel",
    part=3,
    teaches="How the threads of a block add up numbers: a tree in shared memory, a barrier after each step.",
    practice="Mark Harris's 'Optimizing Parallel Reduction in CUDA', which comes with NVIDIA's CUDA samples, "
    "climbs the same steps.",
    lines=15,
    kernels=(
        backward_bias(
            BIAS, lambda d, t: Launch(grid=d["C_out"], block=d["threads"], shared_mem=4 * d["threads"])
        ),
    ),
    dims=lambda d: {"threads": 256, **d},
    gradient_of={BIAS: Gradient(loss_of_bias)},
    bench=dict(batch=64, C_out=256, H_out=56, W_out=56),
    cases=(
        by_hand(
            "bias_tiny",
            dict(batch=2, C_out=2, H_out=2, W_out=3, threads=6),
            grad_output=[
                [[[1, 2, 3], [4, 5, 6]], [[2, 0, 1], [1, 0, 3]]],
                [[[3, 0, 2], [-1, 3, 1]], [[1, 1, 1], [0, -4, 2]]],
            ],
        ),
        Case("one_thread", dict(batch=2, C_out=3, H_out=2, W_out=2, threads=1), "a tree without steps"),
        Case("output_1x1", dict(batch=5, C_out=4, H_out=1, W_out=1, threads=32), "fewer than threads"),
        gradient_check("numerical_gradient_check", dict(batch=2, C_out=3, H_out=3, W_out=4, threads=16)),
        Case("one_channel", dict(batch=3, C_out=1, H_out=5, W_out=3, threads=64)),
        Case("block_of_7", dict(batch=3, C_out=2, H_out=4, W_out=5, threads=7), "7, 4, 2, 1 parts"),
        integers(dict(batch=2, C_out=3, H_out=7, W_out=6, threads=96)),
        Case("block_of_50", dict(batch=2, C_out=5, H_out=6, W_out=9, threads=50), "50, 25, 13 ... 1 parts"),
        Case("nothing_divides", dict(batch=3, C_out=17, H_out=9, W_out=7)),
        Case("largest_block", dict(batch=2, C_out=2, H_out=24, W_out=24, threads=1024)),
        Case("lenet_conv1", dict(batch=2, C_out=6, H_out=24, W_out=24), "LeNet's first layer"),
        own_sizes(batch=(257, 300), C_out=(2, 7), H_out=(2, 5), W_out=(2, 5), threads=(20, 140)),
        COUNTED_BIAS,
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_load_sectors",
            lambda d: 4.5 * loads_of_gradient(d),
            below=16_384,
            says="Threads of a warp that sit next to each other should read elements that lie next to each "
            "other: 32 floats in a row are 4 sectors.",
        ),
        Gate(
            "divergent_branches",
            lambda d: 16 * d["C_out"],
            hint=3,
            says="In a step of the tree, the threads that add should be the first of the block: then whole "
            "warps work or rest, and only the last 5 steps divide a warp.",
        ),
        Gate(
            "shared_conflicts",
            0,
            hint=3,
            says="Threads in a row should use elements in a row: with a step between them, several lanes "
            "want the same bank and wait for each other.",
        ),
        Gate(
            "shared_load_requests",
            lambda d: 40 * d["C_out"],
            hint=3,
            says="One thread that adds up all parts leaves the others idle: add pairs, all at the same time.",
        ),
        # additions as with puzzle 20's shuffles, in every warp and twice; two barriers for each step of the tree
        *Gate.limits(
            global_requests=lambda d: 1.1 * loads_of_gradient(d) + d["C_out"],
            global_requests_busiest=lambda d: 2 * loads_of_gradient(d) * 32 / d["threads"] + d["C_out"],
            flops=lambda d: 1.05 * (32 * loads_of_gradient(d) + 10 * d["C_out"] * d["threads"]),
            shared_store_requests=lambda d: 40 * d["C_out"],
            barriers=lambda d: 2 * d["C_out"] * d["threads"].bit_length() * d["threads"] // 32,
        ),
    ),
    hints=(
        "Count the elements of channel k from 0 to batch * H_out * W_out - 1, image after image. Thread tid "
        "takes number tid and then every blockDim.x-th, so that at any time the threads of a warp read "
        "neighbours. Element number i lies in image i divided by the size of a plane, and the remainder is "
        "its place in that plane.",
        "A part must be in shared memory before another thread reads it. So: store your own sum under your "
        "own number, then let all threads of the block wait. Threads without any element take part too, with "
        "0. At the end part 0 holds everything, and one thread is enough to store it.",
        "One step turns n parts into about half as many: the lower half stays, and thread t adds part t + "
        "half to part t. For an odd n, half is rounded up, and the middle part finds no partner, so only n / "
        "2 threads (rounded down) add. The barrier comes after the if, where all threads pass, and inside "
        "the loop.",
    ),
)
