"""Grids of cells side by side, with headings and a legend: the building blocks of memory maps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .canvas import COLOURS, DPI, FAINT, INK, LETTER, Pen

# pixels: left of a panel; above the first heading; a line of a heading; names of columns; below a panel
EDGE, TOP, LINE, HEAD, BELOW = 46, 84, 19, 12, 26
#: the states of a cell, and how each is drawn
INKS = {
    "": "#ffffff",
    "read": "#2b7bba",
    "moved": COLOURS["read"],
    "written": COLOURS["write"],
    "other": "#f6d58e",
    "step 0": "#08519c",
    "step 1": "#6baed6",
    "step 2": "#deebf7",
}
DARK = {"read", "step 0"}


@dataclass
class Panel:
    """A grid of cells. cells: [rows][columns], of INKS. texts: (row, column) -> the text in the cell.

    rule: the number of columns and rows between darker lines (0: none). across, down: (place, text) beside
    columns and rows. frame: (row, column, rows, columns) outlined in a thick line. gap: pixels left free
    above.
    """

    heading: list[str]
    cells: np.ndarray
    side: float
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    rule: tuple[int, int] = (0, 0)
    across: list[tuple[int, str]] = field(default_factory=list)
    down: list[tuple[int, str]] = field(default_factory=list)
    frame: tuple[int, int, int, int] | None = None
    gap: float = 0.0


def blank(rows: int, columns: int) -> np.ndarray:
    return np.full((rows, columns), "", dtype="<U8")


def draw(title: str, note: str, columns: list[list[Panel]], legend: dict[str, str]) -> Figure:
    """Columns of panels, side by side. legend: of INKS -> what it means."""
    bottom = max(TOP + sum(map(height, panels)) for panels in columns)
    pen = Pen(bottom + BELOW, columns[0][0].side)
    pen.text(EDGE, 24, title, "title")
    pen.text(EDGE, 50, note, "label", FAINT)
    x = float(EDGE)
    for panels in columns:
        y = float(TOP)
        for p in panels:
            y += p.gap
            for i, line in enumerate(p.heading):
                pen.text(x, y + LINE * i, line, "label", FAINT if i else INK)
            draw_cells(pen, p, x, y + LINE * len(p.heading) + HEAD)
            y += height(p) - p.gap
        x += max(max(p.cells.shape[1] * p.side, LETTER * max(map(len, p.heading))) for p in panels) + EDGE
    x = float(EDGE)
    for ink, says in legend.items():
        pen.cell(x, bottom - 8, INKS[ink], side=16)
        pen.text(x + 22, bottom, says, "label")
        x += 22 + LETTER * len(says) + 14
    return pen.figure


def height(p: Panel) -> float:
    """Its height, including the heading above and a gap below."""
    return p.gap + LINE * len(p.heading) + HEAD + p.cells.shape[0] * p.side + BELOW


def letters_of(p: Panel) -> float:
    """The largest size, in points, in which the longest text fits its cell. A letter is 0.62 times as wide as high."""
    points = p.side * 72 / DPI
    return min(10.0, 0.6 * points, 0.82 * points / 0.62 / max(map(len, p.texts.values()), default=1))


def draw_cells(pen: Pen, p: Panel, x0: float, y0: float) -> None:
    rows, columns = p.cells.shape
    pen.sizes["value"] = letters_of(p)
    for row in range(rows):
        for column in range(columns):
            ink = p.cells[row, column]
            x, y = x0 + column * p.side, y0 + row * p.side
            pen.cell(x, y, INKS[ink], side=p.side)
            if text := p.texts.get((row, column)):
                colour = "#ffffff" if ink in DARK else INK
                pen.text(x + p.side / 2, y + 0.54 * p.side, text, "value", colour, "center")
    right, below = x0 + columns * p.side, y0 + rows * p.side
    style = {"color": "#444444", "linewidth": 1.2, "zorder": 3}
    for x in np.arange(x0, right + 1, p.rule[0] * p.side) if p.rule[0] else ():
        pen.axes.plot([x, x], [y0, below], **style)
    for y in np.arange(y0, below + 1, p.rule[1] * p.side) if p.rule[1] else ():
        pen.axes.plot([x0, right], [y, y], **style)
    if p.frame:
        row, column, down, across = (n * p.side for n in p.frame)
        corners = {"facecolor": "none", "edgecolor": INK, "linewidth": 2.5, "zorder": 4}
        pen.axes.add_patch(Rectangle((x0 + column, y0 + row), across, down, **corners))
    for column, text in p.across:
        pen.text(x0 + (column + 0.5) * p.side, y0 - 9, text, "axis", FAINT, "center")
    for row, text in p.down:
        pen.text(x0 - 5, y0 + (row + 0.5) * p.side, text, "axis", FAINT, "right")
