"""Exact counters (`checks="count"`): what is counted, as `count.*` marks; runtime/counters.cu adds it up.

                                        add.u64 %count.key, %count.path, 7401...;
                                        add.u64 %count.key, %count.key, %count.loop.0;
                                        count.enter %count.entry, 4, %count.key;
                                        count.word.global %count.entry, 0, [%rd1+4];
    ld.global.f32 %f1, [%rd1+4];  ->    ld.global.f32 %f1, [%rd1+4];
    add.f32 %f2, %f1, %f2;              add.f32 %f2, %f1, %f2;
                                        count.lane %count.entry, Entry.taken, %p1;
    @%p1 bra $L_loop;                   @%p1 bra $L_loop;

A segment is code without branches, calls or waits: a thread that executes one of its instructions executes
all. At its start a thread enters an Entry of its warp, found by a key: a number for the segment, plus the
call path, plus, for each surrounding loop, its number times its iteration. Lanes with the same key are
converged. Hardware does the same when the lanes of a warp reconverge after every divergent branch: they are
converged in the same iteration of a loop, and after it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from ..analyse.cooperative_groups import lets_lanes_come
from ..analyse.facts import Facts
from ..compile.modules import CountedAccess, CountedSegment
from ..explain.metrics import CONDITIONAL, FLOPS, kinds
from ..ptx.cfg import Loop, basic_blocks, find_loops
from ..ptx.ir import Function, Instruction, Label
from ..ptx.types import BITS
from ..rewrite.predicates import skip
from .insert import mark

_MOST_ACCESSES = 1024  # of a segment

#: the registers that this needs -> their types
_ENTERED, _KEY, _PATH, _CALLEE = "%count.entry", "%count.key", "%count.path", "%count.callee"
_COPIES, _HOLDS, _LANE = "%count.copies", "%count.holds", "%count.lane"
_STRIDE, _ROW, _AT = "%count.stride", "%count.row", "%count.at"
_REGISTERS = {
    **dict.fromkeys((_ENTERED, _KEY, _PATH, _CALLEE, _LANE, _STRIDE, _ROW, _AT), "u64"),
    _COPIES: "u32",
    _HOLDS: "pred",
}


def run(function: Function, facts: Facts) -> None:
    """In place. What is counted is added to `facts.known.segments`."""
    _Counting(function, facts).run()


class _Flow:
    """Where the loops of a body are, and the blocks."""

    def __init__(self, function: Function):
        blocks = basic_blocks(function.body, function.tables)
        self.loops = find_loops(blocks)
        self.around: list[list[Loop]] = [[] for _ in range(len(function.body) + 1)]  # position -> its loops
        self.headers: dict[int, list[Loop]] = {}  # position -> loops that start an iteration there
        self.leads_to: dict[int, list[Loop]] = {}  # position after a block -> loops that it may enter
        for loop in self.loops:
            self.headers.setdefault(loop.header, []).append(loop)
            for start in loop.blocks:
                for position in range(start, blocks[start][0]):
                    self.around[position].append(loop)
            for start in loop.entries:
                self.leads_to.setdefault(blocks[start][0], []).append(loop)


class _Counting:
    def __init__(self, function: Function, facts: Facts):
        self.function, self.known, self.flow = function, facts.known, _Flow(function)
        self.numbers = random.Random(function.name)
        self.copying = facts.known.copies  # there are asynchronous copies to observe
        self.worked = False  # computing since the last of them has been recorded in this segment
        self.segment: CountedSegment | None = None  # the one that is open
        self.body: list[Instruction | Label] = []
        self.position, self.skips = 0, 0
        self.at = next(i for i in function.body if isinstance(i, Instruction))

    def run(self) -> None:
        loops = {_register(loop): "u64" for loop in self.flow.loops}
        self.function.regs |= _REGISTERS | loops
        if self.function.entry:
            self._add("mov.u64", _PATH, 0)
        else:
            self._add("fetch", _PATH, "Extra.path")
        for register in loops:
            self._add("mov.u64", register, 0)
        falls = True
        for self.position, item in enumerate(self.function.body):
            if isinstance(item, Label):
                if falls:
                    self._leave_block(self.position)
                self._start_block(item)
                falls = True
            else:
                self.at = item
                self._instruction(item)
                falls = not item.op.ends_block
        self.function.body = self.body

    def _add(self, opcode: str, *operands: str | int) -> None:
        self.body.append(mark(opcode, *operands, at=self.at))

    def _number(self) -> int:
        """64 bits that are unlikely to equal a sum of others."""
        return self.numbers.getrandbits(64) | 1

    # -- blocks --------------------------------------------------------------------------------------

    def _leave_block(self, position: int) -> None:
        """A block ends before `position`: reset the loops that may be entered from here."""
        for loop in self.flow.leads_to.get(position, ()):
            self._add("mov.u64", _register(loop), 0)

    def _start_block(self, label: Label) -> None:
        """Another iteration begins, if the block is a loop header."""
        self.body.append(label)
        self.segment = None
        for loop in self.flow.headers.get(self.position, ()):
            self._add("add.u64", _register(loop), _register(loop), self._number())

    def _open(self) -> None:
        """Start a segment unless one is open."""
        if self.segment is not None:
            return
        self.segment, self.worked = CountedSegment(), False
        self.known.segments.append(self.segment)
        self._add("add.u64", _KEY, _PATH, self._number())
        for loop in self.flow.around[self.position]:
            self._add("add.u64", _KEY, _KEY, _register(loop))
        self._add("count.enter", _ENTERED, len(self.known.segments) - 1, _KEY)
        if self.copying:
            self._add("fetch", _COPIES, "Extra.copies")
            self._add("setp.ne.u32", _HOLDS, _COPIES, 0)
            self._add("count.lane", _ENTERED, "Entry.copying", _HOLDS)

    # -- instructions ----------------------------------------------------------------------------------

    def _instruction(self, ins: Instruction) -> None:
        op = ins.op
        of_surface = ins.original is not None and ins.original.op.surface
        if not op.mark or ins.base == "enter":
            if not of_surface or op.memory:  # what else it takes is nothing that a GPU does
                self._count(ins)
            if not of_surface:  # with an unspecified layout in memory
                self._accesses(ins)
        if op.ends_block:
            self._leave_block(self.position + 1)
        if op.flow == "branch" and ins.pred and not op.mark:
            self.segment.kinds[self._line(), CONDITIONAL] += 1
            self._add("count.lane", _ENTERED, "Entry.taken", "!" * ins.negated + ins.pred)
        elif op.flow == "switch":
            self.segment.kinds[self._line(), CONDITIONAL] += 1
            self._word("branch", "target", 4, "count.word", ins.operands[0])
        elif op.flow == "call":  # the function goes on from this key
            self._add("mul.lo.u64", _CALLEE, _KEY, self._number())
            self._add("note", "Extra.path", _CALLEE)
        self.body.append(ins)
        if op.flow or op.collective or op.asynchronous or ins.base == "enter" or lets_lanes_come(ins):
            self.segment = None  # different lanes may execute what follows

    def _line(self) -> int:
        return self.known.graph.location(self.at, self.function.name).line

    def _count(self, ins: Instruction) -> None:
        self._open()
        found = kinds((ins.original or ins).op)  # a `ret` is one wherever it is inlined
        for kind, amount in found.items():
            self.segment.kinds[self._line(), kind] += amount
        if "async_copies" in found:
            self.worked = False
        elif (
            self.copying and not self.worked and FLOPS.keys() & found
        ):  # waiting for a copy is no longer idle
            self.worked = True
            self._add("bump", "Extra.work")

    def _accesses(self, ins: Instruction) -> None:
        """Record the addresses of an instruction's accesses. Operations on an mbarrier are none: a unit of its own does them."""
        op = ins.op
        if op.is_mbarrier:
            return
        if op.collective == "matrix":
            self._matrix(ins)
        elif op.memory == "copy" and not op.bulk:
            self._copy(ins)
        elif (
            not op.bulk
            and op.address is not None
            and (op.memory or op.asynchronous)
            and op.space not in ("const", "param")
        ):
            kind = op.memory if op.memory in ("load", "store") else "atomic"
            size = op.nbytes * op.vector
            self._word(kind, op.space, size, f"count.word.{op.space}", ins.address)

    def _word(self, kind: str, space: str, size: int, *note: str) -> None:
        """note: the mark and its operands."""
        if self.segment and len(self.segment.accesses) == _MOST_ACCESSES:
            self.segment = None
        self._open()
        number = len(self.segment.accesses)
        self.segment.accesses.append(CountedAccess(self._line(), kind, space, size))
        opcode, *operands = note
        self._add(opcode, _ENTERED, number, *operands)

    @contextmanager
    def _where(self, holds: str, negated: bool = False) -> Iterator[None]:
        """What is added inside the context is executed if a predicate holds."""
        self.skips += 1
        label = f"$uncounted.{self.skips}"
        self.body.append(skip(label, self.at, holds, negated))
        yield
        self.body.append(Label(label))

    def _copy(self, ins: Instruction) -> None:
        """cp.async"""
        to, source, size, *_ = ins.operands
        self._word("store", "shared", size.value, "count.word.shared", to)
        note = "load", "global", size.value, "count.word.global", source
        given = ins.named.get("b")
        if given is None:
            return self._word(*note)
        ignored = self.function.regs.get(given) == "pred"
        if not ignored:
            self._add("setp.ne.u32", _HOLDS, given, 0)
        with self._where(given if ignored else _HOLDS, negated=ignored):
            self._word(*note)

    # -- matrices --------------------------------------------------------------------------------------

    def _matrix(self, ins: Instruction) -> None:
        if ins.op.moved_rows:  # each of the first lanes gives the address of one
            self._add("setp.lt.u32", _HOLDS, "%laneid", ins.op.moved_rows)
            with self._where(_HOLDS):
                self._word(
                    "load" if ins.op.has_result else "store", "shared", 16, "count.word.shared", ins.address
                )
        elif ins.op.address is not None:
            self._fragment(ins)

    def _fragment(self, ins: Instruction) -> None:
        """wmma: what a compiler could turn it into, 16 bytes per lane at a time, with the lanes in memory order."""
        op, kind = ins.op, "load" if ins.op.has_result else "store"
        m, n, k = op.shape
        rows, columns = {"a": (m, k), "b": (k, n)}.get(op.operation, (m, n))
        nbytes, per_lane = BITS[op.type] // 8, rows * columns // 32
        size, row = min(16, per_lane * nbytes), columns if "row" in op.mods else rows
        self._add("cvt.u64.u32", _STRIDE, ins.named.get("s", row))
        self._add("cvt.u64.u32", _LANE, "%laneid")
        for i in range(0, per_lane, size // nbytes):
            self._add("add.u64", _AT, _LANE, i * nbytes // size * 32)
            self._add("mul.lo.u64", _AT, _AT, size // nbytes)
            self._add("div.u64", _ROW, _AT, row)
            self._add("rem.u64", _AT, _AT, row)
            self._add("mad.lo.u64", _AT, _ROW, _STRIDE, _AT)
            self._add("mul.lo.u64", _AT, _AT, nbytes)
            self._word(kind, op.space, size, f"count.word.{op.space}", ins.address, _AT)


def _register(loop: Loop) -> str:
    """Where the iterations of a loop are counted, times its number."""
    return f"%count.loop.{loop.number}"
