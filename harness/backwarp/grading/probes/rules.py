"""How the places of the elements in one array follow from those in the others, in the terms of a sum.

`h` of the input is `2 * p + r - 1`, an affine function, or `c` is looked up by `k` in a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np

from .summed import Terms

EXACT = 1e-6
LARGEST = 12  # denominator of a factor
SOME = 500  # terms from which a rule is derived; then it is checked on all


@dataclass(frozen=True)
class Column:
    """An axis of one of the arrays."""

    number: int  # in Terms.at
    array: int
    letter: str
    size: int
    step: int  # in elements
    steps: str  # its name: `H * W`


@dataclass(frozen=True)
class Linear:
    """An affine function of the base's columns, with the constant last; factors may be halves or thirds."""

    factors: tuple[Fraction, ...]

    def of(self, base: np.ndarray) -> np.ndarray:
        factors = np.array([float(f) for f in self.factors])
        return base @ factors[:-1] + factors[-1]

    def fits(self, base: np.ndarray, values: np.ndarray) -> bool:
        return bool((np.abs(self.of(base) - values) < EXACT).all())

    @property
    def is_whole(self) -> bool:
        return all(f.denominator == 1 for f in self.factors)

    def where_moving(self, base: np.ndarray) -> Linear:
        """The same for these places, with the columns that are constant there taken into the constant."""
        still = [i for i in range(base.shape[1]) if not np.ptp(base[:, i])]
        factors = [Fraction(0) if i in still else f for i, f in enumerate(self.factors)]
        factors[-1] += sum(self.factors[i] * int(base[0, i]) for i in still)
        return Linear(tuple(factors))

    def text(self, letters: Sequence[str]) -> str:
        parts = [(f, multiple(abs(f), letter)) for f, letter in zip(self.factors, letters, strict=False) if f]
        if self.factors[-1] or not parts:
            parts.append((self.factors[-1], str(abs(self.factors[-1]))))
        parts.sort(key=lambda p: p[0] < 0)
        return "".join(f" {'-' if f < 0 else '+'} {part}" for f, part in parts).strip("+ ")


def multiple(factor: Fraction, letter: str) -> str:
    above = letter if factor.numerator == 1 else f"{factor.numerator} * {letter}"
    return above if factor.denominator == 1 else f"{above} / {factor.denominator}"


def fractions(numbers: np.ndarray) -> list[Fraction]:
    """The nearest fractions with small denominators."""
    return [Fraction(float(x)).limit_denominator(LARGEST) for x in numbers]


@dataclass(frozen=True)
class Table:
    """A value for each combination of the values of some columns."""

    by: tuple[int, ...]
    values: dict[tuple[int, ...], int]

    def fits(self, base: np.ndarray, values: np.ndarray) -> bool:
        return bool((self.of(base) == values).all())

    def of(self, base: np.ndarray) -> np.ndarray:
        """-1 if there is none."""
        return np.array([self.values.get(tuple(row), -1) for row in base[:, self.by].tolist()], int)


def columns_of(terms: Terms) -> list[Column]:
    found = []
    for i, (array, shape) in enumerate(zip(terms.arrays, terms.shapes, strict=True)):
        for axis, ((letter, _), size) in enumerate(zip(array.axes, shape, strict=True)):
            later = [str(name) for _, name in array.axes[axis + 1 :]]
            step = int(np.prod(shape[axis + 1 :]))
            found.append(Column(len(found), i, letter, size, step, " * ".join(later) or "1"))
    return found


@dataclass(frozen=True)
class View:
    """The places in one array, and the axes that the others share, as functions of the rest, the base."""

    dependent: int
    base: tuple[Column, ...]
    rest: tuple[Column, ...]
    rules: tuple  # of the right terms, one for each column of `rest`

    @property
    def letters(self) -> list[str]:
        return [c.letter for c in self.base]

    def of(self, terms: Terms) -> np.ndarray:
        return terms.at[:, [c.number for c in self.base]]


@lru_cache(1)
def views(want: Terms) -> list[View]:
    """Views in which the largest input depends on the others come first, those in which the output does come last."""
    columns = columns_of(want)
    arrays = [[c for c in columns if c.array == i] for i in reversed(range(len(want.arrays)))]
    found = [view for own in arrays if (view := view_of(want, columns, own))]
    return sorted(found, key=lambda view: not all(isinstance(r, Table) or r.is_whole for r in view.rules))


@lru_cache(1)
def views_of_parts(want: Terms) -> list[View]:
    """The views in which the axes combined in a merged axis depend on the others."""
    columns = columns_of(want)
    parts = [[columns[i] for i in numbers] for numbers in want.parts]
    return [view for own in parts if (view := view_of(want, columns, own))]


def view_of(want: Terms, columns: Sequence[Column], dependent: Sequence[Column]) -> View | None:
    base: list[Column] = []
    for c in columns:
        if c not in dependent and c.letter not in [known.letter for known in base]:
            base.append(c)
    rest = [c for c in columns if c not in base]
    places = want.at[:, [c.number for c in base]]
    rules = [rule_of(places, want.at[:, c.number], [b.letter == c.letter for b in base]) for c in rest]
    return None if None in rules else View(dependent[0].array, tuple(base), tuple(rest), tuple(rules))


def rule_of(base: np.ndarray, values: np.ndarray, same: list[bool]) -> Linear | Table | None:
    """The rule by which these values follow from the base. same: the column of the base with the same letter."""
    if True in same and (base[:, same.index(True)] == values).all():
        return Linear((*map(Fraction, map(int, same)), Fraction(0)))
    return linear(base, values) or table(base, values)


def linear(base: np.ndarray, values: np.ndarray) -> Linear | None:
    """The only affine rule in the columns that change."""
    moving = [i for i in range(base.shape[1]) if len(base) and np.ptp(base[:, i])]
    places = np.column_stack([base[:, moving], np.ones(len(base))])
    if len(base) <= len(moving) + 1:
        return None
    few = some(len(base))
    solved, _, rank, _ = np.linalg.lstsq(places[few], values[few], rcond=None)
    if rank < len(moving) + 1:
        return None
    factors = dict(zip([*moving, -1], fractions(solved), strict=True))
    rule = Linear((*(factors.get(i, Fraction(0)) for i in range(base.shape[1])), factors[-1]))
    return rule if rule.fits(base, values) else None


def table(base: np.ndarray, values: np.ndarray) -> Table | None:
    """A table over one or two columns."""
    for count in (1, 2):
        for by in combinations(range(base.shape[1]), count):
            rows, first, each = np.unique(base[:, by], axis=0, return_index=True, return_inverse=True)
            if 2 * len(rows) <= len(base) and (values[first][each.ravel()] == values).all():
                return Table(by, dict(zip(map(tuple, rows.tolist()), values[first].tolist(), strict=True)))
    return None


def some(count: int) -> np.ndarray:
    """Numbers of some terms, chosen at random."""
    return np.random.default_rng(0).permutation(count)[:SOME]


def nearest(rule: Linear, base: np.ndarray, values: np.ndarray) -> Linear | None:
    """The rule that fits these values with the fewest factors different from a given one; None if several do."""
    places = np.column_stack([base, np.ones(len(base), int)])
    left, few = values - rule.of(base), some(len(base))
    moving = [i for i in range(places.shape[1]) if i == base.shape[1] or np.ptp(places[:, i])]
    for count in (1, 2):
        found = []
        for changed in combinations(moving, count):
            chosen = places[:, changed]
            solved = fractions(np.linalg.lstsq(chosen[few], left[few], rcond=None)[0])
            factors = list(rule.factors)
            for i, more in zip(changed, solved, strict=True):
                factors[i] += more
            whole = {f.denominator for f in factors} <= {1, *(f.denominator for f in rule.factors)}
            if all(solved) and whole and Linear(tuple(factors)).fits(base, values):
                found.append(Linear(tuple(factors)))
        if found:
            return found[0] if len(found) == 1 else None
    other = linear(base, values)
    if not other or not other.is_whole:
        return None
    still = [i for i in range(base.shape[1]) if i not in moving]  # nothing shows their factors
    factors = [rule.factors[i] if i in still else f for i, f in enumerate(other.factors)]
    factors[-1] -= sum(rule.factors[i] * int(base[0, i]) for i in still)
    return Linear(tuple(factors))
