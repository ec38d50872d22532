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
    "": "#ffffff", "read": "#2b7bba", "moved": COLOURS["read"],
    "written": COLOURS["write"], "other": "#f6d58e",
    "step 0": "#08519c", "step 1": "#6baed6", "step 2": "#deebf7",
}  # fmt: skip
DARK = {"read", "step 0"}


STEPS = {"step 0": "read in step 0", "step 1": "1", "step 2": "2", "written": "written", "": "not touched"}


@dataclass
class Trace:
    """The requests of one launch, with what is needed to say what they touch."""

    requests: list[Request]
    arrays: dict[str, tuple[int, tuple[int, ...]]]  # name -> device address, shape

    def touching(self, name: str, **wanted) -> list[tuple[Request, np.ndarray]]:
        """The requests to an array in order, each with its lanes' elements, -1: none. wanted: of Request."""
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
        device.quick = True
        device.keep_requests = MOST_REQUESTS
        function = device.compile(source, include_dirs=puzzle.include_dirs).get_function(kernel.name)
        arrays = {
            p.name: device.array(inputs[p.name])
            if p.is_input
            else device.empty(p.shape(dims), np.dtype(p.dtype))
            for p in kernel.passed
        }
        for p in kernel.constants:
            function.module.set_constant(p.name, inputs[p.name])
        launch = kernel.launch(dims, tunables(source))
        args = tuple(arrays[p.name] if p.name in arrays else scalar(p, dims) for p in kernel.params)
        done = function(launch.grid, launch.block, args, shared_mem=launch.shared_mem)
        return Trace(done.requests, {n: (a.pointer, a.shape) for n, a in arrays.items()})


# -- drawing ------------------------------------------------------------------------------------------------


@dataclass
class Panel:
    """A grid of cells. cells: [rows][columns], of INKS. texts: (row, column) -> what stands in the cell.

    rule: a darker line before every so many columns and rows (0: none). across, down: (place, text) beside
    columns and rows.
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
    """23: the upper left corner of the weights, as one request of puzzle 03's kernel and of a warp takes it."""
    case, kernel = puzzle.cases[-1], puzzle.kernels[1]
    panels = []
    below = mutated(puzzle, "a thread per output, as in puzzle 03")
    for says, source in (("a thread per output, as in 03", below), ("a warp per output", solved(puzzle))):
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
        f"{kernel.name}: one read of weights[o, i] by warp 0",
        f"case {case.name}: 32 of 120 rows and 32 of 256 columns; rules between sectors",
        panels, {"read": "read by a lane", "moved": "moved along, not used", "": "not moved"},
    )  # fmt: skip


def reads_of_a_block(puzzle: Puzzle) -> Figure:
    """24: how often one block reads each element of channel 0, without a tile and with one of 4 x 4 outputs."""
    case, kernel, block = next(c for c in puzzle.cases if c.name == "small_tiles"), puzzle.kernels[0], 4
    panels = []
    for says, source in (("no tile, as in 07", mutated(puzzle, "no tile, as in puzzle 07")),
                         ("a tile and its halo", solved(puzzle))):  # fmt: skip
        found = trace(puzzle, case.name, kernel, source.replace("TILE = 16", "TILE = 4"))
        rows, columns = found.arrays["input"][1][2:]
        reads = np.zeros(rows * columns, int)
        for _, elements in found.touching("input", block=block, kind="load"):
            np.add.at(reads, elements[(elements >= 0) & (elements < reads.size)], 1)
        reads = reads.reshape(rows, columns)
        written = [e for _, elements in found.touching("output", block=block) for e in elements if e >= 0]
        own = {divmod(int(e), columns - case.dims["F"] + 1) for e in written}
        cells, texts = blank(rows, columns), {}
        for row, column in np.argwhere(reads):
            cells[row, column] = "read" if (row, column) in own else "moved"
            texts[row, column] = str(reads[row, column])
        heading = [says, f"{reads.sum()} reads for {len(own)} outputs"]
        panels.append([Panel(heading, cells, 28, texts, across=[(i, f"w={i}") for i in range(0, columns, 2)],
                             down=[(i, f"h={i}") for i in range(rows)])])  # fmt: skip
    return draw(
        f"{kernel.name}: how often block (1,1) reads the input, channel 0",
        f"case {case.name}, tiles of 4 x 4: outputs p = 4 to 6, q = 4 to 7",
        panels,
        {"read": "read, with an output at the same place", "moved": "read, halo", "": "not read"},
    )


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


def steps_of_a_block(found: Trace, name: str, block: int, shape: tuple[int, int]) -> tuple[np.ndarray, dict]:
    """The cells of an array drawn as `shape`, and their texts: the steps in which a block reads an element.

    Each request of the block, which has one warp, is a step; the ink is that of the first.
    """
    cells, texts = blank(*shape), {}
    for step, (request, elements) in enumerate(found.touching(name, block=block)):
        for element in np.unique(elements[elements >= 0]):
            place = divmod(int(element), shape[1])
            if request.kind == "store":
                cells[place] = "written"
            else:
                cells[place] = cells[place] or f"step {step}"
                texts[place] = texts.get(place, "") + str(step)
    return cells, texts


def tiles_of_a_block(puzzle: Puzzle) -> Figure:
    """26: what one block reads of A and B in each step along K, and writes of C, with tiles of 4 x 4."""
    case, kernel = next(c for c in puzzle.cases if c.name == "small_tiles"), puzzle.kernels[0]
    found = trace(puzzle, case.name, kernel, solved(puzzle).replace("TILE = 16", "TILE = 4"))
    across = -(-case.dims["N"] // 4)
    panels = []
    for p in kernel.arrays:
        shape = found.arrays[p.name][1]
        cells, texts = steps_of_a_block(found, p.name, across + 1, shape)
        heading = [p.name, f"{' x '.join(p.letters)} = {' x '.join(map(str, shape))}"]
        panels.append([Panel(heading, cells, 19, texts, rule=(4, 4), across=[(0, f"{p.letters[1]}=0")],
                             down=[(0, f"{p.letters[0]}=0")])])  # fmt: skip
    note = f"case {case.name}; the number is the step along K in which an element is read"
    return draw(f"{kernel.name}: block (1,1), tiles of 4 x 4", note, panels, STEPS)


def tiles_of_a_convolution(puzzle: Puzzle) -> Figure:
    """30: what one block reads of weights and image in each step, and writes of the output, tiles of 4 x 4."""
    case, kernel = next(c for c in puzzle.cases if c.name == "drawn"), puzzle.kernels[0]
    found = trace(puzzle, case.name, kernel, solved(puzzle).replace("TILE = 16", "TILE = 4"))
    d = puzzle.full_dims(case)
    sizes = {
        "weights": ((d["C_out"], d["rows"]), "k x (c,r,s)", (4, 4), [(0, "k=0")], 19),
        "input": ((d["C_in"] * d["H"], d["W"]), "(c,h) x w", (0, d["H"]),
                  [(c * d["H"], f"c={c}") for c in range(d["C_in"])], 26),
        "output": ((d["C_out"], d["width"]), "k x (p,q)", (4, 4), [(0, "k=0")], 19),
    }  # fmt: skip
    panels = []
    for name, (shape, axes, rule, down, side) in sizes.items():
        cells, texts = steps_of_a_block(found, name, 1, shape)
        heading = [name, f"{axes} = {shape[0]} x {shape[1]}"]
        panels.append([Panel(heading, cells, side, texts, rule=rule, down=down)])
    note = f"case {case.name}; the numbers are the steps in which an element is read"
    return draw("implicit_gemm_forward: block (1,0), tiles of 4 x 4", note, panels, STEPS)


def square_of_a_thread(puzzle: Puzzle) -> Figure:
    """27: what one thread takes from the tiles in one step, and its elements of C, in blocks of 32 x 32."""
    case, kernel = next(c for c in puzzle.cases if c.name == "rows_of_fours"), puzzle.kernels[0]
    source = solved(puzzle).replace("BM = 64", "BM = 32").replace("BN = 64", "BN = 32")
    found, lane, step = trace(puzzle, case.name, kernel, source), 9, 3
    panels = []
    for name, index, columns in (("a", "i", 36), ("b", "j", 32)):
        number = next(n for n, row in enumerate(source.split("\n"), 1) if f"float4*>(&{name}[k][{index} *" in row)
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


def windows_of_a_block(puzzle: Puzzle) -> Figure:
    """32: the tiles of one block, with the place in the input from which it fetched each element of the windows."""
    side, tile = 4, 1
    case, kernel = next(c for c in puzzle.cases if c.name == "drawn"), puzzle.kernels[0]
    found = trace(puzzle, case.name, kernel, solved(puzzle).replace("TILE = 16", f"TILE = {side}"))
    dims = puzzle.full_dims(case)
    positions = dims["batch"] * dims["H_out"] * dims["W_out"]
    columns = dims["C_in"] * dims["R"] * dims["S"]
    end = -(-positions // dims["splits"])  # of split 0
    grads, windows = blank(dims["C_out"], positions), blank(positions, columns)
    sums, texts = blank(dims["C_out"], columns), {}
    for i in range(end):
        for j in range(tile * side, (tile + 1) * side):
            windows[i, j] = "other"
    for step, (_, elements) in enumerate(found.touching("grad_output", block=tile)):
        for element in elements[elements >= 0]:
            grads[divmod(int(element), positions)] = f"step {step}"
    for step, (_, elements) in enumerate(found.touching("input", block=tile)):
        for lane in np.flatnonzero(elements >= 0):
            place = step * side + lane % side, tile * side + lane // side
            windows[place], texts[place] = f"step {step}", str(elements[lane])
    for _, elements in found.touching("partial", block=tile):
        for element in elements[elements >= 0]:
            sums[divmod(int(element), columns)] = "written"
    panels = [
        Panel(["grad_output", f"k x positions = {dims['C_out']} x {positions}"], grads, 22, rule=(0, side), down=[(0, "k=0")]),
        Panel(["windows, never stored", f"positions x weights = {positions} x {columns}"], windows, 22, texts, rule=(side, 0)),
        Panel(["partial, split 0", f"k x weights = {dims['C_out']} x {columns}"], sums, 22, rule=(side, side), down=[(0, "k=0")]),
    ]  # fmt: skip
    legend = {"step 0": "read in step 0", "step 1": "in step 1", "other": "padding, not read", "written": "written", "": "not touched"}
    return draw(
        f"{kernel.name}: tile {tile}, split 0, with tiles of {side} x {side}",
        f"case {case.name}; the number is the element of the input that was read there",
        [[panel] for panel in panels], legend,
    )  # fmt: skip


def classes_of_a_stride(puzzle: Puzzle) -> Figure:
    """31: which class of elements each block writes, and which taps it reads for that."""
    case, kernel = next(c for c in puzzle.cases if c.name == "drawn"), puzzle.kernels[0]
    source, dims = solved(puzzle), puzzle.full_dims(case)
    found, wide = trace(puzzle, case.name, kernel, source), kernel.launch(dims, tunables(source)).grid[0]
    inks = ["step 0", "step 1", "step 2", "other"]
    panels = []
    for name, says in (("weights", "read"), ("grad_input", "written")):
        shape = found.arrays[name][1][-2:]
        cells, texts = blank(*shape), {}
        for request, elements in found.touching(name):
            for element in elements[(elements >= 0) & (elements < np.prod(shape))]:
                place = divmod(int(element), shape[1])
                cells[place], texts[place] = inks[request.block // wide], str(request.block // wide)
        names = next(p.letters for p in kernel.arrays if p.name == name)[-2:]
        heading = [f"{name}, {says}", f"{' x '.join(names)} = {' x '.join(map(str, shape))}"]
        panels.append([Panel(heading, cells, 34, texts, across=[(i, f"{names[1]}={i}") for i in range(shape[1])],
                            down=[(i, f"{names[0]}={i}") for i in range(shape[0])])])  # fmt: skip
    legend = {ink: f"class {i} = ({i // 2},{i % 2})" for i, ink in enumerate(inks)}
    return draw(f"{kernel.name}: the classes of a stride of 2 x 2, padding 1",
                f"case {case.name}; the number is blockIdx.y of the block that touched the element", panels, legend)  # fmt: skip


MAPS = {
    "23": sectors_of_a_read,
    "24": reads_of_a_block,
    "25": banks_of_a_column,
    "26": tiles_of_a_block,
    "27": square_of_a_thread,
    "30": tiles_of_a_convolution,
    "31": classes_of_a_stride,
    "32": windows_of_a_block,
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
