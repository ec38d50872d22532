"""How large the numbers become that a line keeps in few bits, or in a float: the largest by line, whatever is lost afterwards.

                                    cvt.s64.s32 %reached.value, %r1;
                                    abs.s64 %reached.value, %reached.value;
    cvt.u16.u32 %rs1, %r1;    ->    atom.global.max.s64 %reached.old, [backwarp_reached+96], %reached.value;    in line 12
                                    cvt.u16.u32 %rs1, %r1;

Only a file that has `declaration` is changed, in those lines. It must be unoptimised, so that a line's instructions are its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..ptx.ir import Instruction, Module
from ..ptx.types import BITS, is_float
from .insert import Inserts, mark

NAME, LINES = "backwarp_reached", 4096  # the last one is of all lines beyond
_VALUE, _OLD = "%reached.value", "%reached.old"
_NARROWS = {"cvt", "and", "shr", "bfe", "bfi", "prmt", "mul24", "mad24"}


def declaration(lines: Iterable[int]) -> str:
    """What a file declares, to have numbers noted in these lines."""
    marks = "".join(f'extern "C" __device__ char {NAME}_{line};\n' for line in sorted(set(lines)))
    return f'\nextern "C" __device__ long long {NAME}[{LINES}];\n{marks}'


def run(module: Module) -> None:
    """In place, before other passes."""
    lines = {
        int(name.rpartition("_")[2])
        for name in module.variables
        if re.fullmatch(rf"{NAME}_[1-9]\d{{0,8}}", name)
    }
    for function in module.functions.values() if NAME in module.variables else ():
        inserts = Inserts(function)
        for ins in function.body:
            if (
                isinstance(ins, Instruction)
                and ins.at.line in lines
                and not ins.at.header
                and _may_narrow(ins)
            ):
                for register in sorted(
                    r for r in ins.reads if BITS.get(function.regs.get(r, "")) in (16, 32)
                ):
                    _note(inserts, ins, register, function.regs[register])
        if inserts.changed:
            function.regs |= {_VALUE: "s64", _OLD: "s64"}
            inserts.done()


def _may_narrow(ins: Instruction) -> bool:
    """Also what compares floats, counts in 16 bits, or gives a function its arguments."""
    types = ins.opcode.split(".")
    given = ins.base == "st" and ins.op.space == "param"
    return ins.base in _NARROWS or given or types[-1] in ("f32", "s16", "u16", "b16")


def _note(inserts: Inserts, ins: Instruction, register: str, kind: str) -> None:
    bits = BITS[kind]
    convert = "cvt.rzi.s64.f32" if is_float(kind) else f"cvt.s64.s{bits}"
    inserts.before(ins, mark(convert, _VALUE, register, at=ins), mark("abs.s64", _VALUE, _VALUE, at=ins))
    place = f"[{NAME}+{8 * min(ins.at.line, LINES - 1)}]"
    inserts.before(ins, mark("atom.global.max.s64", _OLD, place, _VALUE, at=ins))
