"""Registers that are linear over rows: PTX in."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.lanes import lanes
from backwarp.devices.virtual.analyse.pointers import Pointers, Values
from tests.devices.virtual.ptx_text import module

KERNEL = """
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .b32 %r<30>; .reg .b64 %rd<20>; .reg .f32 %f<9>; .reg .pred %p<9>;
    ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.f32 %f1, 0f00000000;
    BODY
    $loop: add.f32 %f1, %f1, %f1; add.s32 %r1, %r1, -1; setp.ne.s32 %p1, %r1, 0; @%p1 bra $loop;
    bar.sync 0; ret;
}
"""


def linear(body: str) -> set[str]:
    made = module(KERNEL.replace("BODY", body))
    found = lanes(made.functions["k"], Values(Pointers(made), made.functions["k"]).found, 4)
    assert found.linear <= found.several
    return found.linear - {"%r3"}


def test_sums_and_products_with_what_rows_share_are_linear():
    assert linear("""
        mul.lo.s32 %r4, %r3, %r1; mad.lo.s32 %r5, %r1, %r3, %r2; shl.b32 %r6, %r5, 2; sub.s32 %r7, %r1, %r6; neg.s32 %r8, %r7;
    """) == {"%r4", "%r5", "%r6", "%r7", "%r8"}
    assert not linear("""
        mul.lo.s32 %r4, %r3, %r3; mul.lo.s32 %r5, %r3, %r2; xor.b32 %r6, %r3, 1; shr.u32 %r7, %r3, 1; rem.u32 %r8, %r3, 3;
        add.s32 %r9, %r6, %r2; cvt.rn.f32.u32 %f2, %r3;
    """)


def test_what_is_widened_is_linear_where_lanes_differ():
    """There the code tests for an overflow."""
    body = "mad.lo.s32 %r4, %r3, %r1, LANES; mul.wide.s32 %rd2, %r4, 4; cvt.s64.s32 %rd3, %r4; add.s64 %rd4, %rd1, %rd2;"
    used = "ld.global.f32 %f2, [%rd4]; shl.b64 %rd5, %rd3, 2; add.s64 %rd6, %rd1, %rd5; ld.global.f32 %f3, [%rd6];"
    assert linear(body.replace("LANES", "%r2") + used) == {"%r4", *(f"%rd{n}" for n in range(2, 7))}
    assert linear(body.replace("LANES", "7") + used) == {"%r4"}


def test_a_register_is_linear_if_all_that_is_written_to_it_is():
    body = "mov.u32 %r4, %r3; $more: add.s32 %r4, %r4, STEP; setp.lt.s32 %p2, %r1, 9; @%p2 bra $more;"
    assert linear(body.replace("STEP", "%r1")) == {"%r4"}
    assert linear("xor.b32 %r5, %r3, 1; " + body.replace("STEP", "%r5")) == set()
    assert (
        linear(
            "mov.u32 %r6, 1; setp.lt.s32 %p2, %r3, 2; @%p2 bra $on; mov.u32 %r6, %r3; $on: add.s32 %r7, %r6, 1;"
        )
        == set()
    )
