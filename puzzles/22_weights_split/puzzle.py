"""Puzzle 22: the gradient of a convolution's weights, the batch split over blocks, in two passes."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, Gate, Gradient, In, Int, Kernel, Launch, Out, Puzzle, ceil_div
from backwarp.course.conv_cases import FEW_CHANNELS, square
from backwarp.course.mistakes import Mistake, mistakes_in, slow
from backwarp.course.sizes import Ints, by_hand, drawn, gradient_check, integers, one_thread_each, own_sizes

PARTIAL, ADD = "conv2d_backward_weights_partial", "add_parts"


def shares(d):
    """The images of every part, as slices."""
    images = ceil_div(d["batch"], d["parts"])
    return [slice(part * images, (part + 1) * images) for part in range(d["parts"])]


def partials(a, d):
    """The sums of every part: [parts, C_out, C_in, F, F]."""
    shape = (d["C_out"], d["C_in"], d["F"], d["F"])
    found = np.zeros((d["parts"], *shape))
    for part, i in enumerate(shares(d)):
        if i.start < d["batch"]:
            found[part] = conv.backward_weights(a["grad_output"][i], a["input"][i], shape)
    return found


LAST = "int last = min(first + images, batch);"
TAPS = """\
#pragma unroll
        for (int s = 0; s < MAX_F; s++) {
            if (s < F) sum[s] += grad * x[s];
        }
"""
FINISH = """\
#pragma unroll
    for (int s = 0; s < MAX_F; s++) {
        float total = warp_sum(sum[s]);
        if (threadIdx.x % 32 == 0) slot[threadIdx.x / 32][s] = total;
    }
    __syncthreads();
"""
GATHER = "for (int w = 0; w < blockDim.x / 32; w++) total += slot[w][threadIdx.x];"
STORE = "partial[(part * C_out * C_in * F + row) * F + threadIdx.x] = total;"
TO_THE_END = f"""\
{FINISH}    if (threadIdx.x < F) {{
        float total = 0.0f;
        {GATHER}
        {STORE}
    }}
"""
ADD_GUARD = "if (idx >= weights) return;"
START = "int row = blockIdx.x, part = blockIdx.y;"
BELOW = """\
{
        int row = blockIdx.x, part = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        int r = row % F, c = row / F % C_in, k = row / (F * C_in), H_out = H - F + 1, W_out = W - F + 1;
        int images = (batch + parts - 1) / parts, first = part * images, last = min(first + images, batch);
        for (int s = 0; s < F; s++) {
            float sum = 0.0f;
            for (int i = first * H_out * W_out + threadIdx.x; i < last * H_out * W_out; i += blockDim.x) {
                int q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
                float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
                sum += grad * input[((b * C_in + c) * H + p + r) * W + q + s];
            }
            sum = warp_sum(sum);
            if (lane == 0) slot[warp][s] = sum;
        }
        __syncthreads();
        for (int s = 0; s < F; s++) {
            float sum = lane < blockDim.x / 32 ? slot[lane][s] : 0.0f;
            if (warp > 0) continue;
            sum = warp_sum(sum);
            if (lane == 0) partial[((part * C_out * C_in * F) + row) * F + s] = sum;
        }
        return;
    }
    int row = 0, part = 0;"""
ATOMICS = """\
if (threadIdx.x < F) partial[(part * C_out * C_in * F + row) * F + threadIdx.x] = 0.0f;
    __syncthreads();
    for (int s = 0; s < MAX_F; s++) {
        float total = warp_sum(sum[s]);
        if (threadIdx.x % 32 > 0 || s >= F) continue;
        atomicAdd(&partial[(part * C_out * C_in * F + row) * F + s], total);
    }
"""

MISTAKES = (
    *mistakes_in(
        PARTIAL,
        slow(
            "the kernel of puzzle 21, weight after weight",
            "float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];",
            (START, BELOW),
        ),
        slow("warps add with atomics", "atomicAdd(", (TO_THE_END, ATOMICS)),
        slow(
            "sums in an array that is indexed at run time",
            "for (int s = 0; s < F; s++) sum[s] += grad * x[s];",
            (TAPS, "for (int s = 0; s < F; s++) sum[s] += grad * x[s];\n"),
        ),
        slow(
            "sums in shared memory",
            "passes over the banks of shared memory",
            (
                "float sum[MAX_F] = {};",
                "__shared__ float sum[MAX_F][1024];\n    "
                "for (int s = 0; s < MAX_F; s++) sum[s][threadIdx.x] = 0.0f;",
            ),
            ("sum[s] +", "sum[s][threadIdx.x] +"),
            ("(sum[s])", "(sum[s][threadIdx.x])"),
        ),
        Mistake("all parts into part 0", ("(part * C_out * C_in * F + row)", "row"), expect="race"),
    ),
    *mistakes_in(
        ADD,
        slow(
            "second pass: neighbours far apart",
            "add_parts: 15,008 bytes of global memory",
            (
                ADD_GUARD,
                ADD_GUARD
                + "\n    if (weights % 4 == 0) idx = idx % (weights / 4) * 4 + idx / (weights / 4);",
            ),
        ),
    ),
)


def loss(w, a, d):
    """A loss whose gradient is grad_output where every part of the batch has weights of its own."""
    pairs = zip(shares(d), w, strict=True)
    return sum(np.sum(a["grad_output"][i] * conv.forward(a["input"][i], own)) for i, own in pairs)


def derived(d):
    return {
        "H_out": d["H"] - d["F"] + 1,
        "W_out": d["W"] - d["F"] + 1,
        "threads": 128,
        "parts": 2,
        "weights": d["C_out"] * d["C_in"] * d["F"] ** 2,
        **d,
    }


def loads(d):
    """Requests that bring, for every position and row of a filter, one gradient and F elements of the input."""
    return d["weights"] / d["F"] * (d["F"] + 1) * d["batch"] * d["H_out"] * d["W_out"] / 32


def slots(d):
    """Sums that the warps of all blocks have, one for each weight of a row."""
    return d["weights"] * d["parts"] * d["threads"] // 32


def flops(d):
    """The products, and every warp's sums: 5 additions in each lane, then one for each warp."""
    return 2 * d["weights"] * d["batch"] * d["H_out"] * d["W_out"] + slots(d) * (5 * 32 + 1)


PUZZLE = Puzzle(
    title="Gradient of the weights, the batch split",
    part=3,
    teaches="How several blocks share one sum and the result is the same in every run; sums in registers.",
    practice="Two of cuDNN's algorithms for this pass add up with atomics, so their results change from run "
    "to run; torch.use_deterministic_algorithms keeps PyTorch away from them.",
    lines=40,
    kernels=(
        Kernel(
            PARTIAL,
            params=(
                In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                In("input", b="batch", c="C_in", h="H", w="W"),
                Out("partial", t="parts", k="C_out", c="C_in", r="F", s="F"),
                *Ints("batch C_in H W C_out F parts"),
            ),
            short=("F",),  # at most MAX_F
            launch=lambda d, t: Launch((d["C_out"] * d["C_in"] * d["F"], d["parts"]), d["threads"]),
            reference=partials,
        ),
        Kernel(
            ADD,
            params=(
                In("partial", t="parts", k="C_out", c="C_in", r="F", s="F"),
                Out("grad_weights", k="C_out", c="C_in", r="F", s="F"),
                Int("parts"),
                Int("weights"),
            ),
            launch=one_thread_each("weights"),
            reference=lambda a, d: a["partial"].sum(0),
        ),
    ),
    dims=derived,
    gradient_of={PARTIAL: Gradient(loss)},
    bench=square(128, 64, 56, 56, 64, 3, parts=16),
    cases=(
        by_hand(
            "conv_bw_tiny_3x3",
            square(2, 1, 3, 3, 1, 2, threads=32),
            grad_output=[[[[1, 2], [3, -1]]], [[[2, 0], [-1, 1]]]],
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]], [[[0, 1, 2], [1, 2, 3], [2, 0, 1]]]],
            partial=[[[[[12, 17], [27, 32]]]], [[[[1, 3], [0, 5]]]]],
        ),
        Case("output_1x1", square(3, 2, 3, 3, 3, 3, parts=4, threads=64), "a part without images"),
        Case("filter_1x1", square(5, 3, 4, 5, 4, 1, parts=1, threads=32), "one part"),
        Case("one_channel_wide", square(5, 1, 5, 8, 2, 3, threads=992), "parts of 3 and 2 images; W > H"),
        gradient_check("conv_bw_numerical_gradient_check", square(2, 1, 4, 5, 3, 2, threads=32)),
        integers(square(4, 3, 6, 9, 4, 3, parts=3, threads=96), "exact sums; parts of 2, 2 and 0 images"),
        Case("batch_odd", square(7, 4, 9, 7, 5, 2, parts=3), "all sizes differ"),
        Case("lenet_conv1_part", square(2, 1, 28, 28, 1, 5), "LeNet's first, 1 of 6 channels"),
        own_sizes(**FEW_CHANNELS, parts=(3, 7), threads=(32, 96, 32)),
        Case(
            "counted",
            square(4, 6, 12, 12, 2, 5),
            "LeNet's second, 2 of 16 channels: the case of the gates",
            again=drawn(batch=6, C_in=(3, 5), C_out=(3, 4), H=20, W=20, parts=3),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_atomic_operations",
            0,
            hint=3,
            says="The order of atomic additions changes from run to run, and with it the last bits of the "
            "sum. Store every partial sum in a place of its own; the second kernel adds them in order.",
        ),
        Gate(
            "global_load_requests",
            lambda d: 1.076 * loads(d),
            kernels=(PARTIAL,),
            below=4800,
            hint=2,
            says="An element of grad_output is needed for all F weights of a row: read it once, keep F sums.",
        ),
        Gate(
            "global_bytes",
            lambda d: 32 * (4 + 7.7 * d["F"]) * loads(d) / (d["F"] + 1),
            kernels=(PARTIAL,),
            below=796_032,
            hint=2,
            says="Read grad_output once for F weights; let neighbouring threads read neighbouring elements.",
        ),
        Gate(
            "local_bytes",
            0,
            kernels=(PARTIAL,),
            hint=2,
            says="An array whose index is known only at run time is kept in memory. With a loop to MAX_F "
            "that is unrolled, every index is a constant, and the sums stay in registers.",
        ),
        Gate(
            "barriers",
            lambda d: 2 * d["C_out"] * d["C_in"] * d["F"] * d["parts"] * d["threads"] // 32,
            kernels=(PARTIAL,),
            hint=3,
            says="All F sums can share one barrier: give each warp a slot for every weight of the row.",
        ),
        *Gate.limits(
            PARTIAL,
            global_requests_busiest=lambda d: (
                2.2 * loads(d) * 32 / d["threads"] + d["parts"] * d["weights"] / d["F"]
            ),
            flops=lambda d: 1.05 * flops(d),
            shared_wavefronts=lambda d: 1.5 * slots(d),
        ),
        *Gate.limits(
            ADD,
            flops=lambda d: 1.05 * d["parts"] * d["weights"],
            global_bytes=lambda d: 1.3 * 4 * (d["parts"] + 1) * d["weights"],
            global_requests=lambda d: 1.1 * (d["parts"] + 1) * ceil_div(d["weights"], 32),
            global_requests_busiest=lambda d: 2 * (d["parts"] + 1) * ceil_div(d["weights"], d["threads"]),
        ),
    ),
    hints=(
        "A part has batch / parts images, rounded up. From that follow its first image and the one after its "
        "last, which cannot be beyond the batch; the last parts may have fewer images, or none. A block "
        "without images has nothing to add, and still has to store its zeros.",
        "The loop over the positions is that of puzzle 21, from the first position of the part's first image "
        "on. Read grad_output into a variable; the F elements of the input that it meets lie next to each "
        "other. Keep the sums in a small array of constant size, and let a loop of constant length go over "
        "it, with a test for s < F inside and `#pragma unroll` before it.",
        "Call warp_sum for each of the sums, where all lanes pass; lane 0 stores into the slot of its warp "
        "and weight. After one barrier, thread s adds up the slots of weight s over the warps there are. In "
        "the second kernel, neighbouring threads take neighbouring weights; from part to part the step is a "
        "whole array of weights.",
    ),
)
