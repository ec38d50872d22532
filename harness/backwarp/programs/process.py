"""The process of a program: confined, and connected to this one. Its output passes through here, so that it cannot be endless."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .. import SOURCES
from ..devices.child import ENVIRONMENT
from ..devices.confine import ONE_THREAD, python_folders
from ..errors import DeviceError
from . import verbs
from .start import Policy

MOST_OUTPUT = 256 << 20  # bytes that a program may print
MOST_FILE = 1 << 30  # bytes of a file that it writes
MEMORY = 8 << 30  # at most, and three quarters of the machine's
_READABLE = "/proc/cpuinfo /proc/meminfo /proc/stat /sys/devices/system/cpu /etc/localtime /usr/share/zoneinfo".split()
_LOADERS = "/lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1".split()


class Ended(Exception):
    """The program has ended, or was ended. why: "" if by itself."""

    def __init__(self, why: str = ""):
        super().__init__(why)
        self.why = why


class HostProcess:
    """A running program. memory: the open file that is the device's memory, and its size."""

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        memory: tuple[int, int],
        seconds: float,
        writable: Sequence[Path] = (),
        guard: bool = False,
        output: tuple[int, int] = (1, 2),
    ):
        ours, theirs = socket.socketpair()
        lines = int(os.isatty(output[0]))
        policy = Policy(
            readable=(os.getcwd(), *map(str, python_folders(harness=False)), *_READABLE, str(program)),
            writable=(*map(str, writable), "/dev/null"),
            programs=(str(program), *_LOADERS),
            memory=min(MEMORY, _physical() * 3 // 4),
            file_size=MOST_FILE,
        )
        names = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        says = f"{theirs.fileno()},{memory[0]},{memory[1]},{lines},{int(guard)}"
        variables = names | ONE_THREAD | {"PYTHONPATH": str(SOURCES), "BACKWARP_HOST": says}
        with theirs:
            try:
                self._child = subprocess.Popen(
                    policy.command(str(program), *arguments), env=variables,
                    pass_fds=(theirs.fileno(), memory[0]), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )  # fmt: skip
            except OSError as error:
                raise DeviceError(f"the program cannot be started ({error})") from None
        self._wire, self._end, self._printed, self.flooded = ours, time.monotonic() + seconds, 0, False
        self._pumps = [
            threading.Thread(target=self._pump, args=(pipe, target), daemon=True)
            for pipe, target in zip((self._child.stdout, self._child.stderr), output, strict=True)
        ]
        for pump in self._pumps:
            pump.start()

    def _pump(self, pipe, target: int) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), 1 << 16):
                self._printed += len(data)
                if self._printed > MOST_OUTPUT:
                    self.flooded = True
                    return self.kill()
                try:
                    while data:
                        data = data[os.write(target, data) :]
                except OSError:  # nobody reads it any more
                    return self.kill()
        return None

    def more_time(self, seconds: float) -> None:
        """What compiling its kernels took is not the program's time."""
        self._end += seconds

    def receive(self) -> tuple[int, tuple[int, ...], tuple[int, ...], bytes]:
        """The next request: (verb, frames, words, what comes with it). Errors: Ended."""
        verb, extra, *words = verbs.REQUEST.unpack(self._read(verbs.REQUEST.size))
        if verb >= len(verbs.VERBS) or extra > verbs.MOST:
            raise Ended("it wrote into the memory of CUDA's runtime: its messages are damaged")
        return verb, tuple(words[: verbs.FRAMES]), tuple(words[verbs.FRAMES :]), self._read(extra)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            left = self._end - time.monotonic()
            if left <= 0 or not select.select([self._wire], [], [], left)[0]:
                raise Ended("time")
            try:
                got = self._wire.recv(min(count - len(data), 1 << 16))
            except OSError:
                raise Ended from None
            if not got:
                raise Ended
            data += got
        return data

    def reply(
        self, code: int, words: Sequence[int] = (), text: bytes = b"", changes: Sequence[tuple] = ()
    ) -> None:
        """changes: (start, bytes, protection) of memory. Errors: Ended."""
        padded = (*words, *[0] * verbs.ANSWERS)[: verbs.ANSWERS]
        head = verbs.REPLY.pack(code, len(text), len(changes), 0, *padded)
        try:
            self._wire.sendall(head + text + b"".join(verbs.CHANGE.pack(*change) for change in changes))
        except OSError:
            raise Ended from None

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self._child.pid, signal.SIGKILL)

    def finish(self, patience: float = 5.0) -> int:
        """Its exit status, as shells give it, once it has ended and all it printed is out."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(patience if self._end > time.monotonic() else 0)
        self.kill()
        status = self._child.wait()
        for pump in self._pumps:
            pump.join(5)
        self._wire.close()
        return status if status >= 0 else 128 - status


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * resource.getpagesize()
    except (OSError, ValueError):
        return MEMORY


def flush() -> None:
    """Before a program prints: what this process has printed comes first."""
    sys.stdout.flush()
    sys.stderr.flush()
