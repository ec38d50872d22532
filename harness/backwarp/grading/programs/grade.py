"""Grades a Python puzzle: the file runs in a confined process; arrays, launches and the verdict stay here."""

from __future__ import annotations

from dataclasses import asdict, replace

from ...course.checkout import GRADED
from ...course.declare import Puzzle
from ...devices import open_device
from ...errors import DeviceError, NoSolution
from ..sentences import nth_line, source_line
from ..verdict import ERROR, FAILED, PASSED, SKIPPED, CaseResult, Failure, Verdict
from .program import Program, ProgramError


def judge_program(
    puzzle: Puzzle, source: str, name: str, device: str, seed: int, verdict: Verdict
) -> Verdict:
    """The verdict on a Python file: all cases in order, up to the first that fails."""
    GRADED.set(puzzle.root)
    verdict = replace(verdict, case_total=len(puzzle.cases), next=f"backwarp hint {puzzle.number}")
    if install := puzzle.program.missing:
        lines = [f"Puzzle {puzzle.number} needs {puzzle.program.needs[0]}, which is not installed."]
        return replace(verdict, status=ERROR, kind="device", lines=lines, next=install)
    with Program(puzzle.program.requests, puzzle.program.driver) as program:
        try:
            confined = not puzzle.has_solution  # the kernels are the student's
            with open_device(device, checks="memory", seed=seed, confined=confined) as opened:
                about = dict(device=opened.name, device_kind=opened.kind, device_reason=opened.reason)
                verdict = replace(verdict, **about)
                if puzzle.program.prepare:
                    puzzle.program.prepare(opened)
                verdict = judged(puzzle, program, source, name, opened, seed, verdict)
        except DeviceError as e:
            lines = str(e).splitlines()
            verdict = replace(verdict, status=ERROR, kind="device", lines=lines, next="backwarp doctor")
        except NoSolution as e:
            why = dict(kind="kernels", lines=str(e).splitlines(), next="backwarp list")
            verdict = replace(verdict, status=ERROR, **why)
        verdict.stdout, verdict.stdout_dropped = program.printed, program.dropped
    return verdict


def judged(puzzle: Puzzle, program: Program, source: str, name: str, device, seed: int, verdict: Verdict):
    """The verdict on a device."""
    declared = puzzle.program
    try:
        functions = program.load(source, name, declared.functions, declared.seconds)
    except ProgramError as e:
        again = f"backwarp grade {puzzle.number}"
        return replace(verdict, status=FAILED, kind=e.kind, lines=e.lines, next=again)
    for index, case in enumerate(puzzle.cases):
        program.allow(declared.seconds)
        try:
            finding = declared.check(functions, case, device, seed)
        except ProgramError as e:
            finding = Failure(e.kind, e.lines)
        if finding and not finding.kind:
            verdict.notes, finding = [*verdict.notes, *finding.lines], None
        status = FAILED if finding else PASSED
        verdict.cases.append(CaseResult(case.name, case.dims, "", status, finding.kind if finding else ""))
        if finding:
            verdict.cases += [CaseResult(c.name, c.dims, "", SKIPPED) for c in puzzle.cases[index + 1 :]]
            for number in finding.places:
                finding.lines += source_line(number, nth_line(source, number))[:1]
            return explained(puzzle, index, finding, verdict)
    return replace(verdict, status=PASSED, kind="", next="")


def explained(puzzle: Puzzle, index: int, finding: Failure, verdict: Verdict) -> Verdict:
    """The verdict on the case that failed."""
    case = puzzle.cases[index]
    if finding.hint > 1:
        verdict.next = f"backwarp hint {puzzle.number} {finding.hint}"
    where = dict(case=case.name, case_number=index + 1, dims=case.dims)
    named = dict(kind=finding.kind, mistake=finding.mistake, hint=finding.hint)
    mismatches = [asdict(m) for m in finding.mismatches]
    return replace(verdict, status=FAILED, lines=finding.lines, mismatches=mismatches, **where, **named)
