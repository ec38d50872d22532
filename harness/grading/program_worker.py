"""The process in which a student's Python file runs: it may crash, hang or print endlessly."""

from __future__ import annotations

import contextlib
import io
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from ..course.checkout import load_puzzle
from ..devices import open_device
from ..devices.child import attach, serve
from .programs import OutOfTime, ProgramError, guarded, load_program

MOST_PRINTED = 16_384  # characters that are kept


class Printed(io.TextIOBase):
    """Keeps the first characters printed and counts the lines of the rest."""

    def __init__(self):
        self.text, self.dropped = "", 0

    def write(self, text: str) -> int:
        kept = text[: MOST_PRINTED - len(self.text)]
        self.text += kept
        self.dropped += text[len(kept) :].count("\n")
        return len(text)


class Worker:
    """One file, loaded once, and its cases."""

    def __init__(self, root: Path, puzzle_id: str, source: str, name: str, device: str, seed: int):
        self.puzzle = load_puzzle(root, puzzle_id).drawn(seed)
        self.source, self.name, self.seed = source, name, seed
        self.device = open_device(device, checks="memory", seed=seed)
        self.functions: dict = {}
        if self.puzzle.program.prepare:
            self.puzzle.program.prepare(self.device)

    def about(self) -> tuple[str, str, str]:
        return self.device.name, self.device.kind, self.device.reason

    def load(self) -> None:
        """Errors: ProgramError."""
        self.functions = load_program(self.source, self.name, self.puzzle.program.functions)

    def case(self, index: int) -> object:
        """The finding in a case, or None."""
        check = self.puzzle.program.check
        return guarded(
            self.source, self.name,
            lambda: check(self.functions, self.puzzle.cases[index], self.device, self.seed),
        )  # fmt: skip


class Verbs:
    """What the parent asks for, in this order: open, load, and a case after the other."""

    def __init__(self):
        self.worker: Worker | None = None

    def open(self, *arguments) -> tuple[str, str, str]:
        self.worker = Worker(*arguments)
        return self.worker.about()

    def load(self, seconds: float):
        return self.timed(seconds, self.worker.load)

    def case(self, seconds: float, index: int):
        return self.timed(seconds, lambda: self.worker.case(index))

    def timed(self, seconds: float, work: Callable[[], object]) -> tuple[object, str, int]:
        """(the result or the student's error, what was printed, lines of print that were dropped)."""
        printed = Printed()
        try:
            with contextlib.redirect_stdout(printed):
                signal.setitimer(signal.ITIMER_REAL, seconds)
                try:
                    found = work()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
        except ProgramError as error:
            found = error
        return found, printed.text, printed.dropped


def main() -> None:
    connection = attach()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, out_of_time)
    verbs = Verbs()
    serve(connection, {"open": verbs.open, "load": verbs.load, "case": verbs.case})


def out_of_time(*_) -> None:
    raise OutOfTime("its time is up here; a loop that never ends?")


if __name__ == "__main__":
    main()
