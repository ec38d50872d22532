"""Where threads access shared arrays: PTX in."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse.places import Places, places
from tests.devices.virtual.ptx_text import module

KERNEL = """
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .b32 %r<30>; .reg .b64 %rd<20>; .reg .pred %p<9>; .shared .align 16 .b8 tile[256];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; ld.param.u32 %r3, [n];
    BODY
    ret;
}
"""


def found(body: str, block=(4, 8, 1)) -> dict[str, tuple[int, int, list[int]]]:
    made = places(module(KERNEL.replace("BODY", body)).functions["k"], block)
    assert all(array == "tile" for array, _ in made.values())
    return {name: (p.first, p.last, sorted(p.rests)) for name, (_, p) in made.items()}


def test_places_of_all_threads_of_a_block():
    body = """
    mad.lo.s32 %r4, %r2, 4, %r1; and.b32 %r5, %r4, 1073741822; sub.s32 %r6, %r4, %r5;
    mov.u32 %r7, tile+16; mad.lo.s32 %r8, %r6, 128, %r7; shl.b32 %r9, %r2, 4; add.s32 %r10, %r9, %r8; sub.s32 %r11, %r10, 20;
    """
    assert found(body) == {
        "%r7": (16, 16, [0]),
        "%r8": (16, 144, [0]),
        "%r10": (16, 256, [0]),
        "%r11": (-4, 236, [12]),
    }
    assert found(body, (1, 1, 1))["%r10"] == (16, 16, [0])
    assert found("shl.b32 %r4, %r1, 2; mov.u32 %r5, tile; add.s32 %r6, %r5, %r4;", (4, 1, 1))["%r6"] == (
        0,
        12,
        [0, 4, 8, 12],
    )


@pytest.mark.parametrize(
    "body",
    [
        "add.s32 %r5, %r4, %r3;",  # depends on the launch
        "and.b32 %r5, %r4, 15;",  # on where the array is
        "mad.lo.s32 %r5, %r4, 2, %r1;",
        "sub.s32 %r5, %r1, %r4;",
        "add.s32 %r5, %r4, %r4;",
        "@%p1 add.s32 %r5, %r4, %r1;",
        "add.s32 %r5, %r4, 4; $again: add.s32 %r5, %r5, 4; setp.lt.s32 %p1, %r5, %r3; @%p1 bra $again;",
        "$again: add.s32 %r5, %r4, %r7; add.s32 %r7, %r1, 4; setp.lt.s32 %p1, %r7, %r3; @%p1 bra $again;",  # unset at first
    ],
)
def test_what_is_not_known(body):
    assert found(f"setp.eq.s32 %p1, %r1, 0; mov.u32 %r4, tile; {body}").keys() == {"%r4"}


def test_accesses_that_fit():
    some = Places(0, 48, frozenset((0, 8)))
    assert some.fit(0, 8, 8, 56) and some.fit(8, 8, 8, 64)
    assert not some.fit(0, 16, 16, 256) and not some.fit(4, 8, 8, 256)  # not aligned
    assert not some.fit(8, 8, 8, 63) and not some.fit(-8, 8, 8, 64) and some.fit(16, 4, 4, 68)
