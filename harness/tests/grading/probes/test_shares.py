"""What happens to the shares of a block's threads."""

from __future__ import annotations

import pytest

from backwarp.grading.grade import Options, grade_file
from backwarp.grading.probes.shares import described
from tests.grading.said import said

from ..first_cases import small
from ..test_grade_puzzles import PUZZLES


def graded(path, number, *edits):
    puzzle = next(p for name, p in PUZZLES.items() if name.startswith(number))
    source = puzzle.solution_path.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in source
        source = source.replace(old, new, 1)
    (path / "kernel.cu").write_text(source, encoding="utf-8")
    return str(grade_file(small(puzzle), path / "kernel.cu", Options("cpu", 0)).lines)


def test_a_share_that_is_lost_or_doubled():
    lanes = {t: float(t % 32 < 16) for t in range(64)}
    assert said(described(lanes, "y")) == "what lanes 16 to 31 of a warp read is lost: it never reaches y."
    warps = {t: 1.0 + (t >= 64) for t in range(96)}
    assert said(described(warps, "y")) == "what warp 2 reads is added twice to y."
    assert said(described({t: float(t != 3) for t in range(6)}, "y")).startswith(
        "what thread 3 reads is lost"
    )
    assert said(described({0: 1.0, 1: 1.0}, "y")) == ""
    assert said(described({0: 1.0, 1: 3.0, 2: 0.0, 3: 0.0}, "y")) == (
        "what each thread reads is added to y this many times: thread 0: once; thread 1: 3 times; threads 2 and 3: not at all."
    )
    assert said(described({t: float(t % 3) for t in range(9)}, "y")) == ""
    pairs = {t: 2.0 * (t & 4 == 0) for t in range(32)}
    assert said(described(pairs, "y")).endswith(
        ": threads 0 to 3, 8 to 11, ...: twice; threads 4 to 7, 12 to 15, ...: not at all."
    )
    twos = {t: 2.0 * (t & 2 == 0) for t in range(32)}
    assert said(described(twos, "y")).endswith(
        ": threads 0, 1, 4, 5, ...: twice; threads 2, 3, 6, 7, ...: not at all."
    )
    first_of_each = pairs | {t: 2.0 for t in range(32, 512, 32)}
    assert said(described(first_of_each, "y")).startswith(
        "what each thread of warp 0 reads is added to y this many times: threads 0 to 3,"
    )
    assert said(described({0: 2.0, 32: 2.0}, "y")) == ""


def test_a_tree_that_reaches_too_far(tmp_path):
    """Of an odd number of parts, the one in the middle is added to itself."""
    lines = graded(tmp_path, "19", ("if (tid < n / 2) part", "if (tid < half) part"))
    assert "is added twice to grad_bias." in lines


@pytest.mark.soak
def test_a_warp_that_is_left_out(tmp_path):
    """Of a block of one warp everything is lost: a larger block is looked at."""
    lines = graded(tmp_path, "22", ("int w = 0; w < blockDim.x", "int w = 1; w < blockDim.x"))
    assert "what warp 0 reads is lost: it never reaches partial." in lines


def test_a_maximum_adds_nothing(tmp_path):
    """Of a single 1 among zeros, a maximum makes the same number as a sum."""
    mean = "(corner[0] + corner[1] + corner[W] + corner[W + 1]) / 4"
    largest = "fmaxf(fmaxf(corner[0], corner[1]), fmaxf(corner[W], corner[W + 1]))"
    assert "is added" not in graded(tmp_path, "12", (mean, largest))
