"""Puzzle 20: the gradient of a convolution's bias, one block per channel, with warp shuffles."""

from __future__ import annotations

import numpy as np

from harness.course import Case, Gate, Gradient, In, Int, Kernel, Launch, Misconception, Mutant, Out, Puzzle
from reference import conv

BIAS = "conv2d_backward_bias"
WARP = 32


def parts(a, d):
    """What lane l of warp w of block k has added up: [C_out, warps, 32]."""
    x = a["grad_output"].swapaxes(0, 1).reshape(d["C_out"], -1)
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % d["threads"])))
    return padded.reshape(d["C_out"], -1, d["threads"]).sum(1).reshape(d["C_out"], -1, WARP)


def shuffled(values, offsets):
    """Lane 0 after it has added, step by step, what the lane `offset` further on has; along the last axis."""
    for offset in offsets:
        from_lane = np.arange(WARP) + offset
        values = values + values[..., np.where(from_lane < WARP, from_lane, np.arange(WARP))]
    return values[..., 0]


def both_stages(a, d, offsets):
    """The gradient with another list of offsets, for the lanes of a warp and then for the warps."""
    warps = shuffled(parts(a, d), offsets)
    return shuffled(np.pad(warps, ((0, 0), (0, WARP - warps.shape[1]))), offsets)


def handed_on(a, d):
    """Lane 0 has the value of lane 31 in both stages: 16 + 8 + 4 + 2 + 1 lanes further on."""
    warps = parts(a, d)[:, :, WARP - 1]
    return np.pad(warps, ((0, 0), (0, WARP - warps.shape[1])))[:, WARP - 1]


def wrong(id, hint, says, compute):
    return Misconception(id, BIAS, says, compute, hint)


MISCONCEPTIONS = (
    wrong("first_warp_only", 3,
          "This is the sum of warp 0 alone: the other warps' slots are not added.",
          lambda a, d: parts(a, d)[:, 0].sum(1)),
    wrong("last_step_missing", 2,
          "The last step of the shuffles, with offset 1, is missing: only the even lanes are in the sum.",
          lambda a, d: both_stages(a, d, (16, 8, 4, 2))),
    wrong("first_step_missing", 2,
          "The lanes 16 to 31 are missing: the first offset is 16, half of a warp.",
          lambda a, d: both_stages(a, d, (8, 4, 2, 1))),
    wrong("added_twice", 2,
          "Every sum of 32 lanes is twice as large as it should be: with offset 32, a lane adds itself.",
          lambda a, d: both_stages(a, d, (32, 16, 8, 4, 2, 1))),
    wrong("lanes_before", 2,
          "This is 1024 times the part of thread 0: __shfl_up_sync brings values from the lanes before, "
          "and lane 0, which has none before it, gets its own.",
          lambda a, d: WARP**2 * parts(a, d)[:, 0, 0]),
    wrong("handed_on", 2,
          "The lanes' values are handed on and not added: value += __shfl_down_sync(...), not value = ...",
          handed_on),
    wrong("lane_0_only", 2,
          "Only lane 0 of every warp is in the sum: its slot must get the sum of the 32 lanes.",
          lambda a, d: parts(a, d)[:, :, 0].sum(1)),
    wrong("four_warps_only", 3,
          "Only the first 4 warps are in the sum: a block has blockDim.x / 32 warps.",
          lambda a, d: parts(a, d)[:, :4].sum((1, 2))),
)  # fmt: skip

START = "int k = blockIdx.x;\n    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;"
STEPS = "for (int offset = 16; offset > 0; offset /= 2) {"
SHUFFLE = "__shfl_down_sync(0xffffffff, value, offset)"
LOOP = "for (int i = threadIdx.x; i < batch * plane; i += blockDim.x) {"
ADD = "sum += grad_output[(b * C_out + k) * plane + i % plane];"
FIRST = "sum = warp_sum(sum);\n    if (lane == 0) slot[warp] = sum;"
FILL = "if (lane == 0) slot[warp] = sum;\n    __syncthreads();"
TAKE = "sum = lane < warps ? slot[lane] : 0.0f;"
LAST = f"if (warp == 0) {{\n        int warps = blockDim.x / 32;\n        {TAKE}"
STORE = "if (lane == 0) grad_bias[k] = sum;"
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
CHUNK = """\
int share = (batch * plane + blockDim.x - 1) / blockDim.x, first = threadIdx.x * share;
    for (int i = first; i < min(first + share, batch * plane); i++) {"""


def mutant(name, old, new, expect="wrong", also=(), line=""):
    return Mutant(name, BIAS, old, new, expect, also, line)


MUTANTS = (
    # right, not yet fast
    mutant("the kernel of puzzle 19", START, BELOW, "slow", line="__syncthreads();  // after every step"),
    mutant("every lane adds to one slot", FIRST,
           "if (threadIdx.x == 0) slot[0] = 0.0f;\n    __syncthreads();\n    atomicAdd(&slot[0], sum);",
           "slow",
           also=((TAKE, "sum = lane == 0 ? slot[0] : 0.0f;"),), line="atomicAdd(&slot[0], sum);"),
    mutant("a chunk of neighbours for every thread", LOOP, CHUNK, "slow", line=ADD),
    mutant("32 shuffles", STEPS, "float all = 0.0f;\n    for (int n = 0; n < 32; n++) all += __shfl_sync(0xffffffff, "
           "value, n);\n    value = all;\n    for (int offset = 0; offset > 0; offset /= 2) {", "slow", line="FLOP"),
    mutant("warps add to the bias", FILL, "if (threadIdx.x == 0) grad_bias[k] = 0.0f;\n    __syncthreads();\n    "
           "if (lane == 0) atomicAdd(&grad_bias[k], sum);", "slow",
           ((LAST, LAST.replace("warp == 0", "false")),), "atomic updates of global memory"),
    # the shuffles
    mutant("mask of half a warp", SHUFFLE, SHUFFLE.replace("0xffffffff", "0xffff"), "shuffle-mask"),
    mutant("mask of the lanes with a slot", TAKE,
           "if (lane < warps) sum = slot[lane];\n        if (lane >= warps) return;", "shuffle-mask"),
    mutant("lanes without an element leave", "float sum = 0.0f;",
           "float sum = 0.0f;\n    if (threadIdx.x >= batch * plane) return;",
           ("shuffle-mask", "uninitialised-read")),
    mutant("shuffle in the loop", ADD, ADD.replace("sum += ", "sum += warp_sum(").replace("];", "]);"),
           "shuffle-mask", also=((FIRST, "if (lane == 0) slot[warp] = sum;"),)),
    mutant("no mask", SHUFFLE, "__shfl_down(value, offset)", "compile"),
    mutant("values of the lanes before", SHUFFLE, SHUFFLE.replace("down", "up"), "lanes_before"),
    mutant("last step left out", STEPS, STEPS.replace("> 0", "> 1"), "last_step_missing"),
    mutant("first offset 32", STEPS, STEPS.replace("16", "32"), "added_twice"),
    mutant("values handed on", "value += __shfl", "value = __shfl", "handed_on"),
    # the slots
    mutant("no barrier", FILL, "if (lane == 0) slot[warp] = sum;", "race"),
    mutant("two barriers for two kinds of lanes", FILL,
           "if (lane == 0) {\n        slot[warp] = sum;\n        __syncthreads();\n    }\n"
           "    if (lane > 0) __syncthreads();", "barrier-divergence"),
    mutant("barrier for the lanes with a slot", FILL,
           "if (lane == 0) {\n        slot[warp] = sum;\n        __syncthreads();\n    }", "barrier-divergence"),
    mutant("all slots taken", TAKE, "sum = slot[lane];", "uninitialised-read"),
    mutant("every lane stores into the slot", FIRST, FIRST.replace("if (lane == 0) ", ""), "race"),
    mutant("first warp only", TAKE, "", "first_warp_only",
           also=(("        sum = warp_sum(sum);\n        if", "        if"),)),
    mutant("lane 0 only", FIRST, "if (lane == 0) slot[warp] = sum;", "lane_0_only"),
    mutant("four warps", TAKE, TAKE.replace("warps", "min(warps, 4)"), "four_warps_only"),
    # the rest
    mutant("every lane stores the result", STORE, "grad_bias[k] = sum;", "race"),
    mutant("first step left out", STEPS, STEPS.replace("16", "8"), "first_step_missing"),
)  # fmt: skip


def loss(bias, a, d):
    """A loss whose gradient at the layer's output is grad_output, as a function of the bias."""
    return np.sum(a["grad_output"] * bias[:, None, None])


def loads(d):
    """Requests that bring every element once, a float for each lane."""
    return d["batch"] * d["C_out"] * d["H_out"] * d["W_out"] / 32


PUZZLE = Puzzle(
    title="Gradient of the bias, with warp shuffles",
    part=3,
    teaches="How the lanes of a warp add up their numbers without shared memory and without a barrier.",
    practice=(
        "CUB has this as WarpReduce and BlockReduce; PyTorch's block reductions are built from warp "
        "shuffles as well."
    ),
    lines=20,
    kernels=(
        Kernel(
            BIAS,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                Out("grad_bias", k="C_out"),
                Int("batch"), Int("C_out"), Int("H_out"), Int("W_out"),
            ),
            launch=lambda d, t: Launch(grid=d["C_out"], block=d["threads"]),
            reference=lambda a, d: conv.backward_bias(a["grad_output"]),
        ),
    ),
    dims=lambda d: {"threads": 256, **d},
    gradient_of={BIAS: Gradient(loss)},
    bench=dict(batch=64, C_out=256, H_out=56, W_out=56),
    cases=(
        Case(
            "bias_tiny", dict(batch=2, C_out=2, H_out=4, W_out=5, threads=64),
            note="done by hand in the lesson",
            inputs={"grad_output": [[np.arange(1, 21), np.arange(20) % 3],
                                    [np.arange(21, 41), np.arange(20) % 4]]},
        ),
        Case("one_warp", dict(batch=3, C_out=2, H_out=5, W_out=3, threads=32), note="one slot"),
        Case("output_1x1", dict(batch=5, C_out=4, H_out=1, W_out=1, threads=64),
             note="fewer elements than lanes"),
        Case("numerical_gradient_check", dict(batch=2, C_out=3, H_out=3, W_out=4, threads=32),
             note="each bias moved by epsilon", check="gradient"),
        Case("one_channel", dict(batch=3, C_out=1, H_out=9, W_out=7, threads=128)),
        Case("integers", dict(batch=2, C_out=3, H_out=7, W_out=6, threads=96), note="exact sums; 3 warps",
             values="integers"),
        Case("five_warps", dict(batch=3, C_out=5, H_out=9, W_out=7, threads=160)),
        Case("nothing_divides", dict(batch=3, C_out=17, H_out=9, W_out=7)),
        Case("largest_block", dict(batch=2, C_out=2, H_out=24, W_out=24, threads=1024), note="32 warps"),
        Case("lenet_conv1", dict(batch=2, C_out=6, H_out=24, W_out=24), note="LeNet's first layer"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(257, 300), C_out=pick(2, 7), H_out=pick(2, 5), W_out=pick(2, 5),
                                    threads=32 * pick(1, 5))),
        Case("large_image", dict(batch=1, C_out=2, H_out=263, W_out=259, threads=64), stress=True,
             note="more pixels than 16 bits can count"),
        Case("many_channels", dict(batch=2, C_out=257, H_out=1, W_out=131, threads=32), stress=True,
             note="more channels than a byte can count"),
        Case("counted", dict(batch=4, C_out=32, H_out=8, W_out=16), note="the case of the gates"),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    gates=(
        Gate("barriers", lambda d: 2 * d["C_out"] * d["threads"] // 32, case="counted", below=2304, hint=2,
             says="Within a warp no barrier is needed: lanes hand their numbers to each other with "
                  "shuffles, and the block waits once or twice."),
        Gate("shared_load_requests", lambda d: d["C_out"] * d["threads"] // 32, case="counted", below=800,
             hint=3,
             says="Add up within the warp first, so that only one number a warp goes through shared memory."),
        Gate("shared_atomic_serial", lambda d: d["C_out"] * d["threads"] // 32, case="counted", hint=2,
             says="Lanes that update one address wait for each other: add up within the warp first."),
        Gate("global_load_sectors", lambda d: 4.5 * loads(d), case="counted", hint=1,
             says="Neighbouring threads should read neighbouring elements, as in puzzle 19."),
        *Gate.limits("counted",
                     global_requests=lambda d: 1.1 * loads(d) + d["C_out"],
                     global_requests_busiest=lambda d: 2 * loads(d) * 32 / d["threads"] + d["C_out"],
                     flops=lambda d: 1.05 * (32 * loads(d) + 10 * d["C_out"] * d["threads"]),
                     shared_wavefronts=lambda d: 2.5 * d["C_out"] * d["threads"] // 32),
    ),
    hints=(
        "The share of a thread is that of puzzle 19: number its elements over all images, begin with the "
        "thread's own number and go on in steps of the size of the block. A thread without elements has "
        "the share 0 and stays: a lane that has left cannot hand over its number.",
        "In warp_sum, each step adds what __shfl_down_sync returns: the value of another lane, so many "
        "lanes further on. The mask says who takes part: all 32 lanes, so all 32 bits are set. The offset "
        "begins at half a warp and is halved after every step, the last one being 1. Only lane 0 ends up "
        "with the sum of all; the others hold sums of fewer, which nobody needs.",
        "After warp_sum, lane 0 of each warp stores into the slot that has the number of its warp. One "
        "barrier, because the next reader is another warp. Then all 32 lanes of warp 0 call warp_sum once "
        "more: with a slot's number where the lane has one, with 0 where there is no such warp.",
    ),
)  # fmt: skip
