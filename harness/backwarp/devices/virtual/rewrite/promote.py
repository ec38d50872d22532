"""Local variables and parameters of calls become registers, where nothing needs their addresses.

    mov.u64 %rd1, depot.0;
    st.f32 [%rd1+4], %f1;               mov.b32 %depot.0.4, %f1;
    st.param.f32 [param0], %f1;   ->    mov.b32 %param0.0, %f1;
    ld.param.f32 %f2, [param0];         mov.b32 %f2, %param0.0;

A variable is one if all that is done with its address is to add constants, and to load and store the same elements, or to keep
it in an element of such a variable that never holds anything else: what is loaded from there is that address. A register that
is read before it is assigned is what an element is that was never written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..analyse.assigned import maybe_undefined, read_before
from ..ptx.ir import Address, Function, Immediate, Instruction, Operand, Register, Symbol, operand
from ..ptx.types import BITS, is_signed

_MOST_ROUNDS = 8
_ADDRESS = 8  # bytes
Place = tuple[str, int]  # a variable, and how far behind its start


def run(function: Function) -> None:
    """In place. What the function has expanded are copies of its own."""
    for _ in range(_MOST_ROUNDS):
        if not _Round(function).run():
            break


def in_place(function: Function) -> None:
    """The same, where all other variables keep their places in local memory: those of a copy are only given up where neither
    it nor the copies in it need memory any more."""
    variables, before = dict(function.variables), _marks(function)
    run(function)
    after, around, needed = _marks(function), [], set()
    matching: dict[int, int] = {}
    for i, mark in enumerate(after):
        if mark.base == "leave":
            matching[around.pop()] = i
            continue
        around.append(i)
        if mark.expansion.variables:
            needed.update(around)
    left = {name for i in matching.keys() - needed for name in before[i].expansion.variables}
    function.variables = {
        name: v
        for name, v in variables.items()
        if name in function.variables or v.space == "local" and name not in left
    }
    kept = {}
    for i in (*needed, *(matching[i] for i in needed)):
        into = replace(after[i].expansion, variables=before[i].expansion.variables)
        kept[after[i]] = replace(after[i], expansion=into)
    function.body = [kept.get(item, item) for item in function.body]


def _marks(function: Function) -> list[Instruction]:
    """Where copies of functions begin and end."""
    return [i for i in function.body if isinstance(i, Instruction) and i.base in ("enter", "leave")]


class _Round:
    """without: variables whose elements may hold anything."""

    def __init__(self, function: Function, without: frozenset[str] = frozenset()):
        self.function, self.body, self.without = function, function.body, without
        self.own = {name for name, v in function.variables.items() if v.space in ("local", "param")}
        self.exact: dict[str, Place] = {}  # register -> the place whose address it is
        self.held: dict[Place, Place] = {}  # element -> the place whose address it always holds
        # of each variable: the offsets of its elements -> how many bytes are stored, and loaded, there
        self.elements: dict[str, dict[int, tuple[set[int], set[int]]]] = {name: {} for name in self.own}

    def run(self) -> bool:
        """Whether any has become a register."""
        self._find_addresses()
        for ins in self.body:
            if isinstance(ins, Instruction):
                self._look(ins)
        chosen = {name for name in self.own if self._is_apart(name)}
        if wrong := {name for name, _ in self.held} - chosen:
            return _Round(self.function, self.without | wrong).run()
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
            more, self.held = False, self._holders()
            for name, ins in single.items():
                place = None if name in self.exact else self._computed(ins)
                if place:
                    self.exact[name], more = place, True

    def _holders(self) -> dict[Place, Place]:
        """Elements that hold one and the same address, whenever they are stored to, and are stored to before they are loaded."""
        held: dict[Place, set] = {}
        for ins, place in self._accesses():
            for k, value in enumerate(ins.operands[1].parts if ins.op.memory == "store" else ()):
                whole = ins.op.nbytes == _ADDRESS and place[0] not in self.without
                at = place[0], place[1] + k * ins.op.nbytes
                held.setdefault(at, set()).add(self._place(value) if whole else None)
        found = {
            at: next(iter(places)) for at, places in held.items() if len(places) == 1 and None not in places
        }
        early = self._loaded_before(found) if found else ()
        return {at: place for at, place in found.items() if at not in early}

    def _loaded_before(self, elements: dict[Place, Place]) -> set[Place]:
        """Those of these elements that some path loads before it stores to them."""
        number, uses = (
            {at: 1 << i for i, at in enumerate(elements)},
            dict.fromkeys(range(len(self.body)), (0, 0)),
        )
        positions = {item: i for i, item in enumerate(self.body)}
        for ins, (name, offset) in self._accesses():
            count = ins.op.vector
            bits = sum(number.get((name, offset + k * ins.op.nbytes), 0) for k in range(count))
            uses[positions[ins]] = (bits, 0) if ins.op.memory == "load" else (0, bits)
        found = read_before(self.body, list(uses.values()))
        return {at for at, bit in number.items() if found & bit}

    def _accesses(self) -> Iterator[tuple[Instruction, Place]]:
        """Loads and stores of variables, and where."""
        for ins in self.body:
            if isinstance(ins, Instruction) and (place := self._access(ins)):
                yield ins, place

    def _computed(self, ins: Instruction) -> Place | None:
        """The address that an instruction computes, if that is certain."""
        if ins.pred:
            return None
        if ins.op.memory:
            single = ins.op.memory == "load" and ins.op.vector == 1 and ins.op.nbytes == _ADDRESS
            return self.held.get(self._access(ins)) if single else None
        if ins.op.is_move or ins.base == "cvta" and ins.op.space == "local":
            return self._place(ins.operands[1])
        if ins.op.formula == "a+b" and ins.op.type in ("u64", "s64", "b64"):
            place, by = self._place(ins.operands[1]), ins.operands[2]
            if place and isinstance(by, Immediate) and not by.format:
                return place[0], place[1] + by.value
        return None

    def _place(self, given: Operand) -> Place | None:
        if isinstance(given, Symbol) and given.name in self.own:
            return given.name, given.offset
        return self.exact.get(given) if isinstance(given, Register) else None

    def _access(self, ins: Instruction) -> Place | None:
        """The variable that a load or a store accesses, and where."""
        op = ins.op
        if op.memory not in ("load", "store") or op.ordering or ins.pred or ins.used != -1:
            return None
        address = ins.address
        if not isinstance(address, Address) or not (place := self._place(address.base)):
            return None
        if self.function.variables[place[0]].space == "local" and op.space not in ("local", "generic"):
            return None  # that is another place
        return place[0], place[1] + address.offset

    def _look(self, ins: Instruction) -> None:
        """Elements that it accesses; what it does otherwise with an address spoils the variable."""
        place = self._access(ins)
        if place:
            name, offset = place
            size = ins.op.nbytes
            values = ins.operands[0 if ins.op.memory == "load" else 1].parts
            keeps = self._keeps(ins, place)
            for i in range(len(values)):
                at = name, offset + i * size
                stored, loaded = self.elements[name].setdefault(at[1], (set(), set()))
                (loaded if ins.op.memory == "load" else stored).add(size)
                if at in self.held and not keeps:  # nobody knows where else its address gets
                    self.own.discard(self.held[at][0])
            others: list[Operand] = [] if keeps else list(values)
        elif ins.writes and next(iter(ins.writes)) in self.exact:
            return
        else:
            others = list(ins.operands)
        for o in others:
            for name in o.names:
                spoiled = name if name in self.own else self.exact.get(name, ("", 0))[0]
                self.own.discard(spoiled)

    def _keeps(self, ins: Instruction, place: Place) -> bool:
        """Whether it only moves an address that is known."""
        known = place in self.held and ins.op.vector == 1 and ins.op.nbytes == _ADDRESS
        return known and (ins.op.memory == "store" or ins.operands[0] in self.exact)

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
            if self._keeps(ins, place) and self.held[place][0] in chosen:
                return []
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
