"""Removes labels that no branch uses, which joins basic blocks.

        add.s32 %r2, %r1, 1;              add.s32 %r2, %r1, 1;
    $L__tmp3:                       ->
        mul.lo.s32 %r3, %r2, %r2;         mul.lo.s32 %r3, %r2, %r2;

Unoptimised code has a debugging label at nearly every statement. A register used in a single block needs no
memory, so a fifth less code is compiled.
"""

from __future__ import annotations

from ..ptx.callgraph import defined
from ..ptx.ir import Instruction, Label, Module


def run(module: Module) -> None:
    """In place, for all functions."""
    for function in defined(module):
        named = {name for names in function.tables.values() for name in names}
        named |= {
            i.operands[0] for i in function.body if isinstance(i, Instruction) and i.op.flow == "branch"
        }
        function.body = [i for i in function.body if not isinstance(i, Label) or i.name in named]
