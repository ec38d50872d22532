"""Two edits that belong together: swapped names, and the same slip for rows and for columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby, islice, takewhile

from .edits import ELSE_ZERO, EXCHANGE, RELATION
from .sites import MOST_TOGETHER, Choice, Site
from .terms import are_counterparts, of_one_direction

NEAR = 2  # lines between two swapped names
MOST_TURNED = 200  # threes of a line
ALIKE = 8  # lines between two edits of one kind, or of one factor


def exchanged(sites: Sequence[Site]) -> Iterator[tuple[Choice, Choice]]:
    """Every two names of a statement or of neighbouring lines, swapped."""
    named = [(s, s.own) for s in sites if s.own is not None and not s.pool[s.own].text.isdigit()]
    for i, (first, own) in enumerate(named):
        for second, other in named[i + 1 :]:
            if second.piece.line - first.piece.line > NEAR:
                break
            if own != other and first.pool is second.pool:
                if own in second.is_here and other in first.is_here:
                    yield first.replaced_by(other), second.replaced_by(own)
    yield from turned(named)
    yield from everywhere(named)


def turned(named: Sequence[tuple[Site, int]]) -> Iterator[tuple[Choice, ...]]:
    """Three sizes of a statement, each in the place of another: `split(i, C, H, W)` for `split(i, H, W, C)`."""
    for _, line in groupby((n for n in named if not n[0].pool[n[1]].varies), key=lambda n: n[0].piece.line):
        for three in islice(combinations(line, 3), MOST_TURNED):
            if len({entry for _, entry in three}) == 3 and len({id(site.pool) for site, _ in three}) == 1:
                (a, x), (b, y), (c, z) = three
                if all({x, y, z} <= site.is_here for site, _ in three):
                    yield a.replaced_by(y), b.replaced_by(z), c.replaced_by(x)
                    yield a.replaced_by(z), b.replaced_by(x), c.replaced_by(y)


def everywhere(named: Sequence[tuple[Site, int]]) -> Iterator[tuple[Choice, ...]]:
    """Two names swapped in a run of lines, alone or as those of rows and of columns: `h * stride_w` and `w * stride_h`."""
    named = [(s, own) for s, own in named if not s.pool[own].of]
    for i, (site, own) in enumerate(named):
        pool = site.pool
        near = [(s, e) for s, e in named[i:] if s.piece.line - site.piece.line <= ALIKE and s.pool is pool]
        for other in dict.fromkeys(e for _, e in near[1:] if e != own):
            swap = {own: other, other: own}
            columns = [(a, b) for a in _counterparts(site, own) for b in _counterparts(site, other) if a != b]
            columns = [pair for pair in columns if not {*pair} & {own, other}]
            own_way = [(a, b) for a, b in columns if of_one_direction(pool[a].text, pool[b].text)]
            every = {a: b for pair in own_way for a, b in (pair, pair[::-1])}
            for turned in ({}, *({a: b, b: a} for a, b in columns), *([every] if len(every) > 2 else [])):
                chosen = [(s, (swap | turned).get(e)) for s, e in near]
                chosen = [s.replaced_by(e) for s, e in chosen if e is not None and e in s.is_here]
                if 2 < len(chosen) <= MOST_TOGETHER:
                    yield tuple(chosen)


def zeroed(sites: Sequence[Site]) -> Iterator[tuple[Choice, ...]]:
    """What stores nothing where a condition does not hold, in one line or several: a 0 in each, as in the edges of tiles."""
    found = [s.chosen(0) for s in sites if s.operations[0] is ELSE_ZERO]
    yield from ((one,) for one in found)
    yield from combinations(found, 2)
    if 2 < len(found) <= MOST_TOGETHER:
        yield tuple(found)


def declared(sites: Sequence[Site]) -> Iterator[tuple[Choice, ...]]:
    """The names of two declarations swapped, alone or along with an extent, or those of rows with those of columns."""
    for swap in sites:
        if swap.operations[0] is not EXCHANGE:
            continue
        first = swap.chosen(0)
        yield (first,)
        near = [s for s in sites if s.replaces and first.edit.start <= s.piece.start < swap.piece.end]
        named = [(s, s.own) for s in near if s.own is not None and not s.pool[s.own].varies]
        for text in dict.fromkeys(s.piece.code for s, _ in named):
            alike = [s for s, _ in named if s.piece.code == text]
            yield from (
                (first, *(s.replaced_by(i) for s in alike))
                for i in alike[0].here
                if len(alike) < MOST_TOGETHER and not alike[0].pool[i].varies and alike[0].pool[i].variable
            )
        for (a, one), (b, other) in combinations(dict.fromkeys((own, s.piece.code) for s, own in named), 2):
            swapped = {a: b, b: a}
            both = [s.replaced_by(swapped[own]) for s, own in named if own in swapped]
            if len(both) < MOST_TOGETHER and one != other:
                yield (first, *both)
        turned = [s.replaced_by(others[0]) for s, own in named if (others := _counterparts(s, own))]
        if 0 < len(turned) < MOST_TOGETHER:
            yield (first, *turned)


class Families:
    """An edit and its counterparts nearby: `p` becomes `p * stride_h`, and `q` becomes `q * stride_w`."""

    def __init__(self, sites: Sequence[Site]):
        self.near: dict[int, list[Site]] = {}
        for i, first in enumerate(sites):
            within = takewhile(lambda s: s.piece.line - first.piece.line <= ALIKE, sites[i + 1 :])
            self.near[first.number] = [s for s in within if _alike(first, s)]

    def of(self, c: Choice) -> Iterator[tuple[Choice, ...]]:
        """With one of them, and with several: those nearby, those with the same text, all."""
        found = [counterpart for s in self.near[c.site.number] if (counterpart := _counterpart(c, s))]
        yield from ((c, other) for other in found)
        near = [o for o in found if o.site.piece.line - c.site.piece.line <= NEAR]
        same = [o for o in found if o.site.piece.code == c.site.piece.code]
        groups = (tuple(group) for group in (near, same, found) if 1 < len(group) < MOST_TOGETHER)
        yield from ((c, *group) for group in dict.fromkeys(groups))


def _alike(one: Site, other: Site) -> bool:
    a, b = one.piece.code, other.piece.code
    if one.operations is RELATION is other.operations and one.piece.line == other.piece.line:
        return one.piece.part("operator").code == other.piece.part("operator").code
    alike = a == b or are_counterparts(a, b) or _is_value(one, other) and _sign(one) == _sign(other)
    return len(one.operations) == len(other.operations) and alike


def _is_value(one: Site, other: Site) -> bool:
    """Whether they are declarations for rows and for columns: `int p = …; int q = …;`."""
    outer = one.piece.outer, other.piece.outer
    if any(o is None or o.kind != "init_declarator" for o in outer):
        return False
    return are_counterparts(*(o.part("declarator").code for o in outer))


def _sign(site: Site) -> str:
    sign = site.piece.part("operator")
    return sign.code if sign and site.made is None else ""


def _counterpart(c: Choice, site: Site) -> Choice | None:
    """The same edit of another site, with the names of its direction; with the same names where it says the same."""
    if c.site.pool is not site.pool:
        return None
    entries = [c.a, c.b]
    if site.pool:
        wanted = c.site.operations[c.operation].operands
        for place, letter in enumerate("ab"):
            if letter in wanted:
                own = entries[place]
                turned = [] if site.piece.code == c.site.piece.code else _counterparts(site, own)
                found = [i for i in turned if i in site.is_here]
                if not found and own not in site.is_here:
                    return None
                alike = [i for i in found if of_one_direction(site.pool[i].text, site.piece.code)]
                entries[place] = (*alike, *found, own)[0]
        if site.replaces and not c.operation and site.pool[entries[0]].text == site.piece.code:
            return None
    return Choice(site, c.operation, *entries, c.cost)


def _counterparts(site: Site, entry: int) -> list[int]:
    """Entries of its pool that mean the same in another direction."""
    known = site.pool.counterparts
    if entry not in known:
        text = site.pool[entry].text
        known[entry] = [i for i, e in enumerate(site.pool) if are_counterparts(text, e.text)]
    return known[entry]


#: what is made of all sites at once
TOGETHER = (exchanged, declared, zeroed)
