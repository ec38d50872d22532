"""CuPy's errors. What the virtual GPU raises is one of them too, so that code which expects CuPy's can catch it."""

from __future__ import annotations

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
    """What a kernel did wrong, with the thread that did it first. text: of the file that the kernel is in."""

    text = ""

    @property
    def happened(self) -> str:
        if self.thread is None or self.block is None:
            return self.headline
        thread, block = (f"({','.join(map(str, at))})" for at in (self.thread, self.block))
        return f"{self.headline}, thread {thread} in block {block}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.happened}. {self.explanation}"


class Refused(LaunchError, CUDADriverError):
    """A launch, or a name in a module, that CUDA refuses. Its text begins as the driver's."""

    def __str__(self) -> str:
        begin = {
            "cudaErrorInvalidDeviceFunction": "CUDA_ERROR_NOT_FOUND: named symbol not found",
            "cudaErrorInvalidSymbol": "CUDA_ERROR_NOT_FOUND: named symbol not found",
            "cudaErrorInvalidConfiguration": "CUDA_ERROR_INVALID_VALUE: invalid argument",
            "cudaErrorInvalidValue": "CUDA_ERROR_INVALID_VALUE: invalid argument",
        }
        return f"{begin.get(self.code, self.code)}: {self.args[0]}"


class NotCompiled(CompileError, CompileException):
    """Source that the compiler, or the virtual GPU, refuses."""

    def __str__(self) -> str:
        return "\n".join([self.args[0], *map(str, self.diagnostics)])


class cupys:  # noqa: N801
    """In it, the errors of the device are raised as CuPy's. text: of the file that a kernel is in."""

    def __init__(self, text: str = ""):
        self.text = text

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback) -> None:
        __tracebackhide__ = True
        match error:
            case KernelFault():
                made = Fault(error.kind, error.headline, error.explanation)
                made.__dict__.update(error.__dict__, text=self.text)
                raise made from None
            case CompileError():
                raise NotCompiled(error.args[0], error.diagnostics) from None
            case LaunchError():
                raise Refused(error.args[0], error.code) from None
            case DeviceError():
                raise OutOfMemoryError(str(error)) from None
