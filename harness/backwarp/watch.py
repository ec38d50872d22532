"""`backwarp watch`: grades the file on every save; keys do the rest.

Three threads feed one queue of events: one sees the file change, one reads keys, one grades. Grading happens
in a separate process (grading/worker.py), so a kernel that hangs or crashes takes nothing else down.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from watchfiles import watch

from .course.checkout import Course, source_hash
from .course.declare import Puzzle
from .course.progress import Progress, following
from .errors import BackwarpError
from .grading.verdict import Verdict
from .grading.worker import SECONDS, GradingProcess
from .keys import keyboard
from .report.overview import debrief
from .report.terminal import show, show_text, terminal_width
from .report.text import repair_lines, show_verdict

POLL = 0.2  # seconds between polls on file systems that report no changes
DEBOUNCE = 30  # milliseconds in which changes count as one
REMOTE = "nfs cifs smb 9p sshfs vboxsf drvfs virtiofs prl_fs afs ceph gluster".split()
KEYS = {
    "h": "hint",
    "p": "picture",
    "c": "counters",
    "l": "list",
    "n": "next",
    "b": "back",
    "r": "reset",
    "q": "quit",
}
COMMANDS = {"h": "hint", "p": "picture", "c": "profile"}  # keys that run a command
BAR = 20  # columns


def is_remote(path: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Is the path on a file system that does not report changes made elsewhere?"""
    best, kind = "", ""
    try:
        for line in mounts.read_text(errors="replace").splitlines():
            _, point, name, *_ = line.split(" ")
            point = point.replace("\\040", " ")
            if len(point) >= len(best) and (path == Path(point) or Path(point) in path.parents):
                best, kind = point, name
    except (OSError, ValueError):
        return False
    return any(name in kind for name in REMOTE)


def footer() -> str:
    """`h hint   p picture ...`, in less than 80 columns."""
    return "  ".join(f"[{key}]{name[1:] if name[0] == key else ' ' + name}" for key, name in KEYS.items())


def course_bar(solved: int, total: int) -> str:
    done = round(BAR * solved / max(total, 1))
    return f"[{'#' * done}{'.' * (BAR - done)}] {solved} of {total} solved"


class Grader(threading.Thread):
    """Grades the latest request and drops older ones."""

    def __init__(self, events: queue.Queue, device: str, seed: int | None):
        super().__init__(daemon=True)
        self.events, self.process = events, GradingProcess(device, seed)
        self.searcher = GradingProcess()
        self.wanted: queue.Queue = queue.Queue()

    def run(self) -> None:
        """Takes (puzzle, time) from `wanted` and puts verdicts into the events, until it gets None."""
        while (asked := self.wanted.get()) is not None:
            while not self.wanted.empty():
                if (asked := self.wanted.get()) is None:
                    return
            puzzle, started = asked
            self.searcher.end()  # the file it searches is out of date
            verdict = self.process.grade(puzzle, puzzle.stub_path)
            self.events.put(("verdict", puzzle, verdict, time.monotonic() - started))
            if verdict.is_repairable and not puzzle.program and self.wanted.empty():
                self.searcher = GradingProcess()
                threading.Thread(
                    target=self.search, args=(self.searcher, puzzle, verdict), daemon=True
                ).start()

    def search(self, process: GradingProcess, puzzle: Puzzle, verdict: Verdict) -> None:
        """Looks for a single change that fixes the file, until the next save."""
        if found := process.repair(puzzle, puzzle.stub_path, verdict):
            self.events.put(("repair", puzzle, replace(verdict, repair=found)))
        process.end()


class Watcher:
    """One puzzle at a time; `run` returns when the student quits."""

    def __init__(
        self,
        course: Course,
        progress: Progress,
        puzzle_id: str,
        device: str = "auto",
        seed: int | None = None,
        poll: bool = False,
    ):
        self.course, self.progress, self.poll = course, progress, poll
        self.events: queue.Queue = queue.Queue()
        self.grader = Grader(self.events, device, seed)
        self.stop = threading.Event()
        self.puzzle = course.load(puzzle_id)
        self.seen = ""  # hash of what was graded last
        self.busy = False
        self.headline, self.fresh = "", False  # fresh: nothing is written below the verdict
        self.resized, self.page_again = False, lambda: None

    # -- events ---------------------------------------------------------------------------------------

    def run(self) -> int:
        self.grader.start()
        with keyboard(self.events, self.stop) as has_keys, when_resized(self):
            self.has_keys = has_keys
            try:
                self.move_to(self.puzzle)
                while self.handle(*self.next_event()):
                    pass
            except KeyboardInterrupt:
                self.write("")
            finally:
                self.stop.set()
                self.grader.wanted.put(None)
                self.grader.process.end()
                self.grader.searcher.end()
        return 0

    def next_event(self) -> tuple:
        while True:
            if self.resized:
                self.resized = False
                return ("resize",)
            with contextlib.suppress(queue.Empty):
                return self.events.get(
                    timeout=0.5
                )  # a wait without a limit would miss a Ctrl-C just before it

    def handle(self, kind: str, *what) -> bool:
        """Handles one event. Returns whether to go on."""
        if kind == "key":
            return self.press(what[0].lower())
        if kind == "file" and what[0] == self.puzzle.id:
            self.look()
        elif kind == "verdict":
            self.tell(*what)
        elif kind == "repair":
            self.tell_repair(*what)
        elif kind == "output":
            self.write(what[0].rstrip())
            self.foot()
        elif kind == "resize" and self.fresh and sys.stdout.isatty():
            self.page_again()
        return True

    def look(self) -> None:
        """Grades the file if it has changed; it may be briefly missing while it is saved."""
        path, saved = self.puzzle.stub_path, time.monotonic()
        for _ in range(20):
            try:
                data = path.read_bytes()
                age = time.time() - path.stat().st_mtime
                if 0 <= age < POLL + 1:  # a file server's clock may differ
                    saved -= age
                break
            except OSError:
                time.sleep(0.025)
        else:
            data = b""
        found = f"{self.puzzle.id} {source_hash(data.decode('utf-8', 'replace'))} {len(data)}"
        if found != self.seen:
            self.seen, self.busy = found, True
            self.grader.wanted.put((self.puzzle, saved))

    def move_to(self, puzzle: Puzzle) -> None:
        self.puzzle, self.seen = puzzle, ""
        self.stop_watching()
        self.watching = threading.Event()
        threading.Thread(target=self.follow, args=(puzzle, self.watching), daemon=True).start()
        self.look()

    def stop_watching(self) -> None:
        if hasattr(self, "watching"):
            self.watching.set()

    def follow(self, puzzle: Puzzle, stop: threading.Event) -> None:
        """Report every change in the folders of the puzzle and of the file, which may be a link: editors write through
        temporary files."""
        how = {"debounce": DEBOUNCE, "step": 10, "rust_timeout": 500, "recursive": False}
        try:
            while not self.poll and not stop.is_set():
                file = puzzle.stub_path.resolve()
                folders = {puzzle.folder.resolve(), file.parent}
                if any(map(is_remote, folders)):
                    break
                own = lambda _, path: Path(path).name in (puzzle.file, file.name)  # noqa: E731
                for _ in watch(*folders, watch_filter=own, stop_event=stop, raise_interrupt=False, **how):
                    self.events.put(("file", puzzle.id))
                    if puzzle.stub_path.resolve() != file:
                        break
        except (OSError, RuntimeError) as error:  # for example, the system has no watches left
            self.events.put(("output", f"The file is checked {1 / POLL:.0f} times a second ({error})."))
        # compares contents, not times: a file system may give two saves the same time
        while not stop.wait(POLL):
            self.events.put(("file", puzzle.id))

    # -- keys -----------------------------------------------------------------------------------------

    def press(self, key: str) -> bool:
        if key in ("q", "\x04"):
            return False
        if key in COMMANDS:
            self.command(COMMANDS[key], self.puzzle.id)
        elif key == "l":
            self.command("list")
        elif key in ("n", "b"):
            self.step(1 if key == "n" else -1)
        elif key == "r":
            from .course.reset import restore_stub

            try:
                self.write(restore_stub(self.puzzle))
            except BackwarpError as error:
                self.write(str(error))
            self.look()
        elif key in ("\r", "\n", " ", "?"):
            self.foot()
        return True

    def step(self, by: int) -> None:
        """Moves to the previous or next puzzle; from a solved one, to the next unsolved."""
        ids, solved = self.course.ids(), {i for i, entry in self.progress.all().items() if entry.solved}
        left = [i for i in ids if i not in solved]
        if by > 0 and self.puzzle.id in solved and left:
            self.open(following(self.puzzle.id, left))
        else:
            self.open(ids[(ids.index(self.puzzle.id) + by) % len(ids)])

    def open(self, puzzle_id: str) -> None:
        try:
            self.move_to(self.course.load(puzzle_id))
        except BackwarpError as error:
            self.write(str(error))

    def command(self, *arguments: str) -> None:
        """Runs another verb in a separate process; its output arrives as an event."""

        def work() -> None:
            environment = os.environ | {"COLUMNS": str(terminal_width(sys.stdout))}
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "backwarp", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=SECONDS,
                    cwd=self.course.root,
                    env=environment,
                )
                text = done.stdout.decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                text = f"backwarp {' '.join(arguments)} did not finish within {SECONDS} seconds."
            self.events.put(("output", text))

        threading.Thread(target=work, daemon=True).start()

    # -- output ---------------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        self.fresh = False

    def foot(self) -> None:
        if self.has_keys:
            show([[(footer(), "reverse")]])
            sys.stdout.flush()

    def tell(self, puzzle: Puzzle, verdict: Verdict, seconds: float) -> None:
        if puzzle.id != self.puzzle.id:
            return
        before = self.progress.entry(puzzle.id).solved
        self.progress.record(verdict)
        ids, entries = self.course.ids(), self.progress.all()
        solved = [i for i in ids if i in entries and entries[i].solved]
        clock = f"{time.strftime('%H:%M:%S')}, {seconds:.2f} s after the save"
        self.headline = f"{course_bar(len(solved), len(ids))}   {clock}"
        verdict.next = "" if verdict.passed else verdict.next
        self.page(puzzle, verdict, not before, [i for i in ids if i not in solved])

    def page(self, puzzle: Puzzle, verdict: Verdict, first: bool = False, left: Sequence[str] = ()) -> None:
        """Writes the report on an empty screen. first, left: see `solved`."""
        self.page_again = partial(self.page, puzzle, verdict, first, left)
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[2J\x1b[3J\x1b[H")
        self.write(self.headline)
        self.write("")
        show_verdict(verdict)
        if verdict.kind == "untouched":
            self.write(f"  Watching puzzles/{puzzle.id}/{puzzle.file}; the lesson is README.md beside it.")
        if verdict.passed:
            self.solved(puzzle, first, left)
        self.write("")
        self.foot()
        self.fresh = True

    def tell_repair(self, puzzle: Puzzle, verdict: Verdict) -> None:
        """Shows the repair found after the verdict, if that verdict is still on the screen."""
        if puzzle.id == self.puzzle.id and verdict.source_hash in self.seen:
            self.progress.keep_repair(verdict)
            if self.fresh and sys.stdout.isatty():
                self.page(puzzle, verdict)
            else:
                show(repair_lines(verdict, terminal_width(sys.stdout)))
                self.foot()

    def solved(self, puzzle: Puzzle, first: bool, left: Sequence[str]) -> None:
        """Shows what the puzzle was good for and, the first time, what comes next. The file is still watched,
        since many keep experimenting."""
        show_text(debrief(puzzle))
        if not left:
            show_text(["Every puzzle is solved."])
        elif first:
            show_text([f"Next: read puzzles/{following(puzzle.id, left)}/README.md and press n."])


@contextmanager
def when_resized(watcher: Watcher) -> Iterator[None]:
    """Tells the watcher that the terminal has another size; it looks at that between events, since a signal may come
    while it holds the queue's lock."""

    def note(*_) -> None:
        watcher.resized = True

    try:
        before = signal.signal(signal.SIGWINCH, note)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
