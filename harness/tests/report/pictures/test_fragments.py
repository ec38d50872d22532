"""Which lane holds what in an mma: found in a run of the kernel, drawn, and as the PTX ISA defines it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from backwarp.course.checkout import open_course
from backwarp.course.stubs import stub_text
from backwarp.report.pictures import fragments
from tests.devices.virtual.emit.test_matrices import a_16bit, a_32bit, accumulator, b_16bit, b_32bit
from tests.report.pictures.test_pictures import no_text_overlaps

PUZZLE = open_course(Path(__file__).resolve().parent).load("35")
SOLUTION = PUZZLE.solution_path.read_text(encoding="utf-8")
#: the same without unrolled loops, which is compiled in a fraction of the time
SHORT = re.sub(r"(\n *)for \(", r'\1_Pragma("unroll 1") for (', SOLUTION)
#: of the numbered elements of A, B and D in a lane: their places, how many, and how many to a register
LAYOUTS = {
    "conv2d_backward_weights_tf32": ((a_32bit, 4, 1), (b_32bit, 2, 1), (accumulator, 4, 1)),
    "matmul_half": ((a_16bit, 8, 2), (b_16bit, 4, 2), (accumulator, 4, 1)),
}


def laid_out(shape, place, count, each):
    found = np.full((*shape, 2), -1)
    for lane in range(32):
        for i in range(count):
            found[place(lane, i)] = lane, i // each
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_element_is_held_where_the_ptx_isa_says_and_drawn_there(name, monkeypatch):
    kernel = PUZZLE.kernel(name)
    found = fragments.owners(PUZZLE, kernel, SHORT)
    for held, layout in zip(found, LAYOUTS[name], strict=True):
        assert (held == laid_out(held.shape[:2], *layout)).all()
    panels, draw = [], fragments.draw
    monkeypatch.setattr(fragments, "owners", lambda *_: found)
    monkeypatch.setattr(fragments, "draw", lambda *args: panels.extend(args[2]) or draw(*args))
    picture = fragments.fragment_picture(PUZZLE, kernel, SOLUTION)
    if name == "matmul_half":  # with the smaller cells
        no_text_overlaps(picture)
    for (panel,), held in zip(panels, found, strict=True):
        assert panel.texts == {place: str(held[place][0]) for place in np.ndindex(held.shape[:2])}
        assert (panel.cells == np.array(fragments.INKS)[held[..., 1]]).all()


def test_a_wrong_kernel_is_drawn_as_it_is():
    mistake = next(m for m in PUZZLE.mistakes if m.name == "registers 1 and 2 exchanged")
    kernel = PUZZLE.kernel(mistake.kernel)
    held = fragments.owners(PUZZLE, kernel, mistake.apply(SOLUTION))[0]
    right = laid_out((16, 8), a_32bit, 4, 1)
    exchanged = np.array([0, 2, 1, 3])
    assert (held[..., 0] == right[..., 0]).all() and (held[..., 1] == exchanged[right[..., 1]]).all()


def test_a_kernel_without_mma_has_no_fragments():
    with pytest.raises(fragments.CourseError, match="calls no mma"):
        fragments.owners(PUZZLE, PUZZLE.kernels[0], stub_text(PUZZLE))
