"""Two edits of the head of a loop; nothing is run."""

from __future__ import annotations

from harness.grading.repair.loops import heads, part_of_range, walked
from harness.grading.repair.schemata import Schemata
from harness.tests.devices.virtual.launches import K


def texts_of(pairs, body: str) -> set[tuple[str, ...]]:
    source = f"{K}k(int* x, int n, int t) {{\n{body}\n}}\n"
    return {tuple(c.edit.after for c in pair) for pair in pairs(Schemata(source, "k").sites)}


def test_where_a_loop_starts_and_how_it_compares_are_changed_together():
    found = texts_of(heads, "for (int i = t + 1; i <= n; i++) x[i] = t + 1;")
    assert ("t", "i < n") in found and len(found) < 40
    assert not texts_of(heads, "int i = t + 1; while (i <= n) x[i++] = t;")


def test_a_loop_over_a_whole_range_becomes_one_over_a_part_of_it():
    body = "int group = threadIdx.x;\n for (int i = 0; i < n; i++) x[i] = 0;"
    assert {("group * n", "group * n + n"), ("group", "n + group")} <= texts_of(part_of_range, body)
    assert not texts_of(part_of_range, body.replace("i = 0", "i = 1"))
    assert not texts_of(part_of_range, body.replace("i < n", "i >= n"))


def test_a_pointer_that_goes_along_a_row_goes_down_a_column():
    found = texts_of(walked, "const int* p = x + t * n;\n for (int i = 0; i < n; i++) p++;")
    assert ("t", "p += n") in found and len(found) < 40
