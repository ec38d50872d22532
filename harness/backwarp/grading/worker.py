"""Grading in a separate process, kept warm: a kernel that hangs or crashes takes nothing else down.

`GradingProcess` is the parent's side; the child is `python -m backwarp.grading.worker`.
"""

from __future__ import annotations

from pathlib import Path

from ..course.checkout import Course
from ..course.declare import Puzzle
from ..devices.child import Child, Damaged, attach, serve
from ..devices.emulated import patience
from ..errors import BackwarpError
from .verdict import ERROR, Verdict

SECONDS = 60 * patience()  # seconds for one grading; the watchdog stops a kernel far sooner


class GradingProcess:
    """Grades files, one at a time."""

    def __init__(self, device: str = "auto", seed: int | None = None):
        self.device, self.seed = device, seed
        self._child: Child | None = None

    def grade(self, puzzle: Puzzle, path: Path) -> Verdict:
        """The verdict on a kernel file; its status is "error" if the process did not survive."""
        try:
            self._child = self._child or Child("backwarp.grading.worker")
            what = str(puzzle.root), puzzle.id, str(path), self.device, self.seed
            return self._child.ask("grade", what, SECONDS)
        except BackwarpError as error:
            return _nothing(puzzle, path, str(error))
        except TimeoutError:
            self.end()
            return _nothing(puzzle, path, f"Grading did not finish within {SECONDS} seconds and was stopped.")
        except (EOFError, OSError):
            says = f"The grading process ended unexpectedly ({self.end()}); the next run starts another."
            return _nothing(puzzle, path, says)
        except BaseException:  # Ctrl-C leaves an answer unread
            self.end()
            raise

    def repair(self, puzzle: Puzzle, path: Path, verdict: Verdict) -> list[dict]:
        """The repairs of a file; none if the search is stopped."""
        try:
            self._child = self._child or Child("backwarp.grading.worker")
            return self._child.ask("repair", (str(puzzle.root), puzzle.id, str(path), verdict), SECONDS)
        except (BackwarpError, OSError, EOFError, Damaged):
            self.end()
            return []
        except BaseException:  # as above
            self.end()
            raise

    def end(self) -> str:
        """Stops the process, whatever it is doing; returns how it ended."""
        child, self._child = self._child, None
        return child.end() if child else ""


def _nothing(puzzle: Puzzle, path: Path, says: str) -> Verdict:
    again = f"backwarp grade {puzzle.number}"
    return Verdict(puzzle.id, str(path), status=ERROR, kind="device", lines=[says], next=again)


def grade(root: str, puzzle_id: str, path: str, device: str, seed: int | None) -> Verdict:
    """Runs in the child."""
    from .grade import Options, grade_file

    return grade_file(Course(Path(root)).load(puzzle_id), Path(path), Options(device, seed))


def repair(root: str, puzzle_id: str, path: str, verdict: Verdict) -> list[dict]:
    """Runs in the child."""
    from .repair.search import look

    look(Course(Path(root)).load(puzzle_id), Path(path), verdict)
    return verdict.repair


if __name__ == "__main__":
    serve(attach(), {"grade": grade, "repair": repair})
