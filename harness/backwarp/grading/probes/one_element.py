"""What is wrong in one element of the output, if no rule covers all: at most two of its terms, or how often
one is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod

import numpy as np

from ..compare import axis_index, either
from ..findings import Finding
from .summed import Terms

MOST_SHOWN = 6  # elements that are listed one by one
LEAST_TERMS = 4  # needed for a common factor
_ONE = 1 - 1e-6
CLOSE = 1e-4  # of a factor: float32 may have rounded it twice


def one_element(want: Terms, got: Terms, scalars: Mapping[str, float] | None = None) -> Finding | None:
    """At most two terms of a wrong element. scalars: the kernel's parameters that are fractions."""
    lacking, surplus = (t.only(~np.isin(t.keys(), other.keys())) for t, other in ((want, got), (got, want)))
    both = set(lacking.flat(0)), set(surplus.flat(0))
    wrong = sorted(both[0] & both[1]) or sorted(both[0] | both[1])
    if not wrong:
        return other_weight(want, got, scalars or {})
    at = wrong[0]
    less, more = lacking.only(lacking.flat(0) == at), surplus.only(surplus.flat(0) == at)
    (place,) = {element(t, 0, 0) for t in (less, more) if len(t.at)} or {""}
    if len(less.at) and len(more.at) and len(want.arrays) == 3:
        for i, j in ((1, 2), (2, 1)):
            both = np.argwhere(less.flat(i)[:, None] == more.flat(i))
            if len(both):
                a, b = both[0]
                factors = dict(factor=element(less, i, a), now=element(more, j, b), right=element(less, j, a))
                return Finding.of("other_factor", place=place, **factors)
    lacks, has = (product(terms) if len(terms.at) else "" for terms in (less, more))
    says = [Finding.of("other_terms", place=place, lacks=lacks, has=has, several=len(more.at) > 1)]
    whole = [t.only(t.flat(0) == at) for t in (got, want)]
    if len(want.arrays) == 2 and place and all(len(t.at) and (t.times == 1).all() for t in whole):
        sets = [elements(t) for t in whole]
        if all(sets):
            says.append(Finding.of("other_sum", place=place, now=sets[0], right=sets[1]))
    return min(says, key=lambda f: len(str(f)))


def one_each(want: Terms, got: Terms) -> Finding | None:
    """Every sum has at most one of its terms, and some should have several."""
    most = [int(np.bincount(t.flat(0), minlength=1).max()) for t in (want, got)]
    if most[1] != 1 or most[0] < 2:
        return None
    out, *factors = (a.name for a in want.arrays)
    return Finding.of("one_term_each", out=out, array="" if factors[1:] else factors[0], most=most[0])


def element(terms: Terms, i: int, row: int) -> str:
    array = terms.arrays[i]
    return f"{array.name}[{axis_index(array.letters, terms.at[row, terms.columns(i)])}]"


def product(terms: Terms) -> str:
    factors = ([element(terms, i, row) for i in range(1, len(terms.arrays))] for row in range(len(terms.at)))
    shown = [*map(" * ".join, factors)]
    more = len(shown) - 2
    return either(shown[:2], "and") if more < 1 else f"{shown[0]} and {more + 1} more"


def elements(terms: Terms) -> str:
    """`input[b=0,c=0,h=0 to 1,w={0,3}]` if they form such a grid, else one by one; "" for too many."""
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


def other_weight(want: Terms, got: Terms, scalars: Mapping[str, float]) -> Finding | None:
    """The same elements, multiplied by other numbers."""
    a, b = np.argsort(want.keys(), kind="stable"), np.argsort(got.keys(), kind="stable")
    if len(a) != len(b) or (want.keys()[a] != got.keys()[b]).any():
        return None
    wrong = np.flatnonzero(~np.isclose(want.times[a], got.times[b], rtol=1e-4))
    if not len(wrong):
        return None
    i = wrong[0]
    facts = dict(place=element(got, 0, b[i]), source=element(got, 1, b[i]))
    right, now = float(want.times[a[i]]), float(got.times[b[i]])
    if len(want.arrays) == 2 and all(0 < x < _ONE and abs(1 / x - round(1 / x)) < 1e-3 for x in (right, now)):
        return Finding.of("other_divisor", now=round(1 / now), right=round(1 / right), **facts)
    if right == 1 and 0 < now < _ONE and abs(1 / now - round(1 / now)) < 1e-3:
        return Finding.of("other_divisor", now=round(1 / now), right=1, **facts)
    ratios = got.times[b] / want.times[a]
    if len(ratios) >= LEAST_TERMS and np.allclose(ratios, ratios[0], rtol=1e-4) and 0 < ratios[0] < _ONE:
        facts = dict(ratio=float(ratios[0]), called=in_scalars(ratios[0], scalars))
        return Finding.of("other_share", out=want.arrays[0].name, array=want.arrays[1].name, **facts)
    if scalars and (called := in_scalars(now, scalars)) != (expected := in_scalars(right, scalars)):
        return Finding.of("other_scalar", now=f"{now:.4g}{called}", right=f"{right:.4g}{expected}", **facts)
    return Finding.of("other_times", now=now, right=right, **facts)


def in_scalars(factor: float, scalars: Mapping[str, float]) -> str:
    """` (-learning_rate * momentum)`: the only product of some of these that a factor is, or 1 plus or minus one."""
    for count in range(1, len(scalars) + 1):
        some = combinations(scalars, count)
        known = [(" * ".join(names), prod(scalars[n] for n in names)) for names in some]
        for form, of in (("{}", 0), ("-{}", 0), ("1 - {}", 1), ("1 + {}", 1)):
            sign = -1 if "-" in form else 1
            found = [name for name, x in known if abs(of + sign * x - factor) < CLOSE * abs(factor)]
            if found:
                return f" ({form.format(found[0])})" if len(found) == 1 else ""
    return ""
