"""Invalid PTX is refused, with the instruction and its line; everything that a compiler writes passes."""

from __future__ import annotations

import random

import llvmlite.binding as llvm
import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.compile import pipeline
from backwarp.devices.virtual.compile.recipes import recipe
from backwarp.devices.virtual.ptx import parse, verify
from backwarp.errors import Unsupported
from tests.samples import SAMPLES
from tests.soak.operands import mutate

HEAD = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 p_0, .param .b64 p_1) ;
.global .align 4 .b8 table[16];
.shared .align 4 .b8 tile[64];
.func (.param .b32 func_retval0) f(.param .b32 f_param_0, .param .align 4 .b8 f_param_1[12])
{
 .reg .b32 %r<3>;
 ld.param.u32 %r1, [f_param_0];
 ld.param.u32 %r2, [f_param_1+8];
 st.param.b32 [func_retval0+0], %r1;
 ret;
}
"""
REGISTERS = (
    ".reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<4>;"
    " .reg .s32 %i<4>; .param .b32 one; .param .align 4 .b8 many[12]; .param .b64 wide; .local .align 4 .b8 own[8];"
)


def check(body: str, more: str = "") -> None:
    text = f"{HEAD}{more}.visible .entry k(.param .u64 k_param_0, .param .u32 k_param_1) {{\n{REGISTERS}\n"
    module = parse.parse(f'{text}.loc 1 12 3\n{body}\n}}\n.file 1 "kernel.cu"\n')
    verify.run(module, "kernel.cu")


@pytest.mark.parametrize(
    "body",
    [
        "add.s32 %r1, %i2, -5; add.u32 %i1, %r2, %tid.x; and.b32 %r1, %f1, %f2; mov.b32 %r1, 0f3F800000;",
        "ld.u8 %r1, [%rd1]; ld.s16 %rd1, [%rd1+-2]; st.u8 [%rd1], %rs1; cvt.s32.s8 %r1, %r2; st.u16 [own+2], %r1;",
        "setp.lt.s32 %p1|%p2, %r1, 5; setp.eq.and.f32 %p1, %f1, 0f00000000, !%p2; selp.f32 %f1, %f1, 0f3F800000, %p1;",
        "mov.b64 {%r1, _}, %rd1; mov.b32 %r1, {%rs1, %rs2}; mov.u64 %rd1, table+8; mov.u32 %r1, tile;",
        "shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1; vote.sync.uni.pred %p1, !%p2, -1; bar.red.popc.u32 %r1, 0, %p1;",
        "st.param.b32 [one+0], %r1; st.param.b64 [many+4], %rd1; call.uni (one), f, (one, many); call f, (%r1, many);",
        "L: bra L; @!%p1 bra L; exit; trap;",
        "{ ts: .branchtargets A, B; brx.idx %r1, ts; A: B: ret; }",
        "ld.volatile.shared.v4.u32 {%r1, %r2, %r3, %r4}, [tile+16]; ld.param.u64 %rd1, [k_param_0]; ld.shared.u32 %r1, [0];",
        "atom.global.add.f32 %f1, [%rd1], 0f3F800000; red.shared.add.u32 [%r1], 1; atom.cas.b64 %rd1, [%rd2], 0, %rd3;",
        "cp.async.ca.shared.global [%r1], [%rd1], 4, %r2; cp.async.cg.shared.global [%r1], [%rd1], 16, %p1;",
        "lop3.or.b32 %r1|%p1, %r1, %r2, %r3, 0x3F, !%p2; prmt.b32 %r1, %r2, 0, 0x3210; mad.wide.s32 %rd1, %r1, 4, %rd2;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 16;",
        "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r2], 16; mbarrier.arrive.shared::cluster.b64 _, [%r2], 3;",
        "mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r2], 0; fence.mbarrier_init.release.cluster;",
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 16; fence.proxy.async.shared::cluster; elect.sync %r4|%p1, -1;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd3], 16, [%r2];",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r1], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd3], [%r1], 16; cp.async.bulk.prefetch.L2.global [%rd3], 16;",
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3}], [%r2];",
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd2, {%r3, 7}], [%r2], %rd4;",
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3, %r3, %r3, 0}], [%r2], {%rs1, 2};",
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%rd2, {%r3, %r3, %r3}], [%r1]; prefetch.tensormap [%rd2];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd2, {%r3, %r3}], [%r1]; setmaxnreg.inc.sync.aligned.u32 64;",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd2, {%r3, %r3}]; griddepcontrol.wait; griddepcontrol.launch_dependents;",
        "mapa.u64 %rd1, %rd2, 1; mapa.shared::cluster.u32 %r1, tile, %r2; getctarank.u64 %r1, %rd1; getctarank.shared::cluster.u32 %r1, %r2;",
        "barrier.cluster.arrive; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.arrive.aligned.release; barrier.cluster.wait.acquire;",
        "ld.shared::cluster.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]; st.release.cluster.shared::cluster.u32 [%r1], %r2; ld.volatile.shared::cluster.u32 %r1, [%r2];",
        "atom.relaxed.cluster.shared::cluster.add.u32 %r1, [%r2], 1; red.shared::cluster.add.u32 [%r1], %r2; ld.acquire.cluster.shared::cluster.b32 %r1, [tile];",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%r1], {%rd1, %rd2}, [%r2]; st.async.mbarrier::complete_tx::bytes.f32 [%rd1], %f1, [%rd2];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.s32 [%r1], %r2, [%r3]; isspacep.shared::cluster %p1, %rd1;",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r2], 16, [%r3]; cvta.to.shared::cluster.u64 %rd1, %rd2;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd2, {%r3, 7}], [%r2], %rs1;",
        "mbarrier.arrive.shared::cluster.b64 _, [%r2]; mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r2], 16; mov.pred %p1, %is_explicit_cluster;",
        "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 7;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %rd4, %rd4, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r7,%r8}, %rd4, %rd4, %p1, -1, 1, 1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, {%r5,%r6,%r7,%r8}, %rd4, %p1, 1, 1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f0,%f1,%f2,%f3}, %rd4, %rd4, %p1, 1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3 {%r7,%r8}, {%r5,%r6,%r7,%r8}, %rd4, %p1, 1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite {%r5,%r6,%r7,%r8}, %rd4, %rd4, %p1;",
        "call (one), %rd1, (one), proto; proto : .callprototype (.param .b32 _) _ (.param .b32 _);",
    ],
)
def test_allowed(body):
    check(body)


REFUSED = {
    # opcodes, and how many operands
    "foo.bar %r1;": "the PTX instruction `foo.bar %r1`",
    "add.s32.foo %r1, %r1, 1;": "the PTX instruction `add.s32.foo %r1, %r1, 1`",
    "mov.b64 %rd1, {%r1, tile};": "whose operand tile is not one that PTX has",
    "mul.s32.lo %r1, %r1, %r1;": "the PTX instruction `mul.s32.lo %r1, %r1, %r1`",
    "txq.width.b32 %r1, [%rd1];": "queries of textures and surfaces (the PTX instruction",
    "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [table, {%f1, %f2}];": "must be an object in a register",
    "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1}];": "must have 2 coordinates",
    "tex.a1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%rd2, %f2}];": "in which %rd2 must be of type .b32",
    "tex.2d.v4.f32.f32 {%f1, %f2}, [%rd1, {%f1, %f2}];": "must be a vector of 4",
    "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%r1, [%rd1, {%f1, %f2}];": "in which %r1 must be of type .pred",
    "suld.b.1d.v2.b32.trap {%r1, %r2}, [%rd1, {%f9, %r2}];": "must have 1 coordinate",
    "add.s32 %r1;": "`add.s32 %r1`, which takes 3 operands",
    "ret %r1;": "which takes 0 operands",
    "bar.sync;": "which takes 1 or 2 operands",
    "setp.lt.and.s32 %p1, %r1, %r2;": "which takes 4 operands",
    # registers
    "add.s32 %r1, %r99, 1;": "whose register %r99 is not declared",
    "add.s32 %r1, %r01, 1;": "whose register %r01 is not declared",
    "@%r1 ret;": "whose guard %r1 is no predicate",
    "@%p9 ret;": "whose guard %p9 is no predicate",
    "add.s32 %r1, %rd1, 1;": "in which %rd1 must be of type .s32, not .b64",
    "add.s32 %f1, %r1, 1;": "in which %f1 must be of type .s32, not .f32",
    "add.f32 %f1, %i1, %f1;": "in which %i1 must be of type .f32, not .s32",
    "add.s32 %p1, %r1, 1;": "in which %p1 must be of type .s32, not .pred",
    "and.pred %p1, %p2, %r1;": "in which %r1 must be of type .pred, not .b32",
    "cvt.u32.u16 %rs1, %rs2;": "in which %rs1 must be of type .u32, not .b16",
    "ld.f32 %fd1, [%rd1];": "in which %fd1 must be of type .f32, not .f64",
    "mov.u32 %r1, %nothing;": "whose register %nothing is not declared",
    "mov.u32 %tid.x, %r1;": "which cannot write to %tid.x",
    "mov.u64 %rd1, %tid.x;": "in which %tid.x cannot be of type .u64",
    "mov.f32 %f1, %clock;": "in which %clock cannot be of type .f32",
    # numbers
    "add.s32 5, %r1, %r2;": "which cannot write to 5",
    "add.f32 %f1, %f1, 1;": "in which the number 1 does not fit the type .f32",
    "add.s32 %r1, %r1, 0f3F800000;": "in which the number 0f3F800000 does not fit the type .s32",
    "mov.b64 %rd1, 0f3F800000;": "does not fit the type .b64",
    "mov.u64 %rd1, 36893488147419103232;": "does not fit the type .u64",
    f"mov.u64 %rd1, {'9' * 5000};": "is not one that PTX has",
    "lop3.b32 %r1, %r1, %r2, %r3, %r4;": "in which %r4 must be a number of 32 bits",
    "cp.async.wait_group -1;": "in which -1 must be a number of 32 bits",
    "cp.async.cg.shared.global [%r1], [%rd1], 4;": "which copies 16 bytes",
    # of compute capability 9.0
    "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%r1}, %rd4, %rd4, %p1;": "the PTX instruction",
    "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f0,%f1,%f2,%f3}, %rd4, %rd4, %p1, 1, 1, 1, 1;": "which takes 7 operands",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1}, %rd4, %rd4, %p1, 1, 1, 0, 0;": "must be a vector of 4",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, {%r1,%r2}, %rd4, %p1, 1, 1, 0;": "must be a vector of 4",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3, %r3}], [%r2];": "TMA with other",
    "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3}], [%r2];": "must have 2 coordinates",
    "mbarrier.init.shared::cluster.b64 [%r2], 1;": "the PTX instruction",
    "setmaxnreg.inc.sync.aligned.u32 36;": "must be a multiple of 8 from 24 to 256",
    "setmaxnreg.dec.sync.aligned.u32 16;": "must be a multiple of 8 from 24 to 256",
    "mbarrier.arrive.shared::cluster.b64 %rd1, [%r2];": "whose result must be _",
    "mbarrier.arrive.noComplete.shared::cluster.b64 _, [%r2], 1;": "the PTX instruction",
    "mapa.shared::cta.u32 %r1, %r2, 1;": "the PTX instruction",
    "barrier.cluster.arrive.acquire;": "barriers of clusters with other",
    "barrier.cluster.wait.relaxed;": "barriers of clusters with other",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%r1], {%rd1, %rd1, %rd1, %rd1}, [%r2];": "which accesses 32 bytes",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b16 [%r1], %rs1, [%r2];": "the PTX instruction",
    "red.async.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];": "the PTX instruction",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.u64 [%r1], %rd2, [%r3];": "the PTX instruction",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd2], 16, [%r2], 3;": "must be in shared::cluster",
    "cp.async.bulk.shared::cta.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r2], 16, [%r3];": "TMA with other",
    # vectors, pairs
    "ld.global.v2.f32 %f1, [%rd1];": "whose operand %f1 must be a vector of 2",
    "ld.global.v2.f32 {%f1, %f2, %f3}, [%rd1];": "must be a vector of 2",
    "ld.global.f32 {%f1, %f2}, [%rd1];": "whose operand {%f1, %f2} must be one value",
    "ld.global.v4.f64 {%fd1, %fd1, %fd1, %fd1}, [%rd1];": "which accesses 32 bytes",
    "mov.b64 {%r1, %r2, %r3}, %rd1;": "which cannot take {%r1, %r2, %r3}",
    "mov.b64 {%r1, %rd2}, %rd1;": "in which %rd2 must be of type .b32, not .b64",
    "mov.b64 {%r1, %r2}, {%r3, %r4};": "which cannot take",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2}, {%r1,%r2,%r3,%r4}, {%r1,%r2}, {%f1,%f2,%f3,%f4};": "whose operand {%f1,%f2} must be a vector of 4",
    "add.s32 %r1|%p1, %r2, 1;": "which has no two results %r1|%p1",
    "lop3.or.b32 %r1, %r1, %r2, %r3, 1, %p1;": "which needs a predicate beside %r1",
    "setp.lt.s32 %p1|%p2|%p3, %r1, 2;": "which has no two results",
    "add.s32 %r1, !%p1, 1;": "in which !%p1 must be a predicate",
    "add.s32 %r1, _, 1;": "whose operand _ is not one that PTX has",
    # addresses
    "st.shared.f32 5, %f1;": "in which 5 must be an address",
    "ld.global.u32 %r1, [%f1];": "in which %f1 must be a register of 32 or 64 bits",
    "ld.global.u32 %r1, [%rd99];": "in which %rd99 must be a register",
    "ld.global.u32 %r1, [nothing];": "whose address [nothing] names nothing that is declared",
    "ld.global.u32 %r1, [tile];": "whose address [tile] is not one of global memory",
    "ld.global.u32 %r1, [f];": "names nothing that is declared",
    "ld.global.u32 %r1, [%rd1+99999999999999999999];": "must be an address",
    "mov.u64 %rd1, _ZN4evilE;": "which takes the address of _ZN4evilE",
    "mov.u16 %rs1, table;": "in which the address of table cannot be of type .u16",
    "add.u64 %rd1, table, 8;": "whose operand table is not one that PTX has",
    # parameters
    "ld.param.u32 %r1, [k_param_9];": "names nothing that is declared",
    "ld.param.u32 %r1, [k_param_1+1];": "which leaves the 4 bytes of k_param_1",
    "ld.param.u32 %r1, [many+011];": "which leaves the 12 bytes of many",
    "ld.param.u32 %r1, [many+0x9];": "which leaves the 12 bytes of many",
    "ld.param.u32 %r1, [many+0b1001U];": "which leaves the 12 bytes of many",
    "ld.param.u32 %r1, [k_param_1+-4];": "which leaves the 4 bytes of k_param_1",
    "ld.param.v2.u64 {%rd1, %rd2}, [k_param_0];": "which leaves the 8 bytes of k_param_0",
    "st.param.v4.b32 [many], {%r1, %r1, %r1, %r1};": "which leaves the 12 bytes of many",
    "st.param.b32 [k_param_1], %r1;": "which writes to the parameter k_param_1",
    "st.param.b32 [%rd1], %r1;": "which writes to parameters through a pointer",
    "atom.add.u32 %r1, [one], 1;": "is not one of",
    # control flow, calls
    "bra NOWHERE;": "the PTX instruction `bra NOWHERE`, whose target is missing",
    "ts: .branchtargets $A; brx.idx %r1, ts; ret;": "whose target is missing",
    "brx.idx %r1, nothing;": "whose target is missing",
    "$A: ret; $A: ret;": "PTX with two labels $A",
    "call;": "which is no call",
    "call (one), (one), f;": "which is no call",
    "call system, (one);": "which calls system: there is no such function",
    "call k;": "there is no such function",
    "call (one), f, (one);": "with another number of arguments",
    "call (one), f, (wide, many);": "in which wide has 8 bytes, and the parameter 4",
    "call (many), f, (one, many);": "in which many has 12 bytes, and the parameter 4",
    "call (one), f, (one, %rd1);": "in which %rd1 must be a .param variable",
    "call (%r1), f, (one, many);": "in which %r1 must be a .param variable",
    "call (one), f, (%rd1, many);": "in which %rd1 must be of type .b32",
    "call (one), f, (k_param_1, many);": "in which k_param_1 must be a .param variable",
    "call %rd1, (one);": "whose prototype is missing",
    "call %r1, (one), p; p : .callprototype _ (.param .b32 _);": "must be a pointer to a function",
    "call (one), vprintf, (wide);": "with another number of arguments",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused(body):
    with pytest.raises(Unsupported) as caught:
        check(body)
    assert REFUSED[body] in caught.value.what
    assert (caught.value.file, caught.value.line) == (
        "kernel.cu",
        0 if "two labels" in caught.value.what else 12,
    )


@pytest.mark.parametrize(
    "more, what",
    [
        (".global .align 3 .b8 x[4];", "the PTX variable x with an alignment of 3"),
        (".global .align 1048576 .b8 x[4];", "with an alignment of 1048576"),
        (".local .b8 x[9999999][9999999][9999999];", "the PTX variable x of 999"),
        (".global .b8 x[2] = {1, 2, 3};", "the initial values of the PTX variable x"),
        (".global .u64 x = nothing;", "the address of nothing as an initial value"),
        (".global .u64 x = k;", "the address of k as an initial value"),
        (".visible .entry j();", "the PTX kernel j without a body"),
        (".visible .entry j(.param .b32 x, .param .b32 x) { ret; }", "PTX with two parameters x"),
        (
            ".visible .entry j(.param .b8 x[4353]) { ret; }",
            "the PTX variable x of 4353 bytes in param memory",
        ),
        (
            ".visible .entry j(.param .b8 x[4000], .param .b8 y[4000]) { ret; }",
            "more than 4352 bytes of parameters",
        ),
        (
            ".visible .entry j(.param .b8 x, .param .align 4096 .b8 y, .param .align 4096 .b8 z) { ret; }",
            "more than 4352 bytes of parameters",
        ),
        (
            ".func g() { " + "{ .param .b8 x[4352]; ret; } " * 70 + "}",
            "bytes of .param variables",
        ),
        (".func g() { .shared .b8 tile[8]; ret; }", "PTX with two shared variables tile"),
        (
            ".func g() { .shared .b8 s; ret; } .func h() { .shared .b8 s[65536]; ret; }",
            "PTX with two shared variables s",
        ),
        (".func table() { ret; }", "PTX in which table is both a variable and a function"),
        (".global .b32 table;", "PTX with two variables table"),
        (".func f() { ret; }", "PTX with two functions f"),
        (".func g(.reg .b32 x) { ret; }", "the PTX parameter .reg .b32 x"),
        (".func g() { .local .b32 x = 5; ret; }", "with an initial value in a function"),
    ],
)
def test_refused_declarations(more, what):
    with pytest.raises(Unsupported) as caught:
        check("ret;", more + "\n")
    assert what in caught.value.what


def test_a_function_of_another_file_is_refused_where_it_is_called():
    text = f'{HEAD}.func g() {{\nfoo.bar;\n}}\n.visible .entry k() {{\n.loc 1 7 1\ncall g;\n}}\n.file 1 "kernel.cu"\n'
    with pytest.raises(Unsupported) as caught:
        verify.run(parse.parse(text), "kernel.cu")
    assert caught.value.line == 7


@pytest.mark.parametrize("other", ["mov.u32 %r1;", "frob %r1;", "call;", "call (x);"])
def test_another_fault_beside_it_changes_nothing(other):
    """The function's callers are looked up before the rest has been verified."""
    text = f'{HEAD}.visible .entry k() {{\n.loc 1 7 1\nfoo.bar;\n}}\n.func g() {{\n{other}\n}}\n.file 1 "kernel.cu"\n'
    for order in (text, text.replace(".loc 1 7 1\n", "")):
        with pytest.raises(Unsupported, match=r"the PTX instruction `foo\.bar"):
            verify.run(parse.parse(order), "kernel.cu")


def test_a_system_function_with_other_parameters():
    text = HEAD.replace(".param .b64 p_1", ".param .b32 p_1")
    text += ".visible .entry k() {\n.param .b32 a; .param .b64 b;\ncall (a), vprintf, (b, a);\n}\n"
    with pytest.raises(Unsupported, match="which calls vprintf with other parameters than it has"):
        verify.run(parse.parse(text), "kernel.cu")


@pytest.mark.parametrize("flavour", ["debug", "fast"])
@pytest.mark.parametrize("name", ["gemm_wmma", "lookback_scan", "int8_product"])
def test_what_a_compiler_writes_passes(name, flavour):
    entry = SAMPLES[name]
    verify.run(
        parse.parse(compile_ptx(entry.source, "kernel.cu", flavour, (), entry.expressions).text), "kernel.cu"
    )


# --- what passes can be lowered ------------------------------------------------------------------

SOURCE = """
__device__ __noinline__ int f(int v, int* p) { int t[3] = {v, 1, 2}; return p[0] < -5 ? t[v % 3] : f(v + 1, t) + 1; }
extern "C" __global__ void k(float* out, const float4* in, int n) {
  __shared__ float s[32];
  s[threadIdx.x] = out[threadIdx.x] + in[n].y;
  __syncthreads();
  float v = __shfl_down_sync(~0u, s[31 - threadIdx.x], 2);
  switch (n) { case 0: v += 1; break; case 1: v *= 2; break; case 2: v -= 3; break; case 3: v /= 3; }
  if (v > 3) printf("%f %d\\n", v, f(n, &n));
  atomicAdd(out, v);
}"""


@pytest.mark.parametrize(
    "checks, many", [("full", 25), *(pytest.param(c, 60, marks=pytest.mark.soak) for c in ("full", "memory"))]
)
def test_changed_operands_are_refused_or_lowered(checks, many):
    """Never another exception, and never text that LLVM rejects. More every night:
    tests.soak.fuzz."""
    made, rng = recipe(checks), random.Random(7)
    text = compile_ptx(SOURCE, "kernel.cu", made.ptx).text.split("\n\t.section")[0]
    outcomes = {"lowered": 0, "refused": 0}
    for _ in range(many):
        try:
            lowered = pipeline.lower(mutate(text, rng), "kernel.cu", made, 1 << 34)
            llvm.parse_assembly(lowered.text).verify()
            outcomes["lowered"] += 1
        except Unsupported as error:
            assert error.what
            outcomes["refused"] += 1
    assert outcomes["lowered"] > many / 12 and outcomes["refused"] > many / 3
