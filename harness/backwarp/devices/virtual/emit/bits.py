"""Rows of shifts, bit fields, and selection of bits and bytes.

Source: PTX ISA, sections 9.7.1 (integer arithmetic), 9.7.8 (logic and shift) and 9.7.9.7 (prmt).
"""

from __future__ import annotations

from ..ptx.ir import Immediate
from ..ptx.types import TYPES, is_signed, llvm_type
from .table import row, statement

# -- shifts ------------------------------------------------------------------------------------------


@statement("shl.<bits>", "shr.<bits>", "shr.<int>")
def _shift(e, ins, mods, d, a, amount):
    """Shift amounts are unsigned 32-bit and clamp at the width."""
    type_ = mods[-1]
    t, bits = TYPES[type_]
    a, amount = e.value(a, type_), e.value(amount, "u32")
    op = "shl" if ins.base == "shl" else "ashr" if is_signed(type_) else "lshr"
    if amount.isdecimal() and int(amount) < bits:  # in every address
        e.set(d, e.op(f"{op} {t}", a, amount), type_)
        return
    clamped = e.resize(e.emit(f"call i32 @llvm.umin.i32(i32 {amount}, i32 {bits - 1})"), "i32", t)
    result = e.op(f"{op} {t}", a, clamped)
    if op != "ashr":
        fits = e.op("icmp ult i32", amount, bits)
        result = e.emit(f"select i1 {fits}, {t} {result}, {t} 0")
    e.set(d, result, type_)


row("shf.l.wrap.b32")("call i32 @llvm.fshl.i32(i32 {b}, i32 {a}, i32 {c})")
row("shf.r.wrap.b32")("call i32 @llvm.fshr.i32(i32 {b}, i32 {a}, i32 {c})")
row("shf.l.clamp.b32")(
    "call i32 @llvm.fshl.i32(i32 {b}, i32 {a}, i32 {c}); icmp ult i32 {c}, 32;select i1 {1}, i32 {0}, i32 {a}"
)
row("shf.r.clamp.b32")(
    "call i32 @llvm.fshr.i32(i32 {b}, i32 {a}, i32 {c}); icmp ult i32 {c}, 32;select i1 {1}, i32 {0}, i32 {b}"
)

# -- bits --------------------------------------------------------------------------------------------


@statement("popc.<bits32>")
def _popc(e, ins, mods, d, a):
    t = llvm_type(mods[-1])
    count = e.emit(f"call {t} @llvm.ctpop.{t}({t} {e.value(a, mods[-1])})")
    e.set(d, e.resize(count, t, "i32"), "u32")


def _leading_zeros(e, t: str, value: str) -> str:
    return e.resize(e.emit(f"call {t} @llvm.ctlz.{t}({t} {value}, i1 false)"), t, "i32")


@statement("clz.<bits32>")
def _clz(e, ins, mods, d, a):
    e.set(d, _leading_zeros(e, llvm_type(mods[-1]), e.value(a, mods[-1])), "u32")


@statement("bfind{.shiftamt}.<int32_64>")
def _bfind(e, ins, mods, d, a):
    """Position of the highest bit that differs from the sign, or its distance from the top; -1 if none
    does."""
    t, bits = TYPES[mods[-1]]
    a = e.value(a, mods[-1])
    if is_signed(mods[-1]):
        a = e.op(f"xor {t}", a, e.op(f"ashr {t}", a, bits - 1))
    zeros = _leading_zeros(e, t, a)
    found = zeros if "shiftamt" in mods else e.op("sub i32", bits - 1, zeros)
    none = e.op(f"icmp eq {t}", a, 0)
    e.set(d, e.emit(f"select i1 {none}, i32 -1, i32 {found}"), "u32")


@row("fns.b32")
def _find_nth_set(e, mods, mask, base, offset):
    """Position of the n-th set bit from bit `base` up, or down for n < 0; n = 0: `base` if it is set."""
    down = e.op("icmp slt i32", offset, 0)
    above = e.op("shl i32", -1, e.op("and i32", base, 31))
    below = e.op("lshr i32", -1, e.op("sub i32", 31, e.op("and i32", base, 31)))
    reversed_ = e.emit(f"call i32 @llvm.bitreverse.i32(i32 {e.op('and i32', mask, below)})")
    bits = e.emit(f"select i1 {down}, i32 {reversed_}, i32 {e.op('and i32', mask, above)}")
    wanted = e.emit(f"call i32 @llvm.abs.i32(i32 {offset}, i1 false)")
    count = e.emit(f"call i32 @llvm.ctpop.i32(i32 {bits})")
    position, left = "0", wanted
    for width in (16, 8, 4, 2, 1):  # is it among the next `width` bits?
        window = e.op("and i32", e.op("lshr i32", bits, position), (1 << width) - 1)
        here = e.emit(f"call i32 @llvm.ctpop.i32(i32 {window})")
        beyond = e.op("icmp ugt i32", left, here)
        left = e.op("sub i32", left, e.emit(f"select i1 {beyond}, i32 {here}, i32 0"))
        position = e.op("add i32", position, e.emit(f"select i1 {beyond}, i32 {width}, i32 0"))
    position = e.emit(f"select i1 {down}, i32 {e.op('sub i32', 31, position)}, i32 {position}")
    exists = e.op("icmp ule i32", wanted, count)
    position = e.emit(f"select i1 {exists}, i32 {position}, i32 -1")
    at_base = e.cast("trunc", "i32", e.op("lshr i32", mask, e.op("and i32", base, 31)), "i1")
    at_base = e.emit(f"select i1 {at_base}, i32 {base}, i32 -1")
    return e.emit(f"select i1 {e.op('icmp eq i32', offset, 0)}, i32 {at_base}, i32 {position}")


@statement("bfe.<int32_64>")
def _bit_field_extract(e, ins, mods, d, a, start, length):
    """`length` bits from bit `start`, extended by the field's sign, or by the value's where the field runs
    past its end."""
    type_ = mods[-1]
    t, bits = TYPES[type_]
    wide, signed = f"i{2 * bits}", is_signed(type_)
    shift = "ashr" if signed else "lshr"
    value = e.cast("sext" if signed else "zext", t, e.value(a, type_), wide)
    start, length = (_field(e, operand, bits, wide) for operand in (start, length))
    empty = e.op(f"icmp eq {wide}", length, 0)
    drop = e.emit(f"select i1 {empty}, {wide} 0, {wide} {e.op(f'sub {wide}', 2 * bits, length)}")
    field = e.op(f"{shift} {wide}", value, start)
    field = e.op(f"{shift} {wide}", e.op(f"shl {wide}", field, drop), drop)
    field = e.cast("trunc", wide, field, t)
    e.set(d, e.emit(f"select i1 {empty}, {t} 0, {t} {field}"), type_)


def _field(e, operand: str, bits: int, wide: str) -> str:
    """A bit position or length: its low 8 bits, clamped to the width."""
    value = e.op("and i32", e.value(operand, "u32"), 255)
    return e.resize(e.emit(f"call i32 @llvm.umin.i32(i32 {value}, i32 {bits})"), "i32", wide)


@statement("bfi.<bits32>")
def _bit_field_insert(e, ins, mods, d, a, b, start, length):
    t, bits = TYPES[mods[-1]]
    wide = f"i{2 * bits}"
    a, b = e.value(a, mods[-1]), e.value(b, mods[-1])
    start, length = (_field(e, operand, bits, wide) for operand in (start, length))
    ones = e.op(f"sub {wide}", e.op(f"shl {wide}", 1, length), 1)
    mask = e.cast("trunc", wide, e.op(f"shl {wide}", ones, start), t)
    field = e.cast("trunc", wide, e.op(f"shl {wide}", e.cast("zext", t, a, wide), start), t)
    kept = e.op(f"and {t}", b, e.op(f"xor {t}", mask, -1))
    e.set(d, e.op(f"or {t}", kept, e.op(f"and {t}", field, mask)), mods[-1])


@row("bmsk.(clamp|wrap).b32")
def _bit_mask(e, mods, start, length):
    """`length` ones from bit `start`; both modulo 32 with .wrap, none from bit 32 on with .clamp."""
    if mods[0] == "wrap":
        start, length = e.op("and i32", start, 31), e.op("and i32", length, 31)
    else:
        start, length = (e.emit(f"call i32 @llvm.umin.i32(i32 {v}, i32 32)") for v in (start, length))
    start, length = (e.cast("zext", "i32", v, "i64") for v in (start, length))
    ones = e.op("sub i64", e.op("shl i64", 1, length), 1)
    return e.cast("trunc", "i64", e.op("shl i64", ones, start), "i32")


@row("szext.(clamp|wrap).<int32>")
def _extend_bits(e, mods, a, bits):
    """The low `bits` bits of a, sign- or zero-extended."""
    if mods[0] == "wrap":
        bits = e.op("and i32", bits, 31)
    else:
        bits = e.emit(f"call i32 @llvm.umin.i32(i32 {bits}, i32 32)")
    drop = e.cast("zext", "i32", e.op("sub i32", 64, bits), "i64")
    empty = e.op("icmp eq i32", bits, 0)
    drop = e.emit(f"select i1 {empty}, i64 0, i64 {drop}")
    top = e.op("shl i64", e.cast("zext", "i32", a, "i64"), drop)
    result = e.cast(
        "trunc", "i64", e.op(f"{'ashr' if is_signed(mods[-1]) else 'lshr'} i64", top, drop), "i32"
    )
    return e.emit(f"select i1 {empty}, i32 0, i32 {result}")


# -- permutation and three-input logic ---------------------------------------------------------------


@row("prmt.b32")
def _permute_bytes(e, mods, a, b, selector):
    """Nibble i of the selector picks byte i from b:a; its top bit replicates that byte's sign instead."""
    result = "0"
    for i in range(4):
        nibble = e.op("lshr i32", selector, 4 * i)
        byte = _byte(e, a, b, nibble)
        sign = e.op("ashr i8", byte, 7)
        replicate = e.op("icmp ne i32", e.op("and i32", nibble, 8), 0)
        byte = e.emit(f"select i1 {replicate}, i8 {sign}, i8 {byte}")
        result = _put_byte(e, result, i, byte)
    return result


def _byte(e, a: str, b: str, index: str) -> str:
    """Byte `index` modulo 8 of b:a."""
    both = e.op(
        "or i64", e.op("shl i64", e.cast("zext", "i32", b, "i64"), 32), e.cast("zext", "i32", a, "i64")
    )
    shift = e.op("shl i32", e.op("and i32", index, 7), 3)
    return e.cast("trunc", "i64", e.op("lshr i64", both, e.cast("zext", "i32", shift, "i64")), "i8")


def _put_byte(e, word: str, i: int, byte: str) -> str:
    return e.op("or i32", word, e.op("shl i32", e.cast("zext", "i8", byte, "i32"), 8 * i))


@statement("prmt.b32.(f4e|b4e|rc8|ecl|ecr|rc16)")
def _permute_by_mode(e, ins, mods, d, a, b, selector):
    """The selector's low two bits s choose the bytes: the mode's function of s and of the byte's place i."""
    a, b = e.value(a, "b32"), e.value(b, "b32")
    s = e.op("and i32", e.value(selector, "u32"), 3)
    index = {
        "f4e": lambda i: e.op("add i32", s, i),
        "b4e": lambda i: e.op("sub i32", s, i),
        "rc8": lambda i: s,
        "ecl": lambda i: e.emit(f"call i32 @llvm.umax.i32(i32 {s}, i32 {i})"),
        "ecr": lambda i: e.emit(f"call i32 @llvm.umin.i32(i32 {s}, i32 {i})"),
        "rc16": lambda i: e.op("or i32", e.op("shl i32", e.op("and i32", s, 1), 1), i & 1),
    }[mods[-1]]
    result = "0"
    for i in range(4):
        result = _put_byte(e, result, i, _byte(e, a, b, index(i)))
    e.set(d, result, "b32")


@statement("lop3.b32")
def _lop3(e, ins, mods, d, a, b, c, table):
    e.set(d, _truth_table(e, a, b, c, table), "b32")


@statement("lop3.(or|and).b32")
def _lop3_bool(e, ins, mods, d, a, b, c, table, q):
    """`d|p`: p = (d != 0) or/and q."""
    value = _truth_table(e, a, b, c, table)
    p = e.op(f"{mods[0]} i1", e.op("icmp ne i32", value, 0), e.value(q, "pred"))
    d, target = d.parts
    e.set(d, value, "b32")
    e.set(target, p, "pred")


def _truth_table(e, a: str, b: str, c: str, table: Immediate) -> str:
    """Any function of three bits, by its truth table: the or of the minterms that are set."""
    values = [e.value(o, "b32") for o in (a, b, c)]
    inverse = [e.op("xor i32", v, -1) for v in values]
    result = "0"
    for i in range(8):
        if table.value >> i & 1:
            x, y, z = (values[k] if i >> 2 - k & 1 else inverse[k] for k in range(3))
            result = e.op("or i32", result, e.op("and i32", x, e.op("and i32", y, z)))
    return result
