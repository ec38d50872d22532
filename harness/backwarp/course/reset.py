"""Restores a stub and keeps the student's file beside it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from ..errors import CourseError
from .declare import Puzzle
from .stubs import stub_text


def restore_stub(puzzle: Puzzle) -> str:
    """Writes the pristine stub; returns a sentence about what was done. Needs no git.

    Errors: CourseError if the file cannot be written or is a folder.
    """
    path, text = puzzle.stub_path, stub_text(puzzle)
    shown = f"puzzles/{puzzle.id}/{puzzle.file}"
    try:
        if path.is_dir():
            raise CourseError(f"{shown} is a folder; move it away first")
        if path.is_file() and path.read_bytes() == text.encode():
            return f"{shown} is the stub already."
        new = path.with_name(f".{path.name}.{os.getpid()}.new")
        with removed_unless_whole(new):
            new.write_text(text, encoding="utf-8", newline="\n")
            backup = keep(path)
            os.replace(new, path)
    except OSError as e:
        raise CourseError(f"{shown} cannot be restored: {e.strerror or e}") from None
    return f"{shown} is the stub again{f'; your file is kept as {backup.name}' if backup else ''}."


def make_own(puzzle: Puzzle, source: Path) -> str:
    """Makes another file the student's; returns a sentence about what was done. Errors: CourseError."""
    path = puzzle.stub_path
    shown = f"puzzles/{puzzle.id}/{puzzle.file}"
    try:
        text = source.read_bytes()
        pristine = not path.exists() or path.read_bytes() in (text, stub_text(puzzle).encode())
        new = path.with_name(f".{path.name}.{os.getpid()}.new")
        with removed_unless_whole(new):
            new.write_bytes(text)
            backup = None if pristine else keep(path)
            os.replace(new, path)
    except OSError as e:
        raise CourseError(f"{shown} cannot be written: {e.strerror or e}") from None
    return f"it is {shown} now{f'; before: {backup.name}' if backup else ''}."


def keep(path: Path) -> Path | None:
    """A copy of `path` under an unused name; None if there is nothing to keep."""
    if not os.path.lexists(path):
        return None
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    names = (f"{path.name}.bak-{stamp}{f'-{n}' if n > 1 else ''}" for n in range(1, 1000))
    backup = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    if not path.exists():
        return None  # a dangling link
    with removed_unless_whole(backup):
        shutil.copy2(path, backup)
    return backup


def write_whole(path: Path, data: bytes) -> None:
    """Replaces a file in one step: whoever reads it finds the old or the new one. Errors: OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    with removed_unless_whole(beside):
        beside.write_bytes(data)
        os.replace(beside, path)


@contextmanager
def removed_unless_whole(path: Path) -> Iterator[None]:
    """Removes a file that could not be written to its end, on a full disk for example."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
