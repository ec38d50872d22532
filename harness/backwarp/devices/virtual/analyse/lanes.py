"""Kernels whose threads can run as vector lanes, and where the lanes of a group diverge.

A group consists of consecutive threads in a row of a block. Most registers have a simple pattern over them:
the addresses of `a[i]` are 4 bytes apart, and a loop counter `j` is the same for all. So a register is

    uniform    the same in all lanes: a scalar
    linear     a constant apart from lane to lane (its stride): the scalar of the first lane
    varying    anything else: a vector

Where lanes diverge, the code up to the point of reconvergence (a `Region`) is run block by block, each block
for the lanes that take it. A branch by which some lanes leave the kernel (an exit) needs no region: those
lanes are dead from then on. At a barrier of the block all live lanes wait together, so a region contains
none.

Several such rows of lanes, adjacent in y, may run side by side. Then a register is either shared by all rows
or exists once per row, and a row may diverge from the others as lanes do.

Source: Allen, Kennedy, Porterfield and Warren, "Conversion of control dependence to data dependence", POPL 1983;
Karrenberg and Hack, "Whole-function vectorization", CGO 2011; Moll and Hack, "Partial control-flow linearization",
PLDI 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ..ptx.cfg import Loop, basic_blocks, find_loops
from ..ptx.ir import Function, Instruction, Label, Operand, Special
from ..runtime.abi import WARP
from . import row_steps
from .anchors import anchors, wanted_in_full
from .dataflow import dominators, live, reached
from .inactive import Parting, Waiting, kept
from .liftable import Refused, look, needs_all
from .pointers import Origin, Origins
from .rows import Block, find_several, firsts, knows_rows, rows_pay, steps
from .strides import COUNTERS, LINEAR, Strides
from .uniformity import sums
from .warps import IN_REGISTER, Warps

_EXIT = -1
_MOST_BLOCKS = 300
_MOST_SUMS = 32  # vector registers of a processor


@dataclass(frozen=True)
class Region:
    """Positions [start, end), by blocks, and the loops entirely inside. entries: blocks other than the first
    that all lanes may enter from outside.
    """

    start: int
    end: int
    blocks: tuple[tuple[int, int], ...]
    loops: tuple[Loop, ...]
    entries: tuple[int, ...] = ()


@dataclass
class Lanes:
    """strides: register -> the difference between neighbouring lanes, None if not constant. exits: branches
    by which lanes leave the kernel, and whether it is the taken side that leaves. early: exits before
    anything is written, so that threads may still restart. parts: branches at which lanes diverge. merged:
    registers that keep their values in inactive lanes. anchors: the instructions whose result may not be an
    exact sum of a scalar and a vector (see anchors), numbered. anchored: register -> its anchors. roots:
    register -> the array it points into. dies: whether lanes may leave the kernel before others; thinned: the
    starts of blocks in which some may have left. rows: how many run side by side; several: registers,
    including special ones, that may differ from row to row; block: the rows are a whole one
    of this shape; firsts: of it, see `rows.firsts`; linear: registers that are linear over rows; steps: special registers that
    are, and how far apart. exchanges: a warp's collectives, with the b and c
    of shuffles. of_groups: instructions whose results depend on the group, see `Warps.result`.
    """

    strides: dict[str, int | None]
    regions: list[Region] = field(default_factory=list)
    exits: dict[Instruction, bool] = field(default_factory=dict)
    early: set[Instruction] = field(default_factory=set)
    parts: set[Instruction] = field(default_factory=set)
    merged: set[str] = field(default_factory=set)
    anchors: dict[Instruction, int] = field(default_factory=dict)
    anchored: dict[str, frozenset[int]] = field(default_factory=dict)
    roots: dict[str, Origin] = field(default_factory=dict)
    dies: bool = False
    thinned: set[int] = field(default_factory=set)
    rows: int = 1
    several: set[str] = field(default_factory=set)
    block: Block | tuple[()] = ()
    firsts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    linear: set[str] = field(default_factory=set)
    exchanges: dict[Instruction, tuple[int, int]] = field(default_factory=dict)
    of_groups: dict[Instruction, int] = field(default_factory=dict)

    def varies(self, register: str) -> bool:
        return self.strides.get(register, 0) is None or register in self.several

    def stride(self, given: Operand) -> int | None:
        """The stride of any operand."""
        if isinstance(given, Special):
            return int(given in LINEAR)
        return self.strides.get(given, 0)


def refusal(function: Function, origins: dict[str, Origins], width: int, registers: bool) -> str:
    """Why `lanes` finds none."""
    try:
        _Analysis(Lanes({}), function, origins, width, registers).lanes()
    except Refused as error:
        return str(error) or "where lanes part and meet again"
    return "rows"


def is_own(found: Lanes, ins: Instruction) -> bool:
    """Whether it accesses a local variable."""
    plain = ins.op.memory in ("load", "store") and not ins.op.of_parameters
    return plain and ins.address.base in found.roots and found.roots[ins.address.base].kind == "local"


def lanes(
    function: Function,
    origins: dict[str, Origins],
    rows: int = 1,
    width: int = 0,
    registers: bool = False,
    block: Block | tuple[()] = (),
    anyhow: bool = False,
) -> Lanes | None:
    """None if threads must run one by one, or this many rows gain nothing. origins: `pointers.Values.found`.
    width: how many lanes; if they are a whole warp, they may exchange values. registers: as in `Warps`. block: the rows are
    all of a block of this shape. anyhow: whatever is gained.
    """
    found = Lanes({}, rows=rows, block=block, firsts=firsts(block, width) if block else {})
    try:
        return _Analysis(found, function, origins, width, registers, anyhow).lanes()
    except Refused:
        return None


class _Analysis:
    def __init__(
        self,
        found: Lanes,
        function: Function,
        origins: dict[str, Origins],
        width: int,
        registers: bool,
        anyhow: bool = False,
    ):
        self.function, self.body, self.anyhow = function, function.body, anyhow
        self.found, self.strides = found, Strides(function)
        self.waits = any(isinstance(i, Instruction) and i.op.collective for i in self.body)
        self.blocks = basic_blocks(self.body, function.tables)
        if len(self.blocks) > _MOST_BLOCKS:
            raise Refused
        # with full checks the rows of all blocks are multiples of a group
        self.warps = Warps(function, self.blocks, registers, width) if registers or width == WARP else None
        look(self.found, function, origins, self.warps if width == WARP else None, anyhow, registers)
        self.own = [i for i in self.body if isinstance(i, Instruction) and is_own(found, i)]
        self.own_loads = self.strides.known = dict.fromkeys(i for i in self.own if i.op.memory == "load")
        self.loops = find_loops(self.blocks)
        adds = found.rows * sums(self.body, self.blocks, self.loops)
        if adds > _MOST_SUMS and not anyhow:
            raise Refused(f"{adds} sums, more than there are registers for vectors")
        if found.rows > 1 and not knows_rows(self.body, bool(found.block)):
            raise Refused
        self.endless: set[int] = set()
        self.leaving = {b for b, (end, _) in self.blocks.items() if self._only_returns(b, end)}
        self.endless = self._endless()

    def lanes(self) -> Lanes:
        found, full = self.found, set()
        while True:
            before = len(full), len(found.merged), len(found.several), found.regions, found.thinned
            if self.warps:
                self._follow_warps()
            found.strides = self.strides.find(found.merged | full)
            if found.rows > 1:
                find_several(found, self.body, self.blocks, self.strides.writing)
            parting = [b for b in self.blocks if self._parts(b)]
            found.regions = self._regions(parting)
            found.thinned = self._thinned()
            found.merged |= set().union(*(self._merged(region, parting) for region in found.regions))
            full |= wanted_in_full(self.function, self.strides)
            if before == (len(full), len(found.merged), len(found.several), found.regions, found.thinned):
                break
        if any(needs_all(i) for start in found.thinned for i in self.body[start : self.blocks[start][0]]):
            raise Refused
        if any(found.stride(i.address.base) != 0 for i in self.own):
            raise Refused("a local variable with an index that differs from thread to thread")
        by_register = (i for i, (b, _) in found.exchanges.items() if b == IN_REGISTER)
        if any(found.varies(name) for i in by_register for name in i.named["b"].registers):
            raise Refused
        if found.rows > 1 and not self.anyhow and not rows_pay(found, self.body, self.blocks, self.loops):
            raise Refused
        found.parts = {self.body[self.blocks[b][0] - 1] for b in parting} - found.exits.keys()
        found.early = {i for b in parting if (i := self._last(b)) in found.exits and self._is_early(b)}
        if self.anyhow:
            return found
        anchored = anchors(self.function, self.blocks, self.strides, found.merged | full)
        if anchored is None:
            raise Refused
        found.anchors, found.anchored = anchored
        if found.rows > 1:
            found.steps = steps(found)
            in_full = found.merged | full
            found.linear = row_steps.find(found, self.function.regs, self.strides.writing, in_full)
        return found

    def _follow_warps(self) -> None:
        found, warps = self.found, self.warps
        warps.kept = found.merged
        warps.masked = {start for region in found.regions for start, _ in region.blocks}
        written = self.strides.writing
        found.of_groups = {i: modulus for i in written if (modulus := warps.result(i)) is not None}
        vectors = (i for i in found.exchanges if i.base == "shfl" or i.op.collective == "matrix")
        known = {i: int(modulus > 0) for i, modulus in found.of_groups.items()}
        self.strides.known = self.own_loads | known | dict.fromkeys(vectors)

    # -- where lanes part -----------------------------------------------------------------------------

    def _only_returns(self, start: int, end: int) -> bool:
        items = [i for i in self.body[start:end] if isinstance(i, Instruction) and i.base != "note"]
        return len(items) == 1 and items[0].op.flow == "return"

    def _parts(self, start: int) -> bool:
        last = self._last(start)
        return last is not None and last.op.flow == "branch" and last.pred and self.found.varies(last.pred)

    def _last(self, start: int) -> Instruction | None:
        end = self.blocks[start][0]
        last = self.body[end - 1] if end > start else None
        return last if isinstance(last, Instruction) else None

    def _follow(self, start: int) -> list[int]:
        """The successors of a block, except exits by which only some lanes leave the kernel."""
        follow = self.blocks[start][1]
        last = self._last(start)
        if not follow or last is not None and last.op.flow == "return":
            return [_EXIT]
        stays = [t for t in follow if t not in self.leaving]
        return stays if stays and start not in self.endless else list(follow)

    def _endless(self) -> set[int]:
        """Blocks of loops that lanes leave only by leaving the kernel."""
        before: dict[int, list[int]] = {b: [] for b in [*self.blocks, _EXIT]}
        for block in self.blocks:
            for target in self._follow(block):
                before[target].append(block)
        return self.blocks.keys() - reached([_EXIT], before.__getitem__)

    def _regions(self, parting: list[int]) -> list[Region]:
        self.found.exits = {}
        before: dict[int, list[int]] = {b: [] for b in [*self.blocks, _EXIT]}
        for block in self.blocks:
            for target in self._follow(block):
                before[target].append(block)
        self.after_all = dominators(_EXIT, before.__getitem__)
        spans: list[tuple[int, int]] = []
        for block in parting:
            spans += (self._closed(*span) for span in self._span(block))
        return [self._region(*span) for span in _joined(spans)]

    def _span(self, block: int) -> list[tuple[int, int]]:
        """The positions between a branch and the point where all remaining lanes reconverge; none if that is
        at once."""
        end, follow = self.blocks[block]
        leave = [t for t in follow if t in self.leaving]
        if len(leave) == 1 and len(set(follow)) == 2:
            last = self._last(block)
            taken = next(t for t in follow if self.body[t] == Label(last.operands[0]))
            self.found.exits[last] = taken in self.leaving
            return []
        if block not in self.after_all:
            raise Refused  # a loop that never ends
        meet = self._meet(block, _EXIT)
        inside = reached(
            [t for t in follow if t != meet],
            lambda b: (t for t in self._follow(b) if t not in (meet, _EXIT)),
        )
        first = min(inside, default=end)
        stop = len(self.body) if meet == _EXIT else meet
        if first > end:
            first = end
        if stop <= max(inside, default=-1) or stop < end:
            raise Refused
        return [(first, stop)]

    def _closed(self, start: int, end: int) -> tuple[int, int]:
        """A span that contains this one, and that lanes which stay in the kernel leave at its end only: a compiler may
        place blocks in it that belong to other paths."""
        while True:
            inside = [b for b in self.blocks if start <= b < end]
            far = {t for b in inside for t in self.blocks[b][1] if not start <= t <= end} - self.leaving
            if not far:
                return start, end
            start, end = min(start, *far), max(end, *far)

    def _meet(self, block: int, end: int) -> int:
        """Where all lanes are again after a branch; `end` if that is nowhere."""
        meet = max(self.after_all[block] - {block}, key=lambda b: len(self.after_all[b]))
        return end if meet == _EXIT else meet

    def _region(self, start: int, end: int) -> Region:
        """The region, after checking that its loops are entered at their headers."""
        inside = (i for i in self.body[start:end] if isinstance(i, Instruction))
        if any(i.op.collective or i.op.asynchronous and not i.op.memory for i in inside):
            raise Refused("a barrier or collective where some threads may not be")
        inside = sorted(b for b in self.blocks if start <= b < end)
        if not inside:
            return Region(start, end, (), ())
        for b in inside:
            if self.blocks[b][0] > end:
                raise Refused
        outside = [
            b
            for b in self.blocks
            if not start <= b < end and not (self.blocks[b][0] == start and self._parts(b))
        ]
        entries = {t for b in outside for t in self.blocks[b][1] if start < t < end}
        loops = [loop for loop in self.loops if loop.blocks <= set(inside)]
        for loop in loops:
            low, high = min(loop.blocks), max(self.blocks[b][0] for b in loop.blocks)
            if loop.header != low or any(low <= b < high and b not in loop.blocks for b in inside):
                raise Refused
            if any(low < entry < high for entry in entries):
                raise Refused
        for b in inside:  # backward branches only to loop headers
            if any(start <= t <= b and t not in {loop.header for loop in loops} for t in self.blocks[b][1]):
                raise Refused
        blocks = tuple((b, self.blocks[b][0]) for b in inside)
        return Region(start, end, blocks, tuple(loops), tuple(sorted(entries)))

    def _thinned(self) -> set[int]:
        """Blocks after an exit, or after a region in which lanes leave the kernel."""
        found = self.found
        ways = [t for b in self.blocks if self._last(b) in found.exits for t in self.blocks[b][1]]
        ways += [r.end for r in found.regions if any(self._leaves(start, r) for start, _ in r.blocks)]
        found.dies = bool(ways)
        return reached([b for b in ways if b in self.blocks], lambda b: self.blocks[b][1])

    def _leaves(self, start: int, region: Region) -> bool:
        """Whether lanes leave the kernel at the end of a block of a region."""
        last = self._last(start)
        returns = last is not None and last.op.flow == "return"
        return returns or any(not region.start <= t <= region.end for t in self.blocks[start][1])

    def _merged(self, region: Region, parting: list[int]) -> set[str]:
        """Registers written in a region whose old values other lanes may still need."""
        part = [b for b in parting if self._last(b) not in self.found.exits]
        part = [b for b in part if region.start <= b < region.end or self.blocks[b][0] == region.start]
        partings = [Parting(b, tuple(self.blocks[b][1]), self._meet(b, region.end)) for b in part]
        waiting = Waiting(region, self.blocks, partings, self._follow)
        return kept(waiting, {start: self.written[start] for start, _ in region.blocks}, self.live)

    @cached_property
    def live(self) -> dict[int, frozenset[str]]:
        return live(self.body, self.blocks)

    @cached_property
    def written(self) -> dict[int, set[str]]:
        """Registers that each block writes, which are not the same in all lanes by their nature."""
        return {
            b: {
                name
                for i in self.body[b:end]
                if isinstance(i, Instruction)
                for name in i.writes
                if not name.startswith(COUNTERS)
            }
            for b, (end, _) in self.blocks.items()
        }

    def _is_early(self, block: int) -> bool:
        if self.waits:
            return False
        before: dict[int, list[int]] = {b: [] for b in self.blocks}
        for b, (_, follow) in self.blocks.items():
            for target in follow:
                before[target].append(b)
        earlier = (i for b in reached([block], before.__getitem__) for i in self.body[b : self.blocks[b][0]])
        return not any(isinstance(i, Instruction) and i.op.writes_memory for i in earlier)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merges overlapping spans."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found
