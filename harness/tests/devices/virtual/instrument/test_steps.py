"""Marks of lines and variables, and the rows that they and the instructions between them become: PTX in, PTX out."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.analyse.scopes import Block, Scoped, Scopes, Type
from backwarp.devices.virtual.instrument import steps
from backwarp.devices.virtual.runtime.abi import (
    INFO_ATOMIC,
    INFO_BLIND,
    INFO_SHARED,
    INFO_VOLATILE,
    INFO_WRITE,
    SCOPE_SHIFT,
    SCOPES,
)
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.file 1 "kernel.cu"
.visible .entry k()
{
    .reg .b32 %r<5>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<3>;
    .reg .pred %p<3>;
    BODY
}
"""
INT = Type("int", "int", 4)
FOUND = Scopes(
    (Block("k", "", "", -1), Block("k", "$in", "$out", 0)),
    (Scoped("k", "n", 0, INT, (("", "", "%r1"),)), Scoped("k", "i", 1, INT, (("$set", "$out", "%r2"),))),
)
NAMED = """
    .loc 1 3 0
    mov.u32 %r1, 7;
    $in:
    mov.u32 %r2, 0;
    $set:
    $top:
    .loc 1 4 0
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra $top;
    $out:
    .loc 1 6 0
    ret;
"""
UPDATE = INFO_WRITE | INFO_ATOMIC | INFO_BLIND | INFO_VOLATILE | SCOPES.index("gpu") << SCOPE_SHIFT | 4


def facts(parsed):
    return ModuleFacts(parsed, interleaved=True, threads=True).of


@pytest.fixture
def named(monkeypatch):
    monkeypatch.setattr(steps.debuginfo, "scopes", lambda text: FOUND)
    parsed = module(KERNEL.replace("BODY", NAMED))
    steps.note(parsed)
    return parsed


def rows(body: str) -> tuple[str, list[tuple]]:
    """What `run` makes of a body, without the row of the function's beginning, and the points of the others, each without its
    place."""
    parsed = module(KERNEL.replace("BODY", body))
    steps.note(parsed)
    points, _ = steps.run([parsed.functions["k"]], parsed, facts(parsed))
    entered, _, text = printed(parsed.functions["k"]).partition("\n")
    assert entered == "record 0;" and points[0][0] == "enter"
    return text, [(p[0], *p[4:]) for p in points[1:]]


def test_lines_are_marked_where_they_begin_and_variables_where_they_change(named):
    assert printed(named.functions["k"]) == lines("""
        step.line 0;
        mov.u32 %r1, 7;
        step.var 0, <%r1>;
        $in:
        step.line 1;
        mov.u32 %r2, 0;
        $set:
        step.var 1, <%r2>;
        $top:
        step.line 2;
        add.u32 %r2, %r2, 1;
        step.var 1, <%r2>;
        setp.lt.u32 %p1, %r2, %r1;
        @%p1 bra $top;
        $out:
        step.line 3;
        ret;
    """)
    assert named.lines == [("k", 3, 0), ("k", 3, 1), ("k", 4, 1), ("k", 6, 0)]


def test_no_analysis_sees_the_register_of_a_mark(named):
    marks = [i for i in named.functions["k"].body if getattr(i, "opcode", "") == "step.var"]
    assert marks and not any(i.reads or i.writes for i in marks)


def test_marks_become_rows_that_know_their_place(named):
    points, _ = steps.run([named.functions["k"]], named, facts(named))
    assert [p[:4] for p in points if p[0] == "var"] == [
        ("var", 3, "k", 0),
        ("var", 3, "k", 1),
        ("var", 4, "k", 1),
    ]
    assert "record.b32 2, %r1;" in printed(named.functions["k"]).splitlines()


@pytest.mark.parametrize(
    ("instruction", "out", "points"),
    [
        (
            "ld.global.v2.f32 {%f1, %f2}, [%rd1+8];",
            "record.at.global 1, [%rd1+8]; INS record.b32 2, %f1; record.b32 3, %f2;",
            [("at", "load", "global", "f32", 2, 8), ("got", "f32"), ("got", "f32")],
        ),
        (
            "st.shared.f32 [%rd1], 0f3F800000;",
            "record.at.shared 1, [%rd1]; record.b32 2, 0f3F800000; INS",
            [("at", "store", "shared", "f32", 1, INFO_WRITE | INFO_SHARED | 4), ("given", "f32")],
        ),
        (
            "atom.global.cas.b32 %r1, [%rd1], %r2, %r3;",
            "record.at.global 1, [%rd1]; record.b32 2, %r2; record.b32 3, %r3; INS record.b32 4, %r1;",
            [("at", "cas", "global", "b32", 1, UPDATE), ("given", "b32"), ("given", "b32"), ("got", "b32")],
        ),
        (
            "bar.sync 0;",
            "record 1; INS record 2;",
            [("arrive", "block", "bar.sync", "0"), ("pass", "block", "bar.sync", "0")],
        ),
        (
            "shfl.sync.down.b32 %r1, %r2, 4, 31, -1;",
            "record 1; record.b32 2, %r2; record.b32 3, 4; record.b32 4, 31; record.b32 5, -1; INS record 6; record.b32 7, %r1;",
            None,
        ),
        ("cp.async.wait_group 1;", "record 1; INS", [("async", "cp.async.wait_group", "1")]),
    ],
)
def test_what_an_instruction_does_becomes_rows(instruction, out, points):
    text, found = rows(f"{instruction} ret;")
    body, _, leaving = text.rpartition("\nrecord ")
    assert leaving.endswith("ret;") and body.replace("\n", " ") == out.replace("INS", instruction)
    assert points is None or found[:-1] == points


SUMS = """
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd1+4];
    mul.f32 %f3, %f1, %f2;
    fma.rn.f32 %f4, %f3, 0f40000000, %f1;
    st.global.f32 [%rd2], %f4;
    ret;
"""
LOOP = """
    mov.f32 %f1, 0f00000000;
    $top:
    ld.global.f32 %f2, [%rd1];
    fma.rn.f32 %f1, %f2, %f2, %f1;
    @%p1 bra $top;
    st.global.f32 [%rd2], %f1;
    ret;
"""


def products(body: str) -> dict[str, tuple]:
    """What the value that is stored is the sum of, and the others that have a history: each point as its instruction's place."""
    parsed = module(KERNEL.replace("BODY", body))
    points, found = steps.run([parsed.functions["k"]], parsed, facts(parsed))
    kinds = [p[0] for p in points]
    return {(kinds[point], point): terms for point, terms in found if point >= 0}


def test_a_stored_value_is_a_sum_of_products_of_what_is_recorded():
    # 0 enter; 1, 2 the first load; 3, 4 the second; 5 where it is stored, 6 what
    assert products(SUMS) == {("given", 6): ((2, 4), (2,))}


def test_what_is_summed_in_a_loop_is_what_it_was_and_a_product():
    # 1 the first value of the sum; 2, 3 the load; 4 the sum
    assert products(LOOP) == {("var", 1): (), ("var", 4): ((3, 3), (1,)), ("given", 6): ((1,),)}
