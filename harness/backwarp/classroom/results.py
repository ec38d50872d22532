"""What is known already: one file of SQLite, written as results come, by any number of runs at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from ..errors import CourseError
from .tasks import Outcome

WAIT = 60.0  # seconds for another run's writing
_TABLE = "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, outcome TEXT NOT NULL) WITHOUT ROWID"
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
        self.path = path
        try:
            self._base = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute(_TABLE)
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

    def keep(self, key: str, outcome: Outcome) -> None:
        """What says nothing of the file is graded again the next time."""
        if is_temporary(outcome):
            return
        try:
            self._base.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, json.dumps(outcome)))
        except sqlite3.Error as error:
            raise CourseError(f"{self.path} cannot be written: {error}") from None

    def close(self) -> None:
        self._base.close()
