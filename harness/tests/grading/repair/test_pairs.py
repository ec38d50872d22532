"""Edits that belong together; nothing is run."""

from __future__ import annotations

from harness.grading.repair.loops import shared_out, strided
from harness.grading.repair.pairs import Families, declared, exchanged, renamed, turned_index, zeroed
from harness.grading.repair.repair import Repair
from harness.grading.repair.schemata import Schemata
from harness.grading.repair.sites import cost_of
from harness.tests.devices.virtual.launches import K


def test_names_of_two_directions_are_exchanged_where_they_are_declared_as_soon_as_where_they_are_used():
    body = "int r = i % F;\n int s = i / F % F;\n x[r * W + s] = i;"
    sites = Schemata(f"{K}k(int* x, int i, int F, int W) {{\n{body}\n}}\n", "k").sites
    (there, *_), used = ([some for some in pairs(sites)] for pairs in (declared, exchanged))
    here = min((some for some in used if some[0].site.piece.line == 4), key=cost_of)
    assert cost_of(there) <= cost_of(here) < 0.9


def test_rows_and_columns_of_an_index_are_exchanged_with_the_extent():
    body = "x[(c * K + k) * 4] = i;"
    sites = Schemata(f"{K}k(int* x, int i, int k, int c, int K, int C) {{\n{body}\n}}\n", "k").sites
    assert ("k", "c", "C") in {tuple(c.edit.after for c in some) for some in turned_index(sites)}


def test_several_tiles_have_a_0_where_nothing_is_stored():
    body = "if (i < n) x[i] = n;\n if (i < 4) { y[i] = 1; }\n if (i < 2) z[i] = 2;"
    source = f"{K}k(int* x, int* y, int* z, int i, int n) {{\n{body}\n}}\n"
    texts = [
        Repair(tuple(c.edit for c in some), 0.0, source).text for some in zeroed(Schemata(source, "k").sites)
    ]
    lines = ["x[i] = i < n ? n : 0;", "y[i] = i < 4 ? 1 : 0;", "z[i] = i < 2 ? 2 : 0;"]
    assert len(texts) == 7 and all(line in texts[-1] for line in lines)


def test_one_name_in_several_places_becomes_one_other():
    sites = Schemata(
        f"{K}k(int* x, int i, int P, int Q) {{\nint p = i / P, q = i - p * P;\n x[p] = q;\n}}\n", "k"
    ).sites
    families = Families(sites)
    chosen = [c for s in sites if s.piece.code == "P" for c in s.choices(0, 1.6)]
    texts = [tuple(c.edit.after for c in pair) for one in chosen for pair in families.of(one)]
    assert ("Q", "Q") in texts


def test_each_thread_takes_its_share_of_a_loop_that_counts_by_itself():
    body = "int t = threadIdx.x, i = 0;\n while (true) {\n if (i >= n) break;\n x[i] = t;\n i++;\n }"
    source = f"{K}k(int* x, int n) {{\n{body}\n}}\n"
    changed = (tuple(c.edit for c in some) for some in strided(Schemata(source, "k").sites))
    texts = {Repair(edits, 0.0, source).text for edits in changed}
    assert source.replace("i = 0", "i = t").replace("i++", "i += blockDim.x") in texts


def test_shares_are_rounded_up_and_the_last_one_ends_early():
    body = "int t = threadIdx.x, each = n / 32;\n for (int i = t * each; i < (t + 1) * each; i++) x[i] = 0;"
    source = f"{K}k(int* x, int n) {{\n{body}\n}}\n"
    (pair,) = shared_out(Schemata(source, "k").sites)
    text = Repair(tuple(c.edit for c in pair), 0.0, source).text
    assert "each = (n + 32 - 1) / 32;" in text and "i < (t + 1) * each && i < n;" in text


def test_a_name_is_another_one_in_an_if_and_its_condition():
    source = f"{K}k(int* x, int n) {{\n int i = threadIdx.x, j = threadIdx.y;\n if (j < n) {{\n  x[j] = n;\n }}\n}}\n"
    found = {tuple(c.edit.after for c in some) for some in renamed(Schemata(source, "k").sites)}
    assert ("i", "i") in found


def test_all_threads_do_everything_that_each_should_do_a_part_of():
    source = f"{K}k(int* x, int n) {{\n for (int i = 0; i < n; i++) x[i] = n;\n}}\n"
    found = {tuple(c.edit.after for c in some) for some in strided(Schemata(source, "k").sites)}
    assert ("blockIdx.x * blockDim.x + threadIdx.x", "i += gridDim.x * blockDim.x") in found
