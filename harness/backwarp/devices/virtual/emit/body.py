"""The instructions of a function, in order; if threads are coarsened, once for all or once for each."""

from __future__ import annotations

from itertools import repeat

from ....errors import Unsupported
from ..analyse.uniformity import Region
from ..ptx.ir import Function, Instruction, Label
from . import async_copies, calls, clusters, collectives, matrices, memory, moves, opcodes, textures
from .emitter import Emitter


def emit(e: Emitter) -> None:
    """Lower the body of the function; ends in a branch to where it returns."""
    if plan := e.facts.chains.sums:
        e.values.kept = e.values.kept.union(*plan)
    e.values.declare(e.function)
    expanded = {name for i in _marks(e.function, "enter") for name in i.expansion.variables}
    for name, variable in e.function.variables.items():
        if name not in expanded:
            e.variables.declare(name, variable, e.sites.inherited)
    e.text.forget()
    body = _Body(e)
    if not body.items(0, len(e.function.body), False):
        e.control.fall_out()


def _marks(function: Function, base: str) -> list[Instruction]:
    return [i for i in function.body if isinstance(i, Instruction) and i.base == base]


class _Body:
    def __init__(self, e: Emitter):
        self.e, self.body = e, e.function.body
        self.leading: Instruction | None = None  # a check of what comes next
        self.places = {item: i for i, item in enumerate(self.body)}

    def items(self, start: int, end: int, ended: bool) -> bool:
        """Lower the positions [start, end). ended: the block before has ended. Returns whether the last one has."""
        e, i = self.e, start
        while i < end:
            item = self.body[i]
            if region := self._region_at(i):
                self._each_in_turn(region, ended)
                ended, i = False, region.end
                continue
            if isinstance(item, Label):
                label = e.control.label(item.name)
                (e.text.block if ended else e.text.join)(label)
                ended = False
            else:
                if ended:  # unreachable code after a branch
                    e.text.block(e.fresh_label("unreachable"))
                ended = self._instruction(item)
            i += 1
        return ended

    # -- several threads -------------------------------------------------------------------------

    def _region_at(self, position: int) -> Region | None:
        """The region that starts there, from outside."""
        coarsening = self.e.threads.coarsening
        if not coarsening or self.e.threads.alone or self.body[position] not in coarsening.regions:
            return None
        behind = coarsening.regions[self.body[position]]
        end = self.places[behind] if behind else len(self.body)
        labels = (i.name for i in self.body[position:end] if isinstance(i, Label))
        return Region(position, end, frozenset(labels))

    def _each_in_turn(self, region: Region, ended: bool) -> None:
        """Lower a region for one thread after the other."""
        e = self.e
        if isinstance(head := self.body[region.start], Label):  # of a loop
            label = e.control.label(head.name)
            (e.text.block if ended else e.text.join)(label)
            ended = False
        known, outside = e.text.remembered(), ""
        for exit_ in e.threads.each_alone(region, map(e.fresh_label, repeat("alone"))):
            before = e.control.leave_by(exit_)
            outside = outside or before
            e.text.recall(known)
            if not self.items(region.start, region.end, ended):
                e.line(f"br label %{exit_}")
            e.label(exit_)
            ended = False
        e.control.leave_by(outside)
        e.text.forget()

    def _instruction(self, ins: Instruction) -> bool:
        """Lower an instruction once for all threads, or once for each. True when it ends the block."""
        coarsening, threads = self.e.threads.coarsening, self.e.threads
        for sums in self.e.facts.chains.back.get(ins, ()):
            matrices.bring_back(self.e, *sums)
        if self.e.values.packs and self.e.values.packs.emit(ins):
            return False
        if coarsening and not threads.alone:
            if ins in coarsening.guards:
                self._agree(ins)
            elif ins in coarsening.serial:
                self._separately(ins)
                return False
        return lower(self.e, ins)

    def _separately(self, ins: Instruction) -> None:
        """For each thread. Its access follows right after its check, which gives better code; in phases, checks come first."""
        if ins.about and not self.e.control.frames:
            self.leading = ins
            return
        for _ in self.e.threads.each():
            if self.leading:
                lower(self.e, self.leading)
            lower(self.e, ins)
        self.leading = None

    def _agree(self, ins: Instruction) -> None:
        """Continue if all threads take the branch, or none does."""
        e = self.e
        votes = [e.value(ins.pred, "pred") for _ in e.threads.each()]
        differ = "false"
        for vote in votes[1:]:
            differ = e.op("or i1", differ, e.op("xor i1", votes[0], vote))
        agreed = e.fresh_label("agreed")
        e.branch(differ, "disagree", agreed)
        e.label(agreed)


def lower(e: Emitter, ins: Instruction) -> bool:
    """Whether it ends the block. Anything that cannot be lowered is Unsupported, with the line that leads here."""
    try:
        return _emit(e, ins)
    except Unsupported as error:
        if error.line:
            raise
        at = e.sites.location(ins)
        raise Unsupported(error.what, at.file or e.module.name, at.line) from error


def _emit(e: Emitter, ins: Instruction) -> bool:
    op = ins.op
    if op.flow == "call":
        return calls.emit(e, ins)
    if op.flow:
        return e.control.emit(ins)
    if op.nothing or opcodes.emit(e, ins):
        return False
    if op.texture:
        textures.emit(e, ins)
    elif op.asynchronous:
        async_copies.emit(e, ins)
    elif op.memory or ins.base in ("cvta", "isspacep"):
        memory.emit(e, ins)
    elif op.base == "barrier" and "cluster" in op.mods:
        clusters.emit(e, ins)
    elif op.collective:
        (matrices if op.collective in ("matrix", "group") else collectives).emit(e, ins)
    elif op.is_fence:
        e.line("fence seq_cst")
    elif ins.base in ("mov", "createpolicy"):
        moves.emit(e, ins)
    else:
        raise NotImplementedError(f"ptx/isa.py has {ins.opcode}, but no module of emit/ lowers it")
    return False
