"""Indices whose strides are not those of their array: `B[k * K + n]`, where a row of B has N elements.

An index is multiplied out, which gives each of its variables a stride, a product of sizes. In every case this
product must be the stride of some axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from ...course.array_names import by_name
from ...course.declare import Kernel
from ...course.parameters import Array, Scalar
from ...cuda.follow import returned, value_of
from ...cuda.parts import counter, index_of, shown, sign_of
from ...cuda.pieces import Function, Piece
from ..findings import Finding

Product = tuple[int, tuple[str, ...]]  # 1 or -1, and names and numbers in order
MOST_TERMS = 64  # products of one index
Sizes = Mapping[str, Sequence[int]]  # the value of a name in each case


def wrong_steps(kernel: Kernel, own: Function, dims: Sequence[Mapping[str, int]]) -> Iterator[Finding]:
    """The first index or pointer with a wrong stride. dims: of the cases."""
    sizes = sizes_of(kernel, own, dims)
    arrays = with_pointers(own, by_name(kernel, own))
    for place, array, index in places(own, arrays):
        array = array.apart
        if len(array.axes) < 2:
            continue
        for _, product in multiplied_out(index):
            scale = [n for n in product if n in sizes]
            others = [n for n in product if n not in sizes]
            if any(n.isdecimal() for n in product):
                continue
            if len(others) == 1 and scale and not fits(array, [sizes[n] for n in scale], dims):
                axis = axis_of(others[0], array, address(place, index), sizes, dims)
                yield told(place, array, scale, others[0], axis)
                return
    for place, array, scale in further_on(own, arrays, sizes):
        if len(array.axes) > 1 and not fits(array, [sizes[n] for n in scale], dims):
            yield told(place, array, scale, "")
            return
    walking = arrays | index_variables(own, arrays)
    for e in own.body.all("assignment_expression"):
        array, by = walking.get(e.part("left").code), products(e.part("right"))
        if array is None or len(array.axes) < 2 or e.part("operator").code != "+=" or len(by) != 1:
            continue
        scale = list(by[0][1])
        if set(scale) <= set(sizes) and not fits(array, [sizes[n] for n in scale], dims):
            yield told(e, array, scale, "")
            return


def other_rows(kernel: Kernel, own: Function, dims: Sequence[Mapping[str, int]]) -> Iterator[Finding]:
    """`tap % R` and `tap / R`, where tap counts through R rows of S elements."""
    sizes = sizes_of(kernel, own, dims)

    def worth(e: Piece) -> list[int | None]:
        return [evaluated(e, {name: each[i] for name, each in sizes.items()}) for i in range(len(dims))]

    rows = {}
    for a in (a.apart for a in kernel.arrays):
        shapes = [a.shape(d) for d in dims]
        for i in range(len(a.axes) - 1):
            both = [[shape[axis] for shape in shapes] for axis in (i, i + 1)]
            rows[tuple(x * y for x, y in zip(*both, strict=True))] = (a, a.axes[i + 1][1], *both)
    for e in own.body.all("binary_expression"):
        count = counts(e.part("left")) if sign_of(e) in ("/", "%") else None
        array, inner, high, wide = (
            rows.get(tuple(worth(count)), (None, "", [], [])) if count else (None, "", [], [])
        )
        if array and worth(e.part("right")) == high != wide:
            yield Finding.of(
                "other_row_divisor",
                e.line,
                text=f"Line {e.line} has {shown(e)}, where {shown(e.part('left'))} counts {shown(count)} elements, and a row of {array.name} "
                f"has {inner}: is {shown(e.part('right'))} the right divisor?",
            )
            return


def counts(number: Piece) -> Piece | None:
    """How many values a variable takes, if it is a remainder or counts from 0 in a loop."""
    if number.kind != "identifier":
        return None
    value = value_of(number.file, number.code, number.start)
    if value and sign_of(value) == "%":
        return value.part("right")
    for loop in number.file.around(number.start, "for_statement"):
        test = loop.part("condition")
        if (
            counter(loop) == number.code
            and test
            and sign_of(test) == "<"
            and test.part("left").code == number.code
        ):
            return test.part("right")
    return None


def places(own: Function, arrays: Mapping[str, Array]) -> Iterator[tuple[Piece, Array, Piece]]:
    """(where, array, index or pointer into it) for every index and pointer that the file computes."""
    for access in own.body.all("subscript_expression"):
        array, index = arrays.get(access.parts[0].code), index_of(access)
        if index and index.kind == "identifier":
            index = value_of(own.file, index.code, access.start) or index
        if array and index:
            yield access, array, index
    for d in own.body.all("init_declarator"):
        name, value = d.part("declarator"), d.part("value")
        if (
            name
            and value
            and name.kind == "pointer_declarator"
            and (array := arrays.get(name.code.strip("* ")))
        ):
            yield value, array, value


def further_on(
    own: Function, arrays: Mapping[str, Array], sizes: Sizes
) -> Iterator[tuple[Piece, Array, list[str]]]:
    """(sum, array, sizes) of `*(p + W)` and of casts of it, where p points into an array."""
    for access in own.body.all("pointer_expression"):
        sums = access.all("binary_expression") if access.part("operator").code == "*" else ()
        for e in (e for e in sums if sign_of(e) == "+" and e.part("left").code in arrays):
            by = multiplied_out(e.part("right"))
            scale = [n for n in by[0][1] if not n.isdecimal()] if len(by) == 1 else []
            if scale and set(scale) <= set(sizes):
                yield e, arrays[e.part("left").code], scale


def index_variables(own: Function, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The variables that are used as the whole index of one array and of no other: `x[i]`, `x[i += step]`."""
    found: dict[str, list[Array]] = {}
    for access in own.body.all("subscript_expression"):
        array, index = arrays.get(access.parts[0].code), index_of(access)
        if index and index.kind == "assignment_expression":
            index = index.part("left")
        if array and index and index.kind == "identifier":
            found.setdefault(index.code, []).append(array)
    return {name: used[0] for name, used in found.items() if all(a is used[0] for a in used)}


def with_pointers(own: Function, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays, and the local pointers that point into one and never into another: `const float* row = A +
    m * K`."""
    found = dict(arrays)
    for v in own.file.variables:
        if own.body.holds(v) and v.pointer and v.value and len(own.file.named(v.name, v.end)) == 1:
            inside = [p.code for p in v.value.all("identifier") if p.code in found]
            sets = (e for e in own.body.all("assignment_expression") if e.part("left").code == v.name)
            if len(inside) == 1 and not any(e.part("operator").code == "=" for e in sets):
                found[v.name] = found[inside[0]]
    return found


def address(place: Piece, index: Piece) -> list[Product]:
    """The terms of the place in an array: of an index, or of a pointer and of an index behind it."""
    if place.outer.kind != "init_declarator":
        return products(index)
    name = place.outer.part("declarator").code.strip("* ")
    behind = [a for a in place.file.whole.all("subscript_expression") if a.parts[0].code == name]
    first = next((i for a in behind if place.file.variable_at(name, a.start) and (i := index_of(a))), None)
    begin = [(sign, n) for sign, n in products(index) if not is_pointer(place, n)]
    return begin + products(first) if first else []


def is_pointer(place: Piece, names: Sequence[str]) -> bool:
    declared = place.file.variable_at(names[0], place.start) if len(names) == 1 else None
    return bool(declared and declared.pointer)


def axis_of(
    name: str, array: Array, terms: Sequence[Product], sizes: Sizes, dims: Sequence[Mapping[str, int]]
) -> str:
    """The letter of the axis that a variable steps along, whatever it is called; "" if that cannot be told. There must
    be as many different steps as axes: right ones belong to their axes, a longer one of the others to an earlier axis."""
    steps: dict[tuple[int, ...], set[str]] = {}
    for _, names in terms:
        others = [n for n in names if n not in sizes]
        if len(others) != 1 or not others[0] or others[0].isdecimal():
            return ""
        worth = tuple(math.prod(sizes[n][i] for n in names if n in sizes) for i in range(len(dims)))
        steps.setdefault(worth, set()).add(others[0])
    shapes = [array.shape(d) for d in dims]
    right = [tuple(math.prod(shape[axis + 1 :]) for shape in shapes) for axis in range(len(array.axes))]
    letters = [letter for letter, step in zip(array.letters, right, strict=True) if step not in steps]
    left = sorted((step for step in steps if step not in right), key=sum, reverse=True)
    known = len(steps) == len(right) == len(set(right)) and all(
        a >= b for x, y in zip(left, left[1:], strict=False) for a, b in zip(x, y, strict=True)
    )
    found = [letter for letter, step in zip(letters, left, strict=False) if name in steps[step]]
    return found[0] if known and len(found) == 1 else ""


def told(access: Piece, array: Array, scale: list[str], name: str, axis: str = "") -> Finding:
    """name: of the variable that is stepped; axis: the letter of the axis that it must stand for, if known."""
    names = [str(size) for _, size in array.axes]
    known = {p.code for p in access.file.whole.all("identifier")}
    step = f"for the step along {name}" if name else f"as the step of {access.part('left').code}"
    says = f"Line {access.line} takes {' * '.join(scale)} elements {step} in {array.name}"
    if not all(n in known or n.isdecimal() for n in names):
        return Finding.of(
            "no_such_step", access.line, text=f"{says}; no axis of {array.name} has elements so far apart."
        )
    steps = [" * ".join(names[i + 1 :]) or "1" for i in range(len(names))]
    axes = [f"along {letter} is {step}" for letter, step in zip(array.letters, steps, strict=True)]
    axis = name if name and name in array.letters else axis
    axes = [axes[array.letters.index(axis)]] if axis else axes
    return Finding.of(
        "other_step",
        access.line,
        array=array.name,
        text=f"{says}, which is [{', '.join(names)}]: there the step {', '.join(axes)}.",
    )


def sizes_of(kernel: Kernel, own: Function, dims: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    """The names that stand for sizes of arrays: parameters, and variables computed from these alone."""
    every = {p.name: [p.resolve(d) for d in dims] for p in kernel.params if isinstance(p, Scalar)}
    names = {size for a in kernel.arrays for _, size in (*a.axes, *a.apart.axes) if isinstance(size, str)}
    names |= {n for n in dims[0] if n not in every and n.endswith("_out") and all(n in d for d in dims)}
    extents = [[d[n] for d in dims] for n in names]
    found = {
        v.name: every[p.name] for v, p in zip(own.parameters, kernel.params, strict=False) if p.name in every
    }
    for v in own.file.variables:
        if own.body.holds(v) and (value := value_of(own.file, v.name, v.end)):
            worth = [evaluated(value, {n: s[i] for n, s in found.items()}) for i in range(len(dims))]
            if None not in worth:
                found[v.name] = worth
    whole = {name for name, worth in found.items() if worth in extents or made_of(worth, extents)}
    return {name: worth for name, worth in found.items() if name in whole}


def made_of(worth: Sequence[int], extents: Sequence[Sequence[int]]) -> bool:
    """Whether it is a product of two or more extents in all cases."""
    factors = [
        e
        for e in {tuple(e): e for e in extents}
        if not any(w % x if x else w for w, x in zip(worth, e, strict=True))
    ]
    return any(
        all(math.prod(c) == w for w, c in zip(worth, zip(*chosen, strict=True), strict=True))
        for count in (2, 3, 4)
        for chosen in combinations(factors, count)
    )


def evaluated(e: Piece, values: Mapping[str, int]) -> int | None:
    """The value of an expression of sizes; None if there is anything else in it."""
    match e.kind:
        case "number_literal":
            return int(e.code) if e.code.isdecimal() else None
        case "identifier":
            return values.get(e.code)
        case "parenthesized_expression" if len(e.parts) == 1:
            return evaluated(e.parts[0], values)
        case "binary_expression":
            a, b = evaluated(e.part("left"), values), evaluated(e.part("right"), values)
            if a is None or b is None:
                return None
            match e.part("operator").code:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*":
                    return a * b
                case "/":
                    return a // b if b > 0 and a >= 0 else None
    return None


def multiplied_out(e: Piece) -> list[Product]:
    """The terms of an expression that are products of names and numbers; other terms are left out."""
    return [(sign, names) for sign, names in products(e) if "" not in names]


def products(e: Piece, other: Callable[[Piece], str] = lambda e: "") -> list[Product]:
    """All terms of an expression. other: replaces whatever is not a name, number, sum or product."""
    match e.kind:
        case "identifier":
            return [(1, (e.code,))]
        case "number_literal" if e.code.isdecimal():
            return [(1, (e.code,))]
        case "field_expression":
            return [(1, (shown(e),))]
        case "parenthesized_expression" if len(e.parts) == 1:
            return products(e.parts[0], other)
        case "cast_expression":
            return products(e.part("value"), other)
        case "binary_expression" if e.part("operator").code in ("+", "-"):
            sign = -1 if e.part("operator").code == "-" else 1
            right = [(sign * s, names) for s, names in products(e.part("right"), other)]
            return (products(e.part("left"), other) + right)[:MOST_TERMS]
        case "binary_expression" if e.part("operator").code == "*":
            left, right = products(e.part("left"), other), products(e.part("right"), other)
            return [(s * t, a + b) for s, a in left for t, b in right][:MOST_TERMS]
        case "call_expression" if inside := returned(e):
            inner = products(inside[0])
            if not any("" in names for _, names in inner):
                given = {name: products(piece, other) for name, piece in inside[1].items()}
                return [term for each in inner for term in passed(each, given)][:MOST_TERMS]
    return [(1, (other(e),))]


def passed(term: Product, given: Mapping[str, list[Product]]) -> list[Product]:
    """A term of a function with the arguments, of these terms, in place of its parameters."""
    sign, names = term
    found: list[Product] = [(sign, ())]
    for name in names:
        each = given.get(name, [(1, (name,))])
        found = [(s * t, a + b) for s, a in found for t, b in each][:MOST_TERMS]
    return found


def fits(array: Array, scale: Sequence[Sequence[int]], dims: Sequence[Mapping[str, int]]) -> bool:
    """Whether this is the stride of some axis in all cases, or a multiple of it if the axis merges
    several."""
    steps = [math.prod(s) for s in zip(*scale, strict=True)]
    for axis in range(len(array.axes)):
        one = [math.prod(array.shape(d)[axis + 1 :]) for d in dims]
        if (
            steps == one
            or is_made_of(array, axis, dims)
            and all(s % o == 0 for s, o in zip(steps, one, strict=True))
        ):
            return True
    return False


def is_made_of(array: Array, axis: int, dims: Sequence[Mapping[str, int]]) -> bool:
    """Whether an axis merges several sizes, like the rows of the im2col matrix."""
    size = array.axes[axis][1]
    others = [[d[n] for d in dims] for n in dims[0] if n != size and all(n in d for d in dims)]
    return made_of([array.shape(d)[axis] for d in dims], others)
