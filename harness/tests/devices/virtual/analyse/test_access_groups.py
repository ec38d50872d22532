"""Which loads are done together, and what has to be known of their conditions: PTX in."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.access_groups import together
from backwarp.devices.virtual.ptx.ir import Instruction
from tests.devices.virtual.ptx_text import module

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


def found(body: str) -> tuple[list[list[str]], list[list[str]]]:
    """(the loads of each group, what computes their conditions), by the registers they write."""
    loads, conditions = together(module(KERNEL.replace("BODY", body)).functions["k"].body)

    def named(groups: dict) -> list[list[str]]:
        return [[i.operands[0] for i in group] for group in groups.values()]

    assert all(isinstance(i, Instruction) for i in loads)
    return named(loads), named({i: c for i, c in conditions.items() if c})


FIRST, SECOND = "@%p1 ld.global.f32 %f1, [%rd1];", "@%p2 ld.global.f32 %f2, [%rd1+4];"


def test_loads_at_constant_distances_are_done_together():
    assert found("ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4]; ret;") == ([["%f1", "%f2"]], [])
    between = "st.global.f32 [%rd2], %f1;"
    assert found(f"ld.global.f32 %f1, [%rd1]; {between} ld.global.f32 %f2, [%rd1+4]; ret;")[0] == [
        ["%f1"],
        ["%f2"],
    ]


def test_a_condition_that_is_computed_in_between_is_computed_before():
    body = f"{FIRST} add.s32 %r2, %r1, 1; mul.f32 %f3, %f1, %f1; setp.lt.s32 %p2, %r2, 9; {SECOND} ret;"
    assert found(body) == ([["%f1", "%f2"]], [["%r2", "%p2"]])


def test_loads_with_and_without_a_condition_are_done_apart():
    assert found(f"ld.global.f32 %f1, [%rd1]; {SECOND} ret;")[0] == [["%f1"], ["%f2"]]


def test_a_condition_that_cannot_be_known_before_keeps_loads_apart():
    for between in (
        "setp.lt.f32 %p2, %f1, 0f00000000;",  # it depends on the first load
        "ld.global.u32 %r1, [%rd3]; setp.lt.s32 %p2, %r1, 0;",
        "add.s32 %r1, %r1, 1; setp.lt.s32 %p2, %r1, 0;",  # which would be done twice
        "mov.u32 %r3, %r1; mov.u32 %r1, 5; setp.lt.s32 %p2, %r1, 0;",  # somebody still needs the old one
        "setp.lt.s32 %p1, %r1, 0; setp.lt.s32 %p2, %r1, 0;",
    ):
        assert found(f"{FIRST} {between} {SECOND} ret;")[0] == [["%f1"], ["%f2"]], between
