"""Atomic updates whose result is not used, so that their thread learns nothing about other threads."""

from __future__ import annotations

from ..ptx.ir import Function, Instruction
from .dataflow import reached


def unused_results(function: Function) -> set[int]:
    """Positions of `red`, and of `atom` and calls whose result is not used in this function."""
    results = {i: _result(ins) for i, ins in enumerate(function.body) if isinstance(ins, Instruction)}
    results = {i: result for i, result in results.items() if result}
    used = _used(function.body) if results else set()
    return {i for i, result in results.items() if result not in used}


def _result(ins: Instruction) -> str:
    """The register or parameter that an atomic, or a call, writes its result to; `_`: nowhere."""
    if ins.op.flow == "call":
        return next(iter(ins.called[0]), "")
    if ins.op.memory == "atomic":
        return ins.operands[0]
    return "_" * (ins.op.memory == "reduction")


def _used(body) -> set[str]:
    """Registers, and parameters returned by calls, whose value is stored, passed on, or decides something."""
    decide: set[str] = set()
    sources: dict[str, set[str]] = {}  # register -> what it is computed from
    for ins in body:
        if isinstance(ins, Instruction):
            read = set(ins.reads)
            if ins.op.of_parameters and ins.op.memory == "load":
                read.add(ins.address.base)
            if ins.op.has_effects:
                decide |= read
            for target in ins.writes:
                sources.setdefault(target, set()).update(read)
    return reached(decide, lambda name: sources.get(name, ()))
