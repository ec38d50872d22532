"""Keys of a terminal, one by one."""

from __future__ import annotations

import os
import queue
import re
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])?")  # arrow keys and the like


@contextmanager
def keyboard(events: queue.Queue, stop: threading.Event) -> Iterator[bool]:
    """Turns keys into events, one by one and without echo, if the input is a terminal. Yields whether it
    is."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, AttributeError, termios.error):
        yield False
        return

    def read() -> None:
        while not stop.is_set():
            if select.select([descriptor], [], [], 0.1)[0]:
                data = os.read(descriptor, 64)
                if not data:
                    events.put(("key", "q"))
                    return
                for key in _ESCAPES.sub("", data.decode("utf-8", "ignore")):
                    events.put(("key", key))

    tty.setcbreak(descriptor)
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield True
    finally:
        stop.set()
        reader.join(1)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
