"""Shows which case is running, on a terminal, once grading has taken a second; cleared before the report."""

from __future__ import annotations

import sys
import threading
from typing import TextIO

DELAY = 1.0  # seconds


class Ticker:
    """A status line: `with Ticker() as tell: tell("case 1 of 6, tiny")`."""

    def __init__(self, stream: TextIO | None = None, delay: float = DELAY):
        self.stream, self.text, self.due = stream or sys.stderr, "", False
        self.lock = threading.Lock()
        self.timer = threading.Timer(delay, self._show)
        self.timer.daemon = True

    def __call__(self, text: str) -> None:
        with self.lock:
            self.text = text
            if self.due:
                self._write()

    def __enter__(self) -> Ticker:
        if self.stream.isatty():
            self.timer.start()
        return self

    def __exit__(self, *_) -> None:
        self.timer.cancel()
        with self.lock:
            if self.due:
                self.stream.write("\r\x1b[K")
                self.stream.flush()
            self.due = False
            self.text = ""

    def _show(self) -> None:
        with self.lock:
            self.due = True
            self._write()

    def _write(self) -> None:
        if self.text:
            self.stream.write(f"\r\x1b[K  {self.text} ...")
            self.stream.flush()
