"""What verdicts say of wrong kernels, as data, to judge a change to grading by: better, equal or worse.

`python -m tests.soak.golden --write FILE` grades mistakes that the puzzles declare, mutants of the solutions, seeded mutants of right
kernels that were written in other ways (`harness/tests/kernels/*_right_*`), and files of `--others DIR` (named
`NN_*.cu`); `--against FILE` grades the same and prints what became better or worse. A record holds findings, no words.
It ends with what each kind of finding is worth: how often it is shown, is all that explains a kernel, is all that names the
line, and names another one.
The text of a mutant is the same as long as its kernel is; whatever changed is graded anew on both sides.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import click

from backwarp.course.checkout import Course, open_course
from backwarp.course.declare import Puzzle
from backwarp.errors import CourseError
from backwarp.grading.findings import Finding
from backwarp.grading.grade import Options
from backwarp.grading.repair.search import repairs
from backwarp.grading.verdict import Verdict
from backwarp.maintain.check_mistakes import graded, solution_text
from backwarp.maintain.check_mutants import wrong_ones
from tests.soak.mutate import one_change

KERNELS = Path(__file__).parents[1] / "kernels"


@dataclass(frozen=True)
class Wrong:
    """A file to grade. lines: those that differ from the right one, if that is known."""

    name: str
    puzzle: Puzzle
    text: str
    lines: tuple[int, ...] = ()


def declared(course: Course, every: int) -> Iterator[Wrong]:
    for puzzle in course.puzzles():
        for m in [] if puzzle.program else wrong_ones(puzzle)[::every]:
            right = solution_text(puzzle)
            yield wrong(f"{puzzle.number}/{m.kernel}/{m.name}", puzzle, right, m.apply(right))


def mutants(course: Course, each: int) -> Iterator[Wrong]:
    for path in sorted(KERNELS.glob("*_right_*.cu")):
        right = path.read_text(encoding="utf-8")
        for seed in range(each):
            text = one_change(right, Random(f"{path.stem} {seed}"))
            yield wrong(f"{path.stem}/{seed}", course.load(path.name[:2]), right, text)


def others(course: Course, folder: Path) -> Iterator[Wrong]:
    for path in sorted(folder.glob("*.cu")):
        yield Wrong(path.stem, course.load(path.name[:2]), path.read_text(encoding="utf-8"))


def wrong(name: str, puzzle: Puzzle, right: str, text: str) -> Wrong:
    pairs = difflib.SequenceMatcher(None, right.split("\n"), text.split("\n"), autojunk=False).get_opcodes()
    lines = [n for kind, _, _, a, b in pairs if kind != "equal" for n in range(a + 1, max(b, a + 1) + 1)]
    return Wrong(name, puzzle, text, tuple(lines))


def record(w: Wrong, repaired: bool) -> dict:
    """The findings of a verdict: what it is, the lines that its causes state or ask about, and its repairs."""
    verdict = graded(w.puzzle, w.text, Options("cpu"))
    causes = [f for f in verdict.findings if f.row.explains]
    found = {
        "text": hashlib.sha256(w.text.encode()).hexdigest()[:12],
        "lines": w.lines,
        "status": verdict.status,
        "diagnosis": verdict.diagnosis,
        "fault": fault_of(verdict),
        "causes": sum(not f.asks for f in causes),
        "kinds": {f.kind: named(c for c in causes if c.kind == f.kind) for f in causes},
        "stated": named(f for f in causes if not f.asks),
        "asked": named(f for f in causes if f.asks),
    }
    if repaired and verdict.is_runnable:
        found["repairs"] = [r.line for r in repairs(w.puzzle, w.text, verdict)]
    return json.loads(json.dumps(found))


def fault_of(verdict: Verdict) -> list:
    fault = verdict.fault or {}
    return [fault[key] for key in ("kind", "line", "array")] if fault else []


def named(findings: Iterable[Finding]) -> list[int]:
    """The lines that findings are about."""
    return sorted(set().union(*(f.all_lines for f in findings)))


def score(found: dict) -> tuple[int, ...]:
    """How good a record is, the most important first: it fails; a cause, or the fault, is at the right line; no other line
    is called wrong; there is a cause; a question or a repair leads to the line."""
    lines = near(found["lines"])
    fault = set(found["fault"][1:2])
    right = bool(lines & (set(found["stated"]) | fault))
    strays = bool(found["stated"] and not lines & (set(found["stated"]) | fault))
    leads = bool(lines & (set(found["asked"]) | set(found.get("repairs", []))))
    return found["status"] == "failed", right or leads, not strays, right, bool(found["causes"]), leads


def worth(found: Iterable[dict]) -> dict[str, list[int]]:
    """By kind: in how many records it is shown, alone, alone at the right line, and at another."""
    counts: dict[str, list[int]] = {}
    for r in found:
        lines, fault = near(r["lines"]), set(r["fault"][1:2])
        for kind, own in r["kinds"].items():
            others = [rest for other, rest in r["kinds"].items() if other != kind]
            elsewhere = fault.union(*others)
            marks = 1, not others, lines & {*own} and not lines & elsewhere, own and not lines & {*own}
            counts[kind] = [n + bool(m) for n, m in zip(counts.get(kind, [0] * 4), marks)]
    return dict(sorted(counts.items(), key=lambda each: each[1][1:3] + each[1]))


def near(lines: Iterable[int]) -> set[int]:
    return {n + d for n in lines for d in (-1, 0, 1)}


def find(course: Course, name: str) -> Wrong:
    """A mistake, a mutant, or a wrong kernel beside the tests, by the name that its record has."""
    if "/" not in name:
        path = KERNELS / f"{name}.cu"
        return Wrong(name, course.load(name[:2]), path.read_text(encoding="utf-8"))
    first, kernel, *rest = name.split("/", 2)
    if not rest:
        path = KERNELS / f"{first}.cu"
        right, puzzle = path.read_text(encoding="utf-8"), course.load(first[:2])
        return wrong(name, puzzle, right, one_change(right, Random(f"{first} {kernel}")))
    puzzle = course.load(first)
    m = next(m for m in wrong_ones(puzzle) if (m.kernel, m.name) == (kernel, rest[0]))
    return wrong(name, puzzle, solution_text(puzzle), m.apply(solution_text(puzzle)))


def course_set(every: int, each: int, folder: Path | None) -> Iterator[Wrong]:
    course = open_course()
    yield from declared(course, every)
    yield from mutants(course, each)
    if folder:
        yield from others(course, folder)


@click.command()
@click.option("--write", type=click.Path(path_type=Path), help="Where the records go.")
@click.option("--against", type=click.Path(path_type=Path), help="Records to compare with.")
@click.option("--every", type=int, default=50, help="Every so many mistakes and mutants of solutions.")
@click.option("--each", type=int, default=20, help="So many mutants of each right kernel.")
@click.option("--others", "folder", type=click.Path(path_type=Path), help="A folder of wrong kernels.")
@click.option("--only", default="", help="Only these puzzles: 09,13.")
@click.option("--repairs/--no-repairs", default=False)
def main(
    write: Path | None,
    against: Path | None,
    every: int,
    each: int,
    folder: Path | None,
    only: str,
    repairs: bool,
) -> None:
    """Grade a set of wrong kernels; write or compare the findings."""
    before = json.loads(against.read_text()) if against else {}
    now, counts = {}, dict.fromkeys(("better", "equal", "worse", "other"), 0)
    for w in course_set(every, each, folder):
        if before and w.name not in before or only and w.puzzle.number not in only.split(","):
            continue
        try:
            found = now[w.name] = record(w, repairs)
        except CourseError as e:
            click.echo(f"{w.name}: {e}", err=True)
            continue
        if write:
            write.write_text(json.dumps(now, indent=0))
        if not (old := before.get(w.name)) or old["text"] != found["text"]:
            continue
        was, is_ = score(old), score(found)
        same = all(found.get(key) == old[key] for key in old)
        how = "better" if is_ > was else "worse" if is_ < was else "equal" if same else "other"
        counts[how] += 1
        if how != "equal":
            click.echo(f"{how} {w.name}: {old} -> {found}")
    click.echo(f"{len(now)} graded; {summary(list(now.values()))}")
    for kind, counts_of in worth(now.values()).items():
        click.echo("{:28} shown {}, alone {}, alone at the line {}, astray {}".format(kind, *counts_of))
    if before:
        click.echo(", ".join(f"{n} {how}" for how, n in counts.items()))
    raise SystemExit(bool(counts["worse"]))


def summary(found: list[dict]) -> str:
    failed = [f for f in found if f["status"] == "failed" and f["diagnosis"] != "compile"]
    marks = list(zip(*map(score, failed), strict=True)) or [()] * 6
    names = "fail", "lead to the line", "accuse no other", "state the line", "have a cause", "ask or repair"
    return f"of {len(failed)} that run and fail " + ", ".join(f"{sum(m)} {n}" for n, m in zip(names, marks))


if __name__ == "__main__":
    main()
