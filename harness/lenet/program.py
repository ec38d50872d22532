"""The Python of a training: forward and backward from puzzle 37, learning rate and update from puzzle 38.

As with the kernels, it is the student's file where it is the one that passed, else the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ..course.checkout import Course
from ..course.progress import Entry
from ..errors import BackwarpError
from ..grading.programs import guarded, load_program
from .kernels import chosen_source

STEP, TRAINING = "37", "38"


@dataclass(frozen=True)
class Part:
    """One of the two files. whose, note: as in kernels.Choice."""

    number: str
    whose: str
    note: str
    functions: Mapping[str, Callable]

    @property
    def origin(self) -> str:
        return f"{self.number} {self.whose}"


@dataclass(frozen=True)
class LeNetProgram:
    """Both files, and all their functions by name."""

    parts: tuple[Part, ...]

    @property
    def functions(self) -> dict[str, Callable]:
        return {name: f for part in self.parts for name, f in part.functions.items()}


def choose_program(course: Course, entries: Mapping[str, Entry], mine: bool = True) -> LeNetProgram:
    """Errors: CourseError, ProgramError."""
    parts = []
    for number in (STEP, TRAINING):
        puzzle = course.load(number)
        source, whose, note = chosen_source(puzzle, entries.get(puzzle.id), mine)
        functions = load_program(source, puzzle.file, puzzle.program.functions)
        explained = {name: explaining(f, source, puzzle.file) for name, f in functions.items()}
        parts.append(Part(number, whose, note, explained))
    return LeNetProgram(tuple(parts))


def explaining(function: Callable, source: str, file: str) -> Callable:
    """Wraps a function so that its errors name the line; errors of a kernel or of the training stay as they
    are."""

    def run(*arguments):
        try:
            return function(*arguments)
        except (BackwarpError, KeyboardInterrupt):
            raise
        except Exception as error:
            return guarded(source, file, partial(reraise, error))

    return run


def reraise(error: Exception):
    raise error
