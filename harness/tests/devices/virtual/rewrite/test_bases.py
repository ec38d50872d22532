"""Accesses at constant distances: PTX in, PTX out."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.rewrite import bases
from tests.devices.virtual.ptx_text import module, printed

KERNEL = """
.visible .entry k()
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .f32 %f<9>;
    .reg .pred %p<9>;
    .shared .align 4 .b8 tile[4096];
    BODY
}
"""
FIRST = "ld.shared.f32 %f1, [%r1];"


def addresses(body: str) -> list[str]:
    """Those of the accesses."""
    function = module(KERNEL.replace("BODY", body)).functions["k"]
    bases.run(function)
    return [
        line[line.index("[") : line.index("]") + 1] for line in printed(function).splitlines() if "[" in line
    ]


@pytest.mark.parametrize(
    ("body", "found"),
    {
        f"add.s32 %r2, %r1, 272; {FIRST} ld.shared.f32 %f2, [%r2+4];": "[%r1+276]",
        f"{FIRST} mad.lo.s32 %r2, %r3, 4, %r1; shl.b32 %r4, %r3, 2; sub.s32 %r5, %r2, %r4; st.shared.f32 [%r5], %f1;": "[%r1]",
        "mov.u32 %r4, tile; add.s32 %r1, %r4, %r3; ld.shared.f32 %f1, [%r1]; add.s32 %r2, %r3, tile; ld.shared.f32 %f2, [%r2];": "[%r2]",
        "mul.lo.s32 %r1, %r3, 8; mad.lo.s32 %r2, %r3, 8, -16; ld.shared.f32 %f1, [%r1]; ld.shared.f32 %f2, [%r2];": "[%r1+-16]",
        "ld.global.f32 %f1, [%rd1]; add.s64 %rd2, %rd1, 4294967296; ld.global.f32 %f2, [%rd2];": "[%rd2]",
        f"add.s32 %r2, %r1, 8; {FIRST} ld.global.f32 %f2, [%rd1];": "[%rd1]",
        f"add.s32 %r2, %r1, 8; {FIRST} add.s32 %r1, %r1, 4; ld.shared.f32 %f2, [%r2];": "[%r2]",
        f"add.s32 %r2, %r1, 8; @%p1 {FIRST} ld.shared.f32 %f2, [%r2];": "[%r2]",
        f"add.s32 %r2, %r1, 8; {FIRST} @%p1 ld.shared.f32 %f2, [%r2];": "[%r2]",
        f"add.s32 %r2, %r1, 8; {FIRST} @%p1 bra $L_1; $L_1: ld.shared.f32 %f2, [%r2];": "[%r2]",
        f"@%p1 add.s32 %r2, %r1, 8; {FIRST} ld.shared.f32 %f2, [%r2];": "[%r2]",
        f"add.s32 %r2, %r1, 2147483640; {FIRST} ld.shared.f32 %f2, [%r2];": "[%r2]",
        "add.s32 %r2, %r1, 8; ld.shared.f32 %f1, [%r1+2147483640]; ld.shared.f32 %f2, [%r2];": "[%r2]",
        f"shl.b32 %r2, %r1, 1; {FIRST} ld.shared.f32 %f2, [%r2];": "[%r2]",
        f"cvt.u64.u32 %rd1, %r1; add.s64 %rd2, %rd1, 8; cvt.u32.u64 %r2, %rd2; {FIRST} ld.shared.f32 %f2, [%r2];": "[%r2]",
    }.items(),
)
def test_the_last_access(body, found):
    assert addresses(f"{body} ret;")[-1] == found
