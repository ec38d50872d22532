"""The ladder in numbers: what every rung moves and computes. `backwarp.maintain.ladder` stores it in `ladder.json`."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from importlib import metadata
from math import inf, prod
from pathlib import Path

import click

from ..course.checkout import Course
from ..course.declare import Kernel, Puzzle
from ..cuda.values import tunables
from ..devices.virtual.explain import metrics as c
from ..errors import CourseError
from . import bench, figures
from .shapes import shape_of

DATA = Path(__file__).with_name("ladder.json")
HARDWARE = Path(__file__).with_name("hardware")  # one data file per GPU, from backwarp.maintain.hardware
COMMAND = "python -m backwarp.maintain.ladder --measure"
SOFTWARE = ("numpy", "llvmlite", "nvidia-cuda-nvrtc", "cuda-bindings")
#: the counters of a launch that are stored
KEPT = """
    flops_fp32 global_load_requests global_store_requests global_load_sectors global_store_sectors
    global_atomic_sectors shared_load_wavefronts shared_store_wavefronts shared_load_conflicts
    shared_store_conflicts barriers warp_instructions thread_instructions
""".split()


@dataclass(frozen=True)
class Ladder:
    """One computation, and the puzzles that perform it. output: the array it produces. rungs: (puzzle,
    --shape)."""

    name: str
    title: str
    output: str
    rungs: tuple[tuple[str, str], ...]


_CONV2 = "N=64,C=6,H=12,W=12,K=16,R=5,S=5"
_PADDED = "N=16,C=32,H=58,W=58,K=64,R=3,S=3"  # for kernels without padding: the zeros are in the array
_PRODUCT = "M=512,N=512,K=512"
LADDERS = (
    Ladder(
        "lenet_conv2",
        "Weight gradient of LeNet's second layer, 64 images",
        "grad_weights",
        tuple((n, _CONV2) for n in ("09", "21", "22", "32")),
    ),
    Ladder(
        "layer_56",
        "Weight gradient of 16,32,56,56 -> 64, 3x3, padding 1",
        "grad_weights",
        (*((n, _PADDED) for n in ("09", "21", "22")), ("32", "N=16,C=32,H=56,W=56,K=64,R=3,S=3,pad=1")),
    ),
    Ladder(
        "product",
        "Product of two matrices of 512 x 512",
        "C",
        tuple((n, _PRODUCT) for n in ("02", "26", "27")),
    ),
)


def load(path: Path = DATA, hardware: Path = HARDWARE) -> dict:
    """The stored figures: date, command, versions, and a rung for each ladder and puzzle, with its times on
    the first GPU that has a data file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for measured in sorted(hardware.glob("*.json"))[:1]:
        times = json.loads(measured.read_text(encoding="utf-8"))["ladder"]
        by_rung = {(time["ladder"], time["puzzle"]): time for time in times if "milliseconds" in time}
        for rung in data["rungs"]:
            if found := by_rung.get((rung["ladder"], rung["puzzle"])):
                rung["gpu"] = found
    return data


def rungs_of(data: dict, ladder: str) -> list[dict]:
    return [rung for rung in data["rungs"] if rung["ladder"] == ladder]


def moved(rung: dict) -> int:
    """Bytes of global memory that the requests of a rung move, before any cache."""
    return c.global_bytes(rung["counters"])


def intensity(rung: dict) -> float:
    """FLOP of the formula per byte moved."""
    return rung["formula_flop"] / moved(rung)


# ---- measuring -----------------------------------------------------------------------------------------


def kernels_for(puzzle: Puzzle, output: str) -> tuple[Kernel, ...]:
    """The kernel that produces an output, or the two that produce it in succession."""
    for kernel in puzzle.kernels:
        made = (kernel, *puzzle.followers(kernel))
        if made[-1].outputs[0].name == output:
            return made
    return ()


def once(puzzle: Puzzle, output: str, dims: dict) -> int:
    """Bytes of all arrays except the intermediate one between two passes."""
    kernels = kernels_for(puzzle, output)
    handed = {a.name for a in kernels[0].outputs} if len(kernels) > 1 else set()
    arrays = {a.name: a for kernel in kernels for a in kernel.arrays if a.name not in handed}
    return sum(prod(a.shape(dims)) * 4 for a in arrays.values())


def counted(course: Course, ladder: Ladder, number: str, shape: str, opener=None) -> dict:
    """One rung, with every block counted."""
    puzzle = course.load(number)
    kernels = tuple(k.name for k in kernels_for(puzzle, ladder.output))
    settings = bench.BenchOptions(shape=shape, verify=False, device="cpu", budget=inf, only=kernels)
    report = bench.bench(puzzle, puzzle.solution_path, settings, opener)
    launches = report.kernels
    full = puzzle.full_dims(shape_of(puzzle, shape).case)
    rung = {
        "ladder": ladder.name,
        "puzzle": puzzle.id,
        "kernels": list(kernels),
        "shape": shape,
        "exact": True,
        "formula_flop": launches[0].flops,
        "least_bytes": once(puzzle, ladder.output, full),
        "counters": {name: sum(m.counters[name] for m in launches) for name in KEPT},
    }
    for gate in puzzle.gates:  # like puzzle 32's: 1.5 times what its tiles must move
        if (
            gate.quantity == "global_bytes"
            and callable(gate.most)
            and gate.says
            and set(gate.kernels) <= set(kernels)
        ):
            sizes = tunables(puzzle.solution_path.read_text(encoding="utf-8"))
            rung["gate_bytes"] = gate.limit(full, sizes)
            gated = [m for m in launches if m.kernel in gate.kernels]
            rung["gated_bytes"] = sum(c.global_bytes(m.counters) for m in gated)
    return rung


def timed(course: Course, ladder: Ladder, number: str, shape: str, opener=None) -> dict:
    """The time of one rung on a GPU, and the library's with TF32 off in its better layout. Errors:
    CourseError if it does not run."""
    puzzle = course.load(number)
    kernels = tuple(k.name for k in kernels_for(puzzle, ladder.output))
    settings = bench.BenchOptions(shape=shape, device="gpu", only=kernels)
    report = bench.bench(puzzle, puzzle.solution_path, settings, opener)
    if not report.kernels:
        raise CourseError(f"{puzzle.id} was not timed: {' '.join(report.verdict.lines)}")
    first = report.kernels[0]
    milliseconds = figures.chained(report, first)
    found = {
        "device": report.verdict.device,
        "date": time.strftime("%Y-%m-%d"),
        "milliseconds": milliseconds,
        "tflops": first.work / milliseconds / 1e9,
    }
    if library := figures.library_time(first.baseline, "float32"):
        found |= {"library": first.baseline["software"], "share_of_library": library / milliseconds}
    return found


def measure(course: Course, data: dict | None, only: str = "") -> dict:
    """New counts of all rungs. only: a single ladder."""
    todo = [(ladder, *rung) for ladder in LADDERS if only in ("", ladder.name) for rung in ladder.rungs]
    kept = [rung for rung in data["rungs"] if rung["ladder"] != only] if data and only else []
    for rung in kept:
        rung.pop("gpu", None)
    for ladder, number, shape in todo:
        kept.append(counted(course, ladder, number, shape))
        click.echo(f"{ladder.name} {number}: {moved(kept[-1]):,} bytes", err=True)
    order = [ladder.name for ladder in LADDERS]
    return {
        "format": 1,
        "date": time.strftime("%Y-%m-%d"),
        "command": COMMAND,
        "device": "virtual GPU",
        "versions": {name: metadata.version(name) for name in SOFTWARE},
        "rungs": sorted(kept, key=lambda rung: order.index(rung["ladder"])),
    }
