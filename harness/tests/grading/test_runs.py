"""One kernel in one case, on a device."""

from __future__ import annotations

from pathlib import Path

from backwarp.course.checkout import open_course
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.grading.runs import Outcome, Pace, Setup, in_order, try_kernel


def test_a_launch_that_fails_keeps_no_arrays():
    """Later launches would look through them."""
    puzzle = open_course(Path(__file__).resolve().parent).load("01")
    source = puzzle.solution_path.read_text(encoding="utf-8").replace("a[i] +", "a[i + 1] +")
    (kernel,) = puzzle.kernels
    with VirtualGPU("full") as device:
        device.quick = True
        setup = Setup(device, (1,))
        setup.module = device.compile(source)
        setup.kernels[kernel.name] = setup.module.get_function(kernel.name)
        outcomes = [try_kernel(puzzle, c, kernel, setup, {}, 0, Pace()) for c in in_order(puzzle)[:3]]
        assert [o.error.kind for o in outcomes] == ["out-of-bounds"] * 3
        arrays = {p.name for p in kernel.arrays}
        left = [o.name for o in device.arena._owners if o.name in arrays]
        assert len(left) == len(set(left))  # at most what the last launch was given


def test_the_time_of_a_launch_does_not_shrink_with_the_work_that_is_left():
    pace = Pace(patience=0.5)
    pace.after(Outcome(None, None, kind="wrong"))
    assert {pace.limit(100) for _ in range(20)} == {3.0} and pace.left() < 0
