"""Short conditional code that selects its results: PTX in, PTX out. What it does is tested with lanes, in test_body."""

from __future__ import annotations

import re

import pytest

from backwarp.devices.virtual.ptx.ir import Instruction
from backwarp.devices.virtual.rewrite import selects
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.visible .entry k()
{
    .reg .b32 %r<9>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<9>;
    .reg .pred %p<9>;
    BODY
}
"""


def rewritten(body: str) -> str | None:
    """None if nothing has changed. All branches are those at which lanes diverge; new registers are numbered from 1."""
    function = module(KERNEL.replace("BODY", body)).functions["k"]
    branches = {i for i in function.body if isinstance(i, Instruction) and i.pred}
    found = selects.run(function, branches)
    if found is None:
        return None
    text = printed(found)
    for number, name in enumerate(dict.fromkeys(re.findall(r"%select\.\d+", text)), 1):
        text = re.sub(rf"{re.escape(name)}\b", f"%new{number}", text)
    return text


def test_loads_keep_the_condition_and_results_are_selected():
    body = "@%p1 bra $L_1; ld.global.f32 %f1, [%rd1]; fma.rn.f32 %f3, %f1, %f2, %f3; $L_1: st.global.f32 [%rd2], %f3; ret;"
    assert rewritten(body) == lines("""
        @!%p1 ld.global.f32 %f1, [%rd1];
        fma.rn.f32 %new1, %f1, %f2, %f3;
        selp.f32 %f3, %f3, %new1, %p1;
        st.global.f32 [%rd2], %f3;
        ret;
    """)


def test_a_register_that_is_written_twice_and_a_condition_that_is_negated():
    body = (
        "@!%p1 bra $L_1; add.s32 %r1, %r1, 1; mul.lo.s32 %r1, %r1, %r1; $L_1: st.global.u32 [%rd2], %r1; ret;"
    )
    assert rewritten(body) == lines("""
        add.s32 %new1, %r1, 1;
        mul.lo.s32 %new1, %new1, %new1;
        selp.b32 %r1, %new1, %r1, %p1;
        st.global.u32 [%rd2], %r1;
        ret;
    """)


def test_a_label_where_others_arrive_stays():
    body = "@%p2 bra $L_1; st.global.u32 [%rd2], %r1; @%p1 bra $L_1; mov.u32 %r1, 1; $L_1: st.global.u32 [%rd2], %r1; ret;"
    text = rewritten(body)
    assert "@%p2 bra $L_1;" in text and "$L_1:" in text and "@%p1" not in text


UNCHANGED = {
    "a store": "@%p1 bra $L_1; st.global.f32 [%rd1], %f1; $L_1: ret;",
    "what may be seen by others": "@%p1 bra $L_1; ld.volatile.global.f32 %f1, [%rd1]; $L_1: ret;",
    "a slow operation": "@%p1 bra $L_1; div.rn.f32 %f1, %f2, %f3; $L_1: ret;",
    "a predicate that is needed later": "@%p1 bra $L_1; setp.eq.s32 %p2, %r1, 0; $L_1: @%p2 bra $L_2; ret; $L_2: ret;",
    "its own condition": "@%p1 bra $L_1; setp.eq.s32 %p1, %r1, 0; $L_1: ret;",
    "a loop": "$L_1: add.s32 %r1, %r1, 1; @%p1 bra $L_1; ret;",
    "two ways": "@%p1 bra $L_1; mov.u32 %r1, 1; bra.uni $L_2; $L_1: mov.u32 %r1, 2; $L_2: st.global.u32 [%rd1], %r1; ret;",
    "much code": "@%p1 bra $L_1; " + "add.s32 %r1, %r1, %r2; " * 11 + "$L_1: ret;",
    "nothing": "@%p1 bra $L_1; $L_1: ret;",
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_everything_else_stays(name):
    assert rewritten(UNCHANGED[name]) is None
