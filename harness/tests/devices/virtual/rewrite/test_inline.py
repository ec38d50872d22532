"""Functions that may suspend, expanded in kernels: PTX in, PTX out."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.rewrite import inline, predicates
from backwarp.errors import Unsupported
from tests.devices.virtual.ptx_text import lines, module, printed

WAITS = """
.func (.param .b32 result) waits(.param .b32 given)
{
    .local .align 4 .b8 kept[4];
    .reg .b32 %r<3>;
    .reg .pred %p<2>;
    ld.param.u32 %r1, [given];
    @%p1 bra $L_end;
    st.local.u32 [kept], %r1;
    bar.warp.sync -1;
    @%p1 ret;
$L_end:
    st.param.b32 [result+0], %r1;
    ret;
}
"""
KERNEL = """
.visible .entry k()
{
    .reg .b32 %r<3>;
    .reg .pred %p<2>;
    .param .b32 param0;
    .param .b32 retval0;
    BODY
    ret;
}
"""


def expanded(functions: str, body: str):
    parsed = module(functions + KERNEL.replace("BODY", body))
    predicates.run(parsed)
    facts = ModuleFacts(parsed, interleaved=False, threads=True)
    inline.run(facts.waits)
    return parsed.functions["k"]


def test_a_call_becomes_the_body_of_the_function():
    kernel = expanded(WAITS, "st.param.b32 [param0], %r1; call.uni (retval0), waits, (param0);")
    assert printed(kernel) == lines("""
        st.param.b32 [param0], %r1;
        enter waits;
        ld.param.u32 %r1..1, [param0];
        @%p1..1 bra $L_end..1;
        st.local.u32 [kept..1], %r1..1;
        bar.warp.sync -1;
        @!%p1..1 bra.skip $skip.1..1;
        bra $return..1;
        $skip.1..1:
        $L_end..1:
        st.param.b32 [retval0], %r1..1;
        bra $return..1;
        $return..1:
        leave waits;
        ret;
    """)
    enter = kernel.body[1]
    assert enter.expansion.variables == ("kept..1",) and "%r1..1" in enter.expansion.registers
    assert kernel.regs["%r1..1"] == "b32" and kernel.variables["kept..1"].name == "kept..1"
    assert str(enter.original) == "call.uni (retval0), waits, (param0)"
    assert str(kernel.body[4].original) == "st.local.u32 [kept], %r1"


def test_each_copy_has_its_own_names_and_a_guarded_call_is_passed_by():
    twice = "call.uni (retval0), waits, (param0); @!%p1 call.uni (retval0), waits, (param0);"
    kernel = expanded(WAITS, twice)
    text = printed(kernel)
    assert "kept..1" in kernel.variables and "kept..2" in kernel.variables
    assert "@%p1 bra.skip $skip.1;\nenter waits;\nld.param.u32 %r1..2, [param0];" in text
    assert "leave waits;\n$skip.1:\nret;" in text


def test_a_result_that_nobody_wants_gets_memory_of_its_own():
    kernel = expanded(WAITS, "call.uni waits, (param0);")
    assert "st.param.b32 [result..1], %r1..1;" in printed(kernel)
    assert kernel.variables["result..1"].space == "param"


def test_functions_within_functions():
    outer = ".func outer()\n{\n.param .b32 a;\n.param .b32 b;\ncall.uni (b), waits, (a);\nret;\n}\n"
    kernel = expanded(WAITS + outer, "call.uni outer, ();")
    text = printed(kernel)
    assert text.startswith("enter outer;\nenter waits;\nld.param.u32 %r1..2, [a..1];")
    assert text.endswith("$return..2:\nleave waits;\nbra $return..1;\n$return..1:\nleave outer;\nret;")
    inner = next(i for i in kernel.body if str(i) == "enter waits")
    assert str(inner.expansion.call) == "call.uni (b..1), waits, (a..1)"
    assert inner.expansion.call.expansion.function == "outer"


def test_what_never_waits_stays_a_call_and_what_is_recursive_is_refused():
    plain = ".func plain()\n{\nret;\n}\n"
    assert printed(expanded(plain, "call.uni plain, ();")) == "call.uni plain, ();\nret;"
    again = '.file 1 "kernel.cu"\n.func again()\n{\n.loc 1 7 0\nbar.sync 0;\ncall.uni again, ();\nret;\n}\n'
    with pytest.raises(Unsupported) as caught:
        expanded(again, "call.uni again, ();")
    assert "recursive function again" in str(caught.value) and caught.value.line == 7


@pytest.mark.parametrize("declared", [".param .b8 given..1[64]", ".local .b8 kept..1[4]", ".reg .b32 %r1..1"])
def test_no_program_has_the_names_of_copies(declared):
    """A parameter of that name would be taken for the copy's, whose size is another."""
    with pytest.raises(Unsupported):
        expanded(WAITS, f"{declared}; call.uni (retval0), waits, (param0);")


SHORT = """
.func (.param .b32 result) sum(.param .b32 given)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [given];
    MORE
    st.param.b32 [result+0], %r1;
    ret;
}
"""


@pytest.mark.parametrize(("more", "left"), [(0, "k"), (54, "twice k"), (60, "sum twice k")])
def test_short_functions_are_expanded_wherever_they_are_called(more, left):
    functions = SHORT.replace("MORE", "add.u32 %r1, %r1, 1;" * more)
    calls = SHORT.replace("sum", "twice").replace(
        "MORE", ".param .b32 p, q; st.param.b32 [p], %r1; call.uni (q), sum, (p);"
    )
    body = "st.param.b32 [param0], %r1; call.uni (retval0), twice, (param0);"
    parsed = module(functions + calls + KERNEL.replace("BODY", body))
    facts = ModuleFacts(parsed, interleaved=True, threads=True)
    inline.run_short(facts)
    assert [f.name for f in facts.emitted] == left.split()


def test_what_doubles_at_every_level_is_not_short():
    """Copies count: 1, 6, 16, 36, 76 instructions."""
    twice = (
        ".func f{n}()\n{{\nadd.u32 %r1, %r1, 1;\ncall.uni f{before}, ();\ncall.uni f{before}, ();\nret;\n}}\n"
    )
    chain = "".join(
        twice.format(n=n, before=n - 1).replace("{\nadd", "{\n.reg .b32 %r<2>;\nadd") for n in range(1, 8)
    )
    parsed = module(".func f0()\n{\nret;\n}\n" + chain + KERNEL.replace("BODY", "call.uni f7, ();"))
    facts = ModuleFacts(parsed, interleaved=True, threads=True)
    inline.run_short(facts)
    assert [f.name for f in facts.emitted] == ["f4", "f5", "f6", "f7", "k"]
    assert len(parsed.functions["f4"].body) < 200
