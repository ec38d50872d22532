"""Puzzle 24: a convolution through a tile with a halo in shared memory, the filter in constant memory."""

from __future__ import annotations

from backwarp.reference import conv

from backwarp.course import Case, Constant, Gate, In, Kernel, Launch, Mistake, Out, Puzzle, ceil_div
from backwarp.course.conv_cases import square
from backwarp.course.mistakes import slow
from backwarp.course.sizes import Ints, integers, own_sizes, with_inputs

KERNEL = "conv2d_forward"
FILL = "tile[i * across + j] = input[((b * C_in + c) * H + top + i) * W + left + j];"
USED = "__syncthreads();  // nobody needs it any more"
ADD = "sum += weights[((k * C_in + c) * F + r) * F + s] * tile[(y + r) * across + x + s];"
WEIGHT = "sum += weights[((k * C_in + c) * F + r) * F + s]"
FROM_INPUT = WEIGHT + " * input[((b * C_in + c) * H + p + r) * W + q + s];"

MISTAKES = (
    slow(
        "no tile, as in puzzle 07",
        FROM_INPUT[:80],
        ("s] * tile[(y + r) * across + x", "s] * input[((b * C_in + c) * H + p + r) * W + q"),
        ("i < down", "i < 0"),
    ),
    slow(
        "halo not in the tile",
        "input[((b * C_in + c) * H + p + r) * W + q + s]);",
        (
            ADD,
            WEIGHT + " * (y + r < HEIGHT && x + s < WIDTH ?\n"
            "                    tile[(y + r) * across + x + s] :\n"
            "                    input[((b * C_in + c) * H + p + r) * W + q + s]);",
        ),
        ("i < down", "i < HEIGHT"),
        ("j < across", "j < WIDTH"),
    ),
    slow("small tiles", FILL, ("HEIGHT = 8", "HEIGHT = 1")),
    slow("two rows in a warp", ADD, ("WIDTH = 32", "WIDTH = 16"), ("HEIGHT = 8", "HEIGHT = 16")),
    slow(
        "two rows in a warp, and requests that change the average",
        "passes over the banks of shared memory",
        ("WIDTH = 32", "WIDTH = 16"),
        (
            USED,
            "for (int i = 0; i < 120; i++) {\n"
            "            if (tile[i * (F / 100)] > 1e30f) output[0] = sum;\n        }\n        " + USED,
        ),
    ),
    slow(
        "the first warp fills the tile",
        "by the busiest warps",
        ("y; i < down && top + i < H; i += HEIGHT", "0; y == 0 && i < down && top + i < H; i += 1"),
    ),
    Mistake(
        "first tile again",
        ("top + i) * W + left", "i) * W"),
        says="Every block copies the upper left part of the image: its own first row and column are missing.",
        hint=2,
    ),
)


def warps(d):
    """Those of all blocks, if a warp has 32 outputs of a row."""
    blocks = d["batch"] * d["C_out"] * ceil_div(d["H_out"], d["HEIGHT"]) * ceil_div(d["W_out"], 32)
    return blocks * d["HEIGHT"]


PUZZLE = Puzzle(
    title="Convolution through a tile with a halo",
    part=3,
    teaches="How the threads of a block read the part of an image that they share once, edges included.",
    practice="NVIDIA's sample convolutionSeparable loads such a tile too, and calls its border the apron.",
    lines=22,
    kernels=(
        Kernel(
            KERNEL,
            params=(
                In("input", b="batch", c="C_in", h="H", w="W"),
                In("bias", k="C_out"),
                Out("output", b="batch", k="C_out", p="H_out", q="W_out"),
                *Ints("batch C_in H W C_out F"),
            ),
            constants=(Constant("weights", 4096, k="C_out", c="C_in", r="F", s="F"),),
            launch=lambda d, t: Launch(
                grid=(
                    ceil_div(d["W_out"], t["WIDTH"]),
                    ceil_div(d["H_out"], t["HEIGHT"]),
                    d["batch"] * d["C_out"],
                ),
                block=(t["WIDTH"], t["HEIGHT"]),
                shared_mem=4 * (t["WIDTH"] + d["F"] - 1) * (t["HEIGHT"] + d["F"] - 1),
            ),
            reference=lambda a, d: conv.forward(a["input"], a["weights"], a["bias"]),
        ),
    ),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, **d},
    bench=square(256, 6, 112, 112, 16, 5),
    cases=(
        with_inputs(
            "conv_fw_tiny_3x3",
            square(1, 1, 3, 3, 1, 2),
            "the numbers of puzzle 07; done by hand in the lesson",
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
            weights=[[[[2, -1], [1, 3]]]],
            bias=[1],
        ),
        Case("filter_1x1", square(2, 3, 3, 4, 4, 1), "no halo at all"),
        Case("one_channel_wide", square(2, 1, 5, 8, 1, 3), "W > H"),
        Case("output_1x1", square(2, 3, 4, 4, 5, 4), "the tile is nearly all halo"),
        Case("small_tiles", square(1, 2, 9, 11, 3, 3), "drawn in the lesson"),
        integers(square(2, 3, 6, 9, 4, 3)),
        Case("just_a_tile", square(1, 2, 10, 34, 2, 3), "8 x 32 outputs"),
        Case("nothing_divides", square(1, 2, 37, 36, 2, 4), "2 x 5 tiles; H > W"),
        own_sizes(batch=(257, 270), C_in=(1, 3), H=(4, 10), W=(4, 10), C_out=(1, 2), F=(1, 3)),
        Case("conv_fw_lenet_conv2", square(2, 6, 12, 12, 16, 5), "LeNet's second"),
        Case(
            "conv_fw_lenet_conv1",
            square(4, 1, 28, 28, 6, 5),
            "LeNet's first; this one is counted",
            again=lambda pick: dict(
                batch=pick(2, 3),
                C_in=pick(2, 3),
                C_out=pick(7, 9),
                F=(F := pick(3, 4)),
                H=F + 8 * pick(4, 5) - 1,
                W=F + 31,
            ),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_bytes",
            lambda d: (
                4 * d["batch"] * d["C_out"] * (d["H_out"] * d["W_out"] + 3.25 * d["C_in"] * d["H"] * d["W"])
            ),
            below=2_239_488,
            says="Neighbouring windows overlap: let the block read the part of the input that its windows "
            "cover once, into shared memory, instead of every thread reading its own.",
        ),
        Gate(
            "conflicts_per_request",
            0.2,
            below=0.488,
            hint=2,
            says="A warp whose threads are in two rows of the tile wants two words from some banks of shared "
            "memory: let WIDTH be 32, so that a warp stays in one row, whose words are in 32 different "
            "banks.",
        ),
        *Gate.limits(
            global_requests=lambda d: (4 * d["C_in"] + 2) * warps(d),
            global_requests_busiest=lambda d: (6 * d["C_in"] + 2) * warps(d) / d["HEIGHT"],
            shared_wavefronts=lambda d: warps(d) * d["C_in"] * (1.05 * d["F"] ** 2 + 3),
            flops=lambda d: 1.05 * 2 * 32 * warps(d) * d["C_in"] * d["F"] ** 2,
        ),
    ),
    hints=(
        "WIDTH neighbouring outputs in a row need WIDTH + F - 1 neighbouring inputs: the last window ends F "
        "- 1 places after the last output. So the tile of the input is larger than the block, and a thread "
        "copies more than one element of it: start at the thread's own place, and go on in steps of WIDTH to "
        "the right and HEIGHT down, until the tile ends. Tiles at the edge of the image end with the image.",
        "One sum per thread, as in puzzle 07, which starts as the bias and lives through all channels. For "
        "each channel: copy, wait, add up F * F products, wait. The first barrier is there because the "
        "products use what others have copied, the second because the next channel overwrites it. Threads "
        "without an output copy and wait like all others; they must not leave before the end.",
        "The tile begins where the block's outputs begin, in row and column. So this thread's window begins "
        "at its own x and y in the tile, wherever the block is, and a row of the tile has `across` elements. "
        "The weights have the shape they had in puzzle 07, and the same index; only now they are not an "
        "argument.",
    ),
)
