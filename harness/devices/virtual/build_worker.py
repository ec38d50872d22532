"""The process in which NVRTC and LLVM work, for build.py: one build after the other, under a limit on memory."""

from __future__ import annotations

import os
import resource

from ...errors import CompileError, DeviceError
from ..child import attach
from .build import build_here

MEMORY = 8 << 30  # bytes of address space


def main() -> None:
    connection = attach()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            _, request = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            answer = "ok", build_here(*request)
        except (CompileError, DeviceError) as error:
            answer = "error", error, False
        except MemoryError:
            answer = "error", CompileError("the compiler ran out of memory on this file"), False
        connection.send(answer)


if __name__ == "__main__":
    main()
