"""Common processors, for which a release brings machine code, and which of them this one is: without LLVM."""

from __future__ import annotations

import platform
from pathlib import Path

#: processors that a release has the runtime's machine code for, the best first: LLVM's features of each
LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl avx2 avx bmi bmi2 f16c fma lzcnt movbe popcnt",
    "x86-64-v3": "avx2 avx bmi bmi2 f16c fma lzcnt movbe popcnt",
    "neon": "neon",  # every 64-bit ARM processor
}
_SAME = {"bmi": "bmi1", "lzcnt": "abm"}  # in Linux's words


def levels_here() -> list[str]:
    """Those of LEVELS whose code this processor runs, the best first; reads the kernel's list, without LLVM."""
    if platform.machine() != "x86_64":  # in an emulator the list is of another processor
        return ["neon"] * (platform.machine() == "aarch64")
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return []
    flags = next(
        (set(row.split(":")[1].split()) for row in text.splitlines() if row.startswith("flags")), set()
    )
    return [
        level
        for level, names in LEVELS.items()
        if level != "neon" and flags.issuperset(_SAME.get(n, n) for n in names.split())
    ]
