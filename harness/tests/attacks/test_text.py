"""PTX that no compiler writes: names, sizes and numbers that are meant to confuse passes. All of it is
refused with a message, or becomes code that LLVM accepts; none of it is run here."""

from __future__ import annotations

import random

import llvmlite.binding as llvm
import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.analyse import debuginfo
from backwarp.devices.virtual.compile import pipeline
from backwarp.devices.virtual.compile.recipes import recipe
from backwarp.devices.virtual.ptx import parse
from backwarp.errors import CompileError, Unsupported

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;"

CHAIN = "".join(
    [f".func f{i}();" for i in range(1200)]
    + [f".func f{i}() {{{{ call f{i + 1}; ret; }}}}" for i in range(1199)]
    + [".func f1199() {{ {last} }}"]
)

#: (text before the kernel, text in it, the message, or None if it is lowered)
TEXTS = {
    # sizes
    "a billion registers": ("", ".reg .b32 %x<1000000000>; add.s32 %x999999999, %x0, 1;", None),
    "a billion registers in a block": ("", "{ .reg .b32 x<1000000000>; }", "1000000000 PTX registers x"),
    "a size that wraps to nothing": (".global .b8 g[4294967296][4294967296];", "", "bytes in global memory"),
    "a size that wraps to a byte": (".global .b8 g[18446744073709551617];", "", "the PTX declaration"),
    "local memory of 256 TiB": ("", ".local .b8 l[281474976710657]; st.local.u8 [l], 1;", "bytes in local memory"),
    "nine dimensions": ("", ".local .b8 l[99][99][99][99][99][99][99][99][99];", "bytes in local memory"),
    "a parameter by value of a gigabyte": (".func f(.param .b8 p[1073741824]) { ret; }", "", "in param memory"),
    "a .param variable of a gigabyte": ("", "{ .param .b8 p[1073741824]; }", "in param memory"),
    "many .param variables": ("", "{ .param .b8 p[4352]; }" * 100, "bytes of .param variables"),
    "parameters far apart": ("", None, "more than 4352 bytes of parameters"),
    "an alignment of three": ("", ".local .align 3 .b8 l[8];", "an alignment of 3"),
    "an alignment of a megabyte": (".shared .align 1048576 .b8 s[8];", "", "an alignment of"),
    "shared memory past its window": ("".join(f".shared .b8 s{i};" for i in range(900)),
                                      "".join(f"st.shared.u8 [s{i}], 1;" for i in range(900)), "900 shared variables"),
    "a million values": (f".global .b8 g[4] = {{{'1,' * 100_000}1}};", "", "the initial values"),
    # names
    "a register twice": ("", ".reg .b32 %r<9>;", "PTX with two registers %r"),
    "a register in two types": ("", ".reg .b32 %a; .reg .b64 %a;", "PTX with two registers %a"),
    "a register called like a special one": ("", ".reg .b32 %tid;", "PTX register %tid"),
    "a register called like the emitter's": ("", ".reg .pred %carry; addc.u32 %r1, %r2, %r3; setp.eq.u32 %carry, %r1, 1;", None),
    "a shared variable in two sizes": (".func f() { .shared .b8 s[8]; st.shared.u8 [s], 1; ret; }",
                                       ".shared .b8 s[4096]; st.shared.u8 [s+4095], 1; call f;", "PTX with two shared variables s"),
    "a variable that hides a parameter": ("", ".param .b32 k_param_0;", "PTX with two variables k_param_0"),
    "a variable like a function": (".func f() { ret; } .global .b8 f;", "", "both a variable and a function"),
    "functions of nothing": (".func f() { } .func g() { a: b: } .visible .entry j() { .reg .b32 %r<2>; }", "call f; call g;", None),
    "nothing but a call that is dropped": (
        ".func (.param .b64 r) f(.param .b64 a) { .reg .b64 %rd1; ld.param.b64 %rd1, [a]; st.param.b64 [r], %rd1; ret; }"
        " .visible .entry j() { .reg .b64 %rd1; .param .b64 x; .param .b64 y; st.param.b64 [x], %rd1; call (y), f, (x); }", "", None),
    "two functions": (".func f() { ret; } .func f(.param .b64 a) { ret; }", "call f;", "PTX with two functions f"),
    "a function declared in another way": (".func f(.param .b8 a[4000]); .func f(.param .b32 a) { ret; }",
                                           "{ .param .b8 x[4000]; call f, (x); }", "4000 bytes, and the parameter 4"),
    "a label of the emitter's": ("", "bra dead; begin: dead: return: finish: slow: bra entry; entry: ret;", None),
    "a label twice": ("", "a: a: bra a;", "PTX with two labels"),
    "a function called like the runtime's": (".func rt_check() { ret; }", "call rt_check;", None),
    "a name with a quote": (".global .b8 a\"b;", "", "the PTX declaration"),
    # what is there, and what is not
    "a kernel without a body": (".entry j();", "", "without a body"),
    "a kernel that is called": ("", "call k;", "there is no such function"),
    "the address of a kernel": ("", "mov.u64 %rd1, k;", "takes the address of k"),
    "a function of the system": (".extern .func (.param .b32 r) system (.param .b64 p);",
                                 "{ .param .b32 r; .param .b64 p; call (r), system, (p); }", "system() is called here"),
    "a mark of the compiler's own": ("", "runtime rt_fault, 1;", "the PTX instruction `runtime"),
    "another mark": ("", "note Env.arena, 0;", "the PTX instruction `note"),
    "a table of nothing": ("", "ts: .branchtargets ; brx.idx %r1, ts;", "whose target is missing"),
    "a table of another function": (".func f() { ts: .branchtargets A; A: ret; }", "brx.idx %r1, ts;", "whose target is missing"),
    "a label of another function": (".func f() { A: ret; }", "bra A;", "whose target is missing"),
    "a prototype that is not there": ("", "call %rd1, (), nothing;", "whose prototype is missing"),
    # numbers
    "octal digits": ("", "{ .param .b8 p[512]; ld.param.u8 %r1, [p+01000]; }", "leaves the 512 bytes"),
    "hexadecimal digits": ("", "{ .param .b8 p[512]; ld.param.u8 %r1, [p+0x200]; }", "leaves the 512 bytes"),
    "binary digits": ("", "{ .param .b8 p[4]; ld.param.u8 %r1, [p+0b100]; }", "leaves the 4 bytes"),
    "before the start": ("", "{ .param .b8 p[4]; st.param.u8 [p + -1], %rs1; }", "leaves the 4 bytes"),
    "minus": ("", "{ .param .b8 p[4]; st.param.u8 [p - 1], %rs1; }", "leaves the 4 bytes"),
    "a vector over the end": ("", "{ .param .b8 p[12]; ld.param.v4.u32 {%r1,%r2,%r3,%r4}, [p]; }", "leaves the 12 bytes"),
    "an octal size of a copy": ("", "cp.async.ca.shared.global [%r1], [%rd1], 011;", "which copies 16 bytes"),
    "a truth table past its bits": ("", "lop3.b32 %r1, %r2, %r3, %r4, 4294967295;", None),
    "a number of many digits": ("", f"mov.u32 %r1, {'7' * 400};", "is not one that PTX has"),
    "a decimal without an end": ("", f"mov.f64 %rd1, {'1' * 399}.{'1' * 399}e9999;", None),
    # calls
    "a result that is smaller": (".func (.param .b8 r[64]) f() { ret; }", "{ .param .b8 s[4]; call (s), f; }", "4 bytes, and the parameter 64"),
    "an argument that is smaller": (".func f(.param .b8 a[64]) { ret; }", "{ .param .b8 s[4]; call f, (s); }", "4 bytes, and the parameter 64"),
    "an argument from a register": (".func f(.param .v4 .b64 a) { ret; }", "call f, (%rd1);", "must be"),
    "a result that nothing stores": (".func (.param .b32 r) f() { ret; }", "{ .param .b32 s; call (s), f; ld.param.u32 %r1, [s]; }", None),
    "a chain of calls to what is refused": (CHAIN.format(last="foo.bar;"), "call f0;", "foo.bar"),
    # parameters whose address is taken
    "a parameter of a gigabyte by address": (".func f(.param .b8 p[1073741824]) { .reg .b64 %rd1; mov.u64 %rd1, p; ret; }", "", "in param memory"),
    "parameters of bytes by address": ("".join(f".func f{i}(.param .b8 p[4352]) {{ .reg .b64 %rd1; mov.u64 %rd1, p; ret; }}" for i in range(3)), "", None),
    "a parameter aligned to three by address": (".func f(.param .align 3 .b8 p[9]) { .reg .b64 %rd1; mov.u64 %rd1, p; ret; }", "", "an alignment of 3"),
    "a result by address": (".func (.param .b8 r[64]) f() { .reg .b64 %rd1; mov.u64 %rd1, r; ret; }", "", "the address of the parameter r"),
    "a parameter by address in 32 bits": (".func f(.param .b8 p[64]) { .reg .b32 %r1; mov.u32 %r1, p; st.local.u32 [%r1+64], 1; ret; }", "", None),
    "a parameter and its copy's name": (".func f(.param .b8 p[64]) { .reg .b64 %rd1; .local .b8 p.copy[4]; mov.u64 %rd1, p; ret; }", "", "the PTX declaration"),
    "a parameter like a local variable": (".func f(.param .b8 p[64]) { .reg .b64 %rd1; .local .b8 p[4]; mov.u64 %rd1, p; st.local.u32 [p+60], 1; ret; }", "", "two variables p"),
    "a parameter called, and its address taken": (".func f(.param .b8 p[64]) { .reg .b64 %rd1; mov.u64 %rd1, p; call f, (p); ret; }", "", "must be a .param variable"),
    "a store through the name of a copy": (".func f(.param .b8 p[8]) { .reg .b64 %rd1; mov.u64 %rd1, p; st.param.u32 [p.copy+8], 1; st.local.u32 [p.copy+99999], 1; ret; }", "", "is not one of param memory"),
    # braces, comments, sections
    "a brace too many": ("", "} } {", "braces do not match"),
    "a comment without an end": ("", "/* ret;", "PTX"),
    "a section of its own": ("", "ret;\n\t.section .debug_abbrev { .b8 1 }\n\t.section .debug_info { .b8 255, 255 }\n", "braces do not match"),
    "a directive of another compiler": ("", ".alias f, g;", "the PTX directive .alias"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("checks", ["full", "memory"])
@pytest.mark.parametrize("name", TEXTS)
def test_refused_or_lowered(name, checks):
    before, body, says = TEXTS[name]
    formals = ".param .b64 k_param_0"
    if body is None:
        formals, body = ".param .b8 a, .param .align 4096 .b8 b, .param .align 4096 .b8 c", ""
    text = f"{HEAD}{before}\n.visible .entry k({formals}) {{\n{REGISTERS}\n{body}\nret;\n}}\n"
    if says is None:
        lowered = pipeline.lower(text, "kernel.cu", recipe(checks), 1 << 32)
        llvm.parse_assembly(lowered.text).verify()
        return
    with pytest.raises((Unsupported, CompileError)) as caught:
        pipeline.lower(text, "kernel.cu", recipe(checks), 1 << 32)
    assert says in getattr(caught.value, "what", str(caught.value))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("checks", ["full", "memory"])
def test_calls_a_thousand_deep(checks):
    """Passes that follow calls may give up, with a message."""
    text = f"{HEAD}{CHAIN.format(last='ret;')}\n.visible .entry k() {{\ncall f0;\nret;\n}}\n"
    try:
        lowered = pipeline.lower(text, "kernel.cu", recipe(checks), 1 << 32)
        llvm.parse_assembly(lowered.text).verify()
    except Unsupported as error:
        assert "nested hundreds deep" in error.what


@pytest.mark.parametrize("change", range(12))
def test_damaged_sections_for_debuggers_say_nothing(change):
    """They are read, to name variables; `asm` can put anything before and into them."""
    source = 'extern "C" __global__ void k(int* x, int n) { int a[4] = {1, 2, 3, n}, b[3] = {n, 4, 5}; x[0] = a[n] + b[n & 1]; }'
    text = compile_ptx(source, "kernel.cu", "debug").text
    code, mark, sections = text.partition("\n\t.section")
    rng, lines = random.Random(change), sections.split("\n")
    for _ in range(1 + 4 * change):
        at = rng.randrange(len(lines))
        lines[at] = rng.choice(
            ("", ".b8 255", ".b8 0", ".b64 k", ".b32 .debug_loc+9999", lines[rng.randrange(len(lines))])
        )
    text = code + mark + "\n".join(lines)
    variables = debuginfo.variables(parse.parse(text).debug)
    assert isinstance(variables, tuple) and isinstance(debuginfo.in_registers(parse.parse(text).debug), dict)
    try:
        lowered = pipeline.lower(text, "kernel.cu", recipe("full"), 1 << 32)
        llvm.parse_assembly(lowered.text).verify()
    except Unsupported as error:
        assert error.what


def test_a_list_of_places_without_an_end_ends():
    info = ".b32 9\n.b8 2,0\n.b32 .debug_abbrev\n.b8 8,1\n.b32 .debug_loc\n.b8 0"
    abbreviations = ".b8 1,5,0,2,6,0,0,0"
    sections = f".section .debug_abbrev {{ {abbreviations} }} .section .debug_info {{ {info} }} .section .debug_loc {{ .b8 1,2 }}"
    assert debuginfo.in_registers(sections) == {}
