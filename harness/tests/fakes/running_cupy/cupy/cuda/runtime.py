"""Memory is the virtual GPU's, at its addresses; events read a clock that each launch advances."""

import ctypes
import os

import numpy

from tests.fakes.streams import Stream, queued

from ._machine import CUDARuntimeError, device, pending  # noqa: F401

memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3
cudaLimitPrintfFifoSize = 1
_LIMITS = {
    "MaxThreadsPerBlock": 1024,
    "MaxBlockDimX": 1024,
    "MaxBlockDimY": 1024,
    "MaxBlockDimZ": 64,
    "MaxGridDimX": 2**31 - 1,
    "MaxGridDimY": 65535,
    "MaxGridDimZ": 65535,
    "MaxSharedMemoryPerBlock": 49152,
    "MaxSharedMemoryPerBlockOptin": 166912,
    "MultiProcessorCount": 16,
}
for _name in _LIMITS:
    globals()[f"cudaDevAttr{_name}"] = _name
_blocks, _clock, _events = {}, [0.0], {}


def getDeviceCount():
    return 1


def getDevice():
    return 0


def driverGetVersion():
    return 13000


def getDeviceProperties(device):
    return {"name": os.environ.get("STAND_IN", "Stand-in").encode(), "major": 99, "minor": 0}


def deviceGetAttribute(attribute, device):
    return _LIMITS[attribute]


def deviceSetLimit(limit, value):
    pass


def malloc(size):
    block = device.empty((size,), numpy.uint8)
    _blocks[block.pointer] = block
    return block.pointer


def free(pointer):
    del _blocks[pointer]


def memcpy(target, source, size, kind):
    memory = device.arena.bytes
    if kind == memcpyHostToDevice:
        memory[target : target + size] = numpy.ctypeslib.as_array(
            (ctypes.c_uint8 * size).from_address(source)
        )
    elif kind == memcpyDeviceToDevice:
        memory[target : target + size] = memory[source : source + size]
    else:
        ctypes.memmove(target, memory[source : source + size].ctypes.data, size)


def memset(pointer, value, size):
    device.arena.bytes[pointer : pointer + size] = value


def memsetAsync(pointer, value, size, stream):
    _clock[0] += 100


def deviceSynchronize():
    if pending:
        raise pending.pop()


def tick():
    _clock[0] += 1


def eventCreate():
    _events[len(_events) + 1] = 0.0
    return len(_events)


def eventRecord(event, stream):
    _events[event] = _clock[0]


def eventSynchronize(event):
    deviceSynchronize()


def eventElapsedTime(start, end):
    return _events[end] - _events[start]


def eventDestroy(event):
    pass


@queued
def memcpyAsync(target, source, size, kind, stream):
    memcpy(target, source, size, kind)


Stream.synchronized = deviceSynchronize
