"""Which two or three values are inserted together: an element and what is stored there, two extents, an index
and its axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import combinations

from .directions import are_counterparts
from .pool import UNUSED, Entries
from .terms import grouped

OTHER_AREA = 1.8  # penalty of two extents that are not those of rows and of columns


class Several:
    """The part of Ranks for operations whose values are not chosen one by one."""

    pool: Entries
    here: list[int]
    plain: list[int]
    sizes_here: list[int]

    @property
    def _areas(self) -> list[tuple[float, Callable[[], Iterable]]]:
        """By rank: two extents, those of rows and of columns first: `R` and `S`."""
        pool = self.pool
        return grouped(
            (0.0 if are_counterparts(pool[a].text, pool[b].text) else OTHER_AREA, (a, b))
            for a, b in combinations(self.sizes_here, 2)
        )

    @property
    def _unused_places(self) -> list[tuple[float, Callable[[], Iterable]]]:
        """By rank: places in memory by an index that nothing uses: `p * Q + q`."""
        pool = self.pool
        varying = [i for i in self.plain if pool[i].varies and pool[i].variable]
        return grouped(
            (pool[a].rank + pool[c].rank, (a, b, c))
            for b in self.sizes_here
            for c in varying
            if pool.are_partners(c, b)
            for a in varying
            if a != c and min(pool[a].rank, pool[c].rank) <= UNUSED
        )

    @cached_property
    def _stored(self) -> list[tuple[float, Callable[[], Iterable]]]:
        """By rank: elements of an array, and the variables that may be stored there."""
        pool = self.pool
        places = [i for i in self.here if i < pool.places and (pool[i].varies or pool[i].known == 0)]
        values = [b for b in self.here if b >= pool.places and pool[b].variable]
        return grouped((pool[a].rank + pool[b].rank, (a, b)) for a in places for b in values)

    @cached_property
    def _added(self) -> list[tuple[float, Callable[[], Iterable]]]:
        """By rank: elements of an array, and two variables whose product may be added there."""
        by_place: dict[int, list[tuple[float, int]]] = {}
        for rank, stored in self._stored:
            for a, b in stored():
                if not self.pool[a].of:
                    by_place.setdefault(a, []).append((rank, b))
        return grouped(
            (max(one[0], other[0]), (a, one[1], other[1]))
            for a, values in by_place.items()
            for one, other in combinations(sorted(values, key=lambda value: value[1]), 2)
        )
