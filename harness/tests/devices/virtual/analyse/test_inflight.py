"""Registers of products of four warps that are used while they are under way."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse import inflight
from tests.devices.virtual.ptx_text import module

_PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, A, %rd2, 1, 1, 1, 0B;"
_P = _PRODUCT.replace("A,", "%rd1,").replace("0B", "0, 0")
_R = _PRODUCT.replace("A,", "{%r1,%r2,%r3,%r4},").replace("0B", "0")  # A in registers
_FENCE, _COMMIT, _WAIT = (f"wgmma.{name};" for name in ("fence.sync.aligned", "commit_group.sync.aligned", "wait_group.sync.aligned 0"))  # fmt: skip
_WAIT1, _ADD, _OTHER = _WAIT.replace(" 0", " 1"), "add.f32 %f5, %f1, %f1;", "mov.f32 %f1, 0f00000000;"
_SECOND = _P.replace("%f1,%f2,%f3,%f4", "%f11,%f12,%f13,%f14")


def _found(*code: str) -> list[str]:
    text = f".visible .entry k() {{ .reg .f32 %f<20>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; {' '.join(code)} ret; }}"
    return [what for what, _, _ in inflight.run(module(text).functions["k"])]


@pytest.mark.parametrize(
    "code",
    [
        (_FENCE, _P, _P, _COMMIT, _WAIT, _ADD),
        (_FENCE, _P, _COMMIT, _SECOND, _COMMIT, _WAIT1, _ADD, _WAIT),
        # the compiler's own copies, and constants that it sets late
        (_FENCE, _OTHER, _P, _COMMIT, "mov.f32 %f6, %f1;", _WAIT, "add.f32 %f7, %f6, %f6;"),
        (_FENCE, "L:", _P, _COMMIT, _WAIT, "@%p1 bra L;", _ADD),
        ("mov.b32 %r1, 0;", _FENCE, _R, _COMMIT, _WAIT, "add.s32 %r1, %r1, 1;", _FENCE, _R, _COMMIT, _WAIT),
        (_ADD,),
    ],
)
def test_registers_that_have_been_waited_for(code):
    assert _found(*code) == []


@pytest.mark.parametrize(
    "what, code",
    [
        ("reads", (_FENCE, _P, _COMMIT, _ADD, _WAIT)),
        ("reads", (_FENCE, _P, _COMMIT, _WAIT1, _ADD, _WAIT)),
        ("reads", (_FENCE, _P, _COMMIT, "mov.f32 %f6, %f1;", "add.f32 %f7, %f6, %f6;", _WAIT)),
        ("reads", (_FENCE, "bra M;", "L:", _ADD, "M:", _P, _COMMIT, "@%p1 bra L;", _WAIT)),
        ("sets", (_FENCE, _R, _COMMIT, "add.s32 %r1, %r5, 1;", _WAIT)),
        ("sets", (_FENCE, _P, _COMMIT, "add.f32 %f2, %f5, %f5;", _WAIT)),
        ("uncommitted", (_FENCE, _P, _WAIT, _ADD)),
        ("unfenced", (_P, _COMMIT, _WAIT, _ADD)),
        ("unfenced", (f"@%p1 bra L; {_FENCE}", "L:", _P, _COMMIT, _WAIT)),
        ("unfenced", (_FENCE, _R, _COMMIT, _WAIT, "add.s32 %r1, %r1, 1;", _R, _COMMIT, _WAIT)),
        ("unfenced", (_FENCE, _P, _COMMIT, _WAIT, "mul.f32 %f1, %f1, %f5;", _P, _COMMIT, _WAIT)),
    ],
)
def test_registers_that_are_used_too_early(what, code):
    assert _found(*code) == [what]
