"""Edits that belong together; nothing is run."""

from __future__ import annotations

from backwarp.grading.repair.pairs import Families, declared, exchanged, zeroed
from backwarp.grading.repair.repair import Repair
from backwarp.grading.repair.schemata import Schemata
from backwarp.grading.repair.sites import cost_of
from tests.devices.virtual.launches import K


def test_names_of_two_directions_are_exchanged_where_they_are_declared_as_soon_as_where_they_are_used():
    body = "int r = i % F;\n int s = i / F % F;\n x[r * W + s] = i;"
    sites = Schemata(f"{K}k(int* x, int i, int F, int W) {{\n{body}\n}}\n", "k").sites
    (there, *_), used = ([some for some in pairs(sites)] for pairs in (declared, exchanged))
    here = min((some for some in used if some[0].site.piece.line == 4), key=cost_of)
    assert cost_of(there) <= cost_of(here) < 0.9


def test_three_sizes_are_turned():
    source = f"{K}k(int* x, int i, int C, int H, int W) {{\nx[i / W / H * C] = split(i, C, H, W);\n}}\n"
    texts = [
        Repair(tuple(c.edit for c in some), 0.0, source).text
        for some in exchanged(Schemata(source, "k").sites)
    ]
    assert (
        sum("split(i, H, W, C)" in text for text in texts)
        == 1
        == sum("split(i, W, C, H)" in text for text in texts)
    )


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
