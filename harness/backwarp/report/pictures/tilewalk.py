"""The walk of implicit GEMM: a block's tiles over two matrices, at least one of which is never stored.

C[m, n] is the sum over k of A[m, k] * B[k, n]; A is drawn to the left of C and B above it. Which elements a
block reads in which step is taken from a counted run with tiles of 4 x 4. The place of an array's element in
a virtual matrix follows from the convolution's sizes (`product`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure

from ...course.declare import Puzzle
from ...cuda.values import tunables
from .canvas import of_case
from .counted import CountedRun, counted_run, small_tiles
from .panels import LINE, Panel, blank, draw

SIDE = 4  # of a tile
CELL = 22
STEPS = ("step 0", "step 1", "step 2")
MOST_STEPS = len(STEPS)


@dataclass(frozen=True)
class Matrix:
    """places: [rows, columns] of flat elements of an array; -1: zero, not read.

    name: of the array; axes: of rows and columns. virtual: it is not stored in this form.
    """

    name: str
    axes: tuple[str, str]
    places: np.ndarray
    virtual: bool = False


@dataclass(frozen=True)
class Product:
    """block: the coordinates of the block whose walk is drawn."""

    kernel: str
    a: Matrix
    b: Matrix
    c: Matrix
    block: tuple[int, int]
    note: str = ""


@dataclass
class TileStep:
    """The cells (row, column) of A and B that are read, and the columns or rows [first, last) of the tile."""

    a: set[tuple[int, int]] = field(default_factory=set)
    b: set[tuple[int, int]] = field(default_factory=set)
    depth: tuple[int, int] = (0, 0)


@dataclass
class Walk:
    """The steps of a block over the matrices of a product."""

    product: Product
    shapes: dict[str, tuple[int, ...]]  # of the arrays
    steps: list[TileStep]
    written: set[tuple[int, int]]  # cells of C
    case: str


# -- the virtual matrices ------------------------------------------------------------------------------------


def product(puzzle: Puzzle, d: Mapping[str, int]) -> Product:
    return {"30": forward, "31": backward_data, "32": backward_weights}[puzzle.number](d)


def windows(d: Mapping[str, int]) -> np.ndarray:
    """[taps (c, r, s), positions (b, p, q)] of elements of the input, -1 in the padding."""
    taps = np.indices((d["C_in"], d["R"], d["S"])).reshape(3, -1, 1)
    positions = np.indices((d["batch"], d["H_out"], d["W_out"])).reshape(3, 1, -1)
    (c, r, s), (b, p, q) = taps, positions
    h = p * d["stride_h"] - d["pad_h"] + r * d["dilation_h"]
    w = q * d["stride_w"] - d["pad_w"] + s * d["dilation_w"]
    inside = (h >= 0) & (h < d["H"]) & (w >= 0) & (w < d["W"])
    return np.where(inside, ((b * d["C_in"] + c) * d["H"] + h) * d["W"] + w, -1)


def outputs(d: Mapping[str, int]) -> np.ndarray:
    """[filters k, positions (b, p, q)] of elements of the output."""
    k = np.arange(d["C_out"])[:, None]
    b, p, q = np.indices((d["batch"], d["H_out"], d["W_out"])).reshape(3, 1, -1)
    return ((b * d["C_out"] + k) * d["H_out"] + p) * d["W_out"] + q


def forward(d: Mapping[str, int]) -> Product:
    taps = d["C_in"] * d["R"] * d["S"]
    weights = np.arange(d["C_out"] * taps).reshape(d["C_out"], taps)
    return Product(
        "implicit_gemm_forward",
        Matrix("weights", ("k", "(c,r,s)"), weights),
        Matrix("input", ("(c,r,s)", "(b,p,q)"), windows(d), True),
        Matrix("output", ("k", "(b,p,q)"), outputs(d)),
        block=(1, 0),
    )


def backward_weights(d: Mapping[str, int]) -> Product:
    """The product of split 0."""
    matrix, positions = windows(d).T, d["batch"] * d["H_out"] * d["W_out"]
    end = -(-positions // d["splits"])
    sums = np.arange(d["C_out"] * matrix.shape[1]).reshape(d["C_out"], -1)
    return Product(
        "conv2d_backward_weights_split",
        Matrix("grad_output", ("k", "(b,p,q)"), outputs(d)[:, :end]),
        Matrix("input", ("(b,p,q)", "(c,r,s)"), matrix[:end], True),
        Matrix("partial", ("k", "(c,r,s)"), sums),
        block=(1, 0),
        note="split 0",
    )


def backward_data(d: Mapping[str, int]) -> Product:
    """The product of the last class: the elements whose h and w have the largest remainders."""
    class_h, class_w = d["stride_h"] - 1, d["stride_w"] - 1
    h, w = np.arange(class_h, d["H"], d["stride_h"]), np.arange(class_w, d["W"], d["stride_w"])
    r = np.arange((class_h + d["pad_h"]) % d["stride_h"], d["R"], d["stride_h"])
    s = np.arange((class_w + d["pad_w"]) % d["stride_w"], d["S"], d["stride_w"])
    k, r, s = (x.reshape(-1, 1) for x in np.meshgrid(np.arange(d["C_out"]), r, s, indexing="ij"))
    b, h, w = (x.reshape(1, -1) for x in np.meshgrid(np.arange(d["batch"]), h, w, indexing="ij"))
    c = np.arange(d["C_in"]).reshape(-1, 1)
    p, q = (h + d["pad_h"] - r) // d["stride_h"], (w + d["pad_w"] - s) // d["stride_w"]
    inside = (p >= 0) & (p < d["H_out"]) & (q >= 0) & (q < d["W_out"])
    grads = np.where(inside, ((b * d["C_out"] + k) * d["H_out"] + p) * d["W_out"] + q, -1)
    weights = ((k.T * d["C_in"] + c) * d["R"] + r.T) * d["S"] + s.T
    elements = ((b * d["C_in"] + c) * d["H"] + h) * d["W"] + w
    return Product(
        "conv2d_backward_input",
        Matrix("weights", ("c", "(k,r,s)"), weights, True),
        Matrix("grad_output", ("(k,r,s)", "(b,h,w)"), grads, True),
        Matrix("grad_input", ("c", "(b,h,w)"), elements),
        block=(0, class_h * d["stride_w"] + class_w),
        note=f"class ({class_h},{class_w})",
    )


# -- the walk ------------------------------------------------------------------------------------------------


def walk(puzzle: Puzzle, source: str) -> Walk:
    """The steps of one block in the case `drawn`.

    A step ends when the block has read its tiles and reads global memory again.
    Errors: ValueError, LookupError if the kernel does not walk.
    """
    case, kernel = next(c for c in puzzle.cases if c.name == "drawn"), puzzle.kernels[0]
    source, dims = small_tiles(source, SIDE), puzzle.full_dims(case)
    found, p = counted_run(puzzle, case.name, kernel, source), product(puzzle, dims)
    block = p.block[0] + p.block[1] * kernel.launch(dims, tunables(source)).grid[0]
    steps, used = [TileStep()], False
    reads: list[tuple[set, set]] = [(set(), set())]
    for r in found.requests:
        if r.block != block or r.kind != "load":
            continue
        used |= r.space == "shared"
        for side, matrix in enumerate((p.a, p.b)):
            elements = found.elements(matrix.name, r)
            if (elements >= 0).any():
                if used:
                    steps.append(TileStep())
                    reads.append((set(), set()))
                    used = False
                reads[-1][side].update(elements[elements >= 0].tolist())
    written = written_cells(found, p.c, block)
    columns = {n for _, n in written}
    for step, (from_a, from_b) in zip(steps, reads, strict=True):
        step.a = {(m, k) for m, k in np.argwhere(np.isin(p.a.places, list(from_a))).tolist()}
        first = min(k for _, k in step.a) // SIDE * SIDE
        step.depth = first, min(first + SIDE, p.b.places.shape[0])
        step.b = {
            (k, n)
            for k, n in np.argwhere(np.isin(p.b.places, list(from_b))).tolist()
            if step.depth[0] <= k < step.depth[1] and n in columns
        }
    return Walk(p, {n: shape for n, (_, shape) in found.arrays.items()}, steps, written, case.name)


def written_cells(found: CountedRun, c: Matrix, block: int) -> set[tuple[int, int]]:
    elements = {
        int(e) for _, lanes in found.touching(c.name, block=block, kind="store") for e in lanes if e >= 0
    }
    places = {tuple(cell) for cell in np.argwhere(np.isin(c.places, list(elements))).tolist()}
    if not places:
        raise ValueError(f"block {block} writes nothing to {c.name}")
    return places


# -- drawing -------------------------------------------------------------------------------------------------


def walk_picture(puzzle: Puzzle, source: str) -> Figure:
    """All steps in one picture."""
    found = walk(puzzle, source)
    return frame(found, len(found.steps) - 1, together=True)


def walk_frames(puzzle: Puzzle, source: str) -> list[Figure]:
    """A picture for each step."""
    found = walk(puzzle, source)
    return [frame(found, i) for i in range(len(found.steps))]


def frame(found: Walk, now: int, together: bool = False) -> Figure:
    """Step `now`, with earlier ones paler; together: each step in its own colour."""
    p, last = found.product, now == len(found.steps) - 1

    def ink(step: int) -> str:
        return STEPS[step % MOST_STEPS] if together else "read" if step == now else "step 2"

    a, b, c = (blank(*m.places.shape) for m in (p.a, p.b, p.c))
    texts: dict[tuple[int, int], str] = {}
    image = blank(*flat_shape(found.shapes[p.b.name]))
    for i, step in enumerate(found.steps[: now + 1]):
        for cell in step.a:
            a[cell] = ink(i)
        for cell in step.b:
            b[cell], texts[cell] = ink(i), str(p.b.places[cell])
            image[divmod(int(p.b.places[cell]), image.shape[1])] = ink(i)
        for k in range(*step.depth):
            for n in {n for _, n in found.written}:
                if p.b.places[k, n] < 0:
                    b[k, n] = "other"
    for cell in found.written:
        c[cell] = "written" if last else "step 2"
    rows, columns = [{f(x[i] for x in found.written) for f in (min, max)} for i in (0, 1)]
    top, down = min(rows), max(rows) - min(rows) + 1
    left, across = min(columns), max(columns) - min(columns) + 1
    depth = found.steps[now].depth
    tile_a = (top, depth[0], down, depth[1] - depth[0])
    tile_b = (depth[0], left, depth[1] - depth[0], across)
    shape = found.shapes[p.b.name]
    picture = Panel([p.b.name, image_axes(shape)], image, CELL, number(image), rule=(0, shape[-2]))
    upper = Panel(heading(p.b), b, CELL, texts, rule=(SIDE, SIDE), frame=None if together else tile_b)
    gap = CELL * (b.shape[0] - image.shape[0]) + LINE * (len(upper.heading) - len(picture.heading))
    lower = Panel(
        heading(p.a), a, CELL, rule=(SIDE, SIDE), frame=None if together else tile_a, gap=max(gap, 0)
    )
    sums = Panel(heading(p.c), c, CELL, rule=(SIDE, SIDE), frame=(top, left, down, across), gap=max(-gap, 0))
    legend = {"read": "read now", "step 2": "read before, summed so far"}
    if together:
        legend = {ink(i): f"read in step {i}" for i in range(min(now + 1, MOST_STEPS))}
    legend |= {"other": "padding, not read"} if (b == "other").any() else {}
    legend |= {"written": "written"} if last else {}
    block = f"block ({p.block[0]},{p.block[1]})" + (f", {p.note}" if p.note else "")
    steps = f"{len(found.steps)} steps" if together else f"step {now} (0 to {len(found.steps) - 1})"
    return draw(
        f"{p.kernel}: {block}, tiles of {SIDE} x {SIDE}, {steps}",
        of_case(found.case, f"a number is the element of {p.b.name} that was read there"),
        [[picture, lower], [upper, sums]],
        legend,
    )


def heading(m: Matrix) -> list[str]:
    sizes = " x ".join(map(str, m.places.shape))
    return [m.name + ", not in memory" * m.virtual, f"{' x '.join(m.axes)} = {sizes}"]


def flat_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """An image with its planes one below the other."""
    return int(np.prod(shape[:-1])), shape[-1]


def image_axes(shape: tuple[int, ...]) -> str:
    return "as it lies in memory, " + " x ".join(map(str, flat_shape(shape)))


def number(image: np.ndarray) -> dict[tuple[int, int], str]:
    return {tuple(cell): str(i) for i, cell in enumerate(np.ndindex(image.shape))}
