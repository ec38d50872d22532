"""A kernel in a notebook's cell: the text of its file, but for the line that says how to check it."""

from __future__ import annotations

import re

from .declare import Puzzle
from .stubs import stub_text

_CHECK = re.compile(r"^((?://|#) )?Check: .*$", re.MULTILINE)


def in_cell(puzzle: Puzzle, text: str) -> str:
    """The text of a file, with the notebook's commands."""
    says = f"Check: run this cell    Stuck: %hint {puzzle.number}    Start again: %kernel_from {puzzle.number} --stub"
    return _CHECK.sub(lambda found: f"{found[1] or ''}{says}", text, count=1)


def in_file(puzzle: Puzzle, cell: str) -> str:
    """The text of a cell, with the terminal's commands."""
    line = _CHECK.search(stub_text(puzzle))
    return _CHECK.sub(lambda _: line[0], cell, count=1) if line else cell


def is_stub(puzzle: Puzzle, text: str) -> bool:
    """Is a text, of a cell or a file, still the untouched stub? The stub of a bug hunt has code from the start."""
    return not puzzle.repair and in_file(puzzle, text).split() == stub_text(puzzle).split()
