"""What a value is the sum of: the recorded values that it is computed from, as a sum of products.

    mul.f32 %f9, %f7, %f8;      // %f7, %f8 were loaded: points 12 and 14
    add.f32 %f5, %f4, %f9;      // %f4 is in point 9
    // %f5 = 12 * 14 + 9: ((12, 14), (9,))

A source is the number of a point: the first of those that record the register. Of byte o of a formal parameter k:
-1 - k - FORMALS * o; of a call's result: its point + BACK * (1 + o).
"""

from __future__ import annotations

from ..ptx.ir import Address, Function, Instruction, Label, Register, Symbol

MOST_TERMS, MOST_FACTORS, DEEPEST = 64, 8, 60
FORMALS, BACK = 256, 1 << 32
Sum = tuple[tuple[int, ...], ...]
ONE: Sum = ((),)


class Sums:
    """got: (instruction, register) -> the point that records it. kept: register -> its points. arguments: symbol
    and offset -> the point of what is stored there. back: symbol of a result -> the point after its call."""

    def __init__(self, function: Function, body: list, got: dict, kept: dict, arguments: dict, back: dict):
        self.got, self.kept, self.arguments, self.back = got, kept, arguments, back
        self.formals = {p.name: n for n, p in enumerate(function.params)} if not function.entry else {}
        self.defs: dict[str, list[Instruction]] = {}
        for item in body:
            if isinstance(item, Instruction):
                for name in item.writes:
                    self.defs.setdefault(name, []).append(item)
        self._known: dict[str, Sum] = {}

    def of(self, operand, depth: int = 0) -> Sum:
        """Of an operand where it is read."""
        if type(operand) is not Register:
            return ONE
        if points := self.kept.get(operand):
            return ((points[0],),)
        if operand not in self._known:
            self._known[operand] = ONE  # on a cycle
            found = (
                [self.written(i, operand, depth + 1) for i in self.defs.get(operand, ())]
                if depth < DEEPEST
                else []
            )
            self._known[operand] = (found[0] if len(found) == 1 else _flat(found)) if found else ONE
        return self._known[operand]

    def written(self, ins: Instruction, register: str, depth: int = 0) -> Sum:
        """Of what an instruction gives to a register."""
        op = ins.op
        if (point := self.got.get((ins, register))) is not None:
            return ((point,),)
        if op.of_parameters and op.memory == "load" and type(ins.address.base) is Symbol:
            name, at = (
                str(ins.address.base),
                ins.address.offset + ins.operands[0].parts.index(register) * op.nbytes,
            )
            if (name, at) in self.arguments:
                return ((self.arguments[name, at],),)
            if name in self.back:
                return ((self.back[name] + BACK * (1 + at),),)
            return ((-1 - self.formals[name] - FORMALS * at,),) if name in self.formals else ONE
        if op.memory or op.collective or op.flow:
            return ONE
        values = [
            self.of(part, depth) for o in ins.sources for part in o.parts if not isinstance(part, Address)
        ]
        if ins.base in ("add", "sub") and op.type[:1] == "f":
            return _added(values)
        if ins.base in ("mul", "div") and op.type[:1] == "f":
            return _times(values)
        if ins.base in ("fma", "mad") and op.type[:1] == "f":
            return _added([_times(values[:2]), values[2]])
        if ins.base == "selp":
            return _added(values[:2])
        return values[0] if len(values) == 1 else _flat(values)


def before(function_body: list, at: int, register: str) -> Instruction | None:
    """The instruction that wrote a register last, in the same block."""
    for item in reversed(function_body[:at]):
        if isinstance(item, Label) or item.op.flow:
            return None
        if register in item.writes:
            return item
    return None


def _added(values: list[Sum]) -> Sum:
    found = tuple(dict.fromkeys(t for v in values for t in v if t))
    return (found or ONE) if len(found) <= MOST_TERMS else _flat([found])


def _times(values: list[Sum]) -> Sum:
    found = ONE
    for v in values:
        found = tuple(a + b for a in found for b in v)
        if len(found) > MOST_TERMS or any(len(t) > MOST_FACTORS for t in found):
            return _flat(values)
    return found


def _flat(values: list[Sum]) -> Sum:
    return (tuple(dict.fromkeys(s for v in values for t in v for s in t))[:MOST_FACTORS],)
