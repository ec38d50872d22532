"""Atomic updates whose result is not used: they tell their thread nothing about what others have done."""

from __future__ import annotations

from ..ptx.ir import Function, Instruction


def unused_results(function: Function) -> set[int]:
    """Positions of `red`, and of `atom` and of calls whose result makes no difference in this function."""
    results = {i: _result(ins) for i, ins in enumerate(function.body) if isinstance(ins, Instruction)}
    results = {i: result for i, result in results.items() if result}
    used = _used(function.body) if results else set()
    return {i for i, result in results.items() if result not in used}


def _result(ins: Instruction) -> str:
    """The register or parameter that an atomic, or a call, writes its result to; `_`: nowhere."""
    if ins.base == "call":
        return next(iter(ins.called[0]), "")
    return {"atom": ins.operands[0], "red": "_"}.get(ins.base, "") if ins.operands else ""


def _used(body) -> set[str]:
    """Registers, and parameters returned by calls, whose value is stored, passed on, or decides something."""
    steps = []
    for ins in reversed(body):
        if isinstance(ins, Instruction):
            sources = set(ins.reads)
            if ins.opcode.startswith("ld.param"):
                sources.add(ins.operands[1].base)
            steps.append((ins.op.has_effects, ins.writes, sources))
    used: set[str] = set()
    before = -1
    while len(used) > before:
        before = len(used)
        for effect, targets, sources in steps:
            if effect or not used.isdisjoint(targets):
                used |= sources
    return used
