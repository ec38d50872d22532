"""Places in memory that a wrong kernel mistakes for other elements: an index beyond its axis, or one that is clamped or wrapped.
Terms, rules and views: `summed.py`, `rules.py`."""

from __future__ import annotations

import numpy as np

from ..findings import Finding
from .rules import EXACT, Column, Linear, Table, View, columns_of, views, views_of_parts
from .summed import Terms

LISTED = 4  # values of a table


def brought_inside(want: Terms, extra: Terms) -> Finding | None:
    """Terms with an index outside its axis that is clamped to the nearest element or wrapped to the other
    end."""
    for view in (*views_of_parts(want), *views(want)):
        if not view.dependent or not all(isinstance(rule, Linear) for rule in view.rules):
            continue
        base, moved_in = view.of(extra), []
        exact = [rule.of(base) for rule in view.rules]
        index = [np.rint(at).astype(int) for at in exact]
        if any((np.abs(at - whole) > EXACT).any() for at, whole in zip(exact, index, strict=True)):
            continue  # between two elements is not outside
        for how in WAYS_INSIDE:
            inside = [
                at if c.array != view.dependent else WAYS_INSIDE[how](at, c.size)
                for c, at in zip(view.rest, index, strict=True)
            ]
            if all((x == extra.at[:, c.number]).all() for c, x in zip(view.rest, inside, strict=True)):
                moved_in = [
                    (c, rule, np.unique(at[at != x]))
                    for c, rule, at, x in zip(view.rest, view.rules, index, inside, strict=True)
                    if (at != x).any()
                ]
                break
        if moved_in:
            things = "products" if len(want.arrays) > 2 else "elements"
            axes = [(c.letter, rule.text(view.letters), span(out), c.size) for c, rule, out in moved_in]
            facts = dict(things=things, axes=axes, array=want.arrays[view.dependent].name)
            return Finding.of("brought_inside", out=want.arrays[0].name, how=how, **facts)
    return None


WAYS_INSIDE = {
    "clamped": lambda at, size: np.clip(at, 0, size - 1),
    "wrapped": lambda at, size: at % size,
}


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
