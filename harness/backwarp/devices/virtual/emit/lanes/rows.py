"""LLVM text of code that runs for several rows of lanes in parallel: what differs between rows is written
once for each.

    %t.3 = fadd float %t.1, %t.2    ->    %t.3.0 = fadd float %t.1.0, %t.2
                                          %t.3.1 = fadd float %t.1.1, %t.2

So the rest of the emitter sees one value, and what is the same for all rows is computed once. The processor
overlaps the rows' dependent chains of additions. A value that is linear over rows (see `analyse/row_steps`) is two, of the
first row and how far apart rows are, until something else than sums is computed of it.

    %t.3 = add i64 %t.1, %t.2      ->    %t.4 = add i64 %t.1's first, %t.2
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ..text import Text
from ..unit import Unit

_NAME = re.compile(r'%[\w.$]+|%"[^"]*"')
_SUM = re.compile(r"(add|sub|mul|shl) (i32|i64) (\S+), (\S+)")
_CHOICE = re.compile(r"select i1 (\S+), (i32|i64) (\S+), \2 (\S+)")
_CUT = re.compile(r"trunc i64 (\S+) to i32")
_NEAR = 55  # bits of a step: so many rows of it are not 2**64


class Steps(NamedTuple):
    """A value that is linear over rows: its LLVM type, its value in the first row, and how far apart rows are."""

    type: str
    first: str
    by: str


class RowText(Text):
    """rows: how many. several: the names that stand for a value of each. linear: those of them whose values are linear."""

    def __init__(self, unit: Unit, rows: int):
        super().__init__(unit)
        self.rows = rows
        self.several: set[str] = set()
        self.linear: dict[str, Steps] = {}

    def assign(self, instruction: str) -> str:
        if self.linear and (found := self._along(instruction)):
            return self.progression(found)
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
        value = self._apart(value)
        found, *others = (_of_row(value, row) for row in range(self.rows))
        for other in others:
            found = super().assign(f"{head} {found}, {other}")
        return found

    @contextmanager
    def at_entry(self) -> Iterator[None]:
        known = self.remembered()
        self.forget()
        with super().at_entry():
            yield
        self.recall(known)

    # -- linear values ----------------------------------------------------------------------------------------

    def progression(self, steps: Steps) -> str:
        """A name for a linear value."""
        name = self.fresh()
        self.several.add(name)
        self.linear[name] = steps
        return name

    def at_rows(self, t: str, values: Sequence[int]) -> str:
        """A name for a number in each row."""
        name = self.fresh()
        self.first(*(f"{_of_row(name, row)} = add {t} 0, {value}" for row, value in enumerate(values)))
        self.several.add(name)
        return name

    def ends(self, value: str) -> tuple[list[str], str]:
        """The values between which those of all rows are, if a condition (an i1) holds: of the first and the last row, where that
        is known. Where these are multiples of a power of 2, all are: so of an odd number of rows also that of the second."""
        if value not in self.linear:
            return [value], "true"
        t, first, by = self.linear[value]
        last = self._sum("add", t, first, self._sum("mul", t, by, str(self.rows - 1)))
        moved = super().assign(f"add i64 {by}, {1 << _NEAR}")
        second = [self._sum("add", t, first, by)] if self.rows % 2 else []
        return [first, *second, last], super().assign(f"icmp ult i64 {moved}, {1 << _NEAR + 1}")

    def first_of(self, value: str) -> str:
        """Of a linear value; any other is returned as it is."""
        return self.linear[value].first if value in self.linear else value

    def extended(self, extend: str, value: str) -> tuple[str, list[str]]:
        """(32-bit numbers as 64 bits, those that must be in range for all of them to be right)"""
        if value not in self.linear:
            wide = self.once(f"{extend} i32 {value} to i64")
            return wide, [wide]
        _, first, by = self.linear[value]
        first, by = super().assign(f"{extend} i32 {first} to i64"), super().assign(f"sext i32 {by} to i64")
        found = self.progression(Steps("i64", first, by))
        return found, self.ends(found)[0]

    def keep(self, t: str, value: str, slot: str) -> bool:
        """Store a linear value, or one that is the same for all rows, in its two places. Returns whether it is one."""
        found = self._steps(t, value)
        if found:
            super().line(f"store {t} {found.first}, ptr {slot}")
            super().line(f"store {t} {found.by}, ptr {beside(slot)}")
        return found is not None

    def kept(self, t: str, slot: str) -> str:
        first, by = (super(RowText, self).assign(f"load {t}, ptr {place}") for place in (slot, beside(slot)))
        return self.progression(Steps(t, first, by))

    def _along(self, instruction: str) -> Steps | None:
        """The result of an instruction, if it is linear since its operands are."""
        if match := _SUM.fullmatch(instruction):
            op, t, *given = match.groups()
        elif match := _CHOICE.fullmatch(instruction):
            condition, t, *given = match.groups()
            op = "" if condition in self.several else f"select i1 {condition},"
        elif match := _CUT.fullmatch(instruction):
            op, t, given = "trunc", "i64", [match[1]]
        else:
            return None
        if not op or self.linear.keys().isdisjoint(given):
            return None
        found = [self._steps(t, value) for value in given]
        if None in found:
            return None
        if op == "trunc":
            ends = (super(RowText, self).assign(f"trunc i64 {x} to i32") for x in found[0][1:])
            return Steps("i32", *ends)
        (_, a, step), (_, b, more) = found
        if op[:6] == "select":
            ends = (super(RowText, self).assign(f"{op} {t} {x}, {t} {y}") for x, y in ((a, b), (step, more)))
            return Steps(t, *ends)
        if op in ("add", "sub"):
            return Steps(t, self._sum(op, t, a, b), self._sum(op, t, step, more))
        if more != "0" and (op == "shl" or step != "0"):
            return None
        by = self._sum(op, t, step, b) if more == "0" else self._sum(op, t, a, more)
        return Steps(t, self._sum(op, t, a, b), by)

    def _steps(self, t: str, value: str) -> Steps | None:
        return self.linear.get(value) or (None if value in self.several else Steps(t, value, "0"))

    def _sum(self, op: str, t: str, a: str, b: str) -> str:
        if op in ("add", "sub") and b == "0" or op == "mul" and b == "1":
            return a
        if op == "mul" and "0" in (a, b):
            return "0"
        return super().assign(f"{op} {t} {a}, {b}")

    def _apart(self, name: str) -> str:
        """What the values of each row are called."""
        if name not in self.linear:
            return name
        key = f"{name}:apart"
        if not self.knows(key):
            (t, first, by), found = self.linear[name], self.fresh()
            for row in range(self.rows):
                more = self._sum("mul", t, by, str(row))
                super().line(f"{_of_row(found, row)} = add {t} {first}, {more}")
            self.know(key, found)
        return self.knows(key)

    # -- lines ------------------------------------------------------------------------------------------------

    def _each(self, text: str) -> list[str]:
        names = {name: self._apart(name) for name in _NAME.findall(text) if name in self.several}
        if not names:
            return [text]

        def named(row: int):
            return lambda match: _of_row(names[match[0]], row) if match[0] in names else match[0]

        return [_NAME.sub(named(row), text) for row in range(self.rows)]


def beside(slot: str) -> str:
    """Where the step of a linear value is kept."""
    return f'{slot[:-1]}:by"'


def _of_row(name: str, row: int) -> str:
    return f'{name[:-1]}.{row}"' if name[-1] == '"' else f"{name}.{row}"
