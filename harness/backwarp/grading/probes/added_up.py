"""What a wrong kernel adds up, or what its results depend on: found by running it with other inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ...course.declare import Case, Kernel, Puzzle
from ...course.parameters import Scalar
from ...cuda.values import Tunables, tunables
from ...devices.launching import triple
from ...errors import KernelFault
from ..findings import Finding
from ..runs import Outcome, Pace, Setup, Trial, start_again
from . import dependences, formulas, not_finite, shares, summed
from .budget import Budget, Spent

TRIED = 3  # cases, to find what is added up


def added_up(
    puzzle: Puzzle,
    source: str,
    shown: Outcome,
    outcomes: list[Outcome],
    examples: bool,
    *,
    setup: Setup,
    seed: int,
) -> Finding | None:
    """What the kernel adds up wrongly, in a case that it, or some threads, complete. examples: name terms without a rule."""
    kernel, t = shown.kernel, tunables(source)
    begin = partial(begun, puzzle, kernel=kernel, t=t, seed=seed)
    if shown.mismatches and not math.isfinite(shown.mismatches[0].first.got):
        again = partial(start_again, begin(shown.case), setup)
        if what := not_finite.explain(source, kernel.name, setup.device, again):
            return replace(what, where="In this case")
    out = {o.case.name: o for o in outcomes if o.kernel is kernel and o.kind not in ("wrong", "unwritten")}
    small = summed.most_telling(puzzle, kernel)
    if all(case.name in out for case in small):
        small = summed.most_telling(puzzle, kernel, dependences.LARGEST)
    cases = [case for case in small if case.name not in out]
    cases = (cases or [case for case in small if leaves_an_array(out[case.name])])[:TRIED]
    budget = Budget()
    tries = [*((case, False) for case in cases), *((case, True) for case in cases[:1])]
    if not shown.error and shares.adds_together(kernel, source):
        if share := of_shares(shown, list(map(begin, busy(puzzle, shown, outcomes, t))), setup, budget):
            return share
    some = []
    for case, alone in tries:
        trial = begin(case)
        if not trial.launch:
            continue
        this = case is shown.case
        where = "In this case" if this else f"In case {case.name}{options(kernel, trial.dims)}"
        where += ", among the threads that stay within the arrays" * (case.name in out)
        run = summed.launches(trial, setup, budget)
        if summed.least_cost(trial, run) > budget.left:  # a smaller case may say as much
            continue
        what, pairs = in_letters(trial, run, budget, alone, races(out.get(case.name)))
        if what:
            return replace(what, where=where)
        fractions = (p for p in kernel.params if isinstance(p, Scalar) and p.dtype.startswith("float"))
        scalars = {p.name: p.resolve(trial.dims) for p in fractions}
        some += [replace(f, where=where) for pair in pairs if (f := formulas.difference(*pair, scalars))]
    return some[0] if some and examples else None


def of_shares(shown: Outcome, trials: list[Trial], setup: Setup, budget: Budget) -> Finding | None:
    """What happens to the threads' shares, in the case that says most about threads."""
    every = []
    with suppress(Spent):
        for trial in trials:
            known, what = shares.explain(trial, setup, budget) if trial.launch else (0, None)
            case = trial.outcome.case
            where = "In this case" if case is shown.case else f"In case {case.name}"
            every += [(known, replace(what, where=where))] if what else []
    return max(every, key=lambda each: each[0])[1] if every else None


def busy(puzzle: Puzzle, shown: Outcome, outcomes: list[Outcome], t: Tunables) -> list[Case]:
    """The shown case, and small wrong ones with work for every thread of the launch, or else of a block."""

    def idle(case: Case) -> int:
        dims = puzzle.full_dims(case)
        launch = shown.kernel.launch(dict(dims), t)
        block, grid = (math.prod(triple(x, "")) for x in (launch.block, launch.grid))
        elements = max((math.prod(a.shape(dims)) for a in shown.kernel.arrays if a.role == "in"), default=0)
        return (elements < block) + (elements < block * grid)

    wrong = [o.case for o in outcomes if o.kernel is shown.kernel and o.kind == "wrong" and not o.case.stress]
    return [shown.case, *sorted((case for case in wrong if case is not shown.case), key=idle)][:TRIED]


def begun(puzzle: Puzzle, case: Case, kernel: Kernel, t: Tunables, seed: int) -> Trial:
    trial = Trial(Outcome(case, kernel), Pace())
    trial.begin(puzzle, t, seed)
    return trial


def races(outcome: Outcome | None) -> bool:
    """Whether threads of a launch race, beside what else is wrong with it."""
    error = outcome and outcome.error
    return isinstance(error, KernelFault) and "race" in {error.kind, *(f.kind for f in error.more)}


def in_letters(
    trial: Trial, run: summed.Run, budget: Budget, alone: bool, raced: bool = False
) -> tuple[Finding | None, list]:
    """What the kernel adds up, or its output depends on, by the axes; and terms that can only serve as examples."""
    kernel, general, pairs = trial.outcome.kernel, [], []
    given = kernel, trial.dims, trial.arrays, run, budget
    with suppress(Spent):
        for want, got in summed.sums_of(*given, alone):
            pairs.append((want, got))
            if what := formulas.general(want, got, raced):
                general.append(what)
                if len(kernel.outputs) == 1:
                    break
        if not general and not pairs and not alone:
            general = [dependences.explain(*given)]
    general.sort(key=lambda f: f is not None and f.kind != "nothing_gets")
    return general[0] if general else None, pairs


def leaves_an_array(outcome: Outcome) -> bool:
    return isinstance(outcome.error, KernelFault) and outcome.error.kind == "out-of-bounds"


def options(kernel: Kernel, dims: Mapping[str, int]) -> str:
    """The parameters of a case that are not array sizes."""
    sizes = {size for a in kernel.arrays for _, size in a.axes} | {"C_in", "C_out"}
    found = {p.name: p.resolve(dims) for p in kernel.params if isinstance(p, Scalar) and p.dtype == "int32"}
    shown = [f"{name}={value}" for name, value in found.items() if name not in sizes]
    return f" ({' '.join(shown)})" if shown else ""
