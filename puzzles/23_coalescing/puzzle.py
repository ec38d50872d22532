"""Puzzle 23: what a warp's read of global memory costs; a fully connected layer, one warp per output."""

from __future__ import annotations

import numpy as np

from harness.course import Case, Gate, In, Int, Kernel, Launch, Misconception, Mutant, Out, Puzzle, ceil_div
from reference import dense

PREDICT, FORWARD = "predict_sectors", "fc_forward"


def places(a, lanes=32):
    """[patterns, lanes]: the place of each lane's float."""
    return a["start"][:, None] + np.arange(lanes) * a["stride"][:, None]


def distinct(numbers):
    """How many different numbers stand in each row."""
    return 1 + np.count_nonzero(np.diff(np.sort(numbers)), axis=1)


def sectors(a, lanes=32):
    return distinct(places(a, lanes) // 8)


def forward(a, input=None, weights=None, bias=None):
    """The right answer, with some arrays replaced by what a wrong kernel uses for them."""
    return dense.forward(
        a["input"] if input is None else input,
        a["weights"] if weights is None else weights,
        a["bias"] if bias is None else bias,
    )


def chosen(a, d, keep):
    """The right answer from the inputs i for which `keep` holds, alone."""
    return forward(a, input=a["input"] * keep(np.arange(d["n_in"])))


def numbers_below(most):
    return lambda rng, a, d: rng.integers(0, most, d["patterns"])


def guess(id, says, compute, hint=1):
    return Misconception(id, PREDICT, says, compute, hint)


def wrong(id, hint, says, compute):
    return Misconception(id, FORWARD, says, compute, hint)


MISCONCEPTIONS = (
    guess("one_sector_per_lane",
          "Every lane is counted: lanes whose floats lie in the same sector share it.",
          lambda a, d: np.full(d["patterns"], 32)),
    guess("lines_of_128_bytes",
          "These are pieces of 32 floats; a sector has 32 bytes, and a float has 4.",
          lambda a, d: distinct(places(a) // 32)),
    guess("start_ignored",
          "Every read is taken to begin with a sector: start is missing.",
          lambda a, d: sectors({**a, "start": 0 * a["start"]})),
    guess("stride_ignored",
          "Every read is taken to be of neighbouring floats: stride is missing.",
          lambda a, d: sectors({**a, "stride": 0 * a["stride"] + 1})),
    guess("span",
          "Sectors between two lanes are counted that no lane touches: they are not moved.",
          lambda a, d: (places(a)[:, -1] // 8 - places(a)[:, 0] // 8) + 1),
    guess("one_too_few",
          "One sector is missing everywhere: the first lane touches one as well.",
          lambda a, d: sectors(a) - 1),
    guess("lane_31_missing",
          "A warp of 31 lanes is counted; it has 32.",
          lambda a, d: sectors(a, 31)),
    wrong("one_lane_only", 3,
          "The sum of lane 0 alone is stored: those of the other 31 lanes are not added to it.",
          lambda a, d: chosen(a, d, lambda i: i % 32 == 0)),
    wrong("half_of_the_warp", 3,
          "The sums of lanes 16 to 31 are missing: the first step of the tree is half a warp wide.",
          lambda a, d: chosen(a, d, lambda i: i % 32 < 16)),
    wrong("tail_missing", 2,
          "The inputs after the last full 32 are left out: a lane goes on while it finds an input.",
          lambda a, d: chosen(a, d, lambda i: i < d["n_in"] // 32 * 32)),
    wrong("lane_missing", 2,
          "This is 32 times the sum of lane 0: lanes begin with their own number, and sums go down, to lane "
          "0.",
          lambda a, d: forward(a, input=32 * a["input"] * (np.arange(d["n_in"]) % 32 == 0))),
    wrong("bias_of_every_lane", 3,
          "The bias is in the result 32 times, once for every lane.",
          lambda a, d: forward(a, bias=32 * a["bias"])),
    wrong("bias_missing", 3,
          "The bias is missing: every output is off by exactly bias[o].",
          lambda a, d: forward(a, bias=0 * a["bias"])),
    wrong("sample_0_only", 2,
          "Every sample has the outputs of sample 0: b is missing in the index of the input.",
          lambda a, d: forward(a, input=np.broadcast_to(a["input"][:1], a["input"].shape))),
)  # fmt: skip

SECTOR = "int sector = (start[idx] + lane * stride[idx]) / 8;"
LANES = "for (int lane = 0; lane < 32; lane++) {"
FIRST = "int count = 0, last = -1;"
LANE = "int lane = threadIdx.x;"
WARP = "int o = blockIdx.x * blockDim.y + threadIdx.y;"
GUARD = "if (o >= n_out) return;"
LOOP = "for (int i = lane; i < n_in; i += 32) {"
PRODUCT = "sum += input[b * n_in + i] * weights[o * n_in + i];"
STEPS = "for (int step = 16; step > 0; step /= 2) {"
SHUFFLE = "sum += __shfl_down_sync(0xffffffff, sum, step);"
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


def predicts(name, old, new, expect="wrong", also=()):
    return Mutant(name, PREDICT, old, new, expect, also)


def mutant(name, old, new, expect="wrong", also=(), line=""):
    return Mutant(name, FORWARD, old, new, expect, also, line)


MUTANTS = (
    predicts("a sector for every lane", "if (sector != last) count++;", "count++;", "one_sector_per_lane"),
    predicts("lines for sectors", SECTOR, SECTOR.replace("/ 8", "/ 32"), "lines_of_128_bytes"),
    predicts("start left out", SECTOR, "int sector = lane * stride[idx] / 8;", "start_ignored"),
    predicts("stride left out", SECTOR, "int sector = (start[idx] + lane) / 8;", "stride_ignored"),
    predicts("first to last", "if (sector != last) count++;",
             "count = sector - start[idx] / 8 + 1;", "span"),
    predicts("the first sector not counted", FIRST, "int count = 0, last = start[idx] / 8;", "one_too_few"),
    predicts("31 lanes", LANES, LANES.replace("32", "31"), "lane_31_missing"),
    predicts("no guard", "if (idx >= patterns) return;", "", "out-of-bounds"),
    # the threads
    mutant("a thread per output, as in puzzle 03", LANE, PUZZLE_03 + LANE, "slow",
           line="all += input[b * n_in + i] * weights[o * n_in + i];"),
    mutant("a stretch of inputs per lane", LOOP,
           "int each = (n_in + 31) / 32;\n    for (int i = lane * each; i < n_in && i < (lane + 1) * each; "
           "i++) {",
           "slow", line=PRODUCT),
    mutant("lanes add up by atomics", STEPS, "__shared__ float all[32];\n    if (lane == 0) all[threadIdx.y] = 0.0f;\n"
           "    __syncwarp();\n    atomicAdd(&all[threadIdx.y], sum);\n    __syncwarp();\n    sum = all[threadIdx.y];\n    "
           + STEPS.replace("step = 16", "step = 0"), "slow", line="rounds of atomic updates of shared memory"),
    mutant("one warp for all outputs of the block", WARP, "for (int n = 0; n < blockDim.y && threadIdx.y == 0; n++) {\n"
           "    int o = blockIdx.x * blockDim.y + n;", "slow", ((STORE, STORE + "\n    }"),), "by the busiest warps"),
    mutant("width of a block for its height", WARP, WARP.replace("blockDim.y", "blockDim.x"), "unwritten"),
    mutant("lanes without an input leave", GUARD, "if (o >= n_out || lane >= n_in) return;", "shuffle-mask"),
    mutant("b missing", "input[b * n_in + i]", "input[i]", "sample_0_only"),
    # the sum
    mutant("lane missing", LOOP, LOOP.replace("i = lane", "i = 0"), "lane_missing"),
    mutant("tail missing", LOOP, LOOP.replace("i < n_in", "i < n_in / 32 * 32"), "tail_missing"),
    mutant("lanes not added up", SHUFFLE, "", "one_lane_only"),
    mutant("half a warp added up", STEPS, STEPS.replace("16", "8"), "half_of_the_warp"),
    mutant("shuffled upwards", SHUFFLE, SHUFFLE.replace("down", "up"), "lane_missing"),
    mutant("upper lanes leave the tree", SHUFFLE, "if (lane < step) " + SHUFFLE, "shuffle-mask"),
    mutant("bias in every lane", "float sum = 0.0f;", "float sum = bias[o];", "bias_of_every_lane",
           also=(("sum + bias[o];", "sum;"),)),
    mutant("bias missing", "sum + bias[o];", "sum;", "bias_missing"),
    mutant("every lane stores", STORE, STORE.replace("if (lane == 0) ", ""), "race"),
)  # fmt: skip

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
                Out("sectors", i="patterns", dtype="int32"), Int("patterns"),
            ),
            launch=lambda d, t: Launch(grid=ceil_div(d["patterns"], d["threads"]), block=d["threads"]),
            reference=lambda a, d: sectors(a),
        ),
        Kernel(
            FORWARD,
            params=(
                In("input", b="batch", i="n_in"), In("weights", o="n_out", i="n_in"), In("bias", o="n_out"),
                Out("output", b="batch", o="n_out"),
                Int("batch"), Int("n_in"), Int("n_out"),
            ),
            launch=lambda d, t: Launch(
                grid=(ceil_div(d["n_out"], d["warps"]), d["batch"]), block=(32, d["warps"])
            ),
            reference=lambda a, d: forward(a),
        ),
    ),
    dims=lambda d: {"threads": 64, "warps": 4, **d},
    bench=dict(batch=256, n_in=4096, n_out=4096, patterns=4096),
    cases=(
        Case(
            "sectors_by_hand", dict(patterns=6), note="predicted in the lesson", kernels=(PREDICT,),
            inputs={"start": [0, 1, 0, 0, 0, 5], "stride": [1, 1, 2, 256, 0, 3]},
        ),
        Case("many_patterns", dict(patterns=130), note="3 blocks of 64 threads", kernels=(PREDICT,)),
        Case("one_input", dict(batch=4, n_in=1, n_out=9), note="31 lanes without a product",
             kernels=(FORWARD,)),
        Case("one_output", dict(batch=3, n_in=40, n_out=1), kernels=(FORWARD,)),
        Case("integers", dict(batch=2, n_in=67, n_out=6), note="exact sums", values="integers",
             kernels=(FORWARD,)),
        Case("just_a_warp", dict(batch=2, n_in=32, n_out=8), note="one product per lane", kernels=(FORWARD,)),
        Case("nothing_divides", dict(batch=5, n_in=45, n_out=23, warps=3), note="8 x 5 blocks of 3 warps",
             kernels=(FORWARD,)),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(3, 9), n_in=pick(20, 90), n_out=pick(9, 40),
                                    patterns=pick(65, 300), threads=pick(20, 90), warps=pick(2, 6))),
        Case("great_many_patterns", dict(patterns=65_601), stress=True, kernels=(PREDICT,),
             note="more patterns than 16 bits can count"),
        Case("large_input", dict(batch=257, n_in=261, n_out=2, warps=2), stress=True, kernels=(FORWARD,),
             note="more than 65,536 elements in input"),
        Case("large_weights", dict(batch=1, n_in=257, n_out=263), stress=True, kernels=(FORWARD,),
             note="more than 65,536 elements in weights"),
        Case("fc_fw_lenet_84_10", dict(batch=4, n_in=84, n_out=10), note="LeNet's last layer",
             kernels=(FORWARD,)),
        Case("fc_fw_lenet_256_120", dict(batch=2, n_in=256, n_out=120), note="LeNet's third; it is counted",
             kernels=(FORWARD,)),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    gates=(
        Gate(
            "sectors_over_ideal", 1.1, kernels=(FORWARD,), case="fc_fw_lenet_256_120", below=6.49, hint=2,
            says="Lanes that read places far apart take a sector each: let the lanes of a warp share an output, and "
            "read neighbouring inputs and weights.",
        ),
        Gate(
            "global_bytes", 560_000, kernels=(FORWARD,), case="fc_fw_lenet_256_120", below=2_033_536, hint=2,
            says="Every lane should read other weights than its neighbours, and no weight of an output "
            "twice.",
        ),
        *Gate.limits(
            "fc_fw_lenet_256_120", FORWARD,
            global_requests=lambda d: d["batch"] * d["n_out"] * (1.1 * 2 * ceil_div(d["n_in"], 32) + 2),
            # twice what a warp needs for an output
            global_requests_busiest=lambda d: (
                2 * (2 * ceil_div(d["n_in"], 32) + 2) * d["batch"] * d["n_out"] / d["warps"]),
            flops=lambda d: 1.05 * d["batch"] * d["n_out"] * (2 * d["n_in"] + 5 * 32 + 1),
        ),  # fmt: skip
    ),
    hints=(
        "A sector is 32 bytes, so the float at place p lies in sector number p / 8, rounded down. As the "
        "stride is not negative, the places only grow from lane to lane: a lane needs a new sector exactly "
        "when its number differs from that of the lane before, and the first lane always does. Keep the "
        "last number in a variable.",
        "A block is 32 wide, so the threads of one row of the block are one warp, and its number in the "
        "block is the thread's y. The warp has one output: lane 0 adds up products number 0, 32, 64 and so "
        "on, lane 1 number 1, 33, 65. At every moment the 32 lanes read 32 neighbouring floats. Lanes stop "
        "when there are no more inputs, but they must not leave the kernel.",
        "The 32 sums are added up as in 20_bias_warp: five shuffles of width 16, 8, 4, 2 and 1 over the "
        "whole warp, in which every lane takes part, leave the total in lane 0. The bias belongs to the "
        "total once, so the lane that stores adds it.",
    ),
)  # fmt: skip
