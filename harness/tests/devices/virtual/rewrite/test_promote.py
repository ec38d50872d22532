"""Local variables and parameters that become registers: PTX in, PTX out."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.ptx.ir import Instruction
from backwarp.devices.virtual.rewrite import inline, promote
from tests.devices.virtual.ptx_text import lines, module, printed

HEAD = """
.visible .entry k(.param .u64 out)
{
    .local .align 16 .b8 depot[16];
    .local .align 16 .b8 closure[8];
    .param .b32 param0;
    .reg .b16 %rs<3>;
    .reg .b32 %r<9>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<9>;
    .reg .pred %p<3>;
"""
ITSELF = "mov.u64 %rd1, depot; st.f32 [depot+4], %f1; add.u64 %rd2, %rd1, 4; st.u64 [depot+8], %rd2;"


def promoted(body: str):
    function = module(f"{HEAD}{body}\nret;\n}}").functions["k"]
    promote.run(function)
    return printed(function).removesuffix("\nret;"), function


@pytest.mark.parametrize(
    "before, after",
    [
        (
            "mov.u64 %rd1, depot; add.u64 %rd2, %rd1, 4; st.f32 [%rd2], %f1; ld.u32 %r1, [%rd1+4];",
            "mov.b32 %depot.4, %f1;\nmov.b32 %r1, %depot.4;",
        ),
        ("st.local.v2.f32 [depot+8], {%f1, %f2};", "mov.b32 %depot.8, %f1;\nmov.b32 %depot.12, %f2;"),
        (
            "st.param.f32 [param0], %f1; ld.param.f32 %f2, [param0];",
            "mov.b32 %param0.0, %f1;\nmov.b32 %f2, %param0.0;",
        ),
        (  # of a number that is passed in 32 bits, the lowest 8
            "st.param.b32 [param0], %r1; ld.param.s8 %rs1, [param0];",
            "mov.b32 %param0.0, %r1;\ncvt.s16.s8 %rs1, %param0.0;",
        ),
        (  # a closure, and what it has the address of
            "mov.u64 %rd1, depot; st.local.u64 [closure], %rd1; ld.local.u64 %rd2, [closure]; st.u32 [%rd2], 7;",
            "mov.b32 %depot.0, 7;",
        ),
        (  # a temporary that holds the address of its own part
            f"{ITSELF} ld.u64 %rd4, [depot+8]; ld.f32 %f2, [%rd4]; ld.u64 %rd5, [%rd1+8]; st.f32 [%rd5], %f3;",
            "mov.b32 %depot.4, %f1;\nmov.b32 %f2, %depot.4;\nmov.b32 %depot.4, %f3;",
        ),
    ],
)
def test_promoted(before, after):
    found, function = promoted(before)
    assert found == lines(after)
    assert all(register in function.regs for i in function.body for register in i.reads | i.writes)


@pytest.mark.parametrize(
    "body",
    [
        "mov.u64 %rd1, depot; st.global.u64 [%rd3], %rd1;",  # others may have the address
        "mov.u64 %rd1, depot; add.u64 %rd2, %rd1, %rd3; st.u32 [%rd2], 7;",  # an index
        "st.local.u32 [depot], 7; ld.local.u64 %rd1, [depot];",  # a number and its half
        "st.local.u32 [depot+2], 7;",  # misaligned
        "st.local.u32 [depot+16], 7;",  # outside
        "st.volatile.local.u32 [depot], 7;",
        "st.shared.u32 [depot], 7;",  # another place of the same number
        "mov.u64 %rd1, depot; ld.global.u32 %r1, [%rd1];",
        "mov.u64 %rd1, depot; @%p1 mov.u64 %rd1, closure; st.u32 [%rd1], 7;",  # one of two
        "@%p1 bra $L_1; mov.u64 %rd1, depot; $L_1: st.u32 [%rd1], 7;",  # an address that may not be set
        f"@%p1 bra $L_1; {ITSELF} $L_1: ld.u64 %rd4, [depot+8]; st.u32 [%rd4], 7;",  # likewise
        f"{ITSELF} @%p1 st.u64 [depot+8], %rd1; ld.u64 %rd4, [depot+8]; st.u32 [%rd4], 7;",  # one of two
        f"{ITSELF} st.u64 [depot+8], %rd6; ld.u64 %rd4, [depot+8]; st.u32 [%rd4], 7;",  # this, or anything
        f"{ITSELF} ld.u64 %rd4, [depot+8]; @%p1 mov.u64 %rd4, %rd6; st.u32 [%rd4], 7;",  # likewise
        f"{ITSELF} ld.u64 %rd4, [depot+8]; st.global.u64 [%rd6], %rd4;",  # others may have it
        f"{ITSELF} ld.v2.u64 {{%rd4, %rd5}}, [depot]; st.global.u64 [%rd6], %rd5;",
        f"{ITSELF} ld.u32 %r1, [depot+8]; st.u32 [depot+12], %r1;",  # a part of an address
    ],
)
def test_what_needs_memory_keeps_it(body):
    assert "depot" in promoted(body)[1].variables


def test_all_elements_that_hold_addresses_are_looked_at_together(monkeypatch):
    """Once a round, however many they are: the libraries of blocks have dozens."""
    looks, found = [], promote.read_before
    monkeypatch.setattr(promote, "read_before", lambda *about: looks.append(1) or found(*about))
    promoted(ITSELF)
    few = len(looks)
    promoted(f"{ITSELF} mov.u64 %rd3, param0; st.local.u64 [closure], %rd1;")
    assert len(looks) == 2 * few


COPIES = """
.func one(.param .b64 to) {
    .local .align 4 .b8 own[4]; .local .align 4 .b8 kept[4]; .reg .b64 %rd<3>; .reg .b32 %r<3>;
    st.local.u32 [own], 1; ld.local.u32 %r1, [own]; ld.param.u64 %rd1, [to]; USE
    ret;
}
.func two(.param .b64 to) {
    .local .align 4 .b8 outer[4]; .reg .b64 %rd<3>; .reg .b32 %r<3>; .param .b64 p;
    st.local.u32 [outer], 2; ld.local.u32 %r1, [outer]; ld.param.u64 %rd1, [to]; st.param.b64 [p], %rd1; call.uni one, (p);
    ret;
}
.visible .entry k(.param .u64 out) {
    .local .align 4 .b8 mine[4]; .reg .b64 %rd<3>; .reg .b32 %r<3>; .param .b64 p;
    st.local.u32 [mine], 3; ld.local.u32 %r1, [mine]; ld.param.u64 %rd1, [out]; st.param.b64 [p], %rd1; call.uni two, (p);
    ret;
}
"""


@pytest.mark.parametrize(
    ("use", "kept"),
    [
        ("st.local.u32 [kept], %r1;", {"mine"}),
        ("st.u64 [%rd1], %rd2; mov.u64 %rd2, kept;", {"mine", "outer..1", "own..2", "kept..2"}),
    ],
)
def test_variables_keep_their_places_where_some_of_a_copy_need_memory(use, kept):
    parsed = module(COPIES.replace("USE", use))
    facts = ModuleFacts(parsed, interleaved=True, threads=True)
    inline.run_short(facts)
    function = parsed.functions["k"]
    promote.in_place(function)
    assert {name for name, v in function.variables.items() if v.space == "local"} == kept
    declared = [
        v
        for i in function.body
        if isinstance(i, Instruction) and i.base == "enter"
        for v in i.expansion.variables
    ]
    assert (
        {"mine", *declared} == kept and "[own" not in printed(function) and "[mine" not in printed(function)
    )
