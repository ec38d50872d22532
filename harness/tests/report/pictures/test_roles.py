"""Puzzle 36's timeline: what its threads do, and which copies and products are under way together."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.devices import confined_device
from backwarp.errors import CourseError
from backwarp.report.pictures import roles
from tests.report.pictures.test_pictures import no_text_overlaps

PUZZLE = open_course(Path(__file__).resolve().parent).load("36")
SOURCE = PUZZLE.solution_path.read_text(encoding="utf-8")
CASES = {case.name: case for case in PUZZLE.cases}


def drawn(kernel: str, case: str = roles.CASE, source: str = SOURCE, seed: int = 0) -> roles.Timeline:
    with confined_device("cpu", checks="memory", seed=seed) as device:
        device.quick = True
        line = roles.timeline(roles.events(device, PUZZLE, CASES[case], PUZZLE.kernel(kernel), source))
    assert line.ways.keys() == line.uses.keys()
    by_pair = {}
    for pair, step in sorted(line.ways, key=lambda fill: fill[1]):
        (left, landed), (begun, complete) = line.ways[pair, step], line.uses[pair, step]
        assert left < landed <= begun < complete
        by_pair.setdefault(pair, []).append((left, complete))
    assert all(a[1] <= b[0] for fills in by_pair.values() for a, b in pairwise(fills))  # one at a time
    return line


def together(line: roles.Timeline) -> set[tuple[int, int]]:
    """(a step whose copies are under way, a step whose products are under way at the same time)"""
    return {
        (copied, multiplied)
        for (_, copied), way in line.ways.items()
        for (_, multiplied), use in line.uses.items()
        if way[0] < use[1] and use[0] < way[1]
    }


def overlapping(stages: int) -> set[tuple[int, int]]:
    """What must be together in a ring of five steps."""
    return {(t + n, t) for t in range(5) for n in range(1, stages) if t + n < 5}


def test_loads_overlap_products_in_all_kernels_but_the_first():
    for seed in (0, 1):
        assert not together(drawn("one_tile", seed=seed))
        line = drawn("ring", seed=seed)
        assert [name for name, _ in line.rows()] == ["thread 0", "pair 0", "pair 1", "pair 2"]
        assert together(line) >= overlapping(3)
        line = drawn("specialised", seed=seed)
        assert sorted(line.threads) == [0, 128, 256] and together(line) >= {(1, 0), (2, 0), (3, 1), (4, 2)}
        assert "".join(s.text for s in line.threads[0]) == "ec0ec1ec2ec3ec4"
        assert all("".join(s.text for s in line.threads[t]) == "f0pf1pf2pf3pf4p" for t in (128, 256))
    assert not together(drawn("ring", "one_step"))


def test_other_threads_may_copy_in_rings_of_other_sizes():
    source = SOURCE.replace("STAGES = 3", "STAGES = 2").replace("threadIdx.x != 0", "threadIdx.x != 37")
    line = drawn("ring", source=source)
    assert [name for name, _ in line.rows()] == ["thread 0", "thread 37", "pair 0", "pair 1"]
    assert [s.text for s in line.threads[37]] == [f"c{step}" for step in range(5)]
    assert together(line) >= overlapping(2)


def test_the_picture_has_a_panel_for_each_kernel_that_copies():
    figure = roles.draw(PUZZLE, SOURCE)
    no_text_overlaps(figure)
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert [texts.count(name) for name in ("one_tile", "ring", "specialised", "thread 0")] == [1, 1, 1, 3]
    with pytest.raises(CourseError, match="do not copy anything yet"):
        roles.draw(PUZZLE, PUZZLE.stub_path.read_text(encoding="utf-8"))
