"""Two edits of one line: none of them need belong to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations

from .sites import Choice, Site

LIKELY = 1.15  # the highest cost of an edit that is combined
NAMES = ("identifier", "number_literal", "field_expression")
MOST = 150  # edits of one line that are combined
SUSPECTED, OTHERS = 1.7, 2.5  # when the pairs of a line have their turn

Made = Callable[[], Iterable[list[tuple[Choice, ...]]]]


def in_one_line(sites: Sequence[Site]) -> list[tuple[float, Made]]:
    """For every line: when its pairs of edits are tried, and the pairs, most likely first."""
    lines: dict[int, list[Site]] = {}
    for site in sites:
        if not site.orders and not site.is_guard:
            lines.setdefault(site.piece.line, []).append(site)
    return [
        (SUSPECTED - most if (most := max(s.suspect for s in own)) > 0 else OTHERS, partial(_pairs, own))
        for own in lines.values()
    ]


def _pairs(sites: Sequence[Site]) -> Iterator[list[tuple[Choice, Choice]]]:
    likely = (c for s in sites for c in s.choices(high=LIKELY - s.suspect) if _is_simple(c))
    found = sorted(likely, key=lambda c: c.cost)
    apart = [pair for pair in combinations(found[:MOST], 2) if _are_apart(*pair)]
    yield sorted(apart, key=lambda pair: pair[0].cost + pair[1].cost)


def _is_simple(c: Choice) -> bool:
    """Whether it replaces one name or number, drops something, or adds or subtracts 1."""
    site, o = c.site, c.site.operations[c.operation]
    if site.made or o.operands & {"b", "c"}:
        return False
    if "a" not in o.operands:
        return site.piece.part("operator") is not None
    entry = site.pool[c.a]
    if o.code == "a":
        return site.piece.kind in NAMES and not entry.of
    return o.code in ("e + a", "e - a") and entry.known == 1


def _are_apart(one: Choice, other: Choice) -> bool:
    a, b = one.site.piece, other.site.piece
    return a.end <= b.start or b.end <= a.start
