"""A picture of threads that add up a sum together: what each holds before every step, and whose number it
adds.

The numbers are those of the puzzle's first case, from a run of the solution. Who adds what comes from a
second run with random inputs, where each sum matches only one pair of numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from backwarp.course.declare import Case, Kernel, Puzzle
from backwarp.course.inputs import make_inputs
from backwarp.cuda.values import tunables
from backwarp.errors import CompileError, CourseError

from .canvas import COLOURS, FAINT, IDLE, INK, LARGEST, LEFT, LETTER, WIDTH, Pen, in_cells
from .probe import count

#: number of a puzzle -> a regular expression for the statements before which threads print an expression
WATCHED = {
    "19": (r"__syncthreads\(\);", "part[tid]"),
    "20": (r"value \+= __shfl[^;]*;|return value;", "value"),
}
WARP, SPACE, TOP = 32, 30, 92  # SPACE: between rows, for the lines; TOP: above the first row

Rows = list[list[float]]  # of every step, the number of every thread


@dataclass(frozen=True)
class Exchange:
    """The step from one row to the next. partner: thread -> the thread whose number it adds."""

    partner: dict[int, int]

    @property
    def label(self) -> str:
        """`+ 4` if every partner is 4 threads further on; `new` if the numbers come from elsewhere."""
        offsets = {u - t for t, u in self.partner.items()}
        return "new" if not offsets else f"+ {offsets.pop()}" if len(offsets) == 1 else ""


def watched(source: str, statement: str, expression: str) -> str:
    """`source`, with row 0 of block 0, 32 threads at most, printing `expression` before each `statement`."""
    printing = f'printf("%d %.9g\\n", threadIdx.x, {expression});'
    printing = f"if (blockIdx.x + blockIdx.y + threadIdx.y == 0 && threadIdx.x < {WARP}) {printing}"
    found, changes = re.subn(statement, lambda m: f"{{ {printing} {m[0]} }}", source)
    if not changes:
        raise CourseError(f"the file has no statement like {statement}")
    return found


def run(device, puzzle: Puzzle, case: Case, kernel: Kernel, source: str) -> Rows:
    """What the first warp of block 0 prints in a run of a watched source."""
    dims, inputs = puzzle.full_dims(case), make_inputs(puzzle, case, kernel)
    launch = kernel.launch(dims, tunables(source))
    arrays = {
        p.name: device.array(inputs[p.name], name=p.name)
        if p.name in inputs
        else device.empty(p.shape(dims), np.dtype(p.dtype), name=p.name)
        for p in kernel.passed
    }
    function = device.compile(source, include_dirs=puzzle.include_dirs).get_function(kernel.name)
    printed = launch.of(function, kernel.arguments(arrays, dims)).stdout
    threads: list[list[float]] = [[] for _ in range(min(count(launch.block), WARP))]
    for thread, value in map(str.split, printed.splitlines()):
        threads[int(thread)].append(float(value))
    return [list(row) for row in zip(*filter(None, threads), strict=True)]


def exchanges(rows: Rows) -> list[Exchange]:
    """Who adds whose number, step by step. rows: from a run with random numbers."""
    return [Exchange(partners(np.float32(a), np.float32(b))) for a, b in pairwise(rows)]


def partners(before: np.ndarray, after: np.ndarray) -> dict[int, int]:
    sums = before[:, None] + before
    np.fill_diagonal(sums, np.nan)
    found = ((t, np.flatnonzero(sums[t] == after[t])) for t in range(len(after)) if after[t] != before[t])
    return {t: int(u[0]) for t, u in found if len(u) == 1}


def needed(steps: list[Exchange]) -> list[set[int]]:
    """For every row, the threads whose numbers contribute to the last number of thread 0.

    New numbers come from what thread 0, and its counterparts in other warps, held before.
    """
    rows = [{0}]
    for step in reversed(steps):
        threads = rows[0] if step.partner else {0}
        rows.insert(0, threads | {step.partner[t] for t in threads if t in step.partner})
    return rows


def steps_picture(title: str, note: str, rows: Rows, steps: list[Exchange]) -> Figure:
    """The rows one below the other, with a line from every number to the thread that adds it."""
    side = min(LARGEST, (WIDTH - LEFT - 12) / len(rows[0]))
    pitch = side + SPACE
    pen = Pen(TOP + pitch * len(rows) + 20, side)
    pen.text(LEFT, 24, title, "title")
    pen.text(LEFT, 50, note, "label", FAINT)
    values, used = in_cells(np.array(rows)), needed(steps)
    for t in range(len(rows[0])):
        pen.text(LEFT + side * (t + 0.5), TOP - 10, str(t), "label" if side > 30 else "axis", FAINT, "center")
    for i in range(len(rows)):
        y = TOP + pitch * i
        partner = steps[i - 1].partner if i else {}
        ahead = steps[i].partner if i < len(steps) else {}
        read = {u for t, u in ahead.items() if t in used[i + 1]}
        pen.text(LEFT - 6, y + side / 2, steps[i - 1].label if i else "", "axis", FAINT, "right")
        for t in range(len(rows[0])):
            x = LEFT + side * t
            idle = t not in used[i]
            kind = "write" if t in partner else "read" if t in read else ""
            pen.cell(x, y, IDLE if idle else COLOURS[kind])
            if values:
                text = values[i * len(rows[0]) + t]
                pen.text(x + side / 2, y + side / 2, text, "value", FAINT if idle else INK, "center")
            for source in {t, partner[t]} if t in partner and not idle else ():
                at = LEFT + side * (source + 0.5)
                pen.axes.plot([at, x + side / 2], [y - SPACE, y], color="#777777", linewidth=0.9, zorder=0)
    draw_legend(pen, TOP + pitch * len(rows) - 2)
    return pen.figure


def draw_legend(pen: Pen, y: float) -> None:
    items = [(COLOURS["read"], "added by another thread next"), (COLOURS["write"], "just added up")]
    items += [(IDLE, "not used any more")]
    x = float(LEFT)
    for colour, says in items:
        pen.cell(x, y - 8, colour, side=16)
        pen.text(x + 22, y, says, "label")
        x += 22 + LETTER * len(says) + 14


def steps_of_a_block(puzzle: Puzzle, source: str) -> Figure:
    """The steps of a puzzle's first kernel in its first case. Errors: CourseError if it has none."""
    from backwarp.devices import confined_device

    case, kernel = puzzle.cases[0], puzzle.kernels[0]
    statement, expression = WATCHED[puzzle.number]
    source = watched(source, statement, expression)
    with confined_device("cpu", checks="memory") as device:
        device.quick = True
        try:
            rows, random = (run(device, puzzle, c, kernel, source) for c in (case, replace(case, inputs={})))
        except CompileError:
            what = f"the picture shows {expression}; this kernel does not have it, or does not compile"
            raise CourseError(what) from None
    kept = [i for i in range(len(rows)) if not i or random[i] != random[i - 1]]  # where it changed
    rows, random = [rows[i] for i in kept], [random[i] for i in kept]
    threads = f"thread{'s' if len(rows[0]) > 1 else ''} 0 to {len(rows[0]) - 1} of block 0"
    title = f"{kernel.name}: {expression} of {threads}"
    return steps_picture(title, f"case {case.name}", rows, exchanges(random))
