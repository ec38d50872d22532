"""The result of grading: one plain object, presented as text, JSON and by other tools."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .findings import Finding

PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
# verdicts on kernels that run: a second device can explain them, and a change may repair them
RUNNABLE = {"fault", "wrong", "unwritten", "schedule", "input-changed", "launch"}
EXIT = {PASSED: 0, FAILED: 1, ERROR: 2}


@dataclass
class CaseResult:
    """One kernel in one case. status: "passed" | "failed" | "skipped"; kind as in Verdict."""

    name: str
    dims: dict[str, int]
    kernel: str
    status: str
    kind: str = ""


@dataclass
class Failure:
    """What is wrong in one case of a Python file; fields as in Verdict, mismatches are compare.Mismatch. places: lines of the
    file to be shown, by number. kind: "" if nothing is wrong, and lines say what is worth knowing."""

    kind: str
    lines: list[str]
    mistake: str = ""
    hint: int = 0
    mismatches: list = field(default_factory=list)
    places: tuple[int, ...] = ()


@dataclass
class Verdict:
    """The verdict on one kernel file; picklable, and JSON-able through `as_dict`.

    status: "passed", "failed", or "error" (nothing could be judged on this machine).
    kind, where not passed: "source", "encoding", "untouched", "compile", "unsupported", "missing-kernel",
    "signature", "tunable", "launch", "fault", "wrong", "unwritten", "input-changed", "schedule", "printing",
    "slow" (right, but a gate is not passed), "device"; for a Python file also "syntax", "missing-function",
    "exception", "timeout", "kernels" (its kernels are not solved yet, and there are no solutions). case,
    kernel, dims: the smallest failing case, which `lines` explain. lines: sentences, and source lines
    indented by four spaces; findings: what some of the sentences say, as data. next: the command to try next.
    """

    puzzle: str
    file: str
    status: str = FAILED
    kind: str = ""
    title: str = ""
    device: str = ""
    device_kind: str = ""
    device_reason: str = ""
    case: str = ""
    case_number: int = 0
    case_total: int = 0
    dims: dict[str, int] = field(default_factory=dict)
    kernel: str = ""
    lines: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next: str = ""
    look: str = ""  # the command that shows the run line by line, or what an element is the sum of
    numbers: list[dict[str, Any]] = field(default_factory=list)  # of a tiny case that was asked for: see look
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    fault: dict[str, Any] | None = None
    mismatches: list[dict[str, Any]] = field(default_factory=list)
    # compare.error_map of the first wrong output
    error_map: dict[str, Any] = field(default_factory=dict)
    timeline: dict[str, Any] = field(default_factory=dict)  # for a race: race_timeline.timeline
    mistake: str = ""
    hint: int = 0
    cases: list[CaseResult] = field(default_factory=list)
    stdout: str = ""
    stdout_dropped: int = 0
    counters: dict[str, dict[str, Any]] = field(default_factory=dict)  # of the device, by "kernel/case"
    gates: list[dict[str, Any]] = field(default_factory=list)  # gates.Measure, if the results are right
    # single changes of the file that make every case pass, best first: line, column, before, after, kind
    repair: list[dict[str, Any]] = field(default_factory=list)
    source_hash: str = ""
    seed: int = 0  # of the inputs and drawn sizes
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status == PASSED

    @property
    def exit_status(self) -> int:
        return EXIT[self.status]

    @property
    def causes(self) -> list[str]:
        """The lines that say why."""
        return [str(f) for f in self.findings if f.row.explains]

    @property
    def suspicions(self) -> list[str]:
        """The causes found in the text of the kernel alone, not in what it did."""
        return [str(f) for f in self.findings if f.is_suspicion]

    @property
    def is_runnable(self) -> bool:
        return self.status == FAILED and self.kind in RUNNABLE and bool(self.kernel)

    @property
    def is_repairable(self) -> bool:
        """Whether to look for a single change that makes it pass."""
        return self.is_runnable or self.kind == "slow"

    @property
    def diagnosis(self) -> str:
        """The most specific name: the mistake, else the kind of fault, else the kind."""
        return self.mistake or (self.fault or {}).get("kind", "") or self.kind

    def as_dict(self) -> dict[str, Any]:
        return asdict(replace(self, findings=[])) | {
            "findings": [f.as_dict() for f in self.findings],
            "causes": self.causes,
            "suspicions": self.suspicions,
        }
