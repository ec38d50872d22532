"""The process that owns the CUDA context.

A kernel that faults leaves its context permanently unusable, and one that never ends blocks every thread that
waits for it. So all work on the GPU is done here, for `backwarp.devices.gpu.device` in the parent (see child.py).
After a fatal error this process has ended, and a new one starts clean.

CUDA's printf and assert write to this process's stdout and stderr, which are therefore a file. Memory comes
straight from cudaMalloc, without CuPy's pool, each array between two guard bands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy

from backwarp.devices.child import attach, serve
from backwarp.devices.launching import Limits, cut_output
from backwarp.errors import BackwarpError, DeviceError, LaunchError

from .capture import Node, Sequence
from .faults import FAULTS, error_name, fault_of
from .output import PRINTF_FIFO, Captured

GUARD = 4096  # bytes before and after each array
_BAND = numpy.full(GUARD // 4, 0xFFC5C5C5, numpy.uint32).view(numpy.uint8)  # a NaN, as float and as double
FLUSH = 256 << 20  # bytes written between timed launches, more than any L2 cache
WARM_UP = 200.0  # milliseconds of work before the first timed launch: an idle GPU has lowered its clocks


@dataclass
class _Array:
    base: int  # address of the allocation
    nbytes: int
    shape: tuple[int, ...]
    dtype: numpy.dtype
    name: str

    @property
    def pointer(self) -> int:
        return self.base + GUARD


class Context:
    """One method per request."""

    def __init__(self, output: Captured):
        self.runtime = None
        self.output = output
        self.arrays: dict[int, _Array] = {}
        self.modules: dict[int, object] = {}
        self.functions: dict[tuple[int, str], object] = {}
        self.graphs: dict[int, Sequence] = {}
        self._next = 0

    def hello(self) -> dict:
        """Starts CUDA; returns the device's name, architecture and limits."""
        try:
            from cupy.cuda import driver, runtime
            from cupy.cuda.function import Module
        except Exception as error:
            raise DeviceError(f"CuPy cannot be loaded: {_first_line(error)}. Run: backwarp doctor") from error
        self.runtime, self.driver, self.Module = runtime, driver, Module
        if runtime.getDeviceCount() < 1:
            raise DeviceError("CUDA finds no device")
        device = runtime.getDevice()
        properties = runtime.getDeviceProperties(device)
        if self.output:  # CUDA refuses it in a process that has launched a kernel with printf
            runtime.deviceSetLimit(runtime.cudaLimitPrintfFifoSize, PRINTF_FIFO)

        def attribute(name: str) -> int:
            return runtime.deviceGetAttribute(getattr(runtime, f"cudaDevAttrMax{name}"), device)

        self.limits = Limits(
            attribute("ThreadsPerBlock"),
            tuple(attribute(f"BlockDim{axis}") for axis in "XYZ"),
            tuple(attribute(f"GridDim{axis}") for axis in "XYZ"),
            attribute("SharedMemoryPerBlock"),
            attribute("SharedMemoryPerBlockOptin"),
        )
        self.multiprocessors = runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device)
        self.driver_version = runtime.driverGetVersion()
        self.capability = properties["major"], properties["minor"]
        name = properties["name"]
        return {
            "name": name.decode() if isinstance(name, bytes) else name,
            "capability": self.capability,
            "driver_version": self.driver_version,
            "limits": {f.name: getattr(self.limits, f.name) for f in fields(self.limits)},
        }

    # --- code

    def compile(self, source, name, include_dirs, name_expressions, options) -> tuple[int, object]:
        """Compiles for this GPU and loads the module; returns (module, Ptx without its machine code)."""
        from dataclasses import replace

        from backwarp.devices.nvrtc.compiler import compile_ptx

        api = self._compiler()
        arch = self._architecture(api)
        ptx = compile_ptx(source, name, "fast", include_dirs, name_expressions, arch, api, options)
        module = self.Module()
        module.load(ptx.cubin or ptx.text.encode())
        self._next += 1
        self.modules[self._next] = module
        return self._next, replace(ptx, cubin=b"")

    def _compiler(self):
        """None for the installed NVRTC 13; CUDA 12's NVRTC for a driver that cannot load 13's code."""
        if self.driver_version >= 13000:
            return None
        from backwarp.devices.nvrtc.nvrtc12 import Nvrtc12

        return Nvrtc12()

    def _architecture(self, api) -> str:
        """This GPU's own architecture, or the nearest lower one for which NVRTC generates code that runs."""
        from backwarp.devices.nvrtc.library import supported_architectures

        known = supported_architectures(api)
        major, minor = self.capability
        own = 10 * major + minor
        if own in known:
            return f"sm_{own}a" if major >= 9 else f"sm_{own}"  # "a": wgmma and TMA too
        same = [n for n in known if n // 10 == major and n < own]
        below = [n for n in known if n < own]
        if not below:
            raise DeviceError(
                f"this compiler has no code for compute capability {major}.{minor}; "
                f"it starts at {min(known) / 10}"
            )
        return f"sm_{max(same)}" if same else f"compute_{max(below)}"

    def set_constant(self, module: int, symbol: str, data: numpy.ndarray) -> None:
        pointer = self.modules[module].get_global_var(symbol)
        self.runtime.memcpy(pointer, data.ctypes.data, data.nbytes, self.runtime.memcpyHostToDevice)

    def get_global(self, module: int, symbol: str, nbytes: int) -> numpy.ndarray:
        data = numpy.empty(nbytes, numpy.uint8)
        pointer = self.modules[module].get_global_var(symbol)
        self.runtime.memcpy(data.ctypes.data, pointer, nbytes, self.runtime.memcpyDeviceToHost)
        return data

    # --- memory

    def array(self, data: numpy.ndarray, name: str) -> int:
        data = numpy.ascontiguousarray(data)
        handle = self._allocate(data.shape, data.dtype, name)
        self.set(handle, data)
        return handle

    def set(self, handle: int, data: numpy.ndarray) -> None:
        data = numpy.ascontiguousarray(data)
        if data.nbytes:
            pointer = self.arrays[handle].pointer
            self.runtime.memcpy(pointer, data.ctypes.data, data.nbytes, self.runtime.memcpyHostToDevice)

    def empty(self, shape, dtype, name: str) -> int:
        """Floats are filled with NaN (all bits set), everything else with 0x7f bytes."""
        handle = self._allocate(shape, dtype, name)
        a = self.arrays[handle]
        if a.nbytes:
            self.runtime.memset(a.pointer, 0xFF if dtype.kind in "fc" else 0x7F, a.nbytes)
        return handle

    def _allocate(self, shape, dtype, name: str) -> int:
        nbytes = math.prod(shape) * dtype.itemsize
        base = self.runtime.malloc(nbytes + 2 * GUARD)
        for address in (base, base + GUARD + nbytes):
            self.runtime.memcpy(address, _BAND.ctypes.data, GUARD, self.runtime.memcpyHostToDevice)
        self._next += 1
        self.arrays[self._next] = _Array(base, nbytes, tuple(shape), dtype, name)
        return self._next

    def get(self, handle: int) -> numpy.ndarray:
        a = self.arrays[handle]
        data = numpy.empty(a.shape, a.dtype)
        if a.nbytes:
            self.runtime.memcpy(data.ctypes.data, a.pointer, a.nbytes, self.runtime.memcpyDeviceToHost)
        return data

    def free(self, handles) -> None:
        for handle in handles:
            a = self.arrays.pop(handle, None)
            if a:
                self.runtime.free(a.base)
            elif handle in self.graphs:
                self.free(self.graphs.pop(handle).values)

    def intact(self, handle: int) -> tuple[int, int] | None:
        """None, or (flat index of the first element that was written outside the array, how many)."""
        a = self.arrays[handle]
        bands = numpy.empty((2, GUARD), numpy.uint8)
        for band, address in zip(bands, (a.base, a.pointer + a.nbytes)):
            self.runtime.memcpy(band.ctypes.data, address, GUARD, self.runtime.memcpyDeviceToHost)
        before, after = (numpy.flatnonzero(band != _BAND) for band in bands)
        size = max(a.dtype.itemsize, 1)
        bytes_hit = [*(before - GUARD), *(after + a.nbytes)]
        elements = {int(offset) // size for offset in bytes_hit}
        return (min(elements, key=lambda e: abs(e)), len(elements)) if elements else None

    # --- launches

    def launch(
        self, module: int, symbol: str, grid, block, args, shared_mem, allowed, together, guarded
    ) -> dict:
        """Runs a kernel to its end.

        args: ("array", handle), ("value", 0-d NumPy array) or ("map", (its array's handle, its fields)). allowed: the most dynamic shared memory
        that was requested, None for CUDA's default. together: all blocks wait for one another (a cooperative launch).
        guarded: check the guard bands afterwards.
        """
        values = self._values(args)
        function = self._function(module, symbol)
        self._allow_shared(function, shared_mem, allowed)
        if together:
            self._check_room(function, grid, block, shared_mem)
        self.output.take()
        try:
            function(grid, block, values, shared_mem=shared_mem, enable_cooperative_groups=together)
        except Exception as error:
            raise self._refused(error) from error
        self.runtime.deviceSynchronize()
        text, dropped = cut_output(self.output.take())
        damaged = {}
        if guarded:
            for handle in {value for kind, value in args if kind == "array"}:
                if damage := self.intact(handle):
                    damaged[handle] = damage
        return {"stdout": text, "dropped": dropped, "damaged": damaged}

    def time(
        self, module: int, symbol: str, grid, block, args, shared_mem, allowed, together, repeat: int
    ) -> list[float]:
        """Milliseconds of each of `repeat` launches, by CUDA events; L2 holds other data before each.

        Warm-up launches for WARM_UP milliseconds come first. There are no pauses: the next launch is queued
        while the GPU flushes, so Python's overhead is not timed.
        """
        values = self._values(args)
        function, runtime = self._function(module, symbol), self.runtime
        self._allow_shared(function, shared_mem, allowed)
        scratch = runtime.malloc(FLUSH)
        first, start, end = events = [runtime.eventCreate() for _ in range(3)]

        def timed() -> float:
            runtime.memsetAsync(scratch, 0, FLUSH, 0)
            runtime.eventRecord(start, 0)
            function(grid, block, values, shared_mem=shared_mem, enable_cooperative_groups=together)
            runtime.eventRecord(end, 0)
            runtime.eventSynchronize(end)
            return float(runtime.eventElapsedTime(start, end))

        runtime.eventRecord(first, 0)
        timed()
        while runtime.eventElapsedTime(first, end) < WARM_UP:
            timed()
        found = [timed() for _ in range(repeat)]
        for event in events:
            runtime.eventDestroy(event)
        runtime.free(scratch)
        return found

    def graph(self, nodes) -> int:
        """Keep launches, and copies of values into arrays or variables, for `replay`. nodes: see graph.py."""
        from cupy.cuda import Stream

        first = self._next + 1
        made = [
            self._launched(*about) if kind == "launch" else self._copied(*about) for kind, *about in nodes
        ]
        stream = Stream(non_blocking=True)
        values = range(first, self._next + 1)
        self._next += 1
        self.graphs[self._next] = Sequence(self.runtime, stream, made, values)
        return self._next

    def replay(self, number: int, changed: dict) -> tuple[str, int, list[float] | None]:
        """(output, lines dropped, the seconds of each node if known)."""
        self.output.take()
        try:
            seconds = self.graphs[number].run({i: self._values(args) for i, args in changed.items()})
        except Exception as error:
            raise self._refused(error) from error
        return *cut_output(self.output.take()), seconds

    def _launched(self, module: int, symbol: str, grid, block, args, shared_mem, allowed, together) -> Node:
        function = self._function(module, symbol)
        self._allow_shared(function, shared_mem, allowed)

        def put(stream, values) -> None:
            function(grid, block, values, shared_mem=shared_mem, enable_cooperative_groups=together)

        return Node(put, self._values(args))

    def _copied(self, to: tuple, values: tuple) -> Node:
        """A copy node; values from the host are kept on the device."""
        if values[0] == "value":
            values = "array", self.array(values[1], "values of a graph")
        source, runtime = self.arrays[values[1]], self.runtime
        target = (
            self.arrays[to[1]].pointer
            if to[0] == "array"
            else self.modules[to[1][0]].get_global_var(to[1][1])
        )
        kind = runtime.memcpyDeviceToDevice
        return Node(
            lambda stream, _: runtime.memcpyAsync(target, source.pointer, source.nbytes, kind, stream.ptr)
        )

    def _values(self, args) -> tuple:
        """A launch's arguments: addresses of arrays, and values."""
        return tuple(self._value(kind, value) for kind, value in args)

    def map_bytes(self, array: int, fields: dict) -> numpy.ndarray:
        """A tensor map, see TensorMap.fields, as a value."""
        from backwarp.devices.gpu.tensor_maps import encoded

        return numpy.asarray(encoded(self.arrays[array].pointer, fields))

    def _value(self, kind: str, value):
        if kind == "map":
            return self.map_bytes(*value)
        return numpy.array(self.arrays[value].pointer, numpy.uint64) if kind == "array" else value

    def _function(self, module: int, symbol: str):
        key = module, symbol
        if key not in self.functions:
            self.functions[key] = self.modules[module].get_function(symbol)
        return self.functions[key]

    def _allow_shared(self, function, dynamic: int, allowed: int | None) -> None:
        """Static and dynamic shared memory together get 48 KiB; more only if `allowed` requests it."""
        driver, limits = self.driver, self.limits
        static = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function.ptr)
        most = limits.shared_per_block
        if allowed is not None:
            most = min(static + allowed, limits.shared_per_block_optin)
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function.ptr, attribute, most - static)
        if static + dynamic > most:
            raise LaunchError(
                f"{static} bytes of static and {dynamic} of dynamic shared memory; a block has {most} "
                f"(up to {limits.shared_per_block_optin} where the kernel opts in)"
            )

    def _check_room(self, function, grid, block, shared_mem: int) -> None:
        """CuPy would launch a smaller grid instead of saying that this one is too large."""
        threads = math.prod(block)
        blocks = self.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, shared_mem)
        room = blocks * self.multiprocessors
        if math.prod(grid) > room:
            raise LaunchError(
                f"the whole grid waits in grid.sync(), and {math.prod(grid)} blocks of {threads} threads do "
                "not "
                f"fit on this GPU at once; {room} do",
                "cudaErrorCooperativeLaunchTooLarge",
            )

    def _refused(self, error: Exception) -> Exception:
        """Checks what CUDA says about the launch itself; a fault of an earlier kernel would be reported here
        too."""
        name = error_name(error)
        if name in FAULTS or not hasattr(error, "status"):
            return error
        reason = str(error).split(":", 1)[-1].strip()
        if name == "LaunchOutOfResources":
            reason += ": the kernel needs more registers per thread than a block of this size leaves"
        return LaunchError(f"CUDA refuses the launch: {reason}", f"cudaError{name}")

    # --- errors

    def explain(self, error: Exception) -> tuple[BackwarpError, bool]:
        """(the error to send to the parent, whether the context is lost)."""
        if isinstance(error, BackwarpError):
            return error, self.runtime is None  # without CuPy there is nothing more to do
        name = error_name(error)
        if name in FAULTS:
            return fault_of(name, str(error), self.output.take()), True
        if name == "MemoryAllocation":
            return DeviceError("this array does not fit in the GPU's memory"), False
        if hasattr(error, "status"):
            return DeviceError(f"CUDA reports an error: {_first_line(error)}"), True
        return DeviceError(f"the GPU process failed: {type(error).__name__}: {_first_line(error)}"), True


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip("= \t")]
    return lines[0] if lines else type(error).__name__


VERBS = (
    "hello compile set_constant get_global array set empty get free intact launch time graph replay".split()
)


def main() -> None:
    connection = attach()
    context = Context(Captured())
    serve(connection, {verb: getattr(context, verb) for verb in VERBS}, context.explain)


if __name__ == "__main__":
    main()
