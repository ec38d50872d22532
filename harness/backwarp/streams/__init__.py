"""Puzzle 44: streams. The student's program uses CuPy; graded, it gets a `cupy` that only asks (driver), for a machine in the
grader's process that knows the order of everything (machine, order).

    from backwarp.streams import launch

launches a kernel of part 1 on CuPy's arrays, in the current stream: the student's where it has passed, else the solution's.
"""

from __future__ import annotations

from collections.abc import Callable

KERNELS = "conv2d_backward_weights", "conv2d_backward_input", "conv2d_backward_bias"

#: takes (kernel, arrays) where CuPy's arrays are not those of a GPU of this process
elsewhere: Callable[[str, tuple], None] | None = None


def launch(kernel: str, *arrays) -> None:
    """Launches a kernel of part 1 in the current stream. Its arrays are in the order of its signature; sizes, grid and block
    follow from their shapes. Errors: LaunchMistake if they do not match."""
    if elsewhere:
        return elsewhere(kernel, arrays)
    from ..tensors import on_cuda

    on_cuda(*KERNELS)(kernel, arrays, {})
    return None
