"""How a wrong kernel uses its parameters."""

from __future__ import annotations

import pytest

from backwarp.course.checkout import Course
from backwarp.course.declare import Case, In, Int, Kernel, Launch, Out, Puzzle
from backwarp.grading.slips.misuses import misuses
from tests.lenet.small import ROOT

COURSE = Course(ROOT)


def told(number, *edits, kernel=0):
    puzzle = COURSE.load(number)
    source = puzzle.solution_path.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in source
        source = source.replace(old, new, 1)
    return [str(slip) for slip in misuses(puzzle, puzzle.kernels[kernel], source)]


BEGIN = "float sum = 0.0f;"


@pytest.mark.parametrize(
    ("number", "edits", "says"),
    [
        (
            "26",
            [("int M, int N, int K", "int M, int K, int N")],
            "passes A, B, C, M, N, K, in this order; line 15",
        ),
        (
            "24",
            [("HEIGHT + F - 1, ", "HEIGHT, ")],
            "The stub has int down = HEIGHT + F - 1, line ",
        ),
        ("13", [("(H + 2 * pad_h", "(H + pad_h")], "The stub has int H_out = (H + 2 * pad_h - dilation_h"),
    ],
)
def test_a_misuse_is_named(number, edits, says):
    assert says in told(number, *edits)[0]


def test_the_stub_is_compared_with_itself_only():
    first, second = (
        "int idx = blockIdx.x * blockDim.x + threadIdx.x;",
        "if (idx >= batch * C_out * H_out * W_out) return;",
    )
    edits = (first, first.replace("idx", "id")), (second, second.replace("idx", "id") + " int rest = id;")
    assert not told("14", *edits, ("int q = idx % W_out, p = idx /", "int q = rest % W_out, p = id /"))
    assert not told("13", ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x + blockDim.x * blockIdx.x"))
    assert not told("05", ("= logits + b * classes", "= &logits[b * classes]"))
    assert told("05", ("= logits + b * classes", "= &logits[b * batch]"))


def test_an_axis_of_the_launch_that_is_left_out():
    puzzle = COURSE.load("02")
    source = puzzle.solution_path.read_text(encoding="utf-8")
    failed = [{"M": 2, "N": 3, "K": 4, "tx": 2, "ty": 2}]
    assert not misuses(puzzle, puzzle.kernels[0], source, failed)
    flat = source.replace("blockIdx.y * blockDim.y + threadIdx.y", "(blockIdx.y + threadIdx.x) / N")
    assert [str(slip) for slip in misuses(puzzle, puzzle.kernels[0], flat, failed)] == [
        "In this launch, a block has 2 x 2 threads, and matmul never uses threadIdx.y: threads that differ only there "
        "do the same."
    ]
    alone = source.replace("blockIdx.y * blockDim.y + ", "").replace("blockIdx.x * blockDim.x + ", "")
    assert [slip.facts["index"] for slip in misuses(puzzle, puzzle.kernels[0], alone, failed)] == [
        "blockIdx.x"
    ]
    whole_grid = [failed[0] | {"tx": 4}]
    assert not misuses(puzzle, puzzle.kernels[0], alone, whole_grid), "one block"
    whole = flat.replace("int row", "dim3 me = threadIdx; int row")
    assert not misuses(puzzle, puzzle.kernels[0], whole, failed)


OTHERS = {
    "other names": ("01", [("const float* a,", "const float* x,"), ("a[i] +", "x[i] +")]),
    "a flat loop": (
        "09",
        [("for (int q = 0; q < W_out; q++)", "for (int q = 0, plane = H * W; q < W_out; q++)")],
    ),
    "pointers that walk": (
        "02",
        [
            (BEGIN, f"{BEGIN} const float *a = A + row * K, *b = &B[col];"),
            ("A[row * K + k] * B[k * N + col]", "*a++ * *b; b += N"),
        ],
    ),
    "steps in other words": (
        "07",
        [
            (
                "((b * C_in + c) * H + p + r) * W + q + s",
                "b * C_in * H * W + c * (H * W) + W * (p + r) + (q + s)",
            )
        ],
    ),
    "a flat index of rows and columns": (
        "13",
        [
            (
                "input[((b * C_in + c) * H + h) * W + w]",
                "input[((b * C_in + c) * H + p * stride_h - pad_h + r * dilation_h) * W + q * stride_w - pad_w + s * dilation_w]",
            )
        ],
    ),
    "a quotient that is not negative": (
        "13",
        [("if (down < 0 || down", "if (down"), ("if (p >= H_out", "if (p < 0 || p >= H_out")],
    ),
    "a quotient that wraps": (
        "29",
        [
            ("int down =", "unsigned down ="),
            ("if (down < 0 || down", "if (down"),
            ("int right =", "unsigned right ="),
            ("if (right < 0 || right", "if (right"),
        ],
    ),
    "other names of sizes": (
        "14",
        [("int C_in, int H", "int C, int H"), ("int channels = C_in / groups", "int all = C / groups")]
        + [("c < channels", "c < all"), ("b * C_in + group * channels", "b * C + group * all")]
        + [("k * channels + c", "k * all + c")],
    ),
    "back by the product": ("29", [("down % stride_h != 0", "down / stride_h * stride_h != down")]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_right_way_to_write_it_is_not_accused(name):
    number, edits = OTHERS[name]
    assert not told(number, *edits)


@pytest.mark.soak
def test_no_solution_is_accused():
    puzzles = [p for number in COURSE.ids() if (p := COURSE.load(number)).kernels]
    for puzzle in puzzles:
        source = puzzle.solution_path.read_text(encoding="utf-8")
        assert not [slip for kernel in puzzle.kernels for slip in misuses(puzzle, kernel, source)], puzzle.id


def test_a_kernel_that_is_not_there_is_no_error(tmp_path):
    kernel = Kernel(
        "k", (In("x", n="N"), Out("y", n="N"), Int("N")), lambda d, t: Launch(1, 1), lambda a, d: a["x"]
    )
    puzzle = Puzzle("t", 1, "x", (kernel,), (Case("one", {"N": 3}),), ("a", "b"), id="01_a", root=tmp_path)
    assert not misuses(puzzle, kernel, "int x = ;")
