"""Places that do not fit the launch: an index of one thread each that is to run further than there are threads, and
a number of blocks that is divided into unequal parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...course.declare import Kernel, Launch
from ...course.parameters import Array, Scalar
from ...cuda.evaluate import computed
from ...cuda.parts import index_of, shown, sign_of
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.values import tunables
from ...devices.launching import triple
from .findings import Slip

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
            short = [(c, pair) for c in failed if (pair := threads_and_elements(kernel, own, test, c))]
            fine = [pair for case in passed if (pair := threads_and_elements(kernel, own, test, case))]
            if short and not fine:
                case, (threads, count) = short[0]
                have = "one thread" if threads == 1 else f"{threads} threads"
                for_each = one_for_each(kernel, own, case, [*failed, *passed])
                yield Slip(
                    test.line,
                    f"Line {test.line} lets {v.name} go up to {shown(test)} ({count} in a failing case); that launch has only "
                    f"{have}{for_each}, {NO_THREAD} {v.name} = {threads} or more.",
                )
                return


def one_for_each(
    kernel: Kernel,
    own: Function,
    case: tuple[Mapping[str, int], Launch],
    cases: Sequence[tuple[Mapping[str, int], Launch]],
) -> str:
    """`, one for each element of y (n = 50), rounded up to whole blocks of 64`; "" if the launch of any case, or of one with
    a larger y, is another."""

    def fits(a: Array, dims: Mapping[str, int], launch: Launch) -> bool:
        blocks, block = (math.prod(triple(n, "launch")) for n in (launch.grid, launch.block))
        return blocks == -(-math.prod(a.shape(dims)) // block)

    dims, launch = case
    block, t = math.prod(triple(launch.block, "block")), tunables(own.file.text)
    for a in kernel.outputs:
        sizes = [str(size) for _, size in a.axes]
        if not sizes or not set(sizes) <= dims.keys():
            continue
        larger = [{**d, **{s: n * d[s] + 1 for s in sizes}} for d, _ in cases for n in (3, 20)]
        if all(fits(a, *c) for c in [*cases, *((d, kernel.launch(dict(d), t)) for d in larger)]):
            count = math.prod(a.shape(dims))
            rounded = f", rounded up to whole blocks of {block}" if count % block else ""
            return f", one for each element of {a.name} ({' * '.join(sizes)} = {count}){rounded}"
    return ""


def too_few_in_a_block(
    kernel: Kernel,
    own: Function,
    failed: Sequence[tuple[Mapping[str, int], Launch]],
    _: Sequence[tuple[Mapping[str, int], Launch]],
) -> Iterator[Slip]:
    """`if (t < count) tile[t] = ...`, where t is the thread's number in its block, which has fewer than count threads. A
    case may pass all the same, if nobody reads the rest."""
    stores = [
        (index.code, e)
        for e in own.body.all("assignment_expression")
        if (array := own.file.variable_at(e.part("left").indexed.code, e.start))
        and "__shared__" in array.words
        and (index := index_of(e.part("left")))
    ]
    for v in own.file.variables:
        mine = [e for index, e in stores if index == v.name]
        if not mine or not own.body.holds(v) or not v.value or v.pointer or moves_on(own, v):
            continue
        if v.scope.type == "for_statement" or any(sign_of(e.outer) == "+" for e in named(own, v.name)):
            continue
        for test in bounds_of(own, v):
            branch = own.file.around(test.start, "if_statement")[0]
            if not any(branch.part("consequence").holds(e) for e in mine):
                continue

            def short(
                case: tuple[Mapping[str, int], Launch], v: Variable, test: Piece
            ) -> tuple[int, int] | None:
                dims, launch = case
                block, known = triple(launch.block, "block"), values_of(kernel, own, dims)
                known |= {f"blockDim.{axis}": n for axis, n in zip("xyz", block, strict=True)}
                ends = [
                    {f"threadIdx.{axis}": (n - 1) * last for axis, n in zip("xyz", block, strict=True)}
                    for last in (0, 1)
                ]
                worth = [computed(v.value, Known(known | at)) for at in ends]
                count, threads = computed(test, Known(known)), math.prod(block)
                return (threads, count) if worth == [0, threads - 1] and (count or 0) > threads else None

            few = [p for case in failed if (p := short(case, v, test))]
            if few:
                threads, count = few[0]
                yield Slip(
                    test.line,
                    f"Line {test.line} lets {v.name} go up to {shown(test)} ({count} in a failing case); a block has only {threads} "
                    f"threads there, {NO_THREAD} {v.name} = {threads} or more. Put it in a loop.",
                )
                return


def named(own: Function, name: str) -> Iterator[Piece]:
    return (p for p in own.body.all("identifier") if p.code == name)


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
    count = computed(bound, Known(values_of(kernel, own, dims)))
    blocks, block = triple(launch.grid, "grid"), triple(launch.block, "block")
    threads = blocks[0] * block[0]
    flat = blocks[1:] == block[1:] == (1, 1)
    return (threads, count) if flat and count is not None and threads < count else None


def split_grids(
    kernel: Kernel,
    own: Function,
    failed: Sequence[tuple[Mapping[str, int], Launch]],
    passed: Sequence[tuple[Mapping[str, int], Launch]],
) -> Iterator[Slip]:
    """`blockIdx.x / C` and `blockIdx.x % C`, where the number of blocks along x is no multiple of C."""
    for e in own.body.all("binary_expression"):
        axis = "xyz".find(e.part("left").code.removeprefix("blockIdx."))
        if sign_of(e) not in ("/", "%") or not e.part("left").code.startswith("blockIdx.") or axis < 0:
            continue

        def left_over(case: tuple[Mapping[str, int], Launch], by: Piece, axis: int) -> tuple[int, int] | None:
            blocks = triple(case[1].grid, "grid")[axis]
            count = computed(by, Known(values_of(kernel, own, case[0])))
            return (blocks, count) if count and blocks > 1 and blocks % count else None

        by = e.part("right")
        odd, fine = ([p for case in some if (p := left_over(case, by, axis))] for some in (failed, passed))
        if odd and not fine:
            blocks, count = odd[0]
            yield Slip(
                e.line,
                f"Line {e.line} has {shown(e)}. In a failing case {shown(by)} is {count}, and the launch has {blocks} "
                f"block{'s' * (blocks > 1)} along {'xyz'[axis]}, which is no multiple of that.",
            )
            return


def values_of(kernel: Kernel, own: Function, dims: Mapping[str, int]) -> dict[str, int]:
    """The values of the numbers that a kernel is passed, by its own names."""
    both = zip(kernel.params, own.parameters, strict=False)
    return {v.name: p.resolve(dims) for p, v in both if isinstance(p, Scalar)}


def whole_blocks_spare(kernel: Kernel, dims: Mapping[str, int], t: Mapping[str, int]) -> bool:
    """Whether a launch has whole blocks more than one thread for each element needs: a block may work for one."""
    launch = kernel.launch(dict(dims), t)
    blocks, threads = (math.prod(triple(n, "launch")) for n in (launch.grid, launch.block))
    return (blocks - 1) * threads >= max(math.prod(p.shape(dims)) for p in kernel.outputs)
