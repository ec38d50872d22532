"""Phases: what the threads of a block do between two barriers at which all of them wait.

Where threads come to the same barriers in the same order, each phase can be a loop over the threads, and nobody is
suspended: what a thread still needs after a barrier is kept in memory of its own.

Source: Stratton, Stone and Hwu, "MCUDA: an efficient implementation of CUDA kernels for multi-core CPUs", LCPC 2008.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ..ptx.cfg import Blocks, basic_blocks
from ..ptx.ir import Function, Instruction, Label, Operand
from .dataflow import live, reached
from .lanes import lanes
from .packs import Product
from .pointers import Origin, Origins
from .rows import Block
from .uniformity import Coarsening, is_for_one, is_own

_MOST = 32  # threads whose registers are compared as lanes
_ROWS = 64
_MOST_WAITS = 29
_NEIGHBOURS = 2  # that run side by side


@dataclass(frozen=True)
class Phases:
    """waits: the barriers; phase n begins behind the one before it, phase 0 where the kernel does. needed: for each, the
    registers that a thread needs after it. bodies: what each phase comes to, and the barrier before it; reads, writes: the
    registers. common: registers that are the same in all threads of a block; varying: those that differ in a row. roots: register -> the array it points into."""

    waits: tuple[Instruction, ...]
    needed: dict[Instruction, tuple[str, ...]]
    bodies: tuple[list[Instruction | Label], ...]
    reads: tuple[frozenset[str], ...]
    writes: tuple[frozenset[str], ...]
    common: frozenset[str]
    varying: frozenset[str]
    roots: dict[Operand, Origin]

    @property
    def changing(self) -> frozenset[str]:
        """Common registers that are written after the first barrier."""
        return self.common.intersection(frozenset().union(*self.writes[1:]))


def phases(function: Function, origins: dict[str, Origins], block: Block) -> Phases | None:
    """None if threads may come to different barriers, or leave before one."""
    width = _width(block)
    rows = prod(block) // width
    body = function.body
    waits = tuple(i for i in body if isinstance(i, Instruction) and i.op.collective)
    plain = all(i.op.collective == "block" and not i.op.has_result for i in waits)
    if (
        not plain
        or rows > _ROWS
        or len(waits) > _MOST_WAITS
        or any(v.space == "local" for v in function.variables.values())
    ):
        return None
    found = lanes(function, origins, rows, width, block=block, anyhow=True)
    blocks = basic_blocks(body, function.tables)
    if found is None or any(i in waits for b in found.thinned for i in body[b : blocks[b][0]]):
        return None
    varying = frozenset(name for name, stride in found.strides.items() if stride != 0)
    common = frozenset(function.regs.keys() - found.several - varying)
    parts = [*_reached(body, blocks, waits)]
    reads, writes = (tuple(_registers(part, what) for _, part in parts) for what in ("reads", "writes"))
    bodies = tuple([body[p] for p in sorted(before | part.keys())] for before, part in parts)
    return Phases(waits, _needed(function), bodies, reads, writes, common, varying, found.roots)


def _width(block: Block) -> int:
    return next(w for w in range(min(block[0], _MOST), 0, -1) if block[0] % w == 0)


def together(
    found: Phases, number: int, products: dict[Instruction, Product | None], registers, block: Block
) -> Coarsening | None:
    """How neighbours in a row run a phase side by side, so that what they multiply by is loaded once; None if they do not.
    products: of packs."""
    body = [i for i in found.bodies[number] if isinstance(i, Instruction)]
    found_here = [product for i in body if (product := products.get(i))]
    sums = {name for product in found_here for name in product.sums}
    shared = sum(product.factor not in found.varying for product in found_here)
    alone = (i for i in body if is_for_one(i) or i.op.flow and i.pred in found.varying)
    if (
        not sums <= found.varying
        or 2 * shared <= len(found_here)
        or _width(block) % _NEIGHBOURS
        or next(alone, None)
    ):
        return None
    serial = (i for i in body if is_own(i, registers) or not found.varying.isdisjoint(i.reads | i.writes))
    return Coarsening(_NEIGHBOURS, found.varying, frozenset(serial), frozenset(), {})


def _reached(body, blocks: Blocks, waits) -> Iterator[tuple[set[int], dict[int, Instruction | Label]]]:
    """Of each phase: (the position of the barrier before it, those that it comes to, with what is there)."""
    ends = {end - 1: follow for end, follow in blocks.values()}
    barriers = {p for p, item in enumerate(body) if item in waits}

    def after(position: int) -> list[int]:
        return [] if position in barriers else ends.get(position, [position + 1])

    for before in (set(), *({p} for wait in waits for p in barriers if body[p] is wait)):
        start = max(before, default=-1) + 1
        yield before, {p: body[p] for p in reached([start], after) if p < len(body)}


def _registers(part: dict[int, Instruction | Label], what: str) -> frozenset[str]:
    return frozenset().union(*(getattr(i, what) for i in part.values() if isinstance(i, Instruction)))


def _needed(function: Function) -> dict[Instruction, tuple[str, ...]]:
    body, found = function.body, {}
    blocks = basic_blocks(body, function.tables)
    at_start = live(body, blocks)
    for start, (end, follow) in blocks.items():
        needed = set().union(*(at_start[target] for target in follow))
        for ins in (i for i in reversed(body[start:end]) if isinstance(i, Instruction)):
            if ins.op.collective:
                found[ins] = tuple(name for name in function.regs if name in needed)
            needed = needed - ins.writes | ins.reads
    return found
