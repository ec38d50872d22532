"""CUDA 12's NVRTC with the interface of cuda.bindings.nvrtc, for drivers that cannot load CUDA 13's code.

The bindings load NVRTC 13 and no other. A CUDA 12 driver (525 to 579) needs machine code from a compiler of
its own major version; the wheel nvidia-cuda-nvrtc-cu12 has that compiler, a handful of C functions.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from backwarp.errors import DeviceError

from ... import install

_SIGNATURES = {
    "nvrtcVersion": (POINTER(c_int), POINTER(c_int)),
    "nvrtcCreateProgram": (POINTER(c_void_p), c_char_p, c_char_p, c_int, *[POINTER(c_char_p)] * 2),
    "nvrtcDestroyProgram": (POINTER(c_void_p),),
    "nvrtcAddNameExpression": (c_void_p, c_char_p),
    "nvrtcCompileProgram": (c_void_p, c_int, POINTER(c_char_p)),
    "nvrtcGetLoweredName": (c_void_p, c_char_p, POINTER(c_char_p)),
    "nvrtcGetNumSupportedArchs": (POINTER(c_int),),
    "nvrtcGetSupportedArchs": (POINTER(c_int),),
} | {
    f"nvrtcGet{what}{suffix}": (c_void_p, argument)
    for what in ("ProgramLog", "PTX", "CUBIN")
    for suffix, argument in (("Size", POINTER(c_size_t)), ("", c_char_p))
}


def find() -> Path | None:
    """The wheel's library; None if it is not installed."""
    for folder in sys.path:
        path = Path(folder, "nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12")
        if path.is_file():
            return path
    return None


class Nvrtc12:
    """Each method returns (code, result...) like its namesake in cuda.bindings.nvrtc."""

    def __init__(self, path: Path | None = None):
        path = path or find()
        if path is None:
            raise DeviceError(
                f"this is a CUDA 12 driver, and the compiler for it is missing. Run: {install('cuda12')}"
            )
        library = ctypes.CDLL(str(path))
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
        self._library = library

    def nvrtcVersion(self):
        major, minor = c_int(), c_int()
        code = self._library.nvrtcVersion(byref(major), byref(minor))
        return code, major.value, minor.value

    def nvrtcGetSupportedArchs(self):
        count = c_int()
        code = self._library.nvrtcGetNumSupportedArchs(byref(count))
        archs = (c_int * count.value)()
        return code or self._library.nvrtcGetSupportedArchs(archs), list(archs)

    def nvrtcCreateProgram(self, source, name, count, headers, header_names):
        program = c_void_p()
        strings = c_char_p * count
        code = self._library.nvrtcCreateProgram(
            byref(program), source, name, count, strings(*headers), strings(*header_names)
        )
        return code, program

    def nvrtcDestroyProgram(self, program):
        return (self._library.nvrtcDestroyProgram(byref(program)),)

    def nvrtcAddNameExpression(self, program, expression):
        return (self._library.nvrtcAddNameExpression(program, expression),)

    def nvrtcCompileProgram(self, program, count, options):
        return (self._library.nvrtcCompileProgram(program, count, (c_char_p * count)(*options)),)

    def nvrtcGetLoweredName(self, program, expression):
        name = c_char_p()
        code = self._library.nvrtcGetLoweredName(program, expression, byref(name))
        return code, name.value

    def __getattr__(self, name: str):
        """nvrtcGetPTXSize(program) -> (code, size); nvrtcGetPTX(program, buffer) -> (code,)."""
        if name not in _SIGNATURES:
            raise AttributeError(name)
        function = getattr(self._library, name)

        def size_of(program):
            size = c_size_t()
            return function(program, byref(size)), size.value

        return size_of if name.endswith("Size") else lambda program, buffer: (function(program, buffer),)
