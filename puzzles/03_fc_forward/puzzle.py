"""Puzzle 03: a fully connected layer, one thread per output of a sample."""

from __future__ import annotations

from backwarp.reference import dense

from backwarp.course import Case, In, Kernel, Mistake, Out, Puzzle
from backwarp.course.sizes import Ints, integers, own_sizes, tiled, with_inputs

KERNEL = "fc_forward"

MISTAKES = (
    Mistake(
        "x and y exchanged",
        (
            ("x * blockDim.x + threadIdx.x", "y * blockDim.y + threadIdx.y"),
            ("b = blockIdx.y * blockDim.y + threadIdx.y", "b = blockIdx.x * blockDim.x + threadIdx.x"),
        ),
        says="Samples or outputs are never written: x is used for the sample, y for the output; swap them.",
    ),
    Mistake("places in 16 bits", ("b * n_out + o", "(unsigned short)(b * n_out + o)"), expect="wrong"),
)

PUZZLE = Puzzle(
    title="Fully connected layer, forward",
    part=1,
    teaches="How a layer is a matrix product with a bias, and why every output keeps its weights in one row.",
    practice="torch.nn.Linear keeps its weights as [out, in] too and leaves the product to cuBLAS; cuBLASLt "
    "can add the bias at the end of the same kernel.",
    lines=9,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("input", b="batch", i="n_in"),
                In("weights", o="n_out", i="n_in"),
                In("bias", o="n_out"),
                Out("output", b="batch", o="n_out"),
                *Ints("batch n_in n_out"),
            ),
            launch=tiled("n_out", "batch"),
            reference=lambda a, d: dense.forward(a["input"], a["weights"], a["bias"]),
        ),
    ),
    dims=lambda d: {"tx": 16, "ty": 16, **d},
    bench=dict(batch=256, n_in=4096, n_out=4096),
    cases=(
        with_inputs(
            "fc_fw_tiny_2x4",
            dict(batch=2, n_in=4, n_out=3),
            "the numbers of puzzle 02; done by hand in the lesson",
            input=[[1, 2, 0, -1], [3, 1, 2, 4]],
            weights=[[2, 1, 0, 1], [0, 5, 1, 2], [1, -2, 3, 0]],
            bias=[10, -20, 1],
        ),
        Case("one_input", dict(batch=4, n_in=1, n_out=9), "sums of one product"),
        Case("one_output", dict(batch=7, n_in=5, n_out=1)),
        Case("one_sample", dict(batch=1, n_in=6, n_out=35), "3 blocks in x"),
        integers(dict(batch=5, n_in=12, n_out=7)),
        Case("many_samples", dict(batch=70, n_in=9, n_out=6), "5 blocks in y"),
        Case("nothing_divides", dict(batch=19, n_in=37, n_out=33, tx=8, ty=4), "5 x 5 blocks of 8 x 4"),
        Case("fc_fw_lenet_84_10", dict(batch=8, n_in=84, n_out=10), "LeNet's last layer"),
        Case("fc_fw_lenet_120_84", dict(batch=8, n_in=120, n_out=84), "LeNet's fourth"),
        Case("fc_fw_lenet_256_120", dict(batch=8, n_in=256, n_out=120), "LeNet's third"),
        own_sizes(batch=(5, 40), n_in=(3, 50), n_out=(11, 60), tx=(3, 20), ty=(2, 12)),
    ),
    mistakes=MISTAKES,
    hints=(
        "Each thread owns one number: output o of sample b. As in matmul, the thread's number in x goes with "
        "the axis that changes fastest in the result, here o, and its number in y with the other, b. There "
        "are n_out outputs and batch samples; a thread without either has no work.",
        "One running sum per thread, a plain float variable. It starts as the bias that belongs to output o, "
        "once; the bias does not depend on the sample. One loop over the n_in inputs adds a product in each "
        "round: input i of the sample times weight i of the output. The sum is stored once.",
        "All arrays are stored row by row. A row of the input is one sample, n_in long; a row of the weights "
        "belongs to one output and is n_in long too; a row of the output is one sample, n_out long. The "
        "place of an element is row number times row length plus the place in the row. The sum walks along a "
        "row in both factors, so in both one step of i is one place.",
    ),
)
