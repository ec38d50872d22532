"""The process in which NVRTC and LLVM work, for build.py: one build after the other, under a limit on memory."""

from __future__ import annotations

import math
import os
import resource

from ...errors import CompileError, DeviceError
from ..child import attach
from .build import build_here

MEMORY = 8 << 30  # bytes of address space


def _allow(seconds: int) -> None:
    """Let this process use so many seconds more of the processor; then the system ends it (SIGXCPU)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(usage.ru_utime + usage.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def main() -> None:
    connection = attach()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            _, (request, seconds) = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        _allow(seconds)
        try:
            answer = "ok", build_here(*request)
        except (CompileError, DeviceError) as error:
            answer = "error", error, False
        except MemoryError:
            answer = "error", CompileError("the compiler ran out of memory on this file"), False
        connection.send(answer)


if __name__ == "__main__":
    main()
