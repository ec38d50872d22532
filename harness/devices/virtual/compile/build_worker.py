"""The process in which NVRTC and LLVM run, for build.py: one task after the other, under limits."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys

from ....errors import CompileError, DeviceError
from ...child import attach
from ...confine import confine, limit, python_folders
from ...nvrtc.compiler import load_compiler
from ..answers import CODEC
from .build import build_here
from .llvm import machine

MEMORY = 4 << 30  # bytes of address space


def main() -> None:
    connection = attach()
    machine()
    with contextlib.suppress(DeviceError):  # it is raised again when it is needed
        load_compiler()
    limit(memory=MEMORY, file_size=0)
    confine(readable=[*python_folders(), sys.argv[2]])
    gc.freeze()  # loaded modules stay; what a build creates is rarely part of a cycle
    gc.set_threshold(100_000)
    while True:
        try:
            seconds, request = CODEC.loads(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        # of the processor's time; then SIGPROF ends this process. (RLIMIT_CPU would do, but NVRTC lifts it.)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer = build_here(*request)
        except (CompileError, DeviceError) as error:
            answer = error
        except MemoryError:
            answer = CompileError("the compiler ran out of memory on this file")
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            answer = DeviceError(
                f"the virtual GPU's compiler has a defect that this file shows ({what}); please report it"
            )
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send_bytes(CODEC.dumps(answer))


if __name__ == "__main__":
    main()
