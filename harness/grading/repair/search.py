"""Finding the edits that make a kernel right: all of them on the smallest failing case, what is left on the others,
and what is left then is applied to the text and graded like any file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from ...course.checkout import read_source, source_hash
from ...course.cuda_values import tunables
from ...course.declare import Case, Kernel, Puzzle, Scalar
from ...errors import CompileError, CourseError, DeviceError, LaunchError
from .. import grade
from ..runs import Outcome, Pace, Setup, Trial, given, in_order, place, scalar
from ..verdict import FAILED, Verdict
from .edits import Edit, joined
from .pairs import MORE, exchanged, guards, moved, twins
from .schemata import Schemata
from .sites import Choice, Site

Combination = tuple[Choice, ...]

SECONDS = 5.0
LAUNCH = 0.1  # seconds of one variant of many; a right one takes far less in a small case
FEW, LONG = 64, 2.0  # so few may take so long
STEPS = 1 << 15  # of a thread, and more in larger cases: calls count as well
REQUEST = 2048  # variants in one request
CHUNK = 512  # edits tried before those are graded that are right in small cases; then twice as many
MOST = 3  # repairs that are looked for, each in a line of its own
MOST_GRADED = 8
MOST_EDITS = 60_000  # of one kind that are tried together: more are never tried in time
LARGEST = 1 << 13  # elements of the arrays of a case in which variants are run
#: costs of edits that are tried together: nothing dearer is tried where a cheaper one is found
TIERS = ((0.0, 1.05), (1.05, 1.6), (1.6, 2.6), (2.6, 9.0))


@dataclass
class Repair:
    """One change that makes every case right. edits: of the text, in its order."""

    edits: tuple[Edit, ...]
    cost: float
    source: str = field(repr=False)

    @property
    def line(self) -> int:
        return self.source.count("\n", 0, min(e.start for e in self.edits)) + 1

    @property
    def last_line(self) -> int:
        return self.source.count("\n", 0, max(e.end for e in self.edits)) + 1

    def as_dict(self) -> dict:
        first, last = min(e.start for e in self.edits), max(e.end for e in self.edits)
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
    if not verdict.is_runnable or puzzle.program:
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
    order: list[tuple[bool, int]] = field(default_factory=list)  # of the cases: (right without edits, number)
    setup: Setup | None = None

    @property
    def kernel(self) -> Kernel:
        return self.puzzle.kernel(self.verdict.kernel)

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def run(self) -> list[Repair]:
        """In the build with all checks where threads run in the wrong order, and then in the optimised one, where more
        edits can be tried."""
        self.tell("looking for one change that makes it right")
        for checks in ("full", "memory") if self.disordered else ("memory",):
            with ExitStack() as stack:
                device = stack.enter_context(self.opener("cpu", checks=checks, seed=self.verdict.seed))
                device.quick = True
                schemata = self.compiled(device, self.disordered if checks == "full" else None)
                right = [bool(self.right_in(case, [()])) for case in self.cases]
                self.order = sorted(zip(right, range(len(right))))  # first what is wrong without any edit
                if not all(right) and (found := self.first_of(self.tiers(schemata.sites))):
                    return found
        return []

    @property
    def disordered(self) -> set[int]:
        """The lines that the verdict names of threads in the wrong order."""
        fault = self.verdict.fault or {}
        if fault.get("kind") not in ("race", "barrier-divergence", "uninitialised-read", "shuffle-mask"):
            return set()
        return {fault["line"], (fault["other"] or fault)["line"]}

    @property
    def strays_in(self) -> int:
        """The line of an access outside of an array, which a guard would stop; 0 where there is none."""
        fault = self.verdict.fault or {}
        return fault["line"] if fault.get("kind") in ("out-of-bounds", "invalid-address") else 0

    def first_of(self, tiers: Iterator[list[Combination]]) -> list[Repair]:
        """The repairs among the first edits of which some are."""
        for tier in tiers:
            first, size = 0, CHUNK
            while first < len(tier) and self.left > 0:
                left = self.right_everywhere(tier[first : first + size])
                if left and (found := self.graded(left)):
                    return found
                first, size = first + size, 2 * size
        return []

    def right_everywhere(self, combinations: Sequence[Combination]) -> Sequence[Combination]:
        """Those whose kernel is right in all cases in which edits are tried."""
        for _, number in self.order:
            if combinations:
                combinations = self.right_in(self.cases[number], combinations)
        return combinations

    def tiers(self, sites: Sequence[Site]) -> Iterator[list[Combination]]:
        """What is tried together; nothing dearer is tried where something cheaper is found."""
        near = [s for s in sites if self.strays_in and s.is_guard and s.is_before(self.strays_in)]
        for i, (least, most) in enumerate(TIERS):
            pairs = twins(sites, least, most) if i < 3 else guards(sites, least, most)
            first = (*exchanged(sites), *moved(sites)) if i == 0 else ()
            singles = ((c,) for site in sites for c in site.choices(least, most))
            yield sorted([*first, *islice(singles, MOST_EDITS), *islice(pairs, MOST_EDITS)], key=cost_of)
            if i == 0 and near:
                guarded = [(c,) for site in near for c in site.choices(0.0, math.inf)]
                yield sorted([*guarded, *guards(near, 0.0, math.inf)], key=cost_of)

    def compiled(self, device, races: set[int] | None) -> Schemata:
        """All edits in one module; lines in which the compiler takes offence stay as they are. races: see Schemata."""
        without: set[int] = set()
        while True:
            schemata = Schemata(self.source, self.kernel.name, without, races)
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

    @cached_property
    def cases(self) -> list[Case]:
        """In which variants run: the failing ones first, small ones before large ones."""
        failed = {c.name for c in self.verdict.cases if c.kernel == self.kernel.name and c.status == FAILED}
        fit = [
            c
            for c in in_order(self.puzzle)
            if self.kernel in self.puzzle.kernels_of(c) and self._size(c) <= LARGEST
        ]
        return sorted(fit, key=lambda c: (c.name not in failed, self._work(c)))

    def _work(self, case: Case) -> int:
        """What a case takes, roughly: threads take longer than elements."""
        try:
            launch = self.kernel.launch(self.puzzle.full_dims(case), tunables(self.source))
        except (CourseError, ArithmeticError, ValueError, TypeError):
            return 0
        sizes = (s if isinstance(s, tuple) else (s,) for s in (launch.grid, launch.block))
        return self._size(case) + 4 * math.prod(map(math.prod, sizes))

    def _size(self, case: Case) -> int:
        dims = self.puzzle.full_dims(case)
        return sum(int(np.prod(a.shape(dims))) for a in self.kernel.arrays)

    def given(self, puzzle: Puzzle, case: Case, kernel: Kernel, seed: int):
        """As runs.given; every case is made once."""
        key = case.name, kernel.name
        if key not in self.known:
            self.known[key] = given(puzzle, case, kernel, seed)
        return self.known[key]

    def right_in(self, case: Case, choices: Sequence[Combination]) -> list[Combination]:
        """Those whose kernel is right in a case."""
        trial = Trial(Outcome(case, self.kernel), Pace())
        trial.begin(self.puzzle, tunables(self.source), self.verdict.seed, self.given)
        if trial.launch is None:
            return []
        groups: dict[tuple, list[Combination]] = {}
        keys = Keys(self.values(trial))
        for combination in choices:  # with the same values two edits are one
            groups.setdefault(tuple(map(keys.of, combination)), []).append(combination)
        right: list[Combination] = []
        for group, well in zip(
            groups.values(), self.launched(trial, [group[0] for group in groups.values()])
        ):
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

    def launched(self, trial: Trial, choices: Sequence[Combination]) -> Iterator[bool]:
        """For each edit, whether the kernel is right with it; False for those there is no time for."""
        setup, kernel = self.setup, self.kernel
        device, targets = setup.device, trial.targets
        device.schedule, few = setup.schedules[0], len(choices) <= FEW
        device.step_budget = 1 << 24 if few else STEPS + 4 * self._size(trial.outcome.case)
        device.time_limit = LONG if few or device.checks == "full" else LAUNCH
        handles = {p.name: place(device, p, trial) for p in kernel.passed}
        for p in kernel.constants:
            setup.module.set_constant(p.name, trial.arrays[p.name])
        arguments = tuple(
            scalar(p, trial.dims) if isinstance(p, Scalar) else handles[p.name] for p in kernel.params
        )
        for at in range(0, len(choices), REQUEST):
            rows = np.array([row_of(c) for c in choices[at : at + REQUEST]], np.int32)
            well, found = setup.kernels[kernel.name].variants(
                "backwarp_edits",
                rows,
                trial.launch.grid,
                trial.launch.block,
                arguments,
                [handles[t.array.name] for t in targets],
                trial.launch.shared_mem,
                max(self.left, 0.0),
            )
            self.tried += len(well)
            right = np.ones(int(well.sum()), bool)
            for target, got in zip(targets, found, strict=True):
                right &= target.right(got).all(tuple(range(1, got.ndim)))
            passed = iter(right)
            yield from (bool(w and next(passed)) for w in well)
            yield from (False for _ in range(len(rows) - len(well)))

    # -- what is left ---------------------------------------------------------------------------------

    def graded(self, choices: Sequence[Combination]) -> list[Repair]:
        """The cheapest of every line, those of them that pass as files do."""
        found: list[Repair] = []
        tried = 0
        all_ = (Repair(joined([c.edit for c in some]), cost_of(some), self.source) for some in choices)
        for repair in sorted(all_, key=rank):
            if len(found) >= MOST or tried >= MOST_GRADED or tried and self.left < 0:
                break
            insertion = repair.edits[-1].start == repair.edits[-1].end
            if repair.line not in {f.line for f in found} and not (found and insertion):
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


class Keys:
    """What an edit does in a case in which names have these values: the same key for several edits."""

    def __init__(self, values: dict[str, int]):
        self.values, self.pools = values, {}

    def of(self, choice: Choice) -> tuple:
        pool = choice.site.pool
        if id(pool) not in self.pools:
            self.pools[id(pool)] = [
                self.values.get(e.text, e.text if e.known is None else e.known) for e in pool
            ]
        known = self.pools[id(pool)]
        return choice.row[:2] if not known else (*choice.row[:2], known[choice.a], known[choice.b])


def cost_of(choices: Combination) -> float:
    return max((c.cost for c in choices), default=0.0) + MORE * (len(choices) - 1)


def row_of(choices: Combination) -> tuple[int, ...]:
    """As `backwarp_edits` holds it."""
    return tuple(n for c in choices for n in c.row) + (0,) * (8 - 4 * len(choices))


def rank(repair: Repair) -> tuple:
    return repair.cost, sum(len(e.after) for e in repair.edits), repair.edits[0].start
