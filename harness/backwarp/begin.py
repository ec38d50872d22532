"""`backwarp init DIR`: a course of one's own from the installed package, and later its newer lessons.

What was written is remembered by hash, so a file that its owner has changed is told apart and never touched.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from . import CHECKOUT, COURSE, __version__
from .course.checkout import Course
from .course.declare import PRISTINE
from .course.progress import make_state_folder
from .course.reset import write_whole
from .errors import CourseError

MANIFEST = Path(".backwarp", "course.json")
#: in a checkout's texts, and in those of a course beside the installed package
INSTALLED = (("pip install -e '.[", "pip install 'backwarp["), ("pip install -e .", "pip install backwarp"))
STUDENT, SAME = "student", "same.json"  # in a release's archive
NOT_NEEDED = ("harness/", "reference/", "pyproject.toml")  # the installed package has them


@dataclass
class Begun:
    """root: the course. Files of it: new, brought up to date, and kept because they were changed."""

    root: Path
    new: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def begin(target: Path, solutions: bool = False) -> Begun:
    """Makes a course in a new or empty folder, or brings one up to date. Errors: CourseError."""
    root = Path(os.path.abspath(target))
    known = manifest(root)
    empty = not root.exists() or (root.is_dir() and not any(root.iterdir()))
    if not (known or empty or (root / PRISTINE).is_dir()):
        raise CourseError(
            f"{target} is neither empty nor a course that `backwarp init` made: name a new folder"
        )
    solutions = solutions or bool(known.get("solutions"))
    with packaged() as course:
        files = with_solutions(course) if solutions else without_solutions(course)
    begun, written = Begun(root), known.get("files", {})
    try:
        for name, data in files.items():
            put(begun, name, data, written)
        write_manifest(root, {"version": __version__, "solutions": solutions, "files": written})
    except OSError as error:
        raise CourseError(
            f"{error.filename or target} cannot be written: {error.strerror or error}"
        ) from None
    return begun


def put(begun: Begun, name: str, data: bytes, written: dict[str, str]) -> None:
    """Writes one file, unless its owner has changed it."""
    path, new = begun.root / name, hashed(data)
    if os.path.lexists(path):
        now = hashed(path.read_bytes()) if path.is_file() and not path.is_symlink() else ""
        if now == new:
            written[name] = new
            return
        if now != written.get(name):
            begun.kept.append(name)
            return
    (begun.updated if os.path.lexists(path) else begun.new).append(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
    written[name] = new


def hashed(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def manifest(root: Path) -> dict:
    """What `begin` wrote there: version, solutions, files by hash; {} if it is not such a course."""
    try:
        found = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    valid = isinstance(found, dict) and isinstance(found.get("files"), dict)
    return found if valid else {}


def write_manifest(root: Path, content: Mapping[str, object]) -> None:
    path = root / MANIFEST
    make_state_folder(path.parent)
    write_whole(path, json.dumps(content, indent=0).encode())


# ---- what the package brings -----------------------------------------------------------------------------


@contextmanager
def packaged() -> Iterator[Course]:
    """The whole course: the checkout, or the installed package's archive in a folder that is removed again."""
    if CHECKOUT:
        yield Course(CHECKOUT)
        return
    with tempfile.TemporaryDirectory(prefix="backwarp-") as folder:
        try:
            with zipfile.ZipFile(COURSE) as held:
                held.extractall(folder)
        except (OSError, zipfile.BadZipFile) as error:
            raise CourseError(f"{COURSE} cannot be read: {error}; install backwarp again") from None
        yield Course(Path(folder))


@cache
def installed() -> Course:
    """As `packaged`, until this process ends."""
    open_until_then = ExitStack()
    atexit.register(open_until_then.close)
    return open_until_then.enter_context(packaged())


def without_solutions(course: Course) -> dict[str, bytes]:
    """A release has it made already (see maintain/release): its predictions are counted by running kernels."""
    made = course.root / STUDENT
    if made.is_dir():
        same = json.loads((made / SAME).read_text(encoding="utf-8"))
        found = {p.relative_to(made).as_posix(): p for p in made.rglob("*") if p.is_file() and p.name != SAME}
        return {
            name: path.read_bytes() for name, path in ({n: course.root / n for n in same} | found).items()
        }
    from .maintain.export import exported

    files = exported(course)
    return {name: as_installed(name, data) for name, data in files.items() if not name.startswith(NOT_NEEDED)}


def made_for_students(course: Course) -> dict[str, bytes]:
    """What `without_solutions` reads: the files that differ from the course's own, and the names of the others."""
    files, same = without_solutions(course), []
    for name, data in files.items():
        own = course.root / name
        if own.is_file() and own.read_bytes() == data:
            same.append(name)
    differ = {f"{STUDENT}/{name}": data for name, data in files.items() if name not in same}
    return differ | {f"{STUDENT}/{SAME}": json.dumps(sorted(same)).encode()}


def with_solutions(course: Course) -> dict[str, bytes]:
    from .maintain.export import GOES_ALONG, files_of, of_students

    files = {
        name: as_installed(name, (course.root / name).read_bytes())
        for name in files_of(course.root, (*GOES_ALONG, "solutions"), stays=NOT_NEEDED)
    }
    return files | {"README.md": of_students(files["README.md"].decode()).encode()}


def as_installed(name: str, data: bytes) -> bytes:
    """A text with the commands for the installed package."""
    if name.endswith((".md", ".ipynb")):
        for old, new in INSTALLED:
            data = data.replace(old.encode(), new.encode())
    return data
