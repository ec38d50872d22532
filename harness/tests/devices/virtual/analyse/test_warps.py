"""What is the same for all lanes of a warp, and what they exchange."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse.warps import Warps
from backwarp.devices.virtual.ptx import parse
from backwarp.devices.virtual.ptx.cfg import basic_blocks
from backwarp.devices.virtual.ptx.ir import Instruction

HEAD = """.version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u32 n) {
.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<9>; ld.param.u32 %r8, [n]; mov.u32 %r7, -1; mov.u32 %r6, 5;\n"""


def last(text: str, width: int = 32) -> tuple[Warps, Instruction]:
    function = parse.parse(f"{HEAD}{text} ret; }}", "k").functions["k"]
    *_, ins, _ = (i for i in function.body if isinstance(i, Instruction))
    return Warps(function, basic_blocks(function.body, function.tables), width=width), ins


@pytest.mark.parametrize(
    ("text", "modulus"),
    [
        ("shr.u32 %r1, %tid.x, 5;", 0),
        ("mov.u32 %r1, %tid.x; shr.s32 %r2, %r1, %r6;", 0),
        ("shr.u32 %r1, %tid.x, 4;", None),
        ("mad.lo.s32 %r1, %tid.y, %ntid.x, %tid.x; shr.u32 %r2, %r1, 6;", 0),
        ("mad.lo.s32 %r1, %tid.x, %ntid.x, %tid.y; shr.u32 %r2, %r1, 6;", None),
        ("add.s32 %r1, %tid.x, %r8; shr.u32 %r2, %r1, 5;", None),
        ("shl.b32 %r1, %r8, 5; add.s32 %r2, %r1, %tid.x; shr.u32 %r3, %r2, 5;", 0),
        ("shl.b32 %r1, %tid.x, 5; add.s32 %r2, %r1, %tid.x; shr.u32 %r3, %r2, 5;", None),
        ("and.b32 %r1, %tid.x, 31;", 32),
        ("and.b32 %r1, %tid.x, -32;", 0),
        ("and.b32 %r1, %tid.x, 15;", None),
        ("and.b32 %r1, %tid.x, 63;", 64),
        ("and.b32 %r1, %tid.x, 95;", None),
        ("and.b32 %r1, %tid.x, -1;", None),
        ("div.s32 %r1, %tid.x, 32;", 0),
        ("div.u32 %r1, %tid.x, 96;", 0),
        ("div.s32 %r1, %tid.x, 16;", None),
        ("div.s32 %r1, %tid.x, 0;", None),
        ("mov.u32 %r1, %tid.x; rem.s32 %r2, %r1, 96;", 96),
        ("rem.u32 %r1, %tid.x, 48;", None),
        ("shl.b32 %r1, %r8, 5; add.s32 %r2, %r1, %tid.x; div.u32 %r3, %r2, 32;", 0),
        ("shl.b32 %r1, %r8, 5; add.s32 %r2, %r1, %tid.x; div.s32 %r3, %r2, 32;", None),  # may be negative
        ("setp.lt.s32 %p1, %tid.x, 64;", 0),
        ("setp.lt.s32 %p1, %tid.x, 33;", None),
        ("setp.gt.u32 %p1, %tid.x, 31;", 0),
        ("setp.gt.u32 %p1, %tid.x, 32;", None),
        ("setp.ge.u32 %p1, %tid.x, %r8;", None),
        ("setp.eq.u32 %p1, %tid.x, 32;", None),
        (
            "shr.s32 %r1, %tid.x, 31; shr.u32 %r2, %r1, 27; add.s32 %r3, %tid.x, %r2; shr.s32 %r4, %r3, 5;",
            0,
        ),
        ("shr.s32 %r2, %tid.x, 4; add.s32 %r3, %tid.x, %r2; shr.s32 %r4, %r3, 5;", None),
    ],
)
def test_what_depends_on_the_warp(text, modulus):
    warps, ins = last(text)
    assert warps.result(ins) == modulus


@pytest.mark.parametrize(
    ("text", "modulus"),
    [
        ("shr.u32 %r1, %tid.x, 4;", 0),
        ("shr.u32 %r1, %tid.x, 3;", None),
        ("and.b32 %r1, %tid.x, 15;", 16),
        ("rem.s32 %r1, %tid.x, 48;", 48),
        ("rem.s32 %r1, %tid.x, 24;", None),
        ("mad.lo.s32 %r1, %tid.y, %ntid.x, %tid.x; div.u32 %r2, %r1, 16;", 0),
    ],
)
def test_what_depends_on_a_group_of_sixteen(text, modulus):
    warps, ins = last(text, 16)
    assert warps.result(ins) == modulus


def test_a_number_that_lanes_keep_from_elsewhere_is_not_in_step():
    text = "mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r8, 0; @%p1 bra L; add.s32 %r2, %r8, 1; L: shr.u32 %r3, %r1, 5;"
    warps, ins = last(text)
    assert warps.result(ins) == 0
    warps.kept = {"%r1"}
    assert warps.result(ins) is None


def test_a_number_that_a_loop_changes_is_not_in_step():
    text = "mov.u32 %r1, %tid.x; L: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r8; @%p1 bra L; shr.u32 %r3, %r1, 5;"
    warps, ins = last(text)
    assert warps.result(ins) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("shfl.sync.down.b32 %r1, %r2, %r6, 31, %r7;", (5, 31)),
        ("shfl.sync.down.b32 %r1, %r2, %r8, 31, -1;", None),
        ("shfl.sync.idx.b32 %r1, %r2, 1, 0x1c1f, 0xffffffff;", (1, 0x1C1F)),
        ("shfl.sync.down.b32 %r1, %r2, 1, 31, 0xffff;", None),
        ("vote.sync.any.pred %p1, %p2, %r7;", (0, 0)),
        ("vote.sync.any.pred %p1, %p2, %r8;", None),
        ("match.any.sync.b32 %r1, %r2, -1;", None),
        ("bar.warp.sync -1;", (0, 0)),
    ],
)
def test_what_lanes_exchange(text, found):
    warps, ins = last(text)
    assert warps.exchange(ins) == found
