"""A confined process can compute, and cannot affect anybody else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from backwarp.devices.child import ENVIRONMENT, Child
from backwarp.devices.confine import supported
from tests import SOURCES

# Each attempt is made in an unconfined process first, then in a confined one. The calls have no lasting
# effect where they are allowed.
ATTEMPTS = """
import json, mmap, os, resource, socket, subprocess, sys, threading
import numpy as np
from backwarp.devices.confine import confine, python_folders

here, parent = sys.argv[1], os.getppid()

def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

def thread():
    done = []
    (t := threading.Thread(target=done.append, args=(1,))).start()
    t.join()
    assert done

def executable():
    with mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as memory:
        memory[0] = 0xC3

HARMFUL = {
    "read a file": lambda: open(here + "/secret").read(),
    "write a file": lambda: open(here + "/new", "w").close(),
    "change a file": lambda: open(here + "/secret", "a").close(),
    "list a folder": lambda: os.listdir(here),
    "remove a file": lambda: os.remove(here + "/spare"),
    "make a folder": lambda: os.mkdir(here + "/folder"),
    "make a link": lambda: os.symlink("secret", here + "/link"),
    "rename": lambda: os.rename(here + "/secret", here + "/secret"),
    "change rights": lambda: os.chmod(here + "/secret", 0o600),
    "read the parent's environment": lambda: open(f"/proc/{parent}/environ").read(),
    "read the parent's memory": lambda: open(f"/proc/{parent}/mem", "rb").close(),
    "its own environment from the system": lambda: open("/proc/self/environ").read(),
    "start a process": fork,
    "run a program": lambda: subprocess.run(["/bin/true"]),
    "open a socket": lambda: socket.socket().close(),
    "a pair of sockets": lambda: socket.socketpair(),
    "signal the parent": lambda: os.kill(parent, 0),
    "limit the parent": lambda: resource.prlimit(parent, resource.RLIMIT_CORE, resource.prlimit(parent, resource.RLIMIT_CORE)),
    "its priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)),
    "a file without a name": lambda: os.close(os.memfd_create("x")),
    "ask for its session": lambda: os.getsid(0),
    "its own limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
}
HARMLESS = {
    "arithmetic": lambda: np.ones((64, 64)) @ np.ones((64, 64)),
    "threads": thread,
    "executable memory": executable,
    "imports": lambda: __import__("colorsys"),
    "memory": lambda: bytearray(50_000_000),
    "time": lambda: __import__("time").sleep(0),
    "reading its own limits": lambda: resource.getrlimit(resource.RLIMIT_CORE),
}

def tried(attempts):
    found = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            found[name] = "done"
        except (OSError, subprocess.SubprocessError) as error:
            found[name] = type(error).__name__
        except ValueError:  # so Python reports EPERM of a limit
            found[name] = "PermissionError"
        for name in ("new", "link"):
            try:
                os.remove(f"{here}/{name}")
            except OSError:
                pass
        try:
            os.rmdir(here + "/folder")
        except OSError:
            pass
    return found

before = tried(HARMFUL)
try:
    open(here + "/spare", "x").close()
except FileExistsError:
    pass
sys.path.append("/no/such/folder")
held = confine(python_folders())
print(json.dumps({"before": before, "held": [held.files, held.calls], "after": tried(HARMFUL), "needed": tried(HARMLESS)}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("files")
    (folder / "secret").write_text("secret")
    (folder / "spare").write_text("")
    root = str(SOURCES)
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPTS, str(folder)],
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "secret").read_text() == "secret"
    return json.loads(done.stdout)


def test_it_holds_what_it_says(found):
    assert found["held"] == [supported().files, supported().calls]


def test_nothing_harmful_can_be_done(found):
    if not all(found["held"]):
        pytest.skip("this system has no Landlock or no seccomp")
    assert {name for name, how in found["before"].items() if how == "done"} >= set(found["after"]) - {
        "read the parent's memory"
    }
    assert set(found["after"].values()) == {"PermissionError"}


def test_what_kernels_need_goes_on(found):
    assert set(found["needed"].values()) == {"done"}


LIMITED = """
import os, signal, sys, tempfile, time
from backwarp.devices.confine import limit
import encodings.idna

def fork():
    if os.fork() == 0:
        os._exit(0)

def spin():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass

what, bound = sys.argv[1], int(sys.argv[2])
file, attempt = tempfile.TemporaryFile(), {
    "addresses": lambda: bytearray(1 << 30),
    "memory": lambda: bytearray(1 << 30),
    "file_size": lambda: os.write(file.fileno(), bytes(2)) == 2 and os.write(file.fileno(), bytes(2)),
    "processes": fork,
    "seconds": spin,
}[what]
if os.geteuid() == 0:  # whose processes are not limited
    os.setuid(65534)
limit(**{what: bound})
try:
    attempt()
except (OSError, MemoryError) as error:
    print(type(error).__name__)
"""


HIDING = """
import json, os, sys
from pathlib import Path
from backwarp.devices.confine import confine
folder = Path(sys.argv[1])
held = confine([folder], hidden=[folder / "a" / "kept", folder / "b"])
def opens(name):
    try:
        return (folder / name).read_text()
    except OSError as error:
        return type(error).__name__
names = "x", "a/y", "a/kept", "b/z", "c/w"
print(json.dumps([held.files, {name: opens(name) for name in names}, sorted(os.listdir(folder))]))
"""


def test_what_is_hidden_in_a_readable_folder_cannot_be_read(tmp_path):
    """As the solutions in an installed package, which is among all others."""
    for name in ("x", "a/y", "a/kept", "b/z", "c/w"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    done = subprocess.run(
        [sys.executable, "-c", HIDING, str(tmp_path)],
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    files, found, names = json.loads(done.stdout)
    assert names == ["a", "b", "c", "x"]
    if files:  # this kernel has Landlock
        refused = {"a/kept": "PermissionError", "b/z": "PermissionError"}
        assert found == {"x": "x", "a/y": "a/y", "c/w": "c/w", **refused}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other limits")
@pytest.mark.parametrize(
    ("what", "bound", "says"),
    [
        ("addresses", 1 << 29, "MemoryError"),
        ("memory", 1 << 29, "MemoryError"),
        ("file_size", 2, "OSError"),
        ("processes", 0, "BlockingIOError"),
        ("seconds", 1, ""),
    ],
)
def test_limits_hold(what, bound, says):
    root = str(SOURCES)
    command = [sys.executable, "-c", LIMITED, what, str(bound)]
    done = subprocess.run(command, env={"PYTHONPATH": root}, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == says, done.stderr
    assert done.returncode == (0 if says else -signal.SIGKILL)


def test_the_current_folder_is_neither_imported_from_nor_readable(tmp_path, monkeypatch):
    """A file there called numpy.py would run in the processes that work for this one. And NumPy starts no thread, which
    would keep its access to files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numpy.py").write_text("raise SystemExit('not this one')")
    child = Child("tests.devices.what_is_seen", environment=ENVIRONMENT)
    try:
        assert child.ask("seen", (), 60) == {"numpy": True, "folder": False, "files": supported().files}
    finally:
        child.end()
