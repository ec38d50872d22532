"""Devices that run kernels: a GPU through CuPy, or the virtual GPU. One interface (see virtual/device.py)."""

from __future__ import annotations

from ..errors import DeviceError
from ..system import require_linux

require_linux()

KINDS = ("auto", "gpu", "cpu")


def open_device(kind: str = "auto", checks: str = "full", seed: int = 0, confined: bool = False):
    """Open a device. kind: "gpu", "cpu" (the virtual GPU) or "auto": a GPU if there is one.

    checks: "full" | "memory" | "count" | "draft" | "none", for the virtual GPU. seed: determines the order of
    warps and blocks.
    confined: the virtual GPU runs kernels in a process without files, network or other processes.
    With full checks, kernels whose threads read what others change run in several orders of threads, and the
    arrays must agree: see virtual/explain/agreement, and `several_orders` and `agree` of the device.
    `device.reason` says which was chosen and why. Errors: DeviceError, which says what to install.
    """
    if kind not in KINDS:
        raise DeviceError(f"unknown device {kind!r}: one of {', '.join(KINDS)}")
    reason = "asked for"
    if kind in ("auto", "gpu"):
        from .gpu import device as gpu

        available, reason = gpu.available()
        if available:
            return gpu.GPU(checks=checks, seed=seed)
        if kind == "gpu":
            raise DeviceError(f"no GPU can be used: {reason}")
    if confined:
        from .virtual.confined import ConfinedGPU as VirtualGPU
    else:
        from .virtual.device import VirtualGPU

    device = VirtualGPU(checks, seed)
    device.reason = f"{device.name}: {reason}"
    return device


def end_processes() -> None:
    """End the processes that compile and run kernels; the next kernel starts new ones."""
    from .virtual.compile import build
    from .virtual.confined_process import PROCESS

    PROCESS.end()
    build.end()


def confined_device(kind: str = "auto", checks: str = "full", seed: int = 0):
    """`open_device` for untrusted kernels: on the virtual GPU they run confined."""
    return open_device(kind, checks, seed, confined=True)
