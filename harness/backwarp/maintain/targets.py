"""Writes the table of all targets into the lessons of the puzzles that count costs.

python -m backwarp.maintain.targets

It ends the section "What it costs". Targets that depend on the file's constants are those of the solution's.
"""

from __future__ import annotations

import re
import textwrap
from copy import copy
from math import floor

import click

from ..course.checkout import Course, open_course
from ..course.declare import Puzzle
from ..cuda.values import tunables
from ..grading.compare import either
from ..grading.gates import chosen_case, gates_of, names, number
from ..grading.quantities import quantity

#: a command in a lesson, and what it prints: see transcripts.py
TRANSCRIPT = re.compile(
    r"^( *)```\n *\$ (backwarp (?:step|trace|exec) [^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL
)
HEADING, NEXT = "### All targets", "\n## What to look at next"


def section(puzzle: Puzzle) -> str:
    """The heading, what is counted, and a row for each quantity: a column for each kernel, or each of its cases."""
    constants = tunables(puzzle.solution_path.read_text(encoding="utf-8"))
    rows: dict[str, dict[tuple[str, str], str]] = {}
    places: dict[str, dict[str, None]] = {}  # kernels by case
    needed = set()
    for gate in gates_of(puzzle):
        for kernel in names(gate, puzzle):
            case = chosen_case(puzzle, puzzle.kernel(kernel), gate.case)
            dims = puzzle.full_dims(case)
            most = gate.limit(dims, constants)
            places.setdefault(case.name, {})[kernel] = None
            for name in set(constants) - set(dims):
                other = copy(constants)
                other[name] *= 2
                needed |= {name} if gate.limit(dims, other) != most else set()
            noun = quantity(gate.quantity).noun
            share = noun.startswith("per cent")  # no whole number: three digits, as the grader says it
            text = number(most, 3) if share else number(floor(most) if most >= 10 else most, 6)
            rows.setdefault(noun, {})[kernel, case.name] = text
    columns = [(kernel, case) for case, kernels in places.items() for kernel in kernels]
    several = len({kernel for kernel, _ in columns}) < len(columns)
    alike: dict[str, list[str]] = {}
    for case, kernels in places.items():
        alike.setdefault(either([f"`{kernel}`" for kernel in kernels], "and"), []).append(f"`{case}`")
    where = either([f"{kernels} in {either(cases, 'and')}" for kernels, cases in alike.items()], "and")
    sizes = either([f"{name} = {constants[name]}" for name in sorted(needed)] or [""], "and")
    says = f"At most, for {where}{f', with {sizes}' if sizes else ''}:"
    lines = [HEADING, "", *textwrap.wrap(says, 115, break_on_hyphens=False), ""]
    lines += [
        f"| | {' | '.join(f'`{at[several]}`' for at in columns)} |",
        "| --- " * (len(columns) + 1) + "|",
    ]
    for noun, each in sorted(rows.items(), key=lambda row: set(row[1].values()) == {"0"}):
        cells = "".join(f" {each[at]} |" if at in each else " |" for at in columns)
        lines.append(f"| {noun} |{cells}")
    return "\n".join(lines) + "\n"


def with_targets(lesson: str, puzzle: Puzzle) -> str:
    return without_targets(lesson).replace(NEXT, f"\n{section(puzzle)}{NEXT}")


def without_targets(lesson: str) -> str:
    before, what, after = lesson.partition(NEXT)
    return f"{before.partition(HEADING)[0].rstrip()}\n{what}{after}" if HEADING in before else lesson


def counted(course: Course) -> list[Puzzle]:
    return [puzzle for puzzle in course.puzzles() if puzzle.gates]


@click.command()
def main() -> None:
    """Write the tables."""
    course = open_course()
    for puzzle in counted(course):
        path = puzzle.lesson_path
        path.write_text(with_targets(path.read_text(encoding="utf-8"), puzzle), encoding="utf-8")
        click.echo(path.relative_to(course.root))


if __name__ == "__main__":
    main()
