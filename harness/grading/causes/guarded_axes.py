"""A guard that compares a place along one axis with the size of another: `k < N ? B[k * N + n] : 0`, where B is [K, N].

Only sizes of which now the one, now the other is larger are told of: a place may be kept within a smaller part of its axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...course.cuda_text import Function, Piece
from ...course.declare import Kernel
from ...course.parameters import Array
from .array_steps import by_name, multiplied_out, places, sizes_of, with_pointers
from .findings import Slip, shown
from .noting import guards, index_of

Worth = Sequence[int]  # in each case


def wrong_guards(kernel: Kernel, own: Function, dims: Sequence[Mapping[str, int]]) -> Iterator[Slip]:
    """The first of them. dims: of the cases."""
    sizes = sizes_of(kernel, own, dims)
    for access, array, index in places(own, with_pointers(own, by_name(kernel, own))):
        around = {
            (e.start, e.end): e
            for guard in guards(own.file, own, access)
            for e in (guard, *guard.all("binary_expression"))
        }.values()
        for name, axis in axes_of(array, index, sizes, dims):
            if loop := by_a_size(access, name, sizes):
                if slip := too_few_steps(loop, access, array, sizes, dims):
                    yield slip
                    return
                continue
            compared = [(e, bound) for e in around if (bound := bound_of(e, name))]
            known = [sizes.get(bound.code) for _, bound in compared]
            extent = [array.shape(d)[axis] for d in dims]
            if len(known) == 1 and known[0] and crosses(known[0], extent):
                e, bound = compared[0]
                letter, size = array.axes[axis]
                where = "" if e.line == access.line else f"line {access.line} "
                yield Slip(
                    e.line,
                    f"Line {e.line} compares {name} with {bound.code}, and {where}takes it for {letter} of {array.name}, of which there "
                    f"are {size}.",
                )
                return


def by_a_size(access: Piece, name: str, sizes: Mapping[str, Worth]) -> Piece | None:
    """The loop around an access that steps a variable by a size: then it is no place along one axis."""
    for loop in access.file.around(access.start, "for_statement"):
        update = loop.part("update")
        if update and update.kind == "assignment_expression" and update.part("left").code == name:
            return loop if update.part("right").code in sizes else None
    return None


def too_few_steps(
    loop: Piece, access: Piece, array: Array, sizes: Mapping[str, Worth], dims: Sequence[Mapping[str, int]]
) -> Slip | None:
    """`for (i = o; i < batch; i += n_out)`, where i counts through all elements of [batch, n_out]."""
    name, step = (loop.part("update").part(side).code for side in ("left", "right"))
    bound = bound_of(loop.part("condition"), name) if loop.part("condition") else None
    rows, row = ([f(array.shape(d)) for d in dims] for f in (lambda s: s[0], lambda s: math.prod(s[1:])))
    if not bound or shown(index_of(access)) != name or [sizes.get(bound.code), sizes[step]] != [rows, row]:
        return None
    letter, size = array.axes[0]
    return Slip(
        loop.line,
        f"Line {loop.line} compares {name} with {bound.code}, and steps it by {step}, from one {letter} of {array.name} to the "
        f"next: {size} such steps are {size} * {step} elements.",
    )


def axes_of(
    array: Array, index: Piece, sizes: Mapping[str, Worth], dims: Sequence[Mapping[str, int]]
) -> Iterator[tuple[str, int]]:
    """(variable, axis) for each axis along which an index moves by one variable alone; none where a step is that of no axis:
    then the index is wrong, and its guard may be right."""
    found: dict[int, list[str]] = {}
    steps = [[math.prod(array.shape(d)[axis + 1 :]) for d in dims] for axis in range(len(array.axes))]
    for _, product in multiplied_out(index):
        names = [n for n in product if n not in sizes]
        known = [sizes[n] for n in product if n in sizes]
        scale = [math.prod(worth[i] for worth in known) for i in range(len(dims))]
        if scale not in steps:
            return
        found.setdefault(steps.index(scale), []).append(names[0] if len(names) == 1 else "")
    for axis, names in found.items():
        if len(names) == 1 and names[0].isidentifier():
            yield names[0], axis


def bound_of(e: Piece, name: str) -> Piece | None:
    """What a comparison compares a variable with."""
    ordered = e.kind == "binary_expression" and e.part("operator").code in ("<", ">", "<=", ">=")
    for side, other in (("left", "right"), ("right", "left")) if ordered else ():
        if shown(e.part(side)) == name and e.part(other).kind != "number_literal":
            return e.part(other)
    return None


def crosses(a: Worth, b: Worth) -> bool:
    return any(x < y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))
