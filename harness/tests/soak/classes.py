"""A class made up by seed, graded whole in several ways that must give the same gradebook.

`python -m tests.soak.classes DIR` writes submissions of `--people` for the first `--puzzles` (right, wrong, hostile, empty, in
broken encodings, links, duplicates), and grades them with `--workers`, killed ten times at random and resumed, by a cluster of
Dask workers of which one is killed, and under other names: `--how` chooses. It prints for each how long it took, and how much
memory a worker has at most, and ends with an error where gradebooks differ. Some few texts go round in a class: each puzzle has
`--texts` of them, of which the first are handed in most.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import click

from backwarp.classroom import engine
from backwarp.classroom import tasks as tasks_module
from backwarp.classroom.results import Results
from backwarp.classroom.tasks import Task
from backwarp.course.checkout import Course
from backwarp.course.declare import Puzzle
from backwarp.course.stubs import stub_text
from tests import ROOT

HOSTILE = (
    'extern "C" __global__ void {kernel}({parameters}) {{ while (true) {{ }} }}',
    'extern "C" __global__ void {kernel}({parameters}) {{ for (;;) printf("more"); }}',
    '#include "/etc/passwd"\n',
    '#include "/dev/zero"\n',
    "#define A A A\n" + "(" * 5000,
    'extern "C" __global__ void {kernel}({parameters}) {{ asm volatile("trap;"); }}',
)
KINDS = ("right", "wrong", "right", "stub", "wrong", "same", "hostile", "right", "wrong", "encoding", "empty")
LINK, NOTHING = 0.04, 0.06  # shares of files that are links, and that nobody hands in
KILLS = 10
LOOK = 0.2  # seconds between two looks at a run


def text_for(puzzle: Puzzle, kind: str, chance: random.Random) -> bytes:
    solution = puzzle.solution_path.read_text(encoding="utf-8")
    if kind in ("right", "same"):
        return (solution + (f"// {chance.random()}\n" if kind == "right" else "")).encode()
    if kind == "wrong":
        places = [
            m
            for m in re.finditer(r"[-+*<]|\b[01]\b", solution)
            if "//" not in solution[: m.start()].rsplit("\n", 1)[-1]
        ]
        place = chance.choice(places)
        other = {"+": "-", "-": "+", "*": "+", "<": ">", "0": "1", "1": "2"}[place[0]]
        return (solution[: place.start()] + other + solution[place.end() :]).encode()
    if kind == "hostile":
        kernel = puzzle.kernels[0]
        parameters = ", ".join(p.declaration for p in kernel.params)
        return chance.choice(HOSTILE).format(kernel=kernel.name, parameters=parameters).encode()
    if kind == "encoding":
        return solution.encode("utf-16") if chance.random() < 0.5 else solution.encode() + b"\xff\xfe\0"
    return b"" if kind == "empty" else stub_text(puzzle).encode()


def make(folders: Path, flat: Path, people: int, puzzles: Sequence[Puzzle], texts: int, seed: int) -> None:
    """The same class twice: a folder per person, and one list of files under other names."""
    chance = random.Random(seed)
    flat.mkdir(parents=True)
    round_ = [[text_for(p, KINDS[n % len(KINDS)], chance) for n in range(texts)] for p in puzzles]
    for number in range(people):
        for puzzle, own in zip(puzzles, round_, strict=True):
            places = (
                folders / f"person {number:03}" / puzzle.id / puzzle.file,
                flat / f"person {number:03}_{puzzle.number}.cu",
            )
            places[0].parent.mkdir(parents=True, exist_ok=True)
            drawn, link = chance.random(), chance.choice((puzzle.solution_path, "/etc/passwd", "/dev/zero"))
            text = own[min(int(chance.expovariate(4 / texts)), texts - 1)]
            for path in places if drawn >= NOTHING else ():
                path.symlink_to(link) if drawn < NOTHING + LINK else path.write_bytes(text)


# ---- runs ------------------------------------------------------------------------------------------------


def started(source: Path, target: Path, *options: str) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "backwarp",
        "class",
        str(source),
        "-o",
        str(target),
        "--no-alike",
        *options,
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)


def kept(target: Path) -> int:
    """How many gradings a run has kept so far."""
    path = f"file:{target / 'results.sqlite'}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, uri=True)) as base:
        return base.execute("SELECT count(*) FROM results").fetchone()[0]
    return 0


def watched(run: subprocess.Popen, stop: Callable[[], bool] = lambda: False) -> int:
    """Until a run ends, or is to be stopped: the most memory that its processes had together, in bytes."""
    most = 0
    while run.poll() is None and not stop():
        most = max(most, sum(memory_of(pid) for pid in descendants(run.pid)))
        time.sleep(LOOK)
    return most


def descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from descendants(child)


def memory_of(pid: int) -> int:
    """Of a process, in bytes: what it shares is divided among those that share it."""
    with suppress(OSError):
        found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
        return int(found[1]) << 10 if found else 0
    return 0


@contextmanager
def cluster(folder: Path, threads: int = 1) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """(address, its workers): a scheduler and two workers in processes of their own."""
    at = folder / "scheduler.json"
    at.unlink(missing_ok=True)
    os.environ["DASK_LOGGING__DISTRIBUTED"] = "error"
    common = ["--scheduler-file", str(at), "--no-dashboard"]
    begun = [
        subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", *common])
    ]
    try:
        for _ in range(2):
            worker = [
                sys.executable,
                "-m",
                "distributed.cli.dask_worker",
                "--nthreads",
                str(threads),
                "--no-nanny",
                *common,
            ]
            begun.append(subprocess.Popen([*worker, "--local-directory", str(folder)]))
        while not at.exists():
            time.sleep(LOOK)
        yield json.loads(at.read_text())["address"], begun[1:]
    finally:
        for process in reversed(begun):
            process.kill()
            process.wait()


def plain(source: Path, target: Path, *options: str) -> int:
    run = started(source, target, *options)
    most = watched(run)
    assert run.returncode == 0
    return most


def killed(source: Path, target: Path, of: int, chance: random.Random) -> None:
    """of: how many gradings there are."""
    for kill in range(KILLS):
        enough = of * (kill + chance.random()) / KILLS
        run = started(source, target)
        watched(run, lambda enough=enough: kept(target) >= enough)
        run.kill()
        run.wait()
    plain(source, target)


def clustered(source: Path, target: Path, of: int) -> None:
    with cluster(target.parent) as (address, workers):
        run = started(source, target, "--scheduler", address)
        watched(run, lambda: kept(target) >= of / 3)
        workers[0].send_signal(signal.SIGKILL)
        watched(run)
        assert run.returncode == 0


def gradebook(target: Path) -> tuple[bytes, object]:
    """(the table, everything but the names of files)."""
    whole = json.loads((target / "gradebook.json").read_text())
    for person in whole["people"]:
        for entry in person["puzzles"].values():
            del entry["file"]
    whole["left"] = sorted((left["person"], left["why"]) for left in whole["left"])
    return (target / "gradebook.csv").read_bytes(), whole


# ---- the engine and the scheduler alone ------------------------------------------------------------------


def simulated(how: str, tasks: int, seconds: float, threads: int, folder: Path) -> None:
    """So many gradings that only sleep, on threads and on a Dask cluster in processes of its own with as many threads."""
    from distributed import Client

    outcome = tasks_module.nothing("x" * 4000, "simulated") | {"status": "failed"}

    def sleep(_: object) -> tasks_module.Outcome:
        time.sleep(seconds)
        return outcome

    wanted = [Task(str(ROOT), "01_vector_add", b"%d" % number) for number in range(tasks)]
    for name, together in (re.fullmatch(r"(\w+?)(\d+)", name).groups() for name in how.split(",")):
        together = int(together)
        base = folder / f"{name}{together}.sqlite"
        base.unlink(missing_ok=True)
        with ExitStack() as stack:
            if name == "dask":
                address, _ = stack.enter_context(cluster(folder, threads))
                client = stack.enter_context(Client(address))
                pool, ahead = client.get_executor(pure=False), engine.AT_CLUSTER
            else:
                pool, ahead = stack.enter_context(ThreadPoolExecutor(threads)), engine.AHEAD * threads
            stack.enter_context(patch.object(engine, "run", sleep))
            stack.enter_context(
                patch.object(engine, "run_all", lambda batch: [sleep(task) for task in batch])
            )
            start, spent = time.monotonic(), time.process_time()
            engine.graded(wanted, Results(base), pool, ahead, together)
            took, spent = time.monotonic() - start, time.process_time() - spent
            others = [memory_of(pid) >> 20 for pid in descendants(os.getpid())]
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        print(
            f"{name}, {together} together: {tasks} in {took:.0f} s, {1e3 * took / tasks:.2f} ms each, {1e3 * spent / tasks:.2f} of"
            f" it here; {base.stat().st_size / tasks / 1e3:.1f} KB each kept; {own / 2**20:.0f} MB here"
            + (f", {others[0]} MB in the scheduler, {others[1:]} MB in workers" if others else ""),
            flush=True,
        )


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--people", default=200)
@click.option("--puzzles", default=12)
@click.option("--texts", default=24, help="Different ones that go round for each puzzle.")
@click.option("--seed", default=0)
@click.option("--workers", default=os.cpu_count(), help="Of the runs that say nothing of it.")
@click.option(
    "--simulated",
    "only",
    default=0,
    help="Only this many gradings that sleep, --how dask16,threads1 for example.",
)
@click.option("--sleep", default=1.0, help="Seconds that each sleeps.")
@click.option("--threads", default=400, help="How many sleep at once.")
@click.option("--how", default="workers=1,workers=2,killed,cluster,renamed", help="The runs, in order.")
def main(
    folder: Path,
    people: int,
    puzzles: int,
    texts: int,
    seed: int,
    workers: int,
    how: str,
    only: int,
    sleep: float,
    threads: int,
) -> None:
    if only:
        folder.mkdir(parents=True, exist_ok=True)
        simulated(how, only, sleep, threads, folder)
        return
    inside, flat = folder / "in", folder / "flat"
    for old in (inside, flat):
        shutil.rmtree(old, ignore_errors=True)
    chosen = [p for p in Course(ROOT).puzzles() if not p.program][:puzzles]
    make(inside, flat, people, chosen, texts, seed)
    books, of = {}, 0
    for name in how.split(","):
        target, start, memory = folder / name, time.monotonic(), 0
        shutil.rmtree(target, ignore_errors=True)
        before = os.times()
        if name == "killed":
            killed(inside, target, of or texts * len(chosen), random.Random(seed))
        elif name == "cluster":
            clustered(inside, target, of or texts * len(chosen))
        else:
            count = int(name.partition("=")[2] or workers)
            source = flat if name == "renamed" else inside
            memory = plain(source, target, "--workers", str(count)) / count
        seconds, of, after = time.monotonic() - start, kept(target), os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        books[name] = gradebook(target)
        print(
            f"{name:12} {of} gradings, {seconds:.0f} s, {seconds / of:.2f} s each, {spent / of:.2f} s of processor time each"
            + (f", {memory / 2**20:.0f} MB a worker" if memory else ""),
            flush=True,
        )
    first = next(iter(books))
    rows = list(csv.reader(books[first][0].decode().splitlines()))
    points = sum(float(row[-1]) for row in rows[1:])
    print(f"{len(rows) - 1} people, {points:g} points")
    if different := [name for name, book in books.items() if book != books[first]]:
        sys.exit(f"another gradebook than with {first}: {', '.join(different)}")


if __name__ == "__main__":
    main()
