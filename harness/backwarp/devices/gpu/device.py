"""A GPU, through CuPy, with the common device interface.

All work is done in a child process (worker.py), which is killed when a kernel faults or never ends, and
restarted when next needed. Modules survive that; arrays do not.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

import numpy

from backwarp import install
from backwarp.devices.child import Child
from backwarp.devices.gpu.graph import GpuGraph
from backwarp.devices.graphs import LaunchNode, refuse_while_recording
from backwarp.devices.launching import (
    CompiledFile,
    Launch,
    Limits,
    check_arguments,
    check_shape,
    cluster_of,
    constant_bytes,
    triple,
    variable_array,
)
from backwarp.devices.nvrtc.compiler import Ptx
from backwarp.devices.nvrtc.symbols import cluster_dimensions, demangle, parameter_sizes, waits_for_grid
from backwarp.devices.tensor_map import TensorMap, tensor_map, tensor_map_im2col
from backwarp.errors import DeviceError, KernelFault, LaunchError

MINIMUM_DRIVER = 12000  # CUDA 12.0, driver 525
_START_LIMIT = 120  # seconds for CUDA to start, and for requests that launch nothing


# --- is there a GPU? -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Driver:
    """What the CUDA driver reports; version 12040 means CUDA 12.4."""

    version: int = 0
    devices: int = 0
    problem: str = ""


@lru_cache(maxsize=1)
def driver() -> Driver:
    """Asks libcuda, without CuPy. `problem` says why there is no GPU to use."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Driver(problem="no NVIDIA driver on this machine (libcuda.so.1 is not found)")
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    if version.value < MINIMUM_DRIVER:
        problem = f"the NVIDIA driver is too old (CUDA {dotted(version.value)}; 12.0 needed)"
        return Driver(version.value, problem=problem)
    code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if code or not count.value:
        reason = "no device" if code in (0, 100) else f"error {code}"
        return Driver(version.value, problem=f"an NVIDIA driver, but no GPU that it can use ({reason})")
    return Driver(version.value, count.value)


def dotted(version: int) -> str:
    """12040 -> 12.4"""
    return f"{version // 1000}.{version % 1000 // 10}"


def available() -> tuple[bool, str]:
    """(whether a GPU can be used, why or why not). CuPy is looked for, not imported."""
    found = driver()
    if found.problem:
        return False, found.problem
    if find_spec("cupy") is None:
        extra = "cuda13" if found.version >= 13000 else "cuda12"
        return False, f"a GPU, but no CuPy: {install(extra)}"
    return True, f"{found.devices} GPU with a driver for CUDA {dotted(found.version)}"


class GPU:
    """See backwarp.devices.open_device."""

    kind = "gpu"

    def __init__(self, checks: str = "full", seed: int = 0, reason: str = ""):
        self.checks, self.schedule, self.reason = checks, seed, reason
        self.time_limit = 10.0
        self.recording: GpuGraph | None = None
        self._lock = threading.RLock()
        self._process: Child | None = None
        self._generation = 0
        self._unused: deque[tuple[int, int]] = deque()  # (generation, handle) of arrays to be freed
        self._closed = False
        information = self._ask("hello")
        self.name = information["name"]
        self.capability = tuple(information["capability"])
        self.limits = Limits(**information["limits"])
        self.reason = reason or f"{self.name}, compute capability {self.capability[0]}.{self.capability[1]}"

    # --- the interface of every device

    def graph(self) -> GpuGraph:
        """See backwarp.devices.graphs."""
        return GpuGraph(self)

    def compile(
        self, source: str, name: str = "kernel.cu", include_dirs=(), name_expressions=(), options=()
    ) -> GpuModule:
        """CompileError carries the compiler's messages."""
        directories = tuple(os.fspath(d) for d in include_dirs)
        return GpuModule(self, source, name, directories, tuple(name_expressions), tuple(options))

    def array(self, data, name: str = "array", axes: str = "", readonly: bool = False) -> GpuArray:
        data = numpy.asarray(data)
        return GpuArray(self, self._ask("array", data, name), data.shape, data.dtype, name, axes, readonly)

    def empty(self, shape, dtype=numpy.float32, name: str = "array", axes: str = "") -> GpuArray:
        shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        dtype = numpy.dtype(dtype)
        return GpuArray(self, self._ask("empty", shape, dtype, name), shape, dtype, name, axes, False)

    def fetch(self, arrays: Iterable[GpuArray]) -> list[numpy.ndarray]:
        """Copies of arrays on the host."""
        return [array.get() for array in arrays]

    tensor_map, tensor_map_im2col = tensor_map, tensor_map_im2col

    def map_bytes(self, tensor: TensorMap) -> bytes:
        """See TensorMap.get."""
        return self._ask("map_bytes", tensor.array.handle, tensor.fields).tobytes()

    def bind_texture(self, array: GpuArray, fields: dict) -> int:
        """Always a DeviceError: use CuPy's own textures."""
        raise DeviceError(
            "textures and surfaces are for the virtual GPU here; on a GPU, use cupy.cuda.texture"
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    def __enter__(self) -> GPU:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None):
            self.close()

    # --- requests

    def _ask(self, request: str, *arguments, limit: float = _START_LIMIT):
        with self._lock:
            if self._closed:
                raise DeviceError("this device is closed")
            try:
                process = self._running(request)
                self._free_unused(process)
                return process.ask(request, arguments, limit)
            except TimeoutError:
                self._drop()
                if request in ("launch", "replay"):
                    raise
                raise DeviceError(f"the GPU did not answer within {limit:g} seconds") from None
            except (EOFError, ConnectionError) as error:
                raise DeviceError(f"the GPU process ended unexpectedly ({self._drop()})") from error
            except BaseException as error:
                if getattr(error, "fatal", True):  # Ctrl-C also leaves an answer unread
                    self._drop()
                raise

    def _running(self, request: str) -> Child:
        if self._process is None:
            self._process = Child("backwarp.devices.gpu.worker")
            self._generation += 1
            if request != "hello":
                self._process.ask("hello", (), _START_LIMIT)
        return self._process

    def _free_unused(self, process: Child) -> None:
        handles = []
        while self._unused:
            generation, handle = self._unused.popleft()
            if generation == self._generation:
                handles.append(handle)
        if handles:
            process.ask("free", (handles,), _START_LIMIT)

    def _drop(self) -> str:
        process, self._process = self._process, None
        return process.end() if process else ""


class GpuArray:
    """An array in the GPU's memory, between two guard bands."""

    def __init__(self, device: GPU, handle: int, shape, dtype, name, axes, readonly):
        self.device, self.shape, self.dtype = device, tuple(shape), numpy.dtype(dtype)
        self.name, self.axes, self.readonly = name, axes, readonly
        self._handle, self._generation = handle, device._generation
        weakref.finalize(self, device._unused.append, (device._generation, handle)).atexit = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def get(self) -> numpy.ndarray:
        """A NumPy copy."""
        refuse_while_recording(self.device)
        return self.device._ask("get", self.handle)

    def set(self, values) -> None:
        """Overwrites it from the host; shape and dtype stay the same."""
        if self.device.recording:
            return self.device.recording.copy(self, values)
        data = numpy.broadcast_to(numpy.asarray(values, self.dtype), self.shape)
        self.device._ask("set", self.handle, data)

    def intact(self) -> str | None:
        """None, or a sentence if something wrote before the array's start or past its end."""
        damage = self.device._ask("intact", self.handle)
        return self.damaged(*damage) if damage else None

    def damaged(self, index: int, count: int) -> str:
        """The message for `count` elements written outside the array, the first at this flat index."""
        side = "before the start" if index < 0 else "past the end"
        many = "1 element was" if count == 1 else f"{count} elements were"
        return f"{many} written {side} of {self.name}: [{index}] of {self.size} elements, counted flat"

    @property
    def handle(self) -> int:
        if self._generation != self.device._generation or self.device._process is None:
            raise DeviceError(f"{self.name} was lost when the GPU was restarted after a fault")
        return self._handle


class GpuModule(CompiledFile):
    """A compiled source. It is reloaded after the GPU process has been restarted."""

    def __init__(self, device: GPU, source: str, name: str, include_dirs, name_expressions, options=()):
        self.device = device
        self.request = (source, name, include_dirs, name_expressions, options)
        self._loaded: tuple[int, int] | None = None  # (generation, module)
        self.compiled: Ptx = None
        self.load()

    def _kernel(self, name: str) -> GpuKernel:
        return GpuKernel(self, name, self.compiled.find(name))

    def set_constant(self, name: str, values) -> None:
        """Fill a __constant__ or __device__ variable from its start (cudaMemcpyToSymbol). Errors: LaunchError."""
        if self.device.recording:
            return self.device.recording.set_constant(self, name, values)
        self.device._ask("set_constant", self.load(), *constant_bytes(self.compiled, name, values))

    def get_global(self, name: str, dtype=numpy.uint8) -> GpuVariable:
        """A __device__, __managed__ or __constant__ variable, for reading and writing. Errors:
        LaunchError."""
        return GpuVariable(self, *variable_array(self.compiled, name, dtype))

    def load(self) -> int:
        """The module's handle in the process that owns the GPU; reloaded if that has been restarted."""
        device = self.device
        with device._lock:
            current = device._process is not None and self._loaded and self._loaded[0] == device._generation
            if not current:
                module, self.compiled = device._ask("compile", *self.request)
                self._loaded = (device._generation, module)
            return self._loaded[1]


class GpuVariable:
    """A module's variable, as an array over its memory."""

    def __init__(self, module: GpuModule, symbol: str, shape: tuple[int], dtype: numpy.dtype):
        self.module, self.symbol, self.shape, self.dtype = module, symbol, shape, dtype

    def get(self) -> numpy.ndarray:
        """A NumPy copy."""
        module, nbytes = self.module, math.prod(self.shape) * self.dtype.itemsize
        return module.device._ask("get_global", module.load(), self.symbol, nbytes).view(self.dtype)

    def set(self, values) -> None:
        data = numpy.broadcast_to(numpy.asarray(values, self.dtype), self.shape)
        data = numpy.ascontiguousarray(data).view(numpy.uint8)
        self.module.device._ask("set_constant", self.module.load(), self.symbol, data)


class GpuKernel:
    """A kernel of a module; called like CuPy's RawKernel."""

    def __init__(self, module: GpuModule, name: str, symbol: str):
        self.module, self.name, self.symbol = module, name, symbol
        self.params = parameter_sizes(module.compiled.text, symbol)
        self.cooperative = waits_for_grid(module.compiled.text, symbol)
        self.cluster = cluster_dimensions(module.compiled.text, symbol)
        # As in CuPy: more than 48 KiB of shared memory must be requested by setting this.
        self.max_dynamic_shared_size_bytes: int | None = None

    def __call__(self, grid, block, args, shared_mem: int = 0, cluster=None) -> Launch:
        """Launches and waits. cluster: only what the source says. Raises KernelFault and LaunchError."""
        device = self.module.device
        if cluster is not None and cluster_of(self.name, cluster, self.cluster) != self.cluster:
            wanted = ", ".join(map(str, triple(cluster, "cluster")))
            raise LaunchError(
                f"CuPy launches clusters that the source names: write __cluster_dims__({wanted}) before {self.name}",
                "cudaErrorNotSupported",
            )
        if device.recording:
            return device.recording.add(LaunchNode(self, grid, block, args, shared_mem))
        request = self.request(grid, block, args, shared_mem)
        guarded = device.checks != "none"
        limit, start = device.time_limit, time.monotonic()
        try:
            answer = device._ask("launch", *request, guarded, limit=limit)
        except TimeoutError:
            raise KernelFault(
                "timeout",
                "the launch timed out and was terminated (cudaErrorLaunchTimeout)",
                f"{demangle(self.symbol)} ran for more than {limit:g} seconds: does a loop never end?",
                file=self.module.request[1],
                line=0,
            ) from None
        except KernelFault as fault:
            fault.file = fault.file if fault.line else self.module.request[1]
            raise
        self.seconds = time.monotonic() - start
        launch = Launch(answer["stdout"], answer["dropped"])
        self._check_guards(args, answer["damaged"], launch)
        return launch

    def time(self, grid, block, args, shared_mem: int = 0, repeat: int = 10) -> list[float]:
        """Milliseconds of each of `repeat` launches, by CUDA events, L2 flushed before each.

        The kernel has already run successfully on these arguments. Errors: KernelFault, LaunchError,
        DeviceError.
        """
        device = self.module.device
        try:
            return device._ask(
                "time", *self.request(grid, block, args, shared_mem), repeat, limit=device.time_limit
            )
        except KernelFault as fault:
            fault.file = fault.file if fault.line else self.module.request[1]
            raise

    def request(self, grid, block, args, shared_mem: int) -> tuple:
        """A launch, as it is sent to the process that owns the GPU. Errors: LaunchError."""
        device = self.module.device
        grid, block = triple(grid, "grid"), triple(block, "block")
        check_shape(grid, block, shared_mem, device.limits)
        check_arguments(self.name, self.params, tuple(args), GpuArray, device)
        packed = [_packed(a) for a in args]
        allowed = self.max_dynamic_shared_size_bytes
        launched = self.module.load(), self.symbol, grid, block, packed, int(shared_mem), allowed
        return *launched, self.cooperative

    def _check_guards(self, args, damaged: dict[int, tuple[int, int]], launch: Launch) -> None:
        faults = []
        for array in (a for a in args if isinstance(a, GpuArray) and a._handle in damaged):
            index, count = damaged[array._handle]
            faults.append(
                KernelFault(
                    "out-of-bounds",
                    f"Invalid __global__ write of size {array.dtype.itemsize} bytes",
                    array.damaged(index, count),
                    file=self.module.request[1],
                    line=0,
                    array=array.name,
                    index=str(index),
                    shape="[" + ", ".join(f"{axis}={n}" for axis, n in zip(array.axes, array.shape)) + "]"
                    if len(array.axes) == len(array.shape)
                    else str(list(array.shape)),
                )
            )
            damaged.pop(array._handle)
        if faults:
            faults[0].more, faults[0].launch = faults[1:], launch
            raise faults[0]


def _packed(argument) -> tuple[str, object]:
    """An argument, as it is sent to the process that owns the GPU."""
    if isinstance(argument, GpuArray):
        return "array", argument.handle
    if isinstance(argument, TensorMap):
        return "map", (argument.array.handle, argument.fields)
    return "value", numpy.asarray(argument)
