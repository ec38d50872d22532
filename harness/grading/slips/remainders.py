"""A division of a size that leaves a remainder in all cases that go wrong, and in no other: `half = n / 2`, where n is odd; and
masks that stand for a remainder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...course.declare import Kernel
from ...course.parameters import Scalar
from ...cuda.evaluate import fingerprint
from ...cuda.follow import is_set
from ...cuda.parts import index_of, shown, sign_of
from ...cuda.pieces import Function, Variable
from ...cuda.values import Tunables
from ..findings import Finding
from .array_steps import products
from .run_functions import TYPES, result

LEAST = 3  # cases that pass


def dropped_remainders(
    kernel: Kernel,
    own: Function,
    solution: Function,
    failed: Sequence[Mapping[str, int]],
    every: Sequence[Mapping[str, int]],
    t: Tunables,
) -> Iterator[Finding]:
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
        yield Finding.of(
            "dropped_remainder",
            e.line,
            text=f"Line {e.line} rounds {shown(e)} down, and in every case that fails it leaves a remainder.",
        )


def other_sizes(
    kernel: Kernel,
    own: Function,
    failed: Sequence[Mapping[str, int]],
    every: Sequence[Mapping[str, int]],
) -> Iterator[Finding]:
    """`OH = (H - R + stride - 1) / stride + 1`: a variable that is the size of an axis in every case that passes, or is
    used for it, and another number in some that fail."""
    names = {str(size) for a in kernel.arrays for _, size in a.axes} - {p.name for p in kernel.params}
    hidden = {v.name for v in own.file.variables if own.body.holds(v)}
    scalars = [
        (p, v.name)
        for p, v in zip(kernel.params, own.parameters, strict=False)
        if isinstance(p, Scalar) and v.name not in hidden and not is_set(own.body, v.name)
    ]
    told: set[int] = set()
    for v in own.file.variables:
        calls = v.value and any(own.file.function(name) for name, _ in v.value.calls())
        if not own.body.holds(v) or not (calls or v.value and "/" in v.value.code):
            continue
        if v.type not in TYPES or is_set(own.body, v.name) or v.scope and v.scope.type == "for_statement":
            continue
        known = [(d, result(v.value, {n: p.resolve(d) for p, n in scalars})) for d in every]
        passed = [(d, size) for d, size in known if d not in failed]
        if None in [size for _, size in known]:
            continue
        name = meant_size(kernel, own, v, passed, names)
        apart = [(size, d[name]) for d, size in known if name and d in failed and size[0] != d[name]]
        if not apart:
            continue
        (now, line), right = apart[0]
        if calls:
            has = next(
                a.name for a in (*kernel.outputs, *kernel.arrays) if name in [str(n) for _, n in a.axes]
            )
            says = f"makes {v.name} = {now} in a failing case, where {has} has {name} = {right}"
            says += f"; line {line} returns it" * (line > 0)
            if line in told:  # by the same function, for another axis
                continue
            told |= {line} - {0}
        elif {size[0] - right for size, right in apart} in ({1}, {-1}):
            says = f"rounds {'up' if now > right else 'down'}: in a failing case {v.name} is {now}, where {name} is {right}"
        else:
            continue
        yield Finding.of("other_size" if calls else "rounded_size", v.line, text=f"Line {v.line} {says}.")


def meant_size(
    kernel: Kernel,
    own: Function,
    v: Variable,
    passed: Sequence[tuple[Mapping[str, int], tuple[int, int]]],
    names: set[str],
) -> str:
    """The size that a variable is: in every case that passes, by its name, or as a place in the output is taken modulo
    it, `output[i]` beside `i % Wo`; "" if none. passed: the cases, with its value."""
    sizes = [found[0] for _, found in passed]
    fits = [n for n in sorted(names) if all(d.get(n) == found[0] for d, found in passed)]
    if len(passed) >= LEAST and len(set(sizes)) > 1:
        return fits[0] if len(fits) == 1 else ""
    if v.name in names:
        return v.name
    outputs = {own.parameters[i].name: p for i, p in enumerate(kernel.params) if p in kernel.outputs}
    for store in own.body.all("assignment_expression"):
        array, index = outputs.get(store.part("left").indexed.code), index_of(store.part("left"))
        last = str(array.axes[-1][1]) if array and array.axes else ""
        for e in own.body.all("binary_expression") if index and last in names else ():
            if sign_of(e) == "%" and (e.part("left").code, e.part("right").code) == (index.code, v.name):
                return last
    return ""


def masks(kernel: Kernel, own: Function, failed: Sequence[Mapping[str, int]]) -> Iterator[Finding]:
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
                yield Finding.of(
                    "mask",
                    e.line,
                    text=f"Line {e.line}: {shown(e)} is {number} % {name[0]} only if {name[0]} is a power of two; in a failing case it "
                    f"is {bad[0]}.",
                )
                return


def worth(kernel: Kernel, name: str, dims: Mapping[str, int]) -> int:
    """The value of a parameter in a case."""
    return next(p.resolve(dims) for p in kernel.params if isinstance(p, Scalar) and p.name == name)
