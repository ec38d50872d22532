"""A division of a size that leaves a remainder in all cases that go wrong, and in no other: `half = n / 2`, where n is odd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...course.cuda_pieces import Function
from ...course.cuda_values import Tunables
from ...course.declare import Kernel
from ...course.parameters import Scalar
from .expression_values import fingerprint
from .findings import Slip, shown, sign_of


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


def worth(kernel: Kernel, name: str, dims: Mapping[str, int]) -> int:
    """The value of a parameter in a case."""
    return next(p.resolve(dims) for p in kernel.params if isinstance(p, Scalar) and p.name == name)
