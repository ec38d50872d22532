"""What the mistakes of a kernel write: they are compiled together on first use and run one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ...course.declare import Kernel, Puzzle
from ...course.mistakes import Mistake, together, without_kernels
from ...cuda.values import Tunables, tunables
from ...errors import CompileError, CourseError, DeviceError, LaunchError
from ..compare import Expected, untouched
from ..runs import LaunchResult, Outcome, Pace, Setup, Trial, run_once
from .naming import Foresee, Observation

SECONDS = 10.0  # of a launch, even on a very busy machine: STEPS ends a mistake that takes long
STEPS = 1 << 22  # of a thread


@dataclass
class Variant:
    """A module's kernels of one namespace."""

    module: object
    space: str
    quick: bool = False
    warnings: tuple = ()  # they would be those of all mistakes

    @property
    def functions(self) -> tuple[str, ...]:
        return self.module.functions

    @property
    def constants(self) -> dict[str, int]:
        return self.module.constants

    def get_function(self, name: str):
        return self.module.get_function(f"{self.space}::{name}")

    def set_constant(self, name: str, values) -> None:
        self.module.set_constant(name, values)


@dataclass
class WrongKernels:
    """The mistakes of one kernel that have a sentence, on a device of their own, with the constants of the file `source`."""

    puzzle: Puzzle
    kernel: Kernel
    source: str
    seed: int = 0
    texts: dict[str, str] = field(default_factory=dict)  # by mistake, after compilation
    tunables: dict[str, Tunables] = field(default_factory=dict)  # by mistake, as each text is read once
    module: object = None
    device: object = None
    known: dict = field(default_factory=dict)  # results so far

    def __enter__(self) -> Foresee:
        return self.outputs

    def __exit__(self, *_) -> None:
        if self.device:
            self.device.close()

    def outputs(self, mistake: Mistake, seen: Observation) -> dict[str, np.ndarray] | None:
        """What the mistake writes in a case, NaN where it writes nothing; None if it faults or takes too long."""
        key = mistake.name, seen.case.name
        if key not in self.known or self.known[key][0] is not seen.arrays:
            self.known[key] = seen.arrays, self._run(mistake, seen)
        return self.known[key][1]

    def _run(self, mistake: Mistake, seen: Observation) -> dict[str, np.ndarray] | None:
        variant = self.variant(mistake.name)
        if variant is None:
            return None
        given = dict(dims=dict(seen.dims), arrays=seen.arrays)
        trial = Trial(Outcome(seen.case, self.kernel), Pace(longest=SECONDS), **given)
        trial.targets, schedule = seen.targets, 2 * self.seed + 1
        try:
            if mistake.name not in self.tunables:
                self.tunables[mistake.name] = tunables(self.texts[mistake.name])
            trial.launch = self.kernel.launch(dict(seen.dims), self.tunables[mistake.name])
            setup = Setup(self.device, (schedule,), module=variant)
            setup.kernels[self.kernel.name] = variant.get_function(self.kernel.name)
            run = run_once(trial, setup, schedule)
        except (CourseError, ArithmeticError, ValueError, TypeError, LaunchError):  # no such launch exists
            return None
        return run and {t.array.name: written(t, run) for t in trial.targets}

    def variant(self, name: str) -> Variant | None:
        """A mistake, compiled with all others; None if that fails."""
        if not self.texts:
            self._compile()
        return self.module and Variant(self.module, f"m{list(self.texts).index(name)}")

    def _compile(self) -> None:
        from ...devices import open_device

        solution, own = self.puzzle.solution_path.read_text(encoding="utf-8"), tunables(self.source)
        solution = without_kernels(solution, [k.name for k in self.puzzle.kernels if k is not self.kernel])
        for m in self.puzzle.mistakes_of(self.kernel):
            if m.says:
                self.texts[m.name] = with_tunables(m.apply(solution), solution, own)
        self.device = open_device("cpu", checks="draft", seed=self.seed)
        self.device.step_budget = STEPS
        # some may not compile with the student's tunables
        with suppress(CompileError, DeviceError):
            self.module = compiled(together(list(self.texts.values()))[0], self.device, self.puzzle)


def compiled(text: str, device: object, puzzle: Puzzle) -> object:
    """A module of many kernels: compiled quickly, and neither compiled again when one of them takes long nor for its blocks."""
    device.quick = True
    module = device.compile(text, include_dirs=puzzle.include_dirs)
    module.quick, module.look_for_better = False, lambda *_: None
    return module


def with_tunables(text: str, solution: str, values: Mapping[str, int]) -> str:
    """The text of a mistake with the student's tunables, except for those that the mistake itself changes."""
    declared = tunables(solution)
    for name, value in tunables(text).items():
        if declared.get(name) == value != values.get(name, value):
            constant = rf"(\bconstexpr\b[^=;{{}}\n]*\b{name}\s*=)[^;{{}}\n]*;"
            text = re.sub(constant, rf"\g<1> {values[name]};", text, count=1)
    return text


def written(target: Expected, run: LaunchResult) -> np.ndarray:
    """An output as numbers; NaN where nothing was written."""
    name = target.array.name
    values = run.results[name].astype(np.float64)
    if not target.array.is_input:
        values[untouched(target, run.results[name], run.before[name], run.written.get(name))] = np.nan
    return values
