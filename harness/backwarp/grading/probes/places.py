"""Places in memory that a wrong kernel mistakes for other elements: an index beyond its axis.
Terms, rules and views: `summed.py`, `rules.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

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


def other_steps(
    want: Terms, index: int, letters: Sequence[str], whole: Linear, new: Linear
) -> tuple[float, Finding | None]:
    """(how many steps differ, what they are). whole, new: the right place in an array and the one that is used."""
    own = [c for c in columns_of(want) if c.array == index]
    name, forwards, inverse = want.arrays[index].name, [], []
    back = any(factor < 0 for factor in whole.factors[:-1])  # as weights[w - p], where w itself is computed
    for letter, a, b in zip((*letters, ""), whole.factors, new.factors, strict=True):
        if a != b and letter:
            known = next((c.steps for c in own if c.step == a and c.step > 1 and c.letter == letter), "")
            named = known if not known.isdecimal() else ""
            step = dict(letter=letter, now=str(b), right=str(a), named=named)
            step["of"] = of_another(want, letter, index) if back else ""
            (inverse if a < 0 else forwards).append(step | as_elsewhere(want, letter, b, index))
        elif a != b:
            forwards.append(dict(letter="", off=str(abs(b - a)), on=b > a))
    changes = forwards or inverse  # of `w - p`, the w alone is enough
    # the p and r of an index `p + r` are one change; nobody computes with the h of another array
    once = {(step.get("now"), step.get("right"), step["letter"] and "letter") for step in forwards}
    cost = 1 + len(once) + len(inverse) + any(step.get("of") for step in forwards) / 2
    if len(changes) < 3:
        return cost, Finding.of("other_steps", array=name, steps=changes)
    turned = any(a * b < 0 for a, b in zip(whole.factors[:-1], new.factors[:-1], strict=True))
    if turned or inverse and not index:
        return 0, None  # by accident: nobody computes it in this direction
    return cost, Finding.of("other_place", array=name, now=new.text(letters), right=whole.text(letters))


def of_another(want: Terms, letter: str, index: int) -> str:
    """The only array with this letter, if it is another input."""
    arrays = {c.array for c in columns_of(want) if c.letter == letter}
    return want.arrays[min(arrays)].name if len(arrays) == 1 and not arrays & {0, index} else ""


def as_elsewhere(want: Terms, letter: str, step: Fraction, index: int) -> dict[str, str]:
    """The other array in which a step along this letter, and no other, is as long, and what it is there: `output`, `W_out`."""
    columns = columns_of(want)
    for c in columns:
        if c.letter == letter and c.array != index and c.step == step and c.steps.isidentifier():
            sizes = {str(want.arrays[o.array].axes[i][1]) for o, i in in_axes(columns) if o.size == step}
            if sizes == {c.steps}:
                return dict(like=want.arrays[c.array].name, size=c.steps)
    return {}


def in_axes(columns: Sequence[Column]) -> Iterator[tuple[Column, int]]:
    """Every column with the number of its axis."""
    for c in columns:
        yield c, sum(o.array == c.array and o.number < c.number for o in columns)
