"""Rows of comparison and selection.

Source: PTX ISA, sections 9.7.6 (comparison and selection) and 9.7.7 (half precision comparison).
"""

from __future__ import annotations

from ..ptx.ir import Operand
from ..ptx.types import is_float, is_signed, llvm_type
from .table import flush, statement, unpack

_ORDERED = {"num": "ord", "nan": "uno"}  # PTX -> LLVM
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _ORDERED |= {_name: f"o{_name}", f"{_name}u": f"u{_name}"}
_UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}

#: (comparison and .ftz, type)
_SCALARS = (
    ("(<compare>|<unsigned_compare>){.<bool>}", "<unsigned>"),
    ("<compare>{.<bool>}", "<signed>"),
    ("(eq|ne){.<bool>}", "<bits>"),
    ("(<compare>|<unordered>){.<bool>}", "f64"),
    ("(<compare>|<unordered>){.<bool>}{.ftz}", "f32"),
    ("(<compare>|<unordered>){.<bool>}{.ftz}", "f16"),
)
_PACKED = "(<compare>|<unordered>){.<bool>}{.ftz}"


def _compare(e, mods: list[str], type_: str, a: str, b: str) -> str:
    """a cmp b, of values of `type_`."""
    cmp, t = mods[0], llvm_type(type_)
    if is_float(type_):
        if "ftz" in mods:
            a, b = flush(e, a, type_), flush(e, b, type_)
        return e.op(f"fcmp {_ORDERED[cmp]} {t}", a, b)
    if cmp not in ("eq", "ne"):
        cmp = _UNSIGNED.get(cmp) or ("s" if is_signed(type_) else "u") + cmp
    return e.op(f"icmp {cmp} {t}", a, b)


def _combine(e, mods, result: str, c: str | None) -> str:
    """result boolop c, where the instruction has a boolop."""
    operation = next((m for m in mods[1:] if m in ("and", "or", "xor")), None)
    return e.op(f"{operation} i1", result, e.value(c, "pred")) if operation else result


@statement(*(f"setp.{compare}.{type_}" for compare, type_ in _SCALARS))
def _setp(e, ins, mods, d, a, b, c=None):
    """`p|q`: the comparison and its opposite, each combined with c."""
    type_ = mods[-1]
    result = _compare(e, mods, type_, e.value(a, type_), e.value(b, type_))
    _set_both(e, d, _combine(e, mods, result, c), lambda: _combine(e, mods, _not(e, result), c))


@statement(f"setp.{_PACKED}.f16x2")
def _setp_packed(e, ins, mods, d, a, b, c=None):
    """`p|q`: the comparison of the low halves, and of the high halves."""
    low, high = _compare_lanes(e, mods, a, b, c)
    _set_both(e, d, low, lambda: high)


def _set_both(e, targets: Operand, first: str, second) -> None:
    p, *q = targets.parts
    e.set(p, first, "pred")
    for target in q:
        e.set(target, second(), "pred")


def _compare_lanes(e, mods, a: str, b: str, c: str | None) -> list[str]:
    halves = zip(*(unpack(e, e.value(o, "b32"), "f16") for o in (a, b)), strict=True)
    return [_combine(e, mods, _compare(e, mods, "f16", x, y), c) for x, y in halves]


def _not(e, value: str) -> str:
    return e.op("xor i1", value, "true")


@statement(
    *(f"set.{compare}.(u32|s32|f32).{type_}" for compare, type_ in _SCALARS if type_ != "f16"),
    *(f"set.{compare}.f16.{type_}" for compare, type_ in _SCALARS),
    "set.(<compare>|<unordered>){.<bool>}{.ftz}.<int16_32>.f16",
)
def _set(e, ins, mods, d, a, b, c=None):
    """All ones, or 1.0, where the comparison holds."""
    to, type_ = mods[-2:]
    result = _combine(e, mods, _compare(e, mods, type_, e.value(a, type_), e.value(b, type_)), c)
    t = llvm_type(to)
    true, false = ("1.0", "0.0") if is_float(to) else ("-1", "0")
    e.set(d, e.emit(f"select i1 {result}, {t} {true}, {t} {false}"), to)


@statement(f"set.{_PACKED}.(f16x2|u32|s32).f16x2")
def _set_packed(e, ins, mods, d, a, b, c=None):
    true = 0x3C00 if mods[-2] == "f16x2" else 0xFFFF
    low, high = _compare_lanes(e, mods, a, b, c)
    low = e.emit(f"select i1 {low}, i32 {true}, i32 0")
    high = e.emit(f"select i1 {high}, i32 {true << 16}, i32 0")
    e.set(d, e.op("or i32", low, high), "b32")


@statement("selp.<bits>", "selp.<int>", "selp.<float>")
def _selp(e, ins, mods, d, a, b, c):
    t, kept = llvm_type(mods[-1]), a == d
    a, b, c = e.value(a, mods[-1]), e.value(b, mods[-1]), e.value(c, "pred")
    if kept and e.text.has_mask_registers:
        # what stays the same comes last: one instruction, with a mask, does both
        a, b, c = b, a, e.op("xor i1", c, "true")
    e.set(d, e.emit(f"select i1 {c}, {t} {a}, {t} {b}"), mods[-1])


@statement("slct.(<bits>|<int>|<float>).s32", "slct{.ftz}.(<bits>|<int>|<float>).f32")
def _slct(e, ins, mods, d, a, b, c):
    """a where c >= 0 (or -0), else b."""
    type_, t = mods[-2], llvm_type(mods[-2])
    a, b, c = e.value(a, type_), e.value(b, type_), e.value(c, mods[-1])
    if "ftz" in mods:
        c = flush(e, c, "f32")
    first = e.op("icmp sge i32", c, 0) if mods[-1] == "s32" else e.op("fcmp oge float", c, "0.0")
    e.set(d, e.emit(f"select i1 {first}, {t} {a}, {t} {b}"), type_)
