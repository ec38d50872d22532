"""Rows of lanes that run side by side: where that is possible and worthwhile, and what differs from row to row.

They are adjacent in y; or, in a kernel for blocks of a known shape, they are the whole block, and nobody waits for others.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from ..ptx.cfg import Blocks, Loop
from ..ptx.ir import Instruction
from .strides import COUNTERS
from .uniformity import computes_floats

if TYPE_CHECKING:
    from .lanes import Lanes

ROWS = 4  # the number of multiply-adds that a processor has in flight
MOST = 16  # of a whole block: with more, sums would not all be in registers
_ROW = "%tid.y"
Block = tuple[int, int, int]


def are_block(block: Block, width: int) -> int:
    """How many rows of lanes are a whole block of this shape; 0: too many, or lanes of a row would differ in y."""
    rows, more = divmod(prod(block), width)
    return rows if block[0] % width == 0 and not more and rows <= MOST else 0


def firsts(block: Block, width: int) -> dict[str, tuple[int, ...]]:
    """Special registers that differ between the rows that are a block -> their values in the first lane of each."""
    x, y, z = block
    first = range(0, x * y * z, width)
    found = {
        "%tid.x": [i % x for i in first],
        "%tid.y": [i // x % y for i in first],
        "%tid.z": [i // x // y for i in first],
    }
    return {name: tuple(values) for name, values in found.items() if len(set(values)) > 1}


def steps(lanes: Lanes) -> dict[str, int]:
    """Special registers that are linear over rows -> how far apart rows are."""
    if not lanes.block:
        return {_ROW: 1}
    apart = {name: {b - a for a, b in pairwise(values)} for name, values in lanes.firsts.items()}
    return {name: by.pop() for name, by in apart.items() if len(by) == 1}


def knows_rows(body, whole: bool) -> bool:
    """Whether threads wait and know their rows, and nothing depends on lane numbers; unless rows are a whole block, nor counts
    threads."""
    found = [i for i in body if isinstance(i, Instruction)]
    names = {name for i in found for name in i.reads}
    waiting = [i for i in found if i.op.collective]
    apart = whole or _ROW in names and not any(i.op.has_result for i in waiting)
    return bool(waiting) and apart and "%laneid" not in names


def rows_pay(lanes: Lanes, body, blocks: Blocks, loops: list[Loop]) -> bool:
    """Whether most floating-point arithmetic is where rows have not diverged, assuming eight iterations per
    loop. Where one row diverges from the others, or accesses scattered memory, all rows take the slow path.
    """
    together = apart = 0
    if any(region.loops for region in lanes.regions):
        return False
    for start, (end, _) in blocks.items():
        depth = sum(start in loop.blocks for loop in loops)
        work = 8**depth * sum(isinstance(i, Instruction) and computes_floats(i) for i in body[start:end])
        if start in lanes.thinned or any(r.start <= start < r.end for r in lanes.regions):
            apart += work
        elif depth:
            together += work
    return together > apart


def find_several(lanes: Lanes, body, blocks: Blocks, writing: list[Instruction]) -> None:
    """Add the registers that exist once per row: those computed from the row's number, and those loaded for
    only some of the lanes. writing: the instructions that write registers.
    """
    found = lanes.several
    found |= {*(lanes.firsts or (_ROW,)), *lanes.merged}
    spans = [(r.start, r.end) for r in lanes.regions] + [(b, blocks[b][0]) for b in lanes.thinned]
    masked = (i for start, end in spans for i in body[start:end] if isinstance(i, Instruction))
    loads = {i for i in masked if i.op.memory == "load" and any(map(lanes.varies, i.writes))}
    more = True
    while more:
        more = False
        for ins in writing:
            if ins.writes <= found or all(name.startswith(COUNTERS) for name in ins.writes):
                continue
            if ins in loads or not found.isdisjoint(ins.reads):
                found |= ins.writes
                more = True
