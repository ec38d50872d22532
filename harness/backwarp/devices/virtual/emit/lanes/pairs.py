"""Sums, differences, products and shifts of registers that are pairs (see `values`): on the scalars and on the vectors."""

from __future__ import annotations

from functools import reduce

from ...analyse.lanes import Lanes
from ...analyse.strides import linear
from ...ptx.ir import Instruction, Register
from ...ptx.types import BITS, is_signed, llvm_type
from ..emitter import Emitter
from .values import LaneValues, Pair

_ORDERS = ("lt", "le", "gt", "ge")
_LOWEST = -(1 << 31)


class Pairs:
    def __init__(self, e: Emitter, lanes: Lanes):
        self.e, self.lanes = e, lanes
        self.values: LaneValues = e.values

    def emit(self, ins: Instruction) -> bool:
        """An instruction on the scalars and the vectors of pairs; False where that is not possible. What differs between lanes
        may cancel out: then its result is uniform."""
        target, values = ins.operands[0], self.values
        uniform = not values.is_pair(target)
        kind = "" if uniform and not any(map(self.lanes.stride, ins.operands[1:])) else linear(ins)
        if kind in ("widen", "wide"):
            pair = self._widened(ins, kind)
        elif kind and BITS[ins.op.types[0]] == BITS[values.types[target]]:
            pair = self._plain(ins, kind)
        else:
            return False
        if pair is None:
            return False
        if uniform:
            values.set(target, pair[0], ins.op.types[0])
        else:
            values.set_pair(target, pair)
        return True

    def compare(self, ins: Instruction) -> bool:
        """An unsigned comparison with a uniform number, for processors that compare only signed numbers in vectors: the lowest
        number is added to the scalars of both sides. False for anything else."""
        e, kind = self.e, ins.opcode.removeprefix("setp.").removesuffix(".u32")
        if ins.opcode != f"setp.{kind}.u32" or kind not in _ORDERS or e.text.masks == "i1":
            return False
        target, a, b = ins.operands
        if not (type(a) is Register and self.values.is_pair(a) and self.lanes.stride(b) == 0):
            return False
        first, more = self.values.pair(a, "u32")
        moved, limit = (e.op("add i32", x, _LOWEST) for x in (first, self.values.value(b, "u32")))
        number = e.text.vector(f"add {e.text.type('i32')} {e.text.spread(moved, 'i32')}, {more}")
        self.values.set(target, e.op(f"icmp s{kind} i32", number, limit), "pred")
        return True

    def _plain(self, ins: Instruction, kind: str) -> Pair | None:
        e, values, t = self.e, self.values, llvm_type(ins.op.types[0])
        if kind == "narrow":
            first, rest = values.pair(ins.operands[1], ins.op.type)
            source = llvm_type(ins.op.type)
            return e.cast("trunc", source, first, t), self._cast("trunc", rest, source, t)
        pairs = [values.pair(o, ins.op.type) for o in ins.operands[1:]]
        found = self._computed(kind, pairs, t)
        if found is None or ins not in self.lanes.anchors or ins.operands[0] in self.lanes.merged:
            return None if ins in self.lanes.anchors else found
        marks = [values.is_whole(first) for first, rest in pairs if rest]
        good = marks[0] if len(marks) == 1 else e.op("and i1", *marks)

        def exact() -> str:
            wholes = [(e.value(o, ins.op.type), "") for o in ins.operands[1:]]
            return self._computed(kind, wholes, t)[0]

        return values.anchored(ins, good, found, exact)

    def _computed(self, kind: str, pairs: list[Pair], t: str) -> Pair | None:
        e = self.e
        (first, rest), *others = pairs
        if kind == "move":
            return first, rest
        if kind == "neg":
            return e.op(f"sub {t}", 0, first), self._vector("sub", t, "zeroinitializer", rest) if rest else ""
        second, more = others[0]
        if kind == "shl":
            moved = self._vector("shl", t, rest, f"splat ({t} {second})") if rest else ""
            if rest in e.text.widened and second.isdecimal() and int(second) < 32:
                ends = e.text.extremes[rest].items()
                e.text.extremes[moved] = {how: e.op(f"shl {t}", x, second) for how, x in ends}
            return e.op(f"shl {t}", first, second), moved
        if kind in ("add", "sub"):
            if rest and more or more and kind == "sub":
                rest = self._vector(kind, t, rest or "zeroinitializer", more)
            return e.op(f"{kind} {t}", first, second), rest or more
        if rest and more:
            return None
        by = e.text.spread(second if rest else first, t)
        product = (
            e.op(f"mul {t}", first, second),
            self._vector("mul", t, rest or more, by) if rest or more else "",
        )
        return self._computed("add", [product, others[1]], t) if len(others) > 1 else product

    def _vector(self, op: str, t: str, a: str, b: str) -> str:
        return self.e.text.vector(f"{op} {self.e.text.type(t)} {a}, {b}")

    def _cast(self, op: str, rest: str, source: str, to: str) -> str:
        text = self.e.text
        return text.vector(f"{op} {text.type(source)} {rest} to {text.type(to)}") if rest else ""

    def _widened(self, ins: Instruction, kind: str) -> Pair | None:
        """cvt to 64 bits, mul.wide, mad.wide: exact where no lane's 32-bit sum overflows."""
        e, values, type_ = self.e, self.values, ins.op.type
        signed = is_signed(type_)
        extend = "sext" if signed else "zext"
        given = list(ins.operands[1:])
        if kind == "wide" and not self.lanes.stride(given[0]) and self.lanes.stride(given[1]) != 0:
            given[0], given[1] = given[1], given[0]
        first, rest = values.pair(given[0], type_)
        by = ""
        if kind == "wide":
            factor, other = values.pair(given[1], type_)
            if other:
                return None
            by = e.cast(extend, "i32", factor, "i64") if factor[0] == "%" else _extended(factor, signed)
        if not rest:  # it is the summand that varies
            return None
        if ins not in self.lanes.anchors:  # its result is merged
            return None
        low, high = (self._extreme(how, rest, given[0]) for how in ("smin", "smax"))
        wide, ends = e.text.extended(extend, first)
        # how far the lowest may be above the least number
        begin = e.op("add i64", low, 1 << 31) if signed else low
        room = e.op("sub i64", (1 << 32) - 1, e.op("sub i64", high, low))
        inside = [e.op("icmp ule i64", e.op("add i64", end, begin), room) for end in ends]
        good = reduce(lambda a, b: e.op("and i1", a, b), inside)
        found = wide, self._cast("sext", rest, "i32", "i64")
        if by:
            found = self._computed("mul", [found, (by, "")], "i64")
        if not by:
            e.text.widened.add(found[1])
        if by.isdecimal() or not by:
            ends = {"smin": low, "smax": high}
            e.text.extremes[found[1]] = {how: e.op("mul i64", x, by) if by else x for how, x in ends.items()}
        plus = values.pair(given[2], f"{type_[0]}64") if len(given) > 2 else None
        if plus:
            found = self._computed("add", [found, plus], "i64")
            if self.lanes.anchored.get(given[2]):
                good = e.op("and i1", good, values.is_whole(plus[0]))

        def exact() -> str:
            whole = e.cast(extend, "i32", e.value(given[0], type_), "i64")
            whole = e.op("mul i64", whole, by) if by else whole
            return e.op("add i64", whole, e.value(given[2], f"{type_[0]}64")) if plus else whole

        return values.anchored(ins, good, found, exact)

    def _extreme(self, how: str, rest: str, given) -> str:
        """The lowest or highest of 32-bit numbers, as 64 bits."""
        stride, text = self.lanes.stride(given), self.e.text
        if stride is not None:
            last = stride * (text.width - 1)
            return str(min(0, last) if how == "smin" else max(0, last))
        return self.e.cast("sext", "i32", text.reduced(how, rest, "i32"), "i64")


def _extended(number: str, signed: bool) -> str:
    """The text of a 32-bit number as 64 bits."""
    value = int(number) & 0xFFFFFFFF
    return str(value - (1 << 32) if signed and value >> 31 else value)
