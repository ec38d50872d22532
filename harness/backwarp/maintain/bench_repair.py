"""How well repairs are found: `python -m backwarp.maintain.bench_repair 02 09 [--sample 20] [--seed 1] [--unaided]`.

Every mistake of a puzzle is graded and repaired. A repair counts as right if it changes a line that the
mistake changed, or inserts something beside it; every repair has been graded. Seconds are processor time of
all processes, from the verdict on.
"""

from __future__ import annotations

import difflib
import random
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import click

from ..course.checkout import open_course
from ..course.declare import Puzzle
from ..course.mistakes import Mistake
from ..devices.child import Child
from ..grading.grade import Options
from ..grading.repair import telling
from ..grading.repair.repair import Repair
from ..grading.repair.search import repairs
from .check import graded
from .check_mutants import wrong_ones

#: speed-ups for compiling that mistakes in long kernels contain
COMPILED_SOONER = re.compile(r"__noinline__ |_Pragma\(\"unroll 1\"\) ")


@dataclass(frozen=True)
class Row:
    """One mistake. found: "right", "other" (a repair in another line) or "none"."""

    mistake: str
    diagnosis: str
    found: str
    seconds: float
    repairs: list[Repair]


def rows(puzzle: Puzzle, sample: int = 0, seed: str = "", aided: bool = True) -> Iterator[Row]:
    """The mistakes that run and give wrong results; with a sample, that many of them, drawn with a seed.
    aided: see `repairs`."""
    solution, mistakes = puzzle.solution_path.read_text(encoding="utf-8"), wrong_ones(puzzle)
    if sample:
        random.Random(puzzle.id + seed).shuffle(mistakes)
    done = 0
    for mistake in mistakes:
        if sample and done == sample:
            return
        if row := row_of(puzzle, mistake, solution, aided):
            done += 1
            yield row


def row_of(puzzle: Puzzle, mistake: Mistake, solution: str, aided: bool) -> Row | None:
    wrong = mistake.apply(solution)
    verdict = graded(puzzle, wrong, Options("cpu"))
    if not verdict.is_runnable:
        return None
    before = Child.spent_by_all()
    found = repairs(puzzle, wrong, verdict, aided=aided)
    seconds, lines = Child.spent_by_all() - before, changed_lines(solution, wrong)
    right = any(not lines.isdisjoint(telling.changed_lines(r.as_dict())) for r in found)
    return Row(
        mistake.name, verdict.diagnosis, "right" if right else "other" if found else "none", seconds, found
    )


def changed_lines(solution: str, wrong: str) -> set[int]:
    """Lines of the wrong file that differ; where lines are missing, the lines of code around the gap."""
    solution, wrong = (COMPILED_SOONER.sub("", text) for text in (solution, wrong))
    found, lines = set(), wrong.split("\n")
    code = [i for i, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("//")]
    matcher = difflib.SequenceMatcher(None, solution.split("\n"), lines, autojunk=False)
    for kind, _, _, first, end in matcher.get_opcodes():
        if kind == "delete" or kind == "replace" and not "".join(lines[first:end]).strip():
            found |= {*[i for i in code if i <= first][-1:], *[i for i in code if i > end][:1]}
        elif kind != "equal":
            found |= set(range(first + 1, end + 1))
    return found


@click.command()
@click.argument("ids", nargs=-1, required=True)
@click.option("--sample", type=int, default=0, help="So many mistakes of each puzzle.")
@click.option("--seed", default="", help="Of the sample.")
@click.option("--unaided", is_flag=True, help="Without what the solution suggests.")
def main(ids: tuple[str, ...], sample: int, seed: str, unaided: bool) -> None:
    """Look for repairs of the mistakes of puzzles."""
    course = open_course()
    for puzzle in (course.load(course.resolve(i)) for i in ids):
        all_ = []
        for row in rows(puzzle, sample, seed, not unaided):
            all_.append(row)
            changes = [(r.line, r.as_dict()["before"], r.as_dict()["after"]) for r in row.repairs]
            print(
                f"{row.found:5} {row.seconds:6.2f} s  {row.mistake} ({row.diagnosis}) {changes}", flush=True
            )
        if all_:
            counts = {kind: sum(r.found == kind for r in all_) for kind in ("right", "other", "none")}
            median = statistics.median(r.seconds for r in all_)
            print(
                f"{puzzle.id}: {len(all_)} mistakes, {counts}, median {median:.2f} s of the processor",
                flush=True,
            )


if __name__ == "__main__":
    main()
