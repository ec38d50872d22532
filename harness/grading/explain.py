"""Chooses the failing outcome that a verdict explains, and writes the explanation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial

from ..course.array_names import name_in_file
from ..course.declare import Case, Kernel, Puzzle
from ..course.parameters import Scalar
from ..cuda.text import read
from ..cuda.values import Tunables, tunables
from ..devices.launching import triple
from ..errors import KernelFault, LaunchError
from . import sentences
from .causes import dependences, formulas, integers, naming, not_finite, orders, shares, summed
from .causes.array_steps import SHAPE
from .causes.block_slips import same_slot, stores_meet, takes_what_changes
from .causes.budget import Budget, Spent
from .causes.collectives import kept_away
from .causes.launch_axes import DO_THE_SAME
from .causes.limits import ends_there
from .causes.misuses import DEPENDS, LAUNCH_PASSES
from .causes.only_store import only_store, stores_a_comparison
from .causes.remainders import OTHER_SIZE
from .causes.text_causes import causes
from .causes.tile_slips import TURNED
from .causes.too_few import NO_THREAD
from .causes.unset import left_in_a_loop, read_unset, too_few_threads, written_twice, zeros_left_out
from .compare import error_map
from .runs import Outcome, Pace, Setup, Trial, start_text
from .verdict import RUNNABLE, Verdict

TRIED = 3  # cases, to find what is added up


def clearest(failed: list[Outcome]) -> Outcome:
    """The outcome to explain: the first, except that a race between warps takes precedence over the same
    kernel's race within a warp, whose remedy would not be enough."""

    def race(o: Outcome, severity: str) -> bool:
        return isinstance(o.error, KernelFault) and (o.error.kind, o.error.severity) == ("race", severity)

    first = failed[0]
    if not race(first, "warning"):
        return first
    return next((o for o in failed if o.kernel is first.kernel and race(o, "error")), first)


def explain(
    puzzle: Puzzle,
    source: str,
    shown: Outcome,
    outcomes: list[Outcome],
    verdict: Verdict,
    foresee: naming.Foresee,
    added: Callable[[bool], str] = lambda examples: "",
    told: bool = True,
) -> list[str]:
    """Explains the outcome `shown`, and fills in the fields with the explanation as data. added: see
    `added_up`; told: see `naming.explain`."""
    verdict.causes, verdict.suspicions = [], []
    failed = [puzzle.full_dims(o.case) for o in outcomes if o.kernel is shown.kernel and o.kind in RUNNABLE]

    kind = shown.error.kind if isinstance(shown.error, KernelFault) else shown.kind
    raced = shown.error.array if kind == "race" else ""

    def of_text(**how: bool) -> list[str]:
        found = causes(puzzle, shown.kernel, source, failed, **how) if told else []
        sure = decisive(found, kind, raced)
        verdict.suspicions = [text for text in found if text not in sure]
        return found

    if isinstance(shown.error, KernelFault):
        verdict.fault = asdict(shown.error)
        reasons = sentences.returned_early(shown.error, shown.kernel, source)
        reasons += read_unset(shown.error, shown.kernel, source)
        reasons += kept_away(shown.error, shown.kernel.name, source)
        reasons += clashes(shown.error, shown.kernel, source) + of_text()
        short = reasons and shown.error.kind == "uninitialised-read"  # where it strays matters less than why
        called = name_in_file(shown.error.array, shown.kernel, source)
        found = replace(shown.error, other=None) if short else shown.error
        first = decisive(reasons, kind, raced)
        reasons = [text for text in reasons if text not in first]
        fact = replace(found, more=(), explanation=advice_apart(found)[0] if first else found.explanation)
        lines = first + sentences.fault(fact, source, called)
        lines += sentences.wrong_type(shown.error, shown.kernel)
        launched = puzzle, tunables(source), source
        surplus = sentences.surplus_thread(shown.error, shown.kernel, shown.case, *launched)
        others = elsewhere(puzzle, shown, outcomes, verdict, foresee)
        others = others or ([] if shown.timed_out or not (says := added(not reasons)) else [says])
        why = surplus + reasons + without_consequences(others, first + reasons)
        verdict.causes = first + why
        if repeated := not first and shown.timed_out and next((o for o in outcomes if again(o, shown)), None):
            lines = sentences.repeated(repeated.case.name, repeated.same_writes[0], source) + lines
        return lines + why + ([] if first else sentences.others(found))
    if isinstance(shown.error, LaunchError):
        return sentences.launch_error(shown.error, shown.kernel)
    if not shown.mismatches:
        return list(shown.lines)
    verdict.mismatches = [asdict(m) for m in shown.mismatches]
    verdict.error_map = wrong_elements(shown)
    lines = sentences.mismatch(shown.mismatches, shown.case.special)
    if shown.kind == "schedule":
        verdict.causes = list(shown.lines) or of_text()
        return lines + verdict.causes
    if all(o.case.scale for o in outcomes if o.kernel is shown.kernel and o.kind):
        verdict.causes = [sentences.other_values(shown.case), *of_text()]
        return lines + verdict.causes
    seen = observed(shown, outcomes)
    seen.sort(key=lambda o: o.case is not shown.case)
    claim = naming.explain(puzzle, shown.kernel, seen, foresee, told)
    if claim:
        verdict.mistake, verdict.hint = claim.name, claim.hint
        compared = stores_a_comparison(shown.kernel, source) if naming.WHOLE in claim.says else ""
        verdict.causes = [compared or claim.says]
        lines = [line for line in lines if not line.startswith("Wrong: ")]
        if claim.hint > 1:
            verdict.next = f"backwarp hint {puzzle.number} {claim.hint}"
        if claim.name in [m.name for m in puzzle.mistakes]:
            beside = NO_THREAD, TURNED
            verdict.causes += [t for t in of_text(explained=True) if any(says in t for says in beside)]
            verdict.suspicions = verdict.causes[1:]
            return lines + verdict.causes
    elif says := shown.kind == "wrong" and (integers.explain(shown.kernel, seen) or added(True)):
        if not_finite.ARISES in says:
            lines = [line for line in lines if not line.startswith(("nan is", "inf is"))]
        verdict.causes = [says]
    if shown.kind == "unwritten":
        verdict.causes += sentences.unwritten(puzzle, shown.kernel, source, shown.mismatches)
        verdict.causes += left_in_a_loop(shown.kernel, source) or zeros_left_out(seen)
        launch = shown.kernel.launch(puzzle.full_dims(shown.case), tunables(source))
        verdict.causes += too_few_threads(shown.observation, launch)
        if shown.same_writes and not verdict.causes:
            verdict.causes.append(written_twice(shown.same_writes[0]))
    of_lines = of_text(explained=bool(verdict.causes), named=bool(claim and claim.name))
    why = without_consequences(verdict.causes, of_lines) + of_lines
    if shown.kind == "unwritten" and not why:
        why = only_store(shown.mismatches[0].array, shown.kernel, source)
    first = decisive(why, kind)
    why = [text for text in why if text not in first]
    verdict.causes = first + why
    return first + lines + why


def without_consequences(says: list[str], of_lines: list[str]) -> list[str]:
    """Where threads are lacking, that sums stop early is no more than what follows."""
    if not any(NO_THREAD in text for text in of_lines):
        return says
    return [text for text in says if " stop early, " not in text]


def decisive(says: list[str], kind: str, raced: str = "") -> list[str]:
    """The sentences that come before everything, as the rest follows from them. kind: of the fault or verdict; raced: the
    array of a race, where a wrong step is why threads meet."""
    of_all = LAUNCH_PASSES, OTHER_SIZE
    ends = of_all if kind in sentences.ENDS else (*of_all, DO_THE_SAME, NO_THREAD)
    of_values = (DEPENDS,) * (kind in ("wrong", "unwritten"))
    of_steps = (f" in {raced}{SHAPE}",) * bool(raced)
    return [text for text in says if any(mark in text for mark in ends + of_values + of_steps)]


def advice_apart(fault: KernelFault) -> tuple[str, str]:
    """What happened, and what usually helps."""
    fact, _, advice = fault.explanation.partition(". ")
    return (f"{fact}.", advice) if advice else (fault.explanation, "")


def added_up(
    puzzle: Puzzle,
    source: str,
    shown: Outcome,
    outcomes: list[Outcome],
    examples: bool,
    *,
    setup: Setup,
    seed: int,
) -> str:
    """What the kernel adds up wrongly, in a case that it completes; failing that, in one that some threads
    complete. examples: whether to name terms of one element if there is no rule."""
    kernel, t = shown.kernel, tunables(source)
    begin = partial(begun, puzzle, kernel=kernel, t=t, seed=seed)
    if shown.mismatches and not math.isfinite(shown.mismatches[0].first.got):
        again = partial(start_text, puzzle=puzzle, trial=begin(shown.case), setup=setup)
        if says := not_finite.told(source, kernel.name, setup.device, again):
            return f"In this case, {says}"
    out = {o.case.name: o for o in outcomes if o.kernel is kernel and o.kind not in ("wrong", "unwritten")}
    small = summed.most_telling(puzzle, kernel)
    if all(case.name in out for case in small):
        small = summed.most_telling(puzzle, kernel, dependences.LARGEST)
    cases = [case for case in small if case.name not in out]
    cases = (cases or [case for case in small if leaves_an_array(out[case.name])])[:TRIED]
    budget = Budget()
    tries = [*((case, False) for case in cases), *((case, True) for case in cases[:1])]
    if not shown.error and shares.adds_together(kernel, source):
        if says := of_shares(shown, list(map(begin, busy(puzzle, shown, outcomes, t))), setup, budget):
            parts = "warps" if ", what warp" in says else "threads"
            return says + only_powers_of_two(puzzle, shown, outcomes, t, parts * ("is lost" in says))
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
        says, pairs = in_letters(trial, run, budget, alone, races(out.get(case.name)))
        if says:
            return f"{where}, {says}{ends_there(kernel, source, trial.dims, says)}"
        scalars = {p.name: p.resolve(trial.dims) for p in kernel.params if is_fraction(p)}
        some += [f"{where}, {text}" for pair in pairs if (text := formulas.told(*pair, scalars))]
    return some[0] if some and examples else ""


def is_fraction(p: object) -> bool:
    return isinstance(p, Scalar) and p.dtype.startswith("float")


def of_shares(shown: Outcome, trials: list[Trial], setup: Setup, budget: Budget) -> str:
    """What happens to the threads' shares, in the case that says most about threads."""
    found = []
    with suppress(Spent):
        for trial in trials:
            known, says = shares.told(trial, setup, budget) if trial.launch else (0, "")
            case = trial.outcome.case
            where = "In this case" if case is shown.case else f"In case {case.name}"
            found += [(known, f"{where}, {says}")] * bool(says)
    return max(found, key=lambda f: f[0])[1] if found else ""


def only_powers_of_two(
    puzzle: Puzzle, shown: Outcome, outcomes: list[Outcome], t: Tunables, lost: str
) -> str:
    """A sentence if all cases with power-of-two blocks are right, and some others are not. lost: "threads" or "warps" if
    what some of them read is lost."""
    found: dict[bool, set[bool]] = {True: set(), False: set()}
    for o in outcomes:
        if o.kernel is shown.kernel and o.observation:
            threads = math.prod(triple(shown.kernel.launch(puzzle.full_dims(o.case), t).block, ""))
            found[threads & (threads - 1) == 0].add(not o.observation.failed)
    if found[True] != {True} or False not in found[False]:
        return ""
    why = f": half of an odd number of {lost} leaves one out" if lost else ""
    return f" All blocks of 2, 4, 8 ... threads are right{why}."


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
) -> tuple[str, list]:
    """What the kernel adds up, or what its output depends on, in terms of the axes; and terms that can only
    serve as examples."""
    kernel, told, pairs = trial.outcome.kernel, [], []
    given = kernel, trial.dims, trial.arrays, run, budget
    with suppress(Spent):
        for want, got in summed.sums_of(*given, alone):
            pairs.append((want, got))
            if says := formulas.general(want, got, raced):
                told.append(says)
                if len(kernel.outputs) == 1:
                    break
        if not told and not pairs and not alone:
            told = [dependences.told(*given) or orders.told(*given)]
    told.sort(key=lambda text: "nothing of" not in text)
    return told[0] if told else "", pairs


def clashes(fault: KernelFault, kernel: Kernel, source: str) -> list[str]:
    own = read(source).function(kernel.name)
    if not own:
        return []
    outputs = [a.name for a in kernel.outputs]
    says = takes_what_changes(fault, own) or stores_meet(fault, own, outputs) or same_slot(fault, own)
    return [says] * bool(says)


def leaves_an_array(outcome: Outcome) -> bool:
    return isinstance(outcome.error, KernelFault) and outcome.error.kind == "out-of-bounds"


def options(kernel: Kernel, dims: Mapping[str, int]) -> str:
    """The parameters of a case that are not array sizes."""
    sizes = {size for a in kernel.arrays for _, size in a.axes} | {"C_in", "C_out"}
    found = {p.name: p.resolve(dims) for p in kernel.params if isinstance(p, Scalar) and p.dtype == "int32"}
    shown = [f"{name}={value}" for name, value in found.items() if name not in sizes]
    return f" ({' '.join(shown)})" if shown else ""


def observed(shown: Outcome, outcomes: list[Outcome]) -> list[naming.Observation]:
    """What the shown kernel wrote in the cases it completed, except very large ones, which take long."""
    seen = [o for o in outcomes if o.kernel is shown.kernel and not o.case.stress]
    return [o.observation for o in seen if o.observation and o.kind != "schedule"]


def elsewhere(
    puzzle: Puzzle, shown: Outcome, outcomes: list[Outcome], verdict: Verdict, foresee: naming.Foresee
) -> list[str]:
    """After a fault: the mistake, if any, that the kernel shows in the cases it completes."""
    seen = sorted(observed(shown, outcomes), key=lambda o: not o.failed)
    if not seen or not seen[0].failed:
        return []
    claim = naming.the_only(naming.declared(puzzle, shown.kernel, seen, foresee))
    if not claim:
        return []
    if claim.hint > 1:
        verdict.next = f"backwarp hint {puzzle.number} {claim.hint}"
    return [f"Case {seen[0].case.name} runs to its end, but is wrong. {claim.says}"]


def wrong_elements(shown: Outcome) -> dict:
    """The error map of the first wrong output."""
    seen, name = shown.observation, shown.mismatches[0].array
    target = next(t for t in seen.targets if t.array.name == name)
    return error_map(target, seen.results[name], seen.before[name], seen.written.get(name))


def again(outcome: Outcome, shown: Outcome) -> bool:
    """Did several threads write the same element in this outcome of the shown kernel?"""
    return outcome.kernel is shown.kernel and bool(outcome.same_writes)
