"""The progress file: crashes, damage, two processes, read-only checkouts."""

from __future__ import annotations

import json
import multiprocessing
import os

import pytest

from backwarp.course.progress import Entry, Progress
from backwarp.grading.verdict import PASSED, Verdict


@pytest.fixture
def said():
    return []


@pytest.fixture
def progress(tmp_path, said):
    return Progress(tmp_path, said.append)


def verdict(**changes):
    return Verdict(**{"puzzle": "01_a", "file": "f", "device": "virtual GPU", "source_hash": "abc"} | changes)


def test_nothing_is_solved_at_first(progress, said):
    assert progress.all() == {} and progress.entry("01_a") == Entry()
    assert not progress.path.exists() and not said


def test_attempts_are_counted_and_a_solution_is_kept(progress):
    progress.record(verdict(kind="wrong"))
    progress.record(verdict(status=PASSED))
    progress.record(verdict(kind="wrong"))
    entry = Progress(progress.path.parent.parent).entry("01_a")
    assert entry.attempts == 3
    assert (
        entry.solved["device"] == "virtual GPU"
        and entry.solved["hash"] == "abc"
        and "T" in entry.solved["when"]
    )


def test_the_next_puzzle_comes_after_the_one_solved_or_is_the_first_open_one(progress):
    progress.record(verdict(puzzle="02_b", status=PASSED))
    ids = ["01_a", "02_b", "03_c"]
    assert (progress.next_of(ids), progress.next_of(ids, after="02_b")) == ("01_a", "03_c")
    progress.record(verdict(puzzle="03_c", status=PASSED))
    assert progress.next_of(ids, after="02_b") == "01_a"


def test_an_untouched_stub_is_no_attempt(progress):
    progress.record(verdict(kind="untouched"))
    assert progress.entry("01_a").attempts == 0


def test_git_does_not_see_the_file(progress):
    progress.record(verdict())
    assert (progress.path.parent / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "null",
        '{"puzzles": []}',
        '{"puzzles": {"01_a": 3}}',
        '{"puzzles": {"01_a": {"attempts": "many"}}}',
        '{"puzzles": {"01_a": {"unknown": 1}}}',
        '{"puzzles": {"01_a": {"solved": {"when": "x"}}}}',
        "\ud800",
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_kept_aside_and_said(progress, said, damage):
    progress.record(verdict())
    progress.path.write_bytes(damage.encode("utf-8", "surrogatepass"))
    assert progress.record(verdict()).attempts == 1
    assert progress.path.with_suffix(".json.bad").read_bytes() == damage.encode("utf-8", "surrogatepass")
    assert len(said) == 1 and "damaged" in said[0]
    assert progress.all()["01_a"].attempts == 1


def test_reading_alone_puts_a_damaged_file_aside_too(progress, said):
    progress.record(verdict())
    progress.path.write_text("{")
    assert progress.all() == {} and len(said) == 1


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, said):
    (tmp_path / ".backwarp").write_text("in the way")
    progress = Progress(tmp_path, said.append)
    assert progress.update("01_a", lambda e: setattr(e, "hints", 2)).hints == 2
    assert said and all("\n" not in line for line in said) and "not saved" in said[0]


def test_a_file_that_cannot_be_replaced_is_one_line(progress, said, monkeypatch):
    progress.record(verdict())

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    assert progress.record(verdict()).attempts == 2
    assert len(said) == 1 and "Permission denied" in said[0]
    assert [p.name for p in progress.path.parent.glob("*.new")] == []


def test_a_crash_while_writing_leaves_the_old_file(progress, monkeypatch):
    progress.record(verdict())
    before = progress.path.read_bytes()

    def crash(*_, **__):
        raise RuntimeError("power cut")

    monkeypatch.setattr(json, "dump", crash)
    with pytest.raises(RuntimeError):
        progress.record(verdict())
    assert progress.path.read_bytes() == before


def add_many(root, count):
    progress = Progress(root)
    for _ in range(count):
        progress.update("01_a", lambda entry: setattr(entry, "attempts", entry.attempts + 1))


def test_two_processes_lose_no_update(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add_many, args=(tmp_path, 40)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert Progress(tmp_path).entry("01_a").attempts == 80


def test_what_an_ended_process_left_is_removed(progress):
    progress.record(verdict())
    gone, running = (progress.path.with_name(f"progress.json.{n}.new") for n in (4_194_305, os.getppid()))
    for left in (gone, running):
        left.write_text("{")
    progress.record(verdict())
    assert not gone.exists() and running.exists()
