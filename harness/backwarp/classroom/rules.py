"""What a file is worth: `backwarp class DIR --rules FILE.toml`. All of it may be left out.

puzzles = ["07", "09", "10"]   # those that count; default: every one that somebody handed in
seed = 20261129                # secret: of all inputs, so that nobody can know them; default: derived from each text
again = 1                      # how many further seeds each file is graded with; all must pass
attempt = "last"               # of several files for one puzzle the last, the best, or the first
due = 2026-12-24T23:59:00+01:00
late = 10                      # per cent of a file's points that each day costs that has begun
latest = 5                     # days after which nothing counts

[points]
passed = 10                    # or per puzzle: [points.09] with the same names
slow = 7                       # right, but not yet fast: a limit of part 3 or 4 is not kept
cases = 3                      # the share of cases that pass, of a file that is wrong
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ..course.checkout import Course
from ..errors import CourseError

DAY = 24 * 3600.0


@dataclass(frozen=True)
class Points:
    """passed, slow: for a file that is right. cases: times the share of cases, for one that is wrong."""

    passed: float = 1.0
    slow: float = 0.5
    cases: float = 0.0


@dataclass(frozen=True)
class Rules:
    """due: in seconds since 1970, or None. late: the share of points per day. puzzles: ids; () for all."""

    puzzles: tuple[str, ...] = ()
    seed: int | None = None
    again: int = 0
    attempt: str = "last"
    due: float | None = None
    late: float = 0.0
    latest: float = math.inf
    points: Points = Points()
    of: dict[str, Points] = field(default_factory=dict)

    def points_of(self, puzzle: str) -> Points:
        return self.of.get(puzzle, self.points)

    def seeds(self) -> tuple[int | None, ...]:
        """Of the runs of every file."""
        first = (self.seed,) if self.seed is not None or not self.again else (0,)
        return first + tuple((first[0] or 0) + 1 + n for n in range(self.again))

    def kept(self, when: float) -> tuple[float, int]:
        """(the share of points that is left, days late) of a file handed in then."""
        if self.due is None or when <= self.due:
            return 1.0, 0
        days = math.ceil((when - self.due) / DAY)
        return (0.0 if days > self.latest else max(0.0, 1 - days * self.late)), days


def read_rules(path: Path | None, course: Course) -> Rules:
    """Errors: CourseError, with what is wrong."""
    if path is None:
        return Rules()
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"{path}: {error}") from None
    try:
        return rules_of(found, course)
    except (TypeError, ValueError, AttributeError) as error:
        raise CourseError(f"{path}: {error}") from None


def rules_of(found: dict[str, Any], course: Course) -> Rules:
    """Errors: ValueError, TypeError or CourseError."""
    known = {"puzzles", "seed", "again", "attempt", "due", "late", "latest", "points"}
    if unknown := found.keys() - known:
        raise ValueError(f"{sorted(unknown)[0]!r} is not known: there is {', '.join(sorted(known))}")
    if found.get("attempt", "last") not in ("first", "last", "best"):
        raise ValueError("attempt is first, last or best")
    due = found.get("due")
    if due is not None and not isinstance(due, datetime):
        raise ValueError("due is a date with a time, as 2026-12-24T23:59:00+01:00")
    points = dict(found.get("points", {}))
    per_puzzle = {course.resolve(n): points.pop(n) for n in list(points) if isinstance(points[n], dict)}
    general = Points(**numbers(points))
    return Rules(
        puzzles=tuple(course.resolve(str(p)) for p in found.get("puzzles", ())),
        seed=int(found["seed"]) if "seed" in found else None,
        again=int(found.get("again", 0)),
        attempt=found.get("attempt", "last"),
        due=due.timestamp() if due else None,
        late=float(found.get("late", 0)) / 100,
        latest=float(found.get("latest", math.inf)),
        points=general,
        of={id: Points(**vars(general) | numbers(own)) for id, own in per_puzzle.items()},
    )


def numbers(table: dict[str, Any]) -> dict[str, float]:
    if unknown := table.keys() - vars(Points()).keys():
        raise ValueError(f"points: {sorted(unknown)[0]!r} is not known: there is passed, slow and cases")
    return {name: float(value) for name, value in table.items()}
