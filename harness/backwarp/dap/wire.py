"""Messages of the protocol: JSON behind a header that says how long it is."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

LONGEST = 1 << 24  # bytes of a message
LINE, LINES = 1024, 32  # bytes of a line of the header; how many
PATIENCE = 5.0  # seconds in which a run that nobody waits for any more ends
LAST = ("disconnect", "terminate")


class Refused(Exception):
    """What cannot be done, as a sentence for whoever asked."""


class Garbled(Exception):
    """What has been read is no message. lost: nor is what follows, as nobody knows where the next one begins."""

    def __init__(self, what: str, lost: bool = False):
        super().__init__(what)
        self.lost = lost


def receive(stream: BinaryIO) -> dict | None:
    """The next message; None at the end. Errors: Garbled."""
    if (length := _length(stream)) is None:
        return None
    data = stream.read(length)
    if len(data) < length:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"a message is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Garbled("a message is not a JSON object")
    return found


def _length(stream: BinaryIO) -> int | None:
    """Of the message whose header is read; None at the end."""
    length = None
    for _ in range(LINES):
        line = stream.readline(LINE)
        if not line:
            return None
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            if not value.strip().isdigit() or int(value) > LONGEST:
                raise Garbled(f"Content-Length is not a number of bytes up to {LONGEST}", lost=True)
            length = int(value)
        if not line.strip() and length is not None:
            return length
    raise Garbled("a message has no header with its Content-Length", lost=True)


def framed(message: dict) -> bytes:
    data = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


class Inbox:
    """Messages, read while others are answered. urgent: set when the user wants what is going on to stop."""

    def __init__(self, stream: BinaryIO):
        self.stream, self.urgent = stream, threading.Event()
        self._found: queue.SimpleQueue = queue.SimpleQueue()
        self._main, self._running, self._over = threading.main_thread().ident, False, threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def __iter__(self) -> Iterator[dict | Garbled]:
        """Until the last one."""
        while (message := self._found.get()) is not None:
            yield message

    @contextmanager
    def running(self) -> Iterator[None]:
        """Meanwhile the end of the messages is a KeyboardInterrupt."""
        self._running = True
        try:
            if self._over.is_set():
                raise KeyboardInterrupt
            yield
        finally:
            self._running = False

    def _read(self) -> None:
        message: dict | Garbled | None = {}
        while message is not None:
            try:
                message = receive(self.stream)
            except Garbled as garbled:
                message = garbled
            except (OSError, ValueError):  # closed
                message = None
            command = message.get("command") if isinstance(message, dict) else ""
            if command == "pause":
                self.urgent.set()
            self._found.put(message)
            if command in LAST or isinstance(message, Garbled) and message.lost:
                self._found.put(None)
                break
        self._over.set()
        self.urgent.set()
        if self._running:
            signal.pthread_kill(self._main, signal.SIGINT)
            threading.Event().wait(PATIENCE)
            os._exit(1)  # the system ends the process that runs kernels
