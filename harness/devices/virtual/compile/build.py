"""CUDA C++ -> all that a module needs: PTX, what was lowered, machine code. From the cache, or from a child process.

Templates that never end and loops unrolled a million times make a compiler eat time and memory; so NVRTC and LLVM
run apart (build_worker.py), under limits, and take nothing down with them.
"""

from __future__ import annotations

import atexit
import os
import pickle
import threading
from dataclasses import dataclass

from ....errors import CompileError, DeviceError
from ...child import Child
from ...nvrtc.compiler import Ptx, compile_ptx, fingerprint
from ...store import Store, digest
from . import link
from .llvm import machine
from .modules import Lowered
from .recipes import RECIPES, Check, recipe

SECONDS = 30  # of one build, of the processor's time; on a busy machine it may take PATIENCE times as long
PATIENCE = 4
_store = Store("modules")
_child: Child | None = None  # kept between builds
_turn = threading.Lock()


@dataclass(frozen=True)
class Built:
    """A module ready to be loaded."""

    compiled: Ptx
    lowered: Lowered
    code: bytes  # an object file


def build(source: str, name: str, include_dirs, name_expressions, checks: str, arena_size: int, fixed=(), quick=False,
          tracking=False) -> Built:  # fmt: skip
    """Compile a kernel file for the virtual GPU. fixed: the arguments of `specialise.run`, where there are some.
    quick: for little work, in a sixth of the time. tracking: code that follows unset values.

    Errors: CompileError; Unsupported; DeviceError when the compilers cannot be started.
    """
    request = (
        source,
        name,
        tuple(map(os.fspath, include_dirs)),
        tuple(name_expressions),
        checks,
        arena_size,
        fixed,
        quick,
        tracking,
    )
    key = digest(fingerprint(*request[:4]), *map(str, request[4:]), link.own_text(), machine())
    if data := _store.get(key):
        try:
            return pickle.loads(data)  # our own code and data: whoever can write there can do worse
        except Exception:  # written by another version of Python or of a library
            pass
    # meanwhile: it is needed too
    threading.Thread(target=link.prepare_runtime, args=(Check.SEGMENTS in RECIPES[checks],)).start()
    built = _apart(request)
    _store.put(key, pickle.dumps(built))
    return built


def build_here(
    source, name, include_dirs, name_expressions, checks, arena_size, fixed, quick, tracking
) -> Built:
    """The build itself, in this process."""
    compiled = compile_ptx(source, name, RECIPES[checks].ptx, include_dirs, name_expressions)
    return build_ptx(compiled, name, checks, arena_size, fixed, quick, tracking)


def build_ptx(
    compiled: Ptx, name: str, checks: str, arena_size: int, fixed=(), quick=False, tracking=False
) -> Built:
    from . import pipeline  # the table of opcodes takes a while to load, and what is cached does not need it

    return Built(
        compiled,
        *pipeline.compile_ptx(compiled.text, name, recipe(checks, quick, tracking), arena_size, fixed),
    )


# -- the parent's side --------------------------------------------------------------------------------


def _apart(request: tuple) -> Built:
    """The answer of the child, which is kept unless it had to be ended."""
    global _child
    with _turn:
        child, _child = _child or Child("harness.devices.virtual.compile.build_worker"), None
        try:
            built = child.ask("build", (request, SECONDS), SECONDS * PATIENCE)
        except CompileError:
            _child = child
            raise
        except TimeoutError:
            child.end()
            raise _too_long() from None
        except (EOFError, ConnectionError):
            raise _crash(child.end()) from None
        except BaseException:  # Ctrl-C leaves an answer unread
            child.end()
            raise
        _child = child
        return built


def _too_long() -> CompileError:
    return CompileError(
        f"the compiler did not finish within {SECONDS} seconds and was stopped: do templates or macros expand into"
        " very much, or is a loop unrolled very often?"
    )


def _crash(how: str) -> CompileError | DeviceError:
    """What to say when the child has ended by itself."""
    if "SIGPROF" in how:
        return _too_long()
    if any(sign in how for sign in ("MemoryError", "bad_alloc", "out of memory")):
        return CompileError("the compiler ran out of memory on this file: is an array or a template huge?")
    if "Error" in how and "SIG" not in how:
        return DeviceError(f"the compilers cannot be started ({how})")
    return CompileError(f"the compiler crashed on this file ({how})")


@atexit.register
def _end_child() -> None:
    if _child:
        _child.end()
