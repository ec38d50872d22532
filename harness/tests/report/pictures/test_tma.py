"""Puzzle 36's picture: which pixels a copy by TMA brings, and the order of the chunks in shared memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from backwarp.course.checkout import open_course
from backwarp.report.pictures import tma
from tests.report.pictures.test_pictures import no_text_overlaps

PUZZLE = open_course(Path(__file__).resolve().parent).load("36")
D = PUZZLE.full_dims(next(c for c in PUZZLE.cases if c.name == tma.CASE))


def test_each_row_of_a_tile_is_the_pixel_that_an_output_reads_at_the_tap_and_is_drawn_there(monkeypatch):
    images = D["batch"], D["H"], D["W"]
    numbers = 1 + np.arange(np.prod(images)).reshape(images)
    padded = np.pad(numbers, [(0, 0)] + [(D["pad"], D["pad"])] * 2)
    panels, draw = [], tma.draw
    monkeypatch.setattr(tma, "draw", lambda *args: panels.extend(args[2]) or draw(*args))
    no_text_overlaps(tma.pixels_and_chunks(PUZZLE))
    tiles = tma.copies(PUZZLE, numbers[..., None] + np.zeros((*images, D["C"])))
    for (r, s), tile, drawn in zip(tma.TAPS, tiles, panels):
        read = padded[:, r : r + D["P"], s : s + D["Q"]].reshape(-1)[: len(tile)]
        assert (tile == read[:, None]).all()
        first = np.arange(D["P"] * D["Q"]).reshape(D["P"], D["Q"])
        for image, panel in enumerate(drawn):
            texts = {
                (p + r, q + s): str(first[p, q] + image * first.size) for p, q in np.ndindex(first.shape)
            }
            assert panel.texts == texts
            there = {(h, w) for h, w in texts if padded[image, h, w]}
            assert {place for place in texts if panel.cells[place] == "moved"} == there
    (order,) = panels[-1]
    assert order.texts == {(row, place): str(place ^ row) for row, place in np.ndindex(8, 8)}
