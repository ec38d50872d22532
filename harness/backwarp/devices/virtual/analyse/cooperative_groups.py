"""Recognises cooperative groups, whose functions are inlined and leave no names in the code.

Source: cooperative_groups/details/sync.h of CUDA's headers.
"""

from __future__ import annotations

from ..ptx.callgraph import spinning_loops
from ..ptx.ir import Function, Instruction


def grid_waits(function: Function) -> set[int]:
    """Positions of backward branches of loops that wait at the grid's barrier, until a bit of a word has
    flipped."""
    looks = spinning_loops(function, lambda ins: _acquires_word(ins) and ins.op.scope == "gpu")
    return looks and looks & spinning_loops(function, lambda ins: ins.op.bitwise == "xor")


def lets_lanes_come(ins: Instruction) -> bool:
    """Whether it polls the barrier of a group of several warps, at which lanes that skip an `if` must first
    arrive."""
    return _acquires_word(ins) and ins.op.scope == "cta"


def _acquires_word(ins: Instruction) -> bool:
    op = ins.op
    return op.memory == "load" and op.acquires and op.type == "u32" and op.space == "generic"
