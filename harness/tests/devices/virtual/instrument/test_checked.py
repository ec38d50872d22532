"""Each access has its check, and none escapes it: PTX in, PTX out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.compile.recipes import Check
from backwarp.devices.virtual.instrument import accesses, bounds, checked
from backwarp.devices.virtual.ptx.ir import Instruction, Label, operand
from backwarp.devices.virtual.rewrite import inline, predicates
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.const .align 4 .b8 table[16];
.shared .align 16 .b8 tile[64];
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .f32 %f<9>;
    .reg .pred %p<3>;
    BODY
}
"""
FULL = frozenset({Check.BOUNDS, Check.INITIALISED, Check.RACES})


def compiled(body: str, full: bool = False, initialised: bool = True, coarsened: bool = False):
    """The kernel, with its checks, which are verified; if coarsened, with how that was done."""
    parsed = module(KERNEL.replace("BODY", body))
    predicates.run(parsed)
    facts = ModuleFacts(parsed, interleaved=full, threads=True)
    inline.run(facts.waits)
    kernel = parsed.functions["k"]
    found = facts.of(kernel)
    found.settle(accesses=full, held=full and initialised, coarsened=coarsened)
    if full:
        accesses.run(kernel, found, FULL if initialised else FULL - {Check.INITIALISED})
    else:
        bounds.run(kernel, found)
    checked.verify(kernel, found.coarsening)
    return (kernel, found.coarsening) if coarsened else kernel


def grouped(body: str) -> str:
    return printed(compiled(body))


def test_an_access_shares_the_check_of_those_nearest_to_it():
    """Those of 400 and 252 are one group, that reaches as far as 28; yet both of 28 are another."""
    text = grouped("""
        ld.param.u64 %rd1, [p];
        ld.global.f32 %f1, [%rd1+400];
        ld.global.f32 %f2, [%rd1+28];
        ld.global.f32 %f3, [%rd1+252];
        ld.global.f32 %f4, [%rd1+28];
        st.global.f32 [%rd1], %f4;
        ret;
    """)
    assert "[%rd1+400], [%rd1+252];" in text and "[%rd1+28], [%rd1+28];" in text


def test_accesses_a_constant_apart_share_a_check_until_their_register_is_written():
    """The sizes: 4; 260, a write of 4; 1040, one of 16 in shared memory."""
    assert grouped("""
        ld.param.u64 %rd1, [p];
        ld.global.f32 %f1, [%rd1+4];
        ld.global.f32 %f2, [%rd1];
        st.global.f32 [%rd1], %f1;
        ld.global.u16 %r1, [%rd1+8];
        add.s64 %rd1, %rd1, 8;
        ld.global.f32 %f1, [%rd1+4];
        ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r2];
    """) == lines("""
        ld.param.u64 %rd1, [p];
        check.bounds.global 4, [%rd1+4], [%rd1];
        ld.global.f32 %f1, [%rd1+4];
        ld.global.f32 %f2, [%rd1];
        check.bounds.global 260, [%rd1];
        st.global.f32 [%rd1], %f1;
        check.bounds.global 2, [%rd1+8];
        ld.global.u16 %r1, [%rd1+8];
        add.s64 %rd1, %rd1, 8;
        check.bounds.global 4, [%rd1+4];
        ld.global.f32 %f1, [%rd1+4];
        check.bounds.shared 1040, [%r2];
        ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r2];
    """)


def test_what_else_has_an_address():
    """A row of ldmatrix is given by the first lanes only. A copy is checked by the runtime that makes it."""
    assert grouped("""
        @%p1 red.shared.add.u32 [tile+4], 1;
        ld.const.u32 %r1, [table+12];
        ld.param.u32 %r1, [%rd2];
        prefetch.global.L2 [%rd1];
        cp.async.ca.shared.global [%r1], [%rd1], 16;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];
        mbarrier.init.shared.b64 [%r3], 1;
        st.u8 [64], %r1;
    """) == lines(f"""
        @!%p1 bra.skip $skip.1;
        check.bounds.shared {4 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 2 << 17}, [tile+4];
        red.shared.add.u32 [tile+4], 1;
        $skip.1:
        check.bounds.const 4, [table+12];
        ld.const.u32 %r1, [table+12];
        check.bounds.param 4, [%rd2];
        ld.param.u32 %r1, [%rd2];
        prefetch.global.L2 [%rd1];
        cp.async.ca.shared.global [%r1], [%rd1], 16;
        setp.lt.u32 %check.row.0, %laneid, 16;
        @%check.row.0 check.bounds.shared {16 | 1 << 10}, [%r3];
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r1, %r2}}, [%r3];
        check.bounds.shared {8 | 1 << 8 | 1 << 10}, [%r3];
        mbarrier.init.shared.b64 [%r3], 1;
        check.bounds.generic {1 | 1 << 8}, [64];
        st.u8 [64], %r1;
    """)


ACCESSES = """
    .local .align 4 .b8 own[8];
    mov.u64 %rd1, own;
    mov.u64 %rd2, tile;
    ld.param.u64 %rd3, [p];
    st.local.u32 [%rd1+4], 7;
    st.shared.u32 [%rd2], 8;
    ld.global.v2.f32 {%f1, %f2}, [%rd3];
    atom.global.cas.b32 %r1, [%rd3], %r2, %r3;
    ret;
"""


def test_full_checks_know_the_array_and_what_is_stored():
    assert printed(compiled(ACCESSES, full=True)) == lines(f"""
        hold.b32 own;
        apart tile, own;
        mov.u64 %rd1, own;
        mov.u64 %rd2, tile;
        ld.param.u64 %rd3, [p];
        check.held.local own, 260, -1, [%rd1+4];
        st.local.u32 [%rd1+4], 7;
        check.access.shared tile, {4 | 1 << 8 | 1 << 10}, 0, [%rd2], 8;
        st.shared.u32 [%rd2], 8;
        check.access.set.global _, 8, 0, [%rd3], _;
        ld.global.v2.f32 {{%f1, %f2}}, [%rd3];
        check.access.set.cas.b32.global _, {4 | 1 << 8 | 1 << 9 | 1 << 11 | 2 << 17 | 1 << 20}, 0, [%rd3], %r2;
        atom.global.cas.b32 %r1, [%rd3], %r2, %r3;
        ret;
    """)


def test_where_unset_values_are_followed_reading_them_is_no_fault_and_llvm_holds_no_array():
    text = printed(compiled(ACCESSES, full=True, initialised=False))
    assert (
        "hold" not in text and ".set" not in text and "check.access.local own, 260, 0, [%rd1+4], 7;" in text
    )


# -- attacks on the verifier -----------------------------------------------------------------------------

BODY = """
    ld.param.u64 %rd1, [p];
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd1+4];
    st.shared.u32 [%r1], %r2;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r4];
    red.global.add.u32 [%rd2], 1;
    ret;
"""


def put(body: list, item, before: str) -> None:
    body.insert(next(i for i, x in enumerate(body) if str(x).startswith(before)), item)


def instruction(like: Instruction, text: str) -> Instruction:
    opcode, _, operands = text.partition(" ")
    return Instruction(opcode, tuple(map(operand, operands.split(", "))) if operands else (), like.at)


def changed(body: list, start: str, **fields) -> None:
    i = next(i for i, x in enumerate(body) if f"{x.opcode} {', '.join(x.operands)}".startswith(start))
    body[i] = replace(body[i], **fields)


def of(*texts: str) -> tuple:
    return tuple(map(operand, texts))


WRONG = {
    "a register is written in between": lambda b: put(b, instruction(b[0], "add.s64 %rd1, %rd1, 400"), "ld.global.f32 %f2"),
    "a parameter is smaller": lambda b: changed(b, "ld.param", operands=of("%rd1", "[p+4]")),
    "a parameter is none": lambda b: changed(b, "ld.param", operands=of("%rd1", "[tile]")),
    "a way leads around the check": lambda b: put(b, Label("$around"), "st.shared"),
    "a call comes in between": lambda b: put(b, instruction(b[0], "call f"), "st.shared"),
    "a function ends, and its memory with it": lambda b: put(b, instruction(b[0], "leave f"), "st.shared"),
    "an access is wider than its check": lambda b: changed(b, "st.shared", opcode="st.shared.u64"),
    "an access has another address": lambda b: changed(b, "st.shared", operands=of("[%r1+4]", "%r2")),
    "an access is of another space": lambda b: changed(b, "st.shared", opcode="st.u32"),
    "a load has become a store": lambda b: changed(b, "ld.global.f32 %f2", opcode="st.global.f32", operands=of("[%rd1+4]", "%f2")),
    "a store has become an update": lambda b: changed(b, "st.shared", opcode="red.shared.add.u32"),
    "a check is for a store, an access for an update": lambda b: changed(b, f"check.bounds.global {4 | 1 << 8 | 1 << 9 | 1 << 11 | 2 << 17}", operands=of("260", "[%rd2]")),
    "a check is used twice": lambda b: put(b, instruction(b[0], "st.shared.u32 [%r1], %r2"), "ldmatrix"),
    "a group is not aligned": lambda b: changed(b, "check.bounds.global 4", operands=of("4", "[%rd1]", "[%rd1+4]", "[%rd1+6]")),
    "a group has two bases": lambda b: changed(b, "check.bounds.global 4", operands=of("4", "[%rd1]", "[%rd2+4]")),
    "a guard is not about lanes": lambda b: changed(b, "setp.lt.u32", opcode="setp.gt.u32"),
    "a guard leaves out rows": lambda b: changed(b, "setp.lt.u32", operands=of("%check.row.0", "%laneid", "4")),
    "a guarded check is taken for another's": lambda b: changed(b, "check.bounds.shared 1284", pred="%p1"),
    "an array is not that of the check": lambda b: changed(b, "st.shared", array="tile"),
    "a size is none": lambda b: changed(b, "check.bounds.shared 1284", operands=of("1280", "[%r1]")),
    "the shared window is taken for the arena": lambda b: changed(b, "check.bounds.shared 1284", operands=of("260", "[%r1]")),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_an_access_without_its_check_is_found(wrong):
    kernel = compiled(BODY)
    WRONG[wrong](kernel.body)
    with pytest.raises(AssertionError):
        checked.verify(kernel)


LOOP = """
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    ld.param.u64 %rd1, [p];
    add.s64 %rd2, %rd1, %rd2;
    mov.u32 %r2, 0;
    mov.f32 %f1, 0f00000000;
$L_top:
    ld.global.f32 %f2, [%rd1];
    fma.rn.f32 %f1, %f2, %f1, %f1;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 9;
    @%p1 bra $L_top;
    st.global.f32 [%rd2], %f1;
    ret;
"""


def test_threads_that_run_together_have_their_own_addresses_checked():
    """The store is the first instruction behind the loop; the load is the same for all threads."""
    kernel, found = compiled(LOOP, coarsened=True)
    assert "%rd2" in found.varying and "%rd1" not in found.varying
    (load,) = (i for i in kernel.body if str(i).strip() == "check.bounds.global 4, [%rd1]")
    (store,) = (i for i in kernel.body if str(i).strip() == "check.bounds.global 260, [%rd2]")
    assert store in found.serial and load not in found.serial
    with pytest.raises(AssertionError):
        checked.verify(kernel, replace(found, serial=found.serial - {store}))


def test_every_check_is_needed():
    for full in (False, True):
        kernel = compiled(ACCESSES if full else BODY, full)
        body = kernel.body
        marks = [i for i in body if i.base == "check" or i.base == "hold"]
        assert len(marks) == (5 if full else 4)
        for missing in marks:
            kernel.body = [i for i in body if i is not missing]
            with pytest.raises(AssertionError):
                checked.verify(kernel)
