"""Loads whose value is only a guess, which a compare-and-swap of the same function then confirms.

    old = *address; do { seen = old; old = atomicCAS(address, seen, f(seen)); } while (old != seen);

is how CUDA's manual builds an atomic from any operation. The first load races with other threads'
compare-and-swap, harmlessly, so racecheck treats it as atomic.
"""

from __future__ import annotations

import re

from ..ptx.ir import Label
from .dataflow import reached

_CAST = re.compile(r"__\w+_as_\w+")  # __float_as_int and the like
_CAS = re.compile(r"(_Z\d+)?_*\w*atomicCAS", re.IGNORECASE)
_COMPARED = 1  # which argument of atomicCAS


def guesses(body) -> set[int]:
    """Positions of plain loads whose value, possibly copied, a compare-and-swap compares with."""
    loads: dict[str, list[int]] = {}
    sources: dict[str, set[str]] = {}  # register -> registers it is a copy of
    compared: list[str] = []
    given: dict[str, str] = {}  # parameter of the next call -> register
    returned: dict[str, str] = {}  # result of a cast -> register
    for position, ins in enumerate(body):
        if isinstance(ins, Label):
            continue
        op = ins.op
        if op.is_move:
            sources.setdefault(ins.operands[0], set()).add(ins.operands[1])
        elif op.of_parameters:
            if op.memory == "store" and not ins.address.offset:
                given[ins.address.base] = ins.operands[1]
            elif ins.address.base in returned and not ins.address.offset:
                sources.setdefault(ins.operands[0], set()).add(returned[ins.address.base])
        elif op.memory == "load" and not ins.pred:
            loads.setdefault(ins.operands[0], []).append(position)
        elif op.memory == "atomic" and op.operation == "cas":
            compared.append(ins.named["b"])
        elif op.flow == "call":
            returns, name, arguments = ins.called
            values = [given.get(a, "") for a in arguments]
            if _CAS.match(name) and len(values) > _COMPARED:
                compared.append(values[_COMPARED])
            if _CAST.fullmatch(name) and len(values) == len(returns) == 1:
                returned[returns[0]] = values[0]
            else:
                returned.clear()
    copied = reached(compared, lambda register: sources.get(register, ()))
    return {p for register in copied for p in loads.get(register, ())}
