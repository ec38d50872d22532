"""`backwarp watch` in a terminal: every way of saving, all sorts of wrong kernels, and the keys."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from backwarp.course.checkout import Course, open_course
from backwarp.course.progress import Progress
from backwarp.grading.verdict import Verdict
from backwarp.report.overview import debrief
from backwarp.watch import Watcher, course_bar, footer, is_remote, when_resized
from tests import SOURCES
from tests.test_cli import DECLARATION, SOLUTION, STUB

PATIENCE = 120  # seconds, on the busiest machine
LESSON = "# Twice\n\nText.\n\n## What to look at next\n\nOthers double\nby adding.\n\nMore.\n"
PRACTICE = "Elsewhere values are doubled by many threads too, each with several of them, as far as memory can deliver."
WRONG = SOLUTION.replace("2 * x", "3 * x")
HANGS = SOLUTION.replace("y[threadIdx.x] =", "while (true); y[threadIdx.x] =")
BROKEN = SOLUTION.replace(";", "", 1)


class Terminal:
    """A child in a pseudo-terminal of 80 columns, and what it has written."""

    def __init__(self, root: Path, *arguments: str, verb: str = "watch"):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = os.environ | {"PYTHONPATH": str(SOURCES), "TERM": "xterm"}
        environment.pop("NO_COLOR", None)
        self.child = subprocess.Popen(
            [sys.executable, "-m", "backwarp", verb, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=root,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self.text, self.mark = "", 0

    def read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.text += re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", data.decode())
        return bool(data)

    def expect(self, *texts: str) -> str:
        """What was written since the last call, once it has all the texts in it."""
        end = time.monotonic() + PATIENCE
        while not all(t in self.text[self.mark :] for t in texts):
            assert time.monotonic() < end and self.child.poll() is None, (
                f"{texts} not in:\n{self.text[self.mark :]}"
            )
            self.read(0.2)
        while self.read(0.05):  # the rest of it
            pass
        found, self.mark = self.text[self.mark :], len(self.text)
        return found

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.master)


@pytest.fixture
def course(tmp_path):
    root = tmp_path / "my course"
    for name in ("01_twice", "02_again"):
        for folder in ("puzzles", "solutions"):
            (root / folder / name).mkdir(parents=True)
        declared = DECLARATION.replace("Launch(1, 32)", "Launch(1, 3)").replace(
            "lines=2", f"practice={PRACTICE!r}"
        )
        (root / "puzzles" / name / "puzzle.py").write_text(declared)
        (root / "puzzles" / name / "kernel.cu").write_text(STUB)
        (root / "puzzles" / name / "README.md").write_text(LESSON)
        (root / "solutions" / name / "kernel.cu").write_text(SOLUTION)
    return root


@pytest.fixture
def watching(course, runtime):
    opened = []

    def start(*arguments):
        opened.append(Terminal(course, *arguments))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def renamed(path, text):
    """As editors write: a new file in the old one's place."""
    new = path.with_name("4913~")
    new.write_text(text)
    os.replace(new, path)


def linked(path, text):
    """In another folder, to which a link leads from the first save on."""
    target = path.parents[2] / "mine" / f"{path.parent.name}.cu"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)
    if not path.is_symlink():
        path.unlink()
        path.symlink_to(target)


def removed_first(path, text):
    path.unlink()
    path.write_text(text)


#: the second by looking again and again; to watch and to look follow a link alike, which is tried every night
@pytest.mark.parametrize(
    ("save", "more"),
    [
        (renamed, ()),
        pytest.param(linked, (), marks=pytest.mark.soak),
        pytest.param(removed_first, ("--poll",), marks=pytest.mark.soak),
    ],
)
def test_every_save_is_graded(course, watching, save, more, record_property):
    terminal, path = watching("01", "--device", "cpu", *more), course / "puzzles" / "01_twice" / "kernel.cu"
    first = terminal.expect("not started yet", footer())
    assert "[....................] 0 of 2 solved" in first and max(map(len, first.splitlines())) <= 80
    took = []
    for text, said in (
        (WRONG, "expected"),
        (BROKEN, "does not compile"),
        (HANGS, "timed out"),
        (WRONG.replace("3", "4"), "expected"),
        (SOLUTION + "// mine\n", "ok 01_twice"),
    ):
        save(path, text)
        found = terminal.expect(said, footer())
        took.append(re.search(r"(\d+\.\d\d) s after the save", found)[1])
    print("seconds from save to verdict: wrong, not compiling, hanging, wrong, right:", *took)
    record_property("seconds", took)
    paragraphs = " ".join(found.split())
    assert "Others double by adding." in paragraphs and PRACTICE in paragraphs and "1 of 2 solved" in found
    assert "Next: read puzzles/02_again/README.md and press n." in paragraphs
    assert max(map(len, terminal.text.splitlines())) <= 80
    save(path, SOLUTION + "// once more\n")  # it is still watched
    again = terminal.expect("ok 01_twice", footer())
    assert "Next" not in again
    terminal.press("n")
    terminal.expect("not started yet", footer())
    save(course / "puzzles" / "02_again" / "kernel.cu", WRONG)
    terminal.expect("x 02_again", "case 1 of 1")
    repaired = terminal.expect("One change in line 4 makes", footer())
    assert "1.5 times the expected one." in repaired  # on a new screen
    terminal.press("q")
    assert terminal.child.wait(PATIENCE) == 0


def test_the_keys(course, watching):
    terminal, path = watching("--device", "cpu"), course / "puzzles" / "01_twice" / "kernel.cu"
    terminal.expect("not started yet", footer())
    terminal.press("h")
    terminal.expect("hint 1 of 2", "first hint", footer())
    terminal.press("l")
    terminal.expect("-> 01_twice", "02_again", footer())
    renamed(path, SOLUTION.replace("2 *", "5 *"))
    terminal.expect("x 01_twice", footer())
    terminal.press("c")
    terminal.expect("global", "results are wrong", footer())
    path.unlink()
    terminal.expect("does not exist", "backwarp reset 01", footer())
    path.write_text(SOLUTION)
    terminal.expect("ok 01_twice", footer())
    terminal.press("p")
    terminal.expect(".backwarp/01_twice.png", footer())
    assert (course / ".backwarp" / "01_twice.png").stat().st_size > 1000
    terminal.press("n")
    terminal.expect("02_again", "not started yet", footer())
    terminal.press("b")
    terminal.expect("ok 01_twice", footer())
    terminal.press("r")
    terminal.expect("is the stub again", "not started yet", footer())
    assert path.read_text() == STUB and len(list(path.parent.glob("kernel.cu.bak-*"))) == 1
    terminal.press("\x1b[A")  # an arrow does nothing
    terminal.press("q")
    assert terminal.child.wait(PATIENCE) == 0


def test_a_worker_that_dies_is_replaced(course, watching):
    terminal, path = watching("01", "--device", "cpu"), course / "puzzles" / "01_twice" / "kernel.cu"
    terminal.expect("not started yet", footer())
    for child in Path(f"/proc/{terminal.child.pid}/task").glob("*/children"):
        for pid in child.read_text().split():
            os.kill(int(pid), 9)
    renamed(path, WRONG)
    terminal.expect("ended unexpectedly (SIGKILL)", footer())
    renamed(path, WRONG + "\n// again\n")
    terminal.expect("x 01_twice", "expected", footer())


def test_without_a_terminal_it_grades_until_it_is_ended(course):
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(
        [sys.executable, "-m", "backwarp", "watch", "01"],
        cwd=course,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as child:
        try:
            lines = [next(child.stdout) for _ in range(3)]
            child.send_signal(signal.SIGINT)  # which a job in a shell's background has been told to ignore
            rest = child.communicate(timeout=PATIENCE)[0]
        finally:
            child.kill()
    assert "0 of 2 solved" in lines[0] and "not started yet" in lines[2] and "\x1b" not in rest
    assert child.returncode == 0 and footer() not in rest


def test_the_footer_and_the_bar_fit():
    assert len(footer()) < 80 and "[q]uit" in footer() and "[b]ack" in footer()
    assert course_bar(1, 4) == "[#####...............] 1 of 4 solved"
    assert course_bar(0, 0).endswith("0 of 0 solved")


def test_the_last_section_of_a_lesson_is_what_comes_after(course):
    *said, solution = debrief(Course(course).load("01"))
    assert said == [PRACTICE, "Others double by adding."] and "backwarp solution 01" in solution


def test_every_puzzle_says_what_others_do_with_its_idea():
    for puzzle in open_course(Path(__file__).resolve().parent).puzzles():
        assert 40 <= len(puzzle.practice) <= 200 and puzzle.practice.endswith("."), puzzle.id
        assert len(debrief(puzzle)) == 3


def test_the_seconds_count_from_the_save(course, tmp_path, monkeypatch):
    """Counted from the save, not from when it was noticed; a clock that is wrong is ignored."""
    watcher = Watcher(Course(course), Progress(tmp_path), "01")
    path = watcher.puzzle.stub_path
    monkeypatch.setattr("backwarp.watch.time", SimpleNamespace(time=lambda: 1e9, monotonic=lambda: 50.0))
    for age, counted in ((0.75, 0.75), (3600, 0), (-3600, 0)):
        path.write_text(f"// {age}\n")
        os.utime(path, (1e9 - age,) * 2)
        watcher.look()
        assert 50 - watcher.grader.wanted.get_nowait()[1] == counted


@pytest.mark.parametrize("terminal", [True, False])
def test_a_repair_is_shown_with_its_verdict_or_below_what_was_shown_since(
    course, tmp_path, monkeypatch, terminal
):
    out = io.StringIO()
    out.isatty = lambda: terminal
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("NO_COLOR", "1")
    watcher = Watcher(Course(course), Progress(tmp_path), "01")
    watcher.seen, watcher.has_keys = "hash", False
    verdict = Verdict(
        "01_twice", "kernel.cu", kind="wrong", kernel="twice", lines=["A fact."], source_hash="hash"
    )
    watcher.handle("verdict", watcher.puzzle, verdict, 0.1)
    change = {"line": 4, "column": 1, "before": "3", "after": "2", "kind": "another value"}
    change |= {
        "edits": [dict(change)],
        "places": [{"how": "changed", "first": 4, "last": 4}],
        "code": [{"line": 4, "text": "y = 3;"}],
    }
    repaired = replace(verdict, repair=[change])
    says = ["  One change in line 4 makes the case pass.", "      4 | y = 3;"]

    def shown():
        watcher.handle("repair", watcher.puzzle, repaired)
        return out.getvalue().split("\x1b[2J\x1b[3J\x1b[H")[-1].splitlines()

    alone = out.getvalue().split("\x1b[2J\x1b[3J\x1b[H")[-1].splitlines()
    assert alone[3] == "  A fact."
    assert shown() == ([*alone[:4], *says, ""] if terminal else [*alone, *says])
    watcher.handle("output", "a hint")
    before = len(out.getvalue())
    shown()
    assert out.getvalue()[before:].splitlines() == says


def test_a_report_is_wrapped_again_when_the_terminal_has_another_size(course, tmp_path, monkeypatch):
    out = io.StringIO()
    out.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("NO_COLOR", "1")
    watcher = Watcher(Course(course), Progress(tmp_path), "01")
    watcher.seen, watcher.has_keys = "hash", False
    verdict = Verdict("01_twice", "kernel.cu", kind="wrong", lines=["a word " * 12], source_hash="hash")

    def longest(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        with when_resized(watcher):
            os.kill(os.getpid(), signal.SIGWINCH)
        watcher.handle(*watcher.next_event())
        return max(len(line) for line in out.getvalue().split("\x1b[H")[-1].splitlines() if "word" in line)

    watcher.handle("verdict", watcher.puzzle, verdict, 0.1)
    assert longest(100) > 80 and longest(60) <= 60
    watcher.handle("output", "a hint")  # what is below it would be lost
    before = len(out.getvalue())
    with when_resized(watcher):
        os.kill(os.getpid(), signal.SIGWINCH)
    watcher.handle(*watcher.next_event())
    assert len(out.getvalue()) == before


def test_a_watch_that_breaks_is_followed_by_looking(course, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no watches left")

    monkeypatch.setattr("backwarp.watch.watch", broken)
    monkeypatch.setattr("backwarp.watch.POLL", 0.001)
    watcher, stop = Watcher(Course(course), Progress(tmp_path), "01"), threading.Event()
    thread = threading.Thread(target=watcher.follow, args=(watcher.puzzle, stop))
    thread.start()
    assert watcher.events.get(timeout=PATIENCE)[0] == "output"
    assert [watcher.events.get(timeout=PATIENCE) for _ in range(2)] == [("file", "01_twice")] * 2
    stop.set()
    thread.join()


def test_file_systems_that_report_no_changes_are_known(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nhost:/x /home/my\\040self nfs4 rw 0 0\nC: /mnt/c 9p rw 0 0\n")
    assert is_remote(Path("/home/my self/course"), mounts) and is_remote(Path("/mnt/c"), mounts)
    assert not is_remote(Path("/home/me/course"), mounts) and not is_remote(Path("/mnt/cd"), mounts)
    assert not is_remote(Path("/x"), tmp_path / "none")
