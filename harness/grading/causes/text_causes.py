"""What the text of a wrong kernel says about the cause, if nothing that it computed does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...course.declare import Kernel, Puzzle
from ...cuda.text import read
from .misuses import misuses
from .only_change import only_change
from .slips import slips

MOST = 2  # shown


def causes(
    puzzle: Puzzle,
    kernel: Kernel,
    source: str,
    failed: Sequence[Mapping[str, int]] = (),
    explained: bool = False,
    named: bool = False,
) -> list[str]:
    """Sentences: slips first, then misuses. failed: see misuses; explained: whether what it computes already
    shows the cause; named: whether that is the whole explanation. No question is asked about a line that a
    fact is stated about."""
    found = [*slips(source, kernel.name), *misuses(puzzle, kernel, source, failed)]
    if not found and not named and puzzle.has_solution and not puzzle.repair:
        solution = puzzle.solution_path.read_text(encoding="utf-8")
        found = list(only_change(read(source), read(solution), kernel.name))
    found = [slip for slip in found if not (explained and slip.guess)]
    told = {slip.line for slip in found if not slip.asks}
    found = [slip for slip in found if not (slip.asks and slip.line in told)]
    return list(dict.fromkeys(slip.says for slip in found))[:MOST]
