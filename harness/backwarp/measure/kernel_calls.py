"""Puzzle kernels as functions on arrays: NumPy arrays on one of the course's devices, CUDA arrays in this
process.

Kernel files are written in float. The float64 instance replaces that word by `double` everywhere; the float16
instance has arrays of `__half`, while variables, and therefore sums, stay float.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import numpy as np

from ..course.checkout import Course, open_course
from ..course.declare import Array, Kernel, Puzzle
from ..course.progress import Progress
from ..cuda.text import edited, read
from ..cuda.values import tunables
from ..devices.launching import QUICK, triple
from ..errors import CompileError, DeviceError, KernelFault
from ..lenet.choices import chosen_source

DTYPES = ("float64", "float32", "float16")
LARGEST = 2**31 - 1  # elements of an array: kernels use int indices
CUDA = (2, 13)  # DLPack's numbers for CUDA memory and for managed memory


# ---- arrays --------------------------------------------------------------------------------------------


def together(**given) -> list:
    """NumPy or CuPy arrays for all arguments that are not None.

    ValueError if they differ in type, have a type that no kernel supports, or are not in the same memory.
    """
    arrays = {name: from_dlpack(name, x) for name, x in given.items() if x is not None}
    first, *_ = arrays
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise ValueError(f"{name} holds {array.dtype}; it must hold one of {', '.join(DTYPES)}")
        if array.dtype != arrays[first].dtype:
            other = arrays[first].dtype
            raise ValueError(f"{name} holds {array.dtype}, but {first} holds {other}; convert one of them")
        if library(array) is not library(arrays[first]):
            raise ValueError(f"of {name} and {first}, only one is in the GPU's memory; move the other there")
        if array.size > LARGEST:
            raise ValueError(f"{name} has {array.size:,} elements; kernels count up to {LARGEST:,}")
    return [arrays.get(name) for name in given]


def from_dlpack(name: str, x):
    """The array behind `x`, without a copy unless one is needed."""
    x = x.detach() if hasattr(x, "detach") else x  # a tensor that records gradients cannot be exported
    if not hasattr(x, "__dlpack_device__"):
        return np.asarray(x)
    if x.__dlpack_device__()[0] in CUDA:
        return cupy().from_dlpack(x)
    if isinstance(x, np.ndarray):  # nor can a read-only array
        return x
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(f"{name} cannot be used as a NumPy array: {error}") from error


def cupy():
    """The module. Errors: DeviceError if it is not installed."""
    try:
        import cupy
    except ImportError:
        raise DeviceError("arrays on the GPU need CuPy: run `backwarp doctor`") from None
    return cupy


def library(array):
    """The module of an array: numpy or cupy."""
    return cupy() if hasattr(array, "__cuda_array_interface__") else np


# ---- kernels -------------------------------------------------------------------------------------------


def instance(source: str, dtype: str) -> str:
    """The text of a kernel file for another storage type; lines keep their numbers if one is blank."""
    words = read(source).tokens
    if dtype == "float64":
        return edited(source, [(word, "double") for word in words if word.code == "float"])
    if dtype == "float16":
        pairs = [(word, after) for word, after in zip(words, words[1:]) if word.code == "float"]
        source = edited(source, [(word, "__half") for word, after in pairs if after.code == "*"])
        include = "#include <cuda_fp16.h>"
        with_include, made = re.subn(r"^$", include, source, count=1, flags=re.MULTILINE)
        return with_include if made else f"{include}\n{source}"
    return source


class KernelCalls:
    """The course's kernels, compiled when first needed. Arguments: see `backwarp.ops.Operators`."""

    def __init__(self, device="auto", mine: bool = False, course: Course | None = None):
        self.course, self.device = course or open_course(), device
        self.mine = mine or not self.course.has_solutions
        self.puzzles: dict[str, Puzzle] = {}
        self.modules: dict[tuple, tuple] = {}
        self.runners: dict[str, Host | Cuda] = {}

    def run(self, number: str, writes: str, sizes: Mapping[str, int], arrays: Mapping):
        """The array `writes`, computed by the puzzle's kernel that has it as its output.

        sizes: the dims of the puzzle. arrays: the inputs by name, with as many elements as declared.
        """
        if number not in self.puzzles:
            self.puzzles[number] = self.course.load(number)
        puzzle = self.puzzles[number]
        kernel = next(k for k in puzzle.kernels if k.outputs[0].name == writes)
        dims = {**sizes, **puzzle.dims(dict(sizes))}
        first = next(iter(arrays.values()))
        made = library(first).empty(kernel.outputs[0].shape(dims), first.dtype)
        if not made.size or not all(a.size for a in arrays.values()):  # an empty batch: no launch, no sum
            made[...] = 0
            return made
        runner = self.runner("host" if library(first) is np else "cuda")
        function, t = self.function(runner, puzzle, kernel, first.dtype.name)
        launch = kernel.launch(dict(dims), t)
        args, room = [], runner.room(kernel.outputs[0], made)
        for p in kernel.params:
            if not isinstance(p, Array):
                args.append(np.dtype(p.dtype).type(p.resolve(dims)))
            else:
                args.append(room if p.is_output else runner.place(p, arrays[p.name].reshape(p.shape(dims))))
        runner.launch(function, launch, tuple(args))
        return runner.result(room)

    def runner(self, where: str) -> Host | Cuda:
        if where not in self.runners:
            self.runners[where] = Host(self.device) if where == "host" else Cuda()
        return self.runners[where]

    def source(self, puzzle: Puzzle) -> tuple[str, str]:
        """(text, owner) of a puzzle's kernel file, as for LeNet."""
        entry = Progress(self.course.root).all().get(puzzle.id)
        text, whose, _ = chosen_source(puzzle, entry, self.mine)
        return text, whose

    def function(self, runner: Host | Cuda, puzzle: Puzzle, kernel: Kernel, dtype: str):
        """(the kernel, ready to launch; the tunables of its file)."""
        key = type(runner), puzzle.id, dtype
        if key not in self.modules:
            text, whose = self.source(puzzle)
            name = f"{puzzle.id}/{puzzle.file}"
            try:
                module = runner.compile(instance(text, dtype), name, puzzle.include_dirs)
            except CompileError as error:
                raise CompileError(f"{whose} {name}, for {dtype}: {error}", error.diagnostics) from error
            self.modules[key] = module, tunables(text)
        module, t = self.modules[key]
        return module.get_function(kernel.name), t


class Host:
    """Runs kernels on arrays of NumPy, on a device of the course."""

    def __init__(self, device):
        from ..devices import open_device

        self.device = device
        if isinstance(device, str):
            self.device = open_device(device, checks="memory")
            self.device.quick = True

    def compile(self, text: str, name: str, include_dirs):
        return self.device.compile(text, name, include_dirs)

    def place(self, p: Array, array: np.ndarray):
        return self.device.array(array, name=p.name, axes=p.letters, readonly=True)

    def room(self, p: Array, like: np.ndarray):
        return self.device.empty(like.shape, like.dtype, name=p.name, axes=p.letters)

    def launch(self, function, launch, args) -> None:
        """Launches quickly compiled code; if that takes too long, starts over with optimised code."""
        start = partial(function, launch.grid, launch.block, args, shared_mem=launch.shared_mem)
        module = getattr(function, "module", None)
        if not getattr(module, "quick", False):
            start()
            return
        limit, self.device.time_limit = self.device.time_limit, QUICK
        try:
            start()
            return
        except KernelFault as fault:
            if fault.kind != "timeout":
                raise
        finally:
            self.device.time_limit = limit
        module.optimise()
        start()

    def result(self, handle) -> np.ndarray:
        return handle.get()


class Cuda:
    """Runs kernels on this process's CUDA arrays, in place; a fault ends CUDA for the process."""

    def __init__(self):
        from ..devices.gpu import worker as gpu_worker

        self.cupy, self.context = cupy(), gpu_worker.Context(None)
        self.context.hello()

    def compile(self, text: str, name: str, include_dirs):
        return CudaModule(self.context, *self.context.compile(text, name, tuple(map(str, include_dirs)), ()))

    def place(self, p: Array, array):
        return self.cupy.ascontiguousarray(array)

    def room(self, p: Array, like):
        return like

    def launch(self, function, launch, args) -> None:
        grid, block = triple(launch.grid, "grid"), triple(launch.block, "block")
        arrays = self.cupy.ndarray
        values = [np.array(a.data.ptr, np.uint64) if isinstance(a, arrays) else np.array(a) for a in args]
        function(grid, block, tuple(values), shared_mem=launch.shared_mem)

    def result(self, handle):
        self.cupy.cuda.get_current_stream().synchronize()
        return handle


class CudaModule:
    """A module on the GPU of this process, with the interface of a device's module."""

    def __init__(self, context, handle: int, ptx):
        self.context, self.handle, self.ptx = context, handle, ptx

    def get_function(self, name: str):
        return self.context._function(self.handle, self.ptx.find(name))
