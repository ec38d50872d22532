"""What a verdict says of a kernel that failed: loaded only then."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..course.declare import Puzzle
from . import race_timeline, sentences
from .explain import Asked, clearest, explain
from .findings import Finding
from .probes import access_map, fault_values, written
from .probes.added_up import added_up
from .results.wrong_kernels import WrongKernels
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
    kernels = {o.kernel.name: o.kernel for o in failed}.values()
    empty = {k.name: found for k in kernels if (found := sentences.still_empty(puzzle, k, source))}
    begun = [o for o in failed if o.kernel.name not in empty]  # what is wrong there is worth more
    shown = clearest(begun or failed)
    verdict.stdout, verdict.stdout_dropped = shown.stdout, shown.stdout_dropped
    verdict.status, verdict.kind = FAILED, shown.kind
    verdict.case, verdict.dims, verdict.kernel = shown.case.name, shown.case.dims, shown.kernel.name
    verdict.case_number = in_order(puzzle).index(shown.case) + 1
    foresee = options.foresee
    known = nullcontext(foresee) if foresee else WrongKernels(puzzle, shown.kernel, source, verdict.seed)
    again = setup and setup.device.kind == "cpu" and options.again
    with known as foresee:
        named = not options.case  # a single case looks like many things
        asked = Asked(puzzle, source, shown, outcomes, foresee, unnamed=options.unnamed, named=named)
        if again:
            added = partial(added_up, puzzle, source, shown, outcomes, setup=setup, seed=verdict.seed)
            rerun = puzzle, source, shown, setup, verdict.seed
            noted = lambda: fault_values.explain(*rerun) + written.explain(*rerun)  # noqa: E731
            asked = replace(asked, added=added, noted=noted)
        verdict.lines = explain(asked, verdict)
    if again and access_map.may_tell(verdict):
        wrong = [o.case for o in failed if o.kernel is shown.kernel and not o.case.stress and o is not shown]
        given = puzzle, shown.kernel, source, [shown.case, *wrong], setup
        found = access_map.wrong_accesses(*given, raced=verdict.diagnosis == "race")
        known = {verdict.fault["line"]} if verdict.fault else set()
        found = [f for f in found if f.all_lines - known]
        refuted = [str(f) for f in verdict.findings if is_refuted(f, found)]
        verdict.findings = [f for f in verdict.findings if str(f) not in refuted] + found
        verdict.lines = [line for line in verdict.lines if line not in refuted]
        verdict.lines += map(str, found)
    if begun:
        verdict.findings += (found := [f for findings in empty.values() for f in findings])
        verdict.lines += map(str, found)
    if again and verdict.diagnosis == "race":
        verdict.timeline = race_timeline.timeline(puzzle, source, shown, setup, verdict.seed)
    ran = shown.kind in ("fault", "wrong", "unwritten")
    great = shown is (begun or failed)[0] and shown.case.stress and ran
    if great and not any(o.kernel is shown.kernel and o.same_writes for o in outcomes):
        verdict.lines.append(sentences.great_sizes(shown.case))
    return verdict


def is_refuted(finding: Finding, accesses: list[Finding]) -> bool:
    """Whether what results look like is a wrong place in an array, and the accesses are wrong in another array."""
    arrays = {a.facts["array"] for a in accesses if a.facts["kind"] != "missing"}
    is_place = finding.kind in ("other_steps", "other_place")
    return bool(arrays) and is_place and finding.facts["array"] not in arrays
