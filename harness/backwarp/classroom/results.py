"""What is known already: one file of SQLite, written as results come, by any number of runs at once."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from ..errors import CourseError
from .tasks import Outcome

WAIT = 60.0  # seconds for another run's writing
LEASE, RENEWED = 60.0, 10.0  # seconds for which a claim holds; between two renewals of it
_TABLES = (
    "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, outcome TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, run TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID",
)
_TEMPORARY = (
    "lost",
    "error",
    "device",
)  # kinds of outcomes that say something of the machine, not of the file


def is_temporary(outcome: Outcome) -> bool:
    return outcome["kind"] in _TEMPORARY and outcome["status"] == "error"


class Results:
    """By Task.key. Errors of all methods: CourseError."""

    def __init__(self, path: Path):
        self.path, self._renewed = path, time.time()
        self.run = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
        try:
            self._base = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            for table in _TABLES:
                self._base.execute(table)
        except sqlite3.Error as error:
            raise CourseError(f"{path} cannot be used for results: {error}; move it away") from None

    def known(self, keys: Iterable[str]) -> dict[str, Outcome]:
        found = {}
        try:
            for key in keys:
                row = self._base.execute("SELECT outcome FROM results WHERE key = ?", (key,)).fetchone()
                if row:
                    found[key] = json.loads(row[0])
        except (sqlite3.Error, ValueError) as error:
            raise CourseError(f"{self.path} cannot be read: {error}; move it away") from None
        return found

    def claim(self, keys: Set[str]) -> tuple[dict[str, Outcome], set[str]]:
        """What is known of these, and which of them another run is grading now. The rest is for this run to grade: until it
        keeps them, closes or ends, others leave them alone."""
        now = time.time()
        with self.at_once():
            known = self.known(keys)
            theirs = {key for key in keys if key not in known and self._is_claimed(key, now)}
            for key in keys - known.keys() - theirs:
                self._write("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", key, self.run, now + LEASE)
        return known, theirs

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is read and written meanwhile is so in one step, which takes less time, too."""
        self._write("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._write("COMMIT")

    def _is_claimed(self, key: str, now: float) -> bool:
        """By another run that goes on, as far as can be seen from here."""
        sought = "SELECT run FROM claims WHERE key = ? AND run != ? AND until > ?"
        row = self._base.execute(sought, (key, self.run, now)).fetchone()
        return bool(row) and goes_on(row[0])

    def renew(self) -> None:
        """Now and then, that claims hold."""
        if (now := time.time()) > self._renewed + RENEWED:
            self._renewed = now
            self._write("UPDATE claims SET until = ? WHERE run = ?", now + LEASE, self.run)

    def keep(self, key: str, outcome: Outcome) -> None:
        """What says nothing of the file is graded again the next time."""
        if not is_temporary(outcome):
            self._write("INSERT OR REPLACE INTO results VALUES (?, ?)", key, json.dumps(outcome))
        self._write("DELETE FROM claims WHERE key = ? AND run = ?", key, self.run)

    def close(self) -> None:
        self._write("DELETE FROM claims WHERE run = ?", self.run)
        self._base.close()

    def _write(self, statement: str, *values: object) -> None:
        try:
            self._base.execute(statement, values)
        except sqlite3.Error as error:
            raise CourseError(f"{self.path} cannot be written: {error}") from None


def goes_on(run: str) -> bool:
    """False for a run of this machine whose process has ended."""
    host, pid, _ = run.rsplit(" ", 2)
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
