"""Registers that may be read before they are assigned: a predicate for each says whether it has been.

                                            mov.pred %p1.set, 0;
    mov.u32 %r1, 5;                         mov.u32 %r1, 5;
                                            mov.pred %r1.set, 1;
    mov.u32 %r2, %r1;               ->      mov.u32 %r2, %r1;
                                            and.pred %r2.set, %r1.set, 1;
                                            check.assigned %r2.set;
    add.u32 %r3, %r2, 1;                    add.u32 %r3, %r2, 1;

Copies propagate the state, see `analyse/assigned`.
"""

from __future__ import annotations

from ..analyse.facts import Facts
from ..ptx.ir import Function, Instruction
from .insert import Inserts, mark


def run(function: Function, facts: Facts) -> None:
    """In place."""
    undefined = facts.undefined
    if not undefined:
        return
    inserts = Inserts(function)
    first = next(i for i in function.body if isinstance(i, Instruction))
    inserts.start = [mark("mov.pred", _flag(r), 0, at=first) for r in sorted(undefined)]
    for ins in function.body:
        if not isinstance(ins, Instruction):
            continue
        if ins.base == "enter":
            gone = sorted(undefined.intersection(ins.expansion.registers))
            inserts.after(ins, *(mark("mov.pred", _flag(r), 0, at=ins) for r in gone))
        else:
            _look(ins, undefined, inserts)
    function.regs |= {_flag(r): "pred" for r in sorted(undefined)}
    inserts.done()


def _look(ins: Instruction, undefined: frozenset[str], inserts: Inserts) -> None:
    used = ins.reads & undefined
    copied = sorted(used) if ins.op.is_move else []
    if used := sorted(used - set(copied)):
        inserts.before(ins, mark("check.assigned", *map(_flag, used), at=ins))
    for target in sorted(ins.writes & undefined):
        inserts.after(ins, *_assign(ins, _flag(target), [_flag(r) for r in copied]))


def _assign(ins: Instruction, flag: str, sources: list[str]) -> list[Instruction]:
    """The flag of a result: set, unless an operand of a copy is not."""
    if len(sources) < 2:
        return [mark("mov.pred", flag, *(sources or [1]), at=ins)]
    first, *rest = sources
    found = [mark("mov.pred", flag, first, at=ins)]
    return found + [mark("and.pred", flag, flag, source, at=ins) for source in rest]


def _flag(register: str) -> str:
    return f"{register}.set"
