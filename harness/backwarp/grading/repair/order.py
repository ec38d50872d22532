"""In which order edits are tried: which lines, and within them which costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise

from ...course.stubs import stub_text
from .judge import Judge
from .pairs import TOGETHER, Families
from .sites import MORE, Choice, Site, cost_of
from .suspicion import alone, conditions_around, setters, stretches, suspected
from .variants import Combination

BANDS = 16  # of costs, each as wide as MORE; in the last is all that costs more
GIVEN = 0.3  # how much later edits of lines that the stub has
INDEX = 0.1  # of `setters`: what an access itself names


@dataclass
class Order(Judge):
    """Of one file."""

    def tiers(self, sites: Sequence[Site]) -> list[tuple[float, Callable[[], Iterable[list[Combination]]]]]:
        """What is tried together, by cost: of barriers, then of single edits, then of several. Each is generated only when nothing
        cheaper is found."""
        for site in sites:
            if not site.orders:
                line = site.piece.line
                site.suspect = self.suspected.get(line, 0.0) - GIVEN * (line in self.given_lines)
        families = cache(lambda: Families(sites))
        several = cache(lambda: [c for made in TOGETHER for c in made(sites)])

        def ordering() -> list[Combination]:
            return [(c,) for s in sites if s.orders for c in s.choices() if c.is_plain]

        @cache
        def alone(low: float, high: float) -> list[Choice]:
            return [c for site in sites for c in site.choices(low, high)]

        def together(low: float, high: float) -> list[Combination]:
            found = [c for c in several() if low <= cost_of(c) < high]
            return found + [c for one in alone(low - MORE, high - MORE) for c in families().of(one)]

        def single(low: float, high: float) -> list[Combination]:
            return [(c,) for c in alone(low, high)]

        def of(made: Callable[..., list[Combination]], *costs: float) -> Iterator[list[Combination]]:
            yield sorted(made(*costs), key=cost_of)

        bands = pairwise((-math.inf, *(MORE * n for n in range(1, BANDS)), math.inf))
        bands = [(low, high) for low, high in bands if low < self.most]
        ways = ((made, low, high) for low, high in bands for made in (single, together))
        tiers = [(max(low, 0.0), partial(of, made, low, high)) for made, low, high in ways]
        return [(-math.inf, partial(of, ordering)), *tiers]

    @cached_property
    def given_lines(self) -> set[int]:
        """The lines that the stub has as well, and which are hardly ever wrong."""
        if self.puzzle.repair:
            return set()
        stub = {words for line in stub_text(self.puzzle).split("\n") if len(words := _words_of(line)) > 1}
        return {n for n, line in enumerate(self.source.split("\n"), 1) if _words_of(line) in stub}

    @cached_property
    def suspected(self) -> dict[int, float]:
        """How much likelier edits of a line are."""
        return suspected(self.source, self.verdict)

    @cached_property
    def groups(self) -> list[list[int] | None]:
        """Lines that are changed together, the most suspected first, as compiling takes long; None if there are few lines."""
        first = alone(self.source, self.kernel.name, self.suspected)
        found = [first, *stretches(self.source, self.kernel.name, first)]
        return [lines for lines in found if lines] if len(found) > 2 or first else [None]

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


def _words_of(line: str) -> tuple[str, ...]:
    return tuple(line.partition("//")[0].split())
