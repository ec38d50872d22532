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

from ..analyse.assigned import read_first
from ..analyse.numbers import follow
from ..analyse.private_arrays import Counted, counted, writers_of
from ..ptx.cfg import Blocks, Loop, basic_blocks, find_loops
from ..ptx.ir import Function, Immediate, Instruction, Label, operand, renamed
from ..ptx.types import BITS
from . import constants, straighten

_LONGEST = 6000  # instructions of a function, with all copies
_MOST_LOOPS = 100
_LONGEST_WRITTEN = 1000  # instructions of all iterations of a short loop


def run(function: Function) -> bool:
    """In place. The function calls no other. Returns whether a loop has been written out."""
    for number in range(_MOST_LOOPS):
        if not (any(v.space == "local" for v in function.variables.values()) and _unroll_one(function)):
            return number > 0
        constants.compute(function)
        constants.drop_copies(function)
        constants.drop_unreached(function)
        straighten.run(function)
    return True


def short_loops(function: Function) -> None:
    """In place. Writes out loops of one block that constants end after a few iterations."""
    more = True
    while more:
        constants.compute(function)
        blocks, writers = basic_blocks(function.body, function.tables), writers_of(function.body)
        loops = (b for b in blocks if b in blocks[b][1])
        more = any(_write_out(function, blocks, start, writers) for start in loops)
    constants.drop_copies(function)
    straighten.run(function)


def _write_out(function: Function, blocks: Blocks, start: int, writers: dict[str, list[Instruction]]) -> bool:
    """A loop of one block, if it is short."""
    end = blocks[start][0]
    head, *inside, last = function.body[start:end]
    entries = [b for b in blocks if start in blocks[b][1] and b != start]
    plain = not any(i.op.flow or i.op.collective or i.base == "enter" for i in inside)
    if len(entries) != 1 or not plain or not last.pred or last.operands[0] != head.name:
        return False
    numbers = (w[0] for w in writers.values() if len(w) == 1 and _is_number(w[0]))
    values = {i.operands[0]: i.operands[1].value for i in numbers}
    follow(function.body[entries[0] : blocks[entries[0]][0]], values)
    carried = [name for name in writers_of(inside) if name in read_first(inside, function.regs)]
    known, again = [], True
    while again:
        known.append({name: values[name] for name in carried if name in values})
        follow(inside, values)
        if last.pred not in values or len(known) * len(inside) > _LONGEST_WRITTEN:
            return False
        again = bool(values[last.pred]) != last.negated
    own = writers_of(inside).keys() - carried - _read_elsewhere(function, start, end)
    function.body[start:end] = [head, *(i for each in known for i in _iteration(function, inside, each, own))]
    return True


def _iteration(
    function: Function, inside: list[Instruction], known: dict[str, int], own: set[str]
) -> list[Instruction]:
    """A copy of a loop's instructions. known: the numbers that registers hold at its start; own: those that are its own."""
    suffix, found = f"${_last_serial(function) + 1}", []
    names = {name: name + suffix for name in (*own, *known)}
    function.regs |= {new: function.regs[old] for old, new in names.items()}
    for name, value in known.items():
        opcode = "mov.pred" if function.regs[name] == "pred" else f"mov.b{BITS[function.regs[name]]}"
        found.append(Instruction(opcode, (operand(names[name]), operand(str(value))), inside[0].at))
    for item in inside:
        written = int(item.op.has_result)
        operands = [renamed(o, lambda n: names.get(n, n)) for o in item.operands[written:]]
        pred = names.get(item.pred, item.pred)
        for name in known.keys() & item.writes:
            names.pop(name, "")
        operands[:0] = (renamed(o, lambda n: names.get(n, n)) for o in item.operands[:written])
        found.append(replace(item, operands=tuple(operands), pred=pred, original=item.original or item))
    return found


def _read_elsewhere(function: Function, start: int, end: int) -> set[str]:
    outside = (i for i in (*function.body[:start], *function.body[end - 1 :]) if isinstance(i, Instruction))
    return {name for i in outside for name in i.reads}


def _is_number(ins: Instruction) -> bool:
    return (
        ins.op.is_move
        and not ins.pred
        and isinstance(ins.operands[1], Immediate)
        and not ins.operands[1].format
    )


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
