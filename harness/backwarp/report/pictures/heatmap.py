"""Where an output is wrong: its elements, laid out by their axes, coloured by the size of their error."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from ...grading.verdict import Verdict
from .canvas import FAINT, GAP, HEAD, INK, LEFT, LETTER, READABLE, WIDTH, Pen, corner, extent, planes

RIGHT, UNWRITTEN, NOT_A_NUMBER = "#ffffff", "#bbbbbb", "#000000"
LEAST, MOST = 0.0, 6.0  # decades of error, relative to the tolerance, that the colours span
LARGEST = 56  # side of a cell
DARK = 1e4  # error from which on a cell is dark
PALETTE = colormaps["YlOrBr"]  # distinguishable from grey by colour-blind readers; dark means far off
TOP = 105


def error_picture(verdict: Verdict) -> Figure | None:
    """The heat map of a wrong output; None if the verdict has no error map."""
    if not (found := verdict.error_map):
        return None
    shape, errors = tuple(found["shape"]), np.array(found["errors"], dtype=float)
    letters = found["axes"]
    columns, rows = extent(shape)
    side = min(LARGEST, (WIDTH - LEFT - GAP) / columns, 900 / rows)
    bottom = TOP + rows * side
    pen = Pen(bottom + 72, side)
    axes = " x ".join(letters) + " = " + " x ".join(map(str, shape))
    pen.text(LEFT, 24, f"{found['array']} ({axes})", "title")
    wrong = int(np.count_nonzero(errors != 0))
    says = f"{verdict.kernel}, case {verdict.case}: {wrong} of {errors.size} elements are wrong"
    pen.text(LEFT, 50, says, "label", FAINT)
    for flat, error in enumerate(errors):
        x, y = corner((LEFT, TOP), shape, flat, side)
        pen.cell(x, y, colour(error))
    numbered = side >= READABLE and "got" in found
    if numbered:
        write_numbers(pen, found, shape, side)
    name_planes(pen, letters, shape, side)
    legend(pen, bottom + 28)
    if numbered:
        pen.text(LEFT, bottom + 52, "numbers: the kernel's, and below it the expected one", "label", FAINT)
    return pen.figure


def write_numbers(pen: Pen, found: Mapping, shape: tuple[int, ...], side: float) -> None:
    """In each wrong cell what the kernel stored, above what was expected."""
    for flat, (error, got, expected) in enumerate(
        zip(found["errors"], found["got"], found["expected"], strict=True)
    ):
        if error == 0:
            continue
        x, y = corner((LEFT, TOP), shape, flat, side)
        ink = "white" if error > DARK else INK
        if not math.isnan(error):
            pen.text(x + side / 2, y + side * 0.34, short(got), "value", ink, "center")
        pen.text(x + side / 2, y + side * 0.74, short(expected), "index", ink, "center")


def short(number: float) -> str:
    """In at most four letters and a sign."""
    texts = (f"{number:.{digits}g}".replace("e+0", "e").replace("e-0", "e-") for digits in (4, 3, 2, 1))
    return next((text for text in texts if len(text.lstrip("-")) <= 4), "")


def colour(error: float) -> str:
    """The colour of an error relative to the tolerance."""
    if error == 0:
        return RIGHT
    if math.isnan(error):
        return UNWRITTEN
    if math.isinf(error):
        return NOT_A_NUMBER
    share = (math.log10(max(error, 1.0)) - LEAST) / (MOST - LEAST)
    red, green, blue, _ = PALETTE(min(0.95, 0.2 + 0.75 * share))
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def name_planes(pen: Pen, letters: str, shape: tuple[int, ...], side: float) -> None:
    """Names of the planes, if there is room, and of the axes within one."""
    across, down = planes(shape)
    rows, columns = (shape[-2] if len(shape) > 1 else 1), shape[-1]
    if across * down > 1:
        step_x, step_y = (columns + 0.5) * side, (rows + 0.5) * side
        room = max(1, math.ceil(LETTER * 5 / step_x))
        for i in range(0, across, room):
            middle = LEFT + i * step_x + columns * side / 2
            pen.text(middle, TOP - 12, f"{letters[-3]}={i}", "axis", FAINT, "center")
        if len(shape) > 3:
            room = max(1, math.ceil(14 / step_y))
            for i in range(0, down, room):
                middle = TOP + i * step_y + rows * side / 2
                pen.text(LEFT - 5, middle, f"{letters[-4]}={i}", "axis", FAINT, "right")
        inside = f"in each plane: {letters[-1]} to the right" + (
            f", {letters[-2]} down" if len(shape) > 1 else ""
        )
        pen.text(LEFT, TOP - HEAD - 5, inside, "label", FAINT)
        return
    if side >= READABLE:
        for i in range(columns):
            pen.text(LEFT + (i + 0.5) * side, TOP - 12, f"{letters[-1]}={i}", "axis", FAINT, "center")
        for i in range(rows if len(shape) > 1 else 0):
            pen.text(LEFT - 5, TOP + (i + 0.5) * side, f"{letters[-2]}={i}", "axis", FAINT, "right")


def legend(pen: Pen, y: float) -> None:
    x = float(LEFT)
    for fill, says in legend_items().items():
        pen.cell(x, y - 8, fill, side=16)
        pen.text(x + 22, y, says, "label", INK)
        x += 22 + LETTER * len(says) + 8


def legend_items() -> Mapping[str, str]:
    return {
        RIGHT: "right",
        colour(10): "10 times what is allowed",
        colour(1e3): "1,000 times",
        colour(1e6): "a million",
        UNWRITTEN: "not written",
        NOT_A_NUMBER: "NaN or infinite",
    }
