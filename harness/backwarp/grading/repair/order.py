"""In which order edits are tried: which lines, and within them which costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain, pairwise

from ...course.stubs import stub_text
from ...cuda.text import read
from .edits import PARAMETERS
from .judge import Judge
from .pairs import TOGETHER, Families, both_guards
from .sites import MORE, Choice, Site, cost_of
from .suspicion import alone, conditions_around, setters, stretches, suspected
from .variants import Combination

#: costs of edits that are tried together: nothing dearer is tried where a cheaper one is found
TIERS = (-9.0, 0.45, 0.65, 0.85, 1.05, 1.35, 1.65, 1.95, 2.2, 2.45, 2.7, 2.95, 3.2, 3.5, 4.0, 9.0)
PLAUSIBLE = (1.75, 2.25, 2.65)  # cheaper operations are all tried before the others
GIVEN = 0.3  # how much later edits of lines that the stub has
LATER = 0.35  # how much later others come
PAIRS_LATER = 0.25  # and those of several edits
INDEX = 0.1  # of `setters`: what an access itself names


@dataclass
class Order(Judge):
    """Of one file."""

    def tiers(self, sites: Sequence[Site]) -> list[tuple[float, Callable[[], Iterable[list[Combination]]]]]:
        """What is tried together, by cost; nothing more expensive is tried once something cheaper is found.
        The choices of expensive operations are generated only when needed."""
        if self.has_given_parameters:
            sites = [site for site in sites if PARAMETERS not in site.operations]
        for site in sites:
            if not site.orders:
                line = site.piece.line
                site.suspect = self.suspected.get(line, 0.0) - GIVEN * (line in self.given_lines)
        families = cache(lambda: Families(sites))
        several = cache(lambda: [c for made in TOGETHER for c in made(sites)])
        likely = cache(lambda: [c for site in sites for c in site.likely])
        steps = [*pairwise((-math.inf, *PLAUSIBLE, math.inf))]

        def ordering() -> Iterator[list[Combination]]:
            plain = [(c,) for s in sites if s.orders for c in s.choices() if c.is_plain]
            yield sorted(plain, key=cost_of)

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

        order = sorted(
            (max(low, 0.25) + LATER * step + PAIRS_LATER * pairs, step, i, pairs)
            for step in range(len(steps))
            for i, low in enumerate(TIERS[:-1])
            for pairs in (False, True)
            if low < self.most
        )
        tiers = [(cost, partial(of, step, i, pairs)) for cost, step, i, pairs in order]
        return [(-math.inf, ordering), *sorted(tiers, key=lambda tier: tier[0])]

    @cached_property
    def has_given_parameters(self) -> bool:
        """Whether the kernel's parameters are those of the stub, in their order: then they are right."""
        function = read(self.source).function(self.kernel.name)
        return function is not None and [v.name for v in function.parameters] == [
            p.name for p in self.kernel.params
        ]

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
        return suspected(self.source, self.kernel.name, self.verdict)

    @cached_property
    def groups(self) -> list[list[int] | None]:
        """Lines that are changed together, the most suspected first, as compiling takes long. None if there
        are few lines."""
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
