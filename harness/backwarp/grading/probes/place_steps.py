"""What to say about a place in a whole array that a kernel computes with other steps than the right ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ..findings import Finding
from .rules import Column, Linear, columns_of
from .summed import Terms


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
