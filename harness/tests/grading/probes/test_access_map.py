"""The map of accesses: what it finds in wrong kernels, and that it accuses no right one."""

import pytest

from harness.course.checkout import open_course
from harness.devices import open_device
from harness.devices.virtual.instrument import notes
from harness.grading.probes.access_map import Access, of_module
from harness.tests.grading.probes.right_kernels import CHANGED, MATMUL, OWN, RIGHT, own

FEW = 2  # cases of right kernels


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


def test_a_variable_along_an_axis_is_told_with_the_line_that_sets_it(device):
    edit = "int k = idx / (W_out * H_out) % C_out;", "int k = idx / (W_out * W_out) % C_out;"
    access, line = the_only(device, "07", edit)
    assert (access.array, access.variable) == ("weights", "k") and "weights[" in line
    assert "int k =" in changed("07", edit).split("\n")[access.set_in - 1]


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


def test_windows_of_another_warp(device):
    access, line = the_only(device, "35", ("windows[8 * warp + g]", "windows[g]"))
    assert (access.kind, access.array) == ("read", "input") and "windows[g]" in line


def test_copies_that_run_while_the_block_works(device):
    access, _ = the_only(
        device, "34", ("sum += filters[step % STAGES][y][i]", "sum += filters[step % STAGES][i][y]")
    )
    assert (access.kind, access.array) == ("read", "weights")
