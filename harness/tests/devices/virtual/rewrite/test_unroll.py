"""Loops over local arrays that are written out: PTX in, PTX out."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.rewrite import promote, straighten, unroll
from tests.devices.virtual.ptx_text import lines, module, printed

HEAD = """
.visible .entry k(.param .u64 out)
{
    .local .align 16 .b8 depot[16];
    .shared .align 16 .b8 tile[16];
    .reg .b32 %r<20>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<20>;
    .reg .pred %p<9>;
"""
# for (int i = 0; i < 2; i++): of unoptimised code
LOOP = """
    mov.u64 %rd1, depot; mov.u32 %r1, 0; mov.u32 %r2, %r1; bra.uni $L_1;
    $L_1: mov.u32 %r3, %r2; setp.lt.s32 %p1, %r3, 2; not.pred %p2, %p1; @%p2 bra $L_3;
    {body}
    $L_2: add.s32 %r4, %r3, 1; mov.u32 %r2, %r4; bra.uni $L_1;
    $L_3: {after} ret;
"""
PLACE = "cvt.s64.s32 %rd2, %r3; shl.b64 %rd3, %rd2, 2; add.s64 %rd4, %rd1, %rd3;"
STORE = f"{PLACE} st.f32 [%rd4], %f1;"


def unrolled(body: str):
    function = module(f"{HEAD}{body}\n}}").functions["k"]
    straighten.run(function)
    return unroll.run(function), function


def test_a_loop_over_an_array():
    done, function = unrolled(LOOP.format(body=STORE, after=""))
    assert done
    assert printed(function) == lines("""
        mov.u64 %rd1, depot;
        add.s64 %rd4$1, %rd1, 0;
        st.f32 [%rd4$1], %f1;
        add.s64 %rd4$2, %rd1, 4;
        st.f32 [%rd4$2], %f1;
        ret;""")
    promote.run(function)
    assert printed(function) == "mov.b32 %depot.0, %f1;\nmov.b32 %depot.4, %f1;\nret;"
    assert all(register in function.regs for i in function.body for register in i.reads | i.writes)


def test_a_loop_that_tests_at_its_end():
    done, function = unrolled("""
        mov.u64 %rd1, depot; mov.u64 %rd2, 0; mov.pred %p1, 0; mov.u64 %rd3, %rd2; @%p1 bra $L_2; bra.uni $L_1;
        $L_1: mov.u64 %rd4, %rd3; shl.b64 %rd5, %rd4, 2; add.s64 %rd6, %rd1, %rd5; st.u32 [%rd6], 0;
        add.s64 %rd7, %rd4, 1; setp.lt.u64 %p2, %rd7, 4; mov.u64 %rd3, %rd7; @%p2 bra $L_1; bra.uni $L_2;
        $L_2: ret;""")
    promote.run(function)
    assert done
    assert printed(function) == "\n".join(f"mov.b32 %depot.{4 * i}, 0;" for i in range(4)) + "\nret;"


def test_a_loop_in_a_loop():
    inner = """
        mov.u32 %r5, 0; mov.u32 %r6, %r5;
        $L_4: mov.u32 %r7, %r6; setp.ge.s32 %p3, %r7, 2; setp.lt.s32 %p4, %r7, 2; @!%p4 bra $L_5;
        shl.b32 %r8, %r3, 1; add.s32 %r9, %r8, %r7; mul.wide.s32 %rd2, %r9, 4; add.s64 %rd3, %rd2, %rd1;
        ld.f32 %f2, [%rd3]; add.f32 %f3, %f3, %f2;
        add.s32 %r10, %r7, 1; mov.u32 %r6, %r10; bra.uni $L_4;
        $L_5: """
    done, function = unrolled(LOOP.format(body=inner, after=""))
    promote.run(function)
    assert done
    read = [i.operands[1] for i in function.body if i.base == "mov"]
    assert read == [f"%depot.{4 * i}" for i in range(4)]
    assert [str(i) for i in function.body if i.base == "add"] == [
        f"add.f32 %f3, %f3, {i.operands[0]}" for i in function.body if i.base == "mov"
    ]


def test_a_loop_that_begins_where_another_is():
    inner = """
        mov.u32 %r6, %r3;
        $L_4: mov.u32 %r7, %r6; setp.lt.s32 %p4, %r7, 3; @!%p4 bra $L_5;
        mul.wide.s32 %rd2, %r7, 4; add.s64 %rd3, %rd1, %rd2; st.f32 [%rd3], %f1;
        add.s32 %r10, %r7, 1; mov.u32 %r6, %r10; bra.uni $L_4;
        $L_5: """
    done, function = unrolled(LOOP.format(body=inner, after=""))
    promote.run(function)
    assert done
    assert (
        printed(function)
        == lines("\n".join(f"mov.b32 %depot.{4 * i}, %f1;" for i in (0, 1, 2, 1, 2))) + "\nret;"
    )


def test_what_is_read_behind_the_loop_keeps_its_name():
    _, function = unrolled(
        LOOP.format(body=f"{STORE} add.s32 %r5, %r3, %r6;", after="st.global.u32 [%rd9], %r5;")
    )
    assert printed(function).count("%r5, ") == 2
    assert printed(function).endswith("st.global.u32 [%rd9], %r5;\nret;")


def test_branches_within_the_loop():
    body = f"setp.eq.s32 %p3, %r3, 1; @%p3 bra $L_2; setp.eq.s32 %p4, %r9, 1; @%p4 bra $L_2; {STORE}"
    _, function = unrolled(LOOP.format(body=body, after=""))
    assert printed(function) == lines("""
        mov.u64 %rd1, depot;
        setp.eq.s32 %p4$1, %r9, 1;
        @%p4$1 bra $L_3;
        add.s64 %rd4$1, %rd1, 0;
        st.f32 [%rd4$1], %f1;
        $L_3:
        ret;""")


def test_collectives_of_a_warp():
    shuffle = "shfl.sync.bfly.b32 %r5, %r6, 1, 31, -1;"
    done, function = unrolled(LOOP.format(body=f"{STORE} {shuffle}", after=""))
    assert done and printed(function).count("shfl.sync") == 2 and "$L_1:" not in printed(function)


def test_an_unset_register_that_is_computed_with_is_still_read():
    _, function = unrolled(LOOP.format(body=f"{STORE} add.s32 %r5, %r6, %r3;", after=""))
    assert printed(function).count("%r6, ") == 2


OTHERS = {
    "another array": LOOP.format(body="mov.u64 %rd5, tile; " + STORE.replace("%rd1", "%rd5"), after=""),
    "always the same element": LOOP.format(body="st.f32 [%rd1], %f1;", after=""),
    "a barrier": LOOP.format(body=f"{STORE} bar.sync 0;", after=""),
    "an end that is not known": LOOP.format(body=STORE, after="").replace("%r3, 2;", "%r3, %r9;"),
    "very long": LOOP.format(body=STORE * 4000, after=""),
    "entered in the middle": f"@%p5 bra $L_2; {LOOP.format(body=STORE, after='')}",
    # what promoted variables look like: the second round begins where the first ends
    "not set again": """
        mov.u64 %rd1, depot; mov.u32 %r1, 0; mov.u32 %r2, %r1; bra.uni $L_0;
        $L_0: bra.uni $L_1;
        $L_1: mov.u32 %r3, %r2; setp.lt.s32 %p1, %r3, 2; @!%p1 bra $L_3;
        """
    + STORE
    + """
        add.s32 %r4, %r3, 1; mov.u32 %r2, %r4; bra.uni $L_1;
        $L_3: setp.lt.s32 %p3, %r5, %r6; @%p3 bra $L_0; ret;""",
}


@pytest.mark.parametrize("what", OTHERS)
def test_loops_that_stay(what):
    done, function = unrolled(OTHERS[what])
    assert not done
    assert "$L_1:" in printed(function)


@pytest.mark.parametrize(
    "computed, index",
    [
        ("rem.s32 %r5, %r3, 2;", 1),
        ("div.u32 %r5, %r3, 2;", 0),
        ("xor.b32 %r5, %r3, 3;", 2),
        ("sub.s32 %r5, 3, %r3;", 2),
        ("neg.s32 %r6, %r3; add.s32 %r5, %r6, 3;", None),  # is not computed
        ("mad.lo.s32 %r5, %r3, 2, 1;", 3),
        ("shr.s32 %r6, -8, %r3; add.s32 %r5, %r6, 6;", 2),
        ("cvt.s32.s8 %r6, 255; add.s32 %r5, %r6, %r3;", 0),
        ("and.b32 %r6, %r3, 1; or.b32 %r5, %r6, 2;", 3),
    ],
)
def test_indices(computed, index):
    """Of the second round, whose counter is 1."""
    body = f"{computed} mul.wide.s32 %rd2, %r5, 4; add.s64 %rd4, %rd1, %rd2; st.f32 [%rd4], %f1;"
    _, function = unrolled(LOOP.format(body=body, after=""))
    sums = [i.operands[2] for i in function.body if i.opcode == "add.s64"]
    assert sums[1] == ("%rd2$2" if index is None else str(4 * index))


# -- short loops of optimised code ------------------------------------------------------------------------------


def written_out(body: str) -> str:
    function = module(f"{HEAD}{body}\n}}").functions["k"]
    unroll.short_loops(function)
    assert all(
        register in function.regs
        for i in function.body
        if hasattr(i, "reads")
        for register in (i.reads | i.writes) - {"%tid.x"}
    )
    return printed(function)


ROUNDS = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.f32 %f1, 0f00000000;
    $L_1: mad.lo.s32 %r3, %r2, 272, %r1; ld.shared.f32 %f2, [%r3]; fma.rn.f32 %f1, %f2, %f2, %f1;
    {step} add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, 3; @%p1 bra $L_1;
    st.shared.f32 [%r1], %f1; ret;"""


def test_a_short_loop():
    assert written_out(ROUNDS.format(step="")) == lines("""
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, 0;
        mov.f32 %f1, 0f00000000;
        mov.b32 %r2$1, 0;
        mad.lo.s32 %r3$1, %r2$1, 272, %r1;
        ld.shared.f32 %f2$1, [%r3$1];
        fma.rn.f32 %f1, %f2$1, %f2$1, %f1;
        add.s32 %r2, %r2$1, 1;
        setp.lt.s32 %p1, %r2, 3;
        mov.b32 %r2$2, 1;
        mad.lo.s32 %r3$2, %r2$2, 272, %r1;
        ld.shared.f32 %f2$2, [%r3$2];
        fma.rn.f32 %f1, %f2$2, %f2$2, %f1;
        add.s32 %r2, %r2$2, 1;
        setp.lt.s32 %p1, %r2, 3;
        mov.b32 %r2$3, 2;
        mad.lo.s32 %r3$3, %r2$3, 272, %r1;
        ld.shared.f32 %f2$3, [%r3$3];
        fma.rn.f32 %f1, %f2$3, %f2$3, %f1;
        add.s32 %r2, %r2$3, 1;
        setp.lt.s32 %p1, %r2, 3;
        st.shared.f32 [%r1], %f1;
        ret;""")


@pytest.mark.parametrize(
    "body",
    {
        "how often is not known": ROUNDS.format(step="").replace("mov.u32 %r2, 0", "mov.u32 %r2, %r1"),
        "a step is not known": ROUNDS.format(step="add.s32 %r2, %r2, %r1;"),
        "a step that some take": ROUNDS.format(step="@%p2 add.s32 %r2, %r2, 1;"),
        "too often": ROUNDS.format(step="").replace("setp.lt.s32 %p1, %r2, 3", "setp.lt.s32 %p1, %r2, 300"),
        "a barrier": ROUNDS.format(step="bar.sync 0;"),
        "two ways in": ROUNDS.format(step="").replace(
            "$L_1:", "@%p2 bra $L_1; mov.u32 %r2, 1; bra.uni $L_1; $L_1:"
        ),
        "the wrong way round": ROUNDS.format(step="")
        .replace("@%p1 bra", "@!%p1 bra")
        .replace("setp.lt.s32 %p1, %r2, 3", "setp.lt.s32 %p1, %r2, -3"),
    }.items(),
    ids=lambda x: x[0],
)
def test_loops_that_are_not_short(body):
    assert written_out(body[1]).count("ld.shared") == 1
