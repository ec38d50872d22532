"""`backwarp export --cuda FILE`: a program for nvcc that trains LeNet on the kernels of part 1.

Its launches are the real launches of a step, with their grids, blocks and arguments: the step runs once on a
device that only records them. Everything else is in host_program.cu.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from backwarp.reference import lenet
from backwarp.reference.lenet import PARAMETERS

from ..course.checkout import Course
from ..course.declare import Puzzle
from ..course.progress import Progress
from ..devices.launching import triple
from ..errors import CourseError
from . import data
from .choices import Choice, choose
from .kernels import Kernels
from .model import INPUTS, LeNet
from .program import choose_program

BATCH, EPOCHS = 32, 10
RATE = -1.0  # placeholder for the learning rate, the only number that changes from step to step
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"][^\n]*$", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_C_TYPES = {"float32": "float", "int32": "int"}


def export(course: Course, target: Path, solutions: bool = False) -> list[Path]:
    """Writes the program, and its data beside it. Errors: CourseError, BackwarpError from a student's
    Python."""
    if target.suffix != ".cu":
        raise CourseError(f"{target}: the name of a program for nvcc ends in .cu")
    beside = target.with_suffix(".bin")
    text, values = program(course, solutions, name=target.stem), data_file()
    try:
        target.write_text(text, encoding="utf-8")
        beside.write_bytes(values)
    except OSError as error:
        raise CourseError(f"{target} cannot be written: {error.strerror or error}") from None
    return [target, beside]


def program(
    course: Course, solutions: bool = False, batch: int = BATCH, epochs: int = EPOCHS, name: str = "lenet"
) -> str:
    """The text of the program."""
    entries = Progress(course.root).all()
    choices = choose(course, entries, mine=not solutions)
    homes = {k.name: namespace(c.puzzle) for c in choices.values() for k in (c.kernel, c.then) if k}
    device = Recorder()
    with choose_program(course, entries, mine=not solutions) as chosen:
        net = LeNet(device, Kernels(device, choices), chosen.functions, lenet.initial())
        net.load(np.zeros((batch, 1, 28, 28)), np.zeros(batch))
        parts = {}
        for part, work in (
            ("FORWARD", net.forward),
            ("BACKWARD", net.backward),
            ("UPDATE", lambda: chosen.functions["update"](net, RATE)),
        ):
            device.launches.clear()
            work()
            parts[part] = "\n".join(statement(launch, homes) for launch in device.launches)
    arrays = [a for a in device.arrays.values() if a.name not in INPUTS]
    includes, kernels = files({c.puzzle.id: c for c in choices.values()}.values())
    parts |= {
        "ORIGINS": "Kernels: " + ", ".join(sorted({c.origin for c in choices.values()})) + ".",
        "NAME": name,
        "BATCH": batch,
        "EPOCHS": epochs,
        "PARAMETERS": sum(int(np.prod(shape)) for shape in PARAMETERS.values()),
        "INCLUDES": includes,
        "KERNELS": kernels,
        "FIELDS": "\n".join(f"    {a.c_type}* {a.name};  // {' x '.join(map(str, a.shape))}" for a in arrays),
        "ALLOCATE": "\n".join(f"    net.{a.name} = on_device<{a.c_type}>({a.size});" for a in arrays),
        "RELEASE": "\n".join(f"    CHECK(cudaFree(net.{a.name}));" for a in arrays),
        "SET_PARAMETERS": "\n".join(first_values(device.arrays)),
    }
    template = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda found: str(parts[found[1]]), template)


def first_values(arrays: Mapping[str, RecordedArray]) -> Iterable[str]:
    at = 0
    for name in PARAMETERS:
        size = arrays[name].size
        yield f"    CHECK(cudaMemcpy(net.{name}, values + {at}, {size} * sizeof(float), cudaMemcpyHostToDevice));"
        yield f"    CHECK(cudaMemset(net.velocity_{name}, 0, {size} * sizeof(float)));"
        at += size


def data_file() -> bytes:
    """Three ints (parameters, training images, test images), then the arrays in the order the program reads
    them; the images are in a fixed shuffled order."""
    digits, start = data.load("digits"), lenet.initial()
    order = np.random.default_rng(0).permutation(len(digits.train_labels))
    values = np.concatenate([start[name].ravel() for name in PARAMETERS])
    arrays = [
        values.astype("<f4"),
        digits.train_images[order].astype("<f4"),
        digits.train_labels[order].astype("<i4"),
        digits.test_images.astype("<f4"),
        digits.test_labels.astype("<i4"),
    ]
    header = struct.pack("<3i", values.size, len(digits.train_labels), len(digits.test_labels))
    return header + b"".join(a.tobytes() for a in arrays)


# ---- kernels ---------------------------------------------------------------------------------------------


def files(choices: Iterable[Choice]) -> tuple[str, str]:
    """(includes, kernel files): each file in its own namespace, since two may use the same name for a helper
    or a macro."""
    includes, parts = {}, []
    for choice in choices:
        text = without_own_headers(choice.source, choice.puzzle)
        includes |= dict.fromkeys(f"#include <{name}>" for _, name in _INCLUDE.findall(text))
        text = _INCLUDE.sub("", text).replace('extern "C" __global__', "__global__").strip()
        macros = "".join(f"#undef {name}\n" for name in dict.fromkeys(_DEFINE.findall(text)))
        parts.append(f"\nnamespace {namespace(choice.puzzle)} {{\n\n{text}\n\n}}  // namespace\n{macros}")
    return "\n".join(includes), "".join(parts)


def without_own_headers(text: str, puzzle: Puzzle) -> str:
    """The text with the course's own headers inlined."""

    def replaced(found: re.Match) -> str:
        paths = [folder / found[2] for folder in puzzle.include_dirs if (folder / found[2]).is_file()]
        if not paths:
            return found[0]
        own = paths[0].read_text(encoding="utf-8").replace("#pragma once", "")
        return without_own_headers(own, puzzle)

    return _INCLUDE.sub(replaced, text)


def namespace(puzzle: Puzzle) -> str:
    return f"puzzle_{puzzle.number}"


# ---- recording a step -------------------------------------------------------------------------


def statement(launch: tuple, homes: Mapping[str, str]) -> str:
    """A launch, or the clearing of an array, in CUDA C++. homes: kernel -> namespace."""
    if isinstance(launch[0], RecordedArray):
        (array,) = launch
        return (
            f"    CHECK(cudaMemsetAsync(net.{array.name}, 0, sizeof({array.c_type}) * {array.size}, stream));"
        )
    name, grid, block, shared, args = launch
    config = f"{dim3(grid)}, {dim3(block)}, {shared}, stream"
    return f"    {homes[name]}::{name}<<<{config}>>>({', '.join(map(argument, args))});\n    CHECK(cudaGetLastError());"


def dim3(sizes: int | Sequence[int]) -> str:
    return f"dim3({', '.join(map(str, triple(sizes, 'grid')))})"


def argument(value) -> str:
    if isinstance(value, RecordedArray):
        return value.name if value.name in INPUTS else f"net.{value.name}"
    if isinstance(value, np.floating):
        return "rate" if value == RATE else f"{value!s}{'f' * (value.dtype == 'float32')}"
    return str(int(value))


class RecordedArray:
    """An array without values."""

    def __init__(self, device: Recorder, shape, dtype, name: str):
        self.device, self.name, self.shape, self.dtype = device, name, tuple(shape), np.dtype(dtype)
        self.size, self.c_type = int(np.prod(self.shape)), _C_TYPES[self.dtype.name]
        device.arrays[name] = self

    def set(self, values) -> None:
        self.device.launches.append((self,))


class Recorder:
    """A device that records launches without running them."""

    def __init__(self):
        self.launches: list[tuple] = []
        self.arrays: dict[str, RecordedArray] = {}

    def array(self, values, name: str, axes: str = "", readonly: bool = False) -> RecordedArray:
        return RecordedArray(self, values.shape, values.dtype, name)

    def empty(self, shape, dtype, name: str, axes: str = "") -> RecordedArray:
        return RecordedArray(self, shape, dtype, name)

    def compile(self, source: str, name: str, include_dirs) -> SimpleNamespace:
        return SimpleNamespace(get_function=self.function)

    def function(self, name: str):
        def launch(grid, block, args, shared_mem: int = 0) -> SimpleNamespace:
            self.launches.append((name, grid, block, shared_mem, tuple(args)))
            return SimpleNamespace(counters={})

        return launch
