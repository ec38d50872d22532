"""Comparisons of a number with 0 and with a limit become one unsigned comparison.

    setp.lt.s32 %p1, %r1, 0;            max.s32 %range.0, %r2, -1;
    setp.gt.s32 %p2, %r1, %r2;          add.u32 %range.1, %range.0, 1;
    or.pred %p3, %p1, %p2;        ->    setp.lt.u32 %range.2, %r1, %range.1;
                                        not.pred %p3, %range.2;

A convolution asks this at each tap, and compilers keep the two comparisons, because they do not know that the limit is
positive. Whether any of several numbers is negative they ask of their `or`: here each is compared alone, so that LLVM can
move the comparison of what does not change out of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from ..analyse.dataflow import reached
from ..instrument.insert import mark
from ..ptx.cfg import basic_blocks
from ..ptx.ir import Function, Immediate, Instruction, Operand, Register

#: the last instruction of a tree -> its comparisons with 0 (or -1), and those with a limit: what is to be added to the limit
#: for the first number beyond it
_TREES = {
    "or.pred": ({("lt", 0), ("le", -1)}, {"gt": 1, "ge": 0}),
    "and.pred": ({("ge", 0), ("gt", -1)}, {"lt": 0, "le": 1}),
}


def run(function: Function) -> Function:
    """A function with another body, or the same."""
    if not any(isinstance(i, Instruction) and i.opcode in _TREES for i in function.body):
        return function
    found = _Ranges(replace(function, regs=dict(function.regs)))
    return found.function if found.run() else function


class _Ranges:
    def __init__(self, function: Function):
        self.function, self.body = function, function.body
        self.blocks = basic_blocks(self.body, function.tables)
        self.block = {p: b for b, (end, _) in self.blocks.items() for p in range(b, end)}
        self.writers: dict[str, list[int]] = {}
        for position, item in enumerate(self.body):
            for name in item.writes if isinstance(item, Instruction) else ():
                self.writers.setdefault(name, []).append(position)

    def run(self) -> bool:
        """Whether there are any."""
        found, inner = {}, set()
        for position, item in reversed([*enumerate(self.body)]):
            if isinstance(item, Instruction) and item.opcode in _TREES and item not in inner:
                leaves, nodes = self._tree(item, position)
                inner |= nodes
                found[item] = self._rewritten(item, position, leaves)
        self.function.body = [each for item in self.body for each in found.get(item) or (item,)]
        return any(found.values())

    # -- what a tree compares -----------------------------------------------------------------------------

    def _tree(self, root: Instruction, position: int) -> tuple[dict[Operand, None], set[Instruction]]:
        """(the predicates it combines, its other nodes)"""
        leaves, nodes, work = {}, set(), [*root.sources]
        while work:
            register = work.pop(0)
            at = self._written(register)
            if self._is_before(at, position) and (node := self.body[at]).opcode == root.opcode:
                nodes.add(node)
                work = [*node.sources, *work]
            else:
                leaves[register] = None
        return leaves, nodes

    def _written(self, register: Operand) -> int | None:
        """The position of the only instruction that writes it."""
        found = self.writers.get(register, ()) if type(register) is Register else ()
        return found[0] if len(found) == 1 else None

    def _is_before(self, at: int | None, position: int) -> bool:
        """Whether it is in the same block, before."""
        return at is not None and at < position and self.block[at] == self.block[position]

    def _rewritten(self, root: Instruction, position: int, leaves) -> list[Instruction]:
        """What takes the place of a tree; nothing if it contains no range."""
        of_zero, of_limit = _TREES[root.opcode]
        signs: dict[Operand, list[Operand]] = {}  # a comparison with 0 -> the numbers it is of
        # a number -> the comparison, its limit, and what is to be added to that
        limits: dict[Operand, tuple[Operand, Operand, int]] = {}
        for leaf in leaves:
            at = self._written(leaf)
            kind = self.body[at].opcode.split(".") if at is not None else []
            if len(kind) != 3 or kind[0] != "setp" or kind[2] != "s32":
                continue
            number, limit = self.body[at].sources
            if (kind[1], getattr(limit, "value", None)) in of_zero:
                numbers = [*self._numbers(number, at)]
                if all(self._lasts(x, since, position) for x, since in numbers):
                    signs[leaf] = [x for x, _ in numbers]
            elif kind[1] in of_limit and all(self._lasts(x, at, position) for x in (number, limit)):
                limits.setdefault(number, (leaf, limit, of_limit[kind[1]]))
        ranged = {x: limits[x] for numbers in signs.values() for x in numbers if x in limits}
        if not ranged:
            return []
        split = [leaf for leaf, numbers in signs.items() if not ranged.keys().isdisjoint(numbers)]
        alone = dict.fromkeys(x for leaf in split for x in signs[leaf] if x not in ranged)
        kept = [x for x in leaves if x not in split and all(x != leaf for leaf, _, _ in ranged.values())]
        return _Made(self.function, root).tree(ranged, alone, kept)

    def _numbers(self, number: Operand, position: int) -> Iterator[tuple[Operand, int]]:
        """The numbers of which one is negative if this one is, which may be their `or`; and where they are read."""
        at = self._written(number)
        if self._is_before(at, position) and self.body[at].opcode == "or.b32":
            for source in self.body[at].sources:
                yield from self._numbers(source, at)
        else:
            yield number, position

    def _lasts(self, given: Operand, since: int, to: int) -> bool:
        """Whether an operand that is read at a position has the same value at a later one."""
        if type(given) is not Register:
            return type(given) is Immediate
        here, there = self.block[since], self.block[to]
        if here == there:
            return since < to and not any(since < w < to for w in self.writers.get(given, ()))
        for writer in self.writers.get(given, ()):
            block = self.block[writer]
            if block == here and writer < since:
                continue
            after = (t for t in self.blocks[block][1] if t != here)
            if block in (here, there) or there in reached(
                after, lambda b: (t for t in self.blocks[b][1] if t != here)
            ):
                return False
        return True


class _Made:
    """The instructions of a new tree."""

    def __init__(self, function: Function, root: Instruction):
        self.function, self.root, self.made = function, root, []

    def tree(self, ranged, alone, kept) -> list[Instruction]:
        """ranged: numbers with their limits, alone: others that are compared with 0, kept: comparisons."""
        outside = self.root.opcode == "or.pred"
        inside = [self._inside(x, limit, more) for x, (_, limit, more) in ranged.items()]
        if outside:
            inside = [self._new("not.pred", self._joined("and.pred", inside))]
        signs = [self._new(f"setp.{'lt' if outside else 'ge'}.s32", x, 0) for x in alone]
        result = self._joined(self.root.opcode, [*inside, *signs, *kept])
        self.made.append(mark("mov.pred", self.root.operands[0], result, at=self.root))
        return self.made

    def _inside(self, number: Operand, limit: Operand, more: int) -> str:
        """Whether a number is from 0 to below its limit, which may be negative."""
        if type(limit) is Immediate:
            first = max(limit.value + more, 0)
        else:
            first = self._new("max.s32", limit, -more)
            first = self._new("add.u32", first, more) if more else first
        return self._new("setp.lt.u32", number, first)

    def _joined(self, opcode: str, predicates: list[str]) -> str:
        return reduce(lambda a, b: self._new(opcode, a, b), predicates)

    def _new(self, opcode: str, *operands) -> str:
        regs = self.function.regs
        name = f"%range.{len(regs)}"
        regs[name] = "pred" if opcode.endswith(".pred") or opcode.startswith("setp") else "u32"
        self.made.append(mark(opcode, name, *operands, at=self.root))
        return name
