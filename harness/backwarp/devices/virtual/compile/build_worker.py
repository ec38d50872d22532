"""The process in which NVRTC and LLVM run, for build.py: one task at a time, under limits."""

from __future__ import annotations

import contextlib
import gc
import signal
import traceback
from pathlib import Path

from ....errors import CompileError, DeviceError
from ...child import attach, serve
from ...confine import confine, kept_from, limit, python_folders
from ...emulated import patience
from ...nvrtc.library import load_compiler
from ..answers import CODEC
from .build import MEMORY, TOTAL, build_here, too_large
from .modules import Built
from .targets import target

ADDRESSES = 4 << 30  # bytes of address space: the compilers use only part of what they reserve


def build(seconds: int, *request) -> Built:
    # processor time; then SIGPROF kills this process. (NVRTC sets RLIMIT_CPU to its hard limit, which is for
    # all builds.)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return build_here(*request)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def explain(error: Exception) -> tuple[Exception, bool]:
    """See child.answer."""
    if isinstance(error, CompileError | DeviceError):
        return error, False
    if isinstance(error, MemoryError):
        return too_large(), False
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{'/'.join(Path(frame.filename).parts[-2:])}, line {frame.lineno}"
    what = f"{type(error).__name__} in {place}: {error}"
    return DeviceError(
        f"the virtual GPU's compiler has a defect that this file shows ({what}); please report it"
    ), False


def main() -> None:
    channel = attach(CODEC)
    target()
    with contextlib.suppress(DeviceError):  # it is raised again when it is needed
        load_compiler()
    limit(addresses=ADDRESSES, memory=MEMORY, seconds=TOTAL * patience(), file_size=0)
    confine(
        python_folders(), hidden=kept_from(), limits=True
    )  # these include CUDA's headers; NVRTC sets a limit
    gc.freeze()  # loaded modules stay; what a build creates is rarely part of a cycle
    gc.set_threshold(1_000_000)
    serve(channel, {"build": build}, explain)


if __name__ == "__main__":
    main()
