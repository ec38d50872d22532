"""`backwarp testing ID`: the cases that you write must catch wrong kernels that you cannot see.

The wrong kernels are the course's: the mistakes that a puzzle declares, and mutants of its solution. Each is run in your cases
with all checks. One that gets away from you is shown only if one of the course's own cases catches it.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .course.declare import Case, Kernel, Puzzle
from .course.mistakes import Mistake, without_kernels
from .errors import CourseError
from .grading.grade import Options
from .maintain.check_mistakes import graded, impatient, solution_text, usual_cases
from .maintain.check_mutants import BRIEF, sieved, wrong_ones

FILE = "cases.toml"  # beside the kernel
WRONG = 24  # wrong kernels, at most
MOST_CASES, MOST_ELEMENTS = 8, 1 << 18
NOT_HERE = {"slow", "compile"}  # what a case cannot find
TEMPLATE = """\
# Cases of your own for puzzle {number}. Each catches a wrong kernel if that is wrong with these sizes.
# Few and small cases that differ well catch more than many large ones. Then: backwarp testing {number}

[[case]]
{dims}
"""


@dataclass
class Tested:
    """cases: how many were written. caught: of how many wrong kernels; away: those that were not, with their line."""

    cases: int
    of: int
    caught: int
    away: list[tuple[Mistake, Kernel]] = field(default_factory=list)


def cases_of(puzzle: Puzzle, path: Path) -> tuple[Case, ...]:
    """The student's cases. Errors: CourseError."""
    shown = f"puzzles/{puzzle.id}/{FILE}"
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"{shown}: {error}") from None
    rows = found.get("case")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise CourseError(f"{shown} has no case: write [[case]], and below it the sizes")
    if len(rows) > MOST_CASES:
        raise CourseError(f"{shown} has {len(rows)} cases: {MOST_CASES} are enough to catch everything")
    return tuple(case_of(puzzle, f"{shown}, case {number}", row) for number, row in enumerate(rows, 1))


def case_of(puzzle: Puzzle, where: str, row: dict) -> Case:
    usual = usual_cases(puzzle)
    like = next((c for c in usual if c.dims.keys() == row.keys()), usual[0])
    sizes, names = like.dims, list(like.dims)
    if row.keys() != set(names):
        wrong = sorted(row.keys() ^ set(names))
        what = "is no size of this puzzle" if wrong[0] in row else "is missing"
        raise CourseError(f"{where}: {wrong[0]} {what}; the sizes are {', '.join(names)}")
    for name, value in row.items():
        whole = type(sizes[name]) is int
        if (whole and type(value) is not int) or type(value) not in (int, float) or value < 0:
            raise CourseError(f"{where}: {name} = {value!r} is no {'whole ' * whole}number of 0 or more")
    try:
        case = Case(
            where.rpartition(", ")[2].replace(" ", "_"),
            {name: row[name] for name in names},
            kernels=like.kernels,
        )
        own = replace(puzzle, cases=(case,), gates=(), mistakes=())
        dims = own.full_dims(case)
        most = max(math.prod(a.shape(dims)) for k in own.kernels_of(case) for a in k.arrays)
        least = min(size for k in own.kernels_of(case) for a in k.arrays for size in a.shape(dims))
    except (CourseError, ArithmeticError, ValueError) as error:
        raise CourseError(f"{where}: these sizes do not go together: {error}") from None
    if most > MOST_ELEMENTS or least < 0:
        what = (
            "an array would have a negative size" if least < 0 else f"an array would have {most:,} elements"
        )
        raise CourseError(f"{where}: {what}")
    return case


def write_template(puzzle: Puzzle, path: Path) -> None:
    dims = "\n".join(f"{name} = {value}" for name, value in usual_cases(puzzle)[0].dims.items())
    path.write_text(TEMPLATE.format(number=puzzle.number, dims=dims), encoding="utf-8")


def tested(puzzle: Puzzle, cases: Sequence[Case]) -> Tested:
    """How many wrong kernels these cases catch. puzzle: with its solution. Errors: CourseError, if the right one fails."""
    own = replace(puzzle, cases=tuple(cases), gates=(), mistakes=())
    right = graded(own, solution_text(puzzle), Options("cpu", 0), impatient)
    if not right.passed:
        raise CourseError(f"the right kernel fails in {right.case or 'your cases'}: {' '.join(right.lines)}")
    found = Tested(len(cases), 0, 0)
    for kernel, wrong in chosen(puzzle).items():
        away = passed(own, kernel, wrong)
        known = passed(replace(puzzle, gates=()), kernel, away)  # beyond what any ordinary case shows
        found.of += len(wrong) - len(known)
        found.caught += len(wrong) - len(away)
        found.away += [(m, kernel) for m in away if m not in known]
    return found


def passed(puzzle: Puzzle, kernel: Kernel, wrong: Sequence[Mistake]) -> list[Mistake]:
    """Those that no case of the puzzle catches."""
    if not wrong or not any(kernel in puzzle.kernels_of(c) for c in puzzle.cases):
        return list(wrong)
    others = [k.name for k in puzzle.kernels if k is not kernel]
    right = without_kernels(solution_text(puzzle), others)
    away = sieved(puzzle, kernel, wrong, "full")
    return [m for m in away if not graded_alone(puzzle, kernel, m.apply(right))]


def graded_alone(puzzle: Puzzle, kernel: Kernel, text: str) -> bool:
    """Whether it fails when it is compiled alone, as one that does not compile with the others has to be."""
    cases = tuple(replace(c, kernels=()) for c in usual_cases(puzzle) if kernel in puzzle.kernels_of(c))
    alone = replace(puzzle, kernels=(kernel,), cases=cases, mistakes=(), gates=())
    return not graded(alone, text, replace(BRIEF, optimised=False), impatient).passed


def chosen(puzzle: Puzzle) -> dict[Kernel, list[Mistake]]:
    """The wrong kernels, the same each time: as many of each kernel as there are, drawn evenly."""
    every = [m for m in wrong_ones(puzzle) if not NOT_HERE & set(m.expected)]
    random.Random(puzzle.id).shuffle(every)
    alone = len(puzzle.kernels) == 1
    return {k: [m for m in every[:WRONG] if alone or m.kernel == k.name] for k in puzzle.kernels}


def changed_lines(puzzle: Puzzle, wrong: Mistake) -> list[tuple[int, str, str]]:
    """(line, right, wrong) of what it has changed, the first three."""
    right, other = solution_text(puzzle).split("\n"), wrong.apply(solution_text(puzzle)).split("\n")
    pairs = zip(range(1, len(right) + 1), right, other)  # noqa: B905 (one may be longer)
    return [(n, a.strip(), b.strip()) for n, a, b in pairs if a != b][:3]
