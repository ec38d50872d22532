"""The map of accesses: what it finds in wrong kernels, and that it accuses no right one."""

import re

import pytest

from backwarp.course.checkout import open_course
from backwarp.devices import open_device
from backwarp.devices.virtual.instrument import notes
from backwarp.grading.probes.access_map import Access, of_module
from tests.grading.probes.right_kernels import CHANGED, MATMUL, OWN, RIGHT, own

FEW = 1  # cases of right kernels


@pytest.fixture(scope="module")
def device():
    with open_device("cpu", checks=notes.BUILD) as opened:
        yield opened


def found(device, number: str, text: str, kernel: str = "", most: int = 99) -> list[Access]:
    puzzle = open_course().load(number)
    module = device.compile(text + notes.DECLARATION, name="kernel.cu", include_dirs=puzzle.include_dirs)
    own = puzzle.kernel(kernel) if kernel else puzzle.kernels[0]
    cases = [c for c in puzzle.by_size if own in puzzle.kernels_of(c) and not c.stress and not c.scale]
    return of_module(puzzle, own, cases[:most], module)


def changed(number: str, *edits: tuple[str, str]) -> str:
    text = open_course().load(number).solution_path.read_text(encoding="utf-8")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def the_only(device, number: str, *edits: tuple[str, str], kernel: str = "") -> tuple[Access, str]:
    """What is found, and the line that it names."""
    text = changed(number, *edits)
    (access,) = found(device, number, text, kernel)
    return access, text.split("\n")[access.line - 1]


@pytest.mark.parametrize(("number", "name"), RIGHT, ids=" ".join)
def test_right_kernels_are_not_accused(device, number, name):
    assert found(device, number, RIGHT[number, name], most=FEW) == []


@pytest.mark.parametrize(("number", "name"), CHANGED, ids=" ".join)
def test_right_changes_are_not_accused(device, number, name):
    assert found(device, number, changed(number, *CHANGED[number, name])) == []


STEPS = {
    "index": "for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * K + col];",
    "pointer": "const float* b = B + col;\nfor (int k = 0; k < K; k++, b += K) sum += A[row * K + k] * *b;",
    "index of a pointer": "const float* b = B + col;\nfor (int k = 0; k < K; k++) sum += A[row * K + k] * b[k * K];",
    "variable": "int at = col;\nfor (int k = 0; k < K; k++) { sum += A[row * K + k] * B[at]; at += K; }",
    "counted down": "for (int k = K - 1; k >= 0; k--) sum += A[row * K + k] * B[k * K + col];",
}


@pytest.mark.parametrize("how", STEPS)
def test_a_wrong_step_is_found_however_it_is_written(device, how):
    (access,) = found(device, "02", own(STEPS[how]))
    assert (access.kind, access.array) == ("read", "B")
    assert how == "variable" or access.variable == "k" and access.right_step != access.step


def test_a_step_in_a_function_and_in_a_macro(device):
    for before in (
        "__device__ float at(const float* m, int w, int r, int c) { return m[r * w + c]; }\n",
        "#define at(m, w, r, c) (m)[(r) * (w) + (c)]\n",
    ):
        body = "for (int k = 0; k < K; k++)\n    sum += at(A, K, row, k) * at(B, K, k, col);"
        (access,) = found(device, "02", own(body, before))
        assert (access.kind, access.array, access.right_step != access.step) == ("read", "B", True)


def test_rows_that_are_stored_elsewhere(device):
    text = MATMUL.format(
        OWN.replace("C[row * N", "C[row * M").format(
            "for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + col];"
        )
    )
    (access,) = found(device, "02", text)
    assert (access.kind, access.array, access.variable) == ("store", "C", "row")
    assert access.step != access.right_step


def test_of_steps_that_are_multiples_of_one_another_the_least_is_told(device):
    """Whatever order sets have, which differs from process to process."""
    text = changed("09", ("int W_out = W - F + 1;", "int W_out = W - F - 1;"))
    (access,) = found(device, "09", text)
    assert access.right_step == access.step + 2


def test_a_number_whose_place_nobody_fills_is_misplaced(device):
    """Its thread reads what other elements depend on, too; but with what it reads instead, all places would be filled."""
    edits = (
        "int row = top + i / 4 * 4 * BM / TM + 4 * y + i % 4;",
        "int row = top + i * BM / TM + 4 * y + i % 4;",
    )
    access, _ = the_only(device, "27", edits)
    text = changed("27", edits).split("\n")
    assert (access.kind, access.array) == ("store", "C")
    assert "store4(C, M, N, row" in text[access.set_in[0] - 1]


def test_a_variable_along_an_axis_is_told_with_the_line_that_sets_it(device):
    edit = "int k = idx / (W_out * H_out) % C_out;", "int k = idx / (W_out * W_out) % C_out;"
    access, line = the_only(device, "07", edit)
    assert (access.array, access.variable) == ("weights", "k") and "weights[" in line
    assert "int k =" in changed("07", edit).split("\n")[access.set_in[0] - 1]


def test_a_number_that_is_stored_over(device):
    edit = "*(float4*)(to + rows) = make", "*(float4*)(to + 2 * rows) = make"
    access, line = the_only(device, "18", edit, kernel="transpose_float4")
    assert (access.kind, access.found != access.right) == ("store", True) and edit[1] in line


def test_an_element_that_is_read_twice_where_another_is_never_read(device):
    edit = "(from + 3 * columns)", "(from + 2 * columns)"
    access, line = the_only(device, "18", edit, kernel="transpose_float4")
    assert access.kind == "twice" and edit[1] in line and access.filled == access.line - 1
    row = re.search("i=[0-9]+", access.right)[0]
    assert row in access.output and row not in access.found


def test_what_two_threads_store_says_nothing_of_what_they_read(device):
    edit = "rows % 4 != 0 || columns % 4 != 0", "columns % 4 != 0"
    assert found(device, "18", changed("18", edit), "transpose_float4") == []


def test_an_element_that_is_never_read(device):
    access, _ = the_only(device, "07", ("for (int c = 0; c < C_in; c++)", "for (int c = 1; c < C_in; c++)"))
    assert (access.kind, access.axis) == ("missing", "c")


def test_a_tile_that_is_filled_turned(device):
    access, line = the_only(device, "26", ("a[y][x] = row < M", "a[x][y] = row < M"))
    assert (access.kind, access.array) == ("read", "A")
    assert "a[y][k]" in line and access.filled


def test_a_tile_whose_rows_come_from_another_place(device):
    access, line = the_only(
        device, "27", ("load4(A, M, K, top + m, start + k)", "load4(A, M, K, top + i, start + k)")
    )
    assert (access.kind, access.array) == ("read", "A")
    assert "&a[k]" in line


def test_registers_of_a_fragment(device):
    edit = "grads[g + e % 2 * 8][k + t + e / 2 * 4]", "grads[g + e / 2 * 8][k + t + e % 2 * 4]"
    access, line = the_only(device, "35", edit)
    assert access.kind == "fragment" and access.register.startswith("register 1 of A") and edit[1] in line


def test_registers_that_are_multiplied_in_vain(device):
    edit = "windows[8 * warp + g][k + t + e * 4]", "windows[8 * warp + g][k + t + e]"
    access, line = the_only(device, "35", edit)
    assert access.kind == "product" and access.array == "input" and edit[1] in line


def test_a_fragment_that_is_not_transposed(device):
    access, line = the_only(device, "35", ("ldmatrix_x4_trans(y", "ldmatrix_x4(y"), kernel="matmul_half")
    assert (access.kind, access.found, access.right) == ("fragment", "B[k=1,n=0]", "B[k=0,n=1]")
    assert "ldmatrix_x4(y" in line


def test_an_element_that_nobody_loads_is_no_matter_of_warps(device):
    """All warps read the same row of the tile, as they should: the row that is loaded is another."""
    access, _ = the_only(device, "31", ("row + (class_h + pad_h) / stride_h - i", "row - i"))
    assert (access.array, access.axis, access.warps) == ("grad_output", "p", False)


def test_windows_of_another_warp(device):
    access, line = the_only(device, "35", ("windows[8 * warp + g]", "windows[g]"))
    assert (access.kind, access.array, access.warps) == ("read", "input", True) and "windows[g]" in line
    assert "All warps read the same places there" in str(access.finding)


def test_copies_that_run_while_the_block_works(device):
    access, _ = the_only(
        device, "34", ("sum += filters[step % STAGES][y][i]", "sum += filters[step % STAGES][i][y]")
    )
    assert (access.kind, access.array) == ("read", "weights")


BEGIN = "float sum = 0.0f;"
INPUT = "[((b * C_in + c) * H + p + r) * W + q + s]"
#: (puzzle, edits of its solution, the array, what stands in a line that is named)
ELSEWHERE = {
    "rows of a tile's source": ("26", [("* N + col] :", "* K + col] :")], "B", "* K + col]"),
    "axes exchanged": ("13", [("* R + r) * S + s]", "* S + r) * R + s]")], "weights", "* S + r) * R + s]"),
    "channels of all groups": (
        "16",
        [("(c * filters + k) * R", "(c * C_out + k) * R")],
        "weights",
        "(c * C_out + k)",
    ),
    "padding of the other axis": ("13", [("- pad_h + r *", "- pad_w + r *")], "input", "- pad_w + r *"),
    "index computed before": (
        "07",
        [
            ("float weight", "int at = b * C_in * H * W + c * H + (p + r) * W + q + s; float weight"),
            (f"input{INPUT}", "input[at]"),
        ],
        "input",
        "input[at]",
    ),
    "sizes of the output": (
        "07",
        [
            ("float weight", "const float* x = input + (b * C_in + c) * H_out * W_out; float weight"),
            (f"input{INPUT}", "x[(p + r) * W + q + s]"),
        ],
        "input",
        "x[(p + r) * W",
    ),
    "pointer that walks": (
        "02",
        [(BEGIN, f"{BEGIN} const float* b = B + col;"), ("B[k * N + col]", "*b; b += K")],
        "B",
        "b += K",
    ),
    "address of an element": (
        "02",
        [(BEGIN, f"{BEGIN} const float* a = &A[row * N];"), ("A[row * K + k]", "a[k]")],
        "A",
        "&A[row * N]",
    ),
    "guard of another axis": (
        "26",
        [
            ("row < M && start + x < K ?", "row < M && col < N ?"),
            ("A[row * K + start + x]", "A[row * K + ka]"),
        ]
        + [("        a[y][x]", "        int ka = start + threadIdx.x;\n        a[y][x]")],
        "A",
        "row < M && col < N ?",
    ),
    "limit of another axis": (
        "10",
        [("int q = w - s;", "int q = w - s, last = min(w, H_out - 1);")]
        + [("q < 0 || q >= W_out) continue", "q < 0 || q > last) continue")],
        "grad_output",
        "int q =",
    ),
    "step of a merged axis": (
        "29",
        [("grad_columns[row * width + column]", "grad_columns[(c * R * S + r * R + s) * width + column]")],
        "grad_columns",
        "r * R + s",
    ),
    "tap taken apart by rows": (
        "30",
        [("int s = row % S, r = row / S % R", "int tap = row % (R * S), s = tap % R, r = tap / R")],
        "input",
        "patches[y][x] = inside",
    ),
    "only where a remainder is left": (
        "29",
        [("down % stride_h != 0", "down % stride_h == 0")],
        "grad_columns",
        "sum += grad_columns",
    ),
    "not divided": ("29", [("int q = right / stride_w;", "int q = right;")], "grad_columns", "int column ="),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_element_that_is_read_in_place_of_another(device, name):
    number, edits, array, says = ELSEWHERE[name]
    text = open_course().load(number).solution_path.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    (access,) = found(device, number, text)
    lines = text.split("\n")
    assert access.array == array and any(says in lines[n - 1] for n in access.finding.lines)


RING = ("pixels[i % (keep * W)] = input", "pixels[i] = input")


def test_a_store_beyond_its_part_of_shared_memory_over_sums_that_threads_keep(device):
    text = changed("33", RING)
    (over,) = found(device, "33", text, "conv2d_backward_weights_depthwise")
    store, own, read = (text.split("\n")[line - 1] for line in over.lines)
    assert (over.kind, RING[1] in store, "own[" in own, "own[" in read) == ("overwritten", True, True, True)
    assert over.given


def test_the_sentence_says_what_where_and_what_to_do():
    """Each kind once."""
    place = dict(
        line=3,
        array="A",
        found="A[k=1]",
        right="A[k=2]",
        output="C[m=0]",
        register="register 0 of A of lane 1",
    )
    says = {
        kind: str(Access(kind, **place).finding)
        for kind in ("store", "read", "missing", "fragment", "product")
    }
    assert says == {
        "store": "Line 3 stores in A[k=1] what belongs in A[k=2].",
        "read": "For C[m=0], line 3 reads A[k=1], and never A[k=2].",
        "missing": "For C[m=0], line 3 never reads A[k=2].",
        "fragment": "In line 3, register 0 of A of lane 1 holds A[k=1]; it should hold A[k=2].",
        "product": "Line 3: register 0 of A of lane 1: A[k=1] by A[k=2], which no result is made of.",
    }
    step = Access("read", **{**place, "right": ""}, filled=2, variable="k", set_in=(1,), step=3, right_step=4)
    assert str(step.finding) == (
        "For C[m=0], line 3 reads A[k=1] from what line 2 stores, which it does not depend on: a step of k moves by 3 elements "
        "in A (line 1); it should move by 4."
    )
    assert str(Access("read", **place, axis="k", variable="p", set_in=(2, 1, 2)).finding).endswith(
        ": its k comes from p (lines 2 and 1)."
    )


def test_where_threads_race_only_what_they_store_is_sure(device):
    edits = [("    for (int r = 0;", "    float* own = columns + c * width + column;\n    for (int r = 0;")]
    edits += [("columns[row * width + column] = pixel;", "*own = pixel;\n own += width;")]
    text = changed("28", *edits)
    puzzle = open_course().load("28")
    module = device.compile(text + notes.DECLARATION, name="kernel.cu", include_dirs=puzzle.include_dirs)
    (access,) = of_module(puzzle, puzzle.kernels[0], puzzle.cases, module, raced=True)
    assert (access.kind, access.array, access.variable) == ("store", "columns", "c")
    assert "float* own" in text.split("\n")[access.set_in[0] - 1]
    turned = changed("26", ("a[y][x] = row < M", "a[x][y] = row < M"))
    puzzle = open_course().load("26")
    module = device.compile(turned + notes.DECLARATION, name="kernel.cu", include_dirs=puzzle.include_dirs)
    assert of_module(puzzle, puzzle.kernels[0], puzzle.cases[:3], module, raced=True) == []
