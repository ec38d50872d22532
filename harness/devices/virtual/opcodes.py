"""THE table: PTX opcode -> LLVM, for every instruction that only computes.

A row's pattern is written in the manual's notation: `{...}` may be left out, `<int>` is a class of
types. A spelling that no row matches is `Unsupported`, so a modifier can never be ignored.
A row's body is LLVM text, instructions separated by `;`: `{d}` is never named, the last instruction is the
result; `{a}`, `{b}`, `{c}` are the operands read as the row's type `{t}`, `{0}`, `{1}` earlier
results. What needs more than text is a short function of (emitter, instruction, modifiers).

Source: PTX ISA, section 9.7.1 to 9.7.9 (the section of each group stands beside it).
"""

from __future__ import annotations

import re
from functools import cache

from .types import LLVM_BITS, TYPES, is_float, is_signed, llvm_type

CLASSES = {
    "int": "u16|s16|u32|s32|u64|s64",
    "int32": "u32|s32",
    "int64": "u64|s64",
    "int16_32": "u16|s16|u32|s32",
    "unsigned": "u16|u32|u64",
    "signed": "s16|s32|s64",
    "bits": "b16|b32|b64",
    "bits32": "b32|b64",
    "any": "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f16|bf16|f32|f64",
    "float": "f32|f64",
    "half": "f16|f16x2",
    "number": "u8|s8|u16|s16|u32|s32|u64|s64|f16|bf16|f32|f64",
    "directed": "rz|rm|rp",
    "intcmp": "eq|ne|lt|le|gt|ge|lo|ls|hi|hs",
    "floatcmp": "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan",
    "bool": "and|or|xor",
}

_ROWS: dict[str, list[tuple[re.Pattern, object]]] = {}


def row(*patterns: str):
    """Register patterns for a body: `row("add.<int>")("add {t} {a}, {b}")`, or as a decorator."""

    def register(body):
        for pattern in patterns:
            base = re.match(r"\w+", pattern)[0]
            _ROWS.setdefault(base, []).append((_compile(pattern), body))
        return body

    return register


def _compile(pattern: str) -> re.Pattern:
    text = re.escape(pattern).replace(r"\{", "(?:").replace(r"\}", ")?").replace(r"\|", "|")
    text = re.sub(r"<(\w+)>", lambda m: f"(?:{CLASSES[m[1]]})", text.replace(r"\<", "<").replace(r"\>", ">"))
    return re.compile(text.replace(r"\(", "(?:").replace(r"\)", ")"))


@cache
def find(opcode: str):
    """The body of the row for a full opcode spelling, or None."""
    for pattern, body in _ROWS.get(opcode.split(".", 1)[0], ()):
        if pattern.fullmatch(opcode):
            return body
    return None


def emit(e, ins) -> bool:
    """Lower one instruction through the table. False: the table has no such row."""
    body = find(ins.opcode)
    if body is None:
        return False
    mods = ins.opcode.split(".")[1:]
    if callable(body):
        body(e, ins, mods)
        return True
    type_ = mods[-1]
    values = {name: e.value(op, type_) for name, op in zip("abc", ins.operands[1:], strict=False)}
    if "ftz" in mods:
        values = {name: flush(e, v, type_) for name, v in values.items()}
    result = expand(e, body, type_, **values)
    if "ftz" in mods:
        result = flush(e, result, type_)
    if "sat" in mods and is_float(type_):
        result = saturate(e, result, type_)
    e.set(ins.operands[0], result, type_)
    return True


def expand(e, body: str, type_: str, **values: str) -> str:
    """Emit the instructions of a template; returns the last result."""
    t, bits = TYPES[type_]
    suffix = {"half": "f16", "float": "f32", "double": "f64", "<2 x half>": "v2f16"}.get(t, f"i{bits}")
    results: list[str] = []
    for line in body.split(";"):
        results.append(e.emit(line.strip().format(*results, t=t, n=bits, s=suffix, top=bits - 1, **values)))
    return results[-1]


def flush(e, value: str, type_: str) -> str:
    """Subnormal -> zero of the same sign (.ftz)."""
    t = llvm_type(type_)
    if t != "float":
        return value
    return expand(e, "call {t} @llvm.fabs.{s}({t} {a}); fcmp olt {t} {0}, 0x3810000000000000;"
                     "call {t} @llvm.copysign.{s}({t} 0.0, {t} {a}); select i1 {1}, {t} {2}, {t} {a}",
                  type_, a=value)  # fmt: skip


def saturate(e, value: str, type_: str) -> str:
    """Clamp to [0, 1]; NaN -> 0 (.sat)."""
    return expand(e, "fcmp ogt {t} {a}, 0.0; select i1 {0}, {t} {a}, {t} 0.0; fcmp olt {t} {1}, 1.0;"
                     "select i1 {2}, {t} {1}, {t} 1.0", type_, a=value)  # fmt: skip


# -- 9.7.1 integer arithmetic, 9.7.8 logic and shift ------------------------------------------------

row("add.<int>")("add {t} {a}, {b}")
row("sub.<int>")("sub {t} {a}, {b}")
row("mul.lo.<int>")("mul {t} {a}, {b}")
row("mad.lo.<int>")("mul {t} {a}, {b}; add {t} {0}, {c}")
row("add.sat.s32")("call i32 @llvm.sadd.sat.i32(i32 {a}, i32 {b})")
row("sub.sat.s32")("call i32 @llvm.ssub.sat.i32(i32 {a}, i32 {b})")
row("neg.<signed>")("sub {t} 0, {a}")
row("abs.<signed>")("call {t} @llvm.abs.{s}({t} {a}, i1 false)")
row("min.<signed>")("call {t} @llvm.smin.{s}({t} {a}, {t} {b})")
row("max.<signed>")("call {t} @llvm.smax.{s}({t} {a}, {t} {b})")
row("min.<unsigned>")("call {t} @llvm.umin.{s}({t} {a}, {t} {b})")
row("max.<unsigned>")("call {t} @llvm.umax.{s}({t} {a}, {t} {b})")
row("and.<bits>", "and.pred")("and {t} {a}, {b}")
row("or.<bits>", "or.pred")("or {t} {a}, {b}")
row("xor.<bits>", "xor.pred")("xor {t} {a}, {b}")
row("not.<bits>", "not.pred")("xor {t} {a}, -1")
row("cnot.<bits>")("icmp eq {t} {a}, 0; zext i1 {0} to {t}")
row("brev.<bits32>")("call {t} @llvm.bitreverse.{s}({t} {a})")


def _wide(type_: str) -> tuple[str, str, str]:
    """(narrow LLVM type, wide LLVM type, extension) for double-width arithmetic."""
    t, bits = TYPES[type_]
    return t, f"i{2 * bits}", "sext" if is_signed(type_) else "zext"


def _double_width(e, ins, type_: str) -> str:
    t, w, ext = _wide(type_)
    a, b = (e.cast(ext, t, e.value(o, type_), w) for o in ins.operands[1:3])
    return e.op(f"mul {w}", a, b)


@row("mul.hi.<int>", "mad.hi.<int>")
def _mul_hi(e, ins, mods):
    type_ = mods[-1]
    t, w, _ = _wide(type_)
    high = e.op(f"lshr {w}", _double_width(e, ins, type_), TYPES[type_][1])
    result = e.cast("trunc", w, high, t)
    if ins.base == "mad":
        result = e.op(f"add {t}", result, e.value(ins.operands[3], type_))
    e.set(ins.operands[0], result, type_)


@row("mul.wide.<int16_32>", "mad.wide.<int16_32>")
def _mul_wide(e, ins, mods):
    type_ = mods[-1]
    wide = f"{type_[0]}{2 * TYPES[type_][1]}"
    result = _double_width(e, ins, type_)
    if ins.base == "mad":
        result = e.op(f"add {llvm_type(wide)}", result, e.value(ins.operands[3], wide))
    e.set(ins.operands[0], result, wide)


@row("mul24.lo.<int32>", "mad24.lo.<int32>")
def _mul24(e, ins, mods):
    type_ = mods[-1]
    shift = "ashr" if is_signed(type_) else "lshr"
    a, b = (e.op(f"{shift} i32", e.op("shl i32", e.value(o, type_), 8), 8) for o in ins.operands[1:3])
    result = e.op("mul i32", a, b)
    if ins.base == "mad24":
        result = e.op("add i32", result, e.value(ins.operands[3], type_))
    e.set(ins.operands[0], result, type_)


@row("div.<int>", "rem.<int>")
def _divide(e, ins, mods):
    """x / 0 is all ones, x % 0 is x, INT_MIN / -1 is INT_MIN: as NVIDIA's hardware, and never a CPU trap."""
    type_ = mods[-1]
    t, bits = TYPES[type_]
    a, b = e.value(ins.operands[1], type_), e.value(ins.operands[2], type_)
    op = ("s" if is_signed(type_) else "u") + ins.base
    zero = e.op(f"icmp eq {t}", b, 0)
    unsafe = zero
    if is_signed(type_):
        lowest = e.op(f"icmp eq {t}", a, -(1 << bits - 1))
        minus = e.op(f"icmp eq {t}", b, -1)
        unsafe = e.op("or i1", zero, e.op("and i1", lowest, minus))
    divisor = e.emit(f"select i1 {unsafe}, {t} 1, {t} {b}")
    result = e.op(f"{op} {t}", a, divisor)
    result = e.emit(f"select i1 {zero}, {t} {'-1' if ins.base == 'div' else a}, {t} {result}")
    e.set(ins.operands[0], result, type_)


@row("shl.<bits>", "shr.<bits>", "shr.<int>")
def _shift(e, ins, mods):
    """Shift amounts are unsigned 32-bit and clamp at the width."""
    type_ = mods[-1]
    t, bits = TYPES[type_]
    a, n = e.value(ins.operands[1], type_), e.value(ins.operands[2], "u32")
    op = "shl" if ins.base == "shl" else "ashr" if is_signed(type_) else "lshr"
    limit = e.emit(f"call i32 @llvm.umin.i32(i32 {n}, i32 {bits - 1})")
    amount = e.resize(limit, "i32", t)
    result = e.op(f"{op} {t}", a, amount)
    if op != "ashr":
        fits = e.op("icmp ult i32", n, bits)
        result = e.emit(f"select i1 {fits}, {t} {result}, {t} 0")
    e.set(ins.operands[0], result, type_)


@row("shf.(l|r).(wrap|clamp).b32")
def _funnel_shift(e, ins, mods):
    low, high, n = (e.value(o, "b32") for o in ins.operands[1:4])
    if mods[1] == "wrap":
        n = e.op("and i32", n, 31)
    else:
        n = e.emit(f"call i32 @llvm.umin.i32(i32 {n}, i32 32)")
    wide = e.cast("zext", "i32", high, "i64")
    both = e.op("or i64", e.op("shl i64", wide, 32), e.cast("zext", "i32", low, "i64"))
    amount = e.cast("zext", "i32", n, "i64")
    if mods[0] == "l":
        both = e.op("lshr i64", e.op("shl i64", both, amount), 32)
    else:
        both = e.op("lshr i64", both, amount)
    e.set(ins.operands[0], e.cast("trunc", "i64", both, "i32"), "b32")


@row("popc.<bits32>", "clz.<bits32>")
def _count(e, ins, mods):
    t, bits = TYPES[mods[-1]]
    a = e.value(ins.operands[1], mods[-1])
    call = f"@llvm.ctpop.{t}({t} {a})" if ins.base == "popc" else f"@llvm.ctlz.{t}({t} {a}, i1 false)"
    e.set(ins.operands[0], e.resize(e.emit(f"call {t} {call}"), t, "i32"), "u32")


@row("bfind{.shiftamt}.<int32>", "bfind{.shiftamt}.<int64>")
def _bfind(e, ins, mods):
    type_ = mods[-1]
    t, bits = TYPES[type_]
    a = e.value(ins.operands[1], type_)
    if is_signed(type_):
        a = e.op(f"xor {t}", a, e.op(f"ashr {t}", a, bits - 1))
    zeros = e.resize(e.emit(f"call {t} @llvm.ctlz.{t}({t} {a}, i1 false)"), t, "i32")
    found = zeros if "shiftamt" in mods else e.op("sub i32", bits - 1, zeros)
    none = e.op(f"icmp eq {t}", a, 0)
    e.set(ins.operands[0], e.emit(f"select i1 {none}, i32 -1, i32 {found}"), "u32")


@row("bfe.<int32>", "bfe.<int64>")
def _bit_field_extract(e, ins, mods):
    """Field of `len` bits at `pos`, sign-extended from its top bit, or from the value's where it runs out."""
    type_ = mods[-1]
    t, bits = TYPES[type_]
    a = e.value(ins.operands[1], type_)
    pos, length = (e.resize(e.op("and i32", e.value(o, "u32"), 255), "i32", "i64") for o in ins.operands[2:4])
    ext = "sext" if is_signed(type_) else "zext"
    wide = e.emit(f"{ext} {t} {a} to i128")
    field = e.op(f"{'ashr' if is_signed(type_) else 'lshr'} i128", wide, _clamped(e, pos, 127))
    drop = e.op("sub i128", 128, _clamped(e, length, 127))
    empty = e.op("icmp eq i64", length, 0)
    drop = e.emit(f"select i1 {empty}, i128 127, i128 {drop}")
    field = e.op(f"{'ashr' if is_signed(type_) else 'lshr'} i128", e.op("shl i128", field, drop), drop)
    result = e.cast("trunc", "i128", field, t)
    e.set(ins.operands[0], e.emit(f"select i1 {empty}, {t} 0, {t} {result}"), type_)


def _clamped(e, value: str, limit: int) -> str:
    return e.cast("zext", "i64", e.emit(f"call i64 @llvm.umin.i64(i64 {value}, i64 {limit})"), "i128")


@row("bfi.b32", "bfi.b64")
def _bit_field_insert(e, ins, mods):
    t, bits = TYPES[mods[-1]]
    a, b = e.value(ins.operands[1], mods[-1]), e.value(ins.operands[2], mods[-1])
    pos, length = (e.resize(e.op("and i32", e.value(o, "u32"), 255), "i32", "i64") for o in ins.operands[3:5])
    pos, length = _clamped(e, pos, 64), _clamped(e, length, 64)
    ones = e.op("sub i128", e.op("shl i128", 1, length), 1)
    mask = e.cast("trunc", "i128", e.op("shl i128", ones, pos), t)
    wide = e.cast("zext", t, a, "i128")
    field = e.cast("trunc", "i128", e.op("shl i128", wide, pos), t)
    kept = e.op(f"and {t}", b, e.op(f"xor {t}", mask, -1))
    e.set(ins.operands[0], e.op(f"or {t}", kept, e.op(f"and {t}", field, mask)), mods[-1])


@row("prmt.b32")
def _permute_bytes(e, ins, mods):
    """Default mode: nibble i of the selector picks byte i of the result; its top bit replicates the sign."""
    a, b, selector = (e.value(o, "b32") for o in ins.operands[1:4])
    both = e.op("or i64", e.op("shl i64", e.cast("zext", "i32", b, "i64"), 32), e.cast("zext", "i32", a, "i64"))  # fmt: skip
    result = "0"
    for i in range(4):
        nibble = e.op("lshr i32", selector, 4 * i)
        shift = e.op("shl i32", e.op("and i32", nibble, 7), 3)
        byte = e.cast("trunc", "i64", e.op("lshr i64", both, e.cast("zext", "i32", shift, "i64")), "i8")
        sign = e.op("ashr i8", byte, 7)
        replicate = e.op("icmp ne i32", e.op("and i32", nibble, 8), 0)
        byte = e.cast("zext", "i8", e.emit(f"select i1 {replicate}, i8 {sign}, i8 {byte}"), "i32")
        result = e.op("or i32", result, e.op("shl i32", byte, 8 * i))
    e.set(ins.operands[0], result, "b32")


@row("lop3.b32")
def _lop3(e, ins, mods):
    """Any function of three bits, by its truth table: or of the minterms that are set."""
    a, b, c = (e.value(o, "b32") for o in ins.operands[1:4])
    table = int(ins.operands[4], 0)
    inverse = {v: e.op("xor i32", v, -1) for v in (a, b, c)}
    result = "0"
    for i in range(8):
        if table >> i & 1:
            x, y, z = (v if i >> k & 1 else inverse[v] for v, k in ((a, 2), (b, 1), (c, 0)))
            result = e.op("or i32", result, e.op("and i32", x, e.op("and i32", y, z)))
    e.set(ins.operands[0], result, "b32")


@row("sad.<int>")
def _sad(e, ins, mods):
    type_ = mods[-1]
    k = "s" if is_signed(type_) else "u"
    a, b, c = (e.value(o, type_) for o in ins.operands[1:4])
    body = f"call {{t}} @llvm.{k}max.{{s}}({{t}} {{a}}, {{t}} {{b}}); call {{t}} @llvm.{k}min.{{s}}({{t}} {{a}}, {{t}} {{b}});"
    result = expand(e, body + "sub {t} {0}, {1}; add {t} {2}, {c}", type_, a=a, b=b, c=c)
    e.set(ins.operands[0], result, type_)


@row("add.cc.<int32>", "addc{.cc}.<int32>", "sub.cc.<int32>", "subc{.cc}.<int32>", "mad.(lo|hi).cc.<int32>",
     "madc.(lo|hi){.cc}.<int32>", "add.cc.<int64>", "addc{.cc}.<int64>", "sub.cc.<int64>",
     "subc{.cc}.<int64>", "mad.(lo|hi).cc.<int64>", "madc.(lo|hi){.cc}.<int64>")  # fmt: skip
def _extended_precision(e, ins, mods):
    """9.7.2: the carry (borrow) travels in CC.CF."""
    type_ = mods[-1]
    t, bits = TYPES[type_]
    wide = f"i{2 * bits}"
    subtract = ins.base.startswith("sub")
    if ins.base.startswith("mad"):
        product = _double_width(e, ins, type_)
        if mods[0] == "hi":
            product = e.op(f"lshr {wide}", product, bits)
        a, b = e.cast("trunc", wide, product, t), e.value(ins.operands[3], type_)
    else:
        a, b = e.value(ins.operands[1], type_), e.value(ins.operands[2], type_)
    a, b = (e.cast("zext", t, v, wide) for v in (a, b))
    op = "sub" if subtract else "add"
    result = e.op(f"{op} {wide}", a, b)
    if ins.base[-1] == "c":  # addc, subc, madc
        carry = e.cast("zext", "i1", e.emit(f"load i1, ptr %carry"), wide)
        result = e.op(f"{op} {wide}", result, carry)
    if "cc" in mods:
        out = e.cast("trunc", wide, e.op(f"lshr {wide}", result, bits), "i1")
        e.line(f"store i1 {out}, ptr %carry")
    e.set(ins.operands[0], e.cast("trunc", wide, result, t), type_)


@row("dp4a.(u32|s32).(u32|s32)", "dp2a.(lo|hi).(u32|s32).(u32|s32)")
def _dot_product(e, ins, mods):
    """Four bytes of a times four bytes of b (dp2a: two 16-bit halves of a times two bytes of b), plus c."""
    types = mods[-2:]
    width = 8 if ins.base == "dp4a" else 16
    skip = 2 if mods[0] == "hi" else 0
    result = e.value(ins.operands[3], "b32")
    for i in range(32 // width):
        terms = []
        for operand, type_, w, k in ((1, types[0], width, i), (2, types[1], 8, i + skip)):
            part = e.op("lshr i32", e.value(ins.operands[operand], "b32"), k * w)
            part = e.cast("trunc", "i32", part, f"i{w}")
            terms.append(e.emit(f"{'sext' if type_ == 's32' else 'zext'} i{w} {part} to i32"))
        result = e.op("add i32", result, e.op("mul i32", terms[0], terms[1]))
    e.set(ins.operands[0], result, "b32")


# -- 9.7.3 to 9.7.5 floating point ----------------------------------------------------------------

row("add{.rn}{.ftz}{.sat}.f32", "add{.rn}.f64", "add{.rn}{.ftz}{.sat}.<half>")("fadd {t} {a}, {b}")
row("sub{.rn}{.ftz}{.sat}.f32", "sub{.rn}.f64", "sub{.rn}{.ftz}{.sat}.<half>")("fsub {t} {a}, {b}")
row("mul{.rn}{.ftz}{.sat}.f32", "mul{.rn}.f64", "mul{.rn}{.ftz}{.sat}.<half>")("fmul {t} {a}, {b}")
row("fma.rn{.ftz}{.sat}.f32", "fma.rn.f64", "mad.rn{.ftz}{.sat}.f32", "mad.rn.f64")(
    "call {t} @llvm.fma.{s}({t} {a}, {t} {b}, {t} {c})"
)
row("div.(rn|approx|full){.ftz}.f32", "div.rn.f64")("fdiv {t} {a}, {b}")
row("rcp.(rn|approx){.ftz}.f32", "rcp.rn.f64", "rcp.approx.ftz.f64")("fdiv {t} 1.0, {a}")
row("sqrt.(rn|approx){.ftz}.f32", "sqrt.rn.f64")("call {t} @llvm.sqrt.{s}({t} {a})")
row("rsqrt.approx{.ftz}.f32", "rsqrt.approx{.ftz}.f64")("call {t} @llvm.sqrt.{s}({t} {a}); fdiv {t} 1.0, {0}")
row("sin.approx{.ftz}.f32")("call {t} @llvm.sin.{s}({t} {a})")
row("cos.approx{.ftz}.f32")("call {t} @llvm.cos.{s}({t} {a})")
row("lg2.approx{.ftz}.f32")("call {t} @llvm.log2.{s}({t} {a})")
row("ex2.approx{.ftz}.f32")("call {t} @llvm.exp2.{s}({t} {a})")
row("tanh.approx.f32")("call float @tanhf(float {a})")
row("neg{.ftz}.f32", "neg.f64", "neg{.ftz}.<half>")("fneg {t} {a}")
row("abs{.ftz}.f32", "abs.f64", "abs{.ftz}.<half>")("call {t} @llvm.fabs.{s}({t} {a})")
row("min{.ftz}.f32", "min.f64", "min{.ftz}.<half>")("call {t} @llvm.minimumnum.{s}({t} {a}, {t} {b})")
row("max{.ftz}.f32", "max.f64", "max{.ftz}.<half>")("call {t} @llvm.maximumnum.{s}({t} {a}, {t} {b})")
row("min{.ftz}.NaN.f32", "min{.ftz}.NaN.<half>")("call {t} @llvm.minimum.{s}({t} {a}, {t} {b})")
row("max{.ftz}.NaN.f32", "max{.ftz}.NaN.<half>")("call {t} @llvm.maximum.{s}({t} {a}, {t} {b})")
row("copysign.f32", "copysign.f64")("call {t} @llvm.copysign.{s}({t} {b}, {t} {a})")


@row("fma.rn{.ftz}{.sat}.f16")
def _fma_half(e, ins, mods):
    """The product of two halves is exact in double; rounding the sum to odd makes the last step exact."""
    a, b, c = (e.cast("fpext", "half", e.value(o, 'f16'), "double") for o in ins.operands[1:4])
    result = _double_to_half(e, *_two_sum(e, "double", e.op("fmul double", a, b), c))
    e.set(ins.operands[0], saturate(e, result, "f16") if "sat" in mods else result, "f16")


@row("fma.rn{.ftz}{.sat}.f16x2")
def _fma_half2(e, ins, mods):
    t = "<2 x half>"
    operands = [e.value(o, "f16x2") for o in ins.operands[1:4]]
    result = "undef"
    for i in range(2):
        a, b, c = (e.cast("fpext", "half", e.emit(f"extractelement {t} {v}, i32 {i}"), "double") for v in operands)
        half = _double_to_half(e, *_two_sum(e, "double", e.op("fmul double", a, b), c))
        half = saturate(e, half, "f16") if "sat" in mods else half
        result = e.emit(f"insertelement {t} {result}, half {half}, i32 {i}")
    e.set(ins.operands[0], result, "f16x2")


def _two_sum(e, t: str, a: str, b: str) -> tuple[str, str]:
    """(s, r) with s = fl(a + b) and r the sign-bearing remainder a + b - s (Knuth); r is 0 where s is infinite."""
    s = e.op(f"fadd {t}", a, b)
    bb = e.op(f"fsub {t}", s, a)
    aa = e.op(f"fsub {t}", s, bb)
    r = e.op(f"fadd {t}", e.op(f"fsub {t}", a, aa), e.op(f"fsub {t}", b, bb))
    finite = e.op(f"fcmp one {t}", e.op(f"fsub {t}", s, s), "1.0")  # false for infinity and NaN
    return s, e.emit(f"select i1 {finite}, {t} {r}, {t} 0.0")


def _round_to(e, narrow: str, s: str, r: str, direction: str) -> str:
    """The double s + r (r far smaller) rounded to float or half: rz, rm, rp, or `odd` (sticky last bit)."""
    bits = LLVM_BITS[narrow]
    near = e.cast("fptrunc", "double", s, narrow)
    back = e.cast("fpext", narrow, near, "double")
    equal = e.op("fcmp oeq double", back, s)
    above = e.op("or i1", e.op("fcmp ogt double", back, s), e.op("and i1", equal, e.op("fcmp olt double", r, "0.0")))  # fmt: skip
    below = e.op("or i1", e.op("fcmp olt double", back, s), e.op("and i1", equal, e.op("fcmp ogt double", r, "0.0")))  # fmt: skip
    raw = e.cast("bitcast", narrow, near, f"i{bits}")
    negative = e.op(f"icmp slt i{bits}", raw, 0)
    # a step down in value is +1 on the bits of a negative number, -1 on those of a positive one
    down = e.emit(f"select i1 {negative}, i{bits} 1, i{bits} -1")
    up = e.emit(f"select i1 {negative}, i{bits} -1, i{bits} 1")
    zero = e.op(f"icmp eq i{bits}", e.op(f"shl i{bits}", raw, 1), 0)
    lower, upper = e.op(f"add i{bits}", raw, down), e.op(f"add i{bits}", raw, up)
    lower = e.emit(f"select i1 {zero}, i{bits} {(1 << bits - 1) + 1}, i{bits} {lower}")
    upper = e.emit(f"select i1 {zero}, i{bits} 1, i{bits} {upper}")
    minus = e.op("fcmp olt double", s, "0.0")
    to_zero = {"rm": ("true", "false"), "rp": ("false", "true")}.get(direction)
    if to_zero is None:  # rz, odd: away from where the value points
        go_down = e.op("and i1", above, e.op("xor i1", minus, "true"))
        go_up = e.op("and i1", below, minus)
    else:
        go_down = e.op("and i1", above, to_zero[0])
        go_up = e.op("and i1", below, to_zero[1])
    raw = e.emit(f"select i1 {go_down}, i{bits} {lower}, i{bits} {raw}")
    raw = e.emit(f"select i1 {go_up}, i{bits} {upper}, i{bits} {raw}")
    if direction == "odd":
        sticky = e.cast("zext", "i1", e.op("or i1", above, below), f"i{bits}")
        raw = e.op(f"or i{bits}", raw, sticky)
    return e.cast("bitcast", f"i{bits}", raw, narrow)


def _double_to_half(e, s: str, r: str) -> str:
    return e.cast("fptrunc", "float", _round_to(e, 'float', s, r, 'odd'), "half")


@row("add.<directed>{.ftz}{.sat}.f32", "sub.<directed>{.ftz}{.sat}.f32", "mul.<directed>{.ftz}{.sat}.f32",
     "fma.<directed>{.ftz}{.sat}.f32")  # fmt: skip
def _directed(e, ins, mods):
    """Exact in double as s + r, then rounded once in the direction asked for."""
    values = [e.value(o, "f32") for o in ins.operands[1:]]
    if "ftz" in mods:
        values = [flush(e, v, "f32") for v in values]
    wide = [e.cast("fpext", "float", v, "double") for v in values]
    if ins.base == "sub":
        wide[1] = e.emit(f"fneg double {wide[1]}")
    if ins.base in ("mul", "fma"):
        wide[:2] = [e.op("fmul double", wide[0], wide[1])]
    s, r = _two_sum(e, "double", *wide) if len(wide) == 2 else (wide[0], "0.0")
    result = _round_to(e, "float", s, r, mods[0])
    if "ftz" in mods:
        result = flush(e, result, "f32")
    e.set(ins.operands[0], saturate(e, result, "f32") if "sat" in mods else result, "f32")


@row("div.<directed>{.ftz}.f32", "rcp.<directed>{.ftz}.f32", "sqrt.<directed>{.ftz}.f32")
def _directed_division(e, ins, mods):
    """The double result and the sign of its exact remainder decide the direction."""
    values = [e.value(o, "f32") for o in ins.operands[1:]]
    if "ftz" in mods:
        values = [flush(e, v, "f32") for v in values]
    a, *rest = [e.cast("fpext", "float", v, "double") for v in values]
    if ins.base == "sqrt":
        s = e.emit(f"call double @llvm.sqrt.f64(double {a})")
        n = e.emit(f"fneg double {s}")
        r = e.emit(f"call double @llvm.fma.f64(double {n}, double {s}, double {a})")
    else:
        a, b = ("1.0", a) if ins.base == "rcp" else (a, rest[0])
        s = e.op("fdiv double", a, b)
        n = e.emit(f"fneg double {s}")
        r = e.emit(f"call double @llvm.fma.f64(double {n}, double {b}, double {a})")
        negative = e.op("fcmp olt double", b, "0.0")
        minus_r = e.emit(f"fneg double {r}")
        r = e.emit(f"select i1 {negative}, double {minus_r}, double {r}")
    result = _round_to(e, "float", s, r, mods[0])
    e.set(ins.operands[0], flush(e, result, "f32") if "ftz" in mods else result, "f32")


@row("testp.(finite|infinite|number|notanumber|normal|subnormal).<float>")
def _testp(e, ins, mods):
    type_ = mods[-1]
    mask = {"finite": 504, "infinite": 516, "number": 1020, "notanumber": 3, "normal": 264, "subnormal": 144}[mods[0]]
    t, s = llvm_type(type_), mods[-1]
    value = e.value(ins.operands[1], type_)
    e.set(ins.operands[0], e.emit(f"call i1 @llvm.is.fpclass.{s}({t} {value}, i32 {mask})"), "pred")


# -- 9.7.6, 9.7.7 comparison and selection ----------------------------------------------------------

_FLOAT_COMPARE = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq",
                  "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno"}  # fmt: skip
_UNSIGNED_NAMES = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}


def compare(e, cmp: str, type_: str, a: str, b: str, ftz: bool = False) -> str:
    t = llvm_type(type_)
    a, b = e.value(a, type_), e.value(b, type_)
    if is_float(type_):
        if ftz:
            a, b = flush(e, a, type_), flush(e, b, type_)
        return e.op(f"fcmp {_FLOAT_COMPARE[cmp]} {t}", a, b)
    if cmp in _UNSIGNED_NAMES:
        cmp = _UNSIGNED_NAMES[cmp]
    elif cmp not in ("eq", "ne"):
        cmp = ("s" if is_signed(type_) else "u") + cmp
    return e.op(f"icmp {cmp} {t}", a, b)


_COMPARISONS = (("<intcmp>{.<bool>}", "<int>"), ("<intcmp>{.<bool>}", "<bits>"), ("<floatcmp>{.<bool>}{.ftz}", "f32"),
                ("<floatcmp>{.<bool>}", "f64"), ("<floatcmp>{.<bool>}{.ftz}", "f16"))  # fmt: skip


def _compare_and_combine(e, ins, mods) -> tuple[str, str]:
    """(a cmp b) boolop c, and !(a cmp b) boolop c."""
    result = compare(e, mods[0], mods[-1], ins.operands[1], ins.operands[2], "ftz" in mods)
    both = result, e.op("xor i1", result, "true")
    boolop = next((m for m in mods[1:] if m in ("and", "or", "xor")), None)
    if boolop:
        c = e.value(ins.operands[3], "pred")
        both = tuple(e.op(f"{boolop} i1", value, c) for value in both)
    return both


@row(*(f"setp.{cmp}.{types}" for cmp, types in _COMPARISONS))
def _setp(e, ins, mods):
    targets = ins.operands[0].split("|")
    for target, value in zip(targets, _compare_and_combine(e, ins, mods), strict=False):
        e.set(target.strip(), value, "pred")


@row(*(f"set.{cmp}.(u32|s32|f32|f16).{types}" for cmp, types in _COMPARISONS))
def _set(e, ins, mods):
    result, _ = _compare_and_combine(e, ins, mods)
    kind = mods[-2]
    true, false = ("1.0", "0.0") if is_float(kind) else ("-1", "0")
    t = llvm_type(kind)
    e.set(ins.operands[0], e.emit(f"select i1 {result}, {t} {true}, {t} {false}"), kind)


@row("selp.<bits>", "selp.<int>", "selp.<float>")
def _selp(e, ins, mods):
    t = llvm_type(mods[-1])
    a, b = e.value(ins.operands[1], mods[-1]), e.value(ins.operands[2], mods[-1])
    p = e.value(ins.operands[3], "pred")
    e.set(ins.operands[0], e.emit(f"select i1 {p}, {t} {a}, {t} {b}"), mods[-1])


@row("slct{.ftz}.(b16|b32|b64|u16|s16|u32|s32|u64|s64|f32|f64).(s32|f32)")
def _slct(e, ins, mods):
    type_, t = mods[-2], llvm_type(mods[-2])
    a, b = e.value(ins.operands[1], type_), e.value(ins.operands[2], type_)
    c = e.value(ins.operands[3], mods[-1])
    if mods[-1] == "f32" and "ftz" in mods:
        c = flush(e, c, "f32")
    positive = e.emit(f"icmp sge i32 {c}, 0" if mods[-1] == "s32" else f"fcmp oge float {c}, 0.0")
    e.set(ins.operands[0], e.emit(f"select i1 {positive}, {t} {a}, {t} {b}"), type_)


# -- 9.7.9 conversion ---------------------------------------------------------------------------------

_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@row("cvt{.(rn|rz|rm|rp|rni|rzi|rmi|rpi)}{.ftz}{.sat}.<number>.<number>")
def _cvt(e, ins, mods):
    to, source = mods[-2:]
    rounding = next((m for m in mods[:-2] if m not in ("ftz", "sat")), "")
    value = e.value(ins.operands[1], source)
    if "ftz" in mods and source == "f32":
        value = flush(e, value, source)
    if is_float(source):
        result = (_float_to_float if is_float(to) else _float_to_int)(e, value, to, source, rounding, ins)
    else:
        result = (_int_to_float if is_float(to) else _int_to_int)(e, value, to, source, rounding, ins)
    if is_float(to):
        if "ftz" in mods:
            result = flush(e, result, to)
        if "sat" in mods:
            result = saturate(e, result, to)
    e.set(ins.operands[0], result, to)


@row("cvt.rn{.relu}.f16x2.f32", "cvt.rn{.relu}.bf16x2.f32")
def _cvt_pack(e, ins, mods):
    """d = {a in the upper half, b in the lower half}."""
    to = mods[-2][:-2]
    if "relu" in mods:
        e.unsupported(ins)
    high, low = (_float_to_float(e, e.value(o, "f32"), to, "f32", "rn", ins) for o in ins.operands[1:3])
    high, low = (e.cast("zext", "i16", e.cast("bitcast", llvm_type(to), v, "i16"), "i32") for v in (high, low))
    e.set(ins.operands[0], e.op("or i32", e.op("shl i32", high, 16), low), "b32")


def _int_to_int(e, value, to, source, rounding, ins):
    t, bits = TYPES[to]
    s, source_bits = TYPES[source]
    if ".sat" in ins.opcode:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(to) else (0, (1 << bits) - 1)
        wide = e.emit(f"{'sext' if is_signed(source) else 'zext'} {s} {value} to i128")
        wide = e.emit(f"call i128 @llvm.smax.i128(i128 {wide}, i128 {low})")
        wide = e.emit(f"call i128 @llvm.smin.i128(i128 {wide}, i128 {high})")
        return e.cast("trunc", "i128", wide, t)
    if bits <= source_bits:
        return value if bits == source_bits else e.cast("trunc", s, value, t)
    return e.emit(f"{'sext' if is_signed(source) else 'zext'} {s} {value} to {t}")


def _int_to_float(e, value, to, source, rounding, ins):
    op = "sitofp" if is_signed(source) else "uitofp"
    s, source_bits = TYPES[source]
    if to == "f16":
        if source_bits > 32:
            e.unsupported(ins)
        return _double_to_half(e, e.emit(f"{op} {s} {value} to double"), "0.0")
    if rounding in ("rz", "rm", "rp") and to == "f32" and source_bits <= 32:
        return _round_to(e, "float", e.emit(f"{op} {s} {value} to double"), "0.0", rounding)
    if to == "bf16" or rounding not in ("rn", "") and not (to == "f64" and source_bits <= 32):
        e.unsupported(ins)
    return e.emit(f"{op} {s} {value} to {llvm_type(to)}")


def _float_to_int(e, value, to, source, rounding, ins):
    """NaN -> 0, out of range -> the nearest end of the range."""
    if rounding not in _TO_INTEGRAL:
        e.unsupported(ins)
    if source == "bf16":
        value, source = _float_to_float(e, value, "f32", "bf16", "", ins), "f32"
    if source == "f16":
        value, source = e.cast("fpext", "half", value, "float"), "f32"
    s, t = llvm_type(source), llvm_type(to)
    value = e.emit(f"call {s} @llvm.{_TO_INTEGRAL[rounding]}.{source}({s} {value})")
    name = f"llvm.fpto{'s' if is_signed(to) else 'u'}i.sat.{t}.{source}"
    return e.emit(f"call {t} @{name}({s} {value})")


def _float_to_float(e, value, to, source, rounding, ins):
    t, s = llvm_type(to), llvm_type(source)
    if to == source:
        if rounding in _TO_INTEGRAL and to in ("f32", "f64"):
            return e.emit(f"call {t} @llvm.{_TO_INTEGRAL[rounding]}.{to}({t} {value})")
        if rounding:
            e.unsupported(ins)
        return value
    if source == "bf16":
        raw = e.cast("zext", "i16", e.cast("bitcast", "bfloat", value, "i16"), "i32")
        value = e.cast("bitcast", "i32", e.op("shl i32", raw, 16), "float")
        return value if to == "f32" else e.cast("fpext", "float", value, "double")
    if to == "bf16":
        if source != "f32" or rounding != "rn":
            e.unsupported(ins)
        raw = e.cast("bitcast", "float", value, "i32")
        odd = e.op("and i32", e.op("lshr i32", raw, 16), 1)
        rounded = e.op("add i32", raw, e.op("add i32", odd, 32767))
        raw = e.cast("trunc", "i32", e.op("lshr i32", rounded, 16), "i16")
        nan = e.op("fcmp uno float", value, "0.0")
        return e.cast("bitcast", "i16", e.emit(f"select i1 {nan}, i16 32767, i16 {raw}"), "bfloat")
    if LLVM_BITS[t] > LLVM_BITS[s]:
        return e.cast("fpext", s, value, t)
    if rounding in ("rz", "rm", "rp"):
        wide = value if s == "double" else e.cast("fpext", s, value, "double")
        return _round_to(e, t, wide, "0.0", rounding)
    if s == "double" and t == "half":
        return _double_to_half(e, value, "0.0")
    return e.cast("fptrunc", s, value, t)
