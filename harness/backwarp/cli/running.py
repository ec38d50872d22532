"""Verbs that run kernels for their results and figures: train, run, profile, sweep, bench."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import CourseError
from ..process import write
from .group import (
    DEVICE,
    STATUS,
    cli,
    file_instead,
    present,
    puzzle_ids,
    solution_instead,
    the_course,
    the_file,
)

if TYPE_CHECKING:
    from ..grading.recorded import Recorded


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
    from ..lenet.run import TrainOptions, main

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
    help="zeros:1024, ones:3x5:float32, empty:SHAPE, arange:SHAPE, random:SHAPE[:DTYPE[:SEED]], FILE.npy or a number; "
    "null; '{3, 4}' or bytes:HEX for a struct; '[zeros:8; ones:8]' for an array of pointers; "
    "texture[,linear][,border]:ARRAY, surface:ARRAY.",
)
@click.option(
    "--constant",
    "constants",
    multiple=True,
    metavar="NAME=VALUE",
    help="Fill a __constant__ or __device__ variable.",
)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME=VALUE",
    help="What an array is to hold afterwards: FILE.npy, or an expression of the arguments, as y=a*x+y.",
)
@click.option("-D", "macros", multiple=True, metavar="NAME[=VALUE]", help="Define a macro.")
@click.option(
    "--cluster", type=Sizes(), default=None, help="Blocks of a cluster, where the source does not say it."
)
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
    "--once",
    is_flag=True,
    help="Run in one order of threads only, also where they read what others change; do not compare results.",
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
    from ..run import Asked, run_file, save

    done = run_file(Asked(**asked), device)
    context.meta[STATUS] = int(bool(done.fault or done.errors or done.differences))
    if folder:
        save(done, folder)
    from ..report.run import document, show_run

    if as_json:
        from ..report.json import text_of

        write(text_of(document(done)), "-")
    else:
        show_run(done)


@cli.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--checks",
    type=click.Choice(["auto", "full", "memory"]),
    default="auto",
    show_default=True,
    help="full: also races and values that were never written; memory: faster; auto: full for some seconds of each kernel.",
)
@click.option(
    "--time-limit",
    "seconds",
    type=click.FloatRange(0.1),
    default=60.0,
    show_default=True,
    help="Seconds after which the program is ended.",
)
@click.option(
    "--write",
    "writable",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder that the program may write to; it may read the current one.",
)
@click.option("-D", "macros", multiple=True, metavar="NAME[=VALUE]", help="Define a macro.")
@click.option(
    "--include", "folders", multiple=True, type=click.Path(path_type=Path), help="Where headers may be."
)
@click.option(
    "--host-memory", "guard", is_flag=True, help="Notice what the host writes past the end of malloc and new."
)
@click.option("--json", "path", metavar="PATH", help="Also write what was found as JSON.")
@click.option(
    "--sarif",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Add what was found to FILE, in SARIF, for code scanning.",
)
@click.option(
    "--timeline",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw when copies and kernels run, as FILE.svg or .png, and as text. Kernels are then counted, not checked for races.",
)
@click.option(
    "--card",
    default="A100",
    show_default=True,
    help="The card whose data sheet a timeline takes: A100, H100 or H200.",
)
@click.pass_context
def execute(context, path, sarif, timeline, card, **asked) -> None:
    """Run a whole CUDA program, with its main, and name its mistakes. The exit status is its own; 3 if a mistake was named."""
    from ..measure.peaks import named
    from ..programs.model import Model
    from ..programs.run import Asked, run_program
    from ..report.program import document, faults, show_outcome, show_timeline
    from ..report.sarif import add_to, annotation
    from ..report.ticker import Ticker

    if timeline and timeline.suffix not in (".svg", ".png"):
        raise CourseError(f"{timeline}: a timeline is a .svg or .png file")
    own = {name for option in context.command.params for name in option.opts if name.startswith("--")}
    if asked["arguments"][:1] == ("--",):
        asked["arguments"] = asked["arguments"][1:]
    elif given := own.intersection(word.partition("=")[0] for word in asked["arguments"]):
        told = f"Note: {min(given)} stands behind the file, so it goes to the program; options of backwarp come before the file."
        click.echo(told, err=True)
    asked = Asked(**asked, model=Model(named(card)) if timeline else None)
    with Ticker() as tell:
        done = run_program(asked, tell)
    context.meta[STATUS] = done.exit_status
    show_outcome(done, asked)
    if sarif:
        add_to(sarif, found := faults(done, asked))
        for fault in found if os.environ.get("GITHUB_ACTIONS") == "true" else ():
            print(annotation(fault))
    if timeline and not done.error:
        show_timeline(done, asked, timeline)
    if path:
        from ..report.json import text_of

        write(text_of(document(done, asked)), path)


@cli.command()
@click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids)
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
    from ..measure.profile import document, profile_file

    found = profile_file(puzzle, the_file(puzzle, path, solution), case)
    context.meta[STATUS] = found.verdict.exit_status
    if as_json:
        from ..report.json import text_of

        write(text_of(document(found)), "-")
        return
    if not found.kernels:
        present(found.verdict)
        return
    from ..report.profile import show_profile

    show_profile(found, metrics=metrics)


def of_a_run(verb: str):
    """The argument and options that say which run is recorded."""
    options = (
        click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids),
        solution_instead(verb),
        file_instead(verb),
        click.option(
            "--case", metavar="NAME", default="", help="Default: the smallest that fails, else the smallest."
        ),
        click.option(
            "--kernel", metavar="NAME", default="", help="Default: the first that fails, else the first."
        ),
    )
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def recorded_run(puzzle_id: str, solution: bool, path: Path | None, tell: Callable, **how) -> Recorded:
    """The run that `of_a_run` asks for; how: as record_file."""
    from ..grading.recorded import record_file

    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    tell("the kernel runs and is recorded")
    return record_file(puzzle, the_file(puzzle, path, solution), **how)


@cli.command()
@of_a_run("Step through")
@click.option(
    "--to",
    metavar="fault|LINE|ELEMENT",
    default="",
    help="Begin there; of an element such as 'out[1,2]', its last write.  [default: the fault, or what is wrong]",
)
@click.option("--thread", type=Sizes(), default=None, help="Begin with this thread.")
@click.option("--block", type=Sizes(), default=None, help="Record this block alone, and begin in it.")
@click.option(
    "--break",
    "stops",
    metavar="LINE[:CONDITION]",
    multiple=True,
    help="Stop where a thread comes to a line, as 38 or '38:q == 1'; begin at the first such place.",
)
@click.option(
    "--watch", metavar="ELEMENT", default="", help="Follow what happens to an element, as 'tile[1,2]'."
)
@click.option(
    "--print",
    "count",
    metavar="[N]",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=8,
    default=None,
    help="As text: N lines of the thread, and as many accesses of the element.  [default: 8, if the output is no terminal]",
)
def step(puzzle_id, solution, path, case, kernel, to, thread, block, stops, watch, count) -> None:
    """Go through a run of your kernel line by line, forth and back: a failing one, if there is one."""
    from ..report.step import text
    from ..report.terminal import show
    from ..report.ticker import Ticker
    from ..step import begin, interact

    with Ticker() as tell:
        recorded = recorded_run(puzzle_id, solution, path, tell, case=case, kernel=kernel, block=block or ())
    session = begin(recorded, to, thread or (), block or (), watch, stops)
    if count or not (sys.stdout.isatty() and sys.stdin.isatty()):
        show(text(recorded, session, count or 8))
    else:
        interact(recorded, session)


@cli.command()
@of_a_run("Trace")
@click.option(
    "--element",
    metavar="INDEX",
    default="",
    help="As h=1,w=0, or 'grad_weights[0,0,1,2]' where a kernel has several outputs.  [default: the first that is wrong]",
)
def trace(puzzle_id, solution, path, case, kernel, element) -> None:
    """List what an element of the output is the sum of, beside what belongs in it."""
    from ..report.terminal import show
    from ..report.ticker import Ticker
    from ..report.trace import lines_of
    from ..step import traced

    with Ticker() as tell:
        recorded = recorded_run(puzzle_id, solution, path, tell, case=case, kernel=kernel)
        tell("the terms are followed back")
        found = traced(recorded, element)
    show(lines_of(recorded, *found))


class Values(click.ParamType):
    """`BK=4,8,16`: a constant and the values to give it."""

    name = "NAME=VALUE,..."

    def convert(self, value, param, ctx) -> tuple[str, list[int]]:
        name, _, listed = value.partition("=")
        values = listed.split(",")
        if not name.isidentifier() or not all(v.isdecimal() and len(v) < 6 and int(v) for v in values):
            self.fail(f"{value} is not a constant with its values, such as BK=8,16", param, ctx)
        return name, list(dict.fromkeys(map(int, values)))


@cli.command()
@click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids)
@click.argument("values", nargs=-1, required=True, type=Values(), metavar="NAME=VALUE,...")
@solution_instead("Sweep")
@file_instead("Sweep")
@click.option(
    "-o", "target", type=click.Path(path_type=Path), help="Also draw it: a .png, .svg or .pdf file."
)
@click.option("--json", "as_json", is_flag=True, help="All counts as JSON.")
def sweep(puzzle_id, values, solution, path, target, as_json) -> None:
    """Count your kernel with other values of its constants, as BK=8,16 TM=4,8: which keep all limits."""
    if len(dict(values)) < len(values):
        raise click.UsageError("each constant is named once, with all its values: BK=8,16")
    course, _ = the_course()
    puzzle = course.load(puzzle_id)
    from ..measure.sweep import document
    from ..measure.sweep import sweep as measure
    from ..report.pictures.kinds import require_place, save
    from ..report.sweep import picture, show_sweep
    from ..report.ticker import Ticker

    if target:
        require_place(target, moving=False)
    with Ticker() as tell:
        rows = measure(puzzle, the_file(puzzle, path, solution), dict(values), tell)
    if target:
        save([picture(rows, puzzle.title)], target)
    if as_json:
        from ..report.json import text_of

        write(text_of(document(puzzle, rows)), "-")
    else:
        show_sweep(rows)
        if target:
            print(target)


@cli.command()
@click.argument("puzzle_id", metavar="ID", shell_complete=puzzle_ids)
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
    from ..measure.bench import BenchOptions
    from ..measure.bench import bench as measure
    from ..report.bench import document, show_bench

    report = measure(puzzle, the_file(puzzle, path, solution), BenchOptions(**settings))
    context.meta[STATUS] = report.verdict.exit_status
    if json_path != "-":
        show_bench(report)
    if json_path:
        from ..report.json import text_of

        write(text_of(document(report)), json_path)
