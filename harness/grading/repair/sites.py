"""The places of a file that may be changed, and the edits of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...course.cuda_text import Piece
from .edits import GUARD, Edit, Operation, replaced


@dataclass(frozen=True)
class Choice:
    """One edit of a site: the operation's number, and the pool's entries a and b. cost: see Operation."""

    site: Site
    operation: int
    a: int = 0
    b: int = 0
    cost: float = 0.0

    @property
    def edit(self) -> Edit:
        return self.site.edit_of(self)

    @property
    def row(self) -> tuple[int, int, int, int]:
        return self.site.number, self.operation, self.a, self.b


@dataclass(frozen=True, eq=False)
class Site:
    """A place that may be changed. here: the numbers of the entries that can be named there."""

    number: int
    piece: Piece
    operations: tuple[Operation, ...]
    pool: list = field(default_factory=list, repr=False)
    here: list[int] = field(default_factory=list, repr=False)
    made: Callable[[Choice], Edit | None] | None = None
    others: tuple[str, ...] = ()  # arrays that may be named in its place

    @property
    def replaces(self) -> bool:
        """Whether another value may stand in its place."""
        return self.made is None and bool(self.pool) and self.operations[0].code == "a"

    def is_before(self, line: int) -> bool:
        """Whether it is a line's statement, or one on the way to it in which the whole function may be left."""
        outermost = self.piece.outer.outer.kind == "function_definition"
        return self.piece.line == line or outermost and self.piece.line < line

    @property
    def is_guard(self) -> bool:
        """Whether it is a statement that some threads, or turns of a loop, may have to leave out."""
        return self.made is not None and self.operations[0] is GUARD[0]

    def entry_of(self, text: str) -> int | None:
        return next((i for i in self.here if self.pool[i].text == text), None)

    def replaced_by(self, entry: int) -> Choice:
        return Choice(self, 0, entry, cost=0.4)

    def choices(self, least: float, most: float) -> Iterator[Choice]:
        """Its edits that cost at least and less than so much."""
        varying = [i for i in self.here if self.pool[i].varies]
        extents = [i for i in self.here if not self.pool[i].varies and self.pool[i].variable]
        extents += [i for i in self.here if self.pool[i].text.startswith("blockDim")]
        for number, o in enumerate(self.operations):
            if not least <= o.cost < most:
                continue
            wanted = o.operands & {"a", "b"}
            if not wanted:
                yield Choice(self, number, cost=o.cost)
            elif wanted == {"a"}:
                yield from (Choice(self, number, a, cost=o.cost + self._far(a)) for a in self.here)
            else:
                seconds = self.here if o.code in ("a < b", "a >= b") else extents
                yield from (Choice(self, number, a, b, o.cost) for a in varying for b in seconds if a != b)

    def _far(self, a: int) -> float:
        """Literals that occur elsewhere are less likely than variables, 0 and 1."""
        entry = self.pool[a]
        return 0.0 if entry.variable or entry.known in (None, 0, 1) else 0.4

    def edit_of(self, choice: Choice) -> Edit:
        if self.made:
            return self.made(choice)
        names = (self.pool[i].text if self.pool else "" for i in (choice.a, choice.b))
        return replaced(self.piece, self.operations[choice.operation], *names)
