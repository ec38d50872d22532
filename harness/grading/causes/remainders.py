"""A division of a size that leaves a remainder in all cases that go wrong, and in no other: `half = n / 2`, where n is odd; and
masks that stand for a remainder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...course.cuda_pieces import Function
from ...course.cuda_values import Tunables
from ...course.declare import Kernel
from ...course.parameters import Scalar
from .array_steps import products
from .expression_values import computed, fingerprint
from .findings import Slip, shown, sign_of
from .too_few import Known

LEAST = 3  # cases that pass


def dropped_remainders(
    kernel: Kernel,
    own: Function,
    solution: Function,
    failed: Sequence[Mapping[str, int]],
    every: Sequence[Mapping[str, int]],
    t: Tunables,
) -> Iterator[Slip]:
    """The only such division that the solution does not have. failed, every: the dimensions of the failing
    and of all cases."""
    others = [d for d in every if d not in failed]
    known = {fingerprint(e) for e in solution.body.all("binary_expression") if sign_of(e) == "/"}
    found = []
    for e in own.body.all("binary_expression"):
        names = [
            p.name
            for p, v in zip(kernel.params, own.parameters, strict=False)
            if v.name == e.part("left").code
        ]
        by = t.get(e.part("right").code, e.part("right").code)
        if (
            sign_of(e) != "/"
            or len(names) != 1
            or not str(by).isdecimal()
            or not int(by)
            or fingerprint(e) in known
        ):
            continue
        left = [[worth(kernel, names[0], d) % int(by) for d in some] for some in (failed, others)]
        if all(left) and all(left[0]) and not any(left[1]):
            found.append(e)
    if len(found) == 1:
        (e,) = found
        yield Slip(
            e.line,
            f"Line {e.line} rounds {shown(e)} down, and in every case that fails it leaves a remainder.",
        )


def other_sizes(
    kernel: Kernel,
    own: Function,
    failed: Sequence[Mapping[str, int]],
    every: Sequence[Mapping[str, int]],
) -> Iterator[Slip]:
    """`OH = (H - R + stride - 1) / stride + 1`: a variable that is the size of an axis in every case that
    passes, and another number in some that fail."""
    passed = [d for d in every if d not in failed]
    names = {str(size) for a in kernel.arrays for _, size in a.axes} - {p.name for p in kernel.params}
    scalars = [
        (p, v.name) for p, v in zip(kernel.params, own.parameters, strict=False) if isinstance(p, Scalar)
    ]
    for v in own.file.variables:
        head = v.scope and v.scope.type == "for_statement"
        if not own.body.holds(v) or not v.value or head or "/" not in v.value.code:
            continue
        now, then = (
            [computed(v.value, Known({n: p.resolve(d) for p, n in scalars})) for d in some]
            for some in (failed, passed)
        )
        if None in (*now, *then) or len(then) < LEAST or len(set(then)) == 1:
            continue
        alike = [
            n for n in sorted(names) if all(d.get(n) == size for d, size in zip(passed, then, strict=True))
        ]
        if len(alike) != 1:
            continue
        (name,) = alike
        apart = [(size, d[name]) for d, size in zip(failed, now, strict=True) if size != d[name]]
        if not apart or {size - right for size, right in apart} not in ({1}, {-1}):
            continue
        size, right = apart[0]
        yield Slip(
            v.line,
            f"Line {v.line} rounds {'up' if size > right else 'down'}: in a failing case {v.name} is {size}, where {name} is {right}.",
        )


def masks(kernel: Kernel, own: Function, failed: Sequence[Mapping[str, int]]) -> Iterator[Slip]:
    """`x & (n - 1)`, where n is no power of two in a case that fails."""
    given = {v.name: p for p, v in zip(kernel.params, own.parameters, strict=False) if isinstance(p, Scalar)}
    for e in own.body.all("binary_expression"):
        for side, other in (("right", "left"), ("left", "right")) if sign_of(e) == "&" else ():
            terms = products(e.part(side))
            (sign, name), less = (terms[0][0], terms[0][1]), terms[1:]
            if less != [(-1, ("1",))] or sign < 0 or len(name) != 1 or name[0] not in given:
                continue
            sizes = [given[name[0]].resolve(d) for d in failed]
            if bad := [n for n in sizes if n & (n - 1)]:
                number = shown(e.part(other))
                yield Slip(
                    e.line,
                    f"Line {e.line}: {shown(e)} is {number} % {name[0]} only if {name[0]} is a power of two; in a failing case it "
                    f"is {bad[0]}.",
                )
                return


def worth(kernel: Kernel, name: str, dims: Mapping[str, int]) -> int:
    """The value of a parameter in a case."""
    return next(p.resolve(dims) for p in kernel.params if isinstance(p, Scalar) and p.name == name)
