"""`backwarp exec`: a whole program compiled, run and watched."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import run_headers
from ..course.checkout import read_source, require_no_link_out
from ..devices.nvrtc import host_signs
from ..devices.virtual.confined import ConfinedGPU
from ..devices.virtual.confined_process import Process
from ..devices.virtual.run.arena import arena_sizes
from ..errors import CompileError, CourseError, DeviceError
from ..streams.order import HOST, Operation
from . import compiler
from .lines import Lines, Place
from .mistakes import Mistake
from .model import Model
from .process import Ended, HostProcess, flush
from .session import Session
from .verbs import VERBS

MOST_DRAWN = 1 << 14
FULL_AT_FIRST = "auto"
FULL_SECONDS = 2.0
MISTAKEN = 3  # exit status where a mistake was named
TIMED_OUT = 124
COMPILING = {VERBS.index(name) for name in ("HELLO", "MODULE", "RTC")}
_UNNAMED = "(anonymous namespace)"


@dataclass(frozen=True)
class Asked:
    """A program as the user asks for it. checks: FULL_AT_FIRST, or always the same. seconds: for all of it, once compiled;
    launch_seconds: for each launch; full_seconds: of full checks, for each kernel, where it has them at first. writable: folders."""

    file: Path
    arguments: tuple[str, ...] = ()
    checks: str = FULL_AT_FIRST
    seconds: float = 60.0
    launch_seconds: float = 20.0
    full_seconds: float = FULL_SECONDS
    writable: tuple[Path, ...] = ()
    macros: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    guard: bool = False
    model: Model | None = None  # of a timeline: kernels are counted, not checked for races and unset values

    @property
    def kept_checks(self) -> str:
        return "count" if self.model else "full" if self.checks == FULL_AT_FIRST else self.checks


@dataclass
class Outcome:
    """What became of it. status: the program's. ended: why it was ended, if it was. error: why it does not compile."""

    file: str
    texts: dict[str, str] = field(default_factory=dict)
    status: int = 0
    ended: str = ""
    mistakes: list[Mistake] = field(default_factory=list)
    error: CompileError | None = None
    lines: Lines | None = None
    launches: int = 0
    seconds: float = 0.0
    spared: dict[str, tuple[int, int]] = field(default_factory=dict)  # see Kernels
    operations: list[Operation] = field(default_factory=list)  # of a timeline

    @property
    def exit_status(self) -> int:
        if self.error:
            return 2
        return MISTAKEN if any(not m.is_note for m in self.mistakes) else self.status

    def places(self, frames: Sequence[int]) -> list[Place]:
        return self.lines.places(frames) if self.lines else []


def run_program(
    asked: Asked, tell: Callable[[str], None] = lambda _: None, output: tuple[int, int] = (1, 2)
) -> Outcome:
    """Compile and run. output: where what it prints goes. Errors: CourseError, DeviceError."""
    require_no_link_out(asked.file)
    source = read_source(asked.file)
    done = Outcome(asked.file.name, {asked.file.name: source})
    for folder in asked.writable:
        if not folder.is_dir():
            raise CourseError(f"{folder} is no folder")
    with tempfile.TemporaryDirectory(prefix="backwarp-") as folder:
        try:
            gathered = run_headers.gather(source, asked.file, asked.folders, Path(folder, "device"))
            done.texts = gathered.host
            program = compiler.build(gathered.host, asked.file.name, asked.macros, tell)
            done.lines = Lines(program, gathered.host)
            with _device(asked) as (device, shared, bytes_):
                _run(asked, device, shared, bytes_, gathered, program, Path(folder), done, tell, output)
        except CompileError as error:
            done.error = error
    return done


@contextmanager
def _device(asked: Asked):
    """The virtual GPU, and the open file that is its memory, with its size."""
    size = arena_sizes(asked.kept_checks)[0]
    shared = os.memfd_create("backwarp", os.MFD_CLOEXEC)
    process = Process(shared)
    try:
        os.ftruncate(shared, size)
        with ConfinedGPU(asked.kept_checks, process=process) as device:
            device.quick, device.time_limit = True, asked.launch_seconds
            if asked.checks == FULL_AT_FIRST:
                device.full_seconds = asked.full_seconds
            yield device, (shared, size), np.frombuffer(mmap.mmap(shared, size), np.uint8)
    except OSError as error:
        raise DeviceError(f"the device's memory cannot be shared ({error})") from None
    finally:
        process.end()
        os.close(shared)


def _run(
    asked: Asked, device, shared, bytes_, gathered, program: bytes, folder: Path, done: Outcome, tell, output
) -> None:
    def compile_(kernels: Sequence[str]):
        expressions = tuple(dict.fromkeys(filter(None, map(expression, kernels))))
        options = host_signs.PARTED, *(f"-D{macro}" for macro in asked.macros)
        how = dict(name=asked.file.name, include_dirs=(str(folder / "device"),), name_expressions=expressions)
        try:
            return device.compile(gathered.source, **how, options=options)
        except CompileError as error:
            raise gathered.explained(error) from None

    def line(frames: Sequence[int]) -> str:
        place = done.lines.place(frames)
        lines = done.texts[place.file].split("\n") if place else []
        return lines[place.line - 1][max(place.column - 1, 0) :] if place and place.line <= len(lines) else ""

    executable = folder / "program" / asked.file.stem  # what the program says it is called
    executable.parent.mkdir()
    executable.write_bytes(program)
    executable.chmod(0o700)
    session = Session(device, bytes_, compile_, line, "\n".join(done.texts.values()), asked.model or Model())
    session.modules.texts = done.texts
    session.streams.keep = MOST_DRAWN if asked.model else session.streams.keep
    tell("")
    flush()
    process = HostProcess(
        executable, asked.arguments, shared, asked.seconds, asked.writable, asked.guard, output
    )
    try:
        while True:
            verb, *request = process.receive()
            began = time.monotonic()
            answer = session.answer(verb, *request)
            if verb in COMPILING:
                process.more_time(time.monotonic() - began)
            process.reply(*answer)
    except Ended as end:
        done.ended = end.why
    except BaseException:
        process.kill()
        raise
    finally:
        if done.ended:
            process.kill()
        done.status = process.finish()
        done.mistakes = session.mistakes
        if asked.model:
            session.streams.order.end()
            found = session.streams.past or session.streams.order.operations
            done.operations = [o for o in found if o.engine != HOST]
        done.launches, done.seconds = session.kernels.launches, session.kernels.seconds
        done.spared = session.kernels.spared
        if process.flooded:
            done.ended = "flood"
    if done.ended == "time":
        done.status = TIMED_OUT


def expression(demangled: str) -> str:
    """A template's instance as NVRTC is asked for it: `void tile<16>(float*)` -> tile<16>; "" for what is no template, or cannot be
    written."""
    depth, end = 0, len(demangled)
    for i, character in enumerate(demangled):
        depth += (character == "<") - (character == ">" and demangled[i - 1] != "-")
        if character == "(" and not depth and not demangled.startswith(_UNNAMED, i):
            end = i
            break
    name = demangled[:end].removeprefix("void ").replace(_UNNAMED + "::", "")
    return name if name.endswith(">") and "lambda" not in name and "{" not in name else ""
