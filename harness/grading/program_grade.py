"""Grades a Python puzzle: its cases run in a child process, which is killed if it hangs."""

from __future__ import annotations

from dataclasses import asdict, replace

from ..course.declare import Puzzle
from ..devices.child import Child
from ..errors import DeviceError
from .programs import ProgramError
from .verdict import ERROR, FAILED, PASSED, SKIPPED, CaseResult, Finding, Verdict

START_LIMIT, GRACE = 180.0, 3.0  # seconds to open a device and prepare; beyond the limit of a case


def judge_program(
    puzzle: Puzzle, source: str, name: str, device: str, seed: int, verdict: Verdict
) -> Verdict:
    """The verdict on a Python file: all cases in order, up to the first that fails."""
    child = Child("harness.grading.program_worker")
    verdict = replace(verdict, case_total=len(puzzle.cases), next=f"backwarp hint {puzzle.number}")
    try:
        about = child.ask("open", (puzzle.root, puzzle.id, source, name, device, seed), START_LIMIT)
        verdict.device, verdict.device_kind, verdict.device_reason = about
        if finding := ask(child, puzzle, "load", (), name, verdict):
            return replace(
                verdict,
                status=FAILED,
                kind=finding.kind,
                lines=finding.lines,
                next=f"backwarp grade {puzzle.number}",
            )
        for index, case in enumerate(puzzle.cases):
            finding = ask(child, puzzle, "case", (index,), name, verdict)
            status = FAILED if finding else PASSED
            verdict.cases.append(
                CaseResult(case.name, case.dims, "", status, finding.kind if finding else "")
            )
            if finding:
                verdict.cases += [CaseResult(c.name, c.dims, "", SKIPPED) for c in puzzle.cases[index + 1 :]]
                return explained(puzzle, index, finding, verdict)
    except DeviceError as e:
        return replace(
            verdict, status=ERROR, kind="device", lines=str(e).splitlines(), next="backwarp doctor"
        )
    finally:
        child.end()
    return replace(verdict, status=PASSED, kind="", next="")


def ask(
    child: Child, puzzle: Puzzle, request: str, arguments: tuple, name: str, verdict: Verdict
) -> Finding | None:
    """One request to the child; the first output of the student's code goes into the verdict."""
    seconds = puzzle.program.seconds
    try:
        answer, printed, dropped = child.ask(request, (seconds, *arguments), seconds + GRACE)
    except TimeoutError:
        return Finding("timeout", [f"{name} is still running after {seconds:g} s, and was ended."])
    except (EOFError, ConnectionError):
        return Finding("exception", [f"The Python process of {name} ended unexpectedly."])
    if not verdict.stdout:
        verdict.stdout, verdict.stdout_dropped = printed, dropped
    return Finding(answer.kind, answer.lines) if isinstance(answer, ProgramError) else answer


def explained(puzzle: Puzzle, index: int, finding: Finding, verdict: Verdict) -> Verdict:
    """The verdict on the case that failed."""
    case = puzzle.cases[index]
    if finding.hint > 1:
        verdict.next = f"backwarp hint {puzzle.number} {finding.hint}"
    return replace(
        verdict,
        status=FAILED,
        kind=finding.kind,
        lines=finding.lines,
        case=case.name,
        case_number=index + 1,
        dims=case.dims,
        mismatches=[asdict(m) for m in finding.mismatches],
        mistake=finding.mistake,
        hint=finding.hint,
    )
