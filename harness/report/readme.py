"""Draws the README's picture: `python -m harness.report.readme`.

A wrong kernel for puzzle 09 is graded for real, and what the terminal shows is saved as `.github/verdict.svg`.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..checkout import open_course
from ..grade import Options, grade_file
from .text import verdict_lines

MUTANTS = ("one row too far", "loop over the batch stops after image 0")


def main() -> None:
    course = open_course()
    puzzle = course.load("09")
    console = Console(record=True, width=104, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for name in MUTANTS:
        mutant = next(m for m in puzzle.mutants if m.name == name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.cu")
            path.write_text(mutant.apply(puzzle.solution_path.read_text()))
            verdict = grade_file(puzzle, path, Options(device="cpu"))
        console.print(Text.assemble(("$ ", "bold green"), ("backwarp grade 09", "bold")))
        for line in verdict_lines(verdict, 104):
            console.print(Text.assemble(*line))
        console.print()
    target = course.root / ".github" / "verdict.svg"
    console.save_svg(str(target), title="backwarp")
    print(target)


if __name__ == "__main__":
    main()
