"""What a verdict says of a kernel that failed: loaded only then."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from ..course.declare import Puzzle
from . import race_timeline, sentences
from .causes import fault_values, left_out, written
from .causes.wrong_kernels import WrongKernels
from .explain import added_up, again, clearest, explain
from .runs import Outcome, Setup, in_order
from .verdict import FAILED, Verdict

if TYPE_CHECKING:
    from .grade import Options


def explained(
    puzzle: Puzzle,
    source: str,
    outcomes: list[Outcome],
    verdict: Verdict,
    options: Options,
    setup: Setup | None,
) -> Verdict:
    """The verdict, with the failing case that shows most and what explains it. setup: see `conclude`."""
    failed = [o for o in outcomes if o.kind]
    shown = clearest(failed)
    verdict.stdout, verdict.stdout_dropped = shown.stdout, shown.stdout_dropped
    verdict.status, verdict.kind = FAILED, shown.kind
    verdict.case, verdict.dims, verdict.kernel = shown.case.name, shown.case.dims, shown.kernel.name
    verdict.case_number = in_order(puzzle).index(shown.case) + 1
    foresee = options.foresee
    known = nullcontext(foresee) if foresee else WrongKernels(puzzle, shown.kernel, source, verdict.seed)
    with known as foresee:
        again_here = setup and setup.device.kind == "cpu" and options.again
        how = partial(added_up, puzzle, source, shown, outcomes, setup=setup, seed=verdict.seed)
        added = how if again_here else lambda examples: ""
        verdict.lines = explain(puzzle, source, shown, outcomes, verdict, foresee, added, options.told)
    great = shown is failed[0] and shown.case.stress and shown.kind in ("fault", "wrong", "unwritten")
    if great and not any(again(o, shown) for o in outcomes):
        verdict.lines.append(sentences.great_sizes(shown.case))
    return verdict


def looked_into(
    puzzle: Puzzle, source: str, outcomes: list[Outcome], verdict: Verdict, setup: Setup
) -> Verdict:
    """The verdict on a fault, with the values behind it, or the steps of a race: the case is run again for them."""
    shown = next(o for o in outcomes if (o.case.name, o.kernel.name) == (verdict.case, verdict.kernel))
    trial = puzzle, source, shown, setup, verdict.seed
    values = fault_values.of_trial(*trial) + written.of_trial(*trial) + left_out.of_trial(*trial)
    verdict.lines = fault_values.insert(verdict.lines, shown.error, values)
    verdict.causes += [line for line in values if not line.startswith("There ")]
    if verdict.diagnosis == "race":
        verdict.timeline = race_timeline.timeline(*trial)
    return verdict
