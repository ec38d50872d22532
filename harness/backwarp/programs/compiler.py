"""The host part of a program, compiled: by a clang++ of the system, or by the one that the package ziglang brings with all it needs.

Clang compiles the host part of CUDA C++ as it is, launches included. It is given CUDA's own declarations (host/prelude.h), and
texts in which the bodies of kernels and device functions are blank: those are NVRTC's matter. The compiler reads files that
strangers wrote, so it runs confined too.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import PACKAGE, SOURCES, install
from ..cuda import tree as cuda_tree
from ..devices.child import ENVIRONMENT
from ..devices.confine import python_folders
from ..devices.nvrtc import library
from ..devices.nvrtc.compiler import SHIMS
from ..devices.store import Store, cache_root, digest, session_directory
from ..errors import CompileError, DeviceError, Diagnostic
from . import errors, verbs
from .start import Policy

HOST = Path(__file__).with_name("host")
OLDEST, NEWEST = 17, 30  # versions of clang++ that are looked for: an older one joins traps of several lines
COMPILING, LINKING = 120, 1800  # seconds of the processor; the first link builds a C++ library
_WAITING = 8  # times as long by the clock: others may use the processors, too
_GLIBC = "2.28"
_PLACED = "-fno-sanitize-merge"  # each trap at its own line, since clang 20
_MEMORY = 6 << 30
_FORMAT = "1"  # of the cache entries
_OPTIONS = (
    "-O1 -gline-tables-only -gdwarf-4 -std=c++17 -fPIE -fno-omit-frame-pointer -fno-optimize-sibling-calls -w "
    "-ferror-limit=4 -fno-caret-diagnostics -fno-color-diagnostics -fno-diagnostics-show-option -pthread "
    # what is undefined in C++ and would not stop by itself
    "-fsanitize=null,array-bounds,vla-bound,return,unreachable,integer-divide-by-zero,nonnull-attribute "
    "-fsanitize-trap=all"
).split()
_CUDA = (
    "-x cuda --cuda-host-only -nocudainc -nocudalib --no-offload-new-driver -Wno-unknown-cuda-version "
    "-Xclang -fcuda-include-gpubinary"
).split()
#: libc++ of ziglang, as its own driver sets it up, and with checks of indices
_LIBRARY = (
    f"-nostdinc -nostdinc++ -D__GLIBC_MINOR__={_GLIBC.split('.')[1]} -D_LIBCPP_ABI_VERSION=1 -D_LIBCPP_ABI_NAMESPACE=__1 "
    "-D_LIBCPP_HAS_THREADS=1 -D_LIBCPP_HAS_MONOTONIC_CLOCK -D_LIBCPP_HAS_TERMINAL -D_LIBCPP_HAS_MUSL_LIBC=0 "
    "-D_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS -D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS "
    "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0 -D_LIBCPP_HAS_FILESYSTEM=1 -D_LIBCPP_HAS_RANDOM_DEVICE "
    "-D_LIBCPP_HAS_LOCALIZATION -D_LIBCPP_HAS_UNICODE -D_LIBCPP_HAS_WIDE_CHARACTERS -D_LIBCPP_HAS_NO_STD_MODULES "
    "-D_LIBCPP_HAS_TIME_ZONE_DATABASE -D_LIBCPP_PSTL_BACKEND_SERIAL "
    "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_EXTENSIVE "
    "-D_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_ENFORCE"
).split()
_SLOW = "the compiler of host code takes more than {seconds} seconds"
_MESSAGE = re.compile(r"(.+?):(\d+):(\d+): (?:fatal )?(error|warning|note): (.*)")
_APART = re.compile(r"(?<=[\w>])[ ]*<< +<|(?<=\n)[ \t]*<< +<|>> +>(?=\s*\()")
_UNDEFINED = re.compile(r"undefined (?:symbol|reference)(?: to|:)? [`']?([^'\n]+)")
_KEPT = {"shim": Store("host"), "program": Store("programs", 400 << 20)}


@dataclass(frozen=True)
class Compiler:
    """compile, link: how the two are called. options: of a C++ file. reads: the folders it needs."""

    name: str
    compile: tuple[str, ...]
    link: tuple[str, ...]
    options: tuple[str, ...]
    reads: tuple[str, ...]
    bundled: bool


@cache
def find() -> Compiler:
    """The compiler of this machine. Errors: DeviceError, which says what to install."""
    found = _system() or _bundled()
    if found and importlib.util.find_spec("elftools") is None:
        raise DeviceError(f"pyelftools is missing, which finds the lines of host code: {install('programs')}")
    if found:
        return found
    raise DeviceError(
        f"there is no compiler for host code: {install('programs')} (400 MB), or a clang++ from version {OLDEST} on"
    )


def _system() -> Compiler | None:
    """As clang++, or the newest of what Debian calls clang++-19 and the like."""
    for program in filter(
        None, map(shutil.which, ("clang++", *(f"clang++-{n}" for n in range(NEWEST, OLDEST - 1, -1))))
    ):
        version, headers = (_said(program, option) for option in ("--version", "-print-resource-dir"))
        version = re.search(r"version (\d+)[\d.]*", version)
        if not version or int(version[1]) < OLDEST:
            continue
        # without its wrappers of CUDA's headers, which are among its own
        options = ["-D_GLIBCXX_ASSERTIONS", "-nobuiltininc", "-isystem", f"{headers.strip()}/include"]
        options += [_PLACED] if int(version[1]) >= 20 else ["-mllvm", "-ubsan-unique-traps"]
        name, reads = f"clang {version[0].split()[1]}", ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
        return Compiler(name, (program,), (program, "-pie"), tuple(options), reads, False)
    return None


def _said(program: str, option: str) -> str:
    try:
        return subprocess.run([program, option], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _bundled() -> Compiler | None:
    spec = importlib.util.find_spec("ziglang")
    machine = platform.machine()
    if spec is None or not spec.origin:
        return None
    root = Path(spec.origin).parent
    zig, lib = str(root / "zig"), root / "lib"
    kind = "x86" if machine == "x86_64" else "aarch64"
    folders = (
        *("libcxx/include", "libcxxabi/include", "include"),
        *(f"libc/include/{name}" for name in (f"{kind}-linux-gnu", "generic-glibc")),
        *(f"libc/include/{name}" for name in (f"{kind}-linux-any", "any-linux-any")),
        "libunwind/include",
    )
    paths = [part for name in folders for part in ("-isystem", str(lib / name))]
    link = zig, "c++", "-target", f"{machine}-linux-gnu.{_GLIBC}", "-pie", "-fno-sanitize=all"
    from importlib.metadata import version

    return Compiler(
        f"clang of ziglang {version('ziglang')}", (zig, "clang"), link, (*_LIBRARY, *paths, _PLACED), (str(root),), True
    )  # fmt: skip


# ---- a program -----------------------------------------------------------------------------------------------


def build(
    texts: Mapping[str, str], name: str, macros: tuple[str, ...] = (), tell: Callable[[str], None] = print
) -> bytes:
    """The program as an ELF file. texts: the file called `name` and its headers, as in run_headers.Gathered.host. tell: hears what
    takes long. Errors: CompileError; DeviceError without a compiler."""
    compiler, own = find(), _headers()
    blanked = {known: without_device_code(text) for known, text in texts.items()}
    macros = tuple(f"-D{macro}" for macro in macros)
    parts = *(part for pair in sorted((blanked | own).items()) for part in pair), *macros
    key = digest(
        _FORMAT,
        name,
        compiler.name,
        *_OPTIONS,
        *compiler.options,
        library.headers_version(),
        _shim_key(),
        *parts,
    )
    if found := _KEPT["program"].get(key):
        return found
    with tempfile.TemporaryDirectory(prefix="backwarp-") as folder:
        home = Path(folder, "program")
        for where, files in (("headers", own), ("program", blanked)):
            for known, text in files.items():
                path = Path(folder, where, known)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        Path(folder, "image").write_text(name)
        given = (*_OPTIONS, *_CUDA, "-Xclang", f"{folder}/image", *compiler.options, *macros)
        headers = (
            *("-I", f"{folder}/headers", "-I", str(home)),
            "-isystem",
            str(library.cuda_headers()),
            "-include",
            "prelude.h",
        )
        tell("the host part is compiled")
        said = _run(
            compiler,
            folder,
            compiler.compile,
            (*given, *headers, "-c", name, "-o", f"{folder}/program.o"),
            home,
        )
        if said is not None:
            raise _explained(said, name, texts)
        program = _linked(compiler, folder, _shim(compiler, tell), name, texts, tell)
    _KEPT["program"].put(key, program)
    return program


def _linked(
    compiler: Compiler, folder: str, shim: bytes, name: str, texts: Mapping[str, str], tell: Callable
) -> bytes:
    Path(folder, "shim.o").write_bytes(shim)
    if compiler.bundled and not (_zig_cache() / "h").is_dir():
        tell("the C++ library is built, once for this machine: that takes some minutes")
    words = f"{folder}/program.o", f"{folder}/shim.o", "-o", f"{folder}/a.out", "-pthread"
    said = _run(compiler, folder, compiler.link, words, Path(folder), LINKING)
    if said is not None:
        absent = list(dict.fromkeys(_UNDEFINED.findall(said)))
        if "main" in absent:
            raise CompileError(f"{name} has no main: its kernels run with `backwarp run {name} KERNEL`")
        what = (
            f"these functions are nowhere: {', '.join(absent[:4])}"
            if absent
            else said.strip().splitlines()[-1][:300]
        )
        raise CompileError(f"{name} cannot be linked: {what}")
    return Path(folder, "a.out").read_bytes()


def _run(compiler: Compiler, folder: str, command, words, home: Path, seconds: int = COMPILING) -> str | None:
    """What the compiler said if it failed."""
    cached = _zig_cache()
    policy = Policy(
        readable=(*map(str, python_folders()), *compiler.reads, str(library.cuda_headers()), str(PACKAGE), "/proc", "/sys"),
        writable=(folder, str(cached), "/dev/null"),
        programs=(command[0], "/usr/bin", "/usr/lib", "/lib", "/lib64", *compiler.reads),
        calls=False,
        memory=_MEMORY,
        seconds=seconds,
    )  # fmt: skip
    names = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    variables = names | {
        "PYTHONPATH": str(SOURCES),
        "PATH": "/usr/bin:/bin",
        "TMPDIR": folder,
        "ZIG_GLOBAL_CACHE_DIR": str(cached),
        "ZIG_LOCAL_CACHE_DIR": f"{folder}/zig",
    }
    try:
        done = subprocess.run(
            policy.command(*command, *words), cwd=home, env=variables, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds * _WAITING,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CompileError(_SLOW.format(seconds=seconds)) from None
    except OSError as error:
        raise DeviceError(f"the compiler of host code cannot be started ({error})") from None
    if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        raise CompileError(_SLOW.format(seconds=seconds))
    return (
        None
        if done.returncode == 0
        else done.stderr[: 1 << 20].decode("utf-8", "replace") or f"status {done.returncode}"
    )


def installation() -> str:
    """Which ziglang this is."""
    spec = importlib.util.find_spec("ziglang")
    return digest(spec.origin)[:16] if spec and spec.origin else ""


def _zig_cache() -> Path:
    """Where ziglang keeps the libraries that it builds; its own variable counts. Each installation has its own place: two would build
    them in turns, as what they compare has their folders' names."""
    path = Path(
        os.environ.get("ZIG_GLOBAL_CACHE_DIR")
        or (cache_root() or session_directory()) / "zig" / installation()
    )
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


# ---- CUDA's runtime ----------------------------------------------------------------------------------------


def _shim_texts() -> dict[str, str]:
    rows = "".join(f'{{{n}, "{name}", "{said}"}}, ' for n, (name, said) in sorted(errors.codes().items()))
    texts = {
        name: (HOST / name).read_text()
        for name in ("shim.cpp", "arrays.inc", "graphs.inc", "driver.inc", "device_properties.h")
    }
    answered = set(re.findall(r"\b(cu\w+)\b", "".join(texts.values())))
    api, driver = (
        (library.cuda_headers() / name).read_text(encoding="utf-8", errors="replace")
        for name in ("cuda_runtime_api.h", "cuda.h")
    )
    now = dict(re.findall(r"^ *#define (cu\w+) +(?:__CUDA_API_PT\w\w\()?(cu\w+)", driver, re.MULTILINE))
    known = re.findall(r"\bCUDARTAPI\s+(cuda\w+)\s*\(", api)
    known += [now.get(name, name) for name in re.findall(r"\bCUDAAPI\s+(cu\w+)\s*\(", driver)]
    refused = sorted(set(known) - answered)
    codes = re.findall(r"^\s*(CUDA_SUCCESS|CUDA_ERROR_\w+)\s*=\s*(\d+)", driver, re.MULTILINE)
    codes = "".join(f'{{{n}, "{name}", 0}}, ' for name, n in codes)
    made = (
        f"enum Verb {{ {', '.join(verbs.VERBS)} }};\nstruct Error {{ int code; const char *name, *text; }};\n"
        f"static const Error ERRORS[] = {{ {rows} }};\n"
        f"static const Error DRIVER_ERRORS[] = {{ {codes} }};\n"
        f"#define ALL_REFUSED {' '.join(f'NOT_HERE({name})' for name in refused)}\n"
    )
    return {"verbs.h": made} | texts


def _shim_key() -> str:
    return digest(_FORMAT, *(part for pair in _shim_texts().items() for part in pair))


def _shim(compiler: Compiler, tell: Callable[[str], None]) -> bytes:
    """The object file of host/shim.cpp."""
    key = digest(compiler.name, *compiler.options, _shim_key())
    if found := _KEPT["shim"].get(key):
        return found
    with tempfile.TemporaryDirectory(prefix="backwarp-") as folder:
        for name, text in _shim_texts().items():
            Path(folder, name).write_text(text)
        tell("CUDA's runtime for host code is compiled")
        how = (
            "-O2",
            "-std=c++17",
            "-fPIE",
            "-fno-omit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-w",
            "-c",
        )
        words = *how, *compiler.options, "shim.cpp", "-o", "shim.o"
        said = _run(compiler, folder, compiler.compile, words, Path(folder))
        if said is not None:
            raise DeviceError(f"CUDA's runtime for host code does not compile: {said[:2000]}")
        found = Path(folder, "shim.o").read_bytes()
    _KEPT["shim"].put(key, found)
    return found


def _headers() -> dict[str, str]:
    """Headers for host code that neither the program nor CUDA's packages have."""
    found = {p.relative_to(HOST).as_posix(): p.read_text() for p in sorted(HOST.rglob("*.h"))}
    headers = HOST / "headers"
    own = {p.relative_to(headers).as_posix(): p.read_text() for p in sorted(headers.rglob("*.h"))}
    found = {name: text for name, text in found.items() if not name.startswith("headers/")}
    return found | {"helper_math.h": SHIMS["helper_math.h"]} | own


# ---- texts --------------------------------------------------------------------------------------------------


def without_device_code(text: str) -> str:
    """The text with the bodies of kernels and device functions blank; every line stays where it is. nvcc takes `<< <` for the
    beginning of a launch, too, and `>> >` for its end."""
    text = _APART.sub(lambda found: found[0].replace(" ", "") + " " * found[0].count(" "), text)
    if not re.search(r"__(?:global|device)__", text):
        return text
    parts, done = [], 0
    for start, end in _bodies(cuda_tree.parse(text), text):
        if start >= done:
            parts += text[done:start], re.sub(r"[^\n]", " ", text[start:end])
            done = end
    return "".join((*parts, text[done:]))


def _bodies(root, text: str) -> Iterator[tuple[int, int]]:
    """The first character in the body of each function for the device alone, and the one after the last."""
    for node in cuda_tree.walk(root):
        body = node.child_by_field_name("body") if node.type == "function_definition" else None
        if body is None or body.type != "compound_statement":
            continue
        head = text[node.start_byte : body.start_byte]
        if "__global__" in head or "__device__" in head and not re.search(r"__host__|\bconstexpr\b", head):
            yield body.start_byte + 1, body.end_byte - 1


def _explained(said: str, name: str, texts: Mapping[str, str]) -> CompileError:
    """The compiler's messages as Diagnostics in the program's files."""
    found = []
    for match in map(_MESSAGE.fullmatch, said.splitlines()):
        if match and match[4] == "error":
            file, line = os.path.basename(match[1]), int(match[2])
            text = next((t for known, t in texts.items() if match[1].endswith(known)), "")
            lines = text.split("\n")
            source = lines[line - 1] if 0 < line <= len(lines) else ""
            found.append(Diagnostic("error", _sentence(match[5]), file, line, int(match[3]), source))
    if not found:
        return CompileError(
            f"the host part of {name} does not compile: {said.strip().splitlines()[-1][:300]}"
        )
    return CompileError(f"the host part of {name} does not compile", tuple(found))


def _sentence(message: str) -> str:
    absent = re.fullmatch(r"'([^']+)' file not found", message)
    if old := re.fullmatch("no template named '(texture|surface)'", message):
        new = f"cuda{old[1].capitalize()}Object_t, made by cudaCreate{old[1].capitalize()}Object(), replaces them"
        return f"{old[1]} references were removed in CUDA 12: {new}"
    if not absent:
        return message
    libraries = {
        "gtest": "GoogleTest",
        "thrust/": "Thrust's host side",
        "cub/": "CUB's host side",
        "cudnn": "cuDNN",
        "cusparse": "cuSPARSE",
        "cusolver": "cuSOLVER",
        "cufftXt": "cuFFT's interface for several GPUs",
        "nccl": "NCCL",
        "npp": "NPP",
        "cutlass/": "CUTLASS",
    }
    known = next((what for start, what in libraries.items() if absent[1].startswith(start)), "")
    if known:
        return f"<{absent[1]}>: {known} is not here; write what it does, or test it on a GPU"
    return f'"{absent[1]}" is not beside the file, in its project or in CUDA\'s headers'
