"""Machine code, and loading it into this process.

The runtime (runtime/*.cu) is compiled like a kernel, once per machine, and linked with each of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from ....errors import CompileError, DeviceError
from ...nvrtc.compiler import compile_ptx
from ...store import Store, digest
from ..runtime import abi
from .llvm import compile_object, machine, target_machine
from .recipes import RECIPES

_store = Store("objects")
_serial = itertools.count()
_provided: list[bytes] = []
_lock, _compiling = threading.Lock(), threading.Lock()
_VIRTUAL = Path(__file__).parents[1]
_RUNTIME = _VIRTUAL / "runtime"
_PARTS = (
    "common",
    "initialised",
    "sanitizer",
    "clocks",
    "fences",
    "records",
    "epochs",
    "reports",
    "races",
    "lanes",
    "asynchronous",
    "matrix",
    "heap",
    "counters",
    "textures",
    "prepare",
    "schedule",
    "variants",
    "crew",
    "graph",
)
ENTRIES = ("rt_run", "rt_variants", "rt_serve", "rt_lead", "rt_replay")  # called from Python
_GLUE = """
declare void @llvm.coro.resume(ptr)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @call_prefetch(i64 %address) alwaysinline {{
  %p = inttoptr i64 %address to ptr
  call void @llvm.prefetch.p0(ptr %p, i32 1, i32 3, i32 1)
  ret void
}}
define void @call_resume(i64 %handle) alwaysinline {{
  %p = inttoptr i64 %handle to ptr
  call void @llvm.coro.resume(ptr %p)
  ret void
}}
define void @call_with(i64 %function, i64 %argument) alwaysinline {{
  %f = inttoptr i64 %function to ptr
  call void %f(i64 %argument)
  ret void
}}
define void @call_block(i64 %env) alwaysinline {{
  %e = inttoptr i64 %env to ptr
  %a = getelementptr i8, ptr %e, i64 {block}
  %f = load ptr, ptr %a
  call void %f(i64 %env)
  ret void
}}
define void @call_start(i64 %env, i64 %thread) alwaysinline {{
  %e = inttoptr i64 %env to ptr
  %a = getelementptr i8, ptr %e, i64 {start}
  %f = load ptr, ptr %a
  call void %f(i64 %env, i64 %thread)
  ret void
}}
"""


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


def is_prepared() -> bool:
    return bool(_provided)


@cache
def own_text() -> str:
    """A hash of the files that determine the machine code for a text."""
    folders = ("ptx", "analyse", "rewrite", "instrument", "emit", "compile", "runtime")
    files = (path for folder in folders for path in sorted((_VIRTUAL / folder).rglob("*")))
    return digest(*(path.read_bytes() for path in files if path.suffix in (".py", ".h")))


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
    builder = llvm.JITLibraryBuilder().add_object_img(runtime_object()).add_current_process()
    for name, function in HOST_FUNCTIONS.items():
        builder.import_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    for name in ENTRIES:
        builder.export_symbol(name)
    return builder.link(_linker(), "runtime")


def prepare_linker() -> None:
    """Loads what linking needs from the machine, before the process gives up its rights."""
    _linker()


def provide_runtime(code: bytes) -> None:
    """The runtime's machine code, for a process that cannot compile it or read the cache."""
    _provided.append(code)


def runtime_object() -> bytes:
    """The runtime's machine code, from the cache or compiled; by one thread, and others wait."""
    with _compiling:
        if not _provided:  # without a cache it would be compiled for each build
            provide_runtime(_made())
        return _provided[0]


def _made() -> bytes:
    source = abi.c_header() + "".join((_RUNTIME / f"{part}.cu").read_text() for part in _PARTS)
    key = digest(source, own_text(), machine())
    code = _store.get(key)
    if code is None:
        try:
            recipe = RECIPES["runtime"]
            text = compile_ptx(source, "runtime.cu", recipe.ptx).text
            # the opcode table takes a while to load, and few processes need it
            from ..emit import rounding
            from . import pipeline

            lowered = pipeline.lower(text, "runtime.cu", recipe, 1 << 34)
            glue = _GLUE.format(
                block=abi.offset("Env", "block_function"), start=abi.offset("Env", "start_function")
            )
            code = compile_object(lowered.text + glue + rounding.FUNCTIONS, recipe)
        except CompileError as error:  # not something a student could have caused
            raise DeviceError(f"the virtual GPU's own runtime cannot be built: {error}") from error
        _store.put(key, code)
    return code
