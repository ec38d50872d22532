"""Comparing a kernel's output with the float64 reference: tolerance, mismatches, their pattern.

An element is right when |got - expected| <= ATOL + RTOL * sum|a*b|, where sum|a*b| is the magnitude
that rounding errors of the reduction scale with. RTOL = 2e-5 is measured (tests/grading/test_compare.py):
with signed inputs, sequential float32 sums of a million terms stay below 2e-7, tree and double sums
below that, while accumulation in half is off by 1e-4 to 1e-3 from the first term on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..course.declare import Array, Case, Gradient, Kernel, Puzzle
from ..course.inputs import derive_seed
from ..errors import CourseError

RTOL = 2e-5
ATOL = 1e-7
HALF = 2.0**-11  # unit roundoff of half precision
EXACT = 2.0**24  # integers up to here are exact in float32
MAGNIFY = 4.0  # a wrong kernel may sum more terms than the right one
LISTED = 4  # up to this many differing elements are named individually
MAPPED = 4096  # the errors of outputs up to this many elements are kept
NUMBERED = 100  # the values of outputs up to this many elements are kept as well


@dataclass(frozen=True)
class Expected:
    """What one output array should hold: float64 values and the allowed error per element. special: see Case."""

    array: Array
    values: np.ndarray
    tolerance: np.ndarray
    magnitude: np.ndarray
    by: str = ""  # "by finite differences"
    special: bool = False

    def right(self, got: np.ndarray) -> np.ndarray:
        """Which elements are right; NaN and infinity never are, unless the case is about them."""
        with np.errstate(invalid="ignore", over="ignore"):
            close = np.isfinite(got) & (np.abs(got.astype(np.float64) - self.values) <= self.tolerance)
        if self.special:
            close |= (np.isinf(self.values) & (got == self.values)) | (np.isnan(self.values) & np.isnan(got))
        return close


@dataclass(frozen=True)
class Element:
    """One element: its axis-named index, what the kernel wrote and what was expected."""

    index: str
    got: float
    expected: float


@dataclass(frozen=True)
class Mismatch:
    """How an output differs; `pattern` is a sentence about which elements do, or ""."""

    array: str
    count: int
    total: int
    first: Element
    worst: Element
    unwritten: int  # how many of the differing elements still have their value from before the launch
    pattern: str
    expected_by: str = ""
    updated: bool = False  # the array had values before the launch, which these elements still have


def reference_arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Copies of the inputs for references: float64, or int64 for integer arrays."""
    return {n: a.astype(np.float64 if a.dtype.kind == "f" else np.int64) for n, a in arrays.items()}


def expectations(
    puzzle: Puzzle, case: Case, kernel: Kernel, arrays: Mapping[str, np.ndarray]
) -> tuple[Expected, ...]:
    """What every output of `kernel` should be for the inputs `arrays`."""
    dims = puzzle.full_dims(case)
    values = right_outputs(kernel, arrays, dims)
    magnitudes = values
    if kernel.magnitude or any((a < 0).any() for a in arrays.values()):
        sizes = {n: np.abs(a) for n, a in reference_arrays(arrays).items()}
        magnitudes = outputs_of(kernel, (kernel.magnitude or kernel.reference)(sizes, dict(dims)), dims)
    plain = (expected(case, kernel, p, values[p.name], np.abs(magnitudes[p.name])) for p in kernel.outputs)
    return tuple(measured(puzzle, case, kernel, arrays, target) for target in plain)


def right_outputs(
    kernel: Kernel, arrays: Mapping[str, np.ndarray], dims: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The reference's results for these inputs, by output name."""
    return outputs_of(kernel, kernel.reference(reference_arrays(arrays), dict(dims)), dims)


def outputs_of(kernel: Kernel, result: object, dims: Mapping[str, int]) -> dict[str, np.ndarray]:
    """What a reference returned, as float64 arrays by output name, shapes checked."""
    if not isinstance(result, Mapping):
        result = {kernel.outputs[0].name: result}
    found = {}
    for p in kernel.outputs:
        if p.name not in result:
            raise CourseError(f"the reference of {kernel.name} does not return {p.name!r}")
        array = np.asarray(result[p.name], dtype=np.float64)
        if array.shape != (wanted := p.shape(dims)):
            raise CourseError(
                f"the reference of {kernel.name} returns {p.name} as {array.shape}, not {wanted}"
            )
        found[p.name] = array
    return found


def expected(case: Case, kernel: Kernel, p: Array, values: np.ndarray, magnitude: np.ndarray) -> Expected:
    """Values with their tolerance: none for integers, scaled for floating point."""
    if case.special:
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        magnitude = np.where(np.isfinite(magnitude), magnitude, sizes)
        return replace(expected(replace(case, special=False), kernel, p, values, magnitude), special=True)
    if not p.dtype.startswith("float"):
        return Expected(p, values, np.zeros(values.shape), magnitude)
    if case.values == "integers":
        if magnitude.size and magnitude.max() > EXACT:
            raise CourseError(f"case {case.name}: sums up to {magnitude.max():.0f} are not exact in float32")
        return Expected(p, values, np.zeros(values.shape), magnitude)
    rtol = (RTOL if kernel.rtol is None else kernel.rtol) + case.rounding
    atol = (ATOL if kernel.atol is None else kernel.atol) * case.scale.get(p.name, 1.0)
    tolerance = atol + rtol * magnitude
    if p.dtype == "float16":  # the result itself is rounded
        tolerance = tolerance + 2 * HALF * np.abs(np.where(np.isfinite(values), values, 0.0))
    return Expected(p, values, tolerance, magnitude)


def measured(puzzle: Puzzle, case: Case, kernel: Kernel, arrays: Mapping, plain: Expected) -> Expected:
    """`plain`, or the puzzle's finite differences in a case with check="gradient"."""
    for gradient in puzzle.gradients(kernel) if case.check == "gradient" else ():
        if (gradient.output or kernel.outputs[0].name) == plain.array.name:
            values = finite_differences(puzzle, case, kernel, arrays, gradient)
            tolerance = plain.tolerance + gradient.rtol * np.abs(values)
            return replace(plain, values=values, tolerance=tolerance, by="by finite differences")
    return plain


def finite_differences(
    puzzle: Puzzle, case: Case, kernel: Kernel, arrays: Mapping, gradient: Gradient
) -> np.ndarray:
    """Central differences of the loss, element by element, in float64."""
    dims, a = puzzle.full_dims(case), reference_arrays(arrays)
    if gradient.at is None:
        output = next(p for p in kernel.outputs if p.name == (gradient.output or p.name))
        seed = derive_seed("gradient", puzzle.id, case.name, kernel.name)
        point = np.random.default_rng(seed).standard_normal(output.shape(dims))
    else:
        point = a[gradient.at]
    result = np.empty(point.shape)
    for index in np.ndindex(point.shape):
        kept = point[index]
        point[index] = kept + gradient.epsilon
        above = gradient.loss(point, a, dims)
        point[index] = kept - gradient.epsilon
        result[index] = (above - gradient.loss(point, a, dims)) / (2 * gradient.epsilon)
        point[index] = kept
    return result


def compare(
    target: Expected, got: np.ndarray, before: np.ndarray | None = None, written: np.ndarray | None = None
) -> Mismatch | None:
    """None if every element is right. before: the array before the kernel ran (poison). written: see `untouched`."""
    wrong = ~target.right(got)
    if not target.special and not wrong.any():
        return None
    left = untouched(target, got, before, written)
    if target.special and not target.array.is_input:
        wrong |= np.isnan(target.values) & left  # poison is a NaN too
    if not wrong.any():
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - target.values) / np.maximum(target.magnitude, ATOL)
    error[~np.isfinite(error)] = np.inf
    worst = np.unravel_index(np.argmax(np.where(wrong, error, -1.0)), wrong.shape)
    left &= wrong
    some = left.sum() < wrong.sum() or not same_bits(got, before).all() and not before.any()
    if target.array.is_input and some:
        left[:] = False  # updated in place: an element may rightly keep its value, especially 0
    stored = wrong & ~left  # the value of an unwritten element is meaningless
    first = np.argwhere(stored if stored.any() else wrong)[0]
    return Mismatch(
        array=target.array.name,
        count=int(wrong.sum()),
        total=wrong.size,
        first=element(target, got, tuple(first)),
        worst=element(target, got, worst),
        unwritten=int(left.sum()),
        pattern=pattern(wrong, target.array.letters),
        expected_by=target.by,
        updated=target.array.is_input,
    )


def untouched(
    target: Expected, got: np.ndarray, before: np.ndarray | None, written: np.ndarray | None
) -> np.ndarray:
    """The elements that were never written: they hold their old value and, on a device that tracks stores, no
    store reached them. written: the elements of an output that a store may have reached; None if unknown. (A
    kernel can legitimately store the bits of poison: as an integer they are -1.)"""
    if before is None:
        return np.zeros(got.shape, bool)
    left = same_bits(got, before)
    return left if written is None or target.array.is_input else left & ~written


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise equality of the bits, so that NaN equals the same NaN."""
    unsigned = f"u{a.dtype.itemsize}"
    return np.ascontiguousarray(a).view(unsigned) == np.ascontiguousarray(b).view(unsigned)


def element(target: Expected, got: np.ndarray, index: tuple[int, ...]) -> Element:
    return Element(axis_index(target.array.letters, index), got[index].item(), target.values[index].item())


def error_map(
    target: Expected, got: np.ndarray, before: np.ndarray, written: np.ndarray | None = None
) -> dict:
    """{"array", "axes", "shape", "errors"}: every element's error in units of the tolerance, row by row; for
    a small output also "got" and "expected".

    0 where it is right, NaN where nothing was written, infinite where it is not a number. {} for a large
    output.
    """
    if got.size > MAPPED:
        return {}
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        room = np.maximum(target.tolerance, np.finfo(np.float32).tiny)
        errors = np.abs(got.astype(np.float64) - target.values) / room
    errors = np.where(np.isfinite(got), errors, np.inf)
    errors = np.where(untouched(target, got, before, written), np.nan, errors)
    errors = np.where(target.right(got), 0.0, errors)
    found = {"array": target.array.name, "axes": target.array.letters, "shape": list(got.shape)}
    found["errors"] = errors.ravel().tolist()
    if got.size <= NUMBERED:
        found |= {"got": got.ravel().tolist(), "expected": target.values.ravel().tolist()}
    return found


def axis_index(letters: str, index: tuple[int, ...]) -> str:
    """`k=0,c=0,r=2,s=1`."""
    return ",".join(f"{letter}={int(i)}" for letter, i in zip(letters, index, strict=True))


def pattern(wrong: np.ndarray, letters: str) -> str:
    """Which elements differ, if a short exact statement exists: "exactly the elements with s=2 (the last)"."""
    if wrong.size == 1:
        return ""
    if wrong.all():
        return "every element"
    along = (np.moveaxis(wrong, i, 0).reshape(n, -1).any(axis=1) for i, n in enumerate(wrong.shape))
    touched = [np.flatnonzero(any_there) for any_there in along]
    found = [axis_pattern(*axis) for axis in zip(letters, touched, wrong.shape, strict=True)]
    parts = " and ".join(p for p in found if p)
    if None not in found and int(np.prod([len(t) for t in touched])) == int(wrong.sum()):
        return f"exactly the elements with {parts}"
    if flat := flat_pattern(np.flatnonzero(wrong), wrong.size):
        return flat
    if wrong.sum() <= LISTED:
        return f"exactly the elements {either([f'[{axis_index(letters, at)}]' for at in np.argwhere(wrong)], 'and')}"
    return f"all that differ have {parts}" if parts else ""


def axis_pattern(letter: str, touched: np.ndarray, size: int) -> str | None:
    """The coordinates `touched` of one axis; "" if all occur, None if they have no short description."""
    first, last, count = int(touched[0]), int(touched[-1]), len(touched)
    if count == size:
        return ""
    if count == 1:
        place = " (the last)" if first == size - 1 else " (the first)" if first == 0 and size > 2 else ""
        return f"{letter}={first}{place}"
    steps = np.diff(touched)
    if steps.max() == 1:
        if last == size - 1:
            return f"{letter}>={first}"
        return f"{letter}<={last}" if first == 0 else f"{first}<={letter}<={last}"
    if count > 3 and steps.min() == steps.max():
        return f"{letter}={first}, {touched[1]}, ... {last}"
    runs = [(int(r[0]), int(r[-1])) for r in np.split(touched, np.flatnonzero(steps > 1) + 1)]
    if len(runs) > LISTED:
        return None
    named = [[f"{a} to {b}"] if b > a + 1 else map(str, range(a, b + 1)) for a, b in runs]
    return f"{letter}={either([name for run in named for name in run])}"


def flat_pattern(where: np.ndarray, size: int) -> str:
    """Patterns of the flat index, which a wrong launch index produces."""
    first, last, steps = int(where[0]), int(where[-1]), np.unique(np.diff(where))
    if len(steps) != 1 or len(where) < 4:
        return ""
    step = int(steps[0])
    to = "on" if last + step >= size else f"to {last}"
    if step == 1:
        return f"every element from flat index {first} {to}"
    return f"every {ordinal(step)} element from flat index {first} {to}"


def ordinal(n: int) -> str:
    """`2nd`, `11th`, `21st`."""
    ends = {1: "st", 2: "nd", 3: "rd"} if n // 10 % 10 != 1 else {}
    return f"{n}{ends.get(n % 10, 'th')}"


def either(names: list[str], last: str = "or") -> str:
    """`1, 2 or 3`."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def show_pair(got: float, want: float, digits: int = 5) -> tuple[str, str]:
    """Both numbers, with just enough digits to tell them apart."""
    if isinstance(got, int) and float(want).is_integer():
        return str(got), str(int(want))
    for precision in range(digits, 18):
        texts = f"{got:.{precision}g}", f"{want:.{precision}g}"
        if texts[0] != texts[1]:
            return texts
    return texts


def slack(target: Expected, values: np.ndarray) -> float:
    """The error allowed between a prediction and an output: the tolerance of the largest element, widened."""
    sizes = (np.abs(a[np.isfinite(a)]) for a in (target.magnitude, values))
    largest = max(a.max(initial=0.0) for a in sizes)
    exact = not target.array.dtype.startswith("float")
    rounding = 2 * HALF if target.array.dtype == "float16" else RTOL
    return 0.0 if exact else ATOL + MAGNIFY * rounding * largest
