"""How far-fetched it is to insert a value at a place."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property, partial
from itertools import combinations, product

from ...cuda.parts import asks
from ...cuda.pieces import Piece
from .edits import BEFORE, CONDITION, INTEGER, ROUNDED_UP, STORE, Operation
from .pool import FAR_FETCHED, Entries, Entry, numbers_near
from .terms import are_akin, are_counterparts, divisor, grouped, of_one_direction, tail, words

UNLIKE = 0.3
NUMBER = 0.2  # penalty of 0 and 1 against names; twice as much for other numbers
OTHER_AREA = 1.8  # penalty of two extents that are not those of rows and of columns
PARTNERS = 0.8  # the same for an index and its extent
SHORT = 200  # characters of a statement short enough not to name everything
SIGNS = (" < ", " >= ", " == ", " != ")
_TERMS = ("e + a", "e - a")
_ANY = ("a", "e + a", "e - a", "e * a", "e / a")  # operations in which a may be a term


class Ranks:
    """The ranking part of a Site, which adds the operations."""

    piece: Piece
    operations: tuple[Operation, ...]
    pool: Entries
    here: list[int]
    made: Callable | None
    own: int | None
    _ranked: dict

    def by_rank(self, number: int, o: Operation) -> list[tuple[float, Callable[[], Iterable]]]:
        """What an operation inserts, by how far-fetched it is; entries are listed on demand."""
        if number not in self._ranked:
            self._ranked[number] = self._by_rank(number, o)
        return self._ranked[number]

    def _by_rank(self, number: int, o: Operation) -> list[tuple[float, Callable[[], Iterable]]]:
        wanted = o.operands & {"a", "b"}
        if wanted == {"a"}:
            return grouped(self._put_in(o))
        if o.says == STORE.says:
            return self._stored
        if wanted == {"a", "b"}:
            if o.code == "e * a * b":
                return self._areas
            if not any(sign in o.code for sign in SIGNS):
                return self._multiplied
            if len(re.findall(r"\ba\b", o.code)) == 1:
                return self._compared
            both_bounds = (
                (rank, [pair for pair in pairs() if self.pool.are_partners(*pair)])
                for rank, pairs in self._compared
            )
            return [(rank, lambda pairs=pairs: pairs) for rank, pairs in both_bounds if pairs]
        return []

    def _put_in(self, o: Operation) -> Iterator[tuple[float, tuple[int]]]:
        """By rank: what an operation inserts alone."""
        here, far = self.here if o.code in _ANY or self.made else self.plain, self._far
        here = [a for a in here if not self.pool[a].is_size]
        if o.code == "a" and self.operations is INTEGER:
            for a in here:
                if a != self.own and self.pool[a].text not in self._sides:
                    yield far[a] + self._unlike(a), (a,)
            return
        fitting = self._fitting(o.code)
        if o.code == ROUNDED_UP:
            here = [a for a in here if self._is_of_tiles(self.pool[a])]
        for a in here:
            fits = self.pool[a].text in fitting
            rank = far[a] + (-PARTNERS if fits else PARTNERS if o.code == "max(e, a)" else 0.0)
            if o.code in _TERMS and self.pool[a].text in self._sizes:
                rank = max(rank, 0.0) + UNLIKE
            elif o.code == "e * a" and self._is_factor_elsewhere(self.pool[a]):
                rank -= PARTNERS
            if a != self.own or o.code != "a":
                yield rank, (a,)

    def _is_of_tiles(self, entry: Entry) -> bool:
        """Whether it is how many elements a tile or a block has."""
        return entry.variable is not None and (entry.known or 0) > 1 or entry.text.startswith("blockDim")

    def _is_factor_elsewhere(self, entry: Entry) -> bool:
        """Whether it is a factor of the same elsewhere, or of its counterpart; or what it was divided by."""
        if entry.text in self.pool.factors.get(self.piece.code, ()) or self._turned(entry):
            return True
        return self.piece.kind == "binary_expression" and divisor(self.piece) == entry.text

    def _turned(self, entry: Entry) -> bool:
        """Whether it is the counterpart of another direction's factor: `2` for `p` next to `2 * q`."""
        fixed = entry.known is not None
        return any(entry.text == f and fixed or are_counterparts(entry.text, f) for f in self._factors_beside)

    @cached_property
    def _factors_beside(self) -> set[str]:
        """The factors of the counterparts in other directions."""
        code = self.piece.code
        alike = (factors for text, factors in self.pool.factors.items() if are_counterparts(text, code))
        return set().union(*alike)

    def _unlike(self, a: int) -> float:
        """The penalty for the kinds of the new and the old value: extents replace extents, indices replace
        indices, and an array index one that is made of the same names."""
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
        own = self.pool.partners.get(self.piece.code, ())
        least = {*own, *(self.pool[i].text for i in self.sizes_here)} if self.is_end else own
        fitting = {"a - 1 - e": own, "e % a": self.extents, "max(e, a)": ("0",), "min(e, a)": least}
        return fitting.get(code, self._of_bound | self._of_block if code == "e * a" else ())

    @cached_property
    def is_end(self) -> bool:
        """Whether it is the value of a name that bounds an index."""
        outer = self.piece.outer
        return (
            outer is not None
            and outer.kind == "init_declarator"
            and outer.part("value") == self.piece
            and outer.part("declarator").code in self._bounding
        )

    @cached_property
    def _bounding(self) -> frozenset[str]:
        """The names in bounds, and in the values of those names: `last` in `n = last - first`."""
        names = frozenset().union(*map(words, self._sizes))
        values = [e.variable.value for e in self.pool if e.variable and e.text in names]
        return names.union(*(words(value.code) for value in values if value))

    @cached_property
    def _of_block(self) -> set[str]:
        """For blockIdx or gridDim: how many threads or elements a block may have. For blockDim: how many blocks
        there are."""
        if self.piece.code.startswith("blockDim"):
            return {f"gridDim.{self.piece.code[-1]}"}
        if not self.piece.code.startswith(("blockIdx", "gridDim")):
            return set()
        fixed = {e.text for e in self.pool if e.variable and e.known is not None}
        return fixed | {f"blockDim.{self.piece.code[-1]}"}

    @cached_property
    def _of_bound(self) -> set[str]:
        """For the start of a loop: the factors of its bound, `last * H_out * W_out`."""
        outer = self.piece.outer
        while outer is not None and outer.kind != "for_statement":
            outer = outer.outer
        start, condition = (outer.part(name) if outer else None for name in ("initializer", "condition"))
        if not start or not condition or not start.holds(self.piece):
            return set()
        products = [e for e in condition.all("binary_expression") if e.part("operator").code == "*"]
        return {text for e in products for text in (e.part("right").code, tail(e))}

    @property
    def _is_size(self) -> bool:
        sides = [self.piece.part(side) for side in ("left", "right")]
        extents = {self.pool[i].text for i in self.sizes_here}
        return all(sides) and self.piece.part("operator").code == "*" and {s.code for s in sides} <= extents

    @cached_property
    def _multiplied(self) -> list[tuple[float, Callable[[], Iterable]]]:
        """By rank: what varies, with the extents that may be its factor."""
        named = (i for i in self.plain if self.pool[i].varies)
        varying = [i for i in named if self.pool[i].variable or "Idx" in self.pool[i].text]
        own = self.pool.partners.get(self.piece.code, ())
        factors: dict[float, list[int]] = {}
        for b in self.sizes_here:
            factors.setdefault(-0.6 * PARTNERS * (self.pool[b].text in own), []).append(b)
        return [(rank, partial(product, varying, extents)) for rank, extents in factors.items()]

    @cached_property
    def _compared(self) -> list[tuple[float, Callable[[], Iterable]]]:
        """By rank: what varies, and what it may be compared with: an extent, a size, a number, another name."""
        spoken = self._words if self.operations in (CONDITION, BEFORE) else frozenset()
        own = {}
        for i in (i for i in self.here if self.pool[i].varies):
            named = words(self.pool[i].text)
            said = 0.4 if named & spoken else 0.3 if named & self._guarded else 0.0
            own[i] = (0.2 if self.pool[i].of else 0.0) - said
        others = {i: 0.5 if self.pool[i].varies or (self.pool[i].known or 0) > 1 else 0.1 for i in self.plain}
        others |= dict.fromkeys(self.sizes_here, 0.0)
        others |= {i: 0.1 for i in self.here if self.pool[i].is_size and not self.pool[i].varies}
        return grouped(
            (x + y - self._expected(a, b), (a, b))
            for a, x in own.items()
            for b, y in others.items()
            if a != b and not (self.pool[a].of and (self.pool[b].varies or self.pool[b].is_size))
        )

    @cached_property
    def _guarded(self) -> frozenset[str]:
        """The names in the short statement that a condition or an inserted guard lets some threads
        execute."""
        statement = self.piece
        if self.operations is CONDITION:
            outer = asks(statement)
            statement = (outer.part("consequence") or outer.part("body")) if outer is not None else None
        return words(statement.code) if statement and len(statement.code) <= SHORT else frozenset()

    def _expected(self, a: int, b: int) -> float:
        """How likely it is that they are compared."""
        if " % " in self.pool[a].text and self.pool[b].known == 0:
            return 1.3
        return (PARTNERS + 0.2 * self.pool[b].is_size) * self.pool.are_partners(a, b)

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """Indices, each with its bound."""
        own = [i for i in self.plain if self.pool[i].varies and self.pool[i].variable]
        return [(a, b) for a in own for b in self.sizes_here if self.pool.are_partners(a, b)]

    @cached_property
    def plain(self) -> list[int]:
        return [i for i in self.here if not self.pool[i].of and self.pool[i].rank < FAR_FETCHED]

    @cached_property
    def sizes_here(self) -> list[int]:
        found = [i for i in self.plain if not self.pool[i].varies]
        member = re.compile(r"(?!threadIdx|blockIdx)\w+\.").match  # `blockDim.x`, `g.C`
        return [i for i in found if self.pool[i].variable] + [i for i in found if member(self.pool[i].text)]

    @cached_property
    def is_here(self) -> set[int]:
        return set(self.here)

    @cached_property
    def is_index(self) -> bool:
        return self.piece.outer is not None and self.piece.outer.kind == "subscript_argument_list"

    @cached_property
    def _far(self) -> dict[int, float]:
        """How far-fetched it is to insert an entry."""
        return {a: self._far_fetched(a) for a in self.here}

    def _far_fetched(self, a: int) -> float:
        """Literals that occur elsewhere are less likely than variables, 0 and 1; what is never used, or
        belongs to the same direction, is more likely."""
        entry = self.pool[a]
        near = 0.5 if entry.variable and of_one_direction(entry.text, self.piece.code) else 0.0
        if self.own is not None and entry.text != self.piece.code:
            near += self._akin(entry.text)
        if self.piece.kind == "number_literal" and entry.known is not None:
            return (
                0.2
                if entry.rank >= FAR_FETCHED and entry.known in numbers_near(self.piece.code)
                else entry.rank
            )
        if entry.variable or entry.of or entry.known is None:
            return entry.rank - near
        more = 1 if entry.known in (0, 1) else 2
        return entry.rank - near + NUMBER * (more + 2 * (self.piece.kind == "field_expression"))

    def _akin(self, text: str) -> float:
        """How much likelier one name is to be meant for another: `w` for `h`, `C_in` for `C_out`, and the row
        length that goes with the neighbouring index: `(…) * W + w`."""
        own = self.piece.code
        if not text.isdigit() and are_counterparts(own, text):
            return 0.3
        if text in self._wanted:
            return 0.4
        return 0.2 if are_akin(own, text) else 0.0

    @cached_property
    def _wanted(self) -> set[str]:
        """In `(…) * e + w`: the extents of w; in `(…) * W + e`: the indices of W."""
        product = self.piece.outer
        if product is None or product.kind != "binary_expression":
            return set()
        sign, outer = product.part("operator").code, product.outer
        if sign == "+" and product.part("right") == self.piece:
            left = product.part("left")
            extent = left.part("right").code if left.kind == "binary_expression" else ""
            return {index for index, extents in self.pool.partners.items() if extent in extents}
        if (
            sign == "*"
            and product.part("right") == self.piece
            and outer is not None
            and outer.part("left") == product
        ):
            if outer.kind == "binary_expression" and outer.part("operator").code == "+":
                return set(self.pool.partners.get(outer.part("right").code, ()))
        return set()

    @cached_property
    def extents(self) -> set[str]:
        """For the value of a variable: the extents that bound the variable."""
        outer = self.piece.outer
        declared = outer is not None and outer.kind == "init_declarator"
        return self.pool.partners.get(outer.part("declarator").code, set()) if declared else set()

    # -- several values together --

    @property
    def _areas(self) -> list[tuple[float, Callable[[], Iterable]]]:
        """By rank: two extents, those of rows and of columns first: `R` and `S`."""
        pool = self.pool
        return grouped(
            (0.0 if are_counterparts(pool[a].text, pool[b].text) else OTHER_AREA, (a, b))
            for a, b in combinations(self.sizes_here, 2)
        )

    @cached_property
    def _stored(self) -> list[tuple[float, Callable[[], Iterable]]]:
        """By rank: elements of an array, and the variables that may be stored there."""
        pool = self.pool
        places = [i for i in self.here if i < pool.places and (pool[i].varies or pool[i].known == 0)]
        values = [b for b in self.here if b >= pool.places and pool[b].variable]
        return grouped((pool[a].rank + pool[b].rank, (a, b)) for a in places for b in values)
