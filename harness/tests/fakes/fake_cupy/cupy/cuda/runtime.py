"""cudaMalloc and friends on host memory; FAKE_CUDA_DRIVER sets the driver's version."""

import ctypes
import os

from tests.fakes.streams import Stream, queued

memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3
cudaLimitPrintfFifoSize = 1
_LIMITS = {
    "ThreadsPerBlock": 1024,
    "BlockDimX": 1024,
    "BlockDimY": 1024,
    "BlockDimZ": 64,
    "GridDimX": 2**31 - 1,
    "GridDimY": 65535,
    "GridDimZ": 65535,
    "SharedMemoryPerBlock": 49152,
    "SharedMemoryPerBlockOptin": 232448,
}
for _name in _LIMITS:
    globals()[f"cudaDevAttrMax{_name}"] = _name
_LIMITS["MultiProcessorCount"] = cudaDevAttrMultiProcessorCount = "MultiProcessorCount"
_LIMITS[cudaDevAttrMultiProcessorCount] = 132

blocks = {}
pending = []  # the error that the next synchronisation reports
limits = {}


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def getDeviceCount():
    return int(os.environ.get("FAKE_CUDA_DEVICES", 1))


def getDevice():
    return 0


def driverGetVersion():
    return int(os.environ.get("FAKE_CUDA_DRIVER", 13000))


def getDeviceProperties(device):
    return {"name": b"Fake H200", "major": 9, "minor": 0}


def deviceGetAttribute(attribute, device):
    return _LIMITS[attribute]


def deviceSetLimit(limit, value):
    limits[limit] = value


def malloc(size):
    if size > 1 << 30:
        raise CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
    block = ctypes.create_string_buffer(size)
    blocks[ctypes.addressof(block)] = block
    return ctypes.addressof(block)


def free(pointer):
    del blocks[pointer]


def memcpy(target, source, size, kind):
    ctypes.memmove(target, source, size)


def memset(pointer, value, size):
    ctypes.memset(pointer, value, size)


def deviceSynchronize():
    if pending:
        raise pending.pop()


# --- events: a kernel takes a millisecond, or a quarter where its data may still be in the L2 cache

events = {}
clock = [0.0]  # milliseconds
flushed = [False]


def memsetAsync(pointer, value, size, stream):
    clock[0] += 100.0
    flushed[0] = size > 128 << 20


def eventCreate():
    events[len(events) + 1] = None
    return len(events)


def eventRecord(event, stream):
    events[event] = clock[0]


def eventSynchronize(event):
    deviceSynchronize()


def eventElapsedTime(start, end):
    return events[end] - events[start]


def eventDestroy(event):
    events[event] = None


@queued
def memcpyAsync(target, source, size, kind, stream):
    memcpy(target, source, size, kind)


Stream.synchronized = deviceSynchronize
