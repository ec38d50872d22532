"""Verbs around a puzzle: the list, hints, watch, pictures, solutions, and what keeps a course in order."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import CourseError
from ..report.pictures import kinds
from .group import DEVICE, SEED, STATUS, cli, current, puzzle_ids, say, solution_instead, the_course, the_file

if TYPE_CHECKING:
    from ..course.declare import Puzzle
    from ..course.progress import Progress


@cli.command()
@click.argument("target", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@click.option("--with-solutions", "solutions", is_flag=True, help="For teachers; asks twice.")
def init(target: Path, solutions: bool) -> None:
    """Make a course in a new folder, or bring one up to date: what you have changed in it stays as it is."""
    if solutions:
        click.confirm("The solutions of all puzzles, in plain sight. Do you teach this course?", abort=True)
        click.confirm("And nobody who takes it can read this folder?", abort=True)
    from ..begin import begin

    begun = begin(target, solutions)
    counts = f"{len(begun.new)} files new, {len(begun.updated)} brought up to date, {len(begun.kept)} kept as yours"
    say(f"{begun.root}: {counts}")
    for name in begun.kept[:10]:
        say(f"  yours: {name}")
    if begun.new and target != Path("."):
        say(f"Next: cd {shlex.quote(str(target))} && backwarp")


@cli.command("list")
def list_puzzles() -> None:
    """List the puzzles with your progress."""
    from ..report.overview import ladder
    from ..report.terminal import terminal_width

    for line in ladder(*the_course(), terminal_width(sys.stdout)):
        say(line)


@cli.command()
@click.argument("puzzle_id", metavar="[ID]", required=False, shell_complete=puzzle_ids)
@click.argument("number", type=click.IntRange(min=1), required=False)
def hint(puzzle_id: str | None, number: int | None) -> None:
    """Show the next hint for a puzzle, by default the one you are at, or hint NUMBER."""
    course, progress = the_course()
    puzzle = course.load(puzzle_id or current(course, progress))
    if number is None and hint_of_repair(puzzle, progress):
        return
    total = len(puzzle.hints)
    if not total:
        raise CourseError(f"{puzzle.id} has no hints; its lesson is puzzles/{puzzle.id}/README.md")
    if number is not None and number > total:
        raise CourseError(f"{puzzle.id} has {total} hints; there is no hint {number}")
    seen = progress.entry(puzzle.id).hints
    show = number or min(seen + 1, total)
    if show > seen:
        progress.update(puzzle.id, lambda entry: setattr(entry, "hints", max(entry.hints, show)))
    say(f"{puzzle.id}, hint {show} of {total}")
    from ..report.terminal import show_text

    show_text(puzzle.hints[show - 1].splitlines())
    if number is None and seen >= total:
        say(f"That was the last hint. The lesson is puzzles/{puzzle.id}/README.md")


def hint_of_repair(puzzle: Puzzle, progress: Progress) -> bool:
    """Shows the next hint about the change that fixes the file, if one is known for its current text."""
    from ..grading.repair import telling
    from ..report.terminal import body_lines, show, terminal_width

    level, paragraphs = telling.next_hint(puzzle, progress, puzzle.stub_path)
    if paragraphs:
        say(f"{puzzle.id}, hint {level} of {telling.LEVELS} about your file")
        show([line for text in paragraphs for line in body_lines(text, terminal_width(sys.stdout))])
    return bool(paragraphs)


@cli.command()
@click.argument("puzzle_id", metavar="[ID]", required=False, shell_complete=puzzle_ids)
@DEVICE
@SEED
@click.option("--poll", is_flag=True, help="Poll for changes, for file systems that do not report them.")
@click.pass_context
def watch(context, puzzle_id, device, seed, poll) -> None:
    """Grade on every save; keys for hints, pictures, counters and the next puzzle."""
    course, progress = the_course()
    wanted = puzzle_id or progress.next_of(course.ids()) or course.ids()[0]
    from ..watch import Watcher

    context.meta[STATUS] = Watcher(course, progress, wanted, device, seed, poll).run()


@cli.command(epilog="\b\n" + kinds.listed())
@click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids)
@click.option(
    "--kind",
    metavar="NAME",
    type=click.Choice(list(kinds.KINDS)),
    default=None,
    help="See below. Default: the race if your kernel has one, else access.",
)
@click.option("--kernel", metavar="NAME", default="", help="If the puzzle has several; default: the first.")
@click.option("--case", metavar="NAME", default="", help="Default: the smallest.")
@click.option("--thread", metavar="X,Y", default="", help="Thread within its block, or all; default 1,0.")
@click.option("--block", metavar="X,Y", default="", help="Default 0,0.")
@solution_instead("Draw")
@click.option(
    "-o",
    "target",
    type=click.Path(path_type=Path),
    help="A .png, .svg or .pdf file, or .gif if the picture moves.",
)
def picture(puzzle_id, kind, kernel, case, thread, block, solution, target) -> None:
    """Draw what your kernel does, found by running it: what one thread reads and writes, and more."""
    from ..course.progress import make_state_folder

    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    if target is None:
        target = course.root / ".backwarp" / f"{puzzle.id}.png"
        make_state_folder(target.parent)
    path = the_file(puzzle, None, solution)
    kinds.save_picture(puzzle, path, target, kind or "", kernel, case, block, thread)
    say(f"{target}")


@cli.command()
@click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids)
@click.option("--force", is_flag=True, help="Even before the puzzle is solved; your progress records it.")
def solution(puzzle_id: str, force: bool) -> None:
    """Show the course's solution of a puzzle that you have solved."""
    course, progress = the_course()
    puzzle = course.load(puzzle_id)
    entry, path = progress.entry(puzzle.id), puzzle.solution_path
    if not entry.solved and not force:
        raise CourseError(
            f"{puzzle.id} is not solved yet. `backwarp hint {puzzle.number}` helps; "
            "--force shows the solution anyway"
        )
    if not entry.solved:
        progress.update(puzzle.id, lambda e: setattr(e, "peeked", True))
    say(path.read_text(encoding="utf-8").rstrip())


@cli.command()
@click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids)
@click.pass_context
def check(context: click.Context, puzzle_id: str) -> None:
    """For authors: check that a puzzle does what it declares."""
    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    from ..maintain.check import problems

    found = 0
    for problem in problems(puzzle):
        found += 1
        say(f"x {problem}")
    if not found:
        say(f"{puzzle.id}: stub, solution, lesson and hints are in order, and all mistakes fail: the")
        say(f"{len(puzzle.mistakes)} declared ones, and the solution's mutants.")
    context.meta[STATUS] = int(found > 0)


@cli.command()
@click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids)
def reset(puzzle_id: str) -> None:
    """Restore a puzzle's stub; your file is kept beside it."""
    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    from ..course.reset import restore_stub

    say(restore_stub(puzzle))


@cli.command()
@click.pass_context
def doctor(context) -> None:
    """Report what this machine can do, and what to install for the rest."""
    from .. import doctor as checkup

    context.meta[STATUS] = checkup.main() or 0


@cli.command()
@click.option(
    "--cuda",
    "program",
    metavar="FILE.cu",
    type=click.Path(path_type=Path),
    help="LeNet as a program for nvcc.",
)
@click.option("--solutions", is_flag=True, help="With --cuda: on the course's own kernels.")
@click.option(
    "--student", "target", metavar="DIR", type=click.Path(path_type=Path), help="For teachers: a new folder."
)
def export(program: Path | None, solutions: bool, target: Path | None) -> None:
    """LeNet's training on your kernels as a program for nvcc; or a copy of the course without its solutions."""
    if (program is None) == (target is None):
        raise click.UsageError("export takes either --cuda FILE.cu or --student DIR")
    course, _ = the_course()
    if program is not None:
        from ..lenet import host_program

        made = host_program.export(course, program, solutions)
        say(f"written: {' and '.join(map(str, made))}; the first lines say how to build it")
        return
    from ..maintain import export as exporting

    count = exporting.export(course, target)
    say(f"{target}: {count} files, without solutions, mistakes, hidden cases and tests")


@cli.command()
@click.argument("target", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--animations/--no-animations", default=True, help="Moving pictures take a minute. Default: yes."
)
def book(target: Path | None, animations: bool) -> None:
    """For teachers: the lessons and notebooks as a web site with search, in DIR (build/book)."""
    from ..maintain import book as binding
    from ..report.ticker import Ticker

    course, _ = the_course()
    if target is None:
        target = course.root / "build" / "book"
        target.parent.mkdir(exist_ok=True)
    with Ticker() as tell:
        warnings = binding.book(course, target, animations, tell)
    for line in warnings:
        say(f"note: {line}", err=True)
    say(f"{target / 'index.html'}")
