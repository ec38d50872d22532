"""What counting inserts beside a kernel's own instructions: PTX in, PTX out. N stands for a number of 64 bits."""

from __future__ import annotations

import re

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.instrument import segments
from backwarp.devices.virtual.instrument.segments import CountedAccess
from backwarp.devices.virtual.rewrite import inline, predicates
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.file 1 "kernel.cu"
.visible .entry k()
{
    .reg .b32 %r<5>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<3>;
    .reg .pred %p<3>;
    .loc 1 3 0
    BODY
}
"""
ENTER = "add.u64 %count.key, %count.path, N;\ncount.enter %count.entry, {}, %count.key;"


def counted(body: str, before: str = ""):
    """(the function as text, what is counted)"""
    parsed = module(before + KERNEL.replace("BODY", body))
    predicates.run(parsed)
    facts = ModuleFacts(parsed, interleaved=False, threads=True)
    inline.run(facts.waits)
    for function in parsed.functions.values():
        segments.run(function, facts.of(function))
    texts = [re.sub(r"\b\d{12,}\b", "N", printed(f)) for f in parsed.functions.values()]
    return "\n".join(texts), facts.segments


def test_a_loop_is_counted_in_the_key_of_what_is_in_it():
    text, found = counted("$L_top: ld.global.v2.f32 {%f1, %f2}, [%rd1+4]; @!%p1 bra $L_top; ret;")
    assert text == lines(f"""
        mov.u64 %count.path, 0;
        mov.u64 %count.loop.0, 0;
        $L_top:
        add.u64 %count.loop.0, %count.loop.0, N;
        add.u64 %count.key, %count.path, N;
        add.u64 %count.key, %count.key, %count.loop.0;
        count.enter %count.entry, 0, %count.key;
        count.word.global %count.entry, 0, [%rd1+4];
        ld.global.v2.f32 {{%f1, %f2}}, [%rd1+4];
        count.lane %count.entry, Entry.taken, !%p1;
        @!%p1 bra $L_top;
        {ENTER.format(1)}
        ret;
    """)
    assert found[0].accesses == [CountedAccess(3, "load", "global", 8)]
    assert found[0].kinds == {(3, "instructions"): 2, (3, "branches"): 1}


def test_what_is_skipped_is_a_segment_and_skipping_is_no_instruction():
    text, found = counted("@%p1 red.shared.add.u32 [%r1], 1; ret;")
    assert text == lines(f"""
        mov.u64 %count.path, 0;
        @!%p1 bra.skip $skip.1;
        {ENTER.format(0)}
        count.word.shared %count.entry, 0, [%r1];
        red.shared.add.u32 [%r1], 1;
        $skip.1:
        {ENTER.format(1)}
        ret;
    """)
    assert found[0].accesses == [CountedAccess(3, "atomic", "shared", 4)]
    assert [s.kinds[3, "instructions"] for s in found] == [1, 1]


def test_a_function_that_is_called_goes_on_from_its_callers_key():
    text, found = counted("call.uni f, (); bar.sync 0; ret;", ".func f()\n{\nret;\n}\n")
    called, kernel = text.split("ret;", 1)
    assert called.startswith("fetch %count.path, Extra.path;")
    assert kernel.strip() == lines(f"""
        mov.u64 %count.path, 0;
        {ENTER.format(1)}
        mul.lo.u64 %count.callee, %count.key, N;
        note Extra.path, %count.callee;
        call.uni f, ();
        {ENTER.format(2)}
        bar.sync 0;
        {ENTER.format(3)}
        ret;
    """)
    assert found[2].kinds[3, "barriers"] == 1


def test_an_expanded_function_is_counted_as_if_it_were_called():
    text, found = counted("call.uni f, (); ret;", ".func f()\n{\nbar.sync 0;\nret;\n}\n")
    kernel = text[text.index("mov.u64 %count.path, 0;") :]
    assert "enter f;" in kernel and "leave f;" in kernel and "fetch" not in kernel
    # of the function itself (two segments), then the call, the barrier, both returns
    assert sum(s.kinds[3, "instructions"] + s.kinds[0, "instructions"] for s in found[2:]) == 4


def test_a_copy_reads_only_where_it_is_not_told_to_ignore_its_source():
    text, found = counted(
        "cp.async.ca.shared.global [%r1], [%rd1], 4, %r2; fma.rn.f32 %f1, %f1, %f1, %f2;"
        "mul.f32 %f1, %f1, %f1; cp.async.wait_all; ret;"
    )
    assert text.count("fetch %count.copies, Extra.copies;") == 3
    assert (
        lines("""
        count.word.shared %count.entry, 0, [%r1];
        setp.ne.u32 %count.holds, %r2, 0;
        @!%count.holds bra.skip $uncounted.1;
        count.word.global %count.entry, 1, [%rd1];
        $uncounted.1:
        cp.async.ca.shared.global [%r1], [%rd1], 4, %r2;
    """)
        in text
    )
    assert text.count("bump Extra.work;") == 1  # it computes: the copies are not waited for idly
    assert [(a.kind, a.space, a.size) for a in found[0].accesses] == [
        ("store", "shared", 4),
        ("load", "global", 4),
    ]


def test_the_rows_of_a_matrix_and_the_targets_of_a_switch():
    text, found = counted(
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3]; ts: .branchtargets $L_a, $L_b;"
        "brx.idx %r4, ts; $L_a: ret; $L_b: ret;"
    )
    assert (
        lines("""
        setp.lt.u32 %count.holds, %laneid, 16;
        @!%count.holds bra.skip $uncounted.1;
        count.word.shared %count.entry, 0, [%r3];
        $uncounted.1:
    """)
        in text
    )
    assert "count.word %count.entry, 0, %r4;\nbrx.idx" in text
    assert found[1].accesses == [CountedAccess(3, "branch", "target", 4)]
    assert found[1].kinds[3, "branches"] == 1


def test_a_fragment_is_read_by_16_bytes_a_lane():
    text, found = counted(
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16"
        "{%r1, %r2, %r3, %r4, %r1, %r2, %r3, %r4}, [%r1+32], %r2; ret;"
    )
    assert "cvt.u64.u32 %count.stride, %r2;" in text
    assert "count.word.shared %count.entry, 0, [%r1+32], %count.at;" in text
    assert found[0].accesses == [CountedAccess(3, "load", "shared", 16)]
