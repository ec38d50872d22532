"""Maps of memory: what warps and blocks touch of an array or of shared memory, drawn from counted runs."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from backwarp.course.declare import Puzzle
from backwarp.cuda.values import tunables
from backwarp.devices.virtual.explain.metrics import SECTOR

from .canvas import of_case
from .counted import CountedRun, counted_run, small_tiles, solved, with_mistake
from .panels import Panel, blank, draw

BANKS = 32
STEPS = {"step 0": "read in step 0", "step 1": "1", "step 2": "2", "written": "written", "": "not touched"}


def panels_of(
    puzzle: Puzzle, source: str, below: str, mistake: str, says: str
) -> tuple[tuple[str, str], ...]:
    """(heading, source) of two panels: the previous rung, and the solution or the kernel `source`; in a
    student's course only the second, since the previous rung's solution is not there."""
    if source and not puzzle.has_solution:
        return (("your kernel", source),)
    mine = bool(source) and source.split() != solved(puzzle).split()
    return (below, with_mistake(puzzle, mistake)), ("your kernel" if mine else says, source or solved(puzzle))


# -- the maps -----------------------------------------------------------------------------------------------
#
# source: the kernel to draw; default: the solution.


def sectors_of_a_read(puzzle: Puzzle, source: str = "") -> Figure:
    """23: the upper left corner of the weights, as read by one request of puzzle 03's kernel and by a
    warp."""
    case, kernel = puzzle.cases[-1], puzzle.kernels[1]
    panels = []
    below = "a thread per output, as in 03", "a thread per output, as in puzzle 03"
    for says, text in panels_of(puzzle, source, *below, "a warp per output"):
        found = counted_run(puzzle, case.name, kernel, text)
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
        across = [(0, "i=0"), *((i, f"{i}") for i in (8, 16, 24))]
        down = [(0, "o=0"), *((i, f"{i}") for i in (10, 20, 31))]
        panels.append([Panel(heading, cells, 10, rule=(floats, 0), across=across, down=down)])
    return draw(
        f"{kernel.name}: one read of weights[o, i] by warp 0",
        of_case(case.name, "32 of 120 rows and 32 of 256 columns; rules between sectors", ": "),
        panels,
        {"read": "read by a lane", "moved": "moved along, not used", "": "not moved"},
    )


def reads_of_a_block(puzzle: Puzzle, source: str = "") -> Figure:
    """24: how often a block reads each element of channel 0, without a tile and with one of 4 x 4."""
    case, kernel, block = next(c for c in puzzle.cases if c.name == "small_tiles"), puzzle.kernels[0], 4
    panels = []
    below = "no tile, as in 07", "no tile, as in puzzle 07"
    for says, text in panels_of(puzzle, source, *below, "a tile and its halo"):
        small = small_tiles(small_tiles(text, 4, "WIDTH"), 4, "HEIGHT")
        found = counted_run(puzzle, case.name, kernel, small)
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
        across, down = [(i, f"w={i}") for i in range(0, columns, 2)], [(i, f"h={i}") for i in range(rows)]
        panels.append([Panel(heading, cells, 28, texts, across=across, down=down)])
    return draw(
        f"{kernel.name}: how often block (1,1) reads the input, channel 0",
        of_case(case.name, "tiles of 4 x 4: outputs p = 4 to 6, q = 4 to 7", ", "),
        panels,
        {"read": "read, with an output at the same place", "moved": "read, halo", "": "not read"},
    )


def banks_of_a_column(puzzle: Puzzle, source: str = "") -> Figure:
    """25: shared memory, 32 words per row, as touched by one read of a column of the tile."""
    case, kernel = puzzle.cases[-1], puzzle.kernels[0]
    panels = []
    for says, text in panels_of(puzzle, source, "tile[32][32]", "no padding", "tile[32][33]"):
        requests = counted_run(puzzle, case.name, kernel, text).requests
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
        of_case(case.name, "words of shared memory, counted at the left, 32 to a row"),
        panels,
        {"read": "read by a lane", "": "not read"},
    )


def steps_of_a_block(
    found: CountedRun, name: str, block: int, shape: tuple[int, int]
) -> tuple[np.ndarray, dict]:
    """The cells of an array drawn as `shape`, and their texts: the steps in which a block reads an element.

    Each request of the block, which has one warp, is a step; the ink shows the first.
    """
    cells, texts = blank(*shape), {}
    for step, (request, elements) in enumerate(found.touching(name, block=block)):
        for element in np.unique(elements[elements >= 0]):
            place = divmod(int(element), shape[1])
            if request.kind == "store":
                cells[place] = "written"
            else:
                cells[place] = cells[place] or f"step {step}"
                texts[place] = f"{texts[place]},{step}" if place in texts else str(step)
    return cells, texts


def tiles(puzzle: Puzzle, source: str = "") -> Figure:
    return MAPS[puzzle.number](puzzle, source)


def tiles_of_a_block(puzzle: Puzzle, source: str = "") -> Figure:
    """26: what one block reads of A and B in each step along K, and writes of C, with tiles of 4 x 4."""
    case, kernel = next(c for c in puzzle.cases if c.name == "small_tiles"), puzzle.kernels[0]
    found = counted_run(puzzle, case.name, kernel, small_tiles(source or solved(puzzle)))
    block = -(-case.dims["N"] // 4) + 1
    panels = []
    for p in kernel.arrays:
        shape = found.arrays[p.name][1]
        cells, texts = steps_of_a_block(found, p.name, block, shape)
        heading = [p.name, f"{' x '.join(p.letters)} = {' x '.join(map(str, shape))}"]
        down, across = ([(0, f"{letter}=0")] for letter in p.letters)
        panels.append([Panel(heading, cells, 19, texts, rule=(4, 4), across=across, down=down)])
    note = of_case(case.name, "the number is the step along K in which an element is read")
    return draw(f"{kernel.name}: block (1,1), tiles of 4 x 4", note, panels, STEPS)


def tiles_of_a_convolution(puzzle: Puzzle, source: str = "") -> Figure:
    """30: what a block reads of weights and image in each step, and writes of the output; tiles of 4 x 4."""
    case, kernel = next(c for c in puzzle.cases if c.name == "drawn"), puzzle.kernels[0]
    found = counted_run(puzzle, case.name, kernel, small_tiles(source or solved(puzzle)))
    d = puzzle.full_dims(case)
    sizes = {
        "weights": ((d["C_out"], d["rows"]), "k x (c,r,s)", (4, 4), [(0, "k=0")], 19),
        "input": (
            (d["C_in"] * d["H"], d["W"]),
            "(c,h) x w",
            (0, d["H"]),
            [(c * d["H"], f"c={c}") for c in range(d["C_in"])],
            26,
        ),
        "output": ((d["C_out"], d["width"]), "k x (p,q)", (4, 4), [(0, "k=0")], 19),
    }
    panels = []
    for name, (shape, axes, rule, down, side) in sizes.items():
        cells, texts = steps_of_a_block(found, name, 1, shape)
        heading = [name, f"{axes} = {shape[0]} x {shape[1]}"]
        panels.append([Panel(heading, cells, side, texts, rule=rule, down=down)])
    note = of_case(case.name, "the numbers are the steps in which an element is read")
    return draw("implicit_gemm_forward: block (1,0), tiles of 4 x 4", note, panels, STEPS)


def square_of_a_thread(puzzle: Puzzle, source: str = "") -> Figure:
    """27: what one thread reads from the tiles in one step, and its elements of C, in blocks of 32 x 32."""
    case, kernel = next(c for c in puzzle.cases if c.name == "rows_of_fours"), puzzle.kernels[0]
    source = small_tiles(small_tiles(source or solved(puzzle), 32, "BM"), 32, "BN")
    found, lane, step = counted_run(puzzle, case.name, kernel, source), 9, 3
    panels = []
    for name, index, columns in (("a", "i", 36), ("b", "j", 32)):
        number = next(
            n for n, row in enumerate(source.split("\n"), 1) if f"float4*>(&{name}[k][{index} *" in row
        )
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
        of_case(case.name, "a thread's numbers lie in two groups of four, 16 apart"),
        [panels, [square]],
        {
            "read": "read by this thread",
            "moved": "by another",
            "written": "written by this thread",
            "other": "by another",
        },
    )


def windows_of_a_block(puzzle: Puzzle, source: str = "") -> Figure:
    """32: the tiles of a block, with the place in the input that each element of the windows comes from."""
    side, tile = 4, 1
    case, kernel = next(c for c in puzzle.cases if c.name == "drawn"), puzzle.kernels[0]
    found = counted_run(puzzle, case.name, kernel, small_tiles(source or solved(puzzle), side))
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
    sizes = [f"{a} x {b}" for a, b in (grads.shape, windows.shape, sums.shape)]
    at_k = [(0, "k=0")]
    panels = [
        Panel(["grad_output", f"k x positions = {sizes[0]}"], grads, 22, rule=(0, side), down=at_k),
        Panel(
            ["windows, never stored", f"positions x weights = {sizes[1]}"], windows, 22, texts, rule=(side, 0)
        ),
        Panel(["partial, split 0", f"k x weights = {sizes[2]}"], sums, 22, rule=(side, side), down=at_k),
    ]
    legend = {
        "step 0": "read in step 0",
        "step 1": "in step 1",
        "other": "padding, not read",
        "written": "written",
        "": "not touched",
    }
    return draw(
        f"{kernel.name}: tile {tile}, split 0, with tiles of {side} x {side}",
        of_case(case.name, "the number is the element of the input that was read there"),
        [[panel] for panel in panels],
        legend,
    )


def classes_of_a_stride(puzzle: Puzzle, source: str = "") -> Figure:
    """31: which class of elements each block writes, and which taps it reads to do so."""
    case, kernel = next(c for c in puzzle.cases if c.name == "drawn"), puzzle.kernels[0]
    source, dims = source or solved(puzzle), puzzle.full_dims(case)
    found, wide = (
        counted_run(puzzle, case.name, kernel, source),
        kernel.launch(dims, tunables(source)).grid[0],
    )
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
        down, across = ([(i, f"{name}={i}") for i in range(n)] for name, n in zip(names, shape))
        panels.append([Panel(heading, cells, 34, texts, across=across, down=down)])
    legend = {ink: f"class {i} = ({i // 2},{i % 2})" for i, ink in enumerate(inks)}
    return draw(
        f"{kernel.name}: the classes of a stride of 2 x 2, padding 1",
        of_case(case.name, "the number is blockIdx.y of the block that touched the element"),
        panels,
        legend,
    )


def groups_and_rows(puzzle: Puzzle, source: str = "") -> Figure:
    """33: the gradient as a matrix, with the group that writes each element; a group's tiles; rows as they
    are fetched."""
    side, (grouped, depthwise) = 4, puzzle.kernels
    case, other = (next(c for c in puzzle.cases if c.name == name) for name in ("drawn", "drawn_depthwise"))
    source = small_tiles(source or solved(puzzle), side)
    found, dims = counted_run(puzzle, case.name, grouped, source), puzzle.full_dims(case)
    wide, columns = grouped.launch(dims, tunables(source)).grid[0], dims["C_group"] * dims["R"] * dims["S"]
    matrix, texts = blank(dims["C_out"], dims["C_in"] * dims["R"] * dims["S"]), {}
    tiles = np.full((side, side * wide), "other", dtype="<U8")
    for request, elements in found.touching("grad_weights"):
        group, tile = divmod(request.block, wide)
        for lane in np.flatnonzero(elements >= 0):
            k, j = divmod(int(elements[lane]), columns)
            matrix[k, group * columns + j], texts[k, group * columns + j] = f"step {group}", str(group)
            if group == 0:
                tiles[lane // side, tile * side + lane % side] = f"step {group}"
    source = small_tiles(small_tiles(source, 32, "THREADS"), 2, "ROWS")
    found = counted_run(puzzle, other.name, depthwise, source)
    rows, stretches = steps_of_a_block(found, "input", 0, found.arrays["input"][1][-2:])
    shapes = [" x ".join(map(str, cells.shape)) for cells in (matrix, tiles, rows)]
    heading, rule = (
        ["gradient, by group", f"k x (c,r,s) = {shapes[0]}"],
        (columns, dims["C_out"] // dims["groups"]),
    )
    panels = [
        Panel(heading, matrix, 22, texts, rule=rule, down=[(0, "k=0")]),
        Panel(["tiles of group 0", shapes[1]], tiles, 22, rule=(side, side)),
        Panel(["depthwise: input", f"h x w = {shapes[2]}"], rows, 22, stretches, down=[(0, "h=0")]),
    ]
    legend = {
        "step 0": "group, stretch 0",
        "step 1": "1",
        "step 2": "2",
        "other": "multiplied, but no weight",
        "": "no weight",
    }
    return draw(
        "All groups in one launch; all rows once",
        f"tiles of {side} x {side}; stretches of 2 rows; numbers: group, stretch",
        [[panel] for panel in panels],
        legend,
    )


MAPS = {
    "23": sectors_of_a_read,
    "24": reads_of_a_block,
    "25": banks_of_a_column,
    "26": tiles_of_a_block,
    "27": square_of_a_thread,
    "30": tiles_of_a_convolution,
    "31": classes_of_a_stride,
    "32": windows_of_a_block,
    "33": groups_and_rows,
}
