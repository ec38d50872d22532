"""What the text of a wrong kernel tells of the cause, where nothing that it computed does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...course.declare import Kernel, Puzzle
from .misuses import misuses
from .slips import slips

MOST = 2  # shown


def causes(
    puzzle: Puzzle, kernel: Kernel, source: str, failed: Sequence[Mapping[str, int]] = ()
) -> list[str]:
    """Sentences: slips of the pen first, then how the kernel uses what it is given. failed: see misuses."""
    found = [*slips(source, kernel.name), *misuses(puzzle, kernel, source, failed)]
    return list(dict.fromkeys(slip.says for slip in found))[:MOST]
