"""A kernel for blocks of a known shape whose threads run one after the other from barrier to barrier (see `analyse/phases`).

Each phase is a function `NAME.phase.N(env, thr, frame, fixed, before, after)` that returns a bit for the next one, or ENDED. It is
the part of the kernel that begins behind a barrier. What a thread needs after a barrier is in its frame, in one place; what
all of them have in common is in `fixed`, or, if it changes, read from `before` and written to `after`, for the next phase.
A function for each phase runs it for all threads, or as many side by side as share what they multiply by: so the registers of
the processor are its own. Parts of the frames of such neighbours alternate, so that the sums of all are one vector.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ..analyse.packs import SIZE
from ..analyse.phases import Phases
from ..ptx.ir import Instruction
from ..ptx.types import LLVM_BITS, llvm_type
from ..runtime import abi
from . import blocks
from .packs import Packs

ENDED = -(1 << 31)
_ALIGN = 64
CHUNK = 4 * SIZE  # bytes of a frame, behind which are as many of the neighbours
_FRAMES = "ptr noalias %frame, ptr noalias %fixed, ptr noalias %before, ptr noalias %after"


class Frames:
    """Where registers are kept. number: of the phase. neighbours: how many have frames side by side. size, fixed, changing:
    bytes of a thread's frame, and of what threads have in common."""

    def __init__(self, phases: Phases, types: dict[str, str], number: int, packs: Packs, neighbours: int):
        self.phases, self.types, self.number, self.neighbours = phases, types, number, neighbours
        self.places: dict[str, int] = {}
        needed = {name for names in phases.needed.values() for name in names}
        side_by_side = [name for name in packs.of if not needed.isdisjoint(packs.of[name][0])]
        kept, changing = [name for name in types if name in needed and name not in packs.of], phases.changing
        at = 0
        for name in side_by_side:
            self.places[name], at = at, at + 4
        self.size = self._place((name for name in kept if name not in phases.common), at)
        self.fixed = self._place(name for name in kept if name in phases.common - changing)
        self.changing = self._place(name for name in kept if name in changing)

    def _place(self, names: Iterable[str], at: int = 0) -> int:
        for name in sorted(names, key=self._bytes, reverse=True):
            self.places[name] = at
            at += self._bytes(name)
        return -(-at // _ALIGN) * _ALIGN

    def _bytes(self, name: str) -> int:
        return max(LLVM_BITS[llvm_type(self.types[name])] // 8, 1)

    def begin(self, e) -> None:
        """Threads that run side by side have their frames so. What this phase only reads is read where it is kept."""
        for member in e.threads.each():
            if e.threads.suffix:
                e.text.first(f"%frame{e.threads.suffix} = getelementptr i8, ptr %frame, i64 {member * CHUNK}")
        phases, number = self.phases, self.number
        e.values.kept = phases.writes[number].intersection(self.places)
        if number:
            read = phases.reads[number] - phases.writes[number]
            for _ in e.threads.each():
                for name, _, where in self._each(e, phases.waits[number - 1], read, "%before"):
                    e.values.is_at(name, where)

    def wait(self, e, ins: Instruction) -> None:
        """The end of a phase, and the beginning of the next one."""
        phases, next_ = self.phases, self.phases.waits.index(ins) + 1
        writes, changing = phases.writes[self.number], phases.changing
        for _ in e.threads.each():
            for name, t, where in self._each(e, ins, writes | changing, "%after"):
                e.line(f"store {t} {e.values.read(name)}, ptr {where}")
        vector = e.values.packs.vector
        for pack, where in self._packs(e, ins, writes):
            sums = e.emit(f"load {vector}, ptr {e.values.packs.slot(pack)}")
            e.line(f"store {vector} {sums}, ptr {where}, align {CHUNK}")
        e.line(f"ret i32 {1 << next_}")
        e.text.block(label(next_))
        if next_ == self.number:
            for _ in e.threads.each():
                for name, t, where in self._each(e, ins, writes | changing, "%before"):
                    e.values.put(name, e.emit(f"load {t}, ptr {where}"))
            for pack, where in self._packs(e, ins, writes | phases.reads[next_]):
                e.values.packs.set(pack, e.emit(f"load {vector}, ptr {where}, align {CHUNK}"))

    def _each(self, e, ins: Instruction, wanted: frozenset[str], common: str):
        alone = (name for name in self.phases.needed[ins] if name not in e.values.packs.of)
        for name in (name for name in alone if name in wanted):
            base = (
                f"%frame{e.threads.suffix}"
                if name not in self.phases.common
                else common
                if name in self.phases.changing
                else "%fixed"
            )
            t, at = llvm_type(self.types[name]), self.places[name]
            if name not in self.phases.common:
                at = self._in_frame(at)
            yield name, t, e.emit(f"getelementptr i8, ptr {base}, i64 {at}") if at else base

    def _packs(self, e, ins: Instruction, wanted: frozenset[str]):
        """Of which a register is wanted: where they are in the frame."""
        packs = {
            e.values.packs.of[name][0]
            for name in self.phases.needed[ins]
            if name in e.values.packs.of and name in wanted
        }
        for pack in sorted(packs):
            yield pack, e.emit(f"getelementptr i8, ptr %frame, i64 {self._in_frame(self.places[pack[0]])}")

    def _in_frame(self, place: int) -> int:
        return place // CHUNK * CHUNK * self.neighbours + place % CHUNK


def label(number: int) -> str:
    return f"phase.{number}"


def head(name: str, number: int) -> str:
    return f'internal i32 @"{name}.phase.{number}"(i64 %env, i64 %thr, {_FRAMES}) alwaysinline'


def of_block(name: str, frames: Frames, block: tuple[int, ...], sites: list[str]) -> str:
    """The function that runs a block. sites: of the barriers. Threads that race may come to different ones, which is a fault."""
    count, threads = len(frames.phases.waits) + 1, prod(block)
    fields = (("launch", "ptr"), ("threads", "i64"), ("frames", "i64"))
    lines = [
        f'define void @"{name}.block"(i64 %env) nounwind {{',
        "entry:",
        "  %before = alloca ptr",
        "  %after = alloca ptr",
        "  %envp = inttoptr i64 %env to ptr",
        *(
            f"  %{field}.a = getelementptr i8, ptr %envp, i64 {abi.offset('Env', field)}\n"
            f"  %{field} = load {t}, ptr %{field}.a, !invariant.load !1"
            for field, t in fields
        ),
        f"  %order.a = getelementptr i8, ptr %launch, i64 {abi.offset('Launch', 'order')}",
        "  %order = load ptr, ptr %order.a, !invariant.load !1",
        "  %fixed = inttoptr i64 %frames to ptr",
        f"  %first = getelementptr i8, ptr %fixed, i64 {frames.fixed}",
        f"  %other = getelementptr i8, ptr %first, i64 {frames.changing}",
        f"  %own = getelementptr i8, ptr %other, i64 {frames.changing}",
        "  store ptr %first, ptr %before",
        "  store ptr %other, ptr %after",
        "  br label %begin.0",
    ]
    given = "i64 %env, i64 %threads, ptr %order, ptr %own, ptr %fixed"
    for n in range(count):
        lines += [
            f"begin.{n}:",
            f"  %before.{n} = load ptr, ptr %before",
            f"  %after.{n} = load ptr, ptr %after",
            f"  store ptr %after.{n}, ptr %before",
            f"  store ptr %before.{n}, ptr %after",
            f'  %went.{n} = call i32 @"{name}.phase.{n}.all"({given}, ptr %before.{n}, ptr %after.{n})',
            "  br label %on",
        ]
    lines += [
        "on:",
        f"  %went = phi i32 {', '.join(f'[ %went.{n}, %begin.{n} ]' for n in range(count))}",
        f"  switch i32 %went, label %apart [ {' '.join(f'i32 {1 << n}, label %begin.{n}' for n in range(1, count))} ]",
        "apart:",
        "  %ended = icmp slt i32 %went, 0",
        "  br i1 %ended, label %done, label %fault",
        "fault:",
        blocks.address(str(threads - 1), ""),
        "  %low = call i32 @llvm.cttz.i32(i32 %went, i1 false)",
        *(f"  %at.{m} = icmp eq i32 %low, {m + 1}" for m in range(len(sites))),
        *(
            f"  %site.{m} = select i1 %at.{m}, i32 {site}, i32 {f'%site.{m - 1}' if m else site}"
            for m, site in enumerate(sites)
        ),
        f"  call i32 @rt_fault(i64 %env, i64 %thr, i32 %site.{len(sites) - 1}, i64 {abi.FAULT['barrier-divergence']}, i64 0, i64 1)",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def of_all(name: str, frames: Frames, block: tuple[int, ...], several: int, multiplies: bool) -> str:
    """The function that runs a phase for all threads, which follow their neighbours. Returns the bits of where they went.

    several: how many run side by side. multiplies: it has vectors for sums and no others; addresses are then known before the
    sums of the thread before."""
    number, how = frames.number, "noimplicitfloat" * multiplies
    around = frames.neighbours
    return f"""
define internal i32 @"{name}.phase.{number}.all"(i64 %env, i64 %threads, ptr %order, {_FRAMES}) noinline nounwind {how} {{
entry:
  br label %one
one:
  %i = phi i32 [ 0, %entry ], [ %next, %one ]
  %so.far = phi i32 [ 0, %entry ], [ %went, %one ]
{blocks.address("%i", "", -several)}
  %among = and i64 %wide, {around - 1}
  %first = and i32 %i, {-around}
  %group = zext i32 %first to i64
  %its = mul i64 %group, {frames.size}
  %from = mul i64 %among, {CHUNK}
  %by = add i64 %its, %from
  %own = getelementptr i8, ptr %frame, i64 %by
  %to = call i32 @"{name}.phase.{number}"(i64 %env, i64 %thr, ptr %own, ptr %fixed, ptr %before, ptr %after)
  %went = or i32 %so.far, %to
  %next = add i32 %i, {several}
  %more = icmp ult i32 %next, {prod(block)}
  br i1 %more, label %one, label %done
done:
  ret i32 %went
}}
"""
