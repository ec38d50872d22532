"""`backwarp grade` at once: a process that has loaded everything stays for some minutes, and runs the commands that follow.

A command hands it its terminal and waits for the exit status, so it imports next to nothing itself. Both are the same
user's, and meet at a socket that nobody else can open. A command with other code or another environment runs as ever.
`BACKWARP_RESIDENT=off` switches it off; in CI it is off.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

from . import SOURCES

VERB = "grade"
WAITS = 300  # seconds without a command, after which it ends
MOST_RUN = 200  # commands, after which another process takes over
ANSWERS = 0.2  # seconds in which it answers, unless it is busy
PATIENCE = 2  # seconds for a command to say what it wants
INTERRUPTED = 130  # exit status, as in process.py
_READY, _TAKEN, _REFUSED, _INTERRUPT = b"?", b"+", b"-", b"i"
_LENGTH = struct.Struct("=I")
_STREAMS = (0, 1, 2)
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)
#: variables that are read as a process starts
_AT_START = (
    "BACKWARP_",
    "CUDA",
    "HOME",
    "LD_",
    "LLVM",
    "OMP_",
    "OPENBLAS",
    "PATH",
    "PYTHON",
    "TMPDIR",
    "XDG_",
)


def wanted(arguments: list[str]) -> bool:
    """Whether such a command may run there: not where a GPU is, whose memory the process would hold, and not on other
    people's files."""
    off = os.environ.get("BACKWARP_RESIDENT", "").lower() in ("off", "0", "none") or os.environ.get("CI")
    others = any(a.startswith("--within") for a in arguments)
    return arguments[:1] == [VERB] and not off and not others and not os.path.exists("/dev/nvidiactl")


def surroundings() -> list:
    """What a command and the process must have in common."""
    variables = sorted([name, value] for name, value in os.environ.items() if name.startswith(_AT_START))
    limits = [list(resource.getrlimit(kind)) for kind in _LIMITS]
    return [str(SOURCES), sys.executable, sys.version, os.geteuid(), limits, variables]


def address() -> str:
    """The socket's. It goes through a descriptor, which stays open, since the path of a socket must be short. Errors:
    OSError if there is no folder of the user's own."""
    from binascii import crc32

    from .devices.store import cache_root

    if (root := cache_root()) is None:
        raise FileNotFoundError
    host = os.uname().nodename  # machines may share the folder
    name = f"{crc32(f'{host} {SOURCES} {sys.executable}'.encode()):08x}.socket"
    return f"/proc/self/fd/{os.open(root, os.O_PATH | os.O_DIRECTORY)}/{name}"


def run(arguments: list[str]) -> int | None:
    """Has a command run there, on this terminal: its exit status, or None if it must run here."""
    import json

    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.settimeout(ANSWERS)
            connection.connect(address())
            if (
                connection.recv(1) != _READY
            ):  # before that it is given nothing: what waits there would stay open
                return None
            encodings = [stream.encoding for stream in (sys.stdin, sys.stdout, sys.stderr)]
            os.umask(mask := os.umask(0o077))
            wants = [surroundings(), os.getcwd(), mask, dict(os.environ), encodings, arguments]
            data = json.dumps(wants).encode()
            socket.send_fds(connection, [_LENGTH.pack(len(data))], _STREAMS)
            connection.sendall(data)
            if connection.recv(1) != _TAKEN:
                return None
        except (OSError, AttributeError, ValueError):  # there is none, or it is busy; a stream is closed
            return None
        connection.settimeout(None)
        return outcome(connection)


def outcome(connection: socket.socket) -> int | None:
    """Waits for the exit status. A first Ctrl-C is passed on, a second one ends both."""

    def interrupt(*_) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        connection.send(_INTERRUPT)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        status = connection.recv(1)
    except OSError:
        status = b""
    finally:
        signal.signal(signal.SIGINT, before)
    if status:
        return status[0]
    print("backwarp: the process that graded ended unexpectedly; grading again.", file=sys.stderr)
    return None


def start() -> None:
    """Starts the process, for the commands to come."""
    import subprocess

    code = f"import sys; sys.path.insert(0, {str(SOURCES)!r}); from backwarp.resident import main; main()"
    nothing = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    with contextlib.suppress(OSError):
        subprocess.Popen([sys.executable, "-P", "-c", code], cwd="/", start_new_session=True, **nothing)


def main() -> None:
    """The process: does nothing if there is one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
        place = address()
        with socket.socket(socket.AF_UNIX) as other:
            other.settimeout(ANSWERS)
            try:
                other.connect(place)
                return
            except TimeoutError:
                return
            except OSError:  # it has ended, perhaps without removing its socket
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(place)
        os.umask(0o077)
        listener.bind(place)
        try:
            listener.listen()
            Resident(listener).serve()
        finally:
            os.unlink(place)


def load() -> Callable[[list[str]], None]:
    """Loads what commands need, and starts the process that runs kernels; returns what runs a command."""
    from .devices.virtual.confined_process import PROCESS

    PROCESS.start()
    from .cli import main
    from .grading import failures, grade, runs  # noqa: F401
    from .grading.repair import search  # noqa: F401
    from .report import text  # noqa: F401

    return main


class Resident:
    """Runs commands, one at a time."""

    def __init__(self, listener: socket.socket):
        self.listener, self.started, self.surroundings = listener, time.time(), surroundings()
        self.running, self.command = False, load()

    def serve(self) -> None:
        """Until no command comes any more, or what is loaded is out of date."""
        self.listener.settimeout(WAITS)
        for _ in range(MOST_RUN):
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                return
            with connection, contextlib.suppress(OSError, ValueError):  # a command that is gone, or is none
                if not self.take(connection):
                    return

    def take(self, connection: socket.socket) -> bool:
        """Runs a command. Returns whether others may follow."""
        import json

        connection.settimeout(PATIENCE)
        connection.send(_READY)
        head, streams, *_ = socket.recv_fds(connection, _LENGTH.size, len(_STREAMS))
        with contextlib.ExitStack() as closing:
            for descriptor in streams:
                closing.callback(os.close, descriptor)
            (length,) = _LENGTH.unpack(head) if len(head) == _LENGTH.size else (0,)
            with connection.makefile("rb") as file:
                around, folder, mask, environment, encodings, arguments = json.loads(file.read(length))
            if around != self.surroundings or changed_since(self.started, folder):
                connection.send(_REFUSED)
                return False
            connection.settimeout(None)
            connection.send(_TAKEN)
            os.chdir(folder)
            os.umask(mask)
            os.environ.clear()
            os.environ.update(environment)
            take_over(streams, encodings)
        status = self.work(connection, arguments)
        with open(os.devnull, "r+b") as nothing:
            take_over([nothing.fileno()] * len(_STREAMS), encodings)
        connection.send(bytes([status]))
        return status != INTERRUPTED

    def work(self, connection: socket.socket, arguments: list[str]) -> int:
        """The exit status of a command."""
        self.running = True
        threading.Thread(target=self.look_after, args=(connection,), daemon=True).start()
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.command(arguments)
        except SystemExit as end:
            return end.code
        except KeyboardInterrupt:  # between two places that expect it
            return INTERRUPTED
        finally:
            self.running = False
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def look_after(self, connection: socket.socket) -> None:
        """Passes on a command's Ctrl-C, and ends with the command if that is killed."""
        with contextlib.suppress(OSError):
            while connection.recv(1):
                if self.running:
                    os.kill(os.getpid(), signal.SIGINT)
        if self.running:
            os._exit(1)  # the system ends the processes that this one started


def changed_since(started: float, folder: str) -> bool:
    """Whether loaded code, or a puzzle of the course around the folder, has changed since then (seconds since 1970)."""
    from pathlib import Path

    from .course.checkout import open_course
    from .errors import CourseError

    files = [file for m in list(sys.modules.values()) if (file := getattr(m, "__file__", None))]
    with contextlib.suppress(CourseError):
        root = open_course(Path(folder)).root
        files += [*root.glob("puzzles/*/puzzle.py"), *root.glob("solutions/*/*")]
    try:
        return any(max(found.st_mtime, found.st_ctime) > started for found in map(os.stat, files))
    except OSError:  # one is gone
        return True


def take_over(streams: list[int], encodings: list[str]) -> None:
    """Makes these descriptors the standard streams."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    for number, descriptor in zip(_STREAMS, streams, strict=True):
        os.dup2(descriptor, number)
    how = {"errors": "backslashreplace", "closefd": False, "buffering": 1}
    files = (open(n, "r" if n == 0 else "w", encoding=e, **how) for n, e in zip(_STREAMS, encodings))
    sys.stdin, sys.stdout, sys.stderr = files
