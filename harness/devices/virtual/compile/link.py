"""LLVM text -> machine code, and its loading into this process.

The runtime (runtime/*.cu) is compiled once per machine like a kernel and linked beside each of them: whole, or
without the parts that most kernels do not need.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import hashlib
import itertools
import re
import threading
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from ....errors import CompileError, DeviceError, Unsupported
from ...nvrtc.compiler import compile_ptx
from ...store import Store, digest
from ..emit import rounding
from ..ptx import parse as ptx
from ..runtime import abi

_HUGE = 16_000  # lines of LLVM in a function: optimising it would take too long
_store = Store("objects")
_serial = itertools.count()
_lock = threading.Lock()
_VIRTUAL = Path(__file__).parents[1]
_RUNTIME = _VIRTUAL / "runtime"
_RESUME = re.compile(r'^(define [^@\n]*@\S+\.resume"?\(ptr )', re.MULTILINE)
# parts that few kernels need, and that take as long as the rest
_RARE = ("asynchronous", "matrix", "counters")
_GLUE = """
declare void @llvm.coro.resume(ptr)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @call_prefetch(i64 %address) {{
  %p = inttoptr i64 %address to ptr
  call void @llvm.prefetch.p0(ptr %p, i32 1, i32 3, i32 1)
  ret void
}}
define void @call_resume(i64 %handle) {{
  %p = inttoptr i64 %handle to ptr
  call void @llvm.coro.resume(ptr %p)
  ret void
}}
define void @call_block(i64 %env) {{
  %e = inttoptr i64 %env to ptr
  %a = getelementptr i8, ptr %e, i64 {block}
  %f = load ptr, ptr %a
  call void %f(i64 %env)
  ret void
}}
define void @call_start(i64 %env, i64 %thread) {{
  %e = inttoptr i64 %env to ptr
  %a = getelementptr i8, ptr %e, i64 {start}
  %f = load ptr, ptr %a
  call void %f(i64 %env, i64 %thread)
  ret void
}}
"""


#: functions of Python that compiled code may call: name -> ctypes callback, filled in by who offers them
HOST_FUNCTIONS: dict[str, object] = {}


class Program:
    """Machine code of one module, linked with the runtime and loaded.

    names: functions whose `address(name)` will be asked for. run: the address of rt_run. The code lives as long as
    this object.
    """

    def __init__(self, code: bytes, names, whole_runtime: bool):
        with _lock:
            runtime = _runtime(whole_runtime)
            self.run = runtime["rt_run"]
            builder = llvm.JITLibraryBuilder().add_object_img(code)
            builder.add_jit_library(runtime.name).add_current_process()
            for name in names:
                builder.export_symbol(name)
            self._library = builder.link(_linker(), f"program{next(_serial)}")

    def address(self, name: str) -> int:
        return self._library[name]


def prepare_runtime(whole: bool) -> None:
    """Compile the runtime, where that has not been done."""
    with _lock:
        _runtime(whole)


def compile_object(text: str, level: int, plain: bool = False, own_frames: bool = False) -> bytes:
    """LLVM text -> an object file. level: LLVM's optimisation level, 0 to 3. plain: few passes, as at level 0.
    own_frames: of code that looks into memory all the time, make better code of its coroutines.

    At level 0 an object is made in a sixth of the time, and runs up to four times as long.
    """
    _initialise()
    huge = max(function.count("\n") for function in text.split("\ndefine ")) > _HUGE
    level = 0 if huge else level
    plain = plain or level == 0
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:  # PTX that no compiler wrote
        reason = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), str(error))
        raise Unsupported(f"this kernel, whose PTX is not consistent ({reason})") from error
    unroll = "!llvm.loop " in text
    if own_frames and not plain and (unroll or " presplitcoroutine " in text):
        module = llvm.parse_assembly(_with_own_frames(_split(module, unroll)))
    machine, builder = _prepared(module, level, plain)
    builder.getModulePassManager().run(module, builder)
    if plain and not huge:
        passes = llvm.create_new_module_pass_manager()
        _simplify(passes)
        passes.run(module, builder)
    return machine.emit_object(module)


def _prepared(module, level: int, plain: bool = False):
    """(target machine, pass builder) for a module, which is told of its target."""
    machine = _target_machine(level)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=0 if plain else level)
    options.loop_vectorization = False  # of the loops of one thread there is nothing to gain
    options.slp_vectorization = level == 3  # the sums of a thread, or of several side by side
    return machine, llvm.create_pass_builder(machine, options)


def _split(module, unroll: bool):
    """The module with its coroutines taken apart: a function for each that goes on with a frame.

    Loops that are to be unrolled are so before, that what is kept in an array need not be kept in the frame.
    """
    _, builder = _prepared(module, 1)
    if unroll:
        passes = llvm.create_new_module_pass_manager()
        _simplify(passes)
        passes.add_loop_rotate_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_loop_unroll_pass()
        _simplify(passes)
        passes.run(module, builder)
    builder.getModulePassManager().run(module, builder)
    return module


def _simplify(passes) -> None:
    """Values in registers, and the easy half of what is not needed."""
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()


def _with_own_frames(module) -> str:
    """Its text, in which nothing but a coroutine's own code touches its frame: what is in there can stay in registers."""
    return _RESUME.sub(r"\1noalias ", str(module))


@cache
def _initialise() -> None:
    # the register allocator's own bound lets it take minutes over a kernel with a thousand branches
    llvm.set_option("backwarp", "-grow-region-complexity-budget=1000")
    # nothing is to be moved behind the place where a thread waits, lest its frame gets what it was computed from
    llvm.set_option("backwarp", "-instcombine-code-sinking=false")
    llvm.set_option("backwarp", "-capture-tracking-max-uses-to-explore=5000")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _target_machine(level: int):
    """A new one each time: whoever gets it takes possession of it."""
    _initialise()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


@cache
def machine() -> str:
    """What object code depends on beside its text."""
    features = hashlib.sha256(llvm.get_host_cpu_features().flatten().encode()).hexdigest()[:16]
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{llvm.get_host_cpu_name()} {features} llvm {version} llvmlite {llvmlite.__version__}"


@cache
def own_text() -> str:
    """The modules that decide what machine code a text becomes."""
    folders = ("ptx", "analyse", "rewrite", "instrument", "emit", "compile", "runtime")
    return "".join(
        path.read_text() for folder in folders for path in sorted((_VIRTUAL / folder).rglob("*.py"))
    )


@cache
def _linker():
    """One JIT linker for the process. Compiled code may call the C and maths libraries."""
    ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6", mode=ctypes.RTLD_GLOBAL)
    with contextlib.suppress(OSError):  # converts halves where the processor does not
        ctypes.CDLL(ctypes.util.find_library("gcc_s") or "libgcc_s.so.1", mode=ctypes.RTLD_GLOBAL)
    return llvm.create_lljit_compiler(_target_machine(2), use_jit_link=True)


@cache
def _runtime(whole: bool):
    """The runtime as a library that programs link against."""
    builder = llvm.JITLibraryBuilder().add_object_img(_runtime_object(whole)).add_current_process()
    for name, function in HOST_FUNCTIONS.items():
        builder.import_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    return builder.export_symbol("rt_run").link(_linker(), f"runtime{whole:d}")


def _runtime_object(whole: bool) -> bytes:
    parts = (
        "common",
        "initialised",
        "sanitizer",
        "clocks",
        "races",
        *(_RARE if whole else ("absent",)),
        "schedule",
    )
    source = abi.c_header() + "".join((_RUNTIME / f"{part}.cu").read_text() for part in parts)
    key = digest(source, own_text(), machine())
    code = _store.get(key)
    if code is None:
        try:
            module = ptx.parse(compile_ptx(source, "runtime.cu", "runtime").text, "runtime.cu")
            from ..emit import module as lower

            lowered = lower.lower(module, "runtime.cu", "none", 1 << 34, raw=True)
            glue = _GLUE.format(
                block=abi.offset("Env", "block_function"), start=abi.offset("Env", "start_function")
            )
            code = compile_object(lowered.text + glue + rounding.FUNCTIONS, 1, plain=True)
        except CompileError as error:  # nothing that a student could have done
            raise DeviceError(f"the virtual GPU's own runtime cannot be built: {error}") from error
        _store.put(key, code)
    return code
