"""What racecheck has to know besides the accesses themselves.

                                            note Env.blind, 1;
    call.uni (r), atomicAdd, (a, b);  ->    call.uni (r), atomicAdd, (a, b);
                                            note Env.blind, 0;
    membar.gl;                              membar.gl;
                                            runtime rt_fence, 6;

A called function does not know whether its caller uses the result of an atomic (`blind`: it does not), nor
whether a thread may exit afterwards while others go on to a barrier (`final`).
"""

from __future__ import annotations

from ..analyse.facts import Facts
from ..ptx.ir import Function, Instruction
from ..runtime.abi import FENCE_PROXY, FENCE_SC, SCOPES
from .insert import Inserts, mark


def run(function: Function, facts: Facts) -> None:
    """In place."""
    inserts = Inserts(function)
    for ins in function.body:
        if not isinstance(ins, Instruction):
            continue
        if ins.op.is_fence:
            of_copies = "proxy" in ins.op.mods and "async" in ins.op.mods
            what = SCOPES.index(ins.op.scope) | FENCE_SC * ins.op.is_sc
            for space, bit in zip(("shared", "global"), FENCE_PROXY):
                what |= bit * (of_copies and ins.op.space in (space, "generic"))
            inserts.after(ins, mark("runtime", "rt_fence", what, at=ins))
        if ins.op.flow == "call" or ins.op.texture:
            for field in _told(function, facts, ins):
                inserts.before(ins, mark("note", f"Env.{field}", 1, at=ins))
                inserts.after(ins, mark("note", f"Env.{field}", 0, at=ins))
    inserts.done()


def _told(function: Function, facts: Facts, call: Instruction) -> list[str]:
    """What a called function, or the runtime that reads texels, is told about its caller."""
    final = function.entry and call in facts.final
    if call.op.texture:
        return ["final"] * final
    waits, name = facts.known.waits, call.called[1]
    callee = waits.graph.functions.get(name)
    if callee is not None and callee.body is None:
        return []
    blind = callee is not None and waits.updates_memory(name) and call in facts.unused
    return ["blind"] * blind + ["final"] * final
