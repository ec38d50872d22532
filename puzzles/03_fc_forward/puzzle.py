"""Puzzle 03: a fully connected layer, one thread per output of a sample."""

from __future__ import annotations

from backwarp.reference import dense

from backwarp.course import Case, In, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div

KERNEL = "fc_forward"


O_NUMBER = "int o = blockIdx.x * blockDim.x + threadIdx.x;"
B_NUMBER = "int b = blockIdx.y * blockDim.y + threadIdx.y;"
GUARD = "if (b >= batch || o >= n_out) return;"
BIAS = "float sum = bias[o];"
LOOP = "for (int i = 0; i < n_in; i++) {"
INPUT, WEIGHT = "input[b * n_in + i]", "weights[o * n_in + i]"
STORE = "output[b * n_out + o] = sum;"


MISTAKES = (
    # the bias
    Mistake(
        "bias missing",
        (BIAS, "float sum = 0.0f;"),
        says="The bias is missing: every output is off by exactly bias[o].",
        hint=2,
    ),
    Mistake(
        "bias in the loop",
        ((BIAS, "float sum = 0.0f;"), (f"{WEIGHT};", f"{WEIGHT} + bias[o];")),
        says="The bias is added once for every input; it must be added just once.",
        hint=2,
    ),
    Mistake(
        "bias[0] for all",
        (BIAS, "float sum = bias[0];"),
        says="Every output gets bias[0]: the index of the bias must be o.",
        hint=2,
    ),
    Mistake(
        "bias of the sample's number",
        (BIAS, "float sum = bias[b];"),
        expect="out-of-bounds",
        says="The index of the bias is b, the sample; it must be o: every output has its own bias, the same "
        "for all samples.",
        hint=2,
    ),
    Mistake(
        "bias subtracted",
        (BIAS, "float sum = -bias[o];"),
        says="The bias is subtracted: every output is off by exactly 2 * bias[o].",
        hint=2,
    ),
    Mistake(
        "bias multiplied",
        ((BIAS, "float sum = 0.0f;"), (STORE, "output[b * n_out + o] = sum * bias[o];")),
        says="The sum is multiplied by the bias; the bias is added.",
        hint=2,
    ),
    Mistake(
        "sum not set to anything",
        (BIAS, "float sum;"),
        expect=("uninitialised-read", "bias missing", "wrong"),
    ),
    # the arrays
    Mistake(
        "weights as in matmul",
        (WEIGHT, "weights[i * n_out + o]"),
        says="The weights are read as [n_in, n_out], as B was in matmul; they are stored as [n_out, n_in].",
        hint=3,
    ),
    Mistake(
        "rows of the weights n_out long",
        (WEIGHT, "weights[o * n_out + i]"),
        expect="out-of-bounds",
        says="The rows of the weights are taken to be n_out long; every output has a row of n_in weights.",
        hint=3,
    ),
    Mistake(
        "rows of the input n_out long",
        (INPUT, "input[b * n_out + i]"),
        expect="out-of-bounds",
        says="The step from sample to sample in the input is n_out; every sample has n_in inputs.",
        hint=3,
    ),
    Mistake(
        "input as [n_in, batch]",
        (INPUT, "input[i * batch + b]"),
        says="The input is read as [n_in, batch]; it is stored sample by sample, as [batch, n_in].",
        hint=3,
    ),
    Mistake(
        "b missing in the input",
        (INPUT, "input[i]"),
        says="Every sample gives the output of sample 0: b is missing from the index of the input.",
        hint=3,
    ),
    Mistake(
        "o missing in the weights",
        (WEIGHT, "weights[i]"),
        says="Every output uses the weights of output 0: o is missing from the index of the weights.",
        hint=3,
    ),
    Mistake(
        "i missing in the input",
        (INPUT, "input[b * n_in]"),
        says="Every weight is multiplied by input 0 of the sample: i is missing from the index of the input.",
        hint=3,
    ),
    Mistake(
        "i missing in the weights",
        (WEIGHT, "weights[o * n_in]"),
        says="Every input is multiplied by the first weight of the output: i is missing from the index of "
        "the weights.",
        hint=3,
    ),
    Mistake(
        "o and b exchanged",
        ((INPUT, "input[o * n_in + i]"), (WEIGHT, "weights[b * n_in + i]")),
        expect=("wrong", "out-of-bounds"),
    ),
    Mistake(
        "output as [n_out, batch]",
        (STORE, "output[o * batch + b] = sum;"),
        says="The right numbers are in the wrong places: the output is filled as [n_out, batch].",
        hint=3,
    ),
    Mistake(
        "rows of the output n_in long",
        (STORE, "output[b * n_in + o] = sum;"),
        expect=("out-of-bounds", "race"),
    ),
    # the threads
    Mistake(
        "x and y exchanged",
        (
            (O_NUMBER, "int o = blockIdx.y * blockDim.y + threadIdx.y;"),
            (B_NUMBER, "int b = blockIdx.x * blockDim.x + threadIdx.x;"),
        ),
        says="Samples or outputs are never written: x is used for the sample and y for the output; swap "
        "them.",
    ),
    Mistake("outputs counted in a byte", ("int o = ", "unsigned char o = "), expect=("unwritten", "race")),
    Mistake(
        "places in 16 bits",
        ("output[b * n_out + o] =", "output[(unsigned short)(b * n_out + o)] ="),
        expect="wrong",
    ),
    Mistake("no guard", (GUARD, ""), expect=("out-of-bounds", "race")),
    Mistake(
        "guard with and", (GUARD, "if (b >= batch && o >= n_out) return;"), expect=("out-of-bounds", "race")
    ),
    Mistake(
        "guard one too late", (GUARD, "if (b > batch || o > n_out) return;"), expect=("out-of-bounds", "race")
    ),
    Mistake(
        "guard with n_in",
        (GUARD, "if (b >= batch || o >= n_in) return;"),
        expect=("out-of-bounds", "race", "unwritten"),
    ),
    Mistake("sample 0 only", (GUARD, "if (b >= 1 || o >= n_out) return;"), expect="unwritten"),
    Mistake(
        "sizes of a block exchanged",
        (
            (O_NUMBER, O_NUMBER.replace("blockDim.x", "blockDim.y")),
            (B_NUMBER, B_NUMBER.replace("blockDim.y", "blockDim.x")),
        ),
        expect=("unwritten", "race"),
    ),
    Mistake(
        "size of a block in x written as 16",
        (O_NUMBER, O_NUMBER.replace("blockDim.x", "16")),
        expect="unwritten",
    ),
    Mistake(
        "size of a block in y written as 16",
        (B_NUMBER, B_NUMBER.replace("blockDim.y", "16")),
        expect="unwritten",
    ),
    Mistake("blocks left out", (O_NUMBER, "int o = threadIdx.x;"), expect=("unwritten", "race")),
    # the sum
    Mistake(
        "last input missing",
        (LOOP, "for (int i = 0; i < n_in - 1; i++) {"),
        says="The last input is left out of every sum: it stops one too early.",
        hint=2,
    ),
    Mistake("one input too many", (LOOP, "for (int i = 0; i <= n_in; i++) {"), expect="out-of-bounds"),
    Mistake(
        "i runs to n_out",
        (LOOP, "for (int i = 0; i < n_out; i++) {"),
        expect="wrong",
    ),
    Mistake(
        "overwritten instead of added",
        ("sum += input", "sum = input"),
        says="Only the last product is in the result, without bias: each one replaces the sum instead of being added to it.",
        hint=2,
    ),
    Mistake(
        "weights ignored",
        (f"{INPUT} * {WEIGHT}", INPUT),
        says="This is the sum of the inputs plus the bias: the weights are missing from the product.",
        hint=2,
    ),
    Mistake(
        "input ignored",
        (f"{INPUT} * {WEIGHT}", WEIGHT),
        says="This is the sum of the weights plus the bias: the input is missing from the product.",
        hint=2,
    ),
    Mistake(
        "averaged",
        (STORE, "output[b * n_out + o] = sum / n_in;"),
        says="The result is divided by n_in; it must be the plain sum.",
        hint=2,
    ),
    Mistake(
        "ReLU applied",
        (STORE, "output[b * n_out + o] = sum > 0.0f ? sum : 0.0f;"),
        says="Negative outputs are cut to 0: ReLU is a layer of its own, the next puzzle.",
        hint=2,
    ),
    Mistake("sum in an int", (BIAS, "int sum = bias[o];")),
    Mistake(
        "added to what was there",
        (STORE, "output[b * n_out + o] += sum;"),
        expect=("uninitialised-read", "wrong", "unwritten"),
    ),
    Mistake("not stored", (STORE, ""), expect="unwritten"),
    Mistake("never ends", (LOOP, "for (int i = 0; i < n_in;) {"), expect="timeout"),
)

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
                In("input", b="batch", i="n_in"),
                In("weights", o="n_out", i="n_in"),
                In("bias", o="n_out"),
                Out("output", b="batch", o="n_out"),
                Int("batch"),
                Int("n_in"),
                Int("n_out"),
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
            "fc_fw_tiny_2x4",
            dict(batch=2, n_in=4, n_out=3),
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
        Case(
            "nothing_divides",
            dict(batch=19, n_in=37, n_out=33, tx=8, ty=4),
            note="5 x 5 blocks of 8 x 4 threads",
        ),
        Case("fc_fw_lenet_84_10", dict(batch=8, n_in=84, n_out=10), note="LeNet's last layer"),
        Case("fc_fw_lenet_120_84", dict(batch=8, n_in=120, n_out=84), note="LeNet's fourth"),
        Case("fc_fw_lenet_256_120", dict(batch=8, n_in=256, n_out=120), note="LeNet's third"),
        Case(
            "own_sizes",
            note="sizes drawn from your file's text",
            draw=lambda pick: dict(
                batch=pick(5, 40), n_in=pick(3, 50), n_out=pick(11, 60), tx=pick(3, 20), ty=pick(2, 12)
            ),
        ),
    ),
    mistakes=MISTAKES,
    hints=(
        "Each thread owns one number: output o of sample b. As in matmul, the thread's number in x goes "
        "with the axis that changes fastest in the result, here o, and its number in y with the other, b. "
        "There are n_out outputs and batch samples; a thread without either has no work.",
        "One running sum per thread, a plain float variable. It starts as the bias that belongs to output "
        "o, once; the bias does not depend on the sample. One loop over the n_in inputs adds a product in "
        "each round: input i of the sample times weight i of the output. The sum is stored once.",
        "All arrays are stored row by row. A row of the input is one sample, n_in long; a row of the "
        "weights belongs to one output and is n_in long too; a row of the output is one sample, n_out long. "
        "The place of an element is row number times row length plus the place in the row. The sum walks "
        "along a row in both factors, so in both one step of i is one place.",
    ),
)
