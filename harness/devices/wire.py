"""Messages between two processes that need not trust each other: bytes, whole or not at all, each within a time limit.

Neither side can make the other wait: one that announces a message and does not send it, or never reads, runs into
the limit. What is announced takes no memory before it arrives.
"""

from __future__ import annotations

import select
import socket
import struct
import time

from .plain import Damaged

MOST = 4 << 30  # bytes of a message
_CHUNK = 1 << 20
_LENGTH = struct.Struct("!Q")


class Wire:
    """One end. Errors of all: EOFError or OSError if the other side is gone; TimeoutError."""

    def __init__(self, end: socket.socket):
        self._end, self._early = end, bytearray()  # what has arrived of the next message

    def send(self, data: bytes, limit: float | None = None) -> None:
        length = _LENGTH.pack(len(data))
        if len(data) < _CHUNK:
            self._send(length + data, _until(limit))
        else:
            self._send(length, _until(limit))
            self._send(data, _until(limit))

    def receive(self, limit: float | None = None, most: int = MOST) -> bytearray:
        """The next message. limit: seconds until all of it is here. Damaged if it has more than `most`
        bytes."""
        until = _until(limit)
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, until))
        if length > most:
            raise Damaged(f"a message of {length} bytes")
        return self._exactly(length, until)

    def close(self) -> None:
        self._end.close()

    def _send(self, data: bytes, until: float | None) -> None:
        if until is None:
            return self._end.sendall(data)
        left = memoryview(data)
        while left:
            self._ready(select.POLLOUT, until)
            left = left[self._end.send(left[:_CHUNK], socket.MSG_DONTWAIT) :]

    def _exactly(self, size: int, until: float | None) -> bytearray:
        data, self._early = self._early, bytearray()
        while len(data) < size:
            self._ready(select.POLLIN, until)
            part = self._end.recv(_CHUNK)
            if not part:
                raise EOFError
            data += part
        self._early = data[size:]
        del data[size:]
        return data

    def _ready(self, event: int, until: float | None) -> None:
        if until is None:
            return
        waiting = select.poll()
        waiting.register(self._end, event)
        if not waiting.poll(max(until - time.monotonic(), 0) * 1000):
            raise TimeoutError


def _until(limit: float | None) -> float | None:
    return None if limit is None else time.monotonic() + limit
