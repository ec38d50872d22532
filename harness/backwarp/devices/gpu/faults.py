"""What CUDA's errors say about a kernel."""

from __future__ import annotations

import os
import re

from backwarp.devices.launching import Launch, cut_output
from backwarp.errors import KernelFault

_OUTSIDE = "The kernel read or wrote memory outside every array"
# CUDA's error -> (kind of fault, explanation). All of these leave the context unusable.
FAULTS = {
    "IllegalAddress": ("invalid-address", _OUTSIDE),
    "MisalignedAddress": ("misaligned", "An address was not a multiple of the access size"),
    "Assert": ("assert", "An assert() in the kernel failed"),
    "LaunchTimeout": ("timeout", "The driver's watchdog ended the kernel"),
    "HardwareStackError": (
        "stack-overflow",
        "The kernel's stack is exhausted: recursion too deep, or local arrays too large",
    ),
    "InvalidAddressSpace": ("invalid-address", "An instruction for one memory space accessed another"),
    "InvalidPc": (
        "invalid-address",
        "The kernel called something that is not a function: was the pointer ever set?",
    ),
    "IllegalInstruction": (
        "invalid-address",
        "The kernel ran into __trap(), or called something that is not a function: was the pointer ever set?",
    ),
    "LaunchFailure": (
        "invalid-address",
        "The GPU stopped the kernel without saying why; most often it accessed memory outside every array",
    ),
}
_ASSERT = re.compile(
    r"^(?P<file>.*?):(?P<line>\d+): .*?block: \[(?P<block>[\d,]+)\], thread: \[(?P<thread>[\d,]+)\] "
    r"(?P<what>Assertion `.*` failed)\.?\n?",
    re.MULTILINE,
)


def error_name(error: Exception) -> str:
    """`IllegalAddress` for cudaErrorIllegalAddress and for CUDA_ERROR_ILLEGAL_ADDRESS."""
    name = str(error).split(":", 1)[0].strip()
    if name.startswith("CUDA_ERROR_"):
        name = "".join(word.capitalize() for word in name.removeprefix("CUDA_ERROR_").split("_"))
        return {"LaunchFailed": "LaunchFailure", "OutOfMemory": "MemoryAllocation"}.get(name, name)
    return name.removeprefix("cudaError")


def fault_of(name: str, text: str, printed: str) -> KernelFault:
    """name: a key of FAULTS. text: CUDA's message. printed: the kernel's output, and CUDA's message about an
    assert()."""
    kind, explanation = FAULTS[name]
    headline = text.split(":", 1)[-1].strip() + f" (cudaError{name})"
    fault = KernelFault(kind, headline, explanation, line=0)
    fault.launch = Launch(*cut_output(_ASSERT.sub("", printed)))
    if kind == "assert" and (match := _ASSERT.search(printed)):
        fault.file, fault.line = os.path.basename(match["file"]), int(match["line"])
        fault.block = tuple(int(n) for n in match["block"].split(","))
        fault.thread = tuple(int(n) for n in match["thread"].split(","))
        fault.headline = match["what"]
    return fault
