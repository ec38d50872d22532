"""Anchors: instructions whose result may not be an exact sum of a scalar and a vector.

A 64-bit number is kept as such a sum (see emit/lanes/values). Not every step of computing it is exact: a
32-bit sum may overflow in some lanes before it is widened. The instructions that produce such a number are
anchors; they keep the difference, and everything computed from the number refers to them.
"""

from __future__ import annotations

from ..ptx.cfg import Blocks
from ..ptx.ir import Function, Instruction, Operand
from ..ptx.types import BITS
from .dataflow import live
from .strides import Strides, linear

MARKS = ("check", "note", "fetch", "slice", "enter")  # inserted instructions
_WIDE = ("b64", "u64", "s64")
_MOST = 100
Numbers = dict[Instruction, int]  # of the anchors, from 1
Sources = dict[str, frozenset[int]]  # register -> the anchors that it comes from

_NONE: frozenset[int] = frozenset()


def anchors(
    function: Function, blocks: Blocks, strides: Strides, merged: set[str]
) -> tuple[Numbers, Sources] | None:
    """The anchors; None if there are too many, or if one's difference would be overwritten too early. merged:
    registers kept in full."""
    numbers, sources = _numbered(function, strides, merged)
    if len(numbers) > _MOST or sources and _is_stale(function.body, blocks, numbers, sources):
        return None
    return numbers, sources


def wanted_in_full(function: Function, strides: Strides) -> set[str]:
    """64-bit registers that are not just addresses: their readers may see any number, even one that looks
    like an anchor's."""
    full: set[str] = set()
    # inserted instructions do not depend on the value
    body = [i for i in function.body if isinstance(i, Instruction) and i.base not in MARKS]
    while True:
        before = len(full)
        for ins in body:
            base = ins.address.base if ins.op.address is not None else None
            result = ins.operands[0] if ins.op.has_result else None
            sums = linear(ins) and result in function.regs and BITS[function.regs[result]] == 64
            if not sums or result in full:
                stored = ins.op.memory == "store" and any(base in o.registers for o in ins.operands[1:])
                full |= {name for name in ins.reads if name != base or stored}
        full = {n for n in full if function.regs.get(n) in _WIDE and strides.of_registers.get(n, 0) != 0}
        if len(full) == before:
            return full


def _numbered(function: Function, strides: Strides, merged: set[str]) -> tuple[Numbers, Sources]:
    """Number the instructions that produce inexact 64-bit sums, and track where those values go."""

    def is_wide(target: Operand) -> bool:
        varies = target in function.regs and strides.of_registers.get(target, 0) != 0
        return varies and BITS[function.regs[target]] == 64

    numbers: Numbers = {}
    found: Sources = {}
    results = [i for i in function.body if isinstance(i, Instruction) and i.op.has_result]
    changed = True
    while changed:
        changed = False
        for ins in (i for i in results if is_wide(i.operands[0])):
            target, comes = ins.operands[0], _NONE
            given = [found.get(o, _NONE) for o in ins.operands[1:]]
            if target in merged:
                pass
            elif _is_anchor(ins, given, strides):
                comes = frozenset([numbers.setdefault(ins, len(numbers) + 1)])
            elif linear(ins) in ("move", "add", "sub"):
                comes = frozenset().union(*given)
            if not comes <= found.get(target, _NONE):
                found[target] = found.get(target, _NONE) | comes
                changed = True
    return numbers, found


def _is_anchor(ins: Instruction, given: list[frozenset[int]], strides: Strides) -> bool:
    """given: the anchors of each operand; the sum of two anchored values, for example, needs its own
    anchor."""
    kind = linear(ins)
    if kind == "widen" or kind in ("mul", "wide") and any(strides.of(o) == 0 for o in ins.operands[1:3]):
        return kind != "mul" or any(given)
    several = sum(map(bool, given)) > 1 or kind == "sub" and bool(given[1])
    return several and kind in ("add", "sub") or kind in ("shl", "neg") and any(given)


def _is_stale(body, blocks: Blocks, numbers: Numbers, sources: Sources) -> bool:
    """An anchor describes only its latest result: whether a value derived from an earlier one may still be
    needed."""
    at_start = live(body, blocks)
    for block, (end, follow) in blocks.items():
        needed = set().union(*(at_start[t] for t in follow)) & sources.keys()
        for ins in (i for i in reversed(body[block:end]) if isinstance(i, Instruction)):
            needed -= ins.writes
            if (number := numbers.get(ins)) and any(number in sources[name] for name in needed):
                return True
            needed |= ins.reads & sources.keys()
    return False
