"""Maps of memory: what warps and blocks touch of an array or of shared memory, drawn from counted runs.

`python -m harness.report.maps 23` draws `puzzles/23_*/access.png`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure

from harness.checkout import tunables
from harness.course import Kernel, Puzzle
from harness.devices import open_device
from harness.devices.virtual.counters import SECTOR, Request
from harness.inputs import make_inputs
from harness.trial import scalar

from .pictures import COLOURS, FAINT, INK, LETTER, Pen

MOST_REQUESTS = 100_000
BANKS = 32
# pixels: left of a panel; above the first heading; a line of a heading; names of columns; below a panel
EDGE, TOP, LINE, HEAD, BELOW = 46, 84, 19, 12, 26
#: what cells can be, and how that is drawn
INKS = {
    "": "#ffffff", "read": "#2b7bba", "moved": COLOURS["read"], "written": COLOURS["write"], "other": "#f6d58e",
    "step 0": "#08519c", "step 1": "#6baed6", "step 2": "#deebf7",
}  # fmt: skip
DARK = {"read", "step 0"}


@dataclass
class Trace:
    """The requests of one launch, with what is needed to say what they touch."""

    requests: list[Request]
    arrays: dict[str, tuple[int, tuple[int, ...]]]  # name -> device address, shape

    def touching(self, name: str, **wanted) -> list[tuple[Request, np.ndarray]]:
        """The requests to an array in order, each with its lanes' flat elements (-1: none). wanted: of Request."""
        start, shape = self.arrays[name]
        found = []
        for r in self.requests:
            inside = (r.addresses >= start) & (r.addresses < start + 4 * np.prod(shape, dtype=int))
            if r.space == "global" and inside.any() and all(getattr(r, k) == v for k, v in wanted.items()):
                found.append((r, np.where(inside, (r.addresses - start) // 4, -1)))
        return found


def trace(puzzle: Puzzle, case_name: str, kernel: Kernel, source: str) -> Trace:
    """Runs a kernel once, counted. Arrays hold 4-byte elements."""
    case = next(c for c in puzzle.cases if c.name == case_name)
    dims, inputs = puzzle.full_dims(case), make_inputs(puzzle, case, kernel)
    with open_device("cpu", checks="count") as device:
        device.keep_requests = MOST_REQUESTS
        function = device.compile(source, include_dirs=puzzle.include_dirs).get_function(kernel.name)
        arrays = {
            p.name: device.array(inputs[p.name])
            if p.is_input
            else device.empty(p.shape(dims), np.dtype(p.dtype))
            for p in kernel.arrays
        }
        launch = kernel.launch(dims, tunables(source))
        args = tuple(arrays[p.name] if p.name in arrays else scalar(p, dims) for p in kernel.params)
        done = function(launch.grid, launch.block, args, shared_mem=launch.shared_mem)
        return Trace(done.requests, {n: (a.pointer, a.shape) for n, a in arrays.items()})


# -- drawing ------------------------------------------------------------------------------------------------


@dataclass
class Panel:
    """A grid of cells. cells: [rows][columns], of INKS. texts: (row, column) -> what stands in the cell.

    rule: a darker line before every so many columns and rows (0: none). across, down: (place, text) beside rows and columns.
    """

    heading: list[str]
    cells: np.ndarray
    side: float
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    rule: tuple[int, int] = (0, 0)
    across: list[tuple[int, str]] = field(default_factory=list)
    down: list[tuple[int, str]] = field(default_factory=list)


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
            for i, line in enumerate(p.heading):
                pen.text(x, y + LINE * i, line, "label", FAINT if i else INK)
            draw_cells(pen, p, x, y + LINE * len(p.heading) + HEAD)
            y += height(p)
        x += max(max(p.cells.shape[1] * p.side, LETTER * max(map(len, p.heading))) for p in panels) + EDGE
    x = float(EDGE)
    for ink, says in legend.items():
        pen.cell(x, bottom - 8, INKS[ink], side=16)
        pen.text(x + 22, bottom, says, "label")
        x += 22 + LETTER * len(says) + 14
    return pen.figure


def height(p: Panel) -> float:
    """With its heading above and a gap below."""
    return LINE * len(p.heading) + HEAD + p.cells.shape[0] * p.side + BELOW


def draw_cells(pen: Pen, p: Panel, x0: float, y0: float) -> None:
    rows, columns = p.cells.shape
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
    for column, text in p.across:
        pen.text(x0 + (column + 0.5) * p.side, y0 - 9, text, "axis", FAINT, "center")
    for row, text in p.down:
        pen.text(x0 - 5, y0 + (row + 0.5) * p.side, text, "axis", FAINT, "right")


def mutated(puzzle: Puzzle, name: str) -> str:
    """The solution as the mutant `name` has it."""
    mutant = next(m for m in puzzle.mutants if m.name == name)
    return mutant.apply(puzzle.solution_path.read_text(encoding="utf-8"))


def solved(puzzle: Puzzle) -> str:
    return puzzle.solution_path.read_text(encoding="utf-8")


# -- the maps -----------------------------------------------------------------------------------------------


def sectors_of_a_read(puzzle: Puzzle) -> Figure:
    """23: the upper left corner of the weights, as one request of puzzle 03's kernel and of the solution reads it."""
    case, kernel = puzzle.cases[-1], puzzle.kernels[1]
    panels = []
    for says, source in (("a thread per output, as in 03", mutated(puzzle, "a thread per output, as in puzzle 03")),
                         ("a warp per output", solved(puzzle))):  # fmt: skip
        found = trace(puzzle, case.name, kernel, source)
        _, elements = found.touching("weights", block=0, warp=0)[0]
        columns = found.arrays["weights"][1][1]
        floats = SECTOR // 4
        cells = blank(32, 32)
        for sector in np.unique(elements // floats):
            row, column = divmod(sector * floats, columns)
            cells[row, column : column + floats] = "moved"
        for lane in elements:
            cells[divmod(lane, columns)] = "read"
        heading = [says, f"{len(np.unique(elements // floats))} sectors for 128 bytes"]
        names = [(i, f"{i}") for i in (0, 8, 16, 24)]
        panels.append([Panel(heading, cells, 10, rule=(floats, 0), across=[(0, "i=0"), *names[1:]],
                            down=[(0, "o=0"), *((i, f"{i}") for i in (10, 20, 31))])])  # fmt: skip
    return draw(
        f"{kernel.name}: one read of weights[o, i] by warp 0", f"case {case.name}: 32 of 120 rows and 32 of 256 columns; rules between sectors",
        panels, {"read": "read by a lane", "moved": "moved along, not used", "": "not moved"},
    )  # fmt: skip


def banks_of_a_column(puzzle: Puzzle) -> Figure:
    """25: shared memory, 32 words to a row, as one read of a column of the tile touches it."""
    case, kernel = puzzle.cases[-1], puzzle.kernels[0]
    panels = []
    for says, source in (("tile[32][32]", mutated(puzzle, "no padding")), ("tile[32][33]", solved(puzzle))):
        requests = trace(puzzle, case.name, kernel, source).requests
        inside = [r for r in requests if r.space == "shared" and (r.block, r.warp) == (0, 0)]
        first = inside[0].addresses.min()  # the first store begins with the tile
        words = (next(r for r in inside if r.kind == "load").addresses - first) // 4
        cells = blank(33, BANKS)
        for word in words:
            cells[divmod(word, BANKS)] = "read"
        most = int(np.bincount(words % BANKS).max())
        heading = [says, f"{most} wavefront{'s' * (most != 1)} for 32 words"]
        banks = [(0, "bank 0"), *((i, f"{i}") for i in (8, 16, 24, 31))]
        rows = [(i, f"{i * BANKS}") for i in (0, 8, 16, 24, 32)]
        panels.append([Panel(heading, cells, 10, across=banks, down=rows)])
    return draw(
        f"{kernel.name}: lanes 0 to 31 read column 0 of the tile",
        f"case {case.name}; words of shared memory, counted at the left, 32 to a row",
        panels,
        {"read": "read by a lane", "": "not read"},
    )


def tiles_of_a_block(puzzle: Puzzle) -> Figure:
    """26: what one block reads of A and B in each step along K, and writes of C, with tiles of 4 x 4."""
    case, kernel = next(c for c in puzzle.cases if c.name == "small_tiles"), puzzle.kernels[0]
    found = trace(puzzle, case.name, kernel, solved(puzzle).replace("TILE = 16", "TILE = 4"))
    across = -(-case.dims["N"] // 4)
    block = across + 1
    panels = []
    for name, ink in (("A", "step"), ("B", "step"), ("C", "written")):
        shape = found.arrays[name][1]
        cells, texts, loads = blank(*shape), {}, 0
        for _, elements in found.touching(name, block=block):
            for element in elements[elements >= 0]:
                place = divmod(int(element), shape[1])
                cells[place] = f"step {loads}" if ink == "step" else ink
                texts[place] = str(loads) if ink == "step" else ""
            loads += 1
        p = next(p for p in kernel.arrays if p.name == name)
        heading = [name, f"{' x '.join(p.letters)} = {' x '.join(map(str, shape))}"]
        panels.append([Panel(heading, cells, 19, texts, rule=(4, 4), across=[(0, f"{p.letters[1]}=0")],
                            down=[(0, f"{p.letters[0]}=0")])])  # fmt: skip
    return draw(
        f"{kernel.name}: block (1,1), tiles of 4 x 4",
        f"case {case.name}; the number is the step along K in which an element is read",
        panels,
        {"step 0": "read in step 0", "step 1": "1", "step 2": "2", "written": "written", "": "not touched"},
    )


def square_of_a_thread(puzzle: Puzzle) -> Figure:
    """27: what one thread takes from the tiles in one step, and its elements of C, in blocks of 32 x 32."""
    case, kernel = next(c for c in puzzle.cases if c.name == "rows_of_fours"), puzzle.kernels[0]
    source = solved(puzzle).replace("BM = 64", "BM = 32").replace("BN = 64", "BN = 32")
    found, lane, step = trace(puzzle, case.name, kernel, source), 9, 3
    panels = []
    for name, columns in (("a", 36), ("b", 32)):
        number = {n: i for i, row in enumerate(source.split("\n"), 1) for n in ("a", "b") if f"(&{n}[k][i" in row
                  or f"(&{n}[k][j" in row}[name]  # fmt: skip
        loads = [r for r in found.requests if r.line == number and r.block == 0][: 2 * 8]
        first = min(r.addresses[r.addresses >= 0].min() for r in loads)
        cells = blank(8, columns)
        for r in loads[2 * step : 2 * step + 2]:
            for i, address in enumerate(r.addresses):
                row, column = divmod(int(address - first) // 4, columns)
                if address >= 0 and (i == lane or not cells[row, column]):
                    cells[row, column : column + 4] = "read" if i == lane else "moved"
        heading = f"{name}[8][{columns}], step k={step}"
        panels.append(Panel([heading], cells, 9, rule=(4, 0), down=[(0, "k=0"), (7, "7")]))
    cells = blank(*found.arrays["C"][1])
    for _, elements in found.touching("C", block=0):
        for i, element in enumerate(elements):
            if element >= 0:
                row, column = divmod(int(element), cells.shape[1])
                cells[row, column : column + 4] = "written" if i == lane else "other"
    square = Panel(["C, m x n = 30 x 36"], cells, 9, rule=(4, 4), across=[(0, "n=0")], down=[(0, "m=0")])
    return draw(
        f"{kernel.name}: thread (1,2) of 4 x 4 in block (0,0), which has 32 x 32 of C",
        f"case {case.name}; a thread's numbers lie in two groups of four, 16 apart",
        [panels, [square]],
        {"read": "read by this thread", "moved": "by another", "written": "written by this thread",
         "other": "by another"},
    )  # fmt: skip


MAPS = {
    "23": sectors_of_a_read,
    "25": banks_of_a_column,
    "26": tiles_of_a_block,
    "27": square_of_a_thread,
}


def main(arguments: list[str]) -> int:
    """ID...: writes access.png into the puzzles' folders."""
    from harness.checkout import open_course

    for name in arguments:
        puzzle = open_course().load(name)
        MAPS[puzzle.number](puzzle).savefig(puzzle.folder / "access.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
