"""Lowers a kernel so that several threads run the code together (see analyse/uniformity.py)."""

from __future__ import annotations

from ..analyse.uniformity import Coarsening, Region
from ..ptx.ir import Instruction, Label


class Coarsened:
    """Mixin of `function.Lowering`. Without coarsening there is one thread."""

    coarsening: Coarsening | None = None
    region: Region | None = None  # which the current thread runs alone
    region_exit = ""
    leading: Instruction | None = None  # of what comes next

    @property
    def thread(self) -> str:
        """Host address of the current thread's state."""
        return f"%thr.{self.member}" if self.coarsening else "%thr"

    def region_at(self, position: int) -> Region | None:
        """The region that starts there, from outside."""
        body = self.function.body
        if not self.coarsening or self.region or body[position] not in self.coarsening.regions:
            return None
        behind = self.coarsening.regions[body[position]]
        end = self.places[behind] if behind else len(body)
        return Region(position, end, frozenset(i.name for i in body[position:end] if isinstance(i, Label)))

    def own_label(self, name: str) -> str:
        """The target of a branch of a thread that runs alone; "" if it does not."""
        if not self.region:
            return ""
        return f'"{name}@{self.member}"' if name in self.region.labels else self.region_exit

    def each_in_turn(self, region: Region, ended: bool) -> bool:
        """Lower a region for one thread after the other."""
        body = self.function.body
        if isinstance(head := body[region.start], Label):  # of a loop
            if not ended:
                self.line(f"br label %{self._label(head.name)}")
            self.lines.append(f"{self._label(head.name)}:")
            self.known.clear()
            ended = False
        known, return_label = dict(self.known), self.return_label
        for self.member in range(self.factor):
            self.region, self.region_exit = region, self.fresh_label("alone")
            self.return_label = self.region_exit
            self.known = dict(known)
            if not self._items(body, region.start, region.end, ended):
                self.line(f"br label %{self.region_exit}")
            self.lines.append(f"{self.region_exit}:")
            ended = False
        self.region, self.return_label, self.member = None, return_label, 0
        self.known.clear()
        return False

    def coarsened(self, ins: Instruction) -> bool:
        """Lower an instruction once for all threads, or once for each. True when it ends the block."""
        if self.region:
            return self._lower(ins)
        if ins in self.coarsening.guards:
            self._agree(ins)
        elif ins in self.coarsening.serial:
            if (
                ins.about
            ):  # each thread's access comes right behind its check, for which LLVM makes better code
                self.leading = ins
                return False
            for self.member in range(self.factor):
                if self.leading:
                    self._lower(self.leading)
                self._lower(ins)
            self.member, self.leading = 0, None
            return False
        return self._lower(ins)

    def _agree(self, ins: Instruction) -> None:
        """Continue if all threads take the branch, or none does."""
        votes = []
        for self.member in range(self.factor):
            votes.append(self.value(ins.pred, "pred"))
        self.member = 0
        differ = "false"
        for vote in votes[1:]:
            differ = self.op("or i1", differ, self.op("xor i1", votes[0], vote))
        agreed = self.fresh_label("agreed")
        self.branch(differ, "disagree", agreed)
        self.label(agreed)
