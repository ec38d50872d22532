"""Strides: the difference between a register's values in neighbouring lanes.

The stride of a sum or product follows from its operands' strides. 0 means the same value in all lanes; None
means no constant difference.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ptx import special
from ..ptx.ir import Function, Immediate, Instruction, Operand, Register, Special
from ..ptx.types import BITS

#: special registers that grow by one from lane to lane
LINEAR = {"%tid.x", "%laneid"}
COUNTERS = "%watch."  # the watchdog's: per worker, not per thread
_WORDS = ("u32", "s32", "b32", "u64", "s64", "b64")
_OPEN = object()  # the stride of a register about which nothing is known yet


class Strides:
    """of_registers: the latest result. known: instructions whose results have a stride that does not follow
    from their operands' strides.
    """

    def __init__(self, function: Function):
        self.types = function.regs
        self.writing = [i for i in function.body if isinstance(i, Instruction) and i.writes]
        self.written = {name for ins in self.writing for name in ins.writes}
        self.of_registers: dict[str, int | None] = {}
        self.known: dict[Instruction, int | None] = {}

    def find(self, varying: Iterable[str]) -> dict[str, int | None]:
        """The least fixed point. varying: registers without a constant difference in any case."""
        strides = self.of_registers = dict.fromkeys(varying)
        while True:
            while self._follow():
                pass
            unset = self.written - strides.keys()  # a sum without an initial value, for example
            if not unset:
                return strides
            strides |= dict.fromkeys(unset)

    def _follow(self) -> bool:
        """Whether something has changed."""
        strides, changed = self.of_registers, False
        for ins in self.writing:
            for name in ins.writes:
                if strides.get(name, 0) is None:
                    continue
                stride = 0 if name.startswith(COUNTERS) else self._result(ins, name)
                if stride is _OPEN:
                    continue
                if name in strides and strides[name] != stride:
                    stride = None
                changed |= name not in strides or strides[name] != stride
                strides[name] = stride
        return changed

    def of(self, given: Operand):
        """The stride of an operand; _OPEN if not known yet."""
        if isinstance(given, Special):
            return int(given in LINEAR)
        if isinstance(given, Register) and given in self.written:
            return self.of_registers.get(given, _OPEN)
        return 0

    def _result(self, ins: Instruction, name: str):
        if ins in self.known:
            return self.known[ins]
        if ins.op.collective:
            return 0
        # not its guard: what a load gives to other lanes does not matter
        names = sorted({name for source in ins.sources for name in source.registers})
        read = [self.of(Register(r) if r not in special.ROWS else Special(r)) for r in names]
        if _OPEN in read:
            return _OPEN
        if all(s == 0 for s in read):
            return 0
        if BITS[self.types[name]] in (32, 64) and not self.types[name].startswith("f"):
            return self._linear(ins)
        return None

    def _linear(self, ins: Instruction) -> int | None:
        """The stride of a sum or product. Not 0 for one of 64 bits whose operands vary: the sums of 32 bits behind them may have
        overflowed in some lanes only."""
        kind = linear(ins)
        if not kind:
            return None
        stride = self._of_kind(ins, kind)
        return None if stride == 0 and BITS[self.types[ins.operands[0]]] == 64 else stride

    def _of_kind(self, ins: Instruction, kind: str) -> int | None:
        given = [self.of(o) for o in ins.operands[1:]]
        factor = ins.operands[2].value if len(given) > 1 and type(ins.operands[2]) is Immediate else None
        if None in given:
            return None
        match kind:
            case "move" | "widen" | "narrow":
                return given[0]
            case "neg":
                return -given[0]
            case "add":
                return given[0] + given[1]
            case "sub":
                return given[0] - given[1]
            case "shl":
                return given[0] << factor
        if given[0] and given[1]:
            return None
        more = given[2] if len(given) > 2 else 0
        if not (given[0] or given[1]):
            return more
        return given[0] * factor + more if factor is not None and given[0] else None


def linear(ins: Instruction) -> str:
    """The kind of an instruction that works on scalar and vector separately; "" for any other.

    "move" | "add" | "sub" | "neg" | "shl" | "mul" (mad, too) | "narrow": exact in the width of the result; "widen" |
    "wide" (mul.wide, mad.wide): exact unless the 32-bit sum overflows.
    """
    op, base = ins.op, ins.base
    if op.type not in _WORDS or not op.has_result or type(ins.operands[0]) is not Register:
        return ""
    plain = "sat" not in op.mods and "cc" not in op.mods
    if base == "mov" and type(ins.operands[1]) in (Register, Special, Immediate):
        return "move"
    if base == "cvta" and op.space in ("global", "const"):
        return "move"
    if base in ("add", "sub", "neg") and plain:
        return base
    if base in ("mul", "mad") and plain and op.mods[0] in ("lo", "wide"):
        return "mul" if op.mods[0] == "lo" else "wide"
    if base == "shl" and type(ins.operands[2]) is Immediate and 0 <= ins.operands[2].value < BITS[op.type]:
        return "shl"
    if base == "cvt" and plain and all(t in _WORDS for t in op.types) and len(op.types) == 2:
        to, source = (BITS[t] for t in op.types)
        return "move" if to == source else "widen" if to > source else "narrow"
    return ""
