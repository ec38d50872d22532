"""CUDA C++ -> everything a module needs: PTX, the lowered module, machine code. From the cache or a child
process.

Templates that never end and loops unrolled a million times make a compiler eat time and memory; so NVRTC and LLVM
run in a process of their own (build_worker.py), under limits, and take nothing down with them.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from ....errors import BackwarpError, CompileError, DeviceError
from ...child import ENVIRONMENT, Child, Damaged
from ...emulated import patience
from ...nvrtc.compiler import Job, Ptx, compile_job, gather
from ...nvrtc.symbols import name_table
from ...store import Store, digest
from ..answers import CODEC
from . import runtime_code
from .modules import Built
from .recipes import RECIPES, recipe

SECONDS = 10  # processor time of one build; on a busy machine, where such a second is worth less, up to BUSY times as much
PATIENCE, BUSY = 10, 4  # PATIENCE: times as long by the clock
MEMORY = (
    900 << 20
)  # bytes that the compilers may use; after a build that took more than IDLE they are restarted
IDLE = 400 << 20
PTX = ".ptx"  # the ending of names of files that NVRTC need not compile
LONGEST = 20_000  # instructions of optimised PTX that compile in a few seconds
TOTAL = 240  # seconds of processor time of one process
_WORKER = "backwarp.devices.virtual.compile.build_worker"
_MOST = 1 << 28  # bytes of their output
_store = Store("modules")
SIDE_BY_SIDE = 2  # builds at the same time, at most
BESIDE = "build beside"  # the name of the threads that nobody waits for
_idle: list[Child] = []  # kept between builds
_turn, _ending = threading.BoundedSemaphore(SIDE_BY_SIDE), threading.Lock()
_alone, _leaving = (
    threading.Lock(),
    threading.Event(),
)  # one build beside launches at a time; none begins at the end
#: builds beside launches, by the keys of what they make: None while they run, or what came of it; the processes that they use
_beside: dict[str, Built | BackwarpError | None] = {}
_working: set[Child] = set()


def build(
    source: str,
    name: str,
    include_dirs,
    name_expressions,
    options,
    checks: str,
    arena_size: int,
    fixed=(),
    quick=False,
    tracking=False,
    lanes=0,
    target="",
    when="now",
    stepping=False,
) -> Built | None:
    """Compile a kernel file, or PTX, for the virtual GPU. fixed: see `Kernel.fixed`. quick: for
    short runs, compiled in a sixth of the time. tracking: code that tracks unset values. lanes, target,
    stepping: see `recipe`. when: "cached": only if that has been done; "beside": if not, it is, while the caller goes on. None: not yet.

    Errors: CompileError; Unsupported; DeviceError when the compilers cannot be started.
    """
    how = checks, arena_size, fixed, quick, tracking, lanes, target, stepping
    flavour = RECIPES[checks].ptx
    if name.endswith(PTX):
        job = Job(source, name, {}, "")
    else:
        job = gather(source, name, include_dirs, name_expressions, options)
    key = digest(job.key(), *map(str, how), runtime_code.own_text(), runtime_code.machine())
    if data := _store.get(key):
        with contextlib.suppress(Damaged):  # written by another version
            if isinstance(built := CODEC.loads(data), Built):
                return built
    if when == "cached":
        return None
    if when == "beside":
        return _begun(key, partial(_made, key, job, flavour, how, beside=True))
    return _made(key, job, flavour, how)


def _begun(key: str, work: Callable[[], Built]) -> Built | None:
    """What came of a build that has been begun earlier, if it has ended; else None, and it runs. Errors: its own."""

    def run() -> None:
        try:
            _beside[key] = work()
        except BackwarpError as error:
            _beside[key] = error

    if key not in _beside:
        _beside[key] = None
        threading.Thread(target=run, name=BESIDE, daemon=True).start()
    if isinstance(found := _beside[key], BackwarpError):
        raise found
    return found


def _made(key: str, job: Job, flavour: str, how: tuple, beside: bool = False) -> Built:
    if not runtime_code.is_prepared():  # meanwhile: it is needed too
        threading.Thread(target=runtime_code.code).start()
    known = given(job) or job.stored(flavour)
    built = _in_child((job, known, *how), beside)
    if not known:
        job.store(built.compiled, flavour)
    _store.put(key, CODEC.dumps(built))
    return built


def build_ahead(requests: Iterable[tuple], *how, **more) -> None:
    """Compiles several files side by side, for `build` to find them; what is wrong is left for it to say. requests: its first
    arguments."""

    from concurrent.futures import ThreadPoolExecutor

    def one(request: tuple) -> None:
        with contextlib.suppress(BackwarpError):
            build(*request, *how, **more)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(one, requests))


def given(job: Job) -> Ptx | None:
    """What is PTX already."""
    return Ptx(job.source, *name_table(job.source, {})) if job.name.endswith(PTX) else None


def build_here(job: Job, known: Ptx | None, checks: str, *how) -> Built:
    """The build itself, in this process. known: its PTX, if it has been compiled before.

    If unrolling makes the code too long, loops stay loops.
    """
    from . import pipeline  # the opcode table takes a while to load, and cached builds do not need it

    flavour = RECIPES[checks].ptx
    compiled = known or compile_job(job, flavour)
    if flavour == "fast" and not given(job):
        try:
            return build_ptx(compiled, job.name, checks, *how, longest=LONGEST)
        except pipeline.TooLong:
            compiled = compile_job(job, "short")
    return build_ptx(compiled, job.name, checks, *how)


def build_ptx(
    compiled: Ptx,
    name: str,
    checks: str,
    arena_size: int,
    fixed=(),
    quick=False,
    tracking=False,
    lanes=0,
    target="",
    stepping=False,
    longest=0,
) -> Built:
    from . import pipeline

    how = recipe(checks, quick, tracking, lanes, target, stepping), arena_size, fixed, longest
    return Built(compiled, *pipeline.compile_ptx(compiled.text, name, *how))


def with_source(error: CompileError, source: str, name: str) -> CompileError:
    """Add the text of the line to the diagnostics of a refusal."""
    lines = source.splitlines()
    error.diagnostics = tuple(
        replace(
            d, file=d.file or name, source=d.source or (lines[d.line - 1] if 0 < d.line <= len(lines) else "")
        )
        for d in error.diagnostics
    )
    return error


# -- the parent's side --------------------------------------------------------------------------------


def _in_child(request: tuple, beside: bool = False) -> Built:
    """The child's answer; the child is kept unless it had to be killed. beside: nobody waits for it."""
    with _alone if beside else contextlib.nullcontext(), _turn, contextlib.ExitStack() as done:
        if beside and _leaving.is_set():
            raise DeviceError("the process ends")
        try:
            child = _idle.pop()
        except IndexError:
            child = Child(_WORKER, environment=ENVIRONMENT, codec=CODEC, most=_MOST, memory=MEMORY)
        if beside:
            _working.add(child)
            done.callback(_working.discard, child)
        try:
            seconds = seconds_of_a_build()
            built = child.ask("build", (seconds, *request), seconds * PATIENCE)
        except BackwarpError:
            _keep(child)
            raise
        except TimeoutError:
            child.end()
            raise _too_long(seconds) from None
        except MemoryError:
            child.end()
            raise too_large() from None
        except (EOFError, OSError, Damaged):
            raise _crash(child, seconds) from None
        except BaseException:  # Ctrl-C leaves an answer unread
            child.end()
            raise
        if not isinstance(built, Built):
            raise _crash(child, seconds)
        _keep(child)
        return built


def _keep(child: Child) -> None:
    if child.used() > IDLE or child.spent() > TOTAL * patience() / 2:
        child.end()
    else:
        _idle.append(child)


def too_large() -> CompileError:
    return CompileError(
        "the compiler ran out of memory on this file: is an array or a template huge, or a loop unrolled very often?"
    )


def seconds_of_a_build() -> float:
    """Of processor time. Processes that share caches and cores slow one another down: more than one for each core, the more so."""
    try:
        busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:  # the system does not tell
        busy = 1.0
    most = SECONDS * patience() * min(max(busy, 1.0), BUSY)
    return most if most < 1 else math.ceil(most)


def _too_long(seconds: float) -> CompileError:
    return CompileError(
        f"the compiler did not finish within {seconds} seconds and was stopped: do templates or macros expand into"
        " very much, or is a loop unrolled very often?"
    )


def _crash(child: Child, seconds: float) -> CompileError | DeviceError:
    """What to report when the child has ended unexpectedly."""
    how = child.end()
    if not child.ready:  # it has not seen the file
        return DeviceError(f"the compilers cannot be started ({how})")
    if "SIGPROF" in how:
        return _too_long(seconds)
    if any(sign in how for sign in ("MemoryError", "bad_alloc", "out of memory")):
        return too_large()
    if "Error" in how and "SIG" not in how:
        return DeviceError(f"the compilers have a defect ({how}); please report it")
    return CompileError(f"the compiler crashed on this file ({how})")


@atexit.register
def end() -> None:
    """End the compilers' processes, if they run; after what they are doing, unless nobody waits for that."""
    _leaving.set()
    for child in list(_working):
        child.kill()
    with _ending, contextlib.ExitStack() as turns:
        for _ in range(SIDE_BY_SIDE):
            turns.enter_context(_turn)
        while _idle:
            _idle.pop().end()
    _leaving.clear()
