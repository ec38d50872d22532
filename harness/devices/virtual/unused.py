"""Atomic updates whose result nobody looks at: they tell their thread nothing of what others have done."""

from __future__ import annotations

from .ptx import Function, Instruction, call_parts
from .undefined import reads, writes


def unused_results(function: Function) -> set[int]:
    """Positions of `red`, and of `atom` and of calls whose result is not read in this function."""
    read = set().union(*(reads(i) for i in function.body if isinstance(i, Instruction)))
    found: set[int] = set()
    given: dict[str, int] = {}  # parameter that a call has returned its result in -> the call
    for position, ins in enumerate(function.body):
        if not isinstance(ins, Instruction):
            continue
        if ins.base == "red" or ins.base == "atom" and not writes(ins) & read:
            found.add(position)
        elif ins.base == "call" and (results := call_parts(ins)[0]):
            found.add(position)
            given |= {name: position for name in results}
        elif ins.opcode.startswith("ld.param") and writes(ins) & read:
            found.discard(given.get(ins.operands[1].strip("[] ").split("+")[0], -1))
    return found
