"""Processes in bubblewrap: the real one if it is installed, else a program that accepts its arguments."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from backwarp import devices
from backwarp.devices import bubblewrap, open_device
from backwarp.devices.child import ENVIRONMENT, Child
from tests.devices.virtual.launches import K

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

#: notes how it is called, says which process it is, and becomes the command, as bwrap does (which starts one beside itself)
STANDS_IN = """#!{python} -ISs
import json, os, sys
with open("{notes}", "a") as notes:
    notes.write(json.dumps(sys.argv[1:]) + "\\n")
values = {{"--info-fd": 1, "--dev": 1, "--tmpfs": 1, "--ro-bind": 2, "--ro-bind-try": 2}}
at = 1
while sys.argv[at].startswith("--"):
    if sys.argv[at] == "--info-fd":
        told = int(sys.argv[at + 1])
        os.write(told, json.dumps({{"child-pid": os.getpid()}}).encode())
        os.close(told)
    at += 1 + values.get(sys.argv[at], 0)
os.execv(sys.argv[at], sys.argv[at:])
"""
FAILS = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts a program called bwrap first on the PATH, and clears what is cached about it."""

    def install(text: str) -> None:
        program = tmp_path / "bwrap"
        program.write_text(text)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        bubblewrap.wrapper.cache_clear()

    devices.end_processes()
    yield install
    devices.end_processes()
    bubblewrap.wrapper.cache_clear()


def stand_in(notes: Path) -> str:
    return STANDS_IN.format(python=os.path.realpath(sys.executable), notes=notes)


def computes() -> bool:
    with open_device("cpu", checks="memory", confined=True) as device:
        device.quick = True
        x = device.empty(1, np.int32)
        device.compile(f"{K}f(int* x) {{ x[0] = 7; }}").get_function("f")(1, 1, (x,))
        return x.get() == [7]


def test_kernels_and_compilers_run_in_it(installed, tmp_path):
    if not shutil.which("bwrap"):
        installed(stand_in(tmp_path / "notes"))
    bubblewrap.wrapper.cache_clear()
    assert bubblewrap.wrapper()[0] == shutil.which("bwrap") and computes()


def test_what_it_is_told(installed, tmp_path):
    installed(stand_in(tmp_path / "notes"))
    child = Child("tests.devices.what_is_seen", environment=ENVIRONMENT)
    child.ask("seen", (), 60)
    assert child.used() > 1 << 20 and child.end() == "status 0"
    attempt, call = map(json.loads, (tmp_path / "notes").read_text().splitlines())
    assert attempt[-5:] == [sys.executable, "-I", "-S", "-c", ""]
    assert {"--unshare-user", "--unshare-net", "--unshare-ipc", "--die-with-parent"} <= set(call)
    read_only = call.index("--ro-bind")
    assert call[read_only + 1 : read_only + 3] == ["/", "/"] and "--bind" not in call
    assert call[: len(attempt) - 5] == attempt[:-5] and sys.executable in call


@pytest.mark.parametrize("text", [FAILS, "#!/no/such/program\n", "#!/bin/sh\nkill -9 $$\n"])
def test_where_it_cannot_start_a_process_it_is_left_out(text, installed):
    installed(text)
    assert bubblewrap.wrapper() == () and computes()


@pytest.mark.parametrize(
    ("text", "ends"),
    [(FAILS, "status 1: bwrap: No permissions"), (f"#!/bin/sh\nexit {128 + signal.SIGPROF}\n", "SIGPROF")],
)
def test_how_it_ends(text, ends, installed, tmp_path):
    """A signal that ends the process within is its status."""
    installed(stand_in(tmp_path / "notes"))
    assert bubblewrap.wrapper()
    (tmp_path / "bwrap").write_text(text)
    child = Child("tests.devices.what_is_seen", environment=ENVIRONMENT)
    child.allow(1)
    with pytest.raises((EOFError, OSError)):
        child.ask("seen", (), 60)
    assert child.end().startswith(ends)


@pytest.mark.parametrize("said", ["", "{", "[]", '{"child-pid": null}', '{"child-pid": {}}'])
def test_what_tells_of_no_process(said, tmp_path):
    path = tmp_path / "told"
    path.write_text(said)
    assert bubblewrap.process(open(path)) == -1
