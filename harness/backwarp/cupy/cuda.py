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
    "maxThreadsDim": (1024, 1024, 64),
    "maxGridSize": (2**31 - 1, 65535, 65535),
    "sharedMemPerBlock": 48 << 10,
    "sharedMemPerBlockOptin": 163 << 10,
    "sharedMemPerMultiprocessor": 164 << 10,
    "totalConstMem": 64 << 10,
    "regsPerBlock": 65536,
    "multiProcessorCount": 108,
    "maxThreadsPerMultiProcessor": 2048,
    "l2CacheSize": 40 << 20,
    "clockRate": 1410000,
    "integrated": 0,
    "unifiedAddressing": 1,
    "cooperativeLaunch": 1,
}


def is_available() -> bool:
    return True


def nothing(*args, **kwargs) -> None:
    """What needs no doing here: work is done when it is asked for."""


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

    def free_bytes(self) -> int:
        return 0

    def n_free_blocks(self) -> int:
        return 0

    def get_limit(self) -> int:
        return 0

    free_all_blocks = free_all_free = set_limit = nothing


PinnedMemoryPool = MemoryPool


def alloc(size: int) -> MemoryPointer:
    return MemoryPointer(core.allocated(np.dtype(np.uint8), int(size)))


def alloc_pinned_memory(size: int):
    """Host memory."""
    return bytearray(size)


def get_current_stream() -> Stream:
    return Stream.null


def get_device_id() -> int:
    return 0


malloc_managed = malloc_async = alloc
using_allocator = Device
set_allocator = set_pinned_memory_allocator = nothing


def _runtime() -> dict:
    """cupy.cuda.runtime: what programs ask before they launch, and what they wait for after."""

    def set_device(number: int) -> None:
        Device(number)

    def properties(number: int) -> dict:
        Device(number)
        return _PROPERTIES | {"totalGlobalMem": core.device().room}

    return {
        "CUDARuntimeError": errors.CUDARuntimeError,
        "is_hip": False,
        "getDevice": get_device_id,
        "setDevice": set_device,
        "getDeviceCount": lambda: 1,
        "getDeviceProperties": properties,
        "memGetInfo": lambda: Device(0).mem_info,
        "runtimeGetVersion": lambda: CUDA,
        "driverGetVersion": lambda: CUDA,
        **dict.fromkeys(
            ("deviceSynchronize", "streamSynchronize", "eventSynchronize", "profilerStart"), nothing
        ),
        **dict.fromkeys(
            ("profilerStop", "deviceSetLimit", "deviceSetCacheConfig", "deviceEnablePeerAccess"), nothing
        ),
    }


def _module(name: str, names: dict) -> ModuleType:
    made = ModuleType(f"cupy.cuda.{name}", f"The part of cupy.cuda.{name} that the virtual GPU has.")
    made.__dict__.update(names)
    return made


_MODULES = {
    "runtime": _runtime(),
    "driver": {"CUDADriverError": errors.CUDADriverError, "get_build_version": lambda: CUDA},
    "compiler": {"CompileException": errors.CompileException},
    "memory": {
        "OutOfMemoryError": errors.OutOfMemoryError,
        "MemoryPointer": MemoryPointer,
        "MemoryPool": MemoryPool,
        "alloc": alloc,
    },
    "stream": {
        "Stream": Stream,
        "Event": Event,
        "get_current_stream": get_current_stream,
        "get_elapsed_time": get_elapsed_time,
    },
    "device": {
        "Device": Device,
        "get_device_id": get_device_id,
        "get_compute_capability": lambda: Device.compute_capability,
    },
    "profiler": {"start": nothing, "stop": nothing},
    "nvtx": {"RangePush": nothing, "RangePop": nothing, "Mark": nothing, "available": True},
    "nvrtc": {"getVersion": lambda: divmod(CUDA // 10, 100)},
}
globals().update({name: _module(name, names) for name, names in _MODULES.items()})
