"""What a wrong kernel sums: the terms of every element of its output, found by running it.

A right result is a sum of products of the elements of two arrays, or of the elements of one. If one array is
0 except for a single 1, every element of the output holds what this 1 is multiplied by; the numbers of the
other array are all different, so that each can be recognized. However a kernel is written, this shows which
elements it multiplies and where it adds the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from ...course.declare import Case, Kernel, Puzzle
from ...course.parameters import Array, Scalar
from ...errors import BackwarpError, KernelFault
from ..compare import right_outputs
from ..race_timeline import kept
from ..runs import Setup, Trial, place, start, start_again
from .budget import ACCESSES, FAILED, LAUNCH, RIGHT, Budget, Spent

MOST = 240  # launches
MOST_TERMS = 40000
OF_ELEMENT = 20_000  # work, as of Budget, for the terms of an element
LEAST = 1 << 20  # the numbers of the other array: integers from here to twice this
SHORT = 1 << 10  # the same for numbers of 11 bits, as in half and TF32
OFTEN = (1, 2, -1, 3, 4, 5, 6, 7, 8, 16, 32)  # these multiples of such a number are exact
SHORT_OFTEN = (1, 2, -1, 4, 8)  # the same for short ones: no two products are equal
HEAVY = 8000  # elements of all arrays of a case, above which a launch takes long
FLOATS = ("float32", "float16")

STOPPED = "threads that left an array"
Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Arrays | None]  # inputs -> outputs


@dataclass(frozen=True, eq=False)
class Terms:
    """arrays: the output, then one or two whose elements are multiplied. at: the indices into each array in
    each term, [terms, axes of all arrays]. times: how often a term is added, or what an element is multiplied
    by. stopped: the flat indices of output elements whose threads left an array; nothing is known about them.
    parts: the columns of `at` that one merged axis of an array is made of."""

    arrays: tuple[Array, ...]
    shapes: tuple[tuple[int, ...], ...]
    at: np.ndarray
    times: np.ndarray
    stopped: tuple[int, ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()

    def columns(self, i: int) -> slice:
        """Those of `at` that belong to an array."""
        start = sum(len(shape) for shape in self.shapes[:i])
        return slice(start, start + len(self.shapes[i]))

    def flat(self, i: int) -> np.ndarray:
        """The flat indices into one array."""
        shape = self.shapes[i]
        steps = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        return self.at[:, self.columns(i)] @ np.array(steps, int)

    def keys(self) -> np.ndarray:
        """A number for each term."""
        key = np.zeros(len(self.at), np.int64)
        for i, shape in enumerate(self.shapes):
            key = key * int(np.prod(shape)) + self.flat(i)
        return key

    def apart(self, dims: Mapping[str, int]) -> Terms:
        """The same terms with merged axes split into their parts."""
        arrays, known = tuple(a.apart for a in self.arrays), zip(self.arrays, self.shapes, strict=True)
        shapes = tuple(a.apart.shape(dims) if a.apart.axes != a.axes else shape for a, shape in known)
        at = [np.stack(np.unravel_index(self.flat(i), shape), 1) for i, shape in enumerate(shapes)]
        parts, first = [], 0
        for count in (len(a.merged.get(letter, "1")) for a in self.arrays for letter in a.letters):
            parts += [tuple(range(first, first + count))] * (count > 1)
            first += count
        return replace(self, arrays=arrays, shapes=shapes, at=np.concatenate(at, 1), parts=tuple(parts))

    def only(self, chosen: np.ndarray) -> Terms:
        return replace(self, at=self.at[chosen], times=self.times[chosen])


def sums_of(
    kernel: Kernel,
    dims: Mapping[str, int],
    arrays: Arrays,
    run: Run,
    budget: Budget,
    alone: bool = False,
) -> Iterator[tuple[Terms, Terms]]:
    """(terms of the right kernel, terms of this one) for every pair of arrays that are multiplied, and every
    array that is added; nothing if either result is not such a sum. run: one launch. alone: for the elements
    of one array, if those of two cannot be told apart. Errors: Spent."""
    right = right_results(kernel, dims, budget)

    floats = [a for a in kernel.arrays if a.is_input and a.dtype in FLOATS]
    zeros = {**arrays, **{a.name: np.zeros_like(arrays[a.name]) for a in floats}}
    rng = np.random.default_rng(1)
    least = {a.name: SHORT if a.dtype == "float16" else LEAST for a in floats}
    numbers = {name: numbered(rng, arrays[name], n) for name, n in least.items()}
    short = {a.name: numbered(rng, arrays[a.name], SHORT) for a in floats if arrays[a.name].size <= SHORT}
    for output in (a for a in kernel.outputs if a.dtype == "float32"):
        for part in parts_of(right, zeros, numbers, floats, output.name):
            chosen = sorted(part, key=lambda a: arrays[a.name].size)
            ones = {**zeros, **{a.name: np.ones_like(zeros[a.name]) for a in chosen}}
            if np.abs(right(ones)[output.name]).sum() > MOST_TERMS:
                continue
            ways = [(chosen, zeros), (chosen[::-1], zeros)][: len(chosen)]
            if alone:
                ways = [([a], ones) for a in chosen if chosen[1:]]
            for used, others in ways:
                if len(used) > 1 and others[used[0].name].size > max(MOST, others[chosen[0].name].size):
                    continue
                for given in (numbers, short):
                    if not set(given).issuperset(a.name for a in used[1:]):
                        continue
                    inputs = {**others, **{a.name: given[a.name] for a in used[1:]}}
                    if (got := terms(output, used, inputs, run)) or not used[1:]:
                        break
                want = terms(output, used, inputs, right) if got and is_sum(got, inputs, run) else None
                if want:
                    there = ~np.isin(want.flat(0), got.stopped)
                    yield want.only(there).apart(dims), got.apart(dims)
                    break


def numbered(rng: np.random.Generator, array: np.ndarray, least: int = LEAST) -> np.ndarray:
    """Different integers; no two pairs of long ones in a small array have the same sum. Errors: Spent, if too few."""
    if least == SHORT:
        numbers = (least + rng.permutation(least)[np.arange(array.size) % least]).tolist()
    elif array.size > 0.9 * least:  # of as many numbers, nearly all are drawn
        raise Spent
    else:
        numbers = list(dict.fromkeys(rng.integers(least, 2 * least, 8 * array.size).tolist()))
    sums: set[int] = set()
    if array.size > MOST or least == SHORT:
        return np.reshape(numbers[: array.size], array.shape).astype(np.float32)
    chosen: list[int] = []
    for number in numbers:
        more = {number + other for other in chosen}
        if sums.isdisjoint(more) and len(chosen) < array.size:
            chosen.append(number)
            sums |= more
    return np.reshape(chosen, array.shape).astype(np.float32)


def parts_of(
    right: Run, zeros: Arrays, numbers: Arrays, floats: list[Array], name: str
) -> list[tuple[Array, ...]]:
    """The pairs of arrays whose products are summed, and the arrays that are added; [] if the result is something else."""

    def out(*chosen: Array, times: int = 1) -> np.ndarray:
        return right({**zeros, **{a.name: times * numbers[a.name] for a in chosen}})[name]

    alone = {a.name: out(a) for a in floats}
    pairs = []
    for a, b in combinations(floats, 2):
        product = out(a, b) - alone[a.name] - alone[b.name]
        if product.any():
            pairs.append((a, b))
            if not np.allclose(out(a, b, times=2), 4 * product + 2 * (alone[a.name] + alone[b.name])):
                return []
    single = [(a,) for a in floats if alone[a.name].any()]
    linear = all(np.allclose(out(*a, times=-3), -3 * alone[a[0].name]) for a in single)
    return [*pairs, *single] if linear and not np.any(right(zeros)[name]) else []


def terms(output: Array, chosen: list[Array], inputs: Arrays, run: Run) -> Terms | None:
    """What a kernel sums; None if it is no sum. chosen: the array with the single 1 and the one, if any, with numbers."""
    one, *others = chosen
    if not others and (copied := elements_of(output, one, inputs, run)):
        return copied
    zeros = np.zeros_like(inputs[one.name])
    first = run({**inputs, one.name: zeros})
    if first is None:
        return None
    base = first[output.name].astype(np.float64)
    stopped = np.flatnonzero(np.isnan(base)) if STOPPED in first else ()
    base.ravel()[list(stopped)] = 0
    if not np.isfinite(base).all() or base.any() or len(stopped) == base.size:
        return None
    known, found = Numbers(inputs[others[0].name]) if others else None, []
    for i in range(zeros.size):
        single = zeros.copy()
        single.flat[i] = 1
        done = run({**inputs, one.name: single})
        if done is None:
            return None
        got = done[output.name].astype(np.float64).ravel()
        if len(stopped) and np.isnan(got[stopped]).all():
            got[stopped] = 0
        if not np.isfinite(got).all():
            return None
        for at in np.flatnonzero(got):
            factors = known.made_of(got[at]) if known else [(0, got[at])]
            if not factors:
                return None
            found += [(at, i, j, times) for j, times in factors]
    shapes = tuple(inputs[a.name].shape for a in chosen)
    known = located((output, *chosen), (base.shape, *shapes), found)
    return replace(known, stopped=tuple(stopped))


def elements_of(output: Array, one: Array, inputs: Arrays, run: Run) -> Terms | None:
    """The terms of a kernel that sums one array, from one launch, if no element of its output has more than two."""
    if inputs[one.name].size > MOST_TERMS:
        return None
    numbers = numbered(np.random.default_rng(3), inputs[one.name])
    done = run({**inputs, one.name: numbers})
    if done is None or STOPPED in done or not np.isfinite(done[output.name]).all():
        return None
    known, found = Numbers(numbers), []
    got = done[output.name].astype(np.float64).ravel()
    for at in np.flatnonzero(got):
        factors = known.made_of(got[at])
        if not factors:
            return None
        found += [(at, i, 0, times) for i, times in factors]
    return located((output, one), (done[output.name].shape, numbers.shape), found)


def is_sum(found: Terms, inputs: Arrays, run: Run) -> bool:
    """Whether a kernel sums the same terms for other numbers too."""
    one, *others = (a.name for a in found.arrays[1:])
    numbers = np.arange(inputs[one].size).reshape(inputs[one].shape) % 8 - 3
    if not len(found.at):  # are they too small to be seen, as fractions are in an int?
        numbers = numbers * 64
    given = {n: np.roll(inputs[n], 1) for n in others} | {one: numbers.astype(np.float32)}
    done = run({**inputs, **given})
    if done is None:
        return False
    factors = [found.times, numbers.flat[found.flat(1)], *(given[n].flat[found.flat(2)] for n in others)]
    each = np.prod(np.array(factors, np.float64), axis=0)
    size = int(np.prod(found.shapes[0]))
    total, largest = (np.bincount(found.flat(0), x, size) for x in (each, np.abs(each)))
    got = done[found.arrays[0].name].astype(np.float64).ravel()
    got[list(found.stopped)] = 0
    return bool((np.abs(got - total) <= 1e-4 * largest).all())


def located(arrays: tuple[Array, ...], shapes: tuple[tuple[int, ...], ...], found: list[tuple]) -> Terms:
    rows = np.array(found, np.float64).reshape(-1, 4)
    flat = rows[:, : len(arrays)].astype(int)
    at = [np.stack(np.unravel_index(flat[:, i], shape), 1) for i, shape in enumerate(shapes)]
    return Terms(arrays, shapes, np.concatenate(at, 1), rows[:, 3])


class Numbers:
    """Which elements of an array a number is the sum of."""

    def __init__(self, array: np.ndarray):
        self.values = array.ravel().astype(np.int64)
        self.single: dict[int, tuple[int, int]] = {}
        self.short = bool((self.values < 2 * SHORT).all())
        for often in reversed(SHORT_OFTEN if self.short else OFTEN):
            self.single |= {int(v) * often: (j, often) for j, v in enumerate(self.values)}
        self.pairs: dict[int, tuple[int, int] | None] = {}

    def made_of(self, number: float) -> list[tuple[int, int]]:
        """(place of the element, how often) for one or two elements; [] if there is no way or more than one."""
        if number != int(number):
            return []
        if int(number) in self.single:
            return [self.single[int(number)]]
        if not self.pairs and len(self.values) <= MOST and not self.short:
            for i, j in combinations(range(len(self.values)), 2):
                both = int(self.values[i] + self.values[j])
                self.pairs[both] = None if both in self.pairs else (i, j)
        return [(j, 1) for j in self.pairs.get(int(number)) or ()]


# -- the launches --------------------------------------------------------------------------------------------


def right_results(kernel: Kernel, dims: Mapping[str, int], budget: Budget) -> Run:
    """How the right outputs are computed. Errors, of the function: Spent."""

    def run(arrays: Arrays) -> Arrays:
        budget.spend(RIGHT)
        with np.errstate(all="ignore"):
            return right_outputs(kernel, arrays, dims)

    return run


def of_element(
    kernel: Kernel, dims: Mapping[str, int], arrays: Arrays, array: str, flat: int
) -> list[frozenset[tuple[str, int]]] | None:
    """The products that the right answer is the sum of, in an element of an output; None if it is no such sum. Errors: Spent."""
    output = next((a for a in kernel.outputs if a.name == array), None)
    floats = [a for a in kernel.arrays if a.is_input and a.dtype in FLOATS]
    right = right_results(kernel, dims, Budget(OF_ELEMENT))
    zeros = {**arrays, **{a.name: np.zeros_like(arrays[a.name]) for a in floats}}
    rng = np.random.default_rng(1)
    numbers = {a.name: numbered(rng, arrays[a.name], LEAST) for a in floats}
    parts = parts_of(right, zeros, numbers, floats, array) if output else []
    found: list[frozenset[tuple[str, int]]] = []
    for part in parts:
        chosen = sorted(part, key=lambda a: arrays[a.name].size)
        inputs = {**zeros, **{a.name: numbers[a.name] for a in chosen[1:]}}
        got = terms(output, chosen, inputs, right)
        if got is None or not is_sum(got, inputs, right):
            return None
        names = [a.name for a in got.arrays[1:]]
        indices = [got.flat(n + 1) for n in range(len(names))]
        for i in np.flatnonzero(got.flat(0) == flat).tolist():
            found.append(frozenset((n, int(index[i])) for n, index in zip(names, indices, strict=True)))
    return found if parts else None


def launches(trial: Trial, setup: Setup, budget: Budget) -> Run:
    """Launches the kernel of a trial on other inputs; a launch that fails gives None. If the only fault is
    that some threads leave an array, the result has what the others wrote, and STOPPED. Errors, of the
    function: Spent."""
    kernel, cost = trial.outcome.kernel, LAUNCH + work(trial, setup) // ACCESSES

    def run(arrays: Arrays) -> Arrays | None:
        budget.spend(cost)
        with np.errstate(over="ignore"):  # numbers that half cannot represent
            own = {n: np.ascontiguousarray(x, trial.arrays[n].dtype) for n, x in arrays.items()}
        own = replace(trial, arrays=own)
        handles = {p.name: place(setup.device, p, own) for p in kernel.passed}
        stopped = {}
        try:
            start(own, setup, setup.schedules[0], handles)
        except KernelFault as fault:
            fault.__traceback__ = fault.__context__ = None  # or they would keep the arrays alive
            kinds = {f.kind for f in (fault, *fault.more) if f.severity != "note"}
            if kinds != {"out-of-bounds"} or any(p.is_input for p in kernel.outputs):
                budget.spend(FAILED)
                return None
            stopped = {STOPPED: np.ones(1)}
        except BackwarpError:
            return None
        return {p.name: handles[p.name].get() for p in kernel.outputs} | stopped

    run.cost = cost
    return run


def least_cost(trial: Trial, run: Run) -> int:
    """What it costs at least to find the terms of a product: a launch for every element of the smallest input."""
    floats = [a for a in trial.outcome.kernel.arrays if a.role == "in" and a.dtype in FLOATS]
    sizes = [trial.arrays[a.name].size for a in floats]
    return (min(sizes) + 1) * (run.cost + RIGHT) if len(sizes) > 1 else 0


def work(trial: Trial, setup: Setup) -> int:
    """How many accesses a launch makes to what it may write to, as far as they can be recorded."""
    kernel = trial.outcome.kernel
    record = kept(setup.device, partial(start_again, trial, setup))[1]
    if not record:
        return 0
    a, given = record.accesses, {p.name for p in kernel.passed if p.role == "in"}
    given = np.array([held.name in given for held in record.arrays] + [True])
    return int((~given[a["array"]]).sum())


def most_telling(puzzle: Puzzle, kernel: Kernel, most: int = MOST) -> list[Case]:
    """Small cases: light ones first, then those whose axes are easiest to tell apart. most: elements of the smallest input."""
    found = []
    for case in puzzle.cases:
        if kernel in puzzle.kernels_of(case) and not case.stress and not case.special:
            dims = puzzle.full_dims(case)
            inputs = (a for a in kernel.arrays if a.role == "in" and a.dtype in FLOATS)
            sizes = [int(np.prod(a.shape(dims))) for a in inputs]
            if min(sizes, default=most + 1) <= most:
                heavy = sum(int(np.prod(a.shape(dims))) for a in kernel.arrays) > HEAVY
                found.append((heavy, -long_axes(kernel, dims), min(sizes), len(found), case))
    return [case for *_, case in sorted(found)]


def long_axes(kernel: Kernel, dims: Mapping[str, int]) -> int:
    """The number of axes with more than one element plus the number of different lengths and parameters."""
    axes = (zip(a.letters, a.shape(dims), strict=True) for a in kernel.arrays)
    sizes = {(letter, size) for each in axes for letter, size in each if size > 1}
    others = {d for p in kernel.params if isinstance(p, Scalar) and (d := p.resolve(dims)) not in (0, 1)}
    return 2 * len({letter for letter, _ in sizes}) + len({size for _, size in sizes} | others)
