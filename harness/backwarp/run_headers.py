"""The headers of a kernel file, for `backwarp run`: looked up as a compiler does, first beside the including
file, then in the whole project, and copied into one folder.

The compiler reads nothing outside that folder, so a name with `..` is renamed, in the text too:
`#include "../common/tile.cuh"` becomes `#include "up/common/tile.cuh"`. A header that is nowhere counts as empty: often
only host code needs it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from .course.checkout import project_of, read_bytes
from .devices.nvrtc import host_code, host_signs, includes
from .devices.nvrtc.compiler import ABSENT, ABSENT_ASKED, HEADER_SUFFIXES, is_here
from .errors import CompileError, CourseError, Diagnostic

MOST_BYTES = 4 << 20  # of a header
MOST_TOGETHER, MOST_HEADERS = 16 << 20, 1000
_ABOVE = 3  # how many folders above the file may hold its headers, outside a repository
_LISTED = 4  # headers in a note
_MOST_FILES, _SECONDS = 50_000, 3.0  # looked at for a header that is in no usual place


@dataclass
class Gathered:
    """A file whose headers are in one folder. source: its text, without host code and with their new names; text: that
    after those of its headers.
    own: what a message says -> what it is to say, for those names. absent: where headers are included that are nowhere; notes on it all."""

    name: str
    source: str
    text: str = ""
    notes: list[str] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)
    absent: list[Diagnostic] = field(default_factory=list)
    #: by name, all texts as a compiler for the host gets them: nothing is left out, and absent headers keep their names
    host: dict[str, str] = field(default_factory=dict)

    def explained(self, error: CompileError) -> CompileError:
        """The error, with the file's absent headers first if names are missing."""
        if not any("undefined" in d.message or "namespace" in d.message for d in error.diagnostics):
            return error
        return CompileError(
            str(error), (*[d for d in self.absent if d.file == self.name][:2], *error.diagnostics)
        )


def gather(source: str, file: Path, folders: Sequence[Path], into: Path, search: bool = True) -> Gathered:
    """Copies the headers that the file includes into a folder.

    folders: further places to look. search: also in the whole project. Errors: CompileError for an include that cannot be decided; CourseError for
    headers that are too large or cannot be read.
    """
    home = file.resolve().parent
    project = _Project(home)
    given = [folder.resolve() for folder in folders]
    done = Gathered(file.name, source)
    texts, waiting, size = {file.name: source}, [(file.name, home)], 0
    missing: list[tuple[str, includes.Include]] = []
    while waiting:
        name, folder = waiting.pop()
        new, nowhere = {}, {}
        for include in includes.scan(texts[name], name, MOST_BYTES):
            if is_here(include.name) or host_signs.is_host(include.name):
                continue
            path = project.beside(include.name, (folder, *given, home))
            path = path or (project.search(include.name, folder) if search else None)
            if path is None:
                missing.append((name, include))
                nowhere[include.line, include.column] = include, ABSENT if include.directive else ABSENT_ASKED
                continue
            known = _called(path, home, given)
            new[include.line, include.column] = include, f'"{known}"'
            if name == file.name:
                done.own[f'"{known}"'] = f'"{include.name}"'
            if known not in texts:
                done.own.setdefault(f"in {known}(", f"in {os.path.relpath(path, home)}(")
                texts[known] = read_header(path, known)
                size += len(texts[known])
                if size > MOST_TOGETHER or len(texts) > MOST_HEADERS:
                    what = f"{MOST_TOGETHER >> 20} MB" if size > MOST_TOGETHER else f"{MOST_HEADERS} files"
                    raise CourseError(
                        f"the headers of {file.name} are more than {what}: is one too many included?"
                    )
                waiting.append((known, path.parent))
        done.host[name] = _renamed(texts[name], new)
        texts[name] = _renamed(texts[name], new | nowhere)
    texts[file.name] = texts.pop(file.name)  # last
    # one text, so that what kernels use from a header is found as in a single file
    *headers, source = texts.values()
    before = "".join(f"{text}\n" for text in headers)
    together, left_out = host_code.without(source, file.name, is_here, before)
    done.text = together
    lines = iter(together.split("\n"))
    texts = {name: "\n".join(islice(lines, text.count("\n") + 1)) for name, text in texts.items()}
    done.absent = [_absent(name, i) for name, i in missing if ABSENT in texts[name].split("\n")[i.line - 1]]
    done.notes = [d.message for d in left_out] + _said(project.found, done.absent)
    done.source = texts.pop(file.name)
    for name, text in texts.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(text, encoding="utf-8")
    return done


def read_header(path: Path, name: str) -> str:
    return (
        read_bytes(path, name, most=MOST_BYTES)
        .decode("utf-8-sig", "replace")
        .replace("\r\n", "\n")
        .replace("\r", "\n")
    )


def _said(found: dict[str, str], absent: Sequence[Diagnostic]) -> list[str]:
    """Notes on the headers found by searching, and on those that are nowhere."""
    notes = []
    if found:
        listed = [f"{name} in {place}" for name, place in found.items()][:_LISTED]
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        notes.append(f"Headers found by a search of the project: {', '.join(listed)}{more}.")
    if absent:
        listed = [f"{d.source.split()[-1]} ({d.file}:{d.line})" for d in absent][:_LISTED]
        more = f" and {len(absent) - _LISTED} more" if len(absent) > _LISTED else ""
        notes.append(f"Headers that are not there, and that no kernel here needs: {', '.join(listed)}{more}.")
    return notes


def _absent(name: str, include: includes.Include) -> Diagnostic:
    said = (
        f'"{include.name}" is not beside the file, in its project or in CUDA\'s headers. '
        "If the project has it elsewhere: --include DIR"
    )
    written = f'"{include.name}"' if include.quoted else f"<{include.name}>"
    return Diagnostic("error", said, name, include.line, include.column, f"#include {written}")


class _Project:
    """The folders that may hold a file's headers. top: a name with `..` may lead this far up. root: what is searched, and
    what no link leads out of."""

    def __init__(self, home: Path):
        self.root = project_of(home)
        users = (Path.home(), *Path.home().parents)
        below = [folder for folder in (home, *home.parents)[: _ABOVE + 1] if folder not in users]
        self.top = self.root if (self.root / ".git").exists() or not below else below[-1]
        self.found: dict[str, str] = {}

    def beside(self, name: str, folders: Sequence[Path]) -> Path | None:
        """A header in one of some folders; a name with `..` may not lead above the top folder, no link out of the project
        or that folder."""
        if not name.endswith(HEADER_SUFFIXES) or name.startswith(("/", "~")) or "\\" in name or ":" in name:
            return None
        plain = includes.is_plain(name)
        for folder in folders:
            path = Path(os.path.normpath(folder / name))
            if not path.is_file() or not (plain or path.is_relative_to(self.top)):
                continue
            real = path.resolve()
            if (
                real == path
                or any(real.is_relative_to(f) for f in (self.root, folder))
                and real.suffix in HEADER_SUFFIXES
            ):
                return path
        return None

    def search(self, name: str, folder: Path) -> Path | None:
        """The header of this name in the project that is nearest to a folder."""
        parts = tuple(part for part in Path(name).parts if part != "..")
        if not name.endswith(HEADER_SUFFIXES) or name.startswith(("/", "~")):
            return None

        def far(path: Path) -> tuple[int, int, str]:
            common = os.path.commonpath((path, folder))
            return -len(Path(common).parts), len(path.parts), str(path)

        fit = [path for path in self._headers.get(parts[-1], ()) if path.parts[-len(parts) :] == parts]
        if not fit:
            return None
        path = min(fit, key=far)
        self.found[name] = path.relative_to(self.root).as_posix()
        return path

    @cached_property
    def _headers(self) -> dict[str, list[Path]]:
        """The project's headers by name, but no more than can be listed in a moment."""
        found: dict[str, list[Path]] = {}
        end, seen = time.monotonic() + _SECONDS, 0
        for folder, folders, files in os.walk(self.root):  # follows no link
            folders[:] = sorted(f for f in folders if not f.startswith("."))
            for file in files:
                if file.endswith(HEADER_SUFFIXES) and not os.path.islink(os.path.join(folder, file)):
                    found.setdefault(file, []).append(Path(folder, file))
            seen += len(files)
            if seen > _MOST_FILES or time.monotonic() > end:
                break
        return found


def _called(found: Path, home: Path, folders: Sequence[Path]) -> str:
    """The name of a header in the common folder."""
    folder = next((f for f in (home, *folders) if found.is_relative_to(f)), home)
    parts = ("up" if part == ".." else part for part in Path(os.path.relpath(found, folder)).parts)
    return re.sub(r"[^\w./ +@=,~-]", "_", "/".join(parts))


def _renamed(text: str, new: dict[tuple[int, int], tuple[includes.Include, str]]) -> str:
    """The text with new names in the #include directives at these lines and columns. Errors: CompileError."""
    lines = text.split("\n")
    for (line, column), (include, name) in sorted(new.items(), key=lambda item: item[0], reverse=True):
        before, rest = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
        old = f'"{include.name}"' if include.quoted else f"<{include.name}>"
        if not rest.startswith(old):
            raise CompileError(
                f"line {line} splits the name of the header {include.name}: write it in one line"
            )
        lines[line - 1] = before + name + rest[len(old) :]
    return "\n".join(lines)
