"""The course on disk: finding the checkout, loading puzzles, reading the student's file."""

from __future__ import annotations

import difflib
import errno
import hashlib
import os
import re
import stat
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from .. import CHECKOUT
from ..cuda.tree import MAX_SOURCE
from ..errors import BackwarpError, CourseError, NoCourse
from .declare import PRISTINE, Puzzle

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)  # do not block on a pipe
_HEADING = re.compile(
    r'^PUZZLE = Puzzle\(\n    title="(?P<title>[^"\\]+)",\n    part=(?P<part>\d+),\n', re.MULTILINE
)
PUZZLE_NAME = re.compile(r"\d\d+_[a-z0-9_]+")


#: the course of the puzzle whose file is being graded, for checks that build on the course's other puzzles
GRADED: ContextVar[Path | None] = ContextVar("graded", default=None)


class NoSource(CourseError):
    """The student's file is missing or empty."""


class NotText(CourseError):
    """The student's file is not UTF-8."""


@dataclass(frozen=True)
class Course:
    """A checkout: the folder that contains `puzzles/` and, except in a student's course, `solutions/`."""

    root: Path

    @property
    def has_solutions(self) -> bool:
        """False in a student's course."""
        return (self.root / "solutions").is_dir()

    def ids(self) -> tuple[str, ...]:
        """All puzzle ids, in order; a folder without puzzle.py is not a puzzle yet."""
        folder = self.root / "puzzles"
        found = [p.parent.name for p in folder.glob("*/puzzle.py") if PUZZLE_NAME.fullmatch(p.parent.name)]
        return tuple(sorted(found, key=lambda name: (int(name.split("_")[0]), name)))

    def resolve(self, text: str) -> str:
        """The id meant by `09`, `9`, the full id, or a fragment that occurs in only one id."""
        ids, wanted = self.ids(), text.strip().rstrip("/\\").lower()
        if "/" in wanted or "\\" in wanted:  # a path completed by the shell
            wanted = next((p for p in re.split(r"puzzles[/\\]|[/\\]\w+\.\w+$", wanted) if p in ids), wanted)
        if wanted in ids:
            return wanted
        if wanted.isdecimal():
            matches = [i for i in ids if int(i.split("_")[0]) == int(wanted)]
        else:
            matches = [i for i in ids if wanted and wanted in i]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise CourseError(
                f"{text!r} could be {', '.join(matches[:4])}{' ...' if matches[4:] else ''}; say which"
            )
        for folder in (self.root / "puzzles").iterdir():
            if PUZZLE_NAME.fullmatch(folder.name) and wanted in (folder.name, folder.name.split("_")[0]):
                raise CourseError(
                    f"puzzles/{folder.name} has no puzzle.py, which declares what a puzzle asks"
                )
        if planned := self.planned(wanted):
            raise CourseError(f"{planned} is not written yet; `backwarp list` shows the available puzzles")
        near = "" if wanted.isdecimal() else nearest(wanted, ids)
        if wanted.isdecimal():
            raise CourseError(f"there is no puzzle {wanted} yet; `backwarp list` shows the available puzzles")
        meant = f"did you mean {near}?" if near else "`backwarp list` shows the available puzzles"
        raise CourseError(f"there is no puzzle {text!r}; {meant}")

    def planned(self, wanted: str) -> str:
        """The puzzle, if the README names it but it does not exist yet; else ""."""
        try:
            text = (self.root / "README.md").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""
        rows = "\n".join(row for row in text.splitlines() if row.startswith("|"))
        names = {f"{n}_{name}" for n, name in re.findall(r"\b(\d\d)[ _]([a-z][a-z0-9_]+)", rows)} - set(
            self.ids()
        )
        if wanted.isdecimal():
            found = [name for name in names if int(name.split("_")[0]) == int(wanted)]
        else:
            found = [name for name in names if name == wanted]
        return found[0] if len(found) == 1 else ""

    def load(self, text: str) -> Puzzle:
        """The puzzle `text` (see resolve); a broken declaration is a CourseError with file and line."""
        return load_puzzle(self.root, self.resolve(text))

    def heading(self, puzzle_id: str) -> tuple[int, str]:
        """(part, title), from the declaration's text where they are literals there: a list need not execute forty."""
        try:
            text = (self.root / "puzzles" / puzzle_id / "puzzle.py").read_text(encoding="utf-8")
        except (OSError, ValueError):
            text = ""
        if found := _HEADING.search(text):
            return int(found["part"]), found["title"]
        puzzle = load_puzzle(self.root, puzzle_id)
        return puzzle.part, puzzle.title

    def puzzles(self) -> tuple[Puzzle, ...]:
        return tuple(load_puzzle(self.root, i) for i in self.ids())


def nearest(wanted: str, ids: tuple[str, ...]) -> str:
    """The id that `wanted` probably stands for, judged by the whole text or by a word unique to one id; or
    ""."""
    words = Counter(word for i in ids for word in i.split("_")[1:])
    names = {word: i for i in ids for word in i.split("_")[1:] if words[word] == 1}
    names |= {i: i for i in ids} | {i.split("_", 1)[1]: i for i in ids}
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=0.6)
    return names[close[0]] if close else ""


def open_course(start: Path | None = None) -> Course:
    """The course around the current directory (or `start`), else the checkout that contains this package."""
    try:
        here = (start or Path.cwd()).resolve()
    except OSError:  # the current directory was deleted
        here = Path("/")
    for folder in (here, *here.parents, *([CHECKOUT] if CHECKOUT else [])):
        if (folder / "puzzles").is_dir() and any((folder / p).is_dir() for p in ("solutions", PRISTINE)):
            return Course(folder)
        missing = [name for name in ("puzzles", "solutions") if not (folder / name).is_dir()]
        if len(missing) == 1 and (folder / "pyproject.toml").is_file():
            raise CourseError(
                f"{folder} has no {missing[0]}/ folder: restore it, as with `git checkout {missing[0]}`"
            )
    raise NoCourse("there is no course here or above: `backwarp init mycourse` makes one in a new folder")


@lru_cache(maxsize=64)
def load_puzzle(root: Path, puzzle_id: str) -> Puzzle:
    """Executes `puzzles/ID/puzzle.py` and returns its PUZZLE, with id and root filled in."""
    path = root / "puzzles" / puzzle_id / "puzzle.py"
    name = f"puzzles/{puzzle_id}/puzzle.py"
    namespace = {"__name__": f"puzzles.{puzzle_id}", "__file__": str(path)}
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
        puzzle = namespace.get("PUZZLE")
        if not isinstance(puzzle, Puzzle):
            raise CourseError("it does not define PUZZLE = Puzzle(...)")
        return replace(puzzle, id=puzzle_id, root=root)
    except Exception as e:
        line = broken_line(e, str(path))
        what = str(e) if isinstance(e, BackwarpError) else f"{type(e).__name__}: {e}"
        raise CourseError(f"{name}{f':{line}' if line else ''}: {what}") from e


def broken_line(error: Exception, path: str) -> int:
    """The line of `path` that `error` comes from; 0 if there is none."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 0
    line, trace = 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def read_source(path: Path, name: str = "", within: Path | None = None) -> str:
    """The text of a student's file, called `name` in messages.

    within: a folder with other people's files: no link in it is followed, since it might lead to a private
    file. Errors: CourseError if it cannot be read or is empty.
    """
    name = name or str(path)
    data = read_bytes(path, name, within)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        mark = " ".join(f"0x{byte:02x}" for byte in data[:2])
        raise NotText(f"{name} starts with {mark}: this is UTF-16; save it as UTF-8 in your editor")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise NotText(
            f"{name}:{line}: byte 0x{data[e.start]:02x} is not UTF-8; save the file as UTF-8 in your editor"
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise NotText(f"{name}:{line}: the file has a zero byte; save it as plain UTF-8 text (not UTF-16)")
    if not text.strip():
        raise NoSource(f"{name} is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def project_of(folder: Path) -> Path:
    """The repository that a folder is in, or the folder itself."""
    folder = Path(os.path.abspath(folder))
    above = (f for f in (folder, *folder.parents) if os.path.exists(f / ".git") and not os.path.islink(f))
    return next(above, folder)


def require_no_link_out(path: Path) -> None:
    """CourseError if a file that was named is a link, or behind one, that leads out of its project."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(project_of(path.parent))):
        raise CourseError(f"{path} is a link out of its project, to {real}: name that file itself")


def read_bytes(path: Path, name: str, within: Path | None = None, most: int = MAX_SOURCE) -> bytes:
    """The contents of a regular file, no larger than `most`. Errors: CourseError."""
    try:
        descriptor = _open_below(within, path) if within else os.open(path, _READ)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise CourseError(f"{name} is not a regular file: move it away")
            if found.st_size > most:
                size = f"{found.st_size >> 10} KB; more than {most >> 10} KB"
                raise CourseError(
                    f"{name} has {size} is not a {'kernel' if most == MAX_SOURCE else 'header'}"
                )
            return file.read(most)
    except FileNotFoundError:
        raise NoSource(f"{name} does not exist") from None
    except IsADirectoryError:
        raise CourseError(f"{name} is a folder, not a kernel file: move it away") from None
    except OSError as e:
        if within and e.errno in (errno.ELOOP, errno.ENOTDIR):
            raise CourseError(f"{name} is a link, or lies behind one: hand in the file itself") from None
        allow = f"; allow it: chmod u+r {name}" if isinstance(e, PermissionError) else ""
        raise CourseError(f"{name} cannot be read: {e.strerror}{allow}") from None


def _open_below(folder: Path, path: Path) -> int:
    """Opens a file below a folder without following links. Errors: OSError."""
    *folders, name = Path(os.path.abspath(path)).relative_to(os.path.abspath(folder)).parts
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for part in folders:
        try:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
        finally:
            os.close(at)
        at = below
    try:
        return os.open(name, _READ | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def source_hash(source: str) -> str:
    """The hash by which progress recognises a file."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def seed_of(source: str) -> int:
    """The seed of a file's inputs: the same text gets the same seed, and no text can contain its own. Blank lines before it
    count for nothing: a notebook keeps its cells with one."""
    return int(source_hash(source.lstrip("\n"))[:12], 16)
