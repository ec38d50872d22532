"""Machine code, and loading it into this process."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from functools import cache

import llvmlite.binding as llvm

from . import runtime_code
from .llvm import target_machine

_serial = itertools.count()
_lock = threading.Lock()
ENTRIES = ("rt_run", "rt_variants", "rt_serve", "rt_lead", "rt_replay")  # called from Python
#: Python functions that compiled code may call: name -> ctypes callback, filled in by their providers
HOST_FUNCTIONS: dict[str, object] = {}


class Executable:
    """Machine code of one module, linked with the runtime and loaded.

    names: functions whose `address(name)` will be needed. run, variants, serve, lead, replay: addresses of the
    runtime, whose code stays. The code of the module lives as long as this object.
    """

    def __init__(self, code: bytes, names):
        with _lock:
            runtime = _runtime()
            self.run, self.variants, self.serve, self.lead, self.replay = (runtime[name] for name in ENTRIES)
            builder = llvm.JITLibraryBuilder().add_object_img(code)
            builder.add_jit_library(runtime.name).add_current_process()
            for name in names:
                builder.export_symbol(name)
            self._library = builder.link(_linker(), f"executable{next(_serial)}")

    def address(self, name: str) -> int:
        return self._library[name]


@cache
def _linker():
    """One JIT linker for the process. Compiled code may call the C and maths libraries."""
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    with contextlib.suppress(OSError):  # converts halves if the processor cannot
        ctypes.CDLL("libgcc_s.so.1", mode=ctypes.RTLD_GLOBAL)
    return llvm.create_lljit_compiler(target_machine(2), use_jit_link=True)


@cache
def _runtime():
    """The runtime as a library that executables link against."""
    builder = llvm.JITLibraryBuilder().add_object_img(runtime_code.code()).add_current_process()
    for name, function in HOST_FUNCTIONS.items():
        builder.import_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    for name in ENTRIES:
        builder.export_symbol(name)
    return builder.link(_linker(), "runtime")


def prepare_linker() -> None:
    """Loads what linking needs from the machine, before the process gives up its rights."""
    _linker()
