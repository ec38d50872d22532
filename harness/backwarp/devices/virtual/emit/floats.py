"""Rows of floating-point arithmetic, rounded to nearest or approximate; directed rounding is in `rounding`.

The approximate instructions are computed to full precision (they differ from the hardware within their
documented error), but keep its documented special cases.

Source: PTX ISA, sections 9.7.3 (floating point), 9.7.4 (half precision) and 9.7.5.
"""

from __future__ import annotations

from ..ptx.types import TYPES, llvm_type
from .rounding import bfloat_to_float, float_to_bfloat, narrow, odd_sum, widen
from .table import canonical_nan, row, statement

# -- f32, f64, f16 -----------------------------------------------------------------------------------

row("add{.rn}{.ftz}{.sat}.(f32|<half>)", "add{.rn}.f64")("fadd {t} {a}, {b}")
row("sub{.rn}{.ftz}{.sat}.(f32|<half>)", "sub{.rn}.f64")("fsub {t} {a}, {b}")
row("mul{.rn}{.ftz}{.sat}.(f32|<half>)", "mul{.rn}.f64")("fmul {t} {a}, {b}")
row("fma.rn{.ftz}{.sat}.f32", "fma.rn.f64", "mad.rn{.ftz}{.sat}.f32", "mad.rn.f64")(
    "call {t} @llvm.fma.{s}({t} {a}, {t} {b}, {t} {c})"
)
row("div.(rn|full){.ftz}.f32", "div.rn.f64")("fdiv {t} {a}, {b}")
row("rcp.(rn|approx){.ftz}.f32", "rcp.rn.f64")("fdiv {t} 1.0, {a}")
row("sqrt.(rn|approx){.ftz}.f32", "sqrt.rn.f64")("call {t} @llvm.sqrt.{s}({t} {a})")
row("rsqrt.approx{.ftz}.f32", "rsqrt.approx.f64")("call {t} @llvm.sqrt.{s}({t} {a}); fdiv {t} 1.0, {0}")
row("sin.approx{.ftz}.f32")("call {t} @llvm.sin.{s}({t} {a})")
row("cos.approx{.ftz}.f32")("call {t} @llvm.cos.{s}({t} {a})")
row("lg2.approx{.ftz}.f32")("call {t} @llvm.log2.{s}({t} {a})")
row("ex2.approx.f32")("call {t} @llvm.exp2.{s}({t} {a})")
row("tanh.approx.f32")("call {t} @llvm.tanh.{s}({t} {a})")
row("ex2.approx.<half>")(
    "fpext {t} {a} to float; call float @llvm.exp2.f32(float {0}); fptrunc float {1} to {t}"
)
row("tanh.approx.<half>")(
    "fpext {t} {a} to float; call float @llvm.tanh.f32(float {0}); fptrunc float {1} to {t}"
)
row("neg{.ftz}.(f32|<half>)", "neg.f64")("fneg {t} {a}")
row("abs{.ftz}.(f32|<half>)", "abs.f64")("call {t} @llvm.fabs.{s}({t} {a})")
row("copysign.f32", "copysign.f64")("call {t} @llvm.copysign.{s}({t} {b}, {t} {a})")


@row("min{.ftz}{.NaN}.(f32|<half>)", "min.f64")
def _min(e, mods, a, b):
    return _extremum(e, mods, "olt", "or", a, b)


@row("max{.ftz}{.NaN}.(f32|<half>)", "max.f64")
def _max(e, mods, a, b):
    return _extremum(e, mods, "ogt", "and", a, b)


def _extremum(e, mods, before: str, sign: str, a: str, b: str) -> str:
    """The one of a and b that comes before the other; -0 < +0, a number before a NaN, with .NaN after it.

    Not by LLVM's own minimumnum and the like, whose x86 code picks the wrong operand of a NaN and a value
    known not to be one (LLVM 22).
    """
    t, bits = TYPES[mods[-1]]
    raw = (e.cast("bitcast", t, v, f"i{bits}") for v in (a, b))
    # of equal numbers only zeros differ
    zero = e.cast("bitcast", f"i{bits}", e.op(f"{sign} i{bits}", *raw), t)
    chosen = e.emit(f"select i1 {e.op(f'fcmp {before} {t}', a, b)}, {t} {a}, {t} {b}")
    chosen = e.emit(f"select i1 {e.op(f'fcmp oeq {t}', a, b)}, {t} {zero}, {t} {chosen}")
    if "NaN" in mods:
        return canonical_nan(e, chosen, mods[-1], a, b)
    return e.emit(f"select i1 {e.op(f'fcmp uno {t}', b, b)}, {t} {a}, {t} {chosen}")


@statement("ex2.approx.ftz.f32")
def _ex2_ftz(e, ins, mods, d, a):
    """Used by every expf(), so the flush makes use of the facts that 2**a is positive and that a subnormal a
    gives 1 anyway."""
    power = e.emit(f"call float @llvm.exp2.f32(float {e.value(a, 'f32')})")
    small = e.op("fcmp olt float", power, "0x3810000000000000")
    e.set(d, e.emit(f"select i1 {small}, float 0.0, float {power}"), "f32")


@row("div.approx{.ftz}.f32")
def _div_approx(e, mods, a, b):
    """a * (1/b), whose reciprocal is lost for |b| > 2**126: then 0, or NaN for an infinite a."""
    quotient = e.op("fdiv float", a, b)
    size = e.emit(f"call float @llvm.fabs.f32(float {b})")
    lost = e.op("fcmp ogt float", size, "0x47D0000000000000")
    zero = e.emit(f"call float @llvm.copysign.f32(float 0.0, float {b})")
    infinite = e.op("fcmp oeq float", size, "0x7FF0000000000000")
    product = e.op("fmul float", a, zero)
    product = e.emit(f"select i1 {infinite}, float {quotient}, float {product}")
    return e.emit(f"select i1 {lost}, float {product}, float {quotient}")


@row("rcp.approx.ftz.f64")
def _rcp_upper(e, mods, a):
    return _upper_word(e, e.op("fdiv double", "1.0", _upper(e, a)))


@row("rsqrt.approx.ftz.f64")
def _rsqrt_upper(e, mods, a):
    root = e.emit(f"call double @llvm.sqrt.f64(double {_upper(e, a)})")
    return _upper_word(e, e.op("fdiv double", "1.0", root))


def _upper(e, value: str) -> str:
    """Only the upper 32 bits of a double count."""
    raw = e.op("and i64", e.cast("bitcast", "double", value, "i64"), -(1 << 32))
    return e.cast("bitcast", "i64", raw, "double")


def _upper_word(e, value: str) -> str:
    """The result ends in 32 zero bits, even a NaN."""
    raw = e.cast("bitcast", "double", canonical_nan(e, value, "f64", value), "i64")
    return e.cast("bitcast", "i64", e.op("and i64", raw, -(1 << 32)), "double")


@statement("testp.(finite|infinite|number|notanumber|normal|subnormal).<float>")
def _testp(e, ins, mods, d, a):
    """Zero counts as normal. The masks are those of LLVM's is.fpclass."""
    mask = {
        "finite": 0x1F8,
        "infinite": 0x204,
        "number": 0x3FC,
        "notanumber": 3,
        "normal": 0x168,
        "subnormal": 0x90,
    }
    t, value = llvm_type(mods[-1]), e.value(a, mods[-1])
    e.set(d, e.emit(f"call i1 @llvm.is.fpclass.{mods[-1]}({t} {value}, i32 {mask[mods[0]]})"), "pred")


# -- half precision ----------------------------------------------------------------------------------


@row("fma.rn{.ftz}{.sat}.<half>", "fma.rn{.ftz}.relu.<half>")
def _fma_half(e, mods, a, b, c):
    """In double: if that rounds, the exact sum is too far from a tie of halves for it to matter."""
    a, b, c = (widen(e, v, "f16") for v in (a, b, c))
    return narrow(e, e.op("fadd double", e.op("fmul double", a, b), c), "f16")


@row("fma.rn{.relu}.<bfloat>")
def _fma_bfloat(e, mods, a, b, c):
    a, b, c = (widen(e, v, "bf16") for v in (a, b, c))
    return narrow(e, odd_sum(e, e.op("fmul double", a, b), c), "bf16")


row("neg.<bfloat>")("xor i16 {a}, -32768")
row("abs.<bfloat>")("and i16 {a}, 32767")


@row("min{.NaN}.<bfloat>")
def _min_bfloat(e, mods, a, b):
    return _bfloat(e, _min, mods, a, b)


@row("max{.NaN}.<bfloat>")
def _max_bfloat(e, mods, a, b):
    return _bfloat(e, _max, mods, a, b)


def _bfloat(e, body, mods, *values: str) -> str:
    """A body for f32 whose results need no rounding, of the bits of bfloat16 numbers."""
    result = body(e, [*mods[:-1], "f32"], *(bfloat_to_float(e, v) for v in values))
    return float_to_bfloat(e, result, "rz")
