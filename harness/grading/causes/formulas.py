"""What to say of the terms that a wrong kernel adds up, in the letters of the arrays' axes: that it reads
`input[b,c,p + r,q]` for `input[b,c,p + r,q + s]`.

The terms of both sums are known, see `summed.py`. The places of the elements in one array follow from those in the others
by a rule, a sum of multiples or a table; where the kernel's terms follow another rule, that is told. Where they follow the
right one, some are missing, or are added too often. What fits no rule is told of one element. All of these are facts about
the case that ran.
"""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np

from ..compare import axis_index, axis_pattern, either
from .places import beyond_an_axis, other_split
from .rules import Column, Linear, Table, View, columns_of, nearest, table, views
from .summed import Terms

LISTED = 4  # values of a table
MOST_SHOWN = 6  # elements that are listed one by one
_ONE = 1 - 1e-6


def told(want: Terms, got: Terms) -> str:
    """What is different; "" if nothing is."""
    return general(want, got) or (
        "" if alike(want, got) else against_rules(want, got) or one_element(want, got)
    )


def general(want: Terms, got: Terms) -> str:
    """What is different in all that is; "" if nothing is, or if it takes an example to tell."""
    if not len(got.at):
        out, *factors = (a.name for a in want.arrays)
        return f"nothing of {factors[0]} gets into {out}." if not factors[1:] else ""
    if alike(want, got):
        return ""
    lacks, more = (~np.isin(a.keys(), b.keys()) for a, b in ((want, got), (got, want)))
    if not more.any():
        return other_range(want, got) or beginnings(want, got) or by_number(want, got)
    if not lacks.any():
        return beyond_an_axis(want, got.only(more))
    rules = len(got.at) * 4 >= len(want.at)  # a few terms follow many rules
    return (other_rule(want, got) or other_split(want, got)) if rules else ""


def alike(want: Terms, got: Terms) -> bool:
    a, b = (np.argsort(t.keys()) for t in (want, got))
    if len(a) != len(b) or (want.keys()[a] != got.keys()[b]).any():
        return False
    return np.allclose(want.times[a], got.times[b], rtol=1e-4)


# -- other rules --------------------------------------------------------------------------------------------


def other_rule(want: Terms, got: Terms) -> str:
    """The simplest that some view of the terms shows."""
    found = [(cost, says) for view in views(want) for cost, says in [in_view(view, want, got)] if says]
    return min(found, key=lambda f: f[0])[1] if found else ""


def in_view(view: View, want: Terms, got: Terms) -> tuple[int, str]:
    """(how many factors are different, the sentence); more where places in the output follow from those in the inputs,
    which nobody thinks of."""
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
    if None not in new.values():
        cost = sum(a != b for c, rule in wrong for a, b in zip(rule.factors, new[c].factors, strict=True))
        return cost, as_indices(view, want, index, dict(wrong), new)
    cost, says = as_steps(view, want, got, index)
    if says:
        return cost + 4 * (view.dependent == 0), says
    if len(wrong) == 1 and (found := table(base, got.at[:, wrong[0][0].number])):
        return 8, as_table(view, want, *wrong[0], found)
    return 0, ""


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
    changes = [f"{c.letter} should be {a}, not {b}" for c, (a, b) in texts.items()]
    if len(texts) == 2 and len({frozenset(pair) for pair in texts.values()}) == 1:
        a, b = next(iter(texts.values()))
        changes = [f"{a} and {b} should change places"]
    does = "adds" if len(factors) == 2 else "puts"
    to = "to" if len(factors) == 2 else "into"
    return f"it {does} {' * '.join(factors)} {to} {out}: in {array}, {' and '.join(changes)}."


def as_steps(view: View, want: Terms, got: Terms, index: int) -> tuple[int, str]:
    """The place in the whole array, as a sum of steps."""
    own = [c for c in columns_of(want) if c.array == index]
    rules = {c: rule for c, rule in zip(view.rest, view.rules, strict=True) if c in own}
    if len(rules) < len(own) or not all(isinstance(rule, Linear) for rule in rules.values()):
        return 0, ""
    whole = Linear(tuple(sum(c.step * rules[c].factors[i] for c in own) for i in range(len(view.base) + 1)))
    new = nearest(whole, view.of(got), got.flat(index))
    if new is None or new == whole:
        return 0, ""
    name, changes = want.arrays[index].name, []
    for letter, a, b in zip((*view.letters, ""), whole.factors, new.factors, strict=True):
        if a != b and letter:
            known = next((c.steps for c in own if c.step == a and c.step > 1 and c.letter == letter), "")
            named = f" ({known})" if known and not known.isdecimal() else ""
            changes.append(f"a step along {letter} moves by {b} in {name}; it should move by {a}{named}")
        elif a != b:
            changes.append(f"the elements of {name} are {abs(b - a)} too far {'on' if b > a else 'back'}")
    whole_text, new_text = whole.text(view.letters), new.text(view.letters)
    text = (
        f"{'; '.join(changes)}."
        if len(changes) < 3
        else f"the place in {name} is {new_text}; it should be {whole_text}."
    )
    return 1 + len(changes), text


def as_table(view: View, want: Terms, column: Column, rule: Linear | Table, found: Table) -> str:
    """Of the first values that are different; "" where the right ones depend on more."""
    array, letters = want.arrays[column.array].name, [view.letters[i] for i in found.by]
    needs = rule.by if isinstance(rule, Table) else [i for i, f in enumerate(rule.factors[:-1]) if f]
    base = np.zeros((len(found.values), len(view.base)), int)
    base[:, found.by] = list(found.values)
    right = np.rint(rule.of(base)).astype(int)
    if not set(needs) <= set(found.by) or (right < 0).any():
        return ""
    rows = [(at, got, value) for (at, got), value in zip(found.values.items(), right.tolist(), strict=True)]
    at, got, value = min(row for row in rows if row[1] != row[2])
    if len(letters) > 1:
        where = axis_index("".join(letters), at).replace(",", " and ")
        return f"for {where}, it uses {array} at {column.letter}={got}; it should be {value}."
    shown = sorted(rows)[: 2 * LISTED] if len(rows) <= 2 * LISTED else [(at, got, value)]
    places, values, others = (
        ", ".join(str(row[i][0] if i == 0 else row[i]) for row in shown) for i in range(3)
    )
    return (
        f"for {letters[0]} = {places}, it uses {array}'s {column.letter} = {values}; it should be {others}."
    )


# -- terms that are missing, or too many ------------------------------------------------------------------------


def other_range(want: Terms, got: Terms) -> str:
    """Terms that are missing, or that are added too often, where all others are right."""
    if not np.isin(got.keys(), want.keys()).all():
        return ""
    things = "products" if len(want.arrays) > 2 else f"elements of {want.arrays[1].name}"
    missing = ~np.isin(want.keys(), got.keys())
    if missing.any():
        kept = got.times == 1
        if len(want.arrays) > 2 and not kept.all():
            return ""
        lacks, only = described(want, missing), described(want, ~missing)
        sums, extra = f"the sums of {want.arrays[0].name}", times_of(want, got)
        if only and (not lacks or 2 * missing.sum() > len(missing)):
            return f"{sums} have only the {things} with {only}{extra and ', ' + extra}."
        return (
            f"{sums} lack the {things} with {lacks}{extra and '; the others are ' + extra}." if lacks else ""
        )
    if len(want.arrays) < 3:
        return ""
    often = got.times != 1
    if len(set(got.times[often])) == 1 and len(np.unique(got.keys())) == len(got.at):
        count = int(got.times[often][0])
        how = f"added {count} times" if count > 0 else "subtracted"
        which = "all products" if often.all() else f"the products with {described(got, often)}"
        return f"in the sums of {want.arrays[0].name} {which} are {how}." if not which.endswith(" ") else ""
    return ""


def times_of(want: Terms, got: Terms) -> str:
    """`added 2 times`, of terms that are there, but not as often as they should; "" where they are."""
    order = np.argsort(want.keys())
    right = want.times[order][np.searchsorted(want.keys()[order], got.keys())]
    ratios = np.unique(np.round(got.times / right, 4))
    if (ratios == 1).all() and len(np.unique(got.keys())) == len(got.at):
        return ""
    return f"added {how_often(ratios[0])}" if len(ratios) == 1 else "not added once each"


def beginnings(want: Terms, got: Terms) -> str:
    """Sums that stop early, each somewhere else: in some order of the axes, what is there comes before what is missing."""
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
                + ", those after them are not"
                + (". Is a loop left where one turn should be skipped?" if same else ".")
            )
    return ""


def by_number(want: Terms, got: Terms) -> str:
    """Terms that are missing by their place in the sum, in the order of an array's axes: every 16th, as of a tile."""
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
    """Terms too many, of which some index is not what it should be."""
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
        if broken and all(isinstance(rule, Linear) and rule.is_whole for rule in view.rules):
            things = "products" if len(want.arrays) > 2 else "elements"
            return f"to {want.arrays[0].name} it also adds {things} for which {either(broken)}."
    return ""


def described(whole: Terms, chosen: np.ndarray) -> str:
    """`r=2 (the last)`, if one or two letters say exactly which terms are chosen."""
    columns = [c for c in columns_of(whole) if c.size > 1]
    output = set(whole.arrays[0].letters)
    columns.sort(key=lambda c: (c.letter in output, -c.array))
    masks = []
    for c in columns:
        values = whole.at[:, c.number]
        touched = np.unique(values[chosen])
        others = [whole.at[:, o.number] for o in columns if o.letter == c.letter]
        apart = any((o != values).any() for o in others)  # one letter for two things
        says = axis_pattern(
            f"{whole.arrays[c.array].name}'s {c.letter}" if apart else c.letter, touched, c.size
        )
        if says:
            masks.append((len(touched), says, np.isin(values, touched)))
    for count in (1, 2):
        exact = [
            (sum(values for values, _, _ in some), " and ".join(says for _, says, _ in some))
            for some in combinations(masks, count)
            if (np.logical_and.reduce([mask for _, _, mask in some]) == chosen).all()
        ]
        if exact:
            return min(exact)[1]
    return ""


# -- one element ------------------------------------------------------------------------------------------------


def one_element(want: Terms, got: Terms) -> str:
    """Two terms at most of an element that is wrong."""
    places = want.flat(0), got.flat(0)
    lacking, surplus = (t.only(~np.isin(t.keys(), other.keys())) for t, other in ((want, got), (got, want)))
    wrong = sorted(set(lacking.flat(0)) & set(surplus.flat(0))) or sorted(
        set(lacking.flat(0)) | set(surplus.flat(0))
    )
    if not wrong:
        return other_weight(want, got)
    at = wrong[0]
    less, more = lacking.only(lacking.flat(0) == at), surplus.only(surplus.flat(0) == at)
    (place,) = {element(t, 0, 0) for t in (less, more) if len(t.at)} or {""}
    if (places[0] == at).sum() == 1 and len(want.arrays) == 2 and len(less.at):  # a copy
        source = element(less, 1, 0)
        if not len(more.at):
            return f"{place} should be {source}."
        if len(more.at) == 1:
            return f"{place} is {element(more, 1, 0)}; it should be {source}."
    if len(less.at) and len(more.at) and len(want.arrays) == 3:
        for i, j in ((1, 2), (2, 1)):
            both = [
                (a, b)
                for a in range(len(less.at))
                for b in range(len(more.at))
                if less.flat(i)[a] == more.flat(i)[b]
            ]
            if both:
                a, b = both[0]
                return (
                    f"for {place}, {element(less, i, a)} is multiplied by {element(more, j, b)}; it should be by "
                    f"{element(less, j, a)}."
                )
    parts = []
    if len(less.at):
        parts.append(f"lacks {product(less)}")
    if len(more.at):
        parts.append(f"has {product(more)}, which {'do' if len(more.at) > 1 else 'does'} not belong to it")
    says = [f"the sum for {place} {', and '.join(parts)}."]
    whole = [t.only(t.flat(0) == at) for t in (got, want)]
    if len(want.arrays) == 2 and place and all(len(t.at) and (t.times == 1).all() for t in whole):
        sets = [elements(t) for t in whole]
        if all(sets):
            says.append(f"{place} is the sum of {sets[0]}; it should be that of {sets[1]}.")
    return min(says, key=len)


def element(terms: Terms, i: int, row: int) -> str:
    array = terms.arrays[i]
    return f"{array.name}[{axis_index(array.letters, terms.at[row, terms.columns(i)])}]"


def product(terms: Terms) -> str:
    shown = [
        " * ".join(element(terms, i, row) for i in range(1, len(terms.arrays)))
        for row in range(len(terms.at))
    ]
    more = len(shown) - 2
    return either(shown[:2], "and") if more < 1 else f"{shown[0]} and {more + 1} more"


def elements(terms: Terms) -> str:
    """`input[b=0,c=0,h=0 to 1,w={0,3}]` where they are all of such a grid, else one by one; "" for too many."""
    array, at = terms.arrays[1], np.unique(terms.at[:, terms.columns(1)], axis=0)
    if not len(at):
        return f"nothing of {array.name}"
    axes = [np.unique(column).tolist() for column in at.T]
    if np.prod([len(values) for values in axes]) == len(at):
        grid = [f"{a}={several(values)}" for a, values in zip(array.letters, axes, strict=True)]
        return f"{array.name}[{','.join(grid)}]"
    if len(at) > MOST_SHOWN:
        return ""
    return either([f"{array.name}[{axis_index(array.letters, row)}]" for row in at], "and")


def several(values: list[int]) -> str:
    """`2`, `2 to 5` or `{2,4}`."""
    if len(values) == 1:
        return str(values[0])
    whole = values[-1] - values[0] == len(values) - 1
    return f"{values[0]} to {values[-1]}" if whole else f"{{{','.join(map(str, values))}}}"


def other_weight(want: Terms, got: Terms) -> str:
    """The same elements, multiplied by other numbers."""
    a, b = np.argsort(want.keys(), kind="stable"), np.argsort(got.keys(), kind="stable")
    if len(a) != len(b) or (want.keys()[a] != got.keys()[b]).any():
        return ""
    wrong = np.flatnonzero(~np.isclose(want.times[a], got.times[b], rtol=1e-4))
    if not len(wrong):
        return ""
    i = wrong[0]
    place, source = element(got, 0, b[i]), element(got, 1, b[i])
    right, now = want.times[a[i]], got.times[b[i]]
    if len(want.arrays) == 2 and all(0 < x < _ONE and abs(1 / x - round(1 / x)) < 1e-3 for x in (right, now)):
        return f"for {place}, {source} is divided by {round(1 / now)}; it should be by {round(1 / right)}."
    if right == 1 and 0 < now < _ONE and abs(1 / now - round(1 / now)) < 1e-3:
        return f"for {place}, {source} is divided by {round(1 / now)}; it should not be."
    return f"for {place}, {source} is added {how_often(now)}; it should be {how_often(right)}."


def how_often(times: float) -> str:
    return "once" if times == 1 else f"{times:.4g} times"
