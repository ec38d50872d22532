"""What the text of a wrong kernel tells of the cause, where nothing that it computed does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...course.declare import Kernel, Puzzle
from .misuses import misuses
from .slips import slips

MOST = 2  # shown


def causes(
    puzzle: Puzzle,
    kernel: Kernel,
    source: str,
    failed: Sequence[Mapping[str, int]] = (),
    explained: bool = False,
) -> list[str]:
    """Sentences: slips of the pen first, then how the kernel uses what it is given. failed: see misuses; explained: whether
    something that it computes tells of the cause. Nothing is asked about a line of which a fact is told."""
    found = [*slips(source, kernel.name), *misuses(puzzle, kernel, source, failed)]
    found = [slip for slip in found if not (explained and slip.guess)]
    told = {slip.line for slip in found if not slip.asks}
    found = [slip for slip in found if not (slip.asks and slip.line in told)]
    return list(dict.fromkeys(slip.says for slip in found))[:MOST]
