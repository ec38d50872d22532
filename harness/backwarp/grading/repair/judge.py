"""Whether an edited file is right in all cases, and fast: what is left of the edits that were right in variants."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ...course.declare import Case, Kernel, Puzzle
from ...errors import CourseError, DeviceError, LaunchError
from .. import grade
from ..runs import given
from ..verdict import PASSED, Verdict
from .repair import Repair, rank
from .sites import cost_of
from .variants import Combination, Work

GRADING, CASE, COUNTING = 0.2, 0.02, 0.3  # work for a file, for each launch, for counting a file
MOST = 3  # repairs to find, each in a different line
AS_LIKELY = 0.3  # how much more than the best a repair may cost and still be told
MOST_GRADED = 10  # of the edits of one batch
MOST_SLOW = 2  # repairs that are told with which it is right and slow


@dataclass
class Judge:
    """Of one file."""

    puzzle: Puzzle
    source: str
    verdict: Verdict
    name: str
    opener: Callable
    end: float  # of the work
    tell: Callable[[str], None]
    known: dict = field(default_factory=dict)  # inputs and right results by case and kernel
    until: float = math.inf  # of time.monotonic
    clock: Work = field(default_factory=Work)
    most: float = math.inf  # what edits may cost
    aided: bool = False
    slow: list[Repair] = field(default_factory=list)  # with these it is right, and not fast enough
    fast: dict[str, bool] = field(default_factory=dict)  # by text

    @property
    def kernel(self) -> Kernel:
        return self.puzzle.kernel(self.verdict.kernel)

    @property
    def left(self) -> float:
        """Work left for trying edits; those found right by then are still graded until the end."""
        return self.end - self.clock() if time.monotonic() < self.until else -1.0

    def is_fast_with(self, repair: Repair) -> bool:
        """Whether a repair that makes it right leaves nothing to do. The others are kept."""
        if not self.puzzle.gates or self.verdict.kind == "slow" or self.is_fast(repair.text):
            return True
        self.slow.append(replace(repair, is_fast=False))
        return False

    def is_fast(self, text: str) -> bool:
        if text not in self.fast:
            self.fast[text] = self._is_fast(text)
        return self.fast[text]

    def _is_fast(self, text: str) -> bool:
        self.clock.add(COUNTING)
        options = grade.Options("cpu", self.verdict.seed)
        passed = replace(self.verdict, status=PASSED, kind="")
        try:
            return grade.through_gates(self.puzzle, text, self.name, options, self.opener, passed).passed
        except (grade.Stop, DeviceError, LaunchError, CourseError):
            return False

    def graded(self, choices: Sequence[Combination]) -> list[Repair]:
        """The cheapest edit of every line, if the edited file passes."""
        found: list[Repair] = []
        tried = 0
        edits = ((tuple(e for c in some for e in c.edits), cost_of(some)) for some in choices)
        all_ = (Repair(*each, self.source) for each in edits)
        for repair in sorted((r for r in all_ if not r.overlaps), key=lambda r: rank(r, self.kernel.name)):
            if len(found) >= MOST or tried >= MOST_GRADED or tried and self.clock() > self.end:
                break
            if found and repair.cost > found[0].cost + AS_LIKELY:
                break
            insertion = repair.edits[-1].start == repair.edits[-1].end
            if repair.line not in {f.line for f in found} and not (found and insertion):
                tried += 1
                if self.passes(repair.text) and self.is_fast_with(repair):
                    found.append(repair)
        return found

    def passes(self, text: str) -> bool:
        """Whether a file is right in all cases, in both builds, with all checks."""
        options = grade.Options("cpu", self.verdict.seed, patience=0.0, given=self.given)
        self.clock.add(GRADING)
        with ExitStack() as stack:
            try:
                setups = grade.open_setups(self.puzzle, options, self.opener, stack)
                trials, done = grade.run_all(self.puzzle, setups, text, self.name, options)
            except (grade.Stop, DeviceError):
                return False
        self.clock.add(CASE * done)
        return done == len(trials) and not any(trial.outcome.kind for trial in trials)

    def given(self, puzzle: Puzzle, case: Case, kernel: Kernel, seed: int):
        """As runs.given, but every case is generated only once."""
        key = case.name, kernel.name
        if key not in self.known:
            self.known[key] = given(puzzle, case, kernel, seed)
        return self.known[key]
