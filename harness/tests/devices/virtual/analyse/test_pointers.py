"""What registers are found to be computed from: PTX in, origins out."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse.pointers import Likely, Pointers, Values, rooted
from backwarp.devices.virtual.ptx.ir import Instruction
from tests.devices.virtual.ptx_text import module

MODULE = """
.file 1 "kernel.cu"
.global .align 4 .b8 table[16];
.func (.param .b64 back) second(.param .b64 a, .param .b64 b, .param .b64 n)
{
    .reg .b64 %rd<5>;
    ld.param.b64 %rd1, [b];
    ld.param.b64 %rd4, [n]; shl.b64 %rd2, %rd4, 2;
    add.s64 %rd3, %rd1, %rd2;
    st.param.b64 [back], %rd3;
    ret;
}
.func either(.param .b64 where)
{
    .reg .b64 %rd<2>; .reg .b32 %r<2>;
    ld.param.b64 %rd1, [where];
    .loc 1 9 0
    ld.u32 %r1, [%rd1];
    ret;
}
.visible .entry k(.param .b64 array, .param .b64 n)
{
    .reg .b64 %rd<20>; .reg .b32 %r<9>; .reg .pred %p<2>;
    .local .align 8 .b8 depot[32];
    .shared .align 8 .b8 tile[32];
    .param .b64 p; .param .b64 q; .param .b64 r; .param .b64 s; .param .b64 t;
    BODY
    ret;
}
"""


def values(body: str) -> Values:
    parsed = module(MODULE.replace("BODY", body))
    return Values(Pointers(parsed), parsed.functions["k"])


@pytest.mark.parametrize(
    "body, root",
    [
        ("mov.u64 %rd1, tile;", "tile"),
        ("mov.u64 %rd2, tile+8; cvta.shared.u64 %rd1, %rd2;", "tile"),
        ("mov.u64 %rd2, tile; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd1, %rd3, %rd2;", "tile"),
        (
            "ld.param.u64 %rd3, [n]; mov.u64 %rd2, tile; add.s64 %rd1, %rd3, %rd2;",
            "tile",
        ),  # not n bytes from the array
        ("mov.u64 %rd2, depot; ld.u64 %rd3, [%rd2]; add.s64 %rd1, %rd2, %rd3;", "depot"),
        ("mov.u64 %rd2, table; mad.lo.s64 %rd1, %rd3, %rd4, %rd2;", "table"),
        ("mov.u64 %rd2, depot; sub.s64 %rd1, %rd2, 8;", "depot"),
        # around a loop, its increment first
        ("mov.u64 %rd1, tile; $L: add.s64 %rd1, %rd1, %rd5; mul.wide.u32 %rd5, %r1, 4; bra $L;", "tile"),
        ("mov.u64 %rd1, tile; @%p1 mov.u64 %rd1, depot;", None),
        ("mov.u64 %rd2, tile; mov.u64 %rd3, depot; selp.b64 %rd1, %rd2, %rd3, %p1;", None),
        ("mov.u64 %rd2, tile; mov.u64 %rd3, depot; add.s64 %rd1, %rd2, %rd3;", None),
        # a distance, which is added to any pointer
        ("mov.u64 %rd2, tile; ld.u64 %rd3, [%rd4]; sub.s64 %rd1, %rd2, %rd3;", None),
        ("mov.u64 %rd2, tile; and.b64 %rd1, %rd2, 15;", None),
        ("mov.u64 %rd2, tile; cvt.u32.u64 %r1, %rd2; cvt.u64.u32 %rd1, %r1;", None),
        # what was stored, unless somebody else has written there
        ("mov.u64 %rd2, tile; mov.u64 %rd3, depot; st.u64 [%rd3+8], %rd2; ld.u64 %rd1, [%rd3+8];", None),
        ("mov.b64 %rd1, {%r1, %r2};", None),
        ("ld.v2.u64 {%rd1, %rd2}, [%rd3];", None),
        ("ld.param.u64 %rd1, [array];", None),
    ],
)
def test_registers_whose_addresses_are_certainly_in_one_variable(body, root):
    assert rooted(values(body).found).get("%rd1") == root


def test_what_a_function_returns_is_made_of_its_arguments():
    body = """mov.u64 %rd2, tile; mov.u64 %rd3, depot;
        st.param.b64 [p], %rd2; st.param.b64 [q], %rd3; st.param.b64 [r], %rd4;
        call (s), second, (p, q, r);
        ld.param.b64 %rd1, [s];
        call (t), %rd9, (p), prototype;
        ld.param.b64 %rd5, [t];"""
    found = values(body)
    assert rooted(found.found)["%rd1"] == "depot"
    assert {o.kind for o in found.of("%rd5")} == {"unknown"}


def kinds(body: str, text: str) -> set[tuple[str, str, int]]:
    parsed = module(MODULE.replace("BODY", body))
    likely = Likely(parsed, "k")
    at = next(
        i.at
        for f in parsed.functions.values()
        for i in f.body
        if isinstance(i, Instruction) and str(i) == text
    )
    return {(o.kind, o.name, o.offset) for o in likely.origins(at, text)}


LOAD = "ld.u32 %r1, [%rd1];"


@pytest.mark.parametrize(
    "body, origins",
    [
        (
            "ld.param.u64 %rd2, [array]; ld.param.u64 %rd3, [n]; shl.b64 %rd4, %rd3, 2; sub.s64 %rd1, %rd2, %rd4;",
            {("param", "array", 0)},
        ),
        ("ld.u64 %rd1, [%rd2];", {("unknown", "", 0)}),
        (
            "mov.u64 %rd2, depot; add.u64 %rd3, %rd2, 16; add.u64 %rd4, %rd3, 4; add.u64 %rd1, %rd4, %rd5;",
            {("local", "depot", 16)},
        ),
        (
            "ld.param.u64 %rd2, [array]; mov.u64 %rd3, depot; st.u64 [%rd3+8], %rd2; ld.u64 %rd1, [depot+8];",
            {("param", "array", 0)},
        ),
        ("mov.u64 %rd3, depot; st.u32 [%rd3+8], %r1; ld.u64 %rd1, [depot+16];", {("unknown", "", 0)}),
        ("shl.b64 %rd1, %rd2, 2;", set()),
    ],
)
def test_what_an_address_is_likely_computed_from(body, origins):
    assert kinds(f"{body} ld.f32 %f1, [%rd1];".replace("%f1", "%r1"), "ld.f32 %r1, [%rd1]") == origins


def test_a_parameter_is_what_all_callers_pass():
    body = """ld.param.u64 %rd1, [array]; mov.u64 %rd2, tile;
        st.param.b64 [p], %rd1; call either, (p);
        st.param.b64 [q], %rd2; call either, (q);"""
    assert kinds(body, "ld.u32 %r1, [%rd1]") == {("param", "array", 0), ("symbol", "tile", 0)}
    assert kinds(body, "call either, (q)") == {("symbol", "tile", 0)}
