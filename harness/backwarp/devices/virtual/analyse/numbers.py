"""The integers that instructions compute from integers."""

from __future__ import annotations

from ..ptx.ir import Immediate, Instruction
from ..ptx.types import BITS, is_signed


def follow(items: list, known: dict[str, int]) -> None:
    """Executes instructions. known: the numbers that registers hold before and, from then on, after them."""
    for ins in (i for i in items if isinstance(i, Instruction)):
        value = None if ins.pred or len(ins.writes) != 1 else value_of(ins, known)
        for name in ins.writes:
            known.pop(name, None)
        if value is not None:
            known[ins.operands[0]] = value


def read_as(value: int, type_: str) -> int:
    """The number that bits are, in a type."""
    if type_ == "pred":
        return value & 1
    bits = BITS[type_]
    value &= (1 << bits) - 1
    return value - (1 << bits) if is_signed(type_) and value >> bits - 1 else value


SUMS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "div": lambda a, b: a // b if a >= 0 and b > 0 else None,
    "rem": lambda a, b: a % b if a >= 0 and b > 0 else None,
}
COMPARISONS = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def value_of(ins: Instruction, known: dict[str, int]) -> int | None:
    """The bits of an integer result, if all operands are known and it is one of those that indices are computed with."""
    given = []
    for o in ins.sources:
        if isinstance(o, Immediate) and not o.format:
            given.append(o.value)
        elif o in known:
            given.append(known[o])
        else:
            return None
    op, type_ = ins.op, ins.op.type
    if op.types and any(t[0] == "f" or t not in BITS for t in op.types):
        return None
    if op.is_move:
        return bits_of(given[0], type_)
    if op.base == "cvt" and len(op.mods) == 2:
        return bits_of(read_as(given[0], op.types[1]), op.types[0])
    if op.base == "not":
        return bits_of(~given[0], type_)
    if op.base == "setp" and len(op.mods) == 2 and op.mods[0] in COMPARISONS and len(ins.operands) == 3:
        a, b = (read_as(x, type_) for x in given)
        return int(COMPARISONS[op.mods[0]](a, b))
    if op.base in ("shl", "shr") and op.mods == (type_,):
        by = min(given[1] & 0xFFFFFFFF, BITS[type_])
        value = read_as(given[0], type_)
        return bits_of(value << by if op.base == "shl" else value >> by, type_)
    if op.base in ("mul", "mad") and op.mods in (("lo", type_), ("wide", type_)):
        wide = type_[0] + str(2 * BITS[type_]) if op.mods[0] == "wide" else type_
        a, b = (read_as(x, type_) for x in given[:2])
        return bits_of(a * b + (read_as(given[2], wide) if op.base == "mad" else 0), wide)
    if op.base in SUMS and op.mods == (type_,):
        value = SUMS[op.base](*(read_as(x, type_) for x in given))
        return None if value is None else bits_of(value, type_)
    return None


def bits_of(value: int, type_: str) -> int:
    return value & (1 if type_ == "pred" else (1 << BITS[type_]) - 1)
