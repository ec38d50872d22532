"""Explaining a wrong output by its inputs: it is what the right kernel computes from other inputs.

With `bias` 0, `b` in place of `a`, only the last image, a filter in another layout: the reference gives the
result. If it is linear in an array, each element is one term of the sums, and an output may be only its last
term. As in naming.py, an explanation is told only if it is the only one for everything that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import numpy as np

from ...course.declare import Kernel
from ...course.parameters import Array, Scalar
from ...errors import CourseError
from ..compare import axis_index, reference_arrays, show_pair
from ..findings import Finding
from ..probes.budget import Budget, Spent
from .summands import otherwise_joined, reference, times

if TYPE_CHECKING:
    from .naming import Observation

Inputs = Mapping[str, np.ndarray]
LARGE = 1 << 15  # elements of all arrays of a case
MOST_TERMS = 256
MOST_TRIED = 3000  # results; those of large cases count as several
EACH = 2000  # elements of a case, that count as one more


@dataclass(frozen=True)
class Other:
    """Other inputs. key: equal for equivalent ones; change: what to make of each array; scalars: other
    parameters."""

    key: tuple
    finding: Finding
    change: Callable[[Inputs], Inputs]
    scalars: Callable[[Mapping], Mapping] = lambda dims: dims
    of: str = ""


def of_all(same: Sequence[Other]) -> Finding:
    """Equivalent explanations as one: if `input` is reversed, or if `weights` is, the products are the same."""
    of = list(dict.fromkeys(other.of for other in same))
    return (
        Finding.of("reversed", **(dict(same[0].finding.facts) | {"arrays": of})) if of[0] else same[0].finding
    )


def explain(
    kernel: Kernel,
    observations: Sequence[Observation],
    fits: Callable[[Mapping, Observation], bool],
    differs: Callable[[Mapping, Observation], bool],
) -> Finding | None:
    """What is found; None if it is nothing or more than one. fits, differs: see naming.predicts and
    naming.differs."""
    seen = [o for o in observations if sum(a.size for a in o.arrays.values()) <= LARGE]
    wrong = [t.array for o in seen for t in o.targets if not t.right(o.results[t.array.name]).all()]
    if not wrong:
        return None
    seen = [replace(o, targets=tuple(t for t in o.targets if t.array in wrong)) for o in seen]
    failed, out = [o for o in seen if o.failed], next(a for a in kernel.outputs if a in wrong).name
    first, left = failed[0], []
    budget = Budget(MOST_TRIED)

    def explains(other: Other, o: Observation) -> bool:
        budget.spend(1 + sum(a.size for a in o.arrays.values()) // EACH)
        return fits(computed(kernel, o, other), o)

    with suppress(Spent):
        left = [other for other in candidates(kernel, first, out) if explains(other, first)]
        for o in sorted((o for o in seen if o is not first), key=lambda o: not o.failed):
            left = [other for other in left if explains(other, o)]
    if budget.left < 0:
        return None  # what is left might not explain the other cases, and others might explain all
    left = [other for other in left if differs(computed(kernel, first, other), first)]
    if any("and" not in other.key for other in left):
        left = [other for other in left if "and" not in other.key]
    if len({other.key for other in left}) == 1:
        rest = [a.name for a in kernel.outputs if a not in wrong]
        return replace(of_all(left), also=Finding.of("others_right", names=rest) if rest else None)
    if left and all(other.key[0] == 0 for other in left):  # both are factors of the same products
        return Finding.of("no_part", names=[other.key[1] for other in left], out=out)
    if left or len(kernel.outputs) > 1:
        return None
    return terms_of(kernel, seen, fits, differs) or times(kernel, failed) or otherwise_joined(kernel, failed)


def computed(kernel: Kernel, seen: Observation, other: Other) -> Mapping[str, np.ndarray] | None:
    try:
        with np.errstate(all="ignore"):
            return reference(kernel, other.change(reference_arrays(seen.arrays)), other.scalars(seen.dims))
    except (ValueError, IndexError, KeyError, ArithmeticError, CourseError):  # there are no such inputs here
        return None


# -- other inputs --------------------------------------------------------------------------------------------


def candidates(kernel: Kernel, seen: Observation, out: str) -> Iterator[Other]:
    """out: the name of the first output that is wrong."""
    inputs = [a for a in kernel.arrays if a.role in ("in", "constant") and a.dtype.startswith("float")]
    yield from other_scalars(kernel, out)
    for a in inputs:
        for value in (0, 1):
            yield Other(
                (value, a.name),
                Finding.of("as_if_constant", out=out, array=a.name, value=value),
                replaced(a, lambda x, value=value: np.full_like(x, value)),
            )
        for way, (what, change) in KEPT.items():
            yield Other(
                (way, a.name), Finding.of("as_if", out=out, what=f"{what} {a.name} is 0"), replaced(a, change)
            )
        own = next((p.letters for p in kernel.outputs if p.name == out), "")
        yield from slices(a, out, own)
        for i, letter in enumerate(a.letters):
            yield Other(
                ("same", a.name, letter),
                Finding.of("as_if_first", out=out, letter=letter, array=a.name),
                replaced(a, lambda x, i=i: np.repeat(x.take([0], i), x.shape[i], i)),
            )
        yield from layouts(a, out)
    for letter in sorted({letter for a in inputs for letter in a.letters}):
        shared = [a for a in inputs if letter in a.letters]
        if len(shared) > 1:
            yield Other(
                ("same", letter),
                Finding.of(
                    "as_if",
                    out=out,
                    what=f"every {letter} of {' and '.join(a.name for a in shared)} is the first one",
                ),
                lambda arrays, shared=shared, letter=letter: all_first(arrays, shared, letter),
            )
    for a, b in permutations(inputs, 2):
        if a.shape(seen.dims) == b.shape(seen.dims):
            yield Other(
                (a.name, "by", b.name),
                Finding.of("as_if", out=out, what=f"{b.name} is read in the place of {a.name}"),
                lambda arrays, a=a, b=b: {**arrays, a.name: arrays[b.name]},
            )
    for a, b in combinations(inputs, 2):
        if a.shape(seen.dims) == b.shape(seen.dims):
            yield Other(
                (a.name, "and", b.name),
                Finding.of("as_if", out=out, what=f"{a.name} and {b.name} change places"),
                lambda arrays, a=a, b=b: {**arrays, a.name: arrays[b.name], b.name: arrays[a.name]},
            )


KEPT: Mapping[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "above 0": ("every negative element of", lambda x: np.maximum(x, 0)),
    "below 0": ("every positive element of", lambda x: np.minimum(x, 0)),
}


def other_scalars(kernel: Kernel, out: str) -> Iterator[Other]:
    """Two parameters swapped, or one in place of another; a fraction as 0 or 1. Not sizes of arrays."""
    sizes = {size for a in kernel.arrays for _, size in a.axes}
    known = [p for p in kernel.params if isinstance(p, Scalar) and p.value is None and p.name not in sizes]

    def other(key: tuple, what: str, change: Callable[[Mapping], Mapping]) -> Other:
        return Other(key, Finding.of("as_if", out=out, what=what), lambda a: a, lambda d: {**d, **change(d)})

    for p in (p for p in known if p.dtype.startswith("float")):
        for value in (0, 1):
            yield other((p.name, value), f"{p.name} is {value}", lambda d, n=p.name, value=value: {n: value})
    for a, b in permutations(known, 2):
        if a.dtype != b.dtype:
            continue
        yield other(
            (a.name, b.name),
            f"{b.name} is used in the place of {a.name}",
            lambda d, a=a.name, b=b.name: {a: d[b]},
        )
        if a.name < b.name:
            yield other(
                (a.name, "and", b.name),
                f"{a.name} and {b.name} change places",
                lambda d, a=a.name, b=b.name: {a: d[b], b: d[a]},
            )


def all_first(arrays: Inputs, shared: Sequence[Array], letter: str) -> Inputs:
    changed = dict(arrays)
    for a in shared:
        x, i = arrays[a.name], a.letters.index(letter)
        changed[a.name] = np.repeat(x.take([0], i), x.shape[i], i)
    return changed


def replaced(a: Array, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Inputs], Inputs]:
    return lambda arrays: {**arrays, a.name: change(arrays[a.name])}


def slices(a: Array, out: str, own: Sequence[str]) -> Iterator[Other]:
    """Only the first or the last along some axes, or all but these along one. own: the output's axes; nothing is
    added up along these in a right kernel either."""
    axes = range(len(a.letters))
    for count in (1, 2, 3):
        for chosen in combinations(axes, min(count, len(a.letters))):
            letters = "".join(a.letters[i] for i in chosen)
            summed = set(own).isdisjoint(letters)
            for which, place in (("first", 0), ("last", -1)):
                yield Other(
                    (which, letters),
                    Finding.of(
                        "end_alone", out=out, which=which, letters=letters, array=a.name, summed=summed
                    ),
                    replaced(a, lambda x, chosen=chosen, place=place: kept(x, chosen, place)),
                )
                if count == 1:
                    yield Other(
                        ("but", which, letters),
                        Finding.of("end_left_out", which=which, letter=letters, array=a.name, out=out),
                        replaced(a, lambda x, chosen=chosen, place=place: x - kept(x, chosen, place)),
                    )


def kept(x: np.ndarray, axes: tuple[int, ...], place: int) -> np.ndarray:
    """The elements at one end of some axes; 0 elsewhere."""
    at = tuple(place if i in axes else slice(None) for i in range(x.ndim))
    result = np.zeros_like(x)
    result[at] = x[at]
    return result


def layouts(a: Array, out: str) -> Iterator[Other]:
    """Reversed along axes, or read as if the axes were in another order."""
    axes = range(len(a.letters))
    for count in range(1, len(a.letters) + 1):
        for chosen in combinations(axes, count):
            named = " and ".join(a.letters[i] for i in chosen)
            yield Other(
                ("reversed", named),
                Finding.of("reversed", out=out, arrays=[a.name], letters=named),
                replaced(a, lambda x, chosen=chosen: np.flip(x, chosen)),
                of=a.name,
            )
    for order in permutations(axes) if 1 < len(a.letters) <= 4 else ():
        if order != tuple(axes):
            laid, plain = (",".join(a.letters[i] for i in o) for o in (order, axes))
            yield Other(
                ("laid", a.name, order),
                Finding.of("as_if_laid_out", out=out, array=a.name, laid=laid, plain=plain),
                replaced(a, lambda x, order=order: laid_out(x, order)),
            )


def laid_out(x: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    shape = [x.shape[i] for i in order]
    if all(x.shape[i] == 1 for i, o in enumerate(order) if i != o):
        raise ValueError("nothing changes")
    return x.ravel().reshape(shape).transpose(np.argsort(order))


# -- the terms of a sum --------------------------------------------------------------------------------------


def terms_of(
    kernel: Kernel, seen: Sequence[Observation], fits: Callable, differs: Callable
) -> Finding | None:
    """Whether every output is only its first or last term, or all but these."""
    failed = [o for o in seen if o.failed]
    for a in kernel.arrays:
        if a.role not in ("in", "constant") or not a.dtype.startswith("float"):
            continue
        small = [o for o in seen if o.arrays[a.name].size <= MOST_TERMS]
        if not small or failed[0] is not small[0] or failed[0].arrays[a.name].size < 2:
            continue
        ways = [Terms(kernel, a, o).ways() for o in small[:3]]
        for way in ways[0] if ways[0] else ():
            if all(w and fits(w[way], o) for w, o in zip(ways, small, strict=False)):
                if differs(ways[0][way], failed[0]):
                    return Terms(kernel, a, failed[0]).described(way)
    return None


@dataclass
class Terms:
    """What every element of one array adds to every output, if the outputs are linear in it."""

    kernel: Kernel
    array: Array
    seen: Observation

    def ways(self) -> dict[str, dict[str, np.ndarray]]:
        """Values of the output by how they were computed; {} if there are no terms."""
        name, base, each, exists = self._each()
        if each is None or (exists.sum(0) < 1).all():
            return {}
        count = len(each)
        last = count - 1 - np.argmax(exists[::-1], axis=0)
        first = np.argmax(exists, axis=0)
        some = exists.any(axis=0)
        pick = {
            way: np.where(some, np.take_along_axis(each, at[None], 0)[0], 0)
            for way, at in (("last", last), ("first", first))
        }
        whole = each.sum(0)
        found = {}
        for way, values in pick.items():
            found[way] = {name: base + values}
            found[way, "without the start"] = {name: values}
            found["but", way] = {name: base + whole - values}
        return found

    def _each(self):
        """(output, its value without the array, each element's term, whether the element has one)."""
        arrays, dims = reference_arrays(self.seen.arrays), self.seen.dims
        name = self.kernel.outputs[0].name

        def out(values: np.ndarray, others: Callable[[np.ndarray], np.ndarray] = lambda x: x) -> np.ndarray:
            changed = {n: x if x.dtype.kind != "f" else others(x) for n, x in arrays.items()}
            return reference(self.kernel, {**changed, self.array.name: values}, dims)[name]

        x = arrays[self.array.name]
        one = np.eye(x.size).reshape(x.size, *x.shape)
        base = out(np.zeros_like(x))
        full = out(x)
        if not (np.isfinite(base).all() and np.isfinite(full).all()):
            return name, base, None, None
        each = np.stack([out(unit * x) - base for unit in one])
        if not np.allclose(each.sum(0) + base, full, rtol=1e-6, atol=1e-6 * (np.abs(full).max() + 1)):
            return name, base, None, None
        plain = out(np.zeros_like(x), np.ones_like)
        exists = np.stack([out(unit, np.ones_like) != plain for unit in one])
        return name, base, each, exists

    def described(self, way) -> Finding:
        name, base, each, exists = self._each()
        target = self.seen.targets[0]
        got = self.seen.results[name]
        wrong = ~target.right(got) & (exists.sum(0) > 1)
        at = tuple(np.argwhere(wrong)[0]) if wrong.any() else (0,) * got.ndim
        ends = np.flatnonzero(exists[(slice(None), *at)])
        which = "last" if "last" in way else "first"
        j = ends[-1 if which == "last" else 0]
        index = axis_index(self.array.letters, np.unravel_index(j, self.seen.arrays[self.array.name].shape))
        x = float(self.seen.arrays[self.array.name].flat[j])
        value = float(got[at])
        other = float(each[(j, *at)]) / x if x else 0.0
        place, term = f"{name}[{axis_index(target.array.letters, at)}]", f"{self.array.name}[{index}]"
        product = f"{show_pair(x, x + 1)[0]} * {show_pair(other, other + 1)[0]}"
        facts = dict(place=place, count=len(ends), which=which, term=term, product=product)
        if "but" in way:
            return Finding.of("all_terms_but_one", **facts)
        return Finding.of("one_term_alone", value=show_pair(value, value + 1)[0], **facts)
