"""The places of a file that may be changed, and the edits of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ...cuda.parts import asks
from ...cuda.pieces import Piece
from .edits import BARRIERS, Edit, Operation, replaced
from .pool import Entries
from .ranks import Ranks

MOST_TOGETHER = 8  # edits of one variant
MORE = 0.25  # several edits cost as much as the dearest and this
TOGETHER = 0.5  # the cost of edits that belong together


class Choice(NamedTuple):
    """One edit of a site: the number of the operation and the pool entries a and b. cost: see Operation."""

    site: Site
    operation: int
    a: int = 0
    b: int = 0
    cost: float = 0.0

    @property
    def edits(self) -> tuple[Edit, ...]:
        made = self.site.edit_of(self)
        return (made,) if isinstance(made, Edit) else made

    @property
    def edit(self) -> Edit:
        return self.edits[0]

    @property
    def is_plain(self) -> bool:
        """Whether nothing is inserted."""
        return not self.site.operations[self.operation].operands & {"a", "b"}

    @property
    def row(self) -> tuple[int, int, int, int]:
        """As `backwarp.edits` holds it."""
        codes = (self.site.pool[i].code if self.site.pool else 0 for i in (self.a, self.b))
        return self.site.number, self.operation, *codes


def is_of_barrier(condition: Piece) -> bool:
    """Whether it is the condition of an `if` with nothing but a barrier in it."""
    outer = asks(condition)
    body = outer.part("consequence") if outer is not None and outer.kind == "if_statement" else None
    return body is not None and body.code.lstrip("{ \n").startswith("__sync") and not body.holds(condition)


@dataclass(eq=False)
class Site(Ranks):
    """A place that may be changed. here: the numbers of the entries that can be named there."""

    number: int
    piece: Piece
    operations: tuple[Operation, ...]
    pool: Entries = field(default_factory=Entries, repr=False)
    here: list[int] = field(default_factory=list, repr=False)
    made: Callable[[Choice], Edit | tuple[Edit, ...]] | None = None
    suspect: float = 0.0  # how much likelier its edits are
    _ranked: dict = field(default_factory=dict, repr=False)

    @property
    def replaces(self) -> bool:
        """Whether another value may replace it."""
        return self.made is None and bool(self.pool) and self.operations[0].code == "a"

    @property
    def orders(self) -> bool:
        """Whether it is a barrier, a place for one, or a condition that decides on one."""
        is_barrier = self.operations is BARRIERS or self.piece.code.startswith("__sync")
        return is_barrier or is_of_barrier(self.piece)

    def entry_of(self, text: str) -> int | None:
        return next((i for i in self.here if self.pool[i].text == text), None)

    @cached_property
    def own(self) -> int | None:
        return self.entry_of(self.piece.code) if self.replaces else None

    def chosen(self, operation: int, a: int = 0, b: int = 0) -> Choice:
        """One of several edits that belong together."""
        return Choice(self, operation, a, b, TOGETHER - self.suspect)

    def replaced_by(self, entry: int) -> Choice:
        return self.chosen(0, entry)

    def choices(self, low: float = -math.inf, high: float = math.inf) -> Iterator[Choice]:
        """Its edits with a cost from `low` up to `high` (exclusive)."""
        low, high = low + self.suspect, high + self.suspect
        for number, o in enumerate(self.operations):
            if not o.operands & {"a", "b"}:
                if low <= o.cost < high and self._changes(number, o):
                    yield Choice(self, number, cost=o.cost - self.suspect)
                continue
            for rank, every in self.by_rank(o):
                for entries in every if low <= (cost := o.cost + rank) < high else ():
                    if len(entries) == 1 or entries[0] != entries[-1]:
                        yield Choice(self, number, *(*entries, 0)[:2], cost - self.suspect)

    def _changes(self, number: int, o: Operation) -> bool:
        """Whether the edit changes the text."""
        if self.made is None and (sign := self.piece.part("operator")):
            return o.code != f"l {sign.code} r"
        edit = Choice(self, number).edit
        return edit.after != self.piece.file.text[edit.start : edit.end]

    def edit_of(self, choice: Choice) -> Edit | tuple[Edit, ...]:
        if self.made:
            return self.made(choice)
        names = (self.pool[i].text if self.pool else "" for i in (choice.a, choice.b))
        return replaced(self.piece, self.operations[choice.operation], *names)


def cost_of(choices: Sequence[Choice]) -> float:
    return max((c.cost for c in choices), default=0.0) + MORE * (len(choices) > 1)
