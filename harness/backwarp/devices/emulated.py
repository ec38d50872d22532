"""Whether an emulator runs this process on a processor of another kind, as Docker does for `--platform linux/amd64` on a Mac."""

from __future__ import annotations

import os
import platform
import re
from functools import cache

SLOWER = 20  # times, at most: so much longer everything may take


@cache
def patience() -> int:
    """What limits of time are multiplied by."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 12)  # the first processors
        program = os.readlink("/proc/thread-self/exe")  # of /proc/self QEMU says what it runs
    except OSError:
        return 1
    return SLOWER if is_emulated(platform.machine(), text, program) else 1


def is_emulated(machine: str, cpuinfo: str, program: str = "") -> bool:
    """machine: the architecture that this process sees. cpuinfo: what the kernel, or the emulator, says of the processor.
    program: the file that the kernel runs."""
    if re.match(r"qemu-|rosetta", os.path.basename(program)):
        return True
    rows = {row.split("\t")[0].rstrip(" :") for row in cpuinfo.splitlines()}
    if machine == "x86_64":
        return "VirtualApple" in cpuinfo or bool(rows) and "flags" not in rows
    return machine == "aarch64" and "flags" in rows
