"""Puzzle 36: what copies of pixels by TMA leave in shared memory, drawn from runs of such copies."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from backwarp.course.declare import Puzzle

from .canvas import of_case
from .panels import Panel, blank, draw

ROWS, CHUNK = 64, 8  # of a tile; halves in 16 bytes
CASE, TAPS = "small_images", ((0, 0), (1, 1))
COPY = """#include "hopper.cuh"
extern "C" __global__ void copied(__half* found, int w, int h, int s, int r, const __grid_constant__ CUtensorMap x) {
    __shared__ alignas(1024) __half tile[64 * 64];
    __shared__ Barrier full;
    if (threadIdx.x == 0) {
        make_barrier(&full, 1);
        show_barriers();
        arrive_and_expect(&full, sizeof(tile));
        copy_pixels(tile, &x, 0, w, h, 0, s, r, &full);
    }
    __syncthreads();
    wait_for_phase(&full, 0);
    for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x) found[i] = tile[i];
}
"""


def copies(puzzle: Puzzle, values: np.ndarray, taps=TAPS) -> list[np.ndarray]:
    """The first tile of the case's images with these values, at some taps: [row][place] as in shared memory."""
    from backwarp.devices import confined_device

    dims = puzzle.full_dims(next(c for c in puzzle.cases if c.name == CASE))
    found = []
    with confined_device("cpu", checks="memory") as device:
        device.quick = True
        function = device.compile(COPY, include_dirs=puzzle.include_dirs).get_function("copied")
        x = device.array(values.astype(np.float16), name="x")
        made = next(a for a in puzzle.kernels[0].passed if a.name == "x").argument(x, dims)
        for r, s in taps:
            tile = device.empty(ROWS * ROWS, np.float16)
            corner = np.int32(-dims["pad"])
            function(1, 128, (tile, corner, corner, np.int32(s), np.int32(r), made))
            found.append(tile.get().reshape(ROWS, ROWS).astype(int))
    return found


def walk(d: dict[str, int], tap: tuple[int, int]) -> np.ndarray:
    """[row of the tile] -> (n, h, w) that it is copied from, perhaps in the padding."""
    q, p, n = (i.reshape(-1)[:ROWS] for i in np.indices((d["batch"], d["P"], d["Q"]))[::-1])
    return np.stack((n, p * d["stride"] - d["pad"] + tap[0], q * d["stride"] - d["pad"] + tap[1]), axis=1)


def pixels_and_chunks(puzzle: Puzzle) -> Figure:
    """The walk over the pixels of two images, and where the chunks of eight rows lie."""
    case = next(c for c in puzzle.cases if c.name == CASE)
    d = puzzle.full_dims(case)
    images = d["batch"], d["H"], d["W"], d["C"]
    numbers = 1 + np.arange(np.prod(images[:3])).reshape(*images[:3], 1)
    tiles = copies(puzzle, numbers + np.zeros(images))
    pad, columns = d["pad"], []
    for tap, tile in zip(TAPS, tiles, strict=True):
        panels = []
        for image in range(2):
            cells, texts = blank(d["H"] + 2 * pad, d["W"] + 2 * pad), {}
            for row, (n, h, w) in enumerate(walk(d, tap)):
                if n == image:
                    cells[h + pad, w + pad] = "moved" if tile[row].all() else "other"
                    texts[h + pad, w + pad] = str(row)
            axes = {"across": [(pad, "w=0")], "down": [(pad, "h=0")]}
            panels.append(Panel([f"tap r={tap[0]}, s={tap[1]}: image {image}"], cells, 30, texts, **axes))
        columns.append(panels)
    chunks = copies(puzzle, np.arange(ROWS) // CHUNK + np.zeros(images), TAPS[1:])[0]
    rows = [row for row in range(ROWS) if tiles[1][row].all()]  # others are 0
    places = {row % CHUNK: chunks[row, ::CHUNK] for row in rows}
    cells, texts = blank(CHUNK, CHUNK), {}
    for row, order in places.items():
        for place, chunk in enumerate(order):
            texts[row, place] = str(chunk)
            cells[row, place] = "read" if chunk == 0 else ""
    down = [(row, f"row {row}") for row in (0, 7)]
    columns.append(
        [
            Panel(
                ["8 rows of 128 bytes: chunks of channels"],
                cells,
                30,
                texts,
                down=down,
                across=[(0, "place 0")],
            )
        ]
    )
    legend = {"moved": "copied", "other": "padding: 0", "read": "chunk 0: channels 0 to 7"}
    return draw(
        "copy_pixels: rows of the tile, and the order in a row",
        of_case(case.name, "numbers: rows of the tile; chunks of 16 bytes"),
        columns,
        legend,
    )
