"""Registers that are linear over rows: the same distance apart from each row of lanes to the next.

The distance is the same for all lanes, but need not be a constant: in `y * n` it is `n`. So such a register is two
numbers, whatever the number of rows: its value in the first row, and the step from row to row. Where it is widened
from 32 to 64 bits it stays linear unless it overflows, which emitted code tests for the first and the last row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..ptx.ir import Instruction, Operand
from ..ptx.types import BITS
from .strides import linear

if TYPE_CHECKING:
    from .lanes import Lanes

_EXACT = ("move", "add", "sub", "neg", "shl", "narrow")  # whatever their operands


def find(lanes: Lanes, types: dict[str, str], writing: Iterable[Instruction], in_full: set[str]) -> set[str]:
    """Of the registers that differ from row to row. types: of the registers. writing: the instructions that write
    registers. in_full: registers whose lanes have no common part (see `strides`)."""
    writing = [i for i in writing if not i.writes.isdisjoint(lanes.several)]
    found = {
        name
        for name in lanes.several
        if name not in in_full and BITS.get(types.get(name, ""), 0) in (32, 64) and types[name][0] != "f"
    } | lanes.steps.keys()
    while wrong := {name for i in writing if not _keeps(i, lanes, found) for name in i.writes & found}:
        found -= wrong
    return found - lanes.steps.keys()


def _keeps(ins: Instruction, lanes: Lanes, found: set[str]) -> bool:
    """Whether the result is linear if these registers are."""
    kind, given = linear(ins), ins.operands[1:]
    if not kind or any(name in lanes.several - found for o in given for name in o.registers):
        return False
    if kind in _EXACT:
        return True
    if kind == "widen":
        return _apart(given[0], lanes)
    steps = [not found.isdisjoint(o.registers) for o in given]
    if not (steps[0] or steps[1]):
        return True
    one, other = given[:2] if steps[0] else given[1::-1]
    uniform = lanes.stride(other) == 0 and not (steps[0] and steps[1])
    return uniform and (kind == "mul" or _apart(one, lanes))


def _apart(given: Operand, lanes: Lanes) -> bool:
    """Whether lanes differ: only then code tests whether the number can be widened."""
    return lanes.stride(given) != 0
