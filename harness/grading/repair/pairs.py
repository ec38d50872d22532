"""Two edits that belong together: names that were exchanged, and the same slip for rows and for columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .sites import Choice, Site

#: a pair of edits costs as much as its dearer one and this
MORE = 0.6
NEAR = 2  # lines between the two
#: words, and parts of names, that stand for the two directions
_WORDS = """h w, H W, p q, r s, x y, row col, row column, rows cols, i j, M N, m n, u v, height width, down right,
    top left, R S, P Q, a b, A B, y z, first second"""
_COUNTERPARTS: dict[str, set[str]] = {}
for _one, _other in (words.split() for words in _WORDS.split(",")):
    _COUNTERPARTS.setdefault(_one, set()).add(_other)
    _COUNTERPARTS.setdefault(_other, set()).add(_one)
_PART = re.compile(r"[A-Za-z]+|[^A-Za-z]+")


def are_counterparts(one: str, other: str) -> bool:
    """`pad_h * H` and `pad_w * W`: the same text but for the direction."""
    a, b = _PART.findall(one), _PART.findall(other)
    if len(a) != len(b):
        return False
    differ = [(x, y) for x, y in zip(a, b) if x != y]
    return bool(differ) and all(y in _COUNTERPARTS.get(x, ()) for x, y in differ)


def exchanged(sites: Sequence[Site]) -> Iterator[tuple[Choice, Choice]]:
    """Every two names of a statement or of neighbouring lines, each in the other's place."""
    named = [(s, s.entry_of(s.piece.code)) for s in sites if s.replaces]
    named = [(s, entry) for s, entry in named if entry is not None and not s.pool[entry].text.isdigit()]
    for i, (first, own) in enumerate(named):
        for second, other in named[i + 1 :]:
            if second.piece.line - first.piece.line > NEAR:
                break
            if own != other and first.pool is second.pool and own in second.here and other in first.here:
                yield first.replaced_by(other), second.replaced_by(own)
    for i, first in enumerate(sites):  # arrays
        for second in sites[i + 1 :] if first.others else ():
            if second.piece.line - first.piece.line > NEAR:
                break
            if first.piece.code in second.others and second.piece.code in first.others:
                yield (
                    Choice(first, first.others.index(second.piece.code)),
                    Choice(second, second.others.index(first.piece.code)),
                )


def moved(sites: Sequence[Site]) -> Iterator[tuple[Choice, Choice]]:
    """A barrier that stands in the wrong place, and every place for it."""
    for old in sites:
        if old.piece.code.startswith("__sync"):
            for new in sites:
                if new.operations[0].code == "__syncthreads();":
                    yield Choice(old, 0, cost=0.6), Choice(new, 0, cost=0.6)


def twins(sites: Sequence[Site], least: float, most: float) -> Iterator[tuple[Choice, Choice]]:
    """An edit and its counterpart near by: `p` becomes `p * stride_h`, and `q` becomes `q * stride_w`."""
    for i, first in enumerate(sites):
        for second in sites[i + 1 :]:
            if second.piece.line - first.piece.line > NEAR:
                break
            if first.operations == second.operations and _alike(first.piece.code, second.piece.code):
                yield from _together(first, second, least, most)


def _alike(one: str, other: str) -> bool:
    return one == other or are_counterparts(one, other)


def _together(first: Site, second: Site, least: float, most: float) -> Iterator[tuple[Choice, Choice]]:
    texts = {second.pool[i].text: i for i in second.here} if second.pool else {}
    for c in first.choices(least, most):
        wanted = first.operations[c.operation].operands & {"a", "b"} if not first.made else set()
        if first.made or wanted == {"a", "b"}:
            continue
        if not wanted:
            yield c, Choice(second, c.operation, cost=c.cost)
            continue
        own = first.pool[c.a]
        same = own.known is not None or first.piece.code == second.piece.code
        for text, number in texts.items():
            if same and text == own.text or are_counterparts(own.text, text):
                yield c, Choice(second, c.operation, number, cost=c.cost)


def guards(sites: Sequence[Site], least: float, most: float) -> Iterator[tuple[Choice, Choice]]:
    """Two guards of one statement: `if (row < M) if (col < N)`."""
    for site in sites:
        if not site.is_guard:
            continue
        other = {
            i: [j for j in site.here if are_counterparts(site.pool[i].text, site.pool[j].text)]
            for i in site.here
        }
        for c in site.choices(least, most):
            if c.operation:
                second = (Choice(site, c.operation, a, b, c.cost) for a in other[c.a] for b in other[c.b])
                yield from ((c, s) for s in second if s.a > c.a)
