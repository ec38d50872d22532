"""RawKernel and RawModule: kernels compiled by NVRTC and run on the virtual GPU with its checks."""

from __future__ import annotations

import functools
import os
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np

from .. import run_arguments, run_headers
from ..cuda.text import read
from ..devices.launching import CompiledFile
from ..devices.nvrtc.host_signs import PARTED
from ..devices.texture import SurfaceObject
from ..errors import CompileError, LaunchError
from . import place
from .core import MemoryPointer, device, ndarray
from .errors import cupys

#: options that change nothing here, by how they begin after the dashes
_INERT = """
    std O optimize opt-level lineinfo generate-line-info arch gpu- gencode generate-code maxrregcount Xptxas ptxas-options
    Xcompiler compiler-options G device-debug w disable-warnings fmad ftz prec- restrict rdc relocatable-device-code expt-
    extended-lambda default-device device-as-default extra-device-vectorization minimal cubin dc m64 diag-suppress ptx threads
    split-compile res-usage resource-usage
""".split()
_FAST = ("-use_fast_math", "--use_fast_math")
#: options whose value may be the next word
_TAKE = ("-I", "-D", "-U", "-Xptxas", "-Xcompiler", "-arch", "-gencode", "--maxrregcount", "-std", "--std")
_SPELLED = (("--include-path=", "-I"), ("--define-macro=", "-D"), ("--undefine-macro=", "-U"))
#: (file, name) of each kernel of the modules that were made -> its line, and whether it was launched
kernels: dict[tuple[str, str], tuple[int, bool]] = {}


class RawModule:
    """cupy.RawModule."""

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | os.PathLike | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions=None,
        jitify=None,
        stands: tuple[str, int] | None = None,
    ):
        """stands: the file that the code stands in, and the lines before it, where that is known."""
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        if backend not in ("nvrtc", "nvcc"):
            raise ValueError(f"backend {backend!r}: it is 'nvrtc' or 'nvcc'")
        if translate_cucomplex:
            raise NotImplementedError("translate_cucomplex: use complex<float> of <cupy/complex.cuh>")
        self.code, self.file_path, self.options, self.backend = code, path, options, backend
        self.name_expressions = tuple(name_expressions or ())
        self.enable_cooperative_groups = enable_cooperative_groups
        self.file, before = stands or (place.find(code, place.callers()) if code else (os.fspath(path), 0))
        self.text = "\n" * before + (code or "")  # on its lines, which count in what is said of it
        for kernel in read(self.text).kernels:
            kernels.setdefault((self.file, kernel.name), (kernel.name_line, False))

    @functools.cached_property
    def module(self) -> CompiledFile:
        with cupys(self.text):
            if self.code is not None:
                return _compiled(self.text, self.file, self.options, self.name_expressions)
            if not os.path.isfile(self.file_path):
                raise LaunchError(f"there is no {self.file_path}", "CUDA_ERROR_FILE_NOT_FOUND")
            text = Path(self.file_path).read_bytes()
            if b".entry" not in text:
                raise CompileError(
                    f"{self.file_path} is no PTX: machine code for a GPU does not run on the virtual GPU"
                )
            return device().load_ptx(text.decode(), os.path.basename(self.file_path))

    def compile(self, log_stream=None) -> None:
        """Compiles now; else the first kernel that is asked for does."""
        module = self.module
        if log_stream:
            log_stream.writelines(f"{warning}\n" for warning in module.warnings)

    def get_function(self, name: str) -> RawKernel:
        with cupys():
            if "<" in name and name not in self.name_expressions:
                raise LaunchError(
                    f"{name} is not among the name_expressions", "cudaErrorInvalidDeviceFunction"
                )
            self.module.get_function(name)
        return RawKernel._of(self, name)

    def get_global(self, name: str) -> MemoryPointer:
        """The memory of a __device__ or __constant__ variable."""
        with cupys():
            return MemoryPointer(self.module.get_global(name))

    def __reduce__(self):
        how = dict(path=self.file_path, options=self.options, backend=self.backend)
        return functools.partial(RawModule, self.code, **how, name_expressions=self.name_expressions), ()


class RawKernel:
    """cupy.RawKernel. extern: its name in a GPU's code is the one given."""

    extern = True

    def __init__(self, code: str, name: str, options: tuple[str, ...] = (), backend: str = "nvrtc", **kwargs):
        self._is_of(RawModule(code, options=options, backend=backend, **kwargs), name)

    @classmethod
    def _of(cls, module: RawModule, name: str) -> RawKernel:
        made = cls.__new__(cls)
        made._is_of(module, name)
        return made

    def _is_of(self, module: RawModule, name: str) -> None:
        self._module, self.name, self.__name__ = module, name, name
        self.code, self.options, self.backend = module.code, module.options, module.backend
        self.preferred_shared_memory_carveout = -1
        self._plain = re.sub("<.*", "", name).split("::")[-1]

    @functools.cached_property
    def kernel(self):
        module = self._module.module
        with cupys():
            if "<" not in self.name or self.name in self._module.name_expressions:
                found = module.get_function(self.name)
                if self.name in (found.info.name, *self._module.name_expressions) or not self.extern:
                    return found
            said = f'{self.name} is known by another name to a GPU: declare it extern "C", or list it in name_expressions'
            raise LaunchError(said, "cudaErrorInvalidDeviceFunction")

    @functools.cached_property
    def _wanted(self) -> tuple[list[str], list]:
        """Names of the parameters, and NumPy's type of each that is a number, "" for others; None where it is a pointer."""
        found = run_arguments.Wanted(self.code or "", self.code or "", self.name, self.kernel.params)
        return found.names, found.kinds or [""] * len(self.kernel.params)

    def compile(self, log_stream=None) -> None:
        """Compiles now; else the first launch does."""
        self._module.compile(log_stream)
        self.kernel  # noqa: B018

    def __call__(
        self, grid, block, args, *, shared_mem: int = 0, stream=None, enable_cooperative_groups=False
    ) -> None:
        """Runs the kernel to its end. Errors: see backwarp.cupy.errors."""
        __tracebackhide__ = True
        if not isinstance(grid, tuple) or not isinstance(block, tuple):
            raise TypeError("Argument 'grid' and 'block' must be tuples, as (blocks,) and (threads,)")
        kernel, (names, kinds) = self.kernel, self._wanted
        with cupys(self._module.text):
            if len(args) != len(names):
                said = f"{self.name}({', '.join(names)}) takes {len(names)} arguments; {len(args)} were given"
                if len(args) < len(names):
                    raise LaunchError(said)
                warnings.warn(f"{said}: a GPU ignores the last", stacklevel=2)
            each = zip(args, names, kinds, kernel.params)
            passed = tuple(
                argument(value, f"{n} of {self.name}", kind, size) for value, n, kind, size in each
            )
            for value, name in reversed([(v, n) for v, n in zip(args, names) if isinstance(v, ndarray)]):
                whole = value.size == value._memory.size and value.flags.c_contiguous
                value._memory.present(name, value.shape if whole else None)
            key = self._module.file, self._plain
            kernels[key] = kernels.get(key, (0, False))[0], True
            sizes = (tuple(max(1, int(n)) for n in shape) for shape in (grid, block))
            launch = kernel(*sizes, passed, shared_mem=int(shared_mem))
        if launch.stdout:
            print(launch.stdout, end="")
        for note in launch.notes:
            if note.kind != "cooperative-launch" or not self._module.enable_cooperative_groups:
                warnings.warn(str(note), stacklevel=2)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self.kernel.max_dynamic_shared_size_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        self.kernel.max_dynamic_shared_size_bytes = nbytes

    @property
    def attributes(self) -> dict[str, int]:
        """What is known of the kernel; -1 for what is a GPU's own."""
        info = self.kernel.info
        own = "num_regs ptx_version binary_version cache_mode_ca preferred_shared_memory_carveout local_size_bytes const_size_bytes"
        return dict.fromkeys(own.split(), -1) | {
            "max_threads_per_block": info.max_threads or 1024,
            "shared_size_bytes": info.shared_static,
            "max_dynamic_shared_size_bytes": self.max_dynamic_shared_size_bytes,
        }

    def __getattr__(self, name: str):
        if name.startswith("_") or name not in self.attributes:
            raise AttributeError(f"'RawKernel' object has no attribute {name!r}")
        return self.attributes[name]

    def __reduce__(self):
        return RawKernel._of, (self._module, self.name)


def _compiled(source: str, file: str, options: tuple[str, ...], expressions: tuple[str, ...]) -> CompiledFile:
    macros, folders = parsed(options)
    with tempfile.TemporaryDirectory(prefix="backwarp-") as folder:
        found = run_headers.gather(source, Path(file), folders, Path(folder), search=False)
        if found.absent:
            raise CompileError(
                f"{found.absent[0].source.split()[-1]} is not found: options=('-I DIR',)", tuple(found.absent)
            )
        return device().compile(found.source, file, (folder,), expressions, (PARTED, *macros))


def parsed(options: tuple[str, ...]) -> tuple[list[str], list[Path]]:
    """The macros and the header folders of a compiler's options. Errors: CompileError for unknown ones."""
    words = [word for option in options for word in ([option] if option.startswith("-D") else option.split())]
    macros, folders = {}, []
    while words:
        word = words.pop(0)
        for long, short in _SPELLED:
            word = short + word.removeprefix(long) if word.startswith(long) else word
        if word in _TAKE and words:
            word += words.pop(0)
        if word.startswith("-I"):
            folders.append(Path(word[2:]))
        elif word.startswith("-D"):
            macros[re.split("[=(]", word[2:].strip())[0]] = "-D" + word[2:].strip()
        elif word.startswith("-U"):
            macros.pop(word[2:], None)
        elif word in _FAST:
            warnings.warn(
                f"{word} changes nothing here: the virtual GPU computes as without it", stacklevel=2
            )
        elif not word.startswith("-") or not word.lstrip("-").startswith(tuple(_INERT)):
            raise CompileError(f"the virtual GPU does not know the compiler's option {word}")
    return list(macros.values()), folders


def argument(value, called: str, kind: str | None, size: int):
    """A kernel's argument as the device takes it. kind: NumPy's type of the parameter, "" if unknown, None for a pointer.

    CuPy passes a Python int as int64, a float as double, a bool as one byte. Where the parameter is another type, the value is
    cast here, with a warning if a GPU would read other bytes. Errors: LaunchError.
    """
    if isinstance(value, ndarray):
        if kind == "f8":
            raise LaunchError(f"{called} is a number, not a pointer: an array was given")
        whole = value._address == value._memory.pointer
        return value._memory if whole else np.uint64(value._address)
    if value is None or isinstance(value, MemoryPointer):
        return np.uint64(getattr(value, "ptr", 0))
    if isinstance(value, SurfaceObject):
        return value
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise TypeError(
                f"You are trying to pass a numpy.ndarray of shape {value.shape} as a kernel parameter. Only numpy.ndarrays of"
                " size one can be passed by value. If you meant to pass a pointer to __global__ memory, you need to pass a"
                " cupy.ndarray instead."
            )
        return np.frombuffer(value.tobytes(), np.dtype((np.void, value.nbytes)))[0]
    if isinstance(value, np.generic) or not isinstance(value, bool | int | float | complex):
        if isinstance(value, np.integer) and value.itemsize > size and kind is not None and kind[:1] != "f":
            return _number(int(value), called, np.dtype(f"i{size}"))
        return value
    if kind is None and isinstance(value, int):
        return np.uint64(value)
    given = np.dtype({bool: "?", int: "i8", float: "f8", complex: "c16"}[type(value)])
    if kind is None:
        raise LaunchError(f"{called} is a pointer: pass an array, not {value}")
    wanted = np.dtype(kind or f"{given.kind.replace('b', 'i')}{size}")
    if wanted.itemsize != size:  # a struct, or a vector
        raise LaunchError(
            f"{called} has {size} bytes: pass a NumPy scalar of that size, not a Python {type(value).__name__}"
        )
    if given.kind in "iu?b" and wanted.kind in "iub" and given.itemsize >= size or given == wanted:
        return _number(value, called, wanted)
    warnings.warn(
        f"{called} is {wanted}: CuPy passes a Python {type(value).__name__} as {given}, which a kernel on a GPU misreads;"
        f" write numpy.{wanted}({value})",
        stacklevel=4,
    )
    return wanted.type(value)


def _number(value, called: str, of: np.dtype):
    if of.kind in "iu":
        bits = 8 * of.itemsize
        if not -(1 << bits - 1) <= value < 1 << bits:
            raise LaunchError(f"{called} is {of}: {value} does not fit")
        return np.array(int(value) & (1 << bits) - 1, f"u{of.itemsize}").view(of)[()]
    return of.type(value)
