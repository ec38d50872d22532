"""What the files of every puzzle must hold: stub and cases; and the kernels in `kernels/`.

Nothing here depends on the student's own `puzzles/*/kernel.cu`, which may be solved, broken or gone: the
pristine stub is derived from the solution. Only stubs that nobody has edited are compared with it.
(test_puzzles looks at the declarations; test_check makes an author's checks of every puzzle.)
"""

from __future__ import annotations

import math
import re
import subprocess
from pathlib import Path

import pytest

from harness.course.checkout import open_course
from harness.course.cuda_values import tunables
from harness.course.declare import Kernel, Puzzle
from harness.course.stubs import stub_text
from harness.devices.nvrtc.compiler import compile_ptx
from harness.grading.grade import Options, grade_file
from harness.maintain.check import flat, solution_lines
from harness.tests import KERNELS

COURSE = open_course(Path(__file__).resolve().parent)
PUZZLES = COURSE.puzzles()
VARIANTS = sorted(KERNELS.glob("[0-9][0-9]_*.cu"))

each_puzzle = pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda p: p.id)
each_kernel_puzzle = pytest.mark.parametrize("puzzle", [p for p in PUZZLES if p.kernels], ids=lambda p: p.id)


def solution_of(puzzle: Puzzle) -> str:
    return puzzle.solution_path.read_text(encoding="utf-8")


# ---- trees and texts --------------------------------------------------------------------------------


def test_puzzles_and_solutions_mirror_each_other():
    def folders(tree: str) -> set[str]:
        return {p.name for p in (COURSE.root / tree).iterdir() if p.is_dir() and p.name[0].isdigit()}

    assert folders("puzzles") == folders("solutions") == set(COURSE.ids())
    for puzzle in PUZZLES:
        assert [p.name for p in puzzle.solution_path.parent.iterdir()] == [puzzle.file], puzzle.id


def test_the_committed_stubs_are_the_pristine_ones():
    """Those that differ from git's, a student may have edited."""
    command = ["git", "diff", "--name-only", "--relative", "HEAD", "--", "puzzles"]
    try:
        done = subprocess.run(command, cwd=COURSE.root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git checkout: whose stubs these are is not known")
    edited = done.stdout.split()
    stubs = {p.stub_path.relative_to(COURSE.root).as_posix(): p for p in PUZZLES}
    for name in stubs.keys() - edited:
        assert (COURSE.root / name).read_text(encoding="utf-8") == stub_text(stubs[name]), name


@each_kernel_puzzle
def test_stub_says_what_to_do(puzzle):
    stub = stub_text(puzzle)
    given = puzzle.repair or "the tiles are filled for you" in stub
    longest = 75 if given else max(40, 10 + 18 * len(puzzle.kernels))
    assert 15 <= len(stub.splitlines()) <= longest
    assert f"You will write about {puzzle.lines} lines" in stub
    assert 0.8 <= puzzle.lines / len(solution_lines(puzzle)) <= 1.25
    numbers = [int(n) for n in re.findall(r"// TODO\((\d+)\):", stub)]
    assert numbers and numbers == list(range(1, len(numbers) + 1))
    assert f"backwarp grade {puzzle.number}" in stub and f"backwarp hint {puzzle.number}" in stub
    for kernel in puzzle.kernels:
        assert f"__global__ void {kernel.signature}" in flat(stub)


@each_kernel_puzzle
def test_cases_cover_what_a_kernel_can_get_wrong(puzzle):
    cases = [puzzle.full_dims(case) for case in puzzle.cases]
    cases = [{name: d.get(name, 0) for name in {*d, *cases[0]}} for d in cases]  # not all have all sizes
    assert puzzle.cases[0].inputs, "the first case is the one done by hand, with exact inputs"
    assert any(case.values == "integers" for case in puzzle.cases)
    if puzzle.gradient_of:
        assert any(case.check == "gradient" for case in puzzle.cases)
    if "batch" in cases[0]:
        assert any(d["batch"] > 1 for d in cases)
    if {"H", "W"} <= cases[0].keys():
        assert any(d["H"] > d["W"] for d in cases) and any(d["H"] < d["W"] for d in cases)
    if {"H_out", "W_out"} <= cases[0].keys():
        assert any(d["H_out"] == d["W_out"] == 1 for d in cases), "no output of 1 x 1"
    if {"C_in", "C_out"} <= cases[0].keys():
        assert any(d["C_in"] == 1 and d["batch"] > 1 for d in cases), "no case with one channel"
        assert any(d["C_in"] != d["C_out"] > 1 for d in cases)


def sizes(puzzle: Puzzle, kernel: Kernel) -> list[dict[str, int]]:
    """The dims of every case of a kernel; of drawn ones, as they are for a few seeds."""
    drawn = [puzzle.drawn(seed) for seed in range(8)]
    return [
        p.full_dims(c)
        for p in drawn
        for c in p.cases
        if kernel in p.kernels_of(c) and (c.draw or p is drawn[0])
    ]


@each_puzzle
def test_every_kernel_has_a_case_whose_sizes_are_drawn(puzzle):
    draws = [c for c in puzzle.cases if c.draw]
    assert draws and all(len({tuple(c.drawn(seed).dims.items()) for seed in range(12)}) > 3 for c in draws)
    assert {k for c in draws for k in puzzle.kernels_of(c)} == set(puzzle.kernels)


#: sizes and arrays that stay small: the side of a square filter, one sum per channel, what fits nowhere or would
#: need a block or a warp of its own for every element
SMALL = {
    "F", "bias", "grad_bias", "mean", "21 grad_weights", "22 partial", "23 output", "24 weights",
    "33 grad_weights", "33 R", "33 S", "33 C_group",
}  # fmt: skip


@each_kernel_puzzle
def test_no_size_fits_into_8_bits_and_no_index_into_16(puzzle):
    """Otherwise a kernel passes that keeps them in an `unsigned char` or a `short`."""
    for kernel in puzzle.kernels:
        cases = sizes(puzzle, kernel)
        lengths = {name for a in kernel.arrays for _, name in a.axes if isinstance(name, str)}
        small = {name for name in lengths if max(d[name] for d in cases) <= 256}
        small |= {a.name for a in kernel.arrays if max(math.prod(a.shape(d)) for d in cases) <= 1 << 16}
        assert {n for n in small if n not in SMALL and f"{puzzle.number} {n}" not in SMALL} == set(), (
            kernel.name
        )


@each_kernel_puzzle
def test_every_kernel_has_more_work_than_one_block(puzzle):
    """In every direction of the grid; otherwise a kernel passes that leaves its blockIdx out."""
    t = tunables(solution_of(puzzle))
    for kernel in puzzle.kernels:
        grids = [kernel.launch(dict(d), t).grid for d in sizes(puzzle, kernel)]
        most = [max(axis) for axis in zip(*(g if isinstance(g, tuple) else (g,) for g in grids))]
        assert all(n > 1 for n in most) or kernel.name == "mean_loss", kernel.name


# ---- kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", VARIANTS, ids=lambda p: p.stem)
def test_differently_written_kernels(path, tmp_path):
    """`NN_right_*.cu` pass; `NN_wrong_*.cu` fail with one of the diagnoses after `// expect:`."""
    source = path.read_text(encoding="utf-8")
    number, sort, _ = path.stem.split("_", 2)
    (tmp_path / "kernel.cu").write_text(source, encoding="utf-8")
    verdict = grade_file(COURSE.load(number), tmp_path / "kernel.cu", Options(device="cpu"))
    if sort == "right":
        assert verdict.passed, verdict.lines
    else:
        expected = re.search(r"^// expect: (.+)$", source, re.MULTILINE)[1].split(", ")
        assert verdict.status == "failed"
        assert verdict.diagnosis in expected, (verdict.diagnosis, verdict.lines)


def test_tiles_that_puzzle_27_reads_in_fours_begin_where_fours_may():
    """An array of float in shared memory may begin at any multiple of 4 bytes, if nothing else is said."""
    ptx = compile_ptx(solution_of(COURSE.load("27")), flavour="fast").text
    assert re.findall(r"\.shared \.align (\d+)", ptx) == ["16", "16"]


# ---- puzzle 09 is promised to others ----------------------------------------------------------------


def test_puzzle_09_keeps_its_names():
    puzzle = COURSE.load("09")
    weights, bias = puzzle.kernels
    assert weights.signature == (
        "conv2d_backward_weights(const float* grad_output, const float* input, float* grad_weights, "
        "int batch, int C_in, int H, int W, int C_out, int F)"
    )
    assert bias.signature == (
        "conv2d_backward_bias(const float* grad_output, float* grad_bias, "
        "int batch, int C_out, int H_out, int W_out)"
    )
    promised = {"tiny_3x3", "numerical_gradient_check", "lenet_conv1", "lenet_conv2"}
    assert {f"conv_bw_{name}" for name in promised} <= {case.name for case in puzzle.cases}


def test_puzzle_09_has_enough_wrong_and_right_kernels():
    puzzle = COURSE.load("09")
    wrong = puzzle.mistakes_of(puzzle.kernel("conv2d_backward_weights"))
    named = [m for m in wrong if m.says]
    assert len(wrong) >= 21 and len(named) >= 12
    assert len([path for path in VARIANTS if path.stem.startswith("09_right_")]) >= 4
