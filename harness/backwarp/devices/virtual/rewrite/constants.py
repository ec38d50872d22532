"""What constants determine is computed, and branches that depend on it are decided.

    mov.u32 %r1, 2;                     mov.u32 %r1, 2;
    add.s32 %r2, %r1, 1;                mov.b32 %r2, 3;
    setp.lt.s32 %p1, %r2, 4;    ->      mov.pred %p1, 1;
    @%p1 bra $L_1;                      bra.uni $L_1;

That leaves copies, and code, that nothing needs.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.assigned import maybe_undefined
from ..analyse.dataflow import reached
from ..analyse.numbers import read_as, value_of
from ..analyse.private_arrays import writers_of
from ..ptx.cfg import basic_blocks
from ..ptx.ir import Function, Immediate, Instruction, Register, Symbol, operand
from ..ptx.types import BITS


def compute(function: Function) -> None:
    """Registers that are always the same number are set to it, and branches that depend on such are decided."""
    early = maybe_undefined(function.body, function.regs)
    once = {name for name, found in writers_of(function.body).items() if len(found) == 1} - early
    known: dict[str, int] = {}
    body: list = []
    for item in function.body:
        if isinstance(item, Instruction):
            item = decided(_with_number(item, known), known)
            if item is None:
                continue
            if not item.pred and len(item.writes) == 1 and item.writes <= once:
                value = value_of(item, known)
                if value is not None:
                    (name,) = item.writes
                    known[name] = value
                    item = assigned(item, name, function.regs[name], value)
        body.append(item)
    function.body = body


def drop_copies(function: Function) -> None:
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


def drop_unreached(function: Function) -> None:
    """Without the loops of an iteration that does not take place."""
    blocks = basic_blocks(function.body, function.tables)
    alive = reached([0], lambda start: blocks[start][1])
    function.body = [item for start in sorted(alive) for item in function.body[start : blocks[start][0]]]


def assigned(ins: Instruction, name: str, type_: str, value: int) -> Instruction:
    if ins.op.is_move and isinstance(ins.operands[1], Immediate):
        return ins
    opcode = "mov.pred" if type_ == "pred" else f"mov.b{BITS[type_]}"
    operands = (operand(name), operand(str(value)))
    return replace(ins, opcode=opcode, operands=operands, original=ins.original or ins)


def decided(ins: Instruction, known: dict[str, int]) -> Instruction | None:
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
    number = operand(str(read_as(known[b], ins.op.type.replace("u", "s").replace("b", "s"))))
    return replace(ins, operands=(target, a, number), original=ins.original or ins)
