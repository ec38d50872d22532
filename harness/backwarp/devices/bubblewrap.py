"""bubblewrap, if installed: a process starts in its own namespaces, where most files do not exist.

This is in addition to what a process gives up itself (see confine): it has no network, cannot see other
processes' memory or shared memory, cannot write anything, and sees only the files that Python needs.

Source: bwrap(1).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from typing import TextIO

from .confine import python_folders

_SEPARATE = ("--unshare-user", "--unshare-ipc", "--unshare-net", "--unshare-uts", "--die-with-parent")
#: where users keep files; what Python needs from these is mounted again
_HIDDEN = ("/home", "/root", "/tmp", "/var", "/mnt", "/media", "/srv", "/run")
_PATIENCE = 10  # seconds for it to start a process


@cache
def wrapper() -> tuple[str, ...]:
    """The words to put before a command; none if bubblewrap is not installed or cannot start Python: it needs
    user namespaces, which many containers do not allow."""
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if not program:
        return ()
    command = program, *_SEPARATE, "--ro-bind", "/", "/", "--dev", "/dev", *_files()
    try:
        attempt = [*command, sys.executable, "-I", "-S", "-c", ""]
        started = subprocess.run(attempt, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return ()
    return () if started.returncode else command


def _files() -> list[str]:
    libraries = [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if os.path.isabs(p)]
    hidden = [part for folder in _HIDDEN if os.path.isdir(folder) for part in ("--tmpfs", folder)]
    needed = [os.path.abspath(p) for p in (*python_folders(), *libraries)]
    beside = [p for p in needed if p.startswith(tuple(f"{folder}/" for folder in _HIDDEN))]
    return [*hidden, *(part for path in sorted(beside) for part in ("--ro-bind-try", path, path))]


def process(tells: TextIO) -> int:
    """The id of the started process (a child of bwrap), from the output of `--info-fd`; -1 if there is
    none."""
    with tells:
        try:
            return int(json.loads(tells.read(1000))["child-pid"])
        except (ValueError, TypeError, KeyError):
            return -1
