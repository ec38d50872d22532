"""The places of a file that may be changed, and the edits of each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from ...course.cuda_text import Piece
from .directions import are_akin, are_counterparts, of_one_direction
from .edits import BARRIERS, CONDITION, GUARD, INTEGER, STORE, Edit, Operation, replaced
from .pool import FAR_FETCHED, Entries, numbers_near

UNLIKE = 0.3
NUMBER = 0.2  # by which 0 and 1 are less likely than names, and other numbers twice as much
PARTNERS = 0.8  # by which an index and its extent are
MISSING = 0.5  # by which what an index lacks is more likely
SIZES = 1.2  # what it costs that a product is one of two other extents
PLAIN = 0.15  # by which edits that put nothing in, which are few, are tried sooner
CONFUSED = 0.3  # by which a sign that is often mistaken for another is likelier
NEAR = 6  # lines between a condition and what it keeps from running
MOST_TOGETHER = 8  # edits of one variant
_SIGNS = (" < ", " >= ", " == ", " != ")
_MISTAKEN = {
    "+": "-",
    "-": "+",
    "/": "%",
    "%": "/",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "=": "+=",
    "+=": "=",
}
_MISTAKEN |= {"&&": "||", "||": "&&", "==": "!=", "!=": "=="}
_ANY = ("a", "e + a", "e - a", "e * a", "e / a")  # where a may be a term


class Choice(NamedTuple):
    """One edit of a site: the operation's number, and the pool's entries a, b and c. cost: see Operation."""

    site: Site
    operation: int
    a: int = 0
    b: int = 0
    cost: float = 0.0
    c: int = 0

    @property
    def edits(self) -> tuple[Edit, ...]:
        made = self.site.edit_of(self)
        return (made,) if isinstance(made, Edit) else made

    @property
    def edit(self) -> Edit:
        return self.edits[0]

    @property
    def is_plain(self) -> bool:
        """Whether nothing is put in."""
        return not self.site.operations[self.operation].operands & {"a", "b", "c"}

    @property
    def row(self) -> tuple[int, int, int, int, int]:
        """As `backwarp.edits` holds it."""
        codes = (self.site.pool[i].code if self.site.pool else 0 for i in (self.a, self.b, self.c))
        return self.site.number, self.operation, *codes


def is_of_barrier(condition: Piece) -> bool:
    """Whether it is the condition of an `if` with nothing but a barrier in it."""
    outer = condition.outer
    while outer is not None and outer.kind in ("condition_clause", "parenthesized_expression"):
        outer = outer.outer
    body = outer.part("consequence") if outer is not None and outer.kind == "if_statement" else None
    return body is not None and body.code.lstrip("{ \n").startswith("__sync") and not body.holds(condition)


@dataclass(eq=False)
class Site:
    """A place that may be changed. here: the numbers of the entries that can be named there."""

    number: int
    piece: Piece
    operations: tuple[Operation, ...]
    pool: Entries = field(default_factory=Entries, repr=False)
    here: list[int] = field(default_factory=list, repr=False)
    made: Callable[[Choice], Edit | tuple[Edit, ...]] | None = None
    others: tuple[str, ...] = ()  # arrays that may be named in its place
    missing: frozenset[str] = frozenset()  # names of an array's axes and sizes that its index does not have
    suspect: float = 0.0  # by which its edits are likelier

    @property
    def replaces(self) -> bool:
        """Whether another value may stand in its place."""
        return self.made is None and bool(self.pool) and self.operations[0].code == "a"

    def may_stop(self, line: int) -> bool:
        """Whether it is a condition that a line comes after, or a statement that might be left out before it is reached."""
        if self.is_guard:
            outermost = self.piece.outer.outer.kind == "function_definition"
            return self.piece.line == line or outermost and self.piece.line < line
        return self.operations is CONDITION and line - NEAR <= self.piece.line <= line

    @cached_property
    def _mistaken_for(self) -> str:
        """The operation with the sign that is most often meant where its own stands."""
        sign = self.piece.part("operator")
        return f"l {_MISTAKEN.get(sign.code, '')} r" if sign else ""

    @property
    def orders(self) -> bool:
        """Whether it is a barrier, a place for one, or what decides on one."""
        return (
            self.operations is BARRIERS or self.piece.code.startswith("__sync") or is_of_barrier(self.piece)
        )

    @property
    def is_guard(self) -> bool:
        """Whether it is a statement that some threads, or turns of a loop, may have to leave out."""
        return self.made is not None and self.operations[0].code == GUARD[0].code

    def entry_of(self, text: str) -> int | None:
        return next((i for i in self.here if self.pool[i].text == text), None)

    @cached_property
    def own(self) -> int | None:
        return self.entry_of(self.piece.code) if self.replaces else None

    def replaced_by(self, entry: int, cost: float = 0.7) -> Choice:
        return Choice(self, 0, entry, cost=cost - self.suspect)

    def choices(self, least: float = -math.inf, most: float = math.inf) -> Iterator[Choice]:
        """Its edits by operations that cost at least and less than so much."""
        for number, o in enumerate(self.operations):
            if least <= o.cost < most:
                yield from self._choices(number, o)

    def _choices(self, number: int, o: Operation) -> Iterator[Choice]:
        wanted, cost = o.operands & {"a", "b", "c"}, o.cost - self.suspect
        if not wanted:
            confused = CONFUSED if o.code == self._mistaken_for else 0.0
            choice = Choice(self, number, cost=cost - PLAIN - confused)
            if choice.edit.after != self.piece.code:
                yield choice
        elif wanted == {"a"}:
            here, far = self.here if o.code in _ANY or self.made else self.plain, self._far
            if o.code == "a" and self.own is not None:  # extents stand for extents, indices for indices
                for a in here:
                    unlike = self.operations is INTEGER and self.pool[a].varies != self.pool[self.own].varies
                    other = UNLIKE if unlike else 0.0
                    if a != self.own and not self.pool[a].is_size:
                        yield Choice(self, number, a, cost=cost + far[a] + other)
                return
            fitting = self._fitting(o.code)
            for a in here:
                if not self.pool[a].is_size:
                    fits = self.pool[a].text in fitting
                    more = -PARTNERS if fits else PARTNERS if o.code == "max(e, a)" else 0.0
                    yield Choice(self, number, a, cost=cost + far[a] + more)
        elif wanted == {"a", "b"}:
            pairs = self._compared if any(sign in o.code for sign in _SIGNS) else self._multiplied
            pairs = self._stored if o.code == STORE.code else pairs
            if len(re.findall(r"\ba\b", o.code)) > 1:  # both bounds of an index
                pairs = [pair for pair in pairs if self.pool.are_partners(*pair[:2])]
            yield from (Choice(self, number, a, b, cost + rank) for a, b, rank in pairs)
        elif self.is_index or self.piece.kind == "identifier":
            cost += 0.0 if self.is_index else 0.8
            varying, extents = [i for i in self.plain if self.pool[i].varies], self._extents
            yield from (
                Choice(self, number, a, b, cost, c)
                for a in varying
                for b in extents
                for c in varying
                if a != c
            )

    def _fitting(self, code: str) -> Collection[str]:
        """What is likely to be put in by an operation."""
        own = self.pool.partners.get(self.piece.code, ())
        fitting = {"a - 1 - e": own, "e % a": self.extents, "max(e, a)": ("0",), "min(e, a)": own}
        return fitting.get(code, self._of_bound | self._of_block if code == "e * a" else ())

    @cached_property
    def _of_block(self) -> set[str]:
        """Of a block's number: how many threads or elements a block may have."""
        if not self.piece.code.startswith("blockIdx"):
            return set()
        fixed = {e.text for e in self.pool if e.variable and e.known is not None}
        return fixed | {self.piece.code.replace("Idx", "Dim")}

    @cached_property
    def _of_bound(self) -> set[str]:
        """Of what a loop starts at: the factors of its bound, `last * H_out * W_out`."""
        outer = self.piece.outer
        while outer is not None and outer.kind != "for_statement":
            outer = outer.outer
        start, condition = (outer.part(name) if outer else None for name in ("initializer", "condition"))
        if not start or not condition or not start.holds(self.piece):
            return set()
        products = [e for e in condition.all("binary_expression") if e.part("operator").code == "*"]
        return {text for e in products for text in (e.part("right").code, _tail(e))}

    @property
    def likely(self) -> Iterator[Choice]:
        """Of a condition, what compares something that it speaks of already, or asks for a remainder; of an extent times
        another, other extents."""
        if self.operations is INTEGER and self._is_size:
            product = next(i for i, o in enumerate(INTEGER) if o.code == "a * b")
            yield from (
                Choice(self, product, a, b, SIZES - self.suspect) for a, b in combinations(self._extents, 2)
            )
        for number, o in enumerate(self.operations if self.operations is CONDITION else ()):
            if any(sign in o.code for sign in _SIGNS):
                yield from (
                    Choice(self, number, a, b, o.cost + rank) for a, b, rank in self._compared if rank < -0.2
                )

    @property
    def _is_size(self) -> bool:
        sides = [self.piece.part(side) for side in ("left", "right")]
        extents = {self.pool[i].text for i in self._extents}
        return all(sides) and self.piece.part("operator").code == "*" and {s.code for s in sides} <= extents

    @cached_property
    def _multiplied(self) -> list[tuple[int, int, float]]:
        """What varies, and the extents and, for what an index lacks, the sizes of arrays that it may be a multiple of."""
        varying = [
            i
            for i in self.plain
            if self.pool[i].varies and (self.pool[i].variable or "Idx" in self.pool[i].text)
        ]
        sizes = [i for i in self.here if self.pool[i].is_size]
        own = self.pool.partners.get(self.piece.code, ())
        found = []
        for a in varying:
            lacks = self._is_missing(a)
            found += [
                (
                    a,
                    b,
                    -MISSING * (lacks + 0.5 * self._is_missing(b))
                    - 0.6 * PARTNERS * (self.pool[b].text in own),
                )
                for b in self._extents
                if b != a
            ]
            found += [(a, b, -0.2) for b in sizes if lacks]
        return found

    @cached_property
    def _stored(self) -> list[tuple[int, int, float]]:
        """Places of an array, and the variables that may be stored there."""
        places = [
            i for i in self.here if i < self.pool.places and self.pool[i].varies or self.pool[i].known == 0
        ]
        return [
            (a, b, self.pool[a].rank + self.pool[b].rank)
            for a in places
            for b in self.here
            if b >= self.pool.places and self.pool[b].variable
        ]

    def _is_missing(self, entry: int) -> bool:
        return self.pool[entry].text in self.missing

    @cached_property
    def _compared(self) -> list[tuple[int, int, float]]:
        """What varies, and what it may be compared with: an extent, the size of an array, a number, another name."""
        words = set(re.findall(r"\w+", self.piece.code)) if self.operations is CONDITION else set()
        own = {
            i: (0.0 if self.pool[i].of == () else 0.2)
            - 0.4 * bool(words & set(re.findall(r"\w+", self.pool[i].text)))
            for i in self.here
            if self.pool[i].varies
        }
        others = {i: 0.5 if self.pool[i].varies or (self.pool[i].known or 0) > 1 else 0.1 for i in self.plain}
        others |= dict.fromkeys(self._extents, 0.0)
        others |= {i: 0.1 for i in self.here if self.pool[i].is_size and not self.pool[i].varies}
        return [
            (a, b, x + y - self._expected(a, b))
            for a, x in own.items()
            for b, y in others.items()
            if a != b and not (self.pool[a].of and (self.pool[b].varies or self.pool[b].is_size))
        ]

    def _expected(self, a: int, b: int) -> float:
        """How likely it is that they are compared."""
        if " % " in self.pool[a].text and self.pool[b].known == 0:
            return 1.3
        return (PARTNERS + 0.2 * self.pool[b].is_size) * self.pool.are_partners(a, b)

    @cached_property
    def plain(self) -> list[int]:
        return [i for i in self.here if not self.pool[i].of and self.pool[i].rank < FAR_FETCHED]

    @cached_property
    def _extents(self) -> list[int]:
        found = [i for i in self.plain if not self.pool[i].varies and self.pool[i].variable]
        return found + [i for i in self.plain if self.pool[i].text.startswith("blockDim")]

    @cached_property
    def is_here(self) -> set[int]:
        return set(self.here)

    @cached_property
    def is_index(self) -> bool:
        return self.piece.outer is not None and self.piece.outer.kind == "subscript_argument_list"

    @cached_property
    def _far(self) -> dict[int, float]:
        """How far-fetched it is that an entry is put in."""
        return {a: self._far_fetched(a) for a in self.here}

    def _far_fetched(self, a: int) -> float:
        """Literals that occur elsewhere are less likely than variables, 0 and 1; what is used nowhere, and what is of
        the same direction, is more likely."""
        entry = self.pool[a]
        near = 0.5 if entry.variable and of_one_direction(entry.text, self.piece.code) else 0.0
        near += MISSING * self._is_missing(a)
        near += MISSING * (entry.text.rpartition(" % ")[2] in self.extents)
        if entry.text == self.piece.code:
            near -= MISSING
        elif self.own is not None:
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
        """By how much likelier it is that a name is meant where another stands: `w` for `h`, `C_in` for `C_out`, and what
        rows of the index beside it hold: `(…) * W + w`."""
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
        """Of what a variable is set to: those that the variable stays below."""
        outer = self.piece.outer
        declared = outer is not None and outer.kind == "init_declarator"
        return self.pool.partners.get(outer.part("declarator").code, set()) if declared else set()

    def edit_of(self, choice: Choice) -> Edit | tuple[Edit, ...]:
        if self.made:
            return self.made(choice)
        names = (self.pool[i].text if self.pool else "" for i in (choice.a, choice.b, choice.c))
        return replaced(self.piece, self.operations[choice.operation], *names)


def _tail(product: Piece) -> str:
    """`b * c` of `a * b * c`."""
    return product.code.partition("*")[2].strip()
