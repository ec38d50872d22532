"""How long a kernel keeps each unit of a multiprocessor busy, from its counts: the longest is the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from ...course.declare import Puzzle
from ...devices.virtual.explain import metrics as c
from ...measure.profile import profile_file
from .ladder import BAR, FAINT, INK, LAST

GPU = "H100"


@dataclass(frozen=True)
class Unit:
    """amount: its counted work. rate: how much of that a multiprocessor does per cycle."""

    name: str
    amount: Callable[[dict], int]
    rate: float
    noun: str


def float_operations(counts: dict) -> int:
    return sum(counts[f"fp32_{kind}"] for kind in ("add", "mul", "fma"))


def wavefronts(counts: dict) -> int:
    return counts["shared_load_wavefronts"] + counts["shared_store_wavefronts"]


#: of an H100 (NVIDIA H100 architecture white paper, SXM5): 4 schedulers, 128 lanes of float32; 494.7 TFLOP/s
#: of TF32 are 132 multiprocessors x 1,024 multiply-adds at 1.83 GHz; 3.35 TB/s are 13.9 bytes per
#: multiprocessor and cycle. Shared memory: 32 banks of 4 bytes.
UNITS = (
    Unit("arithmetic in float32", float_operations, 128, "of threads"),
    Unit("tensor cores, TF32", lambda n: n["flops_tensor"] // 2, 1024, "multiply-adds"),
    Unit("instructions issued", lambda n: n["warp_instructions"], 4, "of warps"),
    Unit("shared memory", wavefronts, 1, "wavefronts"),
    Unit("global memory, with no cache", c.global_bytes, 13.9, "bytes"),
)


def units_picture(puzzle: Puzzle, path: Path) -> Figure | None:
    """A panel for each kernel, in the counted case: a bar for each unit that is used."""
    kernels = profile_file(puzzle, path).kernels
    if not kernels:
        return None
    panels = [(k, [(u, n) for u in UNITS if (n := u.amount(k.counters))]) for k in kernels]
    heights = [len(bars) + 1.3 for _, bars in panels]
    figure = Figure(figsize=(8, 0.36 * sum(heights) + 0.6), dpi=100)
    all_axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (kernel, bars) in zip(all_axes, panels):
        cycles = [n / unit.rate for unit, n in bars]
        for row, ((unit, n), length) in enumerate(zip(bars, cycles)):
            axes.barh(row, length, height=0.72, color=LAST if length == max(cycles) else BAR)
            says = f"  {length:,.0f} cycles: {n:,} {unit.noun}, {unit.rate:,} in a cycle"
            axes.text(length, row, says, va="center", fontsize=8.5, color=INK)
        axes.set_yticks(range(len(bars)), [unit.name for unit, _ in bars], fontsize=9)
        axes.set_ylim(len(bars) - 0.5, -0.5)
        axes.set_xlim(0, 2.1 * max(cycles))
        axes.set_xticks([])
        axes.tick_params(left=False)
        for side in ("top", "right", "bottom"):
            axes.spines[side].set_visible(False)
        title = f"{kernel.kernel}, case {kernel.case}"
        axes.set_title(title, loc="left", fontsize=10, color=INK, x=0, fontweight="bold")
    told = f"Counted in PTX on the virtual GPU; published rates of one multiprocessor of an {GPU}. Nothing is timed."
    figure.text(0.01, 0.012, told, fontsize=8.5, color=FAINT)
    figure.tight_layout(rect=(0, 0.04, 1, 1), h_pad=1.0)
    return figure
