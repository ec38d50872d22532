"""What threads do between barriers: PTX in."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.phases import Phases, phases
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
