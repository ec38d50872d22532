"""Guarded instructions as branches around plain ones: PTX in, PTX out; and what they do on the device."""

from __future__ import annotations

import numpy as np

from backwarp.devices.virtual.rewrite import predicates
from tests.devices.virtual.launches import result
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.visible .entry k()
{
    .reg .b32 %r<4>;
    .reg .pred %p<3>;
    BODY
}
"""


def rewritten(body: str):
    parsed = module(KERNEL.replace("BODY", body))
    predicates.run(parsed)
    return parsed.functions["k"]


def test_neighbours_with_one_guard_share_a_branch():
    kernel = rewritten("@%p1 add.u32 %r1, %r2, 1; @%p1 mov.u32 %r2, 0; @!%p1 mov.u32 %r2, 1; @%p2 ret; ret;")
    assert printed(kernel) == lines("""
        @!%p1 bra.skip $skip.1;
        add.u32 %r1, %r2, 1;
        mov.u32 %r2, 0;
        $skip.1:
        @%p1 bra.skip $skip.2;
        mov.u32 %r2, 1;
        $skip.2:
        @!%p2 bra.skip $skip.3;
        ret;
        $skip.3:
        ret;
    """)
    assert str(kernel.body[1].original) == "@%p1 add.u32 %r1, %r2, 1"


def test_a_guard_that_changes_is_looked_at_again():
    text = printed(rewritten("@%p1 setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r1, 2; ret;"))
    assert text == lines("""
        @!%p1 bra.skip $skip.1;
        setp.eq.u32 %p1, %r1, 0;
        $skip.1:
        @!%p1 bra.skip $skip.2;
        mov.u32 %r1, 2;
        $skip.2:
        ret;
    """)


def test_branches_keep_their_guard():
    body = "@%p1 bra $L_end; mov.u32 %r1, 0; $L_end: ret;"
    assert printed(rewritten(body)) == "@%p1 bra $L_end;\nmov.u32 %r1, 0;\n$L_end:\nret;"


def test_the_kernel_does_what_its_guards_say():
    body = """
        int i = threadIdx.x, r = 7;
        asm volatile("{ .reg .pred p, q; setp.lt.s32 p, %1, 3; @p setp.gt.s32 q, %1, 0; @!p setp.eq.s32 q, %1, 5;"
                     "@q mov.u32 %0, 1; @q add.s32 %0, %0, %1; @!q st.u32 [%2], %1; }"
                     : "+r"(r) : "r"(i), "l"(out + 8 + i) : "memory");
        out[i] = r;"""
    for checks in ("full", "memory", "count"):
        out = result(body, 16, dtype=np.int32, block=8, checks=checks)
        assert out.tolist() == [7, 2, 3, 7, 7, 6, 7, 7, 0, 0, 0, 3, 4, 0, 6, 7]
