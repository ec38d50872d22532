"""The verb for teachers: `backwarp class`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import CourseError
from .group import cli, say, the_course

if TYPE_CHECKING:
    from ..classroom.alike import Pair
    from ..classroom.find import Found
    from ..course.checkout import Course

AGAIN = 5.0  # seconds between two overviews while gradings run


@cli.command("class")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--rules", metavar="FILE.toml", type=click.Path(path_type=Path), help="Points, deadline, seed.")
@click.option(
    "-o",
    "target",
    metavar="DIR",
    default="graded",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Output.",
)
@click.option(
    "--workers", type=click.IntRange(1, 1024), help="How many at once; default: the cores of this machine."
)
@click.option("--scheduler", default="", metavar="tcp://...", help="A Dask scheduler whose workers grade.")
@click.option(
    "--alike/--no-alike", default=True, help="List files that are alike, from part 3 on. Default: yes."
)
@click.option(
    "--slurm", default="", metavar="queue=..,cores=..", help="Start workers by Slurm, with these options."
)
def classroom(
    source: Path,
    rules: Path | None,
    target: Path,
    workers: int | None,
    scheduler: str,
    alike: bool,
    slurm: str,
) -> None:
    """For teachers: grade what a class handed in; SOURCE is a folder, a zip, or a CSV of paths."""
    from ..classroom import find, gradebook, write
    from ..classroom.engine import executor, graded
    from ..classroom.results import Results
    from ..classroom.rules import read_rules

    course, _ = the_course()
    worth = read_rules(rules, course)
    options = dict(pair.split("=", 1) for pair in slurm.split(",") if "=" in pair)
    with tempfile.TemporaryDirectory(prefix="backwarp-class-") as scratch:
        found = find.find(course, source, Path(scratch))
    root, results = str(course.root), Results(write.folder(target) / "results.sqlite")
    tasks = gradebook.tasks_of(found, worth, root)
    say(f"{len(found.people)} people, {len(found.graded)} files to grade, {len(tasks)} gradings that differ")
    known = results.known(task.key for task in tasks)

    def look(done: int, of: int) -> None:
        write.overview(gradebook.gradebook(found, worth, root, known), target, done, of)

    with executor(workers or 0, scheduler, options) as (pool, at_once), progress(look) as tell:
        known = graded(tasks, results, pool, at_once, tell, known)
    results.close()
    book = gradebook.gradebook(found, worth, root, known)
    write.everything(book, course, target, compared(course, found) if alike else ())
    say(f"{target / 'index.html'}, gradebook.csv, and a page for each person in {target / 'people'}")
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

    last = 0.0
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task, start = bar.add_task("", total=None, rate=""), time.monotonic()

        def tell(done: int, of: int) -> None:
            nonlocal last
            rate = f"{done / max(time.monotonic() - start, 1e-3):.1f} a second" if done else ""
            bar.update(task, completed=done, total=of, rate=rate)
            if time.monotonic() - last > AGAIN and done < of:
                last = time.monotonic()
                try:
                    look(done, of)
                except OSError as error:
                    raise CourseError(f"the overview cannot be written: {error.strerror}") from None

        yield tell
