"""The process that runs the commands after the first: the same text and status as without it, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from backwarp import resident
from tests import ROOT, SOURCES
from tests.test_cli import course  # noqa: F401 (a fixture)

COMMAND = (
    "import sys; from backwarp import resident; status = resident.run(sys.argv[1:]); print(f'[{status}]')"
)
REAL = "from backwarp.resident import main; main()"
SLOW = """
import os, time
from backwarp import process, resident
def command(arguments):
    def work():
        print(os.getpid(), os.getcwd(), os.environ.get("OF_MINE"), flush=True)
        time.sleep(600 * ("wait" in arguments))
        return 7
    process.as_process(work)
resident.load = lambda: command
resident.main()
"""
LIMIT = 60  # seconds for what takes far less


@pytest.fixture
def environment(tmp_path):
    variables = os.environ | {"PYTHONPATH": str(SOURCES), "BACKWARP_CACHE": str(tmp_path / "cache")}
    return {name: value for name, value in variables.items() if name not in ("BACKWARP_RESIDENT", "CI")}


@contextmanager
def process(environment, code):
    """The resident process, ended if it does not end by itself."""
    with subprocess.Popen([sys.executable, "-c", code], env=environment, cwd="/") as started:
        try:
            folder = Path(environment["BACKWARP_CACHE"])
            until(lambda: started.poll() is not None or any(folder.glob("*.socket")))
            until(lambda: started.poll() is not None or asked(environment, "grade") != "[None]\n")
            yield started
        finally:
            started.kill()


def until(holds):
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def command(environment, *arguments, cwd=ROOT):
    """A command, ended if it does not end by itself."""
    text = [sys.executable, "-c", COMMAND, *arguments]
    with subprocess.Popen(text, env=environment, cwd=cwd, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def asked(environment, *arguments, **how):
    """What a command prints, and then the status that the process gave it."""
    with command(environment, *arguments, **how) as started:
        return started.communicate(timeout=LIMIT)[0]


def test_it_says_what_the_command_would(environment, cache_directory, runtime, tmp_path):
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(
        (ROOT / "solutions/01_vector_add/kernel.cu").read_text().replace("a[i] + b[i]", "a[i] - b[i]")
    )
    environment["BACKWARP_CACHE"] = str(cache_directory)
    with process(environment, REAL):
        for arguments in (("01", "--file", "wrong.cu"), ("01", "--unknown"), ("none",)):
            here = [sys.executable, "-m", "backwarp", "grade", *arguments]
            kept = environment | {"BACKWARP_RESIDENT": "off"}
            alone = subprocess.run(here, env=kept, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
            assert alone.returncode and asked(environment, "grade", *arguments, cwd=tmp_path) == (
                f"{alone.stdout}[{alone.returncode}]\n"
            )


def test_a_command_is_run_in_its_folder_with_its_variables(environment, tmp_path):
    with process(environment, SLOW) as started:
        said = f"{started.pid} {tmp_path} yes\n[7]\n"
        assert asked(environment | {"OF_MINE": "yes"}, "grade", cwd=tmp_path) == said
        assert asked(environment, "grade") == f"{started.pid} {ROOT} None\n[7]\n"


def test_in_other_surroundings_it_ends_and_the_command_runs_by_itself(environment):
    with process(environment, SLOW) as started:
        assert asked(environment | {"PYTHONHASHSEED": "1"}, "grade") == "[None]\n"
        assert started.wait(LIMIT) == 0
    assert asked(environment, "grade") == "[None]\n"


def test_a_second_command_does_not_wait_for_the_first(environment):
    with process(environment, SLOW), command(environment, "grade", "wait") as first:
        first.stdout.readline()
        assert asked(environment, "grade") == "[None]\n"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_with_a_command_that_is_killed(environment, how):
    with process(environment, SLOW) as started, command(environment, "grade", "wait") as first:
        first.stdout.readline()
        first.send_signal(how)
        assert started.wait(LIMIT) == 1


def test_ctrl_c_is_passed_on(environment):
    with process(environment, SLOW) as started, command(environment, "grade", "wait") as first:
        first.stdout.readline()
        first.send_signal(signal.SIGINT)
        assert first.communicate(timeout=LIMIT)[0] == "[130]\n"
        assert started.wait(LIMIT) == 0


def test_if_it_is_killed_the_command_runs_by_itself(environment):
    with process(environment, SLOW) as started, command(environment, "grade", "wait") as first:
        first.stdout.readline()
        started.kill()
        assert first.communicate(timeout=LIMIT)[0] == "[None]\n"
    with process(environment, SLOW) as started:  # although the first one's socket is still there
        assert asked(environment, "grade").startswith(str(started.pid))


def test_one_is_enough_and_nobody_else_can_reach_it(environment, tmp_path):
    with process(environment, SLOW) as started:
        assert (
            subprocess.run([sys.executable, "-c", SLOW], env=environment, cwd="/", timeout=LIMIT).returncode
            == 0
        )
        (place,) = (tmp_path / "cache").glob("*.socket")
        assert place.stat().st_mode & 0o077 == 0
        assert asked(environment, "grade").startswith(str(started.pid))


def test_a_changed_puzzle_or_module_is_noticed(course, tmp_path, monkeypatch):  # noqa: F811
    now = max(
        os.stat(m.__file__).st_ctime for m in list(sys.modules.values()) if getattr(m, "__file__", None)
    )
    now = max(now, *(path.stat().st_ctime for path in course.rglob("*"))) + 1
    assert not resident.changed_since(now, str(course))
    declared = course / "puzzles/01_twice/puzzle.py"
    os.utime(declared, (now + 1, now + 1))
    assert resident.changed_since(now, str(course)) and not resident.changed_since(now, str(tmp_path))


def test_where_it_is_not_wanted(monkeypatch):
    for name in ("BACKWARP_RESIDENT", "CI"):
        monkeypatch.delenv(name, raising=False)
    assert resident.wanted(["grade", "01"])
    assert not resident.wanted([]) and not resident.wanted(["list"])
    assert not resident.wanted(["grade", "01", "--file", "a/b.cu", "--within=a"])
    monkeypatch.setenv("CI", "true")
    assert not resident.wanted(["grade", "01"])


def test_without_a_folder_for_the_socket_it_is_as_if_there_were_none(monkeypatch):
    monkeypatch.setenv("BACKWARP_CACHE", "off")
    assert resident.run(["grade", "01"]) is None
    resident.main()
