"""What the text of a wrong kernel says about the cause, if nothing that it computed does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...course.declare import Kernel, Puzzle
from ...cuda.text import read
from ..findings import Finding, distinct
from ..repair.from_solution import is_of_ones_own
from .misuses import misuses
from .only_change import only_change
from .statements import slips

MOST = 2  # shown


def causes(
    puzzle: Puzzle, kernel: Kernel, source: str, failed: Sequence[Mapping[str, int]] = (), named: bool = False
) -> list[Finding]:
    """Slips first, then misuses. failed: see misuses; named: what it computes is all. No question about a fact's line."""
    known = [*slips(source, kernel.name), *misuses(puzzle, kernel, source, failed)]
    if not known and not named and puzzle.has_solution and not puzzle.repair:
        solution = puzzle.solution_path.read_text(encoding="utf-8")
        if not is_of_ones_own(source, solution, kernel.name):
            known = list(only_change(read(source), read(solution), kernel.name))
    stated = {line for f in known if not f.asks for line in f.lines[:1]}
    return distinct(f for f in known if not (f.asks and stated.issuperset(f.lines[:1])))[:MOST]
