"""What threads do between barriers: PTX in."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.packs import packs
from backwarp.devices.virtual.analyse.phases import Phases, phases, together
from backwarp.devices.virtual.analyse.pointers import Pointers, Values
from tests.devices.virtual.ptx_text import module

KERNEL = """
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .b32 %r<30>; .reg .b64 %rd<20>; .reg .f32 %f<9>; .reg .pred %p<9>;
    ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, 0;
    BODY
    ret;
}
"""
LOOP = """
    add.s32 %r5, %r2, %r3; add.s32 %r6, %r5, 1; bar.sync 0;
    $loop: add.s32 %r4, %r4, 1; add.s32 %r5, %r5, %r6; mov.u32 %r7, %r5; bar.sync 0;
    setp.lt.s32 %p1, %r4, %r1; st.global.u32 [%rd1], %r7; @%p1 bra $loop;
    st.global.u32 [%rd1], %r5;
"""


def found(body: str, block=(8, 4, 1)) -> Phases | None:
    made = module(KERNEL.replace("BODY", body))
    return phases(made.functions["k"], Values(Pointers(made), made.functions["k"]).found, block)


def test_what_threads_keep_over_a_barrier():
    made = found(LOOP)
    first, second = made.waits
    assert set(made.needed[first]) == {"%rd1", "%r1", "%r4", "%r5", "%r6"}
    assert set(made.needed[second]) == {"%rd1", "%r1", "%r4", "%r5", "%r6", "%r7"}
    assert made.common >= {"%rd1", "%r1", "%r4"} and made.common.isdisjoint({"%r5", "%r6", "%r7"})
    assert made.changing & set(made.needed[second]) == {"%r4"}


def test_what_each_phase_does():
    made = found(LOOP)
    assert "%r6" in made.writes[0] and made.writes[1] == {"%r4", "%r5", "%r7"}
    assert made.writes[2] == {"%p1", "%r4", "%r5", "%r7"}  # to the barrier in the next iteration
    assert made.reads[1] == {"%r4", "%r5", "%r6"} and {"%rd1", "%r1"} <= made.reads[2]


def test_threads_that_may_come_to_different_barriers_have_no_phases():
    assert found("setp.lt.s32 %p1, %r3, 2; @%p1 bra $on; bar.sync 0; $on:") is None
    assert found("setp.lt.s32 %p1, %r3, 2; @%p1 bra $out; bar.sync 0; $out:") is None
    assert found("setp.lt.s32 %p1, %r1, 2; @%p1 bra $on; bar.sync 0; $on:") is not None
    assert (
        found("bar.sync 0; setp.lt.s32 %p1, %r3, 2; @%p1 bra $out; st.global.u32 [%rd1], %r3; $out:")
        is not None
    )
    assert found("bar.sync 0; bar.red.popc.u32 %r5, 0, %p1;") is None


SUMS = """
    mov.u32 %r9, tile; mad.lo.s32 %r5, %r2, 4, %r9; mad.lo.s32 %r6, %r3, 4, %r9; FIRST; bar.sync 0;
    ld.shared.f32 %f1, [ONE]; ld.shared.f32 %f2, [OTHER]; ld.shared.f32 %f3, [OTHER+8];
    PRODUCTS
    MORE bar.sync 0; st.global.f32 [%rd1], %f20;
"""
_OTHERS = [f"%f{40 + n}" for n in range(8)]


def side_by_side(one: str, other: str, more: str = "", block=(8, 4, 1)):
    """Of the second of three phases: sums of all products of %f1 and eight numbers."""
    first = " ".join(f"mov.f32 %f{20 + n}, 0f00000000;" for n in range(8)).rstrip(";")
    others = " ".join(f"ld.shared.f32 {name}, [{other}+{4 * n}];" for n, name in enumerate(_OTHERS))
    fma = " ".join(f"fma.rn.f32 %f{20 + n}, %f1, {name}, %f{20 + n};" for n, name in enumerate(_OTHERS))
    body = SUMS.replace("PRODUCTS", others + fma).replace("FIRST", first).replace("MORE", more)
    text = KERNEL.replace("BODY", f".shared .align 16 .b8 tile[256]; {body}").replace("%f<9>", "%f<99>")
    made = module(text.replace("ONE", one).replace("OTHER", other))
    function = made.functions["k"]
    known = phases(function, Values(Pointers(made), function).found, block)
    return [together(known, n, packs(function), function.regs, block) for n in range(3)]


def test_neighbours_that_share_a_factor_run_side_by_side():
    first, second, third = side_by_side("%r6", "%r5", "st.shared.u32 [%r6], %tid.x;")
    assert first is third is None and second.factor == 2
    assert {"%f40", "%f20"} <= second.varying and "%f1" not in second.varying
    each = {i.operands[0] for i in second.serial if i.op.memory}
    assert "%f40" in each and "%f1" not in each and "[%r6]" in each


def test_neighbours_that_do_not():
    assert side_by_side("%r5", "%r6")[1] is None  # each has its own factor
    assert side_by_side("%r6", "%r5", block=(9, 4, 1))[1] is None
    part = "setp.lt.s32 %p1, %r2, 2; @%p1 bra $on; add.f32 %f20, %f20, %f1; $on:"
    assert side_by_side("%r6", "%r5", part)[1] is None
