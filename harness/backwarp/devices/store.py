"""A small cache on disk: entries by hash, written atomically, checked when read, bounded in size.

``BACKWARP_CACHE`` names the directory; ``off`` switches the cache off. The default is
``$XDG_CACHE_HOME/backwarp`` or ``~/.cache/backwarp``. A cache that cannot be written is not an error:
everything in it can be rebuilt.
"""

from __future__ import annotations

import atexit
import hashlib
import os
from functools import lru_cache
from pathlib import Path

_PRUNE_TO = 0.75  # of the limit, so that not every size check prunes
_LOOK = 1 / 16  # of the limit: how much a process writes before it checks the sizes again


def cache_root() -> Path | None:
    """The cache directory (created if necessary); None if it is off, cannot be written, or others could write
    to it."""
    setting = os.environ.get("BACKWARP_CACHE", "")
    if setting.lower() in ("off", "0", "none"):
        return None
    if setting:
        root = Path(setting).expanduser()
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if base:
            root = Path(base) / "backwarp"
        else:
            try:
                root = Path.home() / ".cache" / "backwarp"
            except RuntimeError:  # no home directory at all
                return None
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        return root if os.access(root, os.W_OK | os.X_OK) and _own(root) else None
    except OSError:
        return None


def _own(root: Path) -> bool:
    """Whether nobody else could put machine code there, which would be run. Errors: OSError."""
    return _is_own(root.stat())


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


@lru_cache(maxsize=1)
def session_directory() -> Path:
    """A directory for this process only, removed when it ends; used if the cache is off."""
    import shutil
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="backwarp-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def digest(*parts: bytes | str) -> str:
    """A hash of all parts and of their boundaries."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


class Store:
    """Bytes by key in one folder of the cache. A missing, damaged or unreadable entry is None.

    limit: bytes that the folder may hold, plus a sixteenth for each process that writes there.
    """

    def __init__(self, name: str, limit: int = 200 << 20):
        self.name, self.limit = name, limit
        self._written = limit  # since the last size check; so the first write checks

    def _path(self, key: str) -> Path | None:
        root = cache_root()
        return root / self.name / key[:2] / key if root else None

    def get(self, key: str) -> bytes | None:
        """The entry, or None if it is missing, damaged or unreadable."""
        path = self._path(key)
        if path is None:
            return None
        try:
            with open(path, "rb") as file:
                if not _is_own(os.fstat(file.fileno())):
                    return None
                data = file.read()
        except OSError:
            return None
        head, body = data[:32], data[32:]
        if hashlib.sha256(body).digest() != head:
            return None
        try:
            os.utime(path)  # the least recently used entries go first
        except OSError:
            pass
        return body

    def put(self, key: str, body: bytes) -> None:
        """Stores an entry atomically; does nothing if the disk refuses."""
        path = self._path(key)
        if path is None:
            return
        temporary = None
        try:
            for folder in (path.parent.parent, path.parent):
                folder.mkdir(exist_ok=True, mode=0o700)
            import tempfile  # a command that only reads does without

            handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).digest() + body)
            os.replace(temporary, path)
            self._written += len(body)
            if self._written > self.limit * _LOOK:
                self._written = 0
                self._prune(path.parent.parent)
        except OSError:  # disk full, removed under us: the cache is a convenience
            if temporary:
                Path(temporary).unlink(missing_ok=True)

    def _prune(self, folder: Path) -> None:
        entries = []
        for path in folder.glob("*/*"):
            try:
                status = path.stat()
            except OSError:
                continue
            entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit:
            return
        for _, size, path in sorted(entries):
            path.unlink(missing_ok=True)
            total -= size
            if total <= self.limit * _PRUNE_TO:
                return
