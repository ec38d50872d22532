"""What the checks insert beside a kernel's own instructions: PTX in, PTX out."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.instrument import barriers, races, registers
from backwarp.devices.virtual.rewrite import inline, predicates
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.file 1 "kernel.cu"
.visible .entry k()
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<3>;
    .reg .pred %p<3>;
    .param .b64 a;
    .param .b32 b;
    BODY
}
"""


def instrumented(check, body: str, before: str = ""):
    parsed = module(before + KERNEL.replace("BODY", body))
    predicates.run(parsed)
    facts = ModuleFacts(parsed, interleaved=True, threads=True)
    inline.run(facts.waits)
    kernel = parsed.functions["k"]
    check.run(kernel, facts.of(kernel))
    return kernel


def test_a_register_that_may_be_unassigned_has_a_flag():
    kernel = instrumented(
        registers,
        "mov.u32 %r4, 1; @%p1 mov.u32 %r1, %r4; mov.b64 %rd1, {%r1, %r3};"
        "add.u32 %r4, %r1, %r4; st.u64 [%rd2], %rd1; ret;",
    )
    assert printed(kernel) == lines("""
        mov.pred %p1.set, 0;
        mov.pred %r1.set, 0;
        mov.pred %r3.set, 0;
        mov.pred %rd1.set, 0;
        mov.pred %rd2.set, 0;
        mov.u32 %r4, 1;
        check.assigned %p1.set;
        @!%p1 bra.skip $skip.1;
        mov.u32 %r1, %r4;
        mov.pred %r1.set, 1;
        $skip.1:
        mov.b64 %rd1, {%r1, %r3};
        mov.pred %rd1.set, %r1.set;
        and.pred %rd1.set, %rd1.set, %r3.set;
        check.assigned %r1.set;
        add.u32 %r4, %r1, %r4;
        check.assigned %rd1.set, %rd2.set;
        st.u64 [%rd2], %rd1;
        ret;
    """)
    assert kernel.regs["%rd1.set"] == "pred"


def test_the_registers_of_an_expanded_function_are_unassigned_whenever_it_begins():
    function = ".func f()\n{\n.reg .b32 %r<3>;\nbar.warp.sync %r1;\nret;\n}\n"
    text = printed(instrumented(registers, "call.uni f, (); ret;", function))
    assert "enter f;\nmov.pred %r1..1.set, 0;\ncheck.assigned %r1..1.set;\nbar.warp.sync %r1..1;" in text


def test_racecheck_is_told_of_fences_and_of_updates_whose_result_nobody_uses():
    function = """
    .func (.param .b32 r) update(.param .b64 p)
    {
        .reg .b32 %r<2>;
        .reg .b64 %rd<2>;
        atom.add.u32 %r1, [%rd1], 1;
        ret;
    }
    """
    body = "membar.gl; @%p1 fence.acq_rel.cta; call.uni (b), update, (a); {} ret;"
    assert printed(instrumented(races, body.format(""), function)) == lines("""
        membar.gl;
        runtime rt_fence, 6;
        @!%p1 bra.skip $skip.1;
        fence.acq_rel.cta;
        runtime rt_fence, 0;
        $skip.1:
        note Env.blind, 1;
        call.uni (b), update, (a);
        note Env.blind, 0;
        ret;
    """)
    used = body.format("ld.param.b32 %r1, [b]; st.u32 [%rd1], %r1;")
    assert "blind" not in printed(instrumented(races, used, function))


def test_a_thread_may_end_after_a_call_while_others_go_on_to_a_barrier():
    function = ".func f()\n{\nret;\n}\n"
    body = "call.uni f, (); @%p1 bra $L_end; call.uni f, (); bar.sync 0; $L_end: ret;"
    text = printed(instrumented(races, body, function))
    assert text.startswith(
        "note Env.final, 1;\ncall.uni f, ();\nnote Env.final, 0;\n@%p1 bra $L_end;\ncall.uni f, ();"
    )


LOOP = """
    .loc 1 2 0
$L_top:
    @%p1 bra $L_stay;
    bra $L_return;
$L_stay:
    bar.sync 0;
    @%p2 bra $L_top;
    .loc 1 9 0
    bra $L_return;
$L_return:
    ret;
"""


def test_a_thread_notes_its_way_out_and_its_iterations():
    """The masks hold ways out in the lower half (1: the closing brace), loops in the upper half."""
    both = 1 << 32
    text = printed(instrumented(barriers, "mov.u32 %r1, 0;" + LOOP))
    assert text == lines(f"""
        note Extra.out, 1;
        note Extra.turns, 0;
        mov.u32 %r1, 0;
        $L_top:
        @%p1 bra $L_stay;
        note Extra.out, {both | 2};
        bra $L_return;
        $L_stay:
        note Extra.behind, {both | 1};
        bar.sync 0;
        @!%p2 bra.skip $below.6;
        bump Extra.turns;
        @%p2 bra $L_top;
        $below.6:
        bra $L_return;
        $L_return:
        ret;
    """)


def test_an_exit_of_a_kernel_that_never_waits_is_a_return():
    text = printed(instrumented(barriers, "@%p1 exit; ret;"))
    assert text == "@!%p1 bra.skip $skip.1;\nnote Extra.out, 0;\nexit;\n$skip.1:\nret;"
