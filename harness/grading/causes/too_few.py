"""An index of one thread each that is to run further than the launch has threads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...course.cuda_pieces import Function, Piece, Variable
from ...course.declare import Kernel, Launch
from ...course.parameters import Scalar
from ...devices.launching import triple
from .expression_values import computed
from .findings import Slip, shown, sign_of

NO_THREAD = "so no thread does"
TURNED = {"<": "<", ">=": "<", ">": ">", "<=": ">"}  # `i >= n` asks what `i < n` asks
PLACES = (
    {"blockIdx.x": 3, "blockDim.x": 64, "threadIdx.x": 5},
    {"blockIdx.x": 7, "blockDim.x": 96, "threadIdx.x": 2},
)


class Known(dict):
    """None for a name whose value is not known."""

    def __missing__(self, name: str) -> None:
        return None


def too_few_threads(
    kernel: Kernel,
    own: Function,
    failed: Sequence[tuple[Mapping[str, int], Launch]],
    passed: Sequence[tuple[Mapping[str, int], Launch]],
) -> Iterator[Slip]:
    """The first such index: it is only compared with its bound, and nothing moves it on. failed, passed: the
    dimensions of the cases, and their launches."""
    for v in own.file.variables:
        if not own.body.holds(v) or not is_thread(v) or moves_on(own, v):
            continue
        for test in bounds_of(own, v):
            short = [pair for case in failed if (pair := threads_and_elements(kernel, own, test, case))]
            fine = [pair for case in passed if (pair := threads_and_elements(kernel, own, test, case))]
            if short and not fine:
                threads, count = short[0]
                have = "one thread" if threads == 1 else f"{threads} threads"
                yield Slip(
                    test.line,
                    f"Line {test.line} lets {v.name} go up to {shown(test)} ({count} in a failing case); that launch has only "
                    f"{have}, {NO_THREAD} {v.name} = {threads} or more.",
                )
                return


def is_thread(v: Variable) -> bool:
    """Whether it is declared as the number of the thread in the launch."""
    if not v.value or v.pointer or v.extents or (v.scope and v.scope.type == "for_statement"):
        return False
    worth = [computed(v.value, Known(at)) for at in PLACES]
    return worth == [at["blockIdx.x"] * at["blockDim.x"] + at["threadIdx.x"] for at in PLACES]


def moves_on(own: Function, v: Variable) -> bool:
    """Whether it is changed, or a loop begins at it."""
    for e in own.body.all("identifier"):
        if e.code != v.name or v.holds(e):
            continue
        outer = e.outer
        if e.is_updated or (outer.kind == "assignment_expression" and outer.part("left") == e):
            return True
        if outer.kind in ("init_declarator", "pointer_expression"):
            return True
    return False


def bounds_of(own: Function, v: Variable) -> Iterator[Piece]:
    """What `if`s compare it with: the first element that is not there."""
    for statement in own.body.all("if_statement"):
        for e in statement.part("condition").all("binary_expression"):
            left, right = e.part("left"), e.part("right")
            if left.code == v.name and TURNED.get(sign_of(e)) == "<":
                yield right
            elif right.code == v.name and TURNED.get(sign_of(e)) == ">":
                yield left


def threads_and_elements(
    kernel: Kernel, own: Function, bound: Piece, case: tuple[Mapping[str, int], Launch]
) -> tuple[int, int] | None:
    """(threads of the launch, value of the bound) if there are fewer threads."""
    dims, launch = case
    scalars = [
        (p, v.name) for p, v in zip(kernel.params, own.parameters, strict=False) if isinstance(p, Scalar)
    ]
    worth = {name: p.resolve(dims) for p, name in scalars}
    count = computed(bound, Known(worth))
    blocks, block = triple(launch.grid, "grid"), triple(launch.block, "block")
    threads = blocks[0] * block[0]
    flat = blocks[1:] == block[1:] == (1, 1)
    return (threads, count) if flat and count is not None and threads < count else None


def whole_blocks_spare(kernel: Kernel, dims: Mapping[str, int], t: Mapping[str, int]) -> bool:
    """Whether a launch has whole blocks more than one thread for each element needs: a block may work for one."""
    launch = kernel.launch(dict(dims), t)
    blocks, threads = (math.prod(triple(n, "launch")) for n in (launch.grid, launch.block))
    return (blocks - 1) * threads >= max(math.prod(p.shape(dims)) for p in kernel.outputs)
