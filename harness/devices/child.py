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

import ctypes
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from ..errors import BackwarpError
from .plain import Damaged

_CHECKOUT = Path(__file__).resolve().parents[2]


class Channel:
    """One end of the connection. codec: `dumps` and `loads`."""

    def __init__(self, connection: Connection, codec=pickle):
        self._connection, self._codec = connection, codec

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
        self._connection.send_bytes(self._codec.dumps(message))

    def receive(self, limit: float | None = None):
        if not self._connection.poll(limit):
            raise TimeoutError
        return self._codec.loads(self._connection.recv_bytes())


class Child(Channel):
    """The parent's end, and the process at the other."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str] | None = None, codec=pickle):
        """arguments: of its command line, from sys.argv[2] on. environment: variables that it sees; default all of
        this process's."""
        ours, theirs = socket.socketpair()
        environment = dict(os.environ if environment is None else environment)
        paths = [str(_CHECKOUT), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,  # why it could not start, or how it ended
                env=environment,
            )
        super().__init__(Connection(ours.detach()), codec)

    def end(self) -> str:
        """Stops the child, whatever it is doing; returns how it ended."""
        self._connection.close()
        try:
            status = self._child.wait(0.2)
        except subprocess.TimeoutExpired:
            self._child.kill()
            status = self._child.wait()
        with self._child.stderr as pipe:
            said = pipe.read().decode("utf-8", "replace").strip().splitlines()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"{how}: {said[-1]}" if said else how


def attach(codec=pickle) -> Channel:
    """The child's end. Ctrl-C is left to the parent; the child dies with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, Linux
    except (OSError, AttributeError):
        pass
    return Channel(Connection(int(sys.argv[1])), codec)


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
