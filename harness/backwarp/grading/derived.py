"""Cases that follow from a declaration: every axis long, and small and large values.

A kernel that keeps an index in a short, or drops what is below 1e-5, is right in all cases of ordinary sizes
and values. These run once: what they show needs no second order. Axes are longer than 16 bits can count where the
file's code, see `narrow`, has something that only such lengths show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations, islice, product
from math import gcd, inf, prod

import numpy as np

from ..course.declare import Case, Kernel, Launch, Puzzle, Scalar
from ..course.inputs import Scaled, Sparse, make_inputs
from ..devices.launching import check_shape, triple
from ..errors import BackwarpError
from .compare import outputs_of, reference_arrays

Dims = dict[str, int]

#: lengths that an unsigned and a signed integer of 16 bits cannot count; multiples of 64
LONG = 65_600, 32_832
ENOUGH = 8_256  # long enough for files that name no number, and have no array, as large as this
BYTES = 320, 128  # of 8 bits
MOST_OF_BYTES = 1 << 28  # steps, as of Reach, of a case that shows no more than that
#: threads times length of a case that runs with all checks: few threads count along the axis, and optimised code may count
#: further than its variable can
MOST_CHECKED = 1 << 22
MOST_SHARED = 32 << 10  # bytes of dynamic shared memory, if no case has more
MORE = 4  # times the work that a case may have for the sake of what it shows
TRIED = 9  # an axis this long shows whether a case is possible
FACTOR, OF_HALVES = 20, 5  # values are 2 to this power larger, or smaller; where there are arrays of float16
SMALL = 4096  # elements
MOST_SHAPES, BLOCK = 32, 20  # of blocks; the threads that take as long as a block that has none
DEGREES = 1, 2, 0  # in which an input is scaled; 2: a bias, which is added to products of two


def whole(puzzle: Puzzle, seed: int, t: Mapping[str, int], longest: bool = True) -> Puzzle:
    """The puzzle as a file is graded: with the sizes it draws, and derived cases. longest: axes longer than 16 bits can count."""
    drawn = puzzle.drawn(seed)
    return replace(drawn, cases=(*drawn.cases, *long_cases(puzzle, t, longest), *scaled_cases(puzzle)))


def long_cases(puzzle: Puzzle, t: Mapping[str, int], longest: bool = True) -> Iterator[Case]:
    found: dict[tuple, list[str]] = {}
    reach = Reach() if longest else Reach((ENOUGH, *BYTES))
    for kernel in puzzle.kernels:
        for axis, dims in Axes(puzzle, kernel, t, reach).long({*kernel.short}):
            threads = threads_of(kernel, puzzle.full_dims(Case(axis, dims)), t)
            build = "full" if longest and threads * LONG[0] <= MOST_CHECKED else "memory"
            found.setdefault((axis, build, *sorted(dims.items())), []).append(kernel.name)
    axes = [axis for axis, *_ in found]
    for (axis, build, *dims), kernels in found.items():
        name = f"great_{axis}" + f"_of_{kernels[0]}" * (axes.count(axis) > 1)
        note = f"{axis} = {puzzle.full_dims(Case(axis, dict(dims)))[axis]:,}"
        yield Case(name, dict(dims), note, kernels=tuple(kernels), stress=True, once=build)


def narrow_cases(puzzle: Puzzle, t: Mapping[str, int], lines: Callable[[str], Mapping]) -> Iterator[Case]:
    """For kernels that keep whole numbers in something narrow: axes as long as can be tried. lines: see `narrow.lines`."""
    found = {kernel: lines(kernel.name) for kernel in puzzle.kernels}
    for kernel, kind in ((kernel, kind) for kernel in found for kind in REACHES if kind in found[kernel]):
        axes = Axes(puzzle, kernel, t, REACHES[kind])
        for axis, dims in (*axes.long(set()), *(axes.large() if kind == "short" else ())):
            dims = axes.several(axis, dims) if kind == "24 bits" else dims
            full = puzzle.full_dims(Case(axis, dims))
            yield Case(
                f"greatest_{axis}_of_{kernel.name}_in_{kind.replace(' ', '_')}",
                dims,
                f"{axis} = {full[axis]:,}",
                inputs={a.name: Sparse() for a in kernel.arrays if a.is_input and a.is_plain},
                kernels=(kernel.name,),
                stress=True,
                hidden=True,
                once="memory",
                rounding=min(axes.terms(full), Sparse().most) * 2.0**-24,
                narrow=(kind, *found[kernel][kind]),
            )


def shortened(case: Case, part: float) -> Case:
    """The case with this part of what is long in it."""
    longest = max(n for n in case.dims.values() if isinstance(n, int))
    step = 64 if longest >= ENOUGH else 1
    length = max(int(longest * part) // step, 1) * step

    def shorter(size: object) -> object:
        return size * length // longest if isinstance(size, int) and 4 * size > longest else size

    return replace(case, dims={n: shorter(size) for n, size in case.dims.items()})


def scaled_cases(puzzle: Puzzle) -> Iterator[Case]:
    groups: list[Scales] = []
    for found in (scales for kernel in puzzle.kernels if (scales := scales_of(puzzle, kernel))):
        if not any(group.joins(found) for group in groups):
            groups.append(found)
    for scales in groups:
        own = f"_of_{scales.kernels[0]}" * (len(groups) > 1)
        for size, power in (("small", -scales.power), ("large", scales.power)):
            yield replace(
                scales.base,
                name=f"{size}_values{own}",
                note=f"values about 2^{power}",
                inputs={name: Scaled(power * degree) for name, degree in scales.inputs.items() if degree},
                scale={name: 2.0 ** (power * degree) for name, degree in scales.outputs.items()},
                kernels=tuple(scales.kernels),
                once="memory",
                hidden=True,
            )


# -- long axes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reach:
    """How far derived cases go. lengths: the first that is possible is enough. elements: the most in a case's arrays.
    threads: the most of a launch, for more than the shorter of LONG. steps: the most of all threads, each through all
    that is added up for an output. few_blocks: large blocks first, as there are not so many blocks."""

    lengths: tuple[int, ...] = LONG + BYTES
    elements: int = 1 << 20
    threads: int = 3 << 20
    steps: float = inf
    few_blocks: bool = False


#: so many tiles of 32 or 16 that 16 bits cannot count them; more elements than 24 bits, or a float, can
TILES, MOST_24 = tuple(tile * n for tile in (32, 16) for n in LONG), ((1 << 24) + 64,)
#: for files that keep a whole number in what is narrow
REACHES = {
    "short": Reach(TILES + LONG, 1 << 23, 1 << 26, 1 << 28),
    "24 bits": Reach(MOST_24 + TILES, 1 << 26, 1 << 24, 1 << 28, few_blocks=True),
    "float": Reach(MOST_24, 1 << 26, 1 << 28, 1 << 28, few_blocks=True),
}


@dataclass
class Axes:
    """The axes of a kernel's arrays, and the cases in which they are long. t: the file's constants."""

    puzzle: Puzzle
    kernel: Kernel
    t: Mapping[str, int]
    reach: Reach = Reach()

    @property
    def enough(self) -> int:
        """From this length on, an axis is long."""
        return min(self.reach.lengths[0], LONG[-1])

    @cached_property
    def declared(self) -> list[Dims]:
        cases = [c for c in self.puzzle.cases if self.kernel in self.puzzle.kernels_of(c)]
        return [self.puzzle.full_dims(c) for c in cases]

    @cached_property
    def values(self) -> dict[str, list]:
        """Every number that cases have, in all of them."""
        own = (c for c in self.puzzle.cases if self.kernel in self.puzzle.kernels_of(c))
        names = dict.fromkeys(n for c in own for n in c.dims)
        return {n: [d[n] for d in self.declared if n in d] for n in names}

    @cached_property
    def base(self) -> Dims:
        """The least sizes that there may be; other numbers, such as factors, as in the first case."""
        whole = {n: v for n, v in self.values.items() if isinstance(v[0], int)}
        first = {n: v[0] for n, v in self.values.items()}
        thin = first | {n: min(v) and gcd(*v) for n, v in whole.items()}
        return thin if self.has_reference(thin) else first | {n: min(v) for n, v in whole.items()}

    @cached_property
    def blocks(self) -> tuple[Dims, Dims]:
        """The smallest blocks of threads, with which there are the most, and the largest, with which the grid is least."""
        shapes = {n: v for n, v in self.values.items() if n not in self.numbers and isinstance(v[0], int)}
        return {n: gcd(*v) for n, v in shapes.items()}, {n: max(v) for n, v in shapes.items()}

    def shapes_of_blocks(self, axis: str, extent: int) -> Sequence[Dims]:
        """Those to try for a length of an axis: the smallest, and the largest; or, of both of each axis, the quickest first."""
        if not self.reach.few_blocks:
            return self.blocks
        sizes = {n: dict.fromkeys(b[n] for b in self.blocks) for n in self.blocks[0]}
        shapes = islice(product(*sizes.values()), MOST_SHAPES)
        every = [dict(zip(sizes, shape, strict=True)) for shape in shapes]
        return sorted(every, key=lambda block: self.time(self.base | {axis: extent} | block))

    def time(self, dims: Dims) -> float:
        """Of a launch, in that of a thread."""
        launch = launch_of(self.kernel, self.puzzle.full_dims(Case("timed", dims)), self.t)
        if launch is None:
            return inf
        return prod(triple(launch.grid, "grid")) * (prod(triple(launch.block, "block")) + BLOCK)

    @cached_property
    def shared(self) -> int:
        """The most dynamic shared memory of a launch: a file may well have arrays of its own beside it."""
        launches = (launch_of(self.kernel, d, self.t) for d in self.declared)
        return max([MOST_SHARED, *(launch.shared_mem for launch in launches if launch)])

    @cached_property
    def axes(self) -> dict[str, None]:
        """Their names, with those that merged axes count through."""
        arrays = [*self.kernel.arrays, *(a.apart for a in self.kernel.arrays)]
        return dict.fromkeys(size for a in arrays for _, size in a.axes if isinstance(size, str))

    @cached_property
    def numbers(self) -> list[str]:
        """What may be increased."""
        known = self.axes.keys() | {n for k in self.puzzle.kernels for n in k.sizes}
        return [n for n, v in self.base.items() if isinstance(v, int) and n in known]

    @cached_property
    def equal(self) -> list[tuple[str, str]]:
        """What is equal in every case, as groups and channels of a depthwise convolution."""
        return [(n, m) for n, m in combinations(self.numbers, 2) if self.always(n, m, lambda a, b: a == b)]

    @cached_property
    def divisors(self) -> list[tuple[str, str]]:
        """(n, of): what is no axis, and divides several in every case, as groups divide both numbers of channels."""
        axes = [n for n in self.axes if n in self.base]
        others = [n for n in self.numbers if n not in axes]
        found = {n: [m for m in axes if self.always(n, m, lambda a, b: b % a == 0)] for n in others}
        return [(n, m) for n, of in found.items() if len(of) > 1 for m in of]

    @cached_property
    def fixed(self) -> dict[str, int]:
        """Derived axes of the same length in every case, as the channels of a group of a depthwise convolution."""
        found = {n: {d.get(n) for d in self.declared} for n in self.axes if n not in self.base}
        return {n: min(sizes) for n, sizes in found.items() if len(sizes) == 1}

    def always(self, n: str, m: str, holds: Callable[[int, int], bool]) -> bool:
        """Whether two numbers are related in all cases, and not by chance."""
        pairs = [(d.get(n), d.get(m)) for d in self.declared]
        return all(a and b and holds(a, b) for a, b in pairs) and len({a for a, _ in pairs}) > 2

    def long(self, done: set[str]) -> Iterator[tuple[str, Dims]]:
        """For every axis that is not done, the case in which it is long."""
        for axis in dict.fromkeys([*self.axes, *(n for n, _ in self.divisors)]):
            if axis not in done and (dims := self.least(axis)):
                full = self.puzzle.full_dims(Case(axis, dims))
                done |= {n for n, size in full.items() if size >= min(full[axis], self.enough)}
                yield axis, dims

    def large(self) -> Iterator[tuple[str, Dims]]:
        """For every whole number that is no axis, as a stride: the case with least work in which it is large, and matters."""
        scalars = [p for p in self.kernel.params if isinstance(p, Scalar)]
        given = {p.name if p.value is None else p.value for p in scalars}
        for name in self.numbers:
            counts = max(self.values[name]) > 1  # others say whether something is so
            if counts and name in given and name not in self.axes and (dims := self.largest(name)):
                yield name, dims

    def largest(self, name: str) -> Dims:
        matters = cache(lambda count, i: self.matters(small[count][i], name))
        small = [list(self.around(name, TRIED, count)) for count in (0, 1, 2)]
        for extent, count in product(LONG, (0, 1, 2)):
            tried = list(self.around(name, extent, count))
            works = (self.work(dims, name, extent) for dims in tried)
            ranked = [(self.steps_to(extent, tried[i]), work, i) for i, work in enumerate(works) if work]
            if (best := next((i for *_, i in sorted(ranked) if matters(count, i)), -1)) >= 0:
                return tried[best]
        return {}

    def steps_to(self, extent: int, dims: Dims) -> float:
        """The steps beyond those within reach, if each thread counts to a number."""
        steps = extent * self.steps(self.puzzle.full_dims(Case("large", dims)))
        return steps if steps > self.reach.steps else 0

    def around(self, name: str, extent: int, count: int) -> Iterator[Dims]:
        """The base with a number increased and so many others: by as much or half of it, or to what cases have."""
        own = self.base | {name: extent}
        others = [n for n in self.numbers if n != name]
        more = {n: [extent + 2, extent // 2, *sorted({*self.values[n]} - {self.base[n]})[:1]] for n in others}
        for names in combinations(others, count):
            for sizes in product(*(more[n] for n in names)):
                yield own | dict(zip(names, sizes))

    def matters(self, dims: Dims, name: str) -> bool:
        """Whether a reference notices that a number is one more."""
        if not self.has_reference(dims):
            return False
        full = self.puzzle.full_dims(Case("small", dims))
        arrays = reference_arrays(make_inputs(self.puzzle, Case("small", dims), self.kernel))
        right = outputs_of(self.kernel, self.kernel.reference(arrays, dict(full)), full)
        try:
            other = full | {name: full[name] + 1}
            moved = outputs_of(self.kernel, self.kernel.reference(arrays, other), full)
        except (BackwarpError, ArithmeticError, ValueError, LookupError):
            return True
        return any(not np.array_equal(moved[n], right[n]) for n in right)

    def least(self, axis: str) -> Dims:
        """The case with the least work in which an axis is long, and read to its end if there is one; {} if none is long."""
        found: Dims = {}
        most = max((d.get(axis, 0) for d in self.declared), default=0)
        most = most if axis in self.axes else self.enough - 1
        lengths = (n for n in self.reach.lengths if n > most or n >= self.enough)
        for extent, block in ((n, block) for n in lengths for block in self.shapes_of_blocks(axis, n)):
            for counts in ((0, 1), (2,)):
                tried = [dims | block for dims in self.increased(axis, extent, counts)]
                works = [self.work(dims, axis, extent) for dims in tried]
                least = min(filter(None, works), default=0)
                some = ((work, i) for i, work in enumerate(works) if work)
                ranked = ((work > MORE * least, self.long_numbers(tried[i]), work, -i) for work, i in some)
                for *_, i in sorted(ranked):
                    small = next(islice(self.increased(axis, TRIED, counts), -i, None))
                    if self.has_reference(small):
                        if self.is_read(small, axis):
                            return tried[-i]
                        found = found or tried[-i]
        return found

    def several(self, axis: str, dims: Dims) -> Dims:
        """The case in which an axis is long, with two along every other that has one: what its length is multiplied by."""
        for name in (n for n in self.axes if dims.get(n) == 1):
            wider = dims | {name: 2}
            few = shortened(Case(axis, wider), 0).dims
            if self.work(wider, axis, self.enough) and self.has_reference(few):
                dims = wider
        return dims

    def long_numbers(self, dims: Dims) -> int:
        """How many numbers are long: of cases with about the same work, the one with the fewest shows the most."""
        return sum(n >= self.enough for n in self.puzzle.full_dims(Case("long", dims)).values())

    def increased(self, axis: str, extent: int, counts: tuple[int, ...]) -> Iterator[Dims]:
        """The base with an axis and so many other numbers increased; one also by half as much, as padding counts twice."""
        own = self.base | ({axis: extent} if axis in self.base else {})
        step = extent - self.base.get(axis, 0)
        for count in counts:
            for names in combinations([n for n in self.numbers if n != axis], count):
                for more in (step, step // 2, -(-step // 2)) if count == 1 else (step,):
                    yield own | {n: self.base[n] + more for n in names}

    def work(self, dims: Dims, axis: str, extent: int) -> int:
        """The products of a case; 0 if there is no such case."""
        try:
            full = self.puzzle.full_dims(Case(axis, dims))
            sizes = {a: prod(a.shape(full)) for a in self.kernel.arrays}
        except (ArithmeticError, ValueError, KeyError):
            return 0
        related = (
            all(full[m] % full[n] == 0 for n, m in self.divisors)
            and all(full[n] == full[m] for n, m in self.equal)
            and all(full[n] == size for n, size in self.fixed.items())
            and all(full[n] <= 2 * LONG[0] for n in self.kernel.short)
        )
        whole = all(dims[n] % gcd(*self.values[n]) == 0 for n in self.axes if n in dims)
        there = full.get(axis, 0) >= extent and min(min(a.shape(full)) for a in sizes) > 0
        fits, most = related and whole and there, self.reach.elements
        if not fits or sum(sizes.values()) > most or any(0 < a.most < n for a, n in sizes.items()):
            return 0
        threads = threads_of(self.kernel, full, self.t, self.shared)
        if not threads or threads > self.reach.threads and extent > LONG[-1]:
            return 0
        products = max(self.products(full), 1)
        outputs = sum(n for a, n in sizes.items() if a.is_output)
        steps = self.reach.steps if extent >= self.enough else MOST_OF_BYTES
        return products if threads * products <= steps * outputs else 0

    def steps(self, full: Dims) -> float:
        """Of all threads of a launch, if each goes through all that is added up for an output."""
        return threads_of(self.kernel, full, self.t, self.shared) * self.terms(full)

    def terms(self, full: Dims) -> float:
        """What is added up for an output."""
        outputs = sum(prod(a.shape(full)) for a in self.kernel.arrays if a.is_output)
        return max(self.products(full), 1) / outputs

    def products(self, full: Dims) -> int:
        """Of a kernel that goes, for every output, through all axes that only inputs have, both of a square filter too. An
        image's axis is gone through with that of the image it becomes (H and H_out), the shorter of the two."""
        outputs = [a.apart for a in self.kernel.arrays if a.is_output]
        own = {axis_of(size) for a in outputs for _, size in a.axes}
        through: dict[tuple[str, int], int] = {}
        for a in (a.apart for a in self.kernel.arrays if not a.is_output):
            axes = [axis_of(size) for _, size in a.axes]
            for i, (axis, n) in enumerate(zip(axes, a.shape(full), strict=True)):
                if axis not in own:
                    key = axis, axes[:i].count(axis)
                    through[key] = min(n, through.get(key, n))
        return sum(prod(a.shape(full)) for a in outputs) * prod(through.values())

    def is_read(self, dims: Dims, axis: str) -> bool:
        """Whether the second half of each input along an axis matters: with a stride as long as the image, it does not."""
        case = Case("small", dims)
        full = self.puzzle.full_dims(case)
        arrays = reference_arrays(make_inputs(self.puzzle, case, self.kernel))
        right = outputs_of(self.kernel, self.kernel.reference(arrays, dict(full)), full)
        for a in self.kernel.arrays:
            sizes = [size for _, size in a.axes]
            if axis in sizes and a.name in arrays and a.dtype.startswith("float"):
                moved = arrays[a.name].copy()
                at = sizes.index(axis)
                moved[(slice(None),) * at + (slice(moved.shape[at] // 2, None),)] += 1
                outputs = self.kernel.reference(arrays | {a.name: moved}, dict(full))
                outputs = outputs_of(self.kernel, outputs, full)
                if all(np.array_equal(outputs[n], right[n]) for n in right):
                    return False
        return True

    def has_reference(self, dims: Dims) -> bool:
        """Whether there is such a case at all: padding, for one, may have to be less than half of a window."""
        case = Case("small", dims)
        try:
            full, arrays = self.puzzle.full_dims(case), make_inputs(self.puzzle, case, self.kernel)
            outputs_of(self.kernel, self.kernel.reference(reference_arrays(arrays), dict(full)), full)
        except (BackwarpError, ArithmeticError, ValueError, LookupError):
            return False
        return min(min(a.shape(full)) for a in self.kernel.arrays) > 0


def axis_of(size: object) -> str:
    return str(size).removesuffix("_out")


def threads_of(kernel: Kernel, dims: Dims, t: Mapping[str, int], shared: float = inf) -> int:
    """The threads of a launch of a file with these constants; 0 if no GPU accepts it, or its shared memory is more."""
    launch = launch_of(kernel, dims, t)
    if launch is None or launch.shared_mem > shared:
        return 0
    return prod(triple(launch.grid, "grid")) * prod(triple(launch.block, "block"))


def launch_of(kernel: Kernel, dims: Dims, t: Mapping[str, int]) -> Launch | None:
    """None if no GPU accepts it."""
    try:
        launch = kernel.launch(dict(dims), t)
        check_shape(triple(launch.grid, "grid"), triple(launch.block, "block"), launch.shared_mem)
    except (BackwarpError, ArithmeticError, ValueError, TypeError):
        return None
    return launch


# -- small and large values --------------------------------------------------------------------------------


@dataclass
class Scales:
    """The degrees in which inputs are scaled, and outputs with them. power: of two."""

    base: Case
    kernels: list[str]
    inputs: dict[str, int]
    outputs: dict[str, int]
    power: int

    def joins(self, other: Scales) -> bool:
        """Whether another kernel's can be joined to these, which is done."""
        if (self.base, self.power) != (other.base, other.power):
            return False
        both = ((self.inputs, other.inputs), (self.outputs, other.outputs))
        if any(mine[n] != theirs[n] for mine, theirs in both for n in mine.keys() & theirs.keys()):
            return False
        self.kernels += other.kernels
        self.inputs |= other.inputs
        self.outputs |= other.outputs
        return True


def scales_of(puzzle: Puzzle, kernel: Kernel) -> Scales | None:
    """None if no multiples of the inputs give multiples of the outputs, as with exponentials."""
    if (base := base_of(puzzle, kernel)) is None:
        return None
    arrays, dims = make_inputs(puzzle, base, kernel), puzzle.full_dims(base)
    power = OF_HALVES if any(a.dtype == "float16" for a in kernel.arrays) else FACTOR
    floats = [name for name, a in arrays.items() if a.dtype.kind == "f" and a.any()]
    arrays = reference_arrays(arrays)

    def results(inputs: dict[str, int], power: int) -> dict[str, np.ndarray]:
        scaled = {n: a * 2.0 ** (power * inputs[n]) if n in inputs else a for n, a in arrays.items()}
        return outputs_of(kernel, kernel.reference(scaled, dict(dims)), dims)

    plain = results({}, 0)
    for degrees in sorted(product(DEGREES, repeat=len(floats)), key=lambda d: (d.count(0), d.count(2))):
        inputs = dict(zip(floats, degrees))
        small, large = results(inputs, -power), results(inputs, power)
        outputs = {
            name: degree
            for name, values in plain.items()
            for degree in (0, 1, 2)
            if np.array_equal(large[name], values * 2.0 ** (power * degree))
            and np.array_equal(small[name], values / 2.0 ** (power * degree))
        }
        if len(outputs) == len(plain) and any(outputs.values()):
            return Scales(base, [kernel.name], inputs, outputs, power)
    return None


def base_of(puzzle: Puzzle, kernel: Kernel) -> Case | None:
    """The largest of the small cases with random values; one of all kernels, if there is any."""
    own = [c for c in puzzle.cases if kernel in puzzle.kernels_of(c)]
    fits = [c for c in own if (c.values, c.check) == ("normal", "reference")]
    plain = [c for c in fits if not (c.inputs or c.special or c.stress or c.hidden or c.draw)]
    small = [c for c in plain if size_of(puzzle, c) <= SMALL] or plain[:1]
    return max(small, key=lambda c: (not c.kernels, size_of(puzzle, c)), default=None)


def size_of(puzzle: Puzzle, case: Case) -> int:
    dims = puzzle.full_dims(case)
    return sum(prod(a.shape(dims)) for k in puzzle.kernels_of(case) for a in k.arrays)
