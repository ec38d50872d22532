"""How a wrong kernel uses its parameters."""

from __future__ import annotations

import pytest

from backwarp.course.checkout import Course
from backwarp.course.declare import Case, In, Int, Kernel, Launch, Out, Puzzle
from backwarp.grading.slips.causes import causes
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
            "05",
            [("row[labels[b]]", "row[b]")],
            "softmax_cross_entropy_forward never uses labels, which the result depends on.",
        ),
        ("29", [(" + pad_w - s", " - s")], "Nothing that you wrote in col2im uses pad_w."),
        ("29", [(" || down % stride_h != 0", "")], "Line 31 divides by stride_h, and nothing asks whether"),
        (
            "29",
            [("down < 0 || ", "")],
            "Line 30: nothing asks whether down is negative. In C, -2 / 2 is -1, -1 / 2 is 0",
        ),
        (
            "24",
            [("HEIGHT + F - 1, ", "HEIGHT, ")],
            "The stub has int down = HEIGHT + F - 1, line ",
        ),
        ("13", [("(H + 2 * pad_h", "(H + pad_h")], "The stub has int H_out = (H + 2 * pad_h - dilation_h"),
        (
            "01",
            [("blockIdx.x * blockDim.x + ", "")],
            "vector_add never uses blockIdx: all its blocks do the same.",
        ),
    ],
)
def test_a_misuse_is_named(number, edits, says):
    assert says in told(number, *edits)[0]


def test_who_uses_the_lane_uses_the_thread():
    assert "never uses" not in str(told("20", ("for (int i = threadIdx.x; i", "for (int i = lane; i")))


def test_what_a_macro_uses_is_used():
    at = "#define AT(i) weights[i]\nextern"
    assert not told("10", ("extern", at), ("* weights[((k * C_in + c) * F + r) * F + s]", "* AT(0)"))


def test_a_line_of_ones_own_uses_what_the_stub_uses():
    own = "int plane = H_out * W_out, first = threadIdx.x;"
    assert not told("20", ("int plane = H_out * W_out;", own), ("i = threadIdx.x; i <", "i = first; i <"))


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
    whole = flat.replace("int row", "dim3 me = threadIdx; int row")
    assert not misuses(puzzle, puzzle.kernels[0], whole, failed)


def test_an_axis_that_the_launch_does_not_have():
    puzzle = COURSE.load("07")
    source = puzzle.solution_path.read_text(encoding="utf-8")
    failed = [puzzle.full_dims(puzzle.cases[0])]
    plain = "int idx = blockIdx.x * blockDim.x + threadIdx.x;"
    for more, says in (
        ("int h = blockIdx.y * 4 + threadIdx.y;", "blockIdx.y and threadIdx.y are always 0 (line "),
        ("int h = blockIdx.x + gridDim.x * blockIdx.y;", ""),
    ):
        found = misuses(puzzle, puzzle.kernels[0], source.replace(plain, f"{plain} {more}"), failed)
        assert [says for slip in found if says in str(slip)] == [says] * bool(says)
        assert bool(found) == bool(says)


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


def test_whoever_looks_at_all_windows_need_not_divide_by_the_stride():
    puzzle = COURSE.load("17")
    text = puzzle.solution_path.read_text(encoding="utf-8")
    start = text.index("    float sum", text.index("void max_pool2d_general_backward"))
    scan = (
        "    float sum = 0;\n    for (int i = 0; i < H_out * W_out; i++) {\n"
        "        int window = plane * H_out * W_out + i;\n"
        "        if (argmax[window] == h * W + w) sum = grad_output[window];\n    }\n"
    )
    text = text[:start] + scan + text[text.index("    grad_input[idx] = sum;", start) :]
    kernel = next(k for k in puzzle.kernels if k.name == "max_pool2d_general_backward")
    assert not [f for f in causes(puzzle, kernel, text) if f.kind == "no_remainder"]


FORWARD = """for (int p = 0; p < OH; p++) {
            const int dr = h + pad_h - p * stride_h;
            if (dr < 0%s || dr / dilation_h >= R) continue;
            grad_input[id] += weights[dr / dilation_h];
        }"""


def test_a_difference_of_strides_is_divided_by_the_dilation_with_a_test():
    puzzle = COURSE.load("13")
    kernel = puzzle.kernels[1]
    head = ", ".join(
        f"{'const float*' if not hasattr(p, 'resolve') else 'int'} {p.name}" for p in kernel.params
    )
    text = (
        f'extern "C" __global__ void {kernel.name}({head}) {{\n int OH = H, id = 0, h = id;\n {FORWARD}\n}}'
    )
    found = [str(slip) for slip in misuses(puzzle, kernel, text % "")]
    assert any("divides dr by dilation_h, and nothing asks whether the division leaves" in s for s in found)
    found = [str(slip) for slip in misuses(puzzle, kernel, text % " || dr % dilation_h")]
    assert not any("leaves a remainder" in s for s in found)


@pytest.mark.parametrize(
    "edits",
    [
        [("down % stride_h != 0", "(down & (stride_h - 1)) != 0")],
        [("down % stride_h != 0", "r > 0"), ("int p = down / stride_h", "int p = (h + pad_h) / stride_h")],
        [
            ("down % stride_h != 0", "r > 0"),
            ("int p = down / stride_h", "int p = (h + pad_h - R) / stride_h"),
        ],
    ],
    ids=["a mask", "the last window", "the first window"],
)
def test_a_division_that_need_not_leave_no_remainder(edits):
    assert "leaves a remainder" not in str(told("29", *edits))
