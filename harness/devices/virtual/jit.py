"""LLVM text -> machine code in this process, with a cache of object code on disk.

The runtime (runtime.cu) is compiled once per machine like a kernel and linked beside each of them.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from ..nvrtc import compile_ptx
from ..store import Store, digest
from . import lower, ptx, state

_store = Store("objects")
_RUNTIME = Path(__file__).with_name("runtime.cu")
_GLUE = """
declare void @llvm.coro.resume(ptr)
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


class Program:
    """Machine code of one module and the runtime, loaded; `address(name)` of its functions.

    The code lives as long as this object.
    """

    def __init__(self, text: str, level: int):
        _initialise()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(level))
        self._code = _runtime(), compile_object(text, level)  # the engine refers to these bytes
        for code in self._code:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        return self._engine.get_function_address(name)


def compile_object(text: str, level: int) -> bytes:
    """LLVM text -> an object file, from the cache where it has been compiled before.

    level: LLVM's optimisation level, 1 to 3.
    """
    key = digest(text, _machine(), str(level))
    code = _store.get(key)
    if code is None:
        code = _compile(text, level)
        _store.put(key, code)
    return code


def _compile(text: str, level: int) -> bytes:
    _initialise()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _target_machine(level)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = False  # one CUDA thread at a time: little to gain
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _target_machine(level: int):
    """A new one each time: an execution engine takes possession of its own."""
    _initialise()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=level, reloc="pic", codemodel="small", jit=True
    )


@cache
def _machine() -> str:
    """What object code depends on beside its text."""
    features = hashlib.sha256(llvm.get_host_cpu_features().flatten().encode()).hexdigest()[:16]
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{llvm.get_host_cpu_name()} {features} llvm {version} llvmlite {llvmlite.__version__}"


@cache
def _runtime() -> bytes:
    source = state.c_header() + _RUNTIME.read_text()
    key = digest(source, *(path.read_text() for path in sorted(_RUNTIME.parent.glob("*.py"))), _machine())
    code = _store.get(key)
    if code is None:
        module = ptx.parse(compile_ptx(source, _RUNTIME.name, "runtime").text, _RUNTIME.name)
        lowered = lower.lower(module, _RUNTIME.name, "none", 1 << 34, raw=True)
        glue = _GLUE.format(
            block=state.offset("Env", "block_function"), start=state.offset("Env", "start_function")
        )
        code = _compile(lowered.text + glue, 2)
        _store.put(key, code)
    return code


def export(name: str, function) -> None:
    """Make a ctypes callback callable from compiled code by name."""
    llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
