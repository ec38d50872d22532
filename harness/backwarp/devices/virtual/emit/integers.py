"""Rows of integer arithmetic and logic. Operations on bits and bytes of a word are in `bits`.

Source: PTX ISA, sections 9.7.1 (integer arithmetic), 9.7.2 (extended precision), 9.7.8 (logic) and 9.7.19 (SIMD video
instructions).
"""

from __future__ import annotations

from ..ptx.types import TYPES, is_signed, llvm_type
from .table import row, statement

# -- 9.7.1 arithmetic, 9.7.8 logic: one LLVM instruction or two --------------------------------------

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
row("sad.<unsigned>")(
    "call {t} @llvm.umax.{s}({t} {a}, {t} {b}); call {t} @llvm.umin.{s}({t} {a}, {t} {b});"
    "sub {t} {0}, {1}; add {t} {2}, {c}"
)
row("sad.<signed>")(
    "call {t} @llvm.smax.{s}({t} {a}, {t} {b}); call {t} @llvm.smin.{s}({t} {a}, {t} {b});"
    "sub {t} {0}, {1}; add {t} {2}, {c}"
)

# -- products ----------------------------------------------------------------------------------------


def _product(e, type_: str, a: str, b: str) -> tuple[str, str]:
    """(a * b at twice the width, that type)."""
    t, bits = TYPES[type_]
    wide, extend = f"i{2 * bits}", "sext" if is_signed(type_) else "zext"
    return e.op(f"mul {wide}", e.cast(extend, t, a, wide), e.cast(extend, t, b, wide)), wide


@row("mul.hi.<int>")
def _mul_hi(e, mods, a, b):
    t, bits = TYPES[mods[-1]]
    product, wide = _product(e, mods[-1], a, b)
    return e.cast("trunc", wide, e.op(f"lshr {wide}", product, bits), t)


@row("mad.hi.<int>")
def _mad_hi(e, mods, a, b, c):
    return e.op(f"add {llvm_type(mods[-1])}", _mul_hi(e, mods, a, b), c)


@row("mad.hi.sat.s32")
def _mad_hi_sat(e, mods, a, b, c):
    return e.emit(f"call i32 @llvm.sadd.sat.i32(i32 {_mul_hi(e, mods, a, b)}, i32 {c})")


@statement("mul.wide.<int16_32>")
def _mul_wide(e, ins, mods, d, a, b):
    type_ = mods[-1]
    product, _ = _product(e, type_, e.value(a, type_), e.value(b, type_))
    e.set(d, product, f"{type_[0]}{2 * TYPES[type_][1]}")


@statement("mad.wide.<int16_32>")
def _mad_wide(e, ins, mods, d, a, b, c):
    type_ = mods[-1]
    result = f"{type_[0]}{2 * TYPES[type_][1]}"
    product, wide = _product(e, type_, e.value(a, type_), e.value(b, type_))
    e.set(d, e.op(f"add {wide}", product, e.value(c, result)), result)


@row("mul24.(lo|hi).<int32>")
def _mul24(e, mods, a, b):
    """The product of the low 24 bits of each: its bits 31..0, or 47..16."""
    extend = "sext" if is_signed(mods[-1]) else "zext"
    a, b = (e.cast(extend, "i24", e.cast("trunc", "i32", v, "i24"), "i64") for v in (a, b))
    product = e.op("mul i64", a, b)
    return e.cast("trunc", "i64", e.op("lshr i64", product, 16) if mods[0] == "hi" else product, "i32")


@row("mad24.(lo|hi).<int32>")
def _mad24(e, mods, a, b, c):
    return e.op("add i32", _mul24(e, mods, a, b), c)


@row("mad24.hi.sat.s32")
def _mad24_sat(e, mods, a, b, c):
    return e.emit(f"call i32 @llvm.sadd.sat.i32(i32 {_mul24(e, mods, a, b)}, i32 {c})")


@row("dp4a.(u32|s32).(u32|s32)")
def _dp4a(e, mods, a, b, c):
    """Four bytes of a times four bytes of b, plus c."""
    for i in range(4):
        c = _multiply_part(e, mods, (a, 8, i), (b, 8, i), c)
    return c


@row("dp2a.(lo|hi).(u32|s32).(u32|s32)")
def _dp2a(e, mods, a, b, c):
    """Two 16-bit halves of a times the two low or high bytes of b, plus c."""
    for i in range(2):
        c = _multiply_part(e, mods, (a, 16, i), (b, 8, i + 2 * (mods[0] == "hi")), c)
    return c


def _multiply_part(e, mods, a, b, c: str) -> str:
    parts = []
    for (value, width, i), type_ in zip((a, b), mods[-2:], strict=True):
        part = e.cast("trunc", "i32", e.op("lshr i32", value, width * i), f"i{width}")
        parts.append(e.cast("sext" if is_signed(type_) else "zext", f"i{width}", part, "i32"))
    return e.op("add i32", c, e.op("mul i32", *parts))


# -- division ----------------------------------------------------------------------------------------


@row("div.<int>")
def _divide(e, mods, a, b):
    return _quotient(e, "div", mods[-1], a, b)


@row("rem.<int>")
def _remainder(e, mods, a, b):
    return _quotient(e, "rem", mods[-1], a, b)


def _quotient(e, op: str, type_: str, a: str, b: str) -> str:
    """PTX does not define division by zero: this gives what NVIDIA's hardware gives, and never traps on the
    CPU."""
    t, bits = TYPES[type_]
    if b[0] != "%" and int(b) % (1 << bits) not in (0, (1 << bits) - 1):
        return e.op(f"{'s' if is_signed(type_) else 'u'}{op} {t}", a, b)
    zero = unsafe = e.op(f"icmp eq {t}", b, 0)
    if is_signed(
        type_
    ):  # the lowest number / -1 gives itself and 0, the quotient and remainder of division by 1
        lowest = e.op(f"icmp eq {t}", a, -(1 << bits - 1))
        unsafe = e.op("or i1", zero, e.op("and i1", lowest, e.op(f"icmp eq {t}", b, -1)))
    divisor = e.emit(f"select i1 {unsafe}, {t} 1, {t} {b}")
    result = e.op(f"{'s' if is_signed(type_) else 'u'}{op} {t}", a, divisor)
    by_zero = "-1"
    if bits == 64:  # short dividends take the 32-bit path
        short = e.op("icmp eq i64", e.op("lshr i64", a, 32), 0)
        by_zero = e.emit(f"select i1 {short}, i64 {0xFFFFFFFF}, i64 -1")
    return e.emit(f"select i1 {zero}, {t} {by_zero}, {t} {result}")


# -- 9.7.2 extended precision: the carry, or borrow, travels in CC.CF --------------------------------


@row("add.cc.<int32_64>")
def _add_cc(e, mods, a, b):
    return _with_carry(e, "add", mods, a, b)


@row("addc{.cc}.<int32_64>")
def _addc(e, mods, a, b):
    return _with_carry(e, "add", mods, a, b, carry_in=True)


@row("sub.cc.<int32_64>")
def _sub_cc(e, mods, a, b):
    return _with_carry(e, "sub", mods, a, b)


@row("subc{.cc}.<int32_64>")
def _subc(e, mods, a, b):
    return _with_carry(e, "sub", mods, a, b, carry_in=True)


@row("mad.(lo|hi).cc.<int32_64>")
def _mad_cc(e, mods, a, b, c):
    return _with_carry(e, "add", mods, _half_product(e, mods, a, b), c)


@row("madc.(lo|hi){.cc}.<int32_64>")
def _madc(e, mods, a, b, c):
    return _with_carry(e, "add", mods, _half_product(e, mods, a, b), c, carry_in=True)


def _half_product(e, mods, a: str, b: str) -> str:
    return _mul_hi(e, mods, a, b) if mods[0] == "hi" else e.op(f"mul {llvm_type(mods[-1])}", a, b)


def _with_carry(e, op: str, mods, a: str, b: str, carry_in: bool = False) -> str:
    t, bits = TYPES[mods[-1]]
    wide = f"i{2 * bits}"
    result = e.op(f"{op} {wide}", e.cast("zext", t, a, wide), e.cast("zext", t, b, wide))
    if carry_in:
        result = e.op(f"{op} {wide}", result, e.cast("zext", "i1", e.emit("load i1, ptr %carry"), wide))
    if "cc" in mods:
        carry = e.cast("trunc", wide, e.op(f"lshr {wide}", result, bits), "i1")
        e.line(f"store i1 {carry}, ptr %carry")
    return e.cast("trunc", wide, result, t)


# -- 9.7.19 SIMD video instructions, without byte selectors ---------------------------------------


@statement(
    *(
        f"v{op}{n}.<int32>.<int32>.<int32>{{.(sat|add)}}"
        for op in ("add", "sub", "avrg", "absdiff", "min", "max")
        for n in (2, 4)
    )
)
def _simd(e, ins, mods, d, a, b, c):
    """2 halves or 4 bytes at once: packed, clamped first with .sat; with .add their sum is added to c."""
    count = int(ins.base[-1])
    width = 32 // count
    a, b, total = (e.value(o, "b32") for o in (a, b, c))
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if mods[0] == "s32" else (0, (1 << width) - 1)
    packed = "0"
    for i in range(count):
        x, y = (_lane(e, v, i, width, type_) for v, type_ in ((a, mods[1]), (b, mods[2])))
        result = _SIMD[ins.base[1:-1]](e, x, y)
        if "sat" in mods:
            result = e.emit(f"call i32 @llvm.smax.i32(i32 {result}, i32 {low})")
            result = e.emit(f"call i32 @llvm.smin.i32(i32 {result}, i32 {high})")
        total = e.op("add i32", total, result)
        result = e.op("and i32", result, (1 << width) - 1)
        packed = e.op("or i32", packed, e.op("shl i32", result, width * i))
    e.set(d, total if "add" in mods else packed, "b32")


def _lane(e, word: str, i: int, width: int, type_: str) -> str:
    part = e.cast("trunc", "i32", e.op("lshr i32", word, width * i), f"i{width}")
    return e.cast("sext" if is_signed(type_) else "zext", f"i{width}", part, "i32")


def _average(e, x: str, y: str) -> str:
    """Half the sum, halves rounded up where it is not negative, down where it is."""
    total = e.op("add i32", x, y)
    up = e.cast("zext", "i1", e.op("icmp sge i32", total, 0), "i32")
    return e.op("ashr i32", e.op("add i32", total, up), 1)


_SIMD = {
    "add": lambda e, x, y: e.op("add i32", x, y),
    "sub": lambda e, x, y: e.op("sub i32", x, y),
    "avrg": _average,
    "absdiff": lambda e, x, y: e.emit(f"call i32 @llvm.abs.i32(i32 {e.op('sub i32', x, y)}, i1 false)"),
    "min": lambda e, x, y: e.emit(f"call i32 @llvm.smin.i32(i32 {x}, i32 {y})"),
    "max": lambda e, x, y: e.emit(f"call i32 @llvm.smax.i32(i32 {x}, i32 {y})"),
}
