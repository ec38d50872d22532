"""What a kernel needs on real hardware, determined without hardware by NVIDIA's assembler `ptxas`, if
installed.

It is in the wheel nvidia-cuda-nvcc, and in the CUDA toolkit. Limits of a multiprocessor: CUDA C++ Programming
Guide, table of technical specifications per compute capability.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

INSTALL = "pip install nvidia-cuda-nvcc"
ARCH = "sm_80"
_SECONDS = 30
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class Multiprocessor:
    """The resources of a multiprocessor of some architecture. shared: bytes for all its blocks."""

    warps: int = 64
    blocks: int = 32
    registers: int = 65536
    shared: int = 164 << 10


ARCHITECTURES = {"sm_80": Multiprocessor(), "sm_90": Multiprocessor(shared=228 << 10)}


@dataclass(frozen=True)
class Resources:
    """What one kernel needs: registers per thread; bytes of static shared memory, stack and spilled
    registers."""

    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that one multiprocessor can hold; limit: the resource that runs out first."""

    blocks: int
    warps: int
    of: int
    limit: str
    arch: str = ARCH

    @property
    def share(self) -> float:
        return self.warps / self.of


def find() -> str | None:
    """The newest ptxas among this environment's wheels, else the one on the PATH."""
    found = []
    for folder in sys.path:
        found += Path(folder or ".").glob("nvidia/*/bin/ptxas")
    found = [str(path) for path in found if os.access(path, os.X_OK)]
    return max(found, default=None) or shutil.which("ptxas")


def target(ptx: str) -> str:
    """The architecture that a file is assembled for: ARCH, if it asks for no later one."""
    return max(ARCH, *re.findall(r"^\.target (sm_\w+)", ptx, re.MULTILINE))


def resources(ptx: str, arch: str = ARCH) -> tuple[dict[str, Resources], str]:
    """(kernel name in the PTX -> what it needs, ""), or ({}, a remedy) if that cannot be determined."""
    program = find()
    if program is None:
        return {}, f"need NVIDIA's ptxas: {INSTALL}"
    with tempfile.TemporaryDirectory(prefix="backwarp-") as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [program, "-v", f"-arch={arch}", str(source), "-o", str(Path(folder) / "kernel.cubin")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return {}, f"are not known: {program} does not run"
    log = done.stderr + done.stdout
    if done.returncode == 0:
        return parse(log), ""
    if "Unsupported .version" in log:
        return {}, f"need a newer ptxas than {program}: {INSTALL}"
    return {}, f"are not known: ptxas does not take the kernel ({next(iter(log.splitlines()), '')[:200]})"


def parse(log: str) -> dict[str, Resources]:
    """The report of `ptxas -v`."""
    found: dict[str, Resources] = {}
    name, stack = "", (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            name, stack = match[1], (0, 0, 0)
        elif match := _PROPERTIES.search(line):
            stack = tuple(map(int, match.groups()))
        elif name and (match := re.search(r"Used (\d+) registers", line)):
            shared = re.search(r"(\d+) bytes smem", line)
            found[name] = Resources(int(match[1]), int(shared[1]) if shared else 0, *stack)
            name = ""
    return found


def occupancy(needs: Resources, threads: int, dynamic_shared: int = 0, arch: str = ARCH) -> Occupancy:
    """The occupancy of a multiprocessor with blocks of `threads` threads. dynamic_shared: bytes per block."""
    arch = arch.rstrip("a")
    has = ARCHITECTURES[arch]
    warps = -(-threads // 32)
    per_warp = max(256, -(-needs.registers * 32 // 256) * 256)  # registers are allocated in units of 256
    shared = -(-(needs.shared + dynamic_shared + 1024) // 128) * 128  # the system takes 1 KiB per block
    by = {
        "blocks per multiprocessor": has.blocks,
        "warps per multiprocessor": has.warps // warps,
        # split evenly over the multiprocessor's four parts
        "registers": has.registers // per_warp // 4 * 4 // warps,
        "shared memory": has.shared // shared,
    }
    blocks = min(by.values())
    limit = next(name for name in ("registers", "shared memory", *by) if by[name] == blocks)
    if blocks * warps == has.warps:
        limit = ""
    return Occupancy(blocks, blocks * warps, has.warps, limit, arch)
