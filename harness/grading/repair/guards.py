"""Guards: conditions that keep threads or iterations from executing a statement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from .sites import Choice, Site
from .terms import are_counterparts


def both_guards(c: Choice) -> Iterator[tuple[Choice, Choice]]:
    """Two guards of one statement, `if (row < M) if (col < N)`, or of one condition."""
    site = c.site
    compares = {"a", "b"} <= site.operations[c.operation].operands
    if not compares or not (site.is_guard or site.is_condition):
        return
    pool, found = site.pool, {}
    if pool.are_partners(c.a, c.b):
        found |= dict.fromkeys(site.bounds)
    first, second = (
        [i for i in site.plain if are_counterparts(pool[own].text, pool[i].text)] for own in (c.a, c.b)
    )
    found |= dict.fromkeys((a, b) for a in first for b in (second if pool[c.b].known is None else [c.b]))
    yield from ((c, Choice(site, c.operation, a, b, c.cost)) for a, b in found if a > c.a)


class Guards:
    """Guards against an access outside an array. sites: where a guard may go."""

    PLAUSIBLE = (-math.inf, 1.6, 2.1, 2.6, 3.0)

    def __init__(self, sites: Sequence[Site]):
        self.sites = sites

    def likely(self) -> Iterator[list[tuple[Choice, ...]]]:
        yield from (self._by_cost(low=low, high=high) for low, high in pairwise(self.PLAUSIBLE))

    def others(self) -> Iterator[list[tuple[Choice, ...]]]:
        yield self._by_cost(low=self.PLAUSIBLE[-1])
        yield [pair for site in self.sites for pair in any_guards(site)]

    def _by_cost(self, **costs: float) -> list[tuple[Choice, ...]]:
        chosen = sorted((c for site in self.sites for c in site.choices(**costs)), key=lambda c: c.cost)
        return [*((c,) for c in chosen), *(pair for c in chosen for pair in both_guards(c))]


def any_guards(site: Site) -> Iterator[tuple[Choice, Choice]]:
    """Every two guards of a statement by names and extents: `if (line < columns) if (place < rows)`."""
    if not site.is_guard:
        return
    own = [i for i in site.plain if site.pool[i].varies and site.pool[i].variable]
    extents = [i for i in site.plain if not site.pool[i].varies and site.pool[i].variable]
    for operation, o in enumerate(site.operations):
        if o.code == "a < b" or o.code.startswith("a >= b :"):
            every = [Choice(site, operation, a, b, o.cost) for a in own for b in extents]
            yield from (
                pair for pair in combinations(every, 2) if pair[0].a != pair[1].a and pair[0].b != pair[1].b
            )
