"""The mistakes that a puzzle declares: each is applied and graded, and must get the diagnosis it expects. See
check."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..course.declare import Case, Kernel, Puzzle
from ..course.mistakes import Mistake, blank, together, without_kernels
from ..devices import open_device
from ..devices.virtual.device import Module, VirtualGPU
from ..devices.virtual.runtime import abi
from ..grading.grade import Options, grade_file
from ..grading.programs.program import Program, ProgramError
from ..grading.results.naming import Observation
from ..grading.results.wrong_kernels import Variant, WrongKernels, compiled
from ..grading.runs import given, in_order
from ..grading.verdict import Failure, Verdict
from ..once import once
from ..report.text import MOST_LINES, verdict_lines
from .mutants import of_program

SMALLEST = 2, 4  # how many cases a mistake is tried on, before all
STEPS = 1 << 23  # per thread; no case needs more
PYTHON = {"syntax", "exception", "missing-function", "signature", "timeout"}
OWN_CASE = {"train": "six_steps", "LeNet": "lenet"}  # the function's case, if its name differs
FAULTS = frozenset(abi.FAULTS) | {"invalid-address"}
KINDS = {"wrong", "unwritten", "launch", "schedule", "input-changed", "compile", "slow"}


def solution_text(puzzle: Puzzle) -> str:
    return puzzle.solution_path.read_text(encoding="utf-8")


def graded(
    puzzle: Puzzle, text: str, options: Options, opener: Callable | None = None, folder: str | None = None
) -> Verdict:
    """The verdict on a text as a puzzle's file. folder: where it may be written, if there is one."""
    with nullcontext(folder) if folder else tempfile.TemporaryDirectory() as folder:
        path = Path(folder, puzzle.file)
        path.write_text(text, encoding="utf-8")
        return grade_file(puzzle, path, options, opener)


def wrong_kernels(puzzle: Puzzle, kernel: Kernel, shortly: bool = False) -> Iterator[str]:
    """Problems with the mistakes of one kernel. shortly: run each in only one build, see Examination."""
    if own := puzzle.mistakes_of(kernel):
        with Examination(puzzle, kernel, shortly) as examination:
            for m in own:
                yield from examination.problems(m)


def wrong_programs(puzzle: Puzzle) -> Iterator[str]:
    """Problems with the mistakes of a Python puzzle, and with the mutants of one that needs only the course."""
    with (
        open_device("cpu", checks="memory") as device,
        Program(puzzle.program.requests, puzzle.program.driver) as program,
    ):
        if puzzle.program.prepare:
            puzzle.program.prepare(device)
        mutants = () if puzzle.program.needs[0] else of_program(solution_text(puzzle))
        for m in (*puzzle.mistakes, *mutants):
            text, own = m.apply(solution_text(puzzle)), OWN_CASE.get(m.kernel, m.kernel)
            found = finding(puzzle, text, device, program, first=own)
            diagnosis = (found.mistake or found.kind) if found else "nothing"
            if diagnosis == "nothing" if m in mutants else diagnosis not in m.expected:
                yield f"mistake {m.name!r} of {m.kernel}: found {diagnosis}, expected {' or '.join(m.expected)}"


def finding(puzzle: Puzzle, source: str, device: object, program: Program, first: str = "") -> Failure | None:
    """The finding of the first failing case of a program. first: the name of the cases to begin with."""
    declared = puzzle.program
    try:
        functions = program.load(source, puzzle.file, declared.functions, declared.seconds)
        for case in sorted(puzzle.cases, key=lambda case: not (first and case.name.startswith(first))):
            program.allow(declared.seconds)
            if found := declared.check(functions, case, device, 0):
                return found
    except ProgramError as e:
        return Failure(e.kind, e.lines)
    return None


class Examination(WrongKernels):
    """All mistakes of one kernel, compiled together once a build, and graded one by one, alone.

    Inputs, expected outputs and the mistakes' outputs are computed once for all. shortly: mistakes named by
    their output run only in the build that predicts outputs, and slow ones only in the build that counts, so
    this does not test that all checks are silent on them. Unnamed causes are looked for only in the first
    mistake, and where a line is expected. longest: seconds of processor time that a launch may take.
    """

    longest = math.inf

    def __init__(self, puzzle: Puzzle, kernel: Kernel, shortly: bool = False):
        solution = solution_text(puzzle)
        super().__init__(puzzle, kernel, solution)
        self.shortly = shortly
        self.devices: dict[str, object] = {}  # keyed by checks
        self.modules: dict[str, tuple[Module, list[str]]] = {}  # with the mistakes in each
        self.folder = ""
        self.made: dict[tuple, tuple] = {}  # inputs and expected outputs
        self.stack = ExitStack()
        others = [k.name for k in puzzle.kernels if k is not kernel]
        self.own = {m.name: m for m in puzzle.mistakes_of(kernel)}
        alone = without_kernels(solution, others)
        self.plain = {name: m.apply(alone) for name, m in self.own.items()}
        _, before = together(list(self.plain.values()))
        # the line offset in the combined file, so that messages name the same lines
        self.texts = {name: "\n" * n + self.plain[name] for n, name in zip(before, self.own, strict=True)}

    def __enter__(self) -> Examination:
        self.folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        return self

    def __exit__(self, *error) -> None:
        self.stack.close()

    def problems(self, mistake: Mistake) -> Iterator[str]:
        """The problems of one mistake."""
        verdict = self.verdict(mistake)
        if verdict.exit_status != 1 or verdict.diagnosis not in mistake.expected:
            found = verdict.diagnosis or verdict.status
            yield (
                f"mistake {mistake.name!r} of {self.kernel.name}: found {found!r}, expected "
                f"{' or '.join(map(repr, mistake.expected))}: {' '.join(verdict.lines)}"
            )
        elif len(verdict_lines(verdict)) > MOST_LINES:
            yield f"mistake {mistake.name!r}: the report is longer than {MOST_LINES} lines"
        elif mistake.line not in "\n".join(verdict.lines):
            yield f"mistake {mistake.name!r}: {mistake.line!r} is not in {' '.join(verdict.lines)!r}"

    def verdict(self, mistake: Mistake) -> Verdict:
        """The verdict up to the first failing case; if others must confirm a name, on the smallest cases that
        suffice."""
        puzzle, text = self.alone(mistake)
        unnamed = not self.shortly or bool(mistake.line) or mistake.name == next(iter(self.own))
        options = Options("cpu", 0, given=self.given_once, foresee=self.outputs, again=False, unnamed=unnamed)
        patience, tries = 0, [puzzle]
        if "slow" in mistake.expected:
            tries = [replace(puzzle, cases=usual_cases(puzzle))]
            options = replace(options, most=SMALLEST[0] if self.shortly else None)
        elif is_named(mistake):
            patience, tries = options.patience, self.fewer
        options = replace(options, optimised=not (self.shortly or is_named(mistake)))
        for tried in tries:
            found = self.grade(tried, mistake, text, replace(options, patience=patience))
            if found.diagnosis in mistake.expected and mistake.line in "\n".join(found.lines):
                return found
        # graded like a student's file, which may take long
        options = replace(options, again=True, unnamed=True, optimised=True, most=None)
        return graded(puzzle, text, options, impatient)

    def alone(self, mistake: Mistake) -> tuple[Puzzle, str]:
        """The puzzle and the text reduced to the wrong kernel; the others are right."""
        if "slow" in mistake.expected:
            return self.with_gates(mistake)
        return self.reduced, self.texts[mistake.name]

    def with_gates(self, mistake: Mistake) -> tuple[Puzzle, str]:
        """The same, or whole where gates count this kernel together with others."""
        names = {k.name for k in self.puzzle.kernels}
        own = [g for g in self.puzzle.gates if self.kernel.name in (g.kernels or names)]
        if len(self.reduced.gates) < len(own):
            return self.puzzle, mistake.apply(solution_text(self.puzzle))
        return self.reduced, self.texts[mistake.name]

    @once
    def reduced(self) -> Puzzle:
        """The puzzle with this kernel alone."""
        puzzle, kernel = self.puzzle, self.kernel
        names = {k.name for k in puzzle.kernels}
        gates = tuple(g for g in puzzle.gates if set(g.kernels or names) == {kernel.name})
        cases = tuple(replace(c, kernels=()) for c in puzzle.cases if kernel in puzzle.kernels_of(c))
        mistakes = puzzle.mistakes_of(kernel)
        return replace(puzzle, kernels=(kernel,), cases=cases, mistakes=mistakes, gates=gates)

    @once
    def fewer(self) -> list[Puzzle]:
        """The same without gates, and with the smallest cases; at last with all."""
        usual = usual_cases(self.reduced)
        some = [*(usual[:n] for n in SMALLEST if n < len(usual)), usual]
        return [replace(self.reduced, cases=cases, gates=()) for cases in some]

    def grade(self, puzzle: Puzzle, mistake: Mistake, text: str, options: Options) -> Verdict:
        if reads_unset(mistake):
            return graded(puzzle, text, options, following, self.folder)
        if text == self.texts[mistake.name]:
            try:
                return graded(puzzle, text, options, self.opener(mistake), self.folder)
            except Alone:
                return graded(puzzle, text, options, following, self.folder)
        first = partial(opened_as, self.first_build(mistake))
        return graded(puzzle, text, options, first, self.folder)

    def given_once(self, puzzle: Puzzle, case: Case, kernel: Kernel, seed: int):
        """See runs.given."""
        key = case.name, *case.dims.items(), kernel.name, seed
        if key not in self.made:
            self.made[key] = given(puzzle, case, kernel, seed)
        return self.made[key]

    def opener(self, mistake: Mistake) -> Callable:
        """A replacement for open_device whose devices have already compiled all mistakes that need them."""

        def opener(kind: str, checks: str = "full", seed: int = 0) -> Shared:
            build = self.first_build(mistake) if checks == "full" else checks
            return Shared(self.opened(build), lambda: self.variant(mistake.name, build), self.longest)

        return opener

    def first_build(self, mistake: Mistake) -> str:
        """The build in which a mistake runs first: the one with all checks, if one of them may find it."""
        if self.shortly and "slow" in mistake.expected:
            return "count"
        silent = is_named(mistake) and FAULTS.isdisjoint(mistake.expected)
        return "draft" if self.shortly and silent else "full"

    def opened(self, checks: str):
        """A device that stays open."""
        if checks not in self.devices:
            self.devices[checks] = self.stack.enter_context(impatient("cpu", checks))
        return self.devices[checks]

    def variant(self, name: str, checks: str = "draft") -> Variant | None:
        """A mistake, from the module of all mistakes that need this build; None if it does not."""
        if not self.needs(self.own[name], checks):
            return None
        if checks not in self.modules:
            needed = [n for n, m in self.own.items() if self.needs(m, checks)]
            # the same file as when a student's kernel is graded; in other builds, lines are those of `texts`
            kept = needed if checks == "draft" else list(self.own)
            texts = [self.plain[n] if n in needed else blank(self.plain[n]) for n in kept]
            module = compiled(together(texts)[0], self.opened(checks), self.puzzle)
            module.track = alone
            self.modules[checks] = module, kept
        module, kept = self.modules[checks]
        return Variant(module, f"m{kept.index(name)}")

    def needs(self, mistake: Mistake, checks: str) -> bool:
        """Will the mistake certainly run in this build? Most are found in the first."""
        if "compile" in mistake.expected or reads_unset(mistake):
            return False
        if checks == "draft" and mistake.says:
            return True
        others = checks not in ("draft", "full") and "slow" in mistake.expected
        return others or checks == self.first_build(mistake)

    def outputs(self, mistake: Mistake, seen: Observation) -> dict | None:
        self.device = self.opened("draft")
        return super().outputs(mistake, seen)


def usual_cases(puzzle: Puzzle) -> tuple[Case, ...]:
    return tuple(c for c in in_order(puzzle) if not c.stress)


def is_named(mistake: Mistake) -> bool:
    """Whether its output is expected to identify it."""
    return not set(mistake.expected) <= FAULTS | KINDS


def reads_unset(mistake: Mistake) -> bool:
    """Whether it will be compiled again to track unset values, see `following`."""
    return "uninitialised-read" in mistake.expected and not mistake.says


class Alone(Exception):
    """Raised when a kernel reads unset values: it is compiled again and must then be alone in its file."""


def alone() -> None:
    raise Alone


class Shared:
    """A device that stays open, with a cache of compiled modules. longest: see Examination."""

    def __init__(self, device: object, variant: Callable[[], Variant | None], longest: float):
        own = {"device": device, "variant": variant, "longest": longest}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str):
        return getattr(self.device, name)

    def __setattr__(self, name: str, value) -> None:
        setattr(self.device, name, min(value, self.longest) if name == "time_limit" else value)

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        pass

    def compile(self, *request, **options):
        return self.variant() or self.device.compile(*request, **options)


def following(kind: str, checks: str = "full", seed: int = 0):
    """An impatient device whose code tracks unset values from the start, because there are known to be
    some."""
    device = impatient(kind, checks, seed)
    if checks == "full":
        device.compile = partial(followed, device)
    return device


def followed(device: VirtualGPU, source: str, name: str = "kernel.cu", include_dirs=()) -> Module:
    request = source, name, tuple(include_dirs), (), ()
    built = device.build(*request, device.checks, device.arena.size, quick=True, tracking=True)
    module = Module(device, source, name, built, request, quick=True)
    module.tracking = True
    return module


def opened_as(first: str, kind: str, checks: str = "full", seed: int = 0):
    """An impatient device. first: the build used in place of the one with all checks."""
    return impatient(kind, first if checks == "full" else checks, seed)


def impatient(kind: str, checks: str = "full", seed: int = 0):
    """A device on which a thread may go round its loops 8 million times, not 134."""
    device = open_device(kind, checks, seed)
    device.step_budget = STEPS
    return device
