"""Finding the edits that make a kernel right: likely ones first, all on the smallest failing case
(variants.py), the survivors on the other cases; what remains is applied to the text and graded like any
file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain, islice, pairwise
from pathlib import Path

from ...course.checkout import read_source, source_hash
from ...course.declare import Case, Kernel, Puzzle
from ...course.stubs import stub_text
from ...cuda.text import read
from ...cuda.values import tunables
from ...errors import CompileError, CourseError, DeviceError, LaunchError
from .. import gates, grade
from ..derived import whole
from ..runs import Setup, given
from ..verdict import FAILED, PASSED, Verdict
from . import alike, collectives, from_solution, texts
from .edits import PARAMETERS, joined
from .guards import Guards, both_guards
from .lines import in_one_line
from .macros import Written, written_out
from .neighbours import setters
from .pairs import TOGETHER, Families, moved
from .repair import Repair, rank
from .sites import MORE, Choice, Site, cost_of
from .suspicion import alone, conditions_around, deciding, is_one_place, stretches, suspected
from .variants import FEW_LARGE, Combination, Devices, Variants, Work, has_barriers, with_small_blocks

BUDGET = 10.0  # see Work
HANGS = 600.0  # seconds by the clock after which something hangs
GRADING, CASE, COUNTING, CHOICE = (
    0.2,
    0.02,
    0.3,
    2e-6,
)  # work for a file, for each launch, for counting a file, for an edit
CHUNK = 512  # edits tried before those that are right in small cases are graded; doubled each time
MOST = 3  # repairs to find, each in a different line
AS_LIKELY = 0.3  # how much more than the best a repair may cost and still be told
MOST_GRADED = 10
MOST_ALIKE = 4  # tried before, that make the accesses of a shared array alike
MOST_VARIABLES = (
    500  # of a file: the edits grow with their square, and building them alone would take all the time
)
#: costs of edits that are tried together: nothing dearer is tried where a cheaper one is found
TIERS = (-9.0, 0.45, 0.65, 0.85, 1.05, 1.35, 1.65, 1.95, 2.2, 2.45, 2.7, 2.95, 3.2, 3.5, 4.0, 9.0)
GUARDS = 3  # the tier after which edits that would stop a fault are tried
PLAUSIBLE = (1.75, 2.25, 2.65)  # cheaper operations are all tried before the others
FIRST = 1.1  # what edits may cost in lines that are tried first
GIVEN = 0.3  # how much later edits of lines that the stub has
LATER = 0.35  # how much later others come
PAIRS_LATER = 0.25  # and those of several edits
LIKELY = 1.4  # the highest cost of edits that are preferred to a large suggestion
AT_ONCE = 2  # lines of what the solution suggests that are told without looking further
BESIDE = 0.5  # share of the time for something likelier than what it suggests
SUGGESTED = 0.5  # share of the time for what the solution suggests
INDEX = 0.1  # of `setters`: what an access itself names
FEW_CASES = 4  # that are graded before the others
MOST_SLOW = 2  # repairs that are told with which it is right and slow


def repairs(
    puzzle: Puzzle,
    source: str,
    verdict: Verdict,
    name: str = "kernel.cu",
    budget: float = BUDGET,
    opener: Callable | None = None,
    tell: Callable[[str], None] | None = None,
    aided: bool = True,
) -> list[Repair]:
    """Single changes that correct the kernel that the verdict calls wrong, best first; empty if there are
    none or the budget of work is used up. opener: as for grade_file. tell: called with progress messages.
    aided: whether the solution, if the course has it, may suggest some."""
    failed = {case.kernel for case in verdict.cases if case.status == FAILED}
    if not verdict.is_repairable or puzzle.program or len(read(source).variables) > MOST_VARIABLES:
        return []
    if not is_one_place(source, failed):
        return []
    if opener is None:
        from ...devices import confined_device as opener
    puzzle = whole(puzzle, verdict.seed, tunables(source))
    written = written_out(source)
    search = Search(
        puzzle,
        written.text if written else source,
        verdict,
        name,
        opener,
        budget,
        tell or (lambda _: None),
        until=time.monotonic() + HANGS,
        aided=aided and puzzle.has_solution and not puzzle.repair,
    )
    try:
        return search.carried_back(search.run(), written, source) if written else search.run()
    except (CompileError, DeviceError, LaunchError, CourseError, RecursionError):
        return []


def look(puzzle: Puzzle, path: Path, verdict: Verdict, **how) -> None:
    """Fills in the `repair` of the verdict on a file, if the file has not changed since it was graded. how:
    arguments of `repairs`."""
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
    end: float  # of the work
    tell: Callable[[str], None]
    known: dict = field(default_factory=dict)  # inputs and right results by case and kernel
    until: float = math.inf  # of time.monotonic
    clock: Work = field(default_factory=Work)
    most: float = math.inf  # what edits may cost
    aided: bool = False
    slow: list[Repair] = field(default_factory=list)  # with these it is right, and not fast enough
    later: list[Repair] = field(default_factory=list)  # with these it may be right, and is not fast enough
    fast: dict[str, bool] = field(default_factory=dict)  # by text

    @property
    def kernel(self) -> Kernel:
        return self.puzzle.kernel(self.verdict.kernel)

    @property
    def left(self) -> float:
        """Work left for trying edits; those found right by then are still graded until the end."""
        return self.end - self.clock() if time.monotonic() < self.until else -1.0

    def run(self) -> list[Repair]:
        """What the solution suggests; but unless that is small and all else is as in the solution, what the search finds
        that is likely comes before, or instead of it."""
        slow = self.verdict.kind == "slow"
        self.tell(f"looking for one change that makes it {'fast enough' if slow else 'right'}")
        suggested = [r for r in self.suggested(slow) if self.is_fast_with(r)] if self.aided else []
        is_small = bool(suggested) and suggested[0].cost <= from_solution.SMALL
        is_small = is_small and len(suggested[0].lines) <= AT_ONCE
        if is_small and not from_solution.is_of_ones_own(self.source, self.solution, self.kernel.name):
            return suggested
        if suggested:
            self.most, self.end = LIKELY, self.clock() + BESIDE * self.left
        found = self.faster() if slow else self.changed()
        likely = found if not suggested or found and found[0].cost <= LIKELY else []
        lines = {line for repair in likely for line in repair.lines}
        other = suggested if is_small and lines.isdisjoint(suggested[0].lines) else []
        best = [*likely, *other][:MOST] or suggested
        return best or self.right_and_slow()

    def carried_back(self, found: Sequence[Repair], written: Written, source: str) -> list[Repair]:
        """Repairs of a text whose macros are written out, as repairs of the file."""
        all_ = [replace(r, edits=own, source=source) for r in found if (own := written.back(r.edits))]
        return [r for r in all_ if self.passes(r.text)]

    def changed(self) -> list[Repair]:
        """For races, first in the build with all checks, then in the optimised one, in which more edits can
        be tried."""
        own = self.source, self.kernel.name
        written = [*collectives.edits(*own, self.verdict.fault or {}), *texts.edits(*own)]
        arrays = texts.of_shared_arrays(*own, self.verdict.fault or {})
        written += ((edit,) for edit in arrays)
        first = chain(islice(alike.edits(*own), MOST_ALIKE), written[:MOST_GRADED])
        several: list[Repair] = []  # that change several lines alike: one line may do, too
        for repair in (Repair(edits, 0.5, self.source) for edits in first):
            if several and len(repair.lines) > 1:
                continue
            if self.passes(repair.text) and self.is_fast_with(repair):
                if len(repair.lines) == 1:
                    return [repair, *several]
                several = [replace(repair, cost=LIKELY)]
        if several:
            self.most, self.end = LIKELY, self.clock() + BESIDE * self.left
        for checks in self.builds:
            if self.left < 0:
                break
            with ExitStack() as stack:
                make = partial(
                    Variants,
                    self.puzzle,
                    self.verdict,
                    name=self.name,
                    given=self.given,
                    left=lambda: self.left,
                    work=self.clock,
                    races=self.disordered if checks == "full" else None,
                    devices=Devices(self.opener, self._checks_of(checks), self.verdict.seed, stack),
                )
                if found := self.found_in(make, self.groups if checks != "full" else [None]):
                    return [*found, *several][:MOST]
        return several

    @cached_property
    def solution(self) -> str:
        return self.puzzle.solution_path.read_text(encoding="utf-8")

    def suggested(self, slow: bool) -> Iterator[Repair]:
        """The fewest differences from the solution whose removal makes it right."""
        end = self.clock() + SUGGESTED * self.left

        def is_right(text: str) -> bool:
            return (
                self.clock() < end
                and self.left > 0
                and (not slow or self.is_fast(text))
                and self.passes(text)
            )

        yield from from_solution.repairs(self.source, self.solution, self.kernel.name, is_right)

    def faster(self) -> list[Repair]:
        """For a right kernel: the first change that makes it meet the gates and keeps it right."""
        for edits in texts.of_speed(self.source, self.kernel.name):
            repair = Repair(edits, 0.5, self.source)
            if self.left < 0:
                break
            if self.is_fast(repair.text) and self.passes(repair.text):
                return [repair]
        return []

    @cached_property
    def was_fast(self) -> bool:
        """Whether the kernel meets the gates as it is."""
        try:
            with self.opener("cpu", checks="count", seed=self.verdict.seed) as device:
                device.quick, setup = True, Setup(device, (2 * self.verdict.seed + 1,))
                grade.prepare(setup, self.puzzle, self.source, self.name)
                own = tunables(self.source), self.verdict.seed
                return all(m.passed for m in gates.measured(self.puzzle, setup, *own, wrong=True))
        except (grade.Stop, gates.NotCounted, DeviceError, LaunchError, CourseError):
            return False

    @property
    def is_gated(self) -> bool:
        """Whether a repair has to leave it fast."""
        return bool(self.puzzle.gates) and self.verdict.kind != "slow"

    def is_fast_with(self, repair: Repair) -> bool:
        """Whether a repair that makes it right leaves nothing to do. The others are kept."""
        if not self.is_gated or self.is_fast(repair.text):
            return True
        self.slow.append(replace(repair, is_fast=False))
        return False

    def may_be_meant(self, repair: Repair) -> bool:
        """Whether it is right in small cases and leaves a kernel fast, which takes less to find out than whether it is right.
        What makes a fast one slow is not meant; what leaves a slow one slow is kept until nothing better is found."""
        if not self.is_gated:
            return True
        if not self.passes(repair.text, FEW_CASES):
            return False
        if self.is_fast(repair.text):
            return True
        if not self.was_fast:
            self.later.append(replace(repair, is_fast=False))
        return False

    def right_and_slow(self) -> list[Repair]:
        """The first of those that were kept."""
        found = list(self.slow)
        for repair in self.later[: MOST_SLOW - len(found)]:
            found += [repair] * self.passes(repair.text)
        return found

    def is_fast(self, text: str) -> bool:
        if text not in self.fast:
            self.fast[text] = self._is_fast(text)
        return self.fast[text]

    def _is_fast(self, text: str) -> bool:
        self.clock.add(COUNTING)
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
        """The builds, in the order in which they show the fault soonest: unset memory and missing threads
        also give wrong results."""
        if not self.disordered:
            return ("memory",)
        late = self.verdict.fault["kind"] in ("race", "barrier-divergence")
        return ("full", "memory") if late else ("memory", "full")

    def _checks_of(self, build: str) -> str:
        """Without barriers, fast compilation pays off."""
        hasty = build == "memory" and not has_barriers(self.source, self.kernel.name)
        return "draft" if hasty else build

    def found_in(self, make: Callable[..., Variants], groups: Sequence[list[int] | None]) -> list[Repair]:
        """Repairs by the first edits that make it right: the likely ones of each group of lines, then all
        others of all groups. If the file sets the block size, small blocks are tried first as they are fast;
        what is right in them is tried with the real size."""
        text, parts = self._in_small_blocks(make), []
        for only in groups:
            if self.left < 0:
                return []
            try:
                variants = make(text, only=only)
            except CompileError:
                continue
            if not variants.is_wrong:
                continue
            whole = cache(partial(make, self.source, only=only)) if text != self.source else None
            parts.append((variants, whole, self.tiers(variants.schemata.sites)))
            most = FIRST if len(groups) > 1 else math.inf
            for cost, tier in parts[-1][2]:
                if cost <= most and (found := self.found_among(tier, variants, whole)):
                    return found
        if len(groups) > 1:
            later = [
                (cost, i, tier) for i, part in enumerate(parts) for cost, tier in part[2] if cost > FIRST
            ]
            for _, i, tier in sorted(later, key=lambda item: item[:2]):
                if found := self.found_among(tier, *parts[i][:2]):
                    return found
        return []

    def _in_small_blocks(self, make: Callable[..., Variants]) -> str:
        """The text with small blocks, if that is possible and it is wrong then too."""
        cases = [c for c in self.puzzle.cases if self.kernel in self.puzzle.kernels_of(c)]
        smallest = min(cases, key=lambda c: sum(self.puzzle.full_dims(c).values()))
        text = with_small_blocks(self.source, self.kernel, self.puzzle.full_dims(smallest))
        return text if text != self.source and make(text, only=()).is_wrong else self.source

    def found_among(
        self, made: Callable[[], Iterable[list[Combination]]], variants: Variants, whole: Callable | None
    ) -> list[Repair]:
        """The repairs in the first batch of edits that has any. whole: gives further variants to test those
        that are right."""
        for tier in made() if self.left > 0 else ():
            first, size = 0, CHUNK
            self.clock.add(CHOICE * len(tier))
            while first < len(tier) and self.left > 0:
                left = variants.right_everywhere(tier[first : first + size])
                if len(left) > FEW_LARGE and whole and not left[0][0].site.orders:
                    left = whole().right_everywhere(left)
                if left and (found := self.graded(left)):
                    return found
                first, size = first + size, 2 * size
        return []

    @property
    def disordered(self) -> set[int]:
        """The lines of a race that the verdict names, and of what they depend on."""
        fault = self.verdict.fault or {}
        if fault.get("kind") not in ("race", "barrier-divergence", "uninitialised-read", "shuffle-mask"):
            return set()
        lines = {fault["line"], (fault["other"] or fault)["line"]}
        if len(lines) == 1 and fault["kind"] == "race":  # several threads have the same index
            lines |= setters(self.source, *lines, INDEX, elements=False).keys()
        return lines | conditions_around(self.source, lines)

    @property
    def strays_in(self) -> int:
        """The line of an out-of-bounds access, which a guard would stop; 0 if there is none."""
        fault = self.verdict.fault or {}
        return fault["line"] if fault.get("kind") in ("out-of-bounds", "invalid-address") else 0

    def may_stop(self, site: Site) -> bool:
        """Whether a guard there may stop the access outside."""
        decides = site.is_condition and site.piece.line in self.deciding
        return decides or site.may_stop(self.strays_in)

    @cached_property
    def deciding(self) -> set[int]:
        return {*deciding(self.source, self.strays_in, 1.0)}

    @cached_property
    def suspected(self) -> dict[int, float]:
        """How much likelier edits of a line are."""
        return suspected(self.source, self.kernel.name, self.verdict)

    @cached_property
    def given_lines(self) -> set[int]:
        """The lines that the stub has as well, and which are hardly ever wrong."""
        if self.puzzle.repair:
            return set()
        stub = {words for line in stub_text(self.puzzle).split("\n") if len(words := _words_of(line)) > 1}
        return {n for n, line in enumerate(self.source.split("\n"), 1) if _words_of(line) in stub}

    @cached_property
    def groups(self) -> list[list[int] | None]:
        """Lines that are changed together, the most suspected first, as compiling takes long. None if there
        are few lines."""
        first = alone(self.source, self.kernel.name, self.suspected)
        found = [first, *stretches(self.source, self.kernel.name, first)]
        return [lines for lines in found if lines] if len(found) > 2 or first else [None]

    def tiers(self, sites: Sequence[Site]) -> list[tuple[float, Callable[[], Iterable[list[Combination]]]]]:
        """What is tried together, by cost; nothing more expensive is tried once something cheaper is found.
        The choices of expensive operations are generated only when needed."""
        if self.has_given_parameters:
            sites = [site for site in sites if PARAMETERS not in site.operations]
        for site in sites:
            if not site.orders:
                line = site.piece.line
                site.suspect = self.suspected.get(line, 0.0) - GIVEN * (line in self.given_lines)
        near = [s for s in sites if self.strays_in and self.may_stop(s)]
        families, guards = cache(lambda: Families(sites)), Guards(near)
        several = cache(lambda: [c for made in TOGETHER for c in made(sites)])
        likely = cache(lambda: [c for site in sites for c in site.likely])
        steps = [*pairwise((-math.inf, *PLAUSIBLE, math.inf))]

        def ordering() -> Iterator[list[Combination]]:
            plain = [(c,) for s in sites if s.orders for c in s.choices() if c.is_plain]
            yield sorted(plain, key=cost_of)
            yield [*moved(sites)]

        @cache
        def alone(step: int, i: int) -> list[Choice]:
            """The choices of a tier, for operations of this cost; the first tier also has those that are
            likely at any cost."""
            low, high = TIERS[i : i + 2]
            early = () if step else (c for c in likely() if low <= c.cost < high)
            found = chain(early, *(site.choices(*steps[step], low, high) for site in sites))
            return sorted(found, key=lambda c: c.cost)

        def together(step: int, i: int) -> list[Combination]:
            low, high = TIERS[i : i + 2]
            found = [] if step else [c for c in several() if low <= cost_of(c) < high]
            for c in chain(
                *(alone(step, j) for j in range(max(i - 2, 0), i + 1))
            ):  # MORE is at most two tiers
                if low <= c.cost + MORE < high:
                    found += [*families().of(c), *both_guards(c)]
            return sorted(found, key=cost_of)

        def of(step: int, i: int, pairs: bool) -> Iterator[list[Combination]]:
            yield together(step, i) if pairs else [(c,) for c in alone(step, i)]
            if i == GUARDS and step == 0 and near and not pairs:
                yield from guards.likely()

        order = sorted(
            (max(low, 0.25) + LATER * step + PAIRS_LATER * pairs, step, i, pairs)
            for step in range(len(steps))
            for i, low in enumerate(TIERS[:-1])
            for pairs in (False, True)
            if low < self.most
        )
        tiers = [(cost, partial(of, step, i, pairs)) for cost, step, i, pairs in order]
        tiers += [(cost, made) for cost, made in in_one_line(sites) if cost < self.most]
        others = [] if self.most < math.inf else [(math.inf, guards.others)]
        return [(-math.inf, ordering), *sorted(tiers, key=lambda tier: tier[0]), *others]

    @cached_property
    def has_given_parameters(self) -> bool:
        """Whether the kernel's parameters are those of the stub, in their order: then they are right."""
        function = read(self.source).function(self.kernel.name)
        return function is not None and [v.name for v in function.parameters] == [
            p.name for p in self.kernel.params
        ]

    def given(self, puzzle: Puzzle, case: Case, kernel: Kernel, seed: int):
        """As runs.given, but every case is generated only once."""
        key = case.name, kernel.name
        if key not in self.known:
            self.known[key] = given(puzzle, case, kernel, seed)
        return self.known[key]

    # -- what remains ---------------------------------------------------------------------------------

    def graded(self, choices: Sequence[Combination]) -> list[Repair]:
        """The cheapest edit of every line, if the edited file passes."""
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
                if self.may_be_meant(repair) and self.passes(repair.text):
                    found.append(repair)
        return found

    def passes(self, text: str, most: int | None = None) -> bool:
        """Whether a file is right in all cases, or in this many small ones, in both builds, with all checks."""
        options = grade.Options("cpu", self.verdict.seed, patience=0.0, given=self.given)
        self.clock.add(GRADING)
        with ExitStack() as stack:
            try:
                setups = grade.open_setups(options, self.opener, stack)
                trials, done = grade.run_all(self.puzzle, setups, text, self.name, options, most)
            except (grade.Stop, DeviceError):
                return False
        self.clock.add(CASE * done)
        return done == len(trials) and not any(trial.outcome.kind for trial in trials)


def _words_of(line: str) -> tuple[str, ...]:
    return tuple(line.partition("//")[0].split())
