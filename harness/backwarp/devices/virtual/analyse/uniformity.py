"""Thread coarsening: which values are uniform across neighbouring threads, and where control flow
diverges.

Neighbouring threads mostly take the same branches. So one pass through the code can serve several of them:
whatever depends only on parameters and on the block is done once, everything else once per thread, and
independent chains of additions fill the processor's pipeline. Where threads may diverge, each runs alone up
to the point of reconvergence (a `Region`); or, at a branch before anything has been written, all threads are
compared and restart one by one if they disagree (a guard).

Every thread executes its own instructions in order, so its results are the same to the last bit. This is for
kernels that cannot run as vector lanes (see `lanes`), for example because they update memory atomically.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ptx import special
from ..ptx.cfg import Blocks, Loop, basic_blocks, find_loops
from ..ptx.ir import Function, Instruction, Label
from .dataflow import dominators, reached

#: threads that are coarsened: in kernels without barriers, and in kernels with
FACTOR, FACTOR_WITH_BARRIERS = 4, 8
_MOST_BLOCKS = 300
_MOST_SUMS = 6
_FEW = 150  # instructions: with more, eight threads take LLVM too long
_EXIT = -1


@dataclass(frozen=True)
class Region:
    """Positions [start, end) that each thread executes alone. labels: those inside."""

    start: int
    end: int
    labels: frozenset[str]


@dataclass(frozen=True)
class Coarsening:
    """How the threads of a kernel are coarsened.

    factor: how many threads. varying: registers that each thread has its own copy of. serial: instructions
    that each thread executes separately. guards: branches on which all must agree. regions: code that each
    thread executes alone, the first item -> the first item after it, None at the end of the body.
    """

    factor: int
    varying: frozenset[str]
    serial: frozenset[Instruction]
    guards: frozenset[Instruction]
    regions: dict[Instruction | Label, Instruction | Label | None]


def coarsening(function: Function, waits: bool) -> Coarsening | None:
    """How to coarsen a kernel; None if there is none, or nothing to gain. waits: it may wait, so no thread can
    start again."""
    body = function.body
    if any(v.space == "local" for v in function.variables.values()):
        return None
    if any(isinstance(i, Instruction) and is_for_one(i) for i in body):
        return None
    if waits and not all(_waits_for_block(i) for i in body if isinstance(i, Instruction) and _may_wait(i)):
        return None
    blocks = basic_blocks(body, function.tables)
    loops = find_loops(blocks)
    if not loops or len(blocks) > _MOST_BLOCKS:
        return None
    return _Coarsener(function, blocks, loops, waits).coarsening()


class _Coarsener:
    def __init__(self, function: Function, blocks: Blocks, loops: list[Loop], waits: bool):
        self.body, self.registers, self.blocks, self.loops = function.body, function.regs, blocks, loops
        self.in_loops = frozenset().union(*(loop.blocks for loop in loops))
        self.before: dict[int, list[int]] = {start: [] for start in blocks}
        self.before[_EXIT] = []
        for start in blocks:
            for target in self._follow(start):
                self.before[target].append(start)
        self.touching: dict[str, list[int]] = {}  # register -> positions of its reads and writes
        for position, item in enumerate(self.body):
            for name in item.reads | item.writes if isinstance(item, Instruction) else ():
                self.touching.setdefault(name, []).append(position)
        self.dominators = dominators(0, lambda block: (t for t in self._follow(block) if t != _EXIT))
        # blocks that every path to the end passes through
        self.after_all = dominators(_EXIT, self.before.__getitem__)
        self.waits, self.dirty = waits, set(blocks) if waits else self._behind_effects()
        self.varying: set[str] = set()
        self.serial: set[int] = set()
        self.guards: set[int] = set()
        self.regions: list[Region] = []

    def coarsening(self) -> Coarsening | None:
        if not self.dominators.keys() <= self.after_all.keys():  # a loop that never ends
            return None
        self._separate(
            {p for p, i in enumerate(self.body) if isinstance(i, Instruction) and is_own(i, self.registers)}
        )
        for start in iter(self._diverging, None):
            if not self._cover(start):
                return None
        inside = [r for r in self.regions if not any(_within(r, other) for other in self.regions)]
        for a in inside:
            if any(a.start < b.start < a.end for b in inside):
                return None
            if any(isinstance(i, Instruction) and _may_wait(i) for i in self.body[a.start : a.end]):
                return None
        if sums(self.body, self.blocks, self.loops) > _MOST_SUMS or not self._pays(inside):
            return None
        factor = FACTOR_WITH_BARRIERS if self.waits and len(self.serial) <= _FEW else FACTOR
        at = dict(enumerate(self.body))
        regions = {at[r.start]: at.get(r.end) for r in inside}
        serial, guards = frozenset(map(at.get, self.serial)), frozenset(map(at.get, self.guards))
        return Coarsening(factor, frozenset(self.varying), serial, guards, regions)

    def _pays(self, regions: list[Region]) -> bool:
        """Whether most of the floating-point arithmetic is where threads run together. A loop is assumed to
        have eight iterations."""
        together = serial = 0
        for start, (end, _) in self.blocks.items():
            depth = sum(start in loop.blocks for loop in self.loops)
            for position in range(start, end):
                item = self.body[position]
                if isinstance(item, Instruction) and computes_floats(item):
                    if any(r.start <= position < r.end for r in regions):
                        serial += 8**depth
                    else:
                        together += 8**depth
        return together > serial

    def _separate(self, positions: set[int]) -> None:
        """Make each thread execute these instructions separately, and everything that touches a register they
        write."""
        self.serial |= reached(
            positions, lambda p: (other for name in self.body[p].writes for other in self.touching[name])
        )
        self.varying = {name for position in self.serial for name in self.body[position].writes}

    # -- where control flow diverges ------------------------------------------------------------------------

    def _diverging(self) -> int | None:
        """The first block that ends in a possibly divergent branch not covered yet."""
        return next((start for start in self.blocks if start in self.dominators and self._parts(start)), None)

    def _parts(self, start: int) -> bool:
        position = self.blocks[start][0] - 1
        last = self.body[position]
        if isinstance(last, Label) or last.op.flow not in ("branch", "return") or not last.pred:
            return False
        if position in self.guards or last.pred not in self.varying:
            return False
        return not any(region.start <= position < region.end for region in self.regions)

    def _cover(self, start: int) -> bool:
        """Make the branch at the end of a block a guard, or find its region."""
        position = self.blocks[start][0] - 1
        skips = self.body[position].op.mark  # skips a single instruction, which is no reason to restart
        if start not in self.in_loops and start not in self.dirty and not skips:
            self.guards.add(position)
            return True
        region = self._region(start)
        if region is None or not region.start <= position < region.end:
            return False
        self.regions.append(region)
        inside = range(region.start, region.end)
        self._separate({p for p in inside if isinstance(self.body[p], Instruction)})
        return True

    def _region(self, start: int) -> Region | None:
        """The blocks between a branch and the place where all paths from it rejoin, with a single entry; None
        if there are none."""
        while True:
            meet = self._next_common(start)
            inside = self._reached([t for t in self._follow(start) if t != meet], meet)
            head = start
            if start in inside:  # a loop: from its first block on
                heads = [b for b in inside if all(b in self.dominators[other] for other in inside)]
                if not heads:
                    return None
                head = heads[0]
                first = head
                closed = all(p in inside for b in inside if b != head for p in self.before[b])
            else:
                first = self._tail(start)
                closed = all(p in inside or p == start for b in inside for p in self.before[b])
            spans = sorted((b, self.blocks[b][0]) for b in inside)
            row = all(a[1] == b[0] for a, b in zip(spans, spans[1:], strict=False))
            if start not in inside:
                row &= not spans or spans[0][0] == self.blocks[start][0]
            end = spans[-1][1] if spans else self.blocks[start][0]
            # each thread goes on behind the region, wherever it leaves it
            if closed and row and end == (len(self.body) if meet == _EXIT else meet):
                labels = frozenset(
                    self.body[p].name for p in range(first, end) if isinstance(self.body[p], Label)
                )
                return Region(first, end, labels)
            wider = [b for b in self.dominators[start] if b != start]
            if not wider:
                return None
            start = max(wider, key=lambda b: len(self.dominators[b]))

    def _tail(self, start: int) -> int:
        """The position of the branch at the end of a block; the block's end if there is none."""
        end = self.blocks[start][0]
        last = self.body[end - 1]
        return end - 1 if isinstance(last, Instruction) and last.op.flow in ("branch", "return") else end

    def _next_common(self, start: int) -> int:
        """The first block that every path from here to the end passes through; _EXIT if there is none."""
        through = self.after_all[start] - {start}
        return max(through, key=lambda b: len(self.after_all[b]))

    def _follow(self, start: int) -> list[int]:
        end, follow = self.blocks[start]
        last = self.body[end - 1] if end > start else None
        leaves = not follow or isinstance(last, Instruction) and last.op.flow == "return"
        return [*follow, _EXIT] if leaves else list(follow)

    def _behind_effects(self) -> set[int]:
        """Blocks in which, or on a path to which, memory is written."""
        found = {
            s
            for s, (end, _) in self.blocks.items()
            if any(isinstance(i, Instruction) and i.op.writes_memory for i in self.body[s:end])
        }
        return self._reached(list(found), _EXIT)

    def _reached(self, starts: list[int], end: int) -> set[int]:
        """These blocks and those that can be reached from them, except `end`."""
        return reached(starts, lambda block: (t for t in self._follow(block) if t not in (end, _EXIT)))


def sums(body, blocks: Blocks, loops: list[Loop]) -> int:
    """The number of floating-point registers that a loop accumulates into, which must stay in machine
    registers."""
    inside = (
        item
        for start in {b for loop in loops for b in loop.blocks}
        for item in body[start : blocks[start][0]]
    )
    return len(
        {
            item.operands[0]
            for item in inside
            if isinstance(item, Instruction)
            and computes_floats(item)
            and item.operands[0] in item.operands[1:]
        }
    )


def _may_wait(ins: Instruction) -> bool:
    return bool(ins.op.collective or ins.op.ordering)


def _waits_for_block(ins: Instruction) -> bool:
    """__syncthreads()"""
    return ins.op.collective == "block" and ins.op.operation == "sync" and len(ins.operands) == 1


def is_own(ins: Instruction, registers) -> bool:
    """Whether an instruction may give neighbouring threads different results for the same operands."""
    if ins.op.memory in ("atomic", "reduction") or ins.op.ordering:
        return True
    return not all(name in registers or special.ROWS[name].of_neighbours for name in ins.reads)


def is_for_one(ins: Instruction) -> bool:
    """Whether threads must execute it one by one: it may end them, or depends on the thread without an
    operand saying so."""
    op = ins.op
    carries = op.takes_carry or op.leaves_carry
    alone = carries or op.asynchronous or op.own or bool(op.geometry)
    return op.flow in ("call", "switch", "exit", "trap") or alone


def computes_floats(ins: Instruction) -> bool:
    return ins.op.counts in ("add", "mul", "fma", "minmax")


def _within(region: Region, other: Region) -> bool:
    return region != other and other.start <= region.start and region.end <= other.end
