"""Labels that no branch names go, so that what they separate is one basic block.

        add.s32 %r2, %r1, 1;              add.s32 %r2, %r1, 1;
    $L__tmp3:                       ->
        mul.lo.s32 %r3, %r2, %r2;         mul.lo.s32 %r3, %r2, %r2;

Unoptimised code has one for the debugger at nearly every statement. A register that is used in a single block needs no
memory, so there is a fifth less to compile.
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
