"""The kernels of part 1 on PyTorch tensors, for writing operators (puzzle 40).

    from backwarp.tensors import launch
    launch("relu_forward", x, y)

A launch names a kernel and its arrays, in the order of the kernel's signature; sizes, grid and block follow from the
shapes, as in puzzle 37. The kernels are the student's where they have passed, else the solutions'. Tensors in
host memory are copied to the virtual GPU and back; CUDA tensors are used in place, on PyTorch's current
stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from .errors import LaunchMistake

if TYPE_CHECKING:
    from .course.declare import Kernel
    from .lenet.choices import Choice
    from .lenet.kernels import Kernels

FLOATS = ("float32", "float64")

#: takes (kernel, NumPy arrays, numbers) and returns what the kernel stores, by position; None: launch in this
#: process
elsewhere: Callable[[str, list, dict], Mapping[int, np.ndarray]] | None = None


def launch(kernel: str, *tensors, **numbers: float) -> None:
    """Launches a kernel of part 1; it fills the tensors that are its outputs. numbers: its float parameters, by name.

    Errors: LaunchMistake if tensors and kernel do not match; KernelFault, CompileError, CourseError, DeviceError.
    """
    for position, tensor in enumerate(tensors, 1):
        if wrong := unfit(tensor):
            raise LaunchMistake(f"{kernel}: array {position} {wrong}")
    if len(places := {t.device for t in tensors}) > 1:
        raise LaunchMistake(
            f"{kernel}: its arrays are in {' and '.join(sorted(map(str, places)))}: move them together"
        )
    if any(tensor.is_cuda for tensor in tensors):
        return _on_cuda(kernel, tensors, numbers)
    arrays = [tensor.detach().numpy() for tensor in tensors]
    stored = (elsewhere or _here())(kernel, arrays, numbers)
    for position, values in stored.items():
        arrays[position][...] = values  # a tensor and its array share their memory
    return None


def unfit(tensor) -> str:
    """Why a tensor cannot be passed to a kernel; "" if it can."""
    import torch

    kind = type(tensor)
    if not isinstance(tensor, torch.Tensor):
        return f"is a {kind.__name__}, not a tensor"
    if kind not in (torch.Tensor, torch.nn.Parameter):
        return f"is a {kind.__name__}: PyTorch only traces here. Launch inside an operator (custom_op), and call that"
    if not tensor.is_contiguous():
        strides = ", ".join(map(str, tensor.stride()))
        return f"is not stored row by row (its strides are {strides}): pass a contiguous() copy"
    return ""


# ---- on the devices --------------------------------------------------------------------------------------


class Launches:
    """Kernels of part 1 on NumPy arrays, in float32 or float64. track: called after each launch with the
    kernel's name and what it has stored."""

    def __init__(self, device, choices: Mapping[str, Choice], track: Callable = lambda *_: None):
        self.device, self.choices, self.track = device, choices, track
        self._kernels: dict[str, Kernels] = {}

    def __call__(self, kernel: str, arrays: Sequence, numbers: Mapping[str, float]) -> dict[int, np.ndarray]:
        """The arrays that the kernel stores, by position. Errors: see `launch`."""
        declared = self.choices[kernel].home.arrays if kernel in self.choices else ()
        for position, array in enumerate(arrays, 1):
            if not array.ndim or not array.size:
                raise LaunchMistake(
                    f"{kernel}: array {position} has the shape {tuple(array.shape)}: nothing to launch on"
                )
        roles = {i: (p.is_input, p.is_output) for i, p in enumerate(declared)}
        placed = [self.place(a, f"array {i + 1}", *roles.get(i, (True, False))) for i, a in enumerate(arrays)]
        self.kernels(placed).bind(kernel, tuple(placed))(numbers)
        stored = {i: self.fetch(placed[i]) for i, (_, is_output) in roles.items() if is_output}
        self.track(kernel, stored)
        return stored

    def kernels(self, placed: Sequence) -> Kernels:
        """The kernels for the type of the first floating-point array."""
        from .lenet.kernels import Kernels

        dtype = next((str(a.dtype) for a in placed if str(a.dtype) in FLOATS), "float32")
        if dtype not in self._kernels:
            choices = {role: in_type(choice, dtype) for role, choice in self.choices.items()}
            self._kernels[dtype] = Kernels(self.device, choices)
        return self._kernels[dtype]

    def place(self, array: np.ndarray, called: str, is_input: bool, is_output: bool):
        if not is_input:
            return self.device.empty(array.shape, array.dtype, name=called)
        return self.device.array(array, name=called, readonly=not is_output)

    def fetch(self, placed) -> np.ndarray:
        return placed.get()


def in_type(choice: Choice, dtype: str) -> Choice:
    """The kernel compiled for this type: with double in place of float for float64."""
    from .measure.kernel_calls import instance

    def wide(kernel: Kernel) -> Kernel:
        return replace(
            kernel,
            params=tuple(replace(p, dtype=dtype) if p.dtype == "float32" else p for p in kernel.params),
        )

    if dtype == "float32":
        return choice
    source = instance(choice.source, dtype)
    return replace(choice, source=source, home=wide(choice.home), kernel=wide(choice.kernel))


@cache
def _here() -> Launches:
    """On the virtual GPU, in this process."""
    from .devices import open_device

    return Launches(open_device("cpu", checks="memory"), chosen())


def chosen(*roles: str) -> dict[str, Choice]:
    """The student's kernels where they have passed, else the solutions'. roles: default all."""
    from .course.checkout import open_course
    from .course.progress import Progress
    from .lenet.choices import ROLES, choose

    course = open_course()
    return choose(course, Progress(course.root).all(), roles=roles or tuple(ROLES))


# ---- CUDA tensors ----------------------------------------------------------------------------------------


def _on_cuda(kernel: str, tensors: Sequence, numbers: Mapping[str, float]) -> None:
    import torch

    launches, current = on_cuda(), torch.cuda.current_stream().cuda_stream
    cupy = launches.device.cuda.cupy
    with cupy.cuda.ExternalStream(current) if current else nullcontext():
        launches(kernel, [cupy.from_dlpack(tensor.detach()) for tensor in tensors], numbers)


@cache
def on_cuda(*roles: str) -> Launches:
    """Launches on the GPU of this process. roles: of the kernels; default all."""
    return OnCuda(CudaDevice(), chosen(*roles))


class OnCuda(Launches):
    """Launches on CUDA tensors in place: kernels store directly into the tensors."""

    def place(self, array, called: str, is_input: bool, is_output: bool):
        return CudaArray(array, called)

    def fetch(self, placed: CudaArray):
        return placed.values


class CudaArray:
    """A CuPy array with the interface of a device array."""

    def __init__(self, values, name: str):
        self.values, self.name, self.shape, self.dtype = values, name, values.shape, values.dtype

    def set(self, values: np.ndarray) -> None:
        self.values.set(values)


class CudaDevice:
    """The GPU of this process, with the parts of the device interface that launches need."""

    def __init__(self):
        from .measure.kernel_calls import Cuda

        self.cuda = Cuda()

    def compile(self, source: str, name: str, include_dirs):
        module = self.cuda.compile(source, name, include_dirs)
        return SimpleNamespace(
            get_function=lambda kernel: CudaFunction(self.cuda, module.get_function(kernel), kernel)
        )


class CudaFunction:
    """A kernel on CudaArrays and numbers."""

    def __init__(self, cuda, function, name: str):
        self.cuda, self.function, self.name = cuda, function, name

    def __call__(self, grid, block, args, shared_mem: int = 0):
        args = tuple(a.values if isinstance(a, CudaArray) else a for a in args)
        self.cuda.launch(self.function, SimpleNamespace(grid=grid, block=block, shared_mem=shared_mem), args)
        return SimpleNamespace(counters={})
