"""Counts a puzzle's file with other values of its constants: which of them keep every limit, and what they cost."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from ..course.declare import Puzzle
from ..cuda.text import edited, read
from ..cuda.values import tunables
from ..devices.nvrtc import ptxas
from ..errors import CourseError
from ..grading.gates import Measure
from ..grading.grade import Stop, checked_source, grade_file
from ..grading.verdict import Verdict
from .profile import profile_file

MOST = 64  # files that are counted


@dataclass
class Row:
    """A file with these values. measures: of its limits, none if it could not be counted; verdict: of grading, or of
    counting where that already decides; resources and occupancy: of the kernel that takes most registers, where
    ptxas is installed."""

    values: dict[str, int]
    verdict: Verdict
    measures: list[Measure] = field(default_factory=list)
    resources: ptxas.Resources | None = None
    occupancy: ptxas.Occupancy | None = None

    @property
    def is_within(self) -> bool:
        return bool(self.measures) and all(m.passed for m in self.measures)

    @property
    def passes(self) -> bool:
        return self.is_within and self.verdict.passed


def combinations(given: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Every choice of one value for each name, in the order given. Errors: CourseError if there are too many."""
    if (n := prod(map(len, given.values()))) > MOST:
        raise CourseError(f"that makes {n:,} combinations; at most {MOST} are counted: name fewer values")
    return [dict(zip(given, values)) for values in itertools.product(*given.values())]


def with_values(source: str, values: Mapping[str, int]) -> str:
    """The text with other values of constants. Errors: CourseError for a name that is not one of them."""
    file, known = read(source), tunables(source)
    own = {v.name: v.value for v in file.variables if v.scope == file.root and v.name in known}
    if missing := [name for name in values if name not in own]:
        names = f"it has {', '.join(own)}" if own else "it has none"
        raise CourseError(
            f"the file has no `constexpr int {missing[0]} = ...;` outside its functions; {names}"
        )
    return edited(source, [(own[name], str(value)) for name, value in values.items()])


def sweep(
    puzzle: Puzzle,
    path: Path,
    given: Mapping[str, Sequence[int]],
    watch: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Counts the file with every combination, and grades those that keep all limits. watch: called with the one that
    runs. Errors: CourseError, also for a file that is not there or not started; DeviceError."""
    if not puzzle.gates:
        raise CourseError(f"{puzzle.id} has no limits on what its kernels cost; those from puzzle 23 on have")
    try:
        source = checked_source(puzzle, path, Verdict(puzzle.id, str(path)))
    except Stop as stop:
        raise CourseError("\n".join(stop.lines)) from None
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for values in combinations(given):
            watch(shown(values))
            file = Path(folder, puzzle.file)
            file.write_text(with_values(source, values), encoding="utf-8")
            rows.append(row_of(puzzle, file, values))
    return rows


def row_of(puzzle: Puzzle, file: Path, values: dict[str, int]) -> Row:
    found = profile_file(puzzle, file)
    row = Row(values, found.verdict, found.targets if found.verdict.passed else [])
    if needs := [k for k in found.kernels if k.resources]:
        most = max(needs, key=lambda k: k.resources.registers)
        row.resources, row.occupancy = most.resources, most.occupancy
    if row.is_within:
        row.verdict = grade_file(puzzle, file)
        others = [Measure(**m) for m in row.verdict.gates]
        row.measures += [m for m in others if not m.passed]
    return row


def shown(values: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def result(row: Row) -> str:
    """What becomes of it, in a few words."""
    if row.measures and not row.is_within:
        return "over a limit"
    return "passes" if row.passes else row.verdict.diagnosis or row.verdict.status


def document(puzzle: Puzzle, rows: Sequence[Row]) -> dict:
    """For `--json`."""
    return {
        "format": 1,
        "puzzle": puzzle.id,
        "rows": [
            {
                "values": row.values,
                "result": result(row),
                "limits": [
                    {
                        "kernel": m.kernel,
                        "case": m.case,
                        "quantity": m.quantity,
                        "value": m.value,
                        "most": m.most,
                    }
                    for m in row.measures
                ],
                "registers": row.resources.registers if row.resources else None,
                "occupancy": row.occupancy.share if row.occupancy else None,
            }
            for row in rows
        ],
    }
