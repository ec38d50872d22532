"""Describes the machine: GPU, clocks, driver, tools, packages."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ...devices.virtual.explain.metrics import METRICS
from ...errors import DeviceError
from . import tools
from .guarded import run

QUERIED = """
    name driver_version clocks.sm clocks.mem clocks.max.sm clocks.max.mem power.limit memory.total temperature.gpu
    ecc.mode.current mig.mode.current compute_mode
""".split()
PACKAGES = """
    cupy-cuda13x torch numpy cuda-bindings nvidia-cuda-nvrtc nvidia-cudnn-cu13 nvidia-cublas llvmlite tree-sitter
    tree-sitter-cuda pytest pytest-xdist
""".split()
#: what the items need to import
MODULES = (
    "cupy",
    "torch",
    "click",
    "cuda.bindings.nvrtc",
    "tree_sitter",
    "tree_sitter_cuda",
    "pytest",
    "xdist",
)
TOOLS = {"nvcc": "--version", "ncu": "--version", "compute-sanitizer": "--version"}


def metrics() -> list[str]:
    """The Nsight Compute metrics that METRICS names."""
    return list(dict.fromkeys(part for m in METRICS.values() for part in m.ncu.split(" + ") if part))


def look() -> dict:
    """The full description. `missing`: what keeps items from running."""
    from ...devices.gpu.device import GPU, driver
    from ...devices.nvrtc import library

    found = {
        "date": time.strftime("%Y-%m-%d"),
        "command": "python -m backwarp.maintain.hardware",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "cuda_driver": driver().version,
        "nvidia_smi": smi(),
        "tools": {
            name: last_line([path, how]) for name, how in TOOLS.items() if (path := shutil.which(name))
        },
        "packages": {name: version for name in PACKAGES if (version := installed(name))},
        "missing": [name for name in MODULES if not has(name)] + [t for t in TOOLS if not shutil.which(t)],
    }
    with GPU() as gpu:
        found |= {"device": gpu.name, "capability": gpu.capability}
    try:
        headers = str(library.cuda_headers())
    except DeviceError as error:  # few kernels need them
        headers = str(error)
        found["missing"].append("CUDA's headers")
    return found | {"nvrtc": library.version(), "headers": headers}


def smi() -> dict[str, str]:
    said = last_line(["nvidia-smi", f"--query-gpu={','.join(QUERIED)}", "--format=csv,noheader"])
    return dict(zip(QUERIED, map(str.strip, said.split(","))))


def unknown() -> list[str]:
    """The `metrics` that Nsight Compute does not have on this GPU: it lists them, and counts nothing."""
    refused: list[str] = []
    while wanted := [name for name in metrics() if name not in refused]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report"
            launcher = [sys.executable, "-m", "backwarp.maintain.hardware.launcher", "solution", "01", "each"]
            told = run(tools.profiled(launcher, wanted, str(report)), 90, report)
        errors = " ".join(
            line for line in (told.told + told.out + told.err).splitlines() if "==ERROR==" in line
        )
        named = [name for name in wanted if re.search(rf"\b{name.split('.')[0]}\b", errors)]
        if not named:
            break
        refused += named
    return refused


def has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def last_line(command: list[str]) -> str:
    return (said(command).strip().splitlines() or [""])[-1]


def said(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        return ""
