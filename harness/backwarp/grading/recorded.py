"""A run of a puzzle's kernel, recorded: the one that fails, as the grader runs it, with the same inputs, seed and order of
threads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..course.checkout import seed_of
from ..course.declare import Case, Kernel, Puzzle
from ..cuda.values import tunables
from ..devices.virtual.replay.replay import short
from ..devices.virtual.run.record import MOST_BLOCKS
from ..errors import BackwarpError, CourseError, KernelFault
from .grade import Stop, checked_source, prepare, shown_path
from .runs import SMALL, Outcome, Pace, Setup, Trial, in_order, run_once
from .verdict import Verdict

ROWS = 1 << 20  # of a record: 16 MB; all threads of all small cases have fewer
LIMIT = 3.0  # seconds of a launch whose record was full


@dataclass(frozen=True)
class Recorded:
    """record: see devices/virtual/run/record. arrays: the inputs. error: what ended the run. wrong: the first element that is wrong, as
    `out[h=1,w=0]`, or "", and what it is and should be. one_block: whether only one block is recorded."""

    puzzle: Puzzle
    kernel: Kernel
    case: Case
    source: str
    record: dict
    arrays: Mapping[str, np.ndarray]
    error: BackwarpError | None = None
    wrong: str = ""
    values: tuple[float, float] | None = None
    one_block: bool = False

    @property
    def fault(self) -> KernelFault | None:
        return self.error if isinstance(self.error, KernelFault) else None

    @property
    def says(self) -> str:
        """What came of it."""
        if self.error or not self.wrong:
            return str(self.error or "this run is right")
        return f"{self.wrong} is {short(self.values[0])}, and should be {short(self.values[1])}"


def record_file(
    puzzle: Puzzle, path: Path, case: str = "", kernel: str = "", block: tuple[int, ...] = (), opener=None
) -> Recorded:
    """The first run that fails, smallest case first, or else the first; case, kernel: only these. block: the only one that is
    recorded; without it, the whole launch, or, if that is too long, the block that fails.

    opener: replaces devices.confined_device. Errors: CourseError for what cannot be recorded, and what does not compile;
    DeviceError.
    """
    if opener is None:
        from ..devices import confined_device as opener
    if puzzle.program:
        raise CourseError(f"{puzzle.id} is a program: what is stepped through are kernels")
    try:
        source = checked_source(puzzle, path, Verdict(puzzle.id, puzzle.title, shown_path(puzzle, path)))
        seed = seed_of(source)
        puzzle = puzzle.drawn(seed)
        pairs = _pairs(puzzle, case, kernel)
        with opener("cpu", checks="full", seed=seed) as device:
            device.quick, device.keep_rows = True, ROWS
            setup = Setup(device, (2 * seed + 1,))
            prepare(setup, puzzle, source, path.name)
            runs = _Runs(puzzle, source, seed, setup)
            found = runs.first_to_fail(pairs)
            if block or found.trial.outcome.record["full"] and not found.is_endless:
                block = block or getattr(found.error, "block", None) or found.likely_block()
                runs.only(block, found.trial)
                found = replace(found, trial=runs.run(*found.pair, LIMIT).trial)
            record = found.trial.outcome.record
            if not len(record["rows"]):
                raise CourseError(
                    f"there is no block {','.join(map(str, block))}" if block else "no thread ran"
                )
            return Recorded(
                *(puzzle, *reversed(found.pair), source, record, found.trial.arrays, found.error),
                *(found.wrong, found.values, bool(block)),
            )
    except Stop as stop:
        raise CourseError("\n".join(stop.lines)) from None


def _pairs(puzzle: Puzzle, case: str, kernel: str) -> list[tuple[Case, Kernel]]:
    """Errors: CourseError for an unknown case or kernel."""
    for name, known in ((case, [c.name for c in puzzle.by_size]), (kernel, [k.name for k in puzzle.kernels])):
        if name and name not in known:
            raise CourseError(f"{puzzle.id} has no {name}; it has {', '.join(known)}")
    wanted = [c for c in in_order(puzzle) if case in ("", c.name)]
    found = [(c, k) for c in wanted for k in puzzle.kernels_of(c) if kernel in ("", k.name)]
    if not found:
        raise CourseError(f"{kernel} does not run in the case {case}")
    return found


@dataclass(frozen=True)
class _Run:
    """One launch. error, wrong, values: see Recorded."""

    pair: tuple[Case, Kernel]
    trial: Trial
    error: BackwarpError | None
    wrong: str = ""
    values: tuple[float, float] | None = None

    @property
    def is_endless(self) -> bool:
        return isinstance(self.error, KernelFault) and self.error.kind == "timeout"

    def likely_block(self) -> tuple[int, ...]:
        """Which block writes the element that is wrong, if blocks go through the array in its order; else the first."""
        name, _, index = self.wrong.partition("[")
        if not name:
            return (0,)
        shape = next(a for a in self.pair[1].arrays if a.name == name).shape(self.trial.dims)
        place = [int(n) for n in re.findall(r"(-?\d+)[,\]]", index)]
        flat = int(np.ravel_multi_index(place, shape)) if len(place) == len(shape) else place[0]
        grid = self.trial.outcome.record["grid"]
        z, y, x = np.unravel_index(flat * math.prod(grid) // math.prod(shape), grid[::-1])
        return int(x), int(y), int(z)


@dataclass(frozen=True)
class _Runs:
    """Runs of a file. seed: of its inputs and schedules."""

    puzzle: Puzzle
    source: str
    seed: int
    setup: Setup

    def run(self, case: Case, kernel: Kernel, limit: float = 0.0) -> _Run:
        """limit: of seconds, else as in grading. Errors: CourseError if it cannot be launched."""
        trial = Trial(outcome := Outcome(case, kernel), Pace(longest=limit))
        trial.begin(self.puzzle, tunables(self.source), self.seed)
        result = run_once(trial, self.setup, self.setup.schedules[0]) if trial.launch else None
        if not outcome.record:
            raise CourseError(f"{kernel.name} cannot be launched: {outcome.error or ' '.join(outcome.lines)}")
        raced = [f for f in outcome.same_writes if f.severity != "note"]
        first = next(iter(result.mismatches if result else ()), None)
        error, at = outcome.error or next(iter(raced), None), first and first.first
        about = (f"{first.array}[{at.index}]", (at.got, at.expected)) if first else ()
        return _Run((case, kernel), trial, error, *about)

    def first_to_fail(self, pairs: list[tuple[Case, Kernel]]) -> _Run:
        """Else the first. Of several, only small cases are tried."""
        first = None
        for pair in pairs:
            found = self.run(*pair)
            if found.trial.outcome.record["full"]:  # which has ended it
                self.setup.device.rows_blocks = 0
                judged = self.run(*pair, LIMIT)
                found = replace(found, error=judged.error, wrong=judged.wrong, values=judged.values)
                self.setup.device.rows_blocks = MOST_BLOCKS
            first = first or found
            if found.error or found.wrong:
                return found
            if sum(a.nbytes for a in found.trial.arrays.values()) > SMALL:
                break
        return first

    def only(self, block: tuple[int, ...], trial: Trial) -> None:
        """From now on only a block is recorded."""
        gx, gy, _ = trial.outcome.record["grid"]
        x, y, z = (*block, 0, 0)[:3]
        self.setup.device.rows_first, self.setup.device.rows_blocks = x + gx * (y + gy * z), 1
