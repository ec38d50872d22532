"""CuPy's `cupy.cuda` for a device that does everything at once: streams and events are in order, and nothing waits."""

from __future__ import annotations

import time
from types import ModuleType
from typing import ClassVar

import numpy as np

from . import core, errors
from .core import MemoryPointer

CAPABILITY, CUDA = (8, 0), 13000  # what kernels are compiled for; the version that the compiler belongs to
_PROPERTIES = {
    "name": b"virtual GPU",
    "major": CAPABILITY[0],
    "minor": CAPABILITY[1],
    "warpSize": 32,
    "maxThreadsPerBlock": 1024,
}
_PROPERTIES |= {
    "maxThreadsDim": (1024, 1024, 64),
    "maxGridSize": (2**31 - 1, 65535, 65535),
    "multiProcessorCount": 108,
}
_PROPERTIES |= {
    "sharedMemPerBlock": 48 << 10,
    "sharedMemPerBlockOptin": 163 << 10,
    "sharedMemPerMultiprocessor": 164 << 10,
}
_PROPERTIES |= {
    "totalConstMem": 64 << 10,
    "regsPerBlock": 65536,
    "maxThreadsPerMultiProcessor": 2048,
    "l2CacheSize": 40 << 20,
}
_PROPERTIES |= {"clockRate": 1410000, "integrated": 0, "unifiedAddressing": 1, "cooperativeLaunch": 1}


def nothing(*args, **kwargs) -> None:
    """What needs no doing here: work is done when it is asked for."""


def always(value):
    """A function that returns the value."""
    return lambda *args, **kwargs: value


is_available, get_device_id = always(True), always(0)


class InOrder:
    """Something that can be entered, used and waited for."""

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        return None

    def use(self):
        return self

    synchronize = nothing


class Device(InOrder):
    """cupy.cuda.Device."""

    compute_capability = "".join(map(str, CAPABILITY))
    pci_bus_id = "0000:00:00.0"

    def __init__(self, device: int | None = None):
        if device:
            raise errors.CUDARuntimeError(
                "cudaErrorInvalidDevice: invalid device ordinal; the virtual GPU is device 0"
            )
        self.id = 0

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other) -> bool:
        return isinstance(other, Device)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<CUDA Device 0>"

    @property
    def mem_info(self) -> tuple[int, int]:
        return core.device().room, core.device().room

    @property
    def attributes(self) -> dict[str, int]:
        return {name[0].upper() + name[1:]: v for name, v in _PROPERTIES.items() if isinstance(v, int)}


core.ndarray.device = property(lambda self: Device())


class Stream(InOrder):
    """cupy.cuda.Stream: everything is done in the order in which it is asked for."""

    null: ClassVar[Stream]
    ptr, done = 0, True

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.non_blocking = non_blocking

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def launch_host_func(self, callback, arg) -> None:
        callback(arg)

    def add_callback(self, callback, arg) -> None:
        callback(self, 0, arg)

    wait_event = nothing


Stream.null = Stream()
ExternalStream = Stream


class Event(InOrder):
    """cupy.cuda.Event. It is reached when it is recorded."""

    ptr, done = 0, True

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.seconds: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.seconds = time.perf_counter()


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two events, of this machine."""
    if start_event.seconds is None or end_event.seconds is None:
        raise errors.CUDARuntimeError("cudaErrorInvalidResourceHandle: an event was not recorded")
    return 1e3 * (end_event.seconds - start_event.seconds)


class MemoryPool(InOrder):
    """cupy.cuda.MemoryPool: memory is freed with its last array."""

    def __init__(self, allocator=None):
        self.malloc = alloc

    def used_bytes(self) -> int:
        return sum(o.nbytes for o in core.device().arena.arrays())

    total_bytes = used_bytes

    free_bytes = n_free_blocks = get_limit = always(0)
    free_all_blocks = free_all_free = set_limit = nothing


PinnedMemoryPool = MemoryPool


def alloc(size: int) -> MemoryPointer:
    return MemoryPointer(core.allocated(np.dtype(np.uint8), int(size)))


def alloc_pinned_memory(size: int):
    """Host memory."""
    return bytearray(size)


get_current_stream = always(Stream.null)
malloc_managed = malloc_async = alloc
using_allocator = Device
set_allocator = set_pinned_memory_allocator = nothing


def properties(number: int = 0) -> dict:
    Device(number)
    return _PROPERTIES | {"totalGlobalMem": core.device().room}


_RUNTIME = {
    "CUDARuntimeError": errors.CUDARuntimeError,
    "is_hip": False,
    "getDevice": always(0),
    "getDeviceCount": always(1),
}
_RUNTIME |= {"setDevice": Device, "getDeviceProperties": properties, "memGetInfo": lambda: Device().mem_info}
_RUNTIME |= {"runtimeGetVersion": always(CUDA), "driverGetVersion": always(CUDA)}
_RUNTIME |= dict.fromkeys(
    ("deviceSynchronize", "streamSynchronize", "eventSynchronize", "profilerStart"), nothing
)
_RUNTIME |= dict.fromkeys(
    ("profilerStop", "deviceSetLimit", "deviceSetCacheConfig", "deviceEnablePeerAccess"), nothing
)


def _module(name: str, names: dict) -> ModuleType:
    made = ModuleType(f"cupy.cuda.{name}", f"The part of cupy.cuda.{name} that the virtual GPU has.")
    made.__dict__.update(names)
    return made


_MODULES = {
    "runtime": _RUNTIME,
    "driver": {"CUDADriverError": errors.CUDADriverError, "get_build_version": always(CUDA)},
    "compiler": {"CompileException": errors.CompileException},
    "memory": {"OutOfMemoryError": errors.OutOfMemoryError}
    | {n: globals()[n] for n in ("MemoryPointer", "MemoryPool", "alloc")},
    "stream": {n: globals()[n] for n in ("Stream", "Event", "get_current_stream", "get_elapsed_time")},
    "device": {
        "Device": Device,
        "get_device_id": always(0),
        "get_compute_capability": always(Device.compute_capability),
    },
    "profiler": {"start": nothing, "stop": nothing},
    "nvtx": {"RangePush": nothing, "RangePop": nothing, "Mark": nothing, "available": True},
    "nvrtc": {"getVersion": always(divmod(CUDA // 10, 100))},
}
globals().update({name: _module(name, names) for name, names in _MODULES.items()})
