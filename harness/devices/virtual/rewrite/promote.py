"""Local variables and parameters of calls become registers, where nothing needs their addresses.

    mov.u64 %rd1, depot.0;
    st.f32 [%rd1+4], %f1;               mov.b32 %depot.0.4, %f1;
    st.param.f32 [param0], %f1;   ->    mov.b32 %param0.0, %f1;
    ld.param.f32 %f2, [param0];         mov.b32 %f2, %param0.0;

A variable is one if all that is done with its address is to add constants, and to load and store the same elements. So a
closure becomes registers first, and then what it has the addresses of. A register that is read before it is assigned is what
an element is that was never written.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.assigned import maybe_undefined
from ..ptx.ir import Address, Function, Immediate, Instruction, Operand, Register, Symbol, operand
from ..ptx.types import BITS, is_signed

_MOST_ROUNDS = 8


def run(function: Function) -> None:
    """In place. The function calls no other; what it has expanded are copies of its own."""
    for _ in range(_MOST_ROUNDS):
        if not _Round(function).run():
            break


class _Round:
    def __init__(self, function: Function):
        self.function, self.body = function, function.body
        self.own = {name for name, v in function.variables.items() if v.space in ("local", "param")}
        self.exact: dict[str, tuple[str, int]] = {}  # register -> the variable, and how far behind its start
        # of each variable: the offsets of its elements -> how many bytes are stored, and loaded, there
        self.elements: dict[str, dict[int, tuple[set[int], set[int]]]] = {name: {} for name in self.own}

    def run(self) -> bool:
        """Whether any has become a register."""
        self._find_addresses()
        for ins in self.body:
            if isinstance(ins, Instruction):
                self._look(ins)
        chosen = {name for name in self.own if self._is_apart(name)}
        if not chosen:
            return False
        body = []
        for item in self.body:
            body += self._rewritten(item, chosen) if isinstance(item, Instruction) else [item]
        self.function.body = body
        for name in chosen:
            del self.function.variables[name]
            for offset in self.elements[name]:
                self.function.regs[_register(name, offset)] = f"b{max(8 * self._size(name, offset), 32)}"
        return True

    # -- addresses --------------------------------------------------------------------------------------------

    def _find_addresses(self) -> None:
        writers: dict[str, list[Instruction]] = {}
        for ins in (i for i in self.body if isinstance(i, Instruction)):
            for name in ins.writes:
                writers.setdefault(name, []).append(ins)
        early = maybe_undefined(
            self.body, self.function.regs
        )  # what is done at such an address may be a fault
        single = {name: found[0] for name, found in writers.items() if len(found) == 1 and name not in early}
        more = True
        while more:
            more = False
            for name, ins in single.items():
                place = None if name in self.exact else self._computed(ins)
                if place:
                    self.exact[name], more = place, True

    def _computed(self, ins: Instruction) -> tuple[str, int] | None:
        """The address that an instruction computes, if that is certain."""
        if ins.pred or ins.op.memory:
            return None
        if ins.op.is_move or ins.base == "cvta" and ins.op.space == "local":
            return self._place(ins.operands[1])
        if ins.op.formula == "a+b" and ins.op.type in ("u64", "s64", "b64"):
            place, by = self._place(ins.operands[1]), ins.operands[2]
            if place and isinstance(by, Immediate) and not by.format:
                return place[0], place[1] + by.value
        return None

    def _place(self, given: Operand) -> tuple[str, int] | None:
        if isinstance(given, Symbol) and given.name in self.own:
            return given.name, given.offset
        return self.exact.get(given) if isinstance(given, Register) else None

    def _access(self, ins: Instruction) -> tuple[str, int] | None:
        """The variable that a load or a store accesses, and where."""
        op = ins.op
        if op.memory not in ("load", "store") or op.ordering or ins.pred or ins.used != -1:
            return None
        address = ins.address
        if not isinstance(address, Address) or not (place := self._place(address.base)):
            return None
        return place[0], place[1] + address.offset

    def _look(self, ins: Instruction) -> None:
        """Elements that it accesses; what it does otherwise with an address spoils the variable."""
        place = self._access(ins)
        if place:
            name, offset = place
            size = ins.op.nbytes
            values = ins.operands[0 if ins.op.memory == "load" else 1].parts
            for i in range(len(values)):
                stored, loaded = self.elements[name].setdefault(offset + i * size, (set(), set()))
                (loaded if ins.op.memory == "load" else stored).add(size)
            others: list[Operand] = list(values)
        elif ins.writes and next(iter(ins.writes)) in self.exact:
            return
        else:
            others = list(ins.operands)
        for o in others:
            for name in o.names:
                spoiled = name if name in self.own else self.exact.get(name, ("", 0))[0]
                self.own.discard(spoiled)

    def _is_apart(self, name: str) -> bool:
        """Whether its elements are in it, and none is a part of others."""
        found, top = self.elements[name], 0
        gaps = self.function.variables[name].padding
        for at in sorted(found):
            stored, loaded = found[at]
            size = self._size(name, at)
            if at < top or at % size or stored and stored != {size} or not stored and len(loaded) > 1:
                return False
            if not stored and any(
                gap.meets(at, size) for gap in gaps
            ):  # there is a value, if nobody knows which
                return False
            top = at + size
        return top <= self.function.variables[name].size

    def _size(self, name: str, offset: int) -> int:
        """Of an element; less may be loaded."""
        return max(set.union(*self.elements[name][offset]))

    # -- registers --------------------------------------------------------------------------------------------

    def _rewritten(self, ins: Instruction, chosen: set[str]) -> list[Instruction]:
        place = self._access(ins)
        if place and place[0] in chosen:
            return self._moves(ins, *place)
        written = next(iter(ins.writes), "")
        if written in self.exact and self.exact[written][0] in chosen:
            return []
        if ins.base == "enter":
            own = {name for name in ins.expansion.variables if name in chosen}
            fresh = [_register(name, at) for name in sorted(own) for at in sorted(self.elements[name])]
            left = tuple(name for name in ins.expansion.variables if name not in own)
            into = replace(ins.expansion, registers=(*ins.expansion.registers, *fresh), variables=left)
            return [replace(ins, expansion=into)]
        if ins.base == "leave":
            left = tuple(name for name in ins.expansion.variables if name not in chosen)
            return [replace(ins, expansion=replace(ins.expansion, variables=left))]
        return [ins]

    def _moves(self, ins: Instruction, name: str, offset: int) -> list[Instruction]:
        load, size = ins.op.memory == "load", ins.op.nbytes
        values, found = ins.operands[0 if load else 1].parts, []
        for i, value in enumerate(values):
            own = operand(_register(name, offset + i * size))
            if load and not isinstance(value, Register):
                continue
            opcode = f"mov.b{8 * size}"
            if size < max(4, self._size(name, offset + i * size)):
                kind = "s" if load and is_signed(ins.op.type) else "u"
                bits = BITS[self.function.regs[value]] if load else 32
                opcode = f"cvt.{kind}{bits}.{kind}{8 * size}"
                if not load and isinstance(value, Immediate):
                    opcode, value = "mov.b32", operand(str(value.value & (1 << 8 * size) - 1))
            operands = (value, own) if load else (own, value)
            found.append(replace(ins, opcode=opcode, operands=operands, original=ins.original or ins))
        return found


def _register(variable: str, offset: int) -> str:
    return f"%{variable}.{offset}"
