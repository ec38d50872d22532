"""The error heat map and the page: what they show is what grading found."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from backwarp import cli
from backwarp.course.declare import Out
from backwarp.grading.compare import Expected, error_map
from backwarp.grading.verdict import Verdict
from backwarp.report.html import page, section
from backwarp.report.pictures.canvas import LEFT, corner
from backwarp.report.pictures.heatmap import (
    NOT_A_NUMBER,
    RIGHT,
    TOP,
    UNWRITTEN,
    colour,
    error_picture,
    legend_items,
)
from tests.test_cli import SOLUTION, backwarp, course  # noqa: F401


def verdict(shape, errors, letters):
    found = {"array": "y", "axes": letters, "shape": list(shape), "errors": list(errors)}
    return Verdict("09_x", "kernel.cu", kind="wrong", case="tiny", kernel="f", error_map=found)


def test_the_map_of_an_output():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    target = Expected(Out("y", n=5), values, np.full(5, 0.5), values)
    before = np.full(5, np.nan, np.float32)
    got = np.array([1.25, 4.0, np.inf, np.nan, -5.0], np.float32)
    found = error_map(target, got, before)
    assert (found["array"], found["axes"], found["shape"]) == ("y", "n", [5])
    assert (
        found["errors"][:3] == [0.0, 4.0, np.inf]
        and np.isnan(found["errors"][3])
        and found["errors"][4] == 20.0
    )
    big = np.zeros(5000)
    assert (
        error_map(Expected(Out("y", n=5000), big, big, big), big.astype(np.float32), big.astype(np.float32))
        == {}
    )


SHAPES = [
    ((5,), "n"),
    ((4, 6), "mn"),
    ((3, 2, 5), "bhw"),
    ((4, 3, 3, 2), "kcrs"),
    ((16, 6, 5, 5), "kcrs"),
    ((1, 1, 1, 1), "kcrs"),
    ((2, 64, 3, 3), "kcrs"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("shape", "letters"), SHAPES)
def test_every_cell_has_the_colour_of_its_error(shape, letters):
    errors = np.random.default_rng(0).choice([0.0, 3.0, 1e4, np.nan, np.inf], int(np.prod(shape)))
    figure = error_picture(verdict(shape, errors, letters))
    cells = figure.axes[0].patches
    assert [to_hex(c.get_facecolor()) for c in cells[: errors.size]] == [colour(e) for e in errors]
    assert len(cells) == errors.size + len(legend_items())
    side = cells[0].get_width()
    assert [c.get_xy() for c in cells[: errors.size]] == [
        corner((LEFT, TOP), shape, i, side) for i in range(errors.size)
    ]
    figure.canvas.draw()
    texts = figure.axes[0].texts
    boxes = [t.get_window_extent() for t in texts]
    width, height = figure.canvas.get_width_height()
    for text, box in zip(texts, boxes, strict=True):
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height, text.get_text()
    for (a, x), (b, y) in combinations(zip(texts, boxes, strict=True), 2):
        assert not x.overlaps(y), (a.get_text(), b.get_text())


def test_colours_tell_the_kinds_apart():
    assert colour(0) == RIGHT and colour(float("nan")) == UNWRITTEN and colour(float("inf")) == NOT_A_NUMBER
    assert len({colour(x) for x in (0, 2, 10, 1e3, 1e6, float("nan"), float("inf"))}) == 7


class Balanced(HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_on_its_own(course, backwarp):  # noqa: F811
    (course / "puzzles" / "01_twice" / "kernel.cu").write_text(SOLUTION)
    status, out, _ = backwarp("grade", "--all", "--html", "report.html")
    text = (course / "report.html").read_text()
    assert status == 1 and "ok 01_twice" in out
    parser = Balanced()
    parser.feed(text)
    assert parser.open == [] and "1 of 2 puzzles pass" in text
    assert 'class="passed" id="01_twice"' in text and "Not started: 02_again" in text
    assert "src=" not in text.replace('src="data:', "") and "http" not in text
    assert backwarp("grade", "1", "--html", "no/where.html")[0] == 2


def test_the_page_shows_where_an_output_is_wrong_and_what_was_counted(course):  # noqa: F811
    from backwarp.course.checkout import Course

    puzzle = Course(course).load("01")
    wrong = verdict((2, 2), (0.0, 5.0, 5.0, 0.0), "mn")
    wrong.lines = ["a < b & c"]
    wrong.gates = [{"quantity": "flops", "value": 12.0, "most": 10, "below": None}]
    text = section(wrong, puzzle)
    assert "data:image/png;base64," in text and "a &lt; b &amp; c" in text
    assert "<td>FLOP</td><td>12</td><td>10</td><td></td>" in text
    assert page([wrong], [puzzle], "today").count("<article") == 1


def test_the_verbs_are_all_there():
    assert {"watch", "picture", "solution", "grade"} <= set(cli.cli.commands)


def test_wrong_elements_of_a_small_output_have_their_numbers():
    values = np.arange(6.0)
    target = Expected(Out("y", n=6), values, np.full(6, 1e-6), values)
    got = np.array([0, 1, -2, np.inf, 123456, 5], np.float32)
    wrong = verdict((6,), [0] * 6, "n")
    wrong.error_map = error_map(target, got, np.full(6, np.nan, np.float32))
    texts = [t.get_text() for t in error_picture(wrong).axes[0].texts]
    assert {"-2", "inf", "1e5"} <= set(texts) and "0" not in texts and any("expected" in t for t in texts)
