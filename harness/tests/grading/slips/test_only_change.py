"""The one place at which a text differs from the solution's."""

import pytest

from backwarp.cuda.text import read
from backwarp.grading.slips.only_change import only_change

RIGHT = """constexpr int WIDTH = 4;
__global__ void k(const float* a, float* c, int n) {
    int i = blockIdx.x * WIDTH + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;  // all of it
    sum += a[i];
    c[i] = sum;
}"""


def told(*edits):
    text = RIGHT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return [str(slip) for slip in only_change(read(text), read(RIGHT), "k")]


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ([("a[i]", "a[0]")], "Only line 6 has to change; it says: sum += a[0];"),
        ([("a[i]", "a[0]"), ("sum", "total"), (";  // all of it", ";")], "Only line 6 has to change;"),
        ([("i >= n", "i > n")], "Only line 4 has to change; it says: i > n"),
        ([("    if (i >= n) return;\n", "")], "Between lines 3 and 4, something is missing"),
    ],
)
def test_the_place_is_named(edits, says):
    assert told(*edits)[0].startswith(says)


def test_all_lines_of_a_change_are_named():
    """In a loop, of whose lines two have to change."""
    right = RIGHT.replace(
        "sum += a[i];", "for (int j = i; j < n; j += WIDTH) {\n        if (j < i) sum += a[j];\n    }"
    )
    wrong = right.replace("j = i; j < n", "j = n; j > n").replace("j < i", "j <= i")
    (found,) = only_change(read(wrong), read(right), "k")
    assert (found.kind, found.lines) == ("only_change", (6, 7))


def test_of_a_file_with_other_kernels_one_is_named():
    both = RIGHT + "\n__global__ void other(float* c) { c[0] = 1.0f; }"
    wrong = both.replace("sum += a[i]", "sum += a[0]")
    (said,) = map(str, only_change(read(wrong), read(both), "k"))
    assert said == "In k, only line 6 has to change; it says: sum += a[0];"
    (said,) = map(str, only_change(read(both.replace("    c[i] = sum;\n", "")), read(both), "k"))
    assert said.endswith("something is missing; nothing else in k has to change.")


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("sum", "total")],
        [("a[i]", "a[0]"), ("WIDTH = 4", "WIDTH = 8")],
        [("a[i]", "a[0]"), ("WIDTH = 4", "WIDTH = 4, MORE = 1")],
        [("a[i]", "a[0]"), ("WIDTH = 4;", "WIDTH = 4;\n#define MORE")],
        [
            (
                "int i = ",
                "while (n-- > 0) c[n] = a[n];\n    int p, q, r, s; for (p = q = r = s = 0; p < q; p++) r += s;\nint i = 1 + ",
            )
        ],
        [("a[i]", "a[0]"), ("blockIdx.x * WIDTH", "blockIdx.x")],
    ],
)
def test_nothing_is_said_of_two_places(edits):
    assert not told(*edits)
