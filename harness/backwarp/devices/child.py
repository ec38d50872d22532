"""A child process for work that may crash, hang or exhaust memory: requests and answers over one connection.

The child is `python -m MODULE FD`. It calls `attach`, prepares itself, and then calls `serve` with a table of
the verbs it supports: `serve` first sends ("ready",). There are three more messages:

    "ask", verb, arguments     a request: its answer is ("ok", value) or ("error", exception, fatal)
    "post", verb, arguments    a request without an answer: an error is reported by the next "ask"
    "ok" or "error", ...       an answer

The child may also ask, while it works on a request. Messages are pickled; between processes that do not trust
each other a `plain.Codec` encodes them, since reading a pickle can run code. Whatever a child does, its
parent never waits longer than the limit or reads more than it expects.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import os
import pickle
import queue
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NoReturn

from .. import SOURCES
from ..errors import BackwarpError, DeviceError
from . import bubblewrap
from .confine import ONE_THREAD, STRICT

_LENGTH = struct.Struct("=Q")  # the length of a message, sent before it
_SHORT = 1 << 14  # bytes of a message that is sent together with its length
_LOOKS = 0.005, 0.05  # seconds between two checks of a working child's memory: at least, at most
_FILLED = 16 << 30  # bytes of memory that a process can fill in a second
TOGETHER = 1100 << 20  # bytes that all bounded children may use, beyond what they are granted
PATIENCE = 60  # seconds for a child to receive what it is sent
_WORKS = 0.02  # share of the limit: a child that used less processor time than this is waiting, not held up
_ENDING = 0.2  # seconds for a child to end by itself
_LAST_WORDS = 1 << 16  # bytes of stderr that are read
_LONGEST_WORD = 300  # characters of the last line that are reported
_FRAME = re.compile(r' *File "(?:[^"]*/)?([^/"]+/[^/"]+\.py)", line (\d+)')  # in a traceback
#: the environment variables that a process running untrusted code may see
ENVIRONMENT = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONHASHSEED", "TZ")


class Damaged(Exception):
    """What was received is not a valid message, or contains an object of a class that it must not."""


class Channel:
    """One end of the connection. codec: has `dumps` and `loads`. most: bytes per message; None: no limit."""

    most: int | None = None
    ready = False  # whether the other side has begun to serve
    questions: int | None = None  # questions the other side may ask per request; None: no limit

    def __init__(self, connection: socket.socket, codec=pickle):
        self._connection, self._codec = connection, codec

    def post(self, verb: str, *arguments) -> None:
        """Send a request without an answer. OSError if the other side is gone."""
        self.send("post", verb, arguments)

    def ask(
        self, verb: str, arguments: tuple, limit: float | None = None, verbs: Mapping[str, Callable] = {}
    ):  # noqa: B006
        """Asks, and returns the answer's value. limit: seconds per message. verbs: what the other side may
        ask meanwhile.

        Errors: whatever the other side raises, TimeoutError, Damaged; EOFError or OSError if the other side
        is gone.
        """
        self.send("ask", verb, arguments)
        for number in itertools.count():
            if self.questions is not None and number > self.questions:
                raise Damaged("questions without end")
            match self.receive(limit):
                case "ok", value:
                    return value
                case "error", BackwarpError() as error, bool() as fatal:
                    error.fatal = fatal
                    raise error
                case ("ready",) if not self.ready:
                    self.ready = True
                case "ask", str() as asked, list() | tuple() as about if verbs and asked in verbs:
                    self.send(*answer(verbs[asked], about))
                case _:
                    raise Damaged("neither an answer nor a request")

    def send(self, *message) -> None:
        data = self._codec.dumps(message)
        length = _LENGTH.pack(len(data))
        self._put(*((length + data,) if len(data) < _SHORT else (length, data)))

    def _put(self, *parts: bytes) -> None:
        for part in parts:
            self._connection.sendall(part)

    def receive(self, limit: float | None = None):
        end = None if limit is None else time.monotonic() + limit
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, end))
        if self.most is not None and length > self.most:
            raise Damaged(f"a message of {length} bytes")
        return self._codec.loads(self._read(length, end))

    def _read(self, count: int, end: float | None) -> bytes:
        """end: a time of time.monotonic()."""
        data = bytearray(count)
        rest = memoryview(data)
        while rest:
            taken = self._take(rest, end)
            if not taken:
                raise EOFError
            rest = rest[taken:]
        return bytes(data)

    def _take(self, into: memoryview, end: float | None) -> int:
        return self._connection.recv_into(into)


class Child(Channel):
    """The parent's end, and the process at the other.

    memory: bytes that the process may use; exceeding it raises a MemoryError in this process. granted: how
    many of them do not count towards the limit for all children together.
    """

    granted = 0
    strict = False  # whether children with a bare environment end rather than be confined in part
    _alive: set[Child] = set()

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Iterable[str] | None = None,
        codec=pickle,
        most: int | None = None,
        memory: int | None = None,
        inherited: Sequence[int] = (),
    ):
        """arguments: the command line from sys.argv[2] on. inherited: open files that it gets too. environment: names of the variables it sees;
        default: all of this process's.

        Errors: DeviceError if the system starts no process."""
        self.most, self.memory = most, memory
        ours, theirs = socket.socketpair()
        names = os.environ if environment is None else os.environ.keys() & set(environment)
        variables = {name: os.environ[name] for name in names}
        if environment is not None:
            variables |= ONE_THREAD | ({STRICT: "1"} if self.strict else {})
        paths = [str(SOURCES), os.environ.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
        command = [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments]
        wrapper = bubblewrap.wrapper() if environment is not None else ()
        self._wrapped, tells, inherited = bool(wrapper), None, [theirs.fileno(), *inherited]
        with contextlib.ExitStack() as ours_no_more:
            ours_no_more.enter_context(theirs)
            if wrapper:
                tells, told = map(os.fdopen, os.pipe(), "rw")
                ours_no_more.enter_context(told)
                inherited.append(told.fileno())
                command = [*wrapper, "--info-fd", str(told.fileno()), *command]
            try:
                self._child = _started(
                    command,
                    pass_fds=inherited,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,  # says why it could not start, or how it ended
                    env=variables,
                    process_group=0,  # killed as a whole
                )
            except OSError as error:
                raise DeviceError(f"the system starts no further process ({error})") from None
        self.pid = bubblewrap.process(tells) if tells else self._child.pid
        self._usage = None  # the system's file about its memory
        with contextlib.suppress(OSError):
            self._usage = open(f"/proc/{self.pid}/statm", "rb", buffering=0)
        ours.settimeout(PATIENCE)
        super().__init__(ours, codec)
        self._alive.add(self)

    def _take(self, into: memoryview, end: float | None) -> int:
        while True:
            left = self._look if end is None else max(min(end - time.monotonic(), self._look), 0.001)
            self._connection.settimeout(left)
            try:
                return self._connection.recv_into(into)
            except TimeoutError:
                self._spent = self._spent or [self.spent()] * 2
                if (room := self._room()) < 0:
                    raise MemoryError from None
                self._look = min(max(room / _FILLED, _LOOKS[0]), _LOOKS[1])
                if end is not None and time.monotonic() >= end + self._longer and not self._is_held_up():
                    raise
            finally:
                self._connection.settimeout(PATIENCE)

    def receive(self, limit: float | None = None):
        """See Channel.receive. On a busy machine the limit is one of processor time."""
        self._limit, self._longer, self._spent = limit, 0.0, []  # counted from the first check
        self._look = _LOOKS[0]
        return super().receive(limit)

    def _is_held_up(self) -> bool:
        """Whether it has exceeded its limit only by the clock, not in processor time. Then it gets more."""
        first, before = self._spent
        now, limit = self.spent(), self._limit or 0.0
        if now - first > limit or now - before < limit * _WORKS:
            return False
        self._spent, self._longer = [first, now], self._longer + limit
        return True

    def _room(self) -> float:
        """Bytes that it may still use; negative if it uses too much."""
        if self.memory is None:
            return math.inf
        others = [child for child in list(self._alive) if child is not self and child.memory is not None]
        used, granted = self.used(), self.granted + sum(child.granted for child in others)
        together = used + sum(child.used() for child in others)
        return min(self.memory - used, TOGETHER + granted - together)

    def allow(self, seconds: float) -> None:
        """Limit its processor time per core from now on; then the system kills it, even if this process
        cannot."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError, ValueError):  # it has ended, or has a lower limit
                hard = resource.prlimit(self.pid, resource.RLIMIT_CPU)[1]
                bound = math.ceil(self.spent() + seconds * (os.cpu_count() or 1))
                if hard == resource.RLIM_INFINITY or bound < hard:
                    resource.prlimit(self.pid, resource.RLIMIT_CPU, (bound, hard))

    def spent(self) -> float:
        """Seconds of processor time used; 0 if the system does not report it."""
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                user, system = file.read().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            return 0.0

    @classmethod
    def spent_by_all(cls) -> float:
        """Seconds of processor time of this process and of its children, including those that have ended."""
        return sum(os.times()[:4]) + sum(child.spent() for child in list(cls._alive))

    def used(self) -> int:
        """Bytes of memory in use now; 0 if the system does not report it."""
        if self._usage is None:
            return 0
        try:
            return int(os.pread(self._usage.fileno(), 100, 0).split()[1]) * resource.getpagesize()
        except (OSError, ValueError, IndexError):  # it has ended
            return 0

    def end(self) -> str:
        """Stops the child and everything it started; returns how it ended. After this, `ready` is sure."""
        self._alive.discard(self)
        self._connection.settimeout(0)
        with contextlib.suppress(OSError):  # perhaps nobody has read it
            self.ready = self.ready or bool(self._connection.recv(1))
        self._connection.close()
        end = time.monotonic() + _ENDING
        while not self._has_ended() and time.monotonic() < end:
            time.sleep(0.002)
        self.kill()  # before its process id can be reused
        status = self._child.wait()
        if self._wrapped and status > 128:
            status = 128 - status  # the signal that ended the process inside bwrap
        with self._child.stderr as pipe:
            said = pipe.read(_LAST_WORDS).decode("utf-8", "replace").strip().splitlines()
        if self._usage:
            self._usage.close()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        if not said:
            return how
        places = [place for line in said if (place := _FRAME.match(line))]
        where = f" ({places[-1][1]}, line {places[-1][2]})" if places else ""
        return f"{how}: {said[-1][:_LONGEST_WORD]}{where}"

    def kill(self) -> None:
        """Whoever waits for it finds that it has ended."""
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, signal.SIGKILL)

    def _has_ended(self) -> bool:
        """Whether it has ended; it is not reaped, so its process id stays reserved."""
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self._child.returncode is not None or os.waitid(os.P_PID, self._child.pid, how) is not None


def _started(command: list[str], **how) -> subprocess.Popen:
    """A new process. The system ends it with the thread that started it, so that is one that lives as long as this process."""
    if threading.current_thread() is threading.main_thread():
        return subprocess.Popen(command, **how)
    started: queue.SimpleQueue = queue.SimpleQueue()
    _starter().put((started, command, how))
    found = started.get()
    if isinstance(found, BaseException):
        raise found
    return found


@cache
def _starter() -> queue.SimpleQueue:
    """Takes what `_started` is to start."""
    wanted: queue.SimpleQueue = queue.SimpleQueue()

    def start() -> None:
        while True:
            started, command, how = wanted.get()
            try:
                started.put(subprocess.Popen(command, **how))
            except BaseException as error:
                started.put(error)

    threading.Thread(target=start, daemon=True).start()
    return wanted


def attach(codec=pickle, channel: type[Channel] = Channel) -> Channel:
    """The child's end. Ctrl-C is left to the parent; the child dies with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, Linux
    except (OSError, AttributeError):
        pass
    return channel(socket.socket(fileno=int(sys.argv[1])), codec)


def told(error: Exception) -> tuple[Exception, bool]:
    """The error to send to the other side, if it is one of ours. Others end this process with a traceback."""
    if isinstance(error, BackwarpError):
        return error, False
    raise error


def answer(work: Callable, arguments, explain: Callable[[Exception], tuple[Exception, bool]] = told) -> tuple:
    """The answer message. explain: an exception -> (the error to send, whether this process must end)."""
    try:
        return "ok", work(*arguments)
    except Exception as error:
        return "error", *explain(error)


def serve(
    channel: Channel,
    verbs: Mapping[str, Callable],
    explain: Callable[[Exception], tuple[Exception, bool]] = told,
) -> NoReturn:
    """Answers requests until the parent exits."""
    wrong = None  # the first error in a request without an answer
    with contextlib.suppress(OSError):
        channel.send("ready")
    while True:
        try:
            how, verb, arguments = channel.receive()
        except (EOFError, OSError):
            os._exit(0)  # skip teardown, which may hang
        if how == "post":
            found = answer(verbs[verb], arguments, explain)
            wrong = wrong or (found if found[0] == "error" else None)
            continue
        found, wrong = wrong or answer(verbs[verb], arguments, explain), None
        channel.send(*found)
        if found[0] == "error" and found[2]:
            os._exit(0)
