"""The results of `backwarp bench`, and figures derived from them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from math import prod

from ..course.declare import Puzzle
from ..devices.virtual.explain import metrics as c
from ..grading.verdict import Verdict
from . import peaks

RIGHT, WRONG = "right", "wrong"


@dataclass
class Measured:
    """One kernel. flops: by the formula, None if there is none. least_bytes: every array moved once.

    ran: how many of the `blocks` were run; counters: for the launch, extrapolated if ran < blocks.
    milliseconds: one per timed launch. result: RIGHT, WRONG, or what was compared. baseline: see baseline.py.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    flops: int | None
    least_bytes: int
    arithmetic: str = "float32"  # the peak to compare with: a field of Peak
    ran: int = 0
    counters: dict = field(default_factory=dict)
    milliseconds: list[float] = field(default_factory=list)
    result: str = ""
    baseline: dict = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        return prod(self.grid)

    @property
    def sampled(self) -> bool:
        return 0 < self.ran < self.blocks

    @property
    def median(self) -> float:
        """Milliseconds; 0 if nothing was timed."""
        return statistics.median(self.milliseconds) if self.milliseconds else 0.0

    @property
    def work(self) -> int:
        """FLOP by the formula, else as counted."""
        return self.flops if self.flops is not None else c.flops(self.counters)

    @property
    def tflops(self) -> float:
        return self.work / self.median / 1e9 if self.median else 0.0

    @property
    def gigabytes(self) -> float:
        """GB/s, for the bytes that must move."""
        return self.least_bytes / self.median / 1e6 if self.median else 0.0


@dataclass
class BenchResult:
    """verdict: passed, or why nothing was measured. peak: the device's, or that of the chosen GPU."""

    puzzle: Puzzle
    verdict: Verdict
    dims: dict[str, int] = field(default_factory=dict)
    kernels: list[Measured] = field(default_factory=list)
    peak: peaks.Peak | None = None
    unused: tuple[str, ...] = ()


def chained(report: BenchResult, m: Measured) -> float:
    """Milliseconds of a kernel together with those that finish its work, such as a second pass."""
    after = {k.name for k in report.puzzle.followers(report.puzzle.kernel(m.kernel))}
    return m.median + sum(other.median for other in report.kernels if other.kernel in after)


def library_time(found: dict, arithmetic: str) -> float:
    """Milliseconds of the library in its best layout; 0 if there is none. found: see baseline.py."""
    rows = (r for r in found.get("rows", ()) if r["arithmetic"] == arithmetic and "milliseconds" in r)
    return min((statistics.median(row["milliseconds"]) for row in rows), default=0.0)


def intensities(m: Measured) -> tuple[float, float]:
    """FLOP per byte: (for the bytes that requests move, before any cache; if every array moved once)."""
    moved = c.global_bytes(m.counters)
    return (m.work / moved if moved else 0.0), (m.work / m.least_bytes if m.least_bytes else 0.0)


def least_times(m: Measured, peak: peaks.Peak) -> dict[str, float]:
    """Lower bounds in milliseconds from the counts: for memory without a cache, and for arithmetic."""
    moved, computed = c.global_bytes(m.counters), c.flops(m.counters)
    return {"memory": moved / peak.memory / 1e9, "arithmetic": computed / getattr(peak, m.arithmetic) / 1e9}


def bound(intensity: float, peak: peaks.Peak, kind: str) -> str:
    """`memory` or `arithmetic`."""
    return "memory" if intensity < peak.ridge(kind) else "arithmetic"
