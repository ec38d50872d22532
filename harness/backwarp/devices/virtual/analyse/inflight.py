"""Registers of products of four warps that are used before they may be: no fault, since NVIDIA's assembler waits then by
itself (its warnings C7514, C7517 and C7519), but slow, and more than the manual promises.

    wgmma.mma_async ... {%f1, ..}, ..    %f1 belongs to the product,
    wgmma.commit_group                   whose group is the newest now,
    wgmma.wait_group 0                   until here: what reads or sets it in between is told

Only optimised code shows it: without optimisation every sum is stored as soon as the product has begun.

Source: PTX ISA, section 9.7.15.7.1 (wgmma.fence) and 9.7.15.7.3 (wgmma.wait_group).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ptx.callgraph import CallGraph
from ..ptx.cfg import basic_blocks
from ..ptx.ir import Function, Instruction, Location, Vector
from .dataflow import through_blocks

_OLDEST = 8  # groups that are told apart
#: what is found: an instruction reads a sum, or sets a sum or a register of A, of a product under way (one that nothing has
#: committed); a product begins without wgmma.fence
READS, SETS, UNCOMMITTED, UNFENCED = "reads", "sets", "uncommitted", "unfenced"


@dataclass
class _State:
    """busy: register -> (groups committed since its product began, that product's place). fenced: there has been a fence.
    changed: registers of products that have been set since the last one."""

    busy: dict[str, tuple[int, int]] = field(default_factory=dict)
    fenced: bool = False
    changed: frozenset[str] = frozenset()


def _join(a: _State, b: _State) -> _State:
    busy = dict(a.busy)
    for register, age in b.busy.items():
        busy[register] = min(age, busy.get(register, age))
    return _State(busy, a.fenced and b.fenced, a.changed | b.changed)


def of_kernel(graph: CallGraph, kernel: str) -> tuple[tuple[str, Location, Location], ...]:
    """(what, where, where the product is) of a kernel and what it calls, one for each line."""
    found = {}
    for name in sorted(graph.closure(kernel)):
        for what, ins, product in run(graph.functions[name]) if name in graph.functions else ():
            at, begun = graph.location(ins, name), graph.location(product, name)
            found.setdefault((what, at.line), (what, at, begun))
    return tuple(found.values())


def run(function: Function) -> list[tuple[str, Instruction, Instruction]]:
    """(what, the instruction, the product)."""
    body = function.body or []
    if not any(isinstance(ins, Instruction) and ins.op.collective == "group" for ins in body):
        return []
    blocks, found = basic_blocks(body, function.tables), {}
    sums = {r for i in body if isinstance(i, Instruction) and i.op.collective == "group" for r in _own(i)}

    def transfer(start: int, state: _State, told: dict | None = None) -> _State:
        state = _State(dict(state.busy), state.fenced, state.changed)
        for place in range(start, blocks[start][0]):
            if isinstance(ins := body[place], Instruction):
                for what, product in _step(ins, place, state, sums):
                    if told is not None:
                        told.setdefault((what, ins.at), (what, ins, body[product]))
        return state

    for start, state in through_blocks(blocks, _State(), transfer, _join).items():
        transfer(start, state, found)
    return list(found.values())


def _own(product: Instruction) -> set[str]:
    """The registers of D, and of A if it is in registers."""
    a = product.named["a"]
    return {*product.named["d"].registers, *(a.registers if isinstance(a, Vector) else ())}


def _step(ins: Instruction, place: int, state: _State, sums: set[str]):
    """What an instruction does that it should not. Changes the state."""
    op, busy = ins.op, state.busy
    if op.base == "wgmma" and op.operation == "commit_group":
        state.busy = {r: (min(age + 1, _OLDEST), p) for r, (age, p) in busy.items()}
    elif op.base == "wgmma" and op.operation == "wait_group":
        pending = ins.named["n"].value
        yield from (
            (UNCOMMITTED, p) for p in sorted({p for age, p in busy.values() if not age}) if not pending
        )
        state.busy = {r: (age, p) for r, (age, p) in busy.items() if pending >= max(age, 1)}
    elif ins.opcode.startswith("wgmma.fence"):
        state.fenced, state.changed = True, frozenset()
    elif op.collective == "group":
        own = _own(ins)
        if not state.fenced or own & state.changed:
            yield UNFENCED, place
        state.fenced, state.changed = True, state.changed - own  # told once
        busy.update(dict.fromkeys(own, (0, place)))
    elif ins.base == "mov" and len(ins.operands) == 2:  # the compiler's own copies of registers
        before = next((busy[r] for r in ins.reads if r in busy), None)
        for r in ins.writes:
            busy.pop(r, None)
            if before:
                busy[r] = before
    else:
        for r in sorted(ins.reads & busy.keys()):
            yield READS, busy.pop(r)[1]
        for r in sorted(ins.writes & busy.keys()):
            yield SETS, busy.pop(r)[1]
        state.changed |= ins.writes & sums
