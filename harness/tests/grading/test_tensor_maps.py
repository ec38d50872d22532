"""Kernels that get tensor maps in place of arrays (puzzle 36), and the GPUs that cannot run them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from backwarp.course.checkout import open_course
from backwarp.course.stubs import stub_text
from backwarp.errors import CourseError, DeviceError
from backwarp.grading.grade import Options, grade_file, open_for
from backwarp.step import traced

COURSE = open_course(Path(__file__).resolve().parent)
PUZZLE = COURSE.load("36")


def test_a_pointer_in_place_of_a_map_is_a_wrong_signature(tmp_path):
    file = tmp_path / "kernel.cu"
    file.write_text(
        "// mine\n" + stub_text(PUZZLE).replace("const __grid_constant__ CUtensorMap x", "const __half* x")
    )
    verdict = grade_file(PUZZLE, file, Options("cpu", 0))
    assert verdict.kind == "signature"
    wanted = "Parameter 11 of one_tile has 8 bytes; const __grid_constant__ CUtensorMap x has 128."
    assert verdict.lines[0] == wanted


def test_what_is_copied_by_hardware_is_not_drawn_as_touched_by_threads():
    assert all([p.name for p in kernel.by_threads] == ["y"] for kernel in PUZZLE.kernels)


def test_a_wrong_sum_is_looked_at_by_stepping_as_a_trace_does_not_follow_tensor_cores(tmp_path):
    wrong = next(m for m in PUZZLE.mistakes if m.name == "windows begin in the image")
    file = tmp_path / "kernel.cu"
    file.write_text(wrong.apply(PUZZLE.solution_path.read_text(encoding="utf-8")))
    verdict = grade_file(PUZZLE, file, Options("cpu", unnamed=False, patience=0, foresee=lambda *_: None))
    assert verdict.kind == "wrong" and verdict.look.startswith("backwarp step 36 ")
    with pytest.raises(CourseError, match="`backwarp step 36` shows the run"):
        traced(SimpleNamespace(puzzle=PUZZLE))


class Gpu:
    kind, name = "gpu", "Fake A100"

    def __init__(self, major):
        self.capability, self.closed = (major, 0), False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


@pytest.mark.parametrize("major", [8, 9, 10])
def test_a_gpu_without_wgmma_is_named_and_the_virtual_one_takes_its_place(major):
    gpu, cpu = Gpu(major), SimpleNamespace(kind="cpu", name="virtual GPU", reason="")

    def opener(kind, **how):
        assert how == {"checks": "full"}
        return cpu if kind == "cpu" else gpu

    assert open_for(COURSE.load("35"), opener, "auto", checks="full") is gpu
    if major == 9:
        assert open_for(PUZZLE, opener, "auto", checks="full") is gpu and not gpu.closed
        return
    assert open_for(PUZZLE, opener, "auto", checks="full") is cpu and gpu.closed
    assert f"Fake A100 has compute capability {major}.0" in cpu.reason
    with pytest.raises(DeviceError, match="--device cpu"):
        open_for(PUZZLE, opener, "gpu", checks="full")
