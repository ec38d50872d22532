"""The ladder in bytes: a picture and the table of LADDER.md, from the figures that harness/backwarp/measure/ladder.py
stores."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from ...course.declare import require
from ...devices.virtual.explain import metrics as c
from ...measure.ladder import LADDERS, intensity, moved, rungs_of
from ..profile import percent, scaled

PICTURE, PAGE = ".github/ladder.png", ".github/LADDER.md"
BEGIN, END = "<!-- python -m backwarp.maintain.ladder -->", "<!-- end of the ladder -->"
BAR, LAST, INK, FAINT = "#a6d8f5", "#e69f00", "#222222", "#555555"  # as in canvas.py
#: how a rung differs from the one before
WORDS = {
    "09": "a thread per weight",
    "21": "a block per weight",
    "22": "batch split, a filter row per block",
    "32": "tiles, nothing stored",
    "02": "a thread per element",
    "26": "tiles in shared memory",
    "27": "64 elements per thread",
}


def number(rung: dict) -> str:
    """`09`"""
    return rung["puzzle"].split("_")[0]


def name(rung: dict) -> str:
    """`a thread per weight (09)`"""
    return f"{WORDS.get(number(rung), rung['puzzle'][3:].replace('_', ' '))} ({number(rung)})"


# ---- the picture ---------------------------------------------------------------------------------------


def picture(data: dict) -> Figure:
    """A row of bars for each ladder: the bytes that every rung moves."""
    ladders = [(ladder, found) for ladder in LADDERS if (found := rungs_of(data, ladder.name))]
    heights = [len(found) + 1.3 for _, found in ladders]
    figure = Figure(figsize=(8, 0.36 * sum(heights) + 0.6), dpi=100)
    panels = figure.subplots(len(ladders), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (ladder, found) in zip(panels, ladders):
        for row, rung in enumerate(found):
            nbytes = moved(rung)
            axes.barh(row, nbytes, height=0.72, color=LAST if row == len(found) - 1 else BAR)
            told = scaled(nbytes, "B") + (
                f", {rung['gpu']['milliseconds']:.3g} ms" if rung.get("gpu") else ""
            )
            axes.text(nbytes, row, f"  {told}", va="center", fontsize=9, color=INK)
        least = found[-1]["least_bytes"]
        axes.axvline(least, color=FAINT, linewidth=1, linestyle=":")
        axes.set_yticks(range(len(found)), [name(rung) for rung in found], fontsize=9)
        axes.set_ylim(len(found) - 0.5, -0.5)
        room = 1.3 if any(rung.get("gpu") for rung in found) else 1.17  # for the text after the longest bar
        axes.set_xlim(0, room * max(map(moved, found)))
        axes.set_xticks([])
        axes.tick_params(left=False)
        for side in ("top", "right", "bottom"):
            axes.spines[side].set_visible(False)
        axes.set_title(ladder.title, loc="left", fontsize=10, color=INK, x=0, fontweight="bold")
    told = f"Bytes of global memory moved, counted on the virtual GPU, {data['date']}."
    device = next((f"\nTimes: {rung['gpu']['device']}." for rung in data["rungs"] if rung.get("gpu")), "")
    figure.text(0.01, 0.012, f"{told} Dotted: every array moved once.{device}", fontsize=8.5, color=FAINT)
    figure.tight_layout(rect=(0, 0.06 if device else 0.03, 1, 1), h_pad=1.0)
    return figure


def save(data: dict, root: Path) -> Path:
    path = root / PICTURE
    picture(data).savefig(path)
    return path


# ---- the table -----------------------------------------------------------------------------------------


def table(data: dict) -> list[str]:
    """Markdown: the counters of every rung and, if measured, the times and the share of the library's
    speed."""
    timed = [rung["gpu"] for rung in data["rungs"] if rung.get("gpu")]
    heads = ["", "moved", "sectors per load", "FLOP per byte", "warp instructions"]
    heads += ["ms", "TFLOP/s", "of cuDNN, cuBLAS"] if timed else []
    rows = [heads, ["---"] + ["---:"] * (len(heads) - 1)]
    for ladder in LADDERS:
        found = rungs_of(data, ladder.name)
        rows += [[f"*{ladder.title}*", *[""] * (len(heads) - 1)]] if found else []
        for rung in found:
            n = rung["counters"]
            row = [
                name(rung),
                scaled(moved(rung), "B"),
                f"{c.sectors_per_request(n):.1f}",
                f"{intensity(rung):.2f}",
                scaled(n["warp_instructions"]),
            ]
            rows.append(row + (time_cells(rung.get("gpu")) if timed else []))
    lines = ["| " + " | ".join(row).strip() + " |" for row in rows]
    devices = ", ".join(dict.fromkeys(f"{gpu['device']}, {gpu['date']}" for gpu in timed))
    return [*lines, *(["", f"Times: {devices}."] if timed else [])]


def time_cells(gpu: dict | None) -> list[str]:
    if not gpu:
        return ["", "", ""]
    share = percent(gpu["share_of_library"]) if "share_of_library" in gpu else ""
    return [f"{gpu['milliseconds']:.3g}", f"{gpu['tflops']:.3g}", share]


def to_page(data: dict, root: Path) -> Path:
    """Puts the table between its markers. Errors: CourseError if the page lacks them."""
    path = root / PAGE
    text = path.read_text(encoding="utf-8")
    require(text.count(BEGIN) == text.count(END) == 1, f"{path} needs the lines {BEGIN} and {END}, once each")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(before + "\n".join([BEGIN, "", *table(data), "", END]) + after, encoding="utf-8")
    return path
