"""The unset bits of an instruction's result, computed by PTX inserted next to it: see `initialised`.

add.u32 %r3, %r1, %r2;   ->   setp.ne.b32 %unset.t1, %r1.unset, 0;
                              setp.ne.b32 %unset.t2, %r2.unset, 0;
                              or.pred %unset.t3, %unset.t1, %unset.t2;
                              selp.b64 %unset.t4, %r1.from, %r2.from, %unset.t1;
                              selp.b32 %unset.t5, -1, 0, %unset.t3;
                              add.u32 %r3, %r1, %r2;
                              mov.b32 %r3.unset, %unset.t5;
                              mov.b64 %r3.from, %unset.t4;
"""

from __future__ import annotations

from collections.abc import Iterable

from ..analyse.unset import inputs
from ..ptx.ir import Function, Instruction, Label, Operand, Vector
from ..ptx.op import CARRY
from ..ptx.types import BITS
from ..rewrite.inline import plain_name
from ..runtime.abi import ORIGIN, ORIGIN_KIND, ORIGIN_SITE, USE
from .insert import mark

_PACKED = ("f16x2", "bf16x2")


class UnsetBits:
    """A body under construction. followed: the registers that may be unset. undefined: those that may never
    have been assigned."""

    def __init__(self, function: Function, followed: set[str], undefined: frozenset[str]):
        self.function, self.followed, self.undefined = function, followed, undefined
        self.body: list[Instruction | Label] = []
        self.ins: Instruction  # the item next to which instructions are inserted
        self.serial = 0
        self.tested: dict[str, str] = {}  # register -> a predicate: whether it is unset, at this instruction
        for register in sorted(followed):  # their slots come in this order
            function.regs |= {f"{register}.unset": self.type(register), f"{register}.from": "b64"}

    def put(self, opcode: str, *operands: str | int) -> None:
        self.body.append(mark(opcode, *operands, at=self.ins))

    def make(self, type_: str, opcode: str, *operands: str | int) -> str:
        """Insert an instruction; returns its result, a new register."""
        self.serial += 1
        name = f"%unset.t{self.serial}"
        self.function.regs[name] = type_
        self.put(opcode, name, *operands)
        return name

    def type(self, register: str) -> str:
        """Of the register's unset bits."""
        type_ = "pred" if register == CARRY else self.function.regs[register]
        return "pred" if type_ == "pred" else f"b{BITS[type_]}"

    # -- of a register -----------------------------------------------------------------------------

    def unset(self, register: str) -> str:
        """Which of its bits are unset."""
        return f"{register}.unset" if register in self.followed else "0"

    def is_unset(self, register: str) -> str:
        """A predicate: whether any is."""
        if register not in self.tested:
            self.tested[register] = self.any_bit(self.unset(register), self.type(register))
        return self.tested[register]

    def any_bit(self, unset: str, type_: str) -> str:
        return unset if type_ == "pred" else self.make("pred", f"setp.ne.{type_}", unset, 0)

    def origin(self, register: str) -> str:
        """The origin of its unset bits."""
        origin = f"{register}.from"
        if register not in self.undefined or self.ins.op.is_move:
            return origin
        function = self.ins.expansion.function if self.ins.expansion else self.function.name
        own = self.make("b64", "locate", plain_name(register), function)
        own = self.make("b64", "shl.b64", own, ORIGIN_SITE)
        own = self.make("b64", "or.b64", own, ORIGIN["register"] << ORIGIN_KIND)
        return self.make("b64", "selp.b64", own, origin, self.make("pred", "setp.eq.b64", origin, 0))

    def is_any_unset(self, names: Iterable[str]) -> str:
        """Whether any bit of these registers is unset."""
        bad = ""
        for register in self._followed(names):
            this = self.is_unset(register)
            bad = self.make("pred", "or.pred", bad, this) if bad else this
        return bad or "0"

    def first_origin(self, names: Iterable[str]) -> str:
        """The origin of the first unset one, if any."""
        found = ""
        for register in reversed(self._followed(names)):
            origin = self.origin(register)
            found = self.make("b64", "selp.b64", origin, found, self.is_unset(register)) if found else origin
        return found or "0"

    def _followed(self, names: Iterable[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name in self.followed]

    def set(self, register: str, unset: str | int = 0, origin: str | int = "") -> None:
        """Of a result: which bits are unset, and where that comes from."""
        if register in self.followed:
            self.put(f"mov.{self.type(register)}", f"{register}.unset", unset)
            if origin != "":
                self.put("mov.b64", f"{register}.from", origin)
            self.tested.pop(register, None)

    def set_all(self) -> None:
        """All results of the instruction are set."""
        for name in sorted(self.ins.writes):
            self.set(name)

    def forget(self, registers: Iterable[str]) -> None:
        """These are unassigned again. The others are assigned before they are read."""
        for register in sorted(self.undefined.intersection(registers)):
            self.set(register, -1, 0)

    def check(self, names: Iterable[str], how: str) -> None:
        """A fault if one of these is unset; afterwards it counts as set."""
        if names := self._followed(names):
            bad, origin = self.is_any_unset(names), self.first_origin(names)
            self.put("runtime.if", bad, "_", "rt_unset_used", USE[how], origin)
            for name in names:
                self.set(name)

    # -- of what is computed -------------------------------------------------------------------------

    def compute(self) -> None:
        """An instruction that only computes."""
        ins = self.ins
        targets = [t for t in (*sorted(ins.writes), *[CARRY] * ins.op.leaves_carry) if t in self.followed]
        used = [name for name in inputs(ins) if name in self.followed]
        found, origin = {}, ""
        if used and targets:
            found, origin = self._bitwise(), self.first_origin(used)
            for name in targets:
                if name not in found:
                    found[name] = self._all_if(self.is_any_unset(used), self.type(name))
        self.body.append(ins)
        for name in targets:
            self.set(name, found.get(name, 0), origin)

    def _all_if(self, bad: str, type_: str, otherwise: str | int = 0) -> str:
        if type_ == "pred":
            return bad if otherwise == 0 else self.make("pred", "or.pred", bad, otherwise)
        return self.make(type_, f"selp.{type_}", -1, otherwise, bad)

    def _bitwise(self) -> dict[str, str]:
        """Result -> its unset bits, if they are known bit by bit."""
        ins, op = self.ins, self.ins.op
        if op.moves:
            return self._moved()
        if op.bitwise:
            return {ins.operands[0]: self._logic()}
        if op.chooses:
            return {ins.operands[0]: self._selected()}
        if op.type in _PACKED and all(self._is_word(o) for o in ins.operands):
            return {ins.operands[0]: self._by_halves()}
        if ins.roles[0].type in _PACKED and op.type not in _PACKED:
            return {ins.operands[0]: self._two_halves()}
        return {}

    def _is_word(self, given: Operand) -> bool:
        return given in self.function.regs and self.type(given) == "b32"

    def _moved(self) -> dict[str, str]:
        """The instruction itself, applied to the masks of unset bits."""
        ins, made = self.ins, {}
        if ins.op.is_move and ins.operands[0] in self.followed and ins.operands[1] in self.followed:
            return {ins.operands[0]: self.unset(ins.operands[1])}

        def result(part: Operand) -> str:
            if part in self.function.regs:
                self.serial += 1
                made[part] = f"%unset.t{self.serial}"
                self.function.regs[made[part]] = self.type(part)
            return made.get(part, part)

        operands = [
            _like(o, result if i == 0 else self.unset) if i in (0, *ins.op.moves) else o
            for i, o in enumerate(ins.operands)
        ]
        self.put(ins.opcode, *operands)
        where = [
            name for i, o in enumerate(ins.operands) if i and i not in ins.op.moves for name in o.registers
        ]
        lost = self.is_any_unset(where)
        if lost == "0":
            return made
        return {name: self._all_if(lost, self.type(name), moved) for name, moved in made.items()}

    def _logic(self) -> str:
        """`and` with a 0 bit, and `or` with a 1 bit, are set whatever the other bit is."""
        base, type_ = self.ins.op.bitwise, self.type(self.ins.operands[0])
        shadows = [self.unset(o) for o in self.ins.operands[1:]]
        if base == "not":
            return shadows[0]
        found = self.make(type_, f"or.{type_}", *shadows)
        for value, unset in zip(self.ins.operands[1:], shadows, strict=True) if base != "xor" else ():
            value = self.make(type_, f"not.{type_}", value) if base == "or" else value
            found = self.make(type_, f"and.{type_}", found, self.make(type_, f"or.{type_}", value, unset))
        return found

    def _selected(self) -> str:
        """If the condition is unset, so are the bits in which the two values differ."""
        _, a, b, condition = self.ins.operands
        type_, register = self.type(self.ins.operands[0]), getattr(condition, "register", condition)
        one = self.make(type_, f"selp.{type_}", self.unset(a), self.unset(b), condition)
        if register not in self.followed:
            return one
        either = self.make(type_, f"xor.{type_}", a, b)
        for unset in (self.unset(a), self.unset(b)):
            either = self.make(type_, f"or.{type_}", either, unset)
        return self.make(type_, f"selp.{type_}", either, one, self.unset(register))

    def _by_halves(self) -> str:
        """Packed halves: each separately."""
        unset = "0"
        for source in self.ins.operands[1:]:
            unset = self.make("b32", "or.b32", unset, self.unset(source))
        low = self.make("b32", "and.b32", unset, 0xFFFF)
        return self._halves(self.any_bit(low, "b32"), self.make("pred", "setp.gt.u32", unset, 0xFFFF))

    def _two_halves(self) -> str:
        """cvt of two values to packed halves, the upper one first."""
        high, low = (self.is_any_unset(o.registers) for o in self.ins.operands[1:3])
        return self._halves(low, high)

    def _halves(self, low: str, high: str) -> str:
        halves = (
            self.make("b32", "selp.b32", mask, 0, bad) for mask, bad in ((0xFFFF, low), (0xFFFF << 16, high))
        )
        return self.make("b32", "or.b32", *halves)


def _like(given: Operand, name) -> str:
    """An operand with its names replaced."""
    if isinstance(given, Vector):
        return f"{{{', '.join(name(part) for part in given.parts)}}}"
    return name(getattr(given, "register", given))
