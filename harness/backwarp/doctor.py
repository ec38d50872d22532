"""`backwarp doctor`: what this machine can do, and what to install for the rest.

`report()` examines the machine, `main()` prints. Only what kernels need on the CPU decides the exit status; a
missing GPU, notebook or tool is information.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from . import SOURCES, __version__, install
from .devices.bubblewrap import wrapper
from .devices.confine import supported
from .devices.emulated import patience
from .devices.gpu import device as gpu
from .devices.store import cache_root
from .errors import BackwarpError
from .report.terminal import terminal_width, wrap

_TRIAL = "import sys; from backwarp.doctor import trial; trial(sys.argv[1])"
_TRIAL_LIMIT = 120  # seconds
_TRIAL_SOURCE = """
__global__ void twice(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] *= 2;
}
"""
_CUPY_WHEELS = ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy")
_NOTEBOOKS = ("jupyterlab", "ipykernel", "nbclient")


@dataclass(frozen=True)
class Item:
    """One line of the report. state: "ok", "missing" (grading works without it) or "broken" (it does not)."""

    topic: str
    state: str
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Report:
    """What `backwarp doctor` found, topic by topic."""

    findings: tuple[Item, ...]

    @property
    def works(self) -> bool:
        """Whether kernels can be graded on this machine."""
        return all(f.state != "broken" for f in self.findings)


def report() -> Report:
    checks = (
        _python,
        _course,
        _compiler,
        _virtual_gpu,
        _confinement,
        _cores,
        _cache,
        _gpu,
        _cupy,
        _notebooks,
        _torch,
        _host_compiler,
        _sanitizer,
    )
    return Report(tuple(check() for check in checks))


# --- the CPU path: these can be broken -----------------------------------------------------------


def _python() -> Item:
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < (3, 11):  # noqa: UP036 (pip does not check this for a checkout)
        return Item("Python", "broken", text, "Python 3.11 or newer is needed")
    if patience() > 1:
        remedy = "everything takes many times as long; in a container, leave out --platform"
        return Item("Python", "missing", f"{text}, which an emulator runs", remedy)
    return Item("Python", "ok", text)


def _course() -> Item:
    from .begin import manifest
    from .course.checkout import open_course

    try:
        course = open_course()
    except BackwarpError as error:
        first, *rest = str(error).splitlines()
        return Item("course", "broken", first, " ".join(line.strip() for line in rest))
    made_by = manifest(course.root).get("version", __version__)
    if made_by != __version__:
        text = f"{course.root} was made by backwarp {made_by}, and this is {__version__}"
        return Item("course", "missing", text, f"backwarp init {shlex.quote(str(course.root))}")
    return Item("course", "ok", f"{len(course.ids())} puzzles in {course.root}")


def _compiler() -> Item:
    from .devices.nvrtc.compiler import compile_ptx
    from .devices.nvrtc.library import version

    try:
        start = time.perf_counter()
        with_headers = f"#include <cuda_fp16.h>\n{_TRIAL_SOURCE}// {time.time_ns()}\n"  # not from the cache
        compile_ptx(with_headers, flavour="fast")
        seconds = time.perf_counter() - start
    except BackwarpError as error:
        return Item("CUDA compiler", "broken", _first_line(error), install())
    text = f"NVRTC {version()}, no driver needed, {seconds * 1000:.0f} ms a kernel with <cuda_fp16.h>"
    return Item("CUDA compiler", "ok", text)


def _virtual_gpu() -> Item:
    if not (llvm := _installed("llvmlite")):
        return Item("virtual GPU", "broken", "llvmlite is not installed", install())
    worked, said = _try("cpu")
    if not worked:
        return Item("virtual GPU", "broken", said, "pip install --force-reinstall llvmlite")
    return Item("virtual GPU", "ok", f"llvmlite {llvm}; {said}")


def _try(kind: str) -> tuple[bool, str]:
    """Runs a kernel in a separate process, because an instruction that this CPU lacks would kill it."""
    paths = [str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command, limit = [sys.executable, "-c", _TRIAL, kind], _TRIAL_LIMIT * patience()
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return False, f"a trial kernel did not finish within {limit} seconds"
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"the trial ended with status {run.returncode}"]
        return False, lines[-1][:200]
    return True, run.stdout.strip()


def trial(kind: str = "cpu") -> None:
    """Runs a kernel and says how it went; any failure is an exception."""
    import numpy

    from .devices import confined_device

    start = time.perf_counter()
    with confined_device(kind) as device:
        device.quick = True
        x = device.array(numpy.arange(100, dtype=numpy.float32), name="a")
        device.compile(_TRIAL_SOURCE).get_function("twice")(4, 32, (x, numpy.int32(100)))
        if not (x.get() == 2 * numpy.arange(100)).all():
            raise SystemExit("a trial kernel gave a wrong result")
        milliseconds = (time.perf_counter() - start) * 1000
        print(f"a trial kernel ran in {milliseconds:.0f} ms on {device.name}")


def _confinement() -> Item:
    topic, held = "confinement", supported()
    if held.complete:
        beside = ", inside bubblewrap" * bool(wrapper())
        return Item(topic, "ok", f"kernels run in a process without files, programs or network{beside}")
    open_ = [
        what for what, there in (("files", held.files), ("programs and network", held.calls)) if not there
    ]
    text = f"kernels run in their own process, but the system cannot keep it from {', '.join(open_)} ({'; '.join(held.lacks)})"
    return Item(topic, "missing", text, "grade only your own files; for others', use Linux 5.13 or newer")


def _cores() -> Item:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    installed = os.cpu_count() or usable
    text = f"{usable} usable" + (f" of {installed}" if installed != usable else "")
    return Item("CPU cores", "ok", text)


def _cache() -> Item:
    root = cache_root()
    if root is None:
        if os.environ.get("BACKWARP_CACHE", "").lower() in ("off", "0", "none"):
            text = "switched off: every kernel is compiled again each time"
            return Item("cache", "missing", text, "unset BACKWARP_CACHE")
        text = "there is no directory for it that you, and only you, can write to"
        return Item("cache", "missing", text, "set BACKWARP_CACHE to a writable one")
    size = sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
    return Item("cache", "ok", f"{root}, {size / 2**20:.0f} MB")


# --- the rest: what is missing is not broken -----------------------------------------------------


def _gpu() -> Item:
    driver = gpu.driver()
    version = _driver_version()
    if not driver.problem:
        text = f"{driver.devices} found, driver {version or '?'} (CUDA {gpu.dotted(driver.version)})"
        return Item("GPU", "ok", text)
    remedy = "not needed: kernels run on the virtual GPU"
    if driver.version:
        remedy = "update the NVIDIA driver to 525 or newer" if driver.version < gpu.MINIMUM_DRIVER else remedy
    elif _in_wsl():
        remedy = "in WSL the driver comes from Windows: install NVIDIA's driver there, not here"
    elif Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        remedy = "if the host has one: start the container with --gpus all"
    elif version or shutil.which("nvidia-smi"):
        remedy = "the driver is incomplete: install the package that has libcuda.so.1 (libcuda1)"
    return Item("GPU", "missing", driver.problem, remedy)


def _cupy() -> Item:
    """Is exactly one CuPy wheel installed, and does it match the driver?"""
    driver = gpu.driver()
    wheels = [name for name in _CUPY_WHEELS if _installed(name)]
    if len(wheels) > 1:
        names = " and ".join(wheels)
        keep = _extra(driver) or "cuda13"
        remedy = f"pip uninstall {' '.join(wheels)}, then {install(keep)}"
        return Item("CuPy", "missing", f"{names} are both installed and exclude each other", remedy)
    extra = _extra(driver)
    if not wheels:
        if extra:
            return Item("CuPy", "missing", "not installed", install(extra))
        return Item("CuPy", "missing", "not installed", "not needed without a GPU")
    text = f"{wheels[0]} {_installed(wheels[0])}"
    if extra == "cuda12" and wheels[0] == "cupy-cuda13x":
        remedy = f"pip uninstall cupy-cuda13x, then {install('cuda12')}; or update the driver to 580"
        return Item("CuPy", "missing", f"{text} needs a driver for CUDA 13", remedy)
    if extra == "cuda12" and not _nvrtc12():
        text += ", but no compiler for this driver"
        return Item("CuPy", "missing", text, install("cuda12"))
    if extra:
        worked, said = _try("gpu")
        return Item("CuPy", "ok" if worked else "missing", f"{text}; {said}")
    return Item("CuPy", "ok", text)


def _extra(driver: gpu.Driver) -> str:
    """The extra of pyproject.toml for a driver: CUDA 13 comes with 580, CUDA 12 with 525."""
    if driver.problem:
        return ""
    return "cuda13" if driver.version >= 13000 else "cuda12"


def _nvrtc12() -> bool:
    from .devices.nvrtc.nvrtc12 import find

    return find() is not None


def _notebooks() -> Item:
    absent = [name for name in _NOTEBOOKS if find_spec(name) is None]
    if absent:
        text = f"{', '.join(absent)} not installed"
        return Item("notebooks", "missing", text, install("notebooks"))
    from jupyter_client.kernelspec import find_kernel_specs

    if "backwarp" not in find_kernel_specs():
        return Item("notebooks", "missing", "their kernel is not installed", "python -m backwarp.jupyterlab")
    return Item("notebooks", "ok", "jupyterlab and its dependencies")


def _torch() -> Item:
    if version := _installed("torch"):
        return Item("PyTorch", "ok", f"{version}, for puzzle 40")
    return Item("PyTorch", "missing", "not installed", f"for puzzle 40: {install('torch')}")


def _host_compiler() -> Item:
    """For `backwarp exec`."""
    from .programs import compiler

    try:
        return Item("host compiler", "ok", f"{compiler.find().name}, for backwarp exec")
    except BackwarpError as error:
        return Item(
            "host compiler",
            "missing",
            str(error).partition(":")[0],
            f"for backwarp exec: {install('programs')}",
        )


def _sanitizer() -> Item:
    """NVIDIA's own checker, for kernels on a GPU."""
    topic = "compute-sanitizer"
    if path := shutil.which("compute-sanitizer"):
        return Item(topic, "ok", path)
    if wheel := _installed("nvidia-cuda-sanitizer-api"):
        return Item(topic, "ok", f"package nvidia-cuda-sanitizer-api {wheel}")
    if gpu.driver().problem:
        return Item(topic, "missing", "not installed", "not needed: the virtual GPU has its own checks")
    return Item(topic, "missing", "not installed", "pip install nvidia-cuda-sanitizer-api")


def _driver_version() -> str:
    """The driver's own version, such as 550.54.14, from NVIDIA's management library."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    text = ctypes.create_string_buffer(80)
    if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(text, 80):
        return ""
    library.nvmlShutdown()
    return text.value.decode("ascii", "replace")


def _in_wsl() -> bool:
    return "microsoft" in platform.release().lower()


def _installed(package: str) -> str:
    """Its version, "" if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


# --- printing ------------------------------------------------------------------------------------

_MARKS = {"ok": ("ok", "green"), "missing": ("--", "yellow"), "broken": ("!!", "bold red")}


def main() -> int:
    """Prints the report. 0 if kernels can be graded here, else 2."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    found, start = report(), " " * 23
    room = max(terminal_width(sys.stdout) - len(start), 20)
    for finding in found.findings:
        mark, style = _MARKS[finding.state]
        first, *rest = wrap(finding.text, room, hang="")
        console.print(Text.assemble((mark, style), f"  {finding.topic:<18} {first}"))
        for line in rest:
            console.print(start + line)
        a_command = re.search(r"\b(pip|apt|apt-get|sudo|sysctl) ", finding.remedy)  # to be copied
        for line in [finding.remedy] if a_command else wrap(finding.remedy, room, hang=""):
            if line:
                console.print(Text(start + line, style="dim"))
    if found.works:
        console.print("\nKernels can be graded on this machine.")
        return 0
    console.print("\nKernels cannot be graded yet: fix what is marked !! above.")
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
