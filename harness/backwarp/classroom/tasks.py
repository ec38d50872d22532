"""One text, graded: in a fresh process with a folder of its own, on whatever machine this runs.

What is returned is plain data, made by the grader from what it measured, never by the file. It says nothing of the machine: the
same text has the same result everywhere.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .. import __version__
from ..begin import installed
from ..course.checkout import Course
from ..course.declare import Puzzle
from ..devices.child import Child, Damaged, attach, serve
from ..errors import BackwarpError
from ..grading.verdict import Verdict

SECONDS = 180.0  # of processor time for one grading; each launch is stopped far sooner
MOST = 8 << 20  # bytes of a result
TEXT = 4000  # characters of what is shown

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One different text for one puzzle. root: the course; a machine that has no such folder takes the installed one. seed:
    None to derive it from the text. trusted: grade it even where kernels cannot be confined, as in a container of its own."""

    root: str
    puzzle: str
    data: bytes
    seed: int | None = None
    trusted: bool = False
    version: str = __version__

    @cached_property
    def key(self) -> str:
        """Results are kept by it: of this text, by these rules, with this version of the grader."""
        text = hashlib.sha256(self.data).hexdigest()[:24]
        return f"{self.puzzle} {text} {self.seed} {self.version} {declared(self.root, self.puzzle)}"


@cache
def declared(root: str, puzzle: str) -> str:
    """A hash of what the puzzle declares."""
    return hashlib.sha256(Path(root, "puzzles", puzzle, "puzzle.py").read_bytes()).hexdigest()[:12]


def course_at(root: str) -> str:
    """The course's folder on this machine."""
    return root if Path(root).is_dir() else str(installed().root)


_mine = threading.local()


def own_core(cores: SimpleQueue) -> None:
    """Gives this thread a core of its own, on which all of its gradings run: they need no other, and do not wait for each
    other."""
    _mine.core = cores.get()


class Grader(Child):
    """Its limit is one of all processes that it starts: on a busy machine a grading takes longer by the clock, and fails no
    sooner."""

    def spent(self) -> float:
        return spent_below(self.pid)


def spent_below(pid: int) -> float:
    """Seconds of processor time of a process and of all that it started."""
    spent = 0.0
    with suppress(OSError, ValueError):  # it has ended
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        spent = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        for thread in Path(f"/proc/{pid}/task").iterdir():
            spent += sum(map(spent_below, map(int, (thread / "children").read_text().split())))
    return spent


def run(task: Task) -> Outcome:
    """Grades a text. It never raises: what cannot be graded is an outcome too."""
    if task.version != __version__:
        return nothing(f"This worker has version {__version__} of backwarp, not {task.version}.", "error")
    with tempfile.TemporaryDirectory(prefix="backwarp-class-") as folder:
        child = None
        try:
            child = Grader("backwarp.classroom.tasks")
            child.most = MOST
            here = replace(task, root=course_at(task.root))
            return child.ask("grade", (here, folder, getattr(_mine, "core", None)), SECONDS)
        except TimeoutError:
            return nothing(
                f"Grading did not finish within {SECONDS:.0f} seconds of processor time and was stopped.",
                "timeout",
            )
        except BackwarpError as error:
            return nothing(str(error), "error")
        except (EOFError, OSError, Damaged) as error:
            return nothing(
                f"The grading process ended unexpectedly ({error or type(error).__name__}).", "lost"
            )
        finally:
            if child:
                child.end()


def nothing(says: str, kind: str) -> Outcome:
    """Of what was not graded."""
    return {
        "status": "error",
        "kind": kind,
        "share": 0.0,
        "lines": [says],
        "shown": [says],
        "findings": [],
        "hidden": False,
        "seconds": 0.0,
    }


# ---- in the child ----------------------------------------------------------------------------------------


def grade(task: Task, folder: str, core: int | None) -> Outcome:
    if core is not None:
        os.sched_setaffinity(0, {core})
    from ..grading.grade import Options, grade_file

    puzzle = Course(Path(task.root)).load(task.puzzle)
    os.chdir(folder)
    path = Path(puzzle.file)  # its folder has another name each time, which no message may say
    path.write_bytes(task.data)
    options = Options("cpu", task.seed, within=Path(folder), trusted=task.trusted)
    return outcome(puzzle, grade_file(puzzle, path, options))


def outcome(puzzle: Puzzle, verdict: Verdict) -> Outcome:
    """What is kept of a verdict. shown: what its author may read."""
    hidden = {case.name for case in puzzle.cases if case.hidden or case.stress}
    cases = [c for c in verdict.cases if c.status != "skipped"]
    in_hidden = verdict.case in hidden or verdict.case not in {c.name for c in puzzle.cases} | {""}
    lines = [line[:TEXT] for line in verdict.lines]
    return {
        "status": verdict.status,
        "kind": verdict.kind,
        "share": sum(c.status == "passed" for c in cases) / len(cases) if cases else float(verdict.passed),
        "case": verdict.case,
        "lines": lines,
        "shown": revealing_nothing(verdict, lines) if in_hidden else lines,
        "findings": [
            {"kind": f.kind, "lines": sorted(f.all_lines), "text": str(f)[:TEXT]} for f in verdict.findings
        ],
        "hint": verdict.hint,
        "diagnosis": verdict.diagnosis,
        "gates": [{key: gate[key] for key in ("quantity", "value", "most")} for gate in verdict.gates],
        "hidden": in_hidden and not verdict.passed,
        "seed": verdict.seed,
        "seconds": verdict.seconds,
    }


def revealing_nothing(verdict: Verdict, lines: list[str]) -> list[str]:
    """Of a case that is not shown to students: the causes in their own file, but no sizes and values."""
    causes = [str(f)[:TEXT] for f in verdict.findings if f.row.explains and f.lines and not f.where]
    sources = [line for line in lines if line.startswith("    ")]
    return [f"It fails in a case that is not shown ({verdict.diagnosis}).", *causes, *sources]


def as_row(outcome: Mapping[str, Any]) -> str:
    """In a word, for tables."""
    if outcome["status"] == "passed":
        return "passed"
    return "slow" if outcome["kind"] == "slow" else str(outcome.get("diagnosis") or outcome["kind"])


if __name__ == "__main__":
    from backwarp.classroom import tasks  # under the name by which its classes are sent

    serve(attach(), {"grade": tasks.grade})
