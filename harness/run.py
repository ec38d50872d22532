"""Any kernel file on a device of the course, with all checks: what `backwarp run` does.

Files written for nvcc work: host code is ignored, and headers beside the file are found. Arguments are given
as text, by the kernel's parameter names.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import arrays, run_headers, run_textures
from .course.checkout import read_source, require_no_link_out
from .course.cuda_pieces import Function, Variable
from .course.cuda_text import read
from .devices.launching import Launch, triple
from .devices.nvrtc import host_code
from .errors import CompileError, CourseError, KernelFault
from .grading import compile_errors
from .grading.causes import fault_values

FILLS = ("zeros", "ones", "empty", "arange", "random")
HOW = (
    "NAME=zeros:1024, NAME=ones:3x5:float32, empty:, arange:, random:SHAPE[:DTYPE[:SEED]], NAME=file.npy, or a "
    "number: NAME=3 or NAME=3:int64"
)
MOST_BYTES = 4 << 30  # of one array
#: NumPy's types, and what C++ calls them
_CALLED = """
    f4: float
    f8: double
    f2: __half, half
    i1: char, signed char, int8_t
    ?: bool
    u1: unsigned char, uchar, uint8_t
    i2: short, short int, int16_t
    u2: unsigned short, ushort, uint16_t
    i4: int, int32_t, signed
    u4: unsigned, unsigned int, uint, uint32_t
    i8: long, long int, long long, long long int, int64_t, ptrdiff_t
    u8: unsigned long, unsigned long int, unsigned long long, unsigned long long int, ulong
    u8: uint64_t, size_t, uintptr_t
"""
_TYPES = {
    name: dtype
    for dtype, _, names in (line.strip().partition(": ") for line in _CALLED.strip().splitlines())
    for name in names.split(", ")
}
_VECTOR = re.compile(r"(float|double|int|uint|short|ushort|char|uchar|longlong|ulonglong)([1-4])")
_NUMBER = re.compile(
    r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?0[xX][0-9a-fA-F]+|true|false|nan|[-+]?inf"
)


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
    values: list[str] = field(default_factory=list)  # what is known about the values involved in the fault
    notes: list[str] = field(default_factory=list)
    counters: dict = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)  # why the file does not compile


@dataclass(frozen=True)
class Asked:
    """A launch as the user asks for it. kernel: "" for the file's only one, or `tile<16>`. arguments: see HOW."""

    file: Path
    kernel: str = ""
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (1,)
    arguments: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    macros: tuple[str, ...] = ()  # NAME or NAME=VALUE
    shared: int = 0
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
    done = Run(
        asked.kernel, triple(asked.grid, "grid"), triple(asked.block, "block"), asked.file.name, source
    )
    with tempfile.TemporaryDirectory(prefix="backwarp-") as folder:
        try:
            gathered = run_headers.gather(source, asked.file, asked.folders, Path(folder))
        except CompileError as error:
            done.errors = compile_errors.compile_error(error, source)
            return done
        source = gathered.source
        expressions = (asked.kernel,) if "<" in asked.kernel else ()
        compiled = dict(name=asked.file.name, include_dirs=(folder,), name_expressions=expressions)
        compiled["options"] = (host_code.PARTED, *(f"-D{macro}" for macro in asked.macros))
        with opener(kind, checks="full", seed=asked.seed) as device:
            done.device, device.several_orders = device.name, not asked.once
            try:
                module = device.compile(source, **compiled)
            except CompileError as error:
                done.errors = compile_errors.compile_error(gathered.explained(error), source)
                for name, as_written in gathered.own.items():
                    done.errors = [line.replace(name, as_written) for line in done.errors]
                return done
            done.notes = [*gathered.notes, *(w.message for w in module.warnings if w.severity == "note")]
            done.kernel = asked.kernel or _only(module.functions, source)
            made = _arguments(asked, source, done.kernel, module.get_function(done.kernel).params)
            _launch(asked, device, module, made, done)
            if done.fault:

                def again(noted: str) -> None:
                    module = device.compile(noted, **compiled)
                    _start(asked, module, made, _placed(asked, device, module, made), done)

                done.values = fault_values.told(done.fault, source, device, done.grid, done.block, again)
            cpu = device.kind == "cpu"
        if cpu and asked.count and not done.fault:
            with opener("cpu", checks="count", seed=asked.seed) as device:
                device.quick = True
                done.counters = _count(asked, device, device.compile(source, **compiled), made, done)
    return done


def save(done: Run, folder: Path) -> None:
    """Write each array to a file named after it. Errors: CourseError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in done.arrays.items():
            np.save(folder / f"{name}.npy", array)
    except OSError as error:
        raise CourseError(f"{folder} cannot be written: {error.strerror}") from None


def _launch(asked: Asked, device, module, made: dict, done: Run) -> None:
    handles = _placed(asked, device, module, made)
    before = {n: h.get() for n, h in handles.items()}
    began = time.monotonic()
    try:
        done.launch = _start(asked, module, made, handles, done)
        done.notes += [str(note) for note in done.launch.notes]
    except KernelFault as fault:
        done.fault, done.launch = fault, fault.launch
    done.seconds = time.monotonic() - began
    if done.fault is None:
        done.arrays = {n: h.get() for n, h in handles.items()}
        done.changed = {n for n, now in done.arrays.items() if now.tobytes() != before[n].tobytes()}


def _count(asked: Asked, device, module, made: dict, done: Run) -> dict:
    return _start(asked, module, made, _placed(asked, device, module, made), done).counters


def _placed(asked: Asked, device, module, made: dict) -> dict:
    """Copy the arrays to the device and set everything a launch needs."""
    device.time_limit = asked.seconds
    _fill_constants(asked, module)
    handles = {}
    for n, value in made.items():
        if isinstance(value, run_textures.Image):
            handles[n] = value.on(device)
        elif isinstance(value, arrays.Empty):
            handles[n] = device.empty(value.shape, value.dtype, name=n)
        elif isinstance(value, np.ndarray):
            handles[n] = device.array(value, name=n)
    return handles


def _start(asked: Asked, module, made: dict, handles: dict, done: Run) -> Launch:
    passed = tuple(handles.get(n, value) for n, value in made.items())
    return module.get_function(done.kernel)(done.grid, done.block, passed, shared_mem=asked.shared)


# ---- the file ------------------------------------------------------------------------------------------


def _only(kernels: tuple[str, ...], source: str) -> str:
    if len(kernels) == 1:
        return kernels[0]
    if kernels:
        raise CourseError(f"say which kernel to run: {', '.join(kernels)}")
    templates = [f"'{f.name}<{', '.join(f.templates)}>'" for f in read(source).kernels if f.templates]
    if templates:
        raise CourseError(f"say which instance of the template to run: {', '.join(templates)}")
    raise CourseError("the file has no kernel (a __global__ void function)")


# ---- arguments -----------------------------------------------------------------------------------------


def _arguments(asked: Asked, source: str, name: str, sizes: Sequence[int]) -> dict[str, object]:
    """Parameter -> an array or a NumPy scalar, in the kernel's order."""
    function = read(source).function(re.sub(r"<.*", "", name).split("::")[-1])
    parameters = function.parameters if function and len(function.parameters) == len(sizes) else ()
    names = [p.name or f"argument {i}" for i, p in enumerate(parameters, 1)]
    names = names or [f"argument {i}" for i in range(1, len(sizes) + 1)]
    given = _by_name(asked.arguments, names, name)
    if missing := [n for n in names if n not in given]:
        listed = ", ".join(
            p.file.text[p.outer.start : p.outer.end] if p.outer else p.name for p in parameters
        )
        raise CourseError(f"{name}({listed}) needs --arg for {', '.join(missing)}: {HOW}")
    types = _template_types(function, name)
    kinds = [_type(p, types) if parameters else "" for p in parameters or names]
    pointers = [p.pointer if parameters else None for p in parameters or names]
    wanted = [run_textures.kind_of(p.type) if parameters else "" for p in parameters or names]
    return {
        n: run_textures.image(n, given[n], image, lambda text, n=n: _value(n, text, "f4", True, 8))
        or _value(n, given[n], kind, pointer, size)
        for n, kind, pointer, size, image in zip(names, kinds, pointers, sizes, wanted, strict=True)
    }


def _by_name(texts: Sequence[str], names: Sequence[str], kernel: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            name, value = next((n for n in names if n not in given), ""), text
        if name not in names:
            raise CourseError(
                f"{kernel} has no parameter {name or value}; it has {', '.join(names) or 'none'}"
            )
        if name in given:
            raise CourseError(f"--arg {name} is given twice")
        given[name] = value
    return given


def _template_types(function: Function | None, name: str) -> dict[str, str]:
    if not function or "<" not in name:
        return {}
    values = [v.strip() for v in name[name.index("<") + 1 : name.rindex(">")].split(",")]
    return dict(zip(function.templates, values, strict=False))


def _type(parameter: Variable, templates: dict[str, str]) -> str:
    """NumPy's name of a parameter's type, or of that of its elements; "" for another type."""
    text = " ".join(w for w in re.findall(r"\w+", parameter.type) if w not in ("const", "volatile", "struct"))
    text = templates.get(text, text)
    if vector := _VECTOR.fullmatch(text):
        text = vector[1].replace("longlong", "long long").replace("ulong", "unsigned long")
    return _TYPES.get(text, "")


def _value(name: str, text: str, kind: str, pointer: bool | None, size: int):
    fill, colon, rest = text.partition(":")
    if pointer is not False and colon and fill in FILLS:
        return _filled(name, fill, rest, kind)
    if text.endswith(".npy"):
        return _loaded(name, text, pointer, size)
    if _NUMBER.fullmatch(fill) and not pointer:
        if not (kind or rest or pointer is None):
            raise CourseError(
                f"--arg {name}: its type is not known; write {fill}:float32 or the like, or a .npy file"
            )
        return _number(name, fill, _dtype(name, rest or kind).str[1:] if rest or kind else "", size)
    what = "an array" if pointer else "a number"
    raise CourseError(
        f"--arg {name}={text}: {name} is {what if pointer is not None else 'an argument'}; write {HOW}"
    )


def _filled(name: str, fill: str, rest: str, kind: str) -> np.ndarray:
    shape, _, dtype = rest.partition(":")
    dtype, _, seed = dtype.partition(":")
    if not re.fullmatch(r"[0-9]{1,20}(?:[x,][0-9]{1,20}){,31}", shape):
        raise CourseError(f"--arg {name}: {shape or 'no shape'} is not a shape, such as 1024 or 2x3x7")
    sizes = tuple(int(n) for n in re.split("[x,]", shape))
    of = _dtype(name, dtype or kind)
    if seed and not seed.isdecimal():
        raise CourseError(f"--arg {name}: {seed} is not a seed")
    if np.prod([float(n) for n in sizes]) * of.itemsize > MOST_BYTES:
        raise CourseError(f"--arg {name}: more than {MOST_BYTES >> 30} GiB")
    if fill == "empty":
        return np.broadcast_to(np.zeros((), of), sizes).view(arrays.Empty)
    if fill == "arange":
        return np.arange(np.prod(sizes, dtype=np.int64)).astype(of).reshape(sizes)
    if fill == "random":
        random = np.random.default_rng(int(seed or 0))
        if of.kind == "f":
            return random.uniform(-1, 1, sizes).astype(of)
        return random.integers(0 if of.kind in "bu" else -8, 2 if of.kind == "b" else 9, sizes).astype(of)
    return np.full(sizes, fill == "ones", of)


def _dtype(name: str, text: str) -> np.dtype:
    try:
        of = np.dtype(text or "unknown")
    except TypeError:
        of = None
    if of is None or of.kind not in "biuf":
        problem = f"{text} is not a type of numbers" if text else "the type of its elements is not known"
        raise CourseError(f"--arg {name}: {problem}; write float32, int32 or the like")
    return of


def _loaded(name: str, path: str, pointer: bool | None, size: int):
    try:
        data = arrays.read(path)
    except OSError as error:
        raise CourseError(f"--arg {name}: {path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise CourseError(f"--arg {name}: {path} is not a file of one NumPy array: {error}") from None
    if data.nbytes > MOST_BYTES:
        raise CourseError(f"--arg {name}: more than {MOST_BYTES >> 30} GiB")
    if pointer is False or pointer is None and size != 8:  # a struct, or one number, by value
        if data.nbytes != size:
            raise CourseError(f"--arg {name}: {path} has {data.nbytes} bytes; {name} has {size}")
        return np.frombuffer(data.tobytes(), np.dtype((np.void, size)))[0]
    return data


def _number(name: str, text: str, kind: str, size: int):
    whole = bool(re.fullmatch(r"[-+]?(?:[\d_]+|0[xX][0-9a-fA-F]+)", text))
    of = np.dtype(kind or (f"i{size}" if whole or size not in (2, 4, 8) else f"f{size}"))
    if of.itemsize != size:
        raise CourseError(f"--arg {name}: a parameter of {size} bytes, which {text} as {of.name} has not")
    try:
        words = {"true": 1, "false": 0}
        value = words[text] if text in words else int(text, 0) if whole else float(text)
        if of.kind in "iu" and value != int(value):
            raise ValueError
        return of.type(value if of.kind == "f" else int(value))
    except (ValueError, OverflowError):
        raise CourseError(f"--arg {name}: {text} is not a value of its type, {of.name}") from None


def _fill_constants(asked: Asked, module) -> None:
    for text in asked.constants:
        name, _, value = text.partition("=")
        if value.endswith(".npy"):
            data = _loaded(name, value, True, 0)
        elif value.partition(":")[0] in FILLS:
            data = _filled(name, *value.partition(":")[::2], kind="")
        else:
            raise CourseError(f"--constant {text}: write NAME=zeros:16:float32, or NAME=file.npy")
        module.set_constant(name, np.asarray(data))
