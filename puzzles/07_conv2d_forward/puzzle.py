"""Puzzle 07: the convolution of LeNet, one thread per output element."""

from __future__ import annotations

from backwarp.course import Case, Mistake, Puzzle
from backwarp.course.conv_cases import one_thread_each
from backwarp.course.convolutions import forward
from backwarp.course.sizes import Ints, integers, own_sizes, with_inputs

KERNEL = "conv2d_forward"
MISTAKES = (
    Mistake("divided by a rounded inverse", ("idx % W_out", "idx - int(idx * (1.0f / W_out)) * W_out")),
)

PUZZLE = Puzzle(
    title="Convolution, forward",
    part=1,
    teaches="How one thread per output element turns its number into (image, channel, row, column).",
    practice="cuDNN has several algorithms for this sum and picks one by shape: implicit GEMM (puzzle 30), "
    "Winograd's, FFT.",
    lines=15,
    kernels=(
        forward(KERNEL, one_thread_each("batch", "C_out", "H_out", "W_out"), Ints("batch C_in H W C_out F")),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "threads": 128, **d},
    bench=dict(batch=128, C_in=64, H=56, W=56, C_out=64, F=3),
    cases=(
        with_inputs(
            "conv_fw_tiny_3x3",
            dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2),
            "done by hand in the lesson",
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
            weights=[[[[2, -1], [1, 3]]]],
            bias=[1],
        ),
        Case("filter_1x1", dict(batch=2, C_in=3, H=3, W=4, C_out=4, F=1), "only channels"),
        Case("one_channel_wide", dict(batch=2, C_in=1, H=5, W=8, C_out=1, F=3), "W > H"),
        Case("output_1x1", dict(batch=2, C_in=3, H=4, W=4, C_out=5, F=4), "the filter covers the image"),
        integers(dict(batch=2, C_in=3, H=6, W=9, C_out=4, F=3)),
        Case(
            "batch_odd",
            dict(batch=3, C_in=4, H=9, W=7, C_out=5, F=2, threads=96),
            "all sizes differ; H > W; 8 blocks of 96 threads",
        ),
        Case("nothing_divides", dict(batch=3, C_in=5, H=19, W=17, C_out=7, F=3), "42 blocks"),
        Case("conv_fw_lenet_conv1", dict(batch=4, C_in=1, H=28, W=28, C_out=6, F=5), "LeNet's first"),
        Case("conv_fw_lenet_conv2", dict(batch=4, C_in=6, H=12, W=12, C_out=16, F=5), "LeNet's second"),
        Case(
            "large_image",
            dict(batch=1, C_in=1, H=263, W=329, C_out=1, F=2, threads=1),
            "more pixels, and blocks, than 16 bits can count",
            stress=True,
        ),
        own_sizes(
            batch=(257, 290), C_in=(2, 4), H=(4, 8), W=(4, 8), C_out=(2, 5), F=(1, 3), threads=(30, 90)
        ),
    ),
    mistakes=MISTAKES,
    hints=(
        "Each thread owns one number, output[b, k, p, q]. Find its b, k, p and q first: idx counts the "
        "outputs in the order in which they lie in memory, as a clock counts seconds. Seconds are the "
        "remainder by 60, then divide and take the remainder again for minutes. Here the wheel that turns "
        "fastest is q, with W_out positions, then p, then k; what is left over is b.",
        "One running sum per thread, a plain float variable. It starts as the bias of channel k, once. Three "
        "nested loops go over c, r and s: all channels of the input, all rows and columns of the filter. "
        "After the loops the sum is stored once.",
        "One product: the weight at (k, c, r, s) times the input at (b, c, p + r, q + s). The flat position "
        "of an element: take its first index; for every further axis multiply by that axis's size and add "
        "that axis's index. Use the sizes of the array you read: the weights have C_out, C_in, F, F; the "
        "input has batch, C_in, H, W. Neither has H_out or W_out.",
    ),
)
