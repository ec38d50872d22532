"""The walk over the virtual matrices: a frame shows what a block read, where the convolution has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backwarp.reference.conv import forward

from backwarp.course.checkout import open_course
from backwarp.report.pictures.counted import counted_run, small_tiles, solved
from backwarp.report.pictures.panels import INKS
from backwarp.report.pictures.tilewalk import frame, product, walk
from tests.report.pictures.test_pictures import no_text_overlaps

COURSE = open_course(Path(__file__).resolve().parent)
NUMBERS = ("30", "31", "32")


@pytest.fixture(scope="module", params=NUMBERS)
def walked(request):
    puzzle = COURSE.load(request.param)
    return puzzle, walk(puzzle, solved(puzzle))


def test_a_step_reads_its_tiles_and_all_steps_read_what_the_block_reads(walked):
    puzzle, found = walked
    p, case = found.product, next(c for c in puzzle.cases if c.name == "drawn")
    run = counted_run(puzzle, "drawn", puzzle.kernels[0], small_tiles(solved(puzzle)))
    width = puzzle.kernels[0].launch(puzzle.full_dims(case), {"TILE": 4}).grid[0]
    block = p.block[0] + p.block[1] * width
    for matrix, side in ((p.a, "a"), (p.b, "b")):
        touched = {int(e) for _, lanes in run.touching(matrix.name, block=block) for e in lanes if e >= 0}
        cells = [cell for step in found.steps for cell in getattr(step, side)]
        assert {int(matrix.places[cell]) for cell in cells} == touched
        assert len(cells) == len(set(cells)), "an element of a virtual matrix is read in one step"
    assert [step.depth[0] for step in found.steps] == list(range(0, p.b.places.shape[0], 4))
    rows, columns = {m for m, _ in found.written}, {n for _, n in found.written}
    for step in found.steps:
        depth = range(*step.depth)
        assert step.a == {(m, k) for m in rows for k in depth}
        assert step.b == {(k, n) for k in depth for n in columns if p.b.places[k, n] >= 0}


def test_the_virtual_matrices_multiply_to_the_convolution():
    puzzle = COURSE.load("30")
    d = puzzle.full_dims(next(c for c in puzzle.cases if c.name == "all_asymmetric"))
    p, rng = product(puzzle, d), np.random.default_rng(0)
    image = rng.integers(-4, 5, (d["batch"], d["C_in"], d["H"], d["W"])).astype(float)
    weights = rng.integers(-4, 5, (d["C_out"], d["C_in"], d["R"], d["S"])).astype(float)
    columns = np.where(p.b.places < 0, 0, image.ravel()[p.b.places])
    result = np.zeros(p.c.places.size)
    result[p.c.places] = weights.ravel()[p.a.places] @ columns
    strides = {name: (d[f"{name}_h"], d[f"{name}_w"]) for name in ("stride", "dilation")}
    right = forward(image, weights, padding=(d["pad_h"], d["pad_w"]), **strides)
    assert np.array_equal(result, np.ravel(right))


@pytest.mark.parametrize("number", ["31", "32"])
def test_frames_show_the_steps(number):
    puzzle = COURSE.load(number)
    found = walk(puzzle, solved(puzzle))
    sizes = set()
    for i, step in enumerate(found.steps):
        picture = frame(found, i)
        texts = [t.get_text() for t in picture.axes[0].texts]
        assert f"step {i} (0 to {len(found.steps) - 1})" in texts[0]
        inked = [q for q in picture.axes[0].patches if matches(q, INKS["read"])]
        image = len({int(found.product.b.places[cell]) for cell in step.b})
        assert len(inked) == len(step.a) + len(step.b) + image + ("read now" in texts)
        sizes.add(tuple(picture.get_size_inches()))
    assert len(sizes) == 1
    no_text_overlaps(picture)
    no_text_overlaps(frame(found, len(found.steps) - 1, together=True))


def matches(patch, colour: str) -> bool:
    from matplotlib.colors import to_hex

    return to_hex(patch.get_facecolor()) == colour and patch.get_facecolor()[3] > 0
