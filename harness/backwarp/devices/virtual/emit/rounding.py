"""Rounding that the processor's own arithmetic does not offer: directed modes, and to half precision.

A sum or quotient is computed in double, with its last bit set if it is inexact ("rounded to odd"). Such a
double has more than two bits to spare over any narrower type, so that rounding it once more, to nearest or in
a direction, gives what rounding the exact result would have given (Boldo and Melquiond, 2008). For double
itself the few directed operations are functions that change the processor's rounding mode.
"""

from __future__ import annotations

from ..ptx.types import llvm_type
from .table import row

#: LLVM's numbers of rounding modes
_MODES = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}


# -- double, rounded to odd --------------------------------------------------------------------------


def odd_sum(e, a: str, b: str, direction: str = "rn") -> str:
    """a + b as a double rounded to odd. direction: what decides the sign of an exact zero."""
    s = e.op("fadd double", a, b)
    bb = e.op("fsub double", s, a)
    aa = e.op("fsub double", s, bb)
    error = e.op("fadd double", e.op("fsub double", a, aa), e.op("fsub double", b, bb))  # exact (Knuth)
    odd = _to_odd(e, s, error)
    if direction != "rm":
        return odd
    signs = (e.op("icmp slt i64", e.cast("bitcast", "double", v, "i64"), 0) for v in (a, b))
    negative = e.op("or i1", *signs)
    zero = e.emit(f"select i1 {negative}, double -0.0, double 0.0")
    return e.emit(f"select i1 {e.op('fcmp oeq double', s, '0.0')}, double {zero}, double {odd}")


def _odd_quotient(e, a: str, b: str) -> str:
    s = e.op("fdiv double", a, b)
    minus = e.emit(f"fneg double {s}")
    remainder = e.emit(f"call double @llvm.fma.f64(double {minus}, double {b}, double {a})")
    negative = e.op("fcmp olt double", b, "0.0")
    minus = e.emit(f"fneg double {remainder}")
    return _to_odd(e, s, e.emit(f"select i1 {negative}, double {minus}, double {remainder}"))


def _odd_sqrt(e, a: str) -> str:
    s = e.emit(f"call double @llvm.sqrt.f64(double {a})")
    minus = e.emit(f"fneg double {s}")
    return _to_odd(e, s, e.emit(f"call double @llvm.fma.f64(double {minus}, double {s}, double {a})"))


def _to_odd(e, nearest: str, error: str, t: str = "double") -> str:
    """`nearest` + `error` (a double of less than half a unit in the last place, or NaN) rounded to odd."""
    n = {"double": 64, "float": 32}[t]
    raw, error_raw = e.cast("bitcast", t, nearest, f"i{n}"), e.cast("bitcast", "double", error, "i64")
    inexact = e.cast("zext", "i1", e.op("fcmp one double", error, "0.0"), f"i{n}")
    signs = e.op(f"xor i{n}", raw, e.resize(e.op("lshr i64", error_raw, 64 - n), "i64", f"i{n}"))
    # if the nearest lies beyond the exact number, go one back, to the number below it
    too_far = e.op(f"and i{n}", e.op(f"lshr i{n}", signs, n - 1), inexact)
    return e.cast("bitcast", f"i{n}", e.op(f"or i{n}", e.op(f"sub i{n}", raw, too_far), inexact), t)


# -- double -> a narrower type -----------------------------------------------------------------------


def widen(e, value: str, type_: str) -> str:
    """A value of f16, bf16 (as its bits) or f32 as a double."""
    if type_ == "f16":
        value = e.cast("fpext", "half", value, "float")
    elif type_ == "bf16":
        value = bfloat_to_float(e, value)
    return e.cast("fpext", "float", value, "double")


def narrow(e, value: str, to: str, direction: str = "rn") -> str:
    """A double rounded once to f32, f16 or bf16 (as its bits). direction: rn, rz, rm or rp."""
    nearest = {"f32": _to_float, "f16": _to_half, "bf16": _to_bfloat}[to](e, value)
    if direction == "rn":
        return nearest
    back = widen(e, nearest, to)
    t = {"f32": "i32"}.get(to, "i16")
    raw = nearest if to == "bf16" else e.cast("bitcast", llvm_type(to), nearest, t)
    if direction == "rz":
        magnitudes = (e.emit(f"call double @llvm.fabs.f64(double {v})") for v in (back, value))
        wrong, step = e.op("fcmp ogt double", *magnitudes), "-1"
    else:
        wrong = e.op(f"fcmp {'ogt' if direction == 'rm' else 'olt'} double", back, value)
        negative = e.op("fcmp olt double", value, "0.0")
        # a step down or up in value, on the bits of a negative and of a positive number
        steps = ("1", "-1") if direction == "rm" else ("-1", "1")
        step = e.emit(f"select i1 {negative}, {t} {steps[0]}, {t} {steps[1]}")
    raw = e.op(f"add {t}", raw, e.emit(f"select i1 {wrong}, {t} {step}, {t} 0"))
    return raw if to == "bf16" else e.cast("bitcast", t, raw, llvm_type(to))


def _to_float(e, value: str) -> str:
    return e.cast("fptrunc", "double", value, "float")


def _to_half(e, value: str) -> str:
    """By way of float: the bits that float drops are recorded in its last bit."""
    raw = e.cast("bitcast", "double", value, "i64")
    dropped = e.op("icmp ne i64", e.op("and i64", raw, (1 << 29) - 1), 0)
    sticky = e.op("shl i64", e.cast("zext", "i1", dropped, "i64"), 29)
    raw = e.op("or i64", e.op("and i64", raw, -(1 << 29)), sticky)
    return float_to_half(e, _to_float(e, e.cast("bitcast", "i64", raw, "double")))


def _to_bfloat(e, value: str) -> str:
    nearest = _to_float(e, value)
    back = e.cast("fpext", "float", nearest, "double")
    return float_to_bfloat(e, _to_odd(e, nearest, e.op("fsub double", value, back), "float"))


def float_to_half(e, value: str) -> str:
    return e.cast("fptrunc", "float", value, "half")


def float_to_bfloat(e, value: str, direction: str = "rn") -> str:
    """The bits of a float rounded to bfloat16, to nearest or (rz) to zero; a NaN is the canonical one."""
    raw = e.cast("bitcast", "float", value, "i32")
    if direction == "rn":
        odd = e.op("and i32", e.op("lshr i32", raw, 16), 1)
        raw = e.op("add i32", raw, e.op("add i32", odd, 0x7FFF))
    raw = e.cast("trunc", "i32", e.op("lshr i32", raw, 16), "i16")
    return e.emit(f"select i1 {e.op('fcmp uno float', value, '0.0')}, i16 {0x7FFF}, i16 {raw}")


def bfloat_to_float(e, raw: str) -> str:
    return e.cast("bitcast", "i32", e.op("shl i32", e.cast("zext", "i16", raw, "i32"), 16), "float")


# -- the directed rows of 9.7.3 ----------------------------------------------------------------------

_F32 = "<directed>{.ftz}{.sat}.f32"


@row(f"add.{_F32}")
def _add(e, mods, a, b):
    return narrow(e, odd_sum(e, widen(e, a, "f32"), widen(e, b, "f32"), mods[0]), "f32", mods[0])


@row(f"sub.{_F32}")
def _sub(e, mods, a, b):
    return _add(e, mods, a, e.emit(f"fneg float {b}"))


@row(f"mul.{_F32}")
def _mul(e, mods, a, b):
    return narrow(e, e.op("fmul double", widen(e, a, "f32"), widen(e, b, "f32")), "f32", mods[0])


@row(f"fma.{_F32}", f"mad.{_F32}")
def _fma(e, mods, a, b, c):
    product = e.op("fmul double", widen(e, a, "f32"), widen(e, b, "f32"))  # exact
    return narrow(e, odd_sum(e, product, widen(e, c, "f32"), mods[0]), "f32", mods[0])


@row("div.<directed>{.ftz}.f32")
def _div(e, mods, a, b):
    return narrow(e, _odd_quotient(e, widen(e, a, "f32"), widen(e, b, "f32")), "f32", mods[0])


@row("rcp.<directed>{.ftz}.f32")
def _rcp(e, mods, a):
    return _div(e, mods, "1.0", a)


@row("sqrt.<directed>{.ftz}.f32")
def _sqrt(e, mods, a):
    return narrow(e, _odd_sqrt(e, widen(e, a, "f32")), "f32", mods[0])


@row("add.<directed>.f64")
def _add_double(e, mods, a, b):
    return directed(e, "fadd", mods[0], a, b)


@row("sub.<directed>.f64")
def _sub_double(e, mods, a, b):
    return directed(e, "fsub", mods[0], a, b)


@row("mul.<directed>.f64")
def _mul_double(e, mods, a, b):
    return directed(e, "fmul", mods[0], a, b)


@row("div.<directed>.f64")
def _div_double(e, mods, a, b):
    return directed(e, "fdiv", mods[0], a, b)


@row("rcp.<directed>.f64")
def _rcp_double(e, mods, a):
    return directed(e, "fdiv", mods[0], "1.0", a)


@row("sqrt.<directed>.f64")
def _sqrt_double(e, mods, a):
    return directed(e, "sqrt", mods[0], a)


@row("fma.<directed>.f64", "mad.<directed>.f64")
def _fma_double(e, mods, a, b, c):
    return directed(e, "fma", mods[0], a, b, c)


# -- double in a directed mode: functions linked beside the runtime ----------------------------------


def directed(e, op: str, direction: str, *values: str) -> str:
    """op: fadd, fsub, fmul, fdiv, sqrt or fma, of doubles, rounded in a direction."""
    arguments = ", ".join([f"double {v}" for v in values] + [f"i32 {_MODES[direction]}"])
    return e.emit(f"call double @rt_{op}_directed({arguments})")


def _function(op: str, operands: int) -> str:
    formals = ", ".join(f"double %{i}" for i in range(operands))
    types = ", ".join(["double"] * operands)
    intrinsic = f"@llvm.experimental.constrained.{op}.f64"
    return f"""
declare double {intrinsic}({types}, metadata, metadata)
define double @rt_{op}_directed({formals}, i32 %mode) strictfp noinline {{
  call void @llvm.set.rounding(i32 %mode) strictfp
  %r = call double {intrinsic}({formals}, metadata !"round.dynamic", metadata !"fpexcept.strict") strictfp
  call void @llvm.set.rounding(i32 {_MODES["rn"]}) strictfp
  ret double %r
}}
"""


#: LLVM text that the runtime is linked with
FUNCTIONS = "declare void @llvm.set.rounding(i32)\n" + "".join(
    _function(op, n)
    for op, n in (("fadd", 2), ("fsub", 2), ("fmul", 2), ("fdiv", 2), ("sqrt", 1), ("fma", 3))
)
