"""Chooses the failing outcome that a verdict explains, and writes the explanation.

Witnesses say what they know of it, each as findings: the fault, the results, what runs show, and the text. `kinds/` says which
of these come first, and which only follow from others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from ..course.array_names import name_in_file
from ..course.declare import Kernel, Puzzle
from ..cuda.text import read
from ..cuda.values import tunables
from ..errors import KernelFault, LaunchError
from . import sentences
from .compare import error_map
from .findings import Finding, in_order
from .results import naming
from .runs import Outcome
from .slips.block_slips import same_slot, takes_what_changes
from .slips.causes import causes
from .slips.collectives import kept_away
from .slips.only_store import only_store
from .slips.statements import slips
from .slips.unset import left_in_a_loop, read_unset, too_few_threads, written_twice
from .verdict import RUNNABLE, Verdict


@dataclass(frozen=True)
class Asked:
    """What is to be explained. added: see `added_up`; noted: what to say of a fault when it is run again; unnamed: see
    `naming.explain`; named: whether to say what the results look like."""

    puzzle: Puzzle
    source: str
    shown: Outcome
    outcomes: Sequence[Outcome]
    foresee: naming.Foresee
    added: Callable[[bool], Finding | None] = lambda examples: None
    noted: Callable[[], list[Finding]] = list
    unnamed: bool = True
    named: bool = True

    @property
    def kernel(self) -> Kernel:
        return self.shown.kernel

    @property
    def fault(self) -> KernelFault | None:
        return self.shown.error if isinstance(self.shown.error, KernelFault) else None

    def of_text(self, **how: bool) -> list[Finding]:
        """What the text says: see `slips.causes`."""
        own = [o for o in self.outcomes if o.kernel is self.kernel and o.kind in RUNNABLE]
        failed = [self.puzzle.full_dims(o.case) for o in own]
        return causes(self.puzzle, self.kernel, self.source, failed, **how) if self.unnamed else []

    def ordered(self, findings: Sequence[Finding]) -> list[Finding]:
        return in_order(findings, self.fault.kind if self.fault else self.shown.kind)

    def observed(self) -> list[naming.Observation]:
        """What the shown kernel wrote in the cases it completed, except very large ones, which take long."""
        seen = [o for o in self.outcomes if o.kernel is self.kernel and not o.case.stress]
        return [o.observation for o in seen if o.observation and o.kind != "schedule"]


def clearest(failed: list[Outcome]) -> Outcome:
    """The outcome to explain: the first; but rather a race between warps than within one, and wrong results than a harmless race."""

    def race(o: Outcome, severity: str) -> bool:
        return isinstance(o.error, KernelFault) and (o.error.kind, o.error.severity) == ("race", severity)

    first = failed[0]
    if first.error in first.same_writes:
        return next((o for o in failed if o.kernel is first.kernel and o.error not in o.same_writes), first)
    if not race(first, "warning"):
        return first
    return next((o for o in failed if o.kernel is first.kernel and race(o, "error")), first)


@np.errstate(all="ignore")  # numbers that a kernel stores may be any
def explain(asked: Asked, verdict: Verdict) -> list[str]:
    """The lines that explain an outcome; fills in the fields with the explanation as data."""
    if asked.fault:
        return of_fault(asked, verdict)
    if isinstance(asked.shown.error, LaunchError):
        return [f"{asked.kernel.name} cannot be launched: {asked.shown.error.code}", str(asked.shown.error)]
    if not asked.shown.mismatches:
        return list(asked.shown.lines)
    verdict.mismatches = [asdict(m) for m in asked.shown.mismatches]
    verdict.error_map = wrong_elements(asked.shown)
    claim, findings = of_results(asked) if asked.named else (None, [])
    if claim:
        verdict.mistake, verdict.hint = naming.name_of(claim), claim.facts.get("hint", 0)
        if verdict.hint > 1:
            verdict.next = f"backwarp hint {asked.puzzle.number} {verdict.hint}"
    verdict.findings = findings = asked.ordered(findings)
    about = dict(pattern=not claim, explained=any(f.kind == "not_finite" for f in findings))
    lines = sentences.mismatch(asked.shown.mismatches, asked.shown.case.special, **about)
    leading = [str(f) for f in findings if f.leads]
    return leading + lines + [str(f) for f in findings if not f.leads]


def of_results(asked: Asked) -> tuple[Finding | None, list[Finding]]:
    """(the name of what the kernel computes, all that is found) for wrong results."""
    shown = asked.shown
    if shown.kind == "schedule":
        return None, [*shown.findings, *asked.of_text()]
    if all(o.case.scale for o in asked.outcomes if o.kernel is shown.kernel and o.kind):
        return None, [Finding.of("other_values", note=shown.case.note), *asked.of_text()]
    seen = sorted(asked.observed(), key=lambda o: o.case is not shown.case)
    claim = naming.explain(asked.puzzle, asked.kernel, seen, asked.foresee, asked.unnamed)
    if claim and claim.kind == "mistake":
        return claim, [claim, *(f for f in slips(asked.source, asked.kernel.name) if f.row.leads(shown.kind))]
    first = claim
    if not claim and shown.kind == "wrong":
        first = asked.added(True)
    findings = [first] if first else []
    if shown.kind == "unwritten":
        findings += of_unwritten(asked, bool(findings))
    named = bool(claim and naming.name_of(claim))
    findings += asked.of_text(named=named)
    if shown.kind == "unwritten" and not findings:
        findings = only_store(shown.mismatches[0].array, asked.kernel, asked.source)
    return claim, findings


def of_unwritten(asked: Asked, explained: bool) -> list[Finding]:
    """Why elements were never written."""
    shown, kernel, source = asked.shown, asked.kernel, asked.source
    findings = sentences.unwritten(asked.puzzle, kernel, source, shown.mismatches)
    findings += left_in_a_loop(kernel, source)
    launch = kernel.launch(asked.puzzle.full_dims(shown.case), tunables(source))
    findings += too_few_threads(shown.observation, launch)
    if shown.same_writes and not findings and not explained:
        findings += written_twice(shown.same_writes[0])
    return findings


def of_fault(asked: Asked, verdict: Verdict) -> list[str]:
    """For a fault: what happened, the values behind it, and why."""
    fault, shown, source = asked.fault, asked.shown, asked.source
    verdict.fault = asdict(fault)
    reasons = sentences.returned_early(fault, asked.kernel, source) + read_unset(fault, asked.kernel, source)
    reasons += kept_away(fault, asked.kernel.name, source) + clashes(fault, asked.kernel, source)
    reasons += asked.of_text()
    launched = asked.puzzle, tunables(source), source
    why = sentences.surplus_thread(fault, asked.kernel, shown.case, *launched)
    what = None if shown.timed_out else asked.added(all(f.leads for f in asked.ordered(reasons)))
    others = [what] if what else []
    values = asked.noted()
    verdict.findings = asked.ordered([*why, *reasons, *others, *values])
    first = [str(f) for f in verdict.findings if f.leads]
    rest = [str(f) for f in verdict.findings if not f.leads and f not in values]
    # where it strays matters less than why, and what usually helps less than what does
    short = bool(reasons) and fault.kind == "uninitialised-read"
    briefly = replace(fault, other=None) if short else fault
    called = name_in_file(fault.array, asked.kernel, source)
    lines = sentences.fault(replace(briefly, more=()), source, called, values, fact_only=bool(first))
    lines = first + lines + sentences.wrong_type(fault, asked.kernel)
    repeats = (o for o in asked.outcomes if o.kernel is asked.kernel and o.same_writes)
    if shown.timed_out and not first and (o := next(repeats, None)):
        lines = sentences.repeated(o.case.name, o.same_writes[0], source) + lines
    return lines + rest + ([] if first else sentences.others(briefly))


def clashes(fault: KernelFault, kernel: Kernel, source: str) -> list[Finding]:
    """Why threads race."""
    own = read(source).function(kernel.name)
    what = own and (takes_what_changes(fault, own) or same_slot(fault, own))
    return [what] if what else []


def wrong_elements(shown: Outcome) -> Mapping:
    """The error map of the first wrong output."""
    seen, name = shown.observation, shown.mismatches[0].array
    target = next(t for t in seen.targets if t.array.name == name)
    return error_map(target, seen.results[name], seen.before[name], seen.written.get(name))
