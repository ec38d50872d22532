"""Wrong integers: places in an input that follow another formula, or that hold an equal value; numbers that
are all too large, or too small, by the same amount."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ...course.declare import Kernel
from ...course.parameters import Array, Scalar
from ..compare import Expected, axis_index, reference_arrays
from ..findings import Finding
from ..probes.rules import EXACT, Linear, nearest
from .summands import reference

if TYPE_CHECKING:
    from .naming import Observation

LEAST = 4  # elements needed for a conclusion


def explain(kernel: Kernel, observations: Sequence[Observation]) -> Finding | None:
    """On the only wrong output, if it holds integers."""
    failed = [o for o in observations if o.failed]
    wrong = {t.array.name for o in failed for t in o.targets if not t.right(o.results[t.array.name]).all()}
    if len(wrong) != 1:
        return None
    (name,) = wrong
    seen = [(o, next(t for t in o.targets if t.array.name == name)) for o in failed]
    seen = [(o, t) for o, t in seen if not left_out(o, t)]
    if not seen or not seen[0][1].array.dtype.startswith("int"):
        return None
    source = counted(kernel, *seen[0])
    if source:
        what = of_equals(kernel, source, seen) or by_a_constant(seen) or other_formula(kernel, source, seen)
        return what or by_a_constant(seen, those_wrong=True)
    return by_a_constant(seen, those_wrong=True)


def left_out(o: Observation, target: Expected) -> bool:
    """Whether an element was never written."""
    written = o.written.get(target.array.name)
    return written is not None and not written.all()


def counted(kernel: Kernel, o: Observation, target: Expected) -> Array | None:
    """The input whose planes the right integers are indices into; the output has its leading axes."""
    if len(target.array.letters) < 4:
        return None
    for a in (a for a in kernel.arrays if a.role == "in" and a.dtype == "float32"):
        same = a.letters[:-2] == target.array.letters[:-2] and len(a.letters) == len(target.array.letters)
        if same and (target.values >= 0).all() and target.values.max() < plane(a, o):
            return a
    return None


def plane(a: Array, o: Observation) -> int:
    return int(np.prod(o.arrays[a.name].shape[-2:]))


# -- equal values ----------------------------------------------------------------------------------------------


def of_equals(kernel: Kernel, a: Array, seen: Sequence[tuple[Observation, Expected]]) -> Finding | None:
    """Which of several equal elements counts; or that the one chosen is not in the window of this output."""
    signs, first = set(), {}
    for o, target in seen:
        got, want = o.results[target.array.name].astype(np.int64), target.values.astype(np.int64)
        wrong = np.argwhere(got != want)
        if (got < 0).any() or (got >= plane(a, o)).any():
            return None
        for at in map(tuple, wrong):
            x = o.arrays[a.name][at[:-2]].ravel()[[got[at], want[at]]]
            if x[0] != x[1] and not np.isnan(x).all():
                return None
            signs.add((bool(want[at] > got[at]), bool(np.isnan(x).all())))
            if not first:
                width = o.arrays[a.name].shape[-1]
                h, w = a.letters[-2:]
                places = [f"{h}={n // width},{w}={n % width}" for n in (want[at], got[at])]
                name = f"{target.array.name}[{axis_index(target.array.letters, at)}]"
                first = dict(name=name, right=places[0], now=places[1])
                if not may_be(kernel, a, o, target, at):
                    return Finding.of("place_outside_window", **first)
                first |= dict(array=a.name, value=float(x[0]))
    if not signs:
        return None
    later, nan = signs.pop() if len(signs) == 1 else (None, False)
    return Finding.of("place_of_equal", later=later, nan=nan, **first)


def may_be(kernel: Kernel, a: Array, o: Observation, target: Expected, at: tuple[int, ...]) -> bool:
    """Whether the place that an output holds would be right if the element there were by far the largest."""
    arrays, place = reference_arrays(o.arrays), int(o.results[target.array.name][at])
    x = np.zeros_like(arrays[a.name])
    x[at[:-2]].flat[place] = 1
    return int(reference(kernel, {**arrays, a.name: x}, o.dims)[target.array.name][at]) == place


# -- formulas --------------------------------------------------------------------------------------------------


def other_formula(kernel: Kernel, a: Array, seen: Sequence[tuple[Observation, Expected]]) -> Finding | None:
    """The places as affine functions of the row, the column and the output's own place, in every case of
    plain numbers; the formula of most cases is told, as small ones fit simpler ones as well."""
    letters, rules = [*a.letters[-2:], *seen[0][1].array.letters], []
    for o, target in seen:
        if o.case.special:
            continue
        width = o.arrays[a.name].shape[-1]
        want, at = target.values.astype(np.int64).ravel(), np.indices(target.values.shape)
        base = np.column_stack([want // width, want % width, *(axis.ravel() for axis in at)])
        right = Linear((Fraction(width), Fraction(1), *[Fraction(0)] * (base.shape[1] - 1)))
        got = o.results[target.array.name].ravel()
        if not is_linear(base, got):
            return None
        rule = nearest(right, base, got)
        if rule and rule != right:
            rules.append((o, width, right, rule))
    if not rules:
        return None
    often = Counter(rule for *_, rule in rules)
    o, width, right, rule = max(rules, key=lambda each: often[each[-1]])
    name, factor = seen[0][1].array.name, rule.factors[0]
    of = sized(kernel, o.dims, int(factor)) if factor.denominator == 1 and factor != width else ""
    named = {sized(kernel, each.dims, int(f.factors[0])).split(" = ")[0] for each, *_, f in rules}
    if named != {of.split(" = ")[0]}:
        of = ""  # by chance
    return Finding.of(
        "place_formula",
        case=o.case.name,
        out=name,
        now=f"{rule.text(letters)}{of}",
        right=f"{right.text(letters)}{sized(kernel, o.dims, width)}",
        array=a.name,
    )


def is_linear(base: np.ndarray, values: np.ndarray) -> bool:
    places = np.column_stack([base, np.ones(len(base))])
    return bool((np.abs(places @ np.linalg.lstsq(places, values, rcond=None)[0] - values) < EXACT).all())


def sized(kernel: Kernel, dims: Mapping[str, int], value: int) -> str:
    """` (W = 5)`, if only one parameter has this value."""
    names = [p.name for p in kernel.params if isinstance(p, Scalar) and p.resolve(dims) == value]
    return f" ({names[0]} = {value})" if len(names) == 1 and value > 1 else ""


def by_a_constant(seen: Sequence[tuple[Observation, Expected]], those_wrong: bool = False) -> Finding | None:
    """All elements, or all wrong ones, differ from the expected ones by the same amount."""
    apart = [o.results[t.array.name].astype(np.int64) - t.values.astype(np.int64) for o, t in seen]
    apart = np.concatenate([x.ravel() for x in apart])
    only_wrong = bool(those_wrong and not apart.all())
    apart = apart[apart != 0] if those_wrong else apart
    if len(apart) < LEAST or len(np.unique(apart)) != 1:
        return None
    return Finding.of("integer_offset", array=seen[0][1].array.name, by=int(apart[0]), only_wrong=only_wrong)
