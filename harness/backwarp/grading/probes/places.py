"""Places in memory that a wrong kernel mistakes for other elements: an index beyond its axis.
Terms, rules and views: `summed.py`, `rules.py`."""

from __future__ import annotations

import numpy as np

from ..findings import Finding
from .rules import EXACT, Column, Linear, Table, View, columns_of, views, views_of_parts
from .summed import Terms

LISTED = 4  # values of a table


def span(values: np.ndarray) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def beyond_an_axis(want: Terms, extra: Terms) -> Finding | None:
    """Terms mostly with an index outside its axis, which in memory is another element."""
    for view in sorted((*views_of_parts(want), *views(want)), key=lambda v: v.dependent == 0):
        base, ruled = view.of(extra), list(zip(view.rest, view.rules, strict=True))
        if not all(isinstance(rule, Linear) for _, rule in ruled):
            continue
        index = {c.number: rule.of(base) for c, rule in ruled if c.array == view.dependent}
        own = [c for c in columns_of(want) if c.array == view.dependent]
        place = sum(c.step * index.get(c.number, extra.at[:, c.number]) for c in own)
        here = np.abs(place - extra.flat(view.dependent)) < EXACT
        for c, rule in ruled:
            here &= c.array == view.dependent or np.abs(rule.of(base) - extra.at[:, c.number]) < EXACT
        if 2 * here.sum() < len(here) or view.dependent == 0 and not here.all():
            continue
        outside = []
        for c, rule in ruled:
            at = np.rint(index.get(c.number, np.zeros(len(here)))).astype(int)[here]
            beyond = at[(at < 0) | (at >= c.size)]
            if len(beyond):
                outside.append((len(beyond), -c.number, c, rule, np.unique(beyond)))
        if outside:
            *_, c, rule, out = max(outside, key=lambda each: each[:2])
            axis = c.letter, rule.text(view.letters), span(out), c.size
            things = "products" if len(want.arrays) > 2 else "elements"
            facts = dict(things=things, axes=[axis], array=want.arrays[c.array].name)
            return Finding.of("beyond_an_axis", out=want.arrays[0].name, **facts)
    return None


def as_table(view: View, want: Terms, column: Column, rule: Linear | Table, now: Table) -> Finding | None:
    """The first values that differ; None if the right ones depend on more letters."""
    letters = [view.letters[i] for i in now.by]
    needs = rule.by if isinstance(rule, Table) else [i for i, f in enumerate(rule.factors[:-1]) if f]
    base = np.zeros((len(now.values), len(view.base)), int)
    base[:, now.by] = list(now.values)
    right = np.rint(rule.of(base)).astype(int)
    if not set(needs) <= set(now.by) or (right < 0).any():
        return None
    rows = [(at, got, value) for (at, got), value in zip(now.values.items(), right.tolist(), strict=True)]
    real = set(map(tuple, np.column_stack([view.of(want)[:, now.by], want.at[:, column.number]]).tolist()))
    wrong = sorted(row for row in rows if row[1] != row[2])
    at, got, value = next((row for row in wrong if (*row[0], row[2]) in real), (*wrong[0][:2], None))
    facts = dict(is_output=not column.array, array=want.arrays[column.array].name, letter=column.letter)
    if len(letters) > 1 or value is None:
        by = [f"{letter}={n}" for letter, n in zip(letters, at, strict=True)]
        return Finding.of("looked_up_at", by=by, now=got, right=value, **facts)
    listed = len(rows) <= 2 * LISTED and all((*at, value) in real for at, _, value in rows)
    shown = [(at[0], got, value) for at, got, value in (sorted(rows) if listed else [(at, got, value)])]
    return Finding.of("looked_up", by=letters[0], rows=shown, **facts)
