"""Compares a reader's guess with a run of the course's kernel."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod

import numpy as np

from ..course.declare import Puzzle
from ..course.walkthrough import Prediction
from ..errors import CourseError
from .pictures.counted import CountedRun, counted_run, solved

WARP = 32
CLOSE = 0.02  # relative error allowed, since a guess may be rounded


class Facts(Mapping):
    """The names that an answer may use: every counter of metrics.METRICS; `threads`, `blocks` and `block_size` of the
    launch; `out`, the arrays by name after the run; and the functions below."""

    def __init__(self, run: CountedRun):
        self.run = run
        size, blocks = (prod(n) if isinstance(n, tuple) else n for n in (run.launch.block, run.launch.grid))
        self.own = {
            "threads": size * blocks,
            "blocks": blocks,
            "block_size": size,
            "out": run.values,
            "elements": self.elements,
            "reads": self.reads,
            "sectors": self.sectors,
        }

    def elements(self, array: str, thread: int = 0, block: int = 0, kind: str = "load") -> int:
        """How many different elements of an array a thread reads, or stores to."""
        found = self.run.touching(array, block=block, warp=thread // WARP, kind=kind)
        touched = {int(at[thread % WARP]) for _, at in found}
        return len(touched - {-1})

    def reads(self, array: str) -> int:
        """How many reads of an array's elements all threads make together."""
        return sum(int((at >= 0).sum()) for _, at in self.run.touching(array, kind="load"))

    def sectors(self, array: str, warp: int = 0, block: int = 0, kind: str = "load") -> int:
        """How many sectors a warp's first such request touches."""
        request, _ = self.run.touching(array, block=block, warp=warp, kind=kind)[0]
        return len(np.unique(request.addresses[request.addresses >= 0] // 32))

    def __getitem__(self, name: str):
        return self.own[name] if name in self.own else self.run.counters[name]

    def __iter__(self):
        return iter({**self.run.counters, **self.own})

    def __len__(self) -> int:
        return len({**self.run.counters, **self.own})


def answer(puzzle: Puzzle | None, asked: Prediction) -> float:
    """The number to be guessed; in a student's course, and where no puzzle is asked about, the number itself is stored.
    Errors: CourseError."""
    with suppress(ValueError):
        return float(asked.answer)
    if puzzle is None:
        raise CourseError(f"the answer to a question about no puzzle is a number, and not {asked.answer!r}")
    if puzzle.program:
        return float(eval(asked.answer, of_training()))
    kernel = puzzle.kernel(asked.kernel) if asked.kernel else puzzle.kernels[0]
    case = asked.case or next(c.name for c in puzzle.cases if kernel in puzzle.kernels_of(c))
    run = counted_run(puzzle, case, kernel, solved(puzzle))
    try:
        return float(eval(asked.answer, dict(Facts(run))))
    except (LookupError, NameError, TypeError, ValueError) as error:
        raise CourseError(f"{puzzle.id}: {asked.answer!r} cannot be counted in {case}: {error}") from None


def of_training() -> dict[str, object]:
    """For puzzles about all of LeNet: the number of its parameters, and the images it learns from."""
    from backwarp.reference.lenet import PARAMETERS

    from ..lenet.data import digits

    return {"parameters": sum(map(prod, PARAMETERS.values())), "images": digits().train_images}


def judge(puzzle: Puzzle | None, asked: Prediction, guess: object) -> tuple[bool, list[str]]:
    """(is it right?, the message). Errors: CourseError if the guess is not a number."""
    try:
        number = float(guess)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise CourseError(f"my_guess must be a number; it is {guess!r}") from None
    found = answer(puzzle, asked)
    right = number == found if found == int(found) else abs(number - found) <= CLOSE * abs(found)
    where = f", found in a run of the course's kernel in {asked.case}" if asked.case else ""
    says = f"Yes, {found:,g}" if right else f"It is {found:,g}, not {number:,g}"
    return right, [f"{says}{where}.", *([asked.why] if asked.why else [])]
