"""What an item does: `python -m backwarp.maintain.hardware.work VERB ITEM` writes a JSON line for each result."""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np

from ...course import least_work
from ...course.checkout import Course, open_course, seed_of
from ...course.declare import Puzzle
from ...devices.gpu.device import GPU
from ...errors import BackwarpError
from ...grading.grade import Options, Stop, grade_file, open_setups, run_all
from ...measure import baseline, bench, figures, ladder
from ..check_mutants import wrong_ones
from . import layers, machine

CHUNK = 16  # mistakes per item
MUTANTS = 8  # every so many are run
COMPARED = 200_000_000  # multiply-adds: larger launches are compared with a smaller batch


@cache
def course() -> Course:
    return open_course(Path(__file__).parent)


class KeptGPU(GPU):
    """A GPU that stays open for reuse, because starting CUDA takes seconds."""

    def __exit__(self, *exception) -> None:
        pass


@cache
def gpu() -> KeptGPU:
    return KeptGPU()


def open_gpu(kind: str = "gpu", checks: str = "full", seed: int = 0) -> GPU:
    """An opener for grading and measuring."""
    gpu().checks, gpu().schedule = checks, seed
    return gpu()


# ---- right and wrong kernels -------------------------------------------------------------------------------


def graded(puzzle: Puzzle, source: str) -> dict:
    """Whether a text passes every case on the GPU; the causes are not looked for here."""
    seed = seed_of(source)
    puzzle, options = puzzle.drawn(seed), Options(device="gpu", seed=seed, patience=0.0)
    try:
        with ExitStack() as stack:
            setups = open_setups(puzzle, options, open_gpu, stack)
            trials, done = run_all(puzzle, setups, source, puzzle.file, options)
    except Stop as stop:
        return {"passed": False, "kind": stop.kind, "says": " ".join(stop.lines)[:300]}
    for outcome in (trial.outcome for trial in trials[:done]):
        if outcome.kind:
            kind = getattr(outcome.error, "kind", outcome.kind)
            said = str(outcome.error) if outcome.error else " ".join(outcome.lines)
            case = {"case": outcome.case.name, "kernel": outcome.kernel.name}
            return {"passed": False, "kind": kind, "says": said[:300], **case}
    return {"passed": done == len(trials), "cases": done}


def grade(number: str) -> Iterator[dict]:
    """Grades a solution."""
    puzzle = course().load(number)
    if not puzzle.program:
        yield {"puzzle": puzzle.id, **graded(puzzle, text_of(puzzle))}
        return
    verdict = grade_file(puzzle, puzzle.solution_path, Options(device="gpu"))
    said = " ".join(verdict.lines)[:300]
    yield {"puzzle": puzzle.id, "passed": verdict.passed, "kind": verdict.kind, "says": said}


def mistakes(item: str) -> Iterator[dict]:
    """Grades some of a puzzle's mistakes: `09:16` means from the 17th on."""
    number, first = item.split(":")
    puzzle = course().load(number)
    for mistake in wrong_ones(puzzle, MUTANTS)[int(first) :][:CHUNK]:
        yield {"mistake": mistake.name, **graded(puzzle, mistake.apply(text_of(puzzle)))}


def text_of(puzzle: Puzzle) -> str:
    return puzzle.solution_path.read_text(encoding="utf-8")


# ---- times -------------------------------------------------------------------------------------------------


def spread(milliseconds: list[float]) -> dict:
    low, median, high = np.quantile(milliseconds, [0.1, 0.5, 0.9]).tolist()
    return {"ms": median, "ms_10": low, "ms_90": high, "n": len(milliseconds)}


def ceilings(_: str) -> Iterator[dict]:
    """The GPU's limits, as far as libraries reach them: a memory copy, a product of large matrices."""
    repeat, side, nbytes = bench.BenchOptions.repeat, 8192, 1 << 30
    for told, job in (
        ({"what": "copy", "bytes": 2 * nbytes}, {"operation": "copy", "nbytes": nbytes}),
        ({"what": "product", "flop": 2 * side**3}, {"operation": "matmul", "m": side, "k": side, "n": side}),
    ):
        library = baseline.measure({**job, "repeat": repeat})
        yield told | library | {"rows": spreads(library.get("rows", []))}


def spreads(rows: list[dict]) -> list[dict]:
    return [row | spread(row.pop("milliseconds")) if "milliseconds" in row else row for row in rows]


def rungs(name: str) -> Iterator[dict]:
    """The times of one of the ladders of LADDER.md."""
    (wanted,) = (one for one in ladder.LADDERS if one.name == name)
    for number, shape in wanted.rungs:
        rung = {"ladder": name, "puzzle": course().load(number).id}
        try:
            yield rung | ladder.timed(course(), wanted, number, shape, open_gpu)
        except BackwarpError as error:
            yield rung | {"problem": str(error)[:300]}


def layer(item: str) -> Iterator[dict]:
    """`published/weights`: times for one layer in one direction, of the library and of every kernel that can
    compute it."""
    name, direction = item.split("/")
    shape, found = layers.LAYERS.get(name, layers.PRODUCT), layers.kernels(course(), name, direction)
    puzzle, kernel = found[0]
    dims = puzzle.full_dims(bench.shapes.shape_of(puzzle, shape).case)
    job = baseline.job_of(kernel, dims)
    work = {"flop": least_work.flops(kernel, dims), "least_bytes": least_work.least_bytes(kernel, dims)}
    library = baseline.measure({**job, "repeat": bench.BenchOptions.repeat})
    library["rows"] = spreads(library.get("rows", []))
    yield {
        "layer": name,
        "direction": direction,
        **work,
        **library,
        "sm_clock": machine.smi().get("clocks.sm"),
    }
    for puzzle, kernel in found:
        try:
            yield {"puzzle": puzzle.id, "kernel": kernel.name, **timed(puzzle, kernel, shape)}
        except BackwarpError as error:
            yield {"puzzle": puzzle.id, "kernel": kernel.name, "problem": str(error)[:300]}


def timed(puzzle: Puzzle, kernel, shape: str) -> dict:
    """The times of a kernel, and of the kernels that finish its work."""
    names = tuple(k.name for k in (kernel, *puzzle.followers(kernel)))
    settings = bench.BenchOptions(shape=shape, device="gpu", only=names, libraries=False, compared=COMPARED)
    report = bench.bench(puzzle, puzzle.solution_path, settings, open_gpu)
    if not report.kernels:
        return {"problem": " ".join(report.verdict.lines)[:300]}
    first, *others = report.kernels
    found = {"arithmetic": first.arithmetic, "result": first.result, **spread(first.milliseconds)}
    return found | {"ms": figures.chained(report, first), "launches": 1 + len(others)}


VERBS = {
    "machine": lambda _: [machine.look()],
    "metrics": lambda _: [{"unknown": machine.unknown()}],
    "grade": grade,
    "mistakes": mistakes,
    "ceilings": ceilings,
    "ladder": rungs,
    "layers": layer,
}


def main(verb: str, item: str) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with the process that started it
    try:
        for result in VERBS[verb](item):
            print(json.dumps(result), flush=True)
    finally:
        if gpu.cache_info().currsize:
            gpu().close()


if __name__ == "__main__":
    main(*sys.argv[1:])
