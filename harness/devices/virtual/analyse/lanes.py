"""Kernels whose threads can run as the lanes of vectors: how each register differs between the lanes of a group, and where
they part.

A group is so many threads, in a row of a block, next to each other. Most of what a register holds follows from few
numbers: `a[i]` of neighbouring threads lies 4 bytes apart, and the loop over `j` is the same for all. So a register is

    uniform    the same in all lanes: a scalar
    linear     a constant apart from lane to lane (its stride): the scalar of the first lane
    varying    anything: a vector

Where lanes part, the code up to the place where they meet again (a `Region`) is run block by block, each for the lanes
that take it. A branch by which some of them leave the kernel (an exit) needs no region: those lanes are dead from then on.

Source: Allen, Kennedy, Porterfield and Warren, "Conversion of control dependence to data dependence", POPL 1983;
Karrenberg and Hack, "Whole-function vectorization", CGO 2011; Moll and Hack, "Partial control-flow linearization",
PLDI 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ptx import special
from ..ptx.cfg import Loop, basic_blocks, find_loops
from ..ptx.ir import Function, Immediate, Instruction, Label, Operand, Register, Special, Symbol
from ..ptx.types import BITS
from ..runtime.abi import holds_bounds
from .dataflow import dominators, reached
from .pointers import Origin, Origins

_EXIT = -1
_MOST_BLOCKS = 300
_MOST_ANCHORS = 100
_WORDS = ("u32", "s32", "b32", "u64", "s64", "b64")
_COUNTERS = "%watch."  # of the watchdog: the worker's, not a thread's
_LINEAR = {"%tid.x", "%laneid"}
_MARKS = ("check", "note", "fetch", "slice")


@dataclass(frozen=True)
class Region:
    """Positions [start, end), in blocks, and the loops wholly inside."""

    start: int
    end: int
    blocks: tuple[tuple[int, int], ...]
    loops: tuple[Loop, ...]


@dataclass
class Lanes:
    """strides: register -> how far its values in neighbouring lanes are apart, None where that is not a constant.
    exits: branches by which lanes leave the kernel, and whether those are the ones that take it. early: those of them before
    which nothing is written, so that threads may still begin again. parts: branches after which
    lanes go different ways. merged: registers that keep their values in the lanes that do not take part. anchors: the
    instructions whose result may not be an exact sum of a scalar and a vector (see emit/lanes), numbered. anchored:
    registers -> the anchors they come from. roots: register -> the array that it points into.
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

    def varies(self, register: str) -> bool:
        return self.strides.get(register, 0) is None

    def stride(self, given: Operand) -> int | None:
        """Of any operand."""
        if isinstance(given, Special):
            return int(given in _LINEAR)
        return self.strides.get(given, 0)


class _Refused(Exception):
    """Not as lanes of vectors."""


def lanes(function: Function, origins: dict[str, Origins]) -> Lanes | None:
    """None where threads have to run one by one. origins: `pointers.Values.found`."""
    try:
        return _Analysis(function, origins).lanes()
    except _Refused:
        return None


class _Analysis:
    def __init__(self, function: Function, origins: dict[str, Origins]):
        self.function, self.body = function, function.body
        self.found = Lanes({})
        self._look(origins)
        self.blocks = basic_blocks(self.body, function.tables)
        if len(self.blocks) > _MOST_BLOCKS:
            raise _Refused
        self.loops = find_loops(self.blocks)
        self.leaving = {b for b, (end, _) in self.blocks.items() if self._only_returns(b, end)}
        self.writers: dict[str, list[int]] = {}
        self.readers: dict[str, list[int]] = {}
        for position, item in enumerate(self.body):
            for name in item.writes if isinstance(item, Instruction) else ():
                self.writers.setdefault(name, []).append(position)
            for name in item.reads if isinstance(item, Instruction) else ():
                self.readers.setdefault(name, []).append(position)

    def lanes(self) -> Lanes:
        found = self.found
        while True:
            self._strides()
            parting = [b for b in self.blocks if self._parts(b)]
            regions = self._regions(parting)
            merged = {name for region in regions for name in self._merged(region)}
            if merged <= found.merged:
                break
            found.merged |= merged
        found.regions = regions
        found.parts = {self.body[self.blocks[b][0] - 1] for b in parting} - found.exits.keys()
        found.early = {
            self.body[self.blocks[b][0] - 1] for b in parting if self._is_early(b)
        } & found.exits.keys()
        self._anchor()
        return found

    # -- what can be done at all ----------------------------------------------------------------------

    def _look(self, origins: dict[str, Origins]) -> None:
        """Errors: _Refused."""
        if not holds_bounds(p.size for p in self.function.params):
            raise _Refused
        if any(v.space in ("local", "shared") for v in self.function.variables.values()):
            raise _Refused
        for ins in (i for i in self.body if isinstance(i, Instruction)):
            op = ins.op
            if ins.base in _MARKS:
                continue
            alone = op.takes_carry or op.leaves_carry or op.asynchronous or op.own or op.geometry or op.orders
            if op.flow not in ("", "branch", "return") or op.collective or alone or op.is_fence:
                raise _Refused
            if not all(_is_known(name) for o in ins.operands for name in o.registers):
                raise _Refused
            if op.memory or op.address is not None:
                self._access(ins, origins)

    def _access(self, ins: Instruction, origins: dict[str, Origins]) -> None:
        op = ins.op
        if op.of_parameters and op.memory == "load" and type(ins.address.base) is Symbol:
            return
        if (
            op.memory not in ("load", "store")
            or op.ordering
            or op.space not in ("global", "const", "generic")
        ):
            raise _Refused
        base = ins.address.base
        if type(base) is Symbol:
            self.found.roots[base] = Origin("symbol", base.name)
            return
        found = origins.get(base, frozenset()) if type(base) is Register else frozenset()
        if len(found) != 1:
            raise _Refused
        (origin,) = found
        whole = any(p.name == origin.name and p.size == 8 for p in self.function.params)
        if not (origin.kind == "param" and origin.offset == 0 and whole or origin.kind == "symbol"):
            raise _Refused
        self.found.roots[base] = origin

    # -- how registers differ ---------------------------------------------------------------------------

    def _strides(self) -> None:
        """The least change that all instructions agree with."""
        strides = self.found.strides = dict.fromkeys(self.found.merged)
        changed = True
        while changed:
            changed = False
            for ins in self.body:
                for name in ins.writes if isinstance(ins, Instruction) else ():
                    if strides.get(name, 0) is None:
                        continue
                    stride = 0 if name.startswith(_COUNTERS) else self._result(ins, name)
                    if stride is _OPEN:
                        continue
                    if name in strides and strides[name] != stride:
                        stride = None
                    changed |= name not in strides or strides[name] != stride
                    strides[name] = stride

    def _of(self, given: Operand):
        """The stride of an operand; _OPEN where that is not known yet."""
        if isinstance(given, Register) and not isinstance(given, Special) and given in self.writers:
            return self.found.strides.get(given, _OPEN)
        return self.found.stride(given) if isinstance(given, Special) else 0

    def _result(self, ins: Instruction, name: str):
        read = [self._of(Register(r) if r not in special.ROWS else _special(r)) for r in sorted(ins.reads)]
        if _OPEN in read:
            return _OPEN
        if all(s == 0 for s in read):
            return 0
        if BITS[self.function.regs[name]] in (32, 64) and not self.function.regs[name].startswith("f"):
            return self._linear(ins)
        return None

    def _linear(self, ins: Instruction) -> int | None:
        """The stride of a sum or product."""
        kind = linear(ins)
        if not kind:
            return None
        given = [self._of(o) for o in ins.operands[1:]]
        factor = ins.operands[2].value if len(given) > 1 and type(ins.operands[2]) is Immediate else None
        if None in given:
            return None
        match kind:
            case "move" | "widen" | "narrow":
                return given[0]
            case "neg":
                return -given[0]
            case "add":
                return given[0] + given[1]
            case "sub":
                return given[0] - given[1]
            case "shl":
                return given[0] << factor
        if given[0] and given[1]:
            return None
        more = given[2] if len(given) > 2 else 0
        if not (given[0] or given[1]):
            return more
        return given[0] * factor + more if factor is not None and given[0] else None

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
        """Without the ways by which some lanes leave the kernel while others go on."""
        follow = self.blocks[start][1]
        last = self._last(start)
        if not follow or last is not None and last.op.flow == "return":
            return [_EXIT]
        stays = [t for t in follow if t not in self.leaving]
        return stays if stays and len(set(follow)) > 1 else list(follow)

    def _regions(self, parting: list[int]) -> list[Region]:
        self.found.exits = {}
        before: dict[int, list[int]] = {b: [] for b in [*self.blocks, _EXIT]}
        for block in self.blocks:
            for target in self._follow(block):
                before[target].append(block)
        after_all = dominators(_EXIT, before.__getitem__)
        spans: list[tuple[int, int]] = []
        for block in parting:
            spans += self._span(block, after_all)
        return [self._region(*span) for span in _joined(spans)]

    def _span(self, block: int, after_all) -> list[tuple[int, int]]:
        """The positions between a branch and where all lanes that stay meet again; none if that is at once."""
        end, follow = self.blocks[block]
        leave = [t for t in follow if t in self.leaving]
        if len(leave) == 1 and len(set(follow)) == 2:
            last = self._last(block)
            taken = next(t for t in follow if self.body[t] == Label(last.operands[0]))
            self.found.exits[last] = taken in self.leaving
            return []
        if block not in after_all:
            raise _Refused  # a loop that never ends
        through = after_all[block] - {block}
        meet = max(through, key=lambda b: len(after_all[b]))
        inside = reached(
            [t for t in follow if t != meet],
            lambda b: (t for t in self._follow(b) if t not in (meet, _EXIT)),
        )
        first = min(inside, default=end)
        stop = len(self.body) if meet == _EXIT else meet
        if first > end:
            first = end
        if stop <= max(inside, default=-1) or stop < end:
            raise _Refused
        return [(first, stop)]

    def _region(self, start: int, end: int) -> Region:
        """Checked: only its first block is entered from outside, or the one behind the branch before it."""
        inside = sorted(b for b in self.blocks if start <= b < end)
        if not inside:
            return Region(start, end, (), ())
        for b in inside:
            if self.blocks[b][0] > end:
                raise _Refused
        for b in self.blocks:
            if start <= b < end:
                continue
            for target in self.blocks[b][1]:
                from_before = self.blocks[b][0] == start and self._parts(b)
                if start < target < end and not from_before:
                    raise _Refused
        loops = [loop for loop in self.loops if loop.blocks <= set(inside)]
        for loop in loops:
            low, high = min(loop.blocks), max(self.blocks[b][0] for b in loop.blocks)
            if loop.header != low or any(low <= b < high and b not in loop.blocks for b in inside):
                raise _Refused
        for b in inside:  # backwards only to where a loop begins
            if any(start <= t <= b and t not in {loop.header for loop in loops} for t in self.blocks[b][1]):
                raise _Refused
        return Region(start, end, tuple((b, self.blocks[b][0]) for b in inside), tuple(loops))

    def _merged(self, region: Region) -> Iterator[str]:
        """Registers written there whose values other lanes, or later rounds, may still need."""
        for position in range(region.start, region.end):
            item = self.body[position]
            for name in item.writes if isinstance(item, Instruction) else ():
                if not name.startswith(_COUNTERS) and not self._is_inner(name, position, region):
                    yield name

    def _is_inner(self, name: str, position: int, region: Region) -> bool:
        """Whether all that read a register are behind this, its only write, and no lane waits in between."""
        if len(self.writers[name]) > 1:
            return False
        at = self._block(position)
        around = [loop.blocks for loop in region.loops if at in loop.blocks]
        for reader in self.readers.get(name, ()):
            block = self._block(reader)
            if block == at:
                if reader <= position:
                    return False
            elif at not in self._dominators[block] or any(block not in blocks for blocks in around):
                return False
        return True

    def _block(self, position: int) -> int:
        if not hasattr(self, "_starts"):
            self._starts = {p: b for b, (end, _) in self.blocks.items() for p in range(b, end)}
        return self._starts[position]

    @property
    def _dominators(self):
        if not hasattr(self, "_dominating"):
            found = dominators(0, lambda b: self.blocks[b][1])
            self._dominating = {b: found.get(b, frozenset()) for b in self.blocks}
        return self._dominating

    def _is_early(self, block: int) -> bool:
        before: dict[int, list[int]] = {b: [] for b in self.blocks}
        for b, (_, follow) in self.blocks.items():
            for target in follow:
                before[target].append(b)
        earlier = (i for b in reached([block], before.__getitem__) for i in self.body[b : self.blocks[b][0]])
        return not any(isinstance(i, Instruction) and i.op.writes_memory for i in earlier)

    # -- anchors ----------------------------------------------------------------------------------------

    def _anchor(self) -> None:
        """Number the instructions that make 64-bit numbers of which not all steps are exact, and follow those numbers."""
        found, anchored = self.found, {}
        changed = True
        while changed:
            changed = False
            for ins in (i for i in self.body if isinstance(i, Instruction) and i.op.has_result):
                target = ins.operands[0]
                if not self._is_pair(target) or BITS[self.function.regs[target]] != 64:
                    continue
                kind, sources = linear(ins), [anchored.get(o, frozenset()) for o in ins.operands[1:]]
                if kind == "widen" or kind in ("mul", "wide") and self._one_varies(ins):
                    new = kind != "mul" or any(sources)
                else:
                    several = sum(map(bool, sources)) > 1 or kind == "sub" and sources[1]
                    new = several and kind in ("add", "sub") or kind in ("shl", "neg") and any(sources)
                if target in found.merged:
                    comes = frozenset()  # such a value is kept in full
                elif new:
                    comes = frozenset([found.anchors.setdefault(ins, len(found.anchors) + 1)])
                elif kind in ("move", "add", "sub"):
                    comes = frozenset().union(*sources)
                else:
                    comes = frozenset()
                if not comes <= anchored.get(target, frozenset()):
                    anchored[target] = anchored.get(target, frozenset()) | comes
                    changed = True
        if len(found.anchors) > _MOST_ANCHORS:
            raise _Refused
        found.anchored = anchored
        self._none_is_stale()

    def _is_pair(self, register: Operand) -> bool:
        return register in self.function.regs and self.found.strides.get(register, 0) != 0

    def _one_varies(self, ins: Instruction) -> bool:
        return any(self._of(o) == 0 for o in ins.operands[1:3])

    def _none_is_stale(self) -> None:
        """What an anchor keeps is about its last result: none computed from the one before may still be needed."""
        anchored = self.found.anchored
        if not anchored:
            return
        live: dict[int, set[str]] = {b: set() for b in self.blocks}
        before: dict[int, list[int]] = {b: [] for b in self.blocks}
        for block, (_, follow) in self.blocks.items():
            for target in follow:
                before[target].append(block)
        work = set(self.blocks)
        while work:
            block = work.pop()
            needed = set().union(*(live[t] for t in self.blocks[block][1]))
            for position in range(self.blocks[block][0] - 1, block - 1, -1):
                ins = self.body[position]
                if not isinstance(ins, Instruction):
                    continue
                needed -= ins.writes
                if number := self.found.anchors.get(ins):
                    if any(number in anchored[name] for name in needed):
                        raise _Refused
                needed |= {name for name in ins.reads if name in anchored}
            if needed - live[block]:
                live[block] |= needed
                work.update(before[block])


_OPEN = object()


def _special(name: str) -> Special:
    return Special(name)


def _is_known(name: str) -> bool:
    """Whether a register is an ordinary one, or a special one that is uniform or linear."""
    row = special.ROWS.get(name)
    return row is None or name in _LINEAR or bool(row.value) and row.of_neighbours


def linear(ins: Instruction) -> str:
    """What an instruction does that a scalar and a vector can do separately; "" of any other.

    "move" | "add" | "sub" | "neg" | "shl" | "mul" (mad, too) | "narrow": exact in the width of the result; "widen" |
    "wide" (mul.wide, mad.wide): exact unless the 32-bit sum overflows.
    """
    op, base = ins.op, ins.base
    if op.type not in _WORDS or not op.has_result or type(ins.operands[0]) is not Register:
        return ""
    plain = "sat" not in op.mods and "cc" not in op.mods
    if base == "mov" and type(ins.operands[1]) in (Register, Special, Immediate):
        return "move"
    if base == "cvta" and op.space in ("global", "const"):
        return "move"
    if base in ("add", "sub", "neg") and plain:
        return base
    if base in ("mul", "mad") and plain and op.mods[0] in ("lo", "wide"):
        return "mul" if op.mods[0] == "lo" else "wide"
    if base == "shl" and type(ins.operands[2]) is Immediate and 0 <= ins.operands[2].value < BITS[op.type]:
        return "shl"
    if base == "cvt" and plain and all(t in _WORDS for t in op.types) and len(op.types) == 2:
        to, source = (BITS[t] for t in op.types)
        return "move" if to == source else "widen" if to > source else "narrow"
    return ""


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found
