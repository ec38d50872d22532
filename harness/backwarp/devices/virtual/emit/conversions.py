"""Rows of `cvt`: conversions between integers, floats and their half-precision and packed forms.

Source: PTX ISA, section 9.7.9 (cvt), for what compute capability 8.0 has of it.
"""

from __future__ import annotations

from ..ptx.types import TYPES, integer_range, is_signed, llvm_type
from .rounding import bfloat_to_float, directed, float_to_bfloat, float_to_half, narrow, odd_sum, widen
from .table import canonical_nan, expand, flush, relu, saturate, statement

_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@statement("cvt{.sat}.<integer>.<integer>")
def _int_to_int(e, ins, mods, d, a):
    to, source = mods[-2:]
    s, value = llvm_type(source), e.value(a, source)
    if "sat" in mods:
        k = "s" if is_signed(source) else "u"
        (low, high), (source_low, source_high) = integer_range(to), integer_range(source)
        value = e.emit(f"call {s} @llvm.{k}max.{s}({s} {value}, {s} {max(low, source_low)})")
        value = e.emit(f"call {s} @llvm.{k}min.{s}({s} {value}, {s} {min(high, source_high)})")
    e.set(d, e.resize(value, s, llvm_type(to), is_signed(source)), to)


@statement("cvt.<round>{.ftz}{.sat}.f32.<integer>", "cvt.<round>{.sat}.(f16|f64).<integer>")
def _int_to_float(e, ins, mods, d, a):
    to, source = mods[-2:]
    result = _rounded_integer(e, e.value(a, source), to, source, mods[0])
    e.set(d, saturate(e, result, to) if "sat" in mods else result, to)


def _rounded_integer(e, value: str, to: str, source: str, rounding: str) -> str:
    op = "sitofp" if is_signed(source) else "uitofp"
    s, bits = TYPES[source]
    if to != "f16" and (rounding == "rn" or bits <= 32 and to == "f64"):
        return e.cast(op, s, value, llvm_type(to))
    if bits <= 32:
        return narrow(e, e.cast(op, s, value, "double"), to, rounding)
    upper = e.op(f"{'ashr' if is_signed(source) else 'lshr'} i64", value, 32)
    upper = e.op("fmul double", e.cast(op, "i64", upper, "double"), "4294967296.0")
    lower = e.cast("uitofp", "i64", e.op("and i64", value, 0xFFFFFFFF), "double")
    if to == "f64":
        return directed(e, "fadd", rounding, upper, lower)
    return narrow(e, odd_sum(e, upper, lower), to, rounding)


@statement(
    "cvt.<round_to_integer>{.ftz}{.sat}.<integer>.f32", "cvt.<round_to_integer>{.sat}.<integer>.(f16|f64)"
)
def _float_to_int(e, ins, mods, d, a):
    """Out of range: the nearest end. NaN: 0, or only the top bit if one of the types has 64 bits."""
    to, source = mods[-2:]
    value = e.value(a, source)
    if "ftz" in mods:
        value = flush(e, value, source)
    wide = TYPES[to][1] == 64 or source == "f64"
    if source == "f16":
        value, source = e.cast("fpext", "half", value, "float"), "f32"
    s, (t, bits) = llvm_type(source), TYPES[to]
    value = e.emit(f"call {s} @llvm.{_TO_INTEGRAL[mods[0]]}.{source}({s} {value})")
    result = e.emit(f"call {t} @llvm.fpto{'s' if is_signed(to) else 'u'}i.sat.{t}.{source}({s} {value})")
    if wide:
        nan = e.op(f"fcmp uno {s}", value, value)
        result = e.emit(f"select i1 {nan}, {t} {-(1 << bits - 1)}, {t} {result}")
    e.set(d, result, to)


@statement(
    "cvt{.<round_to_integer>}{.ftz}{.sat}.f32.f32",
    "cvt{.<round_to_integer>}{.sat}.(f16.f16|f64.f64)",
    "cvt{.ftz}{.sat}.(f32.f16|f64.f32)",
    "cvt{.sat}.f64.f16",
    "cvt.<round>{.ftz}{.sat}.(f16.f32|f32.f64)",
    "cvt.<round>{.sat}.f16.f64",
)
def _float_to_float(e, ins, mods, d, a):
    to, source = mods[-2:]
    value = e.value(a, source)
    if "ftz" in mods and source == "f32":
        value = flush(e, value, source)
    if to == source:
        result = _integral(e, value, to, mods[0])
    elif TYPES[to][1] > TYPES[source][1]:
        result = _extended(e, value, to, source)
    else:
        result = _shortened(e, value, to, source, mods[0])
    if "ftz" in mods and to == "f32":
        result = flush(e, result, to)
    e.set(d, saturate(e, result, to) if "sat" in mods else result, to)


def _integral(e, value: str, type_: str, rounding: str) -> str:
    if rounding not in _TO_INTEGRAL:
        return value
    return expand(e, f"call {{t}} @llvm.{_TO_INTEGRAL[rounding]}.{{s}}({{t}} {{a}})", type_, a=value)


def _extended(e, value: str, to: str, source: str) -> str:
    if source == "f16":
        value = e.cast("fpext", "half", value, "float")
    return value if to == "f32" else e.cast("fpext", "float", value, "double")


def _shortened(e, value: str, to: str, source: str, rounding: str) -> str:
    if rounding != "rn" or (to, source) == ("f16", "f64"):
        value = narrow(e, value if source == "f64" else widen(e, value, source), to, rounding)
    elif to == "f16":
        value = float_to_half(e, value)
    else:
        value = e.cast("fptrunc", "double", value, "float")
    return canonical_nan(e, value, "f16", value) if to == "f16" else value


# -- from f32 to the formats of neural networks ------------------------------------------------------


@statement("cvt.f32.bf16")
def _from_bfloat(e, ins, mods, d, a):
    e.set(d, bfloat_to_float(e, e.value(a, "b16")), "f32")


@statement(
    "cvt.(rn|rz){.relu}{.satfinite}.bf16.f32",
    "cvt.(rn|rz){.relu}.satfinite.f16.f32",
    "cvt.(rn|rz).relu.f16.f32",
)
def _to_half_precision(e, ins, mods, d, a):
    e.set(d, _half_bits(e, mods, mods[-2], a), "b16")


@statement("cvt.(rn|rz){.relu}{.satfinite}.(f16x2|bf16x2).f32")
def _to_packed(e, ins, mods, d, a, b):
    """a in the upper half, b in the lower."""
    high, low = (e.cast("zext", "i16", _half_bits(e, mods, mods[-2][:-2], o), "i32") for o in (a, b))
    e.set(d, e.op("or i32", e.op("shl i32", high, 16), low), "b32")


def _half_bits(e, mods, to: str, operand: str) -> str:
    """The bits of an f32 operand as f16 or bf16."""
    value = e.value(operand, "f32")
    if to == "bf16":
        bits = float_to_bfloat(e, value, mods[0])
    else:
        half = _shortened(e, value, "f16", "f32", mods[0])
        bits = e.cast("bitcast", "half", relu(e, half, "f16") if "relu" in mods else half, "i16")
    if "relu" in mods and to == "bf16":
        bits = relu(e, bits, "bf16")
    if "satfinite" in mods:
        infinity = 0x7C00 if to == "f16" else 0x7F80
        infinite = e.op("icmp eq i16", e.op("and i16", bits, 0x7FFF), infinity)
        bits = e.op("sub i16", bits, e.cast("zext", "i1", infinite, "i16"))
    return bits


@statement("cvt.rna{.satfinite}.tf32.f32")
def _to_tf32(e, ins, mods, d, a):
    """To 10 bits of fraction, ties away from zero."""
    raw = e.value(a, "b32")
    size = e.op("and i32", raw, 0x7FFFFFFF)
    rounded = e.op("and i32", e.op("add i32", raw, 0x1000), -0x2000)
    if "satfinite" in mods:
        infinite = e.op("icmp uge i32", size, 0x7F7FF000)  # or rounds to infinity
        largest = e.op("or i32", e.op("and i32", raw, -0x80000000), 0x7F7FE000)
        rounded = e.emit(f"select i1 {infinite}, i32 {largest}, i32 {rounded}")
    is_nan = e.op("icmp ugt i32", size, 0x7F800000)
    e.set(d, e.emit(f"select i1 {is_nan}, i32 {0x7FFFFFFF}, i32 {rounded}"), "b32")
