"""The runtime's machine code: runtime/*.cu, compiled like a kernel, once per machine, and linked with each of them. And what
machine code depends on besides the text it is made from.

A release brings it for common processors (see `write_for`), so that a first verdict need not wait for it.

LLVM is loaded only to compile: most processes find everything in the cache.
"""

from __future__ import annotations

import platform
import re
import threading
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import llvmlite

from ....errors import CompileError, DeviceError
from ...nvrtc.compiler import VIRTUAL, compile_ptx
from ...store import Store, digest
from ..runtime import abi
from . import group_products
from .levels import levels_here
from .recipes import RECIPES

_store = Store("objects")
_provided: list[bytes] = []
_compiling = threading.Lock()
_PROCESSOR = Path("/sys/devices/system/cpu/modalias")  # its model and features
_VIRTUAL = Path(__file__).parents[1]
_RUNTIME = _VIRTUAL / "runtime"
_RELEASED = _RUNTIME / "released"
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
    "agents",
    "lanes",
    "asynchronous",
    "bulk",
    "wgmma",
    "matrix",
    "heap",
    "counters",
    "textures",
    "prepare",
    "clusters",
    "schedule",
    "variants",
    "crew",
    "graph",
)
#: on ARM, what has been loaded into memory by another thread is executed after this
_SYNCHRONISE = "call void @llvm.aarch64.isb(i32 15)"
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
  {synchronise}
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


@cache
def own_text() -> str:
    """A hash of the files that determine the machine code for a text."""
    folders = ("ptx", "analyse", "rewrite", "instrument", "emit", "compile", "runtime")
    files = (path for folder in folders for path in sorted((_VIRTUAL / folder).rglob("*")))
    return digest(*(path.read_bytes() for path in files if path.suffix in (".py", ".h")))


@cache
def machine() -> str:
    """What object code depends on besides the LLVM text: the processor and LLVM."""
    try:
        processor = _PROCESSOR.read_text(encoding="utf-8")
    except OSError:
        from .targets import target

        processor = f"{target().cpu} {target().features}"
    # an emulator shows the model of the processor that it runs on
    return f"{platform.machine()} {processor.strip()} llvmlite {llvmlite.__version__}"


def is_prepared() -> bool:
    return bool(_provided)


def provide(code: bytes) -> None:
    """The runtime's machine code, for a process that cannot compile it or read the cache."""
    _provided.append(code)


def code() -> bytes:
    """The runtime's machine code, from the cache or compiled; by one thread, and others wait."""
    with _compiling:
        if not _provided:  # without a cache it would be compiled for each build
            provide(_made())
        return _provided[0]


def _made() -> bytes:
    source = _source()
    key = digest(source, own_text(), machine())
    code = _store.get(key)
    if code is None:
        code = _released(source)
        if code is None:
            code = _compiled(source)
        _store.put(key, code)
    return code


def _source() -> str:
    """Without lines of comments: with them it is longer than a kernel's file may be."""
    text = abi.c_header() + "".join((_RUNTIME / f"{part}.cu").read_text() for part in _PARTS)
    return re.sub(r"^\s*//.*\n", "", text, flags=re.M)


def _compiled(source: str, target: str = "") -> bytes:
    try:
        recipe = replace(RECIPES["runtime"], target=target)
        text = compile_ptx(source, "runtime.cu", recipe.ptx, arch=VIRTUAL).text
        # these take a while to load, and few processes need them
        from ..emit import rounding
        from . import llvm, pipeline

        lowered = pipeline.lower(text, "runtime.cu", recipe, 1 << 34)
        return llvm.compile_object(lowered.text + _glue(target) + rounding.FUNCTIONS, recipe)
    except CompileError as error:  # not something a student could have caused
        raise DeviceError(f"the virtual GPU's own runtime cannot be built: {error}") from error


def _glue(name: str) -> str:
    """The functions of the runtime that are written in LLVM, for a target."""
    from .targets import target

    glue = _GLUE.format(
        block=abi.offset("Env", "block_function"),
        start=abi.offset("Env", "start_function"),
        synchronise=_SYNCHRONISE if target(name).triple.startswith("aarch64") else "",
    )
    return glue + group_products.text()


def _released(source: str) -> bytes | None:
    """What a release has for this processor and exactly these texts."""
    for level in levels_here():
        with suppress(OSError):
            return (_RELEASED / _name(source, level)).read_bytes()
    return None


def _name(source: str, level: str) -> str:
    return f"{level}-{digest(source, own_text())[:24]}.o"


def write_for(level: str) -> Path:
    """Compiles it for one of `levels.LEVELS` and keeps it for a release; returns the file."""
    path = _RELEASED / _name(_source(), level)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(_compiled(_source(), level))
    return path
