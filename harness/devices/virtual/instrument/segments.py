"""What counting adds to a lowered kernel (`checks="count"`); runtime/counters.cu processes it.

A segment is code without branches, calls or waits: a thread that executes one of its instructions executes
all. At its start a thread enters an Entry of its warp, found by a key: a number for the segment, plus the
path of calls, plus, for each surrounding loop, its number times its iteration. Lanes with the same key are
together. Hardware does the same when the lanes of a warp reconverge after every divergent branch: they are
together in the same iteration of a loop, and after it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..explain.metrics import CONDITIONAL, FLOPS, kinds
from ..ptx.cfg import Loop, basic_blocks, find_loops
from ..ptx.ir import Instruction
from ..runtime import abi
from ..runtime.abi import INFO_ATOMIC, SPACE

_MASK = (1 << 64) - 1
_ENTRY = abi.DTYPES["Entry"].itemsize
_LANES = 128  # bytes of an Entry for one access: an address of 4 bytes per lane
_MOST_ACCESSES = 1024  # of a segment


@dataclass
class CountedAccess:
    """One instruction's access. kind: "load" | "store" | "atomic"; space: as in state.SPACES."""

    line: int
    kind: str
    space: str
    size: int


@dataclass
class CountedSegment:
    """kinds: (line, kind of operation) -> how many of them each thread executes."""

    kinds: Counter = field(default_factory=Counter)
    accesses: list[CountedAccess] = field(default_factory=list)


@dataclass
class _Flow:
    """Where the loops of a body are."""

    around: list[list[Loop]]  # position -> the loops it lies in
    headers: dict[int, list[Loop]]  # position -> loops that start an iteration there
    leads_to: dict[int, list[Loop]]  # position behind a block -> loops that it may enter

    def register(self, loop: Loop) -> str:
        """Where the iterations of a loop are counted, times its number."""
        return f'%"loop {loop.number}"'


def _flow(function) -> _Flow:
    blocks = basic_blocks(function.body, function.tables)
    around = [[] for _ in range(len(function.body) + 1)]
    headers, leads_to = {}, {}
    for loop in find_loops(blocks):
        headers.setdefault(loop.header, []).append(loop)
        for start in loop.blocks:
            for position in range(start, blocks[start][0]):
                around[position].append(loop)
        for start in loop.entries:
            leads_to.setdefault(blocks[start][0], []).append(loop)
    return _Flow(around, headers, leads_to)


class Counting:
    """Mixin of `lower.Lowering`. Every method does nothing unless the build counts."""

    segment: CountedSegment | None = None  # the one that is open
    flow: _Flow | None = None
    copying = False  # there are asynchronous copies to look at
    worked = False  # since the last of them, in this segment, it has been noted that the thread computes
    lane_bit = lane_offset = path = key = ""

    def start_counting(self) -> None:
        """At the entry of a function: identify the thread and its path of calls."""
        if not self.module.counting:
            return
        lines, self.lines = self.lines, self.entry
        linear = self.load_field("Thread", "linear", invariant=True)
        lane = self.op("and i32", linear, 31)
        self.lane_bit = self.op("shl i32", 1, lane)
        self.lane_offset = self.cast("zext", "i32", self.op("shl i32", lane, 2), "i64")
        self.path = "0" if self.function.entry else self.load_field("Extra", "path")
        self.copying = any(
            "cp.async" in str(i) for f in self.module.ptx.functions.values() for i in f.body or ()
        )
        self.lines = lines

    def start_body(self, function) -> None:
        """Before the first instruction of a body: find its loops, none of which has been entered."""
        if not self.module.counting:
            return
        self.end_segment()
        self.flow = _flow(function)
        for loops in self.flow.headers.values():
            for loop in loops:
                register = self.flow.register(loop)
                self.entry.append(f"  {register} = alloca i64")
                self.line(f"store i64 0, ptr {register}")

    # -- blocks --------------------------------------------------------------------------------------

    def end_block(self, position: int) -> None:
        """A block ends before `position`: reset the loops that may be entered from here."""
        if self.flow:
            for loop in self.flow.leads_to.get(position, ()):
                self.line(f"store i64 0, ptr {self.flow.register(loop)}")

    def start_block(self, position: int) -> None:
        """The block at `position` starts: another iteration, if it is a loop's header."""
        self.end_segment()
        if self.flow:
            for loop in self.flow.headers.get(position, ()):
                register = self.flow.register(loop)
                number = self.module.new_number()
                self.line(
                    f"store i64 {self.op('add i64', self.emit(f'load i64, ptr {register}'), number)}, ptr {register}"
                )

    def end_segment(self) -> None:
        """End the segment: different lanes may execute what follows."""
        self.segment = None

    # -- instructions ----------------------------------------------------------------------------------

    def count(self, ins: Instruction) -> None:
        """Count an instruction of the segment."""
        if not self.module.counting:
            return
        self._open()
        line = self.location(ins).line
        ins = ins.original or ins  # a `ret` is one wherever it is expanded
        found = kinds(ins.opcode)
        for kind, amount in found.items():
            self.segment.kinds[line, kind] += amount
        if self.copying:
            self._note_work(found)
        if ins.base == "bra" and ins.pred:
            self.segment.kinds[line, CONDITIONAL] += 1

    def _note_work(self, found: dict[str, int]) -> None:
        """From now on, waiting for a copy is not idle."""
        if "async_copies" in found:
            self.worked = False
        elif not self.worked and FLOPS.keys() & found:
            self.worked = True
            self.store_field("Extra", "work", self.op("add i32", self.load_field("Extra", "work"), 1))

    def count_access(
        self, ins: Instruction, address: str, space: str, size: int, write: bool, flags: int = 0
    ) -> None:
        """Note the address of an access: i64, an offset in the window for shared memory."""
        if not self.module.counting or space in ("const", "param"):
            return
        kind = "atomic" if flags & INFO_ATOMIC else "store" if write else "load"
        self._note(CountedAccess(self.location(ins).line, kind, space, size), address)

    def count_target(self, ins: Instruction, index: str) -> None:
        """Note where an indexed branch goes."""
        if self.module.counting:
            line = self.location(ins).line
            self.segment.kinds[line, CONDITIONAL] += 1
            self._note(CountedAccess(line, "branch", "target", 4), self.cast("zext", "i32", index, "i64"))

    def count_branch(self, condition: str) -> None:
        """Note whether a thread takes the branch at the end of the segment."""
        if not self.module.counting:
            return
        self._set_lane("taken", condition)

    def count_call(self) -> None:
        """A real call: the called function continues from this key."""
        if self.module.counting:
            self._open()
            self.store_field("Extra", "path", self.op("mul i64", self.key, self.module.new_number()))

    # -- entries --------------------------------------------------------------------------------------

    def _note(self, access: CountedAccess, address: str) -> None:
        if self.segment and len(self.segment.accesses) == _MOST_ACCESSES:
            self.end_segment()
        self._open()
        at = _ENTRY + _LANES * len(self.segment.accesses)
        self.segment.accesses.append(access)
        where = self._in_entry(self.op("add i64", self.lane_offset, at))
        self.line(f"store i32 {self.cast('trunc', 'i64', address, 'i32')}, ptr {where}")

    def _set_lane(self, field: str, condition: str) -> None:
        """Add the lane to a mask of the entry if the condition holds."""
        where = self._in_entry(abi.offset("Entry", field))
        bit = self.emit(f"select i1 {condition}, i32 {self.lane_bit}, i32 0")
        self.line(f"store i32 {self.op('or i32', self.emit(f'load i32, ptr {where}'), bit)}, ptr {where}")

    def _in_entry(self, offset) -> str:
        return self.emit(f"getelementptr i8, ptr {self.entry_pointer}, i64 {offset}")

    def _open(self) -> None:
        """Start a segment unless one is open: enter the expected entry if it is the right one, else ask the runtime."""
        if self.segment is not None:
            return
        self.segment, self.worked = CountedSegment(), False
        self.module.segments.append(self.segment)
        number = len(self.module.segments) - 1
        loops = map(self.flow.register, self.flow.around[self.position])
        key = self.path
        for register in loops:
            key = self.op("add i64", key, self.emit(f"load i64, ptr {register}"))
        self.key = key = self.op("add i64", key, self.module.new_number())
        expected = self.load_field("Extra", "cursor")
        here = self.cast("inttoptr", "i64", expected, "ptr")
        found, lookup, entered = (self.fresh_label(h) for h in ("found", "lookup", "entered"))
        self.branch(self.op("icmp eq i64", self.emit(f"load i64, ptr {here}"), key), found, lookup)
        self.label(found)
        mask = self.emit(f"getelementptr i8, ptr {here}, i64 {abi.offset('Entry', 'mask')}")
        self.line(
            f"store i32 {self.op('or i32', self.emit(f'load i32, ptr {mask}'), self.lane_bit)}, ptr {mask}"
        )
        bytes_ = self.emit(f"getelementptr i8, ptr {here}, i64 {abi.offset('Entry', 'bytes')}")
        length = self.cast("zext", "i32", self.emit(f"load i32, ptr {bytes_}"), "i64")
        self.store_field("Extra", "cursor", self.op("add i64", expected, length))
        self.line(f"br label %{entered}")
        self.module.declare("rt_count")
        self.slow_paths += [
            f"{lookup}:",
            f"  %at.{lookup} = call i64 @rt_count(i64 %env, i64 %thr, i32 {number}, i64 {key})",
            f"  %here.{lookup} = inttoptr i64 %at.{lookup} to ptr",
            f"  br label %{entered}",
        ]
        self.label(entered)
        self.entry_pointer = self.emit(f"phi ptr [ {here}, %{found} ], [ %here.{lookup}, %{lookup} ]")
        if self.copying:
            under_way = self.op("icmp ne i32", self.load_field("Extra", "copies"), 0)
            self._set_lane("copying", under_way)


def segment_arrays(segments: list[CountedSegment]):
    """(Segment[], Access[], Total[]) for the runtime, nothing counted yet."""
    accesses = [a for s in segments for a in s.accesses]
    infos, totals, counted = (abi.array(name, n) for name, n in
                              (("Access", len(accesses)), ("Total", 3 * len(accesses)), ("Segment", len(segments))))  # fmt: skip
    for info, access in zip(infos, accesses, strict=False):
        info["size"], info["space"], info["atomic"] = (
            access.size,
            SPACE[access.space],
            access.kind == "atomic",
        )
    first = 0
    for row, segment in zip(counted, segments, strict=False):
        n = len(segment.accesses)
        row["first"], row["accesses"], row["bytes"] = first, n, _ENTRY + _LANES * n
        first += n
    return counted, infos, totals
