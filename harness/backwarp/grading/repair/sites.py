"""The places of a file that may be changed, and the edits of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from ...cuda.parts import asks
from ...cuda.pieces import Piece
from .edits import BARRIERS, BEFORE, CHOSEN, CONDITION, FLOAT, GUARD, INTEGER, Edit, Operation, replaced
from .pool import UNUSED, Entries
from .ranks import SIGNS, Ranks

NAMED = 0.5  # bonus of what is never used, in a sum or a product
SIZES = 1.2  # cost of replacing a product by one of two other extents
#: cost of some threads using 0 instead of a value read in a line that is suspected more than this
ZERO, SUSPECT = 0.9, 0.09
#: cost of limiting an end to an extent, or of taking a remainder of a dividend
BOUNDED = 0.8
ALWAYS = 0.95  # cost of a condition that always holds, as there are few
ALONE = 0.8  # cost of a store by one thread of a block or a warp
NUMBERED = 0.6  # cost of replacing blockIdx or threadIdx by the global thread index
MOST_TOGETHER = 8  # edits of one variant
#: several edits cost as much as the dearest and this
MORE = 0.25
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
    others: tuple[str, ...] = ()  # arrays that may replace it
    suspect: float = 0.0  # how much likelier its edits are
    _ranked: dict = field(default_factory=dict, repr=False)

    @property
    def replaces(self) -> bool:
        """Whether another value may replace it."""
        return self.made is None and bool(self.pool) and self.operations[0].code == "a"

    @property
    def orders(self) -> bool:
        """Whether it is a barrier, a place for one, or a condition that decides on one."""
        return (
            self.operations is BARRIERS or self.piece.code.startswith("__sync") or is_of_barrier(self.piece)
        )

    @property
    def is_condition(self) -> bool:
        return self.operations is CONDITION or self.operations is BEFORE

    @property
    def decides_loop(self) -> bool:
        """Whether it is the condition of a loop of any kind."""
        outer = asks(self.piece)
        return outer is not None and outer.kind in ("for_statement", "while_statement", "do_statement")

    @property
    def is_guard(self) -> bool:
        """Whether it is a statement that some threads or iterations may have to skip."""
        return self.made is not None and self.operations[0].code == GUARD[0].code

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

    def choices(
        self, least: float = -math.inf, most: float = math.inf, low: float = -math.inf, high: float = math.inf
    ) -> Iterator[Choice]:
        """Its edits by operations with a cost from `least` up to `most`, if their own cost is from `low` up
        to `high` (exclusive)."""
        for number, o in enumerate(self.operations):
            if least <= o.cost < most:
                yield from self._choices(number, o, low + self.suspect, high + self.suspect)

    def _choices(self, number: int, o: Operation, low=-math.inf, high=math.inf) -> Iterator[Choice]:
        if not o.operands & {"a", "b"}:
            if low <= o.cost < high and self._changes(number, o):
                yield Choice(self, number, cost=o.cost - self.suspect)
            return
        for rank, found in self.by_rank(number, o):
            if low <= (cost := o.cost + rank) < high:
                for entries in found():
                    if len(entries) == 1 or entries[0] != entries[-1]:
                        a, b = (*entries, 0)[:2]
                        yield Choice(self, number, a, b, cost - self.suspect)

    def _changes(self, number: int, o: Operation) -> bool:
        """Whether the edit changes the text."""
        if self.made is None and (sign := self.piece.part("operator")):
            return o.code != f"l {sign.code} r"
        edit = Choice(self, number).edit
        return edit.after != self.piece.file.text[edit.start : edit.end]

    @property
    def likely(self) -> Iterator[Choice]:
        """Likely edits: for a condition, that it always holds, comparisons of names that it already has, or tests of a remainder;
        for a product of extents, other extents; for an index, counting from the other end; for a number,
        values that are never used; for a value read, a choice between it and 0."""
        if self.replaces and self.operations is INTEGER:
            yield from self._with("a - 1 - e", self.pool.partners.get(self.piece.code, ()))
            yield from self._with("e % a", self.pool.divisors.get(self.piece.code, ()), BOUNDED)
            yield from self._numbered
            if self.is_end:
                yield from self._with("min(e, a)", {self.pool[i].text for i in self.sizes_here}, BOUNDED)
        for number, o in enumerate(FLOAT if self.replaces and self.operations is FLOAT else ()):
            if o.code in ("e + a", "e * a"):
                found = (c for c in self._choices(number, o) if self.pool[c.a].rank <= UNUSED)
                yield from (c._replace(cost=c.cost - NAMED) for c in found)
        if self.operations is INTEGER and self._is_size:
            product = next(i for i, o in enumerate(INTEGER) if o.code == "a * b")
            yield from (
                Choice(self, product, a, b, SIZES - self.suspect) for a, b in combinations(self.sizes_here, 2)
            )
        if self.operations is CHOSEN and self.suspect > SUSPECT:
            yield from (c._replace(cost=ZERO - self.suspect) for c in self._choices(0, CHOSEN[0]))
        if self.is_guard:
            yield from self._by_one_thread
        for number, o in enumerate(self.operations if self.is_condition else ()):
            if o.code == "true" and not self.decides_loop:
                yield Choice(self, number, cost=ALWAYS - self.suspect)
            if any(sign in o.code for sign in SIGNS):
                yield from self._choices(number, o, high=o.cost - 0.2)

    @property
    def _by_one_thread(self) -> Iterator[Choice]:
        """For what is stored or added: by one thread of the block, or of each warp."""
        inner = (
            self.piece.parts[0] if self.piece.kind == "expression_statement" and self.piece.parts else None
        )
        target = inner.part("left") if inner is not None else None
        stores = target is not None and target.kind != "identifier"
        number = next(i for i, o in enumerate(self.operations) if o.code == "a == b")
        for a in self.is_here & self.pool.leaders if stores or "atomic" in self.piece.code else ():
            yield Choice(self, number, a, self.entry_of("0"), ALONE - self.suspect)

    @property
    def _numbered(self) -> Iterator[Choice]:
        """For blockIdx or threadIdx, the global thread index: `blockIdx.x * blockDim.x + threadIdx.x`."""
        which, _, axis = self.piece.code.partition(".")
        if which not in ("blockIdx", "threadIdx"):
            return
        code, a, b = (
            ("e * a + b", "blockDim", "threadIdx")
            if which == "blockIdx"
            else ("a * b + e", "blockIdx", "blockDim")
        )
        entries = [self.entry_of(f"{name}.{axis}") for name in (a, b)]
        if None not in entries:
            number = next(i for i, o in enumerate(INTEGER) if o.code == code)
            yield Choice(self, number, *entries, NUMBERED - self.suspect)

    def _with(self, code: str, texts: Collection[str], cost: float | None = None) -> Iterator[Choice]:
        """The choices of an operation that insert one of these."""
        number = next(i for i, o in enumerate(INTEGER) if o.code == code)
        for c in self._choices(number, INTEGER[number]) if texts else ():
            if self.pool[c.a].text in texts:
                yield c if cost is None else c._replace(cost=cost - self.suspect)

    def edit_of(self, choice: Choice) -> Edit | tuple[Edit, ...]:
        if self.made:
            return self.made(choice)
        names = (self.pool[i].text if self.pool else "" for i in (choice.a, choice.b))
        return replaced(self.piece, self.operations[choice.operation], *names)


def cost_of(choices: Sequence[Choice]) -> float:
    return max((c.cost for c in choices), default=0.0) + MORE * (len(choices) > 1)
