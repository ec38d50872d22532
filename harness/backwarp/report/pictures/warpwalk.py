"""A warp in its loop: which elements its lanes touch together, iteration by iteration, from a counted run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ...course.declare import Case, Kernel, Puzzle
from ...devices.virtual.explain.metrics import SECTOR, Request
from ...errors import CourseError
from .canvas import COLOURS, FAINT, IDLE, INK, LEFT, LETTER, Pen, arrange, corner, draw_array, of_case
from .counted import counted_run

MOST = 24  # iterations drawn at most
TOP = 92
LARGE = 4096  # arrays up to this many elements are drawn one by one


@dataclass
class Pass:
    """One iteration of the loop. kinds: (array, flat index) -> "read" | "write"; says: a line for each
    access."""

    kinds: dict[tuple[str, int], str]
    says: list[str]


def passes(found, arrays: list[str], block: int = 0, warp: int = 0) -> list[Pass]:
    """The requests of a warp, split into iterations: a new one begins when a line and array come up a second
    time."""
    done: list[Pass] = []
    seen: set[tuple[int, str]] = set()
    for r in found.requests:
        if (r.block, r.warp) != (block, warp) or r.space != "global":
            continue
        for name in arrays:
            elements = found.elements(name, r)
            elements = np.unique(elements[elements >= 0])
            if not elements.size:
                continue
            if (r.line, name) in seen or not done:
                seen.clear()
                done.append(Pass({}, []))
            seen.add((r.line, name))
            kind = "read" if r.kind == "load" else "write"
            done[-1].kinds |= {(name, int(e)): kind for e in elements}
            done[-1].says.append(sentence(r, name, elements, kind))
    return done


def sentence(r: Request, name: str, elements: np.ndarray, kind: str) -> str:
    sectors = len(np.unique(r.addresses[r.addresses >= 0] // SECTOR))
    verb = {"read": "reads", "write": "writes"}[kind]
    lanes = int((r.addresses >= 0).sum())
    return (
        f"line {r.line} {verb} {name}: {lanes} lane{'s' * (lanes != 1)}, {len(elements)} element"
        f"{'s' * (len(elements) != 1)}, {sectors} sector{'s' * (sectors != 1)}"
    )


def warp_picture(puzzle: Puzzle, case: Case, kernel: Kernel, source: str) -> Figure:
    """A picture of the first iteration."""
    return warp_frames(puzzle, case, kernel, source, most=1)[0]


def warp_frames(puzzle: Puzzle, case: Case, kernel: Kernel, source: str, most: int = MOST) -> list[Figure]:
    """A picture for each of the first iterations. Errors: CourseError if there are none, or the arrays are
    too large."""
    dims = puzzle.full_dims(case)
    shapes = {p.name: p.shape(dims) for p in kernel.by_threads}
    if sum(int(np.prod(shape)) for shape in shapes.values()) > LARGE:
        says = f"case {case.name} of {puzzle.id} is too large to draw"
        raise CourseError(f"{says}: choose a smaller one with --case")
    found = passes(counted_run(puzzle, case.name, kernel, source), [p.name for p in kernel.passed])
    if not found:
        raise CourseError(f"warp 0 of block 0 of {kernel.name} touches no array")
    title = f"{kernel.name}: warp 0 of block 0"
    titles = [f"{title}, pass {i + 1} of {len(found)}" for i in range(min(most, len(found)))]
    return [frame(kernel, shapes, found, i, titles[i], case) for i in range(len(titles))]


def frame(kernel: Kernel, shapes: Mapping, found: list[Pass], now: int, title: str, case: Case) -> Figure:
    """Pass `now`, with what was written, and earlier reads in grey."""
    cell, places, bottom = arrange(kernel, shapes, TOP, largest=40)
    lines = max(len(p.says) for p in found[:MOST])
    pen = Pen(bottom + 62 + 20 * lines, cell)
    pen.text(LEFT, 24, title, "title")
    pen.text(
        LEFT,
        50,
        of_case(case.name, "a pass ends where the warp comes to the same line again"),
        "label",
        FAINT,
    )
    for p in kernel.by_threads:
        draw_array(pen, kernel, p, shapes[p.name], places[p.name], found[now].kinds, None)
    before = {key: kind for earlier in found[:now] for key, kind in earlier.kinds.items()}
    for name, flat in sorted(before.keys() - found[now].kinds.keys()):
        x, y = corner(places[name], shapes[name], flat, pen.cell_size)
        pen.cell(x, y, COLOURS["write"] if before[name, flat] == "write" else IDLE)
    for i, line in enumerate(found[now].says):
        pen.text(LEFT, bottom + 26 + 20 * i, line, "label", INK)
    x = float(LEFT)
    for colour, says in ((COLOURS["read"], "read now"), (IDLE, "read before"), (COLOURS["write"], "written")):
        pen.cell(x, bottom + 30 + 20 * lines, colour, side=16)
        pen.text(x + 22, bottom + 38 + 20 * lines, says, "label")
        x += 22 + LETTER * len(says) + 14
    return pen.figure
