"""Labels that nothing branches to go, wherever a branch may name them; the others stay."""

from __future__ import annotations

from backwarp.devices.virtual.rewrite import drop_labels
from tests.devices.virtual.ptx_text import lines, module, printed

BEFORE = """
    .visible .entry k(.param .u32 n) {
        .reg .pred %p<2>;
        .reg .b32 %r<3>;
    $L__func_begin0:
        ld.param.u32 %r1, [n];
    $L__tmp0:
        setp.eq.s32 %p1, %r1, 0;
        @%p1 bra $L_end;
    $L__tmp1:
    $L_table: .branchtargets $L_case;
        brx.idx %r1, $L_table;
    $L_case:
        add.s32 %r2, %r1, 1;
    $L_end:
        ret;
    }
"""
AFTER = """
        ld.param.u32 %r1, [n];
        setp.eq.s32 %p1, %r1, 0;
        @%p1 bra $L_end;
        brx.idx %r1, $L_table.0;
    $L_case:
        add.s32 %r2, %r1, 1;
    $L_end:
        ret;
"""


def test_labels_that_no_branch_names_go():
    found = module(BEFORE)
    drop_labels.run(found)
    assert printed(found.functions["k"]) == lines(AFTER)
