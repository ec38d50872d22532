"""Runs kernels in this process, for tools that inspect a process: `... launcher solution ID SPACE`, `...
launcher zoo KERNEL`.

Arrays have no padding, and outputs are left uninitialised, so that the tools see accesses outside an array
and reads of unset memory. Prints a JSON line for each launch.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from ...course.checkout import seed_of
from ...course.declare import USUAL_SHARED, Case, Kernel, Puzzle, Scalar
from ...cuda.values import tunables
from ...devices.gpu.tensor_maps import encoded
from ...devices.gpu.worker import Context
from ...devices.launching import constant_bytes, triple
from ...devices.nvrtc.compiler import compile_ptx
from ...devices.tensor_map import tensor_map, tensor_map_im2col
from ...grading.gates import chosen_case
from ...grading.runs import SMALL, Outcome, Pace, Trial, in_order
from ...measure.profile import gated_case
from .work import course, text_of

KEPT = 1024  # elements of an output to keep


@dataclass
class Job:
    """A launch. args: arrays, scalars, or the size in bytes of an uninitialised array."""

    kernel: str
    grid: object
    block: object
    args: list
    shared: int = 0
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    told: dict = field(default_factory=dict)
    outputs: dict[int, np.dtype] = field(default_factory=dict)
    maps: dict[int, Callable] = field(default_factory=dict)  # of the arrays that are passed as tensor maps


class Launcher:
    """One file on this process's GPU."""

    tensor_map, tensor_map_im2col = tensor_map, tensor_map_im2col

    def __init__(self, source: str, include_dirs=(), flavour: str = "fast"):
        self.context = Context(None)
        self.context.hello()
        self.runtime, arch = self.context.runtime, self.context._architecture(None)
        self.ptx = compile_ptx(source, "kernel.cu", flavour, include_dirs, arch=arch)
        self.module = self.context.Module()
        self.module.load(self.ptx.cubin or self.ptx.text.encode())

    def place(self, data: np.ndarray | int) -> int:
        nbytes = data if isinstance(data, int) else data.nbytes
        pointer = self.runtime.malloc(max(nbytes, 1))
        if not isinstance(data, int):
            self.copy(pointer, np.ascontiguousarray(data))
        return pointer

    def copy(self, pointer: int, data: np.ndarray) -> None:
        self.runtime.memcpy(pointer, data.ctypes.data, data.nbytes, self.runtime.memcpyHostToDevice)

    def run(self, job: Job, read: bool) -> dict:
        """read: whether to read the outputs back."""
        for name, values in job.constants.items():
            symbol, data = constant_bytes(self.ptx, name, values)
            self.copy(self.module.get_global_var(symbol), data)
        placed = [
            self.place(a) if isinstance(a, int) or isinstance(a, np.ndarray) and a.ndim else None
            for a in job.args
        ]
        values = [np.array(a) if p is None else np.array(p, np.uint64) for a, p in zip(job.args, placed)]
        for at, made in job.maps.items():
            data = job.args[at]
            own = SimpleNamespace(device=self, dtype=data.dtype, shape=data.shape, nbytes=data.nbytes)
            values[at] = encoded(placed[at], made(own).fields)
        function = self.module.get_function(self.ptx.find(job.kernel))
        self.context._allow_shared(function, job.shared, job.shared if job.shared >= USUAL_SHARED else None)
        function(triple(job.grid, "grid"), triple(job.block, "block"), tuple(values), shared_mem=job.shared)
        self.runtime.deviceSynchronize()
        found = {"kernel": job.kernel, **job.told}
        if read:
            found["outputs"] = [self.fetched(placed[at], job.args[at], d) for at, d in job.outputs.items()]
        for pointer in placed:
            if pointer is not None:
                self.runtime.free(pointer)
        return found

    def fetched(self, pointer: int, argument, dtype: np.dtype) -> dict:
        nbytes = argument if isinstance(argument, int) else argument.nbytes
        data = np.empty(nbytes // dtype.itemsize, dtype)
        self.runtime.memcpy(data.ctypes.data, pointer, nbytes, self.runtime.memcpyDeviceToHost)
        return summary(data)


def summary(data: np.ndarray) -> dict:
    """An output: the hash of its bits, and its first elements."""
    first = np.ascontiguousarray(data).reshape(-1)
    kept = base64.b64encode(first[:KEPT].tobytes()).decode()
    return {
        "sha256": hashlib.sha256(first.tobytes()).hexdigest()[:16],
        "dtype": data.dtype.name,
        "first": kept,
    }


# ---- solutions ---------------------------------------------------------------------------------------------


def solution_jobs(puzzle: Puzzle, source: str, every: bool) -> Iterator[Job]:
    """Each kernel in the case that `profile` counts; every: in all cases but the large ones."""
    seed = seed_of(source)
    puzzle = puzzle.drawn(seed)
    for kernel in puzzle.kernels:
        cases = [case for case in in_order(puzzle) if kernel in puzzle.kernels_of(case)] if every else []
        for case in cases or [chosen_case(puzzle, kernel, gated_case(puzzle, kernel))]:
            job = solution_job(puzzle, source, kernel, case, seed) if case else None
            if job and (not every or nbytes(job) <= SMALL):
                yield job


def solution_job(puzzle: Puzzle, source: str, kernel: Kernel, case: Case, seed: int) -> Job | None:
    trial = Trial(Outcome(case, kernel), Pace())
    trial.begin(puzzle, tunables(source), seed)
    if not trial.launch:
        return None
    args, outputs, maps = [], {}, {}
    for p in kernel.params:
        if isinstance(p, Scalar):
            args.append(p.typed(trial.dims))
            continue
        if p.is_output:
            outputs[len(args)] = np.dtype(p.dtype)
        if p.tiles:
            maps[len(args)] = lambda array, made=p.tiles: made(array, trial.dims)
        size = int(np.prod(p.shape(trial.dims))) * np.dtype(p.dtype).itemsize
        args.append(trial.arrays[p.name] if p.is_input else size)
    constants = {p.name: trial.arrays[p.name] for p in kernel.constants}
    launch, told = trial.launch, {"case": case.name}
    return Job(
        kernel.name, launch.grid, launch.block, args, launch.shared_mem, constants, told, outputs, maps
    )


def nbytes(job: Job) -> int:
    return sum(a if isinstance(a, int) else a.nbytes for a in job.args)


# ---- the zoo -----------------------------------------------------------------------------------------------


def zoo_job(launcher: Launcher, name: str) -> Job:
    """A kernel of the tests' zoo, with one fault."""
    from tests.devices.virtual.explain.zoo import ZOO

    case = ZOO[name]
    a, b = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    made = {
        "a": lambda: a,
        "b": lambda: b,
        "input": lambda: np.ones((2, 3, 4, 5), np.float32),
        "bytes": lambda: np.zeros(10, np.uint8),
        "d": lambda: np.zeros(5),
        "pair": lambda: np.array((3, 0, launcher.place(b)), "i4, i4, u8"),
        "pointers": lambda: np.array([launcher.place(a), launcher.place(b)], np.uint64),
        "n": lambda: np.int32(10),
        "null": lambda: np.uint64(0),
        "wild": lambda: np.uint64(0x123456789AB8),
    }
    return Job(name, case.grid, case.block, [made[arg]() for arg in case.args.split()], case.shared)


def main(what: str, name: str, how: str = "") -> None:
    """how: `each` reads the outputs of one case, `all` runs all cases."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if what == "solution":
        puzzle = course().load(name)
        source = text_of(puzzle)
        launcher = Launcher(source, puzzle.include_dirs)
        jobs = solution_jobs(puzzle, source, every=how == "all")
    else:
        from tests import KERNELS
        from tests.devices.virtual.explain.zoo import FULL, ZOO

        flavour = "debug" if ZOO[name].flavours == FULL else "fast"
        launcher = Launcher((KERNELS / "zoo.cu").read_text(), flavour=flavour)
        jobs = iter([zoo_job(launcher, name)])
    for job in jobs:
        try:
            print(json.dumps(launcher.run(job, read=how == "each")), flush=True)
        except Exception as error:
            print(json.dumps({"kernel": job.kernel, **job.told, "error": str(error)[:200]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
