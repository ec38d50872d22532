"""CUDA's error codes: their numbers and names from its header, and what is said of them."""

from __future__ import annotations

import re
from functools import cache

from ..devices.nvrtc import library

_SAID = {
    0: "no error",
    1: "invalid argument",
    2: "out of memory",
    3: "initialization error",
    9: "invalid configuration argument",
    13: "invalid device symbol",
    17: "invalid device pointer",
    21: "invalid copy direction for memcpy",
    35: "CUDA driver version is insufficient for CUDA runtime version",
    98: "invalid device function",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    200: "device kernel image is invalid",
    209: "no kernel image is available for execution on the device",
    217: "peer access is not supported between these two devices",
    400: "invalid resource handle",
    600: "device not ready",
    700: "an illegal memory access was encountered",
    701: "too many resources requested for launch",
    702: "the launch timed out and was terminated",
    704: "peer access is already enabled",
    705: "peer access has not been enabled",
    710: "device-side assert triggered",
    714: "operation not supported on global/shared address space",
    715: "an illegal instruction was encountered",
    716: "misaligned address",
    719: "unspecified launch failure",
    720: "too many blocks in cooperative launch",
    801: "operation not supported",
    999: "unknown error",
}


@cache
def codes() -> dict[int, tuple[str, str]]:
    """By number, the name and what cudaGetErrorString() says. Errors: DeviceError without CUDA's headers."""
    text = (library.cuda_headers() / "driver_types.h").read_text(encoding="utf-8", errors="replace")
    body = text[text.index("cudaSuccess") :]
    found = re.findall(r"^\s*(cudaSuccess|cudaError\w+)\s*=\s*(\d+)", body[: body.index("};")], re.MULTILINE)
    return {int(number): (name, _SAID.get(int(number)) or _words(name)) for name, number in found}


def number(name: str) -> int:
    """Of a name such as cudaErrorInvalidValue; cudaErrorUnknown's where there is none."""
    return next((code for code, (known, _) in codes().items() if known == name), 999)


def _words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name.removeprefix("cudaError")).lower()
