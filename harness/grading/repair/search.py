"""Finding the edits that make a kernel right: likely ones first, all on the smallest failing case (variants.py), what is
left on the others, and what is left then is applied to the text and graded like any file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain, pairwise, zip_longest
from pathlib import Path

from ...course.checkout import read_source, source_hash
from ...course.declare import Case, Kernel, Puzzle
from ...devices.virtual.run.workers import available_cores
from ...errors import CompileError, CourseError, DeviceError, LaunchError
from .. import grade
from ..runs import given
from ..verdict import FAILED, PASSED, Verdict
from . import texts
from .edits import joined
from .pairs import (
    MORE,
    Families,
    Guards,
    both_guards,
    carried,
    declared,
    exchanged,
    moved,
    renamed,
    turned_signs,
)
from .reach import is_one_place
from .repair import Repair, rank
from .sites import Choice, Site
from .suspicion import alone, suspected
from .variants import FEW_LARGE, Combination, Variants, has_barriers, with_small_blocks

SECONDS = 5.0
MOST_DEVICES = 2  # that try edits side by side
CHUNK = 512  # edits tried before those are graded that are right in small cases; then twice as many
MOST = 3  # repairs that are looked for, each in a line of its own
AS_LIKELY = 0.3  # what a repair may cost more than the best and is said as well
MOST_GRADED = 8
#: costs of edits that are tried together: nothing dearer is tried where a cheaper one is found
TIERS = (-9.0, 0.45, 0.65, 0.85, 1.05, 1.35, 1.65, 1.95, 2.2, 2.45, 2.7, 2.95, 3.2, 3.5, 4.0, 9.0)
GUARDS = 3  # the tier after which those that would stop a fault are tried
PLAUSIBLE = (1.75, 2.25, 2.65)  # operations that cost less are all tried before the others
FIRST = 1.1  # what edits may cost of lines that are changed first
FIRST_BUILD = 0.4  # of the time is for these
LATER = 0.35  # by which they wait longer
PAIRS_LATER = 0.25  # and those of several edits
LAST_BUILD = 0.4  # of the time is kept for it, in which more edits can be tried


def repairs(
    puzzle: Puzzle,
    source: str,
    verdict: Verdict,
    name: str = "kernel.cu",
    seconds: float = SECONDS,
    opener: Callable | None = None,
    tell: Callable[[str], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    slack: float = 1.0,
) -> list[Repair]:
    """Single changes that make the kernel right which the verdict calls wrong, best first; none where there is none,
    or not enough time. opener: as for grade_file. tell: called with what is being done."""
    failed = {case.kernel for case in verdict.cases if case.status == FAILED}
    if not verdict.is_repairable or puzzle.program or not is_one_place(source, failed):
        return []
    if opener is None:
        from ...devices import confined_device as opener
    puzzle = puzzle.drawn(verdict.seed)
    search = Search(
        puzzle,
        source,
        verdict,
        name,
        opener,
        clock() + seconds,
        tell or (lambda _: None),
        clock=clock,
        slack=slack,
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
    end: float  # of the clock
    tell: Callable[[str], None]
    known: dict = field(default_factory=dict)  # inputs and right results by case and kernel
    clock: Callable[[], float] = time.monotonic
    slack: float = 1.0  # seconds that may pass in one of the clock
    turn: float = math.inf  # of the clock: when the edits that are tried now have had their share

    @property
    def kernel(self) -> Kernel:
        return self.puzzle.kernel(self.verdict.kernel)

    @property
    def left(self) -> float:
        """Seconds for trying edits; those that are right by then are still graded until the end."""
        return min(self.turn, self.end) - self.clock()

    def run(self) -> list[Repair]:
        """In the build with all checks where threads run in the wrong order, and then in the optimised one, where more
        edits can be tried."""
        if self.verdict.kind == "slow":
            return self.faster()
        self.tell("looking for one change that makes it right")
        written = [*texts.edits(self.source, self.kernel.name)]
        written += texts.of_shared_arrays(self.source, self.kernel.name, self.verdict.fault or {})
        for repair in (Repair((edit,), 0.5, self.source) for edit in written[:MOST_GRADED]):
            if self.passes(repair.text):
                return [repair]
        for checks, later in zip_longest(self.builds, self.builds[1:]):
            if self.left < 0:
                break
            last = self.turn = self.end - (LAST_BUILD * self.left if later == "memory" else 0.0)
            with ExitStack() as stack:
                make = partial(
                    Variants,
                    self.puzzle,
                    self.verdict,
                    name=self.name,
                    given=self.given,
                    left=lambda: self.left,
                    slack=self.slack,
                    races=self.disordered if checks == "full" else None,
                )
                devices = partial(self.devices, checks, stack)
                if self.first and checks != "full":
                    self.turn -= (1 - FIRST_BUILD) * self.left
                    if found := self.found_in_small_blocks(partial(make, only=self.first), devices, FIRST):
                        return found
                    self.turn = last
                if found := self.found_in_small_blocks(make, devices):
                    return found
            self.turn = self.end
        return []

    def faster(self) -> list[Repair]:
        """Of a right kernel: the first change with which it meets the gates and stays right."""
        self.tell("looking for one change that makes it fast enough")
        for edits in texts.of_speed(self.source, self.kernel.name):
            repair = Repair(edits, 0.5, self.source)
            if self.left < 0:
                break
            if self.is_fast(repair.text) and self.passes(repair.text):
                return [repair]
        return []

    def is_fast(self, text: str) -> bool:
        options, passed = (
            grade.Options("cpu", self.verdict.seed),
            replace(self.verdict, status=PASSED, kind=""),
        )
        try:
            return grade.through_gates(self.puzzle, text, self.name, options, self.opener, passed).passed
        except (grade.Stop, DeviceError, LaunchError, CourseError):
            return False

    @property
    def builds(self) -> tuple[str, ...]:
        """What shows the fault soonest: what is unset or lacks threads gives wrong results as well."""
        if not self.disordered:
            return ("memory",)
        late = self.verdict.fault["kind"] in ("race", "barrier-divergence")
        return ("full", "memory") if late else ("memory", "full")

    def devices(self, checks: str, stack: ExitStack) -> Iterator:
        """As many as work side by side. Without barriers it pays off to compile hastily."""
        if checks == "memory" and not has_barriers(self.source, self.kernel.name):
            checks = "draft"
        for _ in range(min(available_cores(), MOST_DEVICES)):
            yield stack.enter_context(self.opener("cpu", checks=checks, seed=self.verdict.seed))

    def found_in_small_blocks(
        self, make: Callable[..., Variants], devices: Callable[[], Iterator], most: float = math.inf
    ) -> list[Repair]:
        """Blocks of few threads are fast, where the file sets them; what is right in them is tried as it is."""
        cases = [c for c in self.puzzle.cases if self.kernel in self.puzzle.kernels_of(c)]
        smallest = min(cases, key=lambda c: sum(self.puzzle.full_dims(c).values()))
        text = with_small_blocks(self.source, self.kernel, self.puzzle.full_dims(smallest))
        whole = cache(lambda: make(self.source, devices=devices()))
        if text != self.source:
            small = make(text, devices=devices())
            if (found := self.found_by(small, most, whole)) or self.left < 0:
                return found
            if small.is_wrong and most < math.inf:
                return []
        return self.found_by(whole(), most)

    def found_by(
        self, variants: Variants, most: float, then: Callable[[], Variants] | None = None
    ) -> list[Repair]:
        """The repairs among the first edits of which some are. most: see `tiers`. then: gives further variants to try what
        is right."""
        if not variants.is_wrong:
            return []
        for tier in self.tiers(variants.schemata.sites, most):
            first, size = 0, CHUNK
            while first < len(tier) and self.left > 0:
                left = variants.right_everywhere(tier[first : first + size])
                if len(left) > FEW_LARGE and then and not left[0][0].site.orders:
                    left = then().right_everywhere(left)
                if left and (found := self.graded(left)):
                    return found
                first, size = first + size, 2 * size
            if self.left < 0:
                break
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

    @cached_property
    def suspected(self) -> dict[int, float]:
        """By which edits of a line are likelier."""
        return suspected(self.source, self.kernel.name, self.verdict)

    @cached_property
    def first(self) -> list[int]:
        """The lines that are changed first, alone, which takes less to compile."""
        return alone(self.source, self.kernel.name, self.suspected)

    def tiers(self, sites: Sequence[Site], most: float = math.inf) -> Iterator[list[Combination]]:
        """What is tried together; nothing dearer is tried where something cheaper is found, nor what costs more than
        `most`. The choices of operations that cost more are not made before they are needed."""
        if ordering := [(c,) for s in sites if s.orders for c in s.choices() if c.is_plain]:
            yield sorted(ordering, key=cost_of)
            yield [*moved(sites)]
        for site in sites:
            site.suspect = self.suspected.get(site.piece.line, 0.0)
        near = [s for s in sites if self.strays_in and s.may_stop(self.strays_in)]
        families, guards = Families(sites), Guards(near)
        pairs = (exchanged, turned_signs, renamed, declared, carried)
        others = cache(lambda: [c for made in pairs for c in made(sites)])
        likely = cache(lambda: [c for site in sites for c in site.likely])
        steps = [*pairwise((-math.inf, *PLAUSIBLE, math.inf))]

        @cache
        def alone(step: int, i: int) -> list[Choice]:
            """The choices of a tier, of operations that cost so much; first with those that are likely, whatever they cost."""
            low, high = TIERS[i : i + 2]
            early = () if step else (c for c in likely() if low <= c.cost < high)
            found = chain(early, *(site.choices(*steps[step], low, high) for site in sites))
            return sorted(found, key=lambda c: c.cost)

        order = [
            (max(low, 0.25) + LATER * step + after, step, i, after > 0)
            for step in range(len(steps))
            for i, low in enumerate(TIERS[:-1])
            for after in (0.0, PAIRS_LATER)
        ]
        for cost, step, i, together in sorted(order):
            if cost > most:
                return
            if together:
                low, high = TIERS[i : i + 2]
                found = [] if step else [c for c in others() if low <= cost_of(c) < high]
                for c in chain(alone(step, i), alone(step, i - 1) if i else ()):
                    if low <= c.cost + MORE < high:
                        found += [*families.of(c), *both_guards(c)]
                yield sorted(found, key=cost_of)
            else:
                yield [(c,) for c in alone(step, i)]
            if i == GUARDS and step == 0 and near and not together:
                yield from guards.likely()
        yield from guards.others()

    def given(self, puzzle: Puzzle, case: Case, kernel: Kernel, seed: int):
        """As runs.given; every case is made once."""
        key = case.name, kernel.name
        if key not in self.known:
            self.known[key] = given(puzzle, case, kernel, seed)
        return self.known[key]

    # -- what is left ---------------------------------------------------------------------------------

    def graded(self, choices: Sequence[Combination]) -> list[Repair]:
        """The cheapest of every line, those of them that pass as files do."""
        found: list[Repair] = []
        tried = 0
        all_ = (
            Repair(joined([e for c in some for e in c.edits]), cost_of(some), self.source) for some in choices
        )
        for repair in sorted((r for r in all_ if not r.overlaps), key=lambda r: rank(r, self.kernel.name)):
            if len(found) >= MOST or tried >= MOST_GRADED or tried and self.clock() > self.end:
                break
            if found and repair.cost > found[0].cost + AS_LIKELY:
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


def cost_of(choices: Combination) -> float:
    return max((c.cost for c in choices), default=0.0) + MORE * (len(choices) > 1)
