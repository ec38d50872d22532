"""What differs between neighbouring threads, and which kernels run them together: PTX in."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.uniformity import coarsening
from backwarp.devices.virtual.ptx.ir import Label
from tests.devices.virtual.ptx_text import module

KERNEL = """
.visible .entry k(.param .u32 n)
{
    .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<5>; .reg .pred %p<4>;
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd1, %r2, 4;
    mov.u32 %r3, 0;
$L_loop:
    cvt.rn.f32.s32 %f2, %r3;
    ld.global.f32 %f3, [%rd1];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    BRANCH
    st.global.f32 [%rd1], %f1;
    ret;
}
"""


def found(branch: str):
    function = module(KERNEL.replace("BRANCH", branch)).functions["k"]
    return coarsening(function, waits=False)


def test_what_is_computed_from_the_thread_varies():
    assert found("@%p1 bra $L_loop;").varying == {"%r2", "%rd1", "%f3", "%f1"}


def test_a_loop_that_each_thread_leaves_at_its_own_time_is_run_for_one_thread_after_the_other():
    """All its arithmetic is, so there is nothing to gain."""
    assert found("setp.lt.u32 %p1, %r3, %r2; @%p1 bra $L_loop;") is None


def test_threads_of_a_loop_that_never_ends_do_not_run_together():
    assert found("bra $L_loop; bra $L_loop;") is None
    assert found("@%p1 bra $L_loop; mov.u32 %r4, 1; $L_on: @%p2 bra $L_loop; bra $L_on;") is None


def test_a_thread_that_runs_alone_goes_on_behind_its_region():
    """Not where a block of another path stands there."""
    made = found("""@%p1 bra $L_loop; st.global.u32 [%rd1], %r1;
        setp.eq.u32 %p3, %r1, 3; @%p3 bra $other;
        setp.lt.u32 %p2, %r2, 5; @%p2 bra $meet; add.u32 %r4, %r4, 1; bra $meet;
        $other: mov.u32 %r4, 7;
        $meet: st.global.u32 [%rd1+4], %r4;
    """)
    ((start, end),) = made.regions.items()
    assert start.base == "bra" and start.pred == "%p3" and end == Label("$meet")
