"""The layers to time, and which kernels of the course can compute them."""

from __future__ import annotations

from ...course import least_work
from ...course.checkout import Course
from ...course.declare import Kernel, Puzzle
from ...errors import CourseError
from ...measure import shapes

LAYERS = {
    "lenet_conv1": "N=64,C=1,H=28,W=28,K=6,R=5,S=5",
    "lenet_conv2": "N=64,C=6,H=12,W=12,K=16,R=5,S=5",
    "resnet50_stem": "N=32,C=3,H=224,W=224,K=64,R=7,S=7,stride=2,pad=3",
    "resnet50_3x3": "N=32,C=64,H=56,W=56,K=64,R=3,S=3,pad=1",
    "resnet50_3x3_stride2": "N=32,C=128,H=56,W=56,K=128,R=3,S=3,stride=2,pad=1",
    "resnet50_1x1": "N=32,C=256,H=14,W=14,K=1024,R=1,S=1",
    "depthwise_3x3": "N=64,C=144,H=56,W=56,K=144,R=3,S=3,pad=1,groups=144",
    "depthwise_5x5": "N=64,C=240,H=28,W=28,K=240,R=5,S=5,pad=2,groups=240",
    "published": "N=128,C=128,H=71,W=71,K=256,R=3,S=3,stride=2,pad=1",
    "one_dimension": "N=32,C=64,W=4096,K=128,S=9,pad=4",
    "three_dimensions": "N=4,C=32,D=16,H=56,W=56,K=64,T=3,R=3,S=3,pad=1",
}
PRODUCT = "M=4096,N=4096,K=4096"
#: what a kernel of this direction writes
DIRECTIONS = {"forward": ("output",), "data": ("grad_input",), "weights": ("grad_weights", "partial")}


def items() -> list[str]:
    return [f"{layer}/{direction}" for layer in LAYERS for direction in DIRECTIONS] + ["product/product"]


def kernels(course: Course, layer: str, direction: str) -> list[tuple[Puzzle, Kernel]]:
    """The kernels that can compute it, in course order."""
    found = []
    for puzzle, kernel in ((p, k) for p in course.puzzles() for k in p.kernels):
        takes = {p.name for p in kernel.params}
        if direction == "product":
            fits = {"M", "N", "K"} <= takes
        else:
            fits = kernel.outputs[0].name in DIRECTIONS[direction] and can_do(puzzle, kernel, LAYERS[layer])
        if fits:
            found.append((puzzle, kernel))
    return found


def can_do(puzzle: Puzzle, kernel: Kernel, text: str) -> bool:
    """Whether the kernel is an ordinary convolution that accepts these sizes."""
    if least_work.transposed(kernel) or not {"C_in", "C_out"} <= {p.name for p in kernel.params}:
        return False
    try:
        shape = shapes.shape_of(puzzle, text)
    except CourseError:
        return False
    depthwise = shape.case.dims.get("groups", 1) == shape.case.dims["C_in"] > 1
    return not shape.unused and ("depthwise" not in kernel.name or depthwise)
