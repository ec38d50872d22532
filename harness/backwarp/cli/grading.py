"""`backwarp grade`."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import CourseError
from ..process import write
from .group import (
    DEVICE,
    SEED,
    STATUS,
    cli,
    current,
    file_instead,
    present,
    puzzle_ids,
    say,
    solution_instead,
    the_course,
    the_file,
)

if TYPE_CHECKING:
    from ..course.checkout import Course
    from ..course.declare import Puzzle
    from ..course.progress import Progress
    from ..grading.verdict import Verdict


@cli.command()
@click.argument("ids", metavar="[ID...]", nargs=-1, shell_complete=puzzle_ids)
@click.option("--all", "everything", is_flag=True, help="Every puzzle.")
@solution_instead("Grade")
@file_instead("Grade")
@click.option(
    "--keep",
    is_flag=True,
    help="With --file: if it passes, it becomes your file; the one before is kept beside it.",
)
@click.option(
    "--case",
    metavar="NAME",
    default="",
    help="Only this case; its numbers are printed if they are few. It solves nothing.",
)
@DEVICE
@SEED
@click.option(
    "--json", "json_path", metavar="PATH", help="Also write the verdicts as JSON; - is standard output."
)
@click.option(
    "--html", "html_path", metavar="PATH", help="Also write a page with verdicts, pictures and counts."
)
@click.option(
    "--repair/--no-repair",
    default=True,
    help="Look for one change that fixes a wrong kernel, for at most 10 seconds of processor time. Default: yes, for one ID.",
)
@click.option(
    "--within",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The file of --file is another's, from this folder: no link in it is followed, and kernels must be confined.",
)
@click.pass_context
def grade(
    context, ids, everything, solution, path, keep, case, device, seed, json_path, html_path, repair, within
) -> None:
    """Grade your kernels: puzzle ID (09, 9 or a part of the name), several, or --all."""
    check_options(ids, everything, solution, path, keep, within)
    check_case(ids, keep, case)
    if device != "gpu":
        from ..devices.virtual.confined_process import PROCESS

        PROCESS.start()  # while this one loads
    course, progress = the_course()
    chosen = chosen_ids(course, progress, ids, everything)
    from ..grading.grade import Options, grade_file
    from ..report.case import case_lines
    from ..report.overview import debrief
    from ..report.terminal import show, show_text
    from ..report.text import show_verdict_around
    from ..report.ticker import Ticker

    check_targets(json_path, html_path)
    verdicts = []
    for puzzle in map(course.load, chosen):
        source = path if within else the_file(puzzle, path, solution)
        with Ticker() as tell:
            verdict = grade_file(puzzle, source, Options(device, seed, tell, case=case, within=within))
        before = progress.entry(puzzle.id).solved
        own = not case and recorded(course, progress, puzzle, source, verdict, keep)
        verdicts.append(verdict)
        context.meta[STATUS] = max(v.exit_status for v in verdicts)
        searched = (
            repair
            and not within
            and not case
            and len(chosen) == 1
            and verdict.is_repairable
            and not puzzle.program
        )
        look = partial(look_for_repair, puzzle, source, verdict, progress)
        if json_path == "-":
            if searched:
                look()
        elif searched:
            show_verdict_around(verdict, look)
        else:
            present(verdict, len(chosen) > 1)
            show(case_lines(verdict))
            if own and verdict.passed and not before and len(chosen) == 1:
                show_text(debrief(puzzle))
    if json_path != "-" and len(verdicts) > 1:
        say(f"{sum(v.passed for v in verdicts)} of {len(verdicts)} puzzles pass.")
    if json_path:
        from ..report.json import dumps

        write(dumps(verdicts), json_path)
    if html_path:
        from ..report.html import page

        graded = [course.load(v.puzzle) for v in verdicts]
        write(page(verdicts, graded, time.strftime("%Y-%m-%d %H:%M")), html_path)


def check_options(ids, everything, solution, path, keep, within) -> None:
    """Options that do not go together. Errors: UsageError."""
    if path is not None and (solution or everything or len(ids) != 1):
        raise click.UsageError("--file goes with exactly one ID, and not with --solution or --all")
    if keep and path is None:
        raise click.UsageError("--keep goes with --file")
    if within is not None and (
        path is None or not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(within))
    ):
        raise click.UsageError("--within goes with --file, and names a folder above that file")
    if everything and ids:
        raise click.UsageError("--all grades every puzzle; leave the IDs out")


def check_targets(*paths) -> None:
    """Errors: CourseError for a file that cannot be written."""
    for target in paths:
        if target and target != "-" and not Path(target).absolute().parent.is_dir():
            raise CourseError(f"{target} cannot be written: there is no folder {Path(target).parent}")


def check_case(ids, keep, case) -> None:
    """As check_options."""
    if case and (keep or len(ids) != 1):
        raise click.UsageError("--case goes with exactly one ID, and not with --keep")


def recorded(
    course: Course, progress: Progress, puzzle: Puzzle, source: Path, verdict: Verdict, keep: bool
) -> bool:
    """Whether the file is the student's own, or becomes it by --keep; then progress has the verdict."""
    own = os.path.realpath(source) == os.path.realpath(puzzle.stub_path)
    if keep and verdict.passed and not own:
        from ..course.reset import make_own

        verdict.notes.append(make_own(puzzle, source))
        own = True
    if own:
        progress.record(verdict)
    if own and verdict.passed:
        upcoming = progress.next_of(course.ids(), after=puzzle.id)
        verdict.next = f"read puzzles/{upcoming}/README.md" if upcoming else ""
    return own


def look_for_repair(puzzle: Puzzle, path: Path, verdict: Verdict, progress: Progress) -> None:
    """Looks for a repair of a wrong kernel, and keeps it for hints."""
    from ..grading.repair import search
    from ..report.ticker import Ticker

    with Ticker(delay=0.0) as tell:
        search.look(puzzle, path, verdict, tell=tell)
    if path.resolve() == puzzle.stub_path.resolve():
        progress.keep_repair(verdict)


def chosen_ids(course: Course, progress: Progress, ids: tuple[str, ...], everything: bool) -> list[str]:
    """The puzzles to grade: those named, or else the next one."""
    if everything:
        return [i for i in course.ids() if is_installed(course.load(i))]
    if ids:
        return list(dict.fromkeys(course.resolve(i) for i in ids))
    return [current(course, progress)]


def is_installed(puzzle: Puzzle) -> bool:
    """Whether what an optional puzzle needs is installed; if not, a line says so."""
    install = puzzle.program.missing if puzzle.program else ""
    if install:
        say(f"{puzzle.id} is left out: it needs {puzzle.program.needs[0]} ({install}).", err=True)
    return not install


@cli.command()
@click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids)
@click.pass_context
def testing(context: click.Context, puzzle_id: str) -> None:
    """Write the cases yourself, in cases.toml beside your kernel: how many wrong kernels do they catch?"""
    from contextlib import ExitStack

    from .. import own_cases
    from ..report.ticker import Ticker
    from .classroom import whole_course

    own, progress = the_course()
    puzzle = own.load(puzzle_id)
    path = puzzle.folder / own_cases.FILE
    if puzzle.program:
        raise CourseError(f"{puzzle.id} is a program: cases are for kernels")
    if not path.exists():
        own_cases.write_template(puzzle, path)
        say(f"{path} is new: a case to change, and to add others to. Then run this again.")
        return
    cases = own_cases.cases_of(puzzle, path)
    with ExitStack() as stack, Ticker() as tell:
        tell("your cases run on the wrong kernels")
        whole = whole_course(stack).load(puzzle.id)
        found = own_cases.tested(whole, cases)
        shown = [own_cases.changed_lines(whole, wrong) for wrong, _ in found.away[:1]]
    plural = "s" * (found.cases != 1)
    say(
        f"{puzzle.id}: your {found.cases} case{plural} catch{'es' * (not plural)} {found.caught} of {found.of} wrong kernels."
    )
    if found.away and not progress.entry(puzzle.id).solved:
        say("  Once your own kernel passes, one that got away is shown here.")
    elif found.away:
        for line, right, wrong in shown[0]:
            say(f"  One that got away has in line {line} of the course's solution")
            say(f"    {wrong or '(nothing)'}    in the place of    {right or '(nothing)'}")
        say("  With which sizes would that show?")
    context.meta[STATUS] = int(bool(found.away))
