"""Module and Function; what a kernel does is told by its name."""

import ctypes
import os
import time

import numpy

from tests.fakes.streams import queued

from . import driver, runtime

_libc = ctypes.CDLL(None)


def _fault(status, text):
    runtime.pending.append(runtime.CUDARuntimeError(status, text))


def scale(grid, block, pointer, n, factor):
    data = numpy.ctypeslib.as_array((ctypes.c_float * int(n)).from_address(int(pointer)))
    data *= float(factor)


def past_the_end(grid, block, pointer, n):
    data = (ctypes.c_float * (int(n) + 3)).from_address(int(pointer))
    data[int(n)] = data[int(n) + 2] = 1.0


def before_the_start(grid, block, pointer, n):
    (ctypes.c_float * 1).from_address(int(pointer) - 4)[0] = 1.0


def prints(grid, block, lines):
    for i in range(int(lines)):
        _libc.printf(b"line %d\n", ctypes.c_int(i))  # through C's stdio, as CUDA does


def illegal(grid, block):
    _fault(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")


def misaligned(grid, block):
    _fault(716, "cudaErrorMisalignedAddress: misaligned address")


def asserts(grid, block):
    os.write(2, b"kernel.cu:7: void asserts(): block: [1,0,0], thread: [5,2,0] Assertion `x < 3` failed.\n")
    _fault(710, "cudaErrorAssert: device-side assert triggered")


def launch_failure(grid, block):
    raise driver.CUDADriverError(719, "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")


def hungry(grid, block):
    raise driver.CUDADriverError(
        701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch"
    )


def unheard_of(grid, block):
    _fault(999, "cudaErrorUnknown: unknown error")


def endless(grid, block):
    while True:
        time.sleep(1)


def dies(grid, block):
    os.kill(os.getpid(), 11)


def process(grid, block, pointer):
    (ctypes.c_int64 * 1).from_address(int(pointer))[0] = os.getpid()


def shared(grid, block, pointer):
    key = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "shared"
    (ctypes.c_int64 * 1).from_address(int(pointer))[0] = driver.attributes.get(key, 0)


def reads_table(grid, block, pointer):
    ctypes.memmove(int(pointer), variables["table"], 24)


def meets(grid, block):
    pass


variables = {"table": (ctypes.c_float * 6)()}


class Module:
    def load(self, cubin):
        if cubin[:4] != b"\x7fELF":
            raise driver.CUDADriverError(200, "CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid")

    def get_function(self, name):
        return Function(name)

    def get_global_var(self, name):
        return ctypes.addressof(variables[name])


class Function:
    def __init__(self, name):
        self.ptr = name

    @queued
    def __call__(self, grid, block, args, shared_mem=0, enable_cooperative_groups=False):
        assert len(grid) == len(block) == 3
        assert enable_cooperative_groups == (self.ptr == "meets")
        for a in args:
            assert isinstance(a, numpy.ndarray) and a.size == 1  # CuPy passes these by value
        runtime.clock[0] += 1.0 if runtime.flushed[0] else 0.25
        runtime.flushed[0] = False
        globals()[self.ptr](grid, block, *args)
