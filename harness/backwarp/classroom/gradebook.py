"""From files and outcomes to a gradebook: the same for the same files, whoever graded them and in whatever order."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..course.progress import Entry as Progress
from ..report.terminal import printable
from .find import File, Found
from .rules import Rules
from .tasks import Outcome, Task, as_row


@dataclass(frozen=True)
class Entry:
    """One person's file for one puzzle. outcome: of the worst run, if there are several seeds."""

    file: File
    outcome: Outcome
    points: float
    of: float
    days_late: int = 0
    files: int = 1


@dataclass
class Gradebook:
    """entries: by person and puzzle. puzzles: the columns."""

    people: list[str]
    puzzles: list[str]
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    left: list[File] = field(default_factory=list)
    progress: dict[str, dict[str, Progress]] = field(default_factory=dict)  # by person and puzzle

    def of(self, person: str) -> dict[str, Entry]:
        return {p: self.entries[person, p] for p in self.puzzles if (person, p) in self.entries}

    def total(self, person: str) -> float:
        return round(sum(e.points for e in self.of(person).values()), 4)


def tasks_of(found: Found, rules: Rules, root: str, trusted: bool = False) -> list[Task]:
    """One per different text, puzzle and seed, in the order in which they are run."""
    wanted = {}
    for (_, puzzle), files in found.graded.items():
        if not rules.puzzles or puzzle in rules.puzzles:
            for file in counted(files, rules):
                tasks = (Task(root, puzzle, file.data, seed, trusted) for seed in rules.seeds())
                wanted |= {t.key: t for t in tasks}
    return list(wanted.values())


def counted(files: list[File], rules: Rules) -> list[File]:
    """Of several files for one puzzle those that are graded."""
    return {"last": files[-1:], "first": files[:1], "best": files}[rules.attempt]


def gradebook(found: Found, rules: Rules, root: str, outcomes: Mapping[str, Outcome]) -> Gradebook:
    """outcomes: by Task.key; entries whose outcome is not known yet are left out."""
    puzzles = rules.puzzles or sorted({puzzle for _, puzzle in found.graded})
    book = Gradebook(found.people, list(puzzles), left=list(found.left), progress=found.progress)
    for (person, puzzle), files in found.graded.items():
        if puzzle not in puzzles:
            book.left += [
                File(f.person, f.name, puzzle=puzzle, why="its puzzle does not count") for f in files
            ]
            continue
        chosen = [
            e for f in counted(files, rules) if (e := entry(f, puzzle, rules, root, outcomes, len(files)))
        ]
        if chosen:
            book.entries[person, puzzle] = max(chosen, key=lambda e: e.points)
    book.left.sort(key=lambda f: (f.person, f.name))
    return book


def entry(
    file: File, puzzle: str, rules: Rules, root: str, outcomes: Mapping[str, Outcome], files: int
) -> Entry | None:
    runs = [outcomes.get(Task(root, puzzle, file.data, seed).key) for seed in rules.seeds()]
    if None in runs:
        return None
    points = rules.points_of(puzzle)

    def worth(outcome: Outcome) -> float:
        if outcome["status"] == "passed":
            return points.passed
        return points.slow if outcome["kind"] == "slow" else points.cases * outcome["share"]

    worst = min(runs, key=worth)
    kept, days = rules.kept(file.when)
    return Entry(file, worst, round(worth(worst) * kept, 4), points.passed, days, files)


# ---- tables ----------------------------------------------------------------------------------------------


def as_csv(book: Gradebook) -> str:
    """A row per person: points per puzzle, and the total. An empty cell: nothing was handed in."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["person", *book.puzzles, "total"])
    for person in book.people:
        own = book.of(person)
        cells = [number(own[p].points) if p in own else "" for p in book.puzzles]
        table.writerow([safe(person), *cells, number(book.total(person))])
    return text.getvalue()


def number(value: float) -> str:
    return f"{value:.10g}"


def safe(cell: str) -> str:
    """No formula and no control character where a spreadsheet would run one: a folder can have any name."""
    cell = printable(cell)
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def as_json(book: Gradebook) -> dict[str, Any]:
    """Everything, for other programs."""
    return {
        "format": 1,
        "puzzles": book.puzzles,
        "people": [
            {
                "person": person,
                "total": book.total(person),
                "puzzles": {
                    puzzle: {
                        "points": e.points,
                        "of": e.of,
                        "result": as_row(e.outcome),
                        "share": round(e.outcome["share"], 4),
                        "file": e.file.name,
                        "files": e.files,
                        "days_late": e.days_late,
                        "lines": e.outcome["lines"],
                        "findings": e.outcome["findings"],
                    }
                    for puzzle, e in book.of(person).items()
                },
            }
            for person in book.people
        ],
        "left": [{"person": f.person, "file": f.name, "why": f.why} for f in book.left],
    }
