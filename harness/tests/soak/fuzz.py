"""Kernels with random changes: the virtual GPU ends them all with a result or an error that it describes.

`python -m tests.soak.fuzz [--seconds S] [--seed N] [--only NAME]` changes the samples and the course's
solutions, one mutant a seed, each tried in a process that may crash (fuzz_worker.py). It prints what was
found and ends with status 1 where that was anything but suspects. A suspect is a mutant whose optimised and
unoptimised builds are both free of faults and yet do not agree: a mistake in this project, or behaviour that
C++ leaves undefined and no check can see.
"""

from __future__ import annotations

import gc
import pickle
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from random import Random

import click
import numpy as np

from backwarp.course.checkout import open_course
from backwarp.course.inputs import make_inputs
from backwarp.cuda.values import tunables
from backwarp.devices.child import Child
from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.compile import build
from backwarp.devices.virtual.compile.recipes import RECIPES
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import BackwarpError, CompileError, DeviceError, KernelFault, Unsupported
from backwarp.grading import compile_errors, sentences
from tests.devices.virtual.launches import FLAVOURS, K
from tests.samples import SAMPLES, Job, Launch, run
from tests.soak.mutate import mutate_cuda, mutate_ptx
from tests.soak.operands import mutate as mutate_operands

LIMIT = 200  # seconds for a mutant
_CANARY = f"""{K}canary(const float* x, float* y) {{
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x] + __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
}}"""


class Wrong(Exception):
    """The device has violated a guarantee."""


@dataclass(frozen=True)
class Subject:
    """A kernel file, and what is launched of it."""

    name: str
    source: str
    job: Callable[[Random], Job]
    include_dirs: tuple = ()
    expressions: tuple[str, ...] = ()


@dataclass
class Result:
    """outcome: how it ended, in a word or two. found: what is wrong with that; suspect: what may be wrong."""

    outcome: str
    found: str = ""
    suspect: str = ""
    subject: str = ""


@cache
def subjects() -> dict[str, Subject]:
    """The samples and the solutions."""
    found = {}
    for entry in SAMPLES.values():

        def job(rng, entry=entry):
            return entry.job(rng.choice(entry.cases))

        found[entry.name] = Subject(entry.name, entry.source, job, (), entry.expressions)
    for puzzle in open_course().puzzles():
        if not puzzle.program:
            source = puzzle.solution_path.read_text(encoding="utf-8")
            found[puzzle.id] = Subject(
                puzzle.id, source, lambda rng, p=puzzle: puzzle_job(p, rng), puzzle.include_dirs
            )
    return found


def puzzle_job(puzzle, rng: Random) -> Job:
    """One of the three smallest cases of a puzzle, as a job."""

    def size(case) -> int:
        dims = puzzle.full_dims(case)
        return sum(int(np.prod(a.shape(dims))) for k in puzzle.kernels_of(case) for a in k.arrays)

    case = rng.choice(sorted(puzzle.cases, key=size)[:3])
    kernel, dims = rng.choice(puzzle.kernels_of(case)), puzzle.full_dims(case)
    launch = kernel.launch(dict(dims), tunables(puzzle.solution_path.read_text(encoding="utf-8")))
    arrays = make_inputs(puzzle, case, kernel)
    names = [p.name for p in kernel.params]
    return Job(
        [Launch(kernel.name, launch.grid, launch.block, " ".join(names), launch.shared_mem)],
        inputs={p.name: arrays[p.name] for p in kernel.arrays if p.role == "in"},
        outputs={p.name: np.zeros(p.shape(dims), p.dtype) for p in kernel.arrays if p.role == "out"},
        state={p.name: (arrays[p.name], None) for p in kernel.arrays if p.role == "inout"},
        scalars={
            p.name: np.dtype(p.dtype).type(p.resolve(dims))
            for p in kernel.params
            if p.name not in {a.name for a in kernel.arrays}
        },
    )


# -- one mutant ----------------------------------------------------------------------------------------------


@dataclass
class Bed:
    """A device with a canary on it."""

    checks: str
    device: VirtualGPU = None
    kept: object = None  # an array that no mutant is given
    values: np.ndarray = field(
        default_factory=lambda: np.random.default_rng(5).standard_normal(64).astype(np.float32)
    )

    def __post_init__(self):
        self.device = VirtualGPU(self.checks)
        self.device.time_limit, self.device.step_budget = 0.5, 1 << 22
        self.device.quick = True  # as in grading
        self.kept = self.device.array(self.values, name="kept")
        self.module = self.device.compile(_CANARY, name="canary.cu")
        self.owners = len(self.device.arena._owners)

    def check(self) -> None:
        """Raises Wrong if a launch has left anything behind."""
        gc.collect()  # a fault holds the frames that it came through, and so the arrays
        self.device.settle()
        if len(self.device.arena._owners) != self.owners:
            raise Wrong(f"{len(self.device.arena._owners) - self.owners} allocations are left behind")
        out = self.device.empty(64)
        done = self.module.get_function("canary")(1, 64, (self.kept, out))
        expected = self.values[::-1] + self.values.reshape(-1, 2)[:, ::-1].ravel()
        if (
            done.notes
            or not np.array_equal(out.get(), expected)
            or not np.array_equal(self.kept.get(), self.values)
        ):
            raise Wrong("a launch after this one is not right")


@cache
def beds() -> dict[str, Bed]:
    build.SECONDS = 15
    return {checks: Bed(checks) for checks in FLAVOURS}


class Renamed:
    """A module made from PTX, whose kernels are found by the names that they have in CUDA."""

    def __init__(self, module, ptx):
        self.module, self.ptx = module, ptx

    def get_function(self, name: str):
        return self.module.get_function(self.ptx.find(name))


def mutant(
    seed: int, only: tuple[str, ...] = (), by_operand: bool = False
) -> tuple[Subject, str, str, Random]:
    """(subject, "cuda" or the checks whose PTX is changed, the changed text, the generator of the rest).

    by_operand: only PTX, changed as in operands.py.
    """
    rng = Random(seed)
    subject = subjects()[rng.choice(sorted(only or subjects()))]
    kind = rng.choice(FLAVOURS if by_operand else ("cuda", "cuda", *FLAVOURS))
    if kind == "cuda":
        return subject, kind, mutate_cuda(subject.source, rng), rng
    change = mutate_operands if by_operand else mutate_ptx
    return subject, kind, change(original(subject, kind).text, rng), rng


@cache
def original(subject: Subject, checks: str):
    return compile_ptx(
        subject.source, "kernel.cu", RECIPES[checks].ptx, subject.include_dirs, subject.expressions
    )


def examine(seed: int, only: tuple[str, ...] = (), by_operand: bool = False) -> Result:
    """Build and run a mutant."""
    subject, kind, text, rng = mutant(seed, only, by_operand)
    try:
        result = examine_text(subject, kind, text, rng)
    except Exception:  # noqa: BLE001
        result = Result("exception", found=traceback.format_exc())
    result.subject = f"{subject.name} ({kind})"
    return result


def examine_text(subject: Subject, kind: str, text: str, rng: Random) -> Result:
    job, outcomes, results, refused = subject.job(rng), [], [], []
    for checks in FLAVOURS if kind == "cuda" else (kind,):
        bed = beds()[checks]
        try:
            if kind == "cuda":
                module = bed.device.compile(text, "kernel.cu", subject.include_dirs, subject.expressions)
            else:
                module = Renamed(bed.device.load_ptx(text, "kernel.cu"), original(subject, kind))
            for bed.device.schedule in (1,) if checks == "full" else (1, 2):
                got, notes = run(job, bed.device, module)
                results.append(got)
                outcomes.append(f"{checks}: ran" + ", noted" * bool(notes))
        except BackwarpError as error:
            outcomes.append(f"{checks}: {described(error, text)}")
            refused += [f"{checks}: {error}"] * isinstance(error, CompileError)
        finally:
            module = None
            bed.check()
    result = Result("; ".join(dict.fromkeys(outcomes)))
    if kind == "cuda" and len(refused) == 1:
        result.suspect = refused[0]
    if len(results) == 3 and disagreement(results[1], results[2]) == "":  # else it depends on the schedule
        result.suspect = disagreement(results[0], results[1])
    return result


def described(error: BackwarpError, source: str) -> str:
    """The kind of an error, if it is one that a student can read; Wrong otherwise."""
    if isinstance(error, DeviceError) or not str(error):
        raise Wrong(f"{type(error).__name__}: {error}") from error
    copy = pickle.loads(pickle.dumps(error))
    if str(copy) != str(error) or type(copy) is not type(error):
        raise Wrong(f"{error!r} does not survive a trip between processes")
    if isinstance(error, KernelFault):
        lines = sentences.fault(error, source)
        if (
            not error.headline
            or not error.explanation
            or "\n" in error.explanation
            or len(error.explanation) > 300
        ):
            raise Wrong(f"this fault is not well described: {error}")
        if len(lines) > 12:
            raise Wrong(f"{len(lines)} lines on {error}")
        return error.kind
    if isinstance(error, Unsupported) and "PTX instruction" in error.what and not error.line:
        raise Wrong(f"no line is named: {error}")
    if isinstance(error, CompileError):
        compile_errors.compile_error(error, source)
    return type(error).__name__


def disagreement(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> str:
    """The first array in which two results differ; floats may, by a thousandth of the largest value."""
    for name in a:
        x, y = a[name], b[name]
        if x.dtype.kind not in "fc":
            same = x == y
        else:
            with np.errstate(all="ignore"):
                x, y = x.astype(float), y.astype(float)
                finite = np.isfinite(x) & np.isfinite(y)
                scale = np.abs(np.where(finite, x, 0)).max(initial=0)
                same = (
                    (x == y)
                    | np.isnan(x) & np.isnan(y)
                    | finite & (np.abs(x - y) <= 1e-3 * np.abs(x) + 1e-3 * scale)
                )
        if not np.all(same):
            at = tuple(np.argwhere(~np.asarray(same))[0])
            return f"{name}{list(map(int, at))}: {a[name][at]} with full checks, {b[name][at]} optimised"
    return ""


# -- many ----------------------------------------------------------------------------------------------------


class Trials:
    """Runs mutants in a separate process, which is replaced when one kills it."""

    def __init__(self):
        self.child: Child | None = None

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_) -> None:
        if self.child:
            self.child.end()

    def result(self, seed: int, only: tuple[str, ...] = (), by_operand: bool = False) -> Result:
        self.child = self.child or Child("tests.soak.fuzz_worker")
        try:
            return self.child.ask("examine", (seed, only, by_operand), LIMIT)
        except TimeoutError:
            found = f"no end within {LIMIT} seconds"
        except (EOFError, ConnectionError):
            found = "the process has ended"
        how, self.child = self.child.end(), None
        return Result("crash", found=f"{found} ({how})")


@click.command()
@click.option("--seconds", default=300.0, help="How long.")
@click.option("--seed", default=0, help="Of the first; each has its own.")
@click.option("--only", multiple=True, help="A sample or puzzle; may be given several times.")
@click.option("--show", is_flag=True, help="Print the changed text instead.")
@click.option("--by-operand", is_flag=True, help="Change only PTX, within instructions.")
def main(seconds: float, seed: int, only: tuple[str, ...], show: bool, by_operand: bool) -> None:
    """Change kernels at random, and see that the virtual GPU survives them."""
    if show:
        click.echo(mutant(seed, only, by_operand)[2])
        return
    tally, bad, end = Counter(), 0, time.monotonic() + seconds
    with Trials() as trials:
        for s in count(seed):
            if time.monotonic() > end:
                break
            result = trials.result(s, only, by_operand)
            tally[result.outcome] += 1
            bad += bool(result.found)
            if result.found or result.suspect:
                word = "FOUND" if result.found else "suspect"
                click.echo(
                    f"{word}: seed {s}, {result.subject}: {result.outcome}: {(result.found or result.suspect).strip()}"
                )
    for outcome, n in tally.most_common():
        click.echo(f"{n:6}  {outcome}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
