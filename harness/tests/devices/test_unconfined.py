"""Systems that cannot confine a process, in full or in part: an old kernel, an emulator, a container's filter."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from backwarp.devices import confine
from backwarp.devices.child import ENVIRONMENT, Child
from backwarp.devices.virtual import confined_process
from backwarp.devices.virtual.compile import build
from backwarp.errors import DeviceError
from backwarp.grading.programs.program import Program
from tests import ROOT, SOURCES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems confine nothing")

SECCOMP = {317, 277}
NAMES = {444: "create", 445: "add", 446: "restrict", **dict.fromkeys(SECCOMP, "seccomp")}


class Libc:
    """Does nothing, successfully, but for one call."""

    def __init__(self, call: str, does):
        self.call, self.does, self.made = call, does, []

    def answer(self, call: str) -> int:
        self.made.append(call)
        if call == "create":
            good = os.open(os.devnull, os.O_RDONLY)  # the rules, which are closed
        else:
            good = 0
        return self.does() if call == self.call else good

    def prctl(self, *_) -> int:
        return self.answer("prctl")

    def capget(self, *_) -> int:
        return self.answer("capget")

    def capset(self, *_) -> int:
        return self.answer("capset")

    def syscall(self, number: int, *_) -> int:
        return self.answer(NAMES[number])


def fails(number: int):
    def failing() -> int:
        confine.ctypes.set_errno(number)
        return -1

    return failing


def killed_in_a_child():
    """The filter is accepted, and the process's next call ends it."""
    if os.getpid() != HERE:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


HERE = os.getpid()
CASES = [
    ("", lambda: 0, True, True),
    ("seccomp", fails(errno.ENOSYS), True, False),
    ("seccomp", fails(errno.EINVAL), True, False),
    ("seccomp", lambda: 4321, True, False),  # a thread that it was not set for
    ("seccomp", killed_in_a_child, True, False),
    ("create", fails(errno.ENOSYS), False, True),
    ("create", fails(errno.EOPNOTSUPP), False, True),
    ("create", fails(errno.EPERM), False, True),
    ("add", fails(errno.EPERM), False, True),
    ("restrict", fails(errno.EPERM), False, True),
    ("prctl", fails(errno.EINVAL), False, False),
    ("capget", fails(errno.ENOSYS), False, False),
    ("capset", fails(errno.EPERM), False, False),
]


@pytest.mark.parametrize(("call", "does", "files", "calls"), CASES)
def test_what_a_system_lacks_is_not_in_force(call, does, files, calls, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "HERE", os.getpid())
    monkeypatch.setattr(confine, "_threads", lambda: 1)
    libc = Libc(call, does)
    monkeypatch.setattr(confine.ctypes, "CDLL", lambda *_, **__: libc)
    held = confine.confine([tmp_path])
    assert (held.files, held.calls) == (files, calls)
    assert bool(held.lacks) == (not held.complete)
    monkeypatch.setenv(confine.STRICT, "1")
    if held.complete:
        confine.confine([tmp_path])
    else:
        with pytest.raises(PermissionError):
            confine.confine([tmp_path])


def test_threads_that_run_keep_their_files(tmp_path, monkeypatch):
    monkeypatch.setattr(confine, "_threads", lambda: 2)
    libc = Libc("", None)
    monkeypatch.setattr(confine.ctypes, "CDLL", lambda *_, **__: libc)
    held = confine.confine([tmp_path])
    assert held.calls and not held.files and held.lacks


@pytest.mark.parametrize("machine", ["riscv64", "i686", ""])
def test_an_architecture_without_a_table_has_no_filter(machine, monkeypatch):
    monkeypatch.setattr(confine.platform, "machine", lambda: machine)
    with pytest.raises(OSError, match="no filter"):
        confine._confine_calls(Libc("", None), False, False)


@pytest.mark.parametrize("error", [OSError(errno.ENOSYS, "not implemented"), ValueError("not allowed")])
def test_a_limit_that_the_system_does_not_set(error, monkeypatch):
    def refuse(*_):
        raise error

    monkeypatch.setattr(resource, "setrlimit", refuse)
    confine.limit(addresses=1 << 40)
    monkeypatch.setenv(confine.STRICT, "1")
    with pytest.raises(PermissionError):
        confine.limit(addresses=1 << 40)


def test_a_trial_that_cannot_run_confines_nothing(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    held = confine.supported.__wrapped__()
    assert not held.files and not held.calls and held.lacks


# -- processes that do not start: never the file's fault -----------------------------------------------


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Python ends before a worker serves."""
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('no Python today')")
    confined_process.PROCESS.end()
    build.end()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield
    confined_process.PROCESS.end()
    build.end()


def test_compilers_that_do_not_start(broken):
    with pytest.raises(DeviceError, match=r"cannot be started .*no Python today"):
        build._in_child(("a job",))


def test_a_process_for_kernels_that_does_not_start(broken):
    with pytest.raises(DeviceError, match=r"cannot be started .*no Python today"):
        confined_process.PROCESS.ask("written", 1)


def test_a_process_for_programs_that_does_not_start(broken):
    with Program({}) as program, pytest.raises(DeviceError, match=r"cannot be started .*no Python today"):
        program.load("", "step.py", ["forward(net)"], 5)


def test_a_system_that_starts_no_process(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(DeviceError, match="starts no further process"):
        Child("tests.devices.a_child")


def test_a_child_that_served_posts_alone_was_ready():
    child = Child("tests.devices.a_child")
    child.post("divide", 1, 2)
    child._connection.recv(1, socket.MSG_PEEK)
    os.kill(child.pid, signal.SIGKILL)
    child.end()
    assert child.ready


# -- the whole path, where the kernel has neither ------------------------------------------------------

LACKS = f"""
import ctypes, errno
class CDLL(ctypes.CDLL):
    def __getattr__(self, name):
        if name != "syscall" or self._name is not None:
            return super().__getattr__(name)
        def syscall(number, *given):
            if number not in {sorted(NAMES)}:
                return real(number, *given)
            ctypes.set_errno(errno.ENOSYS)
            return -1
        real = super().__getattr__(name)
        self.syscall = syscall  # CDLL keeps what it has found
        return syscall
ctypes.CDLL = CDLL
"""


@pytest.fixture
def says(tmp_path, runtime):
    (tmp_path / "sitecustomize.py").write_text(LACKS)
    variables = os.environ | {"PYTHONPATH": f"{SOURCES}:{tmp_path}"}

    def run(*words: str | Path) -> tuple[int, str]:
        command = [sys.executable, "-m", "backwarp", *map(str, words)]
        done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, timeout=120)
        return done.returncode, " ".join(f"{done.stdout} {done.stderr}".split())

    return run


def test_ones_own_files_are_graded_with_a_note_and_others_are_not(says):
    kernel = ROOT / "solutions" / "01_vector_add" / "kernel.cu"
    assert says("grade", "01", "--solution")[0] == 0
    status, text = says("grade", "01", "--file", kernel, "--within", kernel.parent)
    assert status == 2 and "seccomp" in text and "Landlock" in text
    status, text = says("doctor")
    assert status == 0 and "seccomp: Function not implemented" in text


def test_a_process_that_must_be_confined_ends_before_it_serves(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(LACKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(Child, "strict", True)
    child = Child("tests.devices.what_is_seen", environment=ENVIRONMENT)
    with pytest.raises((EOFError, OSError)):
        child.ask("seen", (), 60)
    assert "PermissionError" in child.end() and not child.ready
