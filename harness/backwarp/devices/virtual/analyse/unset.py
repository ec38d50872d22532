"""Which registers of a function may hold a value that was never set."""

from __future__ import annotations

from ..ptx.ir import Function, Instruction
from ..ptx.op import CARRY, Op
from .dataflow import reached


def may_be_unset(function: Function, undefined: frozenset[str]) -> set[str]:
    """undefined: registers that may be read before they are assigned."""
    start, targets = set(undefined), {}
    for ins in function.body:
        if isinstance(ins, Instruction) and not ins.op.mark:
            results = list(ins.writes) + [CARRY] * ins.op.leaves_carry
            if _brings(ins, function):
                start.update(results)
            for name in inputs(ins) if _computes(ins) else ():
                targets.setdefault(name, []).extend(results)
    return reached(start, lambda name: targets.get(name, ()))


def inputs(ins: Instruction) -> list[str]:
    """The registers that an instruction reads, the carry flag among them. Not the sums of a product of four warps, which may
    begin with it."""
    sources = ins.sources[1:] if ins.op.collective == "group" else ins.sources
    found = [name for operand in sources for name in operand.registers]
    return found + [CARRY] if ins.op.takes_carry else found


def _computes(ins: Instruction) -> bool:
    """Whether an unset operand makes the result unset. Other instructions have their operands checked."""
    op = ins.op
    together = op.collective in ("block", "warp", "group") or _loads_matrix(op)
    return not (op.memory or together or op.asynchronous or op.own or op.geometry)


def _brings(ins: Instruction, function: Function) -> bool:
    """Whether the result may be unset even if no operand is."""
    op = ins.op
    if op.memory == "load":
        if op.space == "param" and function.entry:
            return ins.address.base not in {p.name for p in function.params}
        return op.space != "const"
    if op.memory == "atomic":
        return op.operation == "exch"
    return op.collective == "warp" and bool(op.moves) or _loads_matrix(op)


def _loads_matrix(op: Op) -> bool:
    return op.collective == "matrix" and op.address is not None and op.has_result
