"""Replaces accesses to the shared memory of a cluster's blocks by accesses at generic addresses.

                                           cvt.s64.s32 %cluster.at, %r1;
    ld.shared::cluster.f32 %f1, [%r1];     cvta.shared.u64 %cluster.at, %cluster.at;
                                     ->    ld.f32 %f1, [%cluster.at];

An address in shared::cluster is the distance from the block's own shared memory, so that those of its own are what they are
in shared::cta. Copies and st.async are made by the runtime, which takes such addresses.

Source: PTX ISA, sections 5.1.6 (shared state space) and 9.7.9.23 (mapa).
"""

from __future__ import annotations

from dataclasses import replace

from ..instrument.insert import mark
from ..ptx.callgraph import defined
from ..ptx.ir import Function, Instruction, Label, Module, Register, operand
from ..ptx.types import BITS

_AT = "%cluster.at"


def run(module: Module) -> None:
    """In place, for all functions."""
    for function in defined(module):
        if any(isinstance(item, Instruction) and _is_access(item) for item in function.body):
            function.body = [new for item in function.body for new in _plain(item, function)]


def _is_access(ins: Instruction) -> bool:
    return ins.op.to_cluster and (ins.op.memory not in ("", "copy") or ins.op.is_mbarrier)


def _plain(ins: Instruction | Label, function: Function) -> list[Instruction | Label]:
    if isinstance(ins, Label) or not _is_access(ins):
        return [ins]
    base, offset, body = ins.address.base, ins.address.offset, []
    if not isinstance(base, Register):  # a variable of its own
        opcode = ins.opcode.replace(".shared::cluster", ".shared::cta")
        return [replace(ins, opcode=opcode, original=ins.original or ins)]
    function.regs[_AT] = "b64"
    narrow = BITS[function.regs[base]] == 32
    body.append(mark("cvt.s64.s32" if narrow else "mov.b64", _AT, base, at=ins))
    if offset:
        body.append(mark("add.s64", _AT, _AT, offset, at=ins))
    body.append(mark("cvta.shared.u64", _AT, _AT, at=ins))
    operands = tuple(operand(f"[{_AT}]") if o is ins.address else o for o in ins.operands)
    opcode = ins.opcode.replace(".shared::cluster", "")
    return [*body, replace(ins, opcode=opcode, operands=operands, original=ins.original or ins)]
