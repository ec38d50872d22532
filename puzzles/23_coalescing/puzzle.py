"""Puzzle 23: what a warp's read of global memory costs; a fully connected layer, one warp per output."""

from __future__ import annotations

import numpy as np
from backwarp.reference import dense

from backwarp.course import Case, Gate, In, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div, mistakes_in
from backwarp.course.mistakes import slow
from backwarp.course.sizes import Ints, drawn, integers, one_thread_each, own_sizes, with_inputs

PREDICT, FORWARD = "predict_sectors", "fc_forward"


def sectors(a, d):
    starts = a["start"][:, None] + np.arange(32) * a["stride"][:, None]
    return 1 + np.count_nonzero(np.diff(np.sort(starts // 8)), axis=1)


def numbers_below(most):
    return lambda rng, a, d: rng.integers(0, most, d["patterns"])


SECTOR = "int sector = (start[idx] + lane * stride[idx]) / 8;"
LANE = "int lane = threadIdx.x;"
WARP = "int o = blockIdx.x * blockDim.y + threadIdx.y;"
STEPS = "for (int step = 16; step > 0; step /= 2) {"
STORE = "if (lane == 0) output[b * n_out + o] = sum + bias[o];"
PUZZLE_03 = """{
        int o = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y;
        if (b >= batch || o >= n_out) return;
        float all = bias[o];
        for (int i = 0; i < n_in; i++) {
            all += input[b * n_in + i] * weights[o * n_in + i];
        }
        output[b * n_out + o] = all;
        return;
    }
    """

MISTAKES = (
    *mistakes_in(
        PREDICT,
        Mistake(
            "a sector for every lane",
            ("if (sector != last) count", "count"),
            says="Every lane is counted: lanes whose floats lie in the same sector share it.",
        ),
        Mistake(
            "lines for sectors",
            ("idx]) / 8", "idx]) / 32"),
            says="These are pieces of 32 floats; a sector has 32 bytes, which is 8 floats.",
        ),
        Mistake(
            "a sector from the place read",
            (
                ("last = -1", "next = 0"),
                (SECTOR, "int place = start[idx] + lane * stride[idx];"),
                ("sector != last) count++;", "lane == 0 || place >= next) { count++; next = place + 8; }"),
                ("last = sector;", ""),
            ),
            says="A sector is taken to begin at the first place read in it: sectors begin at multiples of 8 "
            "floats, wherever a lane reads.",
        ),
        Mistake(
            "first to last",
            ("if (sector != last) count++;", "count = sector - start[idx] / 8 + 1;"),
            says="Sectors between two lanes that no lane touches are counted: they are not moved.",
        ),
        Mistake("31 lanes", ("32; lane", "31; lane"), says="A warp of 31 lanes is counted; it has 32."),
    ),
    *mistakes_in(
        FORWARD,
        slow(
            "a thread per output, as in puzzle 03",
            "all += input[b * n_in + i] * weights[o * n_in + i];",
            (LANE, PUZZLE_03 + LANE),
        ),
        slow(
            "lanes add up by atomics",
            "rounds of atomic updates of shared memory",
            (
                STEPS,
                "__shared__ float all[32];\n    if (lane == 0) all[threadIdx.y] = 0.0f;\n"
                "    __syncwarp();\n    atomicAdd(&all[threadIdx.y], sum);\n    __syncwarp();\n    sum = all[threadIdx.y];\n    "
                + STEPS.replace("step = 16", "step = 0"),
            ),
        ),
        slow(
            "one warp for all outputs of the block",
            "by the busiest warps",
            (
                WARP,
                "for (int n = 0; n < blockDim.y && threadIdx.y == 0; n++) {\n"
                "    int o = blockIdx.x * blockDim.y + n;",
            ),
            (STORE, STORE + "\n    }"),
        ),
        Mistake(
            "upper lanes leave the tree",
            ("sum += __shfl_down_sync", "if (lane < step) sum += __shfl_down_sync"),
            expect="shuffle-mask",
        ),
    ),
)

PUZZLE = Puzzle(
    title="Coalescing: predict the sectors, then count them",
    part=3,
    teaches="What a warp's read costs: the sectors of 32 bytes that its lanes touch together.",
    practice="Nsight Compute shows the same number for a real GPU: sectors per request.",
    lines=20,
    kernels=(
        Kernel(
            PREDICT,
            params=(
                In("start", i="patterns", dtype="int32", values=numbers_below(100)),
                In("stride", i="patterns", dtype="int32", values=numbers_below(12)),
                Out("sectors", i="patterns", dtype="int32"),
                Int("patterns"),
            ),
            launch=one_thread_each("patterns"),
            reference=sectors,
        ),
        Kernel(
            FORWARD,
            params=(
                In("input", b="batch", i="n_in"),
                In("weights", o="n_out", i="n_in"),
                In("bias", o="n_out"),
                Out("output", b="batch", o="n_out"),
                *Ints("batch n_in n_out"),
            ),
            launch=lambda d, t: Launch(
                grid=(ceil_div(d["n_out"], d["warps"]), d["batch"]), block=(32, d["warps"])
            ),
            reference=lambda a, d: dense.forward(a["input"], a["weights"], a["bias"]),
        ),
    ),
    dims=lambda d: {"threads": 64, "warps": 4, **d},
    bench=dict(batch=256, n_in=4096, n_out=4096, patterns=4096),
    cases=(
        with_inputs(
            "sectors_by_hand",
            dict(patterns=6),
            "predicted in the lesson",
            kernels=(PREDICT,),
            start=[0, 1, 0, 0, 0, 5],
            stride=[1, 1, 2, 256, 0, 3],
        ),
        with_inputs(
            "many_patterns",
            dict(patterns=130),
            "3 blocks of 64 threads",
            kernels=(PREDICT,),
            start=numbers_below(1 << 30),
        ),
        Case("one_input", dict(batch=4, n_in=1, n_out=9), "31 lanes without a product", kernels=(FORWARD,)),
        Case("one_output", dict(batch=3, n_in=40, n_out=1), kernels=(FORWARD,)),
        integers(dict(batch=2, n_in=67, n_out=6), kernels=(FORWARD,)),
        Case("just_a_warp", dict(batch=2, n_in=32, n_out=8), "one product per lane", kernels=(FORWARD,)),
        Case("nothing_divides", dict(batch=5, n_in=45, n_out=23, warps=3), "40 blocks", kernels=(FORWARD,)),
        own_sizes(
            batch=(3, 9), n_in=(20, 90), n_out=(9, 40), patterns=(65, 300), threads=(20, 90), warps=(2, 6)
        ),
        Case("fc_fw_lenet_84_10", dict(batch=4, n_in=84, n_out=10), "LeNet's last layer", kernels=(FORWARD,)),
        Case(
            "fc_fw_lenet_256_120",
            dict(batch=2, n_in=256, n_out=120),
            "LeNet's third; it is counted",
            kernels=(FORWARD,),
            again=drawn(batch=(3, 4), n_in=(288, 352, 32), n_out=(60, 110)),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "sectors_over_ideal",
            1.1,
            kernels=(FORWARD,),
            below=6.49,
            hint=2,
            says="Lanes that read places far apart take a sector each: let the lanes of a warp share an "
            "output, and read neighbouring inputs and weights.",
        ),
        Gate(
            "global_bytes",
            lambda d: 1.14 * 4 * 2 * d["batch"] * d["n_out"] * d["n_in"],
            kernels=(FORWARD,),
            below=2_033_536,
            hint=2,
            says="Every lane should read different weights from its neighbours, and no weight of an output "
            "should be read twice.",
        ),
        *Gate.limits(
            FORWARD,
            global_requests=lambda d: d["batch"] * d["n_out"] * (1.1 * 2 * ceil_div(d["n_in"], 32) + 2),
            # twice what a warp needs for an output
            global_requests_busiest=lambda d: (
                2 * (2 * ceil_div(d["n_in"], 32) + 2) * d["batch"] * d["n_out"] / d["warps"]
            ),
            flops=lambda d: 1.05 * d["batch"] * d["n_out"] * (2 * d["n_in"] + 5 * 32 + 1),
        ),
    ),
    hints=(
        "A sector is 32 bytes, so the float at place p lies in sector number p / 8, rounded down. As the "
        "stride is not negative, the places only grow from lane to lane: a lane needs a new sector exactly "
        "when its number differs from that of the lane before, and the first lane always does. Keep the last "
        "number in a variable.",
        "A block is 32 wide, so the threads of one row of the block are one warp, and its number in the "
        "block is the thread's y. The warp has one output: lane 0 adds up products number 0, 32, 64 and so "
        "on, lane 1 number 1, 33, 65. At every moment the 32 lanes read 32 neighbouring floats. Lanes stop "
        "when there are no more inputs, but they must not leave the kernel.",
        "The 32 sums are added up as in 20_bias_warp: five shuffles with offsets 16, 8, 4, 2 and 1 over the "
        "whole warp, in which every lane takes part, leave the total in lane 0. The bias belongs to the "
        "total once, so the lane that stores adds it.",
    ),
)
