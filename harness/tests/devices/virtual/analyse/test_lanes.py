"""How registers differ between lanes, and where lanes diverge: PTX in."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.lanes import Lanes, lanes
from backwarp.devices.virtual.analyse.pointers import Pointers, Values
from tests.devices.virtual.ptx_text import module

KERNEL = """
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<9>; .reg .pred %p<9>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    BODY
    ret;
}
"""


def found(body: str, rows: int = 1) -> Lanes | None:
    made = module(KERNEL.replace("BODY", body))
    return lanes(made.functions["k"], Values(Pointers(made), made.functions["k"]).found, rows)


def test_how_far_neighbours_are_apart():
    strides = found("""
        shl.b32 %r6, %r5, 2; sub.s32 %r7, %r1, %r5; mul.lo.s32 %r8, %r5, %r1; xor.b32 %r9, %r5, 1;
        mul.wide.s32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd1];
        setp.lt.s32 %p1, %r5, %r1; setp.lt.s32 %p2, %r2, %r1; add.s64 %rd3, %rd3, 16;
    """).strides
    assert [strides[f"%r{n}"] for n in range(1, 10)] == [0, 0, 0, 1, 1, 4, -1, None, None]
    assert (strides["%rd1"], strides["%rd2"], strides["%rd3"]) == (0, 4, 4)
    assert (strides["%f1"], strides["%f2"], strides["%p1"], strides["%p2"]) == (None, 0, None, 0)


def test_lanes_that_leave_need_no_region():
    """Whichever side of the branch leaves; a write before it rules out restarting."""
    made = found("setp.ge.s32 %p1, %r5, %r1; @%p1 bra $out; st.global.u32 [%rd1], %r1; $out:")
    assert not made.regions and list(made.exits.values()) == [True] and made.early == made.exits.keys()
    made = found(
        "st.global.u32 [%rd1], %r1; setp.ge.s32 %p1, %r5, %r1; @%p1 bra $on; ret; $on: mov.u32 %r6, 1;"
    )
    assert not made.regions and list(made.exits.values()) == [False] and not made.early


def test_where_lanes_part_and_meet():
    made = found("""
        setp.ge.s32 %p1, %r5, %r1; mov.u32 %r6, 1;
        @%p1 bra $other; mov.u32 %r6, 2; mov.u32 %r7, 3; add.u32 %r8, %r7, %r1; bra $meet;
        $other: mov.u32 %r6, 4;
        $meet: st.global.u32 [%rd1], %r6;
    """)
    (region,) = made.regions
    assert len(region.blocks) == 2 and not region.loops
    assert made.merged == {"%r6"} and made.strides["%r6"] is None and made.strides["%r8"] == 0


def test_a_loop_that_lanes_leave_at_their_own_time():
    made = found("""
        mov.u32 %r6, 0; $loop: add.u32 %r6, %r6, 1; add.u32 %r7, %r6, 1; st.global.u32 [%rd1], %r7;
        setp.lt.u32 %p1, %r6, %r5; @%p1 bra $loop; st.global.u32 [%rd1], %r6;
    """)
    (region,) = made.regions
    assert len(region.loops) == 1 and made.merged == {"%r6"}
    made = found("mov.u32 %r6, 0; $loop: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r1; @%p1 bra $loop;")
    assert not made.regions and made.strides["%r6"] == 0


def test_inactive_lanes_keep_what_they_still_need():
    """Counters and addresses of a loop that only some lanes run are of no use to the others; what they read later is."""
    start = "mov.u32 %r9, 0; setp.ge.s32 %p1, %r5, %r1; @%p1 bra $out; mov.u32 %r6, 0; mov.u32 %r7, %r5;"
    loop = """
        $loop: add.u32 %r6, %r6, 1; add.u32 %r7, %r7, 4; setp.lt.u32 %p2, %r6, LENGTH; @%p2 bra $loop;
        mov.u32 %r9, RESULT; $out: st.global.u32 [%rd1], %r9;
    """
    made = found(start + loop.replace("LENGTH", "%r1").replace("RESULT", "%r7"))
    assert made.merged == {"%r9"} and (made.strides["%r6"], made.strides["%r7"]) == (0, 1)
    made = found(
        start + loop.replace("LENGTH", "%r5").replace("RESULT", "%r7")
    )  # each leaves at its own time
    assert made.merged == {"%r9", "%r7"} and made.strides["%r6"] == 0
    made = found(start + loop.replace("LENGTH", "%r5").replace("RESULT", "%r6"))
    assert made.merged == {"%r9", "%r6"}


def test_where_lanes_wait_while_others_run():
    """At the header of a loop, for those that go through the rest of it; behind an inner loop; on the other side of a
    branch; and in neither place what they do not read there."""
    again = "$loop: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, %r5; @%p2 bra $loop;"
    rest = "mov.u32 %r7, 9; add.u32 %r6, %r7, %r1; setp.lt.u32 %p3, %r5, %r1; @%p3 bra $loop; st.global.u32 [%rd1], %r1;"
    assert found("mov.u32 %r6, 0;" + again + rest).merged == {"%r6"}
    inner = """
        mov.u32 %r6, 0; mov.u32 %r8, 0;
        $outer: mov.u32 %r7, 0;
        $inner: add.u32 %r6, %r6, 1; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r5; @%p2 bra $inner;
        add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, %r1; @%p3 bra $outer; st.global.u32 [%rd1], %r6;
    """
    assert found(inner).merged == {"%r6"}
    sides = """
        setp.lt.u32 %p1, %r5, %r1; mov.u32 %r6, 1; mov.u32 %r7, 2; @%p1 bra $other;
        mov.u32 %r7, 3; mov.u32 %r6, 4; add.u32 %r8, %r6, %r7; bra $meet;
        $other: add.u32 %r8, %r7, 5; $meet: st.global.u32 [%rd1], %r8;
    """
    assert found(sides).merged == {"%r7", "%r8"}


def test_blocks_of_other_paths_that_stand_in_a_region():
    """They belong to it, so that lanes leave it at its end only."""
    made = found("""
        setp.eq.u32 %p2, %r1, 5; mov.u32 %r6, 0; @%p2 bra $away;
        $loop: setp.lt.u32 %p1, %r6, %r5; @%p1 bra $behind; add.u32 %r6, %r6, 1; bra $loop;
        $away: mov.u32 %r7, 1; bra $far;
        $behind: mov.u32 %r7, 2;
        $far: st.global.u32 [%rd1], %r7; st.global.u32 [%rd1+4], %r6;
    """)
    (region,) = made.regions
    blocks = [start for start, _ in region.blocks]
    assert len(blocks) == 4 and set(region.entries) <= set(blocks) and not made.dies


def test_what_may_overflow_on_the_way_to_64_bits():
    made = found(
        "mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; add.s64 %rd4, %rd3, 8; ld.global.f32 %f1, [%rd4];"
    )
    assert len(made.anchors) == 1 and {"%rd2", "%rd3", "%rd4"} == {r for r, by in made.anchored.items() if by}
    assert (
        found("""
        $loop: mov.u64 %rd4, %rd3; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; ld.global.f32 %f1, [%rd4];
        setp.lt.u32 %p1, %r2, %r1; @%p1 bra $loop;
    """)
        is None
    )  # an address of the round before


def test_what_runs_one_by_one():
    assert found("atom.global.add.u32 %r6, [%rd1], 1;") is None
    assert found("mov.u32 %r6, %lanemask_lt;") is None
    assert (
        found("ld.global.u64 %rd2, [%rd1]; ld.global.f32 %f1, [%rd2];") is None
    )  # an array that nobody names
    assert (
        found("bar.sync 1;") is None
        and found("bar.sync 0, 32;") is None
        and found("bar.warp.sync -1;") is None
    )
    assert found("setp.ge.s32 %p1, %r5, %r1; @%p1 bra $on; bar.sync 0; $on: add.u32 %r6, %r5, 1;") is None
    assert found("ld.volatile.global.u32 %r6, [%rd1];") is None


def test_lanes_that_have_waited_cannot_begin_again():
    """A barrier's result about all threads is uniform."""
    made = found("""
        setp.ge.s32 %p1, %r5, %r1; @%p1 bra $out; bar.red.popc.u32 %r6, 0, %p1; bar.red.and.pred %p2, 0, %p1;
        st.global.u32 [%rd1], %r6; $out:
    """)
    assert made.exits and not made.early and (made.strides["%r6"], made.strides["%p2"]) == (0, 0)


def test_what_differs_from_row_to_row():
    body = """
        mov.u32 %r6, %tid.y; mad.lo.s32 %r7, %r6, %r1, %r4; mul.lo.s32 %r8, %r4, 4; mov.f32 %f1, 0f00000000; mov.u32 %r9, 0;
        $loop: ld.global.f32 %f2, [%rd1]; fma.rn.f32 %f1, %f2, %f2, %f1; BARRIER;
        add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, LENGTH; @%p1 bra $loop; st.global.f32 [%rd1], %f1;
    """
    made = found(body.replace("BARRIER", "bar.sync 0").replace("LENGTH", "%r1"), rows=4)
    assert made.several == {"%tid.y", "%r6", "%r7"} and made.varies("%r6") and not made.regions
    assert (
        found(body.replace("BARRIER", "bar.sync 0").replace("LENGTH", "%r6"), rows=4) is None
    )  # rows part there
    assert (
        found(body.replace("BARRIER", "mov.u32 %r10, 0").replace("LENGTH", "%r1"), rows=4) is None
    )  # nobody waits
