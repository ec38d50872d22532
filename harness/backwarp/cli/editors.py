"""`backwarp dap`, which editors start."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import CourseError
from .group import STATUS, cli, say, the_file
from .running import recorded_run, run, step

if TYPE_CHECKING:
    from ..dap.adapter import Started


@cli.command()
@click.option(
    "--vscode",
    "target",
    metavar="[FILE]",
    type=click.Path(path_type=Path),
    is_flag=False,
    flag_value="backwarp.vsix",
    help="Write the extension for VS Code.  [default: backwarp.vsix]",
)
@click.pass_context
def dap(context, target) -> None:
    """For editors: step through a kernel there, by the Debug Adapter Protocol over standard input and output."""
    if target:
        from ..dap.extension import write_extension

        write_extension(target)
        say(f"{target} is written: `code --install-extension {target}` installs it")
    elif sys.stdin.isatty():
        raise click.UsageError(
            "an editor starts this; .github/EDITORS.md says how, --vscode makes an extension"
        )
    else:
        from ..dap.adapter import serve

        context.meta[STATUS] = serve(started)


def started(asked: dict) -> Started:
    """Records the run that `launch` asks for. "file" or "puzzle"; "args": those of `backwarp step`, or, if the file is not of a
    puzzle, of `backwarp run`; "cwd": the course's folder, where no file says it. Errors: BackwarpError."""
    puzzle, file, words = asked.get("puzzle") or "", asked.get("file") or "", asked.get("args") or []
    where = asked.get("cwd") or ""
    if not all(isinstance(each, str) for each in (puzzle, file, where)):
        raise CourseError("puzzle, file and cwd must be texts")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise CourseError('args must be a list of texts, as ["--case", "tiny"]')
    if "\0" in "".join((puzzle, file, where, *words)):
        raise CourseError("a text has a zero byte")
    if not puzzle and not file:
        raise CourseError("launch needs a file or a puzzle")
    try:
        path = Path(file).absolute()
        os.chdir(path.parent if file else where or ".")
    except (OSError, ValueError) as error:
        raise CourseError(f"{file or where}: {getattr(error, 'strerror', error)}") from None
    puzzle = puzzle or _puzzle_of(path)
    try:
        if puzzle:
            return _of_puzzle(
                step.make_context("step", [puzzle, *(["--file", str(path)] if file else []), *words]).params
            )
        return _of_file(run.make_context("run", [str(path), *words]).params)
    except click.ClickException as error:
        raise CourseError(error.format_message()) from None
    except click.exceptions.Exit:
        raise CourseError(f"args are those of `backwarp {'step' if puzzle else 'run'}`") from None


def _puzzle_of(path: Path) -> str:
    """The puzzle in whose folder a file is, or ""."""
    from ..course.checkout import open_course

    try:
        course = open_course(path.parent)
        top, name = path.resolve().relative_to(course.root).parts[:2]
    except (CourseError, ValueError):
        return ""
    return name if top in ("puzzles", "solutions") and name in course.ids() else ""


def _of_puzzle(params: dict) -> Started:
    from ..dap.adapter import Started
    from ..step import begin

    block, path = params["block"] or (), params["path"]
    which = params["puzzle_id"], params["solution"], path
    of = dict(case=params["case"], kernel=params["kernel"], block=block)
    recorded = recorded_run(*which, lambda _: None, **of)
    thread, stops = params["thread"] or (), params["stops"]
    session = begin(recorded, params["to"], thread, block, params["watch"], stops)
    says = recorded.says
    if recorded.wrong and session.replay.writer(*session.replay.flat(recorded.wrong, session.who, 0)) < 0:
        says = f"no thread writes {recorded.wrong}: {says}"
    says = f"{recorded.kernel.name}, case {recorded.case.name}: {says}"
    path = the_file(recorded.puzzle, path, params["solution"]).resolve()
    return Started(session, path, says, recorded.wrong, bool(params["to"] or thread or stops))


def _of_file(params: dict) -> Started:
    from ..dap.adapter import Started
    from ..devices.virtual.replay.record import Record
    from ..devices.virtual.replay.replay import Replay
    from ..devices.virtual.replay.session import Session
    from ..run import Asked, record_run

    for name in ("device", "folder", "as_json"):
        del params[name]
    done = record_run(Asked(**params))
    if done.errors or not done.launch:
        raise CourseError("\n".join(done.errors) or "nothing was recorded")
    says = str(done.fault or " ".join(done.differences) or "this run has no fault")
    try:
        session = Session(Replay(Record(done.launch.record), done.fault))
    except ValueError as error:
        raise CourseError(str(error)) from None
    return Started(session, params["file"].resolve(), f"{done.kernel}: {says}")
