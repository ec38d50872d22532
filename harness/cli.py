"""The verbs of the `backwarp` command. Exit status: 0 passed, 1 not passed, 2 usage or environment."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .errors import CourseError
from .process import as_process, silence_output
from .report.pictures import kinds

if TYPE_CHECKING:
    from .course.checkout import Course
    from .course.declare import Puzzle
    from .course.progress import Progress
    from .grading.verdict import Verdict

STATUS = "status of the verb"  # key in the click context's meta

# ---- what several verbs share ------------------------------------------------------------------------------

DEVICE = click.option(
    "--device", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", show_default=True
)
SEED = click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Seed of inputs, sizes and schedules; derived from the file's text by default.",
)


def solution_instead(verb: str):
    return click.option(
        "--solution", is_flag=True, help=f"{verb} the course's solution instead of your file."
    )


def file_instead(verb: str):
    return click.option(
        "--file", "path", type=click.Path(path_type=Path), help=f"{verb} this file instead of yours."
    )


def the_file(puzzle: Puzzle, path: Path | None, solution: bool) -> Path:
    """The file meant by the two."""
    if path is not None and solution:
        raise click.UsageError("--file and --solution exclude each other")
    return path or (puzzle.solution_path if solution else puzzle.stub_path)


def say(text: str = "", err: bool = False) -> None:
    """One line for the user."""
    print(text, file=sys.stderr if err else sys.stdout)


def the_course() -> tuple[Course, Progress]:
    from .course.checkout import open_course
    from .course.progress import Progress

    course = open_course()
    return course, Progress(course.root, lambda line: say(f"note: {line}", err=True))


# ---- verbs -----------------------------------------------------------------------------------------------


def show_version(context: click.Context, _, wanted: bool) -> None:
    """`--version`: the installed version, or that this is a checkout."""
    if not wanted:
        return
    from importlib import metadata

    try:
        say(f"backwarp {metadata.version('backwarp')}")
    except metadata.PackageNotFoundError:
        say(f"backwarp, not installed, from {Path(__file__).resolve().parent.parent}")
    context.exit()


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="The version."
)
@click.pass_context
def cli(context: click.Context) -> None:
    """A course: write the convolution backward pass in CUDA. Without a verb, shows where you are and what is next."""
    if context.invoked_subcommand is None:
        from .report.overview import where_you_are

        for line in where_you_are(*the_course()):
            say(line)


@cli.command("list")
def list_puzzles() -> None:
    """List the puzzles with your progress."""
    from .report.overview import ladder
    from .report.text import terminal_width

    for line in ladder(*the_course(), terminal_width(sys.stdout)):
        say(line)


@cli.command()
@click.argument("ids", metavar="[ID...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every puzzle.")
@solution_instead("Grade")
@file_instead("Grade")
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
    help="Look for one change that makes a wrong kernel right, for at most 5 seconds. Default: yes, for one ID.",
)
@click.pass_context
def grade(context, ids, everything, solution, path, device, seed, json_path, html_path, repair) -> None:
    """Grade your kernels: puzzle ID (09, 9 or a part of the name), several, or --all."""
    if path is not None and (solution or everything or len(ids) != 1):
        raise click.UsageError("--file goes with exactly one ID, and not with --solution or --all")
    if everything and ids:
        raise click.UsageError("--all grades every puzzle; leave the IDs out")
    course, progress = the_course()
    chosen = chosen_ids(course, progress, ids, everything)
    from .grading.grade import Options, grade_file
    from .report.overview import debrief
    from .report.text import show_text
    from .report.ticker import Ticker

    for target in (json_path, html_path):
        if target and target != "-" and not Path(target).absolute().parent.is_dir():
            raise CourseError(f"{target} cannot be written: there is no folder {Path(target).parent}")
    verdicts = []
    for puzzle in map(course.load, chosen):
        source = the_file(puzzle, path, solution)
        with Ticker() as tell:
            verdict = grade_file(puzzle, source, Options(device, seed, tell))
        own, before = (
            os.path.realpath(source) == os.path.realpath(puzzle.stub_path),
            progress.entry(puzzle.id).solved,
        )
        if own:
            progress.record(verdict)
        if own and verdict.passed:
            verdict.next = what_next(course, progress)
        verdicts.append(verdict)
        context.meta[STATUS] = max(v.exit_status for v in verdicts)
        searched = repair and len(chosen) == 1 and verdict.is_runnable and not puzzle.program
        if json_path != "-":
            present(verdict, len(chosen) > 1, more=searched)
            if own and verdict.passed and not before and len(chosen) == 1:
                show_text(debrief(puzzle))
        if searched:
            look_for_repair(puzzle, source, verdict, progress, show=json_path != "-")
    if json_path != "-" and len(verdicts) > 1:
        say(f"{sum(v.passed for v in verdicts)} of {len(verdicts)} puzzles pass.")
    if json_path:
        from .report.json import dumps

        write(dumps(verdicts), json_path)
    if html_path:
        from .report.html import page

        write(
            page(verdicts, [course.load(v.puzzle) for v in verdicts], time.strftime("%Y-%m-%d %H:%M")),
            html_path,
        )


def look_for_repair(puzzle: Puzzle, path: Path, verdict: Verdict, progress: Progress, show: bool) -> None:
    """Fills in the repair of a wrong kernel, says where it is, and keeps it for hints."""
    from .grading.repair import search, telling
    from .report.ticker import Ticker

    with Ticker(delay=0.0) as tell:
        search.look(puzzle, path, verdict, tell=tell)
    if path.resolve() == puzzle.stub_path.resolve():
        progress.keep_repair(verdict)
    if verdict.repair and show:
        say(f"  {telling.where(verdict.repair, verdict.case_total)}")
        sys.stdout.flush()


def chosen_ids(course: Course, progress: Progress, ids: tuple[str, ...], everything: bool) -> list[str]:
    """The puzzles to grade; without any, the next one."""
    if everything:
        return list(course.ids())
    if ids:
        return list(dict.fromkeys(course.resolve(i) for i in ids))
    upcoming = progress.next_of(course.ids())
    if upcoming is None:
        raise CourseError("every puzzle is solved; name the one to grade, or use --all")
    return [upcoming]


def what_next(course: Course, progress: Progress) -> str:
    upcoming = progress.next_of(course.ids())
    return f"read puzzles/{upcoming}/README.md" if upcoming else ""


def present(verdict: Verdict, brief: bool = False, more: bool = False) -> None:
    """The report on one file; with several files (`brief`), an untouched stub gets one line. more: a line may follow."""
    from .report.text import MOST_LINES, show_verdict

    show_verdict(verdict, brief=brief and verdict.kind == "untouched", most=MOST_LINES - more)
    sys.stdout.flush()


def write(text: str, path: str) -> None:
    """To a file, or to standard output for -."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as e:
        raise CourseError(f"{path} cannot be written: {e.strerror}") from None


@cli.command()
@click.argument("puzzle_id", metavar="ID")
@click.argument("number", type=click.IntRange(min=1), required=False)
def hint(puzzle_id: str, number: int | None) -> None:
    """Show the next hint for a puzzle, or hint NUMBER."""
    course, progress = the_course()
    puzzle = course.load(puzzle_id)
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
    from .report.text import show_text

    show_text(puzzle.hints[show - 1].splitlines())
    if number is None and seen >= total:
        say(f"That was the last hint; there are no more. The lesson is puzzles/{puzzle.id}/README.md")


def hint_of_repair(puzzle: Puzzle, progress: Progress) -> bool:
    """Shows the next hint about the one change that makes the file right, if one is known of the file as it is."""
    from .grading.repair import telling
    from .report.text import body_lines, show, terminal_width

    level, paragraphs = telling.next_hint(puzzle, progress)
    if paragraphs:
        say(f"{puzzle.id}, hint {level} of {telling.LEVELS} about your file")
        show([line for text in paragraphs for line in body_lines(text, terminal_width(sys.stdout))])
    return bool(paragraphs)


@cli.command()
@click.argument("puzzle_id", metavar="[ID]", required=False)
@DEVICE
@SEED
@click.option("--poll", is_flag=True, help="Poll for changes, for file systems that do not report them.")
@click.pass_context
def watch(context, puzzle_id, device, seed, poll) -> None:
    """Grade on every save; keys for hints, pictures, counters and the next puzzle."""
    course, progress = the_course()
    wanted = puzzle_id or progress.next_of(course.ids()) or course.ids()[0]
    from .watch import Watcher

    context.meta[STATUS] = Watcher(course, progress, wanted, device, seed, poll).run()


@cli.command(epilog="\b\n" + kinds.listed())
@click.argument("puzzle_id", metavar="ID")
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
    from .course.progress import make_state_folder

    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    if target is None:
        target = course.root / ".backwarp" / f"{puzzle.id}.png"
        make_state_folder(target.parent)
    path = the_file(puzzle, None, solution)
    kinds.save_picture(puzzle, path, target, kind or "", kernel, case, block, thread)
    say(f"{target}")


@cli.command()
@click.argument("puzzle_id", metavar="ID")
@click.option("--force", is_flag=True, help="Even before the puzzle is solved; your progress records it.")
def solution(puzzle_id: str, force: bool) -> None:
    """Show the course's solution of a puzzle that you have solved."""
    course, progress = the_course()
    puzzle = course.load(puzzle_id)
    entry = progress.entry(puzzle.id)
    if not entry.solved and not force:
        raise CourseError(
            f"{puzzle.id} is not solved yet. `backwarp hint {puzzle.number}` helps; "
            "--force shows the solution anyway"
        )
    if not entry.solved:
        progress.update(puzzle.id, lambda e: setattr(e, "peeked", True))
    say(puzzle.solution_path.read_text(encoding="utf-8").rstrip())


@cli.command()
@click.argument("puzzle_id", metavar="ID")
@click.pass_context
def check(context: click.Context, puzzle_id: str) -> None:
    """For authors: does a puzzle hold what it declares?"""
    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    from .maintain.check import problems

    found = 0
    for problem in problems(puzzle):
        found += 1
        say(f"x {problem}")
    named = sum(bool(m.says) for m in puzzle.mistakes)
    if not found:
        say(
            f"{puzzle.id}: stub, solution, lesson and hints are in order, and all {len(puzzle.mistakes)} mistakes fail;"
        )
        say(f"{named} of them {'is' if named == 1 else 'are'} named by a sentence.")
    context.meta[STATUS] = int(found > 0)


@cli.command()
@click.argument("puzzle_id", metavar="ID")
def reset(puzzle_id: str) -> None:
    """Restore a puzzle's stub; your file is kept beside it."""
    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    from .course.reset import restore_stub

    say(restore_stub(puzzle))


@cli.command()
@click.option(
    "--kernels",
    type=click.Choice(["mine", "solutions"]),
    default="mine",
    show_default=True,
    help="mine: yours if the puzzle is solved, else the solution's.",
)
@click.option(
    "--data",
    type=click.Choice(["digits", "mnist"]),
    help="digits come with the course; mnist is downloaded once.  [default: digits]",
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Read MNIST's four IDX files from here.")
@click.option("--epochs", type=click.IntRange(min=1), help="[default: 30 for digits, 3 for mnist]")
@click.option("--batch", type=click.IntRange(min=1, max=4096), help="Images per step.  [default: 32]")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Seed of initial parameters, shuffling and shifts.  [default: 0]",
)
@DEVICE
@click.option(
    "--use", metavar="09=21", multiple=True, help="Use a later puzzle's kernels instead of an earlier one's."
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint of an interrupted run.")
@click.option(
    "--json",
    metavar="[PATH]",
    is_flag=False,
    flag_value="-",
    help="Also write the result as JSON, to standard output if PATH is - or left out.",
)
@click.option("-o", "--picture", type=click.Path(path_type=Path), help="Where to save the picture.")
@click.pass_context
def train(context, **options) -> None:
    """Train LeNet on your kernels."""
    course, progress = the_course()
    from .lenet.run import TrainOptions, main

    context.meta[STATUS] = main(course, progress, TrainOptions(**options))


class Sizes(click.ParamType):
    """`256`, `16,16` or `8x8x4`."""

    name = "X[,Y[,Z]]"

    def convert(self, value, param, ctx) -> tuple[int, ...]:
        parts = value.replace("x", ",").split(",")
        if not 1 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
            self.fail(f"{value} is not one to three sizes, such as 256 or 16,16", param, ctx)
        return tuple(map(int, parts))


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("kernel", default="")
@click.option("--grid", type=Sizes(), default="1", show_default=True, help="Blocks.")
@click.option("--block", type=Sizes(), default="32", show_default=True, help="Threads of a block.")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="zeros:1024, ones:3x5:float32, empty:SHAPE, arange:SHAPE, random:SHAPE[:DTYPE[:SEED]], FILE.npy or a number.",
)
@click.option(
    "--constant",
    "constants",
    multiple=True,
    metavar="NAME=VALUE",
    help="Fill a __constant__ or __device__ variable.",
)
@click.option("-D", "macros", multiple=True, metavar="NAME[=VALUE]", help="Define a macro.")
@click.option("--shared", type=click.IntRange(0), default=0, help="Bytes of dynamic shared memory.")
@click.option(
    "--include", "folders", multiple=True, type=click.Path(path_type=Path), help="Where headers may be."
)
@DEVICE
@click.option("--seed", default=0, help="Of the order of warps and blocks.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=60.0, show_default=True, help="After which it is ended."
)
@click.option(
    "--count/--no-count", default=True, help="Whether to count memory accesses and operations per line."
)
@click.option(
    "--save",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the arrays to DIR/NAME.npy.",
)
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@click.pass_context
def run(context, device, folder, as_json, **asked) -> None:
    """Run any kernel of a .cu file, with all checks. KERNEL: its name, or 'tile<16>' for a template."""
    from .run import Asked, run_file, save

    done = run_file(Asked(**asked), device)
    context.meta[STATUS] = int(bool(done.fault or done.errors))
    if folder:
        save(done, folder)
    from .report.run import document, show_run

    if as_json:
        from .report.json import text_of

        write(text_of(document(done)), "-")
    else:
        show_run(done)


@cli.command()
@click.argument("puzzle_id", metavar="ID")
@solution_instead("Count")
@file_instead("Count")
@click.option("--case", metavar="NAME", default="", help="The case to run; default: each kernel's largest.")
@click.option("--metrics", is_flag=True, help="Also every counter, with its name in Nsight Compute.")
@click.option("--json", "as_json", is_flag=True, help="All counts as JSON.")
@click.pass_context
def profile(context, puzzle_id, solution, path, case, metrics, as_json) -> None:
    """Count per source line: memory transactions, bank conflicts, operations, divergence."""
    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    from .measure.profile import document, profile_file

    found = profile_file(puzzle, the_file(puzzle, path, solution), case)
    context.meta[STATUS] = found.verdict.exit_status
    if as_json:
        from .report.json import text_of

        write(text_of(document(found)), "-")
        return
    if not found.kernels:
        present(found.verdict)
        return
    from .report.profile import show_profile

    show_profile(found, metrics=metrics)


@cli.command()
@click.argument("puzzle_id", metavar="ID")
@click.option(
    "--shape",
    metavar="N=..,C=..",
    default="",
    help="As N=128,C=128,H=71,W=71,K=256,R=3,S=3,stride=2,pad=1 "
    "(1-D: no H, R; 3-D: also D, T) or M=..,N=..,K=..; default: the puzzle's big case.",
)
@click.option(
    "--init", type=click.Choice(["zeros", "integer", "normal"]), default="normal", show_default=True
)
@click.option(
    "--verify/--no-verify", default=None, help="Compare the results; by default only if that is quick."
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Number of timed launches on a GPU.",
)
@solution_instead("Run")
@file_instead("Run")
@DEVICE
@click.option(
    "--gpu",
    metavar="NAME",
    default="H200",
    show_default=True,
    help="Without a GPU: the GPU to state the bound for.",
)
@click.option(
    "--json", "json_path", metavar="PATH", help="Also write the figures as JSON; - is standard output."
)
@click.pass_context
def bench(context, puzzle_id, solution, path, json_path, **settings) -> None:
    """Run your kernel on a big case: on a GPU its time next to cuDNN's, without one its counts."""
    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    from .measure.bench import BenchOptions
    from .measure.bench import bench as measure
    from .report.bench import document, show_bench

    report = measure(puzzle, the_file(puzzle, path, solution), BenchOptions(**settings))
    context.meta[STATUS] = report.verdict.exit_status
    if json_path != "-":
        show_bench(report)
    if json_path:
        from .report.json import text_of

        write(text_of(document(report)), json_path)


@cli.command()
@click.pass_context
def doctor(context) -> None:
    """Report what this machine can do, and what to install for the rest."""
    from . import doctor as checkup

    context.meta[STATUS] = checkup.main() or 0


def main(arguments: list[str] | None = None) -> None:
    """The command `backwarp`: runs a verb and exits."""
    as_process(lambda: run_verb(list(sys.argv[1:] if arguments is None else arguments)))


def run_verb(arguments: list[str]) -> int:
    """Runs one verb; its exit status."""
    with cli.make_context("backwarp", arguments) as context:
        try:
            cli.invoke(context)
        except BrokenPipeError:  # the reader closed the pipe; the verdict still counts
            silence_output()
        return context.meta.get(STATUS, 0)
