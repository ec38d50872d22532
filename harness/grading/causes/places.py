"""Places in memory that a wrong kernel mistakes for other elements: a number decomposed by the wrong sizes,
an index beyond its axis, or one that is clamped or wrapped. Terms, rules and views: `summed.py`, `rules.py`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np

from ..compare import axis_index
from .rules import EXACT, Column, Linear, Table, View, columns_of, some, views, views_of_parts
from .summed import Terms

LISTED = 4  # values of a table


def other_split(want: Terms, got: Terms) -> str:
    """The number of an output element, decomposed by the sizes of its axes in another order."""
    shape = want.shapes[0]
    output = want.arrays[0]
    few = got.only(some(len(got.at)))
    found: dict[tuple, list[str]] = {}
    of_right = views(want)
    for order in permutations(range(len(shape))) if len(shape) <= 6 else ():
        sizes = tuple(shape[i] for i in order)
        if sizes == shape:
            continue
        for how in ("sizes", "axes"):
            if all(
                any(follows(view, moved(terms, sizes, how, order)) for view in of_right)
                for terms in (few, got)
            ):
                names = [str(output.axes[i][1]) for i in order]
                found.setdefault((how, sizes), []).append(", ".join(names))
    if len(found) != 1:
        return ""
    (names,), known = found.values(), [str(size) for _, size in output.axes]
    called = max(names, key=lambda text: sum(a == b for a, b in zip(text.split(", "), known, strict=True)))
    return (
        f"the number of an element of {output.name} is taken apart by the sizes [{called}]; it has "
        f"[{', '.join(known)}]."
    )


def moved(terms: Terms, sizes: tuple[int, ...], how: str, order: tuple[int, ...]) -> Terms:
    """The terms, if places in the output are numbered by these sizes."""
    split, at = np.stack(np.unravel_index(terms.flat(0), sizes), 1), terms.at.copy()
    at[:, terms.columns(0)] = split if how == "sizes" else split[:, np.argsort(order)]
    return replace(terms, at=at)


def follows(view: View, terms: Terms) -> bool:
    """Whether all terms follow the rules; for one array, as places in the flat array."""
    base, wrong = view.of(terms), set()
    for c, rule in zip(view.rest, view.rules, strict=True):
        if not rule.fits(base, terms.at[:, c.number]):
            wrong.add(c.array)
    if len(wrong) != 1:
        return not wrong
    (index,) = wrong
    own = [(c, r) for c, r in zip(view.rest, view.rules, strict=True) if c.array == index]
    if sum(c.array == index for c in columns_of(terms)) > len(own):
        return False
    return bool((np.abs(sum(c.step * rule.of(base) for c, rule in own) - terms.flat(index)) < EXACT).all())


def brought_inside(want: Terms, extra: Terms) -> str:
    """Terms with an index outside its axis that is clamped to the nearest element or wrapped to the other
    end."""
    for view in (*views_of_parts(want), *views(want)):
        if not view.dependent or not all(isinstance(rule, Linear) for rule in view.rules):
            continue
        base, found = view.of(extra), []
        exact = [rule.of(base) for rule in view.rules]
        index = [np.rint(at).astype(int) for at in exact]
        if any((np.abs(at - whole) > EXACT).any() for at, whole in zip(exact, index, strict=True)):
            continue  # between two elements is not outside
        for way, says in WAYS_INSIDE.items():
            inside = [
                at if c.array != view.dependent else way(at, c.size)
                for c, at in zip(view.rest, index, strict=True)
            ]
            if all((x == extra.at[:, c.number]).all() for c, x in zip(view.rest, inside, strict=True)):
                found = [
                    (c, rule, np.unique(at[at != x]), says)
                    for c, rule, at, x in zip(view.rest, view.rules, index, inside, strict=True)
                    if (at != x).any()
                ]
                break
        if found:
            array, things = (
                want.arrays[view.dependent].name,
                "products" if len(want.arrays) > 2 else "elements",
            )
            where = [f"{c.letter} = {rule.text(view.letters)} = {span(out)}" for c, rule, out, _ in found]
            axes = [f"{c.letter} = 0 to {c.size - 1}" for c, *_ in found]
            return (
                f"{want.arrays[0].name} also gets {things} with {' or '.join(where)}, where {array} has "
                f"{' and '.join(axes)}: {found[0][-1]}, and nothing should be added there."
            )
    return ""


WAYS_INSIDE = {
    lambda at, size: np.clip(at, 0, size - 1): "the nearest element inside is taken instead",
    lambda at, size: at % size: "the index goes on at the other end of the axis",
}


def span(values: np.ndarray) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def beyond_an_axis(want: Terms, extra: Terms) -> str:
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
        found = []
        for c, rule in ruled:
            at = np.rint(index.get(c.number, np.zeros(len(here)))).astype(int)[here]
            beyond = at[(at < 0) | (at >= c.size)]
            if len(beyond):
                found.append((len(beyond), -c.number, c, rule, np.unique(beyond)))
        if found:
            *_, c, rule, out = max(found, key=lambda each: each[:2])
            array, things = want.arrays[c.array].name, "products" if len(want.arrays) > 2 else "elements"
            return (
                f"{want.arrays[0].name} also gets {things} with {c.letter} = {rule.text(view.letters)} = {span(out)}, where "
                f"{array} has {c.letter} = 0 to {c.size - 1}: that place in memory holds another element."
            )
    return ""


def as_table(view: View, want: Terms, column: Column, rule: Linear | Table, found: Table) -> str:
    """The sentence on the first values that differ; "" if the right ones depend on more letters."""
    array, letters = want.arrays[column.array].name, [view.letters[i] for i in found.by]
    needs = rule.by if isinstance(rule, Table) else [i for i, f in enumerate(rule.factors[:-1]) if f]
    base = np.zeros((len(found.values), len(view.base)), int)
    base[:, found.by] = list(found.values)
    right = np.rint(rule.of(base)).astype(int)
    if not set(needs) <= set(found.by) or (right < 0).any():
        return ""
    rows = [(at, got, value) for (at, got), value in zip(found.values.items(), right.tolist(), strict=True)]
    real = set(map(tuple, np.column_stack([view.of(want)[:, found.by], want.at[:, column.number]]).tolist()))
    wrong = sorted(row for row in rows if row[1] != row[2])
    at, got, value = next((row for row in wrong if (*row[0], row[2]) in real), (*wrong[0][:2], None))
    if len(letters) > 1 or value is None:
        where = axis_index("".join(letters), at).replace(",", " and ")
        if not column.array:
            to = "nowhere" if value is None else f"to {column.letter}={value}"
            return f"what has {where} goes into {array} at {column.letter}={got}; it should go {to}."
        # none if a remainder is left
        right = "; it should use none" if value is None else f" instead of {column.letter}={value}"
        return f"for {where}, it uses {array} at {column.letter}={got}{right}."
    listed = len(rows) <= 2 * LISTED and all((*at, value) in real for at, _, value in rows)
    shown = sorted(rows) if listed else [(at, got, value)]
    places, values, others = (
        ", ".join(str(row[i][0] if i == 0 else row[i]) for row in shown) for i in range(3)
    )
    does = (
        f"for {letters[0]} = {places}, it uses {array}'s"
        if column.array
        else f"what has {letters[0]} = {places} goes into {array}'s"
    )
    return f"{does} {column.letter} = {values}; it should be {others}."
