"""Puzzle 20: the gradient of a convolution's bias, one block per channel, with warp shuffles."""

from __future__ import annotations

import numpy as np

from backwarp.course import Case, Gate, Gradient, Launch, Mistake, Puzzle
from backwarp.course.conv_cases import COUNTED_BIAS
from backwarp.course.convolutions import backward_bias, loads_of_gradient, loss_of_bias
from backwarp.course.mistakes import slow
from backwarp.course.sizes import by_hand, gradient_check, integers, own_sizes

BIAS = "conv2d_backward_bias"
START = "int k = blockIdx.x;\n    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;"
STEPS = "for (int offset = 16; offset > 0; offset /= 2) {"
ADD = "sum += grad_output[(b * C_out + k) * plane + i % plane];"
FIRST = "sum = warp_sum(sum);\n    if (lane == 0) slot[warp] = sum;"
FILL = "if (lane == 0) slot[warp] = sum;\n    __syncthreads();"
TAKE = "sum = lane < warps ? slot[lane] : 0.0f;"
BELOW = """\
{
        __shared__ float part[1024];
        int k = blockIdx.x, tid = threadIdx.x, plane = H_out * W_out;
        float sum = 0.0f;
        for (int i = tid; i < batch * plane; i += blockDim.x) {
            sum += grad_output[(i / plane * C_out + k) * plane + i % plane];
        }
        part[tid] = sum;
        __syncthreads();
        for (int n = blockDim.x; n > 1; n = (n + 1) / 2) {
            int half = (n + 1) / 2;
            if (tid < n / 2) part[tid] += part[tid + half];
            __syncthreads();  // after every step
        }
        if (tid == 0) grad_bias[k] = part[0];
        return;
    }
    int k = 0, warp = 0, lane = 0;"""

MISTAKES = (
    slow("the kernel of puzzle 19", "__syncthreads();  // after every step", (START, BELOW)),
    slow(
        "every lane adds to one slot",
        "atomicAdd(&slot[0], sum);",
        (FIRST, "if (threadIdx.x == 0) slot[0] = 0.0f;\n    __syncthreads();\n    atomicAdd(&slot[0], sum);"),
        ("< warps ? slot[lane]", "== 0 ? slot[0]"),
    ),
    slow(
        "32 shuffles",
        "FLOP",
        (
            STEPS,
            "float all = 0.0f;\n    for (int n = 0; n < 32; n++) all += __shfl_sync(0xffffffff, "
            "value, n);\n    value = all;\n    for (int offset = 0; offset > 0; offset /= 2) {",
        ),
    ),
    slow(
        "warps add to the bias",
        "atomic updates of global memory",
        (
            FILL,
            "if (threadIdx.x == 0) grad_bias[k] = 0.0f;\n    __syncthreads();\n    "
            "if (lane == 0) atomicAdd(&grad_bias[k], sum);",
        ),
        ("warp == 0", "false"),
    ),
    Mistake(
        "mask of the lanes with a slot",
        (TAKE, "if (lane < warps) sum = slot[lane];\n        if (lane >= warps) return;"),
        expect="shuffle-mask",
    ),
    Mistake(
        "lanes without an element leave",
        ("float sum = 0.0f;", "float sum = 0.0f;\n    if (threadIdx.x >= batch * plane) return;"),
        expect=("shuffle-mask", "uninitialised-read"),
    ),
    Mistake(
        "shuffle in the loop",
        (
            (ADD, ADD.replace("sum += ", "sum += warp_sum(").replace("];", "]);")),
            (FIRST, "if (lane == 0) slot[warp] = sum;"),
        ),
        expect="shuffle-mask",
    ),
    Mistake(
        "first offset 32",
        ("16; offset", "32; offset"),
        says="Every sum of 32 lanes is twice as large as it should be: with offset 32, a lane adds itself.",
        hint=2,
    ),
    Mistake(
        "two barriers for two kinds of lanes",
        (
            FILL,
            "if (lane == 0) {\n        slot[warp] = sum;\n        __syncthreads();\n    }\n"
            "    if (lane > 0) __syncthreads();",
        ),
        expect="barrier-divergence",
    ),
)

PUZZLE = Puzzle(
    title="Gradient of the bias, with warp shuffles",
    part=3,
    teaches="How the lanes of a warp add up their numbers without shared memory and without a barrier.",
    practice="CUB has this as WarpReduce and BlockReduce; PyTorch's block reductions use warp shuffles too.",
    lines=20,
    kernels=(backward_bias(BIAS, lambda d, t: Launch(grid=d["C_out"], block=d["threads"])),),
    dims=lambda d: {"threads": 256, **d},
    gradient_of={BIAS: Gradient(loss_of_bias)},
    bench=dict(batch=64, C_out=256, H_out=56, W_out=56),
    cases=(
        by_hand(
            "bias_tiny",
            dict(batch=2, C_out=2, H_out=4, W_out=5, threads=64),
            grad_output=[[np.arange(1, 21), np.arange(20) % 3], [np.arange(21, 41), np.arange(20) % 4]],
        ),
        Case("one_warp", dict(batch=3, C_out=2, H_out=5, W_out=3, threads=32), "one slot"),
        Case("output_1x1", dict(batch=5, C_out=4, H_out=1, W_out=1, threads=64), "fewer elements than lanes"),
        gradient_check("numerical_gradient_check", dict(batch=2, C_out=3, H_out=3, W_out=4, threads=32)),
        Case("one_channel", dict(batch=3, C_out=1, H_out=9, W_out=7, threads=992), "31 warps"),
        integers(dict(batch=2, C_out=3, H_out=7, W_out=6, threads=96), "exact sums; 3 warps"),
        Case("five_warps", dict(batch=3, C_out=5, H_out=9, W_out=7, threads=160)),
        Case("nothing_divides", dict(batch=3, C_out=17, H_out=9, W_out=7)),
        Case("largest_block", dict(batch=2, C_out=2, H_out=24, W_out=24, threads=1024), "32 warps"),
        Case("lenet_conv1", dict(batch=2, C_out=6, H_out=24, W_out=24), "LeNet's first layer"),
        own_sizes(batch=(257, 300), C_out=(2, 7), H_out=(2, 5), W_out=(2, 5), threads=(32, 160, 32)),
        COUNTED_BIAS,
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "barriers",
            lambda d: 2 * d["C_out"] * d["threads"] // 32,
            below=2304,
            hint=2,
            says="Within a warp no barrier is needed: lanes hand their numbers to each other with shuffles, "
            "and the block waits once or twice.",
        ),
        Gate(
            "shared_load_requests",
            lambda d: d["C_out"] * d["threads"] // 32,
            below=800,
            hint=3,
            says="Add up within the warp first, so that only one number per warp goes through shared memory.",
        ),
        Gate(
            "shared_atomic_serial",
            lambda d: d["C_out"] * d["threads"] // 32,
            hint=2,
            says="Lanes that update one address wait for each other: add up within the warp first.",
        ),
        Gate(
            "global_load_sectors",
            lambda d: 4.5 * loads_of_gradient(d),
            says="Neighbouring threads should read neighbouring elements, as in puzzle 19.",
        ),
        *Gate.limits(
            global_requests=lambda d: 1.1 * loads_of_gradient(d) + d["C_out"],
            global_requests_busiest=lambda d: 2 * loads_of_gradient(d) * 32 / d["threads"] + d["C_out"],
            flops=lambda d: 1.05 * (32 * loads_of_gradient(d) + 10 * d["C_out"] * d["threads"]),
            shared_wavefronts=lambda d: 2.5 * d["C_out"] * d["threads"] // 32,
        ),
    ),
    hints=(
        "The share of a thread is that of puzzle 19: number its elements over all images, begin with the "
        "thread's own number and go on in steps of the size of the block. A thread without elements has the "
        "share 0 and stays: a lane that has left cannot hand over its number.",
        "In warp_sum, each step adds what __shfl_down_sync returns: the value of another lane, so many lanes "
        "further on. The mask says who takes part: all 32 lanes, so all 32 bits are set. The offset begins "
        "at half a warp and is halved after every step, the last one being 1. Only lane 0 ends up with the "
        "sum of all; the others hold sums of fewer, which nobody needs.",
        "After warp_sum, lane 0 of each warp stores into the slot that has the number of its warp. One "
        "barrier, because the next reader is another warp. Then all 32 lanes of warp 0 call warp_sum once "
        "more: with a slot's number where the lane has one, with 0 where there is no such warp.",
    ),
)
