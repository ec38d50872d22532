"""Blocks of few threads are tried first, where the file says how many there are."""

from harness.course.declare import Kernel, Launch
from harness.course.parameters import Out
from harness.grading.repair.variants import with_small_blocks

SOURCE = "constexpr int TILE = 16;\nconstexpr int DEPTH = 32;\n"


def test_numbers_that_make_blocks_smaller_are_changed_and_places_stay():
    kernel = Kernel(
        "k", (Out("x", i="n"),), lambda d, t: Launch(1, (t["TILE"], t["TILE"])), reference=lambda a, d: None
    )
    small = with_small_blocks(SOURCE, kernel, {"n": 1})
    assert "TILE = 4 ;" in small and "DEPTH = 32;" in small and len(small) == len(SOURCE)
    fixed = Kernel("k", (Out("x", i="n"),), lambda d, t: Launch(1, 256), reference=lambda a, d: None)
    assert with_small_blocks(SOURCE, fixed, {"n": 1}) == SOURCE
