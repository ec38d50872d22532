"""Finding the edits that make a kernel right: all of them on the smallest failing case, what is left on the others,
and what is left then is applied to the text and graded like any file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...course.checkout import read_source, source_hash
from ...course.cuda_values import tunables
from ...course.declare import Case, Kernel, Puzzle, Scalar
from ...errors import CompileError, CourseError, DeviceError, LaunchError
from .. import grade
from ..runs import Outcome, Pace, Setup, Trial, given, in_order, place, scalar
from ..verdict import FAILED, Verdict
from .edits import Edit
from .schemata import Choice, Schemata

SECONDS = 5.0
LAUNCH = 0.1  # seconds of one variant of many; a right one takes far less in a small case
FEW, LONG = 64, 2.0  # so few may take so long
STEPS = 1 << 15  # of a thread, and more in larger cases: calls count as well
CHUNK = 2048  # variants in one request
MOST = 3  # repairs that are looked for, each in a line of its own
MOST_GRADED = 8
LARGEST = 1 << 13  # elements of the arrays of a case in which variants are run
#: costs of edits that are tried together: nothing dearer is tried where a cheaper one is found
TIERS = ((0.0, 1.6), (1.6, 2.6), (2.6, 9.0))


@dataclass
class Repair:
    """One change that makes every case right. edits: of the text, in its order."""

    edits: tuple[Edit, ...]
    cost: float
    source: str = field(repr=False)

    @property
    def line(self) -> int:
        return self.source.count("\n", 0, self.edits[0].start) + 1

    def as_dict(self) -> dict:
        first, last = self.edits[0].start, max(e.end for e in self.edits)
        after = self.text[first : last + len(self.text) - len(self.source)]
        column = first - (self.source.rfind("\n", 0, first) + 1) + 1
        before = self.source[first:last]
        return {
            "line": self.line,
            "column": column,
            "before": before,
            "after": after,
            "kind": self.edits[0].says,
        }

    @property
    def text(self) -> str:
        """The repaired file."""
        text = self.source
        for edit in sorted(self.edits, key=lambda e: e.start, reverse=True):
            text = edit.apply(text)
        return text


def repairs(
    puzzle: Puzzle,
    source: str,
    verdict: Verdict,
    name: str = "kernel.cu",
    seconds: float = SECONDS,
    opener: Callable | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[Repair]:
    """Single changes that make the kernel right which the verdict calls wrong, best first; none where there is none,
    or not enough time. opener: as for grade_file. tell: called with what is being done."""
    if not verdict.is_runnable:
        return []
    if opener is None:
        from ...devices import confined_device as opener
    puzzle = puzzle.drawn(verdict.seed)
    search = Search(
        puzzle, source, verdict, name, opener, time.monotonic() + seconds, tell or (lambda _: None)
    )
    try:
        return search.run()
    except (CompileError, DeviceError, LaunchError, CourseError, RecursionError):
        return []


def look(puzzle: Puzzle, path: Path, verdict: Verdict, **how) -> None:
    """Fills in the `repair` of the verdict on a file, if that is still the one that was graded. how: of `repairs`."""
    try:
        source = read_source(path)
    except CourseError:
        return
    if source_hash(source) == verdict.source_hash:
        verdict.repair = [r.as_dict() for r in repairs(puzzle, source, verdict, path.name, **how)]


@dataclass
class Search:
    puzzle: Puzzle
    source: str
    verdict: Verdict
    name: str
    opener: Callable
    end: float  # of time.monotonic
    tell: Callable[[str], None]
    known: dict = field(default_factory=dict)  # inputs and right results by case and kernel
    tried: int = 0
    setup: Setup | None = None

    @property
    def kernel(self) -> Kernel:
        return self.puzzle.kernel(self.verdict.kernel)

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def run(self) -> list[Repair]:
        self.tell("looking for one change that makes it right")
        with ExitStack() as stack:
            device = stack.enter_context(self.opener("cpu", checks="memory", seed=self.verdict.seed))
            device.quick = True
            schemata = self.compiled(device)
            cases = self.cases()
            for least, most in TIERS:
                left = [c for site in schemata.sites for c in site.choices(least, most)]
                left.sort(key=lambda c: c.cost)
                for case in cases:
                    left = self.right_in(case, left)
                    if not left:
                        break
                if left and (found := self.graded(left)):
                    return found
        return []

    def compiled(self, device) -> Schemata:
        """All edits in one module; lines in which the compiler takes offence stay as they are."""
        without: set[int] = set()
        while True:
            schemata = Schemata(self.source, self.kernel.name, without)
            try:
                module = device.compile(schemata.text, name=self.name, include_dirs=self.puzzle.include_dirs)
                break
            except CompileError as error:
                lines = {d.line - schemata.before for d in error.diagnostics if d.line > schemata.before}
                if not lines - without or len(without) > 20 or self.left < 0:
                    raise
                without |= lines
        module.quick = False
        self.setup = Setup(device, (2 * self.verdict.seed + 1,), module=module)
        self.setup.kernels[self.kernel.name] = module.get_function(self.kernel.name)
        return schemata

    # -- variants -----------------------------------------------------------------------------------

    def cases(self) -> list[Case]:
        """In which variants run: the failing ones first, small ones before large ones."""
        failed = {c.name for c in self.verdict.cases if c.kernel == self.kernel.name and c.status == FAILED}
        fit = [
            c
            for c in in_order(self.puzzle)
            if self.kernel in self.puzzle.kernels_of(c) and self._size(c) <= LARGEST
        ]
        return sorted(fit, key=lambda c: (c.name not in failed, self._size(c)))

    def _size(self, case: Case) -> int:
        dims = self.puzzle.full_dims(case)
        return sum(int(np.prod(a.shape(dims))) for a in self.kernel.arrays)

    def given(self, puzzle: Puzzle, case: Case, kernel: Kernel, seed: int):
        """As runs.given; every case is made once."""
        key = case.name, kernel.name
        if key not in self.known:
            self.known[key] = given(puzzle, case, kernel, seed)
        return self.known[key]

    def right_in(self, case: Case, choices: Sequence[Choice]) -> list[Choice]:
        """Those whose kernel is right in a case."""
        trial = Trial(Outcome(case, self.kernel), Pace())
        trial.begin(self.puzzle, tunables(self.source), self.verdict.seed, self.given)
        if trial.launch is None:
            return []
        groups: dict[tuple, list[Choice]] = {}
        values, keys = self.values(trial), {}
        for c in choices:  # with the same values two edits are one
            pool = c.site.pool
            if id(pool) not in keys:
                keys[id(pool)] = [values.get(e.text, e.text if e.known is None else e.known) for e in pool]
            known = keys[id(pool)]
            key = (
                (c.site.number, c.operation, known[c.a], known[c.b])
                if known
                else (c.site.number, c.operation)
            )
            groups.setdefault(key, []).append(c)
        first = [group[0] for group in groups.values()]
        right: list[Choice] = []
        for group, well in zip(groups.values(), self.launched(trial, first)):
            right += group if well else []
        return right

    def values(self, trial: Trial) -> dict[str, int]:
        """What the kernel's scalar parameters are, by the names that the file gives them."""
        from ...course.cuda_text import read

        function = read(self.source).function(self.kernel.name)
        found = {}
        for p, own in zip(self.kernel.params, function.parameters if function else ()):
            if isinstance(p, Scalar):
                found[own.name] = scalar(p, trial.dims).item()
        for what, sizes in (("gridDim", trial.launch.grid), ("blockDim", trial.launch.block)):
            sizes = sizes if isinstance(sizes, tuple) else (sizes,)
            found |= {f"{what}.{axis}": n for axis, n in zip("xyz", (*sizes, 1, 1))}
        return found

    def launched(self, trial: Trial, choices: Sequence[Choice]) -> Iterator[bool]:
        """For each edit, whether the kernel is right with it; False for those there is no time for."""
        setup, kernel = self.setup, self.kernel
        device, targets = setup.device, trial.targets
        device.schedule, few = setup.schedules[0], len(choices) <= FEW
        device.step_budget = 1 << 24 if few else STEPS + 4 * self._size(trial.outcome.case)
        device.time_limit = LONG if few else LAUNCH
        handles = {p.name: place(device, p, trial) for p in kernel.passed}
        for p in kernel.constants:
            setup.module.set_constant(p.name, trial.arrays[p.name])
        arguments = tuple(
            scalar(p, trial.dims) if isinstance(p, Scalar) else handles[p.name] for p in kernel.params
        )
        for at in range(0, len(choices), CHUNK):
            rows = np.array([(*c.row, 0, 0, 0, 0) for c in choices[at : at + CHUNK]], np.int32)
            well, found = setup.kernels[kernel.name].variants(
                "backwarp_edits", rows, trial.launch.grid, trial.launch.block, arguments,
                [handles[t.array.name] for t in targets], trial.launch.shared_mem, max(self.left, 0.0),
            )  # fmt: skip
            self.tried += len(well)
            right = np.ones(int(well.sum()), bool)
            for target, got in zip(targets, found, strict=True):
                right &= target.right(got).all(tuple(range(1, got.ndim)))
            passed = iter(right)
            yield from (bool(w and next(passed)) for w in well)
            yield from (False for _ in range(len(rows) - len(well)))

    # -- what is left ---------------------------------------------------------------------------------

    def graded(self, choices: Sequence[Choice]) -> list[Repair]:
        """The cheapest of every line, those of them that pass as files do."""
        found: list[Repair] = []
        tried = 0
        for repair in sorted((Repair((c.edit,), c.cost, self.source) for c in choices), key=rank):
            if len(found) >= MOST or tried >= MOST_GRADED or found and self.left < 0:
                break
            if repair.line not in {f.line for f in found}:
                tried += 1
                if self.passes(repair.text):
                    found.append(repair)
        return found

    def passes(self, text: str) -> bool:
        """Whether a file is right in all cases, in both builds, with all checks."""
        options = grade.Options("cpu", self.verdict.seed, patience=0.0, given=self.given)
        with ExitStack() as stack:
            try:
                setups = grade.open_setups(options, self.opener, stack)
                trials, done = grade.run_all(self.puzzle, setups, text, self.name, options)
            except (grade.Stop, DeviceError):
                return False
        return done == len(trials) and not any(trial.outcome.kind for trial in trials)


def rank(repair: Repair) -> tuple:
    return repair.cost, sum(len(e.after) for e in repair.edits), repair.edits[0].start
