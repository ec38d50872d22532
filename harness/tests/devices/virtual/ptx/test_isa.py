"""What an opcode reads and writes."""

from __future__ import annotations

import pytest

from harness.devices.virtual.ptx import parse as ptx
from harness.devices.virtual.ptx.isa import reads, writes

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
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2}", "%r1 %r2", ""),
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
    assert (reads(ins), writes(ins)) == (set(wanted_reads.split()), set(wanted_writes.split()))
