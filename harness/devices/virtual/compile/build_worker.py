"""The process in which NVRTC and LLVM work, for build.py: one task after the other, under limits."""

from __future__ import annotations

import gc
import os
import resource
import signal

from ....errors import CompileError, DeviceError
from ...child import attach
from .build import build_here

MEMORY = 4 << 30  # bytes of address space


def main() -> None:
    connection = attach()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.freeze()  # what is loaded stays; what a build makes is rarely in a cycle
    gc.set_threshold(100_000)
    while True:
        try:
            _, (request, seconds) = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        # of the processor's time; then SIGPROF ends this process. (RLIMIT_CPU would do, but NVRTC lifts it.)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer = "ok", build_here(*request)
        except (CompileError, DeviceError) as error:
            answer = "error", error, False
        except MemoryError:
            answer = "error", CompileError("the compiler ran out of memory on this file"), False
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send(answer)


if __name__ == "__main__":
    main()
