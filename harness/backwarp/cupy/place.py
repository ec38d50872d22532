"""Where the text of a kernel is: the string in a Python file, or the file that it was read from."""

from __future__ import annotations

import ast
import os
import sys
from functools import cache
from pathlib import Path

from .. import PACKAGE
from ..devices.nvrtc.compiler import HEADER_SUFFIXES

_NOT_OURS = str(PACKAGE), os.path.dirname(os.__file__) + os.sep
_MOST = 2000  # files beside the callers that are looked at


def callers() -> tuple[str, ...]:
    """The files of those who call this package, nearest first."""
    found, frame = {}, sys._getframe(1)
    while frame:
        found.setdefault(frame.f_code.co_filename)
        frame = frame.f_back
    return tuple(name for name in found if os.path.isfile(name) and not name.startswith(_NOT_OURS))


def find(code: str, files: tuple[str, ...]) -> tuple[str, int]:
    """(the file that holds this text, the number of lines before it); "kernel.cu" if there is none."""
    for file in files:
        for text, line, last in _strings(file):
            if text == code and last - line == code.count("\n"):
                return _shown(file), line - 1
    size = len(code.encode())
    for folder in dict.fromkeys(os.path.dirname(file) for file in files if "site-packages" not in file):
        for path in _kernels(folder):
            if path.stat().st_size == size and path.read_text(errors="replace") == code:
                return _shown(str(path)), 0
    return "kernel.cu", 0


@cache
def _strings(file: str) -> tuple[tuple[str, int, int], ...]:
    """(value, first line, last line) of each long string in a Python file."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return tuple((n.value, n.lineno, n.end_lineno) for n in found)


@cache
def _kernels(folder: str) -> tuple[Path, ...]:
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = [
            f for f in folders if not f.startswith((".", "__")) and f not in ("site-packages", "node_modules")
        ]
        found += [Path(root, file) for file in files if file.endswith(HEADER_SUFFIXES)]
        if len(found) > _MOST or root.count(os.sep) - folder.count(os.sep) > 3:
            folders[:] = []
    return tuple(found)


def _shown(file: str) -> str:
    shown = os.path.relpath(file)
    return file if shown.startswith("..") else shown
