"""What to say about the terms that a wrong kernel sums, in the letters of the arrays' axes: that it reads
`input[b,c,p + r,q]` for `input[b,c,p + r,q + s]`.

The terms of both sums are known, see `summed.py`. The places of the elements in one array follow from those
in the others by a rule, an affine function or a table. If the kernel's terms follow another rule, the
sentence states it. If they follow the right one, some are missing or are added too often. If no rule fits,
one element serves as an example. All this holds for one case.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np

from ..compare import axis_pattern
from ..findings import Finding
from .one_element import one_each, one_element
from .places import as_table, beyond_an_axis, other_steps
from .rules import EXACT, Column, Linear, View, columns_of, nearest, table, views, views_of_parts
from .summed import Terms

LEAST_STEPS = 4  # equal steps that are needed before anything is said about them
FEW_BROKEN = 2  # rules that extra terms break, if they are told of at all


def difference(want: Terms, got: Terms, scalars: Mapping[str, float] | None = None) -> Finding | None:
    """What is different; None if nothing is. scalars: see one_element."""
    if (what := general(want, got)) or alike(want, got):
        return what
    return against_rules(want, got) or one_element(want, got, scalars)


def general(want: Terms, got: Terms, raced: bool = False) -> Finding | None:
    """What all wrong elements have in common, if anything. raced: then what is looked up in a table is arbitrary."""
    if not len(got.at):
        out, *factors = (a.name for a in want.arrays)
        return None if factors[1:] else Finding.of("nothing_gets", array=factors[0], out=out)
    if alike(want, got):
        return None
    lacks, more = (~np.isin(a.keys(), b.keys()) for a, b in ((want, got), (got, want)))
    if not more.any():
        return other_range(want, got) or beginnings(want, got) or one_each(want, got)
    if not lacks.any():
        return beyond_an_axis(want, got.only(more))
    rules = len(got.at) * 4 >= len(want.at)  # a few terms fit many rules
    return other_rule(want, got, raced) if rules else None


def alike(want: Terms, got: Terms) -> bool:
    a, b = (np.argsort(t.keys()) for t in (want, got))
    if len(a) != len(b) or (want.keys()[a] != got.keys()[b]).any():
        return False
    return np.allclose(want.times[a], got.times[b], rtol=1e-4)


# -- other rules --------------------------------------------------------------------------------------------


def other_rule(want: Terms, got: Terms, raced: bool) -> Finding | None:
    """The simplest other rule that some view of the terms shows."""
    every = [in_view(view, want, got, not raced) for view in views(want)]
    known = [(cost, what) for cost, what in every if what]
    known = known or [(0, what) for view in views_of_parts(want) if (what := as_own_steps(view, want, got))]
    return min(known, key=lambda each: each[0])[1] if known else None


def in_view(view: View, want: Terms, got: Terms, tables: bool = True) -> tuple[float, Finding | None]:
    """(how many factors differ, the finding); the number is higher for rules that are unusual."""
    base = view.of(got)
    ruled = zip(view.rest, view.rules, strict=True)
    wrong = [(c, rule) for c, rule in ruled if not rule.fits(base, got.at[:, c.number])]
    if not wrong or len({c.array for c, _ in wrong}) > 1:
        return 0, None
    index = wrong[0][0].array
    linear = {c: rule for c, rule in wrong if isinstance(rule, Linear)}
    new = {c: nearest(rule, base, got.at[:, c.number]) for c, rule in linear.items()}
    inverse = 1.5 * any(min(rule.factors[:-1], default=0) < 0 for rule in linear.values())
    if len(new) == len(wrong) and None not in new.values():
        if any(is_turned(view, c, rule, new[c]) for c, rule in wrong):
            return 0, None
        pairs = [pair for c, rule in wrong for pair in zip(rule.factors, new[c].factors, strict=True)]
        unusual = inverse + any(b < 0 == a for a, b in pairs) / 2 + 2 * (view.dependent == 0)
        unusual += 4 * any(isinstance(rule, Linear) and not rule.is_whole for rule in view.rules)
        return sum(a != b for a, b in pairs) + unusual, as_indices(view, want, index, dict(wrong), new)
    cost, what = as_steps(view, want, got, index)
    if what:
        return cost + 4 * (view.dependent == 0), what
    if len(wrong) == 1 and isinstance(wrong[0][1], Linear):
        if what := as_slope(view, want, got, *wrong[0]):
            return 6 + inverse + 4 * (view.dependent == 0), what
    if tables and len(wrong) == 1 and (looked_up := table(base, got.at[:, wrong[0][0].number])):
        return 8, as_table(view, want, *wrong[0], looked_up)
    return 0, None


def is_turned(view: View, column: Column, right: Linear, new: Linear) -> bool:
    """Whether one of them is `c - k` where c is meant: `c + k` in another array describes it better."""
    factors = list(zip(view.letters, right.factors, new.factors, strict=False))
    same = any(a for letter, a, _ in factors if letter == column.letter)
    return same and any(min(a, b) < 0 for letter, a, b in factors if letter != column.letter)


def as_slope(view: View, want: Terms, got: Terms, column: Column, rule: Linear) -> Finding | None:
    """By how much an index moves with one letter while all others are constant; None if that is not the same everywhere."""
    base, values = view.of(got), got.at[:, column.number]
    places, first, each = np.unique(base, axis=0, return_index=True, return_inverse=True)
    if (values[first][each.ravel()] != values).any():  # several for one place
        return None
    other = []
    for i, letter in enumerate(view.letters):
        order = np.lexsort((places[:, i], *np.delete(places, i, 1).T))
        moves = np.diff(places[order], axis=0)
        alone = (np.delete(moves, i, 1) == 0).all(1)
        slopes = np.unique(np.diff(values[first][order])[alone] / moves[alone, i])
        if len(slopes) == 1 and alone.sum() >= LEAST_STEPS and rule.factors[i] not in (0, slopes[0]):
            other.append((letter, slopes[0], rule.factors[i]))
    if len(other) != 1 or other[0][1] % 1 or other[0][2].denominator > 1:
        return None
    letter, now, right = other[0]
    if not now and right < 0:  # nobody thinks of `h - p` as of something that changes with p
        return None
    index = f"{column.letter} of {want.arrays[column.array].name}"
    return Finding.of("slope", index=index, letter=letter, now=int(now), right=int(right))


def as_indices(view: View, want: Terms, index: int, right: dict, new: dict) -> Finding:
    rules = dict(zip(view.rest, view.rules, strict=True)) | new
    array = want.arrays[index].name
    texts = []
    for i, other in enumerate(want.arrays):
        own = [c for c in columns_of(want) if c.array == i]
        shown = [rules[c].text(view.letters) if isinstance(rules.get(c), Linear) else c.letter for c in own]
        texts.append(f"{other.name}[{','.join(shown)}]")
    out, *factors = texts
    facts = dict(factors=factors, out=out, array=array)
    changes = [(c.letter, rule.text(view.letters), new[c].text(view.letters)) for c, rule in right.items()]
    pairs = [(a, b) for _, a, b in changes]
    if len(want.shapes[index]) > 1 or len(pairs) > 1:
        return Finding.of("other_indices_of", changes=changes, **facts)
    ((a, b),) = pairs
    return Finding.of("other_index_of", right=a, now=b, **facts)


def as_steps(view: View, want: Terms, got: Terms, index: int) -> tuple[int, Finding | None]:
    """The place in the whole array, as a sum of steps."""
    own = [c for c in columns_of(want) if c.array == index]
    rules = {c: rule for c, rule in zip(view.rest, view.rules, strict=True) if c in own}
    if len(rules) < len(own) or not all(isinstance(rule, Linear) for rule in rules.values()):
        return 0, None
    whole = Linear(tuple(sum(c.step * rules[c].factors[i] for c in own) for i in range(len(view.base) + 1)))
    base = view.of(got)
    new = nearest(whole, base, got.flat(index))
    if new is None or new == whole:
        return 0, None
    return other_steps(want, index, view.letters, whole.where_moving(base), new.where_moving(base))


def as_own_steps(view: View, want: Terms, got: Terms) -> Finding | None:
    """The place along a merged axis, as a sum of steps of the axes that it counts through."""
    own = [(c, r) for c, r in zip(view.rest, view.rules, strict=True) if c.array == view.dependent]
    if len(own) < len(view.rest) or not all(isinstance(rule, Linear) for _, rule in own):
        return None
    right = np.stack([rule.of(view.of(got)) for _, rule in own], 1)
    at = np.rint(right).astype(int)
    place = got.at[:, [c.number for c, _ in own]] @ np.array([c.step for c, _ in own])
    whole = Linear((*(Fraction(c.step) for c, _ in own), Fraction(0)))
    new = nearest(whole, at, place) if (np.abs(at - right) < EXACT).all() else None
    if new is None or new == whole:
        return None
    letters = [c.letter for c, _ in own]
    cost, what = other_steps(want, view.dependent, letters, whole.where_moving(at), new.where_moving(at))
    return what if cost < 4 else None


# -- terms that are missing, or too many ------------------------------------------------------------------------


def other_range(want: Terms, got: Terms) -> Finding | None:
    """Terms that are missing or added too often while all others are right."""
    if not np.isin(got.keys(), want.keys()).all():
        return None
    facts, missing = dict(out=want.arrays[0].name, things=things_of(want)), ~np.isin(want.keys(), got.keys())
    if missing.any():
        kept = got.times == 1
        if len(want.arrays) > 2 and not kept.all():
            return None
        (of, lacks), (of_only, only) = (described(want, chosen) for chosen in (missing, ~missing))
        often = times_of(want, got)
        if of_only + only and (not of + lacks or 2 * missing.sum() > len(missing)):
            return Finding.of("sums_have_only", of=of_only, which=only, often=often, **facts)
        return Finding.of("sums_lack", of=of, which=lacks, often=often, **facts) if of + lacks else None
    return None


def things_of(want: Terms) -> str:
    """What is added up."""
    return "products" if len(want.arrays) > 2 else f"elements of {want.arrays[1].name}"


def times_of(want: Terms, got: Terms) -> float | None:
    """How often terms that are there are added, or 0 for different numbers; None if they are as they should be."""
    order = np.argsort(want.keys())
    right = want.times[order][np.searchsorted(want.keys()[order], got.keys())]
    ratios = np.unique(np.round(got.times / right, 4))
    if (ratios == 1).all() and len(np.unique(got.keys())) == len(got.at):
        return None
    return float(ratios[0]) if len(ratios) == 1 else 0.0


def beginnings(want: Terms, got: Terms) -> Finding | None:
    """Sums that stop early, each at a different term: in some order of the axes, the missing terms come last."""
    there = np.isin(want.keys(), got.keys())
    places, output = want.flat(0), set(want.arrays[0].letters)
    columns = [c for c in columns_of(want) if c.array == 1 and c.letter not in output and c.size > 1]
    again_and_again = len(np.unique(got.keys())) < len(got.at) or len(set(np.round(got.times, 6))) > 1
    if (got.times != 1).any() and len(want.arrays) > 2 or again_and_again or not columns:
        return None
    same = len(got.times) and np.allclose(got.times, want.times[there][:1])
    for order in permutations(columns):
        at = np.lexsort((*(want.at[:, c.number] for c in reversed(order)), places))
        again = ~there[at][:-1] & there[at][1:] & (places[at][:-1] == places[at][1:])
        stops = there[at][:-1] & ~there[at][1:] & (places[at][:-1] == places[at][1:])
        if not again.any() and stops.any():
            often, along = None if same else float(got.times[0]), [c.letter for c in order]
            return Finding.of("sums_stop_early", out=want.arrays[0].name, along=along, often=often)
    return None


def against_rules(want: Terms, got: Terms) -> Finding | None:
    """Extra terms with an index that is not what it should be."""
    if not np.isin(want.keys(), got.keys()).all():
        return None
    extra = got.only(~np.isin(got.keys(), want.keys()))
    for view in views(want):
        base = view.of(extra)
        ruled = [(c, r) for c, r in zip(view.rest, view.rules, strict=True) if isinstance(r, Linear)]
        named = [(f"{c.letter} of {want.arrays[c.array].name}", c, rule) for c, rule in ruled]
        named = [(name, rule) for name, c, rule in named if not rule.fits(base, extra.at[:, c.number])]
        broken = [f"{name} is not {rule.text(view.letters)}" for name, rule in named]
        few = 0 < len(broken) <= FEW_BROKEN  # where all are broken, none of them is the cause
        if few and all(isinstance(rule, Linear) and rule.is_whole for rule in view.rules):
            things = "products" if len(want.arrays) > 2 else "elements"
            return Finding.of("extra_terms", out=want.arrays[0].name, things=things, broken=broken)
    return None


def described(whole: Terms, chosen: np.ndarray) -> tuple[str, str]:
    """(` with w=4 (the last)` of the output, ` with r=2 (the last)` of the rest), if one or two letters determine exactly
    the chosen terms; a letter of the output that only it has is of the output."""
    columns = [c for c in columns_of(whole) if c.size > 1]
    output = set(whole.arrays[0].letters)
    columns.sort(key=lambda c: (c.letter in output, -c.array))
    masks = []
    for c in columns:
        values = whole.at[:, c.number]
        touched = np.unique(values[chosen])
        others = [whole.at[:, o.number] for o in columns if o.letter == c.letter]
        apart = any((o != values).any() for o in others)  # one letter names two things
        own = c.array == 0 and (apart or not any(c.letter in a.letters for a in whole.arrays[1:]))
        called = f"{whole.arrays[c.array].name}'s {c.letter}" if apart and not own else c.letter
        if says := axis_pattern(called, touched, c.size):
            masks.append((len(touched), own, says, np.isin(values, touched)))
    for count in (1, 2):
        exact = [
            (sum(values for values, *_ in some), [(own, says) for _, own, says, _ in some])
            for some in combinations(masks, count)
            if (np.logical_and.reduce([mask for *_, mask in some]) == chosen).all()
        ]
        if exact:
            sides = [[says for own, says in min(exact)[1] if own == of] for of in (True, False)]
            of, rest = (" with " * bool(side) + " and ".join(side) for side in sides)
            return of, rest
    return "", ""
