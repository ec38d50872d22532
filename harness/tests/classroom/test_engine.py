"""Running what is missing, on any executor, and what stays of it."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

from backwarp.classroom import engine, tasks
from backwarp.classroom import results as kept
from backwarp.classroom.engine import executor, graded, stop
from backwarp.classroom.results import Results
from backwarp.classroom.tasks import Grader, Task, nothing, run
from backwarp.cli import classroom as cli
from backwarp.errors import CourseError
from tests import ROOT

ADD = "01_vector_add"
RIGHT = {
    "status": "passed",
    "kind": "",
    "share": 1.0,
    "lines": [],
    "shown": [],
    "findings": [],
    "seconds": 0.1,
}


def tasks_for(*texts: str, seed: int | None = None) -> list[Task]:
    return [Task(str(ROOT), ADD, text.encode(), seed) for text in texts]


class Scripted(Executor):
    """Runs at once, and loses the first so many tasks."""

    def __init__(self, lost: int = 0):
        self.lost, self.ran = lost, []

    def submit(self, function, batch):
        future = Future()
        self.ran += [task.data.decode() for task in batch]
        if len(self.ran) <= self.lost:
            future.set_exception(RuntimeError("the worker is gone"))
        else:
            future.set_result([RIGHT] * len(batch))
        return future


@pytest.fixture
def results(tmp_path):
    found = Results(tmp_path / "results.sqlite")
    yield found
    found.close()


def test_each_different_text_is_graded_once_and_never_again(results):
    pool = Scripted()
    found = graded(tasks_for("a", "b", "a"), results, pool, 1)
    assert sorted(pool.ran) == ["a", "b"] and len(found) == 2
    again = Scripted()
    assert graded(tasks_for("a", "b", "c"), results, again, 1).keys() > found.keys() and again.ran == ["c"]


def test_a_changed_text_another_seed_and_another_version_are_graded_anew(results):
    graded(tasks_for("a"), results, Scripted(), 1)
    pool = Scripted()
    graded([*tasks_for("a "), *tasks_for("a", seed=7)], results, pool, 1)
    graded([replace(task, version="another") for task in tasks_for("a")], results, pool, 1)
    assert len(pool.ran) == 3


def test_a_lost_worker_loses_nothing(results):
    pool = Scripted(lost=2)
    (found,) = graded(tasks_for("a"), results, pool, 1).values()
    assert found == RIGHT and pool.ran == ["a"] * 3


def test_many_tasks_go_in_batches_and_of_a_lost_one_each_is_run_again(results):
    pool = Scripted(lost=4)
    found = graded(tasks_for(*map(str, range(20))), results, pool, 1, 4)
    assert (
        len(found) == 20 and pool.ran[:8] == ["0", "1", "2", "3", "3", "2", "1", "0"] and len(pool.ran) == 24
    )


def test_what_loses_its_worker_each_time_is_told_and_tried_again_the_next_time(results):
    (found,) = graded(tasks_for("a"), results, Scripted(lost=9), 1).values()
    assert found["kind"] == "lost" and "the worker is gone" in found["lines"][0]
    pool = Scripted()
    assert [*graded(tasks_for("a"), results, pool, 1).values()] == [RIGHT] and pool.ran == ["a"]


def test_an_interrupted_run_keeps_what_it_has(results, tmp_path, monkeypatch):
    class Interrupted(Scripted):
        def submit(self, function, batch):
            if self.ran:
                os.kill(os.getpid(), signal.SIGINT)
                return Future()
            return super().submit(function, batch)

    first = Results(tmp_path / "results.sqlite")
    monkeypatch.setattr(signal, "SIG_DFL", signal.getsignal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        graded(tasks_for("a", "b"), first, Interrupted(), 2)
    first.close()
    pool = Scripted()
    graded(tasks_for("a", "b"), results, pool, 1)
    assert pool.ran == ["b"]


def test_an_interrupted_run_ends_the_processes_that_grade():
    child = Grader("backwarp.classroom.tasks")
    try:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(lambda: [child.receive() for _ in ("ready", "nothing more")])
            stop([future])
        assert isinstance(future.exception(), EOFError)
    finally:
        child.end()


def test_two_runs_at_once_keep_their_results(tmp_path):
    def one(text):
        base = Results(tmp_path / "results.sqlite")
        graded(tasks_for(*(f"{text}{n}" for n in range(50))), base, Scripted(), 1)
        base.close()

    threads = [threading.Thread(target=one, args=(text,)) for text in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with sqlite3.connect(tmp_path / "results.sqlite") as base:
        assert base.execute("SELECT count(*) FROM results").fetchone() == (150,)


def test_what_another_run_is_grading_is_waited_for_and_not_graded_twice(results, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "LOOK", 0.01)
    other, (a, _) = Results(tmp_path / "results.sqlite"), tasks_for("a", "b")
    assert other.claim({a.key}) == ({}, set())

    class Meanwhile(Scripted):
        def submit(self, function, batch):
            other.keep(a.key, RIGHT | {"case": "of the other"})
            return super().submit(function, batch)

    pool = Meanwhile()
    found = graded(tasks_for("a", "b"), results, pool, 1)
    assert pool.ran == ["b"] and found[a.key]["case"] == "of the other"


@pytest.mark.parametrize("how", ["closed", "ended", "silent", "renewed", "lost"])
def test_a_claim_holds_as_long_as_its_run(results, tmp_path, monkeypatch, how):
    other = Results(tmp_path / "results.sqlite")
    if how == "ended":
        with subprocess.Popen([sys.executable, "-c", ""]) as gone:
            pass
        other.run = f"{socket.gethostname()} {gone.pid} 0"
    monkeypatch.setattr(kept, "LEASE", -1.0 if how in ("silent", "renewed") else 60.0)
    other.claim({"a"})
    monkeypatch.setattr(kept, "LEASE", 60.0)
    if how == "closed":
        other.close()
    elif how == "renewed":
        monkeypatch.setattr(kept, "RENEWED", -1.0)
        other.renew()
    elif how == "lost":
        other.keep("a", nothing("It was lost.", "lost"))
    assert results.claim({"a"}) == ({}, {"a"} if how == "renewed" else set())


def test_a_file_that_is_no_database_is_one_sentence(tmp_path):
    (tmp_path / "results.sqlite").write_text("not a database" * 100)
    with pytest.raises(CourseError, match="move it away"):
        Results(tmp_path / "results.sqlite")


def test_progress_is_told(results):
    told = []
    graded(tasks_for("a", "b"), results, Scripted(), 1, 1, lambda done, of: told.append((done, of)))
    assert told == [(0, 2), (1, 2), (2, 2)]


def test_overviews_of_a_large_class_take_a_tenth_of_the_time(monkeypatch):
    now, looks = 0.0, []
    monkeypatch.setattr(cli, "time", SimpleNamespace(monotonic=lambda: now))

    def look(done: int, of: int) -> None:
        nonlocal now
        looks.append(now)
        now += 3.0

    with cli.progress(look) as tell:
        for done in range(100):
            now += 1.0
            tell(done, 100)
    assert looks == [1.0, 31.0, 61.0, 91.0]


def test_a_scheduler_that_is_gone_is_said(results, monkeypatch):
    class Gone(Executor):
        _client = SimpleNamespace(status="closed")

        def submit(self, function, batch):
            return Future()

    monkeypatch.setattr(engine, "LOOK", 0.01)
    with pytest.raises(CourseError, match="scheduler is gone"):
        graded(tasks_for("a"), results, Gone(), 1)


# ---- one real text ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool():
    with executor(1) as (pool, ahead, _):
        assert ahead >= 1
        yield pool


@pytest.mark.parametrize("kind", ["right", "wrong", "endless", "python"])
def test_a_text_is_graded_in_processes_of_its_own(kind, pool):
    solution = (ROOT / "solutions" / ADD / "kernel.cu").read_text()
    text = {
        "right": solution,
        "wrong": solution.replace("i >= n", "i > n"),
        "endless": solution.replace("if (i >= n) return;", "while (i < n) c[i] += 1;"),
        "python": "import os",
    }[kind]
    found = pool.submit(run, Task(str(ROOT), ADD, text.encode())).result()
    assert found["status"] == ("passed" if kind == "right" else "failed")
    diagnosis = {"right": "", "wrong": "out-of-bounds", "endless": "timeout", "python": "compile"}[kind]
    assert found["diagnosis"] == diagnosis and not any("/tmp" in line for line in found["lines"])


def test_the_same_text_has_the_same_outcome_wherever_it_runs():
    text = (ROOT / "solutions" / ADD / "kernel.cu").read_text().replace("+ b[i]", "- b[i]").encode()
    first, second = (run(Task(str(ROOT), ADD, text)) for _ in range(2))
    assert first | {"seconds": 0} == second | {"seconds": 0}


def test_what_a_grading_spends_is_that_of_all_its_processes():
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()"
    with subprocess.Popen(
        (sys.executable, "-c", outer), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert 0.25 < tasks.spent_below(process.pid)
        process.communicate(b"\n")
    assert tasks.spent_below(process.pid) == 0


def test_a_worker_without_the_course_takes_its_own_and_with_another_version_grades_nothing(tmp_path):
    text = (ROOT / "solutions" / ADD / "kernel.cu").read_bytes()
    task = Task(str(tmp_path / "nowhere"), ADD, text)
    assert run(task)["status"] == "passed"
    old = run(replace(task, version="0.0.1"))
    assert old["kind"] == "error" and "0.0.1" in old["lines"][0]


def test_a_process_that_ends_is_an_outcome(monkeypatch):
    class Gone:
        most = 0

        def __init__(self, module):
            pass

        def ask(self, *_):
            raise EOFError

        def end(self):
            return ""

    monkeypatch.setattr(tasks, "Grader", Gone)
    assert run(tasks_for("a")[0])["kind"] == "lost"


def test_a_cluster_needs_dask(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(CourseError, match=r"backwarp\[class\]"), executor(scheduler="tcp://127.0.0.1:1"):
        pass


# ---- Slurm -----------------------------------------------------------------------------------------------


@pytest.fixture
def slurm(monkeypatch):
    """What is asked of dask-jobqueue, and what sbatch says of the job."""
    asked, refused = {}, []

    class Cluster:
        def __init__(self, **options):
            if "bogus" in options:
                raise ValueError("Got unexpected keyword argument 'bogus'. Very likely\nlong")
            asked.update(options)

        def adapt(self, **jobs):
            asked.update(jobs)

        def job_script(self):
            return "#!/bin/sh"

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    found = ModuleType("dask_jobqueue")
    found.SLURMCluster = Cluster
    monkeypatch.setitem(sys.modules, "dask_jobqueue", found)
    answer = lambda *_, **__: subprocess.CompletedProcess((), len(refused), "", "".join(refused))  # noqa: E731
    monkeypatch.setattr(engine.subprocess, "run", answer)
    return asked, refused


def test_slurm_gets_its_options_and_another_job_for_each_that_ends(slurm):
    with engine.slurm_cluster("partition=cpu,cores=8,memory=16GB,jobs=10"):
        assert slurm[0] == {
            "queue": "cpu",
            "cores": 8,
            "memory": "16GB",
            "minimum_jobs": 10,
            "maximum_jobs": 10,
        }


@pytest.mark.parametrize("text", ["cores=many", "bogus=1", "queue=nowhere"])
def test_what_slurm_cannot_do_is_one_sentence(slurm, text):
    if "nowhere" in text:
        slurm[1].append("sbatch: error: invalid partition\n")
    with (
        pytest.raises(CourseError, match=r"^--slurm .*('many'|'bogus'|partition)$"),
        engine.slurm_cluster(text),
    ):
        pass
