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

from ..compare import axis_pattern, either
from .findings import how_often
from .one_element import one_each, one_element
from .place_steps import told_steps
from .places import as_table, beyond_an_axis, brought_inside, other_split
from .rules import EXACT, Column, Linear, View, columns_of, nearest, table, views, views_of_parts
from .summed import Terms

LEAST_STEPS = 4  # equal steps that are needed before anything is said about them
FEW_BROKEN = 2  # rules that extra terms break, if they are told of at all


def told(want: Terms, got: Terms, scalars: Mapping[str, float] | None = None) -> str:
    """What is different; "" if nothing is. scalars: see one_element."""
    return general(want, got) or (
        "" if alike(want, got) else against_rules(want, got) or one_element(want, got, scalars)
    )


def general(want: Terms, got: Terms, raced: bool = False) -> str:
    """What all wrong elements have in common; "" if nothing is wrong, or if it takes an example to say.
    raced: whether threads store over one another's results: then what is looked up in a table is
    arbitrary."""
    if not len(got.at):
        out, *factors = (a.name for a in want.arrays)
        return f"nothing of {factors[0]} gets into {out}." if not factors[1:] else ""
    if alike(want, got):
        return ""
    lacks, more = (~np.isin(a.keys(), b.keys()) for a, b in ((want, got), (got, want)))
    if not more.any():
        return other_range(want, got) or beginnings(want, got) or by_number(want, got) or one_each(want, got)
    if not lacks.any():
        return brought_inside(want, got.only(more)) or beyond_an_axis(want, got.only(more))
    rules = len(got.at) * 4 >= len(want.at)  # a few terms fit many rules
    return (other_rule(want, got, raced) or other_split(want, got)) if rules else ""


def alike(want: Terms, got: Terms) -> bool:
    a, b = (np.argsort(t.keys()) for t in (want, got))
    if len(a) != len(b) or (want.keys()[a] != got.keys()[b]).any():
        return False
    return np.allclose(want.times[a], got.times[b], rtol=1e-4)


# -- other rules --------------------------------------------------------------------------------------------


def other_rule(want: Terms, got: Terms, raced: bool) -> str:
    """The simplest other rule that some view of the terms shows."""
    found = [
        (cost, says) for view in views(want) for cost, says in [in_view(view, want, got, not raced)] if says
    ]
    found = found or [(0, says) for view in views_of_parts(want) if (says := as_own_steps(view, want, got))]
    return min(found, key=lambda f: f[0])[1] if found else ""


def in_view(view: View, want: Terms, got: Terms, tables: bool = True) -> tuple[float, str]:
    """(how many factors differ, the sentence); the number is higher for rules that are unusual."""
    base = view.of(got)
    wrong = [
        (c, rule)
        for c, rule in zip(view.rest, view.rules, strict=True)
        if not rule.fits(base, got.at[:, c.number])
    ]
    if not wrong or len({c.array for c, _ in wrong}) > 1:
        return 0, ""
    index = wrong[0][0].array
    new = {
        c: nearest(rule, base, got.at[:, c.number]) if isinstance(rule, Linear) else None for c, rule in wrong
    }
    inverse = 1.5 * any(
        isinstance(rule, Linear) and min(rule.factors[:-1], default=0) < 0 for _, rule in wrong
    )
    if None not in new.values():
        if any(is_turned(view, c, rule, new[c]) for c, rule in wrong):
            return 0, ""
        pairs = [pair for c, rule in wrong for pair in zip(rule.factors, new[c].factors, strict=True)]
        unusual = inverse + any(b < 0 == a for a, b in pairs) / 2 + 2 * (view.dependent == 0)
        unusual += 4 * any(isinstance(rule, Linear) and not rule.is_whole for rule in view.rules)
        return sum(a != b for a, b in pairs) + unusual, as_indices(view, want, index, dict(wrong), new)
    cost, says = as_steps(view, want, got, index)
    if says:
        return cost + 4 * (view.dependent == 0), says
    if len(wrong) == 1 and isinstance(wrong[0][1], Linear):
        if says := as_slope(view, want, got, *wrong[0]):
            return 6 + inverse + 4 * (view.dependent == 0), says
    if tables and len(wrong) == 1 and (found := table(base, got.at[:, wrong[0][0].number])):
        return 8, as_table(view, want, *wrong[0], found)
    return 0, ""


def is_turned(view: View, column: Column, right: Linear, new: Linear) -> bool:
    """Whether one of them is `c - k` where c is meant: `c + k` in another array describes it better."""
    factors = list(zip(view.letters, right.factors, new.factors, strict=False))
    same = any(a for letter, a, _ in factors if letter == column.letter)
    return same and any(min(a, b) < 0 for letter, a, b in factors if letter != column.letter)


def as_slope(view: View, want: Terms, got: Terms, column: Column, rule: Linear) -> str:
    """By how much an index moves with one letter while all others are constant; "" if that is not the same
    everywhere."""
    base, values = view.of(got), got.at[:, column.number]
    places, first, each = np.unique(base, axis=0, return_index=True, return_inverse=True)
    if (values[first][each.ravel()] != values).any():  # several for one place
        return ""
    found = []
    for i, letter in enumerate(view.letters):
        order = np.lexsort((places[:, i], *np.delete(places, i, 1).T))
        moves = np.diff(places[order], axis=0)
        alone = (np.delete(moves, i, 1) == 0).all(1)
        slopes = np.unique(np.diff(values[first][order])[alone] / moves[alone, i])
        if len(slopes) == 1 and alone.sum() >= LEAST_STEPS and rule.factors[i] not in (0, slopes[0]):
            found.append((letter, slopes[0], rule.factors[i]))
    if len(found) != 1 or found[0][1] % 1 or found[0][2].denominator > 1:
        return ""
    letter, now, right = found[0]
    index = f"{column.letter} of {want.arrays[column.array].name}"
    if not now and right < 0:  # nobody thinks of `h - p` as of something that changes with p
        return ""
    if not now:
        return f"{index} does not change with {letter}; it should."
    return f"a step along {letter} changes {index} by {now:g}; it should by {right}."


def as_indices(view: View, want: Terms, index: int, right: dict, new: dict) -> str:
    rules = dict(zip(view.rest, view.rules, strict=True)) | new
    array = want.arrays[index].name
    texts = []
    for i, other in enumerate(want.arrays):
        own = [c for c in columns_of(want) if c.array == i]
        shown = [rules[c].text(view.letters) if isinstance(rules.get(c), Linear) else c.letter for c in own]
        texts.append(f"{other.name}[{','.join(shown)}]")
    out, *factors = texts
    texts = {c: (rule.text(view.letters), new[c].text(view.letters)) for c, rule in right.items()}
    changes = [should_be(c.letter, a, b) for c, (a, b) in texts.items()]
    if len(texts) == 2 and len({frozenset(pair) for pair in texts.values()}) == 1:
        a, b = next(iter(texts.values()))
        changes = [f"{a} and {b} should change places"]
        array = array if index else f"{array}, or in what is added to it"
    does = "adds" if len(factors) == 2 else "puts"
    to = "to" if len(factors) == 2 else "into"
    where = f"in {array}, {', and '.join(changes)}"
    if len(want.shapes[index]) == 1 and len(texts) == 1:
        ((_, (a, b)),) = texts.items()
        where = f"the index of {array} should be {a}, {f'but is always {b}' if b.isdecimal() else f'not {b}'}"
        both = [other.name for other in want.arrays[1:] if {a, b} <= set(other.letters)]
        if both and not index:  # the output's index may be right, and that of what it gets wrong
            where = f"{b} and {a} have changed places, in {either([array, *both], 'or in')}"
    return f"it {does} {' * '.join(factors)} {to} {out}: {where}."


def should_be(letter: str, right: str, now: str) -> str:
    if right != letter:
        return f"{letter} should be {right}, not {now}"
    return f"{letter} is always {now}" if now.isdecimal() else f"{now} stands where {right} should"


def as_steps(view: View, want: Terms, got: Terms, index: int) -> tuple[int, str]:
    """The place in the whole array, as a sum of steps."""
    own = [c for c in columns_of(want) if c.array == index]
    rules = {c: rule for c, rule in zip(view.rest, view.rules, strict=True) if c in own}
    if len(rules) < len(own) or not all(isinstance(rule, Linear) for rule in rules.values()):
        return 0, ""
    whole = Linear(tuple(sum(c.step * rules[c].factors[i] for c in own) for i in range(len(view.base) + 1)))
    base = view.of(got)
    new = nearest(whole, base, got.flat(index))
    if new is None or new == whole:
        return 0, ""
    return told_steps(want, index, view.letters, whole.where_moving(base), new.where_moving(base))


def as_own_steps(view: View, want: Terms, got: Terms) -> str:
    """The place along a merged axis, as a sum of steps of the axes that it counts through."""
    own = [(c, r) for c, r in zip(view.rest, view.rules, strict=True) if c.array == view.dependent]
    if len(own) < len(view.rest) or not all(isinstance(rule, Linear) for _, rule in own):
        return ""
    meant = np.stack([rule.of(view.of(got)) for _, rule in own], 1)
    at = np.rint(meant).astype(int)
    place = got.at[:, [c.number for c, _ in own]] @ np.array([c.step for c, _ in own])
    whole = Linear((*(Fraction(c.step) for c, _ in own), Fraction(0)))
    new = nearest(whole, at, place) if (np.abs(at - meant) < EXACT).all() else None
    if new is None or new == whole:
        return ""
    letters = [c.letter for c, _ in own]
    cost, says = told_steps(want, view.dependent, letters, whole.where_moving(at), new.where_moving(at))
    return says if cost < 4 else ""


# -- terms that are missing, or too many ------------------------------------------------------------------------


def other_range(want: Terms, got: Terms) -> str:
    """Terms that are missing or added too often while all others are right."""
    if not np.isin(got.keys(), want.keys()).all():
        return ""
    things = "products" if len(want.arrays) > 2 else f"elements of {want.arrays[1].name}"
    missing = ~np.isin(want.keys(), got.keys())
    if missing.any():
        kept = got.times == 1
        if len(want.arrays) > 2 and not kept.all():
            return ""
        (of, lacks), (of_only, only) = (described(want, chosen) for chosen in (missing, ~missing))
        sums, extra = f"the sums of {want.arrays[0].name}", times_of(want, got)
        if not of + lacks and not extra and (end := an_end(want, missing)):
            return f"each sum of {want.arrays[0].name} lacks the {things} with {end}"
        if of_only + only and (not of + lacks or 2 * missing.sum() > len(missing)):
            if of_only:
                extra = f"{extra and ', ' + extra}; the others have none"
                return f"{sums}{of_only} have {f'only the {things}{only}' if only else f'all their {things}'}{extra}."
            return f"{sums} have only the {things}{only}{extra and ', ' + extra}."
        all_or_some = f"the {things}{lacks}" if lacks else f"all their {things}"
        return f"{sums}{of} lack {all_or_some}{extra and '; the others are ' + extra}." if of + lacks else ""
    if len(want.arrays) < 3:
        return ""
    often = got.times != 1
    if len(set(got.times[often])) == 1 and len(np.unique(got.keys())) == len(got.at):
        count = int(got.times[often][0])
        how = f"added {how_often(count)}" if count > 0 else "subtracted"
        of, which = described(got, often)
        if often.all() or of + which:
            products = f"the products{which}" if which else "all products"
            return f"in the sums of {want.arrays[0].name}{of} {products} are {how}."
    return ""


def an_end(want: Terms, missing: np.ndarray) -> str:
    """Each sum lacks the terms with its largest, or smallest, place along one axis."""
    sums, output, found = want.flat(0), want.arrays[0].letters, []
    for c in columns_of(want):
        at = want.at[:, c.number]
        for extreme, beyond, word in ((np.maximum, -1, "last"), (np.minimum, c.size, "first")):
            ends = np.full(sums.max() + 1, beyond)
            extreme.at(ends, sums, at)
            if c.letter not in output and c.size > 1 and ((at == ends[sums]) == missing).all():
                found.append(f"its {word} {c.letter}")
    return f"{either(found, 'or')}: is a loop one iteration too short?" if found else ""


def times_of(want: Terms, got: Terms) -> str:
    """`added twice`, for terms that are there, but not as often as they should be; "" if they are."""
    order = np.argsort(want.keys())
    right = want.times[order][np.searchsorted(want.keys()[order], got.keys())]
    ratios = np.unique(np.round(got.times / right, 4))
    if (ratios == 1).all() and len(np.unique(got.keys())) == len(got.at):
        return ""
    return f"added {how_often(ratios[0])}" if len(ratios) == 1 else "not added once each"


def beginnings(want: Terms, got: Terms) -> str:
    """Sums that stop early, each at a different term: in some order of the axes, the missing terms come
    last."""
    there = np.isin(want.keys(), got.keys())
    places, output = want.flat(0), set(want.arrays[0].letters)
    columns = [c for c in columns_of(want) if c.array == 1 and c.letter not in output and c.size > 1]
    again_and_again = len(np.unique(got.keys())) < len(got.at) or len(set(np.round(got.times, 6))) > 1
    if (got.times != 1).any() and len(want.arrays) > 2 or again_and_again or not columns:
        return ""
    same = len(got.times) and np.allclose(got.times, want.times[there][:1])
    for order in permutations(columns):
        at = np.lexsort((*(want.at[:, c.number] for c in reversed(order)), places))
        again = ~there[at][:-1] & there[at][1:] & (places[at][:-1] == places[at][1:])
        stops = there[at][:-1] & ~there[at][1:] & (places[at][:-1] == places[at][1:])
        if not again.any() and stops.any():
            along = either([c.letter for c in order], "and")
            return (
                f"the sums of {want.arrays[0].name} stop early, in the order of {along}: the terms that come first are "
                + ("there" if same else f"added {how_often(got.times[0])}")
                + ", those after them are not."
            )
    return ""


def by_number(want: Terms, got: Terms) -> str:
    """Terms that are missing by their position in the sum, in the order of an array's axes: every 16th, as in
    a tile."""
    chosen, output = ~np.isin(want.keys(), got.keys()), want.arrays[0]
    if times_of(want, got):
        return ""
    for array in range(1, len(want.arrays)):
        own = [
            c for c in columns_of(want) if c.array == array and c.letter not in output.letters and c.size > 1
        ]
        number = np.zeros(len(want.at), int)
        for c in own:
            number = number * c.size + want.at[:, c.number]
        touched = np.unique(number[chosen])
        says = axis_pattern("number", touched, int(np.prod([c.size for c in own])))
        if len(own) > 1 and says and (np.isin(number, touched) == chosen).all():
            things = "products" if len(want.arrays) > 2 else f"elements of {want.arrays[1].name}"
            through = either([c.letter for c in own], "and")
            return (
                f"the sums of {output.name} lack the {things} with {says}, counted from 0 through {through}."
            )
    return ""


def against_rules(want: Terms, got: Terms) -> str:
    """Extra terms with an index that is not what it should be."""
    if not np.isin(want.keys(), got.keys()).all():
        return ""
    extra = got.only(~np.isin(got.keys(), want.keys()))
    for view in views(want):
        base = view.of(extra)
        broken = [
            f"{c.letter} of {want.arrays[c.array].name} is not {rule.text(view.letters)}"
            for c, rule in zip(view.rest, view.rules, strict=True)
            if isinstance(rule, Linear) and not rule.fits(base, extra.at[:, c.number])
        ]
        few = 0 < len(broken) <= FEW_BROKEN  # where all are broken, none of them is the cause
        if few and all(isinstance(rule, Linear) and rule.is_whole for rule in view.rules):
            things = "products" if len(want.arrays) > 2 else "elements"
            return f"it also adds to {want.arrays[0].name} {things} for which {either(broken)}."
    return ""


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
        says = axis_pattern(
            f"{whole.arrays[c.array].name}'s {c.letter}" if apart and not own else c.letter, touched, c.size
        )
        if says:
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
