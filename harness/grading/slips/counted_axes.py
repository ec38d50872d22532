"""Steps that are those of an axis, but not of the axis that is counted through: `columns + c * width`, where the rows of one channel
are R * S, and a pointer that goes on within a row where the loop counts rows.

How far a variable counts says which axis it stands for. As the count may be what is wrong, each needs a second reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...course.array_names import by_name
from ...course.declare import Kernel
from ...course.parameters import Array
from ...cuda.follow import begun, value_of
from ...cuda.parts import counter, sign_of
from ...cuda.pieces import Function, Piece
from ...cuda.tree import LOOPS
from ..findings import Finding
from .array_steps import (
    Sizes,
    counts,
    evaluated,
    fits,
    multiplied_out,
    places,
    products,
    sizes_of,
    told,
    with_pointers,
)

Worth = list[int]  # in each case


def steps_of_other_axes(
    kernel: Kernel, own: Function, dims: Sequence[Mapping[str, int]]
) -> Iterator[Finding]:
    """The first such step of a variable, or else of a pointer. dims: of the cases."""
    found = Steps(own, sizes_of(kernel, own, dims), dims, with_pointers(own, by_name(kernel, own)))
    yield from found.of_variables() or found.of_pointers()


class Steps:
    """Of the indices and pointers of a kernel. arrays: by their names, and those of pointers into them."""

    def __init__(
        self, own: Function, sizes: Sizes, dims: Sequence[Mapping[str, int]], arrays: Mapping[str, Array]
    ):
        self.own, self.sizes, self.dims, self.arrays = own, sizes, dims, arrays
        self.places = [(place, array.apart, index) for place, array, index in places(own, arrays)]

    def of_variables(self) -> list[Finding]:
        """It counts through an axis, as which another array has it, and has the step of another axis here."""
        for place, array, index in self.places:
            for name, scale in self._scaled(index):
                count = self._count(self._piece(index, name))
                axis = self._of_size(array, count)
                letter = array.letters[axis] if axis is not None else ""
                wrong = letter and scale and self._worth_of(scale) != self._stride(array, axis)
                other = name != letter and name in array.letters
                if not wrong or other or not fits(array, self._each(scale), self.dims):
                    continue
                if letter in self._letters_elsewhere(name, array):
                    return [told(place, array, scale, name, letter)]
        return []

    def of_pointers(self) -> list[Finding]:
        """It goes on by less than what the variables that it begins with count through, in a loop that counts through an axis."""
        for e in self.own.body.all("assignment_expression"):
            name, by = e.part("left").code, products(e.part("right"))
            begins = begun(e.file, name, e.start)
            if name not in self.arrays or not begins or e.part("operator").code != "+=" or len(by) != 1:
                continue
            array, scale = self.arrays[name].apart, [*by[0][1]]
            loop = next(iter(self.own.file.around(e.start, *LOOPS)), None)
            if not loop or loop.start < self.own.start or not set(scale) <= set(self.sizes):
                continue
            axis = self._of_size(array, self._bound(loop))
            if axis is None or not fits(array, self._each(scale), self.dims):
                continue
            step, right = self._worth_of(scale), self._stride(array, axis)
            if step != right and any(
                self._covers(begins, v, s, step, right) for v, s in self._scaled(begins)
            ):
                return [told(e, array, scale, "", array.letters[axis])]
        return []

    def _covers(self, begins: Piece, name: str, scale: list[str], step: Worth, right: Worth) -> bool:
        """Whether a variable counts over this step, and no further than the right one."""
        count = self._count(self._piece(begins, name))
        if count is None:
            return False
        each = self._worth_of(scale)
        ends = [s * n for s, n in zip(each, count, strict=True)]
        inside = [a <= b <= c <= d for a, b, c, d in zip(each, step, ends, right, strict=True)]
        return all(inside) and step != ends

    def _letters_elsewhere(self, name: str, array: Array) -> set[str]:
        """The axes of other arrays whose steps a variable has."""
        found = set()
        for _, other, index in self.places:
            for n, scale in self._scaled(index) if other.name != array.name else ():
                steps = [i for i in range(len(other.axes)) if self._stride(other, i) == self._worth_of(scale)]
                found |= {other.letters[i] for i in steps if n == name and len(steps) == 1}
        return found

    def _scaled(self, index: Piece) -> Iterator[tuple[str, list[str]]]:
        """(variable, the sizes that it is multiplied by) of the terms of an index or pointer."""
        for sign, names in multiplied_out(index):
            others = [n for n in names if n not in self.sizes]
            if sign > 0 and len(others) == 1 and not others[0].isdecimal() and others[0] not in self.arrays:
                yield others[0], [n for n in names if n in self.sizes]

    def _count(self, name: Piece | None) -> Worth | None:
        """How many values a variable takes: as in counts(), or as `i / n` with i < m * n, or as `i - i / n * n`."""
        if name is None:
            return None
        if count := counts(name):
            return self._worth(count)
        value = value_of(name.file, name.code, name.start)
        if value and sign_of(value) == "/":
            return self._quotients(value)
        if value and sign_of(value) == "-" and sign_of(value.part("right")) == "*":
            one, other = (value.part("right").part(side) for side in ("left", "right"))
            for quotient, size in ((one, other), (other, one)):
                q = value_of(name.file, quotient.code, value.start) if quotient.kind == "identifier" else None
                if q and sign_of(q) == "/" and q.part("right").code == size.code:
                    return self._worth(size) if q.part("left").code == value.part("left").code else None
        return None

    def _quotients(self, division: Piece) -> Worth | None:
        """How many values `i / n` has where i < m * n is asked for."""
        whole, by = division.part("left").code, self._worth(division.part("right"))
        for e in self.own.body.all("binary_expression") if by and all(by) else ():
            if sign_of(e) in ("<", ">=") and e.part("left").code == whole:
                most = self._worth(e.part("right"))
                if most and not any(m % n for m, n in zip(most, by, strict=True)):
                    return [m // n for m, n in zip(most, by, strict=True)]
        return None

    def _bound(self, loop: Piece) -> Worth | None:
        test, name = loop.part("condition"), counter(loop)
        if not name or test is None or sign_of(test) != "<" or test.part("left").code != name:
            return None
        return self._worth(test.part("right"))

    def _of_size(self, array: Array, worth: Worth | None) -> int | None:
        """The only axis that has this size in all cases."""
        found = [
            i for i, (_, size) in enumerate(array.axes) if worth == [array.shape(d)[i] for d in self.dims]
        ]
        return found[0] if worth and len(found) == 1 else None

    def _stride(self, array: Array, axis: int) -> Worth:
        return [math.prod(array.shape(d)[axis + 1 :]) for d in self.dims]

    def _each(self, scale: Sequence[str]) -> list[Sequence[int]]:
        return [self.sizes[n] for n in scale]

    def _worth_of(self, scale: Sequence[str]) -> Worth:
        return [math.prod(self.sizes[n][i] for n in scale) for i in range(len(self.dims))]

    def _worth(self, e: Piece) -> Worth | None:
        found = [evaluated(e, {n: s[i] for n, s in self.sizes.items()}) for i in range(len(self.dims))]
        return None if None in found else found

    @staticmethod
    def _piece(index: Piece, name: str) -> Piece | None:
        return next((p for p in index.all("identifier") if p.code == name), None)
