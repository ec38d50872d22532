"""CUDA C++ -> PTX with NVIDIA's own compiler, on a machine without a GPU, driver or toolkit.

`compile_ptx` is the only front end of both devices: the same source with the same options, whatever
runs the result. What NVRTC lacks beside nvcc (the C headers, INFINITY, uint32_t ...) comes from
`headers/prelude.h`, included before the student's first line, and from SHIMS.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from harness.devices.store import Store, cache_root, digest, session_directory
from harness.errors import CompileError, DeviceError, Diagnostic, LaunchError

from . import includes
from .messages import describe, parse_log

#: a kernel is not to know which of its builds runs
FLAVOURS = {"debug": ("-G", "-U__CUDACC_DEBUG__"), "fast": ("-lineinfo",), "runtime": ("-rdc=true", "-G")}
#: what few kernels need and takes long: textures, the runtime's types, launches from kernels; libcu++ in cooperative groups
_SOONER = ("-minimal", "-D_CG_LIMIT_INCLUDED_DEPENDENCIES")
_LONGEST = 8 << 20  # characters of PTX
_FORMAT = "6"  # of the cache entries
_HEADERS = Path(__file__).with_name("headers")
_PRELUDE = "backwarp/prelude.h"
_IN_PRELUDE = """
    cuda_runtime.h cuda_runtime_api.h cuda.h cuda_device_runtime_api.h device_launch_parameters.h
    device_functions.h device_atomic_functions.h math_functions.h builtin_types.h vector_functions.h
    stdint.h cstdint inttypes.h cinttypes stddef.h cstddef stdio.h cstdio math.h cmath float.h cfloat
    limits.h climits assert.h cassert stdlib.h cstdlib string.h cstring stdbool.h cstdbool
    sys/types.h initializer_list
""".split()
_FROM_CUDA = """
    limits type_traits array tuple functional numeric complex bit atomic span optional utility
""".split()

# Header name -> its text. A kernel gets these through NVRTC's header list, so from no file.
SHIMS: dict[str, str] = {name: "" for name in _IN_PRELUDE}
SHIMS |= {
    name: f"#pragma once\n#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"
    for name in _FROM_CUDA
}
SHIMS["algorithm"] = (_HEADERS / "algorithm.h").read_text()

_COMPLETE = ".complete"
_store = Store("ptx")
_install_lock = threading.Lock()


@dataclass(frozen=True)
class Ptx:
    """What a source compiles to.

    names: plain kernel name (and qualified name, and name expression) -> the name in the PTX.
    overloads: plain names that several kernels share -> their names in the PTX.
    cubin: the machine code, where one was asked for with arch="sm_90" or the like.
    """

    text: str
    names: dict[str, str] = field(default_factory=dict)
    overloads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    cubin: bytes = b""

    @property
    def kernels(self) -> tuple[str, ...]:
        """Plain names of the kernels, in the order of the source."""
        return tuple(dict.fromkeys(demangle(entry) for entry in entries(self.text)))

    @property
    def constants(self) -> dict[str, tuple[str, int]]:
        """Plain name of each __constant__ variable -> (its name in the PTX, bytes)."""
        found = re.findall(r"\.const\s+\.align\s+\d+\s+\.[a-z]+(\d+)\s+([\w$]+)(?:\[(\d+)\])?", self.text)
        return {demangle(name): (name, int(bits) // 8 * int(count or 1)) for bits, name, count in found}

    def find(self, name: str) -> str:
        """The PTX name of a kernel. LaunchError if there is none, or more than one."""
        if name in self.names:
            return self.names[name]
        code = "cudaErrorInvalidDeviceFunction"
        if name in self.overloads:
            count = len(self.overloads[name])
            raise LaunchError(f"{count} kernels are called {name}: give each its own name", code)
        defined = ", ".join(self.kernels) or "none (a kernel is __global__ void, not static, no template)"
        raise LaunchError(f"there is no kernel called {name}; the file defines {defined}", code)


def compile_ptx(
    source: str,
    name: str = "kernel.cu",
    flavour: str = "debug",
    include_dirs: tuple[str | os.PathLike, ...] = (),
    name_expressions: tuple[str, ...] = (),
    arch: str = "compute_80",
    api=None,
) -> Ptx:
    """Compiles a kernel file to PTX.

    flavour: "debug" (every variable and line kept), "fast" (optimised, with line marks) or "runtime" (the
        virtual GPU's own runtime, which leaves functions to be found by name).
    include_dirs: directories of the course's headers; nothing else but CUDA's can be included.
    name_expressions: template instances to make, such as "tile<16>".
    arch: what to compile for; a real architecture ("sm_90a") also gives its machine code.
    api: another NVRTC than the installed one, in the shape of cuda.bindings.nvrtc (see nvrtc12).
    Raises CompileError, and DeviceError where the compiler is not installed.
    """
    includes_found = includes.scan(source, name)
    headers, needs_cuda = _headers(source, name, includes_found, include_dirs)
    options = (*FLAVOURS[flavour], f"-arch={arch}", "-std=c++17", f"-include={_PRELUDE}")
    release = ".".join(map(str, api.nvrtcVersion()[1:])) if api else version()
    key = _key(release, name, source, options, name_expressions, headers, needs_cuda)
    cached = _load(_store.get(key))
    if cached:
        return cached
    cuda = _cuda_headers() if needs_cuda else None
    if cuda:
        headers |= _pin_quoted(includes_found, headers, cuda)
        options += (f"-I{cuda}", f"-I{cuda / 'cccl'}")
    program = (api, source, name, options, headers, name_expressions)
    output, names, log = (
        (None, {}, "") if api else _run(None, source, name, (*options, *_SOONER), headers, name_expressions)
    )
    if output is None:
        output, names, log = _run(*program)
    if output is None and cuda and re.search(r"error: (?:cannot|could not) open source file", log):
        _discard_cuda_headers(cuda)
        _cuda_headers()
        output, names, log = _run(*program)
    allowed = (*headers, str(cuda)) if cuda else tuple(headers)
    messages = parse_log(log, source, name, includes_found, allowed)
    if output is None:
        raise CompileError(describe(name, messages, log), messages)
    text, cubin = output
    if len(text) > _LONGEST:
        raise CompileError(
            f"{name} becomes {len(text) >> 20} MB of PTX, which is too large: "
            "is an initialised array huge, or a loop unrolled very often?"
        )
    ptx = Ptx(text, *_name_table(text, names), tuple(m for m in messages if m.severity == "warning"), cubin)
    _store.put(key, _dump(ptx))
    return ptx


def fingerprint(
    source: str, name: str, include_dirs: tuple[str, ...], name_expressions: tuple[str, ...]
) -> str:
    """A hash of all that decides what a kernel file compiles to, beside the flavour. No compiler is loaded.

    Raises CompileError for an include that is refused.
    """
    headers, needs_cuda = _headers(source, name, includes.scan(source, name), include_dirs)
    return _key(version(), name, source, (), name_expressions, headers, needs_cuda)


def _key(release, name, source, options, name_expressions, headers, needs_cuda) -> str:
    return digest(_FORMAT, release, name, source, "\0".join(options), "\0".join(name_expressions),
                  *(part for item in sorted(headers.items()) for part in item), str(needs_cuda))  # fmt: skip


# --- headers -------------------------------------------------------------------------------------


def _headers(source, name, found, include_dirs) -> tuple[dict[str, str], bool]:
    """The headers to hand to NVRTC as text, and whether CUDA's own are needed as files."""
    headers = {_PRELUDE: (_HEADERS / "prelude.h").read_text()}
    needs_cuda = False
    if not found:
        return headers, needs_cuda
    course = _course_headers(tuple(os.fspath(d) for d in include_dirs))
    uses_course = False
    for include in found:
        if include.name in course:
            uses_course = True
        elif include.name in SHIMS:
            needs_cuda |= include.name in _FROM_CUDA
        elif includes.is_plain(include.name) and _in_cuda(include.name):
            needs_cuda = True
        else:
            raise includes.refuse(source, name, include, _remedy(include.name, course))
    headers |= SHIMS
    if uses_course:
        headers |= course
        needs_cuda |= any(re.search(r"#\s*include", text) for text in course.values())
    return headers, needs_cuda


def _remedy(name: str, course: dict[str, str]) -> str:
    if "." not in name and includes.is_plain(name) and "/" not in name:
        return "A kernel has CUDA's built-in functions and no host library: remove the line."
    offered = ", ".join(sorted(course)[:6])
    return f"It may include {offered + ' and ' if offered else ''}CUDA's headers, such as <cuda_fp16.h>."


def _course_headers(directories: tuple[str, ...]) -> dict[str, str]:
    """The text of every header in the course's include directories; the first directory wins."""
    headers: dict[str, str] = {}
    for directory in directories:
        root = Path(directory)
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".cuh", ".h", ".hpp", ".inl")):
            headers.setdefault(path.relative_to(root).as_posix(), path.read_text(errors="replace"))
    return headers


def _in_cuda(name: str) -> bool:
    root = _cuda_headers()
    return any((root / folder / name).is_file() for folder in ("", "cccl"))


def _cuda_headers() -> Path:
    """The directory with the CUDA headers that NVRTC carries, unpacked once per version."""
    root = cache_root() or session_directory()
    target = root / f"cuda-headers-{version()}"
    with _install_lock:
        if (target / _COMPLETE).exists():
            return target
        temporary = Path(tempfile.mkdtemp(prefix=".headers-", dir=root))
        code, log = _nvrtc().nvrtcInstallBundledHeaders(os.fsencode(temporary), 0)
        if int(code):
            raise DeviceError(f"CUDA's headers cannot be unpacked into {root}: {_text(log) or code.name}")
        (temporary / _COMPLETE).touch()
        if target.exists() and not (target / _COMPLETE).exists():
            shutil.rmtree(target, ignore_errors=True)
        try:
            os.rename(temporary, target)
        except OSError:  # another process was first
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def _discard_cuda_headers(folder: Path) -> None:
    """Makes the next use unpack them again: a clean-up of old files may have thinned them out."""
    with _install_lock:
        (folder / _COMPLETE).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _pin_quoted(found, headers, cuda: Path) -> dict[str, str]:
    """For `#include "mma.h"`: a header of that name that leads to CUDA's file, whatever the working
    directory holds. NVRTC asks its header list before the file system."""
    pinned = {}
    for include in found:
        if include.quoted and include.name not in headers:
            folder = cuda if (cuda / include.name).is_file() else cuda / "cccl"
            pinned[include.name] = f'#include "{folder / include.name}"\n'
    return pinned


# --- the compiler --------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def version() -> str:
    """The version of NVRTC, found without loading it where it was installed as a package."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if match := re.fullmatch(r"nvidia_cuda_nvrtc-([\d.]+)\.dist-info", name):
                return match[1]
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


def _nvrtc():
    """NVIDIA's bindings, with the compiler loaded."""
    try:
        _preload()
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:  # the bindings raise several kinds, their own among them
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DeviceError(
            f"NVIDIA's compiler cannot be loaded ({reason}). Run: pip install nvidia-cuda-nvrtc cuda-bindings"
        ) from error
    return nvrtc


def supported_architectures(api=None) -> list[int]:
    """The compute capabilities, times ten, that a compiler makes code for."""
    code, archs = (api or _nvrtc()).nvrtcGetSupportedArchs()
    _require(code, "list its architectures")
    return list(archs)


@lru_cache(maxsize=1)
def _preload() -> None:
    """Loads the package's own library: the bindings take any NVRTC that is in the process already,
    such as the CUDA 12 one that a PyTorch imported earlier has brought."""
    import ctypes

    for folder in sys.path:
        library = Path(folder, "nvidia", "cu13", "lib", "libnvrtc.so.13")
        if library.is_file():
            ctypes.CDLL(str(library))
            return


def _run(api, source, name, options, headers, name_expressions):
    """Returns ((PTX, machine code) or None, {expression: lowered name}, log)."""
    nvrtc = api or _nvrtc()
    texts = [text.encode() for text in headers.values()]
    code, program = nvrtc.nvrtcCreateProgram(
        source.encode(), name.encode(), len(headers), texts, [n.encode() for n in headers]
    )
    _require(code, "create a program")
    try:
        for expression in name_expressions:
            (code,) = nvrtc.nvrtcAddNameExpression(program, expression.encode())
            _require(code, f"use the name {expression!r}")
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = _text(_read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program))
        if int(result):
            return None, {}, log.strip() or str(result)
        names = {}
        for expression in name_expressions:
            code, lowered = nvrtc.nvrtcGetLoweredName(program, expression.encode())
            _require(code, f"find the kernel {expression!r}")
            names[expression] = _text(lowered)
        text = _text(_read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program))
        real = any(option.startswith("-arch=sm_") for option in options)
        cubin = _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program) if real else b""
        return (text, cubin), names, log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size_of, read, program) -> bytes:
    code, size = size_of(program)
    _require(code, "read its output")
    buffer = b" " * max(size, 2)  # Python shares the bytes objects of length one, and this one is written to
    (code,) = read(program, buffer)
    _require(code, "read its output")
    return buffer


def _text(data: bytes | None) -> str:
    return data.decode("utf-8", "replace").rstrip("\0") if data else ""


def _require(code, doing: str) -> None:
    if int(code):
        raise CompileError(f"NVIDIA's compiler could not {doing}: {getattr(code, 'name', code)}")


# --- names ---------------------------------------------------------------------------------------


def entries(ptx: str) -> list[str]:
    """The names of the kernels in a PTX text."""
    return re.findall(r"^\s*(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)", ptx, re.MULTILINE)


def demangle(symbol: str, qualified: bool = False) -> str:
    """The function name in an Itanium C++ symbol: _ZN1a4tileILi16EEvPf -> tile (or a::tile).

    Anonymous namespaces are left out; template arguments are too. Anything that is no C++ symbol,
    such as an extern "C" name, is returned as it is.
    """
    match = re.match(r"_Z(N?)(?:[rVK]*)(L?)(?=\d)", symbol)
    if not match:
        return symbol
    parts, position = [], match.end()
    while number := re.compile(r"L?(\d+)").match(symbol, position):
        start = number.end()
        parts.append(symbol[start : start + int(number[1])])
        position = start + int(number[1])
        if not match[1]:
            break
        if symbol[position : position + 1] == "I":
            break
    parts = [p for p in parts if not p.startswith(("_GLOBAL__N", "_INTERNAL"))]
    if not parts:
        return symbol
    return "::".join(parts) if qualified else parts[-1]


def _name_table(ptx: str, expressions: dict[str, str]):
    """(names, overloads) of the kernels in a PTX text."""
    found: dict[str, list[str]] = {}
    for symbol in entries(ptx):
        for plain in dict.fromkeys((symbol, demangle(symbol), demangle(symbol, qualified=True))):
            found.setdefault(plain, []).append(symbol)
    names = {plain: symbols[0] for plain, symbols in found.items() if len(symbols) == 1}
    overloads = {plain: tuple(symbols) for plain, symbols in found.items() if len(symbols) > 1}
    return names | expressions, overloads


def parameter_sizes(ptx: str, symbol: str) -> tuple[int, ...]:
    """The size in bytes of each parameter of a kernel."""
    head = re.search(rf"\.entry\s+{re.escape(symbol)}\s*\(([^)]*)\)", ptx)
    sizes = []
    for parameter in head[1].split(",") if head and head[1].strip() else ():
        bits = re.search(r"\.[a-z]+(\d+)\b", parameter)[1]
        count = re.search(r"\[(\d+)\]\s*$", parameter)
        sizes.append(int(bits) // 8 * (int(count[1]) if count else 1))
    return tuple(sizes)


# --- cache entries -------------------------------------------------------------------------------


def _dump(ptx: Ptx) -> bytes:
    return json.dumps(asdict(ptx) | {"cubin": base64.b64encode(ptx.cubin).decode()}).encode()


def _load(data: bytes | None) -> Ptx | None:
    if data is None:
        return None
    try:
        entry = json.loads(data)
        warnings = tuple(Diagnostic(**w) for w in entry["warnings"])
        overloads = {name: tuple(symbols) for name, symbols in entry["overloads"].items()}
        return Ptx(entry["text"], entry["names"], overloads, warnings, base64.b64decode(entry["cubin"]))
    except (ValueError, KeyError, TypeError):
        return None
