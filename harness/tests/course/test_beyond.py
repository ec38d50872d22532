"""The lessons after the course: their files fail as they say, and their figures are those that are computed."""

from __future__ import annotations

import re

import pytest

from backwarp.cuda import tree as cuda_tree
from backwarp.devices.nvrtc.ptxas import Resources, occupancy
from backwarp.devices.virtual.explain.metrics import METRICS
from backwarp.lenet.checks import this_course
from backwarp.measure.profile import profile_file
from backwarp.run import Asked, run_file

FOLDER = this_course().root / "puzzles" / "beyond"
LESSONS = sorted(FOLDER.glob("*.md"))
SANITIZER = (FOLDER / "sanitizer.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"backwarp run puzzles/beyond/faults.cu (\w+) --block 64 (.*)", SANITIZER)
FAULTS = {
    "shift": "out-of-bounds",
    "reverse": "race",
    "mean": "uninitialised-read",
    "total": "barrier-divergence",
}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda p: p.stem)
def test_what_a_lesson_links_to_is_there(lesson):
    links = re.findall(r"\]\(([^)#:]+)\)", lesson.read_text(encoding="utf-8"))
    assert links or lesson.stem == "host_code"
    assert all((FOLDER / link).is_file() for link in links)


def test_each_kernel_of_the_sanitizer_has_its_fault():
    assert [kernel for kernel, _ in COMMANDS] == [*FAULTS]
    for kernel, rest in COMMANDS:
        arguments = tuple(re.findall(r"--arg (\S+)", rest))
        done = run_file(Asked(FOLDER / "faults.cu", kernel, (1,), (64,), arguments), "cpu")
        assert not done.errors and done.fault.kind == FAULTS[kernel]
        if kernel == "shift":
            assert done.fault.headline in SANITIZER and done.fault.explanation in SANITIZER


@pytest.mark.parametrize("name", ["faults.cu", "occupancy.cu"])
def test_the_programs_parse(name):
    assert not cuda_tree.parse((FOLDER / name).read_text(encoding="utf-8")).has_error


def test_occupancy_by_hand():
    lesson = (FOLDER / "occupancy.md").read_text(encoding="utf-8")
    (registers,) = map(int, re.findall(r"`many_sums`, .*? \| (\d+) \|", lesson))
    for threads, blocks, warps, share in re.findall(
        r"\| (\d+) threads \| .* = (\d+) \| (\d+) \| (\d+) %", lesson
    ):
        found = occupancy(Resources(registers, 0, 0, 0, 0), int(threads))
        assert (found.blocks, found.warps, round(100 * found.share)) == (int(blocks), int(warps), int(share))
    assert occupancy(Resources(registers, 0, 0, 0, 0), 1024).blocks == 0
    tile = Resources(10, 32768, 0, 0, 0)
    for arch, blocks, warps, share in re.findall(
        r"(sm_\d0): \d+ / 33 = (\d) blocks, (\d+) warps,\s(\d+) %", lesson
    ):
        found = occupancy(tile, 256, arch=arch)
        assert (found.blocks, found.warps, round(100 * found.share)) == (int(blocks), int(warps), int(share))
    assert lesson.count(" / 33 = ") == 2


def test_the_counts_that_nsight_compute_should_find():
    lesson = (FOLDER / "nsight_compute.md").read_text(encoding="utf-8")
    puzzle = this_course().load("09")
    counted = profile_file(puzzle, puzzle.solution_path, "nothing_divides").kernels[0].counters
    rows = re.findall(r"^\| (\w+) \| ([\d,]+) \| `([\w.]+)` \|$", lesson, re.MULTILINE)
    for name, count, theirs in rows:
        assert counted[name] == int(count.replace(",", "")) and METRICS[name].ncu == theirs
    assert len(rows) == 5
