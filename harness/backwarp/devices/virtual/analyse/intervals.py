"""After which accesses a thread may end while others go on to a barrier.

A barrier orders what its participants did before it. A thread that has ended does not take part, so racecheck
must keep the accesses of its last interval; accesses that are always followed by a barrier may be summarised.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ptx.cfg import basic_blocks
from ..ptx.ir import Instruction
from .dataflow import reached


class Intervals:
    """The barrier intervals of a kernel.

    may, must: whether an instruction may be, or certainly is, a barrier of all threads of the block, or a
    call of a function with one.
    """

    def __init__(self, body, tables, may: Callable, must: Callable):
        after, end = _successors(body, tables), len(body)
        before: list[list[int]] = [[] for _ in after]
        for position, targets in enumerate(after):
            for target in targets:
                before[target].append(position)
        instructions = [(p, i) for p, i in enumerate(body) if isinstance(i, Instruction)]
        barriers = {p for p, i in instructions if may(i)}
        stops = {p for p, i in instructions if must(i)}
        # positions from which the end can be reached without a barrier
        self.to_end = _behind({end}, before, stops)
        to_barrier = _behind(barriers, before, stops) | barriers
        begins = {t for p in barriers for t in after[p] if t in to_barrier}
        if 0 in to_barrier:
            begins.add(0)
        self.inside = begins | _behind(begins - stops, after, stops)

    def final(self) -> set[int]:
        """Positions after which a thread may end, in intervals from which others reach a barrier."""
        return self.inside & self.to_end


def passes_freely(body, tables, must: Callable) -> bool:
    """Whether there is a path from a body's start to its end without a barrier."""
    stops = {p for p, i in enumerate(body) if isinstance(i, Instruction) and must(i)}
    return 0 not in stops and len(body) in _behind({0}, _successors(body, tables), stops)


def _successors(body, tables) -> list[list[int]]:
    """The possible successors of each position; the body's length stands for its end, which has none."""
    end = len(body)
    follow = [[p + 1] for p in range(end)] + [[]]
    for _, (last, targets) in basic_blocks(body, tables).items():
        ins = body[last - 1] if last else None
        if isinstance(ins, Instruction) and ins.op.branches:
            falls_out = ins.op.flow == "branch" and ins.pred and last == end
            follow[last - 1] = [*targets, end] if falls_out else list(targets)
    for p, ins in enumerate(body):
        if isinstance(ins, Instruction) and ins.op.leaves:
            follow[p] = [end, p + 1] if ins.pred and p + 1 < end else [end]
    return follow


def _behind(begins, after, stops) -> set[int]:
    """Positions reachable from just after `begins`, up to and including `stops`."""
    first = {t for p in begins for t in after[p]}
    return reached(first, lambda p: () if p in stops else after[p])
