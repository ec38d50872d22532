"""What is put beside instructions to follow unset values: PTX in, PTX out."""

from __future__ import annotations

import re

import pytest

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.analyse.unset import may_be_unset
from backwarp.devices.virtual.instrument import initialised
from backwarp.devices.virtual.instrument.unset_bits import UnsetBits
from backwarp.devices.virtual.ptx.op import CARRY
from backwarp.devices.virtual.ptx.spellings import find
from backwarp.devices.virtual.rewrite import inline, predicates
from tests.devices.virtual.ptx_text import lines, module, printed

MODULE = """
.file 1 "kernel.cu"
.func (.param .b32 back) f(.param .b64 a)
{
    .reg .b64 %rd<2>; .reg .b32 %r<2>;
    ld.param.b64 %rd1, [a];
    st.param.b32 [back], %r1;
    ret;
}
.visible .entry k(.param .b32 n)
{
    .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<5>; .reg .b16 %rs<3>; .reg .pred %p<4>;
    .param .b64 p; .param .b32 q;
    BODY
    ret;
}
"""


def instrumented(body: str, name: str = "k"):
    parsed = module(MODULE.replace("BODY", body))
    predicates.run(parsed)
    facts = ModuleFacts(parsed, interleaved=True, threads=True)
    inline.run(facts.waits)
    function = parsed.functions[name]
    initialised.run(function, facts.of(function))
    return function


def renumbered(text: str) -> str:
    """Registers of the pass by the order in which they come."""
    names: dict[str, str] = {}
    return re.sub(r"%unset\.t\d+", lambda m: names.setdefault(m[0], f"%unset.t{len(names) + 1}"), text)


def test_which_registers_may_be_unset():
    parsed = module(
        MODULE.replace(
            "BODY",
            """ld.param.u32 %r1, [n]; ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, %r1; mov.u32 %r4, %r3;
            add.u32 %r5, %r1, 1; setp.lt.u32 %p1, %r4, %r5; vote.sync.any.pred %p2, %p1, -1; mul.lo.u32 %r7, %r6, %r1;
            ld.const.f32 %f1, [%rd1]; atom.global.add.u32 %r8, [%rd1], %r4; shfl.sync.idx.b32 %r6, %r1, 0, 31, -1;""",
        )
    )
    assert may_be_unset(parsed.functions["k"], frozenset(["%rd1"])) == {
        "%rd1",
        "%r2",
        "%r3",
        "%r4",
        "%p1",
        "%r6",
        "%r7",
    }


def test_what_is_loaded_computed_and_stored():
    text = printed(
        instrumented("""
        ld.param.u64 %rd1, [p]; cvta.to.shared.u64 %rd2, %rd1;
        ld.param.u32 %r1, [n]; ld.shared.u32 %r2, [%r1+4]; add.u32 %r3, %r2, %r1; st.global.u16 [%rd1], %r3;
    """)
    )
    start = text.index("cvt.s64.s32")
    assert renumbered(text[start:]) == lines("""
        cvt.s64.s32 %unset.t1, %r1;
        add.s64 %unset.t2, %unset.t1, 4;
        cvta.shared.u64 %unset.t3, %unset.t2;
        ld.shared.u32 %r2, [%r1+4];
        add.u64 %unset.t4, %unset.t3, %unset.base;
        peek.b32 %unset.t5, %unset.t4;
        setp.ne.b32 %unset.t6, %unset.t5, 0;
        runtime.if %unset.t6, %unset.t7, rt_unset_loaded, %unset.t3, 4, 15;
        mov.b32 %r2.unset, %unset.t5;
        mov.b64 %r2.from, %unset.t7;
        setp.ne.b32 %unset.t8, %r2.unset, 0;
        selp.b32 %unset.t9, -1, 0, %unset.t8;
        add.u32 %r3, %r2, %r1;
        mov.b32 %r3.unset, %unset.t9;
        mov.b64 %r3.from, %r2.from;
        setp.ne.b64 %unset.t10, %rd1.unset, 0;
        runtime.if %unset.t10, _, rt_unset_used, 2, %rd1.from;
        mov.b64 %rd1.unset, 0;
        st.global.u16 [%rd1], %r3;
        mov.b64 %unset.t11, %rd1;
        and.b32 %unset.t12, %r3.unset, 65535;
        add.u64 %unset.t13, %unset.t11, %unset.base;
        poke.b16 %unset.t13, %unset.t12;
        setp.ne.b32 %unset.t14, %unset.t12, 0;
        runtime.if %unset.t14, _, rt_unset_stored, %unset.t11, 2, %r3.from;
        ret;
    """).replace("rt_unset_used, 2", f"rt_unset_used, {initialised.USE['address']}")


INSTRUCTIONS = """
mov.u32 %r2, %r1;
    mov.u32 %r2, %r1;
    mov.b32 %r2.unset, %r1.unset;
    mov.b64 %r2.from, %r1.from;

shl.b32 %r2, %r1, 4;
    shl.b32 %unset.t1, %r1.unset, 4;
    shl.b32 %r2, %r1, 4;
    mov.b32 %r2.unset, %unset.t1;
    mov.b64 %r2.from, %r1.from;

shl.b32 %r2, 4, %r1;
    shl.b32 %unset.t1, 0, %r1;
    setp.ne.b32 %unset.t2, %r1.unset, 0;
    selp.b32 %unset.t3, -1, %unset.t1, %unset.t2;
    shl.b32 %r2, 4, %r1;
    mov.b32 %r2.unset, %unset.t3;
    mov.b64 %r2.from, %r1.from;

mov.b64 %rd2, {%r1, %r3};
    mov.b64 %unset.t1, {%r1.unset, 0};
    mov.b64 %rd2, {%r1, %r3};
    mov.b64 %rd2.unset, %unset.t1;
    mov.b64 %rd2.from, %r1.from;

mov.b32 {%rs1, %rs2}, %r1;
    mov.b32 {%unset.t1, %unset.t2}, %r1.unset;
    mov.b32 {%rs1, %rs2}, %r1;
    mov.b16 %rs1.unset, %unset.t1;
    mov.b64 %rs1.from, %r1.from;
    mov.b16 %rs2.unset, %unset.t2;
    mov.b64 %rs2.from, %r1.from;

cvt.rn.f32.s32 %f1, %r1;
    setp.ne.b32 %unset.t1, %r1.unset, 0;
    selp.b32 %unset.t2, -1, 0, %unset.t1;
    cvt.rn.f32.s32 %f1, %r1;
    mov.b32 %f1.unset, %unset.t2;
    mov.b64 %f1.from, %r1.from;

not.b32 %r2, %r1;
    not.b32 %r2, %r1;
    mov.b32 %r2.unset, %r1.unset;
    mov.b64 %r2.from, %r1.from;

and.b32 %r2, %r1, 255;
    or.b32 %unset.t1, %r1.unset, 0;
    or.b32 %unset.t2, %r1, %r1.unset;
    and.b32 %unset.t3, %unset.t1, %unset.t2;
    or.b32 %unset.t4, 255, 0;
    and.b32 %unset.t5, %unset.t3, %unset.t4;
    and.b32 %r2, %r1, 255;
    mov.b32 %r2.unset, %unset.t5;
    mov.b64 %r2.from, %r1.from;

selp.b32 %r2, %r1, 5, %p3;
    selp.b32 %unset.t1, %r1.unset, 0, %p3;
    xor.b32 %unset.t2, %r1, 5;
    or.b32 %unset.t3, %unset.t2, %r1.unset;
    or.b32 %unset.t4, %unset.t3, 0;
    selp.b32 %unset.t5, %unset.t4, %unset.t1, %p3.unset;
    setp.ne.b32 %unset.t6, %r1.unset, 0;
    selp.b64 %unset.t7, %r1.from, %p3.from, %unset.t6;
    selp.b32 %r2, %r1, 5, %p3;
    mov.b32 %r2.unset, %unset.t5;
    mov.b64 %r2.from, %unset.t7;

add.f16x2 %r2, %r1, %r3;
    or.b32 %unset.t1, 0, %r1.unset;
    or.b32 %unset.t2, %unset.t1, 0;
    and.b32 %unset.t3, %unset.t2, 65535;
    setp.ne.b32 %unset.t4, %unset.t3, 0;
    setp.gt.u32 %unset.t5, %unset.t2, 65535;
    selp.b32 %unset.t6, 65535, 0, %unset.t4;
    selp.b32 %unset.t7, 4294901760, 0, %unset.t5;
    or.b32 %unset.t8, %unset.t6, %unset.t7;
    add.f16x2 %r2, %r1, %r3;
    mov.b32 %r2.unset, %unset.t8;
    mov.b64 %r2.from, %r1.from;

cvt.rn.f16x2.f32 %r2, %f2, %f1;
    setp.ne.b32 %unset.t1, %f1.unset, 0;
    selp.b32 %unset.t2, 65535, 0, %unset.t1;
    selp.b32 %unset.t3, 4294901760, 0, 0;
    or.b32 %unset.t4, %unset.t2, %unset.t3;
    cvt.rn.f16x2.f32 %r2, %f2, %f1;
    mov.b32 %r2.unset, %unset.t4;
    mov.b64 %r2.from, %f1.from;

setp.lt.s32 %p1|%p2, %r1, 3;
    setp.ne.b32 %unset.t1, %r1.unset, 0;
    setp.lt.s32 %p1|%p2, %r1, 3;
    mov.pred %p1.unset, %unset.t1;
    mov.b64 %p1.from, %r1.from;
    mov.pred %p2.unset, %unset.t1;
    mov.b64 %p2.from, %r1.from;

add.cc.u32 %r2, %r1, 1;
    setp.ne.b32 %unset.t1, %r1.unset, 0;
    selp.b32 %unset.t2, -1, 0, %unset.t1;
    add.cc.u32 %r2, %r1, 1;
    mov.b32 %r2.unset, %unset.t2;
    mov.b64 %r2.from, %r1.from;
    mov.pred %carry.unset, %unset.t1;
    mov.b64 %carry.from, %r1.from;

addc.u32 %r2, %r3, 1;
    selp.b32 %unset.t1, -1, 0, %carry.unset;
    addc.u32 %r2, %r3, 1;
    mov.b32 %r2.unset, %unset.t1;
    mov.b64 %r2.from, %carry.from;

mov.u32 %r2, 7;
    mov.u32 %r2, 7;
    mov.b32 %r2.unset, 0;

mad.lo.u32 %r1, %r1, %r3, %r1;
    setp.ne.b32 %unset.t1, %r1.unset, 0;
    selp.b32 %unset.t2, -1, 0, %unset.t1;
    mad.lo.u32 %r1, %r1, %r3, %r1;
    mov.b32 %r1.unset, %unset.t2;
    mov.b64 %r1.from, %r1.from;

selp.b32 %r2, %r1, %r3, %p3;
    selp.b32 %unset.t1, %r1.unset, 0, %p3;
    xor.b32 %unset.t2, %r1, %r3;
    or.b32 %unset.t3, %unset.t2, %r1.unset;
    or.b32 %unset.t4, %unset.t3, 0;
    selp.b32 %unset.t5, %unset.t4, %unset.t1, %p3.unset;
    setp.ne.b32 %unset.t6, %r1.unset, 0;
    selp.b64 %unset.t7, %r1.from, %p3.from, %unset.t6;
    selp.b32 %r2, %r1, %r3, %p3;
    mov.b32 %r2.unset, %unset.t5;
    mov.b64 %r2.from, %unset.t7;
"""


def computed(instruction: str) -> str:
    """What an instruction becomes where %r1, %f1, %p3, the carry and its results may be unset."""
    parsed = module(MODULE.replace("BODY", instruction))
    function = parsed.functions["k"]
    followed = {"%r1", "%f1", "%p3"} & function.regs.keys() | function.body[0].writes | {CARRY}
    bits = UnsetBits(function, followed, frozenset())
    bits.ins = function.body[0]
    bits.compute()
    function.body = bits.body
    return printed(function)


@pytest.mark.parametrize("case", INSTRUCTIONS.strip().split("\n\n"))
def test_unset_bits_of_what_is_computed(case):
    instruction, *expected = case.splitlines()
    assert computed(instruction) == "\n".join(line.strip() for line in expected)


def test_arguments_and_results_have_their_unset_bits_beside_them():
    kernel = instrumented("""
        st.param.b64 [p], %rd1; call (q), f, (p); ld.param.b32 %r1, [q]; st.global.u32 [%rd2], %r1;
    """)
    text = printed(kernel)
    assert "call (q), f, (p, p.unset, p.from, q.unset, q.from);" in text
    assert "st.param.b64 [p.unset], %rd1.unset;" in text and "ld.param.b32 %r1.unset, [q.unset];" in text
    callee = instrumented("ret;", "f")
    assert [p.name for p in callee.params] == ["a", "a.unset", "a.from", "back.unset", "back.from"]
    assert "ld.param.b64 %rd1.unset, [a.unset];" in printed(callee)
    assert "st.param.b32 [back.unset], %r1.unset;" in printed(callee)


def test_the_new_registers_are_in_the_same_order_in_every_process():
    kernel = instrumented(
        "ld.global.v2.f32 {%f4, %f1}, [%rd1]; add.f32 %f2, %f4, %f1; add.f32 %f3, %f2, %f1;"
    )
    followed = [name for name in kernel.regs if name.endswith(".unset")]
    assert len(followed) > 3 and followed == sorted(followed)


def test_all_that_is_inserted_is_known_to_isa():
    body = """ld.global.v2.f32 {%f1, %f2}, [%rd1]; st.shared.v2.f32 [%r1], {%f1, %f2}; atom.global.exch.b32 %r2, [%rd1], 3;
        shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; bar.sync %r3; @%p1 ld.global.s8 %r4, [%rd1];
        add.cc.u32 %r5, %r4, 1; addc.u32 %r6, %r5, 0; and.pred %p2, %p1, %p3;
        ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r7, %r8}, [%r1];
        stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r1], {%r7, %r8};"""
    kernel = instrumented(body)
    assert all(find(item.opcode) for item in kernel.body if hasattr(item, "opcode"))
    assert {
        name
        for i in kernel.body
        if hasattr(i, "opcode")
        for o in i.operands
        for name in o.registers
        if "unset." in name
    } <= kernel.regs.keys()
