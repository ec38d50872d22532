"""A kernel that differs from the solution in one thing is told which; one written in another way is not."""

from __future__ import annotations

import pytest

from harness.cuda.text import read
from harness.grading.causes.near_solution import differences

SOLUTION = """__global__ void k(const float* x, float* y, int H, int H_out, int n) {
    int row = blockIdx.y, col = blockIdx.x;
    float sum = 0;
    for (int r = 0; r < n; r++) {
        for (int s = 0; s < n; s++) {
            int p = row - r * 2 + s;
            int h = col * n - r * H + s;
            if (p < 0 || p >= H_out) continue;
            sum += x[p * n + h] * x[h];
        }
    }
    y[row] = sum;
}
"""


def test_a_step_in_other_words():
    right = SOLUTION.replace("s++", "s += gridDim.x")
    named = SOLUTION.replace("s++", "s += blocks").replace("float sum", "int blocks = gridDim.x; float sum")
    assert not differences(read(named), read(right), "k", ())


def told(*edits):
    source = SOLUTION
    for old, new in edits:
        assert old in source
        source = source.replace(old, new, 1)
    names = {"H", "H_out", "n", "p", "s"}
    return [slip.says for slip in differences(read(source), read(SOLUTION), "k", names)]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "col * n - r * H",
            "col * n + r * H",
            "Line 7 adds H * r in col * n + r * H + s: is that the right sign?",
        ),
        ("- r * H + s", "- r * H - s", "Line 7 subtracts s in col * n - r * H - s: is that the right sign?"),
        (
            "col * n - r * H + s",
            "col * n + r * H - s",
            "Line 7: are all signs right in col * n + r * H - s?",
        ),
        ("p >= H_out", "p >= H", "Line 8 compares p with H: does p really run up to H?"),
        ("p >= H_out", "p > H", "Line 8 compares p with H: does p really run up to H?"),
        ("p >= H_out", "p > H_out", "Line 8: is p > H_out also right where p is equal to H_out?"),
        ("row - r * 2 + s", "row - r + s", "Line 6: is r multiplied by what it should be in row - r + s?"),
        (
            "int s = 0; s < n",
            "int s = 0; s < H",
            "Line 5 compares s with H: does s really run up to H?",
        ),
        (
            "s++",
            "s += 2",
            "The loop in line 5 steps by 2: does that leave anything out, or do anything twice?",
        ),
        ("int h = col * n", "int h = row * n", "Line 7: is row the right one in h = row * n - r * H + s?"),
        ("y[row]", "y[h]", "Line 12: is h the right index for y?"),
        (
            "continue",
            "break",
            "The break in line 8 ends the whole loop that begins in line 5: is only one iteration to be skipped, by continue?",
        ),
        (
            "row = blockIdx.y, col = blockIdx.x",
            "row = blockIdx.x, col = blockIdx.y",
            "Line 2 gives col the value blockIdx.y, and row the value blockIdx.x: is it the other way round?",
        ),
    ],
)
def test_one_difference_is_pointed_at(old, new, says):
    (text,) = told((old, new))
    assert text.startswith(says)


def test_the_sign_in_a_nested_sum_is_told_once():
    text = "__global__ void k(float* y, int n, int r, int s) {{ y[({}) * n + s] = 0; }}"
    found = differences(read(text.format("n * s - r")), read(text.format("n * s + r")), "k", ())
    assert [slip.says for slip in found] == ["Line 1 subtracts r in n * s - r: is that the right sign?"]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("int r = 0; r < n", "int r = 1; r < n"), "The loop over r in line 4 begins at 1: does"),
        (("r < n; r++", "r < 2 * n; r++"), "The loop over r in line 4 ends at 2 * n: does"),
        (("for (int r = 0;", "int r; for (r = 1;"), "The loop over r in line 4 begins at 1: does"),
        (("for (int r = 0;", "int r = 0; for (;"), ""),
        (("x[p * n + h] * x[h]", "x[h] * x[p * n + h]"), ""),
    ],
)
def test_a_loop_that_begins_or_ends_elsewhere(edit, says):
    found = told(edit)
    assert bool(found) == bool(says) and all(text.startswith(says) for text in found)


@pytest.mark.parametrize(
    ("own", "says"), [("t[b][2]", "t[b][2]"), ("t[a][2] + t[0][b]", ""), ("t[2][a]", "")]
)
def test_another_index_of_an_array_of_two_axes(own, says):
    text = "__global__ void k(float* y, int n) {{ int a = threadIdx.x, b = n; float t[4][4]; y[0] = {}; }}"
    found = [s.says for s in differences(*(read(text.format(e)) for e in (own, "t[a][2]")), "k", {"n"})]
    assert found == [f"Line 1: is b the right index in {says}?"] * bool(says)


def test_a_number_too_much():
    assert told(("col * n - r * H + s", "(col + 1) * n - r * H + s")) == [
        "Line 7 adds n in (col + 1) * n - r * H + s: is that too much?"
    ]
    assert not told(("col * n - r * H + s", "col * n - r * H + s + s"))
    line = "int h = col * n - r * H + s;"
    both = "int h = col * n - r * H + s, next = (col + 1) * n - r * H + s;"
    assert not told((line, both))


def test_an_index_of_ones_own_name_is_not_suspected():
    text = (
        "__global__ void k(float* y) {{ int a = threadIdx.x, {0} = a % 2; float t[4][4]; y[0] = t[{0}][a]; }}"
    )
    assert not differences(*(read(text.format(name)) for name in ("here", "stage")), "k", {"a"})


@pytest.mark.parametrize(
    "edit",
    [
        ("col * n - r * H + s", "s + n * col - H * r"),
        ("col * n - r * H + s", "-(r * H - col * n - s)"),
        ("p < 0 || p >= H_out", "!(p >= 0 && p < H_out)"),
        ("if (p < 0 || p >= H_out) continue;\n            sum", "if (p >= 0 && p < H_out) sum"),
        ("sum += x[p", "if (p < H) sum += x[p"),
        ("s++", "s += 1"),
        ("int s = 0; s < n; s++", "int s = r; s < n; s += 2"),
        ("int row = blockIdx.y, col = blockIdx.x;", "int row = blockIdx.y; int col = blockIdx.x;"),
        ("for (int r = 0; r < n; r++)", "for (int r = n - 1; r >= 0; r--)"),
    ],
)
def test_another_way_to_write_it_is_not(edit):
    assert not told(edit)


def test_a_loop_that_counts_from_one():
    edits = [("int s = 0; s < n", "int s = 1; s <= n"), ("- r * 2 + s", "- r * 2 + s - 1")]
    assert not any("equal to n" in says or "too much" in says or "begins at" in says for says in told(*edits))


def test_what_is_compared_by_another_name():
    assert told(("int r = 0; r < n; r++", "int p = 0; p < n; p++"), ("row - r * 2 + s", "row - s")) == []
    edits = [
        ("int p = row - r * 2 + s;", "int pp = row - r * 2 + s; for (int p = 0; p < n; p++) sum += x[p];")
    ]
    assert (
        told(*edits, ("p < 0 || p >= H_out", "pp < 0 || pp >= H_out"), ("x[p * n + h]", "x[pp * n + h]"))
        == []
    )


def test_a_loop_whose_variable_is_declared_before_it():
    text = SOLUTION.replace("for (int s = 0", "int s;\n        for (s = 1")
    begins = "The loop over s in line 6 begins at 1: does that leave anything out, or do anything twice?"
    assert begins in [slip.says for slip in differences(read(text), read(SOLUTION), "k", ("n", "s"))]
    assert not differences(read(text.replace("s = 1", "s = 0")), read(SOLUTION), "k", ("n", "s"))


def test_a_loop_that_begins_at_the_same_in_other_words():
    right = "__global__ void k(float* y, int n, int m) {{\n{}\nfor (int i = {}; i < n; i++) y[i] = 1; }}"
    texts = [right.format(f"int {x} = n / m;", f"{x} * m") for x in ("first", "group")]
    assert not differences(*map(read, texts), "k", ("n", "m"))


def test_the_loops_of_a_function_count_what_it_is_given():
    loop = "for (int i = 0; i < {}; i++) y[i] = 1;"
    own = f"__device__ void f(float* y, int count) {{ {loop.format('count')} }}\n"
    own += "__global__ void k(float* y, int n) { f(y, n * 2); }"
    solution = f"__global__ void k(float* y, int n) {{ {loop.format('n * 2')} }}"
    assert not differences(read(own), read(solution), "k", ("n",))


def test_a_name_that_means_something_else_is_not_compared():
    """Where p is twice the row, `p * n + h` is another place than in the solution."""
    text = SOLUTION.replace("row - r * 2 + s", "2 * row").replace("x[p * n + h]", "x[p + n * h + 1]")
    assert not [s for s in differences(read(text), read(SOLUTION), "k", ()) if "p + n * h" in s.says]


def test_quotients_that_are_0_for_most_sizes_are_compared_as_they_are_written():
    text = "__global__ void k(float* y, int n, int m) {{\nint {0} = n / m;\nfor (int i = {1}; i < n; i++) y[i] = 1; }}"
    right = text.format("parts", "parts * (blockIdx.x / m)")
    own = text.format("each", "each * (blockIdx.x / m)"), text.format("each", "0")
    found = [[s.says for s in differences(read(o), read(right), "k", ("n", "m"))] for o in own]
    assert not found[0] and found[1][0].startswith("The loop over i in line 3 begins at 0: does that leave")


@pytest.mark.parametrize("loop", ["for (int i = lane; i < n; i += {})", "for (int i = lane; i < {}; i++)"])
def test_a_warp_is_32_threads(loop):
    """A loop that steps by warpSize, or ends there, is the solution's that does so by 32."""
    text = "__global__ void k(float* y, int n) {{ int lane = threadIdx.x;\n{} y[i] = 1; }}"
    own, right, other = (read(text.format(loop.format(e))) for e in ("warpSize", "32", "16"))
    assert not differences(own, right, "k", {"n"})
    assert differences(other, right, "k", {"n"})
