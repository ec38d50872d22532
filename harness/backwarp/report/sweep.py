"""A sweep over a puzzle's constants as a table and a plot: each count as a share of its limit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import ceil, floor, log2
from typing import TYPE_CHECKING, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..devices.nvrtc import ptxas
from ..grading.gates import Measure, number
from ..grading.quantities import quantity
from ..measure.sweep import Row, result, shown
from .terminal import terminal_width, wants_colour
from .terminal import wrap as wrap_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 1.0  # % of a limit, on the logarithmic axis
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def limits_of(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(kernel, quantity) of every limit that has a place in the table: those that a puzzle is about, and those that some
    row is over."""
    found: dict[tuple[str, str], bool] = {}
    for m in (m for row in rows for m in row.measures):
        key = m.kernel, m.quantity
        found[key] = found.get(key, False) or m.idea or not m.passed
    return [key for key, kept in found.items() if kept]


def measure_of(row: Row, limit: tuple[str, str]) -> Measure | None:
    """The count of a row for a limit; if it is counted with several sizes, the one that fails."""
    own = [m for m in row.measures if (m.kernel, m.quantity) == limit]
    return next((m for m in own if not m.passed), own[0] if own else None)


def share(m: Measure) -> float:
    """Of its limit; a count of nothing where nothing is allowed is within it."""
    return m.value / m.most if m.most else float("inf") if m.value else 0.0


def show_sweep(rows: Sequence[Row], stream: TextIO | None = None) -> None:
    """Writes the table, what its columns are, and which values pass."""
    stream = stream or sys.stdout
    colour, width = wants_colour(stream), terminal_width(stream)
    console = Console(file=stream, width=width, highlight=False, force_terminal=colour, no_color=not colour)
    limits = limits_of(rows)
    console.print(table_of(rows, limits), soft_wrap=True)
    console.print()
    for letter, (kernel, name) in zip(LETTERS, limits):
        of = f" ({kernel})" if len({k for k, _ in limits}) > 1 else ""
        for part in wrap_text(f"{letter}: {quantity(name).noun}{of}, in % of the limit", width):
            console.print(part, soft_wrap=True)
    passing = [shown(row.values) for row in rows if row.passes]
    best = f"{len(passing)} of {len(rows)} pass" + (f": {', '.join(passing)}" if passing else "")
    for part in wrap_text(f"{best}.", width):
        console.print(part, soft_wrap=True)
    if not any(row.resources for row in rows):
        for part in wrap_text(f"Registers and occupancy need NVIDIA's ptxas: {ptxas.INSTALL}", width):
            console.print(part, soft_wrap=True)


def table_of(rows: Sequence[Row], limits: Sequence[tuple[str, str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    names = list(rows[0].values)
    known = any(row.resources for row in rows)
    for head in [*names, *LETTERS[: len(limits)], *(("regs", "occ.") if known else ())]:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("result", overflow="ellipsis", no_wrap=True)
    for row in rows:
        cells = [Text(str(row.values[name])) for name in names]
        cells += [cell(measure_of(row, limit)) for limit in limits]
        if known:
            cells.append(Text(str(row.resources.registers) if row.resources else ""))
            cells.append(Text(f"{100 * row.occupancy.share:.0f} %" if row.occupancy else ""))
        passed = row.passes
        table.add_row(*cells, Text(result(row), "green" if passed else "yellow" if row.measures else "red"))
    return table


def cell(m: Measure | None) -> Text:
    if not m:
        return Text("")
    text = number(100 * share(m)) if m.most else number(m.value)
    if not m.passed and text == "100":
        text = "> 100"
    return Text(text, "" if m.passed else "yellow")


def picture(rows: Sequence[Row], title: str) -> Figure:
    """The share of every limit that each row uses; above 100 % it is over it."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    from .pictures.canvas import FAINT, INK, WRONG

    limits = limits_of(rows)
    figure = Figure(figsize=(max(6.4, 0.55 * len(rows) + 2.5), 4.8), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    for i, limit in enumerate(limits):
        found = [(x, measure_of(row, limit)) for x, row in enumerate(rows)]
        points = [(x, max(100 * share(m), LEAST)) for x, m in found if m and share(m) != float("inf")]
        axes.plot(
            *zip(*points), marker="os^Dv<>"[i % 7], markersize=6, linewidth=1, label=quantity(limit[1]).noun
        )
    axes.axhline(100, color=WRONG, linestyle="--", linewidth=1.2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    low, high = (log2(y / 100) for y in axes.get_ylim())
    axes.yaxis.set_major_locator(FixedLocator([100 * 2.0**n for n in range(ceil(low), floor(high) + 1)]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("share of the limit", color=FAINT)
    axes.set_xticks(range(len(rows)), ["\n".join(f"{k} {v}" for k, v in row.values.items()) for row in rows])
    for label, row in zip(axes.get_xticklabels(), rows, strict=True):
        passed = row.passes
        label.set(color=INK if passed else FAINT, fontsize=8, fontweight="bold" if passed else "normal")
    axes.set_title(f"{title}: bold values pass", fontsize=11, color=INK)
    figure.legend(fontsize=8, loc="outside lower center", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
