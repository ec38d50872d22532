"""A child process for work that may crash, hang or exhaust memory: requests and answers over one connection.

The child is `python -m MODULE FD`. It calls `attach()`, prepares itself, and then `serve()`s: a table of verbs says
what it can do. A request is (verb, arguments), an answer ("ok", value) or ("error", exception, fatal). Children that
run what nobody trusts answer in bytes instead (`devices/virtual/answers.py`), as what they send is not unpickled.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from ..errors import BackwarpError

_CHECKOUT = Path(__file__).resolve().parents[2]


class Child:
    """The parent's side: request and answer, with a time limit."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str] | None = None):
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
        self._connection = Connection(ours.detach())

    def ask(self, request: str, arguments: tuple, limit: float):
        """The answer's value. TimeoutError if it takes longer; EOFError if the child is gone."""
        self._connection.send((request, arguments))
        if not self._connection.poll(limit):
            raise TimeoutError
        answer = self._connection.recv()
        if answer[0] == "ok":
            return answer[1]
        error, fatal = answer[1:]
        error.fatal = fatal
        raise error

    def send(self, data: bytes) -> None:
        self._connection.send_bytes(data)

    def receive(self, limit: float) -> bytes:
        """What the child sends next. TimeoutError if it takes longer; EOFError if the child is gone."""
        if not self._connection.poll(limit):
            raise TimeoutError
        return self._connection.recv_bytes()

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


def attach() -> Connection:
    """The child's side: its connection. Ctrl-C is left to the parent; the child dies with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, Linux
    except (OSError, AttributeError):
        pass
    return Connection(int(sys.argv[1]))


def told(error: Exception) -> tuple[Exception, bool]:
    """What is told to the parent: our own errors. Others end the child, with a traceback."""
    if isinstance(error, BackwarpError):
        return error, False
    raise error


def serve(
    connection: Connection,
    verbs: Mapping[str, Callable],
    explain: Callable[[Exception], tuple[Exception, bool]] = told,
) -> NoReturn:
    """Answers requests until the parent exits. explain: an exception -> (what to tell, whether this process must end)."""
    while True:
        try:
            verb, arguments = connection.recv()
        except (EOFError, OSError):
            os._exit(0)  # without tearing down what may hang
        try:
            answer = "ok", verbs[verb](*arguments)
        except Exception as error:
            answer = "error", *explain(error)
        connection.send(answer)
        if answer[0] == "error" and answer[2]:
            os._exit(0)
