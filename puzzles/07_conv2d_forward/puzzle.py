"""Puzzle 07: the convolution of LeNet, one thread per output element."""

from __future__ import annotations

from backwarp.course import Case, Mistake, Puzzle
from backwarp.course.conv_cases import SMALL_SQUARES, square
from backwarp.course.convolutions import forward
from backwarp.course.sizes import Ints, by_hand, integers, one_thread_each, own_sizes

KERNEL = "conv2d_forward"
MISTAKES = (
    Mistake("divided by a rounded inverse", ("idx % W_out", "idx - int(idx * (1.0f / W_out)) * W_out")),
)

PUZZLE = Puzzle(
    title="Convolution, forward",
    part=1,
    teaches="How one thread per output element turns its number into (image, channel, row, column).",
    practice="cuDNN has several algorithms for this sum: implicit GEMM (puzzle 30), Winograd's, FFT.",
    lines=15,
    kernels=(
        forward(KERNEL, one_thread_each("batch", "C_out", "H_out", "W_out"), Ints("batch C_in H W C_out F")),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, "threads": 128, **d},
    bench=square(128, 64, 56, 56, 64, 3),
    cases=(
        by_hand(
            "conv_fw_tiny_3x3",
            square(1, 1, 3, 3, 1, 2),
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
            weights=[[[[2, -1], [1, 3]]]],
            bias=[1],
        ),
        Case("filter_1x1", square(2, 3, 3, 4, 4, 1), "only channels"),
        Case("one_channel_wide", square(2, 1, 5, 8, 1, 3), "W > H"),
        Case("output_1x1", square(2, 3, 4, 4, 5, 4), "the filter covers the image"),
        integers(square(2, 3, 6, 9, 4, 3)),
        Case("batch_odd", square(3, 4, 9, 7, 5, 2, threads=96), "all sizes differ; H > W; 8 blocks of 96"),
        Case("nothing_divides", square(3, 5, 19, 17, 7, 3), "42 blocks"),
        Case("conv_fw_lenet_conv1", square(4, 1, 28, 28, 6, 5), "LeNet's first"),
        Case("conv_fw_lenet_conv2", square(4, 6, 12, 12, 16, 5), "LeNet's second"),
        Case(
            "large_image",
            square(1, 1, 263, 329, 1, 2, threads=1),
            "more pixels, and blocks, than 16 bits can count",
            stress=True,
        ),
        own_sizes(**SMALL_SQUARES, threads=(30, 90)),
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
