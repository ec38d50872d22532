"""Finding the edits that make a kernel right: likely ones first, all on the smallest failing case
(variants.py), the survivors on the other cases; what remains is applied to the text and graded like any
file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path

from ...course.checkout import read_source, source_hash
from ...course.declare import Puzzle
from ...cuda.text import read
from ...cuda.values import tunables
from ...errors import CompileError, CourseError, DeviceError, LaunchError
from ..derived import REACHES, narrow_cases, whole
from ..verdict import FAILED, Verdict
from . import from_solution
from .judge import MOST, MOST_SLOW
from .order import Order
from .repair import Repair
from .suspicion import is_one_place, stated_lines
from .variants import FEW_LARGE, Combination, Variants, has_barriers, with_small_blocks

BUDGET = 10.0  # see Work
HANGS = 600.0  # seconds by the clock after which something hangs
CHUNK = 512  # edits tried before those that are right in small cases are graded; doubled each time
CHOICE = 2e-6  # work for an edit
#: of a file: the edits grow with their square, and building them alone would take all the time
MOST_VARIABLES = 500
FIRST = 1.1  # what edits may cost in lines that are tried first
LIKELY = 1.4  # the highest cost of edits that are preferred to a large suggestion
AT_ONCE = 2  # lines of what the solution suggests that are told without looking further
BESIDE = 0.5  # share of the time for something likelier than what it suggests
SUGGESTED = 0.5  # share of the time for what the solution suggests


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
    t = tunables(source)
    puzzle = as_graded(puzzle, verdict, t)
    how = dict(until=time.monotonic() + HANGS, aided=aided and puzzle.has_solution and not puzzle.repair)
    search = Search(puzzle, source, verdict, name, opener, budget, tell or (lambda _: None), **how)
    try:
        return search.run()
    except (CompileError, DeviceError, LaunchError, CourseError, RecursionError):
        return []


def as_graded(puzzle: Puzzle, verdict: Verdict, t: Mapping[str, int]) -> Puzzle:
    """The puzzle with its derived cases, among them the one of the verdict. t: the file's constants."""
    for longest in (False, True):
        full = whole(puzzle, verdict.seed, t, longest)
        if any((case.name, case.dims) == (verdict.case, verdict.dims) for case in full.cases):
            return full
    narrow = narrow_cases(puzzle, t, lambda kernel: dict.fromkeys(REACHES, []))
    return replace(full, cases=(*full.cases, *(case for case in narrow if case.name == verdict.case)))


def look(puzzle: Puzzle, path: Path, verdict: Verdict, **how) -> None:
    """Fills in the `repair` of the verdict on a file, if that has not changed since. how: arguments of `repairs`."""
    try:
        source = read_source(path)
    except CourseError:
        return
    if source_hash(source) == verdict.source_hash:
        verdict.repair = [r.as_dict() for r in repairs(puzzle, source, verdict, path.name, **how)]


class Search(Order):
    """Of one file."""

    def run(self) -> list[Repair]:
        """What the solution suggests; but unless that is small and all else is as in the solution, what the search finds
        that is likely comes before, or instead of it. With a repair that makes it slow, the cause is passed over rather
        than mended: it is not told where a cause is known in other lines."""
        slow = self.verdict.kind == "slow"
        self.tell(f"looking for one change that makes it {'fast enough' if slow else 'right'}")
        suggested = [r for r in self.suggested(slow) if self.is_fast_with(r)] if self.aided else []
        is_small = bool(suggested) and suggested[0].cost <= from_solution.SMALL
        is_small = is_small and len(suggested[0].lines) <= AT_ONCE
        if is_small and not from_solution.is_of_ones_own(self.source, self.solution, self.kernel.name):
            return suggested
        if suggested:
            self.most, self.end = LIKELY, self.clock() + BESIDE * self.left
        found = [] if slow else self.changed()
        likely = found if not suggested or found and found[0].cost <= LIKELY else []
        lines = {line for repair in likely for line in repair.lines}
        other = suggested if is_small and lines.isdisjoint(suggested[0].lines) else []
        best = [*likely, *other][:MOST] or suggested
        stated = set() if self.verdict.fault else stated_lines(self.verdict)
        return best or [r for r in self.slow if not stated or stated & {*r.lines}][:MOST_SLOW]

    def changed(self) -> list[Repair]:
        """For races, first in the build with all checks, then in the optimised one, in which more edits can be tried."""
        for checks in self.builds:
            if self.left < 0:
                break
            hasty = checks == "memory" and not has_barriers(self.source, self.kernel.name)  # compiled fast
            with self.opener("cpu", checks="draft" if hasty else checks, seed=self.verdict.seed) as device:
                how = dict(name=self.name, given=self.given, left=lambda: self.left, work=self.clock)
                races = self.disordered if checks == "full" else None
                make = partial(Variants, self.puzzle, self.verdict, device=device, races=races, **how)
                if found := self.found_in(make, self.groups if checks != "full" else [None]):
                    return found
        return []

    @cached_property
    def solution(self) -> str:
        return self.puzzle.solution_path.read_text(encoding="utf-8")

    def suggested(self, slow: bool) -> Iterator[Repair]:
        """The fewest differences from the solution whose removal makes it right."""
        end = self.clock() + SUGGESTED * self.left

        def is_right(text: str) -> bool:
            there_is_time = self.clock() < end and self.left > 0
            return there_is_time and (not slow or self.is_fast(text)) and self.passes(text)

        yield from from_solution.repairs(self.source, self.solution, self.kernel.name, is_right)

    @property
    def builds(self) -> tuple[str, ...]:
        """In the order in which they show the fault soonest: unset memory and missing threads also give wrong results."""
        if not self.disordered:
            return ("memory",)
        late = self.verdict.fault["kind"] in ("race", "barrier-divergence")
        return ("full", "memory") if late else ("memory", "full")

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
            later = [(cost, i, tier) for i, part in enumerate(parts) for cost, tier in part[2]]
            for cost, i, tier in sorted(later, key=lambda item: item[:2]):
                if cost > FIRST and (found := self.found_among(tier, *parts[i][:2])):
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
        """The repairs in the first batch of edits that has any. whole: gives further variants to test those that are right."""
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
