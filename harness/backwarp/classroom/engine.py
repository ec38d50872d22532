"""Runs the gradings that are missing, on any `concurrent.futures.Executor`, and keeps each result as it comes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any

from ..errors import CourseError
from .results import Results
from .tasks import Outcome, Task, nothing, own_core, run

TRIES = 3  # of a task whose worker is lost
AHEAD = 4  # tasks per worker that wait at the executor: the rest waits here, where it costs nothing


@contextmanager
def executor(
    workers: int = 0, scheduler: str = "", slurm: dict[str, Any] | None = None
) -> Iterator[tuple[Executor, int]]:
    """(an executor, how many tasks it runs at once). By default threads of this process, each of which waits for a process
    of its own; else the workers of a Dask scheduler at an address, or those that it starts through Slurm."""
    with ExitStack() as stack:
        if scheduler or slurm:
            try:
                from distributed import Client
            except ImportError:
                raise CourseError("a cluster needs Dask: pip install 'backwarp[class]'") from None
            if slurm:
                from dask_jobqueue import SLURMCluster

                jobs = int(slurm.pop("jobs", 1))
                cluster = stack.enter_context(SLURMCluster(**slurm))
                cluster.scale(jobs=jobs)
            try:
                client = stack.enter_context(Client(cluster if slurm else scheduler, timeout=30))
            except (OSError, TimeoutError, ValueError) as error:
                raise CourseError(f"there is no scheduler at {scheduler}: {error}") from None
            yield client.get_executor(pure=False), max(1, sum(client.nthreads().values()))
        else:
            here = sorted(os.sched_getaffinity(0))
            workers, cores = workers or len(here), SimpleQueue()
            for number in range(workers):
                cores.put(here[number % len(here)])
            pool = ThreadPoolExecutor(workers, initializer=own_core, initargs=(cores,))
            yield stack.enter_context(pool), workers


def graded(
    tasks: Iterable[Task],
    results: Results,
    pool: Executor,
    at_once: int,
    tell: Callable[[int, int], None] = lambda done, of: None,
    known: dict[str, Outcome] | None = None,
) -> dict[str, Outcome]:
    """Every task's outcome, by its key: `known`, to which it adds. What is known is not run again. tell: called with how many
    are done, of how many."""
    wanted = {task.key: task for task in tasks}
    known = results.known(wanted) if known is None else known
    waiting = [task for key, task in wanted.items() if key not in known]
    running: dict[Future, tuple[Task, int]] = {}
    total, done = len(waiting), 0
    waiting.reverse()
    tell(done, total)
    try:
        while waiting or running:
            while waiting and len(running) < AHEAD * at_once:
                task = waiting.pop()
                running[pool.submit(run, task)] = task, 1
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                task, tries = running.pop(future)
                outcome = outcome_of(future)
                if outcome["kind"] == "lost" and tries < TRIES:
                    running[pool.submit(run, task)] = task, tries + 1
                    continue
                known[task.key] = outcome
                results.keep(task.key, outcome)
                done += 1
                tell(done, total)
    finally:
        for future in running:
            future.cancel()
    return known


def outcome_of(future: Future) -> Outcome:
    """A worker that is gone took no result with it: the task is run again."""
    try:
        return future.result()
    except Exception as error:  # whatever the executor raises for a lost worker
        return nothing(f"Its worker was lost: {error}"[:400], "lost")
