"""Runs the gradings that are missing, on any `concurrent.futures.Executor`, and keeps each result as it comes."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from ..errors import CourseError
from .results import Results
from .tasks import Grader, Outcome, Task, nothing, own_core, run

TRIES = 3  # of a task whose worker is lost
AHEAD = 4  # tasks per worker of this machine that wait at the executor: the rest waits here, where it costs nothing
AT_CLUSTER, TOGETHER = (
    2_000,
    16,
)  # batches that wait at a scheduler, whose workers come and go; tasks in a batch
LOOK = 1.0  # seconds between two looks at what other runs have graded
NUMBERS = ("cores", "jobs", "processes")  # of --slurm


@contextmanager
def executor(workers: int = 0, scheduler: str = "", slurm: str = "") -> Iterator[tuple[Executor, int, int]]:
    """(an executor, how many batches of tasks may wait at it, how many tasks are in a batch at most). By default threads of this process, each of which waits for a process
    of its own; else the workers of a Dask scheduler at an address, or those that it starts through Slurm. Errors:
    CourseError."""
    with ExitStack() as stack:
        if scheduler or slurm:
            try:
                from distributed import Client
            except ImportError:
                raise CourseError("a cluster needs Dask: pip install 'backwarp[class]'") from None
            for name in ("distributed", "concurrent.futures"):  # they print tracebacks
                logging.getLogger(name).setLevel(logging.CRITICAL)
            at = stack.enter_context(slurm_cluster(slurm)) if slurm else scheduler
            try:
                client = stack.enter_context(Client(at, timeout=30))
            except (OSError, TimeoutError, ValueError) as error:
                raise CourseError(f"there is no scheduler at {scheduler}: {error}") from None
            yield client.get_executor(pure=False), AT_CLUSTER, TOGETHER
        else:
            here = sorted(os.sched_getaffinity(0))
            workers, cores = workers or len(here), SimpleQueue()
            for number in range(workers):
                cores.put(here[number % len(here)])
            pool = ThreadPoolExecutor(workers, initializer=own_core, initargs=(cores,))
            yield stack.enter_context(pool), AHEAD * workers, 1


@contextmanager
def slurm_cluster(text: str) -> Iterator[Any]:
    """Workers in so many jobs of Slurm, another for each that ends. text: SLURMCluster's options, as in queue=cpu,cores=8, and
    jobs=10. Errors: CourseError."""
    from dask_jobqueue import SLURMCluster

    options: dict[str, Any] = dict(pair.partition("=")[::2] for pair in text.split(","))
    options = {"memory": "2GB", "cores": 1, "jobs": 1} | options
    if "partition" in options:
        options["queue"] = options.pop("partition")
    try:
        options |= {name: int(options[name]) for name in NUMBERS if name in options}
        jobs = options.pop("jobs")
        cluster = SLURMCluster(**options)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CourseError(f"--slurm {text}: {str(error).partition('. ')[0]}") from None
    with cluster:
        try:
            tried = subprocess.run(
                ("sbatch", "--test-only"),
                input=cluster.job_script(),
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            raise CourseError("--slurm needs sbatch: run this where jobs are given to Slurm") from None
        if tried.returncode:
            raise CourseError(f"--slurm {text}: {tried.stderr.strip().splitlines()[0]}")
        cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)
        yield cluster


def graded(
    tasks: Iterable[Task],
    results: Results,
    pool: Executor,
    ahead: int,
    together: int = 1,
    tell: Callable[[int, int], None] = lambda done, of: None,
    known: dict[str, Outcome] | None = None,
) -> dict[str, Outcome]:
    """Every task's outcome, by its key: `known`, to which it adds. What is known is not run again, and what another run is
    grading is waited for. ahead, together: how many may wait at the executor, and in how large batches if there are many. tell:
    called with how many are done, of how many."""
    wanted = {task.key: task for task in tasks}
    known = results.known(wanted) if known is None else known
    left = [task for key, task in wanted.items() if key not in known]
    size = min(together, 1 + len(left) // (5 * ahead))
    run = Run(results, pool, known, lambda done: tell(done, len(left)), batches(left, size)[::-1])
    tell(0, len(left))
    with interrupts(lambda: run.finished.put(None)) as interrupted:
        try:
            while run.waiting or run.running or run.elsewhere:
                while run.waiting and len(run.running) < ahead and not interrupted:
                    run.submit()
                if interrupted:
                    raise KeyboardInterrupt
                results.renew()
                with suppress(Empty):
                    run.take(run.finished.get(timeout=LOOK))
                    continue
                ensure_there(pool)
                if not run.waiting:
                    run.waiting, run.elsewhere = batches(run.elsewhere, size), []
        except BaseException:
            stop(run.running)
            for future in [f for f in run.running if not f.cancelled()]:
                run.take(future)
            raise
    return known


def ensure_there(pool: Executor) -> None:
    """Errors: CourseError if Dask's scheduler is gone, whose futures then never end."""
    client = getattr(pool, "_client", None)
    if client is not None and client.status == "closed":
        raise CourseError("the scheduler is gone")


@contextmanager
def interrupts(wake: Callable[[], None]) -> Iterator[list[int]]:
    """A list that is no longer empty after Ctrl-C, which raises nothing meanwhile: it could be in the middle of what Dask
    does. Once more, after this, ends the process."""
    pressed: list[int] = []

    def press(number: int, _: object) -> None:
        pressed.append(number)
        wake()

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if pressed else before)


@dataclass
class Run:
    """waiting: batches, and how often each was tried, the next one last; running: those at the executor; elsewhere: what other
    runs grade. tell: called with how many are done."""

    results: Results
    pool: Executor
    known: dict[str, Outcome]
    tell: Callable[[int], None]
    waiting: list[tuple[list[Task], int]]
    running: dict[Future, tuple[list[Task], int]] = field(default_factory=dict)
    finished: SimpleQueue[Future | None] = field(default_factory=SimpleQueue)
    elsewhere: list[Task] = field(default_factory=list)
    done: int = 0

    def submit(self) -> None:
        """What is left of the next batch."""
        batch, tries = self.waiting.pop()
        known, theirs = self.results.claim({task.key for task in batch})
        self.add(known)
        self.elsewhere += [task for task in batch if task.key in theirs]
        if batch := [task for task in batch if task.key not in known and task.key not in theirs]:
            future = self.pool.submit(run_all, batch)
            self.running[future] = batch, tries
            future.add_done_callback(self.finished.put)

    def take(self, future: Future | None) -> None:
        """What has ended. None: nothing has."""
        if future is None:
            return
        batch, tries = self.running.pop(future)
        found = {}
        for task, outcome in zip(batch, outcomes_of(future, len(batch)), strict=True):
            if outcome["kind"] == "lost" and tries < TRIES:
                self.waiting.append(([task], tries + 1))
            else:
                found[task.key] = outcome
        with self.results.at_once():
            for key, outcome in found.items():
                self.results.keep(key, outcome)
        self.add(found)

    def add(self, outcomes: dict[str, Outcome]) -> None:
        if outcomes:
            self.known.update(outcomes)
            self.done += len(outcomes)
            self.tell(self.done)


def batches(tasks: Sequence[Task], size: int) -> list[tuple[list[Task], int]]:
    """With the number of the try."""
    return [(list(tasks[at : at + size]), 1) for at in range(0, len(tasks), size)]


def stop(futures: Collection[Future]) -> None:
    """Of what runs here the processes are ended."""
    for future in futures:
        future.cancel()
    while left := [future for future in futures if not future.done()]:
        for grader in [child for child in Grader._alive if isinstance(child, Grader)]:
            grader.kill()
        wait(left, timeout=0.05)


def run_all(batch: Sequence[Task]) -> list[Outcome]:
    return [run(task) for task in batch]


def outcomes_of(future: Future, count: int) -> list[Outcome]:
    """A worker that is gone took no results with it: its tasks are run again."""
    try:
        return future.result()
    except Exception as error:  # whatever the executor raises for a lost worker
        return [nothing(f"Its worker was lost: {error}"[:400], "lost")] * count
