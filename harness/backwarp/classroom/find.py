"""Whose files are in a folder, and for which puzzle each is: by its path and name, else by its kernels.

A folder per person or one flat list, as course systems export them; also a zip of either, or a CSV with the columns `person`,
`path`, and if wanted `puzzle` and `when`. No link is followed, and nothing is run.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from ..course.checkout import Course, read_bytes
from ..course.progress import Entry, entries_in
from ..course.stubs import stub_text
from ..cuda.text import read
from ..cuda.tree import MAX_SOURCE
from ..errors import CourseError

ONE = "hand-in"  # who it is from, if it is one person's
MOST_FILES, MOST_BYTES = 100_000, 2 << 30  # of an archive of a whole class
OF_A_PERSON = 2_000, 64 << 20  # the same of one person's
MOST_TOLD = 100_000  # attempts that are believed
STATE, PROGRESS = ".backwarp", "progress.json"
SOURCES = (".cu", ".cuh", ".cpp", ".cc", ".c", ".txt", ".py", "")
IGNORED = re.compile(
    r"\.(bak(-.*)?|orig|swp|pyc|o|so|png|jpg|pdf|md|html|json|ya?ml|toml|zip)$|^\.|~$|^README", re.I
)
NOBODYS = re.compile(r"^\.|^__MACOSX$|^__pycache__$")  # folders
#: names that course systems give: what identifies a person, and what a file was called
MOODLE = re.compile(r"(?P<person>.+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?")
CANVAS = re.compile(r"(?P<person>[^_]+?)(?P<late>_LATE)?_(?P<id>\d+)_\d+_(?P<file>.+)")
ATTEMPT = re.compile(r"-(\d+)(?=\.\w+$)")  # Canvas numbers what is handed in again


@dataclass(frozen=True)
class File:
    """name: its path in what was handed in; hint: the part of it that may say which puzzle it is for. when: when it was
    handed in, in seconds; 0 if not known. puzzle: an id. attempt: Canvas's number. why: it is not graded, because of this."""

    person: str
    name: str
    data: bytes = b""
    when: float = 0.0
    puzzle: str = ""
    attempt: int = 0
    why: str = ""
    hint: str = ""


@dataclass
class Found:
    """graded: by person and puzzle, each person's files for it, the latest last. left: files that are not graded.
    progress: by person and puzzle, where a whole course was handed in."""

    graded: dict[tuple[str, str], list[File]] = field(default_factory=dict)
    left: list[File] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    progress: dict[str, dict[str, Entry]] = field(default_factory=dict)


def find(course: Course, source: Path, scratch: Path, one_person: bool = False) -> Found:
    """What was handed in. source: a folder, a zip or a CSV; scratch: an empty folder for what is unpacked. one_person: it is all
    from the same one. Errors: CourseError."""
    if source.suffix.lower() == ".csv":
        files = list(listed(source, course))
    else:
        if source.is_file() and zipfile.is_zipfile(source):
            source = unpacked(source, scratch)
        elif not source.is_dir():
            raise CourseError(f"{source} is neither a folder nor a zip or CSV file of what was handed in")
        files = list(files_of(source, ONE, scratch, source.name) if one_person else walked(source, scratch))
    known = Known(course)
    found, by = Found(), defaultdict(list)
    for file in (replace(f, person=readable(f.person), name=readable(f.name)) for f in files):
        if file.why == PROGRESS:
            with suppress(ValueError):
                told = entries_in(file.data.decode("utf-8"))
                found.progress[file.person] = {
                    id: e
                    for id, e in told.items()
                    if 0 <= min(e.attempts, e.hints) <= max(e.attempts, e.hints) < MOST_TOLD
                }
            continue
        file = file if file.why or file.puzzle else known.assigned(file)
        by[file.person, file.puzzle].append(file) if not file.why else found.left.append(file)
    for key in sorted(by):
        found.graded[key] = sorted(by[key], key=lambda f: (f.attempt, f.when, f.name))
    found.people = sorted({readable(f.person) for f in files if f.person})
    return found


def readable(name: str) -> str:
    """A name that can be written, whatever its bytes are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# ---- files and people ------------------------------------------------------------------------------------


def walked(root: Path, scratch: Path) -> Iterator[File]:
    """Every file below, with whose it is. Archives of one person are unpacked, not those inside them."""
    names = sorted(os.listdir(root))
    folders = [
        n for n in names if (root / n).is_dir() and not (root / n).is_symlink() and not NOBODYS.search(n)
    ]
    flat = not folders or all(re.fullmatch(r"\d\d+_\w+", n) for n in folders)
    prefix = "" if flat else common_prefix(folders)
    for name in names:
        path = root / name
        if NOBODYS.search(name):
            continue
        if name in folders and not flat:
            person = person_of(name.removeprefix(prefix))
            yield from files_of(path, person, scratch, name)
        elif name in folders or not IGNORED.search(name) or name.lower().endswith(".zip"):
            yield from flat_files(path, scratch, name)


def flat_files(path: Path, scratch: Path, name: str) -> Iterator[File]:
    """A file whose name says whose it is, as Canvas exports it (ada_123_456_09.cu) or as NAME_09.cu."""
    if path.is_dir() and not path.is_symlink():
        for found in files_of(path, "", scratch, name):
            yield replace(found, why=found.why or "nobody's name is in its path")
        return
    stem, canvas = path.stem, CANVAS.fullmatch(name)
    if canvas:
        person, shown = f"{canvas['person']} {canvas['id']}", canvas["file"]
    elif found := re.fullmatch(r"(?P<person>.+?)[_\- ](?P<rest>\d\d(?:[_\- ].*)?)", stem):
        person, shown = found["person"], found["rest"] + path.suffix
    else:
        person, shown = (stem, name) if path.suffix.lower() == ".zip" else ("", name)
    if path.suffix.lower() == ".zip":
        yield from archive_files(path, person, scratch, name)
        return
    attempt = ATTEMPT.search(shown) if canvas else None
    yield one(path, person, name, shown, int(attempt[1]) if attempt else 0)


def files_of(folder: Path, person: str, scratch: Path, above: str, archives: bool = True) -> Iterator[File]:
    """archives: whether those in it are unpacked."""
    for at, folders, names in os.walk(folder):
        if STATE in folders:
            yield replace(one(Path(at, STATE, PROGRESS), person, PROGRESS, ""), why=PROGRESS)
        folders[:] = sorted(f for f in folders if not NOBODYS.search(f))
        for name in (*(f for f in folders if os.path.islink(os.path.join(at, f))), *sorted(names)):
            path = Path(at, name)
            hint = path.relative_to(folder).as_posix()
            if name.lower().endswith(".zip"):
                inner = archive_files(path, person, scratch, f"{above}/{hint}")
                yield from (
                    inner if archives else (File(person, f"{above}/{hint}", why="an archive in an archive"),)
                )
            elif not IGNORED.search(name):
                yield one(path, person, f"{above}/{hint}", hint)


def archive_files(path: Path, person: str, scratch: Path, shown: str) -> Iterator[File]:
    try:
        folder = unpacked(path, scratch, *OF_A_PERSON)
    except CourseError as error:
        yield File(person, shown, why=str(error))
        return
    yield from files_of(folder, person, scratch, shown, archives=False)
    shutil.rmtree(folder)


def one(path: Path, person: str, name: str, hint: str, attempt: int = 0) -> File:
    """See File."""
    try:
        if path.is_symlink():
            raise CourseError("a link: hand in the file itself")
        data = read_bytes(path, Path(name).name, path.parent)
        file = File(person, name, data, os.lstat(path).st_mtime, "", attempt, hint=hint)
    except (CourseError, OSError) as error:
        return File(person, name, why=str(error))
    return file if person else replace(file, why="nobody's name is in its path")


def person_of(folder: str) -> str:
    found = MOODLE.fullmatch(folder)
    return f"{found['person']} {found['id']}" if found else folder


def common_prefix(folders: list[str]) -> str:
    """What clones of a classroom's repositories have before each login: `homework-3-`."""
    prefix = os.path.commonprefix(folders)
    return prefix[: prefix.rfind("-") + 1] if len(folders) > 1 else ""


def unpacked(archive: Path, scratch: Path, most: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> Path:
    """The archive's plain files in a new folder of `scratch`. Errors: CourseError."""
    target = Path(tempfile.mkdtemp(dir=scratch))
    try:
        if archive.is_symlink():
            raise CourseError(f"{archive.name} is a link: hand in the file itself")
        with zipfile.ZipFile(archive) as held:
            entries = [e for e in held.infolist() if not e.is_dir()]
            if len(entries) > most or sum(e.file_size for e in entries) > most_bytes:
                raise CourseError(f"{archive.name} is larger than any hand-in")
            for entry in entries:
                extract(held, entry, target)
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        says = getattr(error, "strerror", None) or str(error)
        raise CourseError(f"{readable(archive.name)} cannot be unpacked: {says[:200]}") from None
    return target


def extract(held: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    """One entry, unless it is a link, leads out of the folder or is too large to be a source."""
    parts = [p for p in re.split(r"[/\\]", entry.filename) if p not in ("", ".")]
    is_link = stat.S_ISLNK(entry.external_attr >> 16)
    nested = entry.filename.lower().endswith(".zip")
    if is_link or ".." in parts or not parts or entry.file_size > MAX_SOURCE * (64 if nested else 1):
        return
    path = target.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with held.open(entry) as file:
        path.write_bytes(file.read(entry.file_size))
    try:
        when = datetime(*entry.date_time).timestamp()
        os.utime(path, (when, when))
    except (ValueError, OverflowError, OSError):
        pass


def listed(table: Path, course: Course) -> Iterator[File]:
    """The files that a CSV names, relative to its folder."""
    try:
        rows = list(csv.DictReader(table.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise CourseError(f"{table} cannot be read: {error}") from None
    for number, row in enumerate(rows, 2):
        if not row.get("person") or not row.get("path"):
            raise CourseError(f"{table}, line {number}: it needs the columns person and path")
        file = one(table.parent / row["path"], row["person"], row["path"], row["path"])
        try:
            when = datetime.fromisoformat(row["when"]).timestamp() if row.get("when") else file.when
            puzzle = course.resolve(row["puzzle"]) if row.get("puzzle") else ""
        except (ValueError, OverflowError):
            raise CourseError(f"{table}, line {number}: when={row['when']!r} is not a date") from None
        except CourseError as error:
            raise CourseError(f"{table}, line {number}: {error}") from None
        yield replace(file, puzzle=puzzle, when=when)


# ---- puzzles ---------------------------------------------------------------------------------------------


class Known:
    """What files for each puzzle look like."""

    def __init__(self, course: Course):
        self.puzzles = {p.id: p for p in course.puzzles()}
        self.numbers = {p.number: p.id for p in self.puzzles.values()}
        shorts = Counter(id.split("_", 1)[1] for id in self.puzzles)
        self.shorts = {id.split("_", 1)[1]: id for id in self.puzzles if shorts[id.split("_", 1)[1]] == 1}

    def assigned(self, file: File) -> File:
        """The file with its puzzle, or with why it has none."""
        suffix = Path(file.name).suffix.lower()
        if suffix not in SOURCES:
            return replace(file, why=f"{suffix} is no source")
        named = self.by_name(file.hint)
        if named and (self.puzzles[named].program is None) == (suffix != ".py"):
            return replace(file, puzzle=named)
        fits = self.by_content(file.data.decode("utf-8", "replace"), Path(file.name).name)
        if len(fits) == 1:
            return replace(file, puzzle=fits[0])
        numbers = ", ".join(self.puzzles[id].number for id in fits)
        why = f"it could be for {numbers}: put it in a folder of that name" if fits else "for no puzzle"
        return replace(file, why=why)

    def by_name(self, name: str) -> str:
        """The puzzle that a path names: by its id, its number or its name; the last part that does."""
        for part in reversed(re.split(r"[/\\]", name)):
            stem = re.sub(r"\.\w+$", "", part).lower()
            if found := [id for id in self.puzzles if id in stem]:
                return max(found, key=len)
            words = re.split(r"[_\-. ]+", stem)
            if numbers := {self.numbers[w] for w in words if w in self.numbers}:
                return numbers.pop() if len(numbers) == 1 else ""
            if found := [id for short, id in self.shorts.items() if short in stem]:
                return max(found, key=len)
        return ""

    def by_content(self, text: str, name: str) -> list[str]:
        """The puzzles that it could be for: it has all their kernels with as many parameters. Of several those whose
        parameters have the same names, that ask for most of its kernels, and of whose stub most lines are left."""
        if name.endswith(".py"):
            return [id for id, p in self.puzzles.items() if p.program and p.program.file == name]
        own = {k.name: [p.name for p in k.parameters] for k in read(text).kernels}
        lines = set(map(str.strip, text.splitlines()))
        fits: dict[tuple, list[str]] = {}
        for id, puzzle in self.puzzles.items():
            asked = {k.name: [p.name for p in k.params] for k in puzzle.kernels}
            if asked and not puzzle.program and all(len(own.get(k, ())) == len(p) for k, p in asked.items()):
                same = all(own[name] == names for name, names in asked.items())
                left = sum(line in lines for line in self.own_lines[id])
                fits.setdefault((same, len(asked), left), []).append(id)
        return fits[max(fits)] if fits else []

    @cached_property
    def own_lines(self) -> dict[str, frozenset[str]]:
        """The lines of each stub that no other puzzle's has."""
        lines = {p.id: {*map(str.strip, stub_text(p).splitlines())} for p in self.puzzles.values()}
        count = Counter(line for own in lines.values() for line in own)
        return {id: frozenset(line for line in own if count[line] == 1) for id, own in lines.items()}
