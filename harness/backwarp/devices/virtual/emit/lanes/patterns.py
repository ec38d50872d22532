"""Loads and stores of lanes by their access pattern: all at one address, close together, in one or two rows,
four numbers each, or arbitrary.

Where each lane reads four numbers in a row, these are loaded as one and transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...ptx.ir import Instruction
from ...ptx.types import BYTES, llvm_type
from .windows import Windows

_FOUR = 4  # numbers that are loaded as one
_AT_ONCE = 16  # lanes whose fours are transposed together


@dataclass(frozen=True)
class Element:
    """One number of an access: its instruction, its register, its distance from the first address."""

    ins: Instruction
    register: str
    offset: int


@dataclass
class Place:
    """Where the lanes access: pointer + rest, of bytes. low, high: of the rest of all lanes. All of them may load there."""

    pointer: str
    low: str
    high: str
    rest: str
    stride: int | None


class Patterns:
    def __init__(self, e):
        self.e, self.text, self.values, self.width = e, e.text, e.values, e.text.width
        self.windows, self._has_nowhere = Windows(e), False
        self.rarely: Callable[[], None] = lambda: None  # called where the code for scattered addresses begins

    def ways(self, elements: list[Element], place: Place, stores: list[str]) -> Iterator[list[str]]:
        """The results for each access pattern; each pattern is a block of its own."""
        one = elements[0].ins.op.vector == 1
        size = elements[0].ins.op.nbytes
        if place.stride == 0:
            yield self._at_one(elements, place, stores)
        elif place.stride is not None:
            row = one and place.stride == size
            yield self._in_a_row(elements, place, stores) if row else self._spread(elements, place, stores)
        else:
            alike = self.e.op("icmp eq i64", place.low, place.high)
            yield from self._from_one(elements, place, place.low, alike, stores)
            yield from self._by_row(elements, place, stores)

    def _by_row(self, elements: list[Element], place: Place, stores: list[str]) -> Iterator[list[str]]:
        """Loads in a window, where there are windows; else in a row, if they are, or in two; or wherever they are."""
        e, size = self.e, elements[0].ins.op.nbytes
        windows = not stores and self.windows.fit(elements)
        if elements[0].ins.op.vector == 1 and not (windows and len(elements) > 1):
            row, spread = e.fresh_label("row"), e.fresh_label("spread")
            begin, by, ends = self.first_in_row(place.rest, size)
            e.branch(ends, row, spread)
            e.label(row)
            pointer = self._behind(place.pointer, begin)
            found = Place(pointer, "0", "0", place.rest, size)
            yield self._in_a_row(elements, found, stores)
            e.label(spread)
            if not (stores or windows):
                yield from self._in_two_rows(elements, place, begin, by, size)
        if windows:
            yield from self.windows.ways(elements, place)
        self.rarely()
        yield self._spread(elements, place, stores)

    def _from_one(
        self, elements: list[Element], place: Place, at: str, alike: str, stores: list[str]
    ) -> Iterator[list[str]]:
        """All at one address, behind the place's pointer, if they are alike (an i1)."""
        e, same, other = self.e, self.e.fresh_label("same"), self.e.fresh_label("other")
        e.branch(alike, same, other)
        e.label(same)
        pointer = self._behind(place.pointer, at)
        results = self._at_one(elements, Place(pointer, "0", "0", "", 0), stores)
        loaded = zip(results, [] if stores else elements, strict=True)
        yield [self.text.spread(r, llvm_type(x.ins.op.type)) for r, x in loaded]
        e.label(other)

    def _in_two_rows(
        self, elements: list[Element], place: Place, begin: str, by: str, size: int
    ) -> Iterator[list[str]]:
        """Loads if each lane is in a row with the first lane or with the last one."""
        e, text, vector = self.e, self.text, self.text.type("i64")
        rows, spread = e.fresh_label("rows"), e.fresh_label("spread")
        row = text.named(text.row(64, size), "i64")
        last = text.plainly_once(f"extractelement {vector} {by}, i64 {self.width - 1}")
        behind = e.op("sub i64", last, size * (self.width - 1))  # where the last lane's row would begin
        first = e.op("icmp eq i64", by, row)
        shifted = text.vector(f"add {vector} {row}, {text.spread(behind, 'i64')}")
        e.branch(text.all(e.op("or i1", first, e.op("icmp eq i64", by, shifted))), rows, spread)
        e.label(rows)
        yield [self._from_two(x, place, begin, behind, first) for x in elements]
        e.label(spread)

    def _from_two(self, x: Element, place: Place, begin: str, behind: str, first: str) -> str:
        """A load of two rows. first: the lanes of the first one. What other lanes load of a row is near an
        array's ends, in mapped memory, and is not used."""
        text, t = self.text, llvm_type(x.ins.op.type)
        one = self._behind(self._behind(place.pointer, begin), x.offset)
        vector, align = text.type(t), f"align {x.ins.op.nbytes}"
        low, high = (
            text.vector(f"load {vector}, ptr {where}, {align}") for where in (one, self._behind(one, behind))
        )
        return text.vector(f"select {text.bools} {text.condition(first)}, {vector} {low}, {vector} {high}")

    def first_in_row(self, rest: str, size: int) -> tuple[str, str, str]:
        """(the first of them, how far behind it each is, whether each lane's is `size` behind the one before)"""
        text, vector = self.text, self.text.type("i64")
        begin = text.plainly_once(f"extractelement {vector} {rest}, i64 0")
        by = text.vector(f"sub {vector} {rest}, {text.spread(begin, 'i64')}")
        equal = self.e.op("icmp eq i64", by, text.named(text.row(64, size), "i64"))
        return begin, by, text.all(equal)

    def _at_one(self, elements: list[Element], place: Place, stores: list[str]) -> list[str]:
        """All lanes access the same address: one load; of the stores, the last one counts."""
        e, results = self.e, []
        for i, x in enumerate(elements):
            t = llvm_type(x.ins.op.type)
            value = stores[i] if stores else ""
            if value in self.text.vectors:  # one of each row whose lanes that take part differ
                value = self.text.plainly_once(
                    f"extractelement {self.text.type(t)} {value}, i64 {self._last()}"
                )
            where = self._if_any(self._behind(place.pointer, x.offset), value)
            if stores:
                e.line(f"store {t} {value}, ptr {where}, align {x.ins.op.nbytes}")
            else:
                results.append(self.load(x, where))
        return results

    def _if_any(self, pointer: str, value: str) -> str:
        """A pointer for each row with an active lane; for other rows, one to unused memory."""
        text, mask = self.text, self.values.mask
        if mask not in text.several or text.several.isdisjoint((pointer, value)):
            return pointer
        return self._or_nowhere(pointer, text.any_of_row(mask))

    def _or_nowhere(self, pointer: str, some: str) -> str:
        if not self._has_nowhere:
            self._has_nowhere = True
            self.text.first("%nowhere = alloca [16 x i8], align 16")
        return self.e.emit(f"select i1 {some}, ptr {pointer}, ptr %nowhere")

    def anywhere(self, place: Place, x: Element, some: str) -> str:
        """The place of an element, or unused memory if no lane wants it. some: whether one does (an i1)."""
        return self._or_nowhere(self._behind(place.pointer, x.offset), some)

    def load(self, x: Element, pointer: str) -> str:
        return self.e.emit(f"load {llvm_type(x.ins.op.type)}, ptr {pointer}, align {x.ins.op.nbytes}")

    def _last(self) -> str:
        """The number of the last lane that takes part."""
        if not self.values.mask:
            return str(self.width - 1)
        e, t = self.e, "i32"
        behind = e.emit(f"call {t} @llvm.ctlz.i32({t} {self.values.bits()}, i1 false)")
        return e.cast("zext", t, e.op(f"sub {t}", 31, behind), "i64")

    def _in_a_row(self, elements: list[Element], place: Place, stores: list[str]) -> list[str]:
        text, mask, results = self.text, self.values.mask, []
        for i, x in enumerate(elements):
            t, align = llvm_type(x.ins.op.type), f"align {x.ins.op.nbytes}"
            vector = text.type(t)
            where = self._behind(place.pointer, x.offset)
            if stores:
                value = text.spread(stores[i], t)
                if mask:
                    self._intrinsic("store", t, f"ptr {align} {where}", text.condition(mask), value)
                else:
                    text.line(f"store {vector} {value}, ptr {where}, {align}")
            else:
                results.append(text.vector(f"load {vector}, ptr {where}, {align}"))
        return results

    def _spread(self, elements: list[Element], place: Place, stores: list[str]) -> list[str]:
        pointers = self.pointers(place.pointer, place.rest)
        if stores:
            return self.lanewise(elements, pointers, stores, self.values.mask)
        at = {x.offset: i for i, x in enumerate(elements)}
        results: list[str] = [""] * len(elements)
        in_fours = BYTES[elements[0].ins.op.type] == 4
        for offset in sorted(at):
            run = [at.get(offset + 4 * k) for k in range(_FOUR)]
            if results[at[offset]]:
                continue
            if in_fours and None not in run and not any(results[i] for i in run):
                t = llvm_type(elements[run[0]].ins.op.type)
                for i, value in zip(run, self._fours(place, offset, t), strict=True):
                    results[i] = value
                continue
            x = elements[at[offset]]
            (results[at[offset]],) = self.lanewise([x], pointers, [], "")
        for i, x in enumerate(elements):  # the same address again
            results[i] = results[i] or results[at[x.offset]]
        return results

    def _fours(self, place: Place, offset: int, t: str) -> list[str]:
        """Four numbers of each lane, as four vectors of lanes."""
        most = min(self.width, _AT_ONCE)
        parts = [self._fours_of(range(n, n + most), place, offset, t) for n in range(0, self.width, most)]
        return [self.text.joined_parts(part, t) for part in zip(*parts)]

    def _fours_of(self, lanes: range, place: Place, offset: int, t: str) -> list[str]:
        e, text, n = self.e, self.text, len(lanes)
        pointer, rows = self._opaque(place.pointer), []
        for lane in lanes:
            by = text.plainly_once(f"extractelement {text.type('i64')} {place.rest}, i64 {lane}")
            where = self._behind(self._behind(pointer, by), offset)
            rows.append(e.emit(f"load <4 x {t}>, ptr {where}, align 4"))
        # the rows of lanes 0, 4, 8 ... side by side, and so on: then fours are transposed within a vector
        sides = [self._side_by_side(rows[k::4], t) for k in range(4)]
        pairs = [
            self._shuffled(sides[a], sides[a + 1], t, order, n)
            for a in (0, 2)
            for order in ((0, n, 1, n + 1), (2, n + 2, 3, n + 3))
        ]
        (low, high), (low2, high2) = pairs[:2], pairs[2:]
        first, second = (0, 1, n, n + 1), (2, 3, n + 2, n + 3)
        return [
            self._shuffled(low, low2, t, first, n),
            self._shuffled(low, low2, t, second, n),
            self._shuffled(high, high2, t, first, n),
            self._shuffled(high, high2, t, second, n),
        ]

    def _opaque(self, pointer: str) -> str:
        """A pointer that LLVM takes for another: else it would compute, before each loop, where every lane begins, although
        the loop may never come here."""
        self.text.unit.declare("llvm.launder.invariant.group.p0", "ptr", "ptr x")
        return self.e.emit(f"call ptr @llvm.launder.invariant.group.p0(ptr {pointer})")

    def _side_by_side(self, rows: list[str], t: str) -> str:
        size = 4
        while len(rows) > 1:
            order = ", ".join(f"i32 {i}" for i in range(2 * size))
            v = f"<{size} x {t}>"
            rows = [
                self.text.plainly(f"shufflevector {v} {a}, {v} {b}, <{2 * size} x i32> <{order}>")
                for a, b in zip(rows[::2], rows[1::2], strict=True)
            ]
            size *= 2
        return rows[0]

    def _shuffled(self, a: str, b: str, t: str, order: tuple[int, ...], n: int) -> str:
        """The same shuffle of each four of n numbers."""
        numbers = [i + at for at in range(0, n, 4) for i in order]
        v, chosen = f"<{n} x {t}>", f"<{n} x i32> <{', '.join(f'i32 {i}' for i in numbers)}>"
        return self.text.plainly(f"shufflevector {v} {a}, {v} {b}, {chosen}")

    # -- lane by lane -----------------------------------------------------------------------------------------

    def _behind(self, pointer: str, by: str | int) -> str:
        return self.e.emit(f"getelementptr i8, ptr {pointer}, i64 {by}") if by else pointer

    def pointers(self, pointer: str, rest: str) -> str:
        return self.text.vector(f"getelementptr i8, ptr {pointer}, {self.text.type('i64')} {rest}")

    def lanewise(self, elements: list[Element], pointers: str, stores: list[str], mask: str) -> list[str]:
        """A gather or a scatter for each element. mask: the active lanes, "" for all."""
        results = []
        for i, x in enumerate(elements):
            where = pointers
            if x.offset:
                vector = self.text.type("ptr")
                where = self.text.vector(f"getelementptr i8, {vector} {pointers}, i64 {x.offset}")
            t, what = llvm_type(x.ins.op.type), "scatter" if stores else "gather"
            where = f"{self.text.type('ptr')} align {x.ins.op.nbytes} {where}"
            value = self.text.spread(stores[i], t) if stores else ""
            lanes = self.text.condition(mask) if mask else "splat (i1 true)"
            results.append(self._intrinsic(what, t, where, lanes, value))
        return results

    def _intrinsic(self, what: str, t: str, where: str, mask: str, value: str = "") -> str:
        """llvm.masked.load, store, gather or scatter."""
        text = self.text
        vector, bools = text.type(t), text.bools
        name = text.masked(what, t, where.startswith("<"))
        if value:
            text.line(f"call void @{name}({vector} {value}, {where}, {bools} {mask})")
            return ""
        return text.vector(f"call {vector} @{name}({where}, {bools} {mask}, {vector} zeroinitializer)")
