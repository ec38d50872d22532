"""The peak rates of GPUs, as published by their makers; nothing here is measured."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import CourseError


@dataclass(frozen=True)
class Peak:
    """TFLOP/s without sparsity: float32 of the CUDA cores, TF32 and half of the tensor cores; TB/s of memory;
    GB/s of the bus to the host, in each direction.

    devices: CUDA's names for it.
    """

    name: str
    float32: float
    tf32: float
    half: float
    memory: float
    bus: float
    source: str
    devices: tuple[str, ...]

    def ridge(self, kind: str = "float32") -> float:
        """FLOP per byte above which arithmetic, not memory, is the limit."""
        return getattr(self, kind) / self.memory

    def limit(self, intensity: float, kind: str = "float32") -> float:
        """The attainable TFLOP/s at this arithmetic intensity (FLOP per byte): the roofline."""
        return min(getattr(self, kind), intensity * self.memory)


PEAKS = (
    Peak("H200", 66.9, 494.7, 989.4, 4.8, 64, "NVIDIA H200 data sheet", ("NVIDIA H200",)),
    Peak(
        "H100",
        66.9,
        494.7,
        989.4,
        3.35,
        64,
        "NVIDIA H100 data sheet and architecture white paper, SXM5",
        ("NVIDIA H100 80GB HBM3",),
    ),
    Peak(
        "A100", 19.5, 156.0, 312.0, 2.039, 32, "NVIDIA A100 data sheet, SXM 80 GB", ("NVIDIA A100-SXM4-80GB",)
    ),
)


def of_device(name: str) -> Peak | None:
    """The peaks of a device by CUDA's name for it; None if they are not known."""
    return next((p for p in PEAKS if name in p.devices), None)


def named(name: str) -> Peak:
    """Errors: CourseError for a name that is not in the table."""
    for peak in PEAKS:
        if peak.name.lower() == name.strip().lower():
            return peak
    raise CourseError(f"no peaks are known for {name!r}; known: {', '.join(p.name for p in PEAKS)}")
