"""A child process for work that may crash, hang or exhaust memory: requests and answers over one connection.

The child is `python -m MODULE FD`. It `attach`es, prepares itself, and then `serve`s: a table of verbs says what it
can do. Three messages:

    "ask", verb, arguments     a request: its answer is ("ok", value) or ("error", exception, fatal)
    "post", verb, arguments    a request without an answer: what goes wrong is the answer to the next "ask"
    "ok" or "error", ...       an answer

The child may ask too, while it works on a request. Messages are pickled; between processes that do not trust each
other a `plain.Codec` writes them, as reading a pickle can run code.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from ..errors import BackwarpError
from .plain import Damaged
from .wire import MOST, Wire

CHECKOUT = Path(__file__).resolve().parents[2]
_SLOW = 120.0  # seconds that a child may take to read a message
_LAST_WORDS = 1 << 16  # bytes of what a child says as it ends


class Channel:
    """One end of the connection. codec: `dumps` and `loads`. patience: seconds that the other side may take to read a
    message."""

    def __init__(self, end: socket.socket, codec=pickle, patience: float | None = None):
        self._wire, self._codec, self.patience = Wire(end), codec, patience

    def post(self, verb: str, *arguments) -> None:
        """Send a request without an answer. OSError if the other side is gone."""
        self.send("post", verb, arguments)

    def ask(
        self, verb: str, arguments: tuple, limit: float | None = None, verbs: Mapping[str, Callable] = {}
    ):  # noqa: B006
        """The answer's value. limit: seconds for each message. verbs: what the other side may ask meanwhile.

        Errors: what the other side raises, TimeoutError, Damaged; EOFError or OSError if the other side is gone.
        """
        self.send("ask", verb, arguments)
        while True:
            match self.receive(limit):
                case "ok", value:
                    return value
                case "error", BackwarpError() as error, bool() as fatal:
                    error.fatal = fatal
                    raise error
                case "ask", str() as asked, list() | tuple() as about if verbs and asked in verbs:
                    self.send(*answer(verbs[asked], about))
                case _:
                    raise Damaged("neither an answer nor a request")

    def send(self, *message) -> None:
        self._wire.send(self._codec.dumps(message), self.patience)

    def receive(self, limit: float | None = None, most: int = MOST):
        return self._codec.loads(self._wire.receive(limit, most))


class Child(Channel):
    """The parent's end, and the process at the other."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str] | None = None, codec=pickle):
        """arguments: of its command line, from sys.argv[2] on. environment: variables that it sees; default all of
        this process's."""
        ours, theirs = socket.socketpair()
        environment = dict(os.environ if environment is None else environment)
        paths = [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,  # why it could not start, or how it ended
                env=environment,
                process_group=0,  # what it starts ends with it
            )
        super().__init__(ours, codec, _SLOW)

    def end(self) -> str:
        """Stops the child, whatever it is doing, and all that it has started; returns how it ended."""
        self._wire.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(0.2)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        status = self._child.wait()
        with self._child.stderr as pipe:
            os.set_blocking(pipe.fileno(), False)  # somebody else may hold its other end
            said = (pipe.read(_LAST_WORDS) or b"").decode("utf-8", "replace").strip().splitlines()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"{how}: {said[-1]}" if said else how


def attach(codec=pickle) -> Channel:
    """The child's end. Ctrl-C is left to the parent; the child dies with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, Linux
    except (OSError, AttributeError):
        pass
    return Channel(socket.socket(fileno=int(sys.argv[1])), codec)


def told(error: Exception) -> tuple[Exception, bool]:
    """What is told to the other side: our own errors. Others end this process, with a traceback."""
    if isinstance(error, BackwarpError):
        return error, False
    raise error


def answer(work: Callable, arguments, explain: Callable[[Exception], tuple[Exception, bool]] = told) -> tuple:
    """The message. explain: an exception -> (what to tell, whether this process must end)."""
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
    wrong = None  # the first error in a request that has no answer
    while True:
        try:
            how, verb, arguments = channel.receive()
        except (EOFError, OSError):
            os._exit(0)  # without tearing down what may hang
        if how == "post":
            found = answer(verbs[verb], arguments, explain)
            wrong = wrong or (found if found[0] == "error" else None)
            continue
        found, wrong = wrong or answer(verbs[verb], arguments, explain), None
        channel.send(*found)
        if found[0] == "error" and found[2]:
            os._exit(0)
