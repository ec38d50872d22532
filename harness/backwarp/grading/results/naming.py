"""Naming a wrong output: the mistakes that a puzzle declares, and a few that fit any kernel.

A name is claimed only when it is the only explanation: it predicts every output seen, in the cases
that failed and in those that passed, and no other candidate does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...course.declare import Kernel, Puzzle
from ...course.mistakes import Mistake
from ..compare import ATOL, HALF, RTOL, Expected, slack, untouched
from ..findings import Finding
from ..runs import Observation

LEAST = 4  # elements needed for a conclusion


#: What a mistake writes in a case: values by output, NaN for elements that it leaves as they were; None if
#: unknown.
Foresee = Callable[[Mistake, Observation], Mapping[str, np.ndarray] | None]


def explain(
    puzzle: Puzzle,
    kernel: Kernel,
    observations: Sequence[Observation],
    foresee: Foresee,
    unnamed: bool = True,
) -> Finding | None:
    """The only explanation of wrong outputs, or None. observations: completed cases, the shown one first."""
    if matches := declared(puzzle, kernel, observations, foresee):
        return the_only(matches)
    failed = [o for o in observations if o.failed]
    if len(kernel.outputs) == 1 and (claim := generic(failed)):
        return claim
    if not unnamed:
        return None
    if claim := offset(failed):
        return claim
    outputs = (a.name for a in kernel.outputs if a.dtype == "float32")
    return next(filter(None, (limited(failed, name) for name in outputs)), None)


def declared(
    puzzle: Puzzle, kernel: Kernel, observations: Sequence[Observation], foresee: Foresee
) -> list[Mistake]:
    """The mistakes of the puzzle that explain the outputs."""
    matches = [m for m in puzzle.mistakes_of(kernel) if m.says]
    for seen in observations:  # case by case: few mistakes are left after the first
        matches = [m for m in matches if predicts(foresee(m, seen), seen)]
    failed = [o for o in observations if o.failed]
    return [m for m in matches if any(differs(foresee(m, o) or {}, o) for o in failed)]


def the_only(matches: Sequence[Mistake]) -> Finding | None:
    """These mistakes; None if they disagree or there are none."""
    if len({m.says for m in matches}) != 1:  # several wrong kernels may stand for one mistake
        return None
    return Finding.of("mistake", name=matches[0].name, says=matches[0].says, hint=matches[0].hint)


def name_of(claim: Finding) -> str:
    """The mistake's name, or that of an explanation that fits any kernel; "" for others."""
    return claim.facts["name"] if claim.kind == "mistake" else claim.kind if claim.kind in GENERIC else ""


def limited(failed: Sequence[Observation], name: str) -> Finding | None:
    """A clamped output: every element that should be below (or above) a number is that number, and no other is wrong."""
    columns = []
    for o in failed:
        target = next(t for t in o.targets if t.array.name == name)
        got = o.results[name].astype(np.float64)
        wrong = ~target.right(o.results[name])
        rows = np.stack([got.ravel(), target.values.ravel(), wrong.ravel()])
        columns.append(rows[:, ~np.isnan(target.values).ravel()])
    got, want, wrong = np.concatenate(columns, 1) if columns else np.zeros((3, 0))
    limits = np.unique(got[wrong > 0])
    if len(limits) != 1 or not np.isfinite(limits).all() or wrong.sum() < LEAST:
        return None
    for word, beyond in (("less", want < limits), ("greater", want > limits)):
        if beyond[wrong > 0].all() and not ((got < limits) if word == "less" else (got > limits)).any():
            return Finding.of("clamped", array=name, limit=float(limits[0]), word=word)
    return None


def offset(failed: Sequence[Observation]) -> Finding | None:
    """Every element of the only output is off by a number that is the same throughout a case."""
    offsets = []
    for o in failed:
        target = o.targets[0]
        with np.errstate(invalid="ignore"):
            apart = o.results[target.array.name].astype(np.float64) - target.values
        if len(o.targets) > 1 or not np.isfinite(apart).all():
            return None
        room = 4 * np.maximum(target.tolerance, RTOL * target.magnitude + ATOL)
        if (np.abs(apart - apart.mean()) > room).any():
            return None
        offsets.append((float(apart.mean()), target, o))
    sizes = [target.values.size for _, target, _ in offsets]
    if sum(sizes) < LEAST or max(sizes) < 2:
        return None
    by, target, o = offsets[0]
    known = [(d, log) for d in o.dims for log in (True, False)]
    known = [(d, log) for d, log in known if all(is_size(by, d, log, o) for by, _, o in offsets)]
    names = [f"log({d})" if log else d for d, log in known]
    everywhere = all(abs(x - by) < 1e-3 * abs(by) for x, _, _ in offsets)
    called = names[0] if len(names) == 1 else ""
    case = "" if everywhere and not called else o.case.name
    return Finding.of("offset", array=target.array.name, by=by, case=case, called=called)


def is_size(by: float, dim: str, log: bool, o: Observation) -> bool:
    size = o.dims.get(dim, 0)
    value = np.log(size) if log and size else size
    return bool(value and abs(abs(by) - value) < 1e-3 * value)


def predicts(values: Mapping[str, np.ndarray] | None, seen: Observation) -> bool:
    """Whether this is what was written, including elements that are not finite or were not written."""
    if values is None:
        return False
    for target in seen.targets:
        foreseen, got = values[target.array.name], seen.results[target.array.name]
        if not agree(foreseen, got, slack(target, foreseen)):
            return False
        if (~np.isfinite(foreseen) & ~unset(target, seen) & (got != foreseen)).any():
            return False
    return True


def differs(values: Mapping[str, np.ndarray], seen: Observation) -> bool:
    """Whether what a mistake writes differs from the right answer here."""
    for target in seen.targets:
        if target.array.name in values:
            foreseen = values[target.array.name]
            if not agree(foreseen, target.values, slack(target, foreseen)):
                return True
            if (~np.isfinite(foreseen) & (foreseen != target.values) & ~np.isnan(target.values)).any():
                return True
    return False


def unset(target: Expected, seen: Observation) -> np.ndarray:
    """The elements that are not finite or were not written by the kernel."""
    name = target.array.name
    got, written = seen.results[name], seen.written.get(name)
    return untouched(target, got, seen.before[name], written) | ~np.isfinite(got)


def agree(values: np.ndarray, got: np.ndarray, tolerance: float) -> bool:
    """Whether all finite values agree with the output."""
    known = np.isfinite(values)
    values, got = values[known], got[known].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.all((np.abs(got - values) <= tolerance) | (got == values)))


#: names of the claims that `generic` makes
GENERIC = {"factor", "divided", "multiplied", "half"}


def generic(failed: Sequence[Observation]) -> Finding | None:
    """Explanations that need no declared mistake; each is tried on all failing cases."""
    pairs = [(o, o.targets[0], o.results[o.targets[0].array.name]) for o in failed]
    if not pairs or not all(np.isfinite(got).all() for _, _, got in pairs):
        return None
    return factor(pairs) or half(pairs) or whole(pairs)


def factor(pairs: list) -> Finding | None:
    """Every element is the same multiple of the expected one."""
    if not any(telling(target) > 1 for _, target, _ in pairs):
        return None
    pairs = [pair for pair in pairs if telling(pair[1])]
    ratios = [common_ratio(target, got.astype(np.float64)) for _, target, got in pairs]
    if None in ratios:
        return None
    name, first = pairs[0][1].array.name, ratios[0]
    if not any(ratios):
        return None
    if len(ratios) > 1 and max(ratios) - min(ratios) < 1e-4 * abs(first):
        return Finding.of("factor", array=name, ratio=first, everywhere=True)
    sizes = [(r, seen.dims) for r, (seen, _, _) in zip(ratios, pairs, strict=True)]
    dims = {dim: size for dim, size in sizes[0][1].items() if all(dim in d for _, d in sizes)}
    fits = [(dim, "divided") for dim in dims if all(abs(r * d[dim] - 1) < 1e-3 for r, d in sizes)]
    fits += [(dim, "multiplied") for dim in dims if all(abs(r - d[dim]) < 1e-3 for r, d in sizes)]
    if len(fits) == 1:
        dim, what = fits[0]
        return Finding.of(what, array=name, size=dim, value=dims[dim])
    return Finding.of("factor", array=name, ratio=first)


def telling(target: Expected) -> int:
    """The number of elements that are large enough for a ratio."""
    return int(np.count_nonzero(np.abs(target.values) > 1e3 * target.tolerance))


def common_ratio(target: Expected, got: np.ndarray) -> float | None:
    """The r with got = r * expected within the tolerance; None if there is none."""
    if not got.any():
        return 0.0
    ratio = float((got * target.values).sum() / (target.values**2).sum())
    room = (1 + abs(ratio)) * np.maximum(target.tolerance, RTOL * target.magnitude + ATOL)
    return ratio if bool(np.all(np.abs(got - ratio * target.values) <= room)) else None


def half(pairs: list) -> Finding | None:
    """Errors of the size of half-precision rounding, or values that are all representable in half precision."""
    pairs = [(seen, target, got) for seen, target, got in pairs if seen.case.values != "integers"]
    if not pairs or any(target.array.dtype not in ("float32", "float64") for _, target, _ in pairs):
        return None
    name = pairs[0][1].array.name
    worst = max(float(np.max(np.abs(got - t.values) / np.maximum(t.magnitude, ATOL))) for _, t, got in pairs)
    if worst < 0.1 and sum(got.size for _, _, got in pairs) >= 4 and all(is_half(got) for _, _, got in pairs):
        return Finding.of("half", array=name, worst=0.0)
    if HALF / 8 < worst < 4 * HALF:
        return Finding.of("half", array=name, worst=worst)
    return None


def whole(pairs: list) -> Finding | None:
    """Integers where fractions are expected."""
    pairs = [(target, got) for seen, target, got in pairs if seen.case.values != "integers"]
    results = [got for _, got in pairs]
    if sum(map(np.count_nonzero, results)) < 4 or any((got != np.round(got)).any() for got in results):
        return None
    if all((target.values == np.round(target.values)).all() for target, _ in pairs):
        return None
    return Finding.of("whole", array=pairs[0][0].array.name)


def is_half(values: np.ndarray) -> bool:
    """Whether all these float values are exactly representable in half precision."""
    with np.errstate(over="ignore"):
        return bool(np.all(values.astype(np.float16).astype(values.dtype) == values))
