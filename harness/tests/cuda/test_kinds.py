"""The kinds of expressions, and which values of a structure may be inserted."""

from __future__ import annotations

from backwarp.cuda.kinds import Kinds
from backwarp.cuda.text import read
from backwarp.grading.repair.pool import Pool
from backwarp.grading.repair.schemata import Schemata
from tests.devices.virtual.launches import K

SOURCE = f"""
struct Conv {{ int C, R, S; float scale; }};
struct Run {{ float most, sum; }};
__device__ int taps(const Conv& g, const Conv* far, Run own) {{
    own.sum = own.most * g.scale;
    return g.R / g.S + far->C;
}}
{K}k(const float* x, float* y, int n) {{
    Conv all[2];
    const Conv g = {{n, 3, 3, 1.0f}};
    Run r = {{x[0], 0.0f}};
    r.sum += expf(x[1] - r.most);
    y[0] = r.sum + taps(g, all, r) + all[0].C + x.size;
}}
"""


def test_members_have_the_kinds_that_their_structure_declares():
    file = read(SOURCE)
    kinds = Kinds(file)
    found = {e.code: kinds.kind(e) for e in file.whole.all("field_expression")}
    integers, floats = ("g.R", "g.S", "far->C"), ("own.sum", "own.most", "g.scale", "r.sum", "r.most")
    assert found == dict.fromkeys(integers, "integer") | dict.fromkeys(floats, "float") | dict.fromkeys(
        ("all[0].C", "x.size"), ""
    )


def test_integers_of_a_structure_that_a_function_is_given_may_be_inserted():
    file = read(SOURCE)
    entries = {f.name: {e.text for e in Pool(file, f, []).integers} for f in file.functions}
    assert {"g.C", "g.R", "g.S"} <= entries["taps"]
    assert not {"g.scale", "far.C", "far->C", "own.sum"} & entries["taps"]
    assert "g.C" not in entries["k"]  # a variable of its own may change


def test_expressions_of_members_are_changed():
    texts = {
        c.edit.after for s in Schemata(SOURCE, "k").sites for c in s.choices() if s.piece.line in (6, 12)
    }
    assert {"g.R * g.S", "g.C", "r.most"} <= texts


def test_what_is_read_through_the_cache_has_the_kind_of_the_element():
    file = read(
        "__global__ void k(const float* x, const int* n) { float a = __ldg(&x[1]); int b = __ldg(n + 1) + __ldg(&n[2]); }"
    )
    kinds = Kinds(file)
    assert [kinds.kind(e) for e in file.whole.all("call_expression")] == ["float", "pointer", "integer"]
