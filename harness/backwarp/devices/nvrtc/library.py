"""NVRTC as a library: found, loaded, and called once for each program."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
from functools import lru_cache
from pathlib import Path

from backwarp.errors import CompileError, DeviceError

#: the packages that CUDA's headers come from; NVRTC before 13.3 carries none of its own
HEADER_PACKAGES = "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl"
_HEADERS = "cuda_fp16.h", "crt/mma.h", "cccl/cuda/std/type_traits"  # one of each


@lru_cache(maxsize=1)
def version() -> str:
    """The version of NVRTC, found without loading it if it was installed as a package."""
    if found := _installed().get("nvidia_cuda_nvrtc"):
        return found
    _, major, minor = load_compiler().nvrtcVersion()
    return f"{major}.{minor}"


@lru_cache(maxsize=1)
def headers_version() -> str:
    """The packages' versions; for a toolkit its folder, whose name contains the version."""
    versions = [_installed().get(package.replace("-", "_"), "none") for package in HEADER_PACKAGES]
    return os.path.realpath(cuda_headers()) if "none" in versions else " ".join(versions)


@lru_cache(maxsize=1)
def cuda_headers() -> Path:
    """The folder of CUDA's own headers, from the packages or else an installed toolkit. DeviceError if
    neither is complete."""
    packages = (Path(folder, "nvidia", "cu13", "include").absolute() for folder in sys.path)
    for include in (*packages, *(root / "include" for root in _toolkits())):
        if all((include / name).exists() for name in _HEADERS):
            return include
    raise DeviceError(f"CUDA's headers are not installed. Run: pip install {' '.join(HEADER_PACKAGES)}")


def _toolkits() -> list[Path]:
    """Where a CUDA toolkit may be: the places that its own tools and CuPy search."""
    named = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    if nvcc := shutil.which("nvcc"):
        named.append(Path(nvcc).resolve().parents[1])
    return [*named, Path("/usr/local/cuda")]


@lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    """The versions of NVIDIA's packages by name, read from folder names alone; the first on the path wins."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if match := re.fullmatch(r"(nvidia_\w+)-([\d.]+)\.dist-info", name):
                found.setdefault(match[1], match[2])
    return found


def load_compiler():
    """NVIDIA's bindings, with the compiler loaded."""
    try:
        _preload()
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:  # the bindings raise various exceptions, including their own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DeviceError(
            f"NVIDIA's compiler cannot be loaded ({reason}). Run: pip install nvidia-cuda-nvrtc cuda-bindings"
        ) from error
    return nvrtc


def supported_architectures(api=None) -> list[int]:
    """The compute capabilities, times ten, for which a compiler generates code."""
    code, archs = (api or load_compiler()).nvrtcGetSupportedArchs()
    _require(code, "list its architectures")
    return list(archs)


@lru_cache(maxsize=1)
def _preload() -> None:
    """Loads the package's own library: the bindings would use any NVRTC already in the process, such as the
    CUDA 12 one of a PyTorch imported earlier. The builtins library comes first: NVRTC 13.0 opens it by its
    bare name and does not look beside itself."""
    for folder in sys.path:
        libraries = Path(folder, "nvidia", "cu13", "lib")
        if (libraries / "libnvrtc.so.13").is_file():
            for library in (*libraries.glob("libnvrtc-builtins.so.13.*"), libraries / "libnvrtc.so.13"):
                ctypes.CDLL(str(library))
            return


def run(api, source, name, options, headers, name_expressions):
    """Compile once: ((PTX, machine code) or None, {expression: lowered name}, log)."""
    nvrtc = api or load_compiler()
    texts = [header.encode() for header in headers.values()]
    code, program = nvrtc.nvrtcCreateProgram(
        source.encode(), name.encode(), len(headers), texts, [n.encode() for n in headers]
    )
    _require(code, "create a program")
    try:
        for expression in name_expressions:
            (code,) = nvrtc.nvrtcAddNameExpression(program, expression.encode())
            _require(code, f"use the name {expression!r}")
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = text(_read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program))
        if int(result):
            return None, {}, log.strip() or str(result)
        names = {}
        for expression in name_expressions:
            code, lowered = nvrtc.nvrtcGetLoweredName(program, expression.encode())
            _require(code, f"find the kernel {expression!r}")
            names[expression] = text(lowered)
        ptx = text(_read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program))
        real = any(option.startswith("-arch=sm_") for option in options)
        cubin = _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program) if real else b""
        return (ptx, cubin), names, log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size_of, read, program) -> bytes:
    code, size = size_of(program)
    _require(code, "read its output")
    buffer = b" " * max(size, 2)  # written to, and Python shares bytes objects of length 1
    (code,) = read(program, buffer)
    _require(code, "read its output")
    return buffer


def text(data: bytes | None) -> str:
    return data.decode("utf-8", "replace").rstrip("\0") if data else ""


def _require(code, doing: str) -> None:
    if int(code):
        raise CompileError(f"NVIDIA's compiler could not {doing}: {getattr(code, 'name', code)}")
