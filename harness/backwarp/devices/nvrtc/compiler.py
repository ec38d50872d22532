"""CUDA C++ -> PTX with NVIDIA's own compiler, on a machine without a GPU, driver or toolkit.

`compile_ptx` is the only front end of both devices: the same source with the same options, whatever
runs the result. What NVRTC lacks beside nvcc (the C headers, INFINITY, uint32_t ...) comes from
`headers/prelude.h`, included before the student's first line, and from SHIMS.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import re
import threading
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from backwarp.devices.store import Store, digest
from backwarp.errors import CompileError, Diagnostic, LaunchError

from . import includes, library
from .host_signs import PARTED, has_literals, has_sign
from .messages import describe, parse_log
from .symbols import demangle, entries, name_table, variables

#: a kernel must not be able to tell which of its builds is running
FLAVOURS = {
    "debug": ("-G", "-U__CUDACC_DEBUG__"),
    "fast": ("-lineinfo",),
    "short": ("-lineinfo", "-Ofc=mid"),
    "draft": ("-Ofc=max",),
    "runtime": ("-rdc=true", "-Ofc=max"),
}
#: switches off what few kernels need and is slow to compile: textures, the runtime's types, launches from
#: kernels; libcu++ in cooperative groups
_SOONER = ("-minimal", "-D_CG_LIMIT_INCLUDED_DEPENDENCIES")
#: libcu++ unrolls type lists up to this length: 10 for nvcc, but 16 for NVRTC, which costs every file that
#: includes <limits> or <cuda/atomic> another 0.9 seconds
_UNROLLED = "-D_CCCL_META_UNROLL_LIMIT=10"
#: of the headers that a kernel may have
HEADER_SUFFIXES = (".cuh", ".h", ".hpp", ".inl", ".cu", ".hh", ".hxx", ".inc")
# `{.x = 1}`, which nvcc has in C++17 too, as g++ does
_DESIGNATOR = re.compile(r"[{,]\s*\.[A-Za-z_]\w*\s*(?:=|\{)")
# of a file: the compiler takes -DM=N.cu for an option, and writes f(3).cu(3) in its messages
_PLAIN_NAME = re.compile(r"(?!-)[\w ./,+=@~#'-]+")
_CUB = "cub/cub.cuh"
_LONGEST = 8 << 20  # characters of PTX
_FORMAT = "6"  # of the cache entries
_HEADERS = Path(__file__).with_name("headers")
_PRELUDE = "backwarp/prelude.h"
_IN_PRELUDE = """
    cuda_runtime.h cuda_runtime_api.h cuda.h cuda_device_runtime_api.h device_launch_parameters.h
    device_functions.h device_atomic_functions.h math_functions.h builtin_types.h vector_functions.h
    stdint.h cstdint inttypes.h cinttypes stddef.h cstddef stdio.h cstdio math.h cmath float.h cfloat
    limits.h climits assert.h cassert stdlib.h cstdlib string.h cstring stdbool.h cstdbool
    sys/types.h initializer_list new alloca.h
""".split()
_FROM_CUDA = """
    limits type_traits array tuple functional numeric complex bit atomic span optional utility
""".split()

# Header name -> its text. A kernel gets these through NVRTC's header list, not from a file.
SHIMS: dict[str, str] = {name: "" for name in _IN_PRELUDE}
SHIMS |= {
    name: f"#pragma once\n#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"
    for name in _FROM_CUDA
}
# Host libraries whose headers also bring types for kernels.
_LIBRARY_TYPES = {
    **dict.fromkeys(
        (
            "cublas_v2.h",
            "cublas.h",
            "cublasLt.h",
            "cublasXt.h",
            "cusparse.h",
            "cusparse_v2.h",
            "cusolverDn.h",
            "cusolverSp.h",
        ),
        "#include <cuComplex.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n",
    ),
    **dict.fromkeys(
        ("cufft.h", "cufftXt.h"),
        "#include <cuComplex.h>\ntypedef float cufftReal;\ntypedef double cufftDoubleReal;\n"
        "typedef cuComplex cufftComplex;\ntypedef cuDoubleComplex cufftDoubleComplex;\n",
    ),
}
# CuPy's own headers, for kernels written for it
_COMPLEX = """#include <cuda/std/complex>
namespace thrust { using namespace cuda::std; }
using cuda::std::complex; using cuda::std::conj; using cuda::std::norm; using cuda::std::arg; using cuda::std::polar;
using cuda::std::real; using cuda::std::imag;
"""
_LIBRARY_TYPES |= dict.fromkeys(("cupy/complex.cuh", "thrust/complex.h"), _COMPLEX)
_LIBRARY_TYPES["cupy/float16.cuh"] = "#include <cuda_fp16.h>\ntypedef __half float16;\n"
SHIMS |= {name: f"#pragma once\n{text}" for name, text in _LIBRARY_TYPES.items()}
#: what `backwarp run` includes, or asks for, in place of a header that is not there
ABSENT, ABSENT_ASKED = "<backwarp/absent>", "<backwarp/none>"
SHIMS["backwarp/absent"] = ""
_LIBRARIES = {
    "curand": "Of cuRAND, <curand_kernel.h> is here, with XORWOW and Philox.",
    "cutlass/": "CUTLASS is not installed here; a kernel file must be self-contained.",
    "cute/": "CUTLASS is not installed here; a kernel file must be self-contained.",
}
SHIMS |= {name: (_HEADERS / name).read_text() for name in ("algorithm.h", "curand_kernel.h", "helper_math.h")}
SHIMS["algorithm"] = SHIMS.pop("algorithm.h")

#: the architectures that the virtual GPU emulates; the second one for files that use what only it has
VIRTUAL, HOPPER = "compute_80", "compute_90a"
_ARCHITECTURES = {"80": VIRTUAL, "90a": HOPPER}
_OF_HOPPER = re.compile(
    r"wgmma|setmaxnreg|async\.bulk|expect_tx|CUtensorMap|\bcuda/ptx\b|\bcde::|elect\.sync|griddepcontrol|st\.async"
    r"|__cluster_dims__|this_cluster|cluster_group|barrier\.cluster|shared::cluster|map_shared_rank|%cluster"
)
_store = Store("ptx")
_install_lock = threading.Lock()


@dataclass(frozen=True)
class Ptx:
    """What a source compiles to.

    names: plain kernel name (and qualified name, and name expression) -> the name in the PTX.
    overloads: plain names that several kernels share -> their names in the PTX.
    cubin: the machine code, if requested by arch="sm_90" or the like.
    """

    text: str
    names: dict[str, str] = field(default_factory=dict)
    overloads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    cubin: bytes = b""

    @cached_property
    def target(self) -> str:
        """Such as "sm_80"."""
        found = re.search(r"^\.target\s+(\w+)", self.text, re.M)
        return found[1] if found else ""

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        """Plain names of the kernels, in the order of the source."""
        return tuple(dict.fromkeys(demangle(entry) for entry in entries(self.text)))

    @cached_property
    def constants(self) -> dict[str, tuple[str, int]]:
        """Plain name of each __constant__ variable -> (its name in the PTX, bytes)."""
        found = variables(self.text)
        return {demangle(name): (name, nbytes) for space, name, nbytes in found if space == "const"}

    @cached_property
    def variables(self) -> dict[str, tuple[str, int]]:
        """The same for __device__, __managed__ and __constant__ variables."""
        return {demangle(name): (name, nbytes) for _, name, nbytes in variables(self.text)}

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


@dataclass(frozen=True)
class Job:
    """A kernel file with everything the compiler reads, so that it opens no files but CUDA's headers.

    notes: what was removed from it. headers: text by name. cuda: the folder of CUDA's own headers; "" if none
    is needed. expressions: template instances to create, such as "tile<16>". arch: what the virtual GPU emulates for it.
    """

    source: str
    name: str
    headers: dict[str, str]
    cuda: str
    expressions: tuple[str, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    arch: str = VIRTUAL

    def key(self, *more: str) -> str:
        """A hash of everything that determines the result of compilation, and of `more`. No compiler is
        loaded."""
        headers = (part for item in sorted(self.headers.items()) for part in item)
        own = (
            self.name,
            self.source,
            "\0".join(self.expressions),
            library.headers_version() if self.cuda else "",
            *map(str, self.notes),
        )
        return digest(_FORMAT, library.version(), *own, *headers, *more)

    def stored(self, flavour: str, arch: str = "") -> Ptx | None:
        """The result in the cache, if any."""
        return _load(_store.get(self.key(flavour, arch or self.arch)))

    def store(self, ptx: Ptx, flavour: str, arch: str = "") -> None:
        _store.put(self.key(flavour, arch or self.arch), _dump(ptx))


def gather(
    source: str,
    name: str = "kernel.cu",
    include_dirs: tuple[str | os.PathLike, ...] = (),
    name_expressions: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
) -> Job:
    """include_dirs: directories of the course's headers; apart from these, only CUDA's can be included. options:
    -DNAME=VALUE; -arch=sm_80 or -arch=sm_90a: what the virtual GPU is, without which the text decides.

    Errors: CompileError for an include, an expression or an option that is refused; DeviceError.
    """
    name = name if _PLAIN_NAME.fullmatch(name) else "kernel.cu"

    if wrong := next((e for e in name_expressions if not e.isprintable()), None):
        raise CompileError(f"{wrong!r} is not the name of a kernel")
    notes = ()
    if PARTED not in options and (has_sign(source) or has_literals(source)):
        from . import host_code

        source, notes = host_code.without(source, name, has_header)
    wanted, options = _architecture(options)
    macros = _macros(options)
    headers, needs_cuda = _headers(source, name, includes.scan(source, name), include_dirs)
    arch = wanted or (HOPPER if any(map(_OF_HOPPER.search, _included(source, headers))) else VIRTUAL)
    headers[_PRELUDE] += macros
    cuda = os.fspath(library.cuda_headers()) if needs_cuda else ""
    return Job(source, name, headers, cuda, tuple(name_expressions), notes=notes, arch=arch)


def compile_ptx(
    source: str,
    name: str = "kernel.cu",
    flavour: str = "debug",
    include_dirs: tuple[str | os.PathLike, ...] = (),
    name_expressions: tuple[str, ...] = (),
    arch: str = "",
    api=None,
    options: tuple[str, ...] = (),
) -> Ptx:
    """Compiles a kernel file to PTX, or finds it in the cache: see `gather` and `compile_job`."""
    job = gather(source, name, include_dirs, name_expressions, options)
    arch = arch or job.arch
    made_by = f"{arch} {'.'.join(map(str, api.nvrtcVersion()[1:]))}" if api else arch
    if found := job.stored(flavour, made_by):
        return found
    ptx = compile_job(job, flavour, arch, api)
    job.store(ptx, flavour, made_by)
    return ptx


def compile_job(job: Job, flavour: str, arch: str = "", api=None) -> Ptx:
    """Compiles to PTX, ignoring the cache.

    flavour: "debug" (every variable and line kept), "fast" (optimised, with line marks), "draft" (in a fifth of the
        time, for many kernels that hardly run) or "runtime" (the virtual GPU's own runtime, which leaves functions
        to be found by name).
    arch: what to compile for, if not the job's; a real architecture ("sm_90a") also gives its machine code.
    api: another NVRTC than the installed one, in the shape of cuda.bindings.nvrtc (see nvrtc12).
    Errors: CompileError; DeviceError where the compiler is not installed.
    """
    source, name, headers, expressions = job.source, job.name, job.headers, job.expressions
    found = includes.scan(source, name)
    own = (text for name, text in headers.items() if name not in SHIMS)
    designators = any(_DESIGNATOR.search(text) for text in (source, *own))
    standard = "-std=c++20" if designators else "-std=c++17"
    options = (*FLAVOURS[flavour], f"-arch={arch or job.arch}", standard, f"-include={_PRELUDE}")
    if (
        platform.machine() == "aarch64" and not api
    ):  # there plain `char` has no sign: a file would have another verdict
        options += ("-Xcudafe=--signed_chars",)
    if "__int128" in source:
        options += ("--device-int128",)
    if job.cuda:
        headers = headers | _pin_quoted(found, headers, Path(job.cuda))
        options += (f"-I{job.cuda}", f"-I{job.cuda}/cccl", _UNROLLED)
    output, names, log = None, {}, ""
    if not api:
        output, names, log = library.run(None, source, name, (*options, *_SOONER), headers, expressions)
    if output is None:
        output, names, log = library.run(api, source, name, options, headers, expressions)
    if output is None and _only_constexpr(log, headers | {name: source}):
        options += ("-default-device",)
        output, names, log = library.run(api, source, name, options, headers, expressions)
    allowed = (*headers, job.cuda) if job.cuda else tuple(headers)
    messages = parse_log(log, source, name, found, allowed)
    if output is None:
        raise CompileError(describe(name, messages, log), (*messages, *job.notes))
    text, cubin = output
    if len(text) > _LONGEST:
        raise CompileError(
            f"{name} becomes {len(text) >> 20} MB of PTX, which is too large: "
            "is an initialised array huge, or a loop unrolled very often?"
        )
    warnings = (*(m for m in messages if m.severity == "warning"), *job.notes)
    return Ptx(text, *name_table(text, names), warnings, cubin)


def _included(source: str, headers: dict[str, str]) -> list[str]:
    """The text of a file, and those of its own headers that it includes, directly or not."""
    texts, names = [source], set()
    for text in texts:
        for name in re.findall(r'#\s*include\s*["<]([^">\n]+)', text):
            found = next(
                (n for n in headers if n not in SHIMS and (n == name or n.endswith("/" + name))), None
            )
            if found and found not in names:
                names.add(found)
                texts.append(headers[found])
    return texts


def _architecture(options: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """(what -arch asks for, the other options). Errors: CompileError."""
    asked = [option for option in options if re.match(r"--?(arch|gpu-architecture)\b", option)]
    if not asked:
        return "", options
    number = re.fullmatch(r"--?(?:arch|gpu-architecture)=(?:sm|compute)_(\w+)", asked[-1])
    if not number or number[1] not in _ARCHITECTURES:
        raise CompileError(f"{asked[-1]!r}: the virtual GPU is -arch=sm_80 or -arch=sm_90a")
    return _ARCHITECTURES[number[1]], tuple(option for option in options if option not in asked)


def _macros(options: tuple[str, ...]) -> str:
    """The definitions for -DNAME, -DNAME=VALUE and -D 'F(x)=VALUE', to follow the prelude."""
    lines = []
    for option in options:
        found = re.fullmatch(r"-D\s*([A-Za-z_]\w*(?:\([\w ,.]*\))?)(?:=(.*))?", option)
        if not found or not option.isprintable() or option.endswith("\\"):
            raise CompileError(f"{option!r} is not a supported option: write -DNAME or -DNAME=VALUE")
        lines.append(f"#define {found[1]} {found[2] if found[2] is not None else 1}\n")
        if "__has_" in option:
            raise CompileError(
                f"{option!r} asks for files; a kernel can only ask for headers, in its own text"
            )
    return "".join(lines)


def _only_constexpr(log: str, texts: dict[str, str]) -> bool:
    """Whether the only functions without __device__ in the errors are constexpr, which nvcc accepts with
    --expt-relaxed-constexpr. NVRTC has such an option for all functions."""
    start = "A function without execution space annotations"
    errors = re.findall(rf"^(.*?)(?:\((\d+)\))?: error: {start}", log, re.MULTILINE)
    return bool(errors) and all(
        file in texts and re.search(r"\bconstexpr\b", texts[file].split("\n")[int(line) - 1])
        for file, line in errors
    )


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
        elif include.name in SHIMS or include.name == ABSENT_ASKED[1:-1]:
            needs_cuda |= include.name in (*_FROM_CUDA, *_LIBRARY_TYPES)
        elif includes.is_plain(include.name) and _in_cuda(include.name):
            needs_cuda = True
        else:
            raise includes.refuse(source, name, include, _remedy(include.name, include.quoted, course))
    headers |= SHIMS
    if (
        _CUB in "".join(i.name for i in found)
        or uses_course
        and any(_CUB in text for text in course.values())
    ):
        needs_cuda = True
        headers[_CUB] = _cub("".join((source, *course.values())))
    if uses_course:
        headers |= course
        needs_cuda |= any(re.search(r"#\s*include", text) for text in course.values())
    return headers, needs_cuda


def _cub(text: str) -> str:
    """<cub/cub.cuh> of the parts that a text names: NVRTC refuses CUB as a whole, and all of it takes long."""
    root = library.cuda_headers() / "cccl"
    wanted = ["cub/util_type.cuh", "cub/util_ptx.cuh", "cub/thread/thread_operators.cuh"]
    for part in ("block", "warp", "thread", "iterator"):
        for path in sorted((root / "cub" / part).glob("*.cuh")):
            called = path.stem.title().replace("_", "")
            if re.search(
                rf"\b{called.replace('Load', 'Load(?:Direct)?').replace('Store', 'Store(?:Direct)?')}", text
            ):
                wanted.append(path.relative_to(root).as_posix())
    return "#pragma once\n" + "".join(f"#include <{name}>\n" for name in wanted)


def _remedy(name: str, quoted: bool, course: dict[str, str]) -> str:
    for start, remedy in _LIBRARIES.items():
        if name.startswith(start):
            return remedy
    if "." not in name and includes.is_plain(name) and "/" not in name:
        return "A kernel has CUDA's built-in functions and no host library: remove the line."
    if name.endswith((".h", ".hpp", ".cuh", ".inl", ".cu")) and quoted and not course:
        return "A kernel file must be self-contained: paste what it uses from that file."
    offered = ", ".join(sorted(course)[:6])
    return f"It may include {offered + ' and ' if offered else ''}CUDA's headers, such as <cuda_fp16.h>."


def _course_headers(directories: tuple[str, ...]) -> dict[str, str]:
    """The text of every header in the course's include directories; the first directory wins."""
    headers: dict[str, str] = {}
    for directory in directories:
        root = Path(directory)
        for path in sorted(p for p in root.rglob("*") if p.suffix in HEADER_SUFFIXES):
            headers.setdefault(path.relative_to(root).as_posix(), path.read_text(errors="replace"))
    return headers


def has_header(name: str) -> bool:
    return name.startswith(tuple(_LIBRARIES)) and includes.is_plain(name) or is_here(name)


def is_here(name: str) -> bool:
    """Whether a header is CUDA's, or one of those that NVRTC lacks."""
    return name in SHIMS or includes.is_plain(name) and _in_cuda(name)


def _in_cuda(name: str) -> bool:
    root = library.cuda_headers()
    return any((root / folder / name).is_file() for folder in ("", "cccl"))


def _pin_quoted(found, headers, cuda: Path) -> dict[str, str]:
    """For `#include "mma.h"`: a header of that name that leads to CUDA's file, whatever is in the working
    directory. NVRTC searches its header list before the file system."""
    pinned = {}
    for include in found:
        if include.quoted and include.name not in headers:
            folder = cuda if (cuda / include.name).is_file() else cuda / "cccl"
            pinned[include.name] = f'#include "{folder / include.name}"\n'
    return pinned


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
