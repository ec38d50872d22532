"""Rows of `cvt`: between integers, floats and their half-precision and packed forms.

Source: PTX ISA, section 9.7.9 (cvt), for what compute capability 8.0 has of it.
"""

from __future__ import annotations

from .rounding import bfloat_to_float, directed, float_to_bfloat, float_to_half, narrow, odd_sum, widen
from .table import canonical_nan, expand, flush, relu, saturate, statement
from .types import TYPES, is_float, is_signed, llvm_type

_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_MODIFIERS = ("ftz", "sat", "relu", "satfinite")


def _rounding(mods) -> str:
    return next((m for m in mods[:-2] if m not in _MODIFIERS), "")


@statement("cvt{.(rn|rz|rm|rp|rni|rzi|rmi|rpi)}{.ftz}{.sat}.<number>.<number>")
def _cvt(e, ins, mods, d, a):
    to, source = mods[-2:]
    rounding = _rounding(mods)
    if rounding not in _allowed_roundings(to, source) or "ftz" in mods and "f32" not in (to, source):
        e.unsupported(ins)
    value = e.value(a, source)
    if "ftz" in mods and source == "f32":
        value = flush(e, value, source)
    if is_float(source):
        result = (_float_to_float if is_float(to) else _float_to_int)(e, value, to, source, rounding)
    elif is_float(to):
        result = _int_to_float(e, value, to, source, rounding)
    else:
        result = _int_to_int(e, value, to, source, "sat" in mods)
    if "ftz" in mods and to == "f32":
        result = flush(e, result, to)
    if "sat" in mods and is_float(to):
        result = saturate(e, result, to)
    e.set(d, result, to)


def _allowed_roundings(to: str, source: str) -> tuple[str, ...]:
    """A rounding is demanded where the conversion can lose something, and refused elsewhere."""
    if not is_float(source):
        return ("rn", "rz", "rm", "rp") if is_float(to) else ("",)
    if not is_float(to):
        return tuple(_TO_INTEGRAL)
    bits, source_bits = TYPES[to][1], TYPES[source][1]
    if bits == source_bits:
        return ("", *_TO_INTEGRAL)
    return ("rn", "rz", "rm", "rp") if bits < source_bits else ("",)


def _int_to_int(e, value: str, to: str, source: str, sat: bool) -> str:
    t, bits = TYPES[to]
    s, source_bits = TYPES[source]
    if sat:
        k = "s" if is_signed(source) else "u"
        (low, high), (source_low, source_high) = _range(to), _range(source)
        value = e.emit(f"call {s} @llvm.{k}max.{s}({s} {value}, {s} {max(low, source_low)})")
        value = e.emit(f"call {s} @llvm.{k}min.{s}({s} {value}, {s} {min(high, source_high)})")
    return e.resize(value, s, t, is_signed(source))


def _range(type_: str) -> tuple[int, int]:
    bits = TYPES[type_][1]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(type_) else (0, (1 << bits) - 1)


def _int_to_float(e, value: str, to: str, source: str, rounding: str) -> str:
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


def _float_to_int(e, value: str, to: str, source: str, rounding: str) -> str:
    """Out of range: the nearest end of it. NaN: 0, or the top bit alone where one of the types has 64 bits."""
    wide = TYPES[to][1] == 64 or source == "f64"
    if source == "f16":
        value, source = e.cast("fpext", "half", value, "float"), "f32"
    s, (t, bits) = llvm_type(source), TYPES[to]
    value = e.emit(f"call {s} @llvm.{_TO_INTEGRAL[rounding]}.{source}({s} {value})")
    result = e.emit(f"call {t} @llvm.fpto{'s' if is_signed(to) else 'u'}i.sat.{t}.{source}({s} {value})")
    if not wide:
        return result
    nan = e.op(f"fcmp uno {s}", value, value)
    return e.emit(f"select i1 {nan}, {t} {-(1 << bits - 1)}, {t} {result}")


def _float_to_float(e, value: str, to: str, source: str, rounding: str) -> str:
    t, s = llvm_type(to), llvm_type(source)
    if to == source:
        if not rounding:
            return value
        return expand(e, f"call {{t}} @llvm.{_TO_INTEGRAL[rounding]}.{{s}}({{t}} {{a}})", to, a=value)
    if TYPES[to][1] > TYPES[source][1]:
        if source == "f16":
            value, s = e.cast("fpext", "half", value, "float"), "float"
        return value if t == s else e.cast("fpext", s, value, t)
    if rounding == "rn" and source == "f64" and to == "f32":
        return e.cast("fptrunc", "double", value, "float")
    if rounding == "rn" and source == "f32":
        result = float_to_half(e, value)
    else:
        result = narrow(e, value if source == "f64" else widen(e, value, source), to, rounding)
    return canonical_nan(e, result, "f16", result) if to == "f16" else result


# -- from f32 to the formats of neural networks ----------------------------------------------------------------


@statement("cvt.f32.bf16")
def _from_bfloat(e, ins, mods, d, a):
    e.set(d, bfloat_to_float(e, e.value(a, "b16")), "f32")


@statement("cvt.(rn|rz){.relu}{.satfinite}.bf16.f32", "cvt.(rn|rz){.relu}.satfinite.f16.f32",
           "cvt.(rn|rz).relu{.satfinite}.f16.f32")  # fmt: skip
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
        bits = float_to_bfloat(e, value, _rounding(mods))
    else:
        half = _float_to_float(e, value, "f16", "f32", _rounding(mods))
        bits = e.cast("bitcast", "half", relu(e, half, "f16") if "relu" in mods else half, "i16")
    if "relu" in mods and to == "bf16":
        bits = relu(e, bits, "bf16")
    if "satfinite" in mods:
        infinity = 0x7C00 if to == "f16" else 0x7F80
        infinite = e.op("icmp eq i16", e.op("and i16", bits, 0x7FFF), infinity)
        bits = e.op("sub i16", bits, e.cast("zext", "i1", infinite, "i16"))
    return bits


@statement("cvt.rna.tf32.f32")
def _to_tf32(e, ins, mods, d, a):
    """To 10 bits of fraction, ties away from zero."""
    raw = e.value(a, "b32")
    rounded = e.op("and i32", e.op("add i32", raw, 0x1000), -0x2000)
    is_nan = e.op("icmp ugt i32", e.op("and i32", raw, 0x7FFFFFFF), 0x7F800000)
    e.set(d, e.emit(f"select i1 {is_nan}, i32 {0x7FFFFFFF}, i32 {rounded}"), "b32")
