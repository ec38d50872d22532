"""Grading: case -> compile -> launch -> compare -> Verdict. Nothing here prints.

A file passes when every kernel is right in every case, in every run: in the -G build with all checks, then in
the optimised build under two schedules of warps and blocks (on a GPU: in two launches). One that fails in the
first build is not compiled again.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..course.checkout import NoSource, NotText, read_source, seed_of, source_hash
from ..course.declare import Puzzle
from ..course.stubs import stub_text
from ..cuda.values import Tunables, tunables
from ..devices import end_processes
from ..devices.child import Child
from ..devices.confine import supported
from ..errors import CompileError, CourseError, DeviceError, LaunchError, Unsupported
from . import endless, narrow, sentences
from .derived import whole
from .runs import PATIENCE, Outcome, Pace, Setup, Trial, given, in_order
from .verdict import ERROR, FAILED, PASSED, RUNNABLE, SKIPPED, CaseResult, Verdict

if TYPE_CHECKING:
    from .results.naming import Foresee


HOPPER = 9  # the compute capability of the only generation with wgmma


@dataclass(frozen=True)
class Options:
    """device: "auto" | "gpu" | "cpu"; watch: called with the case that runs.

    seed: of inputs, sizes and schedules; if None, derived from the file's text, so that a file has one
    verdict.
    patience: work, as of runs.Pace, for all cases after the first that fails. given: makes the inputs and
    the expected results. foresee: predicts what mistakes write, see naming; if None, they are compiled for
    this file. again: repeat a faulting run to find the values behind the fault, or the steps of a race. unnamed:
    also look for unnamed causes. optimised: what is right in the build with all checks also runs in the
    optimised build. most: a kernel is tested in only this many cases, the smallest; gates count in theirs all
    the same. case: the only one, without gates. within: the folder with other people's files that contains this
    one. It is graded only where kernels can be confined, unless `trusted`; no link in the folder is followed; and
    the processes that compiled and ran it are ended afterwards, so that no file can affect the verdict on another.
    """

    device: str = "auto"
    seed: int | None = None
    watch: Callable[[str], None] | None = None
    patience: float = PATIENCE
    given: Callable = given
    foresee: Foresee | None = None
    again: bool = True
    unnamed: bool = True
    optimised: bool = True
    most: int | None = None
    case: str = ""
    within: Path | None = None
    trusted: bool = False


class Stop(Exception):
    """Raised to end grading before any case runs."""

    def __init__(self, kind: str, lines: list[str], status: str = FAILED, diagnostics: tuple = ()):
        super().__init__(kind)
        self.kind, self.lines, self.status, self.diagnostics = kind, lines, status, diagnostics


def grade_file(
    puzzle: Puzzle, path: Path, options: Options = Options(), opener: Callable | None = None
) -> Verdict:
    """The verdict on a kernel file. opener: replaces devices.confined_device. Errors: CourseError if the puzzle is broken."""
    started = time.perf_counter()
    verdict = Verdict(puzzle=puzzle.id, title=puzzle.title, file=shown_path(puzzle, path))
    verdict.next = f"backwarp hint {puzzle.number}"
    try:
        if options.within and not options.trusted:
            require_confinement(verdict)
        source = checked_source(puzzle, path, verdict, options.within)
        verdict.seed = seed_of(source) if options.seed is None else options.seed
        options = replace(options, seed=verdict.seed)
        if puzzle.program and options.case:
            raise CourseError(f"{puzzle.id} is a program: it is graded as a whole, without --case")
        if puzzle.program:
            from .programs.grade import judge_program

            puzzle = puzzle.drawn(verdict.seed)
            verdict = judge_program(puzzle, source, path.name, options.device, options.seed, verdict)
        else:
            if opener is None:
                from ..devices import confined_device as opener
            verdict = judge(puzzle, source, path.name, options, opener, verdict)
            if verdict.passed and puzzle.gates and not options.case:
                verdict = through_gates(puzzle, source, path.name, options, opener, verdict)
            if verdict.look and not options.within:
                from .look import of_file

                verdict.look = of_file(puzzle, path, verdict.look)
    except Stop as stop:
        verdict = end(verdict, stop)
    finally:
        if options.within:
            end_processes()
    verdict.seconds = round(time.perf_counter() - started, 3)
    return verdict


def end(verdict: Verdict, stop: Stop) -> Verdict:
    """The verdict if grading stopped before any case ran."""
    found = [asdict(d) for d in stop.diagnostics]
    return replace(verdict, status=stop.status, kind=stop.kind, lines=stop.lines, diagnostics=found)


def require_confinement(verdict: Verdict) -> None:
    """From now on processes that run kernels end rather than be confined in part. Raises Stop if they cannot be confined."""
    held = supported()
    if not held.complete:
        verdict.next = "backwarp doctor"
        what = f"This system cannot confine kernels ({'; '.join(held.lacks)}), and this file is not yours."
        raise Stop("device", [what, "Grade it on Linux 5.13 or newer, or say that you trust it."], ERROR)
    if not Child.strict:
        Child.strict = True
        end_processes()


def shown_path(puzzle: Puzzle, path: Path) -> str:
    try:
        return Path(os.path.realpath(path)).relative_to(os.path.realpath(puzzle.root)).as_posix()
    except ValueError:
        return str(path)


def checked_source(puzzle: Puzzle, path: Path, verdict: Verdict, within: Path | None = None) -> str:
    """The text of the file; Stop if there is nothing to compile. within: see Options."""
    try:
        source = read_source(path, verdict.file, within)
    except CourseError as e:
        lines = str(e).splitlines()
        verdict.next = f"backwarp grade {puzzle.number}"
        gone = isinstance(e, NoSource)
        if gone and path == puzzle.stub_path:
            verdict.next = f"backwarp reset {puzzle.number}"
            lines.append(f"`{verdict.next}` restores the stub, and backs up a file that is there.")
            raise Stop("source", lines) from None
        raise Stop("encoding" if isinstance(e, NotText) else "source", lines, ERROR) from None
    verdict.source_hash = source_hash(source)
    if not puzzle.repair and source.split() == stub_text(puzzle).split():
        verdict.next = f"backwarp grade {puzzle.number}"
        raise Stop("untouched", sentences.untouched(puzzle, verdict.file, source))
    return source


def judge(
    puzzle: Puzzle, source: str, name: str, options: Options, opener: Callable, verdict: Verdict
) -> Verdict:
    """Grade on the requested device; what fails on a GPU is run again on the virtual GPU for an explanation."""
    found = on_device(puzzle, source, name, options, opener, verdict)
    if found.device_kind != "gpu" or found.kind not in RUNNABLE:
        return found
    again = on_device(puzzle, source, name, replace(options, device="cpu"), opener, verdict)
    if again.passed:
        found.notes.append("The virtual GPU finds nothing wrong; this happens on the GPU only.")
    if again.kind not in RUNNABLE:
        return found
    first = found.lines[0].rstrip(".") if found.lines else found.kind
    again.notes.append(f"Failed on {found.device}: {first}. The virtual GPU ran it again for the diagnosis.")
    about = ("device", "device_kind", "device_reason")
    return replace(again, **{name: getattr(found, name) for name in about})


def on_device(
    puzzle: Puzzle, source: str, name: str, options: Options, opener: Callable, verdict: Verdict
) -> Verdict:
    """Grade on one kind of device, in all its builds."""
    verdict = replace(verdict, notes=[], lines=[])
    with ExitStack() as stack:
        try:
            setups = open_setups(puzzle, options, opener, stack)
            first = setups[0].device
            verdict.device, verdict.device_kind, verdict.device_reason = first.name, first.kind, first.reason
            prepare(setups[0], puzzle, source, name)
            puzzle = with_derived(puzzle, setups[0], source, name, options)
            puzzle = only(puzzle, options.case) if options.case else puzzle
            trials, done = run_all(puzzle, setups, source, name, options, options.most)
        except DeviceError as e:
            verdict.next = "backwarp doctor"
            return end(verdict, Stop("device", str(e).splitlines(), ERROR))
        except Stop as stop:
            from .compile_braces import wrong_line

            verdict.next = f"backwarp grade {puzzle.number}"
            wrong = (d for d in stop.diagnostics if d.severity == "error" and d.line)
            if line := next((wrong_line(d, source) for d in wrong), 0):
                verdict.next = f"correct line {line}, then `{verdict.next}`"
            return end(verdict, stop)
        outcomes = [trial.outcome for trial in trials]
        skipped = [(o.case, o.kernel) for o in outcomes[done:]]
        ran = {o.case.name for o in outcomes}
        puzzle = replace(puzzle, cases=tuple(c for c in puzzle.cases if not c.once or c.name in ran))
        verdict = conclude(puzzle, source, outcomes[:done], skipped, verdict, options, setups[0])
        warnings = getattr(setups[0].module, "warnings", ())
        verdict.notes += [w.message for w in warnings if w.severity == "note"]
        if options.case or verdict.status == FAILED:
            from . import look
        if options.case:
            verdict.numbers = look.numbers(trials)
            verdict.notes.append(f"Only this case was run: `backwarp grade {puzzle.number}` runs all.")
        if verdict.status == FAILED:
            from .compile_errors import with_warnings

            in_full = all(s.module is None for s in setups[1:])  # what is right there runs in the next build
            if first.kind == "cpu" and in_full and options.seed == seed_of(source):
                verdict.look = look.command(puzzle, source, outcomes[:done], verdict)
            verdict.lines = with_warnings(verdict.lines, warnings, source, bool(verdict.fault))
        return verdict


def with_derived(puzzle: Puzzle, setup: Setup, source: str, name: str, options: Options) -> Puzzle:
    """The puzzle as this file is graded, whose code tells how long axes have to be to show what may be wrong."""
    if not options.optimised:  # derived cases would not run, see run_all
        return puzzle.drawn(options.seed)
    ptx, t = getattr(getattr(setup.module, "compiled", None), "text", ""), tunables(source)
    found = narrow.lines(ptx, name) if ptx else {}
    full = whole(puzzle, options.seed, t, longest=bool(found) or setup.device.kind == "gpu")
    return replace(full, cases=(*full.cases, *(narrow.cases(puzzle, t, setup, ptx, name) if found else ())))


def only(puzzle: Puzzle, case: str) -> Puzzle:
    """The puzzle with a single case. Errors: CourseError if there is none of that name."""
    if not any(c.name == case for c in puzzle.cases):
        raise CourseError(
            f"{puzzle.id} has no case {case}; it has {', '.join(c.name for c in in_order(puzzle))}"
        )
    return replace(puzzle, cases=tuple(c for c in puzzle.cases if c.name == case), gates=())


def run_all(
    puzzle: Puzzle, setups: list[Setup], source: str, name: str, options: Options, most: int | None = None
) -> tuple[list[Trial], int]:
    """Runs every kernel in every case, or in so many small ones, build after build until one fails: (trials, completed)."""
    pace, done, t = Pace(options.patience), 0, tunables(source)
    cases = in_order(puzzle)[:most]
    trials = [Trial(Outcome(c, k), pace) for c in cases for k in puzzle.kernels_of(c)]
    trials = [x for x in trials if options.optimised or not x.outcome.case.once]
    for setup in setups:
        if setup.module is None:
            prepare(setup, puzzle, source, name)
        other = {"full", "memory"} - {setup.device.checks} if len(setups) > 1 else set()
        own = [x for x in trials if x.outcome.case.once not in other]
        done = run_cases(puzzle, setup, own, t, options)
        if done < len(own) or any(trial.outcome.kind for trial in own):
            break
    return own, done


def through_gates(
    puzzle: Puzzle, source: str, name: str, options: Options, opener: Callable, verdict: Verdict
) -> Verdict:
    """Counts a correct kernel on the virtual GPU, to see whether it is also fast."""
    from . import gates  # most puzzles have none

    puzzle = puzzle.drawn(options.seed)
    if options.watch:
        options.watch("counting")
    with opener("cpu", checks="count", seed=options.seed) as device:
        device.quick = True
        setup = Setup(device, (2 * options.seed + 1,))
        prepare(setup, puzzle, source, name)
        try:
            measures = gates.measure(puzzle, setup, tunables(source), options.seed)
        except gates.NotCounted as stop:
            own = stop.outcome.case  # perhaps with other sizes than the puzzle's
            cases = tuple(own if case.name == own.name else case for case in puzzle.cases)
            return conclude(replace(puzzle, cases=cases), source, [stop.outcome], [], verdict)
        failed = [m for m in measures if not m.passed]
        requests = gates.noted(failed[0], puzzle, setup, tunables(source), options.seed) if failed else []
    verdict.gates = [asdict(m) for m in measures]
    if not failed:
        return replace(verdict, lines=[gates.sentence(m) for m in measures if m.idea])
    first = failed[0]
    verdict = replace(verdict, status=FAILED, kind="slow", lines=gates.explain(first, source, requests))
    verdict.lines += [gates.sentence(second) for second in failed[1:2]]
    verdict.case, verdict.dims, verdict.kernel = first.case, first.dims, first.kernel
    verdict.hint, verdict.next = first.hint, f"backwarp profile {puzzle.number}"
    return verdict


def open_for(puzzle: Puzzle, opener: Callable, kind: str, **how):
    """Opens the requested device; in place of a GPU that lacks what the puzzle's kernels need, the virtual one. Errors:
    DeviceError if it was the GPU that was asked for."""
    device = opener(kind, **how)
    if device.kind != "gpu" or not puzzle.is_hopper or device.capability[0] == HOPPER:
        return device
    with device:
        has = "{}.{}".format(*device.capability)
        why = f"{device.name} has compute capability {has}; wgmma, which puzzle {puzzle.number} is about, exists with 9.0 alone"
    if kind == "gpu":
        raise DeviceError(f"{why}: --device cpu runs it on the virtual GPU")
    device = opener("cpu", **how)
    device.reason = f"{device.name}: {why}"
    return device


def open_setups(puzzle: Puzzle, options: Options, opener: Callable, stack: ExitStack) -> list[Setup]:
    """Opens the requested device, see `open_for`; the virtual GPU in both builds. An odd and an even schedule differ most."""
    first = stack.enter_context(open_for(puzzle, opener, options.device, checks="full", seed=options.seed))
    odd, even = 2 * options.seed + 1, 2 * options.seed + 2
    if first.kind == "gpu":
        return [Setup(first, (odd, even))]
    first.quick, first.agree = True, False  # cases are small; results are compared with what is right
    if not options.optimised:
        return [Setup(first, (odd,), (even,))]
    second = stack.enter_context(opener("cpu", checks="memory", seed=options.seed))
    second.quick = True
    return [Setup(first, (odd,), (even,)), Setup(second, (odd, even))]


def prepare(setup: Setup, puzzle: Puzzle, source: str, name: str) -> None:
    """Compile the file and find its kernels; Stop if that fails."""
    try:
        setup.module = setup.device.compile(source, name=name, include_dirs=puzzle.include_dirs)
    except CompileError as e:
        from .compile_errors import compile_error

        kind, stub = ("unsupported", "") if isinstance(e, Unsupported) else ("compile", stub_text(puzzle))
        raise Stop(
            kind, compile_error(e, source, stub, puzzle.include_dirs), diagnostics=e.diagnostics
        ) from None
    for kernel in puzzle.kernels:
        try:
            found = setup.module.get_function(kernel.name)
        except LaunchError:
            lines = sentences.missing_kernel(puzzle, kernel, name, tuple(setup.module.functions))
            raise Stop("missing-kernel", lines) from None
        sizes = tuple(found.params)
        if sizes != tuple(map(sentences.param_size, kernel.params)):
            raise Stop("signature", sentences.signature(kernel, sizes))
        for p in kernel.constants:
            if setup.module.constants.get(p.name, 0) < p.most * np.dtype(p.dtype).itemsize:
                raise Stop("missing-constant", sentences.missing_constant(p, name))
        setup.kernels[kernel.name] = found


def run_cases(puzzle: Puzzle, setup: Setup, trials: list[Trial], t: Tunables, options: Options) -> int:
    """Runs every kernel on every case, until one never ends or time is up (see Pace); returns how many were completed."""
    pace = trials[0].pace
    cases = list({id(trial.outcome.case): trial.outcome.case for trial in trials}.values())
    for done, trial in enumerate(trials):
        if done and pace.left() <= 0:
            return done
        outcome = trial.outcome
        if options.watch:
            options.watch(f"case {cases.index(outcome.case) + 1} of {len(cases)}, {outcome.case.name}")
        if trial.launch is None:
            trial.begin(puzzle, t, options.seed, options.given)
        if trial.launch:
            trial.run(setup)
        if outcome.timed_out and outcome.case.once and pace.deadline == math.inf:
            slow = partial(endless.is_slow, trial, puzzle, setup, t, options.seed, options.given)
            if not outcome.error.endless and not outcome.case.scale and slow():
                outcome.kind, outcome.error = "", None
                outcome.notes += [] if outcome.case.narrow else [sentences.not_judged(outcome.case)]
        if outcome.timed_out:
            cut_short = done and pace.deadline < math.inf
            return done if cut_short else done + 1
        pace.after(outcome)
    return len(trials)


def conclude(
    puzzle: Puzzle,
    source: str,
    outcomes: list[Outcome],
    skipped: list,
    verdict: Verdict,
    options: Options = Options(),
    setup: Setup | None = None,
) -> Verdict:
    """The verdict on all outcomes; it explains the smallest case that fails. setup: where that may run again."""
    seen = ((o.case, o.kernel.name, FAILED if o.kind else PASSED, o.kind) for o in outcomes)
    results = [CaseResult(case.name, case.dims, *rest) for case, *rest in seen]
    results += [CaseResult(case.name, case.dims, kernel.name, SKIPPED) for case, kernel in skipped]
    verdict.cases, verdict.case_total = results, len(puzzle.cases)
    verdict.counters = {f"{o.kernel.name}/{o.case.name}": o.counters for o in outcomes if o.counters}
    notes = (note for o in outcomes for note in o.notes)
    # report each line once, however many threads it concerns
    verdict.notes = list({re.sub(r"\d+ threads?", "threads", note): note for note in notes}.values())
    if any(o.kind for o in outcomes):
        from .failures import explained  # loads all that may be said about a wrong kernel

        verdict = explained(puzzle, source, outcomes, verdict, options, setup)
        verdict.lines += ["The other cases were not run."] * bool(skipped)
        return verdict
    if shown := next((o for o in outcomes if o.stdout), None):
        verdict.stdout, verdict.stdout_dropped = shown.stdout, shown.stdout_dropped
    if skipped:
        verdict.lines = sentences.printing(verdict.stdout, verdict.stdout_dropped)
        return replace(verdict, status=FAILED, kind="printing", next=f"backwarp grade {puzzle.number}")
    return replace(verdict, status=PASSED, kind="", next="")
