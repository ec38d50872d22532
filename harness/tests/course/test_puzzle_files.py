"""Requirements on the files of all puzzles, and the kernels in `kernels/`.

Nothing here depends on the student's own `puzzles/*/kernel.cu`, which may be solved, broken or gone: the
pristine stub is derived from the solution. Only stubs that nobody has edited are compared with it.
(test_puzzles looks at the declarations; test_check makes an author's checks of every puzzle.)
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.course.stubs import stub_text
from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.grading.grade import Options, grade_file
from backwarp.maintain.check_mistakes import solution_text
from backwarp.maintain.mutants import mutants
from tests import KERNELS, sampled

COURSE = open_course(Path(__file__).resolve().parent)
PUZZLES = COURSE.puzzles()
VARIANTS = sorted(KERNELS.glob("[0-9][0-9]_*.cu"))
WRONG = {path for path in VARIANTS if "_wrong_" in path.stem}


# ---- trees and texts --------------------------------------------------------------------------------


def test_puzzles_and_solutions_mirror_each_other():
    def folders(tree: str) -> set[str]:
        return {p.name for p in (COURSE.root / tree).iterdir() if p.is_dir() and p.name[0].isdigit()}

    assert folders("puzzles") == folders("solutions") == set(COURSE.ids())
    for puzzle in PUZZLES:
        files = [p.name for p in puzzle.solution_path.parent.iterdir() if p.name != "__pycache__"]
        assert files == [puzzle.file], puzzle.id


def test_the_committed_stubs_are_the_pristine_ones():
    """A stub that differs from git's may have been edited by a student."""
    command = ["git", "diff", "--name-only", "--relative", "HEAD", "--", "puzzles"]
    try:
        done = subprocess.run(command, cwd=COURSE.root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git checkout: whose stubs these are is not known")
    edited = done.stdout.split()
    stubs = {p.stub_path.relative_to(COURSE.root).as_posix(): p for p in PUZZLES}
    for name in stubs.keys() - edited:
        assert (COURSE.root / name).read_text(encoding="utf-8") == stub_text(stubs[name]), name


def test_a_sum_of_one_part_alone_is_told_without_a_guess_at_the_loop_that_lost_the_others():
    """A loop that is missing, ends early, or skips what it should add gives the same numbers."""
    guesses = re.compile(r"(alone|Only the (first|last)).*: .*(loop|restart|stride)")
    assert not [m.says for p in PUZZLES for m in p.mistakes if guesses.search(m.says)]


def test_a_lesson_is_headed_by_the_title_of_its_puzzle():
    for puzzle in PUZZLES:
        first = puzzle.lesson_path.read_text(encoding="utf-8").partition("\n")[0]
        assert first == f"# {puzzle.id[:2]} {puzzle.title}"


def test_markdown_takes_no_number_for_a_list_and_no_product_for_emphasis():
    """It drops the stars of `1*7 + 1*8` unless they are code, and starts a list at a line that starts with
    `256. `."""
    folders = [COURSE.root / name for name in ("puzzles", "notebooks", ".github")]
    for path in [COURSE.root / "README.md", *(p for folder in folders for p in folder.rglob("*.md"))]:
        text = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        text = re.sub(r"`[^`]+`", "", text).replace("**", " ")
        assert not re.findall(r".*[\w)\]]\*[\w(\[-].*", text), path
        items = [0, *map(int, re.findall(r"^ *(\d+)\. ", text, re.M))]
        assert all(n in (1, before + 1) for before, n in zip(items, items[1:])), (path, items)


# ---- kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sampled(VARIANTS, always=WRONG, every=8), ids=lambda p: p.stem)
def test_differently_written_kernels(path, tmp_path):
    """`NN_right_*.cu` pass; `NN_wrong_*.cu` fail with one of the diagnoses after `// expect:`."""
    source = path.read_text(encoding="utf-8")
    number, sort, _ = path.stem.split("_", 2)
    (tmp_path / "kernel.cu").write_text(source, encoding="utf-8")
    verdict = grade_file(
        COURSE.load(number), tmp_path / "kernel.cu", Options(device="cpu", again=False, unnamed=False)
    )
    if sort == "right":
        assert verdict.passed, verdict.lines
    else:
        expected = re.search(r"^// expect: (.+)$", source, re.MULTILINE)[1].split(", ")
        assert verdict.status == "failed"
        assert verdict.diagnosis in expected, (verdict.diagnosis, verdict.lines)


def test_tiles_that_puzzle_27_reads_in_fours_begin_where_fours_may():
    """An array of float in shared memory may begin at any multiple of 4 bytes, if nothing else is said."""
    ptx = compile_ptx(COURSE.load("27").solution_path.read_text(encoding="utf-8"), flavour="fast").text
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
    weights = puzzle.kernel("conv2d_backward_weights")
    assert len(mutants(solution_text(puzzle), weights.name)) >= 21 and len(puzzle.mistakes_of(weights)) > 1
    assert len([path for path in VARIANTS if path.stem.startswith("09_right_")]) >= 4
