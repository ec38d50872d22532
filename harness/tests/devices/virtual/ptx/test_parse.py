"""PTX text -> instructions with their source lines."""

from __future__ import annotations

import random
import re

import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.ptx import verify
from backwarp.devices.virtual.ptx.ir import (
    Address,
    Arguments,
    Immediate,
    Instruction,
    Label,
    Location,
    Negated,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    operand,
)
from backwarp.devices.virtual.ptx.parse import parse
from backwarp.errors import Unsupported

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def body_of(text: str):
    """The body of a kernel with these lines in it."""
    return parse(f"{HEAD}.visible .entry k()\n{{\n{text}\n}}\n").functions["k"].body


def spelled(text: str) -> list[str]:
    return [f"{i.name}:" if isinstance(i, Label) else str(i) for i in body_of(text)]


# --- statements ----------------------------------------------------------------------------------


def test_an_instruction():
    (ins,) = body_of(".reg .f32 %f<4>;\n@!%p1 fma.rn.ftz.f32 %f1, %f2, %f3, 0f3F800000;")
    assert ins.opcode == "fma.rn.ftz.f32" and ins.base == "fma"
    assert ins.operands == ("%f1", "%f2", "%f3", "0f3F800000")
    assert (ins.pred, ins.negated) == ("%p1", True)
    assert str(ins) == "@!%p1 fma.rn.ftz.f32 %f1, %f2, %f3, 0f3F800000"


@pytest.mark.parametrize(
    "text, operands",
    [
        ("ret;", ()),
        ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16];", ("{%f1, %f2, %f3, %f4}", "[%rd1+16]")),
        ("mov.b64 {%r1,%r2}, %rd1;", ("{%r1,%r2}", "%rd1")),
        ("setp.lt.s32 %p1|%p2, %r1, -5;", ("%p1|%p2", "%r1", "-5")),
        ("call.uni (retval0), f, (param0, param1);", ("(retval0)", "f", "(param0, param1)")),
        ("st.shared.f32 [tile+4], %f1;", ("[tile+4]", "%f1")),
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];", ("{%f1, %f2, %f3, %f4}", "[%rd1, {%r1}]")),
    ],
)
def test_operands(text, operands):
    (ins,) = body_of(text)
    assert ins.operands == operands


def test_several_statements_on_a_line_and_one_over_several_lines():
    assert spelled("add.s32 %r1, %r2, 1; sub.s32 %r1,\n  %r2,\n  3; ret;") == [
        "add.s32 %r1, %r2, 1",
        "sub.s32 %r1, %r2, 3",
        "ret ",
    ]


def test_labels_stand_wherever_c_allows():
    assert spelled("$L__BB0_1: ret;\n$A:\n$B: bra $A; $C: $D:") == [
        "$L__BB0_1:",
        "ret ",
        "$A:",
        "$B:",
        "bra $A",
        "$C:",
        "$D:",
    ]


def test_comments_and_strings():
    text = """
    // ret; }
    add.s32 %r1, %r1, 1; /* { ret;
    ; } */ add.s32 %r1, %r1, 2; // more } ;
    /* one */ ret; /* two */"""
    assert spelled(text) == ["add.s32 %r1, %r1, 1", "add.s32 %r1, %r1, 2", "ret "]
    files = parse(f'{HEAD}.file 1 "/a/*b*/k.cu"\n.file 2 "http://x//y.h"\n').files
    assert files == {1: "/a/*b*/k.cu", 2: "http://x//y.h"}


def test_directives_that_say_nothing_here():
    assert spelled('.pragma "nounroll";\n.loc 1 2 3\nret;') == ["ret "]


# --- declarations --------------------------------------------------------------------------------


def test_kernel_and_function_headers():
    module = parse(f"""{HEAD}
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, .param .b64 vprintf_param_1) ;
.func (.param .align 8 .b8 func_retval0[16]) _Z1fi(.param .b32 _Z1fi_param_0)
{{
 ret;
}}
.visible .entry _Z1kPf(
 .param .u64 .ptr .align 1 _Z1kPf_param_0,
 .param .align 8 .b8 _Z1kPf_param_1[24]
)
.maxntid 16, 8, 1
.minnctapersm 2
{{
 ret;
}}
""")
    prototype, function, kernel = (module.functions[n] for n in ("vprintf", "_Z1fi", "_Z1kPf"))
    assert prototype.body is None and [p.size for p in prototype.params] == [8, 8]
    assert not function.entry and function.returns[0].size == 16 and function.returns[0].is_array
    assert kernel.entry and kernel.max_threads == 128
    assert [(p.name, p.size, p.align, p.is_array) for p in kernel.params] == [
        ("_Z1kPf_param_0", 8, 8, False),
        ("_Z1kPf_param_1", 24, 8, True),
    ]


def test_variables_and_initialisers():
    module = parse(f"""{HEAD}
.global .align 4 .u32 n = 7;
.global .align 8 .u64 p[2] = {{generic(table)+8, 0}};
.const .align 4 .b8 table[12] = {{1, 0xff, -3}};
.global .align 4 .f32 x[2] = {{0f3F800000, 0fBF800000}};
.extern .shared .align 16 .b8 pool[];
.visible .global .align 4 .b8 grid[2][3];
""")
    v = module.variables
    assert (v["n"].size, v["n"].init) == (4, (7,))
    assert v["p"].init == (("symbol", "table", 8, True), 0) and v["p"].size == 16
    assert (v["table"].space, v["table"].size, v["table"].init) == ("const", 12, (1, 255, -3))
    assert v["x"].init == (0x3F800000, 0xBF800000)
    assert v["pool"].extern and v["pool"].size == 0 and v["pool"].align == 16
    assert v["grid"].size == 6


def test_registers_and_local_variables():
    function = parse(f"""{HEAD}.visible .entry k() {{
 .reg .pred %p<3>;
 .reg .b64 %SP;
 .reg .f32 %f<2>, %x;
 .local .align 16 .b8 __local_depot0[40];
 .shared .align 4 .b8 tile[32];
 add.f32 %f1, %f0, %f2;
 @%p2 mov.f32 %f01, %x;
}}""").functions["k"]
    # of a range those that it uses and that exist
    assert function.regs == {"%p2": "pred", "%SP": "b64", "%f0": "f32", "%f1": "f32", "%x": "f32"}
    assert [(v.space, v.size, v.align) for v in function.variables.values()] == [
        ("local", 40, 16),
        ("shared", 32, 4),
    ]


# --- scopes --------------------------------------------------------------------------------------


def test_names_of_inner_blocks_are_made_unique():
    body = body_of(
        ".reg .b32 %r<3>;\n{ .reg .b32 t; mov.u32 t, %tid.x; mov.u32 %r1, t; }\n"
        "{ .reg .b32 t; mov.u32 t, 2; }\n"
    )
    first, second, third = (i.operands for i in body)
    assert first[1] == "%tid.x" and first[0] == second[1] and third[0] != first[0]
    assert first[0].startswith("%t.")  # every register's name starts with %


def test_register_called_like_a_part_of_a_special_one():
    body = body_of("{ .reg .b32 x; mov.u32 x, %ctaid.x; }")
    assert body[0].operands[1] == "%ctaid.x"


def test_labels_of_inner_blocks_are_made_unique():
    block = "{ L: add.s32 %r1, %r1, 1;\n @%p1 bra L; @%p2 bra M; M: }\n"
    body = body_of(f"$start:\n{block}{block}bra $start;")
    labels = [i.name for i in body if isinstance(i, Label)]
    branches = [i.operands[0] for i in body if isinstance(i, Instruction) and i.base == "bra"]
    assert len(set(labels)) == 5 and branches == [*labels[1:5], "$start"]


def test_branch_tables():
    function = parse(
        f"{HEAD}.visible .entry k() {{\n"
        "{ ts: .branchtargets $A, $B;\nbrx.idx %r1, ts; }\n{ ts: .branchtargets $B;\nbrx.idx %r1, ts; }\n"
        "$A:\n$B: ret;\n}"
    ).functions["k"]
    assert function.tables == {"ts.0": ("$A", "$B"), "ts.1": ("$B",)}
    assert [i.operands[1] for i in function.body[:2]] == ["ts.0", "ts.1"]


def test_a_huge_range_of_registers_costs_nothing():
    (ins,) = body_of(".reg .b32 %r<1000000000>;\nadd.s32 %r999999998, %r7, 1;")
    assert ins.operands[0] == "%r999999998"
    with pytest.raises(Unsupported, match="1000000 PTX registers x in a block"):
        body_of("{ .reg .b32 x<1000000>; }")


def test_what_an_operand_is():
    (ins,) = body_of("st.shared.v2.f32 [tile+4], {%f1, 0f3F800000};")
    address, vector = ins.operands
    assert (address.base, type(address.base), address.offset) == ("tile", Symbol, 4)
    assert vector.parts[1].value == 0x3F800000 and vector.parts[1].format == "f32"
    assert vector.registers == ("%f1",) and address.registers == ()
    kinds = {
        text: type(operand(text))
        for text in "%r1 %tid.x _ -5 017 1e3 x+8 [%rd1+-4] !%p1 %r1|%p1 _|%p1 (a,b)".split()
    }
    assert list(kinds.values()) == [
        Register,
        Special,
        Sink,
        Immediate,
        Immediate,
        Immediate,
        Symbol,
        Address,
        Negated,
        Pair,
        Pair,
        Arguments,
    ]
    assert [operand(t).value for t in ("-5", "017", "0b101", "0x1FU", "WARP_SZ")] == [-5, 15, 5, 31, 32]
    assert (operand("[%rd1+-4]").offset, operand("[%rd1-4]").offset, operand("[16]").base.value) == (
        -4,
        -4,
        16,
    )
    for text in ("%%r1", "[%rd1", "{{{%r1", "!!!%p1", "[%r1, {%r2}]", "1" * 5000, "[%r1+" + "9" * 20 + "]"):
        assert not operand(text).registers or type(operand(text)) is not Register
        assert str(operand(text)) == text


# --- lines ---------------------------------------------------------------------------------------

LINES = """
.visible .entry k()
{
 .loc 1 7 0
 add.s32 %r1, %r1, 1;
 .loc 2 99 0, function_name $L__info_string0, inlined_at 1 8 3
 add.s32 %r1, %r1, 2;
 .loc 2 50 1
 add.s32 %r1, %r1, 3;
 .loc 1 0 0
 add.s32 %r1, %r1, 4;
 .loc 1 9 1
 ret;
}
.func f()
{
 add.s32 %r1, %r1, 5;
 .loc 2 60 1
 ret;
}
.file 1 "/home/me/kernel.cu"
.file 2 "/usr/include/header.h"
"""


def test_lines_are_the_students():
    functions = parse(HEAD + LINES, "kernel.cu").functions
    assert [i.at.line for i in functions["k"].body] == [7, 8, 8, 8, 9]
    assert {i.at.file for i in functions["k"].body} == {"kernel.cu"}
    assert [i.at for i in functions["f"].body] == [Location(), Location()]  # a header's function: no line


@pytest.mark.parametrize("flavour", ["debug", "fast"])
def test_lines_of_real_ptx(flavour):
    source = "\n".join(
        [
            "__device__ __noinline__ float get(const float* p, int i) {",
            "  return p[i];",
            "}",
            'extern "C" __global__ void k(float* a) {',
            "  int i = threadIdx.x;",
            "  atomicAdd(&a[i],",
            "            get(a, i + 1));",
            "}",
        ]
    )
    module = parse(compile_ptx(source, "kernel.cu", flavour).text, "kernel.cu")
    loads = {
        i.at.line
        for i in module.functions["_Z3getPKfi"].body
        if getattr(i, "base", "") == "ld" and "param" not in i.opcode
    }
    assert loads == {2}
    kernel = {i.at.line for i in module.functions["k"].body if isinstance(i, Instruction)}
    assert kernel <= {4, 5, 6, 7, 8} and {5, 6} <= kernel | {6}


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, what",
    [
        ("@@@;", "the PTX statement '@@@'"),
        ("} }", "PTX whose braces do not match"),
        ("{", "PTX whose braces do not match"),
        (".section .debug_info { .b8 1 }", "the PTX statement '.section .debug_info { .b8 1 }'"),
        (".texref t;", "the PTX directive .texref"),
        (".reg .q77 %x;", "the PTX declaration .reg .q77 %x"),
        ("ret }", "the PTX statement 'ret'"),
        (".reg .b32 %r<3>; .reg .b32 %r<5>;", "PTX with two registers %r"),
        (".reg .b32 %tid;", "the PTX register %tid"),
        (".local .b8 x[4]; .local .b8 x[8];", "PTX with two variables x"),
        (".visible .entry j() { ret; }", "PTX whose braces do not match"),
        (".;", "the PTX directive ."),
    ],
)
def test_what_is_not_understood_is_refused(text, what):
    with pytest.raises(Unsupported) as caught:
        body_of(text)
    assert caught.value.what == what


def test_outside_of_a_function():
    for text, what in (
        ("ret;", "the PTX statement 'ret'"),
        ("{ }", "a PTX block outside a function"),
        (".tex .u64 t;", "the PTX directive .tex"),
        (".global .b32 x = oops-1;", "the initialiser 'oops-1'"),
    ):
        with pytest.raises(Unsupported) as caught:
            parse(f"{HEAD}{text}\n")
        assert caught.value.what == what


def test_a_refusal_names_the_line():
    with pytest.raises(Unsupported) as caught:
        parse(f'{HEAD}.visible .entry k() {{\n.loc 1 12 3\n@@@;\n}}\n.file 1 "kernel.cu"')
    assert (caught.value.file, caught.value.line) == ("kernel.cu", 12)


def test_damaged_ptx_is_parsed_or_refused():
    """Nothing but Unsupported, whatever the text."""
    source = """
    extern "C" __global__ void k(const float* a, float* b, int n) {
      __shared__ float s[32];
      for (int i = 0; i < n; i++) s[threadIdx.x] += a[i];
      switch (n) { case 0: b[0] = 1; case 1: b[1] = 2; break; case 2: b[2] = 3; break; case 3: b[3] = 4; }
      if (n > 4) printf("%d\\n", n);
    }"""
    text = compile_ptx(source, "kernel.cu", "debug").text.split("\n\t.section")[0]
    lines = text.split("\n")
    rng = random.Random(1)
    for _ in range(150):
        damaged = list(lines)
        i = rng.randrange(8, len(lines))
        match rng.randrange(4):
            case 0:
                del damaged[i]
            case 1:
                damaged[i] = damaged[rng.randrange(8, len(lines))]
            case 2:
                at = rng.randrange(len(damaged[i]) + 1)
                damaged[i] = damaged[i][:at] + rng.choice('{}[]();,.%@!|+-:"0 ') + damaged[i][at:]
            case _:
                damaged[i] = re.sub(r"\w+", lambda m: m[0] if rng.random() < 0.7 else "", damaged[i])
        try:
            verify.run(parse("\n".join(damaged), "kernel.cu"), "kernel.cu")
        except Unsupported:
            pass


def test_a_label_in_front_of_a_vector_is_one_label():
    body = body_of("L: mov.b64 %rd1, {%r1, %r2}; bra L;")
    assert [type(item) for item in body] == [Label, Instruction, Instruction]
