"""Pointers and indices that go on, from tile to tile, along the axis that the blocks already share out.

`pB = B + ty * N + blockIdx.x * TILE + tx; ... pB += TILE;` takes the columns of the next block; down B it would be TILE * N.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...course.cuda_pieces import Function, Piece
from ...course.cuda_tree import LOOPS
from ...course.declare import Kernel
from .array_steps import by_name, index_variables, sizes_of, with_pointers
from .block_slips import expanded
from .findings import Slip, shown

Terms = list[tuple[str, ...]]


def wrong_walks(kernel: Kernel, own: Function, dims: Sequence[Mapping[str, int]]) -> Iterator[Slip]:
    """The first of them in a matrix. dims: of the cases."""
    sizes, arrays = sizes_of(kernel, own, dims), with_pointers(own, by_name(kernel, own))
    walking = arrays | index_variables(own, arrays)
    for e in own.body.all("assignment_expression"):
        name = e.part("left").code
        array, begins = walking.get(name), own.file.variable_at(name, e.start)
        value = begins.value if begins and begins.scope.type != "for_statement" else None
        step = expanded(e.part("right")) if e.part("operator").code == "+=" else []
        if not array or len(array.apart.axes) != 2 or not value or len(step) != 1 or not around(own, e):
            continue
        if isinstance(value, Piece) and value.kind not in ("binary_expression", "identifier"):
            continue
        array = array.apart
        width = [array.shape(d)[1] for d in dims]
        rows, columns = [], []  # what the place along each axis is the sum of
        for sign, names in expanded(value):
            terms, by_row = without(names, width, sizes)
            if sign < 0 or "" in names:
                break
            if terms and not set(terms) & set(arrays):
                (rows if by_row else columns).append(terms)
        else:
            by, down = without(step[0][1], width, sizes)
            along, other = (rows, columns) if down else (columns, rows)
            if not by or by_blocks(along) != [tuple(sorted(by))] or by_blocks(other) or not by_threads(other):
                continue
            letters, size = array.letters, row_name(width, sizes)
            if not size:
                continue
            text = shown(e.part("right"))
            right = " * ".join(by) if down else f"{text if text.isidentifier() else ' * '.join(by)} * {size}"
            yield Slip(
                e.line,
                f"Line {e.line} moves {name} on along {letters[0 if down else 1]} of {array.name}, where each block has its own "
                f"places (blockIdx); the next tile lies along {letters[1 if down else 0]}, {right} further on.",
            )
            return


def around(own: Function, e: Piece) -> bool:
    """Whether it is done in a loop of the kernel."""
    return any(loop.start > own.start for loop in own.file.around(e.start, *LOOPS))


def without(
    names: Sequence[str], width: Sequence[int], sizes: Mapping[str, Sequence[int]]
) -> tuple[tuple[str, ...], bool]:
    """A product without the length of a row, and whether that was in it."""
    known = [n for n in names if n in sizes]
    worth = [math.prod(sizes[n][i] for n in known) for i in range(len(width))]
    rest = tuple(n for n in names if n not in known)
    return (rest, True) if known and worth == list(width) else (tuple(names), False)


def by_blocks(terms: Terms) -> list[tuple[str, ...]]:
    """What blockIdx is multiplied by."""
    return [
        tuple(sorted(n for n in names if not n.startswith("blockIdx.")))
        for names in terms
        if any(n.startswith("blockIdx.") for n in names)
    ]


def by_threads(terms: Terms) -> bool:
    return any(n.startswith("threadIdx.") for names in terms for n in names)


def row_name(width: Sequence[int], sizes: Mapping[str, Sequence[int]]) -> str:
    return next((name for name, worth in sizes.items() if list(worth) == list(width)), "")
