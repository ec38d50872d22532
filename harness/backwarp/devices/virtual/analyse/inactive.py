"""Registers that must keep their values in inactive lanes.

The blocks of a region run in order, each for the lanes that wait at it (see `lanes`). What a block writes may overwrite a
register of all lanes, unless it is still needed where other lanes can wait meanwhile. Two conditions tell where
they can:

* They have parted from the lanes that run, at some branch, and have not met again.
* An edge led them there: from a block that ran earlier in the same round of all loops around, or out of a loop that
  the running lanes are still in.

Source: Karrenberg and Hack, "Whole-function vectorization", CGO 2011, section on blending; Rosemann, Moll and Hack, "An
abstract interpretation for SPMD divergence on reducible control flow graphs", POPL 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ptx.cfg import Blocks
from .dataflow import reached

if TYPE_CHECKING:
    from .lanes import Region


@dataclass(frozen=True)
class Parting:
    """A branch at which lanes diverge. block: that it ends; follow: the blocks that they go to; meet: where they all
    are again, behind all blocks that they can come to before."""

    block: int
    follow: tuple[int, ...]
    meet: int


class Waiting:
    """Where other lanes may wait while a block of a region runs."""

    def __init__(
        self,
        region: Region,
        blocks: Blocks,
        partings: Iterable[Parting],
        follow: Callable[[int], Iterable[int]],
    ):
        """partings: of the region, and the one it begins with. follow(block): where lanes go that stay in the kernel."""
        self.region, self.loops = region, region.loops
        self.edges = [(b, t) for b, _ in region.blocks for t in blocks[b][1] if self._is_near(t)]
        self.sides: list[tuple[list[set[int]], set[int]]] = []
        for parting in partings:
            if not region.start <= parting.block < region.end:
                self.edges += [(-1, t) for t in parting.follow if self._is_near(t)]
            self.sides.append(self._sides(parting, follow))

    def _is_near(self, block: int) -> bool:
        return self.region.start <= block <= self.region.end

    def _sides(self, parting: Parting, follow) -> tuple[list[set[int]], set[int]]:
        """(for each way, the blocks where its lanes can be before all meet; where those of other ways can wait
        meanwhile, or all ways if one leads back)."""
        meet = parting.meet

        def after(block: int) -> Iterable[int]:
            return (t for t in follow(block) if t != meet and self._is_near(t))

        ways = [reached([t], after) if t != meet and self._is_near(t) else set() for t in parting.follow]
        inside = set().union(*ways)
        if parting.block in inside:
            return [inside], inside | {meet}
        return ways, {meet}

    def at(self, block: int) -> set[int]:
        """The blocks, and perhaps the region's end, where other lanes may wait while this one runs."""
        near: set[int] = set()
        for ways, all_of in self.sides:
            for way in ways:
                if block in way:
                    near |= all_of.union(*(other for other in ways if other is not way))
        around = [loop.blocks for loop in self.loops if block in loop.blocks]
        return {t for source, t in self.edges if t in near and self._led(source, t, block, around)}

    def _led(self, source: int, target: int, block: int, around: list[frozenset[int]]) -> bool:
        """Whether lanes may have gone from `source` to `target` before `block` runs, and still be there."""
        if source < block < target:
            return True
        if source < block:  # back to the header of a loop that both are in, or not yet as far as `block`
            return target <= source and any(source in loop and target in loop for loop in around)
        return any(source in loop and target not in loop for loop in around)


def kept(waiting: Waiting, written: Mapping[int, set[str]], live: Mapping[int, frozenset[str]]) -> set[str]:
    """The registers that inactive lanes keep. written: by each block of the region; live: at the start of each block."""
    found: set[str] = set()
    for block, names in written.items():
        for other in waiting.at(block):
            found |= names & live.get(other, frozenset())
    return found
