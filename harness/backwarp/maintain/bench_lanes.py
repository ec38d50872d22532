"""What vector lanes gain: `python -m backwarp.maintain.bench_lanes [--only NUMBER] [--target avx2] [--width
N]`.

The solutions' kernels, each on its puzzle's slowest cases, against the same kernels run one thread at a time
(coarsened if possible): processor time of alternating launches, memory checks, one core. The results are
compared bit by bit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from ..course.checkout import open_course
from ..course.declare import Puzzle
from ..cuda.values import tunables
from ..devices.virtual.device import VirtualGPU
from ..errors import CourseError
from ..grading.grade import prepare
from ..grading.runs import Setup
from ..measure.bench import BenchOptions, Measuring

REPEAT, CASES = 5, 2
_LEAST = 2e-3  # seconds that timed launches take at least


def opened(puzzle: Puzzle, width: int, target: str) -> Setup:
    device = VirtualGPU("memory", cores=1)
    device.lanes, device.target = width, target
    setup = Setup(device, (1,))
    prepare(setup, puzzle, puzzle.solution_path.read_text(encoding="utf-8"), "kernel.cu")
    return setup


def seconds(launch: Measuring, times: int = 1) -> float:
    start = time.process_time()
    for _ in range(times):
        launch()
    return (time.process_time() - start) / times


def measure(puzzle: Puzzle, width: int, target: str) -> Iterator[tuple[str, str, str, float, float]]:
    """For each kernel: (its name, a case, how it runs, seconds with single threads, seconds with lanes)."""
    t = tunables(puzzle.solution_path.read_text(encoding="utf-8"))
    setups = [opened(puzzle, lanes, target) for lanes in (1, width)]
    for kernel in puzzle.kernels:
        found = []
        for case in (c for c in puzzle.cases if kernel in puzzle.kernels_of(c)):
            try:
                made = [Measuring(puzzle, kernel, case, setup, t, BenchOptions()) for setup in setups]
            except CourseError:  # a puzzle without launches
                continue
            found.append((seconds(made[0]), case.name, made))
        for once, name, made in sorted(found, key=lambda x: -x[0])[:CASES]:
            times, best = 1 + int(_LEAST / max(once, 1e-6)), [once, float("inf")]
            seconds(made[1])
            for _ in range(REPEAT):
                best = [min(known, seconds(m, times)) for known, m in zip(best, made, strict=True)]
            for p in kernel.outputs:
                alone, lanes = (m.handles[p.name].get().tobytes() for m in made)
                assert alone == lanes or p.is_input, f"{puzzle.id} {kernel.name} {name}: {p.name} differs"
            ways = " / ".join(_way(m) for m in made)
            yield kernel.name, name, ways, *best


def _way(measured: Measuring) -> str:
    info, launch = measured.function.info, measured.found
    plan = measured.function.plan(launch.grid, launch.block, measured.launch.shared_mem)
    kind = "lanes" if info.lanes > 1 else "coarsened"
    return f"{plan.coarsening} {kind}" if plan.coarsening > 1 else "1"


@click.command()
@click.option("--only", default="", help="What the puzzle's name contains.")
@click.option("--target", default="", type=click.Choice(["", "avx2"]), help="Do without AVX-512.")
@click.option("--width", default=0, help="How many lanes.")
def main(only: str, target: str, width: int) -> None:
    """Measure what lanes gain on this machine."""
    for puzzle in open_course().puzzles():
        if puzzle.program or only not in puzzle.id:
            continue
        for name, case, ways, alone, lanes in measure(puzzle, width, target):
            told = f"{puzzle.number} {name:40} {case:24} {ways:24}"
            print(f"{told} {1e3 * alone:9.3f} {1e3 * lanes:9.3f} {alone / lanes:6.2f}", flush=True)


if __name__ == "__main__":
    main()
