"""The verb for teachers: `backwarp class`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import CourseError
from .group import cli, say, the_course

if TYPE_CHECKING:
    from ..classroom.alike import Pair
    from ..classroom.find import Found
    from ..course.checkout import Course

AGAIN, SHARE = (
    5.0,
    10,
)  # seconds between two overviews while gradings run, and at least so many times what one takes


@cli.command("class")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--rules", metavar="FILE.toml", type=click.Path(path_type=Path), help="Points, deadline, seed.")
@click.option("-o", "target", metavar="DIR", type=click.Path(path_type=Path), help="Output; default: graded.")
@click.option(
    "--workers", type=click.IntRange(1, 1024), help="How many at once; default: this machine's cores."
)
@click.option("--scheduler", default="", metavar="tcp://...", help="A Dask scheduler whose workers grade.")
@click.option(
    "--slurm", default="", metavar="queue=..,cores=..", help="Workers by Slurm, with these options."
)
@click.option(
    "--alike/--no-alike", default=True, help="List files that are alike, from part 3 on. Default: yes."
)
@click.option(
    "--trusted", is_flag=True, help="Also where kernels cannot be confined, as in a container of its own."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["gradescope", "prairielearn", "classroom50", "autolab", "junit"]),
    help="SOURCE is from one person: write the results as this system reads them, to standard output.",
)
@click.option(
    "--make",
    type=click.Choice(["gradescope", "prairielearn", "classroom", "autolab", "container"]),
    help="SOURCE is a file of rules: write in DIR what this system needs to grade by itself.",
)
def classroom(source, rules, target, workers, scheduler, slurm, alike, trusted, form, make) -> None:
    """For teachers: grade what a class handed in; SOURCE is a folder, a zip, or a CSV of paths."""
    from ..classroom import find, gradebook, setups
    from ..classroom.rules import read_rules

    target = target or Path(make or "graded")
    with ExitStack() as stack:
        course = whole_course(stack)
        if make:
            counted = map(course.load, read_rules(source, course).puzzles)
            names = [p.id + Path(p.file).suffix for p in counted]
            for path in setups.make(make, source, target, names):
                say(str(path))
            return
        worth = read_rules(rules, course)
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="backwarp-class-"))
        found = find.find(course, source, Path(scratch), bool(form))
        tasks = gradebook.tasks_of(found, worth, str(course.root), trusted)
        how = {"workers": workers or 0, "scheduler": scheduler, "slurm": slurm}
        if form:
            print_results(course, found, worth, tasks, form, how, Path(scratch))
        else:
            grade_class(course, found, worth, tasks, target, how, alike)


def whole_course(stack: ExitStack) -> Course:
    """The course with its solutions and hidden cases: this one, or else the installed package's."""
    from ..begin import packaged

    try:
        course, _ = the_course()
        if course.has_solutions:
            return course
    except CourseError:
        pass
    return stack.enter_context(packaged())


def print_results(course, found, worth, tasks, form, how, scratch) -> None:
    from ..classroom import formats, gradebook
    from ..classroom.engine import executor, graded
    from ..classroom.results import Results

    with executor(**how) as pool:
        known = graded(tasks, Results(scratch / "results.sqlite"), *pool)
    book = gradebook.gradebook(found, worth, str(course.root), known)
    print(formats.results(book, worth, form), end="")


def grade_class(course, found, worth, tasks, target, how, alike) -> None:
    from ..classroom import gradebook, write
    from ..classroom.engine import executor, graded
    from ..classroom.results import Results, is_temporary

    root, results = str(course.root), Results(write.folder(target) / "results.sqlite")
    say(f"{len(found.people)} people, {len(found.graded)} files to grade, {len(tasks)} gradings that differ")
    known = results.known(task.key for task in tasks)

    def look(done: int, of: int) -> None:
        write.overview(gradebook.gradebook(found, worth, root, known), course, target, done, of)

    try:
        with executor(**how) as pool, progress(look) as tell:
            graded(tasks, results, *pool, tell, known)
    except (KeyboardInterrupt, CourseError):
        say(f"{len(known)} of {len(tasks)} gradings are kept: the same command goes on from there", err=True)
        raise
    finally:
        results.close()
    book = gradebook.gradebook(found, worth, root, known)
    write.everything(book, course, target, compared(course, found) if alike else ())
    say(f"{target / 'index.html'}, gradebook.csv, and a page for each person in {target / 'people'}")
    if failed := [o for o in known.values() if is_temporary(o)]:
        say(
            f"{len(failed)} gradings failed, through no fault of the files; until you run this again they count as 0:",
            err=True,
        )
        say(f"  {failed[0]['lines'][0]}", err=True)
    if book.left:
        say(f"{len(book.left)} files are not graded: the overview says why")


def compared(course: Course, found: Found) -> list[Pair]:
    from ..classroom.alike import alike

    try:
        return alike(course, found)
    except CourseError as error:
        say(f"note: {error}", err=True)
        return []


@contextmanager
def progress(look: Callable[[int, int], None]) -> Iterator[Callable[[int, int], None]]:
    """On a terminal a bar with the rate and the time that is left; and now and then a new overview."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    due = 0.0
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task, start = bar.add_task("", total=None, rate=""), time.monotonic()

        def tell(done: int, of: int) -> None:
            nonlocal due
            rate = f"{done / max(time.monotonic() - start, 1e-3):.1f} a second" if done else ""
            bar.update(task, completed=done, total=of, rate=rate)
            if (begun := time.monotonic()) >= due and done < of:
                try:
                    look(done, of)
                except OSError as error:
                    raise CourseError(f"the overview cannot be written: {error.strerror}") from None
                due = begun + max(AGAIN, SHARE * (time.monotonic() - begun))

        yield tell
