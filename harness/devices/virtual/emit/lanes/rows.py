"""LLVM text of code that runs for several rows of lanes in parallel: what differs between rows is written
once for each.

    %t.3 = fadd float %t.1, %t.2    ->    %t.3.0 = fadd float %t.1.0, %t.2
                                          %t.3.1 = fadd float %t.1.1, %t.2

So the rest of the emitter sees one value, and what is the same for all rows is computed once. The processor
overlaps the rows' dependent chains of additions.
"""

from __future__ import annotations

import re

from ..text import Text
from ..unit import Unit

_NAME = re.compile(r'%[\w.$]+|%"[^"]*"')


class RowText(Text):
    """rows: how many. several: the names that stand for a value of each."""

    def __init__(self, unit: Unit, rows: int):
        super().__init__(unit)
        self.rows = rows
        self.several: set[str] = set()

    def assign(self, instruction: str) -> str:
        lines = self._each(instruction)
        if len(lines) == 1:
            return super().assign(instruction)
        name = self.fresh()
        for row, line in enumerate(lines):
            super().line(f"{_of_row(name, row)} = {line}")
        self.several.add(name)
        return name

    def line(self, text: str) -> None:
        for each in self._each(text):
            super().line(each)

    def first(self, *lines: str) -> None:
        for line in lines:
            super().first(*self._each(line))

    def branch(self, condition: str, yes: str, no: str, unlikely: bool = False, likely: bool = False) -> None:
        """Where rows differ, to `yes` if all of them go there."""
        super().branch(self.joined("and i1", condition), yes, no, unlikely, likely)

    def joined(self, head: str, value: str) -> str:
        """One value of those of all rows."""
        if value not in self.several:
            return value
        found, *others = (_of_row(value, row) for row in range(self.rows))
        for other in others:
            found = super().assign(f"{head} {found}, {other}")
        return found

    def _each(self, text: str) -> list[str]:
        if self.several.isdisjoint(_NAME.findall(text)):
            return [text]

        def named(row: int):
            return lambda match: _of_row(match[0], row) if match[0] in self.several else match[0]

        return [_NAME.sub(named(row), text) for row in range(self.rows)]


def _of_row(name: str, row: int) -> str:
    return f'{name[:-1]}.{row}"' if name[-1] == '"' else f"{name}.{row}"
