"""How busy the units of a multiprocessor are: a bar for each that has something to do, as long as its count says."""

from __future__ import annotations

from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.report.pictures.units import UNITS, units_picture
from tests.report.pictures.test_pictures import no_text_overlaps

PUZZLE = open_course(Path(__file__).resolve().parent).load("02")


def test_the_longest_bar_is_the_limit():
    figure = units_picture(PUZZLE, PUZZLE.solution_path)
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [u.name for u in UNITS if u.name not in ("tensor cores, TF32", "shared memory")]
    lengths, colours = zip(*((p.get_width(), p.get_facecolor()) for p in axes.patches))
    texts = [t.get_text().strip() for t in axes.texts]
    for length, text, unit in zip(lengths, texts, (UNITS[0], UNITS[2], UNITS[4])):
        count = int(text.split(": ")[1].split(" ")[0].replace(",", ""))
        assert length == pytest.approx(count / unit.rate) and text.startswith(f"{length:,.0f} cycles")
    assert colours.count(colours[lengths.index(max(lengths))]) == 1
    no_text_overlaps(figure)


def test_a_kernel_that_does_not_run_has_no_picture(tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text("nothing of this kind")
    assert units_picture(PUZZLE, path) is None
