"""How far-fetched it is to insert a value at a place."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from ...cuda.pieces import Piece
from .edits import INTEGER, Operation
from .pool import FAR_FETCHED, Entries, Entry, numbers_near
from .terms import are_akin, are_counterparts, of_one_direction, words

UNLIKE = 0.3  # what a value of another kind costs more, and a similar one less
PARTNERS = 0.8  # how much less the other of an index and its extent costs, or a factor that it has elsewhere
SIGNS = (" < ", " >= ", " == ", " != ")
_TERMS = ("e + a", "e - a")
_ANY = ("a", "e + a", "e - a", "e * a", "e / a")  # operations in which a may be a term

Ranked = list[tuple[float, list[tuple[int, ...]]]]


class Ranks:
    """The ranking part of a Site, which adds the operations."""

    piece: Piece
    operations: tuple[Operation, ...]
    pool: Entries
    here: list[int]
    made: Callable | None
    own: int | None
    _ranked: dict

    def by_rank(self, o: Operation) -> Ranked:
        """What an operation inserts, by how far-fetched it is."""
        if o.code not in self._ranked:
            self._ranked[o.code] = self._by_rank(o)
        return self._ranked[o.code]

    def _by_rank(self, o: Operation) -> Ranked:
        if not o.operands & {"b"}:
            return grouped(self._put_in(o))
        if not any(sign in o.code for sign in SIGNS):
            return self._multiplied
        if len(re.findall(r"\ba\b", o.code)) == 1:
            return self._compared
        partners = self.pool.are_partners
        return [(rank, [pair for pair in pairs if partners(*pair)]) for rank, pairs in self._compared]

    def _put_in(self, o: Operation) -> Iterator[tuple[float, tuple[int]]]:
        """By rank: what an operation inserts alone."""
        fitting = self._fitting(o.code)
        for a in self.here if o.code in _ANY or self.made else self.plain:
            entry = self.pool[a]
            if entry.is_size or o.code == "a" and (a == self.own or entry.text in self._sides):
                continue
            rank = self._far[a] - PARTNERS * (entry.text in fitting)
            if o.code == "a" and self.operations is INTEGER:
                rank += self._unlike(a)
            yield rank + UNLIKE * (o.code in _TERMS and entry.text in self._sizes), (a,)

    def _unlike(self, a: int) -> float:
        """The penalty where an extent replaces an index or the reverse, or an array index another one made of other names."""
        entry, found = self.pool[a], 0.0
        if self.own is not None:
            found += UNLIKE * (entry.varies != self.pool[self.own].varies)
        if self.piece.kind == "binary_expression":
            shared = self._words & words(entry.text)
            found += -2 * UNLIKE if 1 < len(shared) > len(self._words) // 2 else UNLIKE
        return found

    @cached_property
    def _sides(self) -> set[str]:
        """Of an operator: to leave one side out is an edit of its own."""
        sides = [self.piece.part(side) for side in ("left", "right")]
        return {side.code for side in sides if side is not None and self.piece.kind == "binary_expression"}

    @cached_property
    def _words(self) -> frozenset[str]:
        return words(self.piece.code)

    @cached_property
    def _sizes(self) -> set[str]:
        return set().union(*self.pool.partners.values())

    def _fitting(self, code: str) -> Collection[str]:
        """What an operation is likely to insert."""
        own = self.pool.partners.get(self.piece.code, set())
        ends = {self.pool[i].text for i in self.sizes_here} if self._declares else own
        fitting = {"a - 1 - e": own, "e % a": self._extents, "max(e, a)": {"0"}, "min(e, a)": ends}
        return fitting.get(code, self._factors if code == "e * a" else ())

    @cached_property
    def _factors(self) -> set[str]:
        """What it is multiplied by elsewhere, or its counterpart in another direction is: `2` for `p` next to `2 * q`."""
        code, known = self.piece.code, self.pool.factors
        beside = set().union(*(factors for text, factors in known.items() if are_counterparts(text, code)))
        alike = {e.text for e in self.pool for f in beside if e.text == f or are_counterparts(e.text, f)}
        return alike | known.get(code, set())

    @cached_property
    def _declares(self) -> str:
        """The variable whose first value it is."""
        outer = self.piece.outer
        return outer.part("declarator").code if outer is not None and outer.kind == "init_declarator" else ""

    @cached_property
    def _extents(self) -> set[str]:
        """For the value of a variable: the extents that bound the variable."""
        return self.pool.partners.get(self._declares, set()) if self._declares else set()

    @cached_property
    def _multiplied(self) -> Ranked:
        """What varies, with the extents that may be its factor."""
        named = (i for i in self.plain if self.pool[i].varies)
        varying = [i for i in named if self.pool[i].variable or "Idx" in self.pool[i].text]
        own = self.pool.partners.get(self.piece.code, ())
        ranked = ((-PARTNERS * (self.pool[b].text in own), b) for b in self.sizes_here)
        return grouped((rank, (a, b)) for rank, b in ranked for a in varying)

    @cached_property
    def _compared(self) -> Ranked:
        """What varies, with what it may be compared with: an extent, a size, a number, another name."""
        own = [i for i in self.here if self.pool[i].varies]
        sizes = [i for i in self.here if self.pool[i].is_size and not self.pool[i].varies]
        return grouped(
            (self._apart(a, b), (a, b))
            for a in own
            for b in dict.fromkeys((*self.plain, *self.sizes_here, *sizes))
            if a != b and not (self.pool[a].of and (self.pool[b].varies or self.pool[b].is_size))
        )

    def _apart(self, a: int, b: int) -> float:
        """How far-fetched it is that they are compared."""
        one, other = self.pool[a], self.pool[b]
        expected = self.pool.are_partners(a, b) or " % " in one.text and other.known == 0
        return UNLIKE * (bool(one.of) + (other.varies or (other.known or 0) > 1)) - PARTNERS * expected

    @cached_property
    def plain(self) -> list[int]:
        return [i for i in self.here if not self.pool[i].of and self.pool[i].rank < FAR_FETCHED]

    @cached_property
    def sizes_here(self) -> list[int]:
        found = [i for i in self.plain if not self.pool[i].varies]
        member = re.compile(r"(?!threadIdx|blockIdx)\w+\.").match  # `blockDim.x`, `g.C`
        return [i for i in found if self.pool[i].variable or member(self.pool[i].text)]

    @cached_property
    def is_here(self) -> set[int]:
        return set(self.here)

    @cached_property
    def _far(self) -> dict[int, float]:
        """How far-fetched it is to insert an entry."""
        return {a: self._far_fetched(self.pool[a]) for a in self.here}

    def _far_fetched(self, entry: Entry) -> float:
        """Numbers are less likely than names; what is never used, or resembles what stands there, is more likely."""
        code = self.piece.code
        if self.piece.kind == "number_literal" and entry.known is not None:
            near = entry.rank >= FAR_FETCHED and entry.known in numbers_near(code)
            return UNLIKE if near else entry.rank
        if entry.known is not None and not entry.variable and not entry.of:
            return entry.rank + UNLIKE
        alike = self.own is not None and (are_counterparts(code, entry.text) or are_akin(code, entry.text))
        beside = entry.variable is not None and of_one_direction(entry.text, code)
        return entry.rank - UNLIKE * (alike + beside)


def grouped(ranked: Iterable[tuple[float, tuple[int, ...]]]) -> Ranked:
    """By rank."""
    groups: dict[float, list[tuple[int, ...]]] = {}
    for rank, entries in ranked:
        groups.setdefault(round(rank, 6), []).append(entries)
    return list(groups.items())
