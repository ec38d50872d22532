"""A guard that compares a place along one axis with the size of another: `k < N ? B[k * N + n] : 0`, where B is [K, N].

Only reported for sizes that are each the larger one in some case: a place may be limited to a smaller part of
its axis on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ...course.array_names import by_name
from ...course.declare import Kernel
from ...course.parameters import Array
from ...cuda.follow import guards, value_of
from ...cuda.parts import index_of, shown, sign_of
from ...cuda.pieces import Function, Piece
from ..findings import Finding
from .array_steps import evaluated, multiplied_out, places, sizes_of, with_pointers
from .block_slips import expanded

Worth = Sequence[int]  # in each case


def wrong_guards(kernel: Kernel, own: Function, dims: Sequence[Mapping[str, int]]) -> Iterator[Finding]:
    """The first of them. dims: of the cases."""
    sizes, arrays = sizes_of(kernel, own, dims), with_pointers(own, by_name(kernel, own))
    for access, array, index in places(own, arrays):
        if access == index:  # where a pointer begins: the rest of the index is added later
            continue
        around = {
            (e.start, e.end): e
            for guard in guards(own.file, own, access)
            for e in (guard, *guard.all("binary_expression"))
        }.values()
        of_axes = list(axes_of(array, index, sizes, dims, arrays))
        if slip := asks_another(own, access, array, of_axes, around):
            yield slip
            return
        for name, axis in of_axes:
            if loop := by_a_size(access, name, sizes):
                if slip := too_few_steps(loop, access, array, sizes, dims):
                    yield slip
                    return
                continue
            compared = [(e, bound) for e in around if (bound := bound_of(e, name))]
            known = [limit for e, bound in compared for limit in limits_of(e, bound, sizes)]
            extent = [array.shape(d)[axis] for d in dims]
            if len(compared) == len(known) == 1 and crosses(known[0][0], extent):
                worth, bound = known[0]
                letter, size = array.axes[axis]
                where = "" if bound.line == access.line else f"line {access.line} "
                does = "compares" if compared[0][1] == bound else "limits"
                yield Finding.of(
                    "wrong_guard",
                    bound.line,
                    text=f"Line {bound.line} {does} {name} {'with' if does == 'compares' else 'by'} {shown(bound)}, and {where}takes it "
                    f"for {letter} of {array.name}, of which there are {size}.",
                )
                return


def limits_of(e: Piece, bound: Piece, sizes: Mapping[str, Worth]) -> Iterator[tuple[Worth, Piece]]:
    """(how many places pass a comparison in each case, the size that is compared with): `i < n`, `i <= n -
    1`, and `i <= last`, where last is min(x, n - 1)."""
    value = value_of(bound.file, bound.code, bound.start) if bound.kind == "identifier" else None
    called = next((name for name, call in value.calls() if call == value), "") if value else ""
    taken = value.part("arguments").parts if called == "min" else [bound]
    one_more = e.part("operator").code in (("<=", ">") if e.part("right") == bound else (">=", "<"))
    count = len(next(iter(sizes.values()), ()))
    for part in taken:
        worth = [evaluated(part, {n: w[i] for n, w in sizes.items()}) for i in range(count)]
        if worth and None not in worth:
            yield [w + one_more for w in worth], part


def asks_another(
    own: Function, access: Piece, array: Array, of_axes: Sequence[tuple[str, int]], around: Iterable[Piece]
) -> Finding | None:
    """`c < N ? A[r * K + k] : 0`: the condition of a read tests a variable that is not in the index, and not
    the one that is."""
    branches = own.file.around(access.start, "conditional_expression", "if_statement")
    test = branches[0].part("condition") if branches else None
    if not test or test.holds(access) or len(of_axes) != len(array.axes):
        return None
    names = {p.code for p in access.all("identifier")}
    names |= {
        p.code for n in names if (v := value_of(own.file, n, access.start)) for p in v.all("identifier")
    }
    asked = [
        e for e in test.all("binary_expression") if sign_of(e) == "<" and e.part("left").kind == "identifier"
    ]
    strange = [e for e in asked if e.part("left").code not in names]
    for name, axis in of_axes:
        value = value_of(own.file, name, access.start)
        by_thread = (
            value and sign_of(value) == "+" and any("threadIdx" in x for _, n in expanded(value) for x in n)
        )
        if (
            len(strange) == 1
            and by_thread
            and not _comes_from(strange[0].part("left"), name)
            and not any(name in {p.code for p in e.all("identifier")} for e in around)
        ):
            e, (letter, _) = strange[0], array.axes[axis]
            return Finding.of(
                "other_guard",
                e.line,
                text=f"Line {e.line} asks whether {shown(e)} before {shown(access)}, whose index has no {e.part('left').code}; whether "
                f"there is such a {letter}, {name}, is not asked.",
            )
    return None


def _comes_from(variable: Piece, name: str) -> bool:
    """Whether a variable is computed from another."""
    value = value_of(variable.file, variable.code, variable.start)
    return value is not None and name in [p.code for p in value.all("identifier")]


def by_a_size(access: Piece, name: str, sizes: Mapping[str, Worth]) -> Piece | None:
    """The loop around an access that steps a variable by a size: then the variable is not a place along one
    axis."""
    for loop in access.file.around(access.start, "for_statement"):
        update = loop.part("update")
        if update and update.kind == "assignment_expression" and update.part("left").code == name:
            return loop if update.part("right").code in sizes else None
    return None


def too_few_steps(
    loop: Piece, access: Piece, array: Array, sizes: Mapping[str, Worth], dims: Sequence[Mapping[str, int]]
) -> Finding | None:
    """`for (i = o; i < batch; i += n_out)`, where i counts through all elements of [batch, n_out]."""
    name, step = (loop.part("update").part(side).code for side in ("left", "right"))
    bound = bound_of(loop.part("condition"), name) if loop.part("condition") else None
    rows, row = ([f(array.shape(d)) for d in dims] for f in (lambda s: s[0], lambda s: math.prod(s[1:])))
    if not bound or shown(index_of(access)) != name or [sizes.get(bound.code), sizes[step]] != [rows, row]:
        return None
    letter, size = array.axes[0]
    return Finding.of(
        "guard_before_steps",
        loop.line,
        text=f"Line {loop.line} compares {name} with {bound.code}, and steps it by {step}, from one {letter} of {array.name} to the "
        f"next: {size} such steps are {size} * {step} elements.",
    )


def axes_of(
    array: Array,
    index: Piece,
    sizes: Mapping[str, Worth],
    dims: Sequence[Mapping[str, int]],
    arrays: Collection[str] = (),
) -> Iterator[tuple[str, int]]:
    """(place, axis) for each axis along which an index moves by variables alone, `k` or `t + k`; none if a stride
    belongs to no axis: then the index is wrong, and its guard may be right. arrays: names that are not part
    of an index, as in `grad_output + k`."""
    found: dict[int, list[str]] = {}
    steps = [[math.prod(array.shape(d)[axis + 1 :]) for d in dims] for axis in range(len(array.axes))]
    for sign, product in multiplied_out(index):
        if len(product) == 1 and product[0] in arrays:
            continue
        names = [n for n in product if n not in sizes]
        known = [sizes[n] for n in product if n in sizes]
        scale = [math.prod(worth[i] for worth in known) for i in range(len(dims))]
        if scale not in steps:
            return
        found.setdefault(steps.index(scale), []).append(names[0] if len(names) == 1 and sign > 0 else "")
    for axis, names in found.items():
        if all(name.isidentifier() for name in names):
            yield " + ".join(names), axis


def bound_of(e: Piece, name: str) -> Piece | None:
    """The other side of a comparison of a variable."""
    ordered = e.kind == "binary_expression" and e.part("operator").code in ("<", ">", "<=", ">=")
    for side, other in (("left", "right"), ("right", "left")) if ordered else ():
        if shown(e.part(side)) == name and e.part(other).kind != "number_literal":
            return e.part(other)
    return None


def crosses(a: Worth, b: Worth) -> bool:
    return any(x < y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))
