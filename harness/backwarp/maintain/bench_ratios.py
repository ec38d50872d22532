"""The ratios that `bench_virtual --ratios` measures as users call kernels, and compares with those of an earlier run.

Each is a time relative to that of something measured in turns with it, so that machines and their load matter little; the
smaller, the better. Inputs are ordinary arrays. Kernels are compiled as after long launches, for the shape of their blocks or as
lanes; `launches` measures the first ones of a file, with nothing in the cache and with all of it.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np

from tests.samples import Launch

from ..course.checkout import open_course
from ..devices.virtual.device import VirtualGPU
from ..devices.virtual.plan import MOST_AT_ONCE, SHARES
from ..devices.virtual.run.workers import available_cores
from . import course_workloads
from .workloads import REGISTERS, TILED, Workload, product, weight_gradient

Runner = Callable[[Workload, str, int], object]  # OnVirtualGPU, with writable inputs
Found = Iterator[tuple[str, float]]
ROUNDS = 7
IDLE = 0.5  # of load: two cores are only measured below
WORSE = 1.2  # so many times an earlier ratio is a regression
PEAK_STEPS, SIZES = 200_000, (128, 256, 272, 512)
LOCALS = ("unsigned", "unsigned char", "unsigned short", "bool", "long long", "double", "__half")
_LOCAL = """
#include <cuda_fp16.h>
extern "C" __global__ void k({type}* out, int n) {{
    {type} a = threadIdx.x, b = 1, *p = &a;
    for (int k = 0; k < n; k++) *p = *p {operator} b;
    out[blockIdx.x * blockDim.x + threadIdx.x] = a;
}}
"""
_EMPTY = 'extern "C" __global__ void empty(float* out) { if (out == nullptr) out[0] = 1; }'
_WAITING = """
extern "C" __global__ void waits(float* out, int barriers) {
    for (int k = 0; k < barriers; k++) __syncthreads();
    if (out == nullptr) out[0] = 1;
}
"""
#: of launches that do nothing: threads, in blocks of BLOCK; blocks of one thread; barriers, of WAITING blocks
THREADS, BLOCK, BLOCKS, BARRIERS, WAITING = (1, 1 << 10, 1 << 20), 256, (1000, 100_000), 100, 64
MANY = 50  # short launches, timed together
MANY_CORES = 2, 4, 8, 16
WAKING = 60e-6  # seconds until a thread that sleeps goes on


def fastest(runs: dict[str, Callable[[], object]], rounds: int = 0) -> dict[str, float]:
    """Seconds of processor time of each, the best of several in turns."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds or ROUNDS):
        for name, run in runs.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


# -- what is measured ----------------------------------------------------------------------------------------


def puzzles(on: Runner, library: ctypes.CDLL | None) -> Found:
    """Full checks, of the time with memory checks."""
    known = course_workloads.WORKLOADS
    for make in (
        *known.values(),
        *(partial(course_workloads.other, *row) for row in course_workloads.OTHERS),
    ):
        work = make()
        runners = {checks: on(work, checks, 1) for checks in ("memory", "full")}
        seconds = fastest({checks: runner.run for checks, runner in runners.items()})
        yield f"{work.name}, full / memory", seconds["full"] / seconds["memory"]


def products(on: Runner, library: ctypes.CDLL | None) -> Found:
    """Memory checks, of the time of two loops in C, and of what the processor could do at most."""
    if library is None:
        return
    course = {
        name: open_course().load(name).solution_path.read_text(encoding="utf-8") for name in ("26", "27")
    }
    for n in SIZES:
        works = {"tiled": product("tiled", TILED, n, 16, (16, 16))}
        works |= {f"puzzle {name}": _square(source, n, name) for name, source in course.items()}
        if n % 128 == 0:
            works["register-tiled"] = product("register-tiled", REGISTERS, n, 128, 256)
        runs = {name: on(work, "memory", 1).run for name, work in works.items()}
        a, b = works["tiled"].job.inputs.values()
        given = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, np.empty_like(a))]
        runs |= {
            "blocked C": partial(library.matmul, *given, n),
            "i-k-j C": partial(library.product, *given, n, n, n),
            "peak": partial(library.peak, ctypes.c_long(PEAK_STEPS)),
        }
        seconds = fastest(runs, 2 * ROUNDS)
        lanes = ctypes.c_int.in_dll(library, "lanes").value
        seconds["the peak"] = seconds.pop("peak") * n**3 / (12 * lanes * PEAK_STEPS)
        for name in works:
            for other in ("blocked C", "i-k-j C", "the peak"):
                yield f"{name} product, n = {n}, time / {other}", seconds[name] / seconds[other]


def _square(source: str, n: int, puzzle: str) -> Workload:
    tile, block = (16, (16, 16)) if puzzle == "26" else (64, (8, 8))
    made = product(f"puzzle {puzzle}", source, n, tile, block)
    blocks = -(-n // tile)
    made.job.launches[:] = [Launch("matmul", (blocks, blocks), block, "a b c n n n")]
    made.include_dirs = open_course().load(puzzle).include_dirs
    return made


def locals_(on: Runner, library: ctypes.CDLL | None) -> Found:
    """Full checks of local variables of each type, of the time of 4-byte ones: by single threads and as lanes."""
    for lanes in (False, True):
        runs = {}
        for type_ in LOCALS:
            device = VirtualGPU("full", cores=1)
            module = device.compile(_LOCAL.format(type=type_, operator="^" if type_ == "bool" else "+"))
            if lanes:
                module.scout()
            module.scouted = True
            dtype = {"__half": np.float16, "bool": np.bool_, "double": np.float64, "long long": np.int64}
            out = device.empty(1024, dtype.get(type_, np.uint32 if type_ == "unsigned" else np.uint16))
            if type_ == "unsigned char":
                out = device.empty(1024, np.uint8)
            kernel = module.get_function("k")
            runs[type_] = partial(kernel, 8, 128, (out, np.int32(64)))
        seconds = fastest(runs)
        for type_ in LOCALS[1:]:
            how = "as lanes" if lanes else "by single threads"
            yield f"{type_} locals {how}, full, time / unsigned", seconds[type_] / seconds["unsigned"]


def launches(on: Runner, library: ctypes.CDLL | None) -> Found:
    """An empty launch beside a large array, of one without; the first launches of a file, of a later one."""
    for checks in ("memory", "full"):
        runs = {}
        for name, count in (("alone", 1), ("beside 64 MiB", 16 << 20)):
            device = VirtualGPU(checks, cores=1)
            module, other = device.compile(_EMPTY), device.empty(count, name="other")
            out, kernel = device.empty(8), module.get_function("empty")
            runs[name] = lambda kernel=kernel, out=out, other=other: [
                kernel(1, 32, (out,)) for _ in range(MANY)
            ]
        seconds = fastest(runs)
        yield f"an empty launch, {checks}, beside 64 MiB / alone", seconds["beside 64 MiB"] / seconds["alone"]
    yield from _first_launches("full", weight_gradient())
    yield from _first_launches("memory", product("tiled", TILED, 512, 16, (16, 16)))


def _first_launches(checks: str, work: Workload) -> Found:
    source = f"{work.source}\n// {time.time_ns()}"
    for cache in ("cold", "warm"):  # what the first one compiles beside its launches, the second one finds
        device = VirtualGPU(checks, cores=1)
        arrays = {name: device.array(x, name=name) for name, x in work.job.inputs.items()}
        arrays |= {name: device.empty(x.shape, x.dtype, name=name) for name, x in work.job.outputs.items()}
        (launch,) = work.job.launches
        given = tuple((arrays | work.job.scalars)[name] for name in launch.args.split())
        module = device.compile(source)
        kernel, taken, end = module.get_function(launch.kernel), [], time.monotonic() + 30
        while (
            len(taken) < 16
            or not (module.scouted or any(module.of_blocks.values()))
            and time.monotonic() < end
        ):
            start = time.process_time()
            kernel(launch.grid, launch.block, given)
            taken.append(time.process_time() - start)
        taken += [fastest({"later": partial(kernel, launch.grid, launch.block, given)})["later"]]
        yield f"a first launch, {checks}, {cache} cache / a later one", taken[0] / min(taken)


def growth(on: Runner, library: ctypes.CDLL | None) -> Found:
    """Launches of many threads, blocks and barriers, of the time of one thread's; and what more cores would gain, by the
    schedule of the crew."""
    for checks in ("memory", "full"):
        one, *others = _empty_launches(checks).items()
        for name, taken in others:
            yield f"a launch of {name}, {checks} / of one thread", taken / one[1]
    for name, n in (("tiled", 512), ("puzzle 27", 512), ("puzzle 27", 128)):
        source = open_course().load("27").solution_path.read_text(encoding="utf-8")
        work = product("tiled", TILED, n, 16, (16, 16)) if name == "tiled" else _square(source, n, "27")
        taken, blocks = fastest({name: on(work, "memory", 1).run})[name], np.prod(work.job.launches[0].grid)
        for count in MANY_CORES:
            ratio = on_cores(int(blocks), taken, count) / taken
            yield f"{name} product, n = {n}, {count} cores, simulated / one", ratio


@lru_cache
def _empty_launches(checks: str) -> dict[str, float]:
    """Seconds of launches that do nothing, or wait at barriers: first of one thread, then of many threads, blocks, barriers."""
    device = VirtualGPU(checks, cores=1)
    plain, waiting = device.compile(_EMPTY), device.compile(_WAITING)
    out = device.empty(8)
    for module, name in ((plain, "empty"), (waiting, "waits")):
        module.scout(block=(BLOCK, 1, 1)) if checks == "full" else module.for_blocks(name, (BLOCK, 1, 1))
    launch, wait = plain.get_function("empty"), waiting.get_function("waits")
    runs = {f"{n} threads": partial(launch, max(n // BLOCK, 1), min(n, BLOCK), (out,)) for n in THREADS}
    one = runs["1 threads"]
    runs["1 threads"] = lambda: [one() for _ in range(MANY)]
    runs |= {f"{n} blocks of one thread": partial(launch, n, 1, (out,)) for n in BLOCKS}
    for count in (0, BARRIERS):
        name = f"{WAITING} blocks of {BLOCK} threads with {count} barriers"
        runs[name] = partial(wait, WAITING, BLOCK, (out, np.int32(count)))
    found = fastest(runs)
    return found | {"1 threads": found["1 threads"] / MANY}


def costs() -> Iterator[str]:
    """What a launch costs, and what each more of its threads, blocks and barriers does."""
    for checks in ("memory", "full"):
        one, some, many, few_blocks, many_blocks, without, with_ = _empty_launches(checks).values()
        block = 1e9 * (many_blocks - few_blocks) / (BLOCKS[1] - BLOCKS[0])
        thread = 1e9 * (many - some) / (THREADS[2] - THREADS[1])
        barrier = 1e9 * (with_ - without) / (WAITING * BLOCK * BARRIERS)
        yield (
            f"{checks:6}  a launch {1e6 * one:5.1f} us   a block of one thread {block:5.0f} ns"
            f"   a thread of {BLOCK} {thread:5.2f} ns   a barrier of one of them {barrier:5.2f} ns"
        )


def on_cores(blocks: int, seconds: float, count: int) -> float:
    """The time of a launch of equal blocks, which takes this long on one core: each worker takes some blocks at a time, all but the
    first once it is awake."""
    each, at_once = seconds / blocks, max(1, min(MOST_AT_ONCE, blocks // (SHARES * count)))
    free, end = [0.0] + [WAKING] * (count - 1), 0.0
    for first in range(0, blocks, at_once):
        worker = free.index(min(free))
        free[worker] += min(at_once, blocks - first) * each
        end = max(end, free[worker])
    return end


class Refused(Exception):
    """Why something is not measured."""


def cores(on: Runner, library: ctypes.CDLL | None) -> Found:
    """Two cores, of the time of one. Errors: Refused on a machine that has one, or does something else."""
    if available_cores() < 2:
        raise Refused("there is one core")
    if (load := os.getloadavg()[0]) > IDLE:
        raise Refused(f"the machine is busy: a load of {load:.1f}, and {IDLE} is the most")
    for n in (96, 160, 256, 512):
        work = product("tiled", TILED, n - n % 16, 16, (16, 16))
        best = {1: float("inf"), 2: float("inf")}
        runners = {count: on(work, "memory", count) for count in best}
        for _ in range(4 * ROUNDS):
            for count, runner in runners.items():
                best[count] = min(best[count], runner.run()[0])
        yield f"tiled product, n = {n}, two cores / one", best[2] / best[1]


PARTS = {
    "puzzles": puzzles,
    "products": products,
    "locals": locals_,
    "launches": launches,
    "growth": growth,
    "cores": cores,
}


# -- what is said --------------------------------------------------------------------------------------------


def reasons() -> Iterator[str]:
    """Which kernels of the course do not run as lanes with full checks."""
    for puzzle in open_course().puzzles():
        if puzzle.program:
            continue
        source = puzzle.solution_path.read_text(encoding="utf-8")
        module = VirtualGPU("full", cores=1).compile(source, include_dirs=puzzle.include_dirs)
        built = module._built_again(0)
        for kernel in built.lowered.kernels.values():
            if not kernel.scouts:
                yield f"{puzzle.id} {kernel.name}: {kernel.refused}"


def worse(found: dict[str, float], before: dict[str, float]) -> list[str]:
    """A line for each ratio that has become much larger."""
    both = ((name, found[name], before[name]) for name in found if name in before)
    return [f"{name}: {new:.2f}, before {old:.2f}" for name, new, old in both if new > WORSE * old]
