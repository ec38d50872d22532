"""A record of what has been done: a file of JSON lines, each written and flushed when its item has ended."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

NAME = "results.jsonl"


class Journal:
    """records: {"step", "item", "status", "seconds", ...} in the order in which they were made."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._lock = folder / NAME, threading.Lock()
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        if text and not text.endswith("\n"):  # it was killed while writing
            with open(self.path, "a", encoding="utf-8") as file:
                file.write("\n")
        self.records = list(filter(None, map(parsed, text.splitlines())))

    def add(self, step: str, item: str, status: str, **found) -> dict:
        """status: "done", "failed" or "timeout"."""
        record = {"step": step, "item": item, "status": status, **found}
        with self._lock, open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
            self.records.append(record)
        return record

    def latest(self, step: str) -> dict[str, dict]:
        """The last record of each item of a step."""
        return {r["item"]: r for r in self.records if r["step"] == step}


def parsed(line: str) -> dict | None:
    """The record; None for an incomplete line."""
    try:
        return json.loads(line)
    except ValueError:
        return None
