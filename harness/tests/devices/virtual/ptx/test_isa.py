"""What an opcode is: its row, its operands, what it does."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.emit import opcodes  # noqa: F401  (fills the table)
from backwarp.devices.virtual.emit.table import ROWS
from backwarp.devices.virtual.ptx import parse as ptx
from backwarp.devices.virtual.ptx.op import Role
from backwarp.devices.virtual.ptx.spellings import compiled, find, in_order, rows
from tests.conformance.test_table import spellings

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


@pytest.mark.parametrize(
    "text, wanted_reads, wanted_writes",
    [
        ("add.s32 %r1, %r2, %r3", "%r2 %r3", "%r1"),
        ("@!%p1 mov.u32 %r1, %r2", "%p1 %r2", "%r1"),
        ("mov.b64 {%r1, %r2}, %rd1", "%rd1", "%r1 %r2"),
        ("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3", "%r1 %r2 %p3", "%p1 %p2"),
        ("ld.global.v2.f32 {%f1, %f2}, [%rd1+8]", "%rd1", "%f1 %f2"),
        ("ld.shared.u32 %r1, [%r1]", "%r1", "%r1"),
        ("st.global.v2.f32 [%rd1], {%f1, %f2}", "%rd1 %f1 %f2", ""),
        ("red.global.add.f32 [%rd1], %f1", "%rd1 %f1", ""),
        ("atom.global.cas.b32 %r1, [%rd1], %r2, %r3", "%rd1 %r2 %r3", "%r1"),
        ("cp.async.ca.shared.global [%r1], [%rd1], 16, %r2", "%r1 %rd1 %r2", ""),
        ("cp.async.wait_group 1", "", ""),
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1]", "%r1", ""),
        ("mbarrier.init.shared.b64 [%r1], %r2", "%r1 %r2", ""),
        ("mbarrier.inval.shared.b64 [%r1]", "%r1", ""),
        ("mbarrier.arrive.shared.b64 %rd1, [%r1]", "%r1", "%rd1"),
        ("mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1", "%r1 %rd1", "%p1"),
        ("wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], {%f1, %f2}, %r1", "%rd1 %f1 %f2 %r1", ""),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1, %r2}, [%rd1], %r3", "%rd1 %r3", "%r1 %r2"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3]", "%r3", "%r1 %r2"),
        ("nanosleep.u32 %r1", "%r1", ""),
        ("bar.sync %r1, %r2", "%r1 %r2", ""),
        ("bar.warp.sync %r1", "%r1", ""),
        ("barrier.cta.arrive %r1, %r2", "%r1 %r2", ""),
        ("bar.red.popc.u32 %r1, 0, %p1", "%p1", "%r1"),
        ("barrier.cta.red.and.pred %p1, 0, %p2", "%p2", "%p1"),
        ("shfl.sync.idx.b32 %r1|%p1, %r2, %r3, 31, -1", "%r2 %r3", "%r1 %p1"),
        ("vote.sync.ballot.b32 %r1, %p1, %r2", "%p1 %r2", "%r1"),
        ("prefetch.global.L2 [%rd1]", "%rd1", ""),
        ("discard.global.L2 [%rd1], 128", "%rd1", ""),
        ("membar.gl", "", ""),
        ("trap", "", ""),
    ],
)
def test_reads_and_writes(text, wanted_reads, wanted_writes):
    (ins,) = ptx.parse(f"{HEAD}.visible .entry k()\n{{\n{text};\n}}\n").functions["k"].body
    assert (ins.reads, ins.writes) == (set(wanted_reads.split()), set(wanted_writes.split()))


def test_every_spelling_that_computes_has_one_row():
    """And as many operands there as where it is lowered."""
    patterns = [pattern for pattern, _, _ in rows()]
    heads: dict[str, list] = {}
    for pattern in patterns:
        for head in spellings(pattern.split(".")[0].split("{")[0]):
            heads.setdefault(head, []).append(compiled(pattern))
    for row in (row for of_base in ROWS.values() for row in of_base):
        for opcode in spellings(row.pattern):
            assert sum(bool(p.fullmatch(opcode)) for p in heads[opcode.split(".")[0]]) == 1, opcode
            assert set(find(opcode).roles) - {0} <= set(row.operands), opcode  # 0: of marks, any


@pytest.mark.parametrize(
    "opcode, facts",
    [
        ("ld.global.v4.f32", dict(memory="load", space="global", vector=4, nbytes=4, address=1, ordering="")),
        (
            "ld.acquire.gpu.b32",
            dict(memory="load", space="generic", ordering="acquire", scope="gpu", waits=True),
        ),
        ("st.volatile.shared::cta.u8", dict(memory="store", space="shared", address=0, ordering="volatile")),
        ("atom.add.acq_rel.cta.u32", dict(memory="atomic", orders=True, has_result=True, scope="cta")),
        ("red.global.add.f32", dict(memory="reduction", has_result=False, has_effects=True, orders=False)),
        ("cp.async.ca.shared.global.L2::128B", dict(memory="copy", asynchronous=True, has_result=False)),
        ("bra.uni", dict(flow="branch", ends_block=True, leaves=False)),
        ("trap", dict(flow="trap", ends_block=True, leaves=True)),
        ("call.uni", dict(flow="call", ends_block=False)),
        ("barrier.cta.red.popc.aligned.u32", dict(collective="block", has_result=True)),
        ("bar.warp.sync", dict(collective="warp", has_result=False)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", dict(collective="matrix", counts="tensor")),
        ("madc.hi.cc.u64", dict(takes_carry=True, leaves_carry=True, counts="integer")),
        ("prefetch.global.L2", dict(nothing=True, has_result=False, address=0)),
        ("membar.gl", dict(orders=True, waits=True, scope="gpu")),
        ("bfi.b64", dict(moves=(1, 2), counts="integer")),
        ("add.s64", dict(formula="a+b", bases=(1, 2))),
        ("sub.u32", dict(formula="a-b", bases=(1,))),
        ("mad.wide.s32", dict(formula="c+a*b", bases=(3,))),
        ("selp.b64", dict(formula="a|b", bases=(1, 2), chooses=True)),
        ("cvt.u64.u32", dict(formula="a", moves=(1,))),
        ("cvt.u32.u64", dict(formula="a?", bases=(1,))),  # its lower half
        ("and.b64", dict(formula="a?", bitwise="and")),
        ("add.f32", dict(formula="", bases=())),
        ("mov.f32", dict(formula="", moves=(1,))),
        ("shfl.sync.up.b32", dict(moves=(1,), collective="warp")),
    ],
)
def test_facts(opcode, facts):
    op = find(opcode)
    assert {name: getattr(op, name) for name in facts} == facts


def test_roles():
    def value(type_, **more):
        return Role("value", type_, **more)

    assert find("mul.wide.s16").roles == {3: (value("s32", written=True), value("s16"), value("s16"))}
    assert find("setp.lt.f32").roles == {
        3: (value("pred", written=True, pair="may"), value("f32"), value("f32"))
    }
    assert list(find("setp.lt.and.f32").roles) == [4] and list(find("bar.red.popc.u32").roles) == [3, 4]
    assert find("bar.red.popc.u32").roles[3][2] == value("pred")
    assert find("st.v2.u8").roles == {2: (Role("address"), value("u8", vector=2))}
    d, a, b, c = find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").roles[4]
    assert (d.vector, a.vector, b.vector, c.vector, a.type, c.type) == (4, 4, 2, 4, "b32", "f32")
    assert find("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16").roles[2][0].vector == 8


def test_what_ptx_does_not_have():
    for (
        opcode
    ) in "add.foo.s32 ld.f32.global ld.volatile.nc.f32 st.global.v3.f32 atom.global.sub.u32 frob".split():
        assert find(opcode) is None


@pytest.mark.parametrize(
    "given, ordered",
    [
        ("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
        ("ld.f32.v4.global", "ld.global.v4.f32"),
        (
            "ld.global.L2::128B.nc.L2::cache_hint.L1::no_allocate.u32",
            "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.u32",
        ),
        ("cvt.s32.f32.rni", "cvt.rni.s32.f32"),
        (
            "mma.sync.aligned.row.col.m16n8k8.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        ),
        ("mma.sync.aligned.m16n8k8.col.row.f32.tf32.tf32.f32",) * 2,  # of A and of B
        ("mul.s32.lo", "mul.s32.lo"),  # part of the name
        ("cvt.f32.foo.s32", "cvt.f32.foo.s32"),
    ],
)
def test_modifiers_in_any_order(given, ordered):
    """As ptxas takes them."""
    assert in_order(given) == ordered


def test_a_policy_of_caches_is_an_operand_where_the_modifier_is():
    assert list(find("ld.global.L2::cache_hint.u32").roles) == [3] and list(find("ld.global.u32").roles) == [
        2
    ]
    assert find("red.global.add.L2::cache_hint.u32").roles[3][2] == Role("value", "b64")
    assert find("atom.global.cas.L2::cache_hint.b32") is None
