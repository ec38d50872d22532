"""Messages about the values behind a bad access: its variables, loops, guards and callers."""

from __future__ import annotations

import pytest

from backwarp.course.checkout import Course
from backwarp.cuda.text import read
from backwarp.errors import KernelFault
from backwarp.grading import failures
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.probes import noting
from backwarp.grading.probes.fault_values import is_flat
from backwarp.grading.probes.noting import probe_of
from tests.grading.first_cases import small
from tests.lenet.small import ROOT

COURSE = Course(ROOT)
DOT = "sum += A[row * K + k] * B[k * N + col];"


@pytest.fixture
def said(tmp_path, monkeypatch):
    """The lines of the verdict on a puzzle's solution with texts replaced, but for what it adds up."""
    monkeypatch.setattr(failures, "added_up", lambda *_, **__: None)

    def said(number, *edits):
        puzzle = COURSE.load(number)
        source = puzzle.solution_path.read_text(encoding="utf-8")
        for old, new in edits:
            assert old in source
            source = source.replace(old, new, 1)
        path = tmp_path / "kernel.cu"
        path.write_text(source, encoding="utf-8")
        verdict = grade_file(small(puzzle), path, Options("cpu", 0))
        assert verdict.kind == "fault"
        return verdict.lines

    return said


def test_a_guard_that_stops_too_late_is_shown_with_its_values(said):
    lines = said("02", ("row >= M || col >= N", "row > M || col > N"))
    assert "There k = 3, col = blockIdx.x * blockDim.x + threadIdx.x = 3, N = 3." in lines
    assert "Line 22 lets it through: row > M || col > N is 0 > 2 || 3 > 3 here." in lines


def test_a_loop_that_goes_too_far_is_shown(said):
    assert "Line 28 lets it through: k <= K is 4 <= 4 here." in said("02", ("k < K", "k <= K"))


def test_constants_keep_their_names(said):
    lines = said("26", ("k < TILE", "k <= TILE"))
    assert "Line 32 lets it through: k <= TILE is 16 <= TILE here." in lines


def test_built_in_variables_have_values_too(said):
    """The row's thread, and one more."""
    lines = said("02", ("row >= M || col >= N", "row >= M || blockIdx.x * blockDim.x + threadIdx.x > N"))
    shown = "row >= M || blockIdx.x * blockDim.x + threadIdx.x > N is 0 >= 2 || 1 * 2 + 1 > 3 here."
    assert f"Line 22 lets it through: {shown}" in lines


def test_the_negative_difference_in_an_index_is_shown(said):
    lines = said("09", ("+ p + r) * W + q + s]", "+ p - r) * W + q - s]"))
    assert any(line.startswith("q - s is 0 - 1 = -1, but input has w = 0 to 2 (W = 3).") for line in lines)
    assert any(line.startswith("There b = 0, c = 0, p = 0, r = 0, q = 0, s = 1") for line in lines)
    assert not any("lets it through" in line for line in lines)


def test_one_behind_a_variable_of_the_index_and_the_guard_that_looks_at_it(said):
    lines = said("10", ("if (p < 0 || p >= H_out || q < 0 ||", "if (p >= H_out ||"))
    assert "w - s is 0 - 1 = -1." in lines
    assert any(line.startswith("Line 41 lets it through: p >= H_out || q >= W_out is ") for line in lines)


@pytest.mark.soak
def test_the_part_of_an_index_that_is_outside(said):
    lines = said("08", ("    if (h / 2 < H_out && w / 2 < W_out) {", "    {"))
    assert "w / 2 is 2, but argmax has q = 0 to 1 (W_out = 2)." in lines
    lines = said(
        "16", ("group * channels; c < (group", "group; c < (group"), ("b * C_in + c)", "b * C_in + c + C_in)")
    )
    assert any(", but input has only c = 0" in line and line.startswith("c + C_in is 0 + ") for line in lines)


HELPER = (
    "__device__ float element(const float* x, int r, int c, int width) {\n    return x[r * width + c];\n}\n"
)


def test_the_call_that_led_there(said):
    lines = said(
        "02",
        ('extern "C"', HELPER + 'extern "C"'),
        (DOT, "sum += element(A, row, k, K);\n        sum *= element(B, k + 1, col, N);"),
    )
    assert "There r = 4, c = 0, width = 3." in lines and "element was called from line 33." in lines


@pytest.mark.sampled
@pytest.mark.parametrize(
    "access",
    [
        "sum += *(B + (k + 1) * N + col);",
        "const float* line = B + (k + 1) * N;\n        sum += line[col];",
        "sum += B[(k + 1) * N + col] * A[row * K + k];",
        "sum += A[row * K + k]\n             * B[(k + 1) * N + col];",
        "int at = k + 1; sum += B[at * N + col];",
    ],
)
def test_however_the_access_is_written(access, said):
    (line,) = [line for line in said("02", (DOT, access)) if line.startswith("There ")]
    assert "k = 3" in line or "at = k + 1 = 4" in line


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("access", "there"),
    [
        ("#define AT(x, i) x[(i) + 100]\n        sum += AT(B, k * N + col);", "There k = 0, col ="),
        ("sum += B[(size_t)(k + 1) * N + (long)col];", "There k = 3, col ="),
        ("sum += B[min(k * N + col + 100, 1 << 20)];", "There k = 0, col ="),
        ("sum += __ldg(&B[(k + 1) * N + col]);", "There k = 3, col ="),
    ],
)
def test_macros_casts_and_arguments_of_calls(access, there, said):
    assert [line for line in said("02", (DOT, access)) if line.startswith(there)]


@pytest.mark.parametrize(
    "access",
    [
        "sum += ((float2*)B)[k * N + col].y;",
    ],
)
def test_what_cannot_be_noted_is_no_error(access, said):
    said("02", (DOT, access))


def test_an_element_that_was_never_written(said):
    """The thread goes on, and reads other elements of the line after it."""
    load = "a[y][x] = row < M && start + x < K ? A[row * K + start + x] : 0.0f;"
    lines = said("26", (load, "if (row < M && start + x < K) a[y][x] = A[row * K + start + x];"))
    assert "There k = 4, y = threadIdx.y = 0, start = 0." in lines


def test_a_guard_that_is_right_is_not_blamed(said):
    """The tile is read where nothing was stored, and the guard of the output has nothing to do with it."""
    lines = said("25", ("= tile[threadIdx.x][i]", "= tile[i][threadIdx.x]"))
    assert not any("lets it through" in line for line in lines)


@pytest.mark.parametrize(("index", "flat"), [("i", True), ("i * 3 + 1", False)])
def test_the_guard_of_an_element_s_number_is_its_own(index, flat):
    text = f"__global__ void k(float* y, int i) {{ if (i >= 6) return; y[{index}] = 1; }}"
    fault = KernelFault("out-of-bounds", "", "", line=1, array="y", shape="b x q = 2 x 3")
    assert is_flat(fault, probe_of(read(text), 1, "y")) == flat


def test_an_array_of_one_axis_is_what_its_guard_is_for(said):
    lines = said("19", ("if (tid < n / 2) part[tid]", "if (tid < n) part[tid]"))
    assert any("lets it through: tid < n is " in line for line in lines), lines


def test_a_guard_by_another_name(said):
    lines = said(
        "02", ("if (row >= M || col >= N) return;", "bool out = row >= M && col >= N;\n    if (out) return;")
    )
    assert any(line.startswith("Line 22 lets it through: row >= M && col >= N is") for line in lines)


def test_two_threads_of_which_one_has_no_element(said):
    """Its place in memory is that of an element of the next row."""
    lines = said("25", ("if (line < columns && place < rows)", "if (line * rows + place < rows * columns)"))
    assert any(
        "place is 2, but output has r = 0 to 1 (rows = 2). place is set in line 36." in line for line in lines
    ), lines
    assert any(line.startswith("In thread (2,0,0), ") for line in lines)


def test_two_threads_that_come_to_one_element(said):
    lines = said("20", ("if (lane == 0) slot[warp] = sum;", "slot[warp] = sum;"))
    assert "In thread (0,0,0) and thread (1,0,0): warp = threadIdx.x / 32 is 0 / 32 and 1 / 32." in lines


@pytest.mark.soak
def test_two_threads_of_different_blocks(said):
    lines = said("31", ("class_h + row * stride_h", "class_h + row * stride_w"))
    begin = "In thread (4,0,0) of block (0,0,0) and thread (0,0,0) of block (0,1,0): "
    end = "; h = class_h + row * stride_w is 0 + 1 * 1 and 1 + 0 * 1."
    assert any(line.startswith(begin) and line.endswith(end) for line in lines), lines


def test_two_threads_that_update_one_element(said):
    guarded = "if (i < n && data[i] < 0.0f) data[i] = 0.0f;"
    lines = said(
        "04", (guarded, "int j = i - blockIdx.x;\n    if (j < n) data[j] = data[j] < 0.0f ? 0.0f : data[j];")
    )
    assert any(": j = i - blockIdx.x is " in line for line in lines), lines


def test_two_threads_that_come_to_one_element_behind_a_pointer(said):
    lines = said(
        "28",
        (
            "    for (int r = 0;",
            "    float* own = columns + c * R * S * width + column;\n    for (int r = 0;",
        ),
        ("columns[row * width + column]", "own[r * S + s]"),
    )
    assert any(line.endswith("; column is 0 and 1.") for line in lines), lines


def test_two_threads_that_differ_only_in_what_the_index_leaves_out(said):
    lines = said("31", ("class_h + row * stride_h", "row * stride_h"), ("class_w + column", "column"))
    says = "The two threads differ only in blockIdx.y, and the index in line 68 adds nothing that is computed from it."
    assert says in lines


def test_what_is_noted():
    source = """
constexpr int TILE = 4;
__global__ void f(const float* x, float* y, int n, float scale) {
    int i = blockIdx.x * TILE + threadIdx.x, j = i / 2;
    if (j > n) { return; }
    if (scale > 1.0f) y[0] = scale;
    for (int k = 0; k <= n; k++)
        if (i < n) y[i + TILE] = x[j * n + k];
}
"""
    probe = noting.probe_of(read(source), 8, "x")
    assert probe.own == ["j", "n", "k"] and probe.behind == ["i"]
    assert [guard.code for guard in probe.guards] == ["(i < n)", "k <= n", "(j > n)"]
    assert noting.probe_of(read(source), 8, "y").own == ["i"]
    assert noting.probe_of(read(source), 5, "") is None


def test_an_index_that_is_chosen_by_a_condition_is_taken_apart(said):
    guarded = (
        "if (h / 2 < H_out && w / 2 < W_out) {\n        int window = (plane * H_out + h / 2) * W_out + w / 2;"
    )
    chosen = "bool there = h / 2 < H_out;\n    int window = there ? (plane * H_out + h / 2) * W_out + w / 2 : 0;\n    {"
    lines = said(
        "08",
        (guarded, chosen),
        ("if (argmax[window] == h * W + w)", "if (there && argmax[window] == h * W + w)"),
    )
    assert "w / 2 is 2, but argmax has q = 0 to 1 (W_out = 2)." in lines


def test_what_stands_before_and_is_a_guard(said):
    lines = said("04", ("i < n && data[i] < 0.0f", "i <= n && data[i] < 0.0f"))
    assert any(line.startswith("Line 27 lets it through: i <= n is ") for line in lines)


OWN_NAMES = """extern "C" __global__ void conv2d_forward(const float* x, const float* w, const float* bias, float* y,
    int batch, int C_in, int H, int W, int C_out, int F) {
    int oh = H - F + 1, ow = W - F + 1, t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= batch * C_out * oh * ow) return;
    int place = t % (oh * ow), k = t / (oh * ow) % C_out, n = t / (oh * ow) / C_out;
    int i = place / ow, j = place % ow;
    const float* image = x + (size_t)n * C_in * H * W;
    float sum = bias[k];
    for (int c = 0; c < C_in; c++) {
        const float* plane = &image[c * H * W];
        for (int r = 0; r < F; r++)
            for (int s = 0; s < F; s++) sum += plane[(i + r) * W + j + s] * w[((k * C_in + c) * F + r) * F + s];
    }
    y[t] = sum;
}
"""


def test_the_part_that_is_outside_behind_pointers_and_in_the_student_s_names(said, tmp_path, monkeypatch):
    puzzle = COURSE.load("07")
    path = tmp_path / "kernel.cu"
    path.write_text(OWN_NAMES.replace("i = place / ow", "i = place / oh"), encoding="utf-8")
    lines = grade_file(puzzle, path, Options("cpu", 0)).lines
    assert "i + r is 3 + 2 = 5, but input has h = 0 to 4 (H = 5). i is set in line 6." in lines


def test_a_step_that_is_divided_is_no_place_along_the_last_axis(said):
    lines = said(
        "08", ("(plane * H_out + h / 2) * W_out + w / 2", "plane * H * W / 4 + h / 2 * W_out + w / 2")
    )
    assert not any("plane * H * W / 4" in line and "but argmax has" in line for line in lines), lines


def test_the_guard_of_a_larger_array_is_not_blamed(said):
    lines = said("08", ("grad = grad_output[window]", "grad = grad_output[idx]"))
    assert "In line 68, idx is an index of grad_input, which has 20 elements." in lines, lines
    assert not any("lets it through" in line for line in lines)


def test_the_guard_is_not_blamed_where_the_bytes_of_shared_memory_hold_fewer_elements(said):
    guard = ("if (tid < n / 2) part", "if (tid + half < n) part")
    lines = said("19", ("extern __shared__ float", "extern __shared__ double"), guard)
    assert any("dynamic shared memory" in line for line in lines), lines
    assert not any("lets it through" in line for line in lines), lines
