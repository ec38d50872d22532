"""Child processes for the tests, forked from one that has imported what they need: a start takes 5 ms, not 250.

Hundreds of tests start the same few workers. For each of these modules one process stands by, started as `Child` would
start the worker, with the modules loaded that the worker imports; a worker is a fork of it. It takes over the
arguments, the environment, the folder and the files of the process that it stands for, and runs the module.
Tests of processes themselves (`harness/tests/attacks`) start real ones.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

from backwarp.devices.child import Child

#: the workers' modules -> what they import late
MODULES = {
    "backwarp.devices.gpu.worker": (),
    "backwarp.devices.virtual.compile.build_worker": ("backwarp.devices.virtual.compile.pipeline",),
    "backwarp.devices.virtual.confined_worker": (
        "backwarp.devices.virtual.analyse.rows",
        "backwarp.devices.virtual.explain.agreement",
        "backwarp.devices.virtual.explain.faults",
    ),
    "backwarp.grading.programs.worker": (),
    "backwarp.measure.baseline": (),
}
#: environment variables that Python and its libraries read when they start
_AT_START = {
    "LD_LIBRARY_PATH",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTHONPATH",
}
_MOST = 12  # processes that stand by
_REQUEST = 1 << 16  # bytes
_starters: dict[tuple, Starter | None] = {}
_turn = threading.Lock()


def popen(command: list[str], **options) -> subprocess.Popen | Forked:
    """In place of subprocess.Popen, for what `Child` starts."""
    attacked = "tests/attacks" in os.environ.get("PYTEST_CURRENT_TEST", "")
    if attacked or command[1:3] != ["-P", "-m"] or command[3] not in MODULES or len(command) > 5:
        return subprocess.Popen(command, **options)
    module, arguments, environment = command[3], command[4:], options["env"]
    key = module, *sorted(environment.items() & {(name, environment.get(name)) for name in _AT_START})
    with _turn:
        if key not in _starters:
            _starters[key] = Starter(module, environment) if len(_starters) < _MOST else None
        if _starters[key]:
            with contextlib.suppress(EOFError, OSError):  # it cannot import what it should
                return Forked(_starters[key], arguments, environment)
    return subprocess.Popen(command, **options)


class Starter:
    """The process that stands by."""

    def __init__(self, module: str, environment: dict[str, str]):
        self.turn, self.forks = threading.Lock(), []
        self.connection, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            code = f"from tests.forks import stand_by; stand_by({module!r}, {theirs.fileno()})"
            command = [sys.executable, "-P", "-c", code]
            quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, **quiet)

    def ask(self, request: dict, *files: int) -> int:
        with self.turn:
            socket.send_fds(self.connection, [json.dumps(request).encode()], files)
            answer = self.connection.recv(8)
        if not answer:
            raise EOFError
        return array.array("q", answer)[0]

    def end(self) -> None:
        self.connection.close()
        self.process.wait()
        for fork in self.forks:  # they have ended with it
            fork.returncode = -signal.SIGKILL


@atexit.register
def end() -> None:
    """End the processes that stand by, and their forks."""
    for starter in filter(None, _starters.values()):
        starter.end()


class Forked:
    """What `Child` uses of a subprocess.Popen."""

    def __init__(self, starter: Starter, arguments: list[str], environment: dict[str, str]):
        self._starter, self.returncode = starter, None
        told, tells = os.pipe()
        request = {"arguments": arguments, "environment": environment, "folder": os.getcwd()}
        self.stderr = os.fdopen(told, "rb")
        with os.fdopen(tells, "wb"):
            self.pid = starter.ask(request, int(arguments[0]), tells)
        self._end = os.pidfd_open(self.pid)
        starter.forks.append(self)

    def has_ended(self) -> bool:
        return self.returncode is not None or bool(select.select([self._end], [], [], 0)[0])

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout)
            self.returncode = self._starter.ask({"ended": self.pid})
            self._starter.forks.remove(self)
            os.close(self._end)
        return self.returncode

    def kill(self) -> None:
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)


def has_ended(process: Child, forked: type = Forked, otherwise: Callable = Child._has_ended) -> bool:
    """In place of Child._has_ended: only the process that it is a fork of may wait for a fork."""
    return process._child.has_ended() if isinstance(process._child, forked) else otherwise(process)


# -- in the process that stands by -----------------------------------------------------------------------


def stand_by(module: str, file: int) -> None:
    """Forks until the tests end."""
    for each in (module, *MODULES[module]):
        importlib.import_module(each)
    del sys.modules[module]  # each fork runs it as its program
    gc.collect()
    gc.freeze()
    connection = socket.socket(fileno=file)
    while True:
        data, files, *_ = socket.recv_fds(connection, _REQUEST, 2)
        if not data:
            os._exit(0)
        request = json.loads(data)
        if "ended" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        elif (answer := os.fork()) == 0:
            connection.close()
            _become(module, request, *files)
        else:
            os.setpgid(answer, answer)  # as it does itself: whoever is first
        connection.send(array.array("q", [answer]))
        for each in files:
            os.close(each)


def _become(module: str, request: dict, file: int, errors: int) -> None:
    """The fork is the program `python -P -m module *arguments`."""
    os.setpgid(0, 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(errors, 2)
    os.close(errors)
    first, *rest = request["arguments"]
    if int(first) != file:
        os.dup2(file, int(first), inheritable=True)
        os.close(file)
    sys.argv = ["-m", first, *rest]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
