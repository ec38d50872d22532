"""Loads of lanes whose addresses are close together: a window of one or two vectors is loaded, from which
each lane takes its number; or four windows of a vector each.

So rows of an image that are shorter than a vector take two loads, as do several neighbours of each lane's
number; longer rows take one each. Memory loaded past an array's end is mapped, and its values are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ptx.types import llvm_type

if TYPE_CHECKING:
    from .patterns import Element, Place

_SIZE = 4  # bytes of a number: of those of a vector, and of two, any may be taken with AVX-512
_NEAR = 32  # bytes from one element to another that is taken from the same window
_LANES = 16
_SHIFT = 2  # from bytes to numbers
_PERMUTE = {
    ("float", 1): "permvar.sf",
    ("float", 2): "vpermi2var.ps",
    ("i32", 1): "permvar.si",
    ("i32", 2): "vpermi2var.d",
}


class Windows:
    def __init__(self, e):
        self.e, self.text = e, e.text

    def fit(self, elements: list[Element]) -> bool:
        """Whether loads of these may be done so."""
        wide = self.text.width == _LANES and self.text.masks == "i1"
        return wide and all((llvm_type(x.ins.op.type), 1) in _PERMUTE for x in elements)

    def ways(self, elements: list[Element], place: Place) -> Iterator[list[str]]:
        """The results, if the lanes' addresses are in a window; each way is a block of its own. Continues if
        they are not."""
        e, starts = self.e, _starts(elements)
        farthest = max(offset - start for offset, start in starts.items())
        extent = e.op("sub i64", place.high, place.low)
        pointer = e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {place.low}")
        for vectors in (2,) if farthest else (1, 2):
            within, beyond = e.fresh_label("window"), e.fresh_label("beyond")
            room = _SIZE * (_LANES * vectors - 1) - farthest
            e.branch(e.op("icmp ule i64", extent, room), within, beyond)
            e.label(within)
            index = self._index(place)
            yield [self._taken(x, starts[x.offset], pointer, index, vectors) for x in elements]
            e.label(beyond)
        if farthest:
            yield from self._of_four(elements, starts, place, extent, farthest)

    def _of_four(
        self, elements: list[Element], starts: dict[int, int], place: Place, extent: str, farthest: int
    ) -> Iterator[list[str]]:
        """Four windows of a vector, each of which begins at the first number that is in none before it."""
        e, text = self.e, self.text
        near, four, beyond = (e.fresh_label(hint) for hint in ("near", "four", "beyond"))
        e.branch(e.op("icmp ult i64", extent, 1 << 31), near, beyond)
        e.label(near)
        room, last = str(_SIZE * (_LANES - 1) - farthest), e.cast("trunc", "i64", extent, "i32")
        behind = e.cast("trunc", "i64", e.op("sub i64", place.rest, place.low), "i32")
        begins, by, inside = ["0"], [behind], [e.op("icmp ule i32", behind, room)]
        found = inside[0]
        for _ in range(3):
            others = e.emit(f"select i1 {found}, i32 {last}, i32 {behind}")
            begins.append(text.reduced("umin", others, "i32"))
            by.append(e.op("sub i32", behind, begins[-1]))
            inside.append(e.op("icmp ule i32", by[-1], room))
            found = e.op("or i1", found, inside[-1])
        e.branch(text.all(found), four, beyond)
        e.label(four)
        index = e.op("or i32", e.op("lshr i32", by[3], _SHIFT), _LANES)
        for i in (2, 1, 0):
            number = e.op("lshr i32", by[i], _SHIFT)
            number = e.op("or i32", number, _LANES) if i % 2 else number
            index = e.emit(f"select i1 {inside[i]}, i32 {number}, i32 {index}")
        early = e.op("or i1", inside[0], inside[1])
        pointer = e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {place.low}")
        windows = [e.emit(f"getelementptr i8, ptr {pointer}, i32 {begin}") for begin in begins]
        yield [self._of_four_taken(x, starts[x.offset], windows, index, early) for x in elements]
        e.label(beyond)

    def _of_four_taken(self, x: Element, start: int, windows: list[str], index: str, early: str) -> str:
        """early: the lanes whose number is in one of the first two windows."""
        text, vector = self.text, self.text.type(llvm_type(x.ins.op.type))
        loaded = [self._window(x, pointer, start) for pointer in windows]
        first, second = (self._permuted(x, start, index, pair) for pair in (loaded[:2], loaded[2:]))
        return text.vector(f"select {text.bools} {early}, {vector} {first}, {vector} {second}")

    def _index(self, place: Place) -> str:
        """The index of each lane's number in the window."""
        text, wide = self.text, self.text.type("i64")
        behind = self.e.op("sub i64", place.rest, place.low)
        number = text.vector(f"lshr {wide} {behind}, splat (i64 {_SHIFT})")
        return self.e.cast("trunc", "i64", number, "i32")

    def _taken(self, x: Element, start: int, pointer: str, index: str, vectors: int) -> str:
        """start: of the window, behind the pointer."""
        window = [self._window(x, pointer, start + _SIZE * _LANES * i) for i in range(vectors)]
        return self._permuted(x, start, index, window)

    def _window(self, x: Element, pointer: str, at: int) -> str:
        """A vector of numbers behind a pointer."""
        where = self.text.once(f"getelementptr i8, ptr {pointer}, i64 {at}")
        return self.text.once(f"load {self.text.type(llvm_type(x.ins.op.type))}, ptr {where}, align {_SIZE}")

    def _permuted(self, x: Element, start: int, index: str, window: list[str]) -> str:
        """The number of each lane in a window of one or two vectors."""
        text, t = self.text, llvm_type(x.ins.op.type)
        vector, indices = text.type(t), text.type("i32")
        name = f"llvm.x86.avx512.{_PERMUTE[t, len(window)]}.512"
        text.unit.declare(
            name, vector, ", ".join(f"{v} x" for v in (vector, indices, vector)[: 1 + len(window)])
        )
        number = self.e.op("add i32", index, (x.offset - start) // _SIZE) if x.offset > start else index
        given = ", ".join(
            [f"{vector} {window[0]}", f"{indices} {number}", *(f"{vector} {w}" for w in window[1:])]
        )
        return text.vector(f"call {vector} @{name}({given})")


def _starts(elements: list[Element]) -> dict[int, int]:
    """The offset of each element -> that of the first one in its window."""
    found: dict[int, int] = {}
    start = None
    for offset in sorted({x.offset for x in elements}):
        if start is None or offset - start >= _NEAR:
            start = offset
        found[offset] = start
    return found
