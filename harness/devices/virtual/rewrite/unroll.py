"""Loops over the elements of local arrays are written out, so that every index is a constant.

    $L_1:
    mov.u32 %r5, %r91;                      mov.u32 %r5$1, 0;
    setp.lt.s32 %p3, %r5, 2;                mov.u64 %rd2$1, 0;
    @!%p3 bra $L_2;                         add.s64 %rd3$1, %rd1, 0;
    mul.wide.s32 %rd2, %r5, 4;              st.f32 [%rd3$1], %f1;
    add.s64 %rd3, %rd1, %rd2;       ->      ...
    st.f32 [%rd3], %f1;                     mov.u64 %rd2$2, 4;
    add.s32 %r6, %r5, 1;                    add.s64 %rd3$2, %rd1, 4;
    mov.u32 %r91, %r6;                      st.f32 [%rd3$2], %f1;
    bra.uni $L_1;                           ...
    $L_2:                                   $L_2:

A register tile is such an array; then `promote` finds its registers. Each copy of a loop has its own registers, except those
that other iterations or other code may read. What constants determine is computed.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.assigned import maybe_undefined, read_first
from ..analyse.dataflow import reached
from ..analyse.private_arrays import Counted, counted, writers_of
from ..ptx.cfg import Blocks, Loop, basic_blocks, find_loops
from ..ptx.ir import Function, Immediate, Instruction, Label, Register, Symbol, operand, renamed
from ..ptx.types import BITS, is_signed
from . import straighten

_LONGEST = 3000  # instructions of a function, with all copies
_MOST_LOOPS = 100


def run(function: Function) -> bool:
    """In place. The function calls no other. Returns whether a loop has been written out."""
    for number in range(_MOST_LOOPS):
        if not (any(v.space == "local" for v in function.variables.values()) and _unroll_one(function)):
            return number > 0
        _compute(function)
        _drop_copies(function)
        _drop_unreached(function)
        straighten.run(function)
    return True


def _unroll_one(function: Function) -> bool:
    body = function.body
    blocks, writers = basic_blocks(body, function.tables), writers_of(body)
    for loop in reversed(find_loops(blocks)):  # inner loops before outer ones
        known = counted(body, blocks, loop, writers)
        if known is None or not (_is_simple(body, blocks, loop) and _starts_anew(body, blocks, loop, known)):
            continue
        start, end = loop.header, max(blocks[b][0] for b in loop.blocks)
        length = len(body) + known.length * (end - start)
        if length <= _LONGEST and _indexes_with(function, body[start:end], known):
            _Copies(function, start, end, known).write()
            return True
    return False


def _is_simple(body, blocks: Blocks, loop: Loop) -> bool:
    """Whether it lies together, begins with its header and has no barrier of the block."""
    start, end = min(loop.blocks), max(blocks[b][0] for b in loop.blocks)
    if loop.header != start or not isinstance(body[start], Label):
        return False
    if any(start <= b < end and b not in loop.blocks for b in blocks):
        return False
    ops = (i.op for i in body[start:end] if isinstance(i, Instruction))
    return not any(op.collective == "block" or op.flow not in ("", "branch") for op in ops)


def _starts_anew(body, blocks: Blocks, loop: Loop, known: Counted) -> bool:
    """Whether its counter begins with the same number each time."""
    if len(loop.entries) != 1:
        return False
    (entry,) = loop.entries
    end, follow = blocks[entry]
    return loop.blocks.intersection(follow) == {loop.header} and any(
        i is known.before for i in body[entry:end]
    )


def _indexes_with(function: Function, items: list, known: Counted) -> bool:
    """Whether a loop's counter decides which element of a local array is accessed."""
    arrays = {name for name, v in function.variables.items() if v.space == "local"}
    steps = [i for i in items if isinstance(i, Instruction) and i.op.has_result and not i.op.memory]
    decided = _computed_from(steps, set(known.joined.writes))
    everything = [i for i in function.body if isinstance(i, Instruction) and (i.op.formula or i.op.is_move)]
    places = decided & _computed_from(everything, arrays)
    accesses = (i for i in items if isinstance(i, Instruction) and i.op.memory in ("load", "store"))
    return any(i.address.base in places for i in accesses if not i.op.of_parameters)


def _computed_from(steps: list[Instruction], names: set[str]) -> set[str]:
    """These registers or variables, and the registers that the steps compute from them."""
    found, before = set(names), -1
    while before != len(found):
        before = len(found)
        for ins in steps:
            if any(name in found for o in ins.sources for name in o.names):
                found |= ins.writes
    return found


class _Copies:
    """Of the loop at positions [start, end)."""

    def __init__(self, function: Function, start: int, end: int, known: Counted):
        self.function, self.start, self.end, self.known = function, start, end, known
        self.items = function.body[start:end]
        self.labels = {item.name for item in self.items if isinstance(item, Label)}
        self.head = self.items[0].name
        self.own = self._own()
        self.serial = _last_serial(function)

    def _own(self) -> set[str]:
        """Registers of an iteration that nothing else reads."""
        body, items = self.function.body, self.items
        outside = [i for i in (*body[: self.start], *body[self.end :]) if isinstance(i, Instruction)]
        kept = {name for i in outside for name in i.reads | i.writes}
        ways = {i.operands[0] for i in items if isinstance(i, Instruction) and i.op.flow == "branch"}
        ends = [Label(name) for name in sorted(ways - self.labels)]
        before = read_first([*items, *ends], self.function.regs)  # what an earlier iteration leaves
        return writers_of(items).keys() - kept - before

    def write(self) -> None:
        function, behind = self.function, function_label(self.function, self.end)
        copies: list = []
        for number in range(
            self.known.length + 1
        ):  # the last one finds that the counter has reached its bound
            copies += self._copy(number, behind)
        function.body[self.start : self.end] = copies

    def _copy(self, number: int, behind: str) -> list:
        suffix, regs = f"${self.serial + number + 1}", self.function.regs
        names = {name: name + suffix for name in self.own}
        regs |= {names[name]: regs[name] for name in self.own}
        places = {name: f"{name}{suffix}" if number else name for name in self.labels}
        next_ = f"{self.head}${self.serial + number + 2}" if number < self.known.length else behind
        onward = places | {self.head: next_}
        value, found = self.known.start + number * self.known.step, []
        for item in self.items:
            if isinstance(item, Label):
                found.append(Label(places[item.name]))
                continue
            new = onward if item.op.flow == "branch" else names
            operands = tuple(renamed(o, lambda n, new=new: new.get(n, n)) for o in item.operands)
            if item is self.known.joined:
                operands = operands[0], operand(str(value))
            changed = dict(operands=operands, pred=names.get(item.pred, item.pred))
            if item.base == "enter":
                own = tuple(names.get(r, r) for r in item.expansion.registers)
                changed["expansion"] = replace(item.expansion, registers=own)
            found.append(replace(item, original=item.original or item, **changed))
        return [*found, Instruction("bra.uni", (operand(behind),), self.known.joined.at)]


def function_label(function: Function, position: int) -> str:
    """The label there; a new one if there is none."""
    item = function.body[position] if position < len(function.body) else None
    if not isinstance(item, Label):
        item = Label(f"$behind${_last_serial(function) + 1}")
        function.body.insert(position, item)
    return item.name


def _last_serial(function: Function) -> int:
    """The highest number that a copy's names end with."""
    names = [*function.regs, *(item.name for item in function.body if isinstance(item, Label))]
    ends = (name.rpartition("$")[2] for name in names)
    return max((int(end) for end in ends if end.isdigit()), default=0)


# -- what constants determine ------------------------------------------------------------------------------


def _compute(function: Function) -> None:
    """Registers that are always the same number are set to it, and branches that depend on such are decided."""
    early = maybe_undefined(function.body, function.regs)
    once = {name for name, found in writers_of(function.body).items() if len(found) == 1} - early
    known: dict[str, int] = {}
    body: list = []
    for item in function.body:
        if isinstance(item, Instruction):
            item = _decided(_with_number(item, known), known)
            if item is None:
                continue
            if not item.pred and len(item.writes) == 1 and item.writes <= once:
                value = _value(item, known)
                if value is not None:
                    (name,) = item.writes
                    known[name] = value
                    item = _assigned(item, name, function.regs[name], value)
        body.append(item)
    function.body = body


def _drop_copies(function: Function) -> None:
    """Without copies, and numbers, that nothing reads. (What is computed from an unset register is a fault, read or not.)"""
    reads: dict[str, int] = {}
    for ins in (i for i in function.body if isinstance(i, Instruction)):
        for name in ins.reads:
            reads[name] = reads.get(name, 0) + 1
    dropped: set[Instruction] = set()
    copies = [i for i in function.body if isinstance(i, Instruction) and i.op.is_move and len(i.writes) == 1]
    more = True
    while more:
        more = False
        for ins in reversed(copies):
            if ins not in dropped and not any(reads.get(name) for name in ins.writes):
                dropped.add(ins)
                more = True
                for name in ins.reads:
                    reads[name] -= 1
    function.body = [i for i in function.body if i not in dropped]


def _drop_unreached(function: Function) -> None:
    """Without the loops of an iteration that does not take place."""
    blocks = basic_blocks(function.body, function.tables)
    alive = reached([0], lambda start: blocks[start][1])
    function.body = [item for start in sorted(alive) for item in function.body[start : blocks[start][0]]]


def _assigned(ins: Instruction, name: str, type_: str, value: int) -> Instruction:
    if ins.op.is_move and isinstance(ins.operands[1], Immediate):
        return ins
    opcode = "mov.pred" if type_ == "pred" else f"mov.b{BITS[type_]}"
    operands = (operand(name), operand(str(value)))
    return replace(ins, opcode=opcode, operands=operands, original=ins.original or ins)


def _decided(ins: Instruction, known: dict[str, int]) -> Instruction | None:
    """A branch whose guard is known: always taken, or None."""
    if ins.op.flow != "branch" or ins.pred not in known:
        return ins
    if bool(known[ins.pred]) == ins.negated:
        return None
    return replace(ins, opcode="bra.uni", pred="", negated=False, original=ins.original or ins)


def _with_number(ins: Instruction, known: dict[str, int]) -> Instruction:
    """The sum of a register and a known one, as a sum with a number."""
    if ins.op.formula != "a+b":
        return ins
    target, a, b = ins.operands
    if a in known and b not in known and isinstance(b, Register):
        a, b = b, a
    if b not in known or not isinstance(a, (Register, Symbol)):
        return ins
    number = operand(str(_read(known[b], ins.op.type.replace("u", "s").replace("b", "s"))))
    return replace(ins, operands=(target, a, number), original=ins.original or ins)


def _read(value: int, type_: str) -> int:
    """The number that bits are, in a type."""
    if type_ == "pred":
        return value & 1
    bits = BITS[type_]
    value &= (1 << bits) - 1
    return value - (1 << bits) if is_signed(type_) and value >> bits - 1 else value


_SUMS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "div": lambda a, b: a // b if a >= 0 and b > 0 else None,
    "rem": lambda a, b: a % b if a >= 0 and b > 0 else None,
}
_COMPARISONS = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def _value(ins: Instruction, known: dict[str, int]) -> int | None:
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
        return _bits(given[0], type_)
    if op.base == "cvt" and len(op.mods) == 2:
        return _bits(_read(given[0], op.types[1]), op.types[0])
    if op.base == "not":
        return _bits(~given[0], type_)
    if op.base == "setp" and len(op.mods) == 2 and op.mods[0] in _COMPARISONS and len(ins.operands) == 3:
        a, b = (_read(x, type_) for x in given)
        return int(_COMPARISONS[op.mods[0]](a, b))
    if op.base in ("shl", "shr") and op.mods == (type_,):
        by = min(given[1] & 0xFFFFFFFF, BITS[type_])
        value = _read(given[0], type_)
        return _bits(value << by if op.base == "shl" else value >> by, type_)
    if op.base in ("mul", "mad") and op.mods in (("lo", type_), ("wide", type_)):
        wide = type_[0] + str(2 * BITS[type_]) if op.mods[0] == "wide" else type_
        a, b = (_read(x, type_) for x in given[:2])
        return _bits(a * b + (_read(given[2], wide) if op.base == "mad" else 0), wide)
    if op.base in _SUMS and op.mods == (type_,):
        value = _SUMS[op.base](*(_read(x, type_) for x in given))
        return None if value is None else _bits(value, type_)
    return None


def _bits(value: int, type_: str) -> int:
    return value & (1 if type_ == "pred" else (1 << BITS[type_]) - 1)
