"""Puzzle 43: a matrix product with constants that suit three shapes of LeNet, and a multiprocessor."""

from __future__ import annotations

from backwarp.course import Case, Gate, Launch, Puzzle, ceil_div
from backwarp.course.convolutions import matmul
from backwarp.course.mistakes import slow
from backwarp.course.sizes import by_hand, integers, own_sizes
from backwarp.devices.nvrtc.ptxas import Resources, occupancy

CONV2, WEIGHTS, INPUT = "conv2_forward", "fc1_weights", "fc1_input"
CONSTANTS = "constexpr int BM = 16;", "constexpr int BN = 128;", "constexpr int BK = 16;"
SUMS = "constexpr int TM = 4;", "constexpr int TN = 4;"


def chosen(name, *edits):
    """Right, but with other constants."""
    return slow(name, "", *edits)


def constant(line, value):
    return line, f"{line.split('=')[0]}= {value};"


MISTAKES = (
    chosen("BM = 8", constant(CONSTANTS[0], 8)),
    chosen("BM = 32", constant(CONSTANTS[0], 32)),
    chosen("BN = 32", constant(CONSTANTS[1], 32)),
    chosen("BK = 8", constant(CONSTANTS[2], 8)),
    chosen("BK = 64", constant(CONSTANTS[2], 64)),
    chosen("TM = 2", constant(SUMS[0], 2)),
    chosen("TN = 2", constant(SUMS[1], 2)),
    chosen("TN = 8", constant(SUMS[1], 8)),
    chosen("TM = 8", constant(SUMS[0], 8)),
)


def threads(d):
    return d["BM"] // d["TM"] * (d["BN"] // d["TN"])


def registers(d):
    """Of a thread: its sums, its numbers of both tiles, and about 32 more, in units of 8."""
    return 8 * ceil_div(d["TM"] * d["TN"] + d["TM"] + d["TN"] + 32, 8)


def idle(d):
    """The warps, of 64, for which a multiprocessor has no room."""
    shared = 4 * d["BK"] * (d["BM"] + 1 + d["BN"])
    return 64 - occupancy(Resources(registers(d), shared, 0, 0, 0), threads(d)).warps


def a_read(d):
    return d["M"] * d["K"] * ceil_div(d["N"], 64)


def b_read(d):
    return d["K"] * d["N"] * ceil_div(d["M"], 16)


def limits(case):
    """What every shape is counted for."""
    return (
        Gate(
            "flops",
            lambda d: 1.1 * 2 * d["M"] * d["N"] * d["K"],
            case=case,
            says="Products of elements that are not there: BM, BN and BK should divide M, N and K in all "
            "three shapes, or nearly.",
        ),
        Gate(
            "global_bytes",
            lambda d: 4.6 * (a_read(d) + b_read(d) + d["M"] * d["N"]),
            case=case,
            says="Each element of A is read once for every BN columns, and each of B once for every BM rows: "
            "larger tiles move fewer bytes.",
        ),
        Gate(
            "shared_requests_per_flop",
            0.62 / 64,
            case=case,
            hint=2,
            says="For TM * TN products a thread reads TM + TN numbers of the tiles: take more of each.",
        ),
        Gate(
            "barriers",
            lambda d: 2.2 * ceil_div(d["M"], 16) * ceil_div(d["N"], 128) * 4 * ceil_div(d["K"], 16),
            case=case,
            hint=2,
            says="There are two barriers for every BK steps along K: longer stretches wait less often.",
        ),
    )


PUZZLE = Puzzle(
    title="Constants for all shapes",
    part=6,
    teaches="How to choose the constants of a kernel: what each limit says about them, and the sweep that confirms it.",
    practice="Triton's autotuner and CUTLASS's profiler time such lists of constants; what cannot fit is left out before.",
    lines=27,
    kernels=(
        matmul(
            "matmul",
            lambda d, t: Launch(
                (ceil_div(d["N"], t["BN"]), ceil_div(d["M"], t["BM"])),
                t["BM"] // t["TM"] * (t["BN"] // t["TN"]),
            ),
        ),
    ),
    cases=(
        by_hand(
            "matmul_tiny_2x3",
            dict(M=2, N=3, K=4),
            A=[[1, 2, 0, -1], [3, 1, 2, 4]],
            B=[[2, 0, 1], [1, 5, -2], [0, 1, 3], [1, 2, 0]],
        ),
        Case("one_element", dict(M=1, N=1, K=17), "17 products"),
        integers(dict(M=33, N=19, K=35)),
        Case("nothing_divides", dict(M=67, N=270, K=90), "blocks stick out on both sides"),
        own_sizes(M=(17, 140), N=(65, 300), K=(17, 90)),
        Case(
            CONV2,
            dict(M=16, N=512, K=150),
            "LeNet's second layer, 8 images; counted",
            again=lambda pick: dict(M=32, N=768, K=pick(151, 159)),
        ),
        Case(
            WEIGHTS,
            dict(M=120, N=256, K=64),
            "the gradient of fc1's weights, 64 images; counted",
            again=lambda pick: dict(M=16 * pick(5, 6), N=512, K=32 * pick(3, 4)),
        ),
        Case(
            INPUT,
            dict(M=64, N=256, K=120),
            "the gradient of fc1's input; counted",
            again=lambda pick: dict(M=16 * pick(5, 6), N=512, K=32 * pick(4, 5)),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "idle_warps",
            32,
            case=CONV2,
            of=idle,
            below=48,
            hint=3,
            says="Half of the multiprocessor's places are to be taken: registers, shared memory and threads "
            "of a block decide how many blocks fit.",
        ),
        *limits(CONV2),
        *limits(WEIGHTS),
        *limits(INPUT),
    ),
    hints=(
        "Begin with what each limit says of one constant. Products: BM may hardly exceed the smallest M, 16 "
        "of conv2, and BK has to divide 150, 64 and 120, or nearly. Bytes: A is read N / BN times and B M / "
        "BM times, so BM must not be smaller than it has to be, either. That leaves one power of two for BM.",
        "Requests to shared memory: a thread makes TM + TN of them for TM * TN products. 2 x 8 has as many "
        "sums as 4 x 4, and more requests. Barriers: a small BK. In the kernel, thread t copies the elements "
        "t, t + THREADS, ... of each tile, counted along the rows of its matrix, so that neighbours read "
        "neighbours; that of A is stored transposed.",
        "Room: a thread needs TM * TN + TM + TN + 32 registers, in units of 8, of 65,536; a block needs 4 * "
        "BK * (BM + 1 + BN) + 1,024 bytes of shared memory, of 167,936, and there are at most 32 blocks. "
        "Room for 32 warps is wanted: that rules out more than 16 or 18 sums for a thread, and a long "
        "stretch with a narrow tile.",
    ),
)
