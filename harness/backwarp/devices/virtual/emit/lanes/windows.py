"""Loads of lanes whose addresses are close together: a window of one or two vectors is loaded, from which
each lane takes its number; or four windows of half a vector, or of a vector, each.

So rows of an image that are shorter than a vector take two loads, as do several neighbours of each lane's
number; longer rows take one each. Memory loaded past an array's end is mapped, and its values are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

from ...ptx.types import llvm_type

if TYPE_CHECKING:
    from .patterns import Element, Place

_SIZE = 4  # bytes of a number: of those of a vector, and of two, any may be taken with AVX-512
_NEAR = 32  # bytes from one element to another that is taken from the same window
_LANES = 16
_SHIFT = 2  # from bytes to numbers
_NARROW = _LANES // 2  # numbers in each of four windows that fit two vectors
#: what is known of four windows: of no addresses; of these, nothing; narrow windows, or wide ones; that there are none
_NEW, _SEEN, _FOUND_NARROW, _FOUND, _NONE = range(5)
_PERMUTE = {
    ("float", 1): "permvar.sf",
    ("float", 2): "vpermi2var.ps",
    ("i32", 1): "permvar.si",
    ("i32", 2): "vpermi2var.d",
}


@dataclass
class _Part:
    """16 lanes. low: where the first of their numbers is, behind the place's pointer; extent: how far behind it the last
    one is, both in bytes; behind(): how far each is, as 32 bits."""

    low: str
    extent: str
    behind: Callable[[], str]


class Windows:
    def __init__(self, e):
        self.e, self.text = e, e.text

    def fit(self, elements: list[Element]) -> bool:
        """Whether loads of these may be done so."""
        wide = self.text.width % _LANES == 0 and self.text.masks == "i1"
        return wide and all((llvm_type(x.ins.op.type), 1) in _PERMUTE for x in elements)

    def ways(self, elements: list[Element], place: Place) -> Iterator[list[str]]:
        """The results, if the lanes' addresses are in a window, or those of each 16 lanes in one of their own; each way
        is a block of its own. Continues if they are not."""
        e, text, starts = self.e, self.text, _starts(elements)
        farthest = max(offset - start for offset, start in starts.items())
        parts = self._parts(place)
        for vectors in (2,) if farthest else (1, 2):
            within, beyond = e.fresh_label("window"), e.fresh_label("beyond")
            room = _SIZE * (_LANES * vectors - 1) - farthest
            near = [e.op("icmp ule i64", part.extent, room) for part in parts]
            e.branch(reduce(partial(e.op, "and i1"), near), within, beyond)
            e.label(within)
            with text.of_part(_LANES):
                found = [self._of_part(elements, starts, place, part, vectors) for part in parts]
            yield self._joined(elements, found)
            e.label(beyond)
        if farthest:
            yield from self._of_four(elements, starts, place, parts, farthest)

    def _parts(self, place: Place) -> list[_Part]:
        """The 16 lanes, or each 16 of 32: these in 32 bits, unless all 32 are too far apart."""
        e, text = self.e, self.text
        extent = e.op("sub i64", place.high, place.low)
        if text.width == _LANES:
            return [_Part(place.low, extent, lambda: self._behind(place.rest, place.low))]
        found, behind = [], self._behind(place.rest, place.low)
        beyond = e.op("and i64", extent, -1 << 32)
        for first in range(0, text.width, _LANES):
            own = text.part(behind, "i32", first, _LANES)
            with text.of_part(_LANES):
                low, high = (text.reduced(how, own, "i32") for how in ("umin", "umax"))
                by = e.op("sub i32", own, low)
            low, high = (e.cast("zext", "i32", x, "i64") for x in (low, high))
            span = e.op("or i64", e.op("sub i64", high, low), beyond)
            found.append(_Part(e.op("add i64", place.low, low), span, lambda by=by: by))
        return found

    def _behind(self, rest: str, low: str) -> str:
        return self.e.cast("trunc", "i64", self.e.op("sub i64", rest, low), "i32")

    def _joined(self, elements: list[Element], found: list[list[str]]) -> list[str]:
        """found: of each 16 lanes, the numbers of each element."""
        return [
            self.text.joined_parts(parts, llvm_type(x.ins.op.type))
            for x, *parts in zip(elements, *found, strict=True)
        ]

    def _of_four(
        self, elements: list[Element], starts: dict[int, int], place: Place, parts: list[_Part], farthest: int
    ) -> Iterator[list[str]]:
        """Four windows each. They are found when the lanes come with the same addresses, relative to the first lane's,
        for the second time, and kept: in a loop they mostly stay the same."""
        e, text, kept = self.e, self.text, _Kept(self.e, place, len(parts))
        known, first, again, beyond = (e.fresh_label(hint) for hint in ("known", "first", "again", "beyond"))
        found = {_FOUND: e.fresh_label("four")}
        if len(parts) > 1:  # elsewhere it would take longer to compile
            found = {_FOUND_NARROW: e.fresh_label("narrow")} | found
        e.branch(kept.is_known(), known, first)
        e.label(first)
        kept.begin()
        e.line(f"br label %{beyond}")
        e.label(known)
        state = e.emit(f"load i8, ptr {kept.state}")
        ways = {_SEEN: again} | found
        cases = " ".join(f"i8 {number}, label %{label}" for number, label in ways.items())
        e.line(f"switch i8 {state}, label %{beyond} [{cases}]")
        e.label(again)
        before = text.remembered()
        kept.look(parts, farthest, again, found, beyond)
        for number, label in found.items():
            text.recall(before)
            e.label(label)
            with text.of_part(_LANES):
                take = self._of_halves if number == _FOUND_NARROW else self._of_wholes
                results = []
                for n, part in enumerate(parts):
                    pointers = kept.windows(n, place, part)
                    results.append([take(x, starts[x.offset], pointers, kept, n) for x in elements])
            yield self._joined(elements, results)
        text.recall(before)
        e.label(beyond)

    def _of_halves(self, x: Element, start: int, pointers: list[str], kept: _Kept, n: int) -> str:
        """One number of each of 16 lanes, of narrow windows, two of which are a vector."""
        text, t = self.text, llvm_type(x.ins.op.type)
        half, order = f"<{_NARROW} x {t}>", ", ".join(f"i32 {i}" for i in range(_LANES))
        loaded = []
        for pointer in pointers:
            where = text.once(f"getelementptr i8, ptr {pointer}, i64 {start}")
            loaded.append(text.once(f"load {half}, ptr {where}, align {_SIZE}"))
        pairs = [
            text.once(f"shufflevector {half} {a}, {half} {b}, <{_LANES} x i32> <{order}>")
            for a, b in (loaded[:2], loaded[2:])
        ]
        return self._permuted(x, start, kept.indices(n), pairs)

    def _of_wholes(self, x: Element, start: int, pointers: list[str], kept: _Kept, n: int) -> str:
        text, vector = self.text, self.text.type(llvm_type(x.ins.op.type))
        loaded = [self._window(x, pointer, start) for pointer in pointers]
        first, second = (self._permuted(x, start, kept.indices(n), pair) for pair in (loaded[:2], loaded[2:]))
        return text.vector(f"select {text.bools} {kept.early(n)}, {vector} {first}, {vector} {second}")

    def _of_part(
        self, elements: list[Element], starts: dict[int, int], place: Place, part: _Part, vectors: int
    ) -> list[str]:
        """The numbers of 16 lanes, from one window."""
        index = self.text.vector(f"lshr {self.text.type('i32')} {part.behind()}, splat (i32 {_SHIFT})")
        pointer = self.e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {part.low}")
        return [self._taken(x, starts[x.offset], pointer, index, vectors) for x in elements]

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
    """The four windows of each 16 lanes of an access, in variables of the function."""

    def __init__(self, e, place: Place, parts: int):
        self.e, self.text, self.given = e, e.text, place.rest
        self.addresses = self.text.type("i64")
        with self.text.of_part(_LANES):
            self.numbers, self.bools = self.text.type("i32"), self.text.bools
        name = e.fresh_label("windows")
        self.state, self.rest = f"%{name}.state", f"%{name}.rest"
        self.index, self.first_two = (
            [f"%{name}.{what}.{n}" for n in range(parts)] for what in ("index", "early")
        )
        self.begins = [
            [f"%{name}.{which}.{n}" for which in ("second", "third", "fourth")] for n in range(parts)
        ]
        types = dict.fromkeys(sum(self.begins, []), "i64") | {self.rest: self.addresses}
        types |= dict.fromkeys(self.index, self.numbers) | dict.fromkeys(self.first_two, self.bools)
        if not self.text.several.isdisjoint((place.rest, place.low)):
            self.text.several |= types.keys()
        self.text.first(f"{self.state} = alloca i8", f"store i8 {_NEW}, ptr {self.state}")
        for slot, t in types.items():
            self.text.first(f"{slot} = alloca {t}", f"store {t} zeroinitializer, ptr {slot}")

    def is_known(self) -> str:
        """Whether the lanes' addresses are those of the last time."""
        last = self.text.vector(f"load {self.addresses}, ptr {self.rest}")
        return self.text.all(self.e.op("icmp eq i64", last, self.given))

    def begin(self) -> None:
        self.text.line(f"store {self.addresses} {self.given}, ptr {self.rest}")
        self.e.line(f"store i8 {_SEEN}, ptr {self.state}")

    def look(self, parts: list[_Part], farthest: int, here: str, found: dict[int, str], beyond: str) -> None:
        """Goes where the windows are used, narrow ones if these contain all numbers; to `beyond` if there are none. here:
        the block's label."""
        e, text = self.e, self.text
        search, wider, end = (e.fresh_label(hint) for hint in ("search", "wider", "found"))
        e.line(f"br label %{search}")
        text.block(search)
        first = _NARROW if _FOUND_NARROW in found else _LANES
        size = e.emit(f"phi i32 [ {first}, %{here} ], [ {_LANES}, %{wider} ]")
        narrow = e.op("icmp ult i32", size, _LANES)
        room = e.op("sub i32", e.op("mul i32", size, _SIZE), _SIZE + farthest)
        with text.of_part(_LANES):
            fits = [self._find(n, part, size, room) for n, part in enumerate(parts)]
        state = e.emit(f"select i1 {narrow}, i8 {_FOUND_NARROW}, i8 {_FOUND}")
        e.branch(reduce(partial(e.op, "and i1"), fits), end, wider)
        e.label(wider)
        e.line(f"store i8 {_NONE}, ptr {self.state}")
        e.branch(narrow, search, beyond)
        e.label(end)
        e.line(f"store i8 {state}, ptr {self.state}")
        e.branch(narrow, found.get(_FOUND_NARROW, beyond), found[_FOUND])

    def _find(self, n: int, part: _Part, size: str, room: str) -> str:
        """Whether four windows contain all numbers of 16 lanes; each begins at the first number that is in none before
        it. size: numbers in each; room: for where they begin, in bytes."""
        e, text = self.e, self.text
        behind = self._not_before(part.behind())
        last = e.cast("trunc", "i64", part.extent, "i32")
        by, inside = [behind], [e.op("icmp ule i32", behind, room)]
        found = inside[0]
        for slot in self.begins[n]:
            others = e.emit(f"select i1 {found}, i32 {last}, i32 {behind}")
            begin = text.reduced("umin", others, "i32")
            text.line(f"store i64 {e.cast('zext', 'i32', begin, 'i64')}, ptr {slot}")
            by.append(e.op("sub i32", behind, begin))
            inside.append(e.op("icmp ule i32", by[-1], room))
            found = e.op("or i1", found, inside[-1])
        index = ""
        for i in (3, 2, 1, 0):  # in two vectors, or in one of two pairs of them
            before = e.op("and i32", e.op("mul i32", size, i), 2 * _LANES - 1)
            number = e.op("or i32", e.op("lshr i32", by[i], _SHIFT), before)
            index = e.emit(f"select i1 {inside[i]}, i32 {number}, i32 {index}") if index else number
        text.line(f"store {self.numbers} {index}, ptr {self.index[n]}")
        text.line(f"store {self.bools} {e.op('or i1', inside[0], inside[1])}, ptr {self.first_two[n]}")
        return e.op("and i1", text.all(found), e.op("icmp ult i64", part.extent, 1 << 31))

    def windows(self, n: int, place: Place, part: _Part) -> list[str]:
        """Where the windows of 16 lanes begin."""
        e = self.e
        pointer = e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {part.low}")
        begins = [e.emit(f"load i64, ptr {slot}") for slot in self.begins[n]]
        return [pointer, *(e.emit(f"getelementptr i8, ptr {pointer}, i64 {begin}") for begin in begins)]

    def indices(self, n: int) -> str:
        """The index of each lane's number in its two vectors."""
        return self._kept(self.numbers, self.index[n])

    def early(self, n: int) -> str:
        """The lanes whose number is in the first two windows."""
        return self._kept(self.bools, self.first_two[n])

    def _kept(self, t: str, slot: str) -> str:
        found = self.text.once(f"load {t}, ptr {slot}")
        self.text.vectors.add(found)
        return found

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
