"""Any kernel file on a device of the course, with all checks: what `backwarp run` does.

Files written for nvcc work: host code is ignored, and headers beside the file are found. Arguments are given
as text, by the kernel's parameter names.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from . import arrays, run_arguments, run_headers, run_overflow, run_results, run_textures
from .course.checkout import read_source, require_no_link_out
from .cuda.text import read
from .devices.launching import Launch, triple
from .devices.nvrtc import host_signs
from .errors import CompileError, CourseError, KernelFault
from .grading import compile_errors
from .grading.findings import Finding
from .grading.probes import fault_values
from .run_results import Expectation

MOST_SHOWN = 1 << 20  # bytes of a __device__ variable


@dataclass(frozen=True)
class Given:
    """What a launch is given: arguments by parameter, in order, and the values of variables outside functions."""

    arguments: dict[str, object]
    constants: dict[str, np.ndarray]


@dataclass
class Run:
    """What a launch did. arrays: their values afterwards. changed: those that the launch changed. fault: what
    stopped it."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    file: str
    source: str
    device: str = ""
    seconds: float = 0.0
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    launch: Launch | None = None
    fault: KernelFault | None = None
    values: list[Finding] = field(
        default_factory=list
    )  # what is known about the values involved in the fault
    notes: list[str] = field(default_factory=list)
    counters: dict = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)  # from what was expected
    met: list[str] = field(default_factory=list)  # arrays that are as expected
    errors: list[str] = field(default_factory=list)  # why the file does not compile


@dataclass(frozen=True)
class Asked:
    """A launch as the user asks for it. kernel: "" for the file's only one, or `tile<16>`. arguments: see run_arguments.HOW."""

    file: Path
    kernel: str = ""
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (1,)
    arguments: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()  # see run_results.HOW
    macros: tuple[str, ...] = ()  # NAME or NAME=VALUE
    shared: int = 0
    cluster: tuple[int, ...] = ()  # () if the source says it
    folders: tuple[Path, ...] = ()
    seed: int = 0
    seconds: float = 60.0
    count: bool = True
    once: bool = False  # in one order of threads only


def run_file(asked: Asked, kind: str = "auto", opener=None) -> Run:
    """Run the kernel once with all checks and, if no fault is found, once more to count.

    opener: replaces devices.confined_device. Errors: CourseError for an invalid request; LaunchError,
    DeviceError.
    """
    if opener is None:
        from .devices import confined_device as opener
    require_no_link_out(asked.file)
    source = read_source(asked.file)
    shape = triple(asked.grid, "grid"), triple(asked.block, "block")
    done = Run(asked.kernel, *shape, asked.file.name, source, notes=_whole(asked.file, source))
    with tempfile.TemporaryDirectory(prefix="backwarp-") as folder:
        try:
            gathered = run_headers.gather(source, asked.file, asked.folders, Path(folder))
        except CompileError as error:
            done.errors = compile_errors.compile_error(error, source)
            return done
        source = gathered.source
        expressions = (asked.kernel,) if "<" in asked.kernel else ()
        compiled = dict(name=asked.file.name, include_dirs=(folder,), name_expressions=expressions)
        compiled["options"] = (host_signs.PARTED, *(f"-D{macro}" for macro in asked.macros))
        with opener(kind, checks="full", seed=asked.seed) as device:
            done.device, device.several_orders = device.name, not asked.once
            try:
                module = device.compile(source, **compiled)
            except CompileError as error:
                done.errors = compile_errors.compile_error(gathered.explained(error), source)
                for name, as_written in gathered.own.items():
                    done.errors = [line.replace(name, as_written) for line in done.errors]
                return done
            done.notes += [*gathered.notes, *(w.message for w in module.warnings if w.severity == "note")]
            done.kernel = asked.kernel or _only(module.functions, source, _whole(asked.file, done.source))
            wanted = run_arguments.Wanted(
                source, gathered.text, done.kernel, module.get_function(done.kernel).params
            )
            constants = run_arguments.constants(asked.constants, gathered.text, module.variables)
            made = Given(_arguments(asked, wanted, done.source), constants)
            expectations = _expectations(asked, module, made)
            _launch(asked, device, module, made, done, gathered.text, expectations)
            if done.fault:

                def again() -> Launch:
                    return _start(asked, module, made, _placed(asked, device, module, made), done)

                done.values = fault_values.behind(done.fault, source, device, done.grid, done.block, again)
            cpu = device.kind == "cpu"
        if cpu and asked.count and not done.fault:
            with opener("cpu", checks="count", seed=asked.seed) as device:
                device.quick = True
                done.counters = _count(asked, device, device.compile(source, **compiled), made, done)
        threads = math.prod((*done.grid, *done.block))
        told = any(finding.kind == "too_large" for finding in done.values)
        told = told or (done.fault and done.fault.kind == "timeout")
        if cpu and asked.count and not told and run_overflow.may_pass(source, threads, made.arguments):
            with opener("cpu", checks="memory", seed=asked.seed) as device:
                done.notes += _overflows(asked, device, source, compiled, made, done)
    return done


def record_run(asked: Asked) -> Run:
    """As run_file on the virtual GPU, with the record of the launch, or of the block that fails if that is too long. Errors: as
    run_file's."""
    from .devices import confined_device
    from .grading.recorded import ROWS  # which loads the grader

    blocks: list[int] = []

    @contextmanager
    def opener(kind: str, **how):
        with confined_device("cpu", **how) as device:
            device.keep_rows = ROWS
            if blocks:
                device.rows_first, device.rows_blocks = blocks[0], 1
            yield device

    asked = replace(asked, count=False, once=True)
    done = run_file(asked, "cpu", opener)
    record = done.launch.record if done.launch else None
    if record and record["full"] and not (done.fault and done.fault.kind == "timeout"):
        (gx, gy, _), (x, y, z) = done.grid, done.fault and done.fault.block or (0, 0, 0)
        blocks.append(x + gx * (y + gy * z))
        done = run_file(asked, "cpu", opener)
    return done


def save(done: Run, folder: Path) -> None:
    """Write each array to a file named after it. Errors: CourseError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in done.arrays.items():
            np.save(folder / f"{name}.npy", array)
    except OSError as error:
        raise CourseError(f"{folder} cannot be written: {error.strerror}") from None


def _launch(
    asked: Asked, device, module, made: Given, done: Run, text: str, expectations: Sequence[Expectation]
) -> None:
    handles = _placed(asked, device, module, made) | _variables(module, made, text)
    before = {n: h.get() for n, h in handles.items()}
    began = time.monotonic()
    try:
        done.launch = _start(asked, module, made, handles, done)
        done.notes += [str(note) for note in done.launch.notes]
    except KernelFault as fault:
        done.fault, done.launch = fault, fault.launch
    done.seconds = time.monotonic() - began
    if done.fault:
        return
    done.arrays = {n: h.get() for n, h in handles.items()}
    done.changed = {n for n, now in done.arrays.items() if now.tobytes() != before[n].tobytes()}
    written = {n: getattr(h, "written", None) for n, h in handles.items()}
    for n in done.changed:
        if isinstance(made.arguments.get(n), arrays.Empty) and written[n] is not None:
            done.notes += run_results.never_written(n, written[n])
    for expectation in expectations:
        n = expectation.name
        found = expectation.difference(made.arguments | before, done.arrays[n], written[n])
        done.differences += found
        done.met += [] if found else [n]


def _count(asked: Asked, device, module, made: Given, done: Run) -> dict:
    return _start(asked, module, made, _placed(asked, device, module, made), done).counters


def _overflows(asked: Asked, device, source: str, compiled: dict, made: Given, done: Run) -> list[str]:
    noted = run_overflow.noting(source)
    if noted is None:
        return []
    device.quick = True
    try:
        module = device.compile(noted.text, **compiled)
    except CompileError:  # what it does cannot be written as calls
        return []
    kept = module.get_global(run_overflow.NAME, np.int64)
    with contextlib.suppress(KernelFault):
        _start(asked, module, made, _placed(asked, device, module, made), done)
    return list(run_overflow.notes(noted, kept.get()))


def _expectations(asked: Asked, module, made: Given) -> list[Expectation]:
    names = [n for n, value in made.arguments.items() if isinstance(value, np.ndarray)]
    return [Expectation(text, [*names, *module.variables]) for text in asked.expected]


def _placed(asked: Asked, device, module, made: Given) -> dict:
    """Copy the arrays to the device and set everything a launch needs."""
    device.time_limit = asked.seconds
    for n, values in made.constants.items():
        module.set_constant(n, values)
    handles = {}
    for n, value in made.arguments.items():
        if isinstance(value, run_textures.Image):
            handles[n] = value.on(device)
        elif isinstance(value, run_arguments.Pointers):
            handles |= _pointers(device, n, value)
        elif isinstance(value, np.ndarray):
            handles[n] = _on(device, n, value)
    return handles


def _on(device, name: str, value: np.ndarray):
    if isinstance(value, arrays.Empty):
        return device.empty(value.shape, value.dtype, name=name)
    return device.array(value, name=name)


def _pointers(device, name: str, value: run_arguments.Pointers) -> dict:
    """The arrays that an array of pointers points to, and that array."""
    if device.kind != "cpu":
        raise CourseError(f"--arg {name}: arrays of pointers are for the virtual GPU: --device cpu")
    rows = {f"{name}[{i}]": _on(device, f"{name}[{i}]", a) for i, a in enumerate(value.of) if a is not None}
    addresses = [rows[key].pointer if (key := f"{name}[{i}]") in rows else 0 for i in range(len(value.of))]
    return rows | {name: device.array(np.array(addresses, np.uint64), name=name)}


def _variables(module, made: Given, text: str) -> dict:
    """The file's __device__ variables of a known type, as arrays."""
    found = {}
    for n, nbytes in module.variables.items():
        kind = run_arguments.declared_type(text, n) if n.isidentifier() else ""
        known = kind and n not in module.constants and n not in made.arguments and nbytes <= MOST_SHOWN
        if known and nbytes % np.dtype(kind).itemsize == 0:
            found[n] = module.get_global(n, kind)
    return found


def _start(asked: Asked, module, made: Given, handles: dict, done: Run) -> Launch:
    passed = tuple(handles.get(n, value) for n, value in made.arguments.items())
    shape = dict(shared_mem=asked.shared, cluster=asked.cluster or None)
    return module.get_function(done.kernel)(done.grid, done.block, passed, **shape)


# ---- the file ------------------------------------------------------------------------------------------


def _whole(file: Path, source: str) -> list[str]:
    """A note on a whole program."""
    main = read(source).function("main")
    return [f"This file has a main: `backwarp exec {file}` runs it."] if main else []


def _arguments(asked: Asked, wanted: run_arguments.Wanted, source: str) -> dict[str, object]:
    """Errors: CourseError."""
    if not asked.arguments and wanted.names and (whole := _whole(asked.file, source)):
        raise CourseError(f"{whole[0]} To run its kernel alone, give the arguments with --arg.")
    return wanted.arguments(asked.arguments)


def _only(kernels: tuple[str, ...], source: str, notes: Sequence[str] = ()) -> str:
    """The name of the only kernel. notes: to be read beside why there is none. Errors: CourseError."""
    rest = "".join(f"\n{note}" for note in notes)
    if len(kernels) == 1:
        return kernels[0]
    if kernels:
        raise CourseError(f"say which kernel to run: {', '.join(kernels)}{rest}")
    templates = [f"'{f.name}<{', '.join(f.templates)}>'" for f in read(source).kernels if f.templates]
    if templates:
        raise CourseError(f"say which instance of the template to run: {', '.join(templates)}{rest}")
    raise CourseError(f"the file has no kernel (a __global__ void function){rest}")
