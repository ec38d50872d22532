"""One kernel in one case: launched on a device under every schedule, and judged.

Outputs start as poison, inputs must come back unchanged, guard bands intact, and all runs must agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

from ..course.declare import Array, Case, Kernel, Launch, Puzzle
from ..course.inputs import make_inputs
from ..cuda.values import Tunables
from ..devices.child import Child
from ..devices.launching import QUICK, poison
from ..errors import BackwarpError, CourseError, KernelFault, LaunchError
from . import sentences
from .compare import Expected, Mismatch, axis_index, compare, expectations, same_bits, slack
from .findings import Finding

SMALL = 400_000  # bytes of a case's arrays
PATIENCE = 8.0  # work for all cases after the first that fails or has its output cut
LAUNCH, BYTES = 0.05, 1e7  # the work of a launch; the bytes that are a unit more
NARROW = 4.0  # seconds of a launch in a case for files with narrow variables
HANGS = 40.0  # seconds of processor time for them, however little work it is


@dataclass
class Pace:
    """How long a launch may take: less once something has failed, or if it prints endlessly. Work is counted, not timed."""

    patience: float = PATIENCE
    longest: float = 0.0  # seconds of every launch, if work and size do not decide
    work: float = 0.0
    deadline: float = math.inf  # of the work
    end: float = math.inf  # of the processor time of all processes
    printing: bool = False
    repeating: bool = False  # several threads do the same work, so it will not finish in time

    def limit(self, nbytes: int) -> float:
        """Seconds for a launch on `nbytes` of arrays, whose work is counted. They do not shrink with the work that is left, or a
        busy machine would stop launches that end elsewhere."""
        self.work += LAUNCH + nbytes / BYTES
        seconds = 1.0 if self.printing else 2.0 if self.repeating else 3.0 if nbytes < SMALL else 10.0
        return self.longest or seconds

    def after(self, outcome: Outcome) -> None:
        self.printing |= outcome.stdout_dropped > 0
        self.repeating |= bool(outcome.same_writes)
        if self.deadline == math.inf and (outcome.kind or self.printing):
            self.deadline, self.end = self.work + self.patience, Child.spent_by_all() + HANGS

    def left(self) -> float:
        """Work until the deadline."""
        hangs = self.end < math.inf and Child.spent_by_all() > self.end
        return -1.0 if hangs else self.deadline - self.work


@dataclass
class Setup:
    """A device with the file compiled for it. schedules: one run each; doubt: further runs after a wrong result."""

    device: object
    schedules: tuple[int, ...]
    doubt: tuple[int, ...] = ()
    module: object = None
    kernels: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """What one kernel wrote in one case: inputs, expectations and results by output name.

    before: the outputs before the kernel ran, which reveals unwritten elements; written: see
    compare.untouched.
    """

    case: Case
    dims: Mapping[str, int]
    arrays: Mapping[str, np.ndarray]
    targets: tuple[Expected, ...]
    results: Mapping[str, np.ndarray]
    before: Mapping[str, np.ndarray]
    written: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return not all(t.right(self.results[t.array.name]).all() for t in self.targets)


@dataclass
class Outcome:
    """One kernel in one case; `error` and `kind` say what went wrong, if anything did."""

    case: Case
    kernel: Kernel
    kind: str = ""
    error: BackwarpError | None = None
    lines: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)  # why runs disagree
    mismatches: list[Mismatch] = field(default_factory=list)
    observation: Observation | None = None
    stdout: str = ""
    stdout_dropped: int = 0
    notes: list[str] = field(default_factory=list)
    # several threads wrote one value to one element
    same_writes: list[KernelFault] = field(default_factory=list)
    counters: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)  # metrics.Request, where the device keeps them
    record: dict | None = None  # of the last launch, where the device keeps one: devices/virtual/run/record

    @property
    def timed_out(self) -> bool:
        return isinstance(self.error, KernelFault) and self.error.kind == "timeout"


@dataclass
class LaunchResult:
    """The results of one launch."""

    setup: Setup
    before: dict[str, np.ndarray]
    # by output: the elements a store may have reached; {} on a device that does not track stores
    written: dict[str, np.ndarray]
    results: dict[str, np.ndarray]
    mismatches: list[Mismatch]
    turns: tuple[int, ...] = ()  # lines after which other threads intervened


def given(
    puzzle: Puzzle, case: Case, kernel: Kernel, seed: int
) -> tuple[dict[str, np.ndarray], tuple[Expected, ...]]:
    """The inputs of a case, and the expected results."""
    arrays = make_inputs(puzzle, case, kernel, seed)
    return arrays, expectations(puzzle, case, kernel, arrays)


@dataclass
class Trial:
    """One kernel in one case; records what goes wrong in `outcome`."""

    outcome: Outcome
    pace: Pace
    launch: Launch | None = None
    dims: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    targets: tuple[Expected, ...] = ()
    runs: list[LaunchResult] = field(default_factory=list)

    def begin(self, puzzle: Puzzle, t: Tunables, seed: int, given: Callable = given) -> None:
        """Computes the launch, the inputs and the expected results. given: see `given`."""
        case, kernel = self.outcome.case, self.outcome.kernel
        self.dims = puzzle.full_dims(case)
        try:
            self.launch = kernel.launch(dict(self.dims), t)
        except CourseError as e:
            self.outcome.kind, self.outcome.lines = "tunable", [str(e)]
            return
        except (ArithmeticError, ValueError, TypeError) as e:
            named = ", ".join(f"{name} = {value}" for name, value in t.items()) or "this"
            self.outcome.kind = "tunable"
            self.outcome.lines = [f"no launch can be computed with {named}: {e}"]
            return
        self.arrays, self.targets = given(puzzle, case, kernel, seed)

    def run(self, setup: Setup) -> None:
        """Run under every schedule of a setup, and judge all runs so far."""
        for schedule in setup.schedules[:1] if self.outcome.case.once else setup.schedules:
            if not self._run(setup, schedule):
                return
        if any(run.mismatches for run in self.runs):
            for schedule in setup.doubt:
                if not self._run(setup, schedule):
                    return
            if self.runs[0].turns and not self._run(setup, setup.schedules[0], turns=False):
                return
        first, outcome = self.runs[0], self.outcome
        given, written = (self.dims, self.arrays, self.targets), (first.results, first.before, first.written)
        outcome.observation = Observation(outcome.case, *given, *written)
        weigh(self.runs, self.targets, outcome)
        raced = [f for f in outcome.same_writes if f.severity != "note"]
        if raced and not outcome.kind:
            outcome.kind, outcome.error = "fault", raced[0]

    def _run(self, setup: Setup, schedule: int, turns: bool = True) -> bool:
        setup.device.turns = turns
        run = run_once(self, setup, schedule)
        if run:
            self.runs.append(run)
            self.pace.after(self.outcome)
        return run is not None


def in_order(puzzle: Puzzle) -> list[Case]:
    """The cases, smallest first, so that the failing case explained is the smallest."""
    return list(puzzle.by_size)


def try_kernel(
    puzzle: Puzzle, case: Case, kernel: Kernel, setup: Setup, t: Tunables, seed: int, pace: Pace
) -> Outcome:
    """Run one kernel on one case, on one setup."""
    trial = Trial(Outcome(case, kernel), pace)
    trial.begin(puzzle, t, seed)
    if trial.launch:
        trial.run(setup)
    return trial.outcome


def run_once(trial: Trial, setup: Setup, schedule: int) -> LaunchResult | None:
    """One launch on fresh memory; None if it failed, and the outcome says how."""
    outcome, kernel = trial.outcome, trial.outcome.kernel
    handles = {p.name: place(setup.device, p, trial) for p in kernel.passed}
    quick = is_brief(setup)
    before = {p.name: untouched(p, trial) for p in kernel.outputs}
    try:
        done = start(trial, setup, schedule, handles)
    except KernelFault as e:
        if e.kind == "timeout" and quick:
            setup.module.optimise()
            return run_once(trial, setup, schedule)
        e.__traceback__ = e.__context__ = None  # they would keep the launch's arrays alive
        if not (e.launch and all(f.same_value for f in (e, *e.more))):
            outcome.kind, outcome.error = "fault", e
            keep_output(outcome, e.launch)
            return None
        done = e.launch  # whether the results are right comes first
        outcome.same_writes.append(e)
    except LaunchError as e:
        outcome.kind, outcome.error = "launch", e
        return None
    keep_output(outcome, done)
    outcome.counters, outcome.requests = done.counters or outcome.counters, done.requests
    outcome.same_writes += [n for n in done.notes if n.kind == "same-write"]
    notes = [str(n) for n in done.notes if n.kind != "same-write"]
    outcome.notes += [note for note in notes if note not in outcome.notes]
    found = dict(zip(handles, setup.device.fetch(handles.values()), strict=True))
    if damage := spoiled(kernel, handles, found, trial.arrays):
        outcome.kind, outcome.lines = damage
        return None
    results = {p.name: found[p.name] for p in kernel.outputs}
    masks = {p.name: getattr(handles[p.name], "written", None) for p in kernel.outputs}
    written = {name: mask for name, mask in masks.items() if mask is not None}
    wrong = [compare(x, results[n := x.array.name], before[n], written.get(n)) for x in trial.targets]
    return LaunchResult(setup, before, written, results, [m for m in wrong if m], getattr(done, "turns", ()))


def start(trial: Trial, setup: Setup, schedule: int, handles: Mapping):
    """The launch itself. handles: the arrays on the device, by name. Errors: KernelFault, LaunchError."""
    kernel = trial.outcome.kernel
    setup.device.schedule = schedule
    setup.device.time_limit = trial.pace.limit(sum(h.nbytes for h in handles.values()))
    if trial.outcome.case.narrow and not trial.pace.longest:
        setup.device.time_limit = min(setup.device.time_limit, NARROW)
    if is_brief(setup):
        setup.device.time_limit = min(setup.device.time_limit, QUICK)
    for p in kernel.constants:
        setup.module.set_constant(p.name, trial.arrays[p.name])
    arguments = kernel.arguments(handles, trial.dims)
    return trial.launch.of(setup.kernels[kernel.name], arguments)


def is_brief(setup: Setup) -> bool:
    """Whether launches have the short limit of quickly compiled code; recording them takes time."""
    return getattr(setup.module, "quick", False) and not getattr(setup.device, "keep_rows", 0)


def start_again(trial: Trial, setup: Setup):
    """The first launch once more, on fresh memory. Errors: those of `start`."""
    handles = {p.name: place(setup.device, p, trial) for p in trial.outcome.kernel.passed}
    return start(trial, setup, setup.schedules[0], handles)


def keep_output(outcome: Outcome, done: object) -> None:
    """The printf output of the first launch that printed; the record of the last."""
    outcome.record = getattr(done, "record", None)
    if not outcome.stdout:
        outcome.stdout = getattr(done, "stdout", "") or ""
        outcome.stdout_dropped = getattr(done, "stdout_dropped", 0) or 0


def place(device, p: Array, trial: Trial):
    """One array on the device: inputs copied in, outputs poisoned."""
    if p.is_input:
        return device.array(trial.arrays[p.name], name=p.name, axes=p.letters, readonly=p.role == "in")
    return device.empty(p.shape(trial.dims), np.dtype(p.dtype), name=p.name, axes=p.letters)


def untouched(p: Array, trial: Trial) -> np.ndarray:
    """What an array holds before the launch."""
    return trial.arrays[p.name] if p.is_input else poison(p.shape(trial.dims), p.dtype)


def spoiled(
    kernel: Kernel, handles: Mapping, found: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]
) -> tuple[str, list[str]] | None:
    """(kind, lines) if a guard band or an input was written to. found: what the arrays hold now."""
    for p in kernel.passed:
        if sentence := handles[p.name].intact():
            return "fault", [sentence]
        if p.role == "in":
            now = found[p.name]
            changed = np.argwhere(~same_bits(now, arrays[p.name]))
            if len(changed):
                at = tuple(changed[0])
                index = axis_index(p.letters, at)
                values = arrays[p.name][at].item(), now[at].item()
                return "input-changed", sentences.input_changed(p.name, index, *values)
    return None


def weigh(runs: list[LaunchResult], targets: tuple[Expected, ...], outcome: Outcome) -> None:
    """Sets kind and mismatches: right, wrong, or different between runs."""
    failed = [run for run in runs if run.mismatches]
    if not failed:
        return
    outcome.mismatches = failed[0].mismatches
    seen = failed[0]
    about = dict(results=seen.results, before=seen.before, written=seen.written)
    outcome.observation = replace(outcome.observation, **about)
    odd = next((run for run in runs if not same(run, failed[0], targets)), None)
    alone = next((run for run in runs if run.setup is failed[0].setup and not run.turns), None)
    if failed[0].turns and alone and not same(alone, failed[0], targets):
        outcome.kind = "schedule"
        turns = failed[0].turns
        outcome.findings = [Finding.of("come_between", *(turns if len(turns) == 1 else ()))]
    elif odd:
        pairs = permutations(runs, 2)
        same_build = any(not same(a, b, targets) for a, b in pairs if a.setup is b.setup)
        outcome.kind = "schedule"
        how = "gpu" if odd.setup.device.kind == "gpu" else "order" if same_build else "build"
        outcome.findings = [Finding.of("schedule", how=how)]
    else:
        left = all(m.unwritten == m.count for m in outcome.mismatches)
        outcome.kind = "unwritten" if left else "wrong"


def same(a: LaunchResult, b: LaunchResult, targets: tuple[Expected, ...]) -> bool:
    """Do two runs agree, up to rounding? Builds may or may not use fma, and atomics add in any order; sums may have more terms."""
    for target in targets:
        x, y = a.results[target.array.name], b.results[target.array.name]
        room = np.maximum(2 * target.tolerance, slack(target, x))
        with np.errstate(invalid="ignore", over="ignore"):
            close = np.abs(x.astype(np.float64) - y.astype(np.float64)) <= room
        if not (close | same_bits(x, y) | (np.isnan(x) & np.isnan(y))).all():
            return False
    return True
