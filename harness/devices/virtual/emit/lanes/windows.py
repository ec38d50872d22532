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
#: what is known of four windows: of no addresses; of these, nothing; the windows; that there are none
_NEW, _SEEN, _FOUND, _NONE = range(4)
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
        """Four windows of a vector each. They are found when the lanes come with the same addresses, relative to the
        first lane's, for the second time, and kept: in a loop they mostly stay the same."""
        e, kept = self.e, _Kept(self.e, place)
        known, first, again, found, four, beyond = (
            e.fresh_label(hint) for hint in ("known", "first", "again", "found", "four", "beyond")
        )
        e.branch(kept.is_known(), known, first)
        e.label(first)
        kept.begin()
        e.line(f"br label %{beyond}")
        e.label(known)
        state = e.emit(f"load i8, ptr {kept.state}")
        e.line(f"switch i8 {state}, label %{beyond} [i8 {_SEEN}, label %{again} i8 {_FOUND}, label %{four}]")
        e.label(again)
        before = self.text.remembered()
        within = kept.find(place, extent, _SIZE * (_LANES - 1) - farthest)
        e.branch(within, found, beyond)
        e.label(found)
        kept.end()
        e.line(f"br label %{four}")
        self.text.recall(before)
        e.label(four)
        windows, index, early = kept.load(place)
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


class _Kept:
    """The four windows of an access, in variables of the function."""

    def __init__(self, e, place: Place):
        self.e, self.text = e, e.text
        name = e.fresh_label("windows")
        self.state, self.rest, self.index, self.early, *self.begins = (
            f"%{name}.{part}" for part in ("state", "rest", "index", "early", "second", "third", "fourth")
        )
        numbers, addresses = self.text.type("i32"), self.text.type("i64")
        types = dict.fromkeys(self.begins, "i32") | {self.index: numbers, self.early: self.text.bools}
        types |= {self.rest: addresses}
        if not self.text.several.isdisjoint((place.rest, place.low)):
            self.text.several |= types.keys()
        self.text.first(f"{self.state} = alloca i8", f"store i8 {_NEW}, ptr {self.state}")
        for slot, t in types.items():
            self.text.first(f"{slot} = alloca {t}", f"store {t} zeroinitializer, ptr {slot}")
        self.types, self.given = types, place.rest

    def is_known(self) -> str:
        """Whether the lanes' addresses are those of the last time."""
        last = self.text.vector(f"load {self.types[self.rest]}, ptr {self.rest}")
        return self.text.all(self.e.op("icmp eq i64", last, self.given))

    def begin(self) -> None:
        self._store(self.rest, self.given)
        self.e.line(f"store i8 {_SEEN}, ptr {self.state}")

    def end(self) -> None:
        self.e.line(f"store i8 {_FOUND}, ptr {self.state}")

    def find(self, place: Place, extent: str, room: int) -> str:
        """Whether four windows contain all numbers; each begins at the first number that is in none before it."""
        e, text = self.e, self.text
        e.line(f"store i8 {_NONE}, ptr {self.state}")
        behind = self._not_before(e.cast("trunc", "i64", e.op("sub i64", self.given, place.low), "i32"))
        last = e.cast("trunc", "i64", extent, "i32")
        by, inside = [behind], [e.op("icmp ule i32", behind, room)]
        found = inside[0]
        for slot in self.begins:
            others = e.emit(f"select i1 {found}, i32 {last}, i32 {behind}")
            begin = text.reduced("umin", others, "i32")
            self._store(slot, begin)
            by.append(e.op("sub i32", behind, begin))
            inside.append(e.op("icmp ule i32", by[-1], room))
            found = e.op("or i1", found, inside[-1])
        index = e.op("or i32", e.op("lshr i32", by[3], _SHIFT), _LANES)
        for i in (2, 1, 0):
            number = e.op("lshr i32", by[i], _SHIFT)
            number = e.op("or i32", number, _LANES) if i % 2 else number
            index = e.emit(f"select i1 {inside[i]}, i32 {number}, i32 {index}")
        self._store(self.index, index)
        self._store(self.early, e.op("or i1", inside[0], inside[1]))
        return e.op("and i1", text.all(found), e.op("icmp ult i64", extent, 1 << 31))

    def load(self, place: Place) -> tuple[list[str], str, str]:
        """(where the windows begin, the index of each lane's number in the first or the last two of them, the
        lanes whose number is in the first two)"""
        e, text = self.e, self.text
        pointer = e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {place.low}")
        begins = [e.emit(f"load i32, ptr {slot}") for slot in self.begins]
        windows = [pointer, *(e.emit(f"getelementptr i8, ptr {pointer}, i32 {begin}") for begin in begins)]
        index = text.vector(f"load {self.types[self.index]}, ptr {self.index}")
        return windows, index, text.vector(f"load {text.bools}, ptr {self.early}")

    def _store(self, slot: str, value: str) -> None:
        self.text.line(f"store {self.types[slot]} {value}, ptr {slot}")

    def _not_before(self, value: str) -> str:
        """A vector that LLVM takes for another: else it would find the windows before each loop, although the loop may
        need none."""
        t = self.text.type("i32")
        return self.text.vector(f'call {t} asm sideeffect "", "=v,0"({t} {value})')


def _starts(elements: list[Element]) -> dict[int, int]:
    """The offset of each element -> that of the first one in its window."""
    found: dict[int, int] = {}
    start = None
    for offset in sorted({x.offset for x in elements}):
        if start is None or offset - start >= _NEAR:
            start = offset
        found[offset] = start
    return found
