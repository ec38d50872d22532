"""CuPy's errors. What the virtual GPU raises is one of them too, so that code which expects CuPy's can catch it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import CompileError, DeviceError, KernelFault, LaunchError


class CUDARuntimeError(RuntimeError):
    """cupy.cuda.runtime.CUDARuntimeError. status: the number of a cudaError_t."""

    status = 719  # cudaErrorLaunchFailure


class CUDADriverError(RuntimeError):
    """cupy.cuda.driver.CUDADriverError. status: the number of a CUresult."""

    status = 1  # CUDA_ERROR_INVALID_VALUE


class CompileException(Exception):
    """cupy.cuda.compiler.CompileException."""

    def get_message(self) -> str:
        return str(self)


class OutOfMemoryError(MemoryError):
    """cupy.cuda.memory.OutOfMemoryError."""


class Fault(KernelFault, CUDARuntimeError):
    """What a kernel did wrong, with the thread that did it first."""

    def __str__(self) -> str:
        if self.thread is None or self.block is None:
            return super().__str__()
        thread, block = (f"({','.join(map(str, at))})" for at in (self.thread, self.block))
        who = f"{self.headline} by thread {thread} in block {block}"
        return f"{self.file}:{self.line}: {who}. {self.explanation}"


class Refused(LaunchError, CUDADriverError):
    """A launch, or a name in a module, that CUDA refuses."""

    def __str__(self) -> str:
        return f"{self.code}: {self.args[0]}"


class NotCompiled(CompileError, CompileException):
    """Source that the compiler, or the virtual GPU, refuses."""

    def __str__(self) -> str:
        return "\n".join([self.args[0], *map(str, self.diagnostics)])


@contextmanager
def cupys() -> Iterator[None]:
    """Raises the errors of the device as CuPy's."""
    __tracebackhide__ = True
    try:
        yield
    except KernelFault as fault:
        made = Fault(fault.kind, fault.headline, fault.explanation)
        made.__dict__.update(fault.__dict__)
        raise made from None
    except CompileError as error:
        raise NotCompiled(error.args[0], error.diagnostics) from None
    except LaunchError as error:
        raise Refused(error.args[0], error.code) from None
    except DeviceError as error:
        raise OutOfMemoryError(str(error)) from None
