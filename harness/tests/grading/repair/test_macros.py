"""Macros that begin a loop are written out, and edits carried back."""

from backwarp.grading.repair.edits import Edit
from backwarp.grading.repair.macros import written_out
from backwarp.grading.repair.repair import Repair

SOURCE = """#define EACH(i, n) \\
    for (int i = threadIdx.x; i < (n); i += blockDim.x)
void k(float* x, int size) {
    EACH(place, size - f(1, 2)) { x[place] = 1; }
}
"""


def test_the_body_follows_the_head_of_its_loop():
    text = written_out(SOURCE).text
    loop = "for (int place = threadIdx.x; place < (size - f(1, 2)); place += blockDim.x) { x[place] = 1; }"
    assert loop in text and text.count("\n") == SOURCE.count("\n")
    assert (
        written_out(SOURCE.replace("for (int i = threadIdx.x; i < (n); i += blockDim.x)", "(i + n)")) is None
    )


def changed(old: str, new: str) -> str | None:
    written = written_out(SOURCE)
    start = written.text.index(old, written.text.index("void k"))
    edits = written.back((Edit(start, start + len(old), new, "another value"),))
    return Repair(edits, 0.0, SOURCE).text if edits else None


def test_edits_are_carried_back():
    assert changed("= 1;", "= 2;") == SOURCE.replace("= 1;", "= 2;")
    assert changed("blockDim.x", "place * blockDim.x") == SOURCE.replace("blockDim.x", "i * blockDim.x")
    assert changed("size - f", "size + f") == SOURCE.replace("size - f", "size + f")
    assert changed("place < (size", "0") is None
