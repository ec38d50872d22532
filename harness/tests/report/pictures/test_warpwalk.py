"""A warp pass by pass: the elements of each pass are those that its lanes touch, and a frame shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from backwarp.course.checkout import open_course
from backwarp.errors import CourseError
from backwarp.report.pictures.canvas import COLOURS, IDLE
from backwarp.report.pictures.counted import counted_run, solved
from backwarp.report.pictures.warpwalk import passes, warp_frames
from tests.report.pictures.test_pictures import no_text_overlaps

COURSE = open_course(Path(__file__).resolve().parent)


def test_the_passes_of_the_weight_gradient():
    """Thread (r, s) of 2 x 2 reads input[p + r, q + s] and grad_output[p, q], for (p, q) in turn."""
    puzzle = COURSE.load("09")
    case, kernel = puzzle.cases[0], puzzle.kernels[0]
    found = passes(counted_run(puzzle, case.name, kernel, solved(puzzle)), [p.name for p in kernel.arrays])
    assert len(found) == 4
    for i, (p, q) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        reads = {(name, flat) for (name, flat), kind in found[i].kinds.items() if kind == "read"}
        window = {("input", 3 * (p + r) + q + s) for r in (0, 1) for s in (0, 1)}
        assert reads == window | {("grad_output", i)}
        assert (
            any(line.endswith("reads input: 4 lanes, 4 elements, 1 sector") for line in found[i].says)
            or i > 1
        )
    written = {flat for (name, flat), kind in found[3].kinds.items() if kind == "write"}
    assert written == {0, 1, 2, 3} and not any("write" in p.kinds.values() for p in found[:3])
    drawn = warp_frames(puzzle, case, kernel, solved(puzzle))
    assert len({tuple(f.get_size_inches()) for f in drawn}) == 1
    for i, figure in enumerate(drawn):
        colours = [to_hex(q.get_facecolor()) for q in figure.axes[0].patches]
        before = set().union(*(p.kinds for p in found[:i])) - set(found[i].kinds)
        assert colours.count(COLOURS["read"]) == 5 + 1 and colours.count(IDLE) == len(before) + 1
        assert figure.axes[0].texts[0].get_text().endswith(f"pass {i + 1} of 4")
    no_text_overlaps(drawn[3])


def test_large_arrays_are_not_drawn():
    puzzle = COURSE.load("09")
    large = max(puzzle.cases, key=lambda c: c.dims["batch"] * c.dims["H"] * c.dims["W"])
    with pytest.raises(CourseError, match="choose a smaller one with --case"):
        warp_frames(puzzle, large, puzzle.kernels[0], solved(puzzle))
