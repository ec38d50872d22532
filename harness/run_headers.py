"""The headers of a kernel file, for `backwarp run`: looked up as a compiler does, first beside the including
file, and copied into one folder.

The compiler reads nothing outside that folder, so a name with `..` is renamed, in the text too:
`#include "../common/tile.cuh"` becomes `#include "up/common/tile.cuh"`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .devices.nvrtc import host_code, includes

_ABOVE = 3  # how many folders above the file may hold its headers, outside a repository
_SUFFIXES = (".cuh", ".h", ".hpp", ".inl", ".cu")


def gather(source: str, file: Path, folders: Sequence[Path], into: Path) -> tuple[str, dict[str, str]]:
    """Copies the headers that the file includes into a folder. Returns the file's text with the new names,
    and those names.

    folders: further places to look. Errors: CompileError for an include that cannot be decided.
    """
    from .devices.nvrtc.compiler import has_header

    home = file.resolve().parent
    top = _top(home)
    texts, own = {file.name: source}, {}
    waiting = [(file.name, home)]
    while waiting:
        name, folder = waiting.pop()
        text, new = host_code.without(texts[name], name, has_header)[0], {}
        for include in includes.scan(text, name):
            if has_header(include.name):
                continue
            found = _find(include.name, (folder, *folders, home), top)
            if found is None:
                continue
            known = _called(found, include.name, home, folders)
            new[include.line, include.column] = include.name, known
            if known not in texts:
                texts[known] = found.read_text(encoding="utf-8", errors="replace")
                waiting.append((known, found.parent))
        texts[name] = _renamed(texts[name], new)
        if name == file.name:
            own = {f'"{known}"': f'"{old}"' for old, known in new.values()}
    source = texts.pop(file.name)
    # one text, so that what kernels use from a header is found as in a single file
    together = "".join(f"{text}\n" for text in (*texts.values(), source))
    together, _ = host_code.without(together, file.name, has_header)
    for name, text in texts.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(together[: len(text)], encoding="utf-8")
        together = together[len(text) + 1 :]
    return source, own


def _top(home: Path) -> Path:
    """The folder that contains all headers: the repository's, or a few levels up, but below the folder of all
    users."""
    above = [home, *home.parents]
    repository = next((folder for folder in above if (folder / ".git").exists()), None)
    if repository:
        return repository
    below = [folder for folder in above[: _ABOVE + 1] if folder not in (Path.home(), *Path.home().parents)]
    return below[-1] if below else home


def _find(name: str, folders: Sequence[Path], top: Path) -> Path | None:
    """Where a header is; a name with `..` may not lead above the top folder."""
    if not name.endswith(_SUFFIXES) or name.startswith(("/", "~")) or "\\" in name or ":" in name:
        return None
    plain = includes.is_plain(name)
    for folder in folders:
        found = (folder / name).resolve()
        if found.is_file() and (plain or found.is_relative_to(top) and found.suffix in _SUFFIXES):
            return found
    return None


def _called(found: Path, name: str, home: Path, folders: Sequence[Path]) -> str:
    """The name of a header in the common folder."""
    for folder in (home, *(folder.resolve() for folder in folders)):
        if found.is_relative_to(folder):
            return found.relative_to(folder).as_posix()
    if includes.is_plain(name):  # reached through a link
        return name
    return Path(
        *("up" if part == ".." else part for part in Path(os.path.relpath(found, home)).parts)
    ).as_posix()


def _renamed(text: str, new: dict[tuple[int, int], tuple[str, str]]) -> str:
    """The text with new names in the #include directives at these lines and columns."""
    lines = text.split("\n")
    for (line, column), (old, name) in sorted(new.items(), reverse=True):
        before, rest = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
        if old != name and rest.startswith(f'"{old}"'):
            lines[line - 1] = f'{before}"{name}"{rest[len(old) + 2 :]}'
    return "\n".join(lines)
