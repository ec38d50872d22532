"""Lowers a kernel by its plan, in which several threads run the code together (see analyse/uniformity.py)."""

from __future__ import annotations

from ..analyse.uniformity import Plan, Region
from ..ptx.ir import Instruction, Label


class SideBySide:
    """Mixin of `function.Lowering`. Without a plan there is one thread."""

    plan: Plan | None = None
    region: Region | None = None  # which the current thread runs alone
    region_exit = ""

    @property
    def thread(self) -> str:
        """Host address of the current thread's state."""
        return f"%thr.{self.lane}" if self.plan else "%thr"

    def region_at(self, position: int) -> Region | None:
        """The region that starts there, from outside."""
        return self.plan.regions.get(position) if self.plan and not self.region else None

    def own_label(self, name: str) -> str:
        """The target of a branch of a thread that runs alone; "" if it does not."""
        if not self.region:
            return ""
        return f'"{name}@{self.lane}"' if name in self.region.labels else self.region_exit

    def each_alone(self, body, region: Region, ended: bool) -> bool:
        """Lower a region for one thread after the other."""
        if isinstance(head := body[region.start], Label):  # of a loop
            if not ended:
                self.line(f"br label %{self._label(head.name)}")
            self.lines.append(f"{self._label(head.name)}:")
            self.known.clear()
            ended = False
        known, return_label = dict(self.known), self.return_label
        for self.lane in range(self.lanes):
            self.region, self.region_exit = region, self.fresh_label("alone")
            self.return_label = self.region_exit
            self.known = dict(known)
            if not self._items(body, region.start, region.end, ended):
                self.line(f"br label %{self.region_exit}")
            self.lines.append(f"{self.region_exit}:")
            ended = False
        self.region, self.return_label, self.lane = None, return_label, 0
        self.known.clear()
        return False

    def side_by_side(self, position: int, ins: Instruction) -> bool:
        """Lower an instruction once for all threads, or once for each. True when it ends the block."""
        if self.region:
            return self._lower(position, ins)
        if position in self.plan.guards:
            self._agree(ins)
        elif position in self.plan.alone:
            for self.lane in range(self.lanes):
                self._lower(position, ins)
            self.lane = 0
            return False
        return self._lower(position, ins)

    def _agree(self, ins: Instruction) -> None:
        """Continue if all threads take the branch, or none does."""
        votes = []
        for self.lane in range(self.lanes):
            votes.append(self.value(ins.pred, "pred"))
        self.lane = 0
        differ = "false"
        for vote in votes[1:]:
            differ = self.op("or i1", differ, self.op("xor i1", votes[0], vote))
        agreed = self.fresh_label("agreed")
        self.branch(differ, "disagree", agreed)
        self.label(agreed)
