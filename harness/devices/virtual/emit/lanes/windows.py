"""Loads of lanes whose addresses are close together: a window of one or two vectors is loaded, from which
each lane takes its number.

So rows of an image that are shorter than a vector take two loads, as do several neighbours of each lane's
number. Memory loaded past an array's end is mapped, and its values are not used.
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

    def _index(self, place: Place) -> str:
        """The index of each lane's number in the window."""
        text, wide = self.text, self.text.type("i64")
        behind = self.e.op("sub i64", place.rest, place.low)
        number = text.vector(f"lshr {wide} {behind}, splat (i64 {_SIZE.bit_length() - 1})")
        return self.e.cast("trunc", "i64", number, "i32")

    def _taken(self, x: Element, start: int, pointer: str, index: str, vectors: int) -> str:
        """start: of the window, behind the pointer."""
        text, t = self.text, llvm_type(x.ins.op.type)
        vector, indices = text.type(t), text.type("i32")
        window = []
        for i in range(vectors):
            at = start + _SIZE * _LANES * i
            where = text.once(f"getelementptr i8, ptr {pointer}, i64 {at}")
            window.append(f"{vector} {text.once(f'load {vector}, ptr {where}, align {_SIZE}')}")
        name = f"llvm.x86.avx512.{_PERMUTE[t, vectors]}.512"
        text.unit.declare(name, vector, ", ".join(f"{v} x" for v in (vector, indices, vector)[: 1 + vectors]))
        number = self.e.op("add i32", index, (x.offset - start) // _SIZE) if x.offset > start else index
        given = ", ".join([window[0], f"{indices} {number}", *window[1:]])
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
