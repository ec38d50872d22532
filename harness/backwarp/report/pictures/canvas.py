"""Pictures of a kernel: which elements of each array one thread touches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from backwarp.course.declare import Array, Case, Kernel, Launch, Puzzle
from backwarp.errors import CourseError, KernelFault

from .counted import CountedRun, counted_run, ended
from .probe import Access, count

# blue and orange: distinguishable by colour-blind readers and, because one is darker, in grey
COLOURS = {"read": "#a6d8f5", "write": "#e69f00", "": "#ffffff"}
IDLE, INK, FAINT, WRONG = "#dddddd", "#222222", "#555555", "#b3261e"
# all lengths in pixels
WIDTH, DPI = 800, 100
LEFT, GAP = 46, 46  # left of the first array and between arrays, where the names of rows go
HEAD, LINE = 28, 19  # above the cells of an array: the names of its columns; each line of its heading
LETTER = 7.6  # the mean width of a letter in the size "label"
LARGEST, SMALLEST = 50, 4  # sides of a cell
MOST_VALUES = 64  # arrays up to this many elements show the values in their cells
LONGEST_VALUE = 4  # letters
READABLE = 34  # the side of a cell with room for text
WARP = 32
MOST_THREADS = 32  # up to this many threads are drawn one by one


def access_picture(
    puzzle: Puzzle,
    case: Case,
    kernel: Kernel,
    accesses: Iterable[Access],
    block: int,
    thread: int | None,
    values: Mapping[str, np.ndarray],
    writers: Sequence[Sequence[bool]],
    launch: Launch = Launch(1, 1),
    fault: KernelFault | None = None,
) -> Figure:
    """The arrays of a kernel, but not those that are only copied by TMA, with the elements that one thread (or, with
    thread=None, one block) reads and writes.

    accesses: the thread's accesses. values: array name -> the numbers or texts in the cells: what the kernel
    read and what it wrote itself. writers: for every block, for every thread: does it write anything? launch:
    if it is two-dimensional, blocks and threads are named by x and y. fault: what ended a thread early.
    """
    dims = puzzle.full_dims(case)
    kinds = {(a.array, a.index): a.kind for a in sorted(accesses, key=lambda a: a.kind)}
    drawn = [p for p in kernel.by_threads if p in kernel.passed]  # constants are the same for all threads
    shapes = {p.name: p.shape(dims) for p in drawn}
    busy, total = sum(map(sum, writers)), sum(map(len, writers))
    strip = total <= MOST_THREADS
    first = 50 + LINE * bool(fault)  # the last line of text
    top = first + (110 if strip else 25)
    cell, places, bottom = arrange(kernel, shapes, top)
    if strip:
        cell = min(cell, (WIDTH - LEFT) / (total + 0.5 * len(writers)))
        cell, places, bottom = arrange(kernel, shapes, top, cell)
    small = explained(shapes.values(), cell, whole_block=thread is None)
    pen = Pen(bottom + (74 if small and strip else 50), cell)

    this = f"block {coordinates(block, launch.grid)}"
    if thread is not None:
        this = f"thread {coordinates(thread, launch.block)} of {this}"
    pen.text(LEFT, 24, f"{kernel.name}: {this}", "title")
    note = of_case(case.name, f"{total} threads run, {busy} of them write something", ": ")
    pen.text(LEFT, 50, note, "label", FAINT)
    if fault:
        pen.text(LEFT, first, ended(fault, launch), "label", WRONG)
    if strip:
        draw_threads(pen, writers, block, thread, first + 50, launch)
    for p in drawn:
        draw_array(pen, kernel, p, shapes[p.name], places[p.name], kinds, values.get(p.name))
    draw_legend(pen, bottom + 25, strip, thread is None, small)
    return pen.figure


class Pen:
    """Draws in pixels, y downwards; numbers are sized to fit their cells."""

    def __init__(self, height: float, cell: float):
        self.cell_size = cell
        self.figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_xlim(0, WIDTH)
        self.axes.set_ylim(height, 0)
        self.axes.set_axis_off()
        points = cell * 72 / DPI
        value, index = min(14.0, 0.36 * points), min(7.5, 0.2 * points)
        self.sizes = {"title": 13.0, "label": 10.0, "value": value, "index": index, "axis": 9.0}

    def text(self, x: float, y: float, text: str, size: str, colour: str = INK, align: str = "left") -> None:
        self.axes.text(x, y, text, fontsize=self.sizes[size], color=colour, ha=align, va="center")

    def cell(self, x: float, y: float, colour: str, thick: bool = False, side: float = 0) -> None:
        side = side or self.cell_size
        self.box(x, y, side, side, colour, thick)

    def box(self, x: float, y: float, width: float, height: float, colour: str, thick: bool = False) -> None:
        line, edge, above = (2.0, INK, 2) if thick else (0.8, "#999999", 1)
        style = {"facecolor": colour, "edgecolor": edge, "linewidth": line, "zorder": above}
        # add_patch would also update the limits
        self.axes.add_artist(Rectangle((x, y), width, height, **style))


def arrange(
    kernel: Kernel,
    shapes: Mapping[str, tuple[int, ...]],
    top: float,
    largest: float = LARGEST,
    stacked: bool = False,
) -> tuple[float, dict[str, tuple[float, float]], float]:
    """The side of a cell, where the cells of each array start, and the lower edge of the lowest.

    Vectors and stacked arrays are drawn one below the other, others in a row. Cells are as large as possible.
    """
    stacked = stacked or all(len(shape) == 1 for shape in shapes.values())
    headings = {n: heading(kernel, n, s) for n, s in shapes.items()}
    head = HEAD + LINE * max(map(len, headings.values()))
    longest = {n: max(map(len, lines)) for n, lines in headings.items()}
    cell = largest
    while True:
        widths = {n: max(extent(s)[0] * cell, LETTER * longest[n]) for n, s in shapes.items()}
        across = max(widths.values()) if stacked else sum(widths.values()) + GAP * (len(widths) - 1)
        if LEFT + across <= WIDTH - 10 or cell <= SMALLEST:
            break
        cell -= 1
    places, x, y, bottom = {}, float(LEFT), top + head, 0.0
    for name, shape in shapes.items():
        places[name] = (x, y)
        bottom = max(bottom, y + extent(shape)[1] * cell)
        if stacked:
            y = bottom + head + 12
        else:
            x += widths[name] + GAP
    return cell, places, bottom


def extent(shape: tuple[int, ...]) -> tuple[float, float]:
    """Columns and rows of an array drawn as planes: the third-last axis across, the others down."""
    across, down = planes(shape)
    rows = shape[-2] if len(shape) > 1 else 1
    return across * shape[-1] + 0.5 * (across - 1), down * rows + 0.5 * (down - 1)


def planes(shape: tuple[int, ...]) -> tuple[int, int]:
    across = shape[-3] if len(shape) > 2 else 1
    return across, int(np.prod(shape[:-3], dtype=int)) if len(shape) > 3 else 1


def heading(kernel: Kernel, name: str, shape: tuple[int, ...]) -> list[str]:
    """Lines: `a, 10 elements`, or the name and `m x k = 2 x 4`, on two lines if necessary."""
    if len(shape) == 1:
        return [f"{name}, {shape[0]} element{'s' * (shape[0] != 1)}"]
    letters = next(p.letters for p in kernel.arrays if p.name == name)
    axes, sizes = " x ".join(letters), "= " + " x ".join(map(str, shape))
    return [name, axes, sizes] if len(shape) > 2 else [name, f"{axes} {sizes}"]


def draw_array(
    pen: Pen, kernel: Kernel, p: Array, shape: tuple, at: tuple, kinds: Mapping, values: np.ndarray | None
) -> None:
    """One array: its name, its shape, its cells, each with its value and its place in memory."""
    (x0, y0), side = at, pen.cell_size
    across, down = planes(shape)
    elements = int(np.prod(shape))
    readable = elements <= MOST_VALUES and side >= READABLE
    written = in_cells(values) if readable and values is not None else []
    lines = heading(kernel, p.name, shape)
    for i, line in enumerate(lines):
        pen.text(x0, y0 - HEAD - 5 - LINE * (len(lines) - 1 - i), line, "label", FAINT if i else INK)
    for flat in range(elements):
        x, y = corner(at, shape, flat, side)
        kind = kinds.get((p.name, flat), "")
        pen.cell(x, y, COLOURS[kind], thick=bool(kind))
        if written:
            pen.text(x + side / 2, y + 0.56 * side, written[flat], "value", align="center")
        if readable and len(shape) > 1:
            pen.text(x + 0.07 * side, y + 0.17 * side, str(flat), "index", INK if kind else FAINT)
    name_axes(pen, p, shape, at, one_plane=across * down == 1)


def corner(at: tuple[float, float], shape: tuple[int, ...], flat: int, side: float) -> tuple[float, float]:
    """Where the cell of an element begins. at: where the array's cells begin."""
    across, _ = planes(shape)
    rows, columns = (shape[-2] if len(shape) > 1 else 1), shape[-1]
    plane, within = divmod(flat, rows * columns)
    row, column = divmod(within, columns)
    return (
        at[0] + side * (plane % across * (columns + 0.5) + column),
        at[1] + side * (plane // across * (rows + 0.5) + row),
    )


def in_cells(values: np.ndarray) -> list[str]:
    """The numbers as short texts, with two decimals if needed; no texts if one is still too long. Masked
    elements have no number."""
    if values.dtype.kind == "U":
        return list(values.flat)
    numbers = list(zip(np.ma.getdata(values).flat, np.ma.getmaskarray(values).flat, strict=True))
    for style in ("g", ".2f"):
        written = ["" if hidden else format(v, style) for v, hidden in numbers]
        if max(map(len, written)) <= LONGEST_VALUE:
            return written
    return []


def name_axes(pen: Pen, p: Array, shape: tuple, at: tuple, one_plane: bool) -> None:
    """`w=0` over columns and `h=0` beside rows; with several planes also `c=0` and `b=0`."""
    (x0, y0), side = at, pen.cell_size
    if one_plane:
        across, down, letters = shape[-1], shape[-2] if len(shape) > 1 else 0, p.letters[-2:]
        step_x, step_y = 1, 1
    else:
        (across, down), outer = planes(shape), range(len(shape) - 3)
        counted = [i for i in outer if shape[i] > 1] or list(outer)[-1:]
        letters = "".join(p.letters[i] for i in [*counted, -3])
        step_x, step_y = shape[-1] + 0.5, shape[-2] + 0.5
        down = down if len(counted) == 1 else 0
    if min(step_x, step_y) * side < READABLE:
        return
    half = 0.5 if one_plane else 0.25
    for column in range(across):
        x = x0 + side * (column * step_x + step_x / 2 - (0.5 - half))
        pen.text(x, y0 - 12, f"{letters[-1]}={column}", "axis", FAINT, "center")
    for row in range(down):
        y = y0 + side * (row * step_y + step_y / 2 - (0.5 - half))
        pen.text(x0 - 5, y, f"{letters[0]}={row}", "axis", FAINT, "right")


def coordinates(number: int, extent: int | tuple[int, ...]) -> str:
    """`5`, or `(1,2)`, x first, if the grid or block has more than one dimension."""
    if isinstance(extent, int):
        return str(number)
    return f"({number % extent[0]},{number // extent[0]})"


def draw_threads(
    pen: Pen, writers: Sequence[Sequence[bool]], block: int, thread: int, y: float, launch: Launch
) -> None:
    """All threads in a row, block by block; the chosen one is black, those that write nothing are grey."""
    x = float(LEFT)
    for b, threads in enumerate(writers):
        pen.text(x, y - 16, f"block {coordinates(b, launch.grid)}", "label", FAINT)
        for t, busy in enumerate(threads):
            chosen = (b, t) == (block, thread)
            pen.cell(x, y, INK if chosen else "#ffffff" if busy else IDLE, thick=chosen)
            middle = (x + pen.cell_size / 2, y + pen.cell_size / 2)
            name = coordinates(t, launch.block).strip("()")
            pen.text(*middle, name, "value", "#ffffff" if chosen else INK, align="center")
            x += pen.cell_size
        x += pen.cell_size / 2


def explained(shapes: Iterable[tuple[int, ...]], cell: float, whole_block: bool) -> str:
    """What the numbers in the cells mean; vectors show no place in memory."""
    numbered = [s for s in shapes if cell >= READABLE and np.prod(s) <= MOST_VALUES]
    placed = any(len(s) > 1 for s in numbered)
    if whole_block and numbered:
        return "numbers: the thread" + "; small: place in memory" * placed
    return "small numbers: place in memory" * placed


def draw_legend(pen: Pen, y: float, strip: bool, whole_block: bool, small: str) -> None:
    items = [(COLOURS["read"], "read"), (COLOURS["write"], "written")]
    items += [(COLOURS[""], f"not touched by this {'block' if whole_block else 'thread'}")]
    if strip:
        items += [(INK, "this thread"), (IDLE, "a thread that writes nothing")]
    x = float(LEFT)
    for colour, says in items:
        pen.cell(x, y - 8, colour, side=16)
        pen.text(x + 22, y, says, "label")
        x += 22 + LETTER * len(says) + 14
    if small:
        pen.text(*((LEFT, y + 24) if strip else (x, y)), small, "label", FAINT)


def of_case(name: str, says: str, after: str = "; ") -> str:
    """The line under a title: `case NAME; says`. A case that exists only to be drawn is not named."""
    return says if name.startswith("drawn") else f"case {name}{after}{says}"


def draw(
    puzzle: Puzzle, source: str, case: Case, kernel: Kernel, block: int | str = 0, thread: int | str = 1
) -> Figure:
    """The access picture of a kernel in a case, from runs of `source`. block, thread: flat, or "x,y"; thread
    "all": the whole block, and each cell shows which thread or threads touch it.

    Errors: CompileError, KernelFault that ends all threads, CourseError if there is no such thread.
    """
    block, thread = (0 if block == "" else block), (1 if thread == "" else thread)
    own = tuple(case if c.name == case.name else c for c in puzzle.cases)  # with the sizes that were drawn
    run = counted_run(replace(puzzle, cases=own), case.name, kernel, source)
    block = flat(block, run.launch.grid, "block")
    thread = None if thread == "all" else flat(thread, run.launch.block, "thread")
    threads = range(count(run.launch.block)) if thread is None else [thread]
    touched = touched_by(run, kernel)
    found = {t: touched.get((block, t), []) for t in threads}
    writing = {who for who, of in touched.items() if any(a.kind == "write" for a in of)}
    writers = [
        [(b, t) in writing for t in range(count(run.launch.block))] for b in range(count(run.launch.grid))
    ]
    written = {(a.array, a.index) for of in touched.values() for a in of if a.kind == "write"}
    values = {p.name: run.values[p.name] for p in kernel.passed}
    for p in kernel.outputs:
        if not p.is_input:  # what is not written holds nothing
            unwritten = [(p.name, i) not in written for i in range(values[p.name].size)]
            values[p.name] = np.ma.MaskedArray(values[p.name], np.reshape(unwritten, values[p.name].shape))
    accesses = [a for of_thread in found.values() for a in of_thread]
    if thread is None:
        values = {name: who_touches(name, array.shape, found) for name, array in values.items()}
    return access_picture(
        puzzle, case, kernel, accesses, block, thread, values, writers, run.launch, run.fault
    )


def touched_by(run: CountedRun, kernel: Kernel) -> dict[tuple[int, int], list[Access]]:
    """By (block, thread), flat: what it reads and writes, each element once."""
    found: dict[tuple[int, int], dict[Access, None]] = {}
    for array in kernel.passed:
        values = run.values[array.name]
        for request, elements in run.touching(array.name):
            kind, width = (
                "read" if request.kind == "load" else "write",
                max(1, request.size // values.itemsize),
            )
            for lane in np.flatnonzero(elements >= 0).tolist():
                of_thread = found.setdefault((request.block, request.warp * WARP + lane), {})
                for at in range(int(elements[lane]), min(int(elements[lane]) + width, values.size)):
                    of_thread[Access(array.name, at, kind)] = None
    return {who: list(of) for who, of in found.items()}


def flat(number: int | str, extent: int | tuple[int, ...], what: str) -> int:
    """The flat number of a block or thread, counted row by row, from its coordinates "x" or "x,y"."""
    sizes = [extent] if isinstance(extent, int) else list(extent)
    try:
        parts = [number] if isinstance(number, int) else [int(part) for part in number.split(",")]
    except ValueError:
        raise CourseError(f"{number!r} is not a {what}; write x or x,y") from None
    if len(parts) == 1 and 0 <= parts[0] < np.prod(sizes):
        return parts[0]
    if len(parts) > len(sizes) or any(not 0 <= p < s for p, s in zip(parts, sizes, strict=False)):
        raise CourseError(
            f"there is no {what} {number}: x is less than {', y less than '.join(map(str, sizes))}"
        )
    return sum(p * int(np.prod(sizes[:i], dtype=int)) for i, p in enumerate(parts))


def who_touches(name: str, shape: tuple[int, ...], found: Mapping[int, Sequence[Access]]) -> np.ndarray:
    """For every element of an array, the numbers of the threads that touch it, as text."""
    threads = [[] for _ in range(int(np.prod(shape)))]
    for thread, accesses in found.items():
        for index in {a.index for a in accesses if a.array == name}:
            threads[index].append(str(thread))
    return np.array([",".join(t) for t in threads]).reshape(shape)
