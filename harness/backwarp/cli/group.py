"""The command group, and what several verbs share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import CHECKOUT, PACKAGE
from ..errors import CourseError

if TYPE_CHECKING:
    from ..course.checkout import Course
    from ..course.declare import Puzzle
    from ..course.progress import Progress
    from ..grading.verdict import Verdict

STATUS = "status of the verb"  # key in the click context's meta

DEVICE = click.option(
    "--device", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", show_default=True
)
SEED = click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Seed of inputs, sizes and schedules; derived from the file's text by default.",
)


def puzzle_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """For a shell: the puzzles whose id or number starts so."""
    from ..course.checkout import open_course

    try:
        return [i for i in open_course().ids() if i.startswith(incomplete)]
    except CourseError:
        return []


def solution_instead(verb: str):
    return click.option(
        "--solution", is_flag=True, help=f"{verb} the course's solution instead of your file."
    )


def file_instead(verb: str):
    return click.option(
        "--file", "path", type=click.Path(path_type=Path), help=f"{verb} this file instead of yours."
    )


def the_file(puzzle: Puzzle, path: Path | None, solution: bool) -> Path:
    """The file to use: --file, the solution, or the student's. Errors: CourseError for a link out of its project."""
    if path is not None and solution:
        raise click.UsageError("--file and --solution exclude each other")
    if path is not None:
        from ..course.checkout import require_no_link_out

        require_no_link_out(path)
    return path or (puzzle.solution_path if solution else puzzle.stub_path)


def say(text: str = "", err: bool = False) -> None:
    """One line for the user."""
    print(text, file=sys.stderr if err else sys.stdout)


def the_course() -> tuple[Course, Progress]:
    from ..course.checkout import open_course
    from ..course.progress import Progress

    course = open_course()
    return course, Progress(course.root, lambda line: say(f"note: {line}", err=True))


def current(course: Course, progress: Progress) -> str:
    """The next puzzle. Errors: CourseError if there is none."""
    upcoming = progress.next_of(course.ids())
    if upcoming is None:
        raise CourseError("every puzzle is solved: name one")
    return upcoming


def present(verdict: Verdict, brief: bool = False) -> None:
    """The report on one file; with several files (`brief`), an untouched stub gets one line."""
    from ..report.text import show_verdict

    show_verdict(verdict, brief=brief and verdict.kind == "untouched")
    sys.stdout.flush()


def show_version(context: click.Context, _, wanted: bool) -> None:
    """`--version`: the installed version, or a note that this is a checkout."""
    if not wanted:
        return
    from importlib import metadata

    try:
        say(f"backwarp {metadata.version('backwarp')}")
    except metadata.PackageNotFoundError:
        say(f"backwarp, not installed, from {CHECKOUT or PACKAGE}")
    context.exit()


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="The version."
)
@click.pass_context
def cli(context: click.Context) -> None:
    """A course: write the convolution backward pass in CUDA. Without a verb, shows where you are and what is next."""
    if context.invoked_subcommand is None:
        from ..report.overview import where_you_are

        for line in where_you_are(*the_course()):
            say(line)
