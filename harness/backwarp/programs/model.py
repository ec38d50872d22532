"""How long copies and kernels take on a card, by its data sheet: each at one rate, which real ones stay below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..devices.virtual.explain import metrics
from ..measure.peaks import PEAKS, Peak
from ..streams.order import START

DEFAULT = "A100"


@dataclass(frozen=True)
class Model:
    """All results are ns. An operation begins START after what it waits for; the card does one copy in each direction and one kernel
    at a time."""

    peak: Peak = next(p for p in PEAKS if p.name == DEFAULT)

    def copied(self, nbytes: int) -> int:
        return START + round(nbytes / self.peak.bus)

    def filled(self, nbytes: int) -> int:
        return START + round(nbytes / (1000 * self.peak.memory))

    def moved(self, nbytes: int) -> int:
        """Within the device: read and written."""
        return self.filled(2 * nbytes)

    def computed(self, counters: Mapping[str, int]) -> int:
        """The longer of its arithmetic and its bytes of global memory, none of which is found in a cache."""
        tensor = counters.get("flops_tensor", 0)
        arithmetic = (metrics.flops(counters) - tensor) / self.peak.float32 + tensor / self.peak.half
        return START + round(max(arithmetic, metrics.global_bytes(counters) / self.peak.memory) / 1000)

    def __str__(self) -> str:
        p = self.peak
        return f"{p.name}: {p.bus:g} GB/s each way, memory {p.memory:g} TB/s, {p.float32:g} TFLOP/s"
