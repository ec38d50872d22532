"""Puzzle 03: a fully connected layer, one thread per output of a sample."""

from __future__ import annotations

import numpy as np

from harness.course import Case, In, Int, Kernel, Launch, Misconception, Mutant, Out, Puzzle, ceil_div
from reference import dense

KERNEL = "fc_forward"


def forward(a, input=None, weights=None, bias=None):
    """The right answer, with some arrays replaced by what a wrong kernel uses for them."""
    return dense.forward(
        a["input"] if input is None else input,
        a["weights"] if weights is None else weights,
        a["bias"] if bias is None else bias,
    )


def reread(array, index):
    """What a kernel reads that takes `index(i, j)` for the place of array[i, j]; NaN outside of it."""
    flat, position = array.ravel(), index(*np.indices(array.shape))
    inside = (position >= 0) & (position < flat.size)
    return np.where(inside, flat[np.where(inside, position, 0)], np.nan)


def first(array, axis=0):
    """The first row (axis 0) or column (axis 1) in the place of all of them."""
    return np.broadcast_to(np.take(array, [0], axis), array.shape)


def bias_by_sample(a, d):
    """bias[b]: a row gets the bias of its sample's number; past the end of the bias nothing is known."""
    numbers = np.arange(d["batch"])
    found = np.where(numbers < d["n_out"], a["bias"][np.minimum(numbers, d["n_out"] - 1)], np.nan)
    return dense.forward(a["input"], a["weights"]) + found[:, None]


def axes_swapped(a, d):
    """x is taken for the sample and y for the output, in a launch made for the opposite."""
    across, down = ceil_div(d["n_out"], d["tx"]) * d["tx"], ceil_div(d["batch"], d["ty"]) * d["ty"]
    b, o = np.indices((d["batch"], d["n_out"]))
    return np.where((b < across) & (o < down), forward(a), np.nan)


def wrong(id, hint, says, compute):
    return Misconception(id, KERNEL, says, compute, hint)


MISCONCEPTIONS = (
    wrong("bias_missing", 2,
          "The bias is missing: every output is off by exactly bias[o].",
          lambda a, d: forward(a, bias=0 * a["bias"])),
    wrong("bias_for_every_product", 2,
          "The bias is added once for every input; it belongs to the sum once.",
          lambda a, d: forward(a, bias=a["bias"] * d["n_in"])),
    wrong("bias_0_only", 2,
          "Every output gets bias[0]: the index of the bias must be o.",
          lambda a, d: forward(a, bias=first(a["bias"]))),
    wrong("bias_by_sample", 2,
          "The bias is taken by the sample's number b; every output o has its own, the same for all samples.",
          bias_by_sample),
    wrong("bias_subtracted", 2,
          "The bias is subtracted: every output is off by exactly 2 * bias[o].",
          lambda a, d: forward(a, bias=-a["bias"])),
    wrong("bias_multiplied", 2,
          "The sum is multiplied with the bias; the bias is added.",
          lambda a, d: dense.forward(a["input"], a["weights"]) * a["bias"]),
    wrong("weights_as_in_matmul", 3,
          "The weights are read as [n_in, n_out], as B was in matmul; they are stored as [n_out, n_in].",
          lambda a, d: forward(a, weights=a["weights"].reshape(d["n_in"], d["n_out"]).T)),
    wrong("weights_stride_n_out", 3,
          "The rows of the weights are taken to be n_out long; every output has a row of n_in weights.",
          lambda a, d: forward(a, weights=reread(a["weights"], lambda o, i: o * d["n_out"] + i))),
    wrong("input_stride_n_out", 3,
          "The step from sample to sample in the input is n_out; every sample has n_in inputs.",
          lambda a, d: forward(a, reread(a["input"], lambda b, i: b * d["n_out"] + i))),
    wrong("input_transposed", 3,
          "The input is read as [n_in, batch]; it is stored sample by sample, as [batch, n_in].",
          lambda a, d: forward(a, a["input"].reshape(d["n_in"], d["batch"]).T)),
    wrong("sample_missing", 3,
          "Every sample gives the output of sample 0: b is missing in the index of the input.",
          lambda a, d: forward(a, first(a["input"]))),
    wrong("output_missing", 3,
          "Every output uses the weights of output 0: o is missing in the index of the weights.",
          lambda a, d: forward(a, weights=first(a["weights"]))),
    wrong("one_input_for_all", 3,
          "Every weight is multiplied with input 0 of the sample: i is missing in the index of the input.",
          lambda a, d: forward(a, first(a["input"], 1))),
    wrong("one_weight_for_all", 3,
          "Every input is multiplied with the first weight of the output: i is missing in the index of the "
          "weights.",
          lambda a, d: forward(a, weights=first(a["weights"], 1))),
    wrong("output_transposed", 3,
          "The right numbers are at the wrong places: the output is filled as [n_out, batch].",
          lambda a, d: forward(a).T.reshape(d["batch"], d["n_out"])),
    wrong("axes_swapped", 1,
          "Samples or outputs stay empty: x is used for the sample and y for the output; exchange them.",
          axes_swapped),
    wrong("last_input_missing", 2,
          "The last input is left out of every sum: i stops one too early.",
          lambda a, d: forward(a, a["input"][:, :-1], a["weights"][:, :-1])),
    wrong("inputs_bounded_by_n_out", 2,
          "Only the first n_out inputs are added up: i must run to n_in, it runs to n_out.",
          lambda a, d: forward(a, a["input"][:, : d["n_out"]], a["weights"][:, : d["n_out"]])
          if d["n_out"] <= d["n_in"] else np.full((d["batch"], d["n_out"]), np.nan)),
    wrong("last_product_only", 2,
          "Only the last product is in the result, without bias: "
          "the sum is overwritten (=) instead of added to (+=).",
          lambda a, d: np.outer(a["input"][:, -1], a["weights"][:, -1])),
    wrong("weights_ignored", 2,
          "This is the sum of the inputs plus the bias: the weights are not multiplied in.",
          lambda a, d: forward(a, weights=np.ones_like(a["weights"]))),
    wrong("input_ignored", 2,
          "This is the sum of the weights plus the bias: the input is not multiplied in.",
          lambda a, d: forward(a, np.ones_like(a["input"]))),
    wrong("averaged", 2,
          "The result is divided by n_in; the layer is a sum.",
          lambda a, d: forward(a) / d["n_in"]),
    wrong("relu_applied", 2,
          "Negative outputs are cut to 0: ReLU is a layer of its own, the next puzzle.",
          lambda a, d: dense.relu(forward(a))),
)  # fmt: skip

O_NUMBER = "int o = blockIdx.x * blockDim.x + threadIdx.x;"
B_NUMBER = "int b = blockIdx.y * blockDim.y + threadIdx.y;"
GUARD = "if (b >= batch || o >= n_out) return;"
BIAS = "float sum = bias[o];"
LOOP = "for (int i = 0; i < n_in; i++) {"
INPUT, WEIGHT = "input[b * n_in + i]", "weights[o * n_in + i]"
STORE = "output[b * n_out + o] = sum;"


def mutant(name, old, new, expect="wrong", also=()):
    return Mutant(name, KERNEL, old, new, expect, also)


MUTANTS = (
    # the bias
    mutant("bias missing", BIAS, "float sum = 0.0f;", "bias_missing"),
    mutant("bias in the loop", BIAS, "float sum = 0.0f;", "bias_for_every_product",
           also=((f"{WEIGHT};", f"{WEIGHT} + bias[o];"),)),
    mutant("bias[0] for all", BIAS, "float sum = bias[0];", "bias_0_only"),
    mutant("bias of the sample's number", BIAS, "float sum = bias[b];", ("bias_by_sample", "out-of-bounds")),
    mutant("bias subtracted", BIAS, "float sum = -bias[o];", "bias_subtracted"),
    mutant("bias multiplied", BIAS, "float sum = 0.0f;", "bias_multiplied",
           also=((STORE, "output[b * n_out + o] = sum * bias[o];"),)),
    mutant("sum not set to anything", BIAS, "float sum;", ("uninitialised-read", "bias_missing", "wrong")),
    # the arrays
    mutant("weights as in matmul", WEIGHT, "weights[i * n_out + o]", "weights_as_in_matmul"),
    mutant("rows of the weights n_out long", WEIGHT, "weights[o * n_out + i]",
           ("weights_stride_n_out", "out-of-bounds")),
    mutant("rows of the input n_out long", INPUT, "input[b * n_out + i]",
           ("input_stride_n_out", "out-of-bounds")),
    mutant("input as [n_in, batch]", INPUT, "input[i * batch + b]", "input_transposed"),
    mutant("b missing in the input", INPUT, "input[i]", "sample_missing"),
    mutant("o missing in the weights", WEIGHT, "weights[i]", "output_missing"),
    mutant("i missing in the input", INPUT, "input[b * n_in]", "one_input_for_all"),
    mutant("i missing in the weights", WEIGHT, "weights[o * n_in]", "one_weight_for_all"),
    mutant("o and b exchanged", INPUT, "input[o * n_in + i]", ("wrong", "out-of-bounds"),
           also=((WEIGHT, "weights[b * n_in + i]"),)),
    mutant("output as [n_out, batch]", STORE, "output[o * batch + b] = sum;", "output_transposed"),
    mutant("rows of the output n_in long", STORE, "output[b * n_in + o] = sum;", ("out-of-bounds", "race")),
    # the threads
    mutant("x and y exchanged", O_NUMBER, "int o = blockIdx.y * blockDim.y + threadIdx.y;", "axes_swapped",
           also=((B_NUMBER, "int b = blockIdx.x * blockDim.x + threadIdx.x;"),)),
    mutant("outputs counted in a byte", "int o = ", "unsigned char o = ", ("unwritten", "race")),
    mutant("places in 16 bits", "output[b * n_out + o] =", "output[(unsigned short)(b * n_out + o)] =", "race"),
    mutant("no guard", GUARD, "", ("out-of-bounds", "race")),
    mutant("guard with and", GUARD, "if (b >= batch && o >= n_out) return;", ("out-of-bounds", "race")),
    mutant("guard one too late", GUARD, "if (b > batch || o > n_out) return;", ("out-of-bounds", "race")),
    mutant("guard with n_in", GUARD, "if (b >= batch || o >= n_in) return;",
           ("out-of-bounds", "race", "unwritten")),
    mutant("sample 0 only", GUARD, "if (b >= 1 || o >= n_out) return;", "unwritten"),
    mutant("sizes of a block exchanged", O_NUMBER, O_NUMBER.replace("blockDim.x", "blockDim.y"),
           ("unwritten", "race"), also=((B_NUMBER, B_NUMBER.replace("blockDim.y", "blockDim.x")),)),
    mutant("size of a block in x written as 16", O_NUMBER, O_NUMBER.replace("blockDim.x", "16"), "unwritten"),
    mutant("size of a block in y written as 16", B_NUMBER, B_NUMBER.replace("blockDim.y", "16"), "unwritten"),
    mutant("blocks left out", O_NUMBER, "int o = threadIdx.x;", ("unwritten", "race")),
    # the sum
    mutant("last input missing", LOOP, "for (int i = 0; i < n_in - 1; i++) {", "last_input_missing"),
    mutant("one input too many", LOOP, "for (int i = 0; i <= n_in; i++) {", "out-of-bounds"),
    mutant("i runs to n_out", LOOP, "for (int i = 0; i < n_out; i++) {",
           ("inputs_bounded_by_n_out", "out-of-bounds")),
    mutant("overwritten instead of added", "sum += input", "sum = input", "last_product_only"),
    mutant("weights ignored", f"{INPUT} * {WEIGHT}", INPUT, "weights_ignored"),
    mutant("input ignored", f"{INPUT} * {WEIGHT}", WEIGHT, "input_ignored"),
    mutant("averaged", STORE, "output[b * n_out + o] = sum / n_in;", "averaged"),
    mutant("ReLU applied", STORE, "output[b * n_out + o] = sum > 0.0f ? sum : 0.0f;", "relu_applied"),
    mutant("sum in an int", BIAS, "int sum = bias[o];"),
    mutant("added to what was there", STORE, "output[b * n_out + o] += sum;",
           ("uninitialised-read", "wrong", "unwritten")),
    mutant("not stored", STORE, "", "unwritten"),
    mutant("never ends", LOOP, "for (int i = 0; i < n_in;) {", "timeout"),
)  # fmt: skip

PUZZLE = Puzzle(
    title="Fully connected layer, forward",
    part=1,
    teaches="How a layer is a matrix product with a bias, and why every output keeps its weights in one row.",
    practice=(
        "torch.nn.Linear keeps its weights as [out, in] too and leaves the product to cuBLAS; cuBLASLt can "
        "add the bias at the end of the same kernel."
    ),
    lines=9,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("input", b="batch", i="n_in"), In("weights", o="n_out", i="n_in"), In("bias", o="n_out"),
                Out("output", b="batch", o="n_out"),
                Int("batch"), Int("n_in"), Int("n_out"),
            ),
            launch=lambda d, t: Launch(
                grid=(ceil_div(d["n_out"], d["tx"]), ceil_div(d["batch"], d["ty"])), block=(d["tx"], d["ty"])
            ),
            reference=lambda a, d: dense.forward(a["input"], a["weights"], a["bias"]),
        ),
    ),
    dims=lambda d: {"tx": 16, "ty": 16, **d},
    bench=dict(batch=256, n_in=4096, n_out=4096),
    cases=(
        Case(
            "fc_fw_tiny_2x4", dict(batch=2, n_in=4, n_out=3),
            note="the numbers of puzzle 02; done by hand in the lesson",
            inputs={
                "input": [[1, 2, 0, -1], [3, 1, 2, 4]],
                "weights": [[2, 1, 0, 1], [0, 5, 1, 2], [1, -2, 3, 0]],
                "bias": [10, -20, 1],
            },
        ),
        Case("one_input", dict(batch=4, n_in=1, n_out=9), note="sums of one product"),
        Case("one_output", dict(batch=7, n_in=5, n_out=1)),
        Case("one_sample", dict(batch=1, n_in=6, n_out=35), note="3 blocks in x"),
        Case("integers", dict(batch=5, n_in=12, n_out=7), note="exact sums", values="integers"),
        Case("many_samples", dict(batch=70, n_in=9, n_out=6), note="5 blocks in y"),
        Case("nothing_divides", dict(batch=19, n_in=37, n_out=33, tx=8, ty=4),
             note="5 x 5 blocks of 8 x 4 threads"),
        Case("fc_fw_lenet_84_10", dict(batch=8, n_in=84, n_out=10), note="LeNet's last layer"),
        Case("fc_fw_lenet_120_84", dict(batch=8, n_in=120, n_out=84), note="LeNet's fourth"),
        Case("fc_fw_lenet_256_120", dict(batch=8, n_in=256, n_out=120), note="LeNet's third"),
        Case("own_sizes", note="sizes that belong to your file",
             draw=lambda pick: dict(batch=pick(5, 40), n_in=pick(3, 50), n_out=pick(11, 60), tx=pick(3, 20),
                                    ty=pick(2, 12))),
        Case("large_input", dict(batch=257, n_in=261, n_out=2),
             note="more than 65,536 elements in input", stress=True),
        Case("large_weights", dict(batch=2, n_in=257, n_out=263),
             note="more than 65,536 elements in weights", stress=True),
        Case("large_output", dict(batch=259, n_in=2, n_out=257, tx=1, ty=1),
             note="more than 65,536 elements in output", stress=True),
    ),
    misconceptions=MISCONCEPTIONS,
    mutants=MUTANTS,
    hints=(
        "Each thread owns one number: output o of sample b. As in matmul, the number of the thread in x goes "
        "with the axis that changes fastest in the result, here o, and its number in y with the other, b. "
        "There are n_out outputs and batch samples; a thread that lacks either has no work.",
        "One running sum per thread, a plain float variable. It starts as the bias that belongs to output "
        "o, once; the bias does not depend on the sample. One loop over the n_in inputs adds a product in "
        "each round: input i of the sample times weight i of the output. The sum is stored once.",
        "All arrays lie row by row. A row of the input is one sample, n_in long; a row of the weights "
        "belongs to one output and is n_in long too; a row of the output is one sample, n_out long. The "
        "place of an element is row number times row length plus the place in the row. The sum walks along "
        "a row in both factors, so in both one step of i is one place.",
    ),
)  # fmt: skip
