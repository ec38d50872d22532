"""The roofline of a GPU with the rungs of each ladder under it, from the figures of harness/backwarp/measure/ladder.py."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from ...measure.ladder import LADDERS, intensity, rungs_of
from ...measure.peaks import Peak, named, of_device
from .ladder import FAINT, INK, LAST, number

PICTURE = ".github/roofline.png"
COUNTED, ROOF = "#2b7bba", "#222222"
LEFT, RIGHT = 0.05, 2000.0  # FLOP per byte


def picture(data: dict, gpu: str = "H200") -> Figure:
    """A panel for each ladder: its rungs by their counts and, if measured, by their times."""
    timed = next((rung["gpu"]["device"] for rung in data["rungs"] if rung.get("gpu")), "")
    peak = of_device(timed) or named(gpu)
    ladders = [(ladder, found) for ladder in LADDERS if (found := rungs_of(data, ladder.name))]
    figure = Figure(figsize=(4.0 * len(ladders), 4.1), dpi=100)
    panels = figure.subplots(1, len(ladders), squeeze=False, sharey=True)[0]
    for axes, (ladder, found) in zip(panels, ladders):
        draw_roof(axes, peak)
        for i, rung in enumerate(found):
            draw_rung(axes, rung, peak, below=i % 2 == 1)
        best = found[-1]["formula_flop"] / found[-1]["least_bytes"]
        ring = {"color": "white", "markeredgecolor": LAST, "markersize": 8, "markeredgewidth": 2}
        axes.plot(best, peak.limit(best), "o", **ring)
        label(axes, best, peak.limit(best), "every array\nmoved once", (0, -14), "center", "top")
        axes.set_title("\n".join(textwrap.wrap(ladder.title, 40)), fontsize=9.5, color=INK)
        axes.set_xlabel("FLOP per byte moved", fontsize=9, color=FAINT)
    panels[0].set_ylabel("TFLOP/s, at most", fontsize=9, color=FAINT)
    figure.text(0.01, 0.015, footnote(data, peak), fontsize=8.5, color=FAINT)
    figure.tight_layout(rect=(0, 0.075, 1, 1))
    return figure


def draw_roof(axes, peak: Peak) -> None:
    x = np.array([LEFT, peak.ridge(), RIGHT])
    axes.plot(x, [peak.limit(value) for value in x], color=ROOF, linewidth=1.6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(LEFT, RIGHT)
    axes.set_ylim(peak.limit(LEFT) / 2, 4 * peak.float32)
    label(axes, RIGHT, peak.float32, f"{peak.float32:g} TFLOP/s float32", (-4, 4), "right", "bottom", FAINT)
    label(axes, 1.6, peak.limit(1.6), f"{peak.memory:g} TB/s", (-6, 4), "right", "bottom", FAINT)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8, colors=FAINT)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_rung(axes, rung: dict, peak: Peak, below: bool) -> None:
    x = intensity(rung)
    y = peak.limit(x)
    axes.plot(x, y, "o", color=COUNTED, markersize=8)
    place = ((7, -4), "left", "top") if below else ((-7, 3), "right", "bottom")
    label(axes, x, y, number(rung), *place, COUNTED)
    if gpu := rung.get("gpu"):
        axes.plot([x, x], [y, gpu["tflops"]], color=LAST, linewidth=1, linestyle=":")
        axes.plot(x, gpu["tflops"], "s", color=LAST, markersize=7)


def label(axes, x: float, y: float, text: str, offset, align: str, above: str, colour: str = INK) -> None:
    """Text beside a point, `offset` in points."""
    axes.annotate(
        text,
        (x, y),
        xytext=offset,
        textcoords="offset points",
        fontsize=8.5,
        ha=align,
        va=above,
        color=colour,
    )


def footnote(data: dict, peak: Peak) -> str:
    times = (
        " Squares: measured." if any(rung.get("gpu") for rung in data["rungs"]) else " Nothing here is timed."
    )
    return (
        f"{peak.name}: published peaks. Points: the limit at the bytes that requests move with no cache,\n"
        f"counted on the virtual GPU, {data['date']}.{times}"
    )


def save(data: dict, root: Path) -> Path:
    path = root / PICTURE
    picture(data).savefig(path)
    return path
