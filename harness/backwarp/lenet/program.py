"""The Python part of training: forward and backward from puzzle 37, learning rate and update from puzzle 38.

As with the kernels, it is the student's file if that version passed, else the solution; in a course without solutions,
plain steps in place of puzzle 38. A student's file runs in its own process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from ..course.checkout import Course
from ..course.declare import Puzzle
from ..course.progress import Entry
from ..errors import KernelFault, NoSolution
from ..grading.programs.program import Program, ProgramError
from .choices import YOURS, chosen_source, nothing_instead
from .requests import REQUESTS

STEP, TRAINING = "37", "38"
PLAIN = "plain steps in place of"  # takes the place of YOURS and SOLUTION
RATE = 0.05  # of plain steps
SECONDS = 120.0  # for one call of a student's function, including its launches


@dataclass(frozen=True)
class Part:
    """One of the two files. whose, note: as in choices.Choice."""

    number: str
    whose: str
    note: str
    functions: Mapping[str, Callable]


class LeNetProgram:
    """Both files, and all their functions by name. Closing it ends their processes."""

    def __init__(self, parts: tuple[Part, ...], processes: ExitStack):
        self.parts, self._processes = parts, processes

    @property
    def functions(self) -> dict[str, Callable]:
        return {name: f for part in self.parts for name, f in part.functions.items()}

    def __enter__(self) -> LeNetProgram:
        return self

    def __exit__(self, *_) -> None:
        self._processes.close()


def choose_program(
    course: Course,
    entries: Mapping[str, Entry],
    mine: bool = True,
    numbers: tuple[str, ...] = (STEP, TRAINING),
) -> LeNetProgram:
    """Errors: CourseError, ProgramError."""
    parts = []
    with ExitStack() as processes:
        for number in numbers:
            puzzle = course.load(number)
            try:
                source, whose, note = chosen_source(puzzle, entries.get(puzzle.id), mine)
            except NoSolution as e:
                if number != TRAINING:
                    raise nothing_instead([str(e)]) from None
                parts.append(Part(number, PLAIN, str(e), {"learning_rate": constant, "update": plain}))
                continue
            if whose == YOURS:
                functions = apart(puzzle, source, processes.enter_context(Program(REQUESTS)))
            else:
                functions = here(puzzle, source)
            parts.append(Part(number, whose, note, functions))
        return LeNetProgram(tuple(parts), processes.pop_all())


def constant(step: int, steps: int) -> float:
    """The learning rate, before puzzle 38 is solved."""
    return RATE


def plain(net, rate: float) -> None:
    """A step against the gradient, without momentum or weight decay."""
    for name in net.parameters:
        gradient = net[f"grad_{name}"]
        net.launch(
            "sgd_step",
            net[name],
            net[f"velocity_{name}"],
            gradient,
            learning_rate=rate,
            momentum=0.0,
            weight_decay=0.0,
        )


def here(puzzle: Puzzle, source: str) -> dict[str, Callable]:
    """The functions of a solution, in this process."""
    namespace: dict = {"__name__": puzzle.file.removesuffix(".py")}
    exec(compile(source, puzzle.file, "exec"), namespace)
    return {name: namespace[name] for name in puzzle.program.names}


def apart(puzzle: Puzzle, source: str, program: Program) -> dict[str, Callable]:
    """The functions of a student's file. Kernel faults are raised unchanged, since the file itself has
    passed."""

    def timed(function: Callable) -> Callable:
        def run(*arguments):
            program.allow(SECONDS)
            try:
                return function(*arguments)
            except ProgramError as error:
                raise error.__cause__ if isinstance(error.__cause__, KernelFault) else error from None

        return run

    functions = program.load(source, puzzle.file, puzzle.program.functions, SECONDS)
    return {name: timed(function) for name, function in functions.items()}
