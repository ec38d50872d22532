"""Pictures: what is found is what the kernel touches; nothing in a picture overlaps."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from backwarp.course.checkout import open_course
from backwarp.course.inputs import make_inputs
from backwarp.cuda.values import tunables
from backwarp.errors import CourseError
from backwarp.report.pictures import impulse, timeline
from backwarp.report.pictures.canvas import (
    COLOURS,
    access_picture,
    coordinates,
    draw,
    draw_array,
    in_cells,
    of_case,
    touched_by,
    who_touches,
)
from backwarp.report.pictures.counted import counted_run
from backwarp.report.pictures.probe import Access, count

COURSE = open_course(Path(__file__).resolve().parent)


def probe(number: str, block: int, thread: int):
    """(what a thread touches, which threads write)"""
    puzzle = COURSE.load(number)
    kernel, source = puzzle.kernels[0], puzzle.solution_path.read_text(encoding="utf-8")
    run = counted_run(puzzle, puzzle.cases[0].name, kernel, source)
    found = touched_by(run, kernel)
    writers = [
        [any(a.kind == "write" for a in found.get((b, t), ())) for t in range(count(run.launch.block))]
        for b in range(count(run.launch.grid))
    ]
    return set(found.get((block, thread), ())), writers


def test_probe_of_the_weight_gradient():
    accesses, writers = probe("09", 0, 1)
    assert accesses == {
        Access("grad_weights", 1, "write"),
        *(Access("grad_output", i, "read") for i in range(4)),
        *(Access("input", i, "read") for i in (1, 2, 4, 5)),
    }
    assert writers == [[True] * 4 + [False] * 60]


def test_probe_of_an_update_in_place():
    accesses, writers = probe("11", 0, 1)
    written = {Access(name, 1, "write") for name in ("weights", "velocity")}
    assert {a for a in accesses if a.kind == "write"} == written
    assert {(a.array, a.index) for a in accesses} == {(n, 1) for n in ("weights", "velocity", "gradient")}
    assert writers == [[True] * 4 + [False] * 124]


def test_probe_of_a_thread_without_work():
    accesses, writers = probe("01", 2, 3)
    assert not accesses
    assert writers == [[True] * 4, [True] * 4, [True, True, False, False]]


def test_probe_of_a_launch_with_two_dimensions():
    """Blocks and threads are counted row by row: thread 2 of 2 x 2 is (0, 1)."""
    accesses, writers = probe("02", 1, 2)
    assert accesses == {
        Access("C", 5, "write"),
        *(Access("A", i, "read") for i in (4, 5, 6, 7)),
        *(Access("B", i, "read") for i in (2, 5, 8, 11)),
    }
    assert writers == [[True] * 4, [True, False, True, False]]


def test_probe_finds_labels():
    accesses, _ = probe("05", 0, 1)
    assert accesses == {
        Access("losses", 1, "write"),
        Access("labels", 1, "read"),
        *(Access("logits", i, "read") for i in (3, 4, 5)),
    }


def test_probe_of_threads_that_work_together():
    """Thread 1 of block 1 adds up every 6th element of channel 1, which thread 0 stores."""
    accesses, writers = probe("19", 1, 1)
    assert accesses == {Access("grad_output", 7, "read"), Access("grad_output", 19, "read")}
    assert writers == [[True] + [False] * 5] * 2


def test_any_kernel_is_drawn_in_any_case():
    puzzle = COURSE.load("08")
    case, kernel = puzzle.cases[1], puzzle.kernels[1]
    picture = draw(puzzle, puzzle.solution_path.read_text(encoding="utf-8"), case, kernel, 0, 0)
    texts = [t.get_text() for t in picture.axes[0].texts]
    assert texts[0].startswith(kernel.name) and f"case {case.name}:" in texts[1]


def test_a_wrong_kernel_is_drawn_with_its_own_numbers():
    puzzle = COURSE.load("01")
    source = puzzle.solution_path.read_text(encoding="utf-8")
    source = source.replace("    c[i] = a[i] + b[i];", "    if (i != 2) c[i] = 70 + i;")
    cells = [t.get_text() for t in draw(puzzle, source, puzzle.cases[0], puzzle.kernels[0]).axes[0].texts]
    assert (
        {f"{70 + i}" for i in range(10) if i != 2} <= set(cells) and "72" not in cells and "nan" not in cells
    )


def test_a_kernel_that_faults_is_drawn_up_to_the_fault():
    """What a thread reads before it ends has no effect any more, and is found all the same."""
    puzzle = COURSE.load("02")
    source = puzzle.solution_path.read_text(encoding="utf-8")
    assert "k < K" in source
    figure = draw(puzzle, source.replace("k < K", "k <= K"), puzzle.cases[0], puzzle.kernels[0])
    texts = [t.get_text() for t in figure.axes[0].texts]
    (said,) = [text for text in texts if "ends in line" in text]
    assert said.endswith("at B[k=4,n=0], an access outside an array, as 5 more do")
    patches = figure.axes[0].patches
    read = [p for p in patches if p.get_linewidth() == 2.0 and p.get_facecolor() == to_rgba(COLOURS["read"])]
    assert len(read) == 8  # a row of A, a column of B


def test_constants_are_no_part_of_a_picture():
    """They are the same for all threads, and what one thread reads of them is not found."""
    puzzle = COURSE.load("24")
    source = (
        puzzle.solution_path.read_text(encoding="utf-8")
        .replace("WIDTH = 32", "WIDTH = 2")
        .replace("HEIGHT = 8", "HEIGHT = 2")
    )
    texts = [
        t.get_text() for t in draw(puzzle, source, puzzle.cases[0], puzzle.kernels[0], 0, 0).axes[0].texts
    ]
    assert "input" in texts and "weights" not in texts


def test_a_case_that_is_there_to_be_drawn_is_not_named():
    assert of_case("tiny", "32 threads run") == "case tiny; 32 threads run"
    assert of_case("drawn_depthwise", "32 threads run") == "32 threads run"


def test_names_of_threads():
    assert [coordinates(5, 8), coordinates(5, (4, 2)), coordinates(5, (3, 3, 1))] == ["5", "(1,1)", "(2,1)"]


def test_numbers_in_cells_are_short_or_left_out():
    assert in_cells(np.array([3.0, -0.5])) == ["3", "-0.5"]
    assert in_cells(np.array([0.40761, 2.40761])) == ["0.41", "2.41"]
    assert in_cells(np.array([12345.6, 1.0])) == []


def test_the_threads_of_a_block_stand_in_the_cells():
    reads = [Access("x", i, "read") for i in (0, 3)]
    found = {0: [reads[0], Access("y", 0, "write")], 1: reads}
    texts = who_touches("x", (2, 2), found)
    assert texts.tolist() == [["0,1", ""], ["", "1"]] and in_cells(texts) == ["0,1", "", "", "1"]


@pytest.mark.sampled
@pytest.mark.parametrize("puzzle", [p for p in COURSE.puzzles() if p.kernels], ids=lambda p: p.id)
@pytest.mark.parametrize(
    "which", [0, pytest.param(2, marks=pytest.mark.soak)]
)  # the third is drawn like the first
def test_no_text_overlaps_or_leaves_the_picture(puzzle, which):
    case = puzzle.cases[which]
    kernel = puzzle.kernels_of(case)[0]
    values = {**make_inputs(puzzle, case, kernel)}
    launch = kernel.launch(puzzle.full_dims(case), tunables(puzzle.solution_path.read_text(encoding="utf-8")))
    accesses = [Access(kernel.arrays[0].name, 0, "read"), Access(kernel.outputs[0].name, 0, "write")]
    writers = np.ones((count(launch.grid), count(launch.block)), bool)
    threads = (0, None) if puzzle.part == 3 else (0,)
    for thread in threads:
        no_text_overlaps(access_picture(puzzle, case, kernel, accesses, 0, thread, values, writers, launch))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("number", "thread", "says"),
    [("02", 1, "small numbers: place in memory"), ("11", 1, ""), ("21", "all", "numbers: the thread; small")],
)
def test_numbers_are_explained_where_there_are_any(number, thread, says):
    """Vectors have no small numbers, and the list of threads in the legend leaves the second line for them."""
    puzzle = COURSE.load(number)
    source = puzzle.solution_path.read_text(encoding="utf-8")
    picture = draw(puzzle, source, puzzle.cases[0], puzzle.kernels[0], 0, thread)
    told = [t.get_text() for t in picture.axes[0].texts if "small" in t.get_text()]
    assert len(told) == bool(says) and all(t.startswith(says) for t in told)
    no_text_overlaps(picture)


def no_text_overlaps(picture):
    picture.draw_without_rendering()
    frame = picture.bbox
    boxes = [(t.get_text(), t.get_window_extent()) for t in picture.axes[0].texts]
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= frame.x1 and box.y1 <= frame.y1, text
    for (text, a), (other, b) in combinations(boxes, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 0 or down <= 0, f"{text!r} overlaps {other!r}"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("number", "element", "reached"),
    [
        ("13", 24, [5, 7, 9, 10, 12, 14]),
        ("14", 13, [12, 13, 16, 17, 20, 21]),
        ("16", 5, [9, 11, 13, 17, 19, 21, 25, 27, 29]),
    ],
)
def test_an_impulse_reaches_the_outputs_that_it_is_under(number, element, reached, monkeypatch):
    puzzle = COURSE.load(number)
    case = next(c for c in puzzle.cases if c.name == "one_pixel")
    drawn = {}
    monkeypatch.setattr(impulse, "draw_array", lambda *args: drawn.update(args[5]) or draw_array(*args))
    source = puzzle.solution_path.read_text(encoding="utf-8")
    picture = impulse.draw_impulse(puzzle, case, puzzle.kernels[0], source)
    assert drawn == {("input", element): "write"} | {("output", i): "read" for i in reached}
    no_text_overlaps(picture)


def test_an_impulse_is_one_element():
    puzzle = COURSE.load("13")
    with pytest.raises(CourseError, match="12 elements of input are not 0"):
        impulse.draw_impulse(puzzle, puzzle.cases[0], puzzle.kernels[0], "")


def test_a_time_line_is_that_of_the_run(monkeypatch):
    runs, panel = [], timeline.panel
    monkeypatch.setattr(timeline, "BUFFERS", (3,))
    monkeypatch.setattr(timeline, "panel", lambda *args: runs.append(args[0]) or panel(*args))
    picture = timeline.draw(COURSE.load("34"))
    found = {(s.what, s.step): s for s in timeline.bars(runs[0])}
    assert found.keys() == {(what, step) for what in ("way", "use") for step in range(5)}
    for step in range(3):  # two steps ahead
        ahead, used = found["way", step + 2], found["use", step]
        assert (
            ahead.first < used.first
            and found["use", step + 1].last < ahead.last < found["use", step + 2].first
        )
    no_text_overlaps(picture)


def test_colours_differ_in_brightness_too():
    from matplotlib.colors import to_rgb

    from backwarp.report.pictures.canvas import COLOURS

    def brightness(colour: str) -> float:
        return float(np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722)))

    values = sorted(brightness(c) for c in COLOURS.values())
    assert all(b - a > 0.02 for a, b in zip(values, values[1:]))
