"""The opcode table as a whole: every row is tested and accepted by LLVM, and nothing else is accepted."""

from __future__ import annotations

import importlib
import re

import llvmlite.binding as llvm
import pytest

from backwarp.devices.virtual.compile import pipeline
from backwarp.devices.virtual.compile.recipes import RECIPES, recipe
from backwarp.devices.virtual.emit.table import ROWS
from backwarp.devices.virtual.ptx.isa import CLASSES
from backwarp.devices.virtual.ptx.spellings import find
from backwarp.errors import Unsupported
from tests.conformance.ptx_rows import Case, batches, kernel, module

TABLES = ("integers", "floats", "half", "comparisons", "conversions")


def spellings(pattern: str) -> list[str]:
    """All spellings of a row's pattern."""
    pattern = re.sub(r"<(\w+)>", lambda m: f"({CLASSES[m[1]]})", pattern)
    return _alternatives(pattern, 0)[0]


def _alternatives(text: str, i: int) -> tuple[list[str], int]:
    done, current = [], [""]
    while i < len(text) and text[i] not in ")}":
        if text[i] in "({":
            inner, end = _alternatives(text, i + 1)
            inner = inner if text[i] == "(" else ["", *inner]
            current = [head + tail for head in current for tail in inner]
            i = end
        elif text[i] == "|":
            done, current = done + current, [""]
        else:
            current = [head + text[i] for head in current]
        i += 1
    return done + current, i


def types(opcode: str) -> str:
    """The types of an instruction's operands and result, as a Case has them."""
    roles = max(find(opcode).roles.items())[1]
    result = next(role.type for role in roles if role.written)
    return f"{' '.join(role.type for role in roles if not role.written)} -> {result}"


def own_rows() -> list:
    """The rows of instructions that compute a value from operands: no marks, and nothing about a thread itself."""
    rows = (row for rows in ROWS.values() for row in rows)
    found = ((row, find(spellings(row.pattern)[0])) for row in rows)
    return [row for row, op in found if op.facts.isdisjoint({"mark", "own"}) and max(op.roles) > 1]


def test_every_row_is_tested():
    tables = [importlib.import_module(f"tests.conformance.test_{name}") for name in TABLES]
    tested = {
        o for table in tables for cases in table.GROUPS.values() for case in cases for o in case.opcodes
    }
    untested = [row.pattern for row in own_rows() if not any(map(row.regex.fullmatch, tested))]
    assert not untested


def test_every_spelling_is_in_one_row_only():
    seen: dict[str, str] = {}
    for row in (row for rows in ROWS.values() for row in rows):
        for opcode in spellings(row.pattern):
            assert opcode not in seen, f"{opcode} is in {seen[opcode]} and {row.pattern}"
            seen[opcode] = row.pattern
            assert row.regex.fullmatch(opcode)
    assert len(seen) > 4000


def lower(opcodes, lanes: int) -> None:
    """Lowered and verified, not run."""
    cases = []
    for opcode in opcodes:
        if not opcode.startswith("lop3") and not _is_refused(opcode):
            wanted = types(opcode)
            names = ", ".join("abcc"[: len(wanted.split(" ->")[0].split())])  # bfi has four
            cases.append(Case(f"{opcode} d, {names}", wanted))
    kernels = [kernel(f"k{i}", batch, 1, operands[:3]) for i, (operands, batch) in enumerate(batches(cases))]
    lowered = pipeline.lower(module(kernels), "kernel.ptx", recipe("none", lanes=lanes), 1 << 30)
    llvm.parse_assembly(lowered.text).verify()


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_every_spelling_becomes_valid_llvm(every):
    lower([o for row in own_rows() for o in spellings(row.pattern)[::every]], lanes=1)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_the_first_and_last_spellings_of_a_row_become_valid_llvm_of_lanes(every):
    found = [spellings(row.pattern) for row in own_rows()]
    lower([o for some in found for o in (some if every else dict.fromkeys((some[0], some[-1])))], lanes=0)


def _is_refused(opcode: str) -> bool:
    """cvt.sat where no value is out of range."""
    match = re.fullmatch(r"cvt\.sat\.([us])(\d+)\.([us])(\d+)", opcode)
    if not match:
        return False
    to, n, source, m = match[1], int(match[2]), match[3], int(match[4])
    return n >= m if to == source else to == "s" and n > m


#: not PTX, or not of compute capability 8.0, or not of this virtual GPU
REFUSED = """
    add.foo.s32 d, a, b; add.sat.u32 d, a, b; add.ftz.s32 d, a, b; add.s8 d, a, b;
    add.sat.f64 g, g, g; add.rna.f32 f, f, f; add.bf16 h, h, h; add.rz.f16 h, h, h; add.s32 d, a, b, c;
    add.s32 d, a; add.u16x2 d, a, b; add.s32.s32 d, a, b; add d, a, b; sub.relu.s32 d, a, b;
    mul.s32 d, a, b; mul.wide.s64 x, x, x; mad.wide.f32 f, f, f, f; fma.f32 f, f, f, f;
    fma.rn.oob.f16 h, h, h, h; fma.rn.relu.f32 f, f, f, f; div.f32 f, f, f; div.approx.f64 g, g, g;
    sqrt.approx.f64 g, g; sqrt.f32 f, f; rcp.approx.f64 g, g; sin.f32 f, f; sin.approx.f64 g, g;
    ex2.approx.ftz.f16 h, h; ex2.approx.ftz.bf16 h, h; tanh.approx.bf16 h, h; tanh.f32 f, f;
    min.xorsign.abs.f32 f, f, f; min.f32 f, f, f, f; max.relu.s32 d, a, b; min.u16x2 d, a, b;
    min.NaN.f64 g, g, g; neg.u32 d, a; abs.s8 d, a; and.u32 d, a, b; and.b8 d, a, b; shl.u32 d, a, b;
    shl.b32.wrap d, a, b; shf.l.b32 d, a, b, c; shf.l.wrap.b64 x, x, x, a; bfe.b32 d, a, b, c;
    bfi.s32 d, a, b, b, c; popc.b16 h, h; prmt.b32.foo d, a, b, c; prmt.b64 x, x, x, a;
    lop3.b64 d, a, b, c, 1; lop3.b32 d, a, b, c, b; lop3.xor.b32 d|p, a, b, c, 1, p; setp.lt.b32 p, a, b;
    setp.lo.s32 p, a, b; setp.ltu.s32 p, a, b; setp.lt.nand.s32 p, a, b, p; setp.lt.and.s32 p, a, b;
    setp.lt.s32 p, a, b, p; setp.eq.bf16 p, h, h; setp.lt.ftz.f64 p, g, g; set.lt.u64.s32 x, a, b;
    set.lt.f64.s32 g, a, b; selp.f16 h, h, h, p; selp.pred p, p, p, p; slct.s32.u32 d, a, b, c;
    slct.ftz.s32.s32 d, a, b, c; testp.zero.f32 p, f; testp.normal.f16 p, h; copysign.f16 h, h, h;
    cvt.f32.s32 f, a; cvt.rn.s32.f32 d, f; cvt.rni.f32.s32 f, a; cvt.rn.f32.f16 f, h; cvt.f16.f32 h, f;
    cvt.rn.bf16.s32 h, a; cvt.rm.bf16.f32 h, f; cvt.rn.tf32.f32 d, f; cvt.rs.f16x2.f32 d, f, f, a;
    cvt.ftz.f64.f16 g, h; cvt.sat.s32.s16 d, h; cvt.rn.f16x2.e4m3x2 d, h;
    cvt.rn.satfinite.e4m3x2.f32 h, f, f; cvt.pack.sat.u16.s32 d, a, b; vadd.s32.s32.s32 d, a, b;
    vset4.u32.u32.lt d, a, b, c; vadd4.u32.u32.u32.sat.add d, a, b, c; vadd4.u32.u32.u32 d, a.b0123, b, c;
    dp4a.s8.s8 d, a, b, c; mad24.lo.sat.s32 d, a, b, c; addc.u16 h, h, h; mad.lo.sat.s32 d, a, b, c;
    tex.1d.v4.f32.u32 {d, a, b, c}, [x, {a}]; frobnicate.u32 d, a;
"""


@pytest.mark.parametrize("instruction", [part.strip() for part in REFUSED.split(";") if part.strip()])
def test_unknown_spellings_are_refused_by_name_and_line(instruction):
    registers = {"b32": "abcd", "f32": "f", "f64": "g", "b16": "h", "b64": "x", "pred": "p"}
    declared = " ".join(f".reg .{type_} %{name};" for type_, names in registers.items() for name in names)
    text = re.sub(r"(?<![\w.])([a-dfghxp])(?!\w)", r"%\1", instruction)
    body = f'.visible .entry k()\n{{\n{declared}\n.loc 1 17 0\n{text};\nret;\n}}\n.file 1 "kernel.cu"\n'
    with pytest.raises(Unsupported) as caught:
        pipeline.lower(module([body]), "kernel.cu", RECIPES["none"], 1 << 30)
    assert caught.value.line == 17
    assert text.split()[0] in str(caught.value) or "%a.b0123" in str(caught.value)
