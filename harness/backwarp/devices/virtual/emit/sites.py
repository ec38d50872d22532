"""Sites: numbered places in the student's code that emitted code belongs to."""

from __future__ import annotations

from ..ptx.ir import Expansion, Function, Instruction, Location
from .unit import Unit


class Sites:
    """inherited: of the call that led here, for code that is not the student's."""

    def __init__(self, function: Function, unit: Unit, inherited: str):
        self.function, self.unit, self.inherited = function, unit, inherited
        self._calls: dict[Expansion, str] = {}

    def of(self, ins: Instruction) -> str:
        """The site number of an instruction: its own line, or the call that led here from the student's code."""
        if self.unit.raw:
            return self.inherited
        if ins.at.line:
            return str(self.unit.new_site(ins.at, str(ins.original or ins)))
        if ins.expansion is None:
            return self.inherited
        if ins.expansion not in self._calls:
            self._calls[ins.expansion] = self.of(ins.expansion.call)
        return self._calls[ins.expansion]

    def location(self, ins: Instruction) -> Location:
        """The line that leads to an instruction."""
        return self.unit.graph.location(ins, self.function.name)
