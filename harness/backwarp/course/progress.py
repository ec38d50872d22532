"""Progress: what is solved, the number of attempts and the hints shown, in one small file in the checkout.

The file is replaced atomically and written under a lock, so it survives crashes and concurrent processes.
Progress is a convenience: if it cannot be kept, one line says so and grading goes on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..grading.verdict import Verdict


FORMAT = 1


@dataclass
class Entry:
    """One puzzle. solved: {"when", "device", "hash"} or None; best: the lowest of each counter.

    peeked: the solution was shown before the puzzle was solved. repair: the edits of the best of
    Verdict.repair for the last graded file, with its `hash`, and the number of hints `told` about it; told:
    the hints told about all repairs.
    """

    solved: dict[str, str] | None = None
    attempts: int = 0
    hints: int = 0
    best: dict[str, float] = field(default_factory=dict)
    peeked: bool = False
    repair: dict[str, Any] = field(default_factory=dict)
    told: int = 0

    @staticmethod
    def read(raw: Any) -> Entry:
        """Errors: TypeError, ValueError, KeyError if `raw` is not what `asdict` wrote."""
        entry = Entry(**raw)
        if not isinstance(entry.best, dict) or not isinstance(entry.solved, (dict, type(None))):
            raise TypeError("solved and best are objects")
        entry.attempts, entry.hints, entry.told = int(entry.attempts), int(entry.hints), int(entry.told)
        entry.repair = known_repair(entry.repair)
        entry.best = {str(k): float(v) for k, v in entry.best.items()}
        if entry.solved is not None:
            entry.solved = {key: str(entry.solved[key]) for key in ("when", "device", "hash")}
        return entry


def known_repair(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Errors: as for Entry.read. {} if it was kept by an earlier version."""
    if "edits" not in raw:
        return {}
    edits = [
        {key: str(edit[key]) for key in ("before", "after", "kind")}
        | {key: int(edit[key]) for key in ("line", "column")}
        for edit in raw["edits"]
    ]
    return {"hash": str(raw["hash"]), "told": int(raw["told"]), "edits": edits}


class Progress:
    """Reads and updates `.backwarp/progress.json` under `root`; `say` gets a line if something goes wrong."""

    def __init__(self, root: Path, say: Callable[[str], None] | None = None):
        self.path = root / ".backwarp" / "progress.json"
        tell, told = say or (lambda line: print(line, file=sys.stderr)), set()
        # the same problem is reported once
        self.say = lambda line: None if line in told else (told.add(line), tell(line))[1]

    def next_of(self, ids: Iterable[str], after: str = "") -> str | None:
        """The first of these puzzles that is not solved, and comes after another if there is one."""
        entries = self.all()
        left = [i for i in ids if not (i in entries and entries[i].solved)]
        return following(after, left) if left else None

    def all(self) -> dict[str, Entry]:
        """Every entry, by puzzle id."""
        try:
            return self._read()
        except OSError as e:
            self.say(f"Progress cannot be read: {self.path} ({e.strerror or e}).")
            return {}
        except ValueError:
            with self._locked():
                return self._read_or_put_aside()

    def entry(self, puzzle: str) -> Entry:
        return self.all().get(puzzle) or Entry()

    def update(self, puzzle: str, change: Callable[[Entry], None]) -> Entry:
        """Applies `change` to the entry of a puzzle and saves it; returns the entry."""
        try:
            self._make_folder()
            with self._locked():
                entries = self._read_or_put_aside()
                entry = entries.setdefault(puzzle, Entry())
                change(entry)
                self._write(entries)
        except OSError as e:
            self.say(f"Progress is not saved: {self.path} cannot be written ({e.strerror or e}).")
            entry = self.entry(puzzle)
            change(entry)
        return entry

    def record(self, verdict: Verdict) -> Entry:
        """Counts an attempt, and a solution if it passed. An untouched stub is not an attempt."""

        def change(entry: Entry) -> None:
            entry.attempts += 1
            if verdict.passed:
                when = datetime.now().astimezone().isoformat(timespec="seconds")
                entry.solved = {"when": when, "device": verdict.device, "hash": verdict.source_hash}

        if verdict.kind in ("untouched", "device", "kernels", "source", "encoding"):
            return self.entry(verdict.puzzle)
        return self.update(verdict.puzzle, change)

    def keep_repair(self, verdict: Verdict) -> None:
        """Keeps the best repair of a verdict, for hints about it."""
        best = {}
        if verdict.repair:
            best = {"hash": verdict.source_hash, "told": 0, "edits": verdict.repair[0]["edits"]}
        known = self.entry(verdict.puzzle).repair
        if known != best and {**known, "told": 0} != best:
            self.update(verdict.puzzle, lambda entry: setattr(entry, "repair", best))

    def next_of_repair(self, puzzle: str, source_hash: str, levels: int) -> tuple[dict[str, Any], int]:
        """(the known repair of this file, the level of the next hint about it), which counts as a hint; ({},
        0) if there are no more."""
        found = self.entry(puzzle).repair
        if not found or found["hash"] != source_hash or found["told"] >= levels:
            return {}, 0

        def change(entry: Entry) -> None:
            entry.told += 1
            entry.repair = {**found, "told": found["told"] + 1}

        self.update(puzzle, change)
        return found, found["told"] + 1

    def _read(self) -> dict[str, Entry]:
        """Errors: ValueError if the file is damaged, OSError; a missing file counts as empty."""
        try:
            return entries_in(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def _read_or_put_aside(self) -> dict[str, Entry]:
        try:
            return self._read()
        except ValueError:
            bad = self.path.with_suffix(".json.bad")
            try:
                os.replace(self.path, bad)
                self.say(f"{self.path} was damaged; it is kept as {bad.name}, and progress starts over.")
            except OSError as e:
                self.say(f"{self.path} is damaged and cannot be replaced ({e.strerror or e}).")
            return {}

    def _write(self, entries: dict[str, Entry]) -> None:
        document = {"format": FORMAT, "puzzles": {name: asdict(e) for name, e in sorted(entries.items())}}
        for left in self.path.parent.glob(f"{self.path.name}.*.new"):  # left by a killed process
            if not _runs(left.name.split(".")[-2]):
                left.unlink(missing_ok=True)
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with open(new, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
        finally:
            new.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        """The folder ignores itself in git, whatever the checkout's .gitignore says."""
        make_state_folder(self.path.parent)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Excludes other processes; proceeds without a lock if the folder is not writable or does not support
        locks."""
        try:
            file = open(self.path.with_suffix(".lock"), "a+b")
        except OSError:
            yield
            return
        with file:
            lock(file)
            yield


def entries_in(text: str) -> dict[str, Entry]:
    """By puzzle, from a file's text. Errors: ValueError if it is damaged."""
    try:
        return {str(name): Entry.read(entry) for name, entry in json.loads(text)["puzzles"].items()}
    except (TypeError, KeyError, AttributeError, RecursionError, OverflowError) as e:
        raise ValueError(str(e)) from None


def following(puzzle: str, left: list[str]) -> str:
    """The unsolved puzzle that comes next: the first after this one, or else the first."""
    return next((i for i in left if i > puzzle), left[0])


def make_state_folder(folder: Path) -> None:
    """`.backwarp/`: progress and the last error, not part of the course."""
    folder.mkdir(exist_ok=True)
    if not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def lock(file) -> None:
    """Waits for an exclusive lock, which closing the file releases; proceeds without one on file systems
    without locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
    except ImportError:
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
    except OSError:
        pass


def _runs(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:  # it belongs to another user
        pass
    return True
